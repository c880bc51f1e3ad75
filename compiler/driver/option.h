// Command-line options from tables. In: rows with the name, argument and field of each option. Out: filled
// structs, positional arguments, the text of --help. Parsing, help and completions use the same rows.
#ifndef ONNXC_COMPILER_DRIVER_OPTION_H
#define ONNXC_COMPILER_DRIVER_OPTION_H
#include "compiler/base/diag.h"

typedef enum option_kind {
    OPT_FLAG,   // bool
    OPT_WORD,   // const char *, set to `word`: short for an option with that value
    OPT_TEXT,   // const char *; the last one wins
    OPT_CHOICE, // const char *, one of the words of `value` ("a|b|c")
    OPT_NUMBER, // int64_t, not negative
    OPT_REAL,   // double, not negative
    OPT_LIST,   // string_list: every value given
    OPT_WHOLE,  // string_list: every argument that begins with `name`, as a whole ("-mthumb")
} option_kind;

typedef struct option {
    const char *name;  // "--emit", "-O"
    const char *alias; // "-o"; the value may follow a letter directly. NULL: none
    const char *value; // name of the value in --help, or its choices. "[=N]": optional. NULL: no value
    option_kind kind;
    size_t at; // offset of the field in the struct
    const char *group, *help;
    bool incidental;      // does not affect the result, only locations and names
    const char *synonyms; // other words for choices, "gpu=cuda|...", which hints know
    const char *word;     // of OPT_WORD
} option;

// A table (ended by a NULL name) and the struct that it fills.
typedef struct option_set {
    const option *table;
    void *to;
    const char *command; // another one than this, whose options hints know; NULL: options of this one
} option_set;

// Replaces every @FILE by the words in the file, which white space separates, with quotes and backslashes as
// in a shell.
string_list option_expand(arena *a, diag *d, int n, const char *const *args);
string_list option_words(arena *a, diag *d, const char *s);
// Reports all errors to d, with the option that is meant as a hint. unused: flags of C compilers without a
// meaning for models.
void option_parse(arena *a, diag *d, const option_set *sets, int nsets, const string_list *args,
                  string_list *positional, string_list *unused);
// What an option of C compilers or other tools is here; NULL: unknown.
const char *option_elsewhere(const char *name);
// columns: of a terminal, to which lines are fitted; 0: none
void option_help(text *out, const option *table, int columns);
void help_paragraph(arena *a, text *out, const char *s, int columns);
// "a|b|c" as words.
string_list split_words(arena *a, const char *s, char separator);
// Parses all of s as a number of at least lo; false: it is not one.
bool parse_int64(const char *s, int64_t lo, int64_t *v);
int64_t parse_bytes(const char *s);        // "6000", "6K", "6KiB", "1MiB", "2G"; -1: not a size
bool parse_real(const char *s, double *v); // finite, at least 0
#endif
