// Reads files of one value: TensorProto, SequenceProto, OptionalProto or MapProto, as in ONNX's test data.
#include "compiler/import/impl.h"

static import_value *new_value(importer *im, type_kind kind, const char *name) {
    import_value *v = ARENA_NEW(im->arena, import_value);
    v->kind = kind;
    v->name = text_or_empty(name);
    return v;
}

static import_value *of_tensor(importer *im, const Onnx__TensorProto *t) {
    import_value *v = new_value(im, TYPE_TENSOR, t->name);
    v->tensor = import_tensor(im, NULL, t);
    return v;
}

static import_value *of_sparse(importer *im, const Onnx__SparseTensorProto *t) {
    import_value *v = new_value(im, TYPE_TENSOR, t->values ? t->values->name : NULL);
    v->tensor = import_sparse_tensor(im, NULL, t);
    return v;
}

static import_value *of_optional(importer *im, const Onnx__OptionalProto *o);
static import_value *of_map(importer *im, const Onnx__MapProto *m);

static import_value *of_sequence(importer *im, const Onnx__SequenceProto *s) {
    import_value *v = new_value(im, TYPE_SEQUENCE, s->name);
    size_t n = s->n_tensor_values + s->n_sparse_tensor_values + s->n_sequence_values + s->n_map_values +
               s->n_optional_values;
    v->items = ARENA_ARRAY(im->arena, import_value, n + 1);
    for (size_t i = 0; i < s->n_tensor_values; i++) v->items[v->n++] = *of_tensor(im, s->tensor_values[i]);
    for (size_t i = 0; i < s->n_sparse_tensor_values; i++)
        v->items[v->n++] = *of_sparse(im, s->sparse_tensor_values[i]);
    for (size_t i = 0; i < s->n_sequence_values; i++)
        v->items[v->n++] = *of_sequence(im, s->sequence_values[i]);
    for (size_t i = 0; i < s->n_map_values; i++) v->items[v->n++] = *of_map(im, s->map_values[i]);
    for (size_t i = 0; i < s->n_optional_values; i++)
        v->items[v->n++] = *of_optional(im, s->optional_values[i]);
    return v;
}

static import_value *of_optional(importer *im, const Onnx__OptionalProto *o) {
    import_value *v = new_value(im, TYPE_OPTIONAL, o->name), *item = NULL;
    if (o->tensor_value) item = of_tensor(im, o->tensor_value);
    else if (o->sparse_tensor_value) item = of_sparse(im, o->sparse_tensor_value);
    else if (o->sequence_value) item = of_sequence(im, o->sequence_value);
    else if (o->map_value) item = of_map(im, o->map_value);
    else if (o->optional_value) item = of_optional(im, o->optional_value);
    v->items = item;
    v->n = item != NULL;
    return v;
}

static constant *map_keys(importer *im, const Onnx__MapProto *m) {
    Onnx__TensorProto t = ONNX__TENSOR_PROTO__INIT;
    int64_t n = (int64_t)(m->n_keys + m->n_string_keys);
    bool strings = n ? m->n_string_keys > 0 : m->key_type == DT_STRING;
    if (m->n_keys && m->n_string_keys)
        diag_fatal(im->diag, NULL, "a map has both numbers and strings as keys");
    if (n && m->key_type && (m->key_type == DT_STRING) != strings)
        diag_fatal(im->diag, NULL, "the keys of a map are %s, but declared as %s",
                   strings ? "strings" : "numbers", strings ? "numbers" : "strings");
    t.n_dims = 1;
    t.dims = &n;
    t.has_data_type = 1;
    t.data_type = strings ? DT_STRING : DT_I64;
    t.n_int64_data = m->n_keys;
    t.int64_data = m->keys;
    t.n_string_data = m->n_string_keys;
    t.string_data = m->string_keys;
    return import_tensor(im, NULL, &t);
}

static import_value *of_map(importer *im, const Onnx__MapProto *m) {
    import_value *v = new_value(im, TYPE_MAP, m->name);
    v->keys = map_keys(im, m);
    if (m->values) {
        const import_value *values = of_sequence(im, m->values);
        v->items = values->items;
        v->n = values->n;
    }
    if (v->n != v->keys->count)
        diag_fatal(im->diag, NULL, "a map has %lld keys and %d values", (long long)v->keys->count, v->n);
    int64_t *order = ARENA_ARRAY(im->arena, int64_t, v->n + 1);
    if (sort_keys(v->keys, order) != v->n) diag_fatal(im->diag, NULL, "a map has a duplicate key");
    return v;
}

static const ProtobufCMessageDescriptor *message_of(type_kind kind) {
    switch (kind) {
    case TYPE_TENSOR: return &onnx__tensor_proto__descriptor;
    case TYPE_SPARSE: return &onnx__sparse_tensor_proto__descriptor;
    case TYPE_SEQUENCE: return &onnx__sequence_proto__descriptor;
    case TYPE_OPTIONAL: return &onnx__optional_proto__descriptor;
    case TYPE_MAP: return &onnx__map_proto__descriptor;
    case TYPE_NONE: break;
    }
    return NULL;
}

static import_value *read_value(arena *a, diag *d, mapped m, type_kind kind) {
    importer im = importer_new(a, d, NULL);
    const ProtobufCMessageDescriptor *message = message_of(kind);
    if (!message) diag_defect(d, NULL, "'%s' would be read as a value of unknown kind", m.path);
    im.data = m.data;
    im.size = m.size;
    const ProtobufCMessage *from = wire_unpack(a, d, message, m.data, m.size);
    switch (kind) {
    case TYPE_TENSOR: return of_tensor(&im, (const Onnx__TensorProto *)from);
    case TYPE_SPARSE: return of_sparse(&im, (const Onnx__SparseTensorProto *)from);
    case TYPE_SEQUENCE: return of_sequence(&im, (const Onnx__SequenceProto *)from);
    case TYPE_OPTIONAL: return of_optional(&im, (const Onnx__OptionalProto *)from);
    case TYPE_MAP: return of_map(&im, (const Onnx__MapProto *)from);
    case TYPE_NONE: break;
    }
    return NULL;
}

// Meanwhile messages name this file.
import_value *import_value_file(arena *a, diag *d, const char *path, type_kind kind) {
    enum { LOG2_MOST = 40 };
    mapped m = file_map(a, d, path, INT64_C(1) << LOG2_MOST);
    const char *before = d->file;
    d->file = path;
    import_value *v = read_value(a, d, m, kind);
    d->file = before;
    return v;
}
