// Output files that appear whole or not at all: written under another name in the same folder, renamed at the
// end, removed when the compilation fails (with the arena).
#ifndef ONNXC_COMPILER_BASE_OUTFILE_H
#define ONNXC_COMPILER_BASE_OUTFILE_H
#include "compiler/base/arena.h"
#include "compiler/base/bytes.h"
#include "compiler/base/diag.h"
#include "compiler/base/sink.h"

typedef struct outfile outfile;

// Devices and pipes ("/dev/stdout") are written directly.
outfile *outfile_open(arena *a, diag *d, const char *path, bool executable);
void outfile_write(outfile *o, const void *at, size_t n); // what fails is fatal
sink outfile_sink(outfile *o);
// The name that it has before the commit, for programs that write it themselves.
const char *outfile_temporary(const outfile *o);
void outfile_flush(outfile *o); // all of it is in the temporary file, for others to read
void outfile_commit(outfile *o);
void outfile_discard(outfile *o); // for files that are needed for a while only
void outfile_write_whole(arena *a, diag *d, const char *path, bytes content);
#endif
