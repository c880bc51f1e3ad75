// The fibers behind cuda_shim.h, and tensor-core products in plain C. Valid as C and as C++.
#include "cuda_shim.h"
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

typedef enum fiber_state { RUNNING, AT_BARRIER, AT_EXCHANGE, AT_COPIES, DONE } fiber_state;
typedef struct fiber {
    fiber_state state;
    int started;
    shim_dim3 thread;
    ucontext_t first; // entered once; from then on jumps, which make no system calls
    jmp_buf here;
    struct bulk *bulk;      // that it waits for
    int parity, products;   // how many of a warpgroup it began
    unsigned char slot[64]; // what the rest of the warp may read
} fiber;

enum { WARP = 32, STACK = 1 << 16 };

shim_dim3 threadIdx, blockIdx, blockDim, gridDim;
static fiber *fibers;
static int count, current;
static jmp_buf scheduler;
enum { DYNAMIC = 227 << 10 };
static char dynamic_memory[DYNAMIC] __attribute__((aligned(1024)));
static int dynamic_used;
int64_t shim_dynamic_brought = -1;
int shim_no_wgmma;
static void (*thread_body)(void *);
static void *thread_args;

// The linker's names for the section of shared variables, if there are any.
extern char shared_begin[] __asm__("__start_shim_shared") __attribute__((weak, visibility("hidden")));
extern char shared_end[] __asm__("__stop_shim_shared") __attribute__((weak, visibility("hidden")));

// ---------------------------------------------------------------- turns

static void enter(void) {
    thread_body(thread_args);
    fibers[current].state = DONE;
    _longjmp(scheduler, 1);
}

static void wait_in(fiber_state state) {
    fiber *f = &fibers[current];
    f->state = state;
    if (_setjmp(f->here) == 0) _longjmp(scheduler, 1);
}

static void resume(int i) {
    fiber *f = &fibers[i];
    current = i;
    threadIdx = f->thread;
    if (_setjmp(scheduler)) return;
    if (f->started) _longjmp(f->here, 1);
    f->started = 1;
    setcontext(&f->first);
}

// Lets the threads [from, to) go on that wait in `state`, if all that still run do.
static int release(int from, int to, fiber_state state) {
    int released = 0;
    for (int i = from; i < to; i++)
        if (fibers[i].state != state && fibers[i].state != DONE) return 0;
    for (int i = from; i < to; i++)
        if (fibers[i].state == state) fibers[i].state = RUNNING, released = 1;
    return released;
}

static int release_warps(void) {
    int released = 0;
    for (int w = 0; w < count; w += WARP)
        released |= release(w, w + WARP < count ? w + WARP : count, AT_EXCHANGE);
    return released;
}

// ---------------------------------------------------------------- bulk copies

enum { MOST_BULKS = 8, MOST_COPIES = 4 };
typedef struct bulk {
    void *at;
    int shown, arrived, phase, ncopies;
    int64_t expected, begun;
    struct {
        void *to;
        const void *from;
        size_t bytes;
    } copies[MOST_COPIES];
} bulk;
static bulk bulks[MOST_BULKS]; // of the block
static int nbulks;

static bulk *bulk_at(const void *at) {
    for (int i = 0; i < nbulks; i++)
        if (bulks[i].at == at) return &bulks[i];
    abort();
}

void shim_mbarrier_init(void *at) {
    if (current || shim_no_wgmma) return;
    if (nbulks == MOST_BULKS || (uintptr_t)at % 8) abort();
    memset(&bulks[nbulks], 0, sizeof *bulks);
    bulks[nbulks++].at = at;
}

void shim_mbarrier_fence(void) {
    for (int i = 0; i < nbulks && !current; i++) bulks[i].shown = 1;
}

void shim_mbarrier_expect(void *at, int bytes) {
    if (current || shim_no_wgmma) return;
    bulk *b = bulk_at(at);
    if (!b->shown || b->arrived) abort();
    b->arrived = 1;
    b->expected = bytes;
}

int shim_bulk_copy(void *to, const void *from, int bytes, void *at) {
    if (shim_no_wgmma) return 0;
    if (current) return 1;
    bulk *b = bulk_at(at);
    if (!b->shown || b->ncopies == MOST_COPIES || bytes <= 0) abort();
    if (((uintptr_t)to | (uintptr_t)from | (unsigned)bytes) % 16) abort();
    memset(to, 0xff, (size_t)bytes);
    b->begun += bytes;
    b->copies[b->ncopies].to = to, b->copies[b->ncopies].from = from;
    b->copies[b->ncopies++].bytes = (size_t)bytes;
    return 1;
}

