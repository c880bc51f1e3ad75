// Rows of a state that a model replaces by concatenation. In: a graph with --state present=past. Out: the same in which the
// size of `present` is that of `past`, since a state keeps it, which the run checks.
//
//   present = Concat(past[:at], rows, past[at + 1:])      becomes      present = ReplacedRows(past, past[:at], rows, past[at + 1:])
//
// The same one after the other: present = Concat(v[:to], others, v[to + 1:]) of v = Concat(past[:at], rows, past[at + 1:]).
//
// A window that grows and then rolls takes its rows from the past, which lies in the same memory:
//
//   present = Concat(past, new)[-n:]      becomes      present = Concat(past[-(n - size of new):], new), if n is larger
#include "ir/graph/op.h"
#include "passes/passes.h"
#include <limits.h>
#include <string.h>

// What a slice along this axis alone cuts off at its front, or at its end, without steps; NULL: it is no such slice.
static value *cut_off(const value *v, int axis, bool front) {
    const node *n = v->def;
    if (!n || n->op != op_find("", "Slice")) return NULL;
    for (int i = 1; i < n->nin; i++)
        if (n->in[i] && (!n->in[i]->contents || n->in[i]->ncontents != 1)) return NULL;
    const dim *along = node_in(n, 3) ? n->in[3]->contents[0] : NULL, *end = n->in[2]->contents[0],
              *step = node_in(n, 4) ? n->in[4]->contents[0] : NULL, *size = n->in[0]->type.dims[axis];
    bool here = along ? dim_is(along, axis) || dim_is(along, axis - v->type.rank) : axis == 0,
         last = dim_is_const(end) &&
                (dim_value(end) >= INT_MAX || (dim_is_const(size) && dim_value(end) >= dim_value(size)));
    if (!here || (step && !dim_is(step, 1))) return NULL;
    return (front ? dim_is(n->in[1]->contents[0], 0) : last || end == size) ? n->in[0] : NULL;
}

// The value of which the node replaces rows along the axis; NULL: it does not.
static value *with_rows_of(const node *n, int axis) {
    const type *t = n ? &n->out[0]->type : NULL;
    if (!n || n->op != op_find("", "Concat") || n->nin != 3 || t->kind != TYPE_TENSOR || t->rank <= axis)
        return NULL;
    int64_t own = node_int(n, "axis", 0);
    value *old = own == axis || own + t->rank == axis ? cut_off(n->in[0], axis, true) : NULL;
    return old && old == cut_off(n->in[2], axis, false) ? old : NULL;
}

// Whether the node replaces rows of a value of the size `whole` along the axis; its own size is `now`.
static bool replaces_rows(const node *n, int axis, const dim *whole, const dim *now) {
    const value *old = with_rows_of(n, axis);
    return old && n->out[0]->type.dims[axis] == now && old->type.dims[axis] == whole;
}

static void replace_rows(node *n, int axis) {
    value *in[] = {n->in[0]->def->in[0], n->in[0], n->in[1], n->in[2]};
    node *r = node_new(n->graph, n, op_find("onnxc", "ReplacedRows"), n->loc, 4, in);
    node_set_attr(r, (attr){.name = "axis", .kind = ATTR_INT, .n = 1, .i = axis});
    value *made = node_output(r, 0, NULL);
    infer_node(r);
    value_replace(n->out[0], made);
    node_delete(n);
}

// Any rows of that size: the tensors of several layers may become one state.
static bool replace_rows_of(graph *g, const dim *whole, const dim *now) {
    bool any = false;
    for (int j = 0; j < g->nodes.n; j++)
        for (int axis = 0; axis < MAX_RANK; axis++) {
            if (!replaces_rows(g->nodes.at[j], axis, whole, now)) continue;
            replace_rows(g->nodes.at[j], axis);
            any = true;
            break;
        }
    return any;
}

