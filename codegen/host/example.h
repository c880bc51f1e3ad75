// An example program that calls a model: C text and a makefile.
#ifndef ONNXC_CODEGEN_HOST_EXAMPLE_H
#define ONNXC_CODEGEN_HOST_EXAMPLE_H
#include "codegen/host/host.h"
#include "compiler/base/sink.h"
#include "runtime-lite/onnxc.h"

// What the inputs of an example are. Tensors are zero, strings empty.
typedef struct example_inputs {
    int64_t *sizes;      // by symbol of the interface
    onnxc_value *values; // by input: sequences, optionals, maps and tensors without a known rank
    int64_t *counts;     // by output: elements that a run with these inputs makes, at least
    bool fails;          // so did every run that was tried
} example_inputs;

// Whether a dim follows from the sizes of the symbols.
bool example_size(const interface *io, const example_inputs *inputs, const dim *d, int64_t *size);
void example_main(arena *a, const build *b, const example_inputs *inputs, const sink *to);
void example_makefile(arena *a, const build *b, const sink *to);
#endif
