// In: a graph whose signals have a symbolic length, before inference. Out: the graph, inferred, in which nothing depends on the
// length that the signal had at the export:
//   Reshape(x, [1, 100, 4, 16])    of a signal of 100 samples: the place of time gets -1, or the size of x
//   Slice(x, 0, 98)                up to 2 samples before the end
//   Expand(x, [1, 100, 8]), Resize(x, sizes = [1, 8, 200])
//   Add(x, table[100, 8])          Gather(table, Range(0, length)); so too Slice(table[500, 8], 0, length)
//   Gather(x, indices[9, 20])      of nine frames that follow one another up to the end: as many as the signal has
//   Add(scores, mask[100, 100])    Gather(the mask by distance, Range - Range), if the mask depends on distance alone, or repeats
#include "passes/stream/stream_impl.h"
#include <string.h>

enum { MOST = 64 }; // elements of a shape

static bool over_time(const streaming *s, const dim *d) { return dim_has_atom(d, s->length); }

// ---------------------------------------------------------------- sizes of the export
static bool at_export(void *user, const dim *atom, int64_t *value) {
    const streaming *s = user;
    *value = s->module->streams.at[0].exported;
    return atom == s->length && *value > 0;
}

int64_t exported_size(const streaming *s, const dim *d) {
    int64_t v;
    return dim_eval(d, at_export, (void *)s, &v) ? v : -1;
}

typedef struct assumed {
    const dim *symbol;
    int64_t value;
} assumed;

static bool assume(void *user, const dim *atom, int64_t *value) {
    const assumed *a = user;
    *value = a->value;
    return atom == a->symbol;
}

bool dim_at(const streaming *s, const dim *d, int64_t length, int64_t *v) {
    return dim_eval(d, assume, &(assumed){s->length, length}, v);
}

bool dim_at_steps(const streaming *s, const dim *d, int64_t v[2]) {
    enum { STEPS = 1024 };
    int64_t samples = s->module->streams.at[0].samples;
    return dim_at(s, d, samples * STEPS, &v[0]) && dim_at(s, d, samples * (STEPS + 1), &v[1]);
}

// ---------------------------------------------------------------- values
static value *picked(streaming *s, value *list, int64_t first, int64_t end) {
    value *in[] = {list, ints(s, &first, 1), ints(s, &end, 1)};
    return make(s, "Slice", 3, in, NULL);
}

value *size_along(streaming *s, value *v, int axis) {
    return picked(s, make(s, "Shape", 1, &v, NULL), axis, axis + 1);
}

// 0, 1 ... up to a size of rank 1.
static value *places(streaming *s, value *size) {
    value *scalar = make(s, "Squeeze", 1, &size, NULL);
    return make(s, "Range", 3, (value *[]){value_int64(s->graph, 0), scalar, value_int64(s->graph, 1)}, NULL);
}

// Element i of a shape becomes `to`, of rank 1.
static value *with_element(streaming *s, value *shape, int count, int i, value *to) {
    value *parts[3];
    int n = 0;
    if (i > 0) parts[n++] = picked(s, shape, 0, i);
    parts[n++] = to;
    if (i + 1 < count) parts[n++] = picked(s, shape, i + 1, count);
    attr axis = {.name = "axis", .kind = ATTR_INT};
    return make(s, "Concat", n, parts, &axis);
}

// size * times / by
static value *scaled(streaming *s, value *size, int64_t times, int64_t by) {
    if (times != 1) size = make(s, "Mul", 2, (value *[]){size, ints(s, &times, 1)}, NULL);
    return by == 1 ? size : make(s, "Div", 2, (value *[]){size, ints(s, &by, 1)}, NULL);
}

static const constant *known_at_depth(streaming *s, value *v, int depth) {
    enum { DEPTH = 64 };
    if (v->constant) return v->constant;
    const constant *c = map_get_number(&s->probes, (uint64_t)v->id);
    if (c || !v->def || depth > DEPTH || v->def->graph != s->graph) return c;
    map as = {.arena = s->arena};
    for (int i = 0; i < v->def->nin; i++) {
        value *in = v->def->in[i];
        const constant *k = in ? known_at_depth(s, in, depth + 1) : NULL;
        if (in && !k) return NULL;
        if (in && !in->constant)
            map_put_number(&as, (uint64_t)in->id, value_constant(s->graph, NULL, (constant *)k));
    }
    constant **all = evaluate_copy(s, v->def, &as);
    if (!all) return NULL;
    map_put_number(&s->probes, (uint64_t)v->id, all[v->def_index]);
    return all[v->def_index];
}

