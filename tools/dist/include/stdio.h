// As stdlib.h: declared for the members that freestanding code does not call.
#ifndef ONNXC_FREESTANDING_STDIO_H
#define ONNXC_FREESTANDING_STDIO_H
#include <stddef.h>
int snprintf(char *restrict to, size_t size, const char *restrict format, ...);
#endif
