// Constants that stay in a cache from one run of a kernel to the next. In: a program. Out: kernel.resident.
//
// A loop of the host code, such as one over the steps of a recurrent layer, reads the constants of its kernels in each iteration; a
// program reads all of them in each run. If these are few, they are in the L2 cache, or a share of the L3 cache, when a kernel reads them again.
#include "ir/kernel/uses.h"
#include "passes/schedule/common/schedule.h"

enum { RESIDENT = 4 << 20 }; // bytes

static const site *loop_around(const site *at) {
    while (at && at->s->kind != STEP_LOOP) at = at->owner;
    return at;
}

static bool is_within(const site *at, const site *loop) {
    for (; at; at = at->owner)
        if (at == loop) return true;
    return !loop;
}

// Bytes of the constants that kernels in the loop read; in the program: NULL.
static int64_t constant_bytes(const program *p, const uses *u, const site *loop) {
    int64_t sum = 0;
    for (int j = 0; j < p->buffers.n && sum <= RESIDENT; j++) {
        const buffer *b = p->buffers.at[j];
        const site_list *l = &u->of[b->id].sites;
        bool read = false;
        for (int i = 0; b->role == BUF_CONST && !b->view_of && i < l->n && !read; i++)
            read = is_within(l->at[i], loop);
        if (read) sum += buffer_bytes(b)->max;
    }
    return sum;
}

void find_residents(const program *p) {
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    const site *last = NULL; // the loop of the site before
    bool known = false, resident = false;
    for (int j = 0; j < u->n; j++) {
        const site *at = &u->sites[j], *loop = loop_around(at->owner);
        if (at->s->kind != STEP_KERNEL) continue;
        if (!known || loop != last) resident = constant_bytes(p, u, loop) <= RESIDENT;
        known = true, last = loop;
        at->s->kernel->resident = resident;
    }
    arena_destroy(scratch);
}
