// RandomUniform, RandomNormal, their Like forms, Bernoulli, Multinomial. The generator is the Mersenne
// Twister MT19937 (Matsumoto, Nishimura 1998) with doubles of 53 bits: the sequence of NumPy's RandomState,
// which the standard's reference evaluator uses. The seed is the attribute, or a hash of the output's name.
// In a loop each iteration continues the sequence. No state outlives a run: every run gives the same numbers.
//
//   w[0..624) = from the seed;  in blocks of 227:  w[n + 624] = w[n + 397] ^ twist(w[n], w[n + 1])
//   number i = (temper(w[624 + 2 i]) / 32 * 2^26 + temper(w[625 + 2 i]) / 64) / 2^53
#include "ir/ops/control/control.h"
#include "ir/ops/runtime_args.h"
#include <math.h>
#include <string.h>

enum { WORDS = 624, BLOCK = 227 }; // BLOCK: words that are independent of each other

static uint32_t seed_of(const node *n) {
    const attr *seed = node_attr(n, "seed");
    if (seed) return (uint32_t)(int64_t)(seed->kind == ATTR_INT ? (double)seed->i : node_float(n, "seed", 0));
    uint32_t hash = 2166136261u;
    for (const char *s = n->out[0]->name; *s; s++) hash = (hash ^ (uint8_t)*s) * 16777619u;
    return hash;
}

// The initial state.
static buffer *seeded(lowering *l, const node *n) {
    constant *c = constant_new(l->program->arena, DT_U32, 1, (const int64_t[]){WORDS});
    uint32_t word = seed_of(n);
    for (int i = 0; i < WORDS; i++) {
        dtype_store_int(DT_U32, (uint8_t *)c->data, i, word);
        word = 1812433253u * (word ^ word >> 30) + (uint32_t)i + 1;
    }
    return program_constant(l->program, "seed", c);
}

static expr *u32(kernel *k, uint32_t v) { return x_int(k, DT_U32, v); }
static expr *shifted(kernel *k, expr_op op, expr *v, uint32_t by) { return x_bin(k, op, v, u32(k, by)); }
static expr *masked(kernel *k, expr *v, uint32_t mask) { return x_and(k, v, u32(k, mask)); }

// w[n + 624] for a block of n that starts at `first`.
static void twist(lowering *l, const node *n, buffer *w, dim *first) {
    kernel *k = lower_kernel(l, n, "twist");
    stage *s = kernel_stage(k);
    expr *a = stage_own_axis(k, s, AXIS_PARALLEL, "i", dim_const(first->table, BLOCK));
    expr *at = x_add(k, x_dim(k, first), a), *next = x_add(k, at, x_i64(k, 1));
    expr *far = x_add(k, at, x_i64(k, WORDS - BLOCK)), *to = x_add(k, at, x_i64(k, WORDS));
    expr *y = x_bin(k, X_OR, masked(k, x_read(k, w, &at), 0x80000000u),
                    masked(k, x_read(k, w, &next), 0x7FFFFFFFu));
    expr *odd = x_bin(k, X_NE, masked(k, y, 1), u32(k, 0));
    expr *v = x_bin(k, X_XOR, x_read(k, w, &far), shifted(k, X_SHR, y, 1));
    stage_write(k, s, w, &to, x_bin(k, X_XOR, v, x_select(k, odd, u32(k, 0x9908B0DFu), u32(k, 0))));
}

// to[i] = from[i + shift] for the words of a state
static void copy_state(lowering *l, const node *n, const char *suffix, buffer *to, buffer *from, dim *shift) {
    kernel *k = lower_kernel(l, n, suffix);
    stage *s = kernel_stage(k);
    expr *i = stage_own_axis(k, s, AXIS_PARALLEL, "i", dim_const(l->program->dims, WORDS)),
         *at = x_add(k, i, x_dim(k, shift));
    stage_write(k, s, to, &i, x_read(k, from, &at));
}

// The state carried between iterations: the words before the first unused one. Initialised at the entry of
// the program.
static buffer *state_in_loop(lowering *l, const node *n) {
    dim *size = dim_const(l->program->dims, WORDS);
    lowering first = *l;
    first.region = l->entry, first.depth = 0;
    buffer *state = lower_temp(&first, n, "state", DT_U32, 1, &size);
    copy_state(&first, n, "start", state, seeded(l, n), dim_const(l->program->dims, 0));
    return state;
}

// The words for `count` numbers.
static buffer *words(lowering *l, const node *n, dim *count) {
    dims *t = l->program->dims;
    dim *used = dim_mulk(count, 2), *blocks = dim_ceildiv(used, dim_const(t, BLOCK));
    buffer *w = lower_temp(l, n, "words", DT_U32, 1, (dim *[]){dim_addk(dim_mulk(blocks, BLOCK), WORDS)});
    buffer *state = l->depth ? state_in_loop(l, n) : NULL;
    copy_state(l, n, "seed", w, state ? state : seeded(l, n), dim_const(t, 0));
    dim *block = dim_opaque(t, "block", 0, INT64_MAX);
    region *outside = open_loop(l, n, block, blocks, NULL);
    twist(l, n, w, dim_mulk(block, BLOCK));
    close_loop(l, outside);
    if (state) copy_state(l, n, "next", state, w, used);
    return w;
}

