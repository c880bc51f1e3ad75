// What is known of the values of index expressions. In: an int64 expression of a kernel, whose axes and dims have bounds. Out: the
// range of its values.
#include "ir/kernel/kernel.h"

// The range, and whether it depends on elements of tensors: their arithmetic may wrap, arithmetic of positions never does.
typedef struct known {
    int_range range;
    bool data;
} known;

enum { DEEPEST = 12 };
static const known anything = {{INT64_MIN, INT64_MAX}, true};

// Integers that were narrow before they were converted have few values.
static int_range range_of_narrow(const expr *e) {
    int_range all = INT_RANGE_ALL;
    dtype t = e->op == X_READ ? e->buffer->dtype : e->dtype; // elements of less than a byte are read as bytes
    int bits = dtype_bits(t);
    if (!dtype_is_int(t) || !dtype_is_int(e->dtype) || (e->op == X_READ && e->guard)) return all;
    if (bits < 64 && dtype_is_signed(t))
        all = (int_range){-(INT64_C(1) << (bits - 1)), (INT64_C(1) << (bits - 1)) - 1};
    else if (bits < 64) all = (int_range){0, (INT64_C(1) << bits) - 1};
    if (e->op != X_CAST || !dtype_is_int(e->arg[0]->dtype)) return all;
    int_range before = range_of_narrow(e->arg[0]);
    return int_range_within(before, all) ? before : all;
}

static known known_of_axis(const kernel *k, int axis) {
    int64_t most = k->axes.at[axis].extent->max;
    return (known){{0, most == INT64_MAX ? most : most > 0 ? most - 1 : 0}, false};
}

typedef int_range range_rule(int_range a, int_range b);
static range_rule *const rules[X_COUNT] = {
    [X_ADD] = int_range_add, [X_SUB] = int_range_sub, [X_MUL] = int_range_mul,
    [X_MIN] = int_range_min, [X_MAX] = int_range_max, [X_FLOORDIV] = int_range_floordiv,
    [X_MOD] = int_range_mod};

static bool can_wrap(expr_op op) { return op == X_ADD || op == X_SUB || op == X_MUL; }

static known known_of(const kernel *k, const expr *e, int depth) {
    if (e->dtype != DT_I64 || depth > DEEPEST) return anything;
    if (e->op == X_CONST) return (known){{e->i, e->i}, false};
    if (e->op == X_DIM) return (known){{e->dim->min, e->dim->max}, false};
    if (e->op == X_AXIS) return known_of_axis(k, e->axis);
    if (e->op == X_CAST) return (known){range_of_narrow(e), true};
    if (!rules[e->op]) return anything;
    known a = known_of(k, e->arg[0], depth + 1), b = known_of(k, e->arg[1], depth + 1);
    if ((e->op == X_FLOORDIV || e->op == X_MOD) && b.range.min <= 0) return anything; // by 0 gives 0
    known r = {rules[e->op](a.range, b.range), a.data || b.data};
    bool open = is_infinite(r.range.min) || is_infinite(r.range.max);
    return r.data && open && can_wrap(e->op) ? anything : r;
}

int_range expr_range(const kernel *k, const expr *e) { return known_of(k, e, 0).range; }

bool expr_never_wraps(const kernel *k, const expr *e) {
    known r = known_of(k, e, 0);
    return r.range.min > INT64_MIN && (!r.data || r.range.max < INT64_MAX);
}

bool expr_is_short(const kernel *k, const expr *e) {
    int_range all = {INT32_MIN, INT32_MAX};
    if (e->dtype != DT_I64 || !int_range_within(expr_range(k, e), all)) return false;
    for (int j = 0; rules[e->op] && j < expr_arity(e->op); j++)
        if (!expr_is_short(k, e->arg[j])) return false;
    return true;
}
