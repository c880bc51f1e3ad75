// The interpreter of loops defines their semantics exactly. In: functions and argument bits. Out: results and
// written memory, or an error: access out of bounds or misaligned, data race, division by zero. Undefined
// values (excessive shifts, conversions out of range, new locals) are a recognisable pattern. Pointers are
// those of this machine.
#ifndef ONNXC_IR_LOOPS_LOOPS_INTERP_H
#define ONNXC_IR_LOOPS_LOOPS_INTERP_H
#include "ir/loops/loops.h"

typedef enum linterp_order { ORDER_FORWARD, ORDER_REVERSE, ORDER_PERMUTED } linterp_order;

typedef struct linterp linterp;
linterp *linterp_new(arena *a, const lmodule *m); // m: looks up functions and data; may be NULL
// Declares a region. If there are any, every access must be inside one (or inside a local or data of the
// module), and threads of a launch must not race for a writable one.
void linterp_memory(linterp *in, const void *p, int64_t bytes, bool writable);
// Writable memory for which races are allowed.
void linterp_flags(linterp *in, void *p, int64_t bytes);
// An external function. Arguments and result are bits as in linterp_call.
typedef uint64_t linterp_native(void *user, const uint64_t *args, int nargs);
void linterp_function(linterp *in, const char *name, linterp_native *fn, void *user);
// The order of threads, blocks and iterations of parallel loops.
void linterp_set_order(linterp *in, linterp_order order, uint64_t seed);

// Runs f; args are the low bits of scalars (pointers as integers). Loops over GRID and THREAD run all
// iterations. False: see linterp_error.
bool linterp_call(linterp *in, const lfunc *f, const uint64_t *args, uint64_t *result);
// Runs f as a GPU does: every thread of every block runs the body, and loops over GRID and THREAD start at
// its index with the size as step. Sizes of 0 come from the function.
bool linterp_launch(linterp *in, const lfunc *f, const uint64_t *args, const int64_t grid[3],
                    const int64_t threads[3]);
const char *linterp_error(const linterp *in);

uint64_t linterp_float(float v);
uint64_t linterp_double(double v);
#endif
