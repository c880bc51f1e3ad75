// Lines that a person types, with editing and history where libedit is installed, or that a file or pipe gives.
#ifndef ONNXC_COMPILER_CLI_DEBUG_LINE_H
#define ONNXC_COMPILER_CLI_DEBUG_LINE_H
#include "compiler/base/arena.h"
#include <stdbool.h>
#include <stdio.h>

typedef struct line_reader {
    arena *arena;
    FILE *file;        // read first; NULL: none is left
    string_list first; // lines before that
    int next;
    bool terminal;                     // standard input and output are one
    char *(*edit)(const char *prompt); // of libedit; NULL: not installed
    int (*remember)(const char *line);
    string_list history;
} line_reader;

line_reader line_reader_new(arena *a, FILE *file);
// The next line, which is shown after the prompt if nobody typed it; NULL: the end of the input.
const char *line_read(line_reader *r, const char *prompt);
#endif
