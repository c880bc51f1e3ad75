// A call of a function for a custom operator. Written: the outputs (NULL unless they are to be computed), the
// result (CUSTOM_RUN: the workspace or NULL; else int64: the sizes of all outputs, or the workspace's bytes),
// memory for tensors and attributes. Read: texts (domain, name, node, names of attributes), the attributes, the
// inputs. Numbers: the purpose, the numbers of outputs, attributes and inputs, the workspace's bytes; then for
// each output, attribute and input its dtype (0: omitted), rank and sizes (-1: not known). Result 1: the
// function failed; 2: it set a negative size.
#include "runtime-lite/lib/lib_custom.h"
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/onnxc_custom.h"

typedef char lib_custom_fits[sizeof(onnxc_custom_tensor) <= CUSTOM_TENSOR_BYTES &&
                                     sizeof(onnxc_custom_attribute) <= CUSTOM_ATTRIBUTE_BYTES
                                 ? 1
                                 : -1];

// The numbers after those of the tensor.
static const int64_t *lib_custom_tensor(onnxc_custom_tensor *t, void *data, const int64_t *numbers) {
    t->data = data;
    t->dtype = (int32_t)numbers[0], t->rank = (int32_t)numbers[1];
    t->dims = numbers + 2;
    t->count = t->dtype ? 1 : 0;
    for (int i = 0; i < t->rank; i++) t->count *= t->dims[i] < 0 ? 0 : t->dims[i];
    return numbers + 2 + t->rank;
}

static const char *lib_custom_text(const char **texts) {
    const char *s = *texts;
    while (**texts) ++*texts;
    ++*texts;
    return s;
}

static int64_t lib_custom_sizes(const onnxc_custom_call *call, int64_t *sizes) {
    int64_t n = 0;
    for (int i = 0; i < call->noutputs; i++)
        for (int j = 0; j < call->outputs[i].rank; j++) sizes[n++] = call->outputs[i].dims[j];
    return n;
}

static int lib_custom_run(onnxc_custom_function *f, onnxc_custom_call *call, int64_t purpose, void *result) {
    int64_t *sizes = (int64_t *)result, n = 0;
    if (purpose == CUSTOM_RUN) call->workspace = result;
    if (purpose == CUSTOM_SHAPE) call->shape = sizes, n = lib_custom_sizes(call, sizes);
    if (f(call)) return 1;
    if (purpose == CUSTOM_WORKSPACE) sizes[0] = call->workspace_bytes, n = 1;
    for (int64_t i = 0; i < n; i++)
        if (sizes[i] < 0) return 2;
    return 0;
}

ONNXC_LIB int onnxc_lib_custom(onnxc_custom_function *f, void *const *data, const int64_t *numbers) {
    int32_t nout = (int32_t)numbers[1], nattrs = (int32_t)numbers[2], nin = (int32_t)numbers[3];
    onnxc_custom_tensor *out = (onnxc_custom_tensor *)data[nout + 1], *in = out + nout;
    onnxc_custom_attribute *attrs = (onnxc_custom_attribute *)(void *)(in + nin);
    const char *texts = (const char *)data[nout + 2];
    const int64_t *at = numbers + CUSTOM_NUMBERS;
    onnxc_custom_call call = {.size = sizeof call};
    call.domain = lib_custom_text(&texts), call.name = lib_custom_text(&texts);
    call.node = lib_custom_text(&texts);
    call.noutputs = nout, call.nattributes = nattrs, call.ninputs = nin;
    call.outputs = out, call.attributes = attrs, call.inputs = in;
    call.workspace_bytes = numbers[4];
    for (int32_t i = 0; i < nout; i++) at = lib_custom_tensor(&out[i], data[i], at);
    for (int32_t i = 0; i < nattrs; i++) {
        attrs[i].name = lib_custom_text(&texts);
        at = lib_custom_tensor(&attrs[i].value, data[nout + 3 + i], at);
    }
    for (int32_t i = 0; i < nin; i++) at = lib_custom_tensor(&in[i], data[nout + 3 + nattrs + i], at);
    return lib_custom_run(f, &call, numbers[0], data[nout]);
}