const constant *known_elements(streaming *s, value *v) { return known_at_depth(s, v, 0); }

// ---------------------------------------------------------------- Reshape
typedef struct shape_list {
    int n;
    dim *at[MOST]; // NULL: -1
} shape_list;

static bool target_of(const node *n, shape_list *t) {
    const type *x = &n->in[0]->type;
    int count;
    dim **to = infer_contents(n, 1, &count);
    if (!to || count > MOST) return false;
    t->n = count;
    for (int i = 0; i < count; i++) {
        bool copied = dim_is(to[i], 0) && !node_int(n, "allowzero", 0) && i < x->rank;
        t->at[i] = copied ? x->dims[i] : dim_is(to[i], -1) ? NULL : to[i];
    }
    return true;
}

static dim *product(streaming *s, const shape_list *t, int from, int to) {
    dim *p = dim_const(s->module->dims, 1);
    for (int i = from; p && i < to; i++) p = t->at[i] ? dim_mul(p, t->at[i]) : NULL;
    return p;
}

// An axis of which each sample has `parts` of other axes before the one of time: time was merged with them.
static bool holds_parts(dim *axis, const dim *before, const dim *outer, int64_t *parts) {
    if (!dim_is_const(before) || !dim_is_const(outer) || dim_value(outer) <= 0) return false;
    *parts = dim_value(before) / dim_value(outer);
    return *parts > 1 && dim_value(before) % dim_value(outer) == 0 && dim_divisible(axis, *parts);
}

// Whether element i of the target is the time of x along `axis`. It has *times / *by as many samples as x.
static bool is_time(streaming *s, const type *x, int axis, const shape_list *t, int i, int64_t *times,
                    int64_t *by) {
    dims *table = s->module->dims;
    dim *outer = dim_product(table, x->dims, axis),
        *inner = dim_product(table, x->dims + axis + 1, x->rank - axis - 1);
    dim *before = product(s, t, 0, i), *behind = product(s, t, i + 1, t->n);
    int64_t was = exported_size(s, x->dims[axis]), parts;
    if (!t->at[i] || !dim_is_const(t->at[i]) || !behind) return false;
    *times = *by = 1;
    if (before && before != outer)
        return was > 0 && behind == inner && holds_parts(x->dims[axis], before, outer, &parts) &&
               was == dim_value(t->at[i]) * parts;
    if (!before && was < 0) return false;
    if (behind != inner) {
        if (!dim_is_const(behind) || !dim_is_const(inner) || dim_value(behind) <= 0) return false;
        *times = dim_value(inner), *by = dim_value(behind);
        if (*times % *by && *by % *times) return false;
    }
    bool several = dim_value(t->at[i]) > 1; // samples
    return was < 0 ? several : (several || was == 1) && was * *times == dim_value(t->at[i]) * *by;
}

static int64_t factor(int64_t times, int64_t by) { return times > by ? times / by : by / times; }

static void adjust_reshape(streaming *s, node *n) {
    const type *x = &n->in[0]->type;
    shape_list t;
    bool several, open = false;
    if (x->rank < 0 || !target_of(n, &t)) return;
    int axis = time_axis(x, s->length, &several), times_over = 0;
    for (int i = 0; i < t.n; i++) open |= !t.at[i], times_over += t.at[i] && over_time(s, t.at[i]);
    if (axis == NO_TIME || several || times_over) return;
    int64_t times, by, best_times = 0, best_by = 0;
    int best = -1;
    for (int i = 0; i < t.n; i++) {
        if (!is_time(s, x, axis, &t, i, &times, &by)) continue;
        if (best >= 0 && factor(times, by) >= factor(best_times, best_by)) continue;
        best = i, best_times = times, best_by = by;
    }
    if (best < 0 || (open && exported_size(s, x->dims[axis]) < 0)) return;
    int64_t rest = -1;
    value *size = open ? scaled(s, size_along(s, n->in[0], axis), best_times, best_by) : ints(s, &rest, 1);
    node_set_in(n, 1, with_element(s, n->in[1], t.n, best, size));
}

