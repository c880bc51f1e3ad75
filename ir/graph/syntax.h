// Shared by the texts of graphs and programs: names, numbers, dims, types and constants, printed and read.
// Any text may come in: an error is fatal and has its line.
#ifndef ONNXC_IR_GRAPH_SYNTAX_H
#define ONNXC_IR_GRAPH_SYNTAX_H
#include "ir/graph/graph.h"

// ---------------------------------------------------------------- printing
void print_name(text *t, const char *name); // in quotes unless it is a bare name
// A decimal with `digits` digits that always reads as a float.
void print_double(text *t, double v, int digits);
// data = "{" elements "}" | "splat" ( element | "hex" string ) | "hex" string
void print_data(text *t, const constant *c);

// The dims named in a text, whose ranges must be declared.
typedef struct named_dims {
    arena *arena;
    map seen; // atoms, by id
    VEC(const dim *) atoms;
} named_dims;
dim *named_dims_add(named_dims *n, dim *d); // d simplified as it will be when read back
const char **named_dims_lines(const named_dims *n, int *count);

// Words of the kinds of attributes that are lists; NULL: the kind is not a list.
extern const char *const attr_list_words[ATTR_TYPES + 1];

// ---------------------------------------------------------------- reading
typedef struct reader {
    module *m;
    const char *start, *s;
    int depth;
    bool by_line; // a line ends the text; else it is white space, and "//" starts a comment
} reader;

_Noreturn void reader_fail_at(const reader *p, const char *s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define reader_fail(p, ...) reader_fail_at(p, (p)->s, __VA_ARGS__)
void reader_enter(reader *p); // one level deeper; the caller decrements depth
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
bool reader_at_float(reader *p); // whether the next number is written as a float
dim *reader_dim(reader *p);
void reader_dim_declaration(reader *p); // after "dim"
type reader_shape(reader *p);           // of a tensor
type reader_type(reader *p);
type *reader_new_type(reader *p);
constant *reader_constant(reader *p);
constant *reader_data(reader *p, const type *t); // as print_data wrote it
int64_t reader_count(reader *p, const type *t);  // elements of a constant; its dims must be constant
#endif
