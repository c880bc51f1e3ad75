// Scalar expressions of a kernel: built with folding and sharing, traversed, rewritten, analysed.
#include "ir/kernel/eval.h"
#include "ir/kernel/program.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int arity;
    expr_class class;
    int cost;
    bool commutes;
    const char *infix;
} op_table[X_COUNT] = {
#define OP(op, name, operands, class, cost, commutes, infix)                                                 \
    [op] = {name, operands, class, cost, commutes, infix},
#include "ir/kernel/expr_ops.def"
};
const char *expr_op_name(expr_op op) { return op_table[op].name; }
const char *expr_op_infix(expr_op op) { return op_table[op].infix; }
expr_class expr_op_class(expr_op op) { return op_table[op].class; }
int expr_arity(expr_op op) { return op_table[op].arity; }
int expr_op_cost(expr_op op) { return op_table[op].cost; }

// ---------------------------------------------------------------- sharing
static bool same_expr(const expr *a, const expr *b) {
    if (a->op != b->op || a->dtype != b->dtype || a->axis != b->axis || a->to != b->to ||
        a->saturate != b->saturate || memcmp(a->arg, b->arg, sizeof a->arg) != 0)
        return false;
    if (a->op == X_READ)
        return a->buffer == b->buffer && a->guard == b->guard && a->fill == b->fill &&
               (a->buffer->rank == 0 ||
                memcmp(a->index, b->index, (size_t)a->buffer->rank * sizeof *a->index) == 0);
    return a->op == X_DIM ? a->dim == b->dim : a->i == b->i;
}

static uint64_t hash_expr(const expr *e) {
    uint64_t h = HASH_SEED;
    int64_t head[8] = {e->op, e->dtype, e->axis, e->to, e->saturate};
    for (int j = 0; j < 3; j++) head[5 + j] = e->arg[j] ? e->arg[j]->id : -1;
    h = hash_bytes(h, head, sizeof head);
    if (e->op == X_READ) {
        h = hash_bytes(h, &e->buffer, sizeof e->buffer);
        for (int j = 0; j < e->buffer->rank; j++) h = hash_bytes(h, &e->index[j]->id, sizeof(int));
        if (e->guard) h = hash_bytes(h, &e->guard->id, sizeof(int));
        return h;
    }
    return e->op == X_DIM ? hash_bytes(h, &e->dim->id, sizeof(int)) : hash_bytes(h, &e->i, sizeof e->i);
}

enum { AXIS_BITS = 63 };
static uint64_t axis_bit(int axis) { return UINT64_C(1) << (axis < AXIS_BITS ? axis : AXIS_BITS); }

static uint64_t axes_of(const expr *e) {
    if (e->op == X_AXIS) return axis_bit(e->axis);
    expr *operand[MAX_RANK + 3];
    uint64_t axes = 0;
    for (int j = expr_operands(e, operand) - 1; j >= 0; j--) axes |= operand[j]->axes;
    return axes;
}

static expr *intern(kernel *k, expr e) {
    uint64_t h = hash_expr(&e);
    expr *known = map_get_number(&k->shared, h);
    if (known && same_expr(known, &e)) return known;
    expr *made = ARENA_NEW(k->arena, expr);
    *made = e;
    made->id = k->exprs.n;
    made->axes = axes_of(made);
    VEC_PUSH(k->arena, &k->exprs, made);
    if (!known) map_put_number(&k->shared, h, made);
    return made;
}

expr *x_as_written(kernel *k, const expr *e) { return intern(k, *e); }

// ---------------------------------------------------------------- leaves
expr *x_float(kernel *k, dtype t, double v) {
    return intern(k, (expr){.op = X_CONST, .dtype = t, .f = t == DT_F32 ? (double)(float)v : v});
}
expr *x_int(kernel *k, dtype t, int64_t v) { return intern(k, (expr){.op = X_CONST, .dtype = t, .i = v}); }
expr *x_number(kernel *k, dtype t, double v) {
    return dtype_is_float(t) ? x_float(k, t, v) : x_int(k, t, eval_cast((cell){.f = v}, DT_F64, t, true).i);
}
expr *x_zero(kernel *k, dtype t) { return x_number(k, t, 0); }
expr *x_axis(kernel *k, int axis) {
    if (dim_is(k->axes.at[axis].extent, 1)) return x_i64(k, 0);
    return intern(k, (expr){.op = X_AXIS, .dtype = DT_I64, .axis = axis});
}
expr *x_dim(kernel *k, dim *d) {
    if (dim_is_const(d)) return x_i64(k, dim_value(d));
    return intern(k, (expr){.op = X_DIM, .dtype = DT_I64, .dim = d});
}
expr *x_state(kernel *k, int component, dtype t) {
    return intern(k, (expr){.op = X_STATE, .dtype = t, .axis = component});
}
expr *x_other(kernel *k, int component, dtype t) {
    return intern(k, (expr){.op = X_OTHER, .dtype = t, .axis = component});
}

