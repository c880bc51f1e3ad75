// States: outputs in the memory of an input, for the next call. In: a program with p->state. Out: one in
// which no step reads overwritten elements. States that grow have the layout of their room, and what their outputs
// begin with is not copied:
//
//   for j < past:  present[i, j] = past[i, j]        (nothing)
//   for j < S:     present[i, past + j] = x[i, j]    for j < S:  present[i, past + j] = x[i, j]
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"
#include "passes/match/spans.h"
#include "passes/memory/memory_plan.h"
#include "passes/memory/roll.h"
#include "passes/memory/slide.h"

// ---------------------------------------------------------------- which elements are read after they are written
// Whether the kernel reads no element of the input where the other one writes the output.
static bool reads_apart(const kernel *reader, const buffer *in, const kernel *writer, const buffer *out) {
    write_list writes = kernel_write_list(writer);
    bool apart = in->rank == out->rank;
    for (int i = 0; i < writes.n && apart; i++) {
        const write *w = writes.at[i];
        span there[MAX_RANK];
        if (buffer_root(w->to) != out) continue;
        index_spans(writer, w->index, w->to->rank, there);
        apart = w->to == out && reads_apart_from(reader, in, there);
    }
    return apart;
}

// Whether what the site writes of the output is read of the input by it or later, but for kernels that compute elements in place.
static bool overwrites(const uses *u, const site *writer, const buffer *in, const buffer *out) {
    const site_list *reads = &u->of[in->id].sites;
    const kernel *k = writer->s->kind == STEP_KERNEL ? writer->s->kernel : NULL;
    for (int j = 0; j < reads->n; j++) {
        const site *r = reads->at[j];
        if (r->time < writer->time || sites_exclude(r, writer)) continue;
        if (r == writer && k && (writes_in_place(k, in, out) || rolls_in_order(k, in, out))) continue;
        if (!k || r->s->kind != STEP_KERNEL || !reads_apart(r->s->kernel, in, k, out)) return true;
    }
    return false;
}

// Whether the site only copies elements of the input to their places in the output.
static bool copies_in_place(const site *at, const buffer *in, const buffer *out) {
    const kernel *k = at->s->kind == STEP_KERNEL ? at->s->kernel : NULL;
    if (!k || !writes_in_place(k, in, out)) return false;
    const expr *value = k->stages.at[0]->writes.at[0].value;
    return value->op == X_READ && buffer_root(value->buffer) == in;
}

// Uses of the output in nested regions are not analysed.
static bool is_safe(const uses *u, const buffer *in, const buffer *out) {
    const site_list *l = &u->of[out->id].sites;
    for (int j = 0; j < l->n; j++) {
        bool changes = site_writes(l->at[j], out) && !copies_in_place(l->at[j], in, out);
        if (l->at[j]->depth || (changes && overwrites(u, l->at[j], in, out))) return false;
    }
    return true;
}

// The buffer that the steps use becomes a temporary, and a new one the output.
static buffer *new_output(program *p, int output) {
    buffer *old = p->outputs.at[output];
    buffer *b = program_buffer(p, old->name, BUF_OUTPUT, old->dtype, old->rank, old->dims);
    b->io = old->io, b->value = old->value, b->labels = old->labels;
    old->role = BUF_TEMP;
    p->outputs.at[output] = b;
    return b;
}

// `at` is the step that requires it, if one does.
static void remark_copy(const program *p, int output, const site *at) {
    const buffer *in = p->inputs.at[p->state[output] - 1], *out = p->outputs.at[output];
    diag_remark(p->diag, at ? at->s->loc : NULL,
                "state '%s' is copied in each run, since '%s' cannot be computed in its memory", in->name,
                out->name);
}

static void copy_at_end(program *p, const uses *u, int output) {
    const site_list *reads = &u->of[p->inputs.at[p->state[output] - 1]->id].sites;
    remark_copy(p, output, reads->n ? reads->at[reads->n - 1] : NULL);
    buffer *old = p->outputs.at[output], *b = new_output(p, output);
    step *s = step_new(p, p->main, STEP_COPY, NULL);
    s->buffer = b, s->from = old;
}

// Whether x is the element of `in` that w writes in the output.
static bool is_element(const expr *x, const buffer *in, const write *w) {
    if (x->op != X_READ || x->buffer != in) return false;
    for (int j = 0; j < in->rank; j++)
        if (x->index[j] != w->index[j]) return false;
    return true;
}

