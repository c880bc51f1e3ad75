// Assigns the files input_0.pb ... of a folder to inputs of a model. There is a file for every input without
// default value, or one for every input; then the files also set inputs with default values.
#ifndef ONNXC_COMPILER_CLI_INPUT_FILES_H
#define ONNXC_COMPILER_CLI_INPUT_FILES_H
#include "compiler/import/import.h"

typedef struct input_files {
    arena *arena;
    const char *folder; // NULL: none
    int plain;          // required inputs so far
    VEC(int) number;    // of the file, by input of the imported model
} input_files;

const char *input_file(arena *a, const char *folder, int number);
// Whether the input has a file; call it for all inputs in order, as import_options.input does.
default_use input_files_use(input_files *f, const model_input *i);
#endif