// ---------------------------------------------------------------- operations
static bool is_const(const expr *e) { return e->op == X_CONST; }
static bool is_const_int(const expr *e, int64_t v) {
    return e->op == X_CONST && !dtype_is_float(e->dtype) && e->i == v;
}
static bool is_one(const expr *e) {
    return e->op == X_CONST && (dtype_is_float(e->dtype) ? e->f == 1 : e->i == 1);
}

static expr *fold(kernel *k, expr e) {
    int n = expr_arity(e.op);
    cell v[3] = {{0}};
    for (int j = 0; j < n; j++) {
        if (!is_const(e.arg[j])) return intern(k, e);
        v[j].i = e.arg[j]->i;
    }
    expr c = {.op = X_CONST, .dtype = e.dtype};
    c.i = eval_scalar(&e, v).i; // the same bits for floats
    return intern(k, c);
}

// Whether one of a < b and b <= a holds, as it does not for NaN.
static bool compares_ints(const expr *e) {
    return (e->op == X_LT || e->op == X_LE) && dtype_is_int(e->arg[0]->dtype);
}

static expr_op other_order(expr_op op) { return op == X_LT ? X_LE : X_LT; }

expr *x_un(kernel *k, expr_op op, expr *a) {
    dtype t = expr_op_class(op) == XC_TEST ? DT_BOOL : a->dtype;
    if (op == X_NOT && a->op == X_NOT) return a->arg[0];
    if (op == X_NOT && compares_ints(a)) return x_bin(k, other_order(a->op), a->arg[1], a->arg[0]);
    return fold(k, (expr){.op = op, .dtype = t, .arg = {a}});
}

// The dim that equals an int64 constant or dim expression; NULL: it is neither.
static dim *dim_of(kernel *k, const expr *e) {
    if (e->dtype != DT_I64) return NULL;
    if (e->op == X_DIM) return e->dim;
    return e->op == X_CONST ? dim_const(k->program->dims, e->i) : NULL;
}

static expr *fold_dims(kernel *k, expr_op op, expr *a, expr *b) {
    dim *x = dim_of(k, a), *y = dim_of(k, b);
    if (!x || !y || (is_const(a) && is_const(b))) return NULL;
    static dim *(*const arithmetic[X_COUNT])(dim *, dim *) = {
        [X_ADD] = dim_add, [X_SUB] = dim_sub,           [X_MUL] = dim_mul, [X_MIN] = dim_min,
        [X_MAX] = dim_max, [X_FLOORDIV] = dim_floordiv, [X_MOD] = dim_mod};
    static tri (*const compare[X_COUNT])(const dim *, const dim *) = {
        [X_EQ] = dim_equal, [X_LT] = dim_less, [X_LE] = dim_less_equal};
    bool may_fail = expr_op_class(op) == XC_INTEGER && y->min <= 0 && y->max >= 0;
    if (arithmetic[op]) return may_fail ? NULL : x_dim(k, arithmetic[op](x, y));
    tri holds = compare[op] ? compare[op](x, y) : TRI_UNKNOWN;
    return holds == TRI_UNKNOWN ? NULL : x_int(k, DT_BOOL, holds == TRI_YES);
}

// (x + c1) + c2 is x + (c1 + c2).
static expr *chain_constants(kernel *k, expr *a, expr *b) {
    if (a->op == X_ADD && is_const(a->arg[1]) && is_const(b) && dtype_is_int(a->dtype))
        return x_add(k, a->arg[0], x_int(k, a->dtype, (int64_t)((uint64_t)a->arg[1]->i + (uint64_t)b->i)));
    return NULL;
}

// x / n * n + x % n is x. A size n is 0 only where there is nothing to index.
static expr *join_digits(const expr *a, const expr *b) {
    if (a->op == X_MOD) return b->op == X_MUL ? join_digits(b, a) : NULL;
    const expr *high = a->op == X_MUL && b->op == X_MOD ? a->arg[0] : NULL, *n = high ? a->arg[1] : NULL;
    bool whole = high && high->op == X_FLOORDIV && high->arg[0] == b->arg[0] && high->arg[1] == n &&
                 b->arg[1] == n && (n->op == X_DIM || (is_const(n) && n->i > 0));
    return whole ? b->arg[0] : NULL;
}

