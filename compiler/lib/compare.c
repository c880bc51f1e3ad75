// Comparing tensors, and the containers of tensors. In: what was got and what was wanted. Out: how far apart.
#include "compiler/lib/compare.h"
#include "compiler/lib/values.h"
#include "runtime-lite/onnxc.h"
#include <math.h>
#include <string.h>

static const char *shape_text(arena *a, const tensor *t) {
    text s = {.arena = a};
    text_printf(&s, "%s[", dtype_name(t->dtype));
    for (int j = 0; j < t->rank; j++) text_printf(&s, "%s%lld", j ? ", " : "", (long long)t->dims[j]);
    text_add(&s, "]");
    return text_str(&s);
}

static const char *position(arena *a, const tensor *t, int64_t i) {
    int64_t at[MAX_RANK];
    for (int j = t->rank - 1; j >= 0; j--) at[j] = i % t->dims[j], i /= t->dims[j];
    text s = {.arena = a};
    for (int j = 0; j < t->rank; j++) text_printf(&s, "%s%lld", j ? ", " : "[", (long long)at[j]);
    text_add(&s, t->rank ? "]" : "");
    return text_str(&s);
}

static bool equal(double x, double y) { return x == y || (isnan(x) && isnan(y)); }

// Within tolerance? Counts the error in c; an infinity is only near itself.
static bool near(comparison *c, double error, double want, tolerance t) {
    if (error > c->max_abs || isnan(error)) c->max_abs = error;
    if (want != 0 && isfinite(want) && error / fabs(want) > c->max_rel) c->max_rel = error / fabs(want);
    return isfinite(error) && isfinite(want) && error <= t.atol + t.rtol * fabs(want);
}

static bool element_same(comparison *c, const tensor *got, const tensor *want, int64_t i, tolerance t) {
    switch (dtype_class_of(want->dtype)) {
    case DC_FLOAT: {
        double g = dtype_load_float(got->dtype, got->data, i),
               w = dtype_load_float(want->dtype, want->data, i);
        return equal(g, w) || near(c, fabs(g - w), w, t);
    }
    case DC_COMPLEX: {
        dtype part = want->dtype == DT_C64 ? DT_F32 : DT_F64;
        double gr = dtype_load_float(part, got->data, 2 * i), wr = dtype_load_float(part, want->data, 2 * i);
        double gi = dtype_load_float(part, got->data, 2 * i + 1),
               wi = dtype_load_float(part, want->data, 2 * i + 1);
        return (equal(gr, wr) && equal(gi, wi)) || near(c, hypot(gr - wr, gi - wi), hypot(wr, wi), t);
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
        c.why = arena_printf(a, "is %s, not %s", shape_text(a, got), shape_text(a, want));
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
    c.got = text_str(&g), c.want = text_str(&w), c.at = position(a, want, c.first);
    return c;
}

static comparison differ(const char *why) { return (comparison){.why = why}; }

comparison compare_values(arena *a, const import_value *got, const import_value *want, tolerance t) {
    if (got->kind != want->kind) return differ("is of another kind");
    if (want->kind == TYPE_TENSOR) {
        tensor g = tensor_of(a, got->tensor), w = tensor_of(a, want->tensor);
        return compare_tensors(a, &g, &w, t);
    }
    if (got->n != want->n) return differ(arena_printf(a, "has %d items, not %d", got->n, want->n));
    comparison all = {.same = true};
    if (want->keys) {
        tensor g = tensor_of(a, got->keys), w = tensor_of(a, want->keys);
        all = compare_tensors(a, &g, &w, (tolerance){0, 0});
    }
    for (int j = 0; all.same && j < want->n; j++) {
        comparison c = compare_values(a, &got->items[j], &want->items[j], t);
        if (!c.same) return c;
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
    return arena_printf(a, "%lld of %lld elements differ, first %s = %s, not %s; %s", (long long)c->differing,
                        (long long)c->count, c->at, c->got, c->want, errors);
}
