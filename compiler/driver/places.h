// Whether what is written would take the place of what is read, or two outputs that of each other.
#ifndef ONNXC_COMPILER_DRIVER_PLACES_H
#define ONNXC_COMPILER_DRIVER_PLACES_H
#include "compiler/base/diag.h"
#include <stdbool.h>

// Names of one regular file, links and all; of a file that is not there yet the same name.
bool same_file(const char *a, const char *b);
// An error for each output (NULL: none) that is an input or an earlier output.
void check_places(diag *d, const char *const *outputs, int noutputs, const char *const *inputs, int ninputs);
#endif
