// Scan: expanded to a Loop over the scanned axis. The body starts by gathering the scan inputs at the
// iteration number; scan outputs with another axis or direction are transposed or reversed after the loop.
#include "ir/ops/control/control.h"
#include "ir/ops/upgrade.h"

static int input_count(const node *n) {
    int64_t count = node_int(n, "num_scan_inputs", 0);
    if (count < 1 || count > n->nin)
        infer_error(n, "attribute num_scan_inputs is %lld of %d inputs", (long long)count, n->nin);
    return (int)count;
}

// Element i of a list attribute; 0 if it is left out.
static int64_t flag(const node *n, const char *name, int i) {
    int count;
    const int64_t *v = node_ints(n, name, &count);
    return i < count ? v[i] : 0;
}

static void check_list(const node *n, const char *name, int wanted, bool is_flags) {
    int count;
    const int64_t *v = node_ints(n, name, &count);
    if (v && count && count != wanted)
        infer_error(n, "attribute %s has %d values, not %d", name, count, wanted);
    for (int i = 0; is_flags && i < count; i++)
        if (v[i] != 0 && v[i] != 1)
            infer_error(n, "attribute %s holds %lld; it must be 0 (forward) or 1 (reverse)", name,
                        (long long)v[i]);
}

static graph *scan_body(const node *n) {
    graph *g = node_graph(n, "body");
    if (!g) infer_error(n, "attribute body is missing");
    int states = n->nin - input_count(n);
    if (g->inputs.n != n->nin || g->outputs.n < states || n->nout > g->outputs.n)
        infer_error(n, "the body has %d inputs and %d outputs, the node %d and %d", g->inputs.n, g->outputs.n,
                    n->nin, n->nout);
    return g;
}

static int scan_axis(const node *n, int states, int i) {
    return infer_axis(n, flag(n, "scan_input_axes", i), infer_rank(n, states + i));
}

// Sets the types of the body's inputs; returns the common length.
static dim *start_types(node *n, graph *g, int states) {
    arena *a = infer_arena(n);
    dim *length = NULL;
    for (int i = 0; i < n->nin; i++) {
        const type *t = infer_in(n, i);
        value *v = g->inputs.at[i];
        v->contents = NULL, v->ncontents = 0;
        v->type = *t;
        if (i < states) continue;
        int axis = scan_axis(n, states, i - states), rank = 0;
        dim *dims[MAX_RANK], *d = t->dims[axis];
        for (int j = 0; j < t->rank; j++)
            if (j != axis) dims[rank++] = t->dims[j];
        v->type = type_tensor(a, t->elem, rank, dims);
        length = length ? infer_same_dim(n, length, d, "lengths of scan inputs") : d;
    }
    return length;
}

static void infer_state(node *n, int i, const type *start, const type *given) {
    if (given->kind != TYPE_TENSOR || given->elem != start->elem ||
        (given->rank >= 0 && start->rank >= 0 && given->rank != start->rank))
        infer_error(n, "state %d is %s initially and %s after an iteration", i,
                    type_text(infer_arena(n), start), type_text(infer_arena(n), given));
    if (start->rank == RANK_UNKNOWN) infer_set_unknown(n, i, start->elem);
    else infer_set(n, i, start->elem, start->rank, start->dims);
}

static void infer_scanned(node *n, int i, int states, const type *t, dim *length) {
    if (t->kind != TYPE_TENSOR) infer_error(n, "scan output %d is not a tensor", i - states);
    if (t->rank == RANK_UNKNOWN) {
        infer_set_unknown(n, i, t->elem);
        return;
    }
    int axis = infer_axis(n, flag(n, "scan_output_axes", i - states), t->rank + 1);
    dim *dims[MAX_RANK + 1];
    for (int j = 0; j <= t->rank; j++) dims[j] = j == axis ? length : t->dims[j - (j > axis)];
    infer_set(n, i, t->elem, t->rank + 1, dims);
}

static void scan_infer(node *n) {
    graph *g = scan_body(n);
    int inputs = input_count(n), states = n->nin - inputs, outputs = g->outputs.n - states;
    check_list(n, "scan_input_axes", inputs, false);
    check_list(n, "scan_input_directions", inputs, true);
    check_list(n, "scan_output_axes", outputs, false);
    check_list(n, "scan_output_directions", outputs, true);
    dim *length = start_types(n, g, states);
    infer_graph(g);
    for (int i = 0; i < g->outputs.n; i++) {
        const type *t = &g->outputs.at[i]->type;
        if (i < states) infer_state(n, i, &g->inputs.at[i]->type, t);
        else infer_scanned(n, i, states, t, length);
    }
}

