// Edits kernels and programs in place: replaces reads wherever they are nested, substitutes axes, and removes
// dead parts.
#ifndef ONNXC_IR_KERNEL_EDIT_H
#define ONNXC_IR_KERNEL_EDIT_H
#include "ir/kernel/program.h"

// Returns the expression of kernel k that replaces a read, or NULL to keep it. The operands of `read` (index,
// guard, fill) are rewritten already.
typedef expr *read_map(void *user, kernel *k, const expr *read);
// e with every read mapped, also in indices and guards of other reads. e may belong to another kernel: the
// result is built in k.
expr *expr_rewrite_reads(kernel *k, expr *e, read_map *map, void *user);
// Likewise for every expression of the kernel.
void kernel_rewrite_reads(kernel *k, read_map *map, void *user);

// Reads of `from` become reads of `to` at the same indices.
expr *expr_swap_reads(kernel *k, expr *e, const buffer *from, buffer *to);
void kernel_swap_reads(kernel *k, const buffer *from, buffer *to);
// This read of the kernel, wherever its value is used, becomes another expression.
void kernel_replace_read(kernel *k, const expr *read, expr *by);
// e with `by` in place of the axis.
expr *expr_substitute_axis(kernel *k, expr *e, int axis, expr *by);
// e, perhaps of another kernel, with axis[number] for every axis and `state` for the only state; NULL:
// unchanged.
expr *expr_substitute(kernel *k, expr *e, expr *const *axis, expr *state);

// A kernel that copies what `from` has to the same indices of `to`.
kernel *kernel_copying(program *p, const char *name, const loc *at, buffer *from, buffer *to);

bool *kernel_locals_read(arena *a, const kernel *k); // by id of the local
// Removes kernel steps without stages, unused allocations, buffers and locals; renumbers the rest.
void program_compact(program *p);
#endif
