// SVMRegressor and SVMClassifier, from support vectors and coefficients:
//
//   kernel[n, v] = f(x[n] . vector[v])                    or only linear scores, without support vectors
//   regression: sum over v of coefficients[v] * kernel[n, v] + rho
//   classes: for each pair (i, j) a score from the vectors of both; label: the class that wins most pairs
//   probabilities: of the pairs by sigmoids, coupled as in libsvm (Wu, Lin, Weng 2004)
#include "ir/ops/ml/ml.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/rows.h"
#include <math.h>

typedef enum kernel_function { SVM_LINEAR, SVM_POLY, SVM_RBF, SVM_SIGMOID } kernel_function;
enum { MOST_CLASSES = 1024 };

static kernel_function function_of(const node *n) {
    return (kernel_function)node_choice(n, "kernel_type", "LINEAR POLY RBF SIGMOID");
}

// [columns, rows] from a table of rows.
static buffer *transposed_table(lowering *l, buffer *rows) {
    const constant *c = rows->data;
    int64_t sizes[] = {c->dims[1], c->dims[0]};
    constant *to = constant_new(l->program->arena, c->elem, 2, sizes);
    for (int64_t i = 0; i < sizes[1]; i++)
        for (int64_t j = 0; j < sizes[0]; j++)
            dtype_store_float(c->elem, (uint8_t *)to->data, j * sizes[1] + i,
                              constant_float(c, i * sizes[0] + j), false);
    return program_constant(l->program, "columns", to);
}

// to[n, v] = f(x[n] . rows[v]), or for RBF exp(-gamma * |x[n] - rows[v]|^2), vectors of v at a time.
static void dot_rows(lowering *l, const node *n, kernel_function f, buffer *rows, buffer *to,
                     const char *what) {
    int count;
    const float *p = ml_float_list(n, "kernel_params", &count);
    double gamma = count > 0 ? (double)p[0] : 0, coef0 = count > 1 ? (double)p[1] : 0;
    double degree = count > 2 ? trunc((double)p[2]) : 0;
    buffer *x = lower_in(l, n, 0);
    dtype t = to->dtype;
    kernel *k;
    expr *at[2];
    stage *s = suffixed_stage(l, n, what, to, &k, at);
    expr *feature = stage_own_axis(k, s, AXIS_REDUCE, "f", rows->dims[1]);
    expr *a = ml_read(k, x, at[0], feature, t), *b;
    if (f == SVM_RBF) b = x_read(k, transposed_table(l, rows), (expr *[]){feature, at[1]});
    else b = x_read(k, rows, (expr *[]){at[1], feature});
    expr *difference = x_sub(k, a, b);
    expr *v = stage_reduce(k, s, RED_SUM, f == SVM_RBF ? x_mul(k, difference, difference) : x_mul(k, a, b));
    if (f == SVM_RBF) v = x_un(k, X_EXP, x_mul(k, x_float(k, t, -gamma), v));
    if (f == SVM_POLY || f == SVM_SIGMOID)
        v = x_add(k, x_mul(k, v, x_float(k, t, gamma)), x_float(k, t, coef0));
    if (f == SVM_SIGMOID) v = x_un(k, X_TANH, v);
    if (f == SVM_POLY) v = x_power(k, v, degree);
    stage_write(k, s, to, at, v);
}

// The support vectors: `count` rows of X's features.
static buffer *vector_table(lowering *l, const node *n, int64_t count, dtype t) {
    int given;
    const float *v = ml_float_list(n, "support_vectors", &given);
    return ml_float_table(l, "vectors", t, v, given, given / count);
}

static void check_rows(const node *n, const char *attribute, int64_t rows) {
    int given;
    dim *all, *features;
    ml_matrix(n, &all, &features);
    ml_float_list(n, attribute, &given);
    if (rows < 1 || given < 1 || given % rows)
        infer_error(n, "attribute %s has %d values, which do not make %lld rows", attribute, given,
                    (long long)rows);
    infer_same_dim(n, features, infer_k(n, given / rows), "features of X and of the model");
}

static void check_at_least(const node *n, const char *attribute, int64_t least) {
    int given;
    ml_float_list(n, attribute, &given);
    if (given < least)
        infer_error(n, "attribute %s has %d values, fewer than %lld", attribute, given, (long long)least);
}

