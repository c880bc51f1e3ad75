// What --list-ops shows.
#ifndef ONNXC_COMPILER_CLI_LIST_OPS_H
#define ONNXC_COMPILER_CLI_LIST_OPS_H
#include "compiler/base/arena.h"

const char *list_ops_text(arena *a);     // the operators of this build, one a line
const char *list_ops_markdown(arena *a); // all operators of the standard: docs/operators.md
#endif