// x[.., T, T, ..] to a target in which both are constants, with the same elements before, between and after them.
static void adjust_pair_reshape(streaming *s, node *n) {
    const type *x = &n->in[0]->type;
    shape_list t;
    int query, keys;
    if (x->rank < 0 || !is_pair(s, x, &query, &keys) || !target_of(n, &t)) return;
    dims *table = s->module->dims;
    dim *outer = dim_product(table, x->dims, query),
        *inner = dim_product(table, x->dims + keys + 1, x->rank - keys - 1),
        *between = dim_product(table, x->dims + query + 1, keys - query - 1);
    for (int i = 0; i < t.n; i++)
        for (int j = i + 1; j < t.n; j++) {
            if (!t.at[i] || !dim_is_const(t.at[i]) || t.at[i] != t.at[j] || dim_is(t.at[i], 1)) continue;
            if (product(s, &t, 0, i) != outer || product(s, &t, i + 1, j) != between ||
                product(s, &t, j + 1, t.n) != inner)
                continue;
            value *shape = with_element(s, n->in[1], t.n, i, size_along(s, n->in[0], query));
            node_set_in(n, 1, with_element(s, shape, t.n, j, size_along(s, n->in[0], keys)));
            return;
        }
}

// ---------------------------------------------------------------- Expand, Resize
// Elements of Expand's shape for axes of time: 1 keeps the axis.
static void adjust_expand(streaming *s, node *n) {
    const type *x = &n->in[0]->type;
    int count;
    dim **to = infer_contents(n, 1, &count);
    if (!to || x->rank < 0 || count > MOST) return;
    for (int i = 0; i < count; i++) {
        int axis = i - count + x->rank;
        int64_t one = 1;
        if (axis < 0 || !over_time(s, x->dims[axis]) || !dim_is_const(to[i]) || dim_is(to[i], 1)) continue;
        node_set_in(n, 1, with_element(s, n->in[1], count, i, ints(s, &one, 1)));
    }
}

// How often `now` contains `was`, a whole number or the inverse of one; 0: it is neither.
static double ratio(streaming *s, dim *was, dim *now) {
    enum { RATIO_MOST = 64 };
    if (was == now) return 1;
    for (int64_t k = 2; k <= RATIO_MOST; k++) {
        if (now == dim_mulk(was, k)) return (double)k;
        if (was == dim_mulk(now, k)) return 1 / (double)k;
    }
    int64_t from = exported_size(s, was), to = exported_size(s, now), many[2][2];
    if (from <= 0 && dim_at_steps(s, was, many[0]) && dim_at_steps(s, now, many[1]) &&
        many[0][0] * many[1][1] == many[0][1] * many[1][0])
        from = many[0][0], to = many[1][0];
    if (from <= 0 || to <= 0 || (to % from && from % to)) return 0;
    return (double)to / (double)from;
}

// Sizes become the scales of which they are the result.
static void adjust_resize(streaming *s, node *n) {
    enum { SCALES = 2, SIZES = 3 };
    const type *x = &n->in[0]->type;
    int count;
    bool times = false;
    dim **to = node_in(n, SIZES) && !node_attr(n, "axes") ? infer_contents(n, SIZES, &count) : NULL;
    if (!to || x->rank != count) return;
    int64_t rank = count;
    constant *scales = constant_new(s->arena, DT_F32, 1, &rank);
    for (int i = 0; i < count; i++) {
        float scale = (float)ratio(s, x->dims[i], to[i]);
        if (scale == 0) return;
        memcpy((float *)scales->data + i, &scale, sizeof scale);
        times |= over_time(s, x->dims[i]);
    }
    if (!times) return;
    node_set_in(n, SIZES, NULL);
    node_set_in(n, SCALES, value_constant(s->graph, NULL, scales));
}

// An axis of one element, for which torch's positions are others: a signal is longer, though a step may have one sample.
static void adjust_positions(streaming *s, node *n) {
    enum { SCALES = 2 };
    const type *x = &n->in[0]->type;
    const constant *scales = node_in(n, SCALES) ? known_elements(s, n->in[SCALES]) : NULL;
    if (strcmp(node_string(n, "coordinate_transformation_mode", ""), "pytorch_half_pixel") != 0) return;
    if (!scales || scales->count != x->rank) return;
    for (int i = 0; i < x->rank; i++)
        if (constant_float(scales, i) != 1 && !over_time(s, x->dims[i])) return;
    const char half[] = "half_pixel";
    node_set_attr(n, (attr){.name = "coordinate_transformation_mode",
                            .kind = ATTR_STRING,
                            .s = arena_strdup(s->arena, half),
                            .size = sizeof half - 1});
}

