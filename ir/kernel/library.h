// Runtime-lite's library functions by name, as compiled into this program, for the interpreter and for code
// loaded into this process.
#ifndef ONNXC_IR_KERNEL_LIBRARY_H
#define ONNXC_IR_KERNEL_LIBRARY_H
#include "runtime-lite/lib/lib.h"
#include <stdbool.h>

onnxc_lib_function *library_find(const char *name); // "topk"; NULL: none
bool library_allocates(const char *name);           // it allocates strings or sequences
bool library_calls_runtime(const char *name);       // it needs an operating system, and emitted C the runtime
int library_count(void);
const char *library_name(int i);
#endif
