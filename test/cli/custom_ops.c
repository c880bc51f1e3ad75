// Operators of domain 'mine' for custom.test.
#include <onnxc_custom.h>
#include <stdint.h>

enum { FLOAT = 1, INT64 = 7 };

// y = x * factor + offset, or + by along the last axis
int scale(onnxc_custom_call *call) {
    const onnxc_custom_tensor *x = &call->inputs[0], *y = &call->outputs[0],
                              *by = onnxc_custom_find(call, "by");
    const float *f = (const float *)x->data, factor = onnxc_custom_float(call, "factor", 1);
    const int64_t *k = (const int64_t *)x->data, offset = onnxc_custom_int(call, "offset", 0);
    if (call->size != sizeof *call || call->noutputs != 1 || y->dtype != x->dtype) return 1;
    for (int64_t i = 0; i < x->count; i++) {
        int64_t more = by ? ((const int64_t *)by->data)[i % by->count] : 0;
        if (x->dtype == FLOAT) ((float *)y->data)[i] = f[i] * factor + (float)(offset + more);
        else if (x->dtype == INT64) ((int64_t *)y->data)[i] = k[i] + offset + more;
        else return 1;
    }
    return 0;
}

static int sort(const float *x, int64_t n, float *w, float *y) {
    for (int64_t i = 0; i < n; i++) {
        int64_t k = i;
        for (; k > 0 && w[k - 1] > x[i]; k--) w[k] = w[k - 1];
        w[k] = x[i];
    }
    for (int64_t i = 0; i < n; i++) y[i] = w[i];
    return 0;
}

int sorted_workspace(onnxc_custom_call *call) {
    call->workspace_bytes = call->inputs[0].count * (int64_t)sizeof(float);
    return 0;
}
int sorted(onnxc_custom_call *call) {
    const onnxc_custom_tensor *x = &call->inputs[0];
    if (!call->workspace || call->workspace_bytes < x->count * (int64_t)sizeof(float)) return 1;
    return sort((const float *)x->data, x->count, (float *)call->workspace, (float *)call->outputs[0].data);
}

int drop_zeros_shape(onnxc_custom_call *call) {
    const float *x = (const float *)call->inputs[0].data;
    call->shape[0] = 0;
    for (int64_t i = 0; i < call->inputs[0].count; i++) call->shape[0] += x[i] < 0 || x[i] > 0;
    return call->outputs[0].data != NULL;
}
int drop_zeros(onnxc_custom_call *call) {
    const float *x = (const float *)call->inputs[0].data;
    float *y = (float *)call->outputs[0].data;
    for (int64_t i = 0; i < call->inputs[0].count; i++)
        if (x[i] < 0 || x[i] > 0) *y++ = x[i];
    return 0;
}

// What goes wrong.
int fails(onnxc_custom_call *call) { return call->ninputs; }
int wild_shape(onnxc_custom_call *call) {
    for (int i = 0; i < call->outputs[0].rank; i++) call->shape[i] = onnxc_custom_int(call, "size", 0);
    return 0;
}
int wild(onnxc_custom_call *call) {
    float *y = (float *)call->outputs[0].data;
    for (int64_t i = 0; i < call->outputs[0].count && i < 4; i++) y[i] = (float)i;
    return call->outputs[0].count != 4;
}
int wild_workspace(onnxc_custom_call *call) {
    call->workspace_bytes = onnxc_custom_int(call, "bytes", 0);
    return 0;
}
