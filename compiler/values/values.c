// Values in memory: tensors, constants, random data, text.
#include "compiler/values/values.h"
#include "runtime-lite/core/numbers.h"
#include "runtime-lite/onnxc.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, SHOWN_WHOLE = 1000, SHOWN_EDGE = 3 };

const char *port_text(arena *a, const port *p) {
    text t = {.arena = a};
    if (p->boxed || p->labels) return p->type ? p->type : "a value that is not a tensor";
    text_printf(&t, "%s[%s", dtype_name(p->dtype), p->rank == RANK_UNKNOWN ? "..." : "");
    for (int j = 0; j < p->rank; j++) text_printf(&t, "%s%s", j ? ", " : "", p->sizes[j]);
    text_add(&t, "]");
    return text_str(&t);
}

const char *tensor_text(arena *a, const tensor *t) {
    text s = {.arena = a};
    text_printf(&s, "%s[", dtype_name(t->dtype));
    for (int j = 0; j < t->rank; j++) text_printf(&s, "%s%lld", j ? ", " : "", (long long)t->dims[j]);
    text_add(&s, "]");
    return text_str(&s);
}

// ---------------------------------------------------------------- forms
tensor tensor_new(arena *a, dtype t, int rank, const int64_t *dims) {
    tensor x = {.dtype = t, .rank = rank, .count = 1};
    bool empty = false, over = false;
    for (int j = 0; j < rank; j++) {
        empty |= (x.dims[j] = dims[j]) == 0;
        over |= __builtin_mul_overflow(x.count, dims[j], &x.count);
    }
    if (empty) x.count = 0;
    int64_t bytes = over && !empty ? -1 : dtype_size(t, x.count); // an arena rejects sizes that overflow
    char *block = arena_alloc(a, bytes < 0 ? SIZE_MAX : (size_t)bytes + 2 * ALIGN);
    x.data = block + (ALIGN - (uintptr_t)block % ALIGN) % ALIGN;
    return x;
}

void tensor_normalize(tensor *t) {
    uint8_t *data = t->data;
    for (int64_t i = 0; t->dtype == DT_BOOL && i < t->count; i++) data[i] = data[i] != 0;
}

tensor tensor_of_default(const port *p) {
    tensor t = {.dtype = p->dtype, .rank = p->rank, .count = 1};
    for (int j = 0; j < p->rank; j++) t.count *= t.dims[j] = p->dims[j];
    return t;
}

tensor tensor_of(arena *a, const constant *c) {
    tensor t = tensor_new(a, c->elem, c->rank, c->dims);
    if (c->kind == CONST_BYTES && t.count) memcpy(t.data, c->data, (size_t)dtype_size(c->elem, c->count));
    for (int64_t i = 0; c->kind == CONST_STRINGS && i < c->count; i++)
        ((onnxc_string *)t.data)[i] = (onnxc_string){c->strings[i], c->string_sizes[i]};
    for (int64_t i = 0; c->kind == CONST_SPLAT && i < c->count; i++) {
        if (dtype_bits(c->elem) >= 8)
            memcpy((char *)t.data + i * dtype_bits(c->elem) / 8, c->splat, (size_t)dtype_bits(c->elem) / 8);
        else constant_copy(c, i, c->elem, t.data, i);
    }
    return t;
}

constant *constant_of(arena *a, const tensor *t) {
    constant *c = ARENA_NEW(a, constant);
    *c = (constant){
        .kind = CONST_BYTES, .elem = t->dtype, .rank = t->rank, .count = t->count, .data = t->data};
    c->dims = ARENA_ARRAY(a, int64_t, t->rank + 1);
    for (int j = 0; j < t->rank; j++) c->dims[j] = t->dims[j];
    if (t->dtype != DT_STRING) return c;
    c->kind = CONST_STRINGS;
    c->strings = ARENA_ARRAY(a, const char *, t->count + 1);
    c->string_sizes = ARENA_ARRAY(a, size_t, t->count + 1);
    for (int64_t i = 0; i < t->count; i++) {
        const onnxc_string *s = (const onnxc_string *)t->data + i;
        c->string_sizes[i] = s->size;
        c->strings[i] = arena_strndup(a, s->data, s->size);
    }
    return c;
}