static expr *temper(kernel *k, buffer *w, expr *i) {
    expr *v = x_read(k, w, &i);
    v = x_bin(k, X_XOR, v, shifted(k, X_SHR, v, 11));
    v = x_bin(k, X_XOR, v, masked(k, shifted(k, X_SHL, v, 7), 0x9D2C5680u));
    v = x_bin(k, X_XOR, v, masked(k, shifted(k, X_SHL, v, 15), 0xEFC60000u));
    return x_bin(k, X_XOR, v, shifted(k, X_SHR, v, 18));
}

// Number i as a double in [0, 1).
static expr *uniform(kernel *k, buffer *w, expr *i) {
    expr *first = x_add(k, x_mul(k, i, x_i64(k, 2)), x_i64(k, WORDS)), *second = x_add(k, first, x_i64(k, 1));
    expr *high = x_cast(k, shifted(k, X_SHR, temper(k, w, first), 5), DT_F64, false);
    expr *low = x_cast(k, shifted(k, X_SHR, temper(k, w, second), 6), DT_F64, false);
    return x_mul(k, x_add(k, x_mul(k, high, x_float(k, DT_F64, 0x1p26)), low), x_float(k, DT_F64, 0x1p-53));
}

// Row-major position of an index in b.
static expr *position(kernel *k, const buffer *b, expr *const *at) {
    expr *i = x_i64(k, 0);
    for (int j = 0; j < b->rank; j++) i = x_add(k, x_mul(k, i, x_dim(k, b->dims[j])), at[j]);
    return i;
}

static dtype element_type(const node *n, dtype fallback) {
    if (!node_attr(n, "dtype")) return fallback;
    dtype t = dtype_from_onnx((int)node_int(n, "dtype", 1));
    if (t == DT_NONE) infer_error(n, "attribute dtype is %lld", (long long)node_int(n, "dtype", 0));
    return t;
}

static dtype real_type(const node *n, dtype fallback) {
    dtype t = element_type(n, fallback);
    if (!dtype_is_float(t)) infer_error(n, "type %s is not a floating-point type", dtype_name(t));
    return t;
}

// ---------------------------------------------------------------- uniform and normal
static void infer_shaped(node *n) {
    int rank;
    const int64_t *shape = node_ints(n, "shape", &rank);
    dim *dims[MAX_RANK];
    if (rank > MAX_RANK)
        infer_error(n, "attribute shape has %d values; at most %d are supported", rank, MAX_RANK);
    for (int j = 0; j < rank; j++) dims[j] = infer_k(n, shape[j]);
    infer_set(n, 0, real_type(n, DT_F32), rank, dims);
}

static void infer_like(node *n) {
    int rank = infer_rank(n, 0);
    dtype own = infer_in(n, 0)->elem;
    infer_set(n, 0, real_type(n, dtype_is_float(own) ? own : DT_F32), rank, infer_in(n, 0)->dims);
}

static dtype work_type(const buffer *out) { return out->dtype == DT_F64 ? DT_F64 : DT_F32; }

static void lower_uniform(lowering *l, node *n) {
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *at[MAX_RANK];
    buffer *w = words(l, n, buffer_count(out));
    stage *s = pointwise_stage(l, n, out, &k, at);
    dtype t = work_type(out);
    double low = node_float(n, "low", 0), high = node_float(n, "high", 1);
    expr *v = x_cast(k, uniform(k, w, position(k, out, at)), t, false);
    v = x_add(k, x_mul(k, v, x_float(k, t, high - low)), x_float(k, t, low));
    stage_write(k, s, out, at, x_cast(k, v, out->dtype, true));
}

// Box-Muller transform: sqrt(-2 log u) cos(2 pi v), from numbers 2 i and 2 i + 1
static void lower_normal(lowering *l, node *n) {
    buffer *out = lower_out(l, n, 0), *w = words(l, n, dim_mulk(buffer_count(out), 2));
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, at);
    dtype t = work_type(out);
    expr *i = x_mul(k, position(k, out, at), x_i64(k, 2)), *one = x_float(k, DT_F64, 1);
    expr *u = x_cast(k, x_sub(k, one, uniform(k, w, i)), t, false); // in (0, 1]
    expr *turn =
        x_mul(k, uniform(k, w, x_add(k, i, x_i64(k, 1))), x_float(k, DT_F64, 6.28318530717958647692));
    expr *radius = x_un(k, X_SQRT, x_mul(k, x_float(k, t, -2), x_un(k, X_LOG, u)));
    expr *v = x_mul(k, radius, x_un(k, X_COS, x_cast(k, turn, t, false)));
    v = x_add(k, x_mul(k, v, x_float(k, t, node_float(n, "scale", 1))),
              x_float(k, t, node_float(n, "mean", 0)));
    stage_write(k, s, out, at, x_cast(k, v, out->dtype, true));
}

