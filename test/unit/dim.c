// Dims: normal forms, what is known of their values, text, and random expressions against plain arithmetic.
#include "ir/graph/dim.h"
#include "compiler/base/arena.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

typedef struct fixture {
    arena *a;
    dims *t;
} fixture;

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    f->a = arena_new();
    f->t = dims_new(f->a);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    arena_destroy(f->a);
    free(f);
    return 0;
}

static dim *parse(fixture *f, const char *s) {
    dim *d = dim_parse(f->t, s);
    if (!d) fail_msg("'%s' does not parse", s);
    return d;
}

static dim *bounded(fixture *f, const char *name, int64_t lo, int64_t hi, int64_t by) {
    dim *d = dim_symbol(f->t, name);
    dim_bound(d, lo, hi, by);
    return d;
}

// Each left text parses and simplifies to the right one.
static void simplifications(void **state) {
    fixture *f = *state;
    bounded(f, "P", 1, INT64_MAX, 1);
    bounded(f, "Q", 1, INT64_MAX, 1);
    bounded(f, "E", 0, INT64_MAX, 4);
    bounded(f, "S", 1, 7, 1);
    static const char *const pairs[][2] = {
        {"N + N", "2*N"},
        {"N - N", "0"},
        {"(N + 1)*(N - 1)", "N*N - 1"},
        {"floordiv(2*N + 4, 2)", "N + 2"},
        {"floordiv(2*N + 5, 2)", "N + 2"},
        {"floordiv(3*N, 2)", "N + floordiv(N, 2)"},
        {"floordiv(6*N + 3, 9)", "floordiv(2*N + 1, 3)"},
        {"floordiv(floordiv(N + 1, 2) + 1, 2)", "floordiv(N + 3, 4)"},
        {"floordiv(N - 1, 2) + 1", "floordiv(N + 1, 2)"},
        {"floordiv(N, 1)", "N"},
        {"floordiv(N, -1)", "-N"},
        {"floordiv(S, 8)", "0"},
        {"floordiv(N*P, P)", "N"},
        {"floordiv(N*M, M)", "floordiv(M*N, M)"}, // M may be 0
        {"floordiv(N, N)", "floordiv(N, N)"},
        {"floordiv(P, P)", "1"},
        {"floordiv(P*N + 2*N, P + 2)", "N"},
        {"floordiv(6*N*P, 4*P)", "N + floordiv(N, 2)"},
        {"floordiv(P - 1, P)", "0"},
        {"floordiv(N, 0)", "floordiv(N, 0)"},
        {"floordiv(0, P)", "0"},
        {"mod(4*N, 2)", "0"},
        {"mod(4*N + 3, 2)", "1"},
        {"mod(E, 4)", "0"},
        {"mod(E + N, 2)", "mod(N, 2)"},
        {"mod(S, 8)", "S"},
        {"mod(mod(N, 12), 4)", "mod(N, 4)"},
        {"mod(6*N, 9)", "3*mod(2*N, 3)"},
        {"mod(N*P, P)", "0"},
        {"mod(-7, 3)", "2"},
        {"mod(7, -3)", "-2"},
        {"min(N, N + 1)", "N"},
        {"max(N, N + 1)", "N + 1"},
        {"min(S, 7)", "S"},
        {"max(N, 0)", "N"},
        {"min(min(N, 5), 3)", "min(N, 3)"},
        {"max(2, max(3, N))", "max(N, 3)"},
        {"min(max(N, M), N)", "N"},
        {"lt(S, 8)", "1"},
        {"lt(N, 0)", "0"},
        {"lt(min(N, 5), N + 1)", "1"},
        {"lt(floordiv(N, 2), N + 1)", "1"},
        {"eq(2*N, 3)", "0"},
        {"eq(N, N)", "1"},
        {"eq(N, -1)", "0"},
        {"eq(M, N)", "eq(M, N)"},
        {"eq(N, M)", "eq(M, N)"},
        {"select(lt(N, M), N, M)", "min(M, N)"},
        {"select(lt(N, M), M, N)", "max(M, N)"},
        {"select(eq(N, 3), 1, 0)", "eq(N, 3)"},
        {"select(S, N, M)", "N"},
        {"select(lt(N, 3), M, M)", "M"},
        {"9223372036854775807 + 1", "overflow"},
        {"overflow + N", "overflow"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"floordiv(-9223372036854775808, -1)", "overflow"},
        {"\"a b\" + \"min\"", "\"a b\" + \"min\""},
        {"?x*2 - ?\"y z\"", "-?\"y z\" + 2*?x"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_string_equal(dim_text(f->a, parse(f, pairs[i][0])), pairs[i][1]);
}

static void division_variants(void **state) {
    fixture *f = *state;
    for (int64_t a = -7; a <= 7; a++)
        for (int64_t b = -3; b <= 3; b++) {
            if (!b) continue;
            dim *x = dim_const(f->t, a), *y = dim_const(f->t, b);
            assert_true(dim_is(dim_truncdiv(x, y), a / b));
            assert_true(dim_is(dim_ceildiv(x, y), -dim_value(dim_floordiv(dim_neg(x), y))));
            assert_true(dim_is(dim_add(dim_mul(y, dim_floordiv(x, y)), dim_mod(x, y)), a));
        }
    dim *n = bounded(f, "N", 1, 100, 1);
    assert_ptr_equal(dim_ceildiv(dim_mulk(n, 4), dim_const(f->t, 4)), n);
    assert_true(dim_ceildiv(n, dim_const(f->t, 32))->min == 1);
    assert_true(dim_ceildiv(n, dim_const(f->t, 32))->max == 4);
}

static void equal_dims_are_the_same_pointer(void **state) {
    fixture *f = *state;
    dim *n = dim_symbol(f->t, "N"), *m = dim_symbol(f->t, "M");
    assert_ptr_equal(dim_mul(n, m), dim_mul(m, n));
    assert_ptr_equal(dim_add(dim_mul(n, m), dim_const(f->t, 3)), dim_add(dim_const(f->t, 3), dim_mul(m, n)));
    assert_ptr_equal(dim_min(n, m), dim_min(m, n));
    assert_ptr_equal(dim_product(f->t, NULL, 0), dim_const(f->t, 1));
    dim *huge = dim_const(f->t, INT64_MAX);
    assert_true(dim_is(dim_product(f->t, (dim *[]){huge, huge, dim_const(f->t, 0)}, 3), 0));
    assert_ptr_not_equal(dim_opaque(f->t, "nz", 0, 5), dim_opaque(f->t, "nz", 0, 5));
    assert_string_equal(dim_opaque(f->t, "nz", 0, 5)->name, "?nz.2");
}

static void comparisons(void **state) {
    fixture *f = *state;
    dim *n = dim_symbol(f->t, "N"), *m = dim_symbol(f->t, "M");
    assert_int_equal(dim_equal(n, n), TRI_YES);
    assert_int_equal(dim_equal(n, m), TRI_UNKNOWN);
    assert_int_equal(dim_equal(n, dim_addk(n, 1)), TRI_NO);
    assert_int_equal(dim_less(n, dim_addk(n, 1)), TRI_YES);
    assert_int_equal(dim_less_equal(dim_addk(n, 1), n), TRI_NO);
    assert_int_equal(dim_less_equal(dim_min(n, m), m), TRI_YES);
    assert_int_equal(dim_less(dim_mod(n, dim_const(f->t, 5)), dim_const(f->t, 5)), TRI_YES);
    assert_int_equal(dim_equal(parse(f, "overflow"), parse(f, "overflow")), TRI_UNKNOWN);
    // What is learned later counts for dims made before.
    dim *twice = dim_mulk(n, 2);
    dim_bound(n, 3, 10, 3);
    assert_int_equal(twice->min, 6);
    assert_int_equal(twice->max, 20);
    assert_true(dim_divisible(twice, 6));
    assert_int_equal(dim_less(twice, dim_const(f->t, 21)), TRI_YES);
}

// Sizes behind strided windows: their quotients are not the same, but bound each other.
static void bounds_of_differences(void **state) {
    fixture *f = *state;
    dim *d = parse(f, "2*floordiv(N + 3, 4) - floordiv(N + 1, 2)");
    assert_int_equal(dim_lower(d), 0);
    assert_int_equal(dim_upper(d), 1);
    assert_int_equal(dim_upper(parse(f, "N")), INT64_MAX);
    dim *all = dim_const(f->t, INT64_MAX), *x = dim_opaque(f->t, "x", INT64_MIN, INT64_MAX);
    assert_ptr_equal(dim_min(x, all), x);
    assert_ptr_equal(dim_max(x, dim_const(f->t, INT64_MIN)), x);
}

static bool lookup_n(void *user, const dim *atom, int64_t *value) {
    *value = *(int64_t *)user;
    return !strcmp(atom->name, "N");
}

static void evaluation_fails_where_there_is_no_value(void **state) {
    fixture *f = *state;
    int64_t n = 0, v = 0;
    assert_false(dim_eval(parse(f, "floordiv(4, N)"), lookup_n, &n, &v));
    assert_false(dim_eval(parse(f, "N + M"), lookup_n, &n, &v));
    assert_true(dim_eval(parse(f, "select(eq(N, 0), 7, floordiv(M, N))"), lookup_n, &n, &v));
    assert_int_equal(v, 7);
    n = INT64_MAX;
    assert_false(dim_eval(parse(f, "N + 1"), lookup_n, &n, &v));
    assert_false(dim_eval(parse(f, "overflow"), lookup_n, &n, &v));
}

static dim *to_m(void *user, dim *atom) { return strcmp(atom->name, "N") ? atom : user; }

static void substitution(void **state) {
    fixture *f = *state;
    dim *d = parse(f, "N*N + floordiv(N + M, 2)"), *m = dim_symbol(f->t, "M");
    assert_string_equal(dim_text(f->a, dim_substitute(d, to_m, m)), "M*M + M");
    assert_int_equal(dim_atoms(f->a, d).n, 2);
    assert_true(dim_has_atom(d, m));
    assert_false(dim_has_atom(dim_symbol(f->t, "N"), m));
    dim_bound(m, 3, 3, 1);
    assert_string_equal(dim_text(f->a, dim_simplify(dim_mulk(m, 5))), "15");
}

// Sums and products past the limits stay exact.
static void large_dims_stay_exact(void **state) {
    fixture *f = *state;
    dim *sum = dim_const(f->t, 0), *product = dim_const(f->t, 1);
    for (int i = 0; i < 200; i++) sum = dim_add(sum, dim_symbol(f->t, arena_printf(f->a, "n%d", i)));
    for (int i = 0; i < 60; i++) product = dim_mul(product, dim_addk(dim_symbol(f->t, "N"), i % 2));
    dim *n = dim_symbol(f->t, "N");
    dim *power = dim_const(f->t, 1);
    for (int i = 0; i < 60; i++) power = dim_mul(power, n);
    int64_t one = 1, v;
    assert_true(dim_eval(power, lookup_n, &one, &v) && v == 1);
    assert_true(dim_eval(product, lookup_n, &one, &v) && v == INT64_C(1) << 30);
    assert_true(sum->min == 0);
    dim *all[] = {sum, product, power};
    for (int i = 0; i < 3; i++) {
        const char *s = dim_text(f->a, all[i]);
        assert_string_equal(dim_text(f->a, parse(f, s)), s);
    }
}

// A chain that would be exponential if its parts were visited again and again.
static void deep_chains_are_cheap(void **state) {
    fixture *f = *state;
    dim *d = dim_symbol(f->t, "N"), *m = dim_symbol(f->t, "M");
    for (int i = 0; i < 3000; i++)
        d = dim_max(dim_floordiv(d, dim_addk(m, i + 2)), dim_addk(dim_min(d, m), -i));
    int64_t v;
    assert_false(dim_eval(d, lookup_n, &(int64_t){5}, &v)); // M has no value
    const char *s = dim_text(f->a, d);
    assert_true(strlen(s) < 1000000);
    assert_ptr_equal(parse(f, s), d);
    assert_non_null(dim_substitute(d, to_m, m));
}

static void bad_text_is_refused(void **state) {
    fixture *f = *state;
    static const char *const bad[] = {"",   "N +",     "2N", "min(N)", "min(N, M, K)", "(N",
                                      "N)", "let x",   "$0", "\"a",    "\"\\x00\"",    "99999999999999999999",
                                      "in", "floordiv"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (dim_parse(f->t, bad[i])) fail_msg("'%s' parses", bad[i]);
    char *deep = arena_alloc(f->a, 100001);
    memset(deep, '(', 100000);
    assert_null(dim_parse(f->t, deep));
}

static void required_sizes_are_not_negative(void **state) {
    fixture *f = *state;
    dim *n = dim_symbol(f->t, "N"), *x = dim_opaque(f->t, "x", INT64_MIN, INT64_MAX),
        *y = dim_opaque(f->t, "y", INT64_MIN, INT64_MAX);
    dim_require(dim_floordiv(dim_addk(n, -7), dim_const(f->t, 2)), 0);
    assert_int_equal(n->min, 7);
    dim_require(dim_mulk(x, 4), 0);
    assert_int_equal(x->min, 0);
    dim_require(dim_addk(x, -7), 0); // a window larger than the image: its node says so
    assert_int_equal(x->min, 0);
    dim_require(dim_addk(y, 7), 0);
    assert_true(y->min < 0);
    assert_string_equal(dim_range_text(f->a, x), "negative");
    assert_string_equal(dim_range_text(f->a, n), "less than 7");
    assert_string_equal(dim_range_text(f->a, dim_opaque(f->t, "z", 3, 7)), "outside the range 3 to 7");
}

static void largest_values_have_no_opaques(void **state) {
    fixture *f = *state;
    dim *n = bounded(f, "N", 1, 100, 1), *m = dim_symbol(f->t, "M");
    dim *x = dim_opaque(f->t, "x", 0, INT64_MAX), *y = dim_opaque(f->t, "y", 0, INT64_MAX);
    x->most = dim_mul(n, m), y->most = dim_addk(x, 2);
    static const char *const pairs[][2] = {
        {"?x", "M*N"},
        {"2*?y + M", "2*M*N + M + 4"},
        {"floordiv(?y, N)", "floordiv(M*N + 2, N)"},
        {"min(?y - ?x, 7)", "min(M*N + 2, 7)"},
        {"min(?z, ?x)", "M*N"},
        {"max(?x, 3)", "max(M*N, 3)"},
        {"select(lt(?z, 2), ?x, N)", "max(M*N, N)"},
        {"?x*?y", "M*M*N*N + 2*M*N"},
        {"eq(?z, 2)", "1"},
        {"N - ?x", "N"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        dim *most = dim_largest(parse(f, pairs[i][0]));
        if (!most || most != parse(f, pairs[i][1]))
            fail_msg("%s: at most %s", pairs[i][0], most ? dim_text(f->a, most) : "nothing");
    }
    assert_null(dim_largest(parse(f, "?z + N")));
    assert_null(dim_largest(parse(f, "?x - ?z")));
    x->most = y, y->most = x; // bounds that go in a circle say nothing
    assert_null(dim_largest(x));
}

// ---- Random expressions. Each dim is made beside a program that computes it plainly.

enum { NATOMS = 4, NSAMPLES = 40, ROUNDS = 4000, POOL = 24 };

typedef struct sample {
    bool known[NSAMPLES];
    int64_t v[NSAMPLES];
} sample;

typedef struct random_state {
    uint64_t seed;
    fixture *f;
    dim *atoms[NATOMS];
    sample atom_values[NATOMS];
    dim *pool[POOL];
    sample values[POOL];
    int column;
} random_state;

static int64_t pick(random_state *r, int64_t lo, int64_t hi) {
    r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int64_t)((r->seed >> 33) % (uint64_t)(hi - lo + 1));
}

static int64_t plain_floordiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static bool plain(int op, int64_t a, int64_t b, int64_t *v) {
    if (op >= 3 && op <= 6 && b == 0) return false;
    switch (op) {
    case 0: return !__builtin_add_overflow(a, b, v);
    case 1: return !__builtin_sub_overflow(a, b, v);
    case 2: return !__builtin_mul_overflow(a, b, v);
    case 3: *v = plain_floordiv(a, b); return true;
    case 4: *v = a - b * plain_floordiv(a, b); return true;
    case 5: *v = -plain_floordiv(-a, b); return true;
    case 6: *v = a / b; return true;
    case 7: *v = a < b ? a : b; return true;
    case 8: *v = a > b ? a : b; return true;
    case 9: *v = a < b; return true;
    default: *v = a == b; return true;
    }
}

static dim *(*const makers[])(dim *, dim *) = {dim_add, dim_sub,     dim_mul,      dim_floordiv,
                                               dim_mod, dim_ceildiv, dim_truncdiv, dim_min,
                                               dim_max, dim_lt,      dim_eq};

static bool lookup_sample(void *user, const dim *atom, int64_t *value) {
    random_state *r = user;
    for (int i = 0; i < NATOMS; i++)
        if (r->atoms[i] == atom) *value = r->atom_values[i].v[r->column];
    return true;
}

static dim *sample_const(void *user, dim *atom) {
    int64_t v = 0;
    lookup_sample(user, atom, &v);
    return dim_const(atom->table, v);
}

static void check_value(random_state *r, dim *d, int64_t want) {
    int64_t v;
    bool known = dim_eval(d, lookup_sample, r, &v);
    bool right = known && v == want && d->min <= want && want <= d->max &&
                 (d->divisor ? want % d->divisor : want) == 0 && dim_lower(d) <= want && want <= dim_upper(d);
    if (!right)
        fail_msg("%s is %lld (%d), not %lld; range %lld..%lld by %lld", dim_text(r->f->a, d), (long long)v,
                 known, (long long)want, (long long)d->min, (long long)d->max, (long long)d->divisor);
}

static void check_largest(random_state *r, const dim *d, const dim *most, int64_t value) {
    int64_t v;
    if (dim_is_opaque(most)) fail_msg("%s has an opaque", dim_text(r->f->a, most));
    if (dim_eval(most, lookup_sample, r, &v) && v < value)
        fail_msg("%s is %lld, but at most %s = %lld", dim_text(r->f->a, d), (long long)value,
                 dim_text(r->f->a, most), (long long)v);
}

static void check_pair(random_state *r, dim *a, dim *b, int64_t x, int64_t y) {
    tri less = dim_less(a, b), at_most = dim_less_equal(a, b), same = dim_equal(a, b);
    bool wrong = (less == TRI_YES && x >= y) || (less == TRI_NO && x < y) || (at_most == TRI_YES && x > y) ||
                 (at_most == TRI_NO && x <= y) || (same == TRI_YES && x != y) || (same == TRI_NO && x == y);
    if (wrong)
        fail_msg("%s against %s: %lld, %lld", dim_text(r->f->a, a), dim_text(r->f->a, b), (long long)x,
                 (long long)y);
}

static void one_round(random_state *r) {
    int op = (int)pick(r, 0, 10), i = (int)pick(r, 0, POOL - 1), k = (int)pick(r, 0, POOL - 1),
        at = (int)pick(r, 0, POOL - 1);
    dim *d = makers[op](r->pool[i], r->pool[k]);
    if (d->kind == DIM_OVERFLOW) return;
    sample s = {0};
    const dim *most = dim_largest(d);
    for (int c = 0; c < NSAMPLES; c++) {
        r->column = c;
        if (!r->values[i].known[c] || !r->values[k].known[c]) continue;
        s.known[c] = plain(op, r->values[i].v[c], r->values[k].v[c], &s.v[c]) && llabs(s.v[c]) < 1000000;
        if (!s.known[c]) continue;
        check_value(r, d, s.v[c]);
        if (most) check_largest(r, d, most, s.v[c]);
        check_pair(r, r->pool[i], r->pool[k], r->values[i].v[c], r->values[k].v[c]);
        dim *fixed = c == 0 ? dim_substitute(d, sample_const, r) : NULL;
        if (fixed && !dim_is(fixed, s.v[c]))
            fail_msg("%s becomes %s", dim_text(r->f->a, d), dim_text(r->f->a, fixed));
    }
    const char *text = dim_text(r->f->a, d);
    dim *back = dim_parse(r->f->t, text);
    if (!back || strcmp(dim_text(r->f->a, back), text))
        fail_msg("%s comes back as %s", text, back ? dim_text(r->f->a, back) : "nothing");
    if (strlen(text) > 100) return; // keep the pool of small ones
    r->pool[at] = d;
    r->values[at] = s;
}

static void start_pool(random_state *r) {
    static const int64_t ranges[NATOMS][3] = {{0, 12, 1}, {1, 9, 1}, {-5, 5, 1}, {0, 24, 4}};
    for (int i = 0; i < NATOMS; i++) {
        r->atoms[i] =
            i == 0 ? dim_symbol(r->f->t, "a") : dim_opaque(r->f->t, &"abcd"[i], INT64_MIN, INT64_MAX);
        dim_bound(r->atoms[i], ranges[i][0], ranges[i][1], ranges[i][2]);
        if (i == 1) r->atoms[1]->most = dim_addk(r->atoms[0], 1);
        for (int c = 0; c < NSAMPLES; c++) {
            r->atom_values[i].known[c] = true;
            int64_t *v = &r->atom_values[i].v[c], room = r->atom_values[0].v[c] + 1;
            *v = pick(r, ranges[i][0] / ranges[i][2], ranges[i][1] / ranges[i][2]) * ranges[i][2];
            if (i == 1 && *v > room) *v = room;
        }
    }
    for (int i = 0; i < POOL; i++) {
        int64_t k = pick(r, -4, 8);
        r->pool[i] = i % 2 ? dim_const(r->f->t, k) : r->atoms[i / 2 % NATOMS];
        r->values[i] = r->atom_values[i / 2 % NATOMS];
        for (int c = 0; c < NSAMPLES && i % 2; c++) r->values[i].v[c] = k;
    }
}

static void random_dims_mean_what_they_compute(void **state) {
    random_state *r = calloc(1, sizeof *r);
    r->f = *state;
    r->seed = 1;
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 50 == 0) start_pool(r);
        one_round(r);
    }
    free(r);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(simplifications),
        TEST(division_variants),
        TEST(equal_dims_are_the_same_pointer),
        TEST(comparisons),
        TEST(bounds_of_differences),
        TEST(evaluation_fails_where_there_is_no_value),
        TEST(substitution),
        TEST(large_dims_stay_exact),
        TEST(deep_chains_are_cheap),
        TEST(bad_text_is_refused),
        TEST(required_sizes_are_not_negative),
        TEST(largest_values_have_no_opaques),
        TEST(random_dims_mean_what_they_compute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