// ---- Expansion

static value *length_value(node *n, int states) {
    int axis = scan_axis(n, states, 0);
    value *in = n->in[states];
    if (dim_is_const(in->type.dims[axis])) return value_int64(n->graph, dim_value(in->type.dims[axis]));
    value *shape = inferred(NODE(n, "Shape", in));
    return inferred(NODE(n, "Gather", shape, value_int64(n->graph, axis)));
}

static value *body_node(graph *g, node *before, const node *at, const char *op, value *a, value *b,
                        node **made) {
    *made = node_new(g, before, op_find("", op), at->loc, 2, (value *[]){a, b});
    return node_output(*made, 0, NULL);
}

// Replaces body input states + i by a slice of the node's input at the iteration number, counted from the end
// if reversed.
static void gather_input(node *n, graph *g, node *before, int states, int i, value *iteration) {
    node *made;
    value *place = iteration;
    if (flag(n, "scan_input_directions", i))
        place = body_node(g, before, n, "Sub", value_int64(g, -1), iteration, &made);
    value *element = body_node(g, before, n, "Gather", n->in[states + i], place, &made);
    upgrade_set_int(made, "axis", scan_axis(n, states, i));
    value_replace(g->inputs.at[states + i], element);
    g->inputs.at[states + i]->graph = NULL;
}

// The body's inputs become iteration, condition and states; the condition becomes its first output.
static void rewrite_body(node *n, graph *g, int states) {
    arena *a = infer_arena(n);
    value *iteration = graph_add_input(g, NULL, type_tensor(a, DT_I64, 0, NULL));
    value *condition = graph_add_input(g, NULL, type_tensor(a, DT_BOOL, 0, NULL));
    node *first = g->nodes.n ? g->nodes.at[0] : NULL;
    for (int i = 0; states + i < n->nin; i++) gather_input(n, g, first, states, i, iteration);
    for (int i = states - 1; i >= 0; i--) g->inputs.at[i + 2] = g->inputs.at[i];
    g->inputs.at[0] = iteration, g->inputs.at[1] = condition;
    g->inputs.n = states + 2;
    for (int i = 0; i < g->inputs.n; i++) g->inputs.at[i]->def_index = i;
    int outputs = g->outputs.n;
    graph_add_output(g, outputs ? g->outputs.at[outputs - 1] : condition);
    for (int i = outputs - 1; i > 0; i--) graph_set_output(g, i, g->outputs.at[i - 1]);
    graph_set_output(g, 0, condition);
}

// A scan output in its direction and along its axis. v is the loop's output, of the same rank as the node's.
static value *oriented(node *n, int i, int states, value *v) {
    int rank = v->type.rank;
    if (flag(n, "scan_output_directions", i - states)) {
        value *last = insert_ints(n, (int64_t[]){-1}, 1), *end = insert_ints(n, (int64_t[]){INT64_MIN}, 1);
        value *axis = insert_ints(n, (int64_t[]){0}, 1), *step = insert_ints(n, (int64_t[]){-1}, 1);
        v = inferred(NODE(n, "Slice", v, last, end, axis, step));
    }
    int axis = rank > 0 ? infer_axis(n, flag(n, "scan_output_axes", i - states), rank) : 0;
    if (axis == 0) return v;
    int64_t *perm = ARENA_ARRAY(infer_arena(n), int64_t, rank);
    for (int j = 0; j < rank; j++) perm[j] = j == axis ? 0 : j + (j < axis);
    return inferred(transposed(n, v, rank, perm));
}

static void scan_expand(node *n) {
    graph *g = scan_body(n);
    int states = n->nin - input_count(n);
    for (int i = states; i < n->nin; i++)
        if (!infer_has_rank(n, i))
            diag_fatal_missing(g->module->diag, n->loc,
                               "the rank of scan input %d is not known at compile time", i - states);
    value **in = ARENA_ARRAY(infer_arena(n), value *, states + 2);
    in[0] = length_value(n, states);
    in[1] = insert_scalar(n, DT_BOOL, 1);
    for (int i = 0; i < states; i++) in[i + 2] = n->in[i];
    rewrite_body(n, g, states);
    node *loop = node_new(n->graph, n, op_find("", "Loop"), n->loc, states + 2, in);
    node_set_attr(loop, (attr){.name = "body", .kind = ATTR_GRAPH, .graph = g});
    for (int i = 0; i < n->nout; i++) {
        node_output(loop, i, NULL);
        if (!n->out[i]) loop->out[i] = NULL;
    }
    infer_node(loop);
    for (int i = 0; i < n->nout; i++)
        if (n->out[i]) replace_output(n, i, i < states ? loop->out[i] : oriented(n, i, states, loop->out[i]));
    node_delete(n);
}

