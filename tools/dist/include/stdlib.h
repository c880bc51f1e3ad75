// Library functions that allocate are members of every runtime library; code for freestanding targets calls none of them.
#ifndef ONNXC_FREESTANDING_STDLIB_H
#define ONNXC_FREESTANDING_STDLIB_H
#include <stddef.h>
void *malloc(size_t n);
void *calloc(size_t count, size_t n);
void *realloc(void *block, size_t n);
void free(void *block);
int atoi(const char *text);
double strtod(const char *text, char **end);
float strtof(const char *text, char **end);
long long strtoll(const char *text, char **end, int base);
unsigned long long strtoull(const char *text, char **end, int base);
#endif
