// What a device's threads do together: shuffles, products and fragments of a warp, barriers; and copies that
// run beside them. In: a thread at such an instruction. Out: its results, after it came back from the
// scheduler.
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

// d += a * b of the warp's fragments; the arguments point to registers.
void linterp_product(frame *fr, const ins *x, const lmma *t) {
    thread *now = fr->in->device->now;
    uint32_t *mine = ARENA_ARRAY(fr->in->arena, uint32_t, t->na + t->nb + t->nd), *d = mine + t->na + t->nb;
    char *at[3];
    const int n[] = {t->nd, t->na, t->nb};
    for (int i = 0; i < 3; i++) at[i] = linterp_checked(fr, x, pointer(fr, x, i), 4 * n[i], i == 0);
    memcpy(d, at[0], 4 * (size_t)t->nd);
    memcpy(mine, at[1], 4 * (size_t)t->na);
    memcpy(mine + t->na, at[2], 4 * (size_t)t->nb);
    now->registers = mine;
    linterp_wait(fr, x, WAIT_PRODUCT);
    lmma_apply(t, now->number % WARP, now->warps, d);
    memcpy(at[0], d, 4 * (size_t)t->nd);
}

// copy_16, copy_8 and copy_4 (codegen/c/cuda.h).
void linterp_copy(frame *fr, const ins *x, int bytes) {
    char *to = pointer(fr, x, 0), *from = pointer(fr, x, 1);
    if (((uintptr_t)to | (uintptr_t)from) % (unsigned)bytes)
        linterp_fail_at(fr, x, "pointer is less aligned than promised");
    char copied[16];
    memcpy(copied, linterp_checked(fr, x, from, bytes, false), (size_t)bytes);
    memcpy(linterp_checked(fr, x, to, bytes, true), copied, (size_t)bytes);
}

// fragment_x4 and fragment_x4_turned.
void linterp_fragment(frame *fr, const ins *x) {
    thread *now = fr->in->device->now;
    uint32_t *mine = ARENA_ARRAY(fr->in->arena, uint32_t, 4);
    char *to = linterp_checked(fr, x, pointer(fr, x, 0), 16, true), *row = pointer(fr, x, 1);
    if ((uintptr_t)row % 16) linterp_fail_at(fr, x, "pointer is less aligned than promised");
    memcpy(mine, linterp_checked(fr, x, row, 16, false), 16);
    now->registers = mine;
    linterp_wait(fr, x, WAIT_PRODUCT);
    uint32_t d[4];
    lmma_squares(now->number % WARP, now->warps, x->name[strlen("fragment_x4")] != 0, d);
    memcpy(to, d, sizeof d);
}

// Until somebody waits for the copy its place holds nothing known.
static void begin_async(frame *fr, const ins *x) {
    thread *t = fr->in->device->now;
    char *to = pointer(fr, x, 0), *from = pointer(fr, x, 1);
    if (((uintptr_t)to | (uintptr_t)from) % 16)
        linterp_fail_at(fr, x, "pointer is less aligned than promised");
    if (x->nargs > 2 && !*arg(fr, x, 2)) from = NULL;
    if (from) linterp_checked(fr, x, from, 16, false);
    memset(linterp_checked(fr, x, to, 16, true), LEVAL_PATTERN, 16);
    VEC_PUSH(fr->in->arena, &t->copies, ((coming){to, from, t->groups}));
}

// All groups but the latest `left` are there.
static void end_async(frame *fr, const ins *x, int left) {
    thread *t = fr->in->device->now;
    int n = 0;
    for (int i = 0; i < t->copies.n; i++) {
        coming c = t->copies.at[i];
        if (c.group < t->groups - left && !c.from) memset(linterp_checked(fr, x, c.to, 16, true), 0, 16);
        else if (c.group < t->groups - left)
            memcpy(linterp_checked(fr, x, c.to, 16, true), linterp_checked(fr, x, c.from, 16, false), 16);
        else t->copies.at[n++] = c;
    }
    t->copies.n = n;
}

// async_16, async_16_or_0, async_commit and async_wait_N (codegen/c/cuda.h).
void linterp_async(frame *fr, const ins *x) {
    const char *what = x->name + strlen("async_");
    if (*what == '1') begin_async(fr, x);
    else if (*what == 'c') fr->in->device->now->groups++;
    else end_async(fr, x, what[strlen("wait_")] - '0');
}

// ---------------------------------------------------------------- products of groups of warps

// Numbers of 16 bytes: neighbours along K, or along the rows.
static void read_chunk(dtype t, const char *chunk, double *to, int step) {
    int bytes = dtype_bits(t) / 8;
    for (int e = 0; e < 16 / bytes; e++) {
        uint32_t word;
        memcpy(&word, chunk + e * bytes / 4 * 4, 4);
        if (t == DT_F32) word &= 0xffffe000u; // TF32
        int part = e * bytes % 4 / bytes;
        to[e * step] =
            dtype_is_float(t) ? dtype_load_float(t, &word, part) : (double)dtype_load_int(t, &word, part);
    }
}

