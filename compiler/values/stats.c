// Statistics by one pass over the elements, in double precision (Welford's update, Chan's formula for sums of
// several tensors).
#include "compiler/values/stats.h"
#include <math.h>
#include <string.h>

stats stats_none(void) {
    return (stats){.min = NAN, .max = NAN, .nan_at = -1, .inf_at = -1, .numbers = true};
}

static void add_number(stats *s, double v, int64_t i) {
    s->count++;
    if (isnan(v)) {
        if (s->nans++ == 0) s->nan_at = i;
        return;
    }
    s->zeros += v == 0;
    if (!(s->min <= v)) s->min = v;
    if (!(s->max >= v)) s->max = v;
    if (isinf(v)) {
        if (s->infs++ == 0) s->inf_at = i;
        return;
    }
    double before = v - s->mean;
    s->mean += before / (double)++s->finite;
    s->squares += before * (v - s->mean);
}

// f32 is most of what models compute.
static void add_floats(stats *s, const float *v, int64_t n) {
    for (int64_t i = 0; i < n; i++) add_number(s, (double)v[i], i);
}

void stats_add(stats *s, const tensor *t) {
    dtype_class class = dtype_class_of(t->dtype);
    if (class == DC_STRING || class == DC_COMPLEX || class == DC_NONE) {
        s->numbers = false;
        s->count += t->count;
        return;
    }
    bool ints = class == DC_INT || class == DC_UINT || class == DC_BOOL;
    if (t->dtype == DT_F32) {
        add_floats(s, t->data, t->count);
        return;
    }
    for (int64_t i = 0; i < t->count; i++) {
        double v = dtype_load_float(t->dtype, t->data, i);
        if (ints && t->dtype == DT_U64) v = (double)(uint64_t)dtype_load_int(t->dtype, t->data, i);
        add_number(s, v, i);
    }
}

double stats_deviation(const stats *s) { return s->finite ? sqrt(s->squares / (double)s->finite) : NAN; }

const char *number_text(arena *a, double v) {
    if (isnan(v)) return "-";
    if (v == rint(v) && fabs(v) < 1e6) return arena_printf(a, "%.0f", v == 0 ? 0 : v);
    return arena_printf(a, "%.4g", v);
}

const char *stats_text(arena *a, const stats *s) {
    if (!s->numbers) return arena_printf(a, "%lld elements", (long long)s->count);
    if (!s->count) return "no elements";
    text t = {.arena = a};
    text_printf(&t, "min %s, max %s, mean %s", number_text(a, s->min), number_text(a, s->max),
                number_text(a, s->finite ? s->mean : NAN));
    if (s->nans) text_printf(&t, ", %lld NaN", (long long)s->nans);
    if (s->infs) text_printf(&t, ", %lld infinite", (long long)s->infs);
    return text_str(&t);
}

const char *position_text(arena *a, const tensor *t, int64_t i) {
    text s = {.arena = a};
    int64_t at[MAX_RANK];
    for (int j = t->rank - 1; j >= 0; j--) at[j] = i % t->dims[j], i /= t->dims[j];
    for (int j = 0; j < t->rank; j++) text_printf(&s, "%s%lld", j ? ", " : "", (long long)at[j]);
    return t->rank ? arena_printf(a, "[%s]", text_str(&s)) : "";
}

static void number_json(json *j, const char *key, double v) {
    if (isinf(v)) json_text(j, key, v > 0 ? "inf" : "-inf");
    else json_number(j, key, v);
}

void stats_json(json *j, const stats *s) {
    json_int(j, "elements", s->count);
    if (!s->numbers) return;
    number_json(j, "min", s->min);
    number_json(j, "max", s->max);
    json_number(j, "mean", s->finite ? s->mean : NAN);
    json_number(j, "std", stats_deviation(s));
    json_int(j, "nan", s->nans);
    json_int(j, "inf", s->infs);
    json_int(j, "zeros", s->zeros);
}
