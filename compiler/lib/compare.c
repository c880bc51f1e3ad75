// Comparing tensors.
#include "compiler/lib/compare.h"
#include <math.h>
#include <string.h>

static const char *shape_text(arena *a, const tensor *t) {
    text s = {.arena = a};
    text_printf(&s, "%s[", dtype_name(t->dtype));
    for (int j = 0; j < t->rank; j++) text_printf(&s, "%s%lld", j ? "," : "", (long long)t->dims[j]);
    text_add(&s, "]");
    return text_str(&s);
}

static void compare_numbers(comparison *c, int64_t i, double got, double want, double rtol, double atol) {
    double error = fabs(got - want);
    bool same = got == want || (isnan(got) && isnan(want)) || error <= atol + rtol * fabs(want);
    if (got == want || (isnan(got) && isnan(want))) error = 0;
    if (error > c->max_abs) c->max_abs = error;
    if (want != 0 && error / fabs(want) > c->max_rel) c->max_rel = error / fabs(want);
    if (same) return;
    if (c->differing++ == 0) c->first = i, c->got = got, c->want = want;
    c->same = false;
}

comparison compare_tensors(arena *a, const tensor *got, const tensor *want, double rtol, double atol) {
    comparison c = {.same = true};
    bool shape = got->dtype == want->dtype && got->rank == want->rank &&
                 memcmp(got->dims, want->dims, (size_t)want->rank * sizeof *want->dims) == 0;
    if (!shape) {
        c.same = false;
        c.why = arena_printf(a, "%s, not %s", shape_text(a, got), shape_text(a, want));
        return c;
    }
    dtype t = want->dtype;
    bool complex = t == DT_C64 || t == DT_C128;
    dtype part = t == DT_C64 ? DT_F32 : t == DT_C128 ? DT_F64 : t;
    for (int64_t i = 0; i < want->count * (complex ? 2 : 1); i++) {
        if (dtype_is_float(part)) {
            compare_numbers(&c, i, dtype_load_float(part, got->data, i), dtype_load_float(part, want->data, i), rtol, atol);
        } else {
            int64_t g = dtype_load_int(part, got->data, i), w = dtype_load_int(part, want->data, i);
            if (g != w) compare_numbers(&c, i, (double)g, (double)w, rtol, atol);
        }
    }
    return c;
}