// ---------------------------------------------------------------- tables of positions
// One table of distances q - k for each of `period` places of q; a distance that a place does not have has the value of the
// next one that it has.
static constant *by_distance(streaming *s, const constant *c, int axis, int64_t period) {
    int64_t n = c->dims[axis], wide = 2 * n - 1, dims[MAX_RANK], inner = 1, outer = 1;
    for (int j = 0; j < axis; j++) outer *= dims[j] = c->dims[j];
    dims[axis] = period * wide;
    for (int j = axis + 2; j < c->rank; j++) inner *= dims[j - 1] = c->dims[j];
    constant *table = new_constant(s, c->elem, c->rank - 1, dims);
    for (int64_t e = 0; table && e < table->count; e++) {
        int64_t in = e % inner, d = e / inner % wide - (n - 1), place = e / inner / wide % period;
        int64_t out = e / inner / wide / period;
        int64_t q = d > place ? d + (period - (d - place) % period) % period : place;
        while (q >= n) q -= period;
        int64_t k = q - d;
        if (k < 0) k = 0;
        if (k >= n) k = n - 1;
        constant_copy(c, ((out * n + q) * n + k) * inner + in, c->elem, (void *)table->data, e);
    }
    return outer ? table : NULL;
}

static bool same(const constant *c, int64_t a, int64_t b) {
    double x = constant_float(c, a), y = constant_float(c, b);
    return x == y || (x != x && y != y);
}

// The shortest step along both axes that changes nothing, with at least two of them in c; 0: none.
static int64_t period_of(const streaming *s, const constant *c, int axis) {
    int64_t n = c->dims[axis], inner = 1, work = s->context->fold_work;
    for (int j = axis + 2; j < c->rank; j++) inner *= c->dims[j];
    for (int64_t p = 1; 2 * p <= n && work > 0; p++) {
        bool repeats = true;
        for (int64_t e = 0; repeats && e < c->count; e++, work--) {
            int64_t q = e / inner / n % n, k = e / inner % n;
            repeats = q < p || k < p || same(c, e, e - p * (n + 1) * inner);
        }
        if (repeats) return p;
    }
    return 0;
}

// The function of positions whose first values the square has. NULL: it is no such square.
static value *extended(streaming *s, const constant *c, int axis, value *length) {
    int64_t period = period_of(s, c, axis), n = c->dims[axis], wide = 2 * n - 1, zero = 0, last = wide - 1,
            middle = n - 1;
    constant *table = period ? by_distance(s, c, axis, period) : NULL;
    if (!table) return NULL;
    value *all = places(s, length), *at[2];
    for (int64_t j = 0; j < 2; j++) {
        int64_t other = 1 - j;
        at[j] = make(s, "Unsqueeze", 2, (value *[]){all, ints(s, &other, 1)}, NULL);
    }
    value *d = make(s, "Add", 2, (value *[]){make(s, "Sub", 2, at, NULL), ints(s, &middle, 1)}, NULL);
    d = make(s, "Max", 2, (value *[]){d, ints(s, &zero, 1)}, NULL);
    d = make(s, "Min", 2, (value *[]){d, ints(s, &last, 1)}, NULL);
    if (period > 1) {
        value *place = make(s, "Mod", 2, (value *[]){at[0], ints(s, &period, 1)}, NULL);
        d = make(s, "Add", 2, (value *[]){d, scaled(s, place, wide, 1)}, NULL);
    }
    attr along = {.name = "axis", .kind = ATTR_INT, .i = axis};
    return make(s, "Gather", 2, (value *[]){value_constant(s->graph, NULL, table), d}, &along);
}

