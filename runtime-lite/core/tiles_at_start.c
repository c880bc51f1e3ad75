// Requests the permission for matrix tiles before main: for objects whose runs make no system call (--threads 1).
#include "runtime-lite/core/runtime.h"

__attribute__((constructor)) static void ask(void) { (void)onnxc_rt_tiles(); }

int onnxc_rt_tiles_at_start(void) { return onnxc_rt_tiles(); }
