// NVRTC at work for the outputs: PTX, cubins, and what an object with GPU code brings along.
#ifndef ONNXC_COMPILER_DRIVER_GPU_IMAGES_H
#define ONNXC_COMPILER_DRIVER_GPU_IMAGES_H
#include "compiler/base/sink.h"
#include "compiler/driver/pipeline.h"

bytes ptx_code(pipeline *p);
bytes cubin_code(pipeline *p);
// Into the module of a build with GPU code: a cubin for each --gpu-arch and PTX of the newest; without any
// PTX of the oldest architecture.
void add_gpu_images(pipeline *p);
// For reports: what the code for each --gpu-arch uses (gpu_uses). Without NVRTC there is a warning instead.
void note_gpu_uses(pipeline *p);
#endif
