// --check-weights: a function that finds constants that have changed since the object was written.
#ifndef ONNXC_CODEGEN_HOST_HOST_CHECKSUM_H
#define ONNXC_CODEGEN_HOST_HOST_CHECKSUM_H
#include "codegen/host/host.h"

// Adds NAME_check_weights to a module whose other functions and constants are final.
void write_checksum(build *x, diag *d);
#endif
