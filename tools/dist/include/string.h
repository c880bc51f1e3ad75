// The functions of string.h that freestanding code may call.
#ifndef ONNXC_FREESTANDING_STRING_H
#define ONNXC_FREESTANDING_STRING_H
#include <stddef.h>
void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);
#endif
