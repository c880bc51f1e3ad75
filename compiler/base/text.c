// Growable text, and untrusted names made safe: quoted without loss for files that are read back, or escaped
// and clipped for messages.
#include "compiler/base/arena.h"
#include "runtime-lite/core/numbers.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int string_order(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void text_addn(text *t, const char *s, size_t n) {
    if (t->cap - t->n <= n) {
        size_t cap = t->n + n + 1 < 64 ? 64 : 2 * (t->n + n + 1);
        t->s = arena_grow(t->arena, t->s, t->s ? t->n + 1 : 0, cap);
        t->cap = cap;
    }
    if (n) memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
}

void text_add(text *t, const char *s) { text_addn(t, s, strlen(s)); }

void text_printf(text *t, const char *format, ...) {
    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    if (n >= 0 && (size_t)n < sizeof small) text_addn(t, small, (size_t)n);
    else text_add(t, arena_vprintf(t->arena, format, again));
    va_end(again);
    va_end(args);
}

const char *text_str(const text *t) { return t->s ? t->s : ""; }

void real_text(char s[REAL_SIZE], double v, bool single) { number_shortest(s, REAL_SIZE, v, single); }

int utf8_decode(const char *s, size_t n, uint32_t *code) {
    const unsigned char *p = (const unsigned char *)s;
    int len = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : 4;
    if (p[0] >= 0xf5 || (p[0] >= 0x80 && p[0] < 0xc2) || (size_t)len > n) return 0;
    *code = len == 1 ? p[0] : p[0] & (0xff >> (len + 1));
    for (int i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | (p[i] & 0x3f);
    }
    uint32_t least = len == 3 ? 0x800 : len == 4 ? 0x10000 : 0;
    if (*code < least || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000)) return 0;
    return len;
}

// Control characters, and those that reorder or hide text on a terminal.
static int is_unsafe(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || c == 0x61c;
}

static void add_escaped(text *t, const char *s, size_t n, char quote) {
    for (size_t i = 0; i < n;) {
        uint32_t code = 0;
        int len = utf8_decode(s + i, n - i, &code);
        if (!len || is_unsafe(code)) {
            for (int k = 0; k < (len ? len : 1); k++) {
                char c = s[i++];
                if (c == '\n') text_add(t, "\\n");
                else if (c == '\t') text_add(t, "\\t");
                else text_printf(t, "\\x%02x", (unsigned char)c);
            }
            continue;
        }
        if (quote && (s[i] == quote || s[i] == '\\')) text_add(t, "\\");
        text_addn(t, s + i, (size_t)len);
        i += (size_t)len;
    }
}

