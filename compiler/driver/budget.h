// --max-workspace, --pool and --max-flash: models that need more are refused, with a table of what takes the space.
#ifndef ONNXC_COMPILER_DRIVER_BUDGET_H
#define ONNXC_COMPILER_DRIVER_BUDGET_H
#include "compiler/base/bytes.h"
#include "compiler/driver/pipeline.h"

void choose_patches(pipeline *p, goal g);    // before the program's passes: how far kernels run in patches
void check_workspace(pipeline *p);           // after the build
void check_pools(pipeline *p);               // likewise
void check_flash(pipeline *p, bytes object); // the object before constants are added to it
#endif
