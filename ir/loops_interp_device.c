// What a device's threads do together: shuffles, products and fragments of a warp, barriers; and copies that
// run beside them. In: a thread at such an instruction. Out: its results, after it came back from the
// scheduler.
#include "ir/loops_eval.h"
#include "ir/loops_interp_impl.h"
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

// copy_16 and copy_8 (codegen/cuda.h).
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
    linterp_checked(fr, x, from, 16, false);
    memset(linterp_checked(fr, x, to, 16, true), LEVAL_PATTERN, 16);
    VEC_PUSH(fr->in->arena, &t->copies, ((coming){to, from, t->groups}));
}

// All groups but the latest `left` are there.
static void end_async(frame *fr, const ins *x, int left) {
    thread *t = fr->in->device->now;
    int n = 0;
    for (int i = 0; i < t->copies.n; i++) {
        coming c = t->copies.at[i];
        if (c.group < t->groups - left)
            memcpy(linterp_checked(fr, x, c.to, 16, true), linterp_checked(fr, x, c.from, 16, false), 16);
        else t->copies.at[n++] = c;
    }
    t->copies.n = n;
}

// async_16, async_commit and async_wait_N (codegen/cuda.h).
void linterp_async(frame *fr, const ins *x) {
    const char *what = x->name + strlen("async_");
    if (*what == '1') begin_async(fr, x);
    else if (*what == 'c') fr->in->device->now->groups++;
    else end_async(fr, x, what[strlen("wait_")] - '0');
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
