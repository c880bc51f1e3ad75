// Interval arithmetic. In: the ranges of two operands. Out: the range of the result.
#include "ir/graph/int_range.h"
#include "compiler/base/integers.h"

int64_t floor_div(int64_t a, int64_t b) {
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t clamp(__int128 v) {
    return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

int_range int_range_add(int_range a, int_range b) {
    return (int_range){
        a.min == INT64_MIN || b.min == INT64_MIN ? INT64_MIN : clamp((__int128)a.min + b.min),
        a.max == INT64_MAX || b.max == INT64_MAX ? INT64_MAX : clamp((__int128)a.max + b.max),
    };
}

static int64_t negate_end(int64_t v) { return v == INT64_MIN ? INT64_MAX : v == INT64_MAX ? INT64_MIN : -v; }

int_range int_range_sub(int_range a, int_range b) {
    return int_range_add(a, (int_range){negate_end(b.max), negate_end(b.min)});
}

static int64_t mul_ends(int64_t a, int64_t b) {
    if (a == 0 || b == 0) return 0;
    if (is_infinite(a) || is_infinite(b)) return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return clamp((__int128)a * b);
}

static void widen(int_range *r, int64_t v) {
    if (v < r->min) r->min = v;
    if (v > r->max) r->max = v;
}

int_range int_range_mul(int_range a, int_range b) {
    int64_t first = mul_ends(a.min, b.min);
    int_range r = {first, first};
    widen(&r, mul_ends(a.min, b.max));
    widen(&r, mul_ends(a.max, b.min));
    widen(&r, mul_ends(a.max, b.max));
    return r;
}

int_range int_range_min(int_range a, int_range b) {
    return (int_range){int_min(a.min, b.min), int_min(a.max, b.max)};
}

int_range int_range_max(int_range a, int_range b) {
    return (int_range){int_max(a.min, b.min), int_max(a.max, b.max)};
}

int_range int_range_hull(int_range a, int_range b) {
    return (int_range){int_min(a.min, b.min), int_max(a.max, b.max)};
}

static int64_t div_ends(int64_t a, int64_t b) {
    if (is_infinite(b)) return (a < 0) == (b < 0) || a == 0 ? 0 : -1;
    if (is_infinite(a)) return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return floor_div(a, b);
}

// The quotient is monotonic in each operand while b keeps its sign.
int_range int_range_floordiv(int_range a, int_range b) {
    int64_t ends[4] = {b.min, b.max, 1, -1};
    int_range r = {INT64_MAX, INT64_MIN};
    for (int i = 0; i < 4; i++) {
        if (ends[i] == 0 || ends[i] < b.min || ends[i] > b.max) continue;
        widen(&r, div_ends(a.min, ends[i]));
        widen(&r, div_ends(a.max, ends[i]));
    }
    return r.min > r.max ? INT_RANGE_ALL : r;
}

int_range int_range_mod(int_range a, int_range b) {
    int_range r = {b.min < 0 ? (b.min == INT64_MIN ? b.min : b.min + 1) : 0,
                   b.max > 0 ? (b.max == INT64_MAX ? b.max : b.max - 1) : 0};
    if (b.min >= 0 && a.min >= 0 && a.max < r.max) r.max = a.max;
    return r;
}
