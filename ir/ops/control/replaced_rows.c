// States in which a model replaces some rows by concatenation (passes/graph/state_rows.c). An operator of onnxc's own:
//
//   ReplacedRows(old, head, rows, tail) = Concat(head, rows, tail), where head is the beginning of old, tail is its end, and all
//   together are as long as old
#include "ir/ops/pointwise.h"
#include <string.h>

static void replaced_rows_infer(node *n) {
    const type *t = infer_in(n, 0);
    int axis = (int)node_int(n, "axis", 0);
    dim *all = infer_in(n, 1)->dims[axis];
    for (int i = 2; i < 4; i++) all = dim_add(all, infer_in(n, i)->dims[axis]);
    infer_same_dim(n, t->dims[axis], all, "sizes of the old state and the new one");
    infer_same(n, 0, 0);
}

// out[i] = rows[i - low] if that is one of them, else old[i]
static void replaced_rows_lower(lowering *l, node *n) {
    int axis = (int)node_int(n, "axis", 0);
    buffer *old = lower_in(l, n, 0), *rows = lower_in(l, n, 2);
    kernel *k;
    expr *index[MAX_RANK], *from[MAX_RANK];
    stage *s = pointwise_stage(l, n, lower_out(l, n, 0), &k, index);
    memcpy(from, index, sizeof from);
    from[axis] = x_sub(k, index[axis], x_dim(k, infer_in(n, 1)->dims[axis]));
    expr *is_new = x_inside(k, from[axis], rows->dims[axis]), *kept = x_read(k, old, index);
    stage_write(k, s, lower_out(l, n, 0), index, x_read_guarded(k, rows, from, is_new, kept));
}

OPERATOR_OF("onnxc", ReplacedRows, .infer = replaced_rows_infer, .lower = replaced_rows_lower);
