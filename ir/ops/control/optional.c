// Optionals: handles, like sequences; 0 if empty.
#include "ir/ops/branches.h"
#include "ir/ops/runtime_args.h"
#include "ir/ops/value.h"

static const type *optional_type(const node *n) {
    const attr *a = node_attr(n, "type");
    return a && a->kind == ATTR_TYPE ? a->type : NULL;
}

// ---------------------------------------------------------------- Optional
static void optional_infer(node *n) {
    const type *item = node_in(n, 0) ? &n->in[0]->type : optional_type(n);
    if (!item) infer_error(n, "neither an input nor attribute 'type' gives its type");
    type *own = ARENA_NEW(infer_arena(n), type);
    *own = *item;
    n->out[0]->type = (type){.kind = TYPE_OPTIONAL, .item = own};
}

static void optional_lower(lowering *l, node *n) {
    value *v = node_in(n, 0);
    if (v && v->type.kind != TYPE_TENSOR) {
        lower_view(l, n, 0, 0);
        return;
    }
    buffer *item = v ? value_from_tensor(l, n, v, "item") : NULL, *out = lower_out(l, n, 0);
    kernel *k = lower_kernel(l, n, NULL);
    stage_write(k, kernel_stage(k), out, NULL, item ? x_read(k, item, NULL) : x_i64(k, 0));
}

OPERATOR(Optional, .infer = optional_infer, .lower = optional_lower, .takes_any_rank = true);

// ---------------------------------------------------------------- OptionalHasElement
// 1: certainly, 0: certainly not, -1: known only at run time.
static int has_element(const node *n) {
    const value *v = node_in(n, 0);
    if (!v) return 0;
    if (v->type.kind != TYPE_OPTIONAL) return 1;
    return v->def && v->def->op == &op_Optional ? node_in(v->def, 0) != NULL : -1;
}

static void has_infer(node *n) {
    int known = has_element(n);
    infer_set(n, 0, DT_BOOL, 0, NULL);
    if (known < 0 || !node_out(n, 0)) return;
    dim *contents = infer_k(n, known);
    infer_set_contents(n, 0, &contents, 1);
}

static void has_lower(lowering *l, node *n) {
    int known = has_element(n);
    buffer *handle = known < 0 ? lower_in(l, n, 0) : NULL, *out = lower_out(l, n, 0);
    kernel *k = lower_kernel(l, n, NULL);
    expr *there = known < 0 ? x_bin(k, X_NE, x_read(k, handle, NULL), x_i64(k, 0)) : x_int(k, DT_BOOL, known);
    stage_write(k, kernel_stage(k), out, NULL, there);
}

OPERATOR(OptionalHasElement, .infer = has_infer, .lower = has_lower, .takes_any_rank = true);

// ---------------------------------------------------------------- OptionalGetElement
static void get_infer(node *n) {
    if (!node_in(n, 0)) infer_error(n, "the input is missing");
    const type *t = &n->in[0]->type;
    if (t->kind != TYPE_OPTIONAL) {
        infer_same(n, 0, 0);
    } else if (!t->item) {
        infer_error(n, "the optional's type is not known");
    } else if (t->item->kind != TYPE_TENSOR) {
        n->out[0]->type = *t->item;
    } else {
        type item = value_item(n, t->item);
        if (item.rank == RANK_UNKNOWN) infer_set_unknown(n, 0, item.elem);
        else infer_set(n, 0, item.elem, item.rank, item.dims);
    }
}

static void get_lower(lowering *l, node *n) {
    const type *t = &n->in[0]->type;
    buffer *in = lower_buffer(l, n->in[0]);
    if (t->kind == TYPE_OPTIONAL && t->item->kind == TYPE_TENSOR) {
        value_to_output(l, n, in);
        return;
    }
    if (t->kind == TYPE_OPTIONAL) {
        dim *handle = dim_opaque(l->program->dims, "handle", INT64_MIN, INT64_MAX);
        lower_set_dim(l, n, handle, in, 0);
        lower_check(l, n, dim_not(dim_eq(handle, infer_k(n, 0))), "the optional is empty");
    }
    lower_view(l, n, 0, 0);
}

OPERATOR(OptionalGetElement, .canonicalise = branch_on_item_rank, .infer = get_infer, .lower = get_lower,
         .takes_any_rank = true);