// ---------------------------------------------------------------- SVMRegressor
static void regressor_infer(node *n) {
    dim *rows, *features;
    int64_t supports = node_int(n, "n_supports", 0);
    function_of(n);
    ml_transform_of(n);
    ml_matrix(n, &rows, &features);
    check_rows(n, supports > 0 ? "support_vectors" : "coefficients", supports > 0 ? supports : 1);
    if (supports > 0) check_at_least(n, "coefficients", supports);
    check_at_least(n, "rho", 1);
    infer_set(n, 0, DT_F32, 2, (dim *[]){rows, infer_k(n, 1)});
}

static void regressor_lower(lowering *l, node *n) {
    int64_t supports = node_int(n, "n_supports", 0);
    int count, offsets;
    const float *w = ml_float_list(n, "coefficients", &count), *rho = ml_float_list(n, "rho", &offsets);
    buffer *out = lower_out(l, n, 0);
    dtype t = ml_type(n);
    dims *d = l->program->dims;
    buffer *sum = lower_temp(l, n, "sum", t, 2, out->dims), *values = sum;
    if (supports > 0) {
        values = lower_temp(l, n, "values", t, 2, (dim *[]){out->dims[0], dim_const(d, supports)});
        dot_rows(l, n, function_of(n), vector_table(l, n, supports, t), values, "dot");
    } else {
        dot_rows(l, n, SVM_LINEAR, ml_float_table(l, "coefficients", t, w, count, count), sum, "dot");
    }
    buffer *raw = lower_temp(l, n, "raw", t, 2, out->dims);
    kernel *k;
    expr *at[2], *v;
    stage *s = suffixed_stage(l, n, "combine", raw, &k, at);
    if (supports > 0) {
        expr *vector = stage_own_axis(k, s, AXIS_REDUCE, "v", values->dims[1]);
        expr *weight = x_read(k, ml_float_table(l, "coefficients", t, w, supports, 0), &vector);
        v = stage_reduce(k, s, RED_SUM, x_mul(k, x_read(k, values, (expr *[]){at[0], vector}), weight));
    } else {
        v = x_read(k, sum, at);
    }
    v = x_add(k, v, x_float(k, t, (double)rho[0]));
    expr *one = x_float(k, t, 1), *zero = x_zero(k, t);
    if (node_int(n, "one_class", 0)) v = x_select(k, x_lt(k, zero, v), one, x_float(k, t, -1));
    stage_write(k, s, raw, at, v);
    ml_apply(l, n, ml_transform_of(n), raw, out);
}

// ---------------------------------------------------------------- SVMClassifier
typedef struct machine {
    int classes;         // number of labels
    int64_t vectors;     // 0: linear
    int64_t pairs;       // number of pair scores; linear: of class scores
    const int64_t *each; // vectors per class
    bool probable;       // probabilities are available
} machine;

static machine machine_of(const node *n) {
    int count, given;
    machine m = {.classes = ml_label_count(n, "classlabels_ints")};
    if (m.classes < 1 || m.classes > MOST_CLASSES) infer_error(n, "there are %d class labels", m.classes);
    m.each = node_ints(n, "vectors_per_class", &count);
    for (int i = 0; i < count; i++) {
        if (m.each[i] < 0) infer_error(n, "a class has %lld support vectors", (long long)m.each[i]);
        m.vectors += m.each[i];
    }
    if (m.vectors && count != m.classes)
        infer_error(n, "attribute vectors_per_class has %d values for %d classes", count, m.classes);
    m.pairs = m.vectors ? (int64_t)m.classes * (m.classes - 1) / 2 : m.classes;
    ml_float_list(n, "prob_a", &given);
    m.probable = given > 0 && m.vectors > 0;
    return m;
}

// Two scores for two classes or a single score, else one each.
static int64_t score_count(const machine *m) {
    if (m->probable) return m->classes;
    return m->pairs == 1 ? 2 : m->pairs;
}

