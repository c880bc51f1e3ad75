// Versions of a value that is updated in parts become one buffer, if nothing reads an earlier version after the next one has
// begun, as in tensors with the states of all layers, into which each layer writes its own.
//
//   v1[i] = v0[i]                  v2[i] = v0[i]
//   v1[at[j]] = x[j]               v2[at[j]] = x[j]
//   ... reads v1                   ... reads v2
//   v2[i] = v1[i]
//   v2[to[j]] = y[j]               v2[to[j]] = y[j]
#include "ir/kernel/edit.h"
#include "passes/fuse/fuse_impl.h"
#include "passes/match/contract.h"

bool copies_whole(const kernel *k, buffer **from, buffer **to) {
    uint64_t seen = 0;
    if (!is_plain_copy(k)) return false;
    const write *w = &k->stages.at[0]->writes.at[0];
    *from = w->value->buffer, *to = w->to;
    for (int d = 0; d < w->to->rank; d++) {
        const expr *i = w->index[d];
        if ((*from)->dims[d] != (*to)->dims[d]) return false;
        if (i->op != X_AXIS && dim_is((*to)->dims[d], 1)) continue;
        if (i->op != X_AXIS || i->axis >= 64 || (seen >> i->axis & 1) ||
            k->axes.at[i->axis].extent != (*to)->dims[d])
            return false;
        seen |= UINT64_C(1) << i->axis;
    }
    return true;
}

static bool is_own(const buffer *b) { return !b->view_of && !b->layout; }

// Whether several kernels of the region wrote `from`, none uses it after the copy, and none uses `to` before it. What a single one
// wrote may be computed where it is read.
static bool ends_with_copy(const uses *u, const site *at, const buffer *from, const buffer *to) {
    const buffer_uses *old = &u->of[from->id];
    int writers = 0;
    if (from->role != BUF_TEMP || (to->role != BUF_TEMP && to->role != BUF_OUTPUT)) return false;
    if (!is_own(from) || !is_own(to) || from->space != to->space || old->by_others || old->fallback ||
        old->output || u->of[to->id].sites.at[0] != at)
        return false;
    for (int j = 0; j < old->sites.n; j++) {
        const site *x = old->sites.at[j];
        if (x->s->kind != STEP_KERNEL || x->region != at->region || x->time > at->time) return false;
        writers += site_writes(x, from);
    }
    return writers > 1;
}

// The last version of each buffer, by id.
typedef struct versions {
    buffer **last;
} versions;

static expr *read_last(void *user, kernel *k, const expr *read) {
    const versions *v = user;
    buffer *b = read->buffer->role == BUF_TEMP ? v->last[read->buffer->id] : NULL;
    return b ? x_read_guarded(k, b, read->index, read->guard, read->fill) : NULL;
}

static void use_last(versions *v, const site *at) {
    kernel *k = at->s->kernel;
    bool reads = false;
    for (int j = 0; j < at->accessed.n; j++) reads |= v->last[at->accessed.at[j]->id] != NULL;
    if (!reads) return;
    kernel_rewrite_reads(k, read_last, v);
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++)
        if (all.at[j]->to->role == BUF_TEMP && v->last[all.at[j]->to->id])
            all.at[j]->to = v->last[all.at[j]->to->id];
}

void move_views(program *p, buffer *const *now) {
    for (int j = p->buffers.n - 1; j >= 0; j--) { // views of views first
        buffer *b = p->buffers.at[j], *of = b->view_of ? now[buffer_root(b)->id] : NULL;
        if (!of) continue;
        if (!b->view_of->view_of) b->view_of = of;
        b->role = of->role, b->io = of->io;
    }
}

void merge_updates(program *p) {
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    versions v = {ARENA_ARRAY(scratch, buffer *, p->buffers.n + 1)};
    buffer *from, *to;
    bool any = false;
    for (int j = u->n - 1; j >= 0; j--) { // later versions first
        const site *at = &u->sites[j];
        if (at->s->kind != STEP_KERNEL || !copies_whole(at->s->kernel, &from, &to) ||
            !ends_with_copy(u, at, from, to))
            continue;
        v.last[from->id] = v.last[to->id] ? v.last[to->id] : to;
        at->s->kernel->stages.n = 0;
        any = true;
    }
    for (int j = 0; any && j < u->n; j++)
        if (u->sites[j].s->kind == STEP_KERNEL) use_last(&v, &u->sites[j]);
    if (any) move_views(p, v.last);
    if (any) program_compact(p);
    arena_destroy(scratch);
}

// ---------------------------------------------------------------- order
// Whether each position of the stage writes an element of its own.
static bool writes_distinct(const kernel *k, const stage *s, const write *w) {
    uint64_t seen = 0;
    for (int d = 0; d < w->to->rank; d++) {
        int axis;
        dim *low;
        if (!shifted_axis(k, w->index[d], &axis, &low)) return false;
        if (axis >= 0 && (axis >= 64 || (seen >> axis & 1))) return false;
        if (axis >= 0) seen |= UINT64_C(1) << axis;
    }
    for (int j = 0; j < s->axes.n; j++) {
        int axis = s->axes.at[j];
        if (!dim_is(k->axes.at[axis].extent, 1) && (axis >= 64 || !(seen >> axis & 1))) return false;
    }
    return true;
}

void free_order(kernel *k) {
    stage *s = k->stages.n == 1 ? k->stages.at[0] : NULL;
    if (!s || k->nouter || s->states.n || s->writes.n != 1 || !stage_scans(k, s)) return;
    write *w = &s->writes.at[0];
    if (w->combine != COMBINE_SET || !writes_distinct(k, s, w)) return;
    arena *scratch = arena_new();
    expr_list reads = reads_only(stage_nodes(scratch, s, PART_ALL));
    bool apart = true;
    for (int j = 0; j < reads.n; j++) apart &= buffer_root(reads.at[j]->buffer) != buffer_root(w->to);
    arena_destroy(scratch);
    if (!apart) return;
    for (int j = 0; j < s->axes.n; j++) k->axes.at[s->axes.at[j]].kind = AXIS_PARALLEL;
    w->when = WRITE_END;
}
