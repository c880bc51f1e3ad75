// What a compilation makes: the forms of --emit, each from a pipeline that went as far as it needs.
#ifndef ONNXC_COMPILER_OUTPUT_OUTPUT_H
#define ONNXC_COMPILER_OUTPUT_OUTPUT_H
#include "compiler/base/bytes.h"
#include "compiler/base/sink.h"
#include "compiler/driver/pipeline.h"

typedef struct output output;
// Code for the host, with whatever it launches; a GPU's kernels alone; what shows the model's way, and is no
// code.
typedef enum output_kind { OUTPUT_CODE, OUTPUT_KERNELS, OUTPUT_VIEW } output_kind;
typedef struct format {
    const char *name, *ending;
    output_kind kind;
    goal goal;
    bool text_target; // loops for C text
    bool header;      // a C header lies beside it
    // One of the two; both NULL: not there yet. link writes the file itself.
    void (*write)(pipeline *p, const sink *to);
    void (*link)(pipeline *p, const char *path);
    gpu_want gpu;               // what it holds of GPU code that host code launches
    bytes (*code)(pipeline *p); // what the other two take from p->code; NULL: they take none
} format;

// By --emit, else by the ending of --output, else obj. NULL: the ending does not tell.
const format *output_format(const options *o);
// Compiles s and writes all that the options ask for, whole or not at all. With memory (not NULL) the main
// output goes there, and no file is written but those that an option names.
void output_compile(pipeline *p, const source *s, bytes *memory);
// The runtime for the target, NULL when the code needs none: as the options say, or the one that lies with
// onnxc, which is for this machine's kind.
const char *output_runtime(pipeline *p);
#endif