static void classifier_infer(node *n) {
    dim *rows, *features;
    machine m = machine_of(n);
    function_of(n);
    ml_matrix(n, &rows, &features);
    check_rows(n, m.vectors ? "support_vectors" : "coefficients", m.vectors ? m.vectors : m.classes);
    if (m.vectors) check_at_least(n, "coefficients", m.vectors * (m.classes - 1));
    check_at_least(n, "rho", m.vectors ? m.pairs : 1);
    if (m.probable) check_at_least(n, "prob_a", m.pairs), check_at_least(n, "prob_b", m.pairs);
    ml_infer_classes(n, rows, infer_k(n, score_count(&m)));
}

// weight[pair, v]: row j - 1 of the coefficients for the vectors of class i, row i for those of class j.
static buffer *pair_weights(lowering *l, const node *n, const machine *m, dtype t) {
    int count;
    const float *w = ml_float_list(n, "coefficients", &count);
    double *all = ARENA_ARRAY(l->program->arena, double, m->pairs * m->vectors + 1);
    int64_t pair = 0, first = 0;
    for (int i = 0; i < m->classes; first += m->each[i++]) {
        int64_t second = first + m->each[i];
        for (int j = i + 1; j < m->classes; second += m->each[j++], pair++) {
            for (int64_t v = 0; v < m->each[i]; v++)
                all[pair * m->vectors + first + v] = (double)w[(j - 1) * m->vectors + first + v];
            for (int64_t v = 0; v < m->each[j]; v++)
                all[pair * m->vectors + second + v] = (double)w[i * m->vectors + second + v];
        }
    }
    return ml_floats(l, "weights", t, all, m->pairs * m->vectors, m->vectors);
}

static buffer *pair_scores(lowering *l, const node *n, const machine *m, dim *rows, dtype t) {
    int offsets;
    const float *rho = ml_float_list(n, "rho", &offsets);
    dims *d = l->program->dims;
    buffer *values = lower_temp(l, n, "values", t, 2, (dim *[]){rows, dim_const(d, m->vectors)});
    buffer *scores = lower_temp(l, n, "pairs", t, 2, (dim *[]){rows, dim_const(d, m->pairs)});
    dot_rows(l, n, function_of(n), vector_table(l, n, m->vectors, t), values, "dot");
    kernel *k;
    expr *at[2];
    stage *s = suffixed_stage(l, n, "pairs", scores, &k, at);
    expr *vector = stage_own_axis(k, s, AXIS_REDUCE, "v", values->dims[1]);
    expr *weight = x_read(k, pair_weights(l, n, m, t), (expr *[]){at[1], vector});
    expr *v = stage_reduce(k, s, RED_SUM, x_mul(k, x_read(k, values, (expr *[]){at[0], vector}), weight));
    stage_write(k, s, scores, at,
                x_add(k, v, x_read(k, ml_float_table(l, "rho", t, rho, m->pairs, 0), &at[1])));
    return scores;
}

static buffer *linear_scores(lowering *l, const node *n, const machine *m, dim *rows, dtype t) {
    int count, offsets;
    const float *w = ml_float_list(n, "coefficients", &count), *rho = ml_float_list(n, "rho", &offsets);
    dim *sizes[] = {rows, dim_const(l->program->dims, m->classes)};
    buffer *dots = lower_temp(l, n, "dots", t, 2, sizes), *scores = lower_temp(l, n, "linear", t, 2, sizes);
    dot_rows(l, n, SVM_LINEAR, ml_float_table(l, "coefficients", t, w, count, count / m->classes), dots,
             "dot");
    kernel *k;
    expr *at[2];
    stage *s = suffixed_stage(l, n, "linear", scores, &k, at);
    stage_write(k, s, scores, at, x_add(k, x_read(k, dots, at), x_float(k, t, (double)rho[0])));
    return scores;
}

// The numbers of the first and the second class of each pair.
static void pair_classes(lowering *l, const machine *m, buffer **first, buffer **second) {
    int64_t *a = ARENA_ARRAY(l->program->arena, int64_t, m->pairs + 1), pair = 0;
    int64_t *b = ARENA_ARRAY(l->program->arena, int64_t, m->pairs + 1);
    for (int i = 0; i < m->classes; i++)
        for (int j = i + 1; j < m->classes; j++, pair++) a[pair] = i, b[pair] = j;
    *first = ml_ints(l, "first", a, m->pairs);
    *second = ml_ints(l, "second", b, m->pairs);
}

