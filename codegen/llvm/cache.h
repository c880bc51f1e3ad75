// The compile cache (--cache DIR): results of LLVM and NVRTC, in files named by the digest of their inputs. A
// damaged file only causes a new compilation.
#ifndef ONNXC_CODEGEN_LLVM_CACHE_H
#define ONNXC_CODEGEN_LLVM_CACHE_H
#include "compiler/base/bytes.h"
#include "compiler/base/diag.h"

typedef struct cache cache;

// Creates the folder if it does not exist. An unusable folder is a fatal error.
cache *cache_open(arena *a, diag *d, const char *folder);
// key: 64 hexadecimal digits. Both functions are thread-safe with different arenas.
bool cache_find(const cache *c, arena *a, const char *key, bytes *content);
void cache_keep(const cache *c, arena *a, const char *key, bytes content);
// Identifies this build of onnxc and its LLVM, since others may generate other code.
const char *cache_identity(arena *a);
// Identifies the program or library that contains an address.
const char *cache_build(arena *a, const void *inside);
// The key of n texts.
const char *cache_key(arena *a, const char *const *parts, int n);
#endif