// ---------------------------------------------------------------- Bernoulli
static void infer_bernoulli(node *n) {
    int rank = infer_rank(n, 0);
    infer_set(n, 0, element_type(n, infer_in(n, 0)->elem), rank, infer_in(n, 0)->dims);
}

// Inversion method: 1 if the number is above 1 - p; for p above a half, if it is
// at most p.
static void lower_bernoulli(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0), *w = words(l, n, buffer_count(out));
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, at);
    expr *p = x_cast(k, x_read(k, x, at), DT_F64, false), *u = uniform(k, w, position(k, out, at));
    expr *low = x_lt(k, x_sub(k, x_float(k, DT_F64, 1), p), u), *high = x_bin(k, X_LE, u, p);
    expr *hit = x_select(k, x_bin(k, X_LE, p, x_float(k, DT_F64, 0.5)), low, high);
    stage_write(k, s, out, at, x_cast(k, hit, out->dtype, true));
}

// ---------------------------------------------------------------- Multinomial
static const char no_classes[] = "there are no classes to choose from";

static void infer_multinomial(node *n) {
    if (infer_rank(n, 0) != 2) infer_error(n, "the input has rank %d, not 2", infer_rank(n, 0));
    dim *const *in = infer_in(n, 0)->dims;
    if (dim_is(in[1], 0) && in[0]->min > 0) infer_error(n, "%s", no_classes);
    int64_t samples = node_int(n, "sample_size", 1);
    if (samples < 1) infer_error(n, "attribute sample_size is %lld", (long long)samples);
    dtype t = element_type(n, DT_I32);
    if (t != DT_I32 && t != DT_I64) infer_error(n, "attribute dtype must be int32 or int64");
    infer_set(n, 0, t, 2, (dim *[]){infer_in(n, 0)->dims[0], infer_k(n, samples)});
}

// 1: every row has classes.
static dim *has_classes(const buffer *x) {
    dim *none = dim_eq(x->dims[1], dim_const(x->dims[1]->table, 0));
    return dim_not(dim_mul(none, x->dims[0]));
}

static expr *local_scalar(kernel *k, stage *s, const char *name, expr *v) {
    buffer *b = kernel_local(k, name, v->dtype, 0, (dim *[]){NULL});
    stage_write(k, s, b, NULL, v);
    return x_read(k, b, NULL);
}

// for b:  top = max x; total = sum exp(x - top)
//   for j: for the classes in order: cumulative sum of exp; out = number of sums that are at most u * total
static void lower_multinomial(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0), *w = words(l, n, buffer_count(out));
    dtype t = work_type(x);
    lower_check(l, n, has_classes(x), no_classes);
    kernel *k = lower_kernel(l, n, NULL);
    expr *b = x_axis(k, kernel_axis(k, AXIS_PARALLEL, "b", x->dims[0]));
    k->nouter = 1;
    stage *s = kernel_stage(k);
    expr *c = stage_own_axis(k, s, AXIS_REDUCE, "c", x->dims[1]), *from[] = {b, c};
    expr *top = stage_reduce(k, s, RED_MAX, x_cast(k, x_read(k, x, from), t, false));
    top = local_scalar(k, s, "top", top);
    s = kernel_stage(k);
    from[1] = stage_own_axis(k, s, AXIS_REDUCE, "c", x->dims[1]);
    expr *total =
        stage_reduce(k, s, RED_SUM, x_un(k, X_EXP, x_sub(k, x_cast(k, x_read(k, x, from), t, false), top)));
    total = local_scalar(k, s, "total", total);
    s = kernel_stage(k);
    expr *at[] = {b, stage_own_axis(k, s, AXIS_PARALLEL, "j", out->dims[1])};
    expr *limit = x_mul(k, x_cast(k, uniform(k, w, position(k, out, at)), t, false), total);
    from[1] = stage_own_axis(k, s, AXIS_SCAN, "c", x->dims[1]);
    expr *passed = stage_state(k, s, t, x_zero(k, t)), *count = stage_state(k, s, DT_I64, x_i64(k, 0));
    expr *next = x_add(k, passed, x_un(k, X_EXP, x_sub(k, x_cast(k, x_read(k, x, from), t, false), top)));
    stage_step(s, 0, next, NULL);
    stage_step(s, 1, x_add(k, count, x_select(k, x_bin(k, X_LE, next, limit), x_i64(k, 1), x_i64(k, 0))),
               NULL);
    expr *last = x_dim(k, dim_addk(x->dims[1], -1));
    stage_write(k, s, out, at, x_cast(k, x_bin(k, X_MIN, count, last), out->dtype, true));
}

#define RANDOM(op, infer_fn, lower_fn)                                                                       \
    OPERATOR(op, .infer = infer_fn, .lower = lower_fn, .has_side_effect_on_random = true)
RANDOM(RandomUniform, infer_shaped, lower_uniform);
RANDOM(RandomUniformLike, infer_like, lower_uniform);
RANDOM(RandomNormal, infer_shaped, lower_normal);
RANDOM(RandomNormalLike, infer_like, lower_normal);
RANDOM(Bernoulli, infer_bernoulli, lower_bernoulli);
RANDOM(Multinomial, infer_multinomial, lower_multinomial);
