// Bulk copies into shared memory and their barriers. In: such instructions, which all threads of a block
// execute and one performs. Out: the copies, made as late as possible: when a thread waits for them.
#include "ir/loops/loops_eval.h"
#include "ir/loops/loops_interp_impl.h"
#include <string.h>

enum { BARRIER_BYTES = 8, UNIT = 16 };

// Copies and barriers access shared memory without making it unfenced.
static char *checked(frame *fr, const ins *x, char *p, int64_t n, bool write) {
    thread *t = fr->in->device->now;
    bool unshown = t->unshown;
    p = linterp_checked(fr, x, p, n, write);
    t->unshown = unshown;
    return p;
}

static int find_barrier(const device *d, const char *at) {
    for (int i = 0; i < d->bulks.n; i++)
        if (d->bulks.at[i].at == at) return i;
    return -1;
}

// The barrier that operand i points to.
static int barrier_at(frame *fr, const ins *x, int i) {
    char *at = pointer(fr, x, i);
    linterp_check_aligned(fr, x, at, BARRIER_BYTES);
    checked(fr, x, at, BARRIER_BYTES, false);
    int found = find_barrier(fr->in->device, at);
    if (found < 0) linterp_fail_at(fr, x, "a copy barrier that was not initialised");
    return found;
}

void linterp_mbarrier_init(frame *fr, const ins *x) {
    device *d = fr->in->device;
    char *at = pointer(fr, x, 0);
    if (d->now->number) return;
    linterp_check_aligned(fr, x, at, BARRIER_BYTES);
    if (find_barrier(d, at) >= 0) linterp_fail_at(fr, x, "a copy barrier is initialised twice");
    memset(checked(fr, x, at, BARRIER_BYTES, true), LEVAL_PATTERN, BARRIER_BYTES);
    VEC_PUSH(fr->in->arena, &d->bulks, (bulk_barrier){.at = at});
}

void linterp_mbarrier_fence(frame *fr) {
    device *d = fr->in->device;
    for (int i = 0; i < d->bulks.n && !d->now->number; i++) d->bulks.at[i].shown = true;
}

static bulk_barrier *barrier_to_use(frame *fr, const ins *x, int i) {
    bulk_barrier *b = &fr->in->device->bulks.at[barrier_at(fr, x, i)];
    if (!b->shown) linterp_fail_at(fr, x, "copies use a barrier without a fence after its initialisation");
    return b;
}

void linterp_mbarrier_expect(frame *fr, const ins *x) {
    if (fr->in->device->now->number) return;
    bulk_barrier *b = barrier_to_use(fr, x, 0);
    if (b->arrived) linterp_fail_at(fr, x, "bytes are expected twice in one phase");
    b->arrived = true;
    b->expected = *(int32_t *)arg(fr, x, 1);
}

// The destination is undefined until a thread waits for the copy.
void linterp_bulk_copy(frame *fr, const ins *x) {
    if (fr->in->device->now->number) return;
    char *to = pointer(fr, x, 0), *from = pointer(fr, x, 1);
    int64_t bytes = *(int32_t *)arg(fr, x, 2);
    bulk_barrier *b = barrier_to_use(fr, x, 3);
    linterp_check_aligned(fr, x, to, UNIT);
    linterp_check_aligned(fr, x, from, UNIT);
    if (bytes <= 0 || bytes % UNIT) linterp_fail_at(fr, x, "the number of bytes is not a multiple of 16");
    checked(fr, x, from, bytes, false);
    memset(checked(fr, x, to, bytes, true), LEVAL_PATTERN, (size_t)bytes);
    b->begun += bytes;
    VEC_PUSH(fr->in->arena, &b->copies, ((bulk_copy){to, from, bytes}));
}

static bool ends(const bulk_barrier *b) { return b->arrived && b->begun == b->expected; }

static void end_phase(bulk_barrier *b) {
    for (int i = 0; i < b->copies.n; i++) {
        const bulk_copy *c = &b->copies.at[i];
        memcpy(c->to, c->from, (size_t)c->bytes);
    }
    b->copies.n = 0;
    b->arrived = false;
    b->expected = b->begun = 0;
    b->phase++;
}

// As in hardware, a phase of a parity has passed if the current phase has the other parity.
void linterp_mbarrier_wait(frame *fr, const ins *x) {
    device *d = fr->in->device;
    thread *t = d->now;
    t->bulk = barrier_at(fr, x, 0);
    t->parity = *(int32_t *)arg(fr, x, 1) & 1;
    if (!linterp_bulk_passed(fr->in, t)) linterp_wait(fr, x, WAIT_BULK);
}

bool linterp_bulk_passed(const linterp *in, const thread *t) {
    bulk_barrier *b = &in->device->bulks.at[t->bulk];
    if (b->phase % 2 == t->parity && ends(b)) end_phase(b);
    return b->phase % 2 != t->parity;
}

const char *linterp_bulk_stuck(const linterp *in) {
    const device *d = in->device;
    for (int i = 0; i < d->n; i++) {
        const bulk_barrier *b = d->all[i].wait == WAIT_BULK ? &d->bulks.at[d->all[i].bulk] : NULL;
        if (!b) continue;
        if (!b->arrived) return "threads wait for copies whose number of bytes was not announced";
        return b->begun < b->expected ? "threads wait for more bytes than are copied"
                                      : "more bytes are copied than threads wait for";
    }
    return "deadlock: threads wait for copies that never arrive";
}

bool linterp_bulk_left(const linterp *in) {
    const device *d = in->device;
    for (int i = 0; i < d->bulks.n; i++)
        if (d->bulks.at[i].arrived || d->bulks.at[i].copies.n) return true;
    return false;
}
