/* The pieces of a string between delimiters, as in Python's str.split. */
#ifndef ONNXC_LIB_SPLIT_H
#define ONNXC_LIB_SPLIT_H
#include "runtime-lite/lib/lib_value.h"

typedef struct lib_pieces {
    const char *next, *end;
    onnxc_string delimiter; /* empty: runs of white space, also stripped at both ends */
    int64_t splits;         /* remaining; -1: no limit */
    int done;
} lib_pieces;

static int lib_is_space(char c) { return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31); }

static void lib_skip_space(lib_pieces *p) {
    while (p->next < p->end && lib_is_space(*p->next)) p->next++;
}

static lib_pieces lib_pieces_of(onnxc_string s, onnxc_string delimiter, int64_t most) {
    lib_pieces p;
    p.next = s.data;
    p.end = s.data + s.size;
    p.delimiter = delimiter;
    p.splits = most;
    p.done = 0;
    if (!delimiter.size) lib_skip_space(&p);
    if (!delimiter.size && p.next == p.end) p.done = 1;
    return p;
}

static const char *lib_find_delimiter(const lib_pieces *p) {
    const char *s = p->next, *d = p->delimiter.data;
    size_t n = p->delimiter.size;
    if (!n) {
        while (s < p->end && !lib_is_space(*s)) s++;
        return s;
    }
    for (; (size_t)(p->end - s) >= n; s++)
        if (*s == *d && (n == 1 || memcmp(s, d, n) == 0)) return s;
    return p->end;
}

/* 0: no more pieces. */
static int lib_next_piece(lib_pieces *p, onnxc_string *piece) {
    const char *to;
    if (p->done) return 0;
    to = p->splits ? lib_find_delimiter(p) : p->end;
    piece->data = p->next;
    piece->size = (size_t)(to - p->next);
    if (p->splits > 0) p->splits--;
    if (to == p->end) {
        p->done = 1;
        return 1;
    }
    p->next = to + p->delimiter.size;
    if (!p->delimiter.size) lib_skip_space(p);
    if (!p->delimiter.size && p->next == p->end) p->done = 1;
    return 1;
}
#endif
