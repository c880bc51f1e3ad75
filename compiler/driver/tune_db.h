// The file of --tune-db: measured choices as JSON, one entry per line, sorted.
#ifndef ONNXC_COMPILER_DRIVER_TUNE_DB_H
#define ONNXC_COMPILER_DRIVER_TUNE_DB_H
#include "compiler/base/diag.h"
#include "passes/schedule/common/choices.h"

// Adds the entries of the text; another format is a fatal error that names `path`.
void tune_db_parse(choice_table *t, diag *d, const char *path, const char *text, size_t n);
void tune_db_read(choice_table *t, diag *d, const char *path);
const char *tune_db_text(arena *a, const choice_table *t);
// Merges with the entries in the file.
void tune_db_write(const choice_table *t, diag *d, const char *path);
#endif
