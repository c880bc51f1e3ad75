// Collective operations of threads: shuffles, products and fragments of a warp, barriers, and asynchronous
// copies. In: a thread at such an instruction. Out: its results, after the scheduler resumes it.
#include "ir/loops/loops_eval.h"
#include "ir/loops/loops_interp_impl.h"
#include <string.h>

void linterp_wait(frame *fr, const ins *x, wait_kind kind) {
    device *d = fr->in->device;
    if (!d || !d->now) return;
    thread *t = d->now;
    t->wait = kind;
    t->where = x;
    swapcontext(&t->context, &d->scheduler);
}

// d += a * b on fragments of the warp; the arguments point to registers.
static void multiply(frame *fr, const ins *x) {
    thread *now = fr->in->device->now;
    const gpu_ins *g = x->gpu;
    const int n[] = {gpu_sums(g), gpu_words_a(g), gpu_words_b(g)};
    uint32_t *mine = ARENA_ARRAY(fr->in->arena, uint32_t, n[0] + n[1] + n[2]), *d = mine + n[1] + n[2];
    char *at[3];
    for (int i = 0; i < 3; i++) at[i] = linterp_checked(fr, x, pointer(fr, x, i), 4 * n[i], i == 0);
    memcpy(d, at[0], 4 * (size_t)n[0]);
    memcpy(mine, at[1], 4 * (size_t)n[1]);
    memcpy(mine + n[1], at[2], 4 * (size_t)n[2]);
    now->registers = mine;
    linterp_wait(fr, x, WAIT_PRODUCT);
    mma_apply(g, now->number % WARP, now->warps, d);
    memcpy(at[0], d, 4 * (size_t)n[0]);
}

static void copy(frame *fr, const ins *x) {
    int bytes = x->gpu->count;
    char *to = pointer(fr, x, 0), *from = pointer(fr, x, 1);
    linterp_check_aligned(fr, x, to, bytes);
    linterp_check_aligned(fr, x, from, bytes);
    char copied[16];
    memcpy(copied, linterp_checked(fr, x, from, bytes, false), (size_t)bytes);
    memcpy(linterp_checked(fr, x, to, bytes, true), copied, (size_t)bytes);
}

static void load_matrices(frame *fr, const ins *x) {
    thread *now = fr->in->device->now;
    uint32_t *mine = ARENA_ARRAY(fr->in->arena, uint32_t, 4);
    char *to = linterp_checked(fr, x, pointer(fr, x, 0), 16, true), *row = pointer(fr, x, 1);
    linterp_check_aligned(fr, x, row, 16);
    memcpy(mine, linterp_checked(fr, x, row, 16, false), 16);
    now->registers = mine;
    linterp_wait(fr, x, WAIT_PRODUCT);
    uint32_t d[4];
    mma_load_matrices(now->number % WARP, now->warps, x->gpu->transposed, d);
    memcpy(to, d, sizeof d);
}

// The destination is undefined until the thread waits for the copy.
static void begin_async(frame *fr, const ins *x) {
    thread *t = fr->in->device->now;
    char *to = pointer(fr, x, 0), *from = pointer(fr, x, 1);
    linterp_check_aligned(fr, x, to, 16);
    linterp_check_aligned(fr, x, from, 16);
    if (x->nargs > 2 && !*arg(fr, x, 2)) from = NULL;
    if (from) linterp_checked(fr, x, from, 16, false);
    memset(linterp_checked(fr, x, to, 16, true), LEVAL_PATTERN, 16);
    VEC_PUSH(fr->in->arena, &t->copies, ((pending_copy){to, from, t->groups}));
}

// Completes all groups except the latest x->gpu->count.
static void end_async(frame *fr, const ins *x) {
    thread *t = fr->in->device->now;
    int n = 0, left = x->gpu->count;
    for (int i = 0; i < t->copies.n; i++) {
        pending_copy c = t->copies.at[i];
        if (c.group < t->groups - left && !c.from) memset(linterp_checked(fr, x, c.to, 16, true), 0, 16);
        else if (c.group < t->groups - left)
            memcpy(linterp_checked(fr, x, c.to, 16, true), linterp_checked(fr, x, c.from, 16, false), 16);
        else t->copies.at[n++] = c;
    }
    t->copies.n = n;
}

