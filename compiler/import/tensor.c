// Imports TensorProto in any of its storage forms. Where the layouts agree, constants point into the mapped
// file (raw and external data) or the unpacked message (typed data).
#include "compiler/base/outfile.h"
#include "compiler/import/impl.h"
#include <string.h>

static const char *name_of(const Onnx__TensorProto *t) { return t->name ? t->name : ""; }

static _Noreturn void fail(importer *im, const loc *at, const Onnx__TensorProto *t, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static _Noreturn void fail(importer *im, const loc *at, const Onnx__TensorProto *t, const char *format, ...) {
    ARENA_VARIADIC(im->arena, what, format);
    diag_fatal(im->diag, at, "tensor '%s': %s", name_of(t), what);
}

// ---- Type and shape

static dtype elem_of(importer *im, const loc *at, const Onnx__TensorProto *t) {
    dtype elem = dtype_from_onnx(t->data_type);
    if (elem != DT_NONE) return elem;
    if (!t->has_data_type || t->data_type == 0) fail(im, at, t, "has no element type");
    const ProtobufCEnumValue *known =
        protobuf_c_enum_descriptor_get_value(&onnx__tensor_proto__data_type__descriptor, t->data_type);
    if (!known) fail(im, at, t, "element type %d is not in ONNX", t->data_type);
    diag_fatal_missing(im->diag, at, "tensor '%s': element type %s is not supported", name_of(t),
                       known->name);
}

// The number of elements, after checks of every dimension and of the size in bytes.
static int64_t count_of(importer *im, const loc *at, const Onnx__TensorProto *t, dtype elem,
                        const int64_t *dims, size_t rank) {
    int64_t count = 1;
    bool empty = false, overflow = false;
    if (rank > MAX_RANK) fail(im, at, t, "has %zu dimensions; at most %d are supported", rank, MAX_RANK);
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 0) fail(im, at, t, "dimension %zu is %lld", i, (long long)dims[i]);
        empty |= dims[i] == 0;
        if (dims[i] && __builtin_mul_overflow(count, dims[i], &count)) overflow = true;
    }
    if (overflow || dtype_size(elem, count) < 0) fail(im, at, t, "has more elements than 64 bits can count");
    return empty ? 0 : count;
}

static constant *new_constant(importer *im, const Onnx__TensorProto *t, dtype elem, int64_t count) {
    constant *c = ARENA_NEW(im->arena, constant);
    *c = (constant){.kind = CONST_BYTES, .elem = elem, .rank = (int)t->n_dims, .count = count};
    c->dims = ARENA_ARRAY(im->arena, int64_t, t->n_dims + 1);
    if (t->n_dims) memcpy(c->dims, t->dims, t->n_dims * sizeof *c->dims);
    c->data = (const uint8_t *)"";
    return c;
}

// ---- Raw and external data

static void check_size(importer *im, const loc *at, const Onnx__TensorProto *t, const constant *c,
                       uint64_t size, const char *what) {
    int64_t expected = dtype_raw_size(c->elem, c->count);
    if ((uint64_t)expected != size)
        fail(im, at, t, "%s has %llu bytes; %lld elements of %s take %lld", what, (unsigned long long)size,
             (long long)c->count, dtype_name(c->elem), (long long)expected);
}

// Any nonzero byte is true in files; kernels need 1.
static void normalize_bools(importer *im, constant *c) {
    bool odd = false;
    for (int64_t i = 0; i < c->count; i++) odd |= c->data[i] > 1;
    if (!odd) return;
    uint8_t *data = arena_alloc(im->arena, (size_t)c->count);
    for (int64_t i = 0; i < c->count; i++) data[i] = c->data[i] != 0;
    c->data = data;
}

static void use_bytes(importer *im, constant *c, const uint8_t *data) {
    c->data = data;
    if (dtype_raw_size(c->elem, 4) != dtype_size(c->elem, 4)) {
        uint8_t *unpacked = arena_alloc(im->arena, (size_t)c->count + 1);
        dtype_unpack(unpacked, data, c->count);
        c->data = unpacked;
    }
    if (c->elem == DT_BOOL) normalize_bools(im, c);
}

static void use_raw(importer *im, const loc *at, const Onnx__TensorProto *t, constant *c) {
    wire_span span;
    memcpy(&span, t->raw_data.data, sizeof span);
    check_size(im, at, t, c, span.size, "raw_data");
    use_bytes(im, c, im->data + span.offset);
}

static const char *entry(const Onnx__TensorProto *t, const char *key) {
    for (size_t i = 0; i < t->n_external_data; i++) {
        const Onnx__StringStringEntryProto *e = t->external_data[i];
        if (e->key && strcmp(e->key, key) == 0) return e->value ? e->value : "";
    }
    return NULL;
}

static uint64_t entry_number(importer *im, const loc *at, const Onnx__TensorProto *t, const char *key,
                             uint64_t fallback) {
    const char *s = entry(t, key);
    if (!s) return fallback;
    uint64_t v = 0;
    bool good = *s != 0;
    for (const char *p = s; good && *p; p++)
        good = *p >= '0' && *p <= '9' && !__builtin_mul_overflow(v, 10, &v) &&
               !__builtin_add_overflow(v, (uint64_t)(*p - '0'), &v);
    if (!good) fail(im, at, t, "the %s of its external data is '%s', not a number", key, s);
    return v;
}

