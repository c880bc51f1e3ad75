// Input files of the import: only regular ones, mapped read-only, recognised by their first bytes.
#ifndef ONNXC_COMPILER_IMPORT_FILE_H
#define ONNXC_COMPILER_IMPORT_FILE_H
#include "compiler/import/import.h"

typedef struct mapped {
    const char *path;
    const uint8_t *data;
    size_t size;
} mapped;

// Maps path; a fatal error of d if it is not a regular file, cannot be read or exceeds the limit. The mapping
// lives as long as a.
mapped file_map(arena *a, diag *d, const char *path, int64_t most);
// All of standard input.
mapped file_read_stdin(arena *a, diag *d);
// A fatal error of d that names the kind of file: of any model / of one that is not in a text form.
void file_check_kind(diag *d, const uint8_t *data, size_t size);
void file_check_binary(diag *d, const uint8_t *data, size_t size);
// The folder of path (of the target of its links if `resolve`); NULL: none.
const char *file_folder(arena *a, const char *path, bool resolve);
// The real path of location in one of the n folders (NULL ones are skipped), and in *found its path relative
// to the working directory. A location that is absolute, has "..", or leads out of the folders through a link
// is a fatal error at `at`.
const char *file_below(arena *a, diag *d, const loc *at, const char *const *folders, int n,
                       const char *location, const char **found);
#endif