// Whether the phase of that parity has passed; copies are made now.
static int bulk_passed(bulk *b, int parity) {
    if (b->phase % 2 == parity && b->arrived && b->begun == b->expected) {
        for (int i = 0; i < b->ncopies; i++) memcpy(b->copies[i].to, b->copies[i].from, b->copies[i].bytes);
        b->arrived = b->ncopies = 0;
        b->begun = 0;
        b->phase++;
    }
    return b->phase % 2 != parity;
}

void shim_mbarrier_wait(void *at, int parity) {
    if (shim_no_wgmma) return;
    fibers[current].bulk = bulk_at(at);
    fibers[current].parity = parity & 1;
    if (!bulk_passed(fibers[current].bulk, parity & 1)) wait_in(AT_COPIES);
}

static int release_copies(void) {
    int released = 0;
    for (int i = 0; i < count; i++) {
        fiber *f = &fibers[i];
        if (f->state == AT_COPIES && bulk_passed(f->bulk, f->parity)) f->state = RUNNING, released = 1;
    }
    return released;
}

// ---------------------------------------------------------------- what warpgroups begin

// What some thread of a warpgroup began as its number-th product: all of them begin the same.
enum { GROUP = 128, MOST_GROUPS = 8, BEGUN = 64 };
static struct {
    int number;
    uint64_t a, b;
} begun[MOST_GROUPS][BEGUN];

static void check_group(uint64_t a, uint64_t b) {
    int number = ++fibers[current].products, group = current / GROUP;
    if (count % GROUP || group >= MOST_GROUPS) abort();
    if (begun[group][number % BEGUN].number == number &&
        (begun[group][number % BEGUN].a != a || begun[group][number % BEGUN].b != b))
        abort();
    begun[group][number % BEGUN].number = number;
    begun[group][number % BEGUN].a = a, begun[group][number % BEGUN].b = b;
}

// ---------------------------------------------------------------- blocks

static uint64_t next_random(uint64_t *s) {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    return *s ^= *s << 17;
}

static void choose_order(int *turn, shim_order order, uint64_t *seed) {
    for (int i = 0; i < count; i++) turn[i] = order == SHIM_REVERSE ? count - 1 - i : i;
    for (int i = count - 1; order == SHIM_PERMUTED && i > 0; i--) {
        int k = (int)(next_random(seed) % (uint64_t)(i + 1)), t = turn[i];
        turn[i] = turn[k];
        turn[k] = t;
    }
}

static int run_block(shim_order order, uint64_t *seed, int *turn) {
    do {
        choose_order(turn, order, seed);
        for (int i = 0; i < count; i++)
            if (fibers[turn[i]].state == RUNNING) resume(turn[i]);
    } while (release_warps() || release_copies() || release(0, count, AT_BARRIER));
    for (int i = 0; i < count; i++)
        if (fibers[i].state != DONE) return 1;
    return 0;
}

static void prepare(char *stacks) {
    if (shared_begin) memset(shared_begin, 0xff, (size_t)(shared_end - shared_begin));
    if (dynamic_used) memset(dynamic_memory, 0xff, DYNAMIC);
    nbulks = 0;
    memset(begun, 0, sizeof begun);
    for (int i = 0; i < count; i++) {
        fiber *f = &fibers[i];
        unsigned n = (unsigned)i;
        f->state = RUNNING;
        f->started = 0;
        f->products = 0;
        f->thread.x = n % blockDim.x;
        f->thread.y = n / blockDim.x % blockDim.y;
        f->thread.z = n / blockDim.x / blockDim.y;
        memset(f->slot, 0xff, sizeof f->slot);
        getcontext(&f->first);
        f->first.uc_stack.ss_sp = stacks + (size_t)i * STACK;
        f->first.uc_stack.ss_size = STACK;
        f->first.uc_link = NULL;
        makecontext(&f->first, enter, 0);
    }
}

