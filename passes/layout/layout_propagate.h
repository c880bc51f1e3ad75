// Layout propagation: buffers that a stage walks along the channels of another one, by the same axis, get
// their channels last as well.
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
    int *channel;      // by buffer id: the axis that comes last, -1: row-major
    const bool *fixed; // by buffer id: neither asks others nor changes itself
    bool (*takes_part)(const kernel *k);
    // The axis of `to` that comes last because `channel` of `from` does; -1: any.
    int (*rule)(const kernel *k, const layout_access *from, int channel, const layout_access *to);
} propagation;
void propagate_layouts(const propagation *x); // until nothing changes

layout *layout_channels_last(arena *a, int rank, int channel);
#endif