// ---- Streams
static bool scan_sequence(const node *n, op_sequence *s) {
    int states = n->nin - input_count(n);
    bool forward = true;
    *s = (op_sequence){.nstates = states};
    if (n->nin > SEQUENCE_MOST || n->nout > SEQUENCE_MOST) return false;
    for (int i = 0; i < states; i++) s->first[i] = s->last[i] = i;
    for (int i = states; i < n->nin; i++) {
        s->in[s->nin] = i, s->in_axis[s->nin++] = scan_axis(n, states, i - states);
        forward &= !flag(n, "scan_input_directions", i - states);
    }
    for (int i = states; i < n->nout; i++) {
        if (!n->out[i]) continue;
        s->out[s->nout] = i;
        s->out_axis[s->nout++] = infer_axis(n, flag(n, "scan_output_axes", i - states), n->out[i]->type.rank);
        forward &= !flag(n, "scan_output_directions", i - states);
    }
    return forward;
}

// ---- Scan-8 scans the items of a batch one by one: an outer scan over axis 0 of all inputs, whose body is
// the scan of one item.
// With sequence lengths, the scan of an item is given the first `length` elements, and its scan outputs are
// padded with zeros.
static void cut_sequences(node *inner, int states, value *length) {
    value *zero = insert_ints(inner, (int64_t[]){0}, 1), *one = insert_ints(inner, (int64_t[]){1}, 1);
    value *end = NODE(inner, "Reshape", length, one);
    value *size = with_int(NODE(inner, "Shape", inner->in[states]), "end", 1);
    value *pads = with_int(NODE(inner, "Concat", zero, NODE(inner, "Sub", size, end)), "axis", 0);
    for (int i = states; i < inner->nin; i++)
        node_set_in(inner, i, NODE(inner, "Slice", inner->in[i], zero, end, zero));
    for (int i = states; i < inner->nout; i++)
        insert_after(inner, i, "Pad", 3, (value *[]){pads, NULL, zero});
}

static void scan_upgrade_9(node *n) {
    module *m = n->graph->module;
    int inputs = input_count(n), given = n->nin - 1;
    graph *body = node_graph(n, "body");
    if (!body) infer_error(n, "attribute body is missing");
    value *lengths = node_in(n, 0);
    graph *item = graph_new(m, n->graph, "item");
    value **in = ARENA_ARRAY(m->arena, value *, given + 1);
    for (int i = 0; i < given; i++) in[i] = graph_add_input(item, NULL, (type){0});
    value *length = lengths ? graph_add_input(item, NULL, (type){0}) : NULL;
    node *inner = node_new(item, NULL, n->op, n->loc, given, in);
    int directions;
    const int64_t *d = node_ints(n, "directions", &directions);
    if (d)
        node_set_attr(inner, (attr){.name = "scan_input_directions",
                                    .kind = ATTR_INTS,
                                    .n = directions,
                                    .ints = (int64_t *)d});
    upgrade_set_int(inner, "num_scan_inputs", inputs);
    body->outer = item;
    node_set_attr(inner, (attr){.name = "body", .kind = ATTR_GRAPH, .graph = body});
    for (int i = 0; i < body->outputs.n; i++) graph_add_output(item, node_output(inner, i, NULL));
    node_remove_attr(n, "directions");
    if (length) cut_sequences(inner, given - inputs, length);
    int all = given + (length != NULL);
    upgrade_set_int(n, "num_scan_inputs", all);
    node_set_attr(n, (attr){.name = "body", .kind = ATTR_GRAPH, .graph = item});
    for (int i = 0; i < given; i++) node_set_in(n, i, n->in[i + 1]);
    node_set_in(n, given, lengths);
    n->nin = all;
}

OPERATOR(Scan, .upgrades = {{9, scan_upgrade_9}}, .infer = scan_infer, .expand = scan_expand,
         .sequence = scan_sequence);
