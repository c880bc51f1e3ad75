// Scatters without copies: see copy_elision.h.
#include "passes/layout/copy_elision.h"
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/match/form.h"

// A kernel that copies a whole buffer with its axes in another order: axis d of `to` is axis of[d] of `from`;
// -1: none, for axes of size 1.
typedef struct transposed {
    buffer *from, *to;
    int of[MAX_RANK];
} transposed;

static bool is_plain(const buffer *b) { return !b->view_of && !b->layout && b->space == SPACE_HOST; }

// The axis that an index is, if that covers the whole dim; -1: another index.
static int whole_axis(const kernel *k, const expr *index, const dim *size) {
    return index->op == X_AXIS && k->axes.at[index->axis].extent == size ? index->axis : -1;
}

static bool match_axes(const kernel *k, const expr *read, const write *w, transposed *t) {
    bool used[MAX_RANK] = {false};
    for (int d = 0; d < t->to->rank; d++) {
        int axis = whole_axis(k, w->index[d], t->to->dims[d]);
        t->of[d] = -1;
        for (int e = 0; e < t->from->rank && t->of[d] < 0; e++)
            if (!used[e] && axis >= 0 && whole_axis(k, read->index[e], t->from->dims[e]) == axis)
                t->of[d] = e;
        if (t->of[d] >= 0) used[t->of[d]] = true;
        else if (!dim_is(t->to->dims[d], 1)) return false;
    }
    for (int e = 0; e < t->from->rank; e++)
        if (!used[e] && !dim_is(t->from->dims[e], 1)) return false;
    return true;
}

static bool is_transposition(const kernel *k, transposed *t) {
    const stage *s = k->stages.n == 1 ? k->stages.at[0] : NULL;
    if (!s || s->states.n || s->writes.n != 1) return false;
    const write *w = &s->writes.at[0];
    const expr *read = w->value;
    if (w->guard || w->combine != COMBINE_SET || read->op != X_READ || read->guard) return false;
    *t = (transposed){.from = read->buffer, .to = w->to};
    if (t->from->role != BUF_TEMP || (t->to->role != BUF_TEMP && t->to->role != BUF_OUTPUT)) return false;
    return is_plain(t->from) && is_plain(t->to) && t->from->dtype == t->to->dtype &&
           match_axes(k, read, w, t);
}

// Whether the copy is the first use of `to`, and `from` is complete: several kernels wrote it, all of them
// before. What a single kernel writes is transposed in its epilogue.
static bool can_replace(const uses *u, const site *at, const transposed *t) {
    const buffer_uses *from = &u->of[t->from->id], *to = &u->of[t->to->id];
    int writers = 0;
    if (from->viewed || from->by_others || from->fallback || to->sites.at[0] != at) return false;
    for (int j = 0; j < from->sites.n; j++) {
        const site *x = from->sites.at[j];
        bool writes = site_writes(x, t->from);
        if (x->s->kind != STEP_KERNEL || x->region != at->region || (writes && x->time > at->time))
            return false;
        writers += writes;
    }
    for (int j = 0; j < to->sites.n; j++) // readers of `from` may come after another write
        if (to->sites.at[j] != at && site_writes(to->sites.at[j], t->to)) return false;
    return writers > 1;
}

static expr **moved(kernel *k, const transposed *t, expr *const *index) {
    expr **out = ARENA_ARRAY(k->arena, expr *, t->to->rank + 1);
    for (int d = 0; d < t->to->rank; d++) out[d] = t->of[d] < 0 ? x_i64(k, 0) : index[t->of[d]];
    return out;
}

static expr *move_read(void *user, kernel *k, const expr *read) {
    const transposed *t = user;
    if (read->buffer != t->from) return NULL;
    return x_read_guarded(k, t->to, moved(k, t, read->index), read->guard, read->fill);
}

static void move_accesses(kernel *k, transposed *t) {
    if (kernel_reads(k, t->from)) kernel_rewrite_reads(k, move_read, t);
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++)
        if (all.at[j]->to == t->from) all.at[j]->index = moved(k, t, all.at[j]->index), all.at[j]->to = t->to;
}

void elide_transpositions(program *p) {
    arena *scratch = arena_new();
    uses *u = uses_build(scratch, p);
    bool changed = false;
    for (int j = 0; j < u->n; j++) {
        site *at = &u->sites[j];
        transposed t;
        if (at->s->kind != STEP_KERNEL || !is_transposition(at->s->kernel, &t) || !can_replace(u, at, &t))
            continue;
        at->s->kernel->stages.n = 0;
        const site_list *l = &u->of[t.from->id].sites;
        for (int i = 0; i < l->n; i++) {
            if (l->at[i] != at) move_accesses(l->at[i]->s->kernel, &t);
            uses_update(u, l->at[i]);
        }
        changed = true;
    }
    if (changed) program_compact(p);
    arena_destroy(scratch);
}