// ---------------------------------------------------------------- rings
//   for i < size:                                                  for r < S:
//     to[i] = select(mod(i - start, size) < S, x(mod(...)), old)     to[mod(r + start, size)] = x(r)
//
// If i runs over m * size elements, r runs over S of each ring of `size`.
typedef struct ring {
    expr *turned, *start; // mod(i - start, size), start
    int axis;
    dim *size, *length;
    int64_t copies;
    expr *by_row, *by_place; // what replaces `turned`, and the axis elsewhere
} ring;

static dim *dim_of(const kernel *k, const expr *x) {
    return x->op == X_CONST ? dim_const(k->program->dims, x->i) : x->op == X_DIM ? x->dim : NULL;
}

static bool count_copies(ring *r, const dim *extent) {
    r->copies = 1;
    if (extent == r->size) return true;
    if (!dim_is_const(extent) || !dim_is_const(r->size) || dim_value(r->size) <= 0) return false;
    r->copies = dim_value(extent) / dim_value(r->size);
    return dim_value(extent) % dim_value(r->size) == 0;
}

static bool find_ring(const kernel *k, ring *r) {
    const expr *x = k->stages.at[0]->writes.at[0].value;
    const expr *when = x->op == X_SELECT ? x->arg[0] : x->op == X_READ ? x->guard : NULL;
    if (!when || when->op != X_LT || when->arg[0]->op != X_MOD) return false;
    r->turned = when->arg[0], r->length = dim_of(k, when->arg[1]), r->size = dim_of(k, r->turned->arg[1]);
    const expr *way = r->turned->arg[0];
    if (!r->length || !r->size || way->op != X_SUB || way->arg[0]->op != X_AXIS) return false;
    r->axis = way->arg[0]->axis, r->start = way->arg[1];
    return k->axes.at[r->axis].kind == AXIS_PARALLEL && count_copies(r, k->axes.at[r->axis].extent) &&
           !expr_uses_axis(r->start, r->axis) && dim_less_equal(r->length, r->size) != TRI_NO;
}

static expr *by_new_row(void *user, expr *x) {
    const ring *r = user;
    if (x != r->turned && (x->op != X_AXIS || x->axis != r->axis)) return NULL;
    return x == r->turned ? r->by_row : r->by_place;
}

// Writes only the new elements of a ring: older ones stay in place.
static void turn_ring(kernel *k) {
    ring r;
    if (!find_ring(k, &r)) return;
    k->axes.at[r.axis].extent = dim_mulk(r.length, r.copies);
    expr *row = x_axis(k, r.axis), *length = x_dim(k, r.length), *size = x_dim(k, r.size);
    r.by_row = r.copies > 1 ? x_bin(k, X_MOD, row, length) : row;
    r.by_place = x_bin(k, X_MOD, x_add(k, r.by_row, r.start), size);
    if (r.copies > 1) r.by_place = x_add(k, r.by_place, x_mul(k, x_bin(k, X_FLOORDIV, row, length), size));
    kernel_rewrite(k, by_new_row, &r);
}

// ---------------------------------------------------------------- rows behind others
//   for i < size:                                     for i < size - low:
//     to[i] = select(low <= i, x(i), old)               to[i + low] = x(i + low)
typedef struct behind {
    const expr *old;
    expr *when, *place, *yes;
    int axis;
    dim *low;
} behind;

static bool find_behind(const kernel *k, behind *b) {
    const expr *x = k->stages.at[0]->writes.at[0].value;
    b->when = x->op == X_SELECT ? x->arg[0] : NULL;
    if (!b->when || (b->when->op != X_LE && b->when->op != X_LT)) return false;
    bool new_first = b->when->op == X_LE; // low <= i, or i < low
    const expr *axis = b->when->arg[new_first], *low = b->when->arg[!new_first];
    b->axis = axis->axis, b->low = dim_of(k, low), b->old = x->arg[new_first ? 2 : 1];
    return axis->op == X_AXIS && b->low && b->low->min >= 0 && k->axes.at[b->axis].kind == AXIS_PARALLEL &&
           dim_less_equal(b->low, k->axes.at[b->axis].extent) == TRI_YES;
}

static expr *by_row_behind(void *user, expr *x) {
    const behind *b = user;
    if (x == b->when) return b->yes;
    return x->op == X_AXIS && x->axis == b->axis ? b->place : NULL;
}

