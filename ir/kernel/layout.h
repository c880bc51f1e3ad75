// Constants in the layout of their buffer.
#ifndef ONNXC_IR_KERNEL_LAYOUT_H
#define ONNXC_IR_KERNEL_LAYOUT_H
#include "ir/kernel/kernel.h"

// Writes bytes [offset, offset + n) of constant buffer b as stored: packed by its layout, with halo and tile
// padding. With a layout, offset and n are multiples of the element size; packed elements fill whole bytes.
void layout_produce(const buffer *b, int64_t offset, void *to, int64_t n);
#endif
