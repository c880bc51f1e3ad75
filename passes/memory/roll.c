// In: present = Concat(past[n:], new) as a kernel of a stage that moves rows and others that do not read them. Out: the rows move in
// order, so that each has been read before another one takes its place.
//
//   for h: for i < size - n: for d: present[h, i, d] = past[h, i + n, d]     for h: for d: scan i < size - n: present[h, i, d] = ...
//          for j < n:        for d: present[h, size - n + j, d] = new[h, j, d]
#include "passes/memory/roll.h"
#include "ir/kernel/edit.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"

typedef struct roll {
    const kernel *k;
    const buffer *in, *out;
    const stage *s;
    const write *w;
    int dim, axis; // of the buffer; of the kernel
    dim *by;       // how many rows further on it reads
} roll;

static bool reads_in(const roll *r, const stage *s) {
    arena *scratch = arena_new();
    expr_list reads = reads_only(stage_nodes(scratch, s, PART_ALL));
    bool any = false;
    for (int j = 0; j < reads.n; j++) any |= buffer_root(reads.at[j]->buffer) == r->in;
    arena_destroy(scratch);
    return any;
}

// Whether the read is of a row that is no earlier, in one dim, than the one that is written.
static bool is_later_row(roll *r, const expr *read) {
    dim *from, *to;
    int axis;
    r->dim = -1;
    for (int d = 0; d < r->in->rank; d++) {
        if (read->index[d] == r->w->index[d]) continue;
        if (r->dim >= 0 || !shifted_axis(r->k, read->index[d], &axis, &from) ||
            !shifted_axis(r->k, r->w->index[d], &r->axis, &to))
            return false;
        if (axis < 0 || axis != r->axis || dim_less_equal(to, from) != TRI_YES) return false;
        r->dim = d, r->by = dim_sub(from, to);
    }
    return r->dim >= 0;
}

// Whether each position of the stage has a row of its own.
static bool has_own_rows(const roll *r) {
    uint64_t seen = 0;
    for (int d = 0; d < r->out->rank; d++) {
        int axis;
        dim *low;
        if (!shifted_axis(r->k, r->w->index[d], &axis, &low) || (axis >= 0 && (seen >> axis & 1)))
            return false;
        if (axis >= 0) seen |= UINT64_C(1) << axis;
    }
    for (int j = 0; j < r->s->axes.n; j++)
        if (!(seen >> r->s->axes.at[j] & 1)) return false;
    return true;
}

static bool has_row_axis(const roll *r) {
    for (int j = 0; j < r->s->axes.n; j++)
        if (r->s->axes.at[j] == r->axis) return true;
    return false;
}

static bool moves_rows(roll *r, const stage *s) {
    if (s->states.n || s->writes.n != 1 || r->in->rank != r->out->rank || r->k->axes.n > MAX_AXES)
        return false;
    r->s = s, r->w = &s->writes.at[0];
    const expr *x = r->w->value;
    if (!write_is_plain(r->w) && !(stage_scans(r->k, s) && r->w->combine == COMBINE_SET && !r->w->guard))
        return false;
    return r->w->to == r->out && x->op == X_READ && x->buffer == r->in && !x->guard && is_later_row(r, x) &&
           has_row_axis(r) && has_own_rows(r);
}

// Other iterations of the outer loops may not write what this one moves.
static bool stays_in_iteration(const roll *r, const write *w) {
    for (int d = 0; d < r->out->rank; d++)
        for (int a = 0; a < r->k->nouter; a++)
            if (expr_uses_axis(r->w->index[d], a) && (w->to != r->out || w->index[d] != r->w->index[d]))
                return false;
    return true;
}

// The stage that moves rows, if it is the first one; later ones write others.
static bool find_roll(roll *r) {
    if (!r->k->stages.n || !moves_rows(r, r->k->stages.at[0])) return false;
    for (int j = 1; j < r->k->stages.n; j++) {
        const stage *s = r->k->stages.at[j];
        if (reads_in(r, s)) return false;
        for (int i = 0; i < s->writes.n; i++)
            if (buffer_root(s->writes.at[i].to) == r->out && !stays_in_iteration(r, &s->writes.at[i]))
                return false;
    }
    return true;
}

bool rolls_in_order(const kernel *k, const buffer *in, const buffer *out) {
    roll r = {.k = k, .in = in, .out = out};
    return find_roll(&r) && k->axes.at[r.axis].kind == AXIS_SCAN;
}

void roll_in_order(const site *at, const buffer *in, const buffer *out) {
    kernel *k = at->s->kernel;
    roll r = {.k = k, .in = in, .out = out};
    if (dtype_bits(in->dtype) < 8 || in->space != SPACE_HOST || out->space != SPACE_HOST || !find_roll(&r))
        return;
    if (r.dim == in->rank - 1) return; // element by element: copies of vectors take less time
    stage *s = k->stages.at[0];
    int n = 0;
    for (int j = 0; j < s->axes.n; j++)
        if (s->axes.at[j] != r.axis) s->axes.at[n++] = s->axes.at[j];
    s->axes.at[n] = r.axis;
    k->axes.at[r.axis].kind = AXIS_SCAN;
    s->writes.at[0].when = WRITE_AFTER;
}

void roll_if_moved(kernel *k, const buffer *in, const buffer *out) {
    roll r = {.k = k, .in = in, .out = out};
    if (!find_roll(&r)) return;
    for (int j = 1; j < k->stages.n; j++)
        for (int i = 0; i < k->stages.at[j]->axes.n; i++)
            if (k->stages.at[j]->axes.at[i] == r.axis) return;
    axis *a = &k->axes.at[r.axis];
    a->extent = dim_mul(a->extent, dim_min(r.by, dim_const(k->program->dims, 1)));
}
