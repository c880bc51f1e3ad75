// Output files that appear complete or not at all: written under a temporary name in the same folder, renamed
// at the end, removed with the arena if the compilation fails. Devices and pipes ("/dev/stdout") are written
// directly.
#ifndef ONNXC_COMPILER_BASE_OUTFILE_H
#define ONNXC_COMPILER_BASE_OUTFILE_H
#include "compiler/base/arena.h"
#include "compiler/base/bytes.h"
#include "compiler/base/diag.h"
#include "compiler/base/sink.h"

typedef struct outfile outfile;

// An input of this run, which no output may replace; errors if an output would.
void outfile_protect(diag *d, const char *input);
void outfile_check(diag *d, const char *path);
// An error if the folder of an output does not exist.
void outfile_check_folder(diag *d, const char *path);

// "-" is standard output.
outfile *outfile_open(arena *a, diag *d, const char *path, bool executable);
void outfile_write(outfile *o, const void *at, size_t n); // errors are fatal
sink outfile_sink(outfile *o);
// The name before the commit, for programs that write the file themselves.
const char *outfile_temporary(const outfile *o);
void outfile_flush(outfile *o); // writes buffered bytes, so that others can read the temporary file
void outfile_commit(outfile *o);
void outfile_discard(outfile *o); // for temporary files
void outfile_write_whole(arena *a, diag *d, const char *path, bytes content);
#endif