// Writes only the rows behind those that keep their elements, which are read where `when` chooses them or everywhere.
static void write_behind(kernel *k, const buffer *in) {
    behind b;
    const write *w = &k->stages.at[0]->writes.at[0];
    if (!find_behind(k, &b) || !is_element(b.old, in, w)) return;
    const expr *guard = b.old->guard;
    if (guard && guard != b.when && guard != x_un(k, X_NOT, b.when)) return;
    k->axes.at[b.axis].extent = dim_sub(k->axes.at[b.axis].extent, b.low);
    b.place = x_add(k, x_axis(k, b.axis), x_dim(k, b.low));
    b.yes = x_int(k, DT_BOOL, b.when->op == X_LE);
    kernel_rewrite(k, by_row_behind, &b);
}

// ---------------------------------------------------------------- rows that a mask chooses
//   for i < size: for d: to[i, d] = select(mask[i], x(d), old)     to[i, d] = x(d) if mask[i]
//
// Loops are shortened to what other conditions choose, when they are scheduled.

// Whether positions count in x otherwise than as indices.
static bool compares_positions(const expr *x) {
    expr *of[MAX_RANK + 3];
    if (x->op == X_AXIS || x->op == X_READ) return x->op == X_AXIS;
    for (int n = expr_operands(x, of); n > 0; n--)
        if (compares_positions(of[n - 1])) return true;
    return false;
}

static void write_chosen(kernel *k, const buffer *in) {
    write *w = &k->stages.at[0]->writes.at[0];
    expr *x = w->value, *last = w->to->rank ? w->index[w->to->rank - 1] : NULL;
    if (x->op != X_SELECT || compares_positions(x->arg[0])) return;
    if (!last || last->op != X_AXIS || expr_uses_axis(x->arg[0], last->axis))
        return; // masks of elements: vectors of both
    bool old_first = is_element(x->arg[1], in, w);
    if (!old_first && !is_element(x->arg[2], in, w)) return;
    w->guard = old_first ? x_un(k, X_NOT, x->arg[0]) : x->arg[0];
    w->value = x->arg[old_first ? 2 : 1];
}

// ---------------------------------------------------------------- states that grow
typedef struct growth {
    program *p;
    const uses *u;
    buffer *in, *out;
    int output, axis;
} growth;

static void give_room(const growth *g, buffer *b) {
    layout *l = ARENA_NEW(g->p->arena, layout);
    l->n = b->rank;
    for (int j = 0; j < b->rank; j++) l->order[j].axis = j;
    l->room[g->axis] = state_room(g->p, g->output);
    b->layout = l;
}

// Whether only kernels access the buffer, and by its own indices.
static bool is_plain(const growth *g, const buffer *b) {
    const buffer_uses *all = &g->u->of[b->id];
    for (int j = 0; j < all->sites.n; j++)
        if (site_repeats(all->sites.at[j]) && site_writes(all->sites.at[j], b)) return false;
    return !all->viewed && !all->by_others;
}

static bool copies(const stage *s, const growth *g) {
    if (s->writes.n != 1 || s->states.n) return false;
    const write *w = &s->writes.at[0];
    return w->to == g->out && !w->guard && is_element(w->value, g->in, w) && !w->value->guard;
}

static bool is_appended(const kernel *k, const write *w, const growth *g) {
    int axis;
    dim *low;
    return w->combine == COMBINE_SET && shifted_axis(k, w->index[g->axis], &axis, &low) &&
           dim_less_equal(g->in->dims[g->axis], low) == TRI_YES;
}

// Whether a kernel that writes the output leaves the elements of the input as they are.
static bool keeps(const kernel *k, const growth *g) {
    for (int j = 0; j < k->stages.n; j++) {
        const stage *s = k->stages.at[j];
        for (int i = 0; i < s->writes.n; i++)
            if (s->writes.at[i].to == g->out && !copies(s, g) && !is_appended(k, &s->writes.at[i], g))
                return false;
    }
    return true;
}

static bool grows_in_place(const growth *g) {
    const site_list *all = &g->u->of[g->out->id].sites;
    const site *obstacle = NULL;
    bool plain = is_plain(g, g->in) && is_plain(g, g->out);
    for (int j = 0; plain && j < all->n && !obstacle; j++) {
        const site *at = all->at[j];
        const kernel *k = at->s->kernel;
        bool changes = site_writes(at, g->out) && !keeps(k, g);
        bool mixes = changes && site_reads(at, g->in) && !writes_in_place(k, g->in, g->out) &&
                     !rolls_in_order(k, g->in, g->out);
        if (mixes || (changes && overwrites(g->u, at, g->in, g->out))) obstacle = at;
    }
    if (!plain || obstacle) remark_copy(g->p, g->output, obstacle);
    return plain && !obstacle;
}

