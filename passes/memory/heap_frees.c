// Frees of heap buffers, from their live ranges. In: a program whose steps allocate. Out: the same with a
// STEP_FREE after the last use of each buffer, in the innermost region that contains all its uses:
// temporaries of a loop body are freed in every iteration, carried values after the loop.
#include "ir/kernel/uses.h"
#include "passes/memory/memory_plan.h"

static bool ends_live_range(const step *s, const buffer *b) {
    return (s->kind == STEP_FREE && s->buffer == b) || (s->kind == STEP_MOVE && s->from == b);
}

// In reverse order, because each step is inserted directly after its site.
void insert_frees(program *p) {
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    for (int j = p->buffers.n - 1; j >= 0; j--) {
        buffer *b = p->buffers.at[j];
        const site *last = b->role == BUF_HEAP ? uses_last_site(u, b) : NULL;
        if (!last || ends_live_range(last->s, b)) continue;
        step_insert(p, last->region, step_index(last->region, last->s) + 1, STEP_FREE, last->s->loc)->buffer =
            b;
    }
    arena_destroy(scratch);
}