// first + step * i, if these are the elements of c. NULL: they are not.
static value *counted(streaming *s, const constant *c, int axis, value *length) {
    int64_t n = c->dims[axis], dims[MAX_RANK];
    if (c->count != n || n < 2 || c->elem == DT_BOOL) return NULL;
    double first = constant_float(c, 0), step = constant_float(c, 1) - first;
    for (int64_t i = 0; i < n; i++)
        if (constant_float(c, i) != first + step * (double)i) return NULL;
    for (int j = 0; j < c->rank; j++) dims[j] = j == axis ? -1 : 1;
    attr to = {.name = "to", .kind = ATTR_INT, .i = (int)c->elem};
    value *at = make(s, "Cast", 1, (value *[]){places(s, length)}, &to);
    at = make(s, "Mul", 2, (value *[]){at, value_constant(s->graph, NULL, numbers(s, c->elem, -1, step, 0))},
              NULL);
    at = make(s, "Add", 2, (value *[]){at, value_constant(s->graph, NULL, numbers(s, c->elem, -1, first, 0))},
              NULL);
    return make(s, "Reshape", 2, (value *[]){at, ints(s, dims, c->rank)}, NULL);
}

// After how many rows the table repeats, with at least two of them after the first ones, which may differ, such as the weights of
// samples at the edge of an interpolation: at most a quarter. Its length: it does not.
static int64_t repeats_after(const streaming *s, const constant *c, int axis, int64_t *first) {
    int64_t n = c->dims[axis], inner = stride_of(c, axis), work = s->context->fold_work;
    for (*first = 0; 4 * *first <= n; ++*first)
        for (int64_t p = 1; *first + 2 * p <= n && work > 0; p++) {
            bool repeats = true;
            for (int64_t e = 0; repeats && e < c->count; e++, work--)
                repeats = e / inner % n < *first + p || same(c, e, e - p * inner);
            if (repeats) return p;
        }
    return n;
}

// The row of each position: min(t, first + (t - first) mod period).
static value *repeated_places(streaming *s, value *t, int64_t first, int64_t period) {
    if (!first) return make(s, "Mod", 2, (value *[]){t, ints(s, &period, 1)}, NULL);
    value *from = ints(s, &first, 1);
    value *at = make(s, "Mod", 2,
                     (value *[]){make(s, "Sub", 2, (value *[]){t, from}, NULL), ints(s, &period, 1)}, NULL);
    return make(s, "Min", 2, (value *[]){t, make(s, "Add", 2, (value *[]){at, from}, NULL)}, NULL);
}

// Rows of a table by position, or its one row if all are equal.
static value *rows_of(streaming *s, const constant *c, int axis, value *length) {
    int64_t n = c->dims[axis], first, period = repeats_after(s, c, axis, &first), zero = 0;
    bool equal = period == 1 && !first;
    value *v = value_constant(s->graph, NULL, (constant *)c);
    attr along = {.name = "axis", .kind = ATTR_INT, .i = axis};
    value *count = equal ? NULL : counted(s, c, axis, length);
    if (count) return count;
    value *at = equal ? ints(s, &zero, 1) : places(s, length);
    if (!equal && period < n) at = repeated_places(s, at, first, period);
    return make(s, "Gather", 2, (value *[]){v, at}, &along);
}

static bool is_square(const constant *c, int axis) {
    return axis >= 0 && axis + 1 < c->rank && c->dims[axis] == c->dims[axis + 1];
}

// ---------------------------------------------------------------- Slice
// The axis of a Slice along one axis, with step 1; *start: where it begins. -1: it is none.
static int64_t only_axis(const node *n, dim **start) {
    int count;
    dim **starts = infer_contents(n, 1, &count);
    if (!starts || count != 1) return -1;
    *start = starts[0];
    if (node_in(n, 4)) {
        dim **steps = infer_contents(n, 4, &count);
        if (!steps || !dim_is(steps[0], 1)) return -1;
    }
    dim **axes = node_in(n, 3) ? infer_contents(n, 3, &count) : NULL;
    if (node_in(n, 3) && (!axes || !dim_is_const(axes[0]))) return -1;
    int64_t axis = axes ? dim_value(axes[0]) : 0;
    return axis < 0 ? axis + n->in[0]->type.rank : axis;
}

