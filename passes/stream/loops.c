// In: a Loop over the samples of a signal. Out: the Scan that it stands for, whose states a stream can carry:
//   for t < T: h = f(h, x[t], x[t + 1]); list.append(g(h))      x[:-1] and x[1:] are scanned; the list is an output
// The number of iterations may be the trip count, or follow from a condition on a value that counts; samples are read by Gather, by
// Slice or from a sequence of all samples; what does not change is computed before.
#include "passes/stream/stream_impl.h"
#include <string.h>

// What becomes of a carried value.
typedef enum carried { CARRIED_STATE, CARRIED_DROPPED, CARRIED_LIST } carried;

// Sample first + t of a value in iteration t, which is an input of the body.
typedef struct scanned {
    value *of, *sample;
    int axis;
    int64_t first, unread; // unread: samples at the end
} scanned;

typedef struct time_loop {
    streaming *s;
    node *given, *n; // n: a copy, whose body becomes the body of the Scan
    graph *main, *g;
    carried *roles;         // of carried values
    dim *iteration, *trips; // trips: NULL: not known yet
    VEC(scanned) inputs;
    VEC(value *) starts, befores, afters; // of states: outside, and in the body
    VEC(value *) outputs;                 // of iterations
    VEC(value *) old;                     // outputs of the loop, in the order of the Scan's; NULL: none
    const char *why;
} time_loop;

static bool refuse(time_loop *l, const char *why) {
    if (!l->why) l->why = why;
    return false;
}

static bool is(const node *n, const char *name) { return n && !*n->op->domain && node_is(n, name); }

static value *renamed(value *v) { // the value that v is another name of
    while (is(v->def, "Identity")) v = v->def->in[0];
    return v;
}

static int carried_count(const time_loop *l) { return l->n->nin > 2 ? l->n->nin - 2 : 0; }

static bool is_outside(const time_loop *l, const value *v) { return v->graph == l->main && !v->constant; }

static dim *number_of(const value *v) { return v && v->ncontents == 1 ? v->contents[0] : NULL; }

static bool runs_over_time(const time_loop *l, const value *v, int axis) {
    return v->type.kind == TYPE_TENSOR && axis >= 0 && axis < v->type.rank &&
           dim_has_atom(v->type.dims[axis], l->s->length);
}

static void at_body(time_loop *l, node *before) { l->s->graph = l->g, l->s->at = before; }

static void at_main(time_loop *l) { l->s->graph = l->main, l->s->at = l->given; }

// ---------------------------------------------------------------- values that do not change
static void drop_invariants(time_loop *l) {
    for (int i = 0; i < carried_count(l); i++) {
        value *in = l->g->inputs.at[i + 2];
        if (renamed(l->g->outputs.at[i + 1]) != in) continue;
        value_replace(in, l->n->in[i + 2]);
        if (node_out(l->given, i)) value_replace(l->given->out[i], l->n->in[i + 2]);
        l->roles[i] = CARRIED_DROPPED;
    }
}

static bool is_invariant(const time_loop *l, const node *n) {
    if (node_region(n, 0) || n->op->has_side_effect_on_random || !n->nin) return false;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i] && !n->in[i]->constant && n->in[i]->graph == l->g) return false;
    return true;
}

static void hoist_invariants(time_loop *l) {
    for (int j = 0; j < l->g->nodes.n;) {
        node *n = l->g->nodes.at[j];
        if (!is_invariant(l, n)) {
            j++;
            continue;
        }
        for (int i = 0; i < n->nin; i++)
            if (n->in[i] && n->in[i]->constant)
                node_set_in(n, i, value_constant(l->main, NULL, n->in[i]->constant));
        node_move(n, l->main, l->n);
    }
}

