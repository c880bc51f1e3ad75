// Gradients of matrix products and of Einsum.
#include "ir/ops/training/gradient.h"
#include <string.h>

// Sizes of a product: the batch axes of the output, then the last two of `v`.
static value *unbatched(gradient *g, value *d, value *v) {
    const type *y = &g->of->out[0]->type, *t = &v->type;
    dim *sizes[MAX_RANK];
    for (int i = 0; i < y->rank; i++)
        sizes[i] = i < y->rank - 2 ? y->dims[i] : t->dims[t->rank - y->rank + i];
    return gradient_reduced(g, d, y->rank, sizes, v);
}

// [..., M, K] * [..., K, N]
static void product(gradient *g) {
    value *a = g->of->in[0], *b = g->of->in[1];
    if (g->wanted[0]) g->dx[0] = unbatched(g, G("MatMul", g->dy[0], swapped_last(g->at, b, b->type.rank)), a);
    if (g->wanted[1]) g->dx[1] = unbatched(g, G("MatMul", swapped_last(g->at, a, a->type.rank), g->dy[0]), b);
}

// A vector is a row on the left and a column on the right.
static void vector_product(node *n) {
    value *a = n->in[0], *b = n->in[1];
    int64_t axes[2] = {-2, -1};
    bool row = a->type.rank == 1, column = b->type.rank == 1;
    if (row) a = NODE(n, "Unsqueeze", a, insert_ints(n, (int64_t[]){0}, 1));
    if (column) b = NODE(n, "Unsqueeze", b, insert_ints(n, (int64_t[]){1}, 1));
    value *y = NODE(n, "MatMul", a, b);
    give_output(n, 0, NODE(n, "Squeeze", y, insert_ints(n, row ? axes : axes + 1, row + column)));
}

static void matmul(gradient *g) {
    if (g->of->in[0]->type.rank == 1 || g->of->in[1]->type.rank == 1) g->body = vector_product;
    else product(g);
}

static void gemm_body(node *n) {
    value *a = n->in[0], *b = n->in[1], *c = node_in(n, 2);
    double alpha = node_float(n, "alpha", 1), beta = node_float(n, "beta", 1);
    if (node_int(n, "transA", 0)) a = transposed(n, a, 2, (int64_t[]){1, 0});
    if (node_int(n, "transB", 0)) b = transposed(n, b, 2, (int64_t[]){1, 0});
    value *y = NODE(n, "MatMul", a, b);
    if (alpha != 1) y = NODE(n, "Mul", y, number_like(n, alpha, 0));
    if (c && beta != 1) c = NODE(n, "Mul", c, number_like(n, beta, 0));
    give_output(n, 0, c ? NODE(n, "Add", y, c) : y);
}

// ---- Einsum

typedef struct equation {
    const char *terms[64]; // of the inputs
    const char *result;
} equation;

static void check_term(gradient *g, const char *term) {
    for (const char *c = term; *c; c++) {
        if (*c == '.') gradient_missing(g, "an ellipsis");
        if (strchr(c + 1, *c)) gradient_missing(g, "an index that is repeated in a term");
    }
}

// In the implicit form, the indices that occur once, in alphabetical order.
static const char *implicit_result(arena *a, const char *terms) {
    text t = {.arena = a};
    for (int c = 'A'; c <= 'z'; c++) {
        const char *at = c == ',' ? NULL : strchr(terms, c);
        if (at && !strchr(at + 1, c)) text_printf(&t, "%c", c);
    }
    return text_str(&t);
}

static equation equation_of(gradient *g) {
    arena *a = infer_arena(g->of);
    text t = {.arena = a};
    for (const char *c = node_string(g->of, "equation", ""); *c; c++)
        if (*c != ' ') text_printf(&t, "%c", *c);
    const char *all = text_str(&t), *arrow = strstr(all, "->");
    const char *left = arrow ? arena_strndup(a, all, (size_t)(arrow - all)) : all;
    equation e = {.result = arrow ? arrow + 2 : implicit_result(a, left)};
    if (g->of->nin > 64) gradient_missing(g, "more than 64 inputs");
    for (int i = 0; i < g->of->nin; i++) {
        size_t length = strcspn(left, ",");
        e.terms[i] = arena_strndup(a, left, length);
        check_term(g, e.terms[i]);
        left += length + (left[length] == ',');
    }
    check_term(g, e.result);
    return e;
}

static bool has_all(const char *indices, const char *wanted) {
    for (; *wanted; wanted++)
        if (!strchr(indices, *wanted)) return false;
    return true;
}

// The sizes of operand i's indices in the sum, which those of other operands may broadcast. False: none does.
static bool summed_sizes(gradient *g, const equation *e, int i, dim **sizes) {
    const type *own = infer_in(g->of, i);
    bool broadcast = false;
    for (int j = 0; j < own->rank; j++) {
        sizes[j] = own->dims[j];
        for (int k = 0; k < g->of->nin; k++) {
            const char *at = strchr(e->terms[k], e->terms[i][j]);
            if (at)
                sizes[j] =
                    infer_broadcast_dim(g->of, sizes[j], infer_in(g->of, k)->dims[at - e->terms[k]], j);
            broadcast |= at && dim_equal(own->dims[j], infer_in(g->of, k)->dims[at - e->terms[k]]) != TRI_YES;
        }
    }
    return broadcast;
}

// The gradient of operand i: the product of dy with the other operands, and with ones where an index of the
// operand occurs nowhere else, or may have other sizes there; summed over what was broadcast.
static value *operand_gradient(gradient *g, const equation *e, int i) {
    value *in[65] = {g->dy[0]};
    dim *sizes[MAX_RANK];
    bool broadcast = summed_sizes(g, e, i, sizes);
    text t = {.arena = infer_arena(g->of)};
    size_t count = 1;
    text_printf(&t, "%s", e->result);
    for (int k = 0; k < g->of->nin; k++) {
        if (k == i) continue;
        in[count++] = g->of->in[k];
        text_printf(&t, ",%s", e->terms[k]);
    }
    if (broadcast || !has_all(text_str(&t), e->terms[i])) {
        in[count++] = gradient_filled(g, 1, g->of->in[i]);
        text_printf(&t, ",%s", e->terms[i]);
    }
    text_printf(&t, "->%s", e->terms[i]);
    value *d = with_string(insert_node(g->at, "Einsum", count, in), "equation", text_str(&t));
    return broadcast ? gradient_reduced(g, d, infer_in(g->of, i)->rank, sizes, g->of->in[i]) : d;
}

static void einsum(gradient *g) {
    equation e = equation_of(g);
    for (int i = 0; i < g->of->nin; i++)
        if (g->wanted[i]) g->dx[i] = operand_gradient(g, &e, i);
}

const gradient_rule gradient_product_rules[] = {
    {.op = "MatMul", .apply = matmul},
    {.op = "Gemm", .body = gemm_body},
    {.op = "Einsum", .apply = einsum},
    {0},
};
