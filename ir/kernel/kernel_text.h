// Shared by the files that print programs and read them back: the words of the text.
//   program = "program" name { "dim" declaration } { buffer } [ "workspace" dim ] { step }
//   buffer  = role name ":" type [ "layout" "(" ... ")" ] [ space ] [ "view" "of" name [ "+" integer ] ]
//             [ "at" dim ] [ "or" name ] [ "else" name ] [ "in" name ] [ "holds" type ] [ "labels" constant ]
//             [ data ]
//   step    = kernel | "check" dim ":" string | dim ":=" ( dim | element ) | ( "alloc" | "free" ) name
//           | ( "copy" | "move" ) name "=" name
//           | "if" ( dim | element ) steps "else" steps
//           | "loop" dim [ "<" dim ] [ "while" element ] steps
//           | "call" name "(" [ names ] ";" [ names ] ";" [ dims ] ")" [ "messages" strings ]
//   kernel  = "kernel" name [ "as" name ] { "outer" axis } { "local" buffer } stage { [ "then" ] stage }
//   stage   = { "for" axis } { ( "reduce" | "scan" ) axis } { "let" "$" integer "=" expr }
//             { write } { state } { write } { write }       (before, after and at the end of the loops)
//   axis    = word "<" dim
//   state   = "s0" [ ":" type ] ( "=" | "+=" | ... ) expr [ "from" expr ] [ "merge" expr ]
//   write   = name "[" exprs "]" ( "=" | "+=" | ... ) expr [ "where" expr ]
//   expr    = number | type "(" number ")" | axis | "s0" | "other0" | "$" integer | "{" dim "}"
//           | name "[" exprs "]" [ "if" expr "else" expr ]
//           | "(" expr infix expr ")" | op "(" exprs [ "," type ] [ "," "saturate" ] [ "," string ] ")"
//           | type "(" expr [ "," "saturate" ] ")"
// A line holds one of each, and what belongs to it is two columns further in. Numbers have the type that is
// expected in their place: the type of the buffer, the state or the other operand; without any of these, float or
// int64.
#ifndef ONNXC_IR_KERNEL_KERNEL_TEXT_H
#define ONNXC_IR_KERNEL_KERNEL_TEXT_H
#include "ir/graph/syntax.h"
#include "ir/kernel/program.h"

extern const char *const role_words[BUF_LOCAL + 1];
extern const char *const axis_words[AXIS_SCAN + 1];
extern const char *const reduce_words[RED_CUSTOM + 1];
extern const char *const combine_words[COMBINE_MAX + 1];
extern const char *const space_words[SPACE_CALLER + 1];
extern const char *const step_words[STEP_LIB + 1];
// Whether operands and result have one type (select, check: except the condition).
bool expr_keeps_type(expr_op op);
bool cast_may_saturate(dtype to); // whether saturation affects it
dtype number_type(bool is_float); // of numbers without context

// dims: collects the ranges of named dims, and prints simplified ones; NULL: dims are printed as they are.
void print_dim(text *t, named_dims *dims, dim *d);
void print_buffer(text *t, named_dims *dims, const buffer *b);
void print_kernel(text *t, named_dims *dims, const kernel *k, int indent); // without the word "kernel"

// A parsed expression; it is built when the types of all states of its stage are known.
typedef struct tree tree;

typedef struct program_reader {
    reader in;
    program *p;
    int indent;  // of the current line; -1: end of text
    map buffers; // by name
    // Of the current kernel:
    kernel *k;
    map locals; // by name
    map axes;   // 1 + number, by name in the text
    // Of its stage:
    const stage *stage;
    VEC(tree *) lets;
} program_reader;

void find_line(program_reader *r); // the first line that is not empty or a comment
void next_line(program_reader *r); // the same after the end of the current line
_Noreturn void fail_column(const program_reader *r);
int parse_choice(program_reader *r, const char *const *words, int n); // -1: none of them
buffer *parse_buffer_name(program_reader *r);
buffer *parse_buffer(program_reader *r, buffer_role role); // up to and including its space
kernel *parse_kernel(program_reader *r);
// Runs `check`; a defect that it reports becomes an error in the text at `at`.
void check_text(program_reader *r, const char *at, void (*check)(void *user, diag *d), void *user);

tree *parse_expr(program_reader *r);
tree **parse_index(program_reader *r, const buffer *b); // of b->rank elements, in brackets
void parse_let(program_reader *r);                      // after its "$"
void build_lets(program_reader *r);
expr *build_expr(program_reader *r, const tree *t, dtype want);
#endif