// ---------------------------------------------------------------- sequences and optionals
bool map_takes(dtype to, const import_value *v) {
    if (v->kind != TYPE_TENSOR || v->tensor->count != 1) return false;
    dtype from = v->tensor->elem;
    bool number = dtype_is_float(from) || dtype_is_int(from);
    return from == to || (number && dtype_is_float(to)) || (dtype_is_int(from) && dtype_is_int(to));
}

dtype map_value_type(const char *type) {
    char name[24] = "";
    const char *map = type ? strstr(type, "map(") : NULL, *at = map ? strstr(map, ", ") : NULL;
    size_t n = at ? strcspn(at + 2, "[") : 0;
    if (!n || n >= sizeof name) return DT_NONE;
    memcpy(name, at + 2, n);
    return dtype_from_name(name);
}

// Values that do not fit become none, which the run rejects.
static void put_map(arena *a, const import_value *v, dtype elem, onnxc_value *to) {
    int64_t *count = ARENA_NEW(a, int64_t);
    *count = v->n;
    tensor keys = tensor_of(a, v->keys), values = tensor_new(a, elem, 1, count);
    onnxc_value *parts = ARENA_ARRAY(a, onnxc_value, 2);
    for (int j = 0; j < v->n; j++) {
        if (!map_takes(elem, &v->items[j])) return;
        const constant *c = v->items[j].tensor;
        tensor one = tensor_of(a, c);
        if (elem == DT_STRING) ((onnxc_string *)values.data)[j] = *(onnxc_string *)one.data;
        else constant_copy(c, 0, elem, values.data, j);
    }
    parts[0] = (onnxc_value){1, (int32_t)keys.dtype, 1, v->n, count, keys.data};
    parts[1] = (onnxc_value){1, (int32_t)elem, 1, v->n, count, values.data};
    *to = (onnxc_value){.kind = 3, .count = v->n, .data = parts};
}

static void put_item(arena *a, const port *p, const import_value *v, onnxc_value *to) {
    *to = (onnxc_value){.kind = 2, .count = v->n};
    if (v->kind == TYPE_MAP) {
        *to = (onnxc_value){0};
        if (map_value_type(p->type) != DT_NONE) put_map(a, v, map_value_type(p->type), to);
        return;
    }
    if (v->kind == TYPE_TENSOR) {
        tensor t = tensor_of(a, v->tensor);
        int64_t *dims = ARENA_ARRAY(a, int64_t, t.rank + 1);
        memcpy(dims, t.dims, (size_t)t.rank * sizeof *dims);
        *to = (onnxc_value){1, (int32_t)t.dtype, t.rank, t.count, dims, t.data};
        return;
    }
    onnxc_value *items = ARENA_ARRAY(a, onnxc_value, v->n + 1);
    for (int j = 0; j < v->n; j++) put_item(a, p, &v->items[j], &items[j]);
    to->data = items;
}

tensor tensor_of_value(arena *a, const port *p, const import_value *v) {
    if (!p->boxed) return tensor_of(a, v->tensor);
    onnxc_value *to = ARENA_NEW(a, onnxc_value);
    if (v->kind != TYPE_OPTIONAL) put_item(a, p, v, to);
    else if (v->n) put_item(a, p, v->items, to);
    return (tensor){.dtype = DT_U8, .count = 1, .data = to};
}

// Entry i of a list as a scalar.
static import_value *take_entry(arena *a, const onnxc_value *list, int64_t i) {
    size_t size = (size_t)dtype_size((dtype)list->dtype, 1);
    tensor one = {.dtype = (dtype)list->dtype, .count = 1, .data = (char *)list->data + (size_t)i * size};
    return value_of_tensor(a, "", &one);
}