// Rows of a table of distances, as many before its middle as after it; distances that it does not have count as its longest ones.
static value *rows_around_middle(streaming *s, const node *n, const constant *c, int axis) {
    value *one = value_int64(s->graph, 1), *zero = value_int64(s->graph, 0);
    value *from = make(s, "Squeeze", 1, &n->in[1], NULL), *to = make(s, "Squeeze", 1, &n->in[2], NULL);
    value *at = make(s, "Range", 3, (value *[]){from, to, one}, NULL);
    at = make(s, "Max", 2, (value *[]){at, zero}, NULL);
    at = make(s, "Min", 2, (value *[]){at, value_int64(s->graph, c->dims[axis] - 1)}, NULL);
    attr along = {.name = "axis", .kind = ATTR_INT, .i = axis};
    return make(s, "Gather", 2, (value *[]){n->in[0], at}, &along);
}

// The first positions of a table, one for each sample, or the distances of samples.
static void adjust_table_slice(streaming *s, node *n) {
    int count;
    const constant *c = known_elements(s, n->in[0]);
    dim *start = NULL;
    int axis = (int)only_axis(n, &start);
    dim **ends = infer_contents(n, 2, &count);
    if (!c || axis < 0 || axis >= c->rank || !ends || !over_time(s, ends[0])) return;
    if (over_time(s, start) && over_time(s, dim_sub(ends[0], start))) {
        value_replace(n->out[0], rows_around_middle(s, n, c, axis));
        return;
    }
    if (!dim_is(start, 0)) return;
    int square = is_square(c, axis) ? axis : is_square(c, axis - 1) ? axis - 1 : -1;
    value *v = square >= 0 ? extended(s, c, square, n->in[2]) : NULL;
    value_replace(n->out[0], v ? v : rows_of(s, c, axis, n->in[2]));
}

// Element i of a Slice's steps.
static bool steps_by_one(const node *n, int i) {
    int count;
    dim **steps = node_in(n, 4) ? infer_contents(n, 4, &count) : NULL;
    return !node_in(n, 4) || (steps && i < count && dim_is(steps[i], 1));
}

// Input `which` of a Slice has its ends, or where it begins: constant element i becomes `to`.
static void set_position(streaming *s, node *n, int which, int count, int i, int64_t to) {
    node_set_in(n, which, with_element(s, n->in[which], count, i, ints(s, &to, 1)));
}

// A Slice that ends after more than half of the signal ends before the signal's end; one that begins before the last half, counted
// from the end, begins after as many samples.
static void adjust_slice(streaming *s, node *n) {
    const type *x = &n->in[0]->type;
    int count, starts_count, axes_count;
    if (known_elements(s, n->in[0])) {
        adjust_table_slice(s, n);
        return;
    }
    dim **ends = infer_contents(n, 2, &count), **starts = infer_contents(n, 1, &starts_count),
        **axes = node_in(n, 3) ? infer_contents(n, 3, &axes_count) : NULL;
    if (!ends || x->rank < 0 || count > MOST || (node_in(n, 3) && (!axes || axes_count != count))) return;
    for (int i = 0; i < count; i++) {
        if (axes && !dim_is_const(axes[i])) continue;
        int64_t axis = axes ? dim_value(axes[i]) : i, last = INT64_MAX;
        if (axis < 0) axis += x->rank;
        if (axis < 0 || axis >= x->rank || !over_time(s, x->dims[axis])) continue;
        int64_t was = exported_size(s, x->dims[axis]), end = dim_is_const(ends[i]) ? dim_value(ends[i]) : 0,
                start = starts && starts_count == count && dim_is_const(starts[i]) ? dim_value(starts[i]) : 0;
        if (was <= 0) continue;
        if (end > was / 2 && end != last) set_position(s, n, 2, count, i, end >= was ? last : end - was);
        if (was > 2 && start < -was / 2 && steps_by_one(n, i))
            set_position(s, n, 1, count, i, start > -was ? was + start : 0);
    }
}

// ---------------------------------------------------------------- inputs that are broadcast
static bool broadcasts(const node *n) {
    static const char *const names[] = {"Add",  "Sub",     "Mul", "Div",   "Where",       "And",
                                        "Or",   "Xor",     "Max", "Min",   "Pow",         "Equal",
                                        "Less", "Greater", "Mod", "PRelu", "LessOrEqual", "GreaterOrEqual"};
    for (size_t j = 0; j < sizeof names / sizeof *names; j++)
        if (node_is(n, names[j])) return true;
    return false;
}

