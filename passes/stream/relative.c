// Scores by distance. Exporters multiply queries by a table of all distances, and shift the rows of the product:
//   x[q, c - d] = query[q] * table[c - d]   for all distances d
//   y[q, k] = x[q, c - (q - k)]             by padding, reshaping and cutting x
// What the nodes do between the product and y is found by running them on numbers, for signals of two lengths. A step has the
// product of its queries by the distances between them and its keys.
#include "passes/stream/stream_impl.h"
#include <string.h>

enum { DEPTH = 64 };

static const constant depends_on_data; // stands for the elements of values that do

static constant *value_at(streaming *s, value *v, int64_t length, map *known, int depth);

static constant *output_at(streaming *s, const value *v, int64_t length, map *known, int depth) {
    node *n = v->def;
    map as = {.arena = s->arena};
    if (!n || depth > DEPTH || n->graph != s->graph) return NULL;
    for (int i = 0; i < n->nin; i++) {
        constant *in = n->in[i] ? value_at(s, n->in[i], length, known, depth + 1) : NULL;
        if (n->in[i] && !in) return NULL;
        if (n->in[i] && !n->in[i]->constant)
            map_put_number(&as, (uint64_t)n->in[i]->id, value_constant(s->graph, NULL, in));
    }
    constant **all = evaluate_copy(s, n, &as);
    return all ? all[v->def_index] : NULL;
}

// v for a signal of `length` samples; NULL: it depends on data. `known`: id of value -> its elements.
static constant *value_at(streaming *s, value *v, int64_t length, map *known, int depth) {
    constant *c = v->constant ? v->constant : map_get_number(known, (uint64_t)v->id);
    if (!c && v->contents) c = sizes_at(s, sizes_of(s, v), length);
    if (!c) c = output_at(s, v, length, known, depth);
    if (!v->constant) map_put_number(known, (uint64_t)v->id, c ? c : (void *)&depends_on_data);
    return c == &depends_on_data ? NULL : c;
}

bool moves_elements(const node *n) {
    if (*n->op->domain) return false;
    static const char *const names[] = {"Concat",  "Gather", "GatherElements", "Pad",
                                        "Reshape", "Slice",  "Squeeze",        "Unsqueeze"};
    for (size_t j = 0; j < sizeof names / sizeof *names; j++)
        if (node_is(n, names[j])) return true;
    return false;
}

static bool over_time(const streaming *s, const value *v, int from_end) {
    int axis = v->type.rank - 1 - from_end;
    return axis >= 0 && dim_has_atom(v->type.dims[axis], s->length);
}

// The product whose elements the nodes before v move; NULL: there is none.
static node *product_before(streaming *s, const value *v) {
    map known = {.arena = s->arena};
    for (int depth = 0; depth < DEPTH && v->def && v->def->graph == s->graph; depth++) {
        node *n = v->def;
        if (node_is(n, "MatMul")) return n;
        if (!moves_elements(n)) return NULL;
        const value *data = NULL;
        for (int i = 0; i < n->nin; i++) {
            bool product =
                n->in[i] && n->in[i]->def && n->in[i]->type.rank >= 2 && !value_at(s, n->in[i], 4, &known, 0);
            if (product && data) return NULL;
            if (product) data = n->in[i];
        }
        if (!data) return NULL;
        v = data;
    }
    return NULL;
}

constant *numbered(streaming *s, const value *x, int64_t length) {
    int64_t dims[MAX_RANK], count = 1, most = 1 << 24;
    for (int j = 0; j < x->type.rank; j++) {
        if (!dim_at(s, x->type.dims[j], length, &dims[j]) || dims[j] < 1 || dims[j] > most / count)
            return NULL;
        count *= dims[j];
    }
    constant *c = constant_new(s->arena, x->type.elem, x->type.rank, dims),
             *all = numbers(s, x->type.elem, count, 0, 1);
    memcpy((void *)c->data, all->data, (size_t)dtype_size(c->elem, count));
    return c;
}