static void drop_copies(kernel *k, const growth *g) {
    int n = 0;
    for (int j = 0; j < k->stages.n; j++)
        if (!copies(k->stages.at[j], g)) k->stages.at[n++] = k->stages.at[j];
    k->stages.n = n;
}

// The input is read from a copy, the output written by one.
static void grow_by_copies(growth *g) {
    program *p = g->p;
    buffer *in = g->in, *copy = program_buffer(p, in->name, BUF_INPUT, in->dtype, in->rank, in->dims);
    copy->io = in->io, copy->value = in->value;
    in->role = BUF_TEMP, in->layout = NULL;
    p->inputs.at[in->io] = copy;
    give_room(g, copy);
    step_insert(p, p->main, 0, STEP_KERNEL, NULL)->kernel = kernel_copying(p, in->name, NULL, copy, in);
    buffer *old = g->out, *b = new_output(p, g->output);
    old->layout = NULL;
    give_room(g, b);
    step_kernel(p, p->main, kernel_copying(p, b->name, NULL, old, b));
}

// The step that reads the input last and writes the output first; NULL: there is none, or it is in a nested region.
static const site *meeting(const uses *u, const buffer *in, const buffer *out) {
    const site_list *reads = &u->of[in->id].sites, *l = &u->of[out->id].sites;
    if (!l->n || !reads->n || l->at[0] != reads->at[reads->n - 1]) return NULL;
    return l->at[0]->s->kind == STEP_KERNEL && !l->at[0]->depth ? l->at[0] : NULL;
}

static void grow(program *p, const uses *u, int output) {
    growth g = {
        p, u, p->inputs.at[p->state[output] - 1], p->outputs.at[output], output, state_axis(p, output)};
    give_room(&g, g.in), give_room(&g, g.out);
    const site *at = meeting(u, g.in, g.out);
    if (at) roll_in_order(at, g.in, g.out);
    if (!grows_in_place(&g)) {
        grow_by_copies(&g);
        return;
    }
    const site_list *all = &u->of[g.out->id].sites;
    for (int j = 0; j < all->n; j++) {
        kernel *k = all->at[j]->s->kernel;
        if (!site_writes(all->at[j], g.out)) continue;
        drop_copies(k, &g);
        if (rolls_in_order(k, g.in, g.out)) roll_if_moved(k, g.in, g.out);
        if (!writes_in_place(k, g.in, g.out)) continue;
        k->in_place = g.in;
        write_behind(k, g.in);
    }
}

// ---------------------------------------------------------------- the pass
static void write_changes(const site *at, const buffer *in, const buffer *out) {
    kernel *k = at->s->kernel;
    k->in_place = in;
    if (copies_in_place(at, in, out)) {
        k->stages.n = 0; // later kernels write what is new
        return;
    }
    turn_ring(k);
    write_behind(k, in);
    write_chosen(k, in);
}

// The copy of a whole state that the model passes on, as caches of what an encoder made; NULL: there is none.
static step *passing(const uses *u, const buffer *in, const buffer *out) {
    const site_list *l = &u->of[out->id].sites;
    step *copy = NULL;
    for (int j = 0; j < l->n; j++) {
        if (!site_writes(l->at[j], out)) continue;
        if (copy || l->at[j]->depth) return NULL;
        copy = l->at[j]->s;
    }
    bool whole = copy && copy->kind == STEP_COPY && copy->buffer == out && copy->from == in;
    return whole && in->space == out->space ? copy : NULL;
}

static void place_state(program *p, const uses *u, int output) {
    buffer *in = p->inputs.at[p->state[output] - 1], *out = p->outputs.at[output];
    step *copy = passing(u, in, out);
    if (copy) {
        copy->kind = STEP_KERNEL, copy->kernel = NULL; // no longer a step
        return;
    }
    if (state_axis(p, output) >= 0) {
        grow(p, u, output);
        return;
    }
    const site *at = meeting(u, in, out);
    if (at) slide_in_place(p, at, in, out), roll_in_order(at, in, out);
    if (!is_safe(u, in, out)) {
        copy_at_end(p, u, output);
        return;
    }
    const site_list *l = &u->of[out->id].sites;
    for (int j = 0; j < l->n; j++)
        if (l->at[j]->s->kind == STEP_KERNEL && writes_in_place(l->at[j]->s->kernel, in, out))
            write_changes(l->at[j], in, out);
}

void place_states(program *p) {
    if (!p->state) return;
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    for (int j = 0; j < p->outputs.n; j++)
        if (p->state[j]) place_state(p, u, j);
    program_compact(p); // steps and kernels that only copied
    arena_destroy(scratch);
}
