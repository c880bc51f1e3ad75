// MatMul, Gemm, MatMulInteger, and the helpers that the quantised products share (contract.h).
//
//   for i... (batch, row, column):  out[i...] = sum over r of a[batch, row, r] * b[batch, r, column]
#include "ir/ops/contract.h"
#include <math.h>

// ---- Shared: indices and axes of matrix products

expr *broadcast_index(kernel *k, dim *d, dim *extent, expr *index) {
    dim *one = dim_const(d->table, 1);
    if (dim_is(d, 1)) return x_i64(k, 0);
    if (d == extent || dim_equal(d, one) == TRI_NO) return index;
    return x_mul(k, index, x_dim(k, dim_sub(one, dim_eq(d, one))));
}

static dim *inner_dim(int rank, dim *const *dims, bool right) {
    return right && rank > 1 ? dims[rank - 2] : dims[rank - 1];
}

// Dim i of a batch of `rank` dims for an operand with `own` batch dims, right-aligned.
static dim *batch_dim(const node *n, const type *t, int own, int rank, int i) {
    int axis = i - (rank - own);
    return axis < 0 ? infer_k(n, 1) : t->dims[axis];
}

int matmul_dims(const node *n, int a, int b, dim **dims) {
    int ra = infer_rank(n, a), rb = infer_rank(n, b);
    const type *ta = infer_in(n, a), *tb = infer_in(n, b);
    if (!ra || !rb) infer_error(n, "operand %d of a matrix product is a scalar", ra ? b : a);
    infer_same_dim(n, inner_dim(ra, ta->dims, false), inner_dim(rb, tb->dims, true),
                   "inner sizes of the product");
    int na = ra > 2 ? ra - 2 : 0, nb = rb > 2 ? rb - 2 : 0, rank = na > nb ? na : nb;
    for (int i = 0; i < rank; i++)
        dims[i] = infer_broadcast_dim(n, batch_dim(n, ta, na, rank, i), batch_dim(n, tb, nb, rank, i), i);
    if (ra > 1) dims[rank++] = ta->dims[ra - 2];
    if (rb > 1) dims[rank++] = tb->dims[rb - 1];
    return rank;
}

product product_begin(lowering *l, const node *n, buffer *a, buffer *b, buffer *out) {
    product p = {.a = a, .b = b, .out = out, .k = lower_kernel(l, n, NULL)};
    p.s = kernel_stage(p.k);
    axes_over(p.k, p.s, out, p.index);
    dim *ka = inner_dim(a->rank, a->dims, false), *kb = inner_dim(b->rank, b->dims, true);
    p.inner = stage_own_axis(p.k, p.s, AXIS_REDUCE, "r", dim_is_const(kb) ? kb : ka);
    int next = out->rank;
    p.col = b->rank > 1 ? p.index[--next] : x_i64(p.k, 0);
    p.row = a->rank > 1 ? p.index[--next] : x_i64(p.k, 0);
    p.nbatch = next;
    return p;
}

static expr *read_matrix(product *p, buffer *x, expr *row, expr *col) {
    expr *at[MAX_RANK];
    int batch = x->rank - 2;
    for (int i = 0; i < batch; i++) {
        int axis = p->nbatch - batch + i;
        at[i] = broadcast_index(p->k, x->dims[i], p->out->dims[axis], p->index[axis]);
    }
    at[batch] = row, at[batch + 1] = col;
    return x_read(p->k, x, at);
}

expr *product_read_a(product *p) {
    return p->a->rank == 1 ? x_read(p->k, p->a, &p->inner) : read_matrix(p, p->a, p->row, p->inner);
}

expr *product_read_b(product *p) {
    return p->b->rank == 1 ? x_read(p->k, p->b, &p->inner) : read_matrix(p, p->b, p->inner, p->col);
}

static expr *read_param(product *p, buffer *param, expr *row, expr *col, expr *along) {
    if (param->rank < 2) return read_broadcast(p->k, param, &along, 1);
    expr *at[MAX_RANK];
    for (int i = 0; i < p->nbatch; i++) at[i] = p->index[i];
    at[p->nbatch] = row, at[p->nbatch + 1] = col;
    return read_broadcast(p->k, param, at, p->nbatch + 2);
}

expr *product_param_a(product *p, buffer *param) {
    return read_param(p, param, p->row, x_i64(p->k, 0), p->row);
}

expr *product_param_b(product *p, buffer *param) {
    return read_param(p, param, x_i64(p->k, 0), p->col, p->col);
}

void product_check_param(const node *n, int i, int a, int b, bool of_b) {
    dim *dims[MAX_RANK], *one = infer_k(n, 1);
    if (!node_in(n, i)) return;
    const type *ta = infer_in(n, a), *tb = infer_in(n, b);
    int batch = matmul_dims(n, a, b, dims) - (ta->rank > 1) - (tb->rank > 1);
    dim *row = of_b || ta->rank < 2 ? one : ta->dims[ta->rank - 2];
    dim *column = of_b && tb->rank > 1 ? tb->dims[tb->rank - 1] : one;
    dims[batch] = row, dims[batch + 1] = column;
    if (infer_rank(n, i) < 2) infer_broadcast_into(n, i, 1, of_b ? &column : &row, "scale or zero point");
    else infer_broadcast_into(n, i, batch + 2, dims, "scale or zero point");
}

