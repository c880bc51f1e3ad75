/* onnxc_custom.h: functions that compute the operators of a domain of your own.
 *
 *     onnxc model.onnx --custom-op DOMAIN::NAME=SYMBOL -o model.o
 *
 * compiles each node of operator NAME of DOMAIN to a call of `int SYMBOL(onnxc_custom_call *call)`, which the
 * program defines. It reads the inputs, writes all elements of the outputs, and returns 0; another result fails
 * the run. The values of its outputs must depend on inputs and attributes only: equal nodes share one call, and
 * nodes without readers have none. Runs in several threads call it at the same time. Options after SYMBOL:
 *
 *     ,shape        int SYMBOL_shape(onnxc_custom_call *call) sets the sizes of the outputs before the call
 *     ,workspace    int SYMBOL_workspace(onnxc_custom_call *call) sets the size of the workspace before the call
 *
 * The rules for tensors are those of onnxc.h. This header needs nothing else, and is valid C99 and C++.
 */
#ifndef ONNXC_CUSTOM_H
#define ONNXC_CUSTOM_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct onnxc_custom_tensor {
    void *data; /* of inputs and attributes: only to be read; NULL: omitted, or possibly without elements */
    const int64_t *dims;
    int64_t count; /* elements */
    int32_t dtype; /* ONNX's TensorProto.DataType; 0: omitted */
    int32_t rank;
} onnxc_custom_tensor;

/* Only the attributes that the node has. An int is an int64 of rank 0, a list of ints an int64 of rank 1, and
 * floats likewise. A string is uint8[bytes] with its final NUL, a list of strings all of these one after the
 * other. A tensor is itself. */
typedef struct onnxc_custom_attribute {
    const char *name;
    onnxc_custom_tensor value;
} onnxc_custom_attribute;

typedef struct onnxc_custom_call {
    size_t size;                      /* sizeof(onnxc_custom_call), which tells the members that exist */
    const char *domain, *name, *node; /* the operator, and the node ("" if it has no name) */
    const onnxc_custom_attribute *attributes;
    const onnxc_custom_tensor *inputs, *outputs;
    int32_t nattributes, ninputs, noutputs;
    /* SYMBOL_shape: the sizes of all outputs, one output after the other, to be completed: -1 is not known. An
     * omitted output has none. The outputs have no data yet. Otherwise NULL. */
    int64_t *shape;
    /* SYMBOL_workspace sets workspace_bytes; the outputs have no data yet. SYMBOL may use that memory, which is
     * aligned to 16 bytes. */
    void *workspace;
    int64_t workspace_bytes;
} onnxc_custom_call;

typedef int onnxc_custom_function(onnxc_custom_call *call);

#ifndef ONNXC_LIB /* emitted C includes this text, and calls none of these */
/* The value of an attribute; NULL: the node does not have it. */
static inline const onnxc_custom_tensor *onnxc_custom_find(const onnxc_custom_call *call, const char *name) {
    for (int32_t i = 0; i < call->nattributes; i++) {
        const char *a = call->attributes[i].name, *b = name;
        while (*a && *a == *b) a++, b++;
        if (*a == *b) return &call->attributes[i].value;
    }
    return NULL;
}
/* The value of an attribute that is an int, a float or a string; the fallback if the node does not have it. */
static inline int64_t onnxc_custom_int(const onnxc_custom_call *call, const char *name, int64_t fallback) {
    const onnxc_custom_tensor *t = onnxc_custom_find(call, name);
    return t && t->dtype == 7 && t->rank == 0 ? *(const int64_t *)t->data : fallback;
}
static inline float onnxc_custom_float(const onnxc_custom_call *call, const char *name, float fallback) {
    const onnxc_custom_tensor *t = onnxc_custom_find(call, name);
    return t && t->dtype == 1 && t->rank == 0 ? *(const float *)t->data : fallback;
}
static inline const char *onnxc_custom_string(const onnxc_custom_call *call, const char *name,
                                              const char *fallback) {
    const onnxc_custom_tensor *t = onnxc_custom_find(call, name);
    return t && t->dtype == 2 && t->rank == 1 ? (const char *)t->data : fallback;
}
#endif

#ifdef __cplusplus
}
#endif
#endif