void text_add_quoted(text *t, const char *s, size_t n) {
    text_add(t, "\"");
    add_escaped(t, s, n, '"');
    text_add(t, "\"");
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The escaped character; -1: no such escape.
static int unescape(const char **s) {
    char c = *(*s)++;
    if (c == 'n') return '\n';
    if (c == 't') return '\t';
    if (c == '"' || c == '\\') return c;
    if (c != 'x' || hex_digit((*s)[0]) < 0 || hex_digit((*s)[1]) < 0) return -1;
    int code = 16 * hex_digit((*s)[0]) + hex_digit((*s)[1]);
    *s += 2;
    return code;
}

char *text_unquote(arena *a, const char **s, size_t *n) {
    const char *p = *s;
    if (*p++ != '"') return NULL;
    text t = {.arena = a};
    text_addn(&t, "", 0);
    while (*p != '"') {
        if (!*p || *p == '\n') return NULL;
        int c = (unsigned char)*p++;
        if (c == '\\' && (c = unescape(&p)) < 0) return NULL;
        char byte = (char)c;
        text_addn(&t, &byte, 1);
    }
    *s = p + 1;
    *n = t.n;
    return t.s;
}

void text_add_safe(text *t, const char *s, size_t most) {
    size_t n = strlen(s), shown = n;
    if (n > most) {
        shown = most;
        while (shown > 0 && ((unsigned char)s[shown] & 0xc0) == 0x80) shown--;
    }
    add_escaped(t, s, shown, 0);
    if (shown < n) text_printf(t, "... (%zu bytes)", n);
}

const char *safe_text(arena *a, const char *s) {
    text t = {.arena = a};
    text_add_safe(&t, s, SIZE_MAX);
    return text_str(&t);
}

char *blank_text(arena *a, const char *s, char with) {
    char *copy = arena_strdup(a, s);
    for (char *p = copy; *p;) {
        uint32_t code = 0;
        int len = utf8_decode(p, strnlen(p, 4), &code);
        bool unsafe = !len || is_unsafe(code);
        if (!len) len = 1;
        if (unsafe) memset(p, with, (size_t)len);
        p += len;
    }
    return copy;
}

int text_equals(const char *s, size_t n, const char *word) {
    return strlen(word) == n && !memcmp(s, word, n);
}

int edit_distance(arena *a, const char *s, const char *t) {
    int n = (int)strlen(s), m = (int)strlen(t), w = m + 1;
    int *d = ARENA_ARRAY(a, int, (n + 1) * w);
    for (int i = 0; i <= n; i++) {
        for (int j = 0; j <= m; j++) {
            if (!i || !j) {
                d[i * w + j] = i + j;
                continue;
            }
            int best = d[(i - 1) * w + j - 1] + (s[i - 1] != t[j - 1]);
            if (d[(i - 1) * w + j] + 1 < best) best = d[(i - 1) * w + j] + 1;
            if (d[i * w + j - 1] + 1 < best) best = d[i * w + j - 1] + 1;
            bool swapped = i > 1 && j > 1 && s[i - 1] == t[j - 2] && s[i - 2] == t[j - 1];
            if (swapped && d[(i - 2) * w + j - 2] + 1 < best) best = d[(i - 2) * w + j - 2] + 1;
            d[i * w + j] = best;
        }
    }
    return d[n * w + m];
}

const char *nearest_word(arena *a, const char *s, const char *const *words, int n) {
    const char *best = NULL;
    int least = (int)strlen(s) > 200 ? 0 : ((int)strlen(s) + 1) / 3;
    for (int i = 0; i < n && least; i++) {
        int k = edit_distance(a, s, words[i]);
        if (k < least || (k == least && !best)) best = words[i], least = k;
    }
    // A word that only lacks its end goes before one that is misspelt.
    size_t given = strlen(s), shortest = SIZE_MAX;
    for (int i = 0; i < n && given >= 3; i++) {
        if (strncmp(s, words[i], given) != 0 || strlen(words[i]) >= shortest) continue;
        best = words[i], shortest = strlen(best);
    }
    return best;
}

void text_add_short(text *t, const char *name) {
    enum { HEAD = 24, TAIL = 33 };
    size_t n = strlen(name), head = HEAD, tail = n - TAIL;
    if (n <= HEAD + TAIL + 3) {
        text_add_safe(t, name, HEAD + TAIL + 3);
        return;
    }
    while (head > 0 && ((unsigned char)name[head] & 0xC0) == 0x80) head--; // between characters of UTF-8
    while (tail < n && ((unsigned char)name[tail] & 0xC0) == 0x80) tail++;
    text_add_safe(t, arena_printf(t->arena, "%.*s...%s", (int)head, name, name + tail), HEAD + TAIL + 3);
}

const char *short_text(arena *a, const char *name) {
    text t = {.arena = a};
    text_add_short(&t, name);
    return text_str(&t);
}

const char *fit_identifier(arena *a, const char *s, size_t most) {
    size_t n = strlen(s), front = most / 4;
    if (n <= most) return s;
    size_t word = front;
    while (word > 0 && s[word] != '_') word--;
    if (word) front = word;
    const char *tail = s + n - (most - front - 1), *next = strchr(tail, '_');
    if (tail[-1] != '_' && next && (size_t)(s + n - next) > most / 2) tail = next + 1;
    return arena_printf(a, "%.*s_%s", (int)front, s, tail);
}
