// Which inputs of a model the files input_0.pb ... of a folder are for. There are as many as the model has
// inputs without default values, or as it has inputs; then an input with a default value takes what its file
// says.
#ifndef ONNXC_COMPILER_CLI_INPUT_FILES_H
#define ONNXC_COMPILER_CLI_INPUT_FILES_H
#include "compiler/import/import.h"

typedef struct input_files {
    arena *arena;
    const char *folder; // NULL: none
    int plain;          // inputs without default values so far
    VEC(int) number;    // of the file, by input that the imported model has
} input_files;

const char *input_file(arena *a, const char *folder, int number);
// Whether the input is given; to be asked about all inputs in order, as import_options.input is.
default_use input_files_use(input_files *f, const model_input *i);
#endif
