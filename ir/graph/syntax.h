// What the texts of graphs and of programs have in common, printed and read back: names, numbers, dims,
// types, constants. The texts may come from anyone: what is wrong in them is a fatal error with its line.
#ifndef ONNXC_IR_GRAPH_SYNTAX_H
#define ONNXC_IR_GRAPH_SYNTAX_H
#include "ir/graph/graph.h"

// ---------------------------------------------------------------- printing
void print_name(text *t, const char *name); // in quotes where it is not a bare one
// A decimal of so many digits, always with a mark of a float.
void print_double(text *t, double v, int digits);
// data = "{" elements "}" | "splat" ( element | "hex" string ) | "hex" string
void print_data(text *t, const constant *c);

// The dims that a text names, for the declarations of what is known of them.
typedef struct named_dims {
    arena *arena;
    map seen; // atoms, by id
    VEC(const dim *) atoms;
} named_dims;
dim *named_dims_add(named_dims *n, dim *d); // d as simple as it will be when it is read back
const char **named_dims_lines(const named_dims *n, int *count);

// Words of the kinds of attributes that are lists; NULL: the kind is not a list.
extern const char *const attr_list_words[ATTR_TYPES + 1];

// ---------------------------------------------------------------- reading
typedef struct reader {
    module *m;
    const char *start, *s;
    int depth;
    bool by_line; // a new line ends what is read; else it is a space, and "//" starts a comment
} reader;

_Noreturn void reader_fail_at(const reader *p, const char *s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define reader_fail(p, ...) reader_fail_at(p, (p)->s, __VA_ARGS__)
void reader_enter(reader *p); // one level deeper; the caller takes it back
void reader_skip(reader *p);  // spaces
bool reader_accept(reader *p, const char *symbol);
bool reader_accept_word(reader *p, const char *word);
void reader_expect(reader *p, const char *symbol);
void reader_expect_word(reader *p, const char *word);
const char *reader_bytes(reader *p, size_t *n); // in quotes; may hold NULs
const char *reader_string(reader *p);
const char *reader_name(reader *p); // bare or in quotes
size_t bare_name_length(const char *s);
int64_t reader_int(reader *p);
double reader_double(reader *p);
float reader_float(reader *p);
bool reader_at_float(reader *p); // whether the number that stands here is written as a float
dim *reader_dim(reader *p);
void reader_dim_declaration(reader *p); // after "dim"
type reader_shape(reader *p);           // of a tensor
type reader_type(reader *p);
type *reader_new_type(reader *p);
constant *reader_constant(reader *p);
constant *reader_data(reader *p, const type *t); // as print_data wrote it
int64_t reader_count(reader *p, const type *t);  // elements of a constant, whose dims must be constant
#endif
