// Compiles kernels with NVRTC: PTX, cubins, and the images in an object with GPU code.
#ifndef ONNXC_COMPILER_DRIVER_GPU_IMAGES_H
#define ONNXC_COMPILER_DRIVER_GPU_IMAGES_H
#include "compiler/base/sink.h"
#include "compiler/driver/pipeline.h"

bytes ptx_code(pipeline *p);
bytes cubin_code(pipeline *p);
// Adds images to the module of a build with GPU code: a cubin for each --gpu-arch and PTX of the newest;
// without --gpu-arch, PTX of the oldest architecture.
void add_gpu_images(pipeline *p);
// For reports: records what the code for each --gpu-arch uses (gpu_uses). Without NVRTC, warns instead.
void note_gpu_uses(pipeline *p);
#endif
