// The forms of --emit: what is made of a model, and how far the pipeline must run for it. Their writers are in
// compiler/output/output.c.
#ifndef ONNXC_COMPILER_DRIVER_FORMATS_H
#define ONNXC_COMPILER_DRIVER_FORMATS_H
#include "compiler/driver/pipeline.h"

// Code for the host, with the GPU code that it launches; a GPU's kernels alone; a view into the compiler.
typedef enum output_kind { OUTPUT_CODE, OUTPUT_KERNELS, OUTPUT_VIEW } output_kind;

// X(enumerator, name, extension, kind, goal, loops for C text, extension of the header, GPU code), in the order of --help.
// clang-format off
#define FORMATS(X) \
    X(FORMAT_OBJ, "obj", ".o", OUTPUT_CODE, GOAL_LOOPS, false, ".h", GPU_IMAGES) \
    X(FORMAT_LIB, "lib", ".a", OUTPUT_CODE, GOAL_LOOPS, false, ".h", GPU_IMAGES) \
    X(FORMAT_SHARED, "shared", ".so", OUTPUT_CODE, GOAL_LOOPS, false, ".h", GPU_IMAGES) \
    X(FORMAT_EXE, "exe", "", OUTPUT_CODE, GOAL_LOOPS, false, NULL, GPU_IMAGES) \
    X(FORMAT_WASM, "wasm", ".wasm", OUTPUT_CODE, GOAL_LOOPS, false, NULL, GPU_IMAGES) \
    X(FORMAT_JS, "js", ".js", OUTPUT_CODE, GOAL_LOOPS, false, ".d.ts", GPU_IMAGES) \
    X(FORMAT_C, "c", ".c", OUTPUT_CODE, GOAL_LOOPS, true, ".h", GPU_IMAGES) \
    X(FORMAT_HEADER, "header", ".h", OUTPUT_CODE, GOAL_LOOPS, false, NULL, GPU_NOTHING) \
    X(FORMAT_EXAMPLE, "example", "", OUTPUT_CODE, GOAL_LOOPS, false, NULL, GPU_IMAGES) \
    X(FORMAT_ASM, "asm", ".s", OUTPUT_CODE, GOAL_LOOPS, false, NULL, GPU_IMAGES) \
    X(FORMAT_LLVM_IR, "llvm-ir", ".ll", OUTPUT_CODE, GOAL_LOOPS, false, NULL, GPU_IMAGES) \
    X(FORMAT_BITCODE, "bitcode", ".bc", OUTPUT_CODE, GOAL_LOOPS, false, NULL, GPU_IMAGES) \
    X(FORMAT_CUDA, "cuda", ".cu", OUTPUT_KERNELS, GOAL_LOOPS, false, NULL, GPU_IMAGES) \
    X(FORMAT_PTX, "ptx", ".ptx", OUTPUT_KERNELS, GOAL_LOOPS, false, NULL, GPU_IMAGES) \
    X(FORMAT_CUBIN, "cubin", ".cubin", OUTPUT_KERNELS, GOAL_LOOPS, false, NULL, GPU_IMAGES) \
    X(FORMAT_IR, "ir", ".ir", OUTPUT_VIEW, GOAL_GRAPH, false, NULL, GPU_IMAGES) \
    X(FORMAT_KERNELS, "kernels", ".kernels", OUTPUT_VIEW, GOAL_PROGRAM, false, NULL, GPU_IMAGES) \
    X(FORMAT_LOOPS, "loops", ".loops", OUTPUT_VIEW, GOAL_LOOPS, false, NULL, GPU_IMAGES) \
    X(FORMAT_ONNX, "onnx", ".onnx", OUTPUT_VIEW, GOAL_GRAPH, false, NULL, GPU_IMAGES) \
    X(FORMAT_TEXTPROTO, "textproto", ".textproto", OUTPUT_VIEW, GOAL_GRAPH, false, NULL, GPU_IMAGES) \
    X(FORMAT_ONNX_JSON, "onnx-json", ".onnx.json", OUTPUT_VIEW, GOAL_GRAPH, false, NULL, GPU_IMAGES) \
    X(FORMAT_ONNXTXT, "onnxtxt", ".onnxtxt", OUTPUT_VIEW, GOAL_GRAPH, false, NULL, GPU_IMAGES) \
    X(FORMAT_DOT, "dot", ".dot", OUTPUT_VIEW, GOAL_PROGRAM, false, NULL, GPU_IMAGES) \
    X(FORMAT_HTML, "html", ".html", OUTPUT_VIEW, GOAL_LOOPS, false, NULL, GPU_USES) \
    X(FORMAT_JSON, "json", ".json", OUTPUT_VIEW, GOAL_LOOPS, false, NULL, GPU_USES)
// clang-format on

typedef enum format_id {
#define X(id, ...) id,
    FORMATS(X)
#undef X
        FORMAT_COUNT
} format_id;

typedef struct format {
    format_id id;
    const char *name, *extension;
    output_kind kind;
    goal goal;
    bool text_target;   // loops for C text
    const char *header; // extension of the C header, or of TypeScript's types, beside it; NULL: there is none
    gpu_want gpu;
} format;

// By --emit, else by the extension of --output, else obj. NULL: the extension is unknown.
const format *format_of_options(const options *o);
const format *format_of_path(const char *path); // by its extension
#endif
