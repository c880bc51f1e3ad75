// In: a tensor and a slice as text. Out: a tensor of the elements.
#include "compiler/values/slice.h"
#include "compiler/base/integers.h"
#include "compiler/values/values.h"
#include "runtime-lite/onnxc.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// Along one axis: elements first, first + step ...; of an index the axis is dropped.
typedef struct range {
    int64_t first, step, count;
    bool index;
} range;

typedef struct slicer {
    arena *arena;
    const char *at; // the rest of the text
    const char *why;
} slicer;

static void skip_spaces(slicer *s) {
    while (isspace((unsigned char)*s->at)) s->at++;
}

static bool read_int(slicer *s, int64_t *v) {
    char *end;
    skip_spaces(s);
    if (!*s->at || strchr(":,", *s->at)) return false;
    *v = strtoll(s->at, &end, 10);
    if (end == s->at) s->why = arena_printf(s->arena, "'%s' is not a number", s->at);
    s->at = end;
    skip_spaces(s);
    return !s->why;
}

// first:end:step as numpy counts.
static range range_of(slicer *s, int64_t size, const int64_t *given, const bool *has) {
    range r = {.step =
                   has[2] ? int_clamp(given[2], -INT64_MAX, INT64_MAX) : 1}; // its negative is a number, too
    if (r.step == 0) s->why = "a step of 0";
    if (s->why) return r;
    bool back = r.step < 0;
    int64_t lo = back ? -1 : 0, hi = back ? size - 1 : size;
    int64_t end = has[1] ? int_clamp(given[1] < 0 ? given[1] + size : given[1], lo, hi) : back ? -1 : size;
    r.first = has[0] ? int_clamp(given[0] < 0 ? given[0] + size : given[0], lo, hi) : back ? size - 1 : 0;
    int64_t span = back ? r.first - end : end - r.first, step = back ? -r.step : r.step;
    r.count = span > 0 ? (span - 1) / step + 1 : 0;
    return r;
}

static range read_range(slicer *s, int64_t size, int axis) {
    int64_t given[3] = {0};
    bool has[3] = {read_int(s, &given[0])};
    int colons = 0;
    while (!s->why && *s->at == ':' && colons < 2) {
        s->at++, colons++;
        has[colons] = read_int(s, &given[colons]);
    }
    if (s->why || colons) return range_of(s, size, given, has);
    if (!has[0]) s->why = "an index is missing";
    int64_t i = given[0] < 0 ? given[0] + size : given[0];
    if (!s->why && (i < 0 || i >= size))
        s->why = arena_printf(s->arena, "index %lld is outside of axis %d, which has size %lld",
                              (long long)given[0], axis, (long long)size);
    return (range){.first = i, .step = 1, .count = 1, .index = true};
}

// The number of axes that the rest of the text names.
static int count_axes(const char *s) {
    int n = 0;
    while (isspace((unsigned char)*s)) s++;
    for (n = *s != 0; *s; s++) n += *s == ',';
    return n;
}

static void read_ranges(slicer *s, const tensor *t, range *r) {
    int axis = 0;
    for (bool go_on = count_axes(s->at) > 0; go_on && !s->why;) {
        skip_spaces(s);
        if (strncmp(s->at, "...", 3) == 0) {
            s->at += 3;
            skip_spaces(s);
            int left = count_axes(s->at + (*s->at == ','));
            for (; axis < t->rank - left; axis++) r[axis] = (range){0, 1, t->dims[axis], false};
        } else if (axis == t->rank) {
            s->why = arena_printf(s->arena, "more indices than the %d axes", t->rank);
        } else {
            r[axis] = read_range(s, t->dims[axis], axis);
            axis++;
        }
        if (!s->why && *s->at && *s->at != ',')
            s->why = arena_printf(s->arena, "'%s' is not an index", s->at);
        go_on = *s->at == ',';
        s->at += go_on;
    }
    for (; axis < t->rank && !s->why; axis++) r[axis] = (range){0, 1, t->dims[axis], false};
}

static void copy_element(const tensor *from, int64_t i, tensor *to, int64_t at) {
    if (from->dtype == DT_STRING) ((onnxc_string *)to->data)[at] = ((const onnxc_string *)from->data)[i];
    else if (dtype_bits(from->dtype) < 8) dtype_copy(to->dtype, to->data, at, from->dtype, from->data, i);
    else {
        size_t size = (size_t)dtype_size(from->dtype, 1);
        memcpy((char *)to->data + (size_t)at * size, (const char *)from->data + (size_t)i * size, size);
    }
}

bool tensor_slice(arena *a, const tensor *t, const char *said, tensor *part, const char **why) {
    slicer s = {.arena = a, .at = said};
    range r[MAX_RANK] = {0};
    int64_t dims[MAX_RANK], stride[MAX_RANK];
    int rank = 0;
    read_ranges(&s, t, r);
    if (s.why) return *why = s.why, false;
    for (int j = t->rank - 1; j >= 0; j--) stride[j] = j + 1 < t->rank ? stride[j + 1] * t->dims[j + 1] : 1;
    for (int j = 0; j < t->rank; j++)
        if (!r[j].index) dims[rank++] = r[j].count;
    *part = tensor_new(a, t->dtype, rank, dims);
    for (int64_t i = 0; i < part->count; i++) {
        int64_t rest = i, from = 0;
        for (int j = t->rank - 1; j >= 0; j--) {
            from += (r[j].first + rest % r[j].count * r[j].step) * stride[j];
            rest /= r[j].count;
        }
        copy_element(t, from, part, i);
    }
    return true;
}
