// Compares tensors and containers of tensors.
#include "compiler/values/compare.h"
#include "compiler/values/stats.h"
#include "compiler/values/values.h"
#include "runtime-lite/core/numbers.h"
#include "runtime-lite/onnxc.h"
#include <math.h>
#include <string.h>

// Whether got is within tolerance; adds the error to c.
static bool near(comparison *c, double error, double want, tolerance t) {
    number_errors e = {c->max_abs, c->max_rel};
    bool yes = number_near(&e, error, want, t.rtol, t.atol);
    c->max_abs = e.abs, c->max_rel = e.rel;
    return yes;
}

static bool element_same(comparison *c, const tensor *got, const tensor *want, int64_t i, tolerance t) {
    switch (dtype_class_of(want->dtype)) {
    case DC_FLOAT: {
        double g = dtype_load_float(got->dtype, got->data, i),
               w = dtype_load_float(want->dtype, want->data, i);
        return number_same(g, w) || near(c, fabs(g - w), w, t);
    }
    case DC_COMPLEX: {
        dtype part = want->dtype == DT_C64 ? DT_F32 : DT_F64;
        double gr = dtype_load_float(part, got->data, 2 * i), wr = dtype_load_float(part, want->data, 2 * i);
        double gi = dtype_load_float(part, got->data, 2 * i + 1),
               wi = dtype_load_float(part, want->data, 2 * i + 1);
        return (number_same(gr, wr) && number_same(gi, wi)) ||
               near(c, hypot(gr - wr, gi - wi), hypot(wr, wi), t);
    }
    case DC_INT:
    case DC_UINT:
    case DC_BOOL: {
        int64_t g = dtype_load_int(got->dtype, got->data, i), w = dtype_load_int(want->dtype, want->data, i);
        return g == w || near(c, fabs((double)g - (double)w), (double)w, t);
    }
    case DC_STRING: {
        const onnxc_string *g = (const onnxc_string *)got->data + i,
                           *w = (const onnxc_string *)want->data + i;
        return g->size == w->size && memcmp(g->data, w->data, g->size) == 0;
    }
    case DC_NONE: break;
    }
    return false;
}

comparison compare_tensors(arena *a, const tensor *got, const tensor *want, tolerance t) {
    comparison c = {.same = true, .count = want->count};
    bool shape = got->dtype == want->dtype && got->rank == want->rank &&
                 memcmp(got->dims, want->dims, (size_t)want->rank * sizeof *want->dims) == 0;
    if (!shape) {
        c.same = false;
        c.why = arena_printf(a, "is %s, not %s", tensor_text(a, got), tensor_text(a, want));
        return c;
    }
    for (int64_t i = 0; i < want->count; i++) {
        if (element_same(&c, got, want, i, t)) continue;
        if (c.differing++ == 0) c.first = i;
        c.same = false;
    }
    if (c.same) return c;
    text g = {.arena = a}, w = {.arena = a};
    element_print(&g, got, c.first);
    element_print(&w, want, c.first);
    c.got = text_str(&g), c.want = text_str(&w), c.at = position_text(a, want, c.first);
    return c;
}

static comparison differ(const char *why) { return (comparison){.why = why}; }

// Maps are unordered: entries are compared by key.
static int64_t *key_order(arena *a, const import_value *map) {
    int64_t *order = ARENA_ARRAY(a, int64_t, map->keys->count + 1);
    sort_keys(map->keys, order);
    return order;
}

static comparison compare_keys(arena *a, const import_value *got, const int64_t *got_at,
                               const import_value *want, const int64_t *want_at) {
    tensor g = tensor_of(a, pick_constant(a, got->keys, got_at, got->n));
    tensor w = tensor_of(a, pick_constant(a, want->keys, want_at, want->n));
    comparison c = compare_tensors(a, &g, &w, (tolerance){0, 0});
    if (!c.same && !c.why) c.why = arena_printf(a, "has key %s instead of %s", c.got, c.want);
    return c;
}

// A map's number in the type of the model: files written from Python's dictionaries have only double and
// int64.
static const import_value *map_number(arena *a, const import_value *want, const import_value *got) {
    if (got->kind != TYPE_TENSOR || got->tensor->elem == DT_STRING || !map_takes(got->tensor->elem, want))
        return want;
    tensor one = tensor_new(a, got->tensor->elem, 0, NULL);
    constant_copy(want->tensor, 0, one.dtype, one.data, 0);
    return value_of_tensor(a, want->name, &one);
}

// Adds the position in the container to the result of an item.
static comparison inside(arena *a, const comparison *c, const import_value *holder, int64_t item) {
    comparison all = *c;
    text at = {.arena = a};
    tensor keys = holder->keys ? tensor_of(a, holder->keys) : (tensor){0};
    text_add(&at, "[");
    if (holder->keys) element_print(&at, &keys, item);
    else text_printf(&at, "%lld", (long long)item);
    text_add(&at, "]");
    if (c->why) all.why = arena_printf(a, "%s: %s", text_str(&at), c->why);
    else all.at = arena_printf(a, "%s%s", text_str(&at), c->at);
    return all;
}

comparison compare_values(arena *a, const import_value *got, const import_value *want, tolerance t) {
    if (got->kind != want->kind) return differ("has a different kind");
    if (want->kind == TYPE_TENSOR) {
        tensor g = tensor_of(a, got->tensor), w = tensor_of(a, want->tensor);
        return compare_tensors(a, &g, &w, t);
    }
    if (got->n != want->n) return differ(arena_printf(a, "has %d items, not %d", got->n, want->n));
    comparison all = {.same = true};
    int64_t *got_at = NULL, *want_at = NULL;
    if (want->keys) {
        got_at = key_order(a, got), want_at = key_order(a, want);
        all = compare_keys(a, got, got_at, want, want_at);
    }
    for (int j = 0; all.same && j < want->n; j++) {
        const import_value *g = &got->items[got_at ? got_at[j] : j],
                           *w = &want->items[want_at ? want_at[j] : j];
        comparison c = compare_values(a, g, want->keys ? map_number(a, w, g) : w, t);
        if (!c.same) return inside(a, &c, want, want_at ? want_at[j] : j);
        if (c.max_abs > all.max_abs) all.max_abs = c.max_abs;
        if (c.max_rel > all.max_rel) all.max_rel = c.max_rel;
        all.count += c.count;
    }
    return all;
}

const char *comparison_text(arena *a, const comparison *c) {
    if (c->why) return c->why;
    const char *errors = arena_printf(a, "max abs %.3g, max rel %.3g", c->max_abs, c->max_rel);
    if (c->same) return errors;
    return arena_printf(a, "%lld of %lld elements differ, first%s%s = %s, not %s; %s",
                        (long long)c->differing, (long long)c->count, *c->at ? " " : "", c->at, c->got,
                        c->want, errors);
}
