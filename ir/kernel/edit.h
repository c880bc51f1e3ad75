// Edits of kernels in place: reads of one buffer become reads of another, whatever they are nested in.
#ifndef ONNXC_IR_KERNEL_EDIT_H
#define ONNXC_IR_KERNEL_EDIT_H
#include "ir/kernel/kernel.h"

// The expression of kernel k that replaces a read. The operands of `read` (index, guard, fill) are rewritten
// already; NULL: the same read of these operands.
typedef expr *read_map(void *user, kernel *k, const expr *read);
// e with every read mapped, those in indices and guards of other reads included. Works across kernels: nodes
// of the result are made in k.
expr *expr_rewrite_reads(kernel *k, expr *e, read_map *map, void *user);
// The same for every expression of the kernel.
void kernel_rewrite_reads(kernel *k, read_map *map, void *user);

// Reads of `from` become reads of `to` at the same indices.
expr *expr_swap_reads(kernel *k, expr *e, const buffer *from, buffer *to);
void kernel_swap_reads(kernel *k, const buffer *from, buffer *to);
#endif
