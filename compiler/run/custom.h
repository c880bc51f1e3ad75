// The functions of custom operators for runs in this process: --custom-lib.
#ifndef ONNXC_COMPILER_RUN_CUSTOM_H
#define ONNXC_COMPILER_RUN_CUSTOM_H
#include "compiler/driver/pipeline.h"
#include "runtime-lite/onnxc_custom.h"

// Its library stays open; global: libraries opened later find its functions by name. One that cannot be opened, or
// lacks the function, is an error.
onnxc_custom_function *custom_find(arena *a, diag *d, const options *o, const char *symbol, bool global);
// The symbols of the functions that the program calls, each once.
string_list custom_symbols(arena *a, const program *p);
#endif