// Rows that are replaced one after the other until `out`, the first ones of a value of the size `whole`.
static bool replace_rows_until(value *out, const dim *whole, int axis) {
    VEC(node *) chain = {0};
    const value *old = out;
    while (old == out || old->type.dims[axis] != whole) {
        node *n = old->def;
        old = with_rows_of(n, axis);
        if (!old) return false;
        VEC_PUSH(n->graph->module->arena, &chain, n);
    }
    for (int j = chain.n - 1; j >= 0; j--) {
        node *n = chain.at[j];
        infer_node(n->in[0]->def), infer_node(n->in[2]->def);
        replace_rows(n, axis);
    }
    return chain.n > 0;
}

// The axis along which the sizes of a state differ; -1: none or several.
static int differing_axis(const value *in, const value *out) {
    const type *x = &in->type, *y = &out->type;
    int axis = -1;
    if (x->kind != TYPE_TENSOR || y->kind != TYPE_TENSOR || x->rank < 0 || x->rank != y->rank) return -1;
    for (int j = 0; j < x->rank; j++) {
        if (dim_equal(x->dims[j], y->dims[j]) == TRI_YES) continue;
        if (axis >= 0) return -1;
        axis = j;
    }
    return axis;
}

// A node of this operator before n.
static value *before(node *n, const char *op, int nin, value *const *in, const char *name, int64_t i) {
    node *made;
    value *v = insert_before(n, op, nin, in, &made);
    if (name) node_set_attr(made, (attr){.name = name, .kind = ATTR_INT, .n = 1, .i = i});
    infer_node(made);
    return v;
}

static value *size_of(node *n, value *v, int axis) {
    value *size = before(n, "Shape", 1, &v, "start", axis);
    node_set_attr(size->def, (attr){.name = "end", .kind = ATTR_INT, .n = 1, .i = axis + 1});
    infer_node(size->def);
    return size;
}

// The concatenation of the past with others of which `out` has the last rows along the axis; NULL: there is none.
static node *windowed(const value *past, const value *out, int axis) {
    if (out->type.kind != TYPE_TENSOR || out->type.rank <= axis) return NULL;
    const value *all = cut_off(out, axis, false);
    node *n = all ? all->def : NULL;
    if (!n || n->op != op_find("", "Concat") || n->nin < 2 || n->in[0] != past ||
        all->type.rank != out->type.rank)
        return NULL;
    int64_t own = node_int(n, "axis", 0);
    const dim *first = out->def->in[1]->contents[0];
    if ((own != axis && own + all->type.rank != axis) || !dim_is_const(first) || dim_value(first) >= 0)
        return NULL;
    const dim *more = dim_sub(all->type.dims[axis], past->type.dims[axis]);
    return dim_is_const(more) && dim_value(more) + dim_value(first) < 0 ? n : NULL;
}

static bool roll_window(value *past, value *out) {
    for (int axis = 0; axis < out->type.rank; axis++) {
        node *all = windowed(past, out, axis), *n = out->def;
        if (!all) continue;
        int64_t along = axis, first = dim_value(n->in[1]->contents[0]), last = INT64_MAX;
        value *fresh =
            before(n, "Sub", 2, (value *[]){size_of(n, all->out[0], axis), size_of(n, past, axis)}, NULL, 0);
        value *from = before(n, "Add", 2, (value *[]){fresh, insert_ints(n, &first, 1)}, NULL, 0);
        value *rows[] = {past, from, insert_ints(n, &last, 1), insert_ints(n, &along, 1)};
        value **parts = ARENA_ARRAY(n->graph->module->arena, value *, all->nin);
        memcpy(parts, all->in, (size_t)all->nin * sizeof *parts);
        parts[0] = before(n, "Slice", 4, rows, NULL, 0);
        value_replace(out, before(n, "Concat", all->nin, parts, "axis", axis));
        node_delete(n);
        return true;
    }
    return false;
}

void pass_state_rows(pass_context *c) {
    graph *g = c->module->main;
    for (int j = 0; c->module->own_operators && j < g->outputs.n && c->states.n; j++) {
        value *in = (value *)state_input(c, g, j), *out = g->outputs.at[j];
        if (in && roll_window(in, out)) {
            c->changed = true;
            continue;
        }
        int axis = in ? differing_axis(in, out) : -1;
        if (axis >= 0 && (replace_rows_of(g, in->type.dims[axis], out->type.dims[axis]) ||
                          replace_rows_until(out, in->type.dims[axis], axis)))
            c->changed = true;
    }
}