// The size over time of another input at the j-th axis from the end; NULL: none has one.
static value *time_of_other_input(streaming *s, const node *n, int i, int from_end) {
    for (int other = 0; other < n->nin; other++) {
        value *v = n->in[other];
        int axis = v && other != i ? v->type.rank - 1 - from_end : -1;
        if (axis >= 0 && over_time(s, v->type.dims[axis])) return size_along(s, v, axis);
    }
    return NULL;
}

// v, of one sample, for each sample.
static value *repeated(streaming *s, value *v, int axis, value *length) {
    int64_t ones[MAX_RANK];
    for (int j = 0; j < v->type.rank; j++) ones[j] = 1;
    value *shape = with_element(s, ints(s, ones, v->type.rank), v->type.rank, axis, length);
    return make(s, "Expand", 2, (value *[]){v, shape}, NULL);
}

// Input i of a node that broadcasts its inputs, or joins them along the axis `joined`; -1: it broadcasts.
static void adjust_table(streaming *s, node *n, int i, int joined) {
    const type *t = &n->in[i]->type;
    value *length = NULL;
    int axis = -1, count = 0;
    for (int j = 0; t->kind == TYPE_TENSOR && j < t->rank; j++) {
        if (j == joined || !dim_is_const(t->dims[j]) || dim_is(t->dims[j], 1)) continue;
        value *beside = time_of_other_input(s, n, i, t->rank - 1 - j);
        if (!beside) continue;
        if (!count++) length = beside, axis = j;
    }
    const constant *c = count ? known_elements(s, n->in[i]) : NULL;
    if (!c) return;
    value *v = count == 1                         ? rows_of(s, c, axis, length)
               : count == 2 && is_square(c, axis) ? extended(s, c, axis, length)
                                                  : NULL;
    if (!v)
        diag_fatal(s->module->diag, n->loc,
                   "--stream: input %d of this node is a constant of %lld by %lld samples, and its elements "
                   "depend on more than the distance of two samples",
                   i, (long long)c->dims[axis], (long long)c->dims[axis]);
    if (joined >= 0 && dim_is(v->type.dims[axis], 1)) v = repeated(s, v, axis, length);
    node_set_in(n, i, v);
}

static void adjust_concat(streaming *s, node *n) {
    int rank = n->in[0]->type.rank, axis = (int)node_int(n, "axis", 0);
    if (axis < 0) axis += rank;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i]->type.rank == rank && axis >= 0) adjust_table(s, n, i, axis);
}

// The first states of a recurrent layer along another axis of each sample, whose batch are the samples.
static void adjust_states(streaming *s, node *n) {
    int batch = node_int(n, "layout", 0) ? 0 : 1;
    const type *x = &n->in[0]->type;
    if (x->rank != 3 || !over_time(s, x->dims[batch])) return;
    for (int i = 5; i < 7 && i < n->nin; i++) {
        const type *t = n->in[i] ? &n->in[i]->type : NULL;
        bool fixed = t && t->kind == TYPE_TENSOR && t->rank == 3 && dim_is_const(t->dims[batch]);
        const constant *c = fixed ? known_elements(s, n->in[i]) : NULL;
        if (!c) continue;
        value *samples = size_along(s, n->in[0], batch), *v = rows_of(s, c, batch, samples);
        node_set_in(n, i, dim_is(v->type.dims[batch], 1) ? repeated(s, v, batch, samples) : v);
    }
}

// ---------------------------------------------------------------- Gather
// The axis of frames among those of indices: their places follow one another up to the end of a signal of that length. -1: none.
static int axis_of_frames(const constant *c, int64_t length, window *w) {
    int best = -1;
    for (int j = 0; j < c->rank; j++) {
        window is;
        if (!window_of_indices(c, j, &is) || is.hi >= length) continue;
        if ((length - 1 - is.hi) / is.up + 1 != c->dims[j]) continue;
        if (best >= 0 && (is.up < w->up || (is.up == w->up && c->dims[j] <= c->dims[best]))) continue;
        best = j, *w = is;
    }
    return best;
}

// The indices of the first frame.
static constant *first_indices(streaming *s, const constant *c, int axis) {
    int64_t dims[MAX_RANK], stride = stride_of(c, axis), n = c->dims[axis];
    memcpy(dims, c->dims, (size_t)c->rank * sizeof *dims);
    dims[axis] = 1;
    constant *first = constant_new(s->arena, DT_I64, c->rank, dims);
    for (int64_t e = 0; e < first->count; e++)
        ((int64_t *)first->data)[e] = constant_int(c, e / stride * stride * n + e % stride);
    return first;
}