// (x * m + y) / (m * n) is x / n and % (m * n) is (x % n) * m + y, with 0 <= y < m: the digits of a tiled
// index; x * (m * n) / m is x * n, % m 0.
static expr *split_digits(kernel *k, expr_op op, expr *a, expr *b) {
    if (!is_const(b) || b->i <= 0) return NULL;
    if (a->op == X_MUL && is_const(a->arg[1]) && a->arg[1]->i % b->i == 0 && expr_never_wraps(k, a->arg[0]))
        return op == X_MOD ? x_zero(k, a->dtype)
                           : x_mul(k, a->arg[0], x_int(k, a->dtype, a->arg[1]->i / b->i));
    if (a->op != X_ADD) return NULL;
    for (int j = 0; j < 2; j++) {
        expr *high = a->arg[j], *low = a->arg[1 - j];
        if (high->op != X_MUL || !is_const(high->arg[1])) continue;
        int64_t m = high->arg[1]->i;
        if (m <= 0 || b->i % m || !expr_never_wraps(k, high->arg[0])) continue;
        int_range r = expr_range(k, low);
        if (r.min < 0 || r.max >= m) continue;
        expr *digit = x_bin(k, op, high->arg[0], x_i64(k, b->i / m));
        return op == X_MOD ? x_add(k, x_mul(k, digit, high->arg[1]), low) : digit;
    }
    return NULL;
}

// Whether a is an axis whose extent does not exceed the size b.
static bool axis_is_below(kernel *k, const expr *a, expr *b) {
    return a->op == X_AXIS && dim_of(k, b) &&
           dim_less_equal(k->axes.at[a->axis].extent, dim_of(k, b)) == TRI_YES;
}

static expr *simplify_int(kernel *k, expr_op op, expr *a, expr *b) {
    expr *e;
    if (expr_op_class(op) == XC_INTEGER && (e = split_digits(k, op, a, b))) return e;
    if (op == X_ADD && !is_const_int(b, 0) && (e = chain_constants(k, a, b))) return e;
    if (op == X_ADD && (e = join_digits(a, b))) return e;
    if (is_const_int(b, 0) && (op == X_ADD || op == X_SUB)) return a;
    if (is_const_int(b, 0) && op == X_MUL) return b;
    if (is_one(b) && (op == X_MUL || op == X_DIV || op == X_FLOORDIV)) return a;
    if ((is_one(b) && op == X_MOD) || (a == b && op == X_SUB)) return x_zero(k, a->dtype);
    if (a == b && (op == X_MIN || op == X_MAX)) return a;
    if (op == X_SUB && is_const(b) && a->dtype == DT_I64 && b->i != INT64_MIN)
        return x_add(k, a, x_i64(k, -b->i));
    if (a->dtype != DT_I64) return NULL;
    int_range x = expr_range(k, a), y = expr_range(k, b);
    if (op == X_MOD && x.min >= 0 && x.max < y.min) return a;
    if (op == X_FLOORDIV && x.min >= 0 && x.max < y.min) return x_i64(k, 0);
    if (op == X_DIV && x.min >= 0 && y.min > 0) return x_bin(k, X_FLOORDIV, a, b);
    if ((op == X_LT && x.max < y.min) || (op == X_LE && x.max <= y.min)) return x_int(k, DT_BOOL, 1);
    if ((op == X_LT && x.min >= y.max) || (op == X_LE && x.min > y.max)) return x_int(k, DT_BOOL, 0);
    if ((op == X_MIN && x.max <= y.min) || (op == X_MAX && x.min >= y.max)) return a;
    if ((op == X_MIN && y.max <= x.min) || (op == X_MAX && y.min >= x.max)) return b;
    if ((op == X_LT || op == X_MOD || op == X_FLOORDIV) && axis_is_below(k, a, b))
        return op == X_LT ? x_int(k, DT_BOOL, 1) : op == X_MOD ? a : x_i64(k, 0);
    if (op == X_MIN && a->op == X_AXIS && dim_of(k, b) &&
        dim_less_equal(dim_addk(k->axes.at[a->axis].extent, -1), dim_of(k, b)) == TRI_YES)
        return a;
    return NULL;
}

static expr *simplify_bool(expr_op op, expr *a, expr *b) {
    if (is_const(a) && !is_const(b)) return simplify_bool(op, b, a);
    if (op == X_AND) return is_const_int(b, 1) || a == b ? a : is_const_int(b, 0) ? b : NULL;
    if (op == X_OR) return is_const_int(b, 0) || a == b ? a : is_const_int(b, 1) ? b : NULL;
    return NULL;
}

