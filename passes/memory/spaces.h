// Host and device: where the buffers of a program for a GPU lie.
#ifndef ONNXC_PASSES_MEMORY_SPACES_H
#define ONNXC_PASSES_MEMORY_SPACES_H
#include "ir/kernel/program.h"

// What kernels touch lies on the device, what only host steps touch on the host, inputs and outputs where the
// caller has them. Inserts the copies between; those in the middle of the program are remarks.
void assign_spaces(program *p);
#endif