static const mapped *external_file(importer *im, const loc *at, const char *location) {
    mapped *m = map_get(&im->external, location);
    if (m) return m;
    const char *found, *path = file_below(im->arena, im->diag, at, im->folders, 3, location, &found);
    m = ARENA_NEW(im->arena, mapped);
    *m = file_map(im->arena, im->diag, path, im->options.max_external);
    if (im->options.files) VEC_PUSH(im->arena, im->options.files, found);
    outfile_protect(im->diag, found);
    map_put(&im->external, location, m);
    return m;
}

static void use_external(importer *im, const loc *at, const Onnx__TensorProto *t, constant *c) {
    const char *location = entry(t, "location");
    if (!location) fail(im, at, t, "its external data has no location");
    if (c->elem == DT_STRING) fail(im, at, t, "strings cannot be external data");
    if (!im->folders[0] && !im->folders[1] && !im->folders[2]) {
        diag_hint(im->diag, "--external-data-dir DIR names its folder");
        fail(im, at, t, "external data '%s', but the model is not in a folder", location);
    }
    const mapped *m = external_file(im, at, location);
    uint64_t needed = (uint64_t)dtype_raw_size(c->elem, c->count);
    uint64_t offset = entry_number(im, at, t, "offset", 0),
             length = entry_number(im, at, t, "length", needed);
    check_size(im, at, t, c, length, "external data");
    if (offset > m->size || length > m->size - offset)
        fail(im, at, t, "%llu bytes at byte %llu of its external data '%s', which has only %zu",
             (unsigned long long)length, (unsigned long long)offset, location, m->size);
    use_bytes(im, c, m->data + offset);
}

// ---- Typed data

static void check_count(importer *im, const loc *at, const Onnx__TensorProto *t, size_t have, int64_t need,
                        const char *field) {
    if (have != (size_t)need)
        fail(im, at, t, "%s has %zu entries; its shape needs %lld", field, have, (long long)need);
}

// int32_data has types of less than 32 bits: one element, or a byte of packed ones, each.
static void use_int32(importer *im, const loc *at, const Onnx__TensorProto *t, constant *c) {
    int bits = dtype_bits(c->elem), width = bits < 8 ? 8 : dtype_raw_size(c->elem, 4) == 3 ? 6 : bits;
    int64_t entries = bits < 8 ? dtype_size(c->elem, c->count) : c->count;
    check_count(im, at, t, t->n_int32_data, entries, "int32_data");
    if (bits == 32) {
        c->data = (const uint8_t *)t->int32_data;
        return;
    }
    uint8_t *data = arena_calloc(im->arena, (size_t)entries + 1, width > 8 ? 2 : 1);
    for (int64_t i = 0; i < entries; i++) {
        int32_t v = t->int32_data[i];
        if (v < -(1 << (width - 1)) || v >= 1 << width)
            fail(im, at, t, "int32_data[%lld] = %d does not fit %s", (long long)i, v, dtype_name(c->elem));
        if (c->elem == DT_BOOL) v = v != 0;
        if (width <= 8) data[i] = (uint8_t)v;
        else ((uint16_t *)data)[i] = (uint16_t)v;
    }
    c->data = data;
}

static void use_uint64(importer *im, const loc *at, const Onnx__TensorProto *t, constant *c) {
    check_count(im, at, t, t->n_uint64_data, c->count, "uint64_data");
    c->data = (const uint8_t *)t->uint64_data;
    if (c->elem == DT_U64) return;
    uint32_t *data = ARENA_ARRAY(im->arena, uint32_t, c->count + 1);
    for (int64_t i = 0; i < c->count; i++) {
        if (t->uint64_data[i] > UINT32_MAX)
            fail(im, at, t, "uint64_data[%lld] = %llu does not fit %s", (long long)i,
                 (unsigned long long)t->uint64_data[i], dtype_name(c->elem));
        data[i] = (uint32_t)t->uint64_data[i];
    }
    c->data = (const uint8_t *)data;
}

static void use_strings(importer *im, const loc *at, const Onnx__TensorProto *t, constant *c) {
    if (t->has_raw_data) fail(im, at, t, "strings cannot be raw_data");
    check_count(im, at, t, t->n_string_data, c->count, "string_data");
    c->kind = CONST_STRINGS;
    c->strings = ARENA_ARRAY(im->arena, const char *, c->count + 1);
    c->string_sizes = ARENA_ARRAY(im->arena, size_t, c->count + 1);
    for (int64_t i = 0; i < c->count; i++) {
        c->string_sizes[i] = t->string_data[i].len;
        c->strings[i] = arena_strndup(im->arena, (const char *)t->string_data[i].data, t->string_data[i].len);
    }
}

