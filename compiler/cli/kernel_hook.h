// The hook between kernels of a run: it has no argument for its state, so that the timer is thread-local.
#ifndef ONNXC_COMPILER_CLI_KERNEL_HOOK_H
#define ONNXC_COMPILER_CLI_KERNEL_HOOK_H
#include "compiler/run/kernel_timer.h"

int kernel_hook(void *user, uint32_t kernel);
void kernel_hook_use(kernel_timer *t); // for the runs of this thread; NULL: none
#endif
