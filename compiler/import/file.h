// Files the import reads: regular ones only, mapped read-only, and told apart by their first bytes.
#ifndef ONNXC_COMPILER_IMPORT_FILE_H
#define ONNXC_COMPILER_IMPORT_FILE_H
#include "compiler/import/import.h"

typedef struct mapped {
    const char *path;
    const uint8_t *data;
    size_t size;
} mapped;

// A fatal error of d when path is no regular file, cannot be read or is over the limit. The mapping lives as
// long as a.
mapped file_map(arena *a, diag *d, const char *path, int64_t most);
// All of standard input.
mapped file_read_stdin(arena *a, diag *d, int64_t most);
// A fatal error of d that names what the bytes are, when they are surely no binary ONNX model.
void file_check_kind(diag *d, const uint8_t *data, size_t size);
// The folder of path (of the file that path leads to when `resolve`), NULL when there is none.
const char *file_folder(arena *a, const char *path, bool resolve);
// The real path of location below one of the n folders (NULL ones are skipped), and in *found its path as
// seen from where the program runs. A location that is
// absolute, has "..", or leads out of the folders through a link is a fatal error at `at`.
const char *file_below(arena *a, diag *d, const loc *at, const char *const *folders, int n,
                       const char *location, const char **found);
#endif