// ---------------------------------------------------------------- values that count
// By how much a carried value grows in each iteration; NULL: it is no counter.
static const constant *growth(const time_loop *l, int i) {
    const value *in = l->g->inputs.at[i + 2];
    const node *add = renamed(l->g->outputs.at[i + 1])->def;
    dtype_class class = dtype_class_of(in->type.elem);
    if (in->type.kind != TYPE_TENSOR || (class != DC_INT && class != DC_UINT) || !is(add, "Add")) return NULL;
    for (int j = 0; j < 2; j++) {
        const constant *by = add->in[1 - j]->constant;
        if (renamed(add->in[j]) == in && by && by->count == 1 && by->rank <= in->type.rank) return by;
    }
    return NULL;
}

// A counter of one element becomes a function of the iteration; others stay states.
static void count_iterations(time_loop *l) {
    for (int i = 0; i < carried_count(l); i++) {
        value *in = l->g->inputs.at[i + 2];
        const constant *by = growth(l, i), *first = l->n->in[i + 2]->constant;
        dim *start = number_of(l->n->in[i + 2]);
        bool known = first ? first->count == 1 : start && dim_is_const(start);
        if (!by || !known || in->type.rank > 1) continue;
        at_body(l, l->g->nodes.n ? l->g->nodes.at[0] : NULL);
        attr to = {.name = "to", .kind = ATTR_INT, .i = (int)in->type.elem};
        int64_t zero = 0, from = first ? constant_int(first, 0) : dim_value(start);
        value *v = make(l->s, "Cast", 1, (value *[]){l->g->inputs.at[0]}, &to);
        value *step =
            value_constant(l->g, NULL, numbers(l->s, in->type.elem, -1, (double)constant_int(by, 0), 0));
        value *begin = value_constant(l->g, NULL, numbers(l->s, in->type.elem, -1, (double)from, 0));
        v = make(l->s, "Add", 2, (value *[]){make(l->s, "Mul", 2, (value *[]){v, step}, NULL), begin}, NULL);
        if (in->type.rank)
            v = make(l->s, "Unsqueeze", 2, (value *[]){v, value_int64s(l->g, NULL, &zero, 1)}, NULL);
        value_replace(in, v);
        if (!node_out(l->given, i) || !value_uses(l->given->out[i])) l->roles[i] = CARRIED_DROPPED;
    }
}

// ---------------------------------------------------------------- the number of iterations
static bool add_bound(time_loop *l, dim *bound) {
    bool endless = dim_is_const(bound) && dim_value(bound) >= INT32_MAX;
    if (endless) return true;
    if (!l->trips) l->trips = bound;
    return dim_equal(l->trips, bound) == TRI_YES || refuse(l, "computes the signal in a loop with two ends");
}

// now < bound, where `now` counts from `first` on.
static bool add_comparison(time_loop *l, const value *now, const value *end, dim *first, int64_t more) {
    dim *a = number_of(now), *b = number_of(end);
    dim *from = a ? dim_sub(a, first) : NULL;
    bool counts = from && b && dim_is_const(from) && !dim_has_atom(b, l->iteration);
    if (!counts) return refuse(l, "computes the signal in a loop that ends under a condition");
    return add_bound(l, dim_addk(b, more - dim_value(from)));
}

// `first`: what the condition would compare in the iteration before which it is computed, if that counted from 0.
static bool add_condition(time_loop *l, value *v, dim *first) {
    v = renamed(v);
    dim *known = number_of(v);
    if (v == l->g->inputs.at[1] || (known && dim_is(known, 1))) return true;
    const node *n = v->def;
    if (is(n, "And")) return add_condition(l, n->in[0], first) && add_condition(l, n->in[1], first);
    if (is(n, "Less")) return add_comparison(l, n->in[0], n->in[1], first, 0);
    if (is(n, "LessOrEqual")) return add_comparison(l, n->in[0], n->in[1], first, 1);
    if (is(n, "Greater")) return add_comparison(l, n->in[1], n->in[0], first, 0);
    if (is(n, "GreaterOrEqual")) return add_comparison(l, n->in[1], n->in[0], first, 1);
    return refuse(l, "computes the signal in a loop that ends under a condition");
}

