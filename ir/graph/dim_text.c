// Dims as text and back. The text does not depend on the order in which dims were created: sums, products and
// commuting operands are sorted by their text.
//   dim     = [ "let" "$0" "=" sum { ";" "$1" "=" sum } "in" ] sum
//   sum     = [ "-" ] product { ( "+" | "-" ) product }
//   product = factor { "*" factor }
//   factor  = integer | name | "?" name | "$" integer | "overflow" | function "(" sum { "," sum } ")"
//   name    = identifier | quoted string
#include "compiler/base/chars.h"
#include "ir/graph/dim_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 200, DEEPEST = 400 }; // parts from which on a dim is printed with let; nesting

typedef struct function {
    const char *name;
    dim_kind kind;
    int arity;
    bool commutes;
    dim *(*make)(dim *, dim *); // arity 2
} function;

static const function functions[] = {
    {"floordiv", DIM_FLOORDIV, 2, false, dim_floordiv},
    {"mod", DIM_MOD, 2, false, dim_mod},
    {"min", DIM_MIN, 2, true, dim_min},
    {"max", DIM_MAX, 2, true, dim_max},
    {"lt", DIM_LT, 2, false, dim_lt},
    {"eq", DIM_EQ, 2, true, dim_eq},
    {"select", DIM_SELECT, 3, false, NULL},
    {"sum", DIM_BIGSUM, 2, true, dim_add},
    {"product", DIM_BIGMUL, 2, true, dim_mul},
};
enum { NFUNCTIONS = sizeof functions / sizeof *functions };

static bool in_name(char c) { return char_in_name(c) || c == '.'; }

static const function *function_named(const char *s, size_t n) {
    for (int i = 0; i < NFUNCTIONS; i++)
        if (text_equals(s, n, functions[i].name)) return &functions[i];
    return NULL;
}

static bool is_reserved(const char *s, size_t n) {
    return function_named(s, n) || text_equals(s, n, "overflow") || text_equals(s, n, "let") ||
           text_equals(s, n, "in");
}

// ---- Printing. Parts get their text first, operands before users.

static void add_name(text *t, const char *name) {
    size_t n = strlen(name);
    bool plain = char_starts_name(name[0]) && !is_reserved(name, n);
    for (size_t i = 0; i < n && plain; i++) plain = in_name(name[i]);
    if (plain) text_add(t, name);
    else text_add_quoted(t, name, n);
}

typedef struct printer {
    dim_walk walk;
    const char **texts; // by place in the walk
    arena *arena;
} printer;

static const char *text_of(const printer *p, const dim *d) { return p->texts[dim_walk_place(&p->walk, d)]; }

typedef struct printed_term {
    int64_t coef;
    int degree;
    const char *s; // the atoms
} printed_term;

static int by_degree_and_text(const void *a, const void *b) {
    const printed_term *x = a, *y = b;
    return x->degree != y->degree ? y->degree - x->degree : strcmp(x->s, y->s);
}

static printed_term print_term(const printer *p, const dim_term *term) {
    const char **atoms = ARENA_ARRAY(p->arena, const char *, term->natoms);
    for (int i = 0; i < term->natoms; i++) atoms[i] = text_of(p, term->atoms[i]);
    qsort(atoms, (size_t)term->natoms, sizeof *atoms, string_order);
    text t = {.arena = p->arena};
    for (int i = 0; i < term->natoms; i++) {
        if (i) text_add(&t, "*");
        text_add(&t, atoms[i]);
    }
    return (printed_term){term->coef, term->natoms, text_str(&t)};
}

static void add_poly(text *t, const printer *p, const dim *d) {
    printed_term *terms = ARENA_ARRAY(p->arena, printed_term, d->nterms);
    for (int i = 0; i < d->nterms; i++) terms[i] = print_term(p, &d->terms[i]);
    qsort(terms, (size_t)d->nterms, sizeof *terms, by_degree_and_text);
    for (int i = 0; i < d->nterms; i++) {
        int64_t c = terms[i].coef;
        uint64_t magnitude = c < 0 ? 0 - (uint64_t)c : (uint64_t)c;
        text_add(t, i ? c < 0 ? " - " : " + " : c < 0 ? "-" : "");
        if (magnitude != 1 || !terms[i].degree) {
            text_printf(t, "%llu", (unsigned long long)magnitude);
            if (terms[i].degree) text_add(t, "*");
        }
        text_add(t, terms[i].s);
    }
}