// The field of the standard for elements of this type.
static void use_typed(importer *im, const loc *at, const Onnx__TensorProto *t, constant *c) {
    int64_t n = dtype_class_of(c->elem) == DC_COMPLEX ? 2 * c->count : c->count;
    switch (dtype_field_of(c->elem)) {
    case FLOAT_DATA:
        check_count(im, at, t, t->n_float_data, n, "float_data");
        c->data = (const uint8_t *)t->float_data;
        return;
    case DOUBLE_DATA:
        check_count(im, at, t, t->n_double_data, n, "double_data");
        c->data = (const uint8_t *)t->double_data;
        return;
    case INT64_DATA:
        check_count(im, at, t, t->n_int64_data, n, "int64_data");
        c->data = (const uint8_t *)t->int64_data;
        return;
    case UINT64_DATA: use_uint64(im, at, t, c); return;
    case STRING_DATA: use_strings(im, at, t, c); return;
    case INT32_DATA: use_int32(im, at, t, c); return;
    case NO_DATA: break;
    }
    diag_defect(im->diag, at, "tensor '%s' of element type %d", name_of(t), (int)c->elem);
}

constant *import_tensor(importer *im, const loc *at, const Onnx__TensorProto *t) {
    if (t->segment) diag_fatal_missing(im->diag, at, "tensor '%s': segments are not supported", name_of(t));
    dtype elem = elem_of(im, at, t);
    constant *c = new_constant(im, t, elem, count_of(im, at, t, elem, t->dims, t->n_dims));
    size_t typed = t->n_float_data + t->n_int32_data + t->n_string_data + t->n_int64_data + t->n_double_data +
                   t->n_uint64_data;
    bool external = t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    if (external + (t->has_raw_data != 0) + (typed != 0) > 1) fail(im, at, t, "has its data twice");
    if (external) use_external(im, at, t, c);
    else if (t->has_raw_data && elem != DT_STRING) use_raw(im, at, t, c);
    else use_typed(im, at, t, c);
    if (!c->data) c->data = (const uint8_t *)"";
    return c;
}

// ---- Sparse tensors

// Row-major offset of the i-th index, which is linear or has one number per dimension.
static int64_t place_of(importer *im, const loc *at, const Onnx__SparseTensorProto *t,
                        const constant *indices, int64_t i, int64_t count) {
    int64_t place = 0;
    if (indices->rank == 1) place = constant_int(indices, i);
    for (size_t k = 0; indices->rank == 2 && k < t->n_dims; k++) {
        int64_t v = constant_int(indices, i * (int64_t)t->n_dims + (int64_t)k);
        if (v < 0 || v >= t->dims[k])
            fail(im, at, t->values, "index %lld of the sparse tensor is %lld at dimension %zu of size %lld",
                 (long long)i, (long long)v, k, (long long)t->dims[k]);
        place = place * t->dims[k] + v;
    }
    if (place < 0 || place >= count)
        fail(im, at, t->values, "index %lld of the sparse tensor is %lld of %lld elements", (long long)i,
             (long long)place, (long long)count);
    return place;
}

static void check_sparse(importer *im, const loc *at, const Onnx__SparseTensorProto *t,
                         const constant *values, const constant *indices) {
    if (dtype_bits(values->elem) < 8 || values->elem == DT_STRING)
        diag_fatal_missing(im->diag, at, "tensor '%s': sparse tensors of %s are not supported",
                           name_of(t->values), dtype_name(values->elem));
    bool linear = indices->rank == 1, full = indices->rank == 2 && indices->dims[1] == (int64_t)t->n_dims;
    if (values->rank != 1 || indices->elem != DT_I64 || (!linear && !full) ||
        indices->dims[0] != values->count)
        fail(im, at, t->values, "the sparse tensor's indices do not fit its %lld values and %zu dimensions",
             (long long)values->count, t->n_dims);
}

constant *import_sparse_tensor(importer *im, const loc *at, const Onnx__SparseTensorProto *t) {
    if (!t->values || !t->indices) diag_fatal(im->diag, at, "a sparse tensor has no values or no indices");
    constant *values = import_tensor(im, at, t->values), *indices = import_tensor(im, at, t->indices);
    check_sparse(im, at, t, values, indices);
    int64_t count = count_of(im, at, t->values, values->elem, t->dims, t->n_dims);
    int64_t bytes = dtype_size(values->elem, count), width = dtype_size(values->elem, 1), before = -1;
    if (bytes > im->options.max_dense)
        diag_fatal_missing(im->diag, at,
                           "tensor '%s': a sparse tensor of %lld bytes when dense; the limit is %lld",
                           name_of(t->values), (long long)bytes, (long long)im->options.max_dense);
    constant *c = constant_new(im->arena, values->elem, (int)t->n_dims, t->dims);
    for (int64_t i = 0; i < values->count; i++) {
        int64_t place = place_of(im, at, t, indices, i, count);
        if (place <= before)
            fail(im, at, t->values, "the sparse tensor's indices are not in ascending order at %lld",
                 (long long)i);
        memcpy((uint8_t *)c->data + place * width, values->data + i * width, (size_t)width);
        before = place;
    }
    return c;
}
