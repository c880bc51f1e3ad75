// Layout assignment over the whole program, after fusion and before scheduling: which buffers lie
// channels-last and with a halo, which operands are packed in panels; explicit copies where a boundary needs
// another layout.
#ifndef ONNXC_LAYOUT_H
#define ONNXC_LAYOUT_H
#include "ir/program.h"

void assign_layouts(program *p);
void assign_gpu_layouts(program *p); // layout_gpu.c
#endif