static bool find_trips(time_loop *l) {
    dim *most = number_of(node_in(l->n, 0)), *zero = dim_const(l->s->module->dims, 0);
    if (node_in(l->n, 0) && !most) return refuse(l, "computes the signal in a loop of unknown length");
    return (!most || add_bound(l, most)) && (!node_in(l->n, 1) || add_condition(l, l->n->in[1], zero)) &&
           add_condition(l, l->g->outputs.at[0], dim_addk(l->iteration, 1));
}

// ---------------------------------------------------------------- samples
typedef struct read {
    value *of;
    int axis;
    dim *at;
    bool keeps; // the axis, of one element
} read;

static bool read_gather(const time_loop *l, const node *n, read *r) {
    const value *x = n->in[0], *index = n->in[1];
    int64_t axis = node_int(n, "axis", 0);
    if (!is_outside(l, x) || x->type.rank < 0 || index->type.rank > 1) return false;
    *r = (read){n->in[0], (int)(axis < 0 ? axis + x->type.rank : axis), number_of(index),
                index->type.rank == 1};
    return true;
}

static bool read_slice(const time_loop *l, const node *n, read *r) {
    const value *x = n->in[0];
    dim *from = number_of(node_in(n, 1)), *to = number_of(node_in(n, 2)), *axis = number_of(node_in(n, 3)),
        *step = number_of(node_in(n, 4));
    bool one = from && to && axis && dim_is_const(axis) && (!node_in(n, 4) || (step && dim_is(step, 1)));
    if (!is_outside(l, x) || x->type.rank < 0 || !one || !dim_is(dim_sub(to, from), 1)) return false;
    int64_t along = dim_value(axis);
    *r = (read){n->in[0], (int)(along < 0 ? along + x->type.rank : along), from, true};
    return true;
}

// The signal of which a sequence has the samples; NULL: it is another.
static value *samples_in(const value *sequence, int *axis) {
    const node *n = sequence->def;
    if (!is(n, "SplitToSequence") || n->in[0]->type.rank < 0) return NULL;
    const type *x = &n->in[0]->type, *item = sequence->type.item;
    int64_t along = node_int(n, "axis", 0);
    *axis = (int)(along < 0 ? along + x->rank : along);
    return item->rank == x->rank - 1 || (item->rank == x->rank && dim_is(item->dims[*axis], 1)) ? n->in[0]
                                                                                                : NULL;
}

static bool read_item(const node *n, read *r) {
    int axis;
    value *x = samples_in(n->in[0], &axis);
    if (x) *r = (read){x, axis, number_of(n->in[1]), n->in[0]->type.item->rank == x->type.rank};
    return x;
}

static bool read_of(const time_loop *l, const node *n, read *r) {
    bool found = is(n, "Gather")       ? read_gather(l, n, r)
                 : is(n, "Slice")      ? read_slice(l, n, r)
                 : is(n, "SequenceAt") ? read_item(n, r)
                                       : false;
    return found && runs_over_time(l, r->of, r->axis);
}

// How many samples after sample `first` the loop does not reach; -1: it does not run along them.
static int64_t unread_samples(time_loop *l, dim *size, int64_t first) {
    dim *all = dim_addk(size, -first);
    bool fixed = dim_is_const(l->trips) && exported_size(l->s, all) == dim_value(l->trips);
    if (fixed) l->trips = all; // the number at export
    dim *rest = dim_sub(all, l->trips);
    return dim_is_const(rest) ? dim_value(rest) : -1;
}

static value *sample_of(time_loop *l, const read *r, int64_t first) {
    int64_t unread = unread_samples(l, r->of->type.dims[r->axis], first);
    if (unread < 0) {
        refuse(l, "computes the signal in a loop that does not run along it");
        return NULL;
    }
    for (int j = 0; j < l->inputs.n; j++) {
        const scanned *x = &l->inputs.at[j];
        if (x->of == r->of && x->axis == r->axis && x->first == first) return x->sample;
    }
    value *v = value_new(l->g, NULL);
    dim *dims[MAX_RANK];
    for (int j = 0, rank = 0; j < r->of->type.rank; j++)
        if (j != r->axis) dims[rank++] = r->of->type.dims[j];
    v->type = type_tensor(l->s->arena, r->of->type.elem, r->of->type.rank - 1, dims);
    VEC_PUSH(l->s->arena, &l->inputs, ((scanned){r->of, v, r->axis, first, unread}));
    return v;
}

