/* Strings, sequences, optionals and maps as callers see them. The same text is in onnxc.h and in the headers
 * of models. */
#ifndef ONNXC_VALUE_TYPES
#define ONNXC_VALUE_TYPES
typedef struct onnxc_string {
    const char *data; /* UTF-8; in outputs followed by a NUL, which size does not count */
    size_t size;
} onnxc_string;

typedef struct onnxc_value {
    int32_t kind;  /* 0: nothing (an empty optional), 1: a tensor, 2: a sequence, 3: a map */
    int32_t dtype; /* of a tensor: ONNX's TensorProto.DataType */
    int64_t rank;  /* of a tensor */
    int64_t count; /* of a tensor: elements; of a sequence: items; of a map: keys */
    const int64_t *dims;
    void *data; /* of a tensor: its elements (onnxc_string for strings)
                 * of a sequence: onnxc_value[count]
                 * of a map: onnxc_value[2], the unique keys and the values, both tensors [count] */
} onnxc_value;
#endif
