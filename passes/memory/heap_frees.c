// Live ranges of heap buffers. In: a program whose steps allocate. Out: the same with a STEP_FREE behind the
// step that uses the buffer last, in the innermost region that has all its uses: so what a loop's body makes
// for itself dies in every iteration, and what is carried dies after the loop.
#include "ir/kernel/uses.h"
#include "passes/memory/memory_plan.h"

static bool ends_life(const step *s, const buffer *b) {
    return (s->kind == STEP_FREE && s->buffer == b) || (s->kind == STEP_MOVE && s->from == b);
}

// Last buffers first: each step goes right behind its site.
void insert_frees(program *p) {
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    for (int j = p->buffers.n - 1; j >= 0; j--) {
        buffer *b = p->buffers.at[j];
        const site *last = b->role == BUF_HEAP ? uses_last_site(u, b) : NULL;
        if (!last || ends_life(last->s, b)) continue;
        step_insert(p, last->region, step_index(last->region, last->s) + 1, STEP_FREE, last->s->loc)->buffer =
            b;
    }
    arena_destroy(scratch);
}
