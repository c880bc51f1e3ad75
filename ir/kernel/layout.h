// Constants as their buffer's layout wants them.
#ifndef ONNXC_IR_KERNEL_LAYOUT_H
#define ONNXC_IR_KERNEL_LAYOUT_H
#include "ir/kernel/kernel.h"

// Bytes [offset, offset + n) of constant buffer b as it lies in memory: packed by its layout, halo and tile
// padding filled. offset and n are multiples of the element size where there is a layout; packed elements
// fill whole bytes.
void layout_produce(const buffer *b, int64_t offset, void *to, int64_t n);
#endif