// ---------------------------------------------------------------- products of warpgroups

// Rows of each eight.
typedef struct rows {
    int first, n;
} rows;

// The rows of an operand that sums of the thread in that lane are products of: see wgmma_apply.
static rows rows_of_lane(int lane, bool is_b) { return is_b ? (rows){lane % 4 * 2, 2} : (rows){lane / 4, 1}; }

// Reads some numbers of 16 bytes.
static void read_chunk(dtype t, const char *chunk, rows which, double *to, int step) {
    int bytes = dtype_bits(t) / 8;
    for (int e = which.first; e < which.first + which.n; e++) {
        uint32_t word;
        memcpy(&word, chunk + e * bytes / 4 * 4, 4);
        if (t == DT_F32) word &= 0xffffe000u; // TF32
        int part = e * bytes % 4 / bytes;
        to[e * step] =
            dtype_is_float(t) ? dtype_load_float(t, &word, part) : (double)dtype_load_int(t, &word, part);
    }
}

// Reads the rows of an operand that the thread needs. The other threads of the warp read the other rows, so that races
// are found in all of them.
static void read_operand(frame *fr, const pending_wgmma *p, bool is_b, double *to) {
    const gpu_ins *g = p->call->gpu;
    gpu_order order = is_b ? g->order_b : g->order_a;
    dtype t = is_b ? g->b : g->a;
    int bytes = dtype_bits(t) / 8, depth = g->k, many = 16 / bytes, number = fr->in->device->now->number;
    int first = is_b ? 0 : number % WARPGROUP / WARP * 16, last = is_b ? g->n : first + 16;
    rows own = rows_of_lane(number % WARP, is_b);
    bool transposed = order == ORDER_M; // 16 bytes are neighbours along rows, else along K
    for (int row = transposed ? first : first + own.first; row < last; row += transposed ? many : 1) {
        if (!transposed && (row - own.first) % 8 >= own.n) continue;
        for (int k = 0; k < depth; k += transposed ? 1 : many) {
            uintptr_t at = wgmma_address((uintptr_t)(is_b ? p->b : p->a), order, is_b ? p->lead_b : p->lead_a,
                                         bytes, row, k);
            read_chunk(t, linterp_checked(fr, p->call, (char *)at, 16, false),
                       transposed ? own : (rows){0, many}, to + row * depth + k, transposed ? depth : 1);
        }
    }
}

// Lines of 128 bytes must start at a whole swizzle pattern of eight.
static bool begins_well(const char *p, gpu_order order) {
    return (uintptr_t)p % 16 == 0 && (order == ORDER_CORES || ((uintptr_t)p >> 7 & 7) == 0);
}

static void check_product(frame *fr, const ins *x, const pending_wgmma *p) {
    device *d = fr->in->device;
    if (!d->now->fenced) linterp_fail_at(fr, x, "a warpgroup product uses registers without a fence");
    if (d->unshown)
        linterp_fail_at(fr, x, "a warpgroup product reads shared memory that threads wrote without a fence");
    if (!begins_well(p->a, x->gpu->order_a) || !begins_well(p->b, x->gpu->order_b))
        linterp_fail_at(fr, x, "pointer is less aligned than promised");
    int group = d->now->number / WARPGROUP, number = ++d->now->begun;
    if (d->n % WARPGROUP || group >= MOST_WARPGROUPS)
        linterp_fail_at(fr, x, "a warpgroup product needs groups of 128 threads");
    begun_product *b = &d->begun[group][number % BEGUN], own = {number, x, p->a, p->b};
    if (b->number == number && (b->call != x || b->a != p->a || b->b != p->b))
        linterp_fail_at(fr, x, "the threads of a warpgroup start different products");
    *b = own;
}

static void begin_product(frame *fr, const ins *x) {
    thread *t = fr->in->device->now;
    size_t bytes = 4 * (size_t)gpu_sums(x->gpu);
    char *d = linterp_checked(fr, x, pointer(fr, x, 0), (int64_t)bytes, true);
    pending_wgmma p = {.call = x,
                       .a = pointer(fr, x, 1),
                       .b = pointer(fr, x, 3),
                       .lead_a = *(int32_t *)arg(fr, x, 2),
                       .lead_b = *(int32_t *)arg(fr, x, 4),
                       .batch = t->batches};
    check_product(fr, x, &p);
    if (t->products.n && t->sums != d) linterp_fail_at(fr, x, "concurrent products into different registers");
    if (!t->products.n) {
        t->sums = d;
        t->sums_now = arena_alloc(fr->in->arena, bytes);
        memcpy(t->sums_now, d, bytes);
    }
    memset(d, LEVAL_PATTERN, bytes);
    VEC_PUSH(fr->in->arena, &t->products, p);
}