static bool scan_read(time_loop *l, node *n, const read *r) {
    dim *first = r->at ? dim_sub(r->at, l->iteration) : NULL;
    if (!first) return refuse(l, "reads samples at computed positions");
    if (!dim_is_const(first))
        return refuse(l, dim_is_const(dim_add(r->at, l->iteration)) || dim_has_atom(r->at, l->s->length)
                             ? "reads the signal backwards"
                             : "reads samples at computed positions");
    if (dim_value(first) < 0) return refuse(l, "begins with samples from the end of the signal");
    value *v = sample_of(l, r, dim_value(first));
    if (!v) return false;
    int64_t axis = r->axis;
    at_body(l, n);
    if (r->keeps) v = make(l->s, "Unsqueeze", 2, (value *[]){v, value_int64s(l->g, NULL, &axis, 1)}, NULL);
    value_replace(n->out[0], v);
    return true;
}

static bool scan_reads(time_loop *l) {
    for (int j = 0; j < l->g->nodes.n;) {
        node *n = l->g->nodes.at[j];
        read r;
        if (!read_of(l, n, &r)) {
            j++;
            continue;
        }
        if (!scan_read(l, n, &r)) return false;
        j = node_place(n);
        node_delete(n);
    }
    return l->inputs.n || refuse(l, "computes the signal in a loop or a branch");
}

// ---------------------------------------------------------------- lists of results
// What an iteration appends to a carried sequence, of which nothing else is known in the body; NULL: it does more.
static value *appended(const time_loop *l, int i) {
    const value *in = l->g->inputs.at[i + 2], *out = renamed(l->g->outputs.at[i + 1]),
                *first = l->n->in[i + 2];
    const node *n = out->def;
    bool appends = is(n, "SequenceInsert") && !node_in(n, 2) && renamed(n->in[0]) == in;
    bool known = is(first->def, "SequenceEmpty") || is(first->def, "SequenceConstruct");
    return appends && known && value_uses(in) == 1 && value_uses(out) == 1 ? n->in[1] : NULL;
}

static bool find_lists(time_loop *l) {
    for (int i = 0; i < carried_count(l); i++) {
        const value *out = node_out(l->given, i);
        if (l->g->inputs.at[i + 2]->type.kind == TYPE_TENSOR) continue;
        if (!appended(l, i)) return refuse(l, "carries a sequence to which it does more than append");
        for (int j = 0; out && j < out->uses.n; j++)
            if (!is(out->uses.at[j].node, "ConcatFromSequence"))
                return refuse(l, "makes a sequence of samples that is not concatenated");
        l->roles[i] = CARRIED_LIST;
    }
    return true;
}

// v[T, ..], with time as axis `to`.
static value *with_time_at(time_loop *l, value *v, int to) {
    int64_t perm[MAX_RANK];
    for (int j = 0; j < v->type.rank; j++) perm[j] = j == to ? 0 : j + (j < to);
    attr order = {.name = "perm", .kind = ATTR_INTS, .n = v->type.rank, .ints = perm};
    order.ints = memcpy(ARENA_ARRAY(l->s->arena, int64_t, MAX_RANK), perm, sizeof perm);
    return to ? make(l->s, "Transpose", 1, &v, &order) : v;
}