static void add_call(text *t, const printer *p, const dim *d) {
    const function *f = functions;
    while (f->kind != d->kind) f++;
    const char *a = text_of(p, d->a), *b = text_of(p, d->b);
    bool swap = f->commutes && (dim_is_const(d->a) || (!dim_is_const(d->b) && strcmp(a, b) > 0));
    text_printf(t, "%s(", f->name);
    if (d->c) text_printf(t, "%s, ", text_of(p, d->c));
    text_add(t, swap ? b : a);
    text_add(t, ", ");
    text_add(t, swap ? a : b);
    text_add(t, ")");
}

static const char *print_one(const printer *p, const dim *d) {
    text t = {.arena = p->arena};
    switch (d->kind) {
    case DIM_CONST: text_printf(&t, "%lld", (long long)d->value); break;
    case DIM_SYMBOL: add_name(&t, d->name); break;
    case DIM_OPAQUE:
        text_add(&t, "?");
        add_name(&t, d->name + 1);
        break;
    case DIM_POLY: add_poly(&t, p, d); break;
    case DIM_OVERFLOW: text_add(&t, "overflow"); break;
    case DIM_FLOORDIV:
    case DIM_MOD:
    case DIM_MIN:
    case DIM_MAX:
    case DIM_LT:
    case DIM_EQ:
    case DIM_SELECT:
    case DIM_BIGSUM:
    case DIM_BIGMUL: add_call(&t, p, d); break;
    }
    return text_str(&t);
}

// The number of parts in the text when written out without let, up to LARGE.
static int weigh(arena *a, const dim_walk *w) {
    int *weights = ARENA_ARRAY(a, int, w->n);
    const dim *parts[DIM_MAX_PARTS];
    for (int i = 0; i < w->n; i++) {
        int n = dim_parts(w->at[i], parts);
        weights[i] = 1;
        for (int k = 0; k < n && weights[i] < LARGE; k++) weights[i] += weights[dim_walk_place(w, parts[k])];
    }
    return weights[w->n - 1];
}

static bool is_leaf(const dim *d) { return !d->nterms && !d->a; }

const char *dim_text(arena *a, const dim *d) {
    arena *scratch = arena_new();
    printer p = {.arena = scratch};
    dim_walk_init(&p.walk, scratch, d);
    p.texts = ARENA_ARRAY(scratch, const char *, p.walk.n);
    bool large = weigh(scratch, &p.walk) >= LARGE;
    text t = {.arena = scratch};
    for (int i = 0, named = 0; i < p.walk.n; i++) {
        p.texts[i] = print_one(&p, p.walk.at[i]);
        if (!large || is_leaf(p.walk.at[i]) || i == p.walk.n - 1) continue;
        text_printf(&t, "%s$%d = %s", named ? "; " : "let ", named, p.texts[i]);
        p.texts[i] = arena_printf(scratch, "$%d", named++);
    }
    if (t.n) text_add(&t, " in ");
    text_add(&t, p.texts[p.walk.n - 1]);
    const char *result = arena_strdup(a, text_str(&t));
    arena_destroy(scratch);
    return result;
}

const char *dim_range_text(arena *a, const dim *d) {
    if (d->max < INT64_MAX / 2)
        return arena_printf(a, "outside the range %lld to %lld", (long long)d->min, (long long)d->max);
    return d->min ? arena_printf(a, "less than %lld", (long long)d->min) : "negative";
}

const char *dim_brief(arena *a, const dim *d) {
    const char *whole = dim_text(a, d);
    if (strlen(whole) <= DIM_SHORT) return whole;
    text t = {.arena = a};
    atom_list atoms = dim_atoms(a, d);
    for (int i = 0; i < atoms.n; i++) text_printf(&t, "%s%s", i ? ", " : "f(", dim_text(a, atoms.at[i]));
    return atoms.n ? arena_printf(a, "%s)", text_str(&t)) : whole;
}

// ---- Parsing.

typedef struct parser {
    dims *table;
    arena *scratch;
    const char *s;
    VEC(dim *) named;
    int depth;
} parser;

static void skip_space(parser *p) {
    while (*p->s == ' ') p->s++;
}

static bool accept(parser *p, char c) {
    skip_space(p);
    if (*p->s != c) return false;
    p->s++;
    return true;
}

