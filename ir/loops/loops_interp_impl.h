// Shared by the files of the interpreter of loops.
#ifndef ONNXC_IR_LOOPS_LOOPS_INTERP_IMPL_H
#define ONNXC_IR_LOOPS_LOOPS_INTERP_IMPL_H
#include "ir/loops/loops_interp.h"
#include "ir/loops/loops_mma.h"
#include "ir/loops/loops_tiles.h"
#include <setjmp.h>
#include <ucontext.h>

typedef struct region {
    const char *p;
    int64_t bytes;
    bool writable, shared, watched;
    struct shadow *shadow; // accesses of threads: one per byte
} region;

// The last access to a byte; barriers, blocks and launches begin a new epoch.
typedef struct touch {
    int thread; // in its block, + 1; 0: nobody, -1: several
    int block;  // -1: several
    int epoch;
} touch;
typedef struct shadow {
    touch write, read;
} shadow;

typedef struct native {
    linterp_native *fn;
    void *user;
} native;

// Positions of the values of a function in a frame, and frames of earlier calls for reuse.
typedef struct layout_of {
    int *at;
    int words;
    VEC(uint64_t *) spare;
} layout_of;

enum { RECENT = 8 };
struct linterp {
    arena *arena;
    const lmodule *module;
    VEC(region) regions;
    VEC(int) by_address; // indices sorted by address; every private array of every thread is a region
    int epoch;
    int recent[RECENT]; // recently found regions
    unsigned next_recent;
    map symbols, natives, layouts; // layouts by function address
    linterp_order order;
    uint64_t seed, random;
    bool check;
    const char *error;
    jmp_buf jump;
    struct device *device; // NULL outside linterp_launch
    tile_file tiles;
};

enum { WARP = 32, STACK = 256 << 10 };
typedef enum wait_kind {
    WAIT_NONE,
    WAIT_BARRIER,
    WAIT_SHUFFLE,
    WAIT_PRODUCT,
    WAIT_BULK,
    WAIT_DONE
} wait_kind;

// A pending copy, of zeros if from is NULL, and the number of groups closed before it.
typedef struct pending_copy {
    char *to, *from;
    int group;
} pending_copy;

// A barrier of bulk copies in shared memory: a phase ends when a thread has arrived and the announced number
// of bytes has been copied.
typedef struct bulk_copy {
    char *to, *from;
    int64_t bytes;
} bulk_copy;
typedef struct bulk_barrier {
    char *at;
    bool shown;   // to copies
    bool arrived; // in this phase
    int phase;
    int64_t expected, begun; // bytes of this phase
    VEC(bulk_copy) copies;
} bulk_barrier;

// A product of a warpgroup that nobody has waited for.
typedef struct pending_wgmma {
    const struct ins *call;
    char *a, *b;
    int64_t lead_a, lead_b;
    int batch; // number of batches closed before it
} pending_wgmma;

// The number-th product that a thread of a warpgroup began: all threads must begin the same.
enum { WARPGROUP = 128, MOST_WARPGROUPS = 8, BEGUN = 64 };
typedef struct begun_product {
    int number;
    const struct ins *call;
    const char *a, *b;
} begun_product;

typedef struct thread {
    ucontext_t context;
    int number; // in its block
    int64_t at[3];
    wait_kind wait;
    const ins *where;             // instruction at which it waits
    uint64_t *deposit, *received; // its operand of the shuffle, and its partner's
    const uint32_t *registers;    // its fragments of a product
    const uint32_t *const *warps; // of its warp
    VEC(pending_copy) copies;
    int groups;
    VEC(pending_wgmma) products;
    char *sums;         // destination of the results
    uint32_t *sums_now; // its values before
    int batches, begun; // number of closed batches; of all products
    int bulk, parity;   // the bulk barrier that it waits for, and the phase
    bool fenced;        // a fence allows registers in products
    bool unshown;       // it wrote to shared memory without a proxy fence
} thread;

typedef struct device {
    const lfunc *f;
    const uint64_t *args;
    int64_t grid[3], threads[3], block[3];
    thread *all, *now;
    int n, block_number;
    double *numbers;         // operands of products
    int first_epoch;         // of the launch
    bool unshown;            // a thread reached a barrier with unfenced writes
    VEC(bulk_barrier) bulks; // of the block
    begun_product begun[MOST_WARPGROUPS][BEGUN];
    ucontext_t scheduler;
    map shared;              // region number + 1 by instruction
    VEC(int) shared_regions; // the same regions
} device;

typedef struct frame {
    linterp *in;
    const lfunc *f;
    layout_of *layout;
    uint64_t *words;
    const uint64_t *args;
    uint64_t result;
    bool fused; // L_MULADD rounds once
} frame;

typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_RETURN } flow;

static inline uint64_t *value_of(frame *fr, const ins *x) { return fr->words + fr->layout->at[x->id]; }
static inline uint64_t *arg(frame *fr, const ins *x, int i) { return value_of(fr, x->args[i]); }
static inline char *pointer(frame *fr, const ins *x, int i) { return (char *)(uintptr_t)*arg(fr, x, i); }

_Noreturn void linterp_fail_at(frame *fr, const ins *x, const char *what);
// p, if n bytes there may be accessed; otherwise the run fails.
void linterp_check_aligned(frame *fr, const ins *x, const char *p, int align); // fails unless p is a multiple
char *linterp_checked(frame *fr, const ins *x, char *p, int64_t n, bool write);

// loops_interp_device.c: collective and asynchronous operations
void linterp_wait(frame *fr, const ins *x, wait_kind kind);
void linterp_shuffle(frame *fr, const ins *x, uint64_t *out);
void linterp_gpu(frame *fr, const ins *x);
const char *linterp_unfinished(const linterp *in); // an error if operations are pending, NULL: none
// loops_interp_bulk.c
void linterp_mbarrier_init(frame *fr, const ins *x);
void linterp_mbarrier_fence(frame *fr);
void linterp_mbarrier_expect(frame *fr, const ins *x);
void linterp_mbarrier_wait(frame *fr, const ins *x);
void linterp_bulk_copy(frame *fr, const ins *x);
bool linterp_bulk_passed(const linterp *in, const thread *t); // whether its phase has passed
const char *linterp_bulk_stuck(const linterp *in);            // the reason for a deadlock
bool linterp_bulk_left(const linterp *in);                    // whether copies are pending
#endif