static import_value *take_map(arena *a, const char *name, const onnxc_value *from) {
    const onnxc_value *parts = from->data;
    tensor keys = {.dtype = (dtype)parts->dtype, .rank = 1, .dims = {from->count}, .count = from->count};
    keys.data = parts->data;
    import_value *v = ARENA_NEW(a, import_value);
    *v = (import_value){.kind = TYPE_MAP, .name = name, .n = (int)from->count, .keys = constant_of(a, &keys)};
    v->items = ARENA_ARRAY(a, import_value, v->n + 1);
    for (int j = 0; j < v->n; j++) v->items[j] = *take_entry(a, parts + 1, j);
    return v;
}

static import_value *take_item(arena *a, const char *name, const onnxc_value *from) {
    if (from->kind == 3) return take_map(a, name, from);
    import_value *v = ARENA_NEW(a, import_value);
    *v = (import_value){.kind = TYPE_SEQUENCE, .name = name};
    if (from->kind == 1) {
        tensor t = {
            .dtype = (dtype)from->dtype, .rank = (int)from->rank, .count = from->count, .data = from->data};
        memcpy(t.dims, from->dims, (size_t)from->rank * sizeof *t.dims);
        v->kind = TYPE_TENSOR;
        v->tensor = constant_of(a, &t);
        return v;
    }
    v->n = (int)from->count;
    v->items = ARENA_ARRAY(a, import_value, v->n + 1);
    for (int j = 0; j < v->n; j++) v->items[j] = *take_item(a, "", (const onnxc_value *)from->data + j);
    return v;
}

// ---------------------------------------------------------------- tables that stand for maps
port table_port(const port *p) {
    port t = *p;
    if (p->labels) t.kind = TYPE_TENSOR, t.labels = NULL, t.type = NULL;
    return t;
}

// A row as a map: a column per key, in the order of the keys.
static import_value map_of_row(arena *a, const tensor *t, constant *keys, const int64_t *columns,
                               int64_t row) {
    import_value map = {.kind = TYPE_MAP, .name = "", .n = (int)keys->count, .keys = keys};
    size_t size = (size_t)dtype_size(t->dtype, 1);
    map.items = ARENA_ARRAY(a, import_value, keys->count + 1);
    for (int64_t j = 0; j < keys->count; j++) {
        int64_t at = row * t->dims[t->rank - 1] + columns[j];
        tensor one = {.dtype = t->dtype, .count = 1, .data = (char *)t->data + (size_t)at * size};
        map.items[j] = *value_of_tensor(a, "", &one);
    }
    return map;
}

// The last of equal labels counts. A table of rank 1 is one row.
static import_value *value_of_table(arena *a, const port *p, const tensor *t) {
    int64_t *columns = ARENA_ARRAY(a, int64_t, p->labels->count + 1), count = sort_keys(p->labels, columns);
    constant *keys = pick_constant(a, p->labels, columns, count);
    import_value *v = ARENA_NEW(a, import_value);
    *v = (import_value){.kind = TYPE_SEQUENCE, .name = p->name, .n = t->rank == 2 ? (int)t->dims[0] : 1};
    v->items = ARENA_ARRAY(a, import_value, v->n + 1);
    for (int i = 0; i < v->n; i++) v->items[i] = map_of_row(a, t, keys, columns, i);
    v->tensor = constant_of(a, t);
    return v;
}

import_value *value_of_port(arena *a, const port *p, const tensor *t) {
    if (p->labels) return value_of_table(a, p, t);
    if (!p->boxed) return value_of_tensor(a, p->name, t);
    const onnxc_value *from = t->data;
    if (p->kind != TYPE_OPTIONAL && from->kind) return take_item(a, p->name, from);
    import_value *v = ARENA_NEW(a, import_value);
    *v = (import_value){.kind = p->kind, .name = p->name, .n = from->kind != 0};
    if (v->n) v->items = take_item(a, "", from);
    return v;
}

import_value *value_of_tensor(arena *a, const char *name, const tensor *t) {
    import_value *v = ARENA_NEW(a, import_value);
    *v = (import_value){.kind = TYPE_TENSOR, .name = name, .tensor = constant_of(a, t)};
    return v;
}

