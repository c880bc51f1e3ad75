// Reads what the texts of graphs and programs share (ir/graph/syntax.h). In: any text. Out: names, numbers,
// dims, types, constants, or a fatal error with its line.
#include "compiler/base/chars.h"
#include "ir/graph/dim_impl.h"
#include "ir/graph/syntax.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 200 }; // graphs in graphs, types in types, operands in operands

// ---- Errors and small things.

void reader_fail_at(const reader *p, const char *s, const char *format, ...) {
    int line = 1;
    for (const char *c = p->start; c < s; c++) line += *c == '\n';
    ARENA_VARIADIC(p->m->arena, what, format);
    diag_fatal(p->m->diag, &(loc){.file = p->m->file}, "line %d: %s", line, what);
}

void reader_skip(reader *p) {
    for (;;) {
        while (*p->s == ' ' || *p->s == '\t' || *p->s == '\r' || (*p->s == '\n' && !p->by_line)) p->s++;
        if (p->by_line || p->s[0] != '/' || p->s[1] != '/') return;
        while (*p->s && *p->s != '\n') p->s++;
    }
}

bool reader_accept(reader *p, const char *symbol) {
    reader_skip(p);
    size_t n = strlen(symbol);
    if (strncmp(p->s, symbol, n)) return false;
    p->s += n;
    return true;
}

static bool in_bare_name(char c) { return char_in_name(c) || (c && strchr("./-#", c)); }

size_t bare_name_length(const char *s) {
    size_t n = 0;
    while (in_bare_name(s[n])) n++;
    return n;
}

bool reader_accept_word(reader *p, const char *word) {
    reader_skip(p);
    size_t n = strlen(word);
    if (strncmp(p->s, word, n) || in_bare_name(p->s[n])) return false;
    p->s += n;
    return true;
}

void reader_expect(reader *p, const char *symbol) {
    if (!reader_accept(p, symbol)) reader_fail(p, "expected '%s'", symbol);
}

void reader_expect_word(reader *p, const char *word) {
    if (!reader_accept_word(p, word)) reader_fail(p, "expected '%s'", word);
}

const char *reader_bytes(reader *p, size_t *n) {
    reader_skip(p);
    const char *s = text_unquote(p->m->arena, &p->s, n);
    if (!s) reader_fail(p, "expected a quoted string");
    return s;
}

const char *reader_string(reader *p) {
    size_t n;
    const char *s = reader_bytes(p, &n);
    if (strlen(s) != n) reader_fail(p, "a NUL is not allowed here");
    return s;
}

const char *reader_name(reader *p) {
    reader_skip(p);
    if (*p->s == '"') return reader_string(p);
    size_t n = bare_name_length(p->s);
    if (!n) reader_fail(p, "expected a name");
    p->s += n;
    return arena_strndup(p->m->arena, p->s - n, n);
}

void reader_enter(reader *p) {
    if (++p->depth > DEEPEST) reader_fail(p, "nested too deeply");
}

// ---- Numbers.

int64_t reader_int(reader *p) {
    reader_skip(p);
    char *end = (char *)p->s;
    errno = 0;
    long long v = char_is_digit(p->s[*p->s == '-']) ? strtoll(p->s, &end, 10) : 0;
    if (end == p->s || errno) reader_fail(p, "expected an integer");
    p->s = end;
    return v;
}

static uint64_t parse_unsigned(reader *p) {
    reader_skip(p);
    char *end = (char *)p->s;
    errno = 0;
    unsigned long long v = char_is_digit(*p->s) ? strtoull(p->s, &end, 10) : 0;
    if (end == p->s || errno) reader_fail(p, "expected an unsigned integer");
    p->s = end;
    return v;
}

double reader_double(reader *p) {
    bool negative = reader_accept(p, "-");
    double v = 0;
    if (reader_accept_word(p, "nan")) v = NAN;
    else if (reader_accept_word(p, "inf")) v = INFINITY;
    else {
        char *end;
        if (!char_is_digit(*p->s)) reader_fail(p, "expected a number");
        v = strtod(p->s, &end);
        p->s = end;
    }
    return negative ? -v : v;
}

float reader_float(reader *p) {
    if (!reader_accept(p, "bits:")) return (float)reader_double(p);
    char *end;
    unsigned long bits = strtoul(p->s, &end, 16);
    if (end != p->s + 8) reader_fail(p, "expected eight hexadecimal digits");
    p->s = end;
    uint32_t narrow = (uint32_t)bits;
    float f;
    memcpy(&f, &narrow, sizeof f);
    return f;
}