int64_t column_of_zero(const constant *from, const constant *to, int64_t length, bool *ahead) {
    int64_t columns = from->dims[from->rank - 1], zero;
    if (!to || to->rank < 2 || to->dims[to->rank - 1] != length || to->dims[to->rank - 2] != length)
        return -1;
    if (to->count / length != from->count / columns) return -1;
    zero = (int64_t)constant_float(to, 0);
    for (int64_t e = 0; e < to->count; e++) {
        int64_t q = e / length % length, k = e % length, column = zero - q + k;
        bool is = column >= 0 && column < columns &&
                  constant_float(to, e) == (double)(e / length * columns + column);
        if (!is && k <= q) return -1;
        *ahead &= is;
    }
    return zero;
}

// The length of a signal that has so many queries; -1: there is none.
static int64_t signal_with(const streaming *s, const value *y, int64_t queries) {
    enum { MOST_RATE = 64 };
    for (int64_t length = 1, n; length <= queries * MOST_RATE; length++)
        if (dim_at(s, y->type.dims[y->type.rank - 1], length, &n) && n == queries) return length;
    return -1;
}

static int64_t zero_column(streaming *s, value *y, const value *x, int64_t queries, bool *ahead) {
    map known = {.arena = s->arena};
    int64_t length = signal_with(s, y, queries);
    constant *from = length > 0 && x->type.elem == DT_F32 ? numbered(s, x, length) : NULL;
    if (!from) return -1;
    map_put_number(&known, (uint64_t)x->id, from);
    return column_of_zero(from, value_at(s, y, length, &known, 0), queries, ahead);
}

// The table of a signal with so many queries.
static constant *table_for(streaming *s, const value *y, value *table, int64_t queries) {
    int64_t length = signal_with(s, y, queries);
    return length > 0 ? value_at(s, table, length, &(map){.arena = s->arena}, 0) : NULL;
}

// Whether the table for a shorter signal has the same columns by distance; a table for all signals ends somewhere.
static bool same_by_distance(streaming *s, const value *y, const node *product, const relative *r) {
    int64_t length = r->length / 2, zero = r->zero - r->growth * (r->length - length);
    const constant *c = table_for(s, y, product->in[1], length);
    if (!c || c->rank < 2 || c->rank != r->table->rank) return false;
    int64_t columns = c->dims[c->rank - 1], wide = r->table->dims[c->rank - 1];
    if (r->zero >= wide || r->zero < r->length - 1) return false;
    for (int64_t e = 0; e < c->count; e++) {
        int64_t column = r->zero + e % columns - zero;
        if (column < 0 || column >= wide) return false;
        if (constant_float(c, e) != constant_float(r->table, e / columns * wide + column)) return false;
    }
    return true;
}

// The table for the most queries for which it can be computed, and its column of distance 0.
static bool find_table(streaming *s, value *y, const node *product, relative *to) {
    enum { LONGEST = 1024, SHORTEST = 16, SHORT = 5 };
    to->ahead = true;
    int64_t first = zero_column(s, y, product->out[0], SHORT, &to->ahead),
            second = zero_column(s, y, product->out[0], 2 * SHORT, &to->ahead);
    if (first < 0 || second < 0) return false;
    to->growth = (second - first) / SHORT;
    for (to->length = LONGEST; to->length >= SHORTEST; to->length /= 2) {
        to->zero = first + to->growth * (to->length - SHORT);
        to->table = table_for(s, y, product->in[1], to->length);
        if (to->table && same_by_distance(s, y, product, to)) return true;
    }
    return false;
}