// ---------------------------------------------------------------- random
static void parse_range(diag *d, const port *p, const char *range, double *lo, double *hi) {
    bool real = dtype_is_float(p->dtype) || dtype_class_of(p->dtype) == DC_COMPLEX;
    *lo = real ? -1 : 0;
    *hi = real ? 1 : p->dtype == DT_BOOL ? 1 : 9;
    if (!real && dtype_is_int(p->dtype) && *hi > (double)dtype_int_max(p->dtype))
        *hi = (double)dtype_int_max(p->dtype);
    if (!*range) return;
    if (!number_range(range, lo, hi))
        diag_fatal(d, NULL, "--input %s=random:%s: not of the form random:LO..HI with LO <= HI", p->name,
                   range);
}

static void check_room(arena *a, diag *d, const port *p, const int64_t *dims) {
    tensor t = {.dtype = p->dtype, .rank = p->rank, .count = 1};
    bool over = false;
    for (int j = 0; j < t.rank; j++) over |= __builtin_mul_overflow(t.count, t.dims[j] = dims[j], &t.count);
    int64_t bytes = over ? -1 : dtype_size(t.dtype, t.count);
    if (bytes < 0 || !arena_has_room(a, (size_t)bytes + 2 * ALIGN))
        diag_fatal(d, NULL, "input '%s' is %s: this needs more memory than is available", p->name,
                   tensor_text(a, &t));
}

tensor value_random(arena *a, diag *d, const port *p, const int64_t *sizes, const char *range,
                    uint64_t seed) {
    double lo, hi;
    if (p->kind != TYPE_TENSOR || p->dtype == DT_STRING)
        diag_fatal(d, NULL, "input '%s' is %s: it cannot be random", p->name, port_text(a, p));
    if (p->rank == RANK_UNKNOWN)
        diag_hint(d, "--shape %s=2x3", p->name), diag_fatal(d, NULL, "input '%s' has no known rank", p->name);
    parse_range(d, p, range, &lo, &hi);
    int64_t dims[MAX_RANK];
    for (int j = 0; j < p->rank; j++) {
        dims[j] = p->dims[j] >= 0 ? p->dims[j] : sizes ? sizes[j] : -1;
        if (dims[j] >= 0) continue;
        diag_hint(d, "--dim %s=8 binds it", p->sizes[j]);
        diag_fatal(d, NULL, "axis %d of input '%s' has the open size %s", j, p->name, p->sizes[j]);
    }
    check_room(a, d, p, dims);
    tensor t = tensor_new(a, p->dtype, p->rank, dims);
    uint64_t state = number_random_begin(seed, p->name);
    bool complex = dtype_class_of(p->dtype) == DC_COMPLEX;
    dtype part = p->dtype == DT_C64 ? DT_F32 : p->dtype == DT_C128 ? DT_F64 : p->dtype;
    for (int64_t i = 0; i < t.count * (complex ? 2 : 1); i++) {
        double u = number_random_unit(&state);
        if (dtype_is_float(part)) dtype_store_float(part, t.data, i, lo + u * (hi - lo), true);
        else dtype_store_int(part, t.data, i, (int64_t)floor(lo + u * (floor(hi) - lo + 1)));
    }
    return t;
}

