// Inside of the interpreter of loops: what its files share.
#ifndef ONNXC_IR_LOOPS_LOOPS_INTERP_IMPL_H
#define ONNXC_IR_LOOPS_LOOPS_INTERP_IMPL_H
#include "ir/loops/loops_interp.h"
#include "ir/loops/loops_mma.h"
#include <setjmp.h>
#include <ucontext.h>

typedef struct region {
    const char *p;
    int64_t bytes;
    bool writable, shared, watched;
    struct shadow *shadow; // what threads write to: one for each byte
} region;

// Who touched a byte last, and when: the epoch begins anew with each barrier, block and launch.
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

// Where a function's values lie in a frame, and the frames of earlier calls to use again.
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
    VEC(int) by_address; // the same: every private array of every thread is one
    int epoch;
    int recent[RECENT]; // regions that were found last
    unsigned next_recent;
    map symbols, natives, layouts; // layouts by function address
    linterp_order order;
    uint64_t seed, random;
    bool check;
    const char *error;
    jmp_buf jump;
    struct device *device; // NULL outside linterp_launch
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

// A copy on its way, from NULL one of zeros, and how many groups of them were closed before it.
typedef struct coming {
    char *to, *from;
    int group;
} coming;

// A barrier of bulk copies in shared memory: a phase ends when one thread arrived and as many bytes came as
// it said.
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
    int batch; // how many batches of them were closed before it
} pending_wgmma;

// The product that some thread of a warpgroup began as its number-th: all of them begin the same.
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
    const ins *where;             // barrier, shuffle or product it waits at
    uint64_t *deposit, *received; // its operand of the shuffle, and its partner's
    const uint32_t *registers;    // its operands of a product of fragments
    const uint32_t *const *warps; // those of its warp
    VEC(coming) copies;
    int groups;
    VEC(pending_wgmma) products;
    char *sums;         // where their results go
    uint32_t *sums_now; // what was there
    int batches, begun; // of products: closed, and how many in all
    int bulk, parity;   // the barrier of copies that it waits for, and the phase
    bool fenced;        // registers may take part in products
    bool unshown;       // it wrote to shared memory what products may not see yet
} thread;

typedef struct device {
    const lfunc *f;
    const uint64_t *args;
    int64_t grid[3], threads[3], block[3];
    thread *all, *now;
    int n, block_number;
    double *numbers;         // that products read
    int first_epoch;         // of the launch
    bool unshown;            // a thread came to a barrier with such memory
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
// p, when n bytes there may be read or written now.
void linterp_check_aligned(frame *fr, const ins *x, const char *p, int align); // fails unless p is a multiple
char *linterp_checked(frame *fr, const ins *x, char *p, int64_t n, bool write);

// loops_interp_device.c: what threads of a device do together or beside.
void linterp_wait(frame *fr, const ins *x, wait_kind kind);
void linterp_shuffle(frame *fr, const ins *x, uint64_t *out);
void linterp_gpu(frame *fr, const ins *x);
const char *linterp_unfinished(const linterp *in); // what threads began and nobody waited for, NULL: nothing
// loops_interp_bulk.c
void linterp_mbarrier_init(frame *fr, const ins *x);
void linterp_mbarrier_fence(frame *fr);
void linterp_mbarrier_expect(frame *fr, const ins *x);
void linterp_mbarrier_wait(frame *fr, const ins *x);
void linterp_bulk_copy(frame *fr, const ins *x);
bool linterp_bulk_passed(const linterp *in, const thread *t); // whether it need not wait any more
const char *linterp_bulk_stuck(const linterp *in);            // why threads wait for ever
bool linterp_bulk_left(const linterp *in);                    // whether copies are on their way
#endif
