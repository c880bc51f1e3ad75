// Operator fusion on unscheduled kernels: kernels become parts of their consumers or producers where the
// structure of reads and writes allows it, regardless of operators.
#ifndef ONNXC_PASSES_FUSE_FUSE_H
#define ONNXC_PASSES_FUSE_FUSE_H
#include "ir/kernel/program.h"

typedef struct fuse_options {
    bool strict; // values that are no longer stored are still rounded to the type of their storage
} fuse_options;
#endif
