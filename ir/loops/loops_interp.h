// Interpreter of loops: what instructions mean, exactly. In: functions and argument bits. Out: results and
// the memory they wrote, or a message about an access out of bounds, a misaligned one, a race between
// threads, a division by zero. Values that the language leaves open (shifts too far, conversions out of
// range, fresh locals) are a pattern that shows. Pointers are this machine's.
#ifndef ONNXC_IR_LOOPS_LOOPS_INTERP_H
#define ONNXC_IR_LOOPS_LOOPS_INTERP_H
#include "ir/loops/loops.h"

typedef enum linterp_order { ORDER_FORWARD, ORDER_REVERSE, ORDER_PERMUTED } linterp_order;

typedef struct linterp linterp;
linterp *linterp_new(arena *a, const lmodule *m); // m gives functions and data by name; may be NULL
// Once a region is known, every access must be inside one (or inside a local or data of the module). Threads
// of a launch must not race for one that is writable.
void linterp_memory(linterp *in, const void *p, int64_t bytes, bool writable);
// Writable memory in which any thread's value will do.
void linterp_flags(linterp *in, void *p, int64_t bytes);
// Address of a symbol that is not in the module.
void linterp_symbol(linterp *in, const char *name, void *address);
// A function that is not in the module. Arguments and result are bits as in linterp_call.
typedef uint64_t linterp_native(void *user, const uint64_t *args, int nargs);
void linterp_function(linterp *in, const char *name, linterp_native *fn, void *user);
// In which order threads, blocks and iterations of parallel loops run.
void linterp_set_order(linterp *in, linterp_order order, uint64_t seed);
// The pointer to pass as argument bits to call `f` by L_CALLPTR.
void *linterp_function_pointer(linterp *in, const lfunc *f);

// Runs f; args are the low bits of scalars (pointers as integers). Loops over GRID and THREAD run all their
// iterations in turn. False: linterp_error says why.
bool linterp_call(linterp *in, const lfunc *f, const uint64_t *args, uint64_t *result);
// Runs f as a device does: every thread of every block runs the body, its loops over GRID and THREAD start at
// its own index and step by the size. Sizes of 0 are taken from the function.
bool linterp_launch(linterp *in, const lfunc *f, const uint64_t *args, const int64_t grid[3],
                    const int64_t threads[3]);
const char *linterp_error(const linterp *in);

uint64_t linterp_float(float v);
uint64_t linterp_double(double v);
#endif