// A table of as many distances as there are samples, of one value, stands for that of a step.
static value *placeholder(streaming *s, const constant *table, value *length) {
    int64_t dims[MAX_RANK];
    memcpy(dims, table->dims, (size_t)table->rank * sizeof *dims);
    dims[table->rank - 1] = 1;
    attr along = {.name = "axis", .kind = ATTR_INT, .i = table->rank - 1};
    value *zero = value_int64(s->graph, 0), *one = value_int64(s->graph, 1);
    value *at = make(s, "Range", 3, (value *[]){zero, make(s, "Squeeze", 1, &length, NULL), one}, NULL);
    at = make(s, "Mul", 2, (value *[]){at, zero}, NULL);
    return make(
        s, "Gather", 2,
        (value *[]){value_constant(s->graph, NULL, constant_new(s->arena, table->elem, table->rank, dims)),
                    at},
        &along);
}

bool find_relative(streaming *s, node *n) {
    value *y = n->nout == 1 ? n->out[0] : NULL;
    int query, keys;
    if (!y || !value_uses(y) || !moves_elements(n) || !is_pair(s, &y->type, &query, &keys) ||
        keys != y->type.rank - 1)
        return false;
    node *product = product_before(s, y);
    if (!product || over_time(s, product->in[0], 0) || !over_time(s, product->in[0], 1) ||
        !over_time(s, product->in[1], 0))
        return false;
    relative *r = ARENA_NEW(s->arena, relative);
    if (!find_table(s, y, product, r)) return false;
    s->at = n;
    int64_t axis = product->in[0]->type.rank - 2, end = axis + 1;
    value *length = make(
        s, "Slice", 3,
        (value *[]){make(s, "Shape", 1, &product->in[0], NULL), ints(s, &axis, 1), ints(s, &end, 1)}, NULL);
    value *scores = make(s, "MatMul", 2, (value *[]){product->in[0], placeholder(s, r->table, length)}, NULL);
    map_put_number(&s->relatives, (uint64_t)scores->id, r);
    value_replace(y, scores);
    return true;
}

// Columns of the table from one on.
static constant *columns_of(streaming *s, const constant *table, int64_t from, int64_t count) {
    int64_t dims[MAX_RANK], wide = table->dims[table->rank - 1];
    memcpy(dims, table->dims, (size_t)table->rank * sizeof *dims);
    dims[table->rank - 1] = count;
    constant *c = new_constant(s, table->elem, table->rank, dims);
    for (int64_t e = 0; c && e < c->count; e++) {
        int64_t column = from + e % count; // later keys may have none; masks hide them
        constant_copy(table, e / count * wide + (column < wide ? column : wide - 1), c->elem, (void *)c->data,
                      e);
    }
    return c;
}

// Of queries and keys of the step: x[q, i] is for distance before + rate - 1 - i, and y[q, k] = x[q, rate - 1 - q + k]: x without
// its first rate - 1 elements, in rows that are shorter by one.
void take_relative(streaming *s, const plan *p) {
    const relative *r = p->relative;
    signal *out = signal_of(s, p->node->out[0]);
    int64_t rate = out->rate, keys = s->before + rate + s->ahead, wide = rate + keys,
            behind = s->before + rate - 1;
    bool has = behind < r->length && behind <= r->zero && (r->ahead || !s->ahead);
    constant *table = has ? columns_of(s, r->table, r->zero - behind, wide) : NULL;
    if (!table)
        diag_fatal(s->module->diag, p->node->loc,
                   "--stream: this node has scores of %lld distances, of which a step needs %lld",
                   (long long)r->length, (long long)behind + 1);
    s->at = p->node;
    value *in[] = {samples_of(s, p->in[0], &p->inputs[0]), value_constant(s->graph, NULL, table)};
    value *x = make(s, "MatMul", 2, in, NULL);
    int64_t shape[MAX_RANK] = {0};
    int rank = x->type.rank;
    shape[rank - 2] = -1;
    x = make(s, "Reshape", 2, (value *[]){x, ints(s, shape, rank - 1)}, NULL);
    x = slice_of(s, x, rank - 2, rate - 1, rate - 1 + rate * (wide - 1));
    shape[rank - 2] = rate, shape[rank - 1] = wide - 1;
    x = make(s, "Reshape", 2, (value *[]){x, ints(s, shape, rank)}, NULL);
    out->now = slice_of(s, x, rank - 1, 0, keys);
}
