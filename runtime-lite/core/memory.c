// Memory for tensors whose size only the run knows: aligned to 64 bytes, NULL when there is none.
// Large blocks that a run frees wait for the next one, up to KEPT_BYTES in all: malloc gives them back to the
// system, and to touch fresh pages takes longer than most kernels that fill them. Emitted C has lib_alloc.c
// instead.
#include "runtime-lite/core/runtime.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 16, LEAST = 1 << 16, KEPT_BYTES = 64 << 20 };

// Stands before the aligned memory.
typedef struct {
    void *block; // as malloc gave it
    size_t bytes;
} head;

static _Atomic(char *) kept[KEPT];
static atomic_size_t kept_bytes;

static head head_of(const char *aligned) {
    head h;
    memcpy(&h, aligned - sizeof h, sizeof h);
    return h;
}

static char *take(int slot) {
    char *p =
        atomic_load_explicit(&kept[slot], memory_order_relaxed) ? atomic_exchange(&kept[slot], NULL) : NULL;
    if (p) atomic_fetch_sub(&kept_bytes, head_of(p).bytes);
    return p;
}

// Nothing is kept beyond a full set of slots: what does not fit is freed.
static void keep(char *p) {
    head h = head_of(p);
    if (h.bytes >= LEAST && atomic_fetch_add(&kept_bytes, h.bytes) + h.bytes <= KEPT_BYTES) {
        for (int i = 0; i < KEPT; i++) {
            char *none = NULL;
            if (atomic_compare_exchange_strong(&kept[i], &none, p)) return;
        }
    }
    if (h.bytes >= LEAST) atomic_fetch_sub(&kept_bytes, h.bytes);
    free(h.block);
}

// A block that is large enough and no more than twice as large.
static char *find(size_t bytes) {
    if (bytes < LEAST) return NULL;
    for (int i = 0; i < KEPT; i++) {
        char *p = take(i);
        if (!p) continue;
        size_t has = head_of(p).bytes;
        if (has >= bytes && has / 2 <= bytes) return p;
        keep(p);
    }
    return NULL;
}

// When a program ends or a library is unloaded, and where memory runs short.
__attribute__((destructor)) static void release(void) {
    for (int i = 0; i < KEPT; i++) {
        char *p = take(i);
        if (p) free(head_of(p).block);
    }
}

void *onnxc_rt_alloc(int64_t bytes) {
    if (bytes < 0 || (uint64_t)bytes > SIZE_MAX / 2) return NULL;
    head h = {.bytes = (size_t)bytes};
    char *aligned = find(h.bytes);
    if (aligned) return aligned;
    size_t room = h.bytes + sizeof h + 64;
    h.block = malloc(room);
    if (!h.block) release(), h.block = malloc(room);
    if (!h.block) return NULL;
    aligned = (char *)h.block + sizeof h;
    aligned += (64 - (uintptr_t)aligned % 64) % 64;
    memcpy(aligned - sizeof h, &h, sizeof h);
    return aligned;
}

void onnxc_rt_free(void *aligned) {
    if (aligned) keep(aligned);
}
