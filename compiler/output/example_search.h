// Sizes for the output of --emit=example.
#ifndef ONNXC_COMPILER_OUTPUT_EXAMPLE_SEARCH_H
#define ONNXC_COMPILER_OUTPUT_EXAMPLE_SEARCH_H
#include "codegen/host/example.h"
#include "compiler/driver/pipeline.h"

example_inputs *example_search(pipeline *p);
#endif