// Whether the number that stands here is written as a float.
bool reader_at_float(reader *p) {
    reader_skip(p);
    const char *s = p->s + (*p->s == '-');
    if (!strncmp(s, "nan", 3) || !strncmp(s, "inf", 3) || !strncmp(s, "bits:", 5)) return true;
    while (char_is_digit(*s)) s++;
    return *s == '.' || *s == 'e' || *s == 'E' || *s == 'x';
}

// ---- Types.

dim *reader_dim(reader *p) {
    reader_skip(p);
    const char *from = p->s;
    dim *d = dim_parse_at(p->m->dims, &p->s);
    if (!d) reader_fail_at(p, from, "expected a dim");
    return d;
}

static bool at_end_of_number(reader *p) {
    reader_skip(p);
    return *p->s != '-' && !char_is_digit(*p->s);
}

void reader_dim_declaration(reader *p) {
    dim *d = reader_dim(p);
    if (d->kind != DIM_SYMBOL && d->kind != DIM_OPAQUE) reader_fail(p, "expected the name of a dim");
    reader_expect_word(p, "in");
    int64_t lo = reader_accept(p, "..") ? INT64_MIN : reader_int(p);
    if (lo != INT64_MIN) reader_expect(p, "..");
    int64_t hi = at_end_of_number(p) ? INT64_MAX : reader_int(p);
    int64_t by = reader_accept_word(p, "by") ? reader_int(p) : 1;
    if (lo > hi || by < 1) reader_fail(p, "the range of a dim is empty");
    dim_bound(d, lo, hi, by);
}

type reader_shape(reader *p) {
    const char *name = reader_name(p);
    dtype elem = dtype_from_name(name);
    if (elem == DT_NONE) reader_fail(p, "'%s' is not an element type", name);
    reader_expect(p, "[");
    dim *dims[MAX_RANK];
    int rank = 0;
    if (reader_accept(p, "...")) rank = RANK_UNKNOWN;
    else
        for (reader_skip(p); *p->s != ']'; rank++) {
            if (rank) reader_expect(p, ",");
            if (rank == MAX_RANK) reader_fail(p, "a tensor has too many dims");
            dims[rank] = reader_dim(p);
            reader_skip(p);
        }
    reader_expect(p, "]");
    return type_tensor(p->m->arena, elem, rank, dims);
}

type *reader_new_type(reader *p) {
    type *item = ARENA_NEW(p->m->arena, type);
    *item = reader_type(p);
    return item;
}

static type parse_boxed(reader *p) {
    type t = {0};
    if (reader_accept_word(p, "sparse")) {
        reader_expect(p, "(");
        t = reader_shape(p);
        t.kind = TYPE_SPARSE;
    } else if (reader_accept_word(p, "sequence") || reader_accept_word(p, "optional")) {
        t.kind = p->s[-1] == 'e' ? TYPE_SEQUENCE : TYPE_OPTIONAL;
        reader_expect(p, "(");
        t.item = reader_new_type(p);
    } else if (reader_accept_word(p, "map")) {
        t.kind = TYPE_MAP;
        reader_expect(p, "(");
        t.elem = dtype_from_name(reader_name(p));
        if (t.elem == DT_NONE) reader_fail(p, "a map needs an element type as key");
        reader_expect(p, ",");
        t.item = reader_new_type(p);
    } else {
        return reader_shape(p);
    }
    reader_expect(p, ")");
    return t;
}

type reader_type(reader *p) {
    if (reader_accept_word(p, "none")) return (type){0};
    reader_enter(p);
    type t = parse_boxed(p);
    p->depth--;
    return t;
}

// ---- Constants.

typedef union number {
    double f;
    int64_t i;
} number;

static number parse_element(reader *p, dtype t) {
    number v = {0};
    if (dtype_is_float(t)) v.f = reader_double(p);
    else if (t == DT_U64) v.i = (int64_t)parse_unsigned(p);
    else v.i = reader_int(p);
    bool fits = dtype_is_float(t) || t == DT_U64 || (v.i >= dtype_int_min(t) && v.i <= dtype_int_max(t));
    if (!fits) reader_fail(p, "the number does not fit its element type");
    return v;
}

