// Runtime-lite's library functions by name, as they are compiled into this program: what the interpreter
// calls and what code loaded into this process links with.
#ifndef ONNXC_IR_KERNEL_LIBRARY_H
#define ONNXC_IR_KERNEL_LIBRARY_H
#include "runtime-lite/lib/lib.h"
#include <stdbool.h>

onnxc_lib_function *library_find(const char *name); // "topk"; NULL: none
bool library_allocates(const char *name);           // strings and sequences, through *call
int library_count(void);
const char *library_name(int i);
#endif
