// Edits of kernels and programs in place: reads of a buffer become other expressions, whatever they are
// nested in; an axis becomes an expression; dead things are dropped and the rest renumbered.
#ifndef ONNXC_IR_KERNEL_EDIT_H
#define ONNXC_IR_KERNEL_EDIT_H
#include "ir/kernel/program.h"

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
// e with `by` in place of the axis.
expr *expr_substitute_axis(kernel *k, expr *e, int axis, expr *by);
// e, perhaps of another kernel, with axis[number] in place of every axis and `state` in place of the one
// state; NULL: it stays.
expr *expr_substitute(kernel *k, expr *e, expr *const *axis, expr *state);

bool *kernel_locals_read(arena *a, const kernel *k); // by id of the local
// Drops kernel steps without stages, allocations and buffers that nothing uses and locals that nothing reads;
// renumbers kernels, buffers and locals.
void program_compact(program *p);
#endif