// Frames of a signal by indices become as many as the signal has: first + up * position.
static void adjust_gather(streaming *s, node *n) {
    const type *x = &n->in[0]->type;
    int64_t axis = node_int(n, "axis", 0), dims[MAX_RANK];
    if (axis < 0) axis += x->rank;
    const constant *c =
        axis >= 0 && axis < x->rank && over_time(s, x->dims[axis]) ? known_elements(s, n->in[1]) : NULL;
    int64_t was = c ? exported_size(s, x->dims[axis]) : -1;
    window w;
    int along = was > 0 ? axis_of_frames(c, was, &w) : -1;
    if (along < 0) {
        repeat_samples(s, n, c, was);
        return;
    }
    for (int j = 0; j < c->rank; j++) dims[j] = j == along ? -1 : 1;
    int64_t rest = w.up - w.hi - 1;
    value *size = make(s, "Add", 2, (value *[]){size_along(s, n->in[0], (int)axis), ints(s, &rest, 1)}, NULL);
    value *at = scaled(s, places(s, scaled(s, size, 1, w.up)), w.up, 1);
    at = make(s, "Reshape", 2, (value *[]){at, ints(s, dims, c->rank)}, NULL);
    value *first = value_constant(s->graph, NULL, first_indices(s, c, along));
    node_set_in(n, 1, make(s, "Add", 2, (value *[]){at, first}, NULL));
}

// ---------------------------------------------------------------- nodes
static void adjust_node(streaming *s, node *n) {
    s->at = n;
    bool standard = !*n->op->domain;
    if (!standard || !n->nin || !n->in[0] || n->in[0]->type.kind != TYPE_TENSOR) return;
    if (node_is(n, "Reshape")) adjust_reshape(s, n), adjust_pair_reshape(s, n);
    else if (node_is(n, "Expand")) adjust_expand(s, n);
    else if (node_is(n, "Resize")) adjust_resize(s, n), adjust_positions(s, n);
    else if (node_is(n, "Slice")) adjust_slice(s, n);
    else if (node_is(n, "Gather")) adjust_gather(s, n);
    else if (node_is(n, "Concat")) adjust_concat(s, n);
    else if (node_is(n, "GRU") || node_is(n, "LSTM") || node_is(n, "RNN")) adjust_states(s, n);
    else if (broadcasts(n))
        for (int i = 0; i < n->nin; i++)
            if (n->in[i]) adjust_table(s, n, i, -1);
}

// Frames that are added where they overlap. False: n does not add any.
static bool adjust_overlap(streaming *s, const node *n) {
    if (*n->op->domain) return false;
    if (node_is(n, "ScatterND"))
        return add_scattered(s, n, known_elements(s, n->in[0]), known_elements(s, n->in[1]));
    return add_blocks(s, n);
}

void pass_stream_sizes(pass_context *c) {
    module *m = c->module;
    if (!m->streams.n) return;
    const stream_input *first = &m->streams.at[0];
    streaming s = {.context = c, .module = m, .arena = m->arena, .graph = m->main};
    s.probes.arena = m->arena;
    s.length = first->input->type.dims[first->axis];
    for (int j = 0; j < m->main->nodes.n;) {
        node *n = m->main->nodes.at[j], *next = node_next(n);
        if (adjust_overlap(&s, n)) {
            node_delete(n);
            j = next ? node_place(next) : m->main->nodes.n;
            continue;
        }
        adjust_node(&s, n);
        node *shifted = node_is(n, "MatMul") && !*n->op->domain ? adjust_relative(&s, n) : NULL;
        if (shifted) n = shifted, next = node_next(n);
        infer_until(m->main, node_place(n), next);
        bool loop = node_is(n, "Loop") && !*n->op->domain, is_scan = loop && !loop_to_scan(&s, n);
        node *layers = loop && !is_scan ? loop_to_layers(&s, n) : NULL;
        if (layers) next = layers;
        if (!loop) replace_length(&s, n);
        j = next ? node_place(next) : m->main->nodes.n;
    }
    pass_dce(c);
}
