// In: bytes, in any number of parts. Out: their digest as text, by LLVM's copy of BLAKE3.
#include "codegen/llvm/digest.h"
#include <llvm-c/blake3.h>

enum { BYTES = 32 };
struct digest {
    arena *arena;
    llvm_blake3_hasher hasher;
};

digest *digest_new(arena *a) {
    digest *d = ARENA_NEW(a, digest);
    d->arena = a;
    llvm_blake3_hasher_init(&d->hasher);
    return d;
}

void digest_add(digest *d, const void *data, size_t size) {
    llvm_blake3_hasher_update(&d->hasher, data, size);
}

const char *digest_text(digest *d) {
    uint8_t hash[BYTES];
    llvm_blake3_hasher_finalize(&d->hasher, hash, sizeof hash);
    text t = {.arena = d->arena};
    for (int i = 0; i < BYTES; i++) text_printf(&t, "%02x", hash[i]);
    return text_str(&t);
}