int shim_launch(shim_dim3 grid, shim_dim3 block, shim_order order, uint64_t seed, void (*body)(void *args),
                void *args) {
    int failed = 0;
    gridDim = grid;
    blockDim = block;
    count = (int)(block.x * block.y * block.z);
    thread_body = body;
    thread_args = args;
    fibers = (fiber *)calloc((size_t)count, sizeof *fibers);
    int *turn = (int *)calloc((size_t)count, sizeof *turn);
    size_t bytes = (size_t)count * STACK;
    char *stacks =
        (char *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!fibers || !turn || stacks == MAP_FAILED) abort();
    seed = seed * 2 + 1;
    for (unsigned i = 0; i < grid.x * grid.y * grid.z && !failed; i++) {
        blockIdx.x = i % grid.x;
        blockIdx.y = i / grid.x % grid.y;
        blockIdx.z = i / grid.x / grid.y;
        prepare(stacks);
        failed = run_block(order, &seed, turn);
    }
    munmap(stacks, bytes);
    free(turn);
    free(fibers);
    return failed;
}

void __syncthreads(void) { wait_in(AT_BARRIER); }

// ---------------------------------------------------------------- warps

void shim_exchange(const void *from, void *to, int bytes, int lane_xor) {
    int self = current, warp = self / WARP * WARP, other = warp + ((self - warp) ^ lane_xor);
    memcpy(fibers[self].slot, from, (size_t)bytes);
    wait_in(AT_EXCHANGE);
    if (other < count) memcpy(to, fibers[other].slot, (size_t)bytes);
    else memset(to, 0xff, (size_t)bytes);
    wait_in(AT_EXCHANGE); // all have read before the next one writes
}

static float half_value(uint32_t h) {
    int e = (int)(h >> 10 & 31);
    float m = (float)(h & 0x3ff), v = e == 31 ? (m != 0 ? NAN : INFINITY)
                                      : e     ? ldexpf(m + 1024, e - 25)
                                              : ldexpf(m, -24);
    return h & 0x8000 ? -v : v;
}

