// Command-line options from tables. In: rows that say what an option is called, takes and fills; out: filled
// structs, positional arguments, the text of --help. Parsing, help and completions read the same rows.
#ifndef ONNXC_COMPILER_DRIVER_OPTION_H
#define ONNXC_COMPILER_DRIVER_OPTION_H
#include "compiler/base/diag.h"

typedef enum option_kind {
    OPT_FLAG,   // bool
    OPT_TEXT,   // const char *; the last one counts
    OPT_CHOICE, // const char *, one of the words of `value` ("a|b|c")
    OPT_NUMBER, // int64_t, not negative
    OPT_REAL,   // double, not negative
    OPT_LIST,   // string_list: every value given
    OPT_WHOLE,  // string_list: every argument that begins with `name`, as a whole ("-mthumb")
} option_kind;

typedef struct option {
    const char *name;  // "--emit", "-O"
    const char *alias; // "-o"; a letter's value may be joined to it. NULL: none
    const char *value; // what --help calls it, or its choices. "[=N]": may be left out. NULL: takes none
    option_kind kind;
    size_t at; // offset of the field in the struct
    const char *group, *help;
    bool incidental; // only says where things lie or how they are called: no part of the result
} option;

// A table (it ends with a NULL name) and the struct it fills.
typedef struct option_set {
    const option *table;
    void *to;
} option_set;

// Arguments with the contents of every @FILE in place of it: words apart by white space, in quotes or with
// backslashes as in a shell.
string_list option_expand(arena *a, diag *d, int n, const char *const *args);
// What is wrong is an error of d, the nearest option its hint; all are reported.
// The words of s as in a file.
string_list option_words(arena *a, diag *d, const char *s);
void option_parse(arena *a, diag *d, const option_set *sets, int nsets, const string_list *args,
                  string_list *positional);
void option_help(text *out, const option *table);
// "a|b|c" as words.
string_list split_words(arena *a, const char *s, char separator);
// All of s as a number of at least lo; false when it is none.
bool parse_int64(const char *s, int64_t lo, int64_t *v);
#endif