expr *x_bin(kernel *k, expr_op op, expr *a, expr *b) {
    if (op == X_CHECK)
        return is_const_int(b, 1) ? a : intern(k, (expr){.op = op, .dtype = a->dtype, .arg = {a, b}});
    if (op_table[op].commutes && is_const(a) && !is_const(b)) {
        expr *t = a;
        a = b, b = t;
    }
    if (a->dtype != b->dtype)
        diag_defect(k->program->diag, k->loc, "%s of %s and %s", expr_op_name(op), dtype_name(a->dtype),
                    dtype_name(b->dtype));
    expr *e = NULL;
    if (a->dtype == DT_I64) e = fold_dims(k, op, a, b);
    if (!e && !(is_const(a) && is_const(b))) {
        if (dtype_is_int(a->dtype)) e = simplify_int(k, op, a, b);
        else if (a->dtype == DT_BOOL) e = simplify_bool(op, a, b);
        else if ((op == X_MUL || op == X_DIV) && is_one(b)) e = a; // x + 0 would change -0
    }
    dtype t = expr_op_class(op) == XC_COMPARE ? DT_BOOL : a->dtype;
    return e ? e : fold(k, (expr){.op = op, .dtype = t, .arg = {a, b}});
}

// The opposite of a condition that compares integers in all of its parts, without X_NOT; NULL: of another one.
static expr *opposite(kernel *k, expr *c) {
    if (c->op == X_NOT || compares_ints(c)) return x_un(k, X_NOT, c);
    if (c->op != X_OR) return NULL;
    expr *a = opposite(k, c->arg[0]), *b = a ? opposite(k, c->arg[1]) : NULL;
    return b ? x_and(k, a, b) : NULL;
}

// Constants are the second choice where the opposite condition is as simple, so that masks have one form.
expr *x_select(kernel *k, expr *c, expr *a, expr *b) {
    if (is_const(c)) return c->i ? a : b;
    if (a == b) return a;
    if (c->op == X_NOT) return x_select(k, c->arg[0], b, a);
    expr *other = is_const(a) && !is_const(b) ? opposite(k, c) : NULL;
    if (other) return x_select(k, other, b, a);
    return fold(k, (expr){.op = X_SELECT, .dtype = a->dtype, .arg = {c, a, b}});
}

// The value without operand 1, a constant that `op` adds or subtracts: *c; e itself: it is not such a value.
static expr *without_constant(expr *e, expr_op op, double *c) {
    if (e->op != op || !is_const(e->arg[1])) return e;
    *c = dtype_is_float(e->dtype) ? e->arg[1]->f : (double)e->arg[1]->i;
    return e->arg[0];
}

// The integer x of type t in rint(float(x - zero) * scale / scale) + zero: both roundings are off by less than 2^-6 for integers
// of 16 bits. NULL: e has another form.
static expr *requantised_alike(expr *e, dtype t) {
    double zero = 0, taken = 0, least = 0x1p-100, most = 0x1p100;
    if (!dtype_is_int(t) || dtype_bits(t) > 16) return NULL;
    e = without_constant(e, X_ADD, &zero);
    if (e->op != X_RINT || e->dtype != DT_F32 || e->arg[0]->op != X_DIV) return NULL;
    const expr *product = e->arg[0]->arg[0], *scale = e->arg[0]->arg[1];
    if (product->op != X_MUL || product->arg[1] != scale || !is_const(scale)) return NULL;
    e = product->arg[0];
    if (e->op != X_CAST || !(scale->f >= least && scale->f <= most)) return NULL;
    e = without_constant(e->arg[0], X_SUB, &taken);
    if (e->op == X_CAST && e->dtype == DT_I32) e = e->arg[0];
    return e->dtype == t && zero == taken ? e : NULL;
}

// Whether a has a value of this storage type; saturation may change an infinity of 8 bits.
static bool is_stored_as(const expr *a, dtype storage, bool saturate) {
    return a->op == X_READ && a->buffer->dtype == storage && a->dtype == dtype_compute(storage) && !a->fill &&
           !(saturate && dtype_bits(storage) <= 8);
}

// The float that casts to wider ones end with, unchanged.
static expr *before_widening(expr *a) {
    while (a->op == X_CAST && dtype_is_float(a->dtype) && a->to == a->dtype &&
           dtype_is_float(a->arg[0]->dtype) && dtype_bits(a->dtype) > dtype_bits(a->arg[0]->dtype))
        a = a->arg[0];
    return a;
}

expr *x_cast(kernel *k, expr *a, dtype to, bool saturate) {
    dtype t = dtype_compute(to);
    expr *narrow = before_widening(a);
    if (to == a->dtype) return a;
    if (to == narrow->dtype || is_stored_as(narrow, to, saturate)) return narrow;
    expr *same = requantised_alike(a, to);
    if (same) return same;
    if (a->op == X_DIM || (a->op == X_CONST && t == DT_I64)) saturate = true;
    return fold(k, (expr){.op = X_CAST, .dtype = t, .arg = {a}, .to = to, .saturate = saturate});
}

