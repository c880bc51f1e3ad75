// Memory spaces of the buffers of a program for a GPU.
#ifndef ONNXC_PASSES_MEMORY_SPACES_H
#define ONNXC_PASSES_MEMORY_SPACES_H
#include "ir/kernel/program.h"

// Buffers accessed by kernels are on the device, those accessed only by host steps on the host, inputs and
// outputs where the caller has them. Inserts the copies in between; those in the middle of the program are
// reported as remarks.
void assign_spaces(program *p);
#endif