// ---------------------------------------------------------------- text
// Shortest; with an exponent from 1e16 on, like numpy.
static void print_float(text *out, double v, bool single) {
    char s[REAL_SIZE];
    if (isnan(v) || isinf(v)) {
        text_add(out, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    real_text(s, v, single);
    if (strstr(s, "e+") && fabs(v) < 1e16) snprintf(s, sizeof s, "%.0f", v);
    text_add(out, s);
    if (!strpbrk(s, ".e")) text_add(out, ".0");
}

void element_print(text *out, const tensor *t, int64_t i) {
    switch (dtype_class_of(t->dtype)) {
    case DC_FLOAT: print_float(out, dtype_load_float(t->dtype, t->data, i), t->dtype != DT_F64); return;
    case DC_INT: text_printf(out, "%" PRId64, dtype_load_int(t->dtype, t->data, i)); return;
    case DC_UINT: text_printf(out, "%" PRIu64, (uint64_t)dtype_load_int(t->dtype, t->data, i)); return;
    case DC_BOOL: text_add(out, dtype_load_int(t->dtype, t->data, i) ? "true" : "false"); return;
    case DC_COMPLEX: {
        dtype part = t->dtype == DT_C64 ? DT_F32 : DT_F64;
        double im = dtype_load_float(part, t->data, 2 * i + 1);
        print_float(out, dtype_load_float(part, t->data, 2 * i), part == DT_F32);
        if (!signbit(im)) text_add(out, "+");
        print_float(out, im, part == DT_F32);
        text_add(out, "j");
        return;
    }
    case DC_STRING: {
        const onnxc_string *s = (const onnxc_string *)t->data + i;
        text_add_quoted(out, s->data, s->size);
        return;
    }
    case DC_NONE: return;
    }
}

static void print_axis(text *out, const tensor *t, int axis, int64_t first, bool all) {
    if (axis == t->rank) {
        element_print(out, t, first);
        return;
    }
    int64_t n = t->dims[axis], inner = 1;
    for (int j = axis + 1; j < t->rank; j++) inner *= t->dims[j];
    text_add(out, "[");
    for (int64_t i = 0; i < n; i++) {
        bool skip = !all && n > 2 * SHOWN_EDGE && i == SHOWN_EDGE;
        if (i && axis + 1 == t->rank) text_add(out, " ");
        else if (i) text_printf(out, "\n%*s", axis + 1, "");
        if (skip) {
            text_add(out, "...");
            i = n - SHOWN_EDGE - 1;
        } else {
            print_axis(out, t, axis + 1, first + i * inner, all);
        }
    }
    text_add(out, "]");
}

static void print_value(text *out, const import_value *v, bool all);

// {"a": 0.5, "b": 1.0}, for maps of scalars.
static void print_map(text *out, const import_value *v, bool all) {
    tensor keys = tensor_of(out->arena, v->keys);
    bool plain = true;
    for (int j = 0; j < v->n; j++) plain &= v->items[j].kind == TYPE_TENSOR && v->items[j].tensor->count == 1;
    if (plain) text_add(out, "{");
    else text_printf(out, "map of %d\n", v->n);
    for (int j = 0; j < v->n; j++) {
        if (plain && j) text_add(out, ", ");
        if (plain && !all && v->n > SHOWN_WHOLE && j == SHOWN_EDGE) {
            text_add(out, "..., ");
            j = v->n - SHOWN_EDGE;
        }
        element_print(out, &keys, j);
        text_add(out, ": ");
        tensor one = plain ? tensor_of(out->arena, v->items[j].tensor) : (tensor){0};
        if (plain) element_print(out, &one, 0);
        else print_value(out, &v->items[j], all);
    }
    if (plain) text_add(out, "}\n");
}

static void print_value(text *out, const import_value *v, bool all) {
    if (v->kind == TYPE_TENSOR) {
        tensor t = tensor_of(out->arena, v->tensor);
        text_printf(out, "%s\n", tensor_text(out->arena, &t));
        print_axis(out, &t, 0, 0, all || t.count <= SHOWN_WHOLE);
        text_add(out, "\n");
        return;
    }
    if (v->kind == TYPE_MAP) {
        print_map(out, v, all);
        return;
    }
    if (v->kind == TYPE_OPTIONAL) text_add(out, v->n ? "optional: " : "empty optional\n");
    else text_printf(out, "sequence of %d\n", v->n);
    for (int j = 0; j < v->n; j++) {
        if (!all && v->n > SHOWN_WHOLE && j == SHOWN_EDGE) {
            text_add(out, "...\n");
            j = v->n - SHOWN_EDGE;
        }
        if (v->kind == TYPE_SEQUENCE) text_printf(out, "%d: ", j);
        print_value(out, &v->items[j], all);
    }
}

void value_print(text *out, const import_value *v, bool all) {
    text_printf(out, "%s: ", safe_text(out->arena, v->name));
    print_value(out, v, all);
}
