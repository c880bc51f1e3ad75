// Memory for tensors of data-dependent size, aligned to 64 bytes; NULL: out of memory. Caches up to
// CACHED_BYTES of large freed blocks for the next run: malloc returns them to the system, and the page faults
// of fresh pages take longer than most kernels that write to them. Emitted C has lib_alloc.c instead.
#include "runtime-lite/core/runtime.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 16, LARGE = 1 << 16, CACHED_BYTES = 64 << 20 };

// Stored before the aligned memory.
typedef struct {
    void *block; // from malloc
    size_t bytes;
} head;

static _Atomic(char *) cached[SLOTS];
static atomic_size_t cached_bytes;

static head head_of(const char *aligned) {
    head h;
    memcpy(&h, aligned - sizeof h, sizeof h);
    return h;
}

static char *take_slot(int slot) {
    char *p = atomic_load_explicit(&cached[slot], memory_order_relaxed) ? atomic_exchange(&cached[slot], NULL)
                                                                        : NULL;
    if (p) atomic_fetch_sub(&cached_bytes, head_of(p).bytes);
    return p;
}

// Frees the block if it is small or the cache is full.
static void cache_or_free(char *p) {
    head h = head_of(p);
    if (h.bytes >= LARGE && atomic_fetch_add(&cached_bytes, h.bytes) + h.bytes <= CACHED_BYTES) {
        for (int i = 0; i < SLOTS; i++) {
            char *none = NULL;
            if (atomic_compare_exchange_strong(&cached[i], &none, p)) return;
        }
    }
    if (h.bytes >= LARGE) atomic_fetch_sub(&cached_bytes, h.bytes);
    free(h.block);
}

// A cached block that is large enough, but at most twice as large.
static char *find_cached(size_t bytes) {
    if (bytes < LARGE) return NULL;
    for (int i = 0; i < SLOTS; i++) {
        char *p = take_slot(i);
        if (!p) continue;
        size_t has = head_of(p).bytes;
        if (has >= bytes && has / 2 <= bytes) return p;
        cache_or_free(p);
    }
    return NULL;
}

// Frees the cache: at exit, when a library is unloaded, or when memory runs out.
__attribute__((destructor)) static void release(void) {
    for (int i = 0; i < SLOTS; i++) {
        char *p = take_slot(i);
        if (p) free(head_of(p).block);
    }
}

void *onnxc_rt_alloc(int64_t bytes) {
    if (bytes < 0 || (uint64_t)bytes > SIZE_MAX / 2) return NULL;
    head h = {.bytes = (size_t)bytes};
    char *aligned = find_cached(h.bytes);
    if (aligned) return aligned;
    size_t room = h.bytes + sizeof h + 64;
    h.block = malloc(room);
    if (!h.block) {
        release();
        h.block = malloc(room);
    }
    if (!h.block) return NULL;
    aligned = (char *)h.block + sizeof h;
    aligned += (64 - (uintptr_t)aligned % 64) % 64;
    memcpy(aligned - sizeof h, &h, sizeof h);
    return aligned;
}

void onnxc_rt_free(void *aligned) {
    if (aligned) cache_or_free(aligned);
}
