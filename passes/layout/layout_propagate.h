// Layout propagation: buffers that a stage traverses along the channels of another one, by the same axis,
// become channels-last too.
#ifndef ONNXC_PASSES_LAYOUT_LAYOUT_PROPAGATE_H
#define ONNXC_PASSES_LAYOUT_LAYOUT_PROPAGATE_H
#include "ir/kernel/program.h"

typedef struct layout_access {
    const buffer *buffer;
    expr *const *index;
    bool writes;
} layout_access;

typedef struct propagation {
    program *p;
    int *channel;      // by buffer id: the innermost axis, -1: row-major
    const bool *fixed; // by buffer id: neither propagates nor changes
    bool (*takes_part)(const kernel *k);
    // The innermost axis of `to` if `channel` is the innermost axis of `from`; -1: any.
    int (*rule)(const kernel *k, const layout_access *from, int channel, const layout_access *to);
} propagation;
void propagate_layouts(const propagation *x); // until nothing changes

layout *layout_channels_last(arena *a, int rank, int channel);
#endif