// The elements of the list, all[T, ..], joined as n does.
static value *concatenated(time_loop *l, const node *n, value *all) {
    bool fresh = node_int(n, "new_axis", 0);
    int rank = all->type.rank - !fresh;
    int64_t axis = node_int(n, "axis", 0), shape[MAX_RANK];
    if (axis < 0) axis += rank;
    value *v = with_time_at(l, all, (int)axis);
    for (int j = 0; j < rank; j++) {
        const dim *d = j > axis && !fresh ? v->type.dims[j + 1] : NULL;
        if (d && !dim_is_const(d)) return NULL;
        shape[j] = j == axis ? -1 : d ? dim_value(d) : 0;
    }
    value *to = value_int64s(l->main, NULL, shape, rank);
    return fresh ? v : make(l->s, "Reshape", 2, (value *[]){v, to}, NULL);
}

// The items with which the list begins, then those of the loop.
static value *after_first(time_loop *l, const value *list, const node *n, value *v) {
    const node *first = l->n->in[list->def_index + 2]->def;
    int64_t axis = node_int(n, "axis", 0);
    if (is(first, "SequenceEmpty")) return v;
    value **parts = ARENA_ARRAY(l->s->arena, value *, first->nin + 1);
    for (int j = 0; j < first->nin; j++) {
        parts[j] = first->in[j];
        if (node_int(n, "new_axis", 0))
            parts[j] = make(l->s, "Unsqueeze", 2, (value *[]){parts[j], ints(l->s, &axis, 1)}, NULL);
        if (parts[j]->type.rank != v->type.rank) return NULL;
    }
    parts[first->nin] = v;
    attr along = {.name = "axis", .kind = ATTR_INT, .i = axis};
    return make(l->s, "Concat", first->nin + 1, parts, &along);
}

static bool replace_list(time_loop *l, const value *list, value *all) {
    for (int j = 0; j < list->uses.n; j++) {
        const node *n = list->uses.at[j].node;
        value *v = all->type.rank < 0 ? NULL : concatenated(l, n, all);
        if (v) v = after_first(l, list, n, v);
        if (!v) return refuse(l, "concatenates results of a size that is not known");
        value_replace(n->out[0], v);
    }
    return true;
}

// ---------------------------------------------------------------- the Scan
static void delete_unused(graph *g) {
    for (int j = g->nodes.n - 1; j >= 0; j--) {
        bool used = false;
        for (int i = 0; i < g->nodes.at[j]->nout; i++)
            used |= g->nodes.at[j]->out[i] && value_uses(g->nodes.at[j]->out[i]);
        if (!used) node_delete(g->nodes.at[j]);
    }
}

static void add_state(time_loop *l, value *start, value *before, value *after, value *old) {
    arena *a = l->s->arena;
    VEC_PUSH(a, &l->starts, start);
    VEC_PUSH(a, &l->befores, before);
    VEC_PUSH(a, &l->afters, after);
    VEC_PUSH(a, &l->old, old);
}

static bool find_states(time_loop *l) {
    for (int i = 0; i < carried_count(l); i++) {
        value *start = l->n->in[i + 2], *before = l->g->inputs.at[i + 2];
        if (l->roles[i] != CARRIED_STATE) continue;
        if (!type_equal(&start->type, &before->type)) return refuse(l, "carries a state whose size changes");
        add_state(l, start, before, l->g->outputs.at[i + 1], node_out(l->given, i));
    }
    value *iteration = l->g->inputs.at[0];
    delete_unused(l->g);
    if (!value_uses(iteration)) return true;
    at_body(l, NULL);
    value *next = make(l->s, "Add", 2, (value *[]){iteration, value_int64(l->g, 1)}, NULL);
    add_state(l, value_int64(l->main, 0), iteration, next, NULL);
    return true;
}

static void find_outputs(time_loop *l) {
    arena *a = l->s->arena;
    int carried = carried_count(l);
    for (int i = carried; i + 1 < l->g->outputs.n; i++) {
        VEC_PUSH(a, &l->outputs, l->g->outputs.at[i + 1]);
        VEC_PUSH(a, &l->old, node_out(l->given, i));
    }
    for (int i = 0; i < carried; i++) {
        if (l->roles[i] != CARRIED_LIST) continue;
        VEC_PUSH(a, &l->outputs, appended(l, i));
        VEC_PUSH(a, &l->old, node_out(l->given, i));
    }
}