expr *x_round_to(kernel *k, expr *a, dtype storage, bool saturate) {
    if (storage == a->dtype || is_stored_as(a, storage, saturate)) return a;
    return fold(k,
                (expr){.op = X_ROUND_TO, .dtype = a->dtype, .arg = {a}, .to = storage, .saturate = saturate});
}

expr *x_bitcast(kernel *k, expr *a, dtype to) {
    return to == a->dtype ? a : fold(k, (expr){.op = X_BITCAST, .dtype = to, .arg = {a}});
}

static expr *read_expr(kernel *k, buffer *b, expr *const *index, expr *guard, expr *fill) {
    expr e = {.op = X_READ, .dtype = dtype_compute(b->dtype), .buffer = b, .guard = guard, .fill = fill};
    e.index = ARENA_ARRAY(k->arena, expr *, b->rank ? b->rank : 1);
    for (int j = 0; j < b->rank; j++) e.index[j] = index[j];
    return intern(k, e);
}

expr *x_read(kernel *k, buffer *b, expr *const *index) { return read_expr(k, b, index, NULL, NULL); }

expr *x_read_first(kernel *k, buffer *b) {
    expr *zero[MAX_RANK];
    for (int j = 0; j < b->rank; j++) zero[j] = x_i64(k, 0);
    return x_read(k, b, zero);
}

expr *x_read_guarded(kernel *k, buffer *b, expr *const *index, expr *guard, expr *fill) {
    if (!guard || is_const_int(guard, 1)) return x_read(k, b, index);
    if (!fill) fill = x_zero(k, dtype_compute(b->dtype));
    if (is_const(guard)) return fill;
    return read_expr(k, b, index, guard, fill);
}

expr *x_check(kernel *k, expr *a, expr *holds, int message) {
    if (is_const_int(holds, 1)) return a;
    const check_message *m = k->messages.at[message];
    return intern(k,
                  (expr){.op = X_CHECK, .dtype = a->dtype, .arg = {a, holds}, .axis = message, .message = m});
}

static expr *checked_index(kernel *k, expr *index, dim *extent, bool wrap, const char *text,
                           const char *numbered) {
    if (index->dtype != DT_I64) index = x_cast(k, index, DT_I64, true);
    expr *n = x_dim(k, extent), *zero = x_i64(k, 0);
    expr *i = wrap ? x_select(k, x_lt(k, index, zero), x_add(k, index, n), index) : index;
    expr *ok = x_and(k, x_bin(k, X_LE, zero, i), x_lt(k, i, n));
    if (is_const_int(ok, 1)) return i;
    int message = kernel_message(k, text, numbered);
    expr *clamped = x_bin(k, X_MAX, x_bin(k, X_MIN, i, x_add(k, n, x_i64(k, -1))), zero);
    return x_check(k, clamped, ok, message);
}

expr *x_checked_index(kernel *k, expr *index, dim *extent, bool wrap, const char *message) {
    return checked_index(k, index, extent, wrap, message, NULL);
}

expr *x_checked_position(kernel *k, expr *index, dim *extent, int axis) {
    return checked_index(k, index, extent, true,
                         arena_printf(k->arena, "an index is out of range for axis %d", axis),
                         arena_printf(k->arena, "index \1 is out of range for axis %d of size \2", axis));
}

// ---------------------------------------------------------------- messages of checks
int kernel_message(kernel *k, const char *text, const char *numbered) {
    check_message *m = ARENA_NEW(k->arena, check_message);
    *m = (check_message){text, numbered, k->loc};
    if (!numbered) m->numbered = arena_printf(k->arena, "%s (index \1, size \2)", text);
    VEC_PUSH(k->arena, &k->messages, m);
    return k->messages.n - 1;
}

int kernel_message_of(kernel *k, const check_message *m) {
    int j = 0;
    while (j < k->messages.n && k->messages.at[j] != m) j++;
    if (j == k->messages.n) VEC_PUSH(k->arena, &k->messages, m);
    return j;
}

const char *text_located(arena *a, const loc *at, const char *said) {
    if (!at || !at->node) return said;
    text t = {.arena = a};
    text_add_node(&t, at, false);
    text_printf(&t, ": %s", said);
    return text_str(&t);
}

static const char *located(arena *a, const kernel *k, const check_message *m, const char *said) {
    return text_located(a, m->loc && m->loc->node ? m->loc : k->loc, said);
}

const char *failure_text(arena *a, const kernel *k, int message) {
    return located(a, k, k->messages.at[message], k->messages.at[message]->text);
}

const char *failure_numbered(arena *a, const kernel *k, int message) {
    return located(a, k, k->messages.at[message], k->messages.at[message]->numbered);
}

const char *text_numbered(arena *a, const char *said, int64_t first, int64_t second) {
    text t = {.arena = a};
    for (; *said; said++) {
        if (*said == '\1' || *said == '\2')
            text_printf(&t, "%lld", (long long)(*said == '\1' ? first : second));
        else text_addn(&t, said, 1);
    }
    return text_str(&t);
}

