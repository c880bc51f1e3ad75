// Text scanner.
#include "compiler/import/text/scan.h"
#include "compiler/base/chars.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void scan_fail(const scanner *s, const char *format, ...) {
    int line = 1, column = 1;
    for (const char *c = s->begin; c < s->at && c < s->end; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    ARENA_VARIADIC(s->arena, what, format);
    diag_fatal(s->diag, NULL, "line %d, column %d: %s", line, column, what);
}

static void skip_space(scanner *s) {
    for (; s->at < s->end; s->at++) {
        if (*s->at == '#')
            while (s->at < s->end && *s->at != '\n') s->at++;
        if (s->at >= s->end || !char_is_space(*s->at)) return;
    }
}

int scan_peek(scanner *s) {
    skip_space(s);
    return s->at < s->end ? (unsigned char)*s->at : 0;
}

bool scan_match(scanner *s, char c) {
    skip_space(s);
    if (s->at >= s->end || *s->at != c) return false;
    s->at++;
    return true;
}

void scan_expect(scanner *s, char c) {
    if (scan_match(s, c)) return;
    if (scan_ended(s)) scan_fail(s, "expected '%c', but the text ends", c);
    scan_fail(s, "expected '%c', got '%c'", c, *s->at);
}

bool scan_open(scanner *s, char open, char close) {
    scan_expect(s, open);
    return !scan_match(s, close);
}

bool scan_next(scanner *s, char close) {
    if (scan_match(s, ',')) return true;
    scan_expect(s, close);
    return false;
}

static size_t word_length(const scanner *s) {
    const char *c = s->at;
    if (c >= s->end || !char_starts_name(*c)) return 0;
    while (c < s->end && char_in_name(*c)) c++;
    return (size_t)(c - s->at);
}

const char *scan_peek_word(scanner *s) {
    skip_space(s);
    size_t n = word_length(s);
    return n ? arena_printf(s->arena, "%.*s", (int)n, s->at) : NULL;
}

const char *scan_word(scanner *s) {
    const char *word = scan_peek_word(s);
    if (word) s->at += strlen(word);
    return word;
}

void scan_nest(scanner *s) {
    if (++s->depth > SCAN_DEPTH_MOST) scan_fail(s, "nested deeper than %d levels", SCAN_DEPTH_MOST);
}

// ---------------------------------------------------------------- numbers
const char *scan_number(scanner *s) {
    skip_space(s);
    const char *c = s->at;
    if (c < s->end && (*c == '-' || *c == '+')) c++;
    const char *digits = c;
    while (c < s->end && (char_is_digit(*c) || char_is_letter(*c) || *c == '.' ||
                          ((*c == '-' || *c == '+') && c > digits && (c[-1] == 'e' || c[-1] == 'E'))))
        c++;
    if (c == digits || !(char_is_digit(*digits) || char_is_letter(*digits) || *digits == '.')) return NULL;
    const char *text = arena_printf(s->arena, "%.*s", (int)(c - s->at), s->at);
    s->at = c;
    return text;
}

bool scan_int(const char *text, int64_t *v) {
    const char *digits = text + (*text == '-' || *text == '+');
    char *end;
    if (!char_is_digit(*digits)) return false;
    errno = 0;
    uint64_t u = strtoull(digits, &end, 0);
    if (*end || errno || (*text == '-' && u > (uint64_t)1 << 63)) return false;
    *v = (int64_t)(*text == '-' ? 0 - u : u);
    return true;
}

static bool real(const char *text, double *v, bool narrow) {
    const char *digits = text + (*text == '-' || *text == '+');
    bool word = strcasecmp(digits, "inf") == 0 || strcasecmp(digits, "infinity") == 0 ||
                strcasecmp(digits, "nan") == 0;
    if (!word && (!(char_is_digit(*digits) || *digits == '.') || strpbrk(digits, "xXpP"))) return false;
    char *end;
    *v = narrow ? (double)strtof(text, &end) : strtod(text, &end);
    return end != text && !*end && (word || !isinf(*v));
}

bool scan_real(const char *text, double *v) { return real(text, v, false); }
bool scan_float(const char *text, double *v) { return real(text, v, true); }
