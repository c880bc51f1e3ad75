// Texts of status codes.
#include "runtime-lite/onnxc.h"

const char *onnxc_status_text(int status) {
    switch ((onnxc_status)status) {
    case ONNXC_OK: return "success";
    case ONNXC_NULL_POINTER: return "a null pointer was given";
    case ONNXC_BAD_DIM: return "a dimension is not one that the model accepts";
    case ONNXC_WORKSPACE_SIZE: return "the workspace is too small";
    case ONNXC_WORKSPACE_ALIGN: return "the workspace is not aligned";
    case ONNXC_TOO_SMALL: return "an output is too small";
    case ONNXC_TOO_LARGE: return "the sizes exceed any memory";
    case ONNXC_NO_MEMORY: return "out of memory";
    case ONNXC_CHECK_FAILED: return "the data violate a rule of the model";
    case ONNXC_CANCELLED: return "cancelled";
    case ONNXC_BAD_CPU: return "this machine lacks instructions that the model was compiled for";
    case ONNXC_BAD_WEIGHTS: return "the weights file is missing or belongs to another model";
    case ONNXC_NO_GPU: return "there is no GPU that the model can run on";
    case ONNXC_GPU_FAILED: return "the GPU driver reported an error";
    }
    return "unknown status";
}