// A condition that the body reads holds in every iteration.
static void replace_condition(time_loop *l) {
    int64_t ones[MAX_RANK];
    value *in = l->g->inputs.at[1];
    for (int j = 0; j < MAX_RANK; j++) ones[j] = 1;
    constant *yes = constant_splat(l->s->arena, DT_BOOL, in->type.rank, ones, &(uint8_t){1});
    value_replace(in, value_constant(l->g, NULL, yes));
}

static void set_body_input(graph *g, value *v) {
    v->graph = g, v->def_index = g->inputs.n;
    VEC_PUSH(g->module->arena, &g->inputs, v);
}

static void rewrite_body(time_loop *l) {
    graph *g = l->g;
    replace_condition(l);
    int states = l->afters.n, count = states + l->outputs.n;
    for (int i = 0; i < count; i++) {
        value *v = i < states ? l->afters.at[i] : l->outputs.at[i - states];
        if (i < g->outputs.n) graph_set_output(g, i, v);
        else graph_add_output(g, v);
    }
    graph_set_noutputs(g, count);
    delete_unused(g);
    for (int i = 0; i < g->inputs.n; i++) g->inputs.at[i]->graph = NULL;
    g->inputs.n = 0;
    for (int i = 0; i < states; i++) set_body_input(g, l->befores.at[i]);
    for (int i = 0; i < l->inputs.n; i++) set_body_input(g, l->inputs.at[i].sample);
}

// The samples that the loop reads, from its first one to its last one.
static value *samples_read(time_loop *l, const scanned *x) {
    int64_t from = x->first, to = x->unread ? -x->unread : INT64_MAX, axis = x->axis;
    if (!x->first && !x->unread) return x->of;
    value *in[] = {x->of, value_int64s(l->main, NULL, &from, 1), value_int64s(l->main, NULL, &to, 1),
                   value_int64s(l->main, NULL, &axis, 1)};
    return make(l->s, "Slice", 4, in, NULL);
}

static node *make_scan(time_loop *l) {
    arena *a = l->s->arena;
    int states = l->starts.n, count = l->inputs.n;
    value **in = ARENA_ARRAY(a, value *, states + count + 1);
    int64_t *axes = ARENA_ARRAY(a, int64_t, count + 1);
    at_main(l);
    for (int i = 0; i < states; i++) in[i] = l->starts.at[i];
    for (int i = 0; i < count; i++)
        in[states + i] = samples_read(l, &l->inputs.at[i]), axes[i] = l->inputs.at[i].axis;
    node *scan = node_new(l->main, l->given, op_find("", "Scan"), l->given->loc, states + count, in);
    node_set_attr(scan, (attr){.name = "num_scan_inputs", .kind = ATTR_INT, .i = count});
    node_set_attr(scan, (attr){.name = "scan_input_axes", .kind = ATTR_INTS, .n = count, .ints = axes});
    node_set_attr(scan, (attr){.name = "body", .kind = ATTR_GRAPH, .graph = l->g});
    for (int i = 0; i < l->old.n; i++) {
        const value *old = l->old.at[i];
        node_output(scan, i, old ? old->name : NULL);
    }
    infer_node(scan);
    return scan;
}

static bool replace_outputs(time_loop *l, const node *scan) {
    for (int i = 0; i < l->old.n; i++) {
        value *old = l->old.at[i];
        bool list = old && old->type.kind == TYPE_SEQUENCE;
        if (list && !replace_list(l, old, scan->out[i])) return false;
        if (old && !list) value_replace(old, scan->out[i]);
    }
    return true;
}

static void infer_loop(time_loop *l) { // which may have another body then
    infer_node(l->n);
    l->g = node_graph(l->n, "body");
}

