/* onnxc.h: calling compiled models.
 *
 * Every model NAME that onnxc compiles comes with a header NAME.h that needs nothing else:
 *
 *     NAME_in in = {.image = pixels};
 *     NAME_out out = {.logits = scores};
 *     int failed = NAME_run(&in, &out, workspace, sizeof workspace);
 *
 * This header is for programs that do not know their models when they are compiled (tools, bindings,
 * servers): they see every model alike, through its descriptor. It also declares what the runtime
 * library (libonnxc-rt) offers.
 *
 * Rules that hold for all models
 *   - Tensors are dense and row-major. bool is one byte, 0 or 1. float16 and bfloat16 are their bits in a
 *     uint16_t, 8-bit floats in a uint8_t, complex numbers pairs (real, imaginary). 4-bit and 2-bit elements
 *     are packed, the first one in the low bits.
 *   - Outputs and the workspace must not overlap each other or the inputs.
 *   - The workspace may hold anything before a call and holds nothing of use after it. Calls that
 *     run at the same time need workspaces of their own; nothing else is shared.
 *   - A failed call returns one of the codes below. Codes up to ONNXC_BAD_DIM and ONNXC_WORKSPACE_* come
 *     before anything was written.
 */
#ifndef ONNXC_H
#define ONNXC_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The interface between objects and the runtime. An object links with a runtime of the same number only. */
#define ONNXC_INTERFACE 1

#ifndef ONNXC_STATUS
#define ONNXC_STATUS
typedef enum onnxc_status {
    ONNXC_OK = 0,
    ONNXC_NULL_POINTER = 1,    /* a struct, tensor or workspace is a null pointer */
    ONNXC_BAD_DIM = 2,         /* a dimension is not what the model takes, or the dimensions disagree */
    ONNXC_WORKSPACE_SIZE = 3,  /* the workspace is too small */
    ONNXC_WORKSPACE_ALIGN = 4, /* the workspace does not begin at a multiple of NAME_WORKSPACE_ALIGN */
    ONNXC_TOO_SMALL = 5,       /* an output has more elements than its capacity: its dims say how many */
    ONNXC_TOO_LARGE = 6,       /* sizes that no memory can hold */
    ONNXC_NO_MEMORY = 7,       /* allocation failed */
    ONNXC_CHECK_FAILED = 8,    /* the data break a rule of the model: an index out of range ... */
    ONNXC_CANCELLED = 9,       /* the hook said so */
    ONNXC_BAD_CPU = 10         /* this machine lacks instructions that the object was compiled for */
} onnxc_status;
#endif

/* What a code means, in a few words. */
const char *onnxc_status_text(int status);

#ifdef __cplusplus
}
#endif
#endif
