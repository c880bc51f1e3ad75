// The compile cache (--cache DIR): what LLVM and NVRTC made, in files named by the digest of all that it was
// made of. Whatever is wrong with a file only means that the code is compiled again.
#ifndef ONNXC_CODEGEN_LLVM_CACHE_H
#define ONNXC_CODEGEN_LLVM_CACHE_H
#include "compiler/base/bytes.h"
#include "compiler/base/diag.h"

typedef struct cache cache;

// The folder is made where there is none; one that cannot be used is a fatal error.
cache *cache_open(arena *a, diag *d, const char *folder);
// key: a name of 64 hexadecimal digits. Both may be called in several threads, with different arenas.
bool cache_find(const cache *c, arena *a, const char *key, bytes *content);
void cache_keep(const cache *c, arena *a, const char *key, bytes content);
// Of this build of onnxc and of its LLVM: others make other code.
const char *cache_identity(arena *a);
// Of the program or library that has an address.
const char *cache_build(arena *a, const void *inside);
// A key made of n texts.
const char *cache_key(arena *a, const char *const *parts, int n);
#endif
