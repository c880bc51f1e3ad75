/* The tokens of a string, as com.microsoft's Tokenizer finds them: its characters, what is left between the matches of
 * regular expressions (each divides what the ones before it left), or the matches of one. Automata: runtime-lite/lib
 * finds their tables in one array; state 1 is the start at the beginning of a text, 2 that behind a byte that is none of
 * a word, 3 that behind a byte of a word. The first number of a state has bits: it accepts at the end of the text (1),
 * before a byte that is none of a word (2), before a byte of a word (4). */
#ifndef ONNXC_LIB_TOKENS_H
#define ONNXC_LIB_TOKENS_H
#include "runtime-lite/lib/lib_value.h"

enum { TOKENS_ARE_CHARACTERS, TOKENS_BETWEEN_MATCHES, TOKENS_ARE_MATCHES };
#define TOKENS_NONE ((size_t)-1)

typedef struct lib_tokens {
    int64_t least;          /* characters of a token */
    const int32_t *tables;  /* the automata, one after the other */
    int64_t automata;       /* their number */
    const int64_t *classes; /* of bytes, for each automaton, then the place of its table */
    int64_t count;          /* tokens found */
    void **call;
    int64_t *out; /* handles of the tokens; NULL: they are counted */
} lib_tokens;

/* By the numbers of token_count. */
static lib_tokens lib_tokens_of(void **call, const int32_t *tables, const int64_t *numbers) {
    lib_tokens t = {0};
    t.least = numbers[3];
    t.tables = tables;
    t.automata = numbers[4];
    t.classes = numbers + 5;
    t.call = call;
    return t;
}

static int lib_word_byte(char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

/* Bytes of the character that begins with c, in valid UTF-8. */
static size_t lib_character(char c) {
    unsigned char u = (unsigned char)c;
    return u < 0x80 ? 1 : u < 0xe0 ? 2 : u < 0xf0 ? 3 : 4;
}

ONNXC_MAYBE_UNUSED static int lib_is_utf8(onnxc_string s) {
    size_t i = 0, j, n;
    while (i < s.size) {
        const unsigned char *p = (const unsigned char *)s.data + i;
        n = lib_character(s.data[i]);
        if ((p[0] >= 0x80 && p[0] < 0xc2) || p[0] > 0xf4 || n > s.size - i) return 0;
        for (j = 1; j < n; j++)
            if ((p[j] & 0xc0) != 0x80) return 0;
        if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
            (p[0] == 0xf4 && p[1] > 0x8f))
            return 0;
        i += n;
    }
    return 1;
}

/* LIB_NO_MEMORY, or 0. A token of too few characters is none. */
static int lib_add_token(lib_tokens *t, const char *data, size_t size) {
    int64_t characters = 0;
    size_t i;
    onnxc_string *own;
    for (i = 0; i < size; i++) characters += ((unsigned char)data[i] & 0xc0) != 0x80;
    if (characters < t->least) return 0;
    t->count++;
    if (!t->out) return 0;
    own = (onnxc_string *)lib_alloc(t->call, (int64_t)sizeof *own);
    if (!own) return LIB_NO_MEMORY;
    own->data = data;
    own->size = size;
    *t->out++ = lib_handle(own);
    return 0;
}

/* The end of the longest match that begins at `at`, or TOKENS_NONE. */
static size_t lib_longest_match(const lib_tokens *t, int64_t automaton, onnxc_string s, size_t at) {
    const int32_t *class_of = t->tables + t->classes[2 * automaton + 1], *states = class_of + 256;
    int64_t width = t->classes[2 * automaton] + 1, state = at == 0                         ? 1
                                                           : lib_word_byte(s.data[at - 1]) ? 3
                                                                                           : 2;
    size_t end = TOKENS_NONE;
    for (; state; at++) {
        int accepts = (int)states[state * width];
        if (accepts & (at == s.size ? 1 : lib_word_byte(s.data[at]) ? 4 : 2)) end = at;
        if (at == s.size) break;
        state = states[state * width + 1 + class_of[(unsigned char)s.data[at]]];
    }
    return end;
}

/* The first match from `from` on: where it begins, or TOKENS_NONE. */
static size_t lib_search(const lib_tokens *t, int64_t automaton, onnxc_string s, size_t from, size_t *end) {
    for (; from <= s.size; from += from < s.size ? lib_character(s.data[from]) : 1) {
        *end = lib_longest_match(t, automaton, s, from);
        if (*end != TOKENS_NONE) return from;
    }
    return TOKENS_NONE;
}

/* The place behind the character at `at`, or behind the end. */
static size_t lib_next_character(onnxc_string s, size_t at) {
    return at < s.size ? at + lib_character(s.data[at]) : at + 1;
}

static int lib_tokens_between(lib_tokens *t, int64_t automaton, onnxc_string s);

/* What a separator leaves: divided by the separators that follow. */
static int lib_add_piece(lib_tokens *t, int64_t automaton, const char *data, size_t size) {
    onnxc_string piece;
    int64_t characters = 0;
    size_t i;
    if (automaton + 1 == t->automata) return lib_add_token(t, data, size);
    for (i = 0; i < size; i++) characters += ((unsigned char)data[i] & 0xc0) != 0x80;
    if (characters < t->least) return 0;
    piece.data = data;
    piece.size = size;
    return lib_tokens_between(t, automaton + 1, piece);
}

/* An empty match takes the character behind it along, as ONNX Runtime has it. */
static int lib_tokens_between(lib_tokens *t, int64_t automaton, onnxc_string s) {
    size_t from = 0, at, end;
    int error = 0;
    while (!error && (at = lib_search(t, automaton, s, from, &end)) != TOKENS_NONE) {
        error = lib_add_piece(t, automaton, s.data + from, at - from);
        from = end > at ? end : lib_next_character(s, at);
    }
    if (error || from > s.size) return error;
    return lib_add_piece(t, automaton, s.data + from, s.size - from);
}

/* The search goes on behind a token, and one character behind the beginning of a match that is too short. */
static int lib_tokens_matching(lib_tokens *t, onnxc_string s) {
    size_t from = 0, at, end;
    while ((at = lib_search(t, 0, s, from, &end)) != TOKENS_NONE) {
        int64_t before = t->count;
        int error = lib_add_token(t, s.data + at, end - at);
        if (error) return error;
        from = t->count > before ? end : lib_next_character(s, at);
    }
    return 0;
}

static int lib_tokenize(lib_tokens *t, int64_t kind, onnxc_string s) {
    size_t i;
    int error = 0;
    if (kind == TOKENS_BETWEEN_MATCHES) return lib_tokens_between(t, 0, s);
    if (kind == TOKENS_ARE_MATCHES) return lib_tokens_matching(t, s);
    for (i = 0; i < s.size && !error; i += lib_character(s.data[i]))
        error = lib_add_token(t, s.data + i, lib_character(s.data[i]));
    return error;
}
#endif
