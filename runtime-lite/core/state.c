// States that grow (--state), for callers whose tensors have no room: the program, and onnxc itself.
#include "runtime-lite/core/runtime.h"
#include <string.h>

onnxc_rt_state onnxc_rt_state_of(const onnxc_descriptor *d, uint32_t output, const int64_t *dims,
                                 int64_t element) {
    const onnxc_tensor_info *out = &onnxc_outputs(d)[output], *in = &onnxc_inputs(d)[out->state - 1];
    onnxc_rt_state s = {.outer = 1, .inner = element, .room = out->room};
    while (s.axis + 1 < in->rank && onnxc_dims(d, in)[s.axis].text == onnxc_dims(d, out)[s.axis].text)
        s.axis++;
    for (uint32_t j = 0; j < in->rank; j++)
        if (j != s.axis) *(j < s.axis ? &s.outer : &s.inner) *= dims[in->first_dim + j];
    return s;
}

static void copy(const onnxc_rt_state *s, void *to, int64_t to_step, const void *from, int64_t from_step,
                 int64_t size) {
    for (int64_t j = 0; j < s->outer && size; j++)
        memcpy((char *)to + j * to_step, (const char *)from + j * from_step, (size_t)(size * s->inner));
}

void onnxc_rt_state_fill(const onnxc_rt_state *s, void *room, const void *tensor, int64_t size) {
    copy(s, room, s->room * s->inner, tensor, size * s->inner, size);
}

void onnxc_rt_state_read(const onnxc_rt_state *s, void *tensor, const void *room, int64_t size) {
    copy(s, tensor, size * s->inner, room, s->room * s->inner, size);
}