// Performs products as late as possible: all except those of the latest x->gpu->count batches and of the open
// one.
static void end_products(frame *fr, const ins *x) {
    enum { A = 64 * 32, B = 256 * 32 };
    device *d = fr->in->device;
    thread *t = d->now;
    int n = 0;
    if (!d->numbers) d->numbers = ARENA_ARRAY(fr->in->arena, double, A + B);
    t->fenced = false;
    if (!t->products.n) return;
    size_t bytes = 4 * (size_t)gpu_sums(t->products.at[0].call->gpu);
    for (int i = 0; i < t->products.n; i++) {
        const pending_wgmma *p = &t->products.at[i];
        if (p->batch >= t->batches - x->gpu->count) {
            t->products.at[n++] = *p;
            continue;
        }
        read_operand(fr, p, false, d->numbers);
        read_operand(fr, p, true, d->numbers + A);
        wgmma_apply(p->call->gpu, t->number % WARPGROUP, d->numbers, d->numbers + A, t->sums_now);
    }
    t->products.n = n;
    if (!n) memcpy(linterp_checked(fr, x, t->sums, (int64_t)bytes, true), t->sums_now, bytes);
}

void linterp_gpu(frame *fr, const ins *x) {
    thread *t = fr->in->device ? fr->in->device->now : NULL;
    if (!t) linterp_fail_at(fr, x, "an instruction of GPUs outside of a launch");
    switch (x->gpu->op) {
    case GPU_COPY: copy(fr, x); break;
    case GPU_LDMATRIX: load_matrices(fr, x); break;
    case GPU_MMA: multiply(fr, x); break;
    case GPU_CP_ASYNC:
    case GPU_CP_ASYNC_ZFILL: begin_async(fr, x); break;
    case GPU_CP_ASYNC_COMMIT: t->groups++; break;
    case GPU_CP_ASYNC_WAIT: end_async(fr, x); break;
    case GPU_MBARRIER_INIT: linterp_mbarrier_init(fr, x); break;
    case GPU_MBARRIER_FENCE: linterp_mbarrier_fence(fr); break;
    case GPU_MBARRIER_EXPECT: linterp_mbarrier_expect(fr, x); break;
    case GPU_MBARRIER_WAIT: linterp_mbarrier_wait(fr, x); break;
    case GPU_BULK_COPY: linterp_bulk_copy(fr, x); break;
    case GPU_PROXY_FENCE: t->unshown = false; break;
    case GPU_WGMMA: begin_product(fr, x); break;
    case GPU_WGMMA_FENCE: t->fenced = true; break;
    case GPU_WGMMA_COMMIT: t->batches++; break;
    case GPU_WGMMA_WAIT: end_products(fr, x); break;
    case GPU_OP_COUNT: break;
    }
}

const char *linterp_unfinished(const linterp *in) {
    const device *d = in->device;
    for (int i = 0; i < d->n; i++) {
        const thread *t = &d->all[i];
        if (t->copies.n) return "a block ends before its copies are complete";
        if (t->products.n) return "a block ends before its products are complete";
        if (t->begun != d->all[i / WARPGROUP * WARPGROUP].begun)
            return "the threads of a warpgroup start different products";
    }
    return NULL;
}

void linterp_shuffle(frame *fr, const ins *x, uint64_t *out) {
    device *d = fr->in->device;
    memcpy(out, arg(fr, x, 0), x->type.lanes * sizeof *out);
    if (!d || !d->now) return;
    uint64_t *mine = ARENA_ARRAY(fr->in->arena, uint64_t, x->type.lanes);
    memcpy(mine, out, x->type.lanes * sizeof *out);
    d->now->deposit = d->now->received = mine;
    linterp_wait(fr, x, WAIT_SHUFFLE);
    memcpy(out, d->now->received, x->type.lanes * sizeof *out);
}
