// JSON text to values, by descent. In: text of any kind, perhaps hostile. Out: a tree, or where it is wrong.
#include "compiler/base/json_read.h"
#include <string.h>

enum { DEPTH_MOST = 200 };

typedef struct parser {
    arena *arena;
    const char *s;
    size_t n, at;
    int depth;
} parser;

static int peek(const parser *p) { return p->at < p->n ? (unsigned char)p->s[p->at] : -1; }

static void skip_space(parser *p) {
    while (p->at < p->n && p->s[p->at] && strchr(" \t\r\n", p->s[p->at])) p->at++;
}

static bool take(parser *p, const char *word) {
    size_t n = strlen(word);
    if (p->n - p->at < n || memcmp(p->s + p->at, word, n) != 0) return false;
    p->at += n;
    return true;
}

static int hex_digits(parser *p) {
    int v = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *d = peek(p) > 0 ? strchr(digits, peek(p)) : NULL;
        if (!d) return -1;
        int k = (int)(d - digits);
        v = v * 16 + (k < 16 ? k : k - 6);
    }
    return v;
}

static void add_utf8(text *t, int c) {
    char s[4];
    size_t n = 0;
    if (c < 0x80) s[n++] = (char)c;
    else if (c < 0x800) s[n++] = (char)(0xc0 | c >> 6);
    else if (c < 0x10000) s[n++] = (char)(0xe0 | c >> 12), s[n++] = (char)(0x80 | (c >> 6 & 63));
    else
        s[n++] = (char)(0xf0 | c >> 18), s[n++] = (char)(0x80 | (c >> 12 & 63)),
        s[n++] = (char)(0x80 | (c >> 6 & 63));
    if (c >= 0x80) s[n++] = (char)(0x80 | (c & 63));
    text_addn(t, s, n);
}

static bool parse_escape(parser *p, text *t) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(p);
    const char *known = c > 0 ? strchr(from, c) : NULL;
    p->at++;
    if (known) {
        text_addn(t, to + (known - from), 1);
        return true;
    }
    int code = c == 'u' ? hex_digits(p) : -1;
    if (code >= 0xd800 && code < 0xdc00 && take(p, "\\u")) {
        int low = hex_digits(p);
        if (low < 0xdc00 || low > 0xdfff) return false;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code <= 0 || (code >= 0xd800 && code < 0xe000)) return false;
    add_utf8(t, code);
    return true;
}

static const char *parse_text(parser *p) {
    text t = {.arena = p->arena};
    if (!take(p, "\"")) return NULL;
    for (;;) {
        int c = peek(p);
        if (c < 0x20) return NULL;
        p->at++;
        if (c == '"') return text_str(&t);
        if (c != '\\') text_addn(&t, p->s + p->at - 1, 1);
        else if (!parse_escape(p, &t)) return NULL;
    }
}

static bool parse_value(parser *p, json_value *v);

static bool parse_members(parser *p, json_value *v, char end) {
    skip_space(p);
    if (peek(p) == end) return p->at++, true;
    for (;;) {
        skip_space(p);
        if (end == '}') {
            const char *key = parse_text(p);
            if (!key) return false;
            skip_space(p);
            if (!take(p, ":")) return false;
            VEC_PUSH(p->arena, &v->keys, key);
        }
        json_value *item = ARENA_NEW(p->arena, json_value);
        if (!parse_value(p, item)) return false;
        VEC_PUSH(p->arena, &v->items, item);
        skip_space(p);
        if (peek(p) == end) return p->at++, true;
        if (!take(p, ",")) return false;
    }
}

static bool parse_number(parser *p, json_value *v) {
    size_t from = p->at;
    while (p->at < p->n && p->s[p->at] && strchr("+-.0123456789eE", p->s[p->at])) p->at++;
    v->kind = JSON_NUMBER;
    v->text = arena_strndup(p->arena, p->s + from, p->at - from);
    return p->at > from && v->text[0] != '+' && strpbrk(v->text, "0123456789");
}

static bool parse_value(parser *p, json_value *v) {
    skip_space(p);
    if (take(p, "null")) return true;
    v->kind = JSON_BOOL;
    if ((v->truth = take(p, "true")) || take(p, "false")) return true;
    int c = peek(p);
    if (c == '"') {
        v->kind = JSON_TEXT;
        return (v->text = parse_text(p)) != NULL;
    }
    if (c != '{' && c != '[') return parse_number(p, v);
    if (++p->depth > DEPTH_MOST) return false;
    v->kind = c == '{' ? JSON_OBJECT : JSON_LIST;
    p->at++;
    bool good = parse_members(p, v, c == '{' ? '}' : ']');
    p->depth--;
    return good;
}

json_value *json_parse(arena *a, const char *s, size_t n, size_t *at) {
    parser p = {.arena = a, .s = s, .n = n};
    json_value *v = ARENA_NEW(a, json_value);
    bool good = parse_value(&p, v);
    skip_space(&p);
    if (at) *at = p.at;
    return good && p.at == n ? v : NULL;
}

const json_value *json_member(const json_value *v, const char *key) {
    for (int i = 0; v && v->kind == JSON_OBJECT && i < v->items.n; i++)
        if (strcmp(v->keys.at[i], key) == 0) return v->items.at[i];
    return NULL;
}

const char *json_string_of(const json_value *v, const char *key) {
    const json_value *m = json_member(v, key);
    return m && m->kind == JSON_TEXT ? m->text : "";
}