static bool accept_word(parser *p, const char *word) {
    skip_space(p);
    size_t n = strlen(word);
    if (strncmp(p->s, word, n) || in_name(p->s[n])) return false;
    p->s += n;
    return true;
}

static bool parse_number(parser *p, uint64_t *v) {
    if (*p->s < '0' || *p->s > '9') return false;
    for (*v = 0; *p->s >= '0' && *p->s <= '9'; p->s++)
        if (__builtin_mul_overflow(*v, 10, v) || __builtin_add_overflow(*v, *p->s - '0', v)) return false;
    return true;
}

// Name at p->s; NULL when there is none, or it is reserved.
static const char *parse_name(parser *p) {
    size_t n = 0;
    if (*p->s == '"') {
        const char *name = text_unquote(p->scratch, &p->s, &n);
        return name && strlen(name) == n ? name : NULL;
    }
    if (!char_starts_name(*p->s)) return NULL;
    while (in_name(p->s[n])) n++;
    if (is_reserved(p->s, n)) return NULL;
    p->s += n;
    return arena_strndup(p->scratch, p->s - n, n);
}

static dim *parse_sum(parser *p);

static dim *parse_call(parser *p, const function *f) {
    dim *args[3] = {0};
    if (!accept(p, '(')) return NULL;
    for (int i = 0; i < f->arity; i++) {
        if (i && !accept(p, ',')) return NULL;
        if (!(args[i] = parse_sum(p))) return NULL;
    }
    if (!accept(p, ')')) return NULL;
    return f->arity == 3 ? dim_select(args[0], args[1], args[2]) : f->make(args[0], args[1]);
}

static dim *parse_factor(parser *p, bool negative) {
    uint64_t v;
    skip_space(p);
    if (*p->s >= '0' && *p->s <= '9') {
        if (!parse_number(p, &v) || v > (uint64_t)INT64_MAX + negative) return NULL;
        return dim_const(p->table, negative ? (int64_t)(0 - v) : (int64_t)v);
    }
    dim *d = NULL;
    if (accept(p, '$')) {
        if (parse_number(p, &v) && v < (uint64_t)p->named.n) d = p->named.at[v];
    } else if (accept(p, '?')) {
        const char *name = parse_name(p);
        if (name) d = dim_opaque_named(p->table, arena_printf(p->scratch, "?%s", name));
    } else if (accept(p, '(')) {
        d = parse_sum(p);
        if (!accept(p, ')')) return NULL;
    } else if (accept_word(p, "overflow")) {
        d = p->table->overflow;
    } else {
        size_t n = 0;
        while (in_name(p->s[n])) n++;
        const function *f = function_named(p->s, n);
        const char *name = f ? NULL : parse_name(p);
        if (f) p->s += n, d = parse_call(p, f);
        else if (name) d = dim_symbol(p->table, name);
    }
    return d && negative ? dim_neg(d) : d;
}

static dim *parse_product(parser *p, bool negative) {
    dim *d = parse_factor(p, negative);
    while (d && accept(p, '*')) {
        dim *next = parse_factor(p, false);
        d = next ? dim_mul(d, next) : NULL;
    }
    return d;
}

static dim *parse_sum(parser *p) {
    if (p->depth >= DEEPEST) return NULL;
    p->depth++;
    dim *d = parse_product(p, accept(p, '-'));
    while (d) {
        bool minus = accept(p, '-');
        if (!minus && !accept(p, '+')) break;
        dim *next = parse_product(p, minus);
        d = next ? dim_add(d, next) : NULL;
    }
    p->depth--;
    return d;
}

static bool parse_lets(parser *p) {
    if (!accept_word(p, "let")) return true;
    do {
        uint64_t v;
        if (!accept(p, '$') || !parse_number(p, &v) || v != (uint64_t)p->named.n || !accept(p, '='))
            return false;
        dim *d = parse_sum(p);
        if (!d) return false;
        VEC_PUSH(p->scratch, &p->named, d);
    } while (accept(p, ';'));
    return accept_word(p, "in");
}

dim *dim_parse_at(dims *t, const char **s) {
    parser p = {.table = t, .scratch = arena_new(), .s = *s};
    dim *d = parse_lets(&p) ? parse_sum(&p) : NULL;
    *s = p.s;
    arena_destroy(p.scratch);
    return d;
}

dim *dim_parse(dims *t, const char *s) {
    dim *d = dim_parse_at(t, &s);
    while (*s == ' ') s++;
    return *s ? NULL : d;
}
