// Imports TypeProto. Named sizes become symbols; sizes without a name are unknown, also sizes that exporters
// write as a negative number, "?" or "None".
#include "compiler/import/impl.h"
#include <string.h>

static dtype import_elem(importer *im, const loc *at, const char *name, int code) {
    dtype elem = dtype_from_onnx(code);
    if (elem != DT_NONE) return elem;
    const ProtobufCEnumValue *known =
        code ? protobuf_c_enum_descriptor_get_value(&onnx__tensor_proto__data_type__descriptor, code) : NULL;
    if (known) diag_fatal_missing(im->diag, at, "'%s': element type %s is not supported", name, known->name);
    if (code) diag_fatal(im->diag, at, "'%s': element type %d is not in ONNX", name, code);
    diag_fatal(im->diag, at, "'%s': its type has no element type", name);
}

static bool is_anonymous(const char *param) {
    return !param || !*param || strcmp(param, "?") == 0 || strcmp(param, "None") == 0 ||
           strcmp(param, "-1") == 0;
}

// The symbol for a size without a name, called after the value.
static dim *unnamed(importer *im, const char *name, size_t axis) {
    return dim_symbol(im->module->dims, arena_printf(im->arena, "%s.dim%zu", name, axis));
}

static dim *import_dim(importer *im, const char *name, size_t axis,
                       const Onnx__TensorShapeProto__Dimension *d) {
    switch (d->value_case) {
    case ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE:
        if (d->dim_value >= 0) return dim_const(im->module->dims, d->dim_value);
        return unnamed(im, name, axis);
    case ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM:
        if (!is_anonymous(d->dim_param)) return dim_symbol(im->module->dims, d->dim_param);
        return unnamed(im, name, axis);
    case ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET:
    case _ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__CASE_IS_INT_SIZE: break;
    }
    return unnamed(im, name, axis);
}

static type import_shaped(importer *im, const loc *at, const char *name, type_kind kind, int code,
                          const Onnx__TensorShapeProto *shape) {
    type t = {.kind = kind, .elem = import_elem(im, at, name, code), .rank = RANK_UNKNOWN};
    if (!shape) return t;
    if (shape->n_dim > MAX_RANK)
        diag_fatal(im->diag, at, "'%s': has %zu dimensions; at most %d are supported", name, shape->n_dim,
                   MAX_RANK);
    t.rank = (int)shape->n_dim;
    t.dims = ARENA_ARRAY(im->arena, dim *, shape->n_dim + 1);
    for (size_t i = 0; i < shape->n_dim; i++) t.dims[i] = import_dim(im, name, i, shape->dim[i]);
    return t;
}

static type *import_item(importer *im, const loc *at, const char *name, const Onnx__TypeProto *t) {
    type *item = ARENA_NEW(im->arena, type);
    *item = import_type(im, at, arena_printf(im->arena, "%s.item", name), t);
    if (item->kind == TYPE_NONE) diag_fatal(im->diag, at, "'%s': its type has no item type", name);
    return item;
}

type import_type(importer *im, const loc *at, const char *name, const Onnx__TypeProto *t) {
    if (!t) return (type){0};
    switch (t->value_case) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE:
        return import_shaped(im, at, name, TYPE_TENSOR, t->tensor_type->elem_type, t->tensor_type->shape);
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
        return import_shaped(im, at, name, TYPE_SPARSE, t->sparse_tensor_type->elem_type,
                             t->sparse_tensor_type->shape);
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
        return (type){.kind = TYPE_SEQUENCE, .item = import_item(im, at, name, t->sequence_type->elem_type)};
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        return (type){.kind = TYPE_OPTIONAL, .item = import_item(im, at, name, t->optional_type->elem_type)};
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE:
        return (type){.kind = TYPE_MAP,
                      .elem = import_elem(im, at, name, t->map_type->key_type),
                      .item = import_item(im, at, name, t->map_type->value_type)};
    case ONNX__TYPE_PROTO__VALUE_OPAQUE_TYPE:
        diag_fatal_missing(im->diag, at, "'%s': opaque types are not supported", name);
    case ONNX__TYPE_PROTO__VALUE__NOT_SET:
    case _ONNX__TYPE_PROTO__VALUE__CASE_IS_INT_SIZE: break;
    }
    return (type){0};
}