// votes[n, c]: the number of pairs that class c wins.
static buffer *count_votes(lowering *l, const node *n, const machine *m, buffer *pairs) {
    buffer *first, *second;
    pair_classes(l, m, &first, &second);
    dim *sizes[] = {pairs->dims[0], dim_const(l->program->dims, m->classes)};
    buffer *votes = lower_temp(l, n, "votes", pairs->dtype, 2, sizes);
    kernel *k;
    expr *at[2];
    stage *s = suffixed_stage(l, n, "votes", votes, &k, at);
    expr *pair = stage_own_axis(k, s, AXIS_REDUCE, "p", pairs->dims[1]), *zero = x_zero(k, pairs->dtype);
    expr *wins = x_lt(k, zero, x_read(k, pairs, (expr *[]){at[0], pair}));
    expr *winner = x_select(k, wins, x_read(k, first, &pair), x_read(k, second, &pair));
    expr *one = x_select(k, x_bin(k, X_EQ, winner, at[1]), x_float(k, pairs->dtype, 1), zero);
    stage_write(k, s, votes, at, stage_reduce(k, s, RED_SUM, one));
    return votes;
}

// ---- Probabilities: p minimises the sum over pairs of (r[j, i] p[i] - r[i, j] p[j])^2

// The probability of a pair's first class, clamped away from 0 and 1.
static expr *pair_probability(lowering *l, const node *n, kernel *k, buffer *pairs, expr *row, int64_t pair) {
    int given;
    const float *a = ml_float_list(n, "prob_a", &given), *b = ml_float_list(n, "prob_b", &given);
    dtype t = pairs->dtype;
    (void)l;
    expr *v = x_read(k, pairs, (expr *[]){row, x_i64(k, pair)});
    v = x_add(k, x_mul(k, v, x_float(k, t, (double)a[pair])), x_float(k, t, (double)b[pair]));
    v = x_un(k, X_SIGMOID, x_un(k, X_NEG, v));
    return x_bin(k, X_MIN, x_bin(k, X_MAX, v, x_float(k, t, 1e-7)), x_float(k, t, 1 - 1e-7));
}

typedef struct coupling {
    kernel *k;
    int n;
    dtype t;
    expr **q; // [n * n]
    expr **p, **qp;
} coupling;

static void make_matrix(coupling *c, lowering *l, const node *n, buffer *pairs, expr *row) {
    kernel *k = c->k;
    expr **r = ARENA_ARRAY(k->arena, expr *, c->n * c->n);
    int64_t pair = 0;
    for (int i = 0; i < c->n; i++)
        for (int j = i + 1; j < c->n; j++, pair++) {
            r[i * c->n + j] = pair_probability(l, n, k, pairs, row, pair);
            r[j * c->n + i] = x_sub(k, x_float(k, c->t, 1), r[i * c->n + j]);
        }
    for (int i = 0; i < c->n; i++)
        for (int j = 0; j < c->n; j++) {
            expr *sum = x_zero(k, c->t);
            for (int e = 0; e < c->n && i == j; e++)
                if (e != i) sum = x_add(k, sum, x_mul(k, r[e * c->n + i], r[e * c->n + i]));
            c->q[i * c->n + j] = i == j ? sum : x_un(k, X_NEG, x_mul(k, r[j * c->n + i], r[i * c->n + j]));
        }
}