// ---- MatMul

static void matmul_infer(node *n) {
    dim *dims[MAX_RANK];
    int rank = matmul_dims(n, 0, 1, dims);
    infer_set(n, 0, infer_in(n, 0)->elem, rank, dims);
}

static void matmul_lower(lowering *l, node *n) {
    product p = product_begin(l, n, lower_in(l, n, 0), lower_in(l, n, 1), lower_out(l, n, 0));
    expr *term = x_mul(p.k, product_read_a(&p), product_read_b(&p));
    stage_write(p.k, p.s, p.out, p.index, stage_reduce(p.k, p.s, RED_SUM, term));
}

OPERATOR(MatMul, .infer = matmul_infer, .lower = matmul_lower, .is_product = true);

// ---- MatMulInteger

static void matmul_integer_infer(node *n) {
    dim *dims[MAX_RANK];
    int rank = matmul_dims(n, 0, 1, dims);
    product_check_param(n, 2, 0, 1, false);
    product_check_param(n, 3, 0, 1, true);
    infer_set(n, 0, DT_I32, rank, dims);
}

static void matmul_integer_lower(lowering *l, node *n) {
    buffer *za = quant_zero_point(l, n, 2), *zb = quant_zero_point(l, n, 3);
    product p = product_begin(l, n, lower_in(l, n, 0), lower_in(l, n, 1), lower_out(l, n, 0));
    expr *a = quant_centre(p.k, product_read_a(&p), za ? product_param_a(&p, za) : NULL);
    expr *b = quant_centre(p.k, product_read_b(&p), zb ? product_param_b(&p, zb) : NULL);
    expr *sum = stage_reduce(p.k, p.s, RED_SUM, x_mul(p.k, a, b));
    stage_write(p.k, p.s, p.out, p.index, sum);
}

OPERATOR(MatMulInteger, .infer = matmul_integer_infer, .lower = matmul_integer_lower);

// ---- Gemm: alpha * a * b + beta * c

static void gemm_infer(node *n) {
    if (infer_rank(n, 0) != 2 || infer_rank(n, 1) != 2)
        infer_error(n, "inputs A and B must have rank 2, not %d and %d", infer_rank(n, 0), infer_rank(n, 1));
    const type *a = infer_in(n, 0), *b = infer_in(n, 1);
    bool ta = node_int(n, "transA", 0) != 0, tb = node_int(n, "transB", 0) != 0;
    infer_same_dim(n, a->dims[!ta], b->dims[tb], "inner sizes of the product");
    dim *dims[2] = {a->dims[ta], b->dims[!tb]};
    if (node_in(n, 2)) infer_broadcast_into(n, 2, 2, dims, "input C");
    infer_set(n, 0, a->elem, 2, dims);
}

static bool is_whole(double v) { return v == rint(v) && fabs(v) <= 0x1p53; }

// alpha * product + beta * c in type t.
static expr *gemm_value(kernel *k, dtype t, double alpha, double beta, expr *sum, expr *c) {
    expr *v = alpha == 1 ? sum : x_mul(k, sum, x_number(k, t, alpha));
    if (!c || beta == 0) return v;
    return x_add(k, v, beta == 1 ? c : x_mul(k, c, x_number(k, t, beta)));
}

static void gemm_lower(lowering *l, node *n) {
    buffer *a = lower_in(l, n, 0), *b = lower_in(l, n, 1), *c = lower_in(l, n, 2), *out = lower_out(l, n, 0);
    bool ta = node_int(n, "transA", 0) != 0, tb = node_int(n, "transB", 0) != 0;
    double alpha = node_float(n, "alpha", 1), beta = node_float(n, "beta", 1);
    kernel *k = lower_kernel(l, n, NULL);
    stage *s = kernel_stage(k);
    expr *at[2];
    axes_over(k, s, out, at);
    dim *depth = dim_is_const(b->dims[tb]) ? b->dims[tb] : a->dims[!ta];
    expr *in = stage_own_axis(k, s, AXIS_REDUCE, "r", depth), *ia[2] = {ta ? in : at[0], ta ? at[0] : in},
         *ib[2] = {tb ? at[1] : in, tb ? in : at[1]};
    expr *sum = stage_reduce(k, s, RED_SUM, x_mul(k, x_read(k, a, ia), x_read(k, b, ib)));
    expr *cv = c ? read_broadcast(k, c, at, 2) : NULL;
    dtype t = dtype_compute(out->dtype);
    // With fractional factors an integer product is computed in double and rounded once.
    if (!dtype_is_float(t) && !(is_whole(alpha) && is_whole(beta))) {
        cv = cv ? x_cast(k, cv, DT_F64, false) : NULL;
        sum = x_cast(k, gemm_value(k, DT_F64, alpha, beta, x_cast(k, sum, DT_F64, false), cv), t, true);
    } else {
        sum = gemm_value(k, t, alpha, beta, sum, cv);
    }
    stage_write(k, s, out, at, sum);
}

// Since version 7 C is broadcast without an attribute.
static void gemm_upgrade_7(node *n) { node_remove_attr(n, "broadcast"); }

OPERATOR(Gemm, .upgrades = {{7, gemm_upgrade_7}}, .infer = gemm_infer, .lower = gemm_lower,
         .is_product = true);