static bool convert(time_loop *l) {
    drop_invariants(l);
    hoist_invariants(l);
    count_iterations(l);
    infer_loop(l);
    l->iteration = number_of(l->g->inputs.at[0]);
    if (!find_trips(l) || !l->trips) return refuse(l, "computes the signal in a loop of unknown length");
    if (!scan_reads(l) || !find_lists(l) || !find_states(l)) return false;
    find_outputs(l);
    rewrite_body(l);
    return replace_outputs(l, make_scan(l));
}

const char *loop_to_scan(streaming *s, node *n) {
    map as = {.arena = s->arena};
    node *copy = node_copy(n, s->graph, &as);
    node_move(copy, s->graph, n);
    time_loop l = {.s = s, .given = n, .n = copy, .main = s->graph, .g = node_graph(copy, "body")};
    l.roles = ARENA_ARRAY(s->arena, carried, carried_count(&l) + 1);
    infer_loop(&l);
    convert(&l);
    at_main(&l);
    node_delete(copy);
    return l.why;
}

// ---------------------------------------------------------------- loops over layers
enum { MOST_LAYERS = 64 };

static bool is_true(const value *v) {
    dim *d = number_of(v);
    return d && dim_is_const(d) && dim_value(d);
}

// A few iterations, known at compile time, over values that have samples; else 0.
static int64_t layers_of(const streaming *s, const node *n) {
    dim *trips = number_of(node_in(n, 0));
    const graph *g = node_graph(n, "body");
    value *goes_on = g->outputs.at[0];
    bool signal = false, runs = !node_in(n, 1) || is_true(n->in[1]);
    bool all = runs && (renamed(goes_on) == g->inputs.at[1] || is_true(goes_on));
    for (int i = 2; i < n->nin; i++)
        for (int j = 0; n->in[i]->type.kind == TYPE_TENSOR && j < n->in[i]->type.rank; j++)
            signal |= dim_has_atom(n->in[i]->type.dims[j], s->length);
    bool few = trips && dim_is_const(trips) && dim_value(trips) > 0 && dim_value(trips) <= MOST_LAYERS;
    return few && signal && all && n->nout == n->nin - 2 ? dim_value(trips) : 0;
}

node *loop_to_layers(streaming *s, node *n) {
    int64_t layers = layers_of(s, n);
    if (!layers) return NULL;
    int place = node_place(n), count = n->nin - 2;
    value **now = ARENA_ARRAY(s->arena, value *, count), *one = value_int64(s->graph, 1);
    for (int i = 0; i < count; i++) now[i] = n->in[i + 2];
    s->at = n;
    attr to_bool = {.name = "to", .kind = ATTR_INT, .i = DT_BOOL};
    value *goes_on = make(s, "Cast", 1, &one, &to_bool);
    for (int64_t t = 0; t < layers; t++) {
        map as = {.arena = s->arena};
        node *copy = node_copy(n, s->graph, &as);
        node_move(copy, s->graph, n);
        graph *g = node_graph(copy, "body");
        value_replace(g->inputs.at[0], value_int64(s->graph, t));
        value_replace(g->inputs.at[1], goes_on);
        for (int i = 0; i < count; i++) value_replace(g->inputs.at[i + 2], now[i]);
        graph_inline(g, s->graph, copy);
        for (int i = 0; i < count; i++) now[i] = g->outputs.at[i + 1];
        node_delete(copy);
    }
    for (int i = 0; i < count; i++)
        if (n->out[i]) value_replace(n->out[i], now[i]);
    node_delete(n);
    return s->graph->nodes.at[place];
}

bool replace_length(streaming *s, node *n) {
    int axis;
    value *x = is(n, "SequenceLength") ? samples_in(n->in[0], &axis) : NULL;
    if (!x) return false;
    s->at = n;
    attr from = {.name = "start", .kind = ATTR_INT, .i = axis};
    value *sizes = make(s, "Shape", 1, &x, &from);
    value_replace(n->out[0], make(s, "Gather", 2, (value *[]){sizes, value_int64(s->graph, 0)}, NULL));
    return true;
}