// One iteration: updates every p[i] in turn. Returns whether it has converged, so that p is kept.
static expr *couple_once(coupling *c, expr **fresh) {
    kernel *k = c->k;
    expr *pqp = x_zero(k, c->t), *worst = x_zero(k, c->t), *one = x_float(k, c->t, 1);
    for (int i = 0; i < c->n; i++) {
        c->qp[i] = x_zero(k, c->t);
        for (int j = 0; j < c->n; j++) c->qp[i] = x_add(k, c->qp[i], x_mul(k, c->q[i * c->n + j], c->p[j]));
        pqp = x_add(k, pqp, x_mul(k, c->p[i], c->qp[i]));
        fresh[i] = c->p[i];
    }
    for (int i = 0; i < c->n; i++) worst = x_bin(k, X_MAX, worst, x_un(k, X_ABS, x_sub(k, c->qp[i], pqp)));
    expr *done = x_lt(k, worst, x_float(k, c->t, 0.005 / c->n));
    for (int i = 0; i < c->n; i++) {
        expr *own = c->q[i * c->n + i], *step = x_div(k, x_sub(k, pqp, c->qp[i]), own),
             *more = x_add(k, one, step);
        expr *twice = x_mul(k, x_float(k, c->t, 2), c->qp[i]);
        pqp = x_add(k, pqp, x_mul(k, step, x_add(k, x_mul(k, step, own), twice)));
        pqp = x_div(k, pqp, x_mul(k, more, more));
        fresh[i] = x_add(k, fresh[i], step);
        for (int j = 0; j < c->n; j++) {
            fresh[j] = x_div(k, fresh[j], more);
            c->qp[j] = x_div(k, x_add(k, c->qp[j], x_mul(k, step, c->q[i * c->n + j])), more);
        }
    }
    return done;
}

enum { COUPLED_MOST = 16 };

// The result is made transposed, so that rows fill vectors.
static buffer *couple(lowering *l, const node *n, const machine *m, buffer *pairs) {
    if (m->classes > COUPLED_MOST)
        diag_fatal_missing(l->program->diag, n->loc,
                           "probabilities of more than %d classes are not supported", COUPLED_MOST);
    dims *d = l->program->dims;
    dim *rows = pairs->dims[0], *classes = dim_const(d, m->classes);
    buffer *turned = lower_temp(l, n, "probable", pairs->dtype, 2, (dim *[]){classes, rows});
    kernel *k = lower_kernel(l, n, "probable");
    stage *s = kernel_stage(k);
    expr *row = stage_own_axis(k, s, AXIS_PARALLEL, "n", rows), *p[COUPLED_MOST], *qp[COUPLED_MOST];
    stage_own_axis(k, s, AXIS_SCAN, "round", dim_const(d, m->classes > 100 ? m->classes : 100));
    coupling c = {.k = k, .n = m->classes, .t = pairs->dtype, .p = p, .qp = qp};
    c.q = ARENA_ARRAY(k->arena, expr *, c.n * c.n);
    make_matrix(&c, l, n, pairs, row);
    for (int i = 0; i < c.n; i++) p[i] = stage_state(k, s, c.t, x_float(k, c.t, 1.0 / c.n));
    expr *fresh[COUPLED_MOST], *done = couple_once(&c, fresh);
    for (int i = 0; i < c.n; i++) stage_step(s, i, x_select(k, done, p[i], fresh[i]), NULL);
    for (int i = 0; i < c.n; i++) {
        expr *to[] = {x_i64(k, i), row};
        stage_write(k, s, turned, to, p[i]);
    }
    buffer *out = lower_temp(l, n, "coupled", pairs->dtype, 2, (dim *[]){rows, classes});
    expr *at[2];
    s = suffixed_stage(l, n, "coupled", out, &k, at);
    stage_write(k, s, out, at, x_read(k, turned, (expr *[]){at[1], at[0]}));
    return out;
}

// ---- Labels and scores

static void classifier_lower(lowering *l, node *n) {
    machine m = machine_of(n);
    buffer *labels = lower_out(l, n, 0), *out = lower_out(l, n, 1);
    dim *rows, *features;
    dtype t = ml_type(n);
    ml_matrix(n, &rows, &features);
    buffer *scores = m.vectors ? pair_scores(l, n, &m, rows, t) : linear_scores(l, n, &m, rows, t);
    buffer *votes = m.vectors ? count_votes(l, n, &m, scores) : scores;
    if (m.probable) scores = couple(l, n, &m, scores);
    ml_label(l, n, votes, "classlabels_ints", labels);
    if (!m.probable && m.pairs == 1) scores = ml_pair_scores(l, n, "both", scores, false);
    ml_apply(l, n, ml_transform_of(n), scores, out);
}

#define SVM(op, stem) OPERATOR_OF("ai.onnx.ml", op, .infer = stem##_infer, .lower = stem##_lower)
SVM(SVMRegressor, regressor);
SVM(SVMClassifier, classifier);