static float float_of_bits(uint32_t u) {
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

// Element j of a register.
static float element(shim_mma_type type, int is_b, uint32_t r, int j) {
    uint32_t byte = r >> 8 * j & 0xff;
    switch (type) {
    case SHIM_f16: return half_value(r >> 16 * j & 0xffff);
    case SHIM_bf16: return float_of_bits((r >> 16 * j) << 16);
    case SHIM_tf32: return float_of_bits(r & 0xffffe000u);
    case SHIM_s8: return (float)(int8_t)byte;
    case SHIM_u8s8: return is_b ? (float)(int8_t)byte : (float)byte;
    case SHIM_s8u8: return is_b ? (float)byte : (float)(int8_t)byte;
    case SHIM_u8: return (float)byte;
    }
    return 0;
}

// Register r of a thread holds row group + 8 * (r & 1), columns from per * (thread % 4) + 4 * per * (r >> 1)
// on; b the same without the row bit (PTX ISA, "Matrix fragments"). Sums in double are rounded once.
void shim_mma(int m, int k, shim_mma_type type, void *d, const uint32_t *a, const uint32_t *b) {
    int per = type == SHIM_tf32  ? 1
              : type < SHIM_tf32 ? 2
                                 : 4,
        na = m * k / per / WARP, nb = 8 * k / per / WARP;
    int self = current, warp = self / WARP * WARP, lane = self - warp;
    memcpy(fibers[self].slot, a, (size_t)na * 4);
    memcpy(fibers[self].slot + 32, b, (size_t)nb * 4);
    wait_in(AT_EXCHANGE);
    for (int i = 0; i < m / 4; i++) {
        int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
        double sum = type < SHIM_s8 ? ((float *)d)[i] : ((int32_t *)d)[i];
        for (int p = 0; p < k; p++) {
            int quarter = p / per % 4, half = p / per / 4;
            uint32_t ra, rb;
            memcpy(&ra, fibers[warp + row % 8 * 4 + quarter].slot + 4 * (row / 8 + half * (m / 8)), 4);
            memcpy(&rb, fibers[warp + column * 4 + quarter].slot + 32 + 4 * half, 4);
            sum += (double)element(type, 0, ra, p % per) * element(type, 1, rb, p % per);
        }
        if (type < SHIM_s8) ((float *)d)[i] = (float)sum;
        else ((int32_t *)d)[i] = (int32_t)(int64_t)sum;
    }
    wait_in(AT_EXCHANGE);
}

static uint32_t word_of(int thread, int word) {
    uint32_t v;
    memcpy(&v, fibers[thread].slot + 4 * word, 4);
    return v;
}

void shim_ldmatrix(uint32_t *d, const void *row, int transposed) {
    int self = current, warp = self / WARP * WARP, group = (self - warp) / 4, pair = self % 4;
    if ((uintptr_t)row % 16) abort();
    memcpy(fibers[self].slot, row, 16);
    wait_in(AT_EXCHANGE);
    for (int q = 0; q < 4; q++) {
        int first = warp + 8 * q, shift = 16 * (group % 2);
        d[q] = transposed ? (word_of(first + 2 * pair, group / 2) >> shift & 0xffff) |
                                word_of(first + 2 * pair + 1, group / 2) >> shift << 16
                          : word_of(first + group, pair);
    }
    wait_in(AT_EXCHANGE);
}

// ---------------------------------------------------------------- warpgroups

void *shim_dynamic(int64_t bytes) {
    if (bytes > DYNAMIC || (shim_dynamic_brought >= 0 && bytes > shim_dynamic_brought)) abort();
    if (!dynamic_used) memset(dynamic_memory, 0xff, DYNAMIC);
    dynamic_used = 1;
    return dynamic_memory;
}

uint64_t __cvta_generic_to_shared(const void *p) {
    int64_t at = (const char *)p - dynamic_memory;
    if (at < 0 || at >= DYNAMIC) abort();
    return (uint64_t)at;
}

// Element (row, k) of an operand behind a matrix descriptor (PTX ISA, "Asynchronous warpgroup level matrix
// shared memory layout"): start, leading and stride byte offset in units of 16 bytes, swizzle mode 1 of 128
// bytes. Strides go from 8 lines to the next; the leading offset from 64 rows to the next where lines run
// along them. Mode 0 has core matrices of 8 rows x 16 bytes, a leading offset apart along K, a stride along
// the rows.
static float wgmma_element(shim_mma_type type, int is_b, uint64_t descriptor, int transposed, int row,
                           int k) {
    int bytes = type == SHIM_tf32 ? 4 : type < SHIM_tf32 ? 2 : 1, line = transposed ? k : row;
    uint64_t start = (descriptor & 0x3fff) << 4, lead = (descriptor >> 16 & 0x3fff) << 4,
             stride = (descriptor >> 32 & 0x3fff) << 4;
    int cores = descriptor >> 62 == 0;
    if (descriptor >> 63 || (transposed && (bytes != 2 || cores))) abort();
    if (!cores && (start >> 7 & 7)) abort(); // the swizzle's pattern of eight lines begins elsewhere
    uint64_t at = start + (uint64_t)(line / 8) * stride + (uint64_t)(line % 8) * (cores ? 16 : 128);
    if (cores) at += (uint64_t)(k * bytes / 16) * lead + (uint64_t)(k * bytes % 16);
    else {
        at +=
            (uint64_t)((transposed ? row % 64 : k) * bytes) + (transposed ? (uint64_t)(row / 64) * lead : 0);
        at ^= (at >> 7 & 7) << 4;
    }
    if (at + (uint64_t)bytes > DYNAMIC) abort();
    uint32_t word;
    memcpy(&word, dynamic_memory + at / 4 * 4, 4);
    return element(type, is_b, word, (int)(at % 4) / bytes);
}

int shim_wgmma(int n, shim_mma_type type, void *d, uint64_t a, uint64_t b, int transposed_a,
               int transposed_b) {
    int thread = current % GROUP, lane = thread % 32,
        depth = type == SHIM_tf32  ? 8
                : type < SHIM_tf32 ? 16
                                   : 32;
    if (shim_no_wgmma) return 0;
    check_group(a, b);
    for (int half = 0; half < 2; half++) {
        int row = thread / 32 * 16 + lane / 4 + 8 * half;
        float x[32];
        for (int k = 0; k < depth; k++) x[k] = wgmma_element(type, 0, a, transposed_a, row, k);
        for (int i = half * 2; i < n / 2; i += i % 2 ? 3 : 1) {
            int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
            double sum = type < SHIM_s8 ? ((float *)d)[i] : ((int32_t *)d)[i];
            for (int k = 0; k < depth; k++)
                sum += (double)x[k] * wgmma_element(type, 1, b, transposed_b, column, k);
            if (type < SHIM_s8) ((float *)d)[i] = (float)sum;
            else ((int32_t *)d)[i] = (int32_t)(int64_t)sum;
        }
    }
    return 1;
}