bool check_operands(const expr *check, const expr **index, const expr **size) {
    const expr *holds = check->arg[1], *less = NULL;
    for (int j = 0; j < 2 && holds->op == X_AND; j++)
        if (holds->arg[j]->op == X_LT) less = holds->arg[j];
    if (holds->op == X_LT) less = holds;
    if (!less || (less->arg[1]->op != X_DIM && less->arg[1]->op != X_CONST)) return false;
    const expr *i = less->arg[0];
    bool wrapped = i->op == X_SELECT && i->arg[0]->op == X_LT && i->arg[0]->arg[0] == i->arg[2];
    *index = wrapped ? i->arg[2] : i, *size = less->arg[1];
    return dtype_class_of((*index)->dtype) == DC_INT && dtype_class_of((*size)->dtype) == DC_INT;
}

// ---------------------------------------------------------------- looking
int expr_operands(const expr *e, expr **out) {
    int n = 0;
    for (int j = 0; j < expr_arity(e->op); j++) out[n++] = e->arg[j];
    if (e->op != X_READ) return n;
    for (int j = 0; j < e->buffer->rank; j++) out[n++] = e->index[j];
    if (e->guard) out[n++] = e->guard, out[n++] = e->fill;
    return n;
}

// The distinct nodes under the roots, root by root. Operands have smaller ids than their users, so that
// marking reachable ids downwards needs no recursion. Small mark arrays are on the stack, because lists are
// requested often.
typedef struct mark {
    expr *node;
    int root; // that reached it first, from 1; 0: not reached
} mark;
static int mark_under(mark *marks, expr *root, int number) {
    expr *operand[MAX_RANK + 3];
    int found = 0;
    if (!marks[root->id].root) marks[root->id] = (mark){root, number};
    for (int id = root->id; id >= 0; id--) {
        if (marks[id].root != number) continue;
        int n = expr_operands(marks[id].node, operand);
        for (int j = 0; j < n; j++)
            if (!marks[operand[j]->id].root) marks[operand[j]->id] = (mark){operand[j], number};
        found++;
    }
    return found;
}

// Nodes in the order in which they are found, and a table of their ids of which at most half is taken.
typedef struct node_set {
    arena *arena;
    VEC(expr *) found;
    const expr **table;
    int size; // a power of two
} node_set;
static const expr **place_in(const node_set *s, int id) {
    unsigned mask = (unsigned)s->size - 1, i = (unsigned)id * 2654435769u >> 7 & mask;
    while (s->table[i] && s->table[i]->id != id) i = (i + 1) & mask;
    return &s->table[i];
}
static void add_once(node_set *s, expr *e) {
    const expr **place = place_in(s, e->id);
    if (*place) return;
    *place = e;
    VEC_PUSH(s->arena, &s->found, e);
    if (2 * s->found.n <= s->size) return;
    s->size *= 2;
    s->table = ARENA_ARRAY(s->arena, const expr *, s->size);
    for (int j = 0; j < s->found.n; j++) *place_in(s, s->found.at[j]->id) = s->found.at[j];
}
static int by_id(const void *a, const void *b) {
    const expr *const *x = a, *const *y = b;
    return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}
static void sort_by_id(arena *a, expr **at, int n) {
    enum { SPREAD = 16 };
    int low = at[0]->id, high = at[0]->id;
    for (int j = 1; j < n; j++) {
        low = at[j]->id < low ? at[j]->id : low;
        high = at[j]->id > high ? at[j]->id : high;
    }
    if ((high - low) / SPREAD > n) {
        qsort(at, (size_t)n, sizeof *at, by_id);
        return;
    }
    expr **of = ARENA_ARRAY(a, expr *, high - low + 1);
    for (int j = 0; j < n; j++) of[at[j]->id - low] = at[j];
    for (int id = 0, j = 0; id <= high - low; id++)
        if (of[id]) at[j++] = of[id];
}
// The same in the time of the nodes that are found: of one stage among many, or under many roots.
static expr_list few_nodes_under(arena *a, expr_list roots) {
    enum { SIZE = 64 };
    const expr *table[SIZE] = {0};
    expr *operand[MAX_RANK + 3];
    node_set s = {.arena = a, .table = table, .size = SIZE};
    for (int j = 0; j < roots.n; j++) {
        int begin = s.found.n;
        add_once(&s, roots.at[j]);
        for (int i = begin; i < s.found.n; i++) {
            int n = expr_operands(s.found.at[i], operand);
            for (int k = 0; k < n; k++) add_once(&s, operand[k]);
        }
        if (s.found.n - begin > 1) sort_by_id(a, s.found.at + begin, s.found.n - begin);
    }
    return (expr_list){s.found.n, s.found.at};
}

