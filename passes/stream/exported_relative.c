// Scores by distance of an export for one length. In: a product of queries by a constant table of all distances, whose rows are
// shifted by nodes with constant sizes. What these do is found by running them on numbers.
//   x[q, c - d] = query[q] * table[c - d],  y[q, k] = x[q, c - (q - k)]
// Out: the same for any length; a distance that the table does not have counts as its longest one:
//   x[q, length - 1 - d] = query[q] * table[clamp(c - d)],  and y by padding, reshaping and cutting x
// which relative.c turns into the products of a step.
#include "passes/stream/stream_impl.h"

enum { MOST_NODES = 16, DEPTH = 64 };

typedef struct shift {
    value *out;         // y
    const constant *to; // its elements
    int64_t zero;       // the column of distance 0
} shift;

// Of the shape that v has in the export.
static constant *exported(streaming *s, const value *v) {
    int64_t dims[MAX_RANK];
    if (v->type.kind != TYPE_TENSOR || v->type.rank < 0 || dtype_bits(v->type.elem) < 8) return NULL;
    for (int j = 0; j < v->type.rank; j++)
        if ((dims[j] = exported_size(s, v->type.dims[j])) < 0) return NULL;
    return new_constant(s, v->type.elem, v->type.rank, dims);
}

// The outputs of n in the export; NULL: they depend on data.
static constant **outputs_of(streaming *s, const node *n, map *have, int depth);

// v in the export, where it is a constant or computed from sizes. `have`: id of value -> its elements, if they are known already.
static constant *elements_of(streaming *s, value *v, map *have, int depth) {
    constant *c = v->constant ? v->constant : map_get_number(have, (uint64_t)v->id);
    if (c || !v->def || depth > DEPTH) return c;
    bool size = node_is(v->def, "Shape") && !map_get_number(have, (uint64_t)v->def->in[0]->id);
    constant *of = size ? exported(s, v->def->in[0]) : NULL;
    if (of) map_put_number(have, (uint64_t)v->def->in[0]->id, of);
    constant **all = outputs_of(s, v->def, have, depth + 1);
    if (of) map_put_number(have, (uint64_t)v->def->in[0]->id, NULL);
    if (all) map_put_number(have, (uint64_t)v->id, all[v->def_index]);
    return all ? all[v->def_index] : NULL;
}

static constant **outputs_of(streaming *s, const node *n, map *have, int depth) {
    map as = {.arena = s->arena};
    if (n->graph != s->graph) return NULL;
    for (int i = 0; i < n->nin; i++) {
        value *in = n->in[i];
        constant *c = in ? elements_of(s, in, have, depth) : NULL;
        if (in && !c) return NULL;
        if (in && !in->constant) map_put_number(&as, (uint64_t)in->id, value_constant(s->graph, NULL, c));
    }
    return evaluate_copy(s, n, &as);
}

// The only node that reads the elements of v; NULL: there are others, or none.
static node *reader_of(const value *v) {
    node *only = NULL;
    for (int j = 0; j < v->uses.n; j++) {
        node *n = v->uses.at[j].node;
        if (n && node_is(n, "Shape") && !*n->op->domain) continue;
        if (!n || only) return NULL;
        only = n;
    }
    return only;
}

// x has scores of `length` queries.
static bool find_shift(streaming *s, value *x, int64_t length, shift *found) {
    map have = {.arena = s->arena};
    const node *first = reader_of(x);
    constant *from =
        first && moves_elements(first) ? numbered(s, x, s->module->streams.at[0].exported) : NULL;
    if (!from) return false;
    map_put_number(&have, (uint64_t)x->id, from);
    for (int nodes = 0; nodes < MOST_NODES; nodes++) {
        node *n = reader_of(nodes ? found->out : x);
        bool ahead = true;
        if (!n || n->nout != 1 || !moves_elements(n)) return false;
        found->out = n->out[0], found->to = elements_of(s, n->out[0], &have, 0);
        if (!found->to) return false;
        found->zero = column_of_zero(from, found->to, length, &ahead);
        if (found->zero >= 0) return ahead;
    }
    return false;
}

// Columns of the table by distance, from length - 1 down to 1 - length.
static value *by_distance(streaming *s, value *table, int64_t zero, value *length) {
    int axis = table->type.rank - 1;
    int64_t last = dim_value(table->type.dims[axis]) - 1;
    value *size = make(s, "Squeeze", 1, &length, NULL), *one = value_int64(s->graph, 1);
    value *from = make(s, "Sub", 2, (value *[]){value_int64(s->graph, zero + 1), size}, NULL),
          *end = make(s, "Add", 2, (value *[]){value_int64(s->graph, zero), size}, NULL);
    value *at = make(s, "Range", 3, (value *[]){from, end, one}, NULL);
    at = make(s, "Max", 2, (value *[]){at, value_int64(s->graph, 0)}, NULL);
    at = make(s, "Min", 2, (value *[]){at, value_int64(s->graph, last)}, NULL);
    attr along = {.name = "axis", .kind = ATTR_INT, .i = axis};
    return make(s, "Gather", 2, (value *[]){table, at}, &along);
}

// The constants in front, then a and b.
static value *shape_of(streaming *s, const int64_t *front, int n, value *a, value *b) {
    attr axis = {.name = "axis", .kind = ATTR_INT};
    value *parts[] = {ints(s, front, n), a, b};
    return n ? make(s, "Concat", 3, parts, &axis) : make(s, "Concat", 2, parts + 1, &axis);
}

static value *cut(streaming *s, value *v, int64_t axis, int64_t from, value *end) {
    value *in[] = {v, ints(s, &from, 1), end, ints(s, &axis, 1)};
    return make(s, "Slice", 4, in, NULL);
}

static value *reshaped(streaming *s, value *v, value *shape) {
    return make(s, "Reshape", 2, (value *[]){v, shape}, NULL);
}

// y of the shape of `to`, but for its last two axes.
static value *shifted(streaming *s, value *x, const constant *to, value *length) {
    int rank = x->type.rank;
    int64_t rest = -1, last = INT64_MAX, same[MAX_RANK] = {0};
    value *open = ints(s, &rest, 1);
    x = pad_axis(s, x, rank - 1, 1, 0, "constant");
    x = reshaped(s, x, shape_of(s, same, rank - 2, open, length));
    x = cut(s, x, rank - 2, 1, ints(s, &last, 1));
    x = reshaped(s, x, shape_of(s, to->dims, to->rank - 2, length, open));
    return cut(s, x, to->rank - 1, 0, length);
}

node *adjust_relative(streaming *s, node *n) {
    value *query = n->in[0], *table = n->in[1];
    int axis = query->type.rank - 2;
    int64_t was = axis >= 0 ? exported_size(s, query->type.dims[axis]) : -1;
    if (was < 2 || !dim_has_atom(query->type.dims[axis], s->length)) return NULL;
    const constant *c = known_elements(s, table);
    shift found = {.out = NULL};
    infer_node(n);
    if (!c || c->rank < 2 || n->out[0]->type.elem != DT_F32) return NULL;
    if (!find_shift(s, n->out[0], was, &found)) return NULL;
    s->at = n;
    value *length = size_along(s, query, axis);
    value *columns = by_distance(s, value_constant(s->graph, NULL, (constant *)c), found.zero, length);
    value *x = make(s, "MatMul", 2, (value *[]){query, columns}, NULL);
    value *y = shifted(s, x, found.to, length);
    value_replace(found.out, y);
    pass_dce(s->context);
    return y->def;
}
