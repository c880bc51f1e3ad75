// The outputs of a compilation: runs the pipeline as far as the format needs, then writes.
#ifndef ONNXC_COMPILER_OUTPUT_OUTPUT_H
#define ONNXC_COMPILER_OUTPUT_OUTPUT_H
#include "compiler/base/bytes.h"
#include "compiler/base/sink.h"
#include "compiler/driver/pipeline.h"

// Compiles s and writes all that the options ask for, whole or not at all. With memory (not NULL) the main
// output goes there, and no file is written but those that an option names.
void output_compile(pipeline *p, const source *s, bytes *memory);
// The runtime for the target, NULL when the code needs none: as the options say, or the one that lies with
// onnxc, which is for this machine's kind.
const char *output_runtime(pipeline *p);
#endif
