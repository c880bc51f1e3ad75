// The loops over the vector axis of a nest: whole vectors, then what is left of them, in each of the axis's parts.
#include "passes/memory/memory_plan.h"
#include "passes/schedule/common/nest.h"

scope nest_open_loop(nest *n, int axis, ins *begin, ins *end, int64_t step, loop_role role) {
    emit_hoist_stage(n->e, n->s, n->writes);
    return scope_axis(n->e, axis, begin, end, step, role);
}

void nest_any_point(nest *n) {
    if (n->waxis >= 0) window_point(n);
    else nest_point(n);
}

bool nest_writes_twice(const nest *n) {
    const kernel *k = n->e->k;
    for (int j = 0; j < n->s->writes.n; j++) {
        const write *w = &n->s->writes.at[j];
        bool plain = w->when == WRITE_END && w->combine == COMBINE_SET;
        if (!plain || kernel_reads(k, w->to) || may_be_in_place(k, w->to)) return false;
    }
    return true;
}

static void whole_vectors(nest *n, ins *begin, ins *end) {
    emitter_stage(n->e, n->s, n->vaxis, n->lanes, true);
    scope loop = nest_open_loop(n, n->vaxis, begin, end, n->lanes, LOOP_PARALLEL);
    nest_any_point(n);
    scope_close(n->e, loop);
}

static void one_by_one(nest *n, ins *begin, ins *end) {
    emitter_stage(n->e, n->s, n->vaxis, 1, false);
    scope loop = nest_open_loop(n, n->vaxis, begin, end, 1, LOOP_PARALLEL);
    nest_any_point(n);
    scope_close(n->e, loop);
}

// Whether vectors may write what is behind the elements of the axis, and read nothing there.
static bool ends_in_gap(const nest *n) {
    bool gap = n->s->writes.n > 0 && !stage_any(n->s, expr_is_read);
    for (int j = 0; j < n->s->writes.n; j++)
        gap &= write_is_plain(&n->s->writes.at[j]) && steps_by_one(n->writes[j], n->vaxis) &&
               emit_has_gap(n->e, n->writes[j], n->lanes);
    return gap;
}

static void vector_range(nest *n, ins *begin, ins *extent) {
    emitter *e = n->e;
    lbuild *b = &e->b;
    if (ends_in_gap(n)) {
        whole_vectors(n, begin, extent);
        return;
    }
    ins *full = lb_add(b, begin, emit_int_floor(b, lb_sub(b, extent, begin), n->lanes));
    whole_vectors(n, begin, full);
    bool tail = !same_index(full, extent);
    if (tail && n->masked) {
        scope part = open_partial_vector(e, n->vaxis, full, extent);
        nest_any_point(n);
        close_partial_vector(e, part);
    }
    e->whole_steps = false;
    if (tail && n->overlaps) {
        scope last = scope_open(e);
        e->counter[n->vaxis] = idx_subk(b, extent, n->lanes);
        nest_any_point(n);
        scope_close(e, last);
        e->counter[n->vaxis] = NULL;
    }
    if (tail && !n->masked && !n->overlaps) one_by_one(n, full, extent);
}

// The positions of a part within a task; short parts have narrow vectors, or none. A last vector overlaps the one before.
static void vector_part(const nest *n, const nest_parts *p, int part, ins *begin, ins *end) {
    enum { LEAST_LANES = 4 };
    nest own = *n;
    lbuild *b = &n->e->b;
    int64_t size = p->begin[part + 1] - p->begin[part];
    while (own.lanes > size) own.lanes /= 2;
    if (own.lanes < LEAST_LANES) own.lanes = 1;
    begin = lb_bin(b, L_SMAX, begin, lb_idx(b, p->begin[part]));
    end = lb_bin(b, L_SMAX, lb_bin(b, L_SMIN, end, lb_idx(b, p->begin[part + 1])), begin);
    own.overlaps = begin->op == L_CONST && end->op == L_CONST && nest_writes_twice(n);
    own.masked &= !own.overlaps && own.lanes > 1;
    nest_part_enter(&own, p, part);
    vector_range(&own, begin, end);
}

// Vectors of a part whose size only a run knows; the last one overlaps the one before if it has no mask.
static void vectors_of_run(const nest *n, ins *begin, ins *end) {
    nest own = *n;
    lbuild *b = &n->e->b;
    own.overlaps = !n->masked && nest_writes_twice(n);
    if (!own.overlaps) {
        vector_range(&own, begin, end);
        return;
    }
    ins *fits = lb_if(b, lb_cmp(b, L_SLE, lb_idx(b, n->lanes), lb_sub(b, end, begin)));
    scope mark = scope_open(n->e);
    vector_range(&own, begin, end);
    scope_close(n->e, mark);
    lb_else(b, fits);
    mark = scope_open(n->e);
    one_by_one(&own, begin, end);
    scope_close(n->e, mark);
    lb_end(b, fits);
}

static void vector_run(nest *n, const nest_run *r, ins *begin, ins *end) {
    emitter *e = n->e;
    lbuild *b = &e->b;
    ins *from = begin, *to = end;
    for (int j = 0; j < r->nfrom; j++) from = lb_bin(b, L_SMAX, from, emit_index(e, r->from[j]));
    for (int j = 0; j < r->nto; j++) to = lb_bin(b, L_SMIN, to, emit_index(e, r->to[j]));
    from = lb_bin(b, L_SMIN, from, end), to = lb_bin(b, L_SMAX, to, from);
    one_by_one(n, begin, from);
    nest_run_enter(n, r);
    vectors_of_run(n, from, to);
    nest_parts_leave(n, &r->reads, r->whole);
    one_by_one(n, to, end);
}

void nest_vector_axis(nest *n) {
    ins *begin, *extent;
    nest_parts parts;
    piece_range(n->e, n->vaxis, NEST_GRAIN, &begin, &extent);
    if (nest_parts_find(n, n->vaxis, &parts)) {
        for (int j = 0; j < parts.n; j++) vector_part(n, &parts, j, begin, extent);
        nest_parts_leave(n, &parts.reads, parts.whole);
        return;
    }
    nest_run run;
    if (nest_run_find(n, n->vaxis, &run)) {
        vector_run(n, &run, begin, extent);
        return;
    }
    n->e->whole_steps = NEST_GRAIN % n->lanes == 0;
    vector_range(n, begin, extent);
}
