// Copies of buffers in another layout. In: a buffer and the layout. Out: a buffer with it, and a kernel that fills it, or the constant.
#ifndef ONNXC_PASSES_LAYOUT_LAYOUT_COPIES_H
#define ONNXC_PASSES_LAYOUT_LAYOUT_COPIES_H
#include "ir/kernel/program.h"
#include "passes/layout/straight.h"

// What is copied: a buffer at the same indices, or a straight operand.
typedef struct copy_source {
    buffer *from;
    const straight_operand *of;
} copy_source;

// A temporary that owns its memory.
bool is_temp_root(const buffer *b);
kernel *kernel_of_copy(program *p, const char *name, const loc *at, copy_source source, buffer *to);
kernel *copy_kernel(program *p, const char *name, const loc *at, buffer *from, buffer *to);
// A buffer like b, allocated before step s of r if it is on the heap.
buffer *clone_buffer(program *p, region *r, const step *s, const buffer *b, const char *suffix,
                     const layout *l);

// Whether a kernel among the steps before s wrote this copy of b, since when nothing has written b.
bool is_current_copy(const region *r, const step *s, const buffer *b, const buffer *copy);

// Constants in a layout, once each; `packed` keeps them by this key.
uint64_t key_of_packed(const buffer *b, const layout *l);
buffer *packed_constant_as(program *p, map *packed, const buffer *b, const layout *l, dtype as);
buffer *packed_constant(program *p, map *packed, const buffer *b, const layout *l);
#endif