static expr_list nodes_under(arena *a, expr_list roots) {
    enum { FEW = 256 };
    mark marks[FEW]; // by id
    int n = 0, found = 0;
    for (int j = 0; j < roots.n; j++) n = roots.at[j]->id >= n ? roots.at[j]->id + 1 : n;
    if (n > FEW || (int64_t)n * roots.n > 4 * FEW) return few_nodes_under(a, roots);
    memset(marks, 0, (size_t)n * sizeof *marks);
    for (int j = 0; j < roots.n; j++) found += mark_under(marks, roots.at[j], j + 1);
    expr_list list = {0, ARENA_ARRAY(a, expr *, found)};
    for (int j = 0; j < roots.n; j++)
        for (int id = 0; id <= roots.at[j]->id; id++)
            if (marks[id].root == j + 1) list.at[list.n++] = marks[id].node;
    return list;
}

expr_list expr_nodes(arena *a, expr *e) { return nodes_under(a, (expr_list){1, &e}); }

enum { FEW_ROOTS = 32 };
typedef struct root_list {
    arena *arena;
    VEC(expr *) list; // begins on the stack
} root_list;
static void add_root(root_list *r, expr *e) {
    if (e) VEC_PUSH(r->arena, &r->list, e);
}
static void add_roots(root_list *r, const stage *s, unsigned parts) {
    for (int j = 0; j < s->states.n; j++) {
        const state *st = &s->states.at[j];
        if (parts & PART_INIT) add_root(r, st->init);
        if (parts & PART_STEP) add_root(r, st->step);
        if (parts & PART_MERGE) add_root(r, st->merge);
    }
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        for (int i = 0; i < w->to->rank && parts & PART_INDEX; i++) add_root(r, w->index[i]);
        if (parts & PART_VALUE) add_root(r, w->value);
        if (parts & PART_GUARD) add_root(r, w->guard);
    }
}

expr_list stage_nodes(arena *a, const stage *s, unsigned parts) {
    expr *few[FEW_ROOTS];
    root_list r = {a, {few, 0, FEW_ROOTS}};
    add_roots(&r, s, parts);
    return nodes_under(a, (expr_list){r.list.n, r.list.at});
}

expr_list kernel_nodes(arena *a, const kernel *k, unsigned parts) {
    expr *few[FEW_ROOTS];
    root_list r = {a, {few, 0, FEW_ROOTS}};
    for (int s = 0; s < k->stages.n; s++) add_roots(&r, k->stages.at[s], parts);
    return nodes_under(a, (expr_list){r.list.n, r.list.at});
}

expr_list reads_only(expr_list l) {
    expr_list reads = {0, l.at};
    for (int j = 0; j < l.n; j++)
        if (l.at[j]->op == X_READ) reads.at[reads.n++] = l.at[j];
    return reads;
}

static bool any_of(arena *scratch, expr_list l, bool (*is)(const expr *e)) {
    bool found = false;
    for (int j = 0; j < l.n && !found; j++) found = is(l.at[j]);
    arena_destroy(scratch);
    return found;
}
bool expr_any(expr *e, bool (*is)(const expr *e)) {
    arena *scratch = arena_new();
    return any_of(scratch, expr_nodes(scratch, e), is);
}
bool stage_any(const stage *s, bool (*is)(const expr *e)) {
    arena *scratch = arena_new();
    return any_of(scratch, stage_nodes(scratch, s, PART_ALL), is);
}

bool expr_uses_axis(const expr *e, int axis) {
    if (!(e->axes & axis_bit(axis))) return false;
    if (axis < AXIS_BITS) return true;
    if (e->op == X_AXIS) return e->axis == axis;
    arena *scratch = arena_new();
    expr *operand[MAX_RANK + 3];
    expr_list all = nodes_under(scratch, (expr_list){expr_operands(e, operand), operand});
    bool found = false;
    for (int j = 0; j < all.n; j++) found |= all.at[j]->op == X_AXIS && all.at[j]->axis == axis;
    arena_destroy(scratch);
    return found;
}

