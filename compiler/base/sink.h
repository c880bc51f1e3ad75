// Where text goes while it is written: a callback, so that large outputs are never in memory as a whole.
#ifndef ONNXC_COMPILER_BASE_SINK_H
#define ONNXC_COMPILER_BASE_SINK_H
#include "compiler/base/arena.h"
#include <stdio.h>
#include <string.h>

typedef struct sink {
    void (*write)(void *user, const char *s, size_t n);
    void *user;
} sink;

static inline void sink_addn(const sink *s, const char *text, size_t n) {
    if (n) s->write(s->user, text, n);
}
static inline void sink_add(const sink *s, const char *text) { sink_addn(s, text, strlen(text)); }

// The two usual ones. Errors of the file stay in ferror(file) for the owner to see.
static inline void sink_write_file(void *file, const char *s, size_t n) { fwrite(s, 1, n, file); }
static inline void sink_write_text(void *to, const char *s, size_t n) { text_addn(to, s, n); }
static inline sink sink_file(FILE *f) { return (sink){sink_write_file, f}; }
static inline sink sink_text(text *t) { return (sink){sink_write_text, t}; }
#endif