// The numbers of an operand's rows that a warp needs; of b those of all.
static void read_operand(frame *fr, const group_product *p, bool is_b, double *to) {
    lgroup_order order = is_b ? p->g.order_b : p->g.order_a;
    bool turned = order == GROUP_M;
    dtype t = is_b ? p->g.b : p->g.a;
    int bytes = dtype_bits(t) / 8, depth = lgroup_depth(&p->g), many = 16 / bytes;
    int first = is_b ? 0 : fr->in->device->now->number % 128 / WARP * 16, last = is_b ? p->g.n : first + 16;
    uintptr_t from = (uintptr_t)(is_b ? p->b : p->a);
    for (int row = first; row < last; row += turned ? many : 1)
        for (int k = 0; k < depth; k += turned ? 1 : many) {
            uintptr_t at = lgroup_place(from, order, is_b ? p->lead_b : p->lead_a, bytes, row, k);
            read_chunk(t, linterp_checked(fr, p->call, (char *)at, 16, false), to + row * depth + k,
                       turned ? depth : 1);
        }
}

// Lines of 128 bytes begin with a whole pattern of eight of them.
static bool begins_well(const char *p, lgroup_order order) {
    return (uintptr_t)p % 16 == 0 && (order == GROUP_CORES || ((uintptr_t)p >> 7 & 7) == 0);
}

static void check_product(frame *fr, const ins *x, const group_product *p) {
    device *d = fr->in->device;
    if (!d->now->fenced) linterp_fail_at(fr, x, "a warpgroup product uses registers without a fence");
    if (d->unshown)
        linterp_fail_at(fr, x, "a warpgroup product reads shared memory that threads wrote without a fence");
    if (!begins_well(p->a, p->g.order_a) || !begins_well(p->b, p->g.order_b))
        linterp_fail_at(fr, x, "pointer is less aligned than promised");
    int group = d->now->number / GROUP_THREADS, number = ++d->now->begun;
    if (d->n % GROUP_THREADS || group >= MOST_GROUPS)
        linterp_fail_at(fr, x, "a warpgroup product needs groups of 128 threads");
    begun_product *b = &d->begun[group][number % BEGUN], own = {number, x, p->a, p->b};
    if (b->number == number && (b->call != x || b->a != p->a || b->b != p->b))
        linterp_fail_at(fr, x, "the threads of a warpgroup start different products");
    *b = own;
}

static void begin_product(frame *fr, const ins *x, const lgroup *g) {
    thread *t = fr->in->device->now;
    size_t bytes = 4 * (size_t)lgroup_registers(g);
    char *d = linterp_checked(fr, x, pointer(fr, x, 0), (int64_t)bytes, true);
    group_product p = {.call = x,
                       .g = *g,
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

// They take place now, the latest time that they can: all but those of the latest `left` batches, and what
// no batch has closed.
static void end_products(frame *fr, const ins *x, int left) {
    enum { A = 64 * 32, B = 256 * 32 };
    device *d = fr->in->device;
    thread *t = d->now;
    int n = 0;
    if (!d->numbers) d->numbers = ARENA_ARRAY(fr->in->arena, double, A + B);
    t->fenced = false;
    if (!t->products.n) return;
    size_t bytes = 4 * (size_t)lgroup_registers(&t->products.at[0].g);
    for (int i = 0; i < t->products.n; i++) {
        const group_product *p = &t->products.at[i];
        if (p->batch >= t->batches - left) {
            t->products.at[n++] = *p;
            continue;
        }
        read_operand(fr, p, false, d->numbers);
        read_operand(fr, p, true, d->numbers + A);
        lgroup_apply(&p->g, t->number % GROUP_THREADS, d->numbers, d->numbers + A, t->sums_now);
    }
    t->products.n = n;
    if (!n) memcpy(linterp_checked(fr, x, t->sums, (int64_t)bytes, true), t->sums_now, bytes);
}

// group_fence_*, group_wait_*, group_leave_*, group_show, group_commit and the products themselves
// (codegen/c/cuda.h).
void linterp_group(frame *fr, const ins *x) {
    lgroup g;
    thread *t = fr->in->device->now;
    const char *what = x->name + strlen("group_");
    if (lgroup_named(x->name, &g)) begin_product(fr, x, &g);
    else if (*what == 'f') t->fenced = true;
    else if (*what == 's') t->unshown = false;
    else if (*what == 'c') t->batches++;
    else if (*what == 'w' || *what == 'l') end_products(fr, x, *what == 'l');
}

const char *linterp_unfinished(const linterp *in) {
    const device *d = in->device;
    for (int i = 0; i < d->n; i++) {
        const thread *t = &d->all[i];
        if (t->copies.n) return "a block ends before its copies are complete";
        if (t->products.n) return "a block ends before its products are complete";
        if (t->begun != d->all[i / GROUP_THREADS * GROUP_THREADS].begun)
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
