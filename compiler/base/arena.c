// Arenas: a list of zeroed chunks with bump allocation.
#include "compiler/base/arena.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __has_feature
#define HAS_ASAN __has_feature(address_sanitizer)
#elif defined __SANITIZE_ADDRESS__
#define HAS_ASAN 1
#else
#define HAS_ASAN 0
#endif
// The address sanitizer reports accesses behind a block, which has bytes without a block behind it.
#if HAS_ASAN
#include <sanitizer/asan_interface.h>
enum { RED_ZONE = 16 };
#else
enum { RED_ZONE = 0 };
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

enum { ALIGN = 16, FIRST_CHUNK = 4096, LARGEST_CHUNK = 1 << 20 };

typedef struct chunk {
    struct chunk *next;
    size_t size, used; // of the bytes after this header
} chunk;

typedef struct cleanup {
    struct cleanup *next;
    void (*fn)(void *);
    void *arg;
} cleanup;

struct arena {
    chunk *chunks; // newest first: allocation is from that one
    cleanup *cleanups;
    size_t bytes, next_size;
    size_t limit;
    void (*handler)(void *);
    void *handler_arg;
    int in_handler; // while the handler runs, it may allocate past the limit
    arena *owner, *inner, *next,
        *before; // inner: head of the list of temporary arenas; next, before: links in the owner's list
};

static size_t round_up(size_t n) { return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

enum { HEADER = (sizeof(chunk) + ALIGN - 1) / ALIGN * ALIGN };

arena *arena_new(void) {
    arena *a = calloc(1, sizeof *a);
    if (!a) abort();
    a->next_size = FIRST_CHUNK;
    return a;
}

arena *arena_within(arena *owner) {
    arena *a = arena_new();
    a->owner = owner;
    a->next = owner->inner;
    if (a->next) a->next->before = a;
    owner->inner = a;
    return a;
}

static void leave_owner(arena *a) {
    if (!a->owner) return;
    if (a->next) a->next->before = a->before;
    if (a->before) a->before->next = a->next;
    else a->owner->inner = a->next;
}

void arena_destroy(arena *a) {
    if (!a) return;
    while (a->inner) arena_destroy(a->inner);
    leave_owner(a);
    for (; a->cleanups; a->cleanups = a->cleanups->next) a->cleanups->fn(a->cleanups->arg);
    for (chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(a);
}

static _Noreturn void out_of_memory(arena *a) {
    while (!a->handler && a->owner) a = a->owner;
    if (a->handler && !a->in_handler) {
        a->in_handler = 1;
        a->handler(a->handler_arg);
    }
    fputs("onnxc: out of memory\n", stderr);
    abort();
}

// The handler leaves by longjmp, so the flag is cleared when the limit is set again.
static int over_limit(const arena *a, size_t more) {
    return a->limit && !a->in_handler && (more > a->limit || a->bytes > a->limit - more);
}

static chunk *add_chunk(arena *a, size_t size) {
    size_t room = size > a->next_size ? size : a->next_size;
    if (room > SIZE_MAX - HEADER || over_limit(a, size)) out_of_memory(a);
    if (over_limit(a, room)) room = size;
    chunk *c = calloc(1, HEADER + room);
    if (!c) out_of_memory(a);
    c->size = room;
    a->bytes += HEADER + room;
    if (a->next_size < LARGEST_CHUNK) a->next_size *= 2;
    // A block larger than a chunk gets its own, so that the rest of the current chunk is not lost.
    int keep = a->chunks && room == size && a->chunks->size - a->chunks->used > FIRST_CHUNK;
    c->next = keep ? a->chunks->next : a->chunks;
    if (keep) a->chunks->next = c;
    else a->chunks = c;
    return c;
}

void *arena_alloc(arena *a, size_t size) {
    if (size > SIZE_MAX / 2) out_of_memory(a);
    size_t wanted = size ? size : 1;
    size = round_up(wanted) + RED_ZONE;
    chunk *c = a->chunks;
    if (!c || c->size - c->used < size) c = add_chunk(a, size);
    void *block = (char *)c + HEADER + c->used;
    c->used += size;
    ASAN_POISON_MEMORY_REGION((char *)block + wanted, size - wanted);
    return block;
}

void *arena_calloc(arena *a, size_t n, size_t size) {
    size_t product;
    if (__builtin_mul_overflow(n, size, &product)) out_of_memory(a);
    return arena_alloc(a, product);
}

// The newest block grows in place while its chunk has room.
static int grow_in_place(arena *a, const void *old, size_t old_size, size_t new_size) {
    chunk *c = a->chunks;
    if (!c || !old || new_size < old_size || new_size > SIZE_MAX / 2) return 0;
    size_t old_room = old_size ? round_up(old_size) : ALIGN, more = round_up(new_size);
    if (more < old_room) more = old_room;
    if ((const char *)old + old_room != (char *)c + HEADER + c->used) return 0;
    if (c->size - c->used < more - old_room) return 0;
    c->used += more - old_room;
    return 1;
}

void *arena_grow(arena *a, const void *old, size_t old_size, size_t new_size) {
    if (grow_in_place(a, old, old_size, new_size)) return (void *)old;
    void *block = arena_alloc(a, new_size);
    if (old_size) memcpy(block, old, old_size < new_size ? old_size : new_size);
    return block;
}

char *arena_strndup(arena *a, const char *s, size_t n) {
    if (n == SIZE_MAX) out_of_memory(a);
    char *copy = arena_alloc(a, n + 1);
    if (n) memcpy(copy, s, n);
    return copy;
}

char *arena_strdup(arena *a, const char *s) { return arena_strndup(a, s, strlen(s)); }

char *arena_vprintf(arena *a, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (n < 0) return arena_strdup(a, "");
    char *s = arena_alloc(a, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, format, args);
    return s;
}

char *arena_printf(arena *a, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *s = arena_vprintf(a, format, args);
    va_end(args);
    return s;
}

void arena_on_destroy(arena *a, void (*fn)(void *), void *arg) {
    cleanup *c = ARENA_NEW(a, cleanup);
    *c = (cleanup){.next = a->cleanups, .fn = fn, .arg = arg};
    a->cleanups = c;
}

bool arena_has_room(const arena *a, size_t bytes) { return !over_limit(a, bytes); }

void arena_set_limit(arena *a, size_t bytes, void (*handler)(void *), void *arg) {
    a->limit = bytes;
    a->handler = handler;
    a->handler_arg = arg;
    a->in_handler = 0;
}

size_t arena_bytes(const arena *a) { return a->bytes; }
