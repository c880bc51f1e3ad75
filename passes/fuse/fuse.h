// Fusion over the program of unscheduled kernels: kernels become parts of their consumers or producers where
// the structure of reads and writes allows it. Names of operators play no part.
#ifndef ONNXC_PASSES_FUSE_FUSE_H
#define ONNXC_PASSES_FUSE_FUSE_H
#include "ir/kernel/program.h"

typedef struct fuse_options {
    bool
        strict; // values that no longer pass through memory are still rounded to the type they were stored in
} fuse_options;
#endif
