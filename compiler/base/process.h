// Runs other programs: a C compiler, a runner. Makes temporary folders for them.
#ifndef ONNXC_COMPILER_BASE_PROCESS_H
#define ONNXC_COMPILER_BASE_PROCESS_H
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"

// Runs args[0] with args (found in PATH, no shell); its standard error is shown. The exit code, 128 + signal,
// or -1 when it cannot be started.
int process_run(arena *a, diag *d, const string_list *args);
// A new folder under /tmp that goes with the arena, with all that is in it.
const char *temporary_folder(arena *a, diag *d);
#endif
