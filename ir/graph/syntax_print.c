// Prints what the texts of graphs and programs share (ir/graph/syntax.h), without loss.
#include "ir/graph/syntax.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_MOST = 32 }; // elements of a constant that are printed as numbers

void print_name(text *t, const char *name) {
    bool bare = name[0] && strcmp(name, "_") && strncmp(name, "//", 2) && !name[bare_name_length(name)];
    if (bare) text_add(t, name);
    else text_add_quoted(t, name, strlen(name));
}

const char *const attr_list_words[] = {[ATTR_INTS] = "ints",
                                       [ATTR_FLOATS] = "floats",
                                       [ATTR_STRINGS] = "strings",
                                       [ATTR_GRAPHS] = "graphs",
                                       [ATTR_TYPES] = NULL};

// ---- Dims.

static dim *simplified(dim *d) {
    for (int i = 0; i < 4; i++) {
        dim *next = dim_simplify(d);
        if (next == d) break;
        d = next;
    }
    return d;
}

static bool is_unrestricted(const dim *atom) {
    bool least = atom->kind == DIM_SYMBOL ? atom->min == 0 : atom->min == INT64_MIN;
    return least && atom->max == INT64_MAX && atom->divisor == 1;
}

dim *named_dims_add(named_dims *n, dim *d) {
    d = simplified(d);
    n->seen.arena = n->arena;
    atom_list atoms = dim_atoms(n->arena, d);
    for (int i = 0; i < atoms.n; i++) {
        uint64_t id = (uint64_t)atoms.at[i]->id;
        if (is_unrestricted(atoms.at[i]) || map_get_number(&n->seen, id)) continue;
        map_put_number(&n->seen, id, n);
        VEC_PUSH(n->arena, &n->atoms, atoms.at[i]);
    }
    return d;
}

static const char *declaration(arena *a, const dim *d) {
    text t = {.arena = a};
    text_printf(&t, "dim %s in ", dim_text(a, d));
    if (d->min != INT64_MIN) text_printf(&t, "%lld", (long long)d->min);
    text_add(&t, "..");
    if (d->max != INT64_MAX) text_printf(&t, "%lld", (long long)d->max);
    if (d->divisor != 1) text_printf(&t, " by %lld", (long long)d->divisor);
    return text_str(&t);
}

const char **named_dims_lines(const named_dims *n, int *count) {
    const char **lines = ARENA_ARRAY(n->arena, const char *, n->atoms.n + 1);
    for (int i = 0; i < n->atoms.n; i++) lines[i] = declaration(n->arena, n->atoms.at[i]);
    qsort(lines, (size_t)n->atoms.n, sizeof *lines, string_order);
    *count = n->atoms.n;
    return lines;
}

// ---- Numbers.

void print_double(text *t, double v, int digits) {
    if (isnan(v)) text_add(t, signbit(v) ? "-nan" : "nan");
    else if (isinf(v)) text_add(t, v < 0 ? "-inf" : "inf");
    else {
        const char *s = arena_printf(t->arena, "%.*g", digits, v);
        text_add(t, s);
        if (!strpbrk(s, ".e")) text_add(t, ".0");
    }
}

static void add_hex(text *t, const uint8_t *bytes, int64_t n) {
    static const char digits[] = "0123456789abcdef";
    char buffer[256];
    text_add(t, "hex \"");
    for (int64_t i = 0; i < n;) {
        size_t k = 0;
        for (; k < sizeof buffer && i < n; i++) {
            buffer[k++] = digits[bytes[i] >> 4];
            buffer[k++] = digits[bytes[i] & 15];
        }
        text_addn(t, buffer, k);
    }
    text_add(t, "\"");
}

static void add_element(text *t, dtype e, const uint8_t *data, int64_t i) {
    if (dtype_is_float(e)) print_double(t, dtype_load_float(e, data, i), e == DT_F64 ? 17 : 9);
    else if (e == DT_U64) text_printf(t, "%llu", (unsigned long long)dtype_load_int(e, data, i));
    else text_printf(t, "%lld", (long long)dtype_load_int(e, data, i));
}

// Whether the numbers read back give the same bytes: not so for odd NaNs, bools and padding.
static bool survives(dtype t, const uint8_t *data, int64_t n) {
    uint8_t copy[16 * LIST_MOST] = {0};
    if (n > LIST_MOST || dtype_class_of(t) == DC_COMPLEX) return false;
    for (int64_t i = 0; i < n; i++)
        if (dtype_is_float(t)) dtype_store_float(t, copy, i, dtype_load_float(t, data, i), false);
        else dtype_store_int(t, copy, i, dtype_load_int(t, data, i));
    return n == 0 || !memcmp(copy, data, (size_t)dtype_size(t, n));
}

// ---- Constants.

static void add_list(text *t, const constant *c) {
    text_add(t, " {");
    for (int64_t i = 0; i < c->count; i++) {
        if (i) text_add(t, ", ");
        if (c->kind == CONST_STRINGS) text_add_quoted(t, c->strings[i], c->string_sizes[i]);
        else add_element(t, c->elem, c->data, i);
    }
    text_add(t, "}");
}

void print_data(text *t, const constant *c) {
    bool splat = c->kind == CONST_SPLAT;
    if (splat) text_add(t, " splat");
    if (c->kind == CONST_STRINGS || (!splat && survives(c->elem, c->data, c->count))) add_list(t, c);
    else if (splat && survives(c->elem, c->splat, 1)) text_add(t, " "), add_element(t, c->elem, c->splat, 0);
    else text_add(t, " "), add_hex(t, splat ? c->splat : c->data, dtype_size(c->elem, splat ? 1 : c->count));
}
