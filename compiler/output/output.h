// The outputs of a compilation: runs the pipeline as far as the format needs, then writes.
#ifndef ONNXC_COMPILER_OUTPUT_OUTPUT_H
#define ONNXC_COMPILER_OUTPUT_OUTPUT_H
#include "compiler/base/bytes.h"
#include "compiler/base/sink.h"
#include "compiler/driver/pipeline.h"

// Compiles s and writes all requested outputs, completely or not at all. If memory is not NULL, the main
// output goes there, and only explicitly named files are written.
void output_compile(pipeline *p, const source *s, bytes *memory);
void output_header(pipeline *p, const sink *to);
// The runtime library for the target, NULL if the code needs none: from the options, or the one installed
// with onnxc for this machine's architecture.
const char *output_runtime(pipeline *p);
#endif