static void store(dtype t, void *data, int64_t i, number v) {
    if (dtype_is_float(t)) dtype_store_float(t, data, i, v.f, false);
    else dtype_store_int(t, data, i, v.i);
}

static void check_count(reader *p, int64_t have, int64_t want) {
    if (have == want) return;
    reader_fail(p, "%lld elements or bytes are given instead of %lld", (long long)have, (long long)want);
}

static const uint8_t *parse_hex(reader *p, int64_t want) {
    reader_expect(p, "\"");
    size_t n = strspn(p->s, "0123456789abcdef");
    check_count(p, (int64_t)n / 2, want);
    uint8_t *bytes = arena_alloc(p->m->arena, n / 2);
    for (size_t i = 0; i < n / 2; i++)
        bytes[i] = (uint8_t)(hex_digit(p->s[2 * i]) << 4 | hex_digit(p->s[2 * i + 1]));
    p->s += n / 2 * 2;
    reader_expect(p, "\"");
    return bytes;
}

static constant *parse_strings(reader *p, int64_t count, int rank, const int64_t *dims) {
    VEC(const char *) strings = {0};
    VEC(size_t) sizes = {0};
    while (!reader_accept(p, "}")) {
        size_t n;
        if (strings.n) reader_expect(p, ",");
        VEC_PUSH(p->m->arena, &strings, reader_bytes(p, &n));
        VEC_PUSH(p->m->arena, &sizes, n);
    }
    check_count(p, strings.n, count);
    constant *c = constant_new(p->m->arena, DT_STRING, rank, dims);
    if (!count) return c;
    c->strings = strings.at;
    c->string_sizes = sizes.at;
    return c;
}

static constant *parse_list(reader *p, dtype t, int64_t count, int rank, const int64_t *dims) {
    VEC(number) list = {0};
    while (!reader_accept(p, "}")) {
        if (list.n) reader_expect(p, ",");
        VEC_PUSH(p->m->arena, &list, parse_element(p, t));
    }
    check_count(p, list.n, count);
    constant *c = constant_new(p->m->arena, t, rank, dims);
    for (int i = 0; i < list.n; i++) store(t, (void *)c->data, i, list.at[i]);
    return c;
}

static constant *parse_splat(reader *p, dtype t, int rank, const int64_t *dims) {
    uint8_t element[16] = {0};
    int64_t size = dtype_size(t, 1);
    if (reader_accept_word(p, "hex")) memcpy(element, parse_hex(p, size), (size_t)size);
    else if (dtype_class_of(t) == DC_COMPLEX) reader_fail(p, "complex elements are written as hex");
    else store(t, element, 0, parse_element(p, t));
    return constant_splat(p->m->arena, t, rank, dims, element);
}

int64_t reader_count(reader *p, const type *t) {
    int64_t count = 1;
    bool empty = false, overflow = t->rank < 0;
    for (int i = 0; i < t->rank; i++) {
        if (!dim_is_const(t->dims[i]) || dim_value(t->dims[i]) < 0)
            reader_fail(p, "a constant needs constant dims");
        if (dim_value(t->dims[i]) == 0) empty = true;
        else overflow |= __builtin_mul_overflow(count, dim_value(t->dims[i]), &count);
    }
    if (empty) return 0;
    if (overflow || dtype_size(t->elem, count) < 0) reader_fail(p, "a constant is too large");
    return count;
}

constant *reader_data(reader *p, const type *t) {
    int64_t dims[MAX_RANK] = {0}, count = reader_count(p, t);
    for (int i = 0; i < t->rank; i++) dims[i] = dim_value(t->dims[i]);
    if (reader_accept(p, "{"))
        return t->elem == DT_STRING ? parse_strings(p, count, t->rank, dims)
                                    : parse_list(p, t->elem, count, t->rank, dims);
    if (t->elem == DT_STRING) reader_fail(p, "string constants are lists");
    if (reader_accept_word(p, "splat")) return parse_splat(p, t->elem, t->rank, dims);
    reader_expect_word(p, "hex");
    const uint8_t *bytes = parse_hex(p, dtype_size(t->elem, count));
    constant *c = constant_splat(p->m->arena, t->elem, t->rank, dims, (uint8_t[16]){0});
    c->kind = CONST_BYTES;
    c->data = bytes;
    return c;
}

constant *reader_constant(reader *p) {
    type t = reader_shape(p);
    return reader_data(p, &t);
}
