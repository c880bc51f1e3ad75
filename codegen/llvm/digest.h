// Digests of bytes (BLAKE3, 256 bits).
#ifndef ONNXC_CODEGEN_LLVM_DIGEST_H
#define ONNXC_CODEGEN_LLVM_DIGEST_H
#include "compiler/base/arena.h"

typedef struct digest digest;
digest *digest_new(arena *a);
void digest_add(digest *d, const void *data, size_t size);
const char *digest_text(digest *d); // of all that was added, as 64 hexadecimal digits
#endif