// ---------------------------------------------------------------- rewriting
expr *expr_rebuild(kernel *k, const expr *e, expr *const *done) {
    expr *a[3] = {0};
    for (int j = 0; j < expr_arity(e->op); j++) a[j] = done[e->arg[j]->id];
    switch (e->op) {
    case X_CONST: return intern(k, (expr){.op = X_CONST, .dtype = e->dtype, .i = e->i});
    case X_AXIS: return x_axis(k, e->axis);
    case X_DIM: return x_dim(k, e->dim);
    case X_STATE: return x_state(k, e->axis, e->dtype);
    case X_OTHER: return x_other(k, e->axis, e->dtype);
    case X_CAST: return x_cast(k, a[0], e->to, e->saturate);
    case X_SELECT: return x_select(k, a[0], a[1], a[2]);
    case X_CHECK: return x_check(k, a[0], a[1], kernel_message_of(k, e->message));
    case X_ROUND_TO:
    case X_BITCAST: {
        expr copy = {.op = e->op, .dtype = e->dtype, .to = e->to, .saturate = e->saturate};
        memcpy(copy.arg, a, sizeof a);
        return fold(k, copy);
    }
    case X_READ: {
        expr *index[MAX_RANK];
        for (int j = 0; j < e->buffer->rank; j++) index[j] = done[e->index[j]->id];
        return x_read_guarded(k, e->buffer, index, e->guard ? done[e->guard->id] : NULL,
                              e->fill ? done[e->fill->id] : NULL);
    }
    case X_COUNT:
#define LEAF(...)
#define SPECIAL(...)
#define OP(op, ...) case op:
#include "ir/kernel/expr_ops.def"
        break;
    }
    return expr_arity(e->op) == 1 ? x_un(k, e->op, a[0]) : x_bin(k, e->op, a[0], a[1]);
}

expr *expr_rewrite(kernel *k, expr *e, expr *(*map)(void *user, expr *e), void *user) {
    arena *scratch = arena_new();
    expr_list l = expr_nodes(scratch, e);
    expr **done = ARENA_ARRAY(scratch, expr *, e->id + 1);
    for (int j = 0; j < l.n; j++) {
        expr *mapped = map(user, l.at[j]);
        done[l.at[j]->id] = mapped ? mapped : expr_rebuild(k, l.at[j], done);
    }
    expr *result = done[e->id];
    arena_destroy(scratch);
    return result;
}

// ---------------------------------------------------------------- affine form
static bool is_invariant(const expr *e) {
    bool leaf = expr_op_class(e->op) == XC_LEAF,
         invariant = leaf ? e->op == X_CONST || e->op == X_DIM : e->op != X_CHECK;
    for (int j = 0; j < expr_arity(e->op) && invariant; j++) invariant = is_invariant(e->arg[j]);
    return invariant;
}

bool expr_affine(kernel *k, expr *e, expr **base, expr **coef) {
    int n = k->axes.n;
    *base = x_i64(k, 0);
    for (int a = 0; a < n; a++) coef[a] = *base;
    if (e->dtype != DT_I64) return false;
    if (e->op == X_AXIS) return coef[e->axis] = x_i64(k, 1), true;
    if (is_invariant(e)) return *base = e, true;
    if (e->op != X_ADD && e->op != X_SUB && e->op != X_MUL) return false;
    expr *x = e->arg[0], *y = e->arg[1], *base2, *coef2[256];
    if (n > 256) return false;
    if (e->op == X_MUL) {
        bool swap = !is_invariant(y);
        if (swap && !is_invariant(x)) return false;
        if (!expr_affine(k, swap ? y : x, base, coef)) return false;
        if (swap) y = x;
        *base = x_mul(k, *base, y);
        for (int a = 0; a < n; a++) coef[a] = x_mul(k, coef[a], y);
        return true;
    }
    if (!expr_affine(k, x, base, coef) || !expr_affine(k, y, &base2, coef2)) return false;
    *base = x_bin(k, e->op, *base, base2);
    for (int a = 0; a < n; a++) coef[a] = x_bin(k, e->op, coef[a], coef2[a]);
    return true;
}

expr *expr_slope(kernel *k, expr *e, int axis) {
    if (!expr_uses_axis(e, axis)) return x_i64(k, 0);
    if (e->op == X_AXIS) return x_i64(k, 1);
    if (e->dtype != DT_I64 || (e->op != X_ADD && e->op != X_SUB && e->op != X_MUL)) return NULL;
    expr *x = e->arg[0], *y = e->arg[1];
    if (e->op == X_MUL) {
        bool swap = is_invariant(x);
        if (!swap && !is_invariant(y)) return NULL;
        expr *slope = expr_slope(k, swap ? y : x, axis);
        return slope ? x_mul(k, slope, swap ? x : y) : NULL;
    }
    x = expr_slope(k, x, axis), y = expr_slope(k, y, axis);
    return x && y ? x_bin(k, e->op, x, y) : NULL;
}

bool expr_is_multiple(const expr *e, int64_t n) {
    if (e->op == X_CONST) return e->i % n == 0;
    if (e->op == X_DIM) return dim_divisible(e->dim, n);
    if (e->op != X_MUL && e->op != X_ADD && e->op != X_SUB) return false;
    bool x = expr_is_multiple(e->arg[0], n), y = expr_is_multiple(e->arg[1], n);
    return e->op == X_MUL ? x || y : x && y;
}
