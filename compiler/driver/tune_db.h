// The file of --tune-db: what was measured, as JSON with one answer a line, sorted.
#ifndef ONNXC_COMPILER_DRIVER_TUNE_DB_H
#define ONNXC_COMPILER_DRIVER_TUNE_DB_H
#include "compiler/base/diag.h"
#include "passes/schedule/common/choices.h"

// Adds what the text says; what is no such file is a fatal error that names `path`.
void tune_db_parse(choice_table *t, diag *d, const char *path, const char *text, size_t n);
void tune_db_read(choice_table *t, diag *d, const char *path);
const char *tune_db_text(arena *a, const choice_table *t);
// Together with what lies there by now.
void tune_db_write(const choice_table *t, diag *d, const char *path);
#endif
