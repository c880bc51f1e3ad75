// Regular expressions to automata: the pattern is parsed directly into a nondeterministic automaton over the
// bytes of UTF-8 (Thompson, Regular Expression Search Algorithm, 1968), which the subset construction makes
// deterministic.
#include "ir/ops/text/regex.h"
#include "compiler/base/chars.h"
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#define WORK_MOST INT64_C(400000000)
enum { NFA_MOST = 20000, DFA_MOST = 20000, REPEAT_MOST = 1000, DEPTH_MOST = 200, LAST_CODE = 0x10ffff };

typedef enum regex_result {
    REGEX_OK,
    REGEX_WRONG,   // not valid in RE2; *message gives the reason
    REGEX_MISSING, // valid, but not supported
} regex_result;

typedef enum nfa_kind { NFA_SPLIT, NFA_BYTES, NFA_BEGIN, NFA_END, NFA_WORD, NFA_NO_WORD, NFA_MATCH } nfa_kind;
typedef struct nfa {
    nfa_kind kind;
    int lo, hi;   // NFA_BYTES
    int out, alt; // -1: none
} nfa;

typedef struct range {
    uint32_t lo, hi;
} range;
typedef VEC(range) ranges;

// A fragment of the automaton: from `in` to the state `out`, whose successor is still open.
typedef struct part {
    int in, out;
} part;

typedef struct flags {
    bool fold, dot_all;
} flags;

typedef struct parser {
    arena *arena;
    const char *p, *end;
    flags flags;
    int depth;
    VEC(nfa) states;
    jmp_buf leave; // receives a regex_result
    const char *message;
} parser;

static _Noreturn void stop(parser *x, regex_result r, const char *message) {
    x->message = message;
    longjmp(x->leave, (int)r);
}

// ---------------------------------------------------------------- the nondeterministic automaton
static int add(parser *x, nfa s) {
    if (x->states.n >= NFA_MOST) stop(x, REGEX_MISSING, "the pattern is too large");
    VEC_PUSH(x->arena, &x->states, s);
    return x->states.n - 1;
}
static int add_split(parser *x, int out, int alt) { return add(x, (nfa){NFA_SPLIT, 0, 0, out, alt}); }

static part empty_part(parser *x) {
    int s = add_split(x, -1, -1);
    return (part){s, s};
}
static part single(parser *x, nfa_kind kind) {
    int end = add_split(x, -1, -1);
    return (part){add(x, (nfa){kind, 0, 0, end, -1}), end};
}
static part join(parser *x, part a, part b) {
    x->states.at[a.out].out = b.in;
    return (part){a.in, b.out};
}
static part either(parser *x, part a, part b) {
    int end = add_split(x, -1, -1);
    x->states.at[a.out].out = x->states.at[b.out].out = end;
    return (part){add_split(x, a.in, b.in), end};
}
static part optional(parser *x, part a) { return either(x, a, empty_part(x)); }
static part star(parser *x, part a) {
    int end = add_split(x, -1, -1), loop = add_split(x, a.in, end);
    x->states.at[a.out].out = loop;
    return (part){loop, end};
}

// Copies a fragment, whose states have consecutive numbers [first, last).
static part copy_part(parser *x, part a, int first, int last) {
    int shift = x->states.n - first;
    for (int i = first; i < last; i++) {
        nfa s = x->states.at[i];
        if (s.out >= first) s.out += shift;
        if (s.alt >= first) s.alt += shift;
        if (i == a.out) s.out = s.alt = -1;
        add(x, s);
    }
    return (part){a.in + shift, a.out + shift};
}

// ---------------------------------------------------------------- code points to bytes
static int encode(uint32_t c, uint8_t *to) {
    if (c < 0x80) return to[0] = (uint8_t)c, 1;
    if (c < 0x800) return to[0] = (uint8_t)(0xc0 | c >> 6), to[1] = (uint8_t)(0x80 | (c & 63)), 2;
    if (c < 0x10000) {
        to[0] = (uint8_t)(0xe0 | c >> 12), to[1] = (uint8_t)(0x80 | (c >> 6 & 63)),
        to[2] = (uint8_t)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (uint8_t)(0xf0 | c >> 18), to[1] = (uint8_t)(0x80 | (c >> 12 & 63));
    to[2] = (uint8_t)(0x80 | (c >> 6 & 63)), to[3] = (uint8_t)(0x80 | (c & 63));
    return 4;
}

// lo and hi have encodings of the same length, and every byte between theirs occurs at each position.
static void add_bytes(parser *x, uint32_t lo, uint32_t hi, int *in, int end) {
    uint8_t a[4], b[4];
    int n = encode(lo, a), next = end;
    encode(hi, b);
    for (int i = n - 1; i >= 0; i--) next = add(x, (nfa){NFA_BYTES, a[i], b[i], next, -1});
    *in = *in < 0 ? next : add_split(x, *in, next);
}

// Splits the range at changes of the encoding's length, and where trailing bytes do not cover their full
// range.
static void add_range(parser *x, uint32_t lo, uint32_t hi, int *in, int end) {
    static const uint32_t ends[] = {0x7f, 0x7ff, 0xffff};
    for (int i = 0; i < 3; i++) {
        if (lo > ends[i] || hi <= ends[i]) continue;
        add_range(x, lo, ends[i], in, end);
        add_range(x, ends[i] + 1, hi, in, end);
        return;
    }
    for (int bits = 6; hi > 0x7f && bits <= 18; bits += 6) {
        uint32_t mask = (1u << bits) - 1;
        if ((lo & ~mask) == (hi & ~mask)) continue;
        if (lo & mask) {
            add_range(x, lo, lo | mask, in, end);
            add_range(x, (lo | mask) + 1, hi, in, end);
            return;
        }
        if ((hi & mask) != mask) {
            add_range(x, lo, (hi & ~mask) - 1, in, end);
            add_range(x, hi & ~mask, hi, in, end);
            return;
        }
    }
    add_bytes(x, lo, hi, in, end);
}

static void put(parser *x, ranges *r, uint32_t lo, uint32_t hi) {
    if (lo <= hi) VEC_PUSH(x->arena, r, ((range){lo, hi}));
}

// Ignores the case of ASCII letters.
static void fold(parser *x, ranges *r) {
    for (int i = r->n - 1; i >= 0; i--) {
        uint32_t lo = r->at[i].lo, hi = r->at[i].hi;
        put(x, r, (lo > 'a' ? lo : 'a') - 32, (hi < 'z' ? hi : 'z') - 32);
        put(x, r, (lo > 'A' ? lo : 'A') + 32, (hi < 'Z' ? hi : 'Z') + 32);
    }
}

// Sorts the ranges and merges overlaps.
static void tidy(ranges *r) {
    for (int i = 1; i < r->n; i++)
        for (int j = i; j > 0 && r->at[j - 1].lo > r->at[j].lo; j--) {
            range t = r->at[j];
            r->at[j] = r->at[j - 1], r->at[j - 1] = t;
        }
    int n = 0;
    for (int i = 0; i < r->n; i++) {
        if (n && r->at[i].lo <= r->at[n - 1].hi + 1) {
            if (r->at[i].hi > r->at[n - 1].hi) r->at[n - 1].hi = r->at[i].hi;
        } else {
            r->at[n++] = r->at[i];
        }
    }
    r->n = n;
}

static ranges complement(parser *x, ranges *r) {
    ranges out = {0};
    uint32_t from = 0;
    tidy(r);
    for (int i = 0; i < r->n; i++) {
        if (r->at[i].lo > from) put(x, &out, from, r->at[i].lo - 1);
        from = r->at[i].hi + 1;
    }
    put(x, &out, from, LAST_CODE);
    return out;
}

static part set_part(parser *x, ranges *r) {
    if (x->flags.fold) fold(x, r);
    tidy(r);
    int end = add_split(x, -1, -1), in = -1;
    for (int i = 0; i < r->n; i++) add_range(x, r->at[i].lo, r->at[i].hi, &in, end);
    if (in < 0) in = add_split(x, -1, -1); // the set is empty: a dead end
    return (part){in, end};
}

// ---------------------------------------------------------------- parsing: characters
static bool more(const parser *x) { return x->p < x->end; }
static bool accept(parser *x, const char *s) {
    size_t n = strlen(s);
    if ((size_t)(x->end - x->p) < n || memcmp(x->p, s, n)) return false;
    x->p += n;
    return true;
}

static uint32_t code_point(parser *x) {
    uint8_t c = (uint8_t)*x->p++;
    int n = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    uint32_t v = n == 0 ? c : c & (0x3fu >> n);
    if (c >= 0x80 && (c < 0xc2 || c > 0xf4)) stop(x, REGEX_WRONG, "the pattern is not UTF-8");
    for (; n > 0; n--) {
        if (!more(x) || (*x->p & 0xc0) != 0x80) stop(x, REGEX_WRONG, "the pattern is not UTF-8");
        v = v << 6 | ((uint8_t)*x->p++ & 63);
    }
    return v;
}

static int digit(char c, int base) {
    int v = c >= '0' && c <= '9'   ? c - '0'
            : c >= 'a' && c <= 'f' ? c - 'a' + 10
            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                   : 99;
    return v < base ? v : -1;
}

static uint32_t hex_escape(parser *x) {
    bool braces = accept(x, "{");
    uint32_t v = 0;
    int n = 0;
    while (more(x) && digit(*x->p, 16) >= 0 && (braces || n < 2) && v <= LAST_CODE)
        v = v * 16 + (uint32_t)digit(*x->p++, 16), n++;
    if (!n || v > LAST_CODE || (braces && !accept(x, "}")) || (!braces && n != 2))
        stop(x, REGEX_WRONG, "invalid escape \\x");
    return v;
}

static uint32_t octal_escape(parser *x, uint32_t v) {
    for (int n = 0; n < 2 && more(x) && digit(*x->p, 8) >= 0; n++) v = v * 8 + (uint32_t)digit(*x->p++, 8);
    return v;
}

// After a backslash: a literal character or a named one.
static uint32_t escaped(parser *x) {
    char c = *x->p;
    static const char names[] = "abfnrtv", codes[] = "\a\b\f\n\r\t\v";
    const char *at = c && c != 'b' ? strchr(names, c) : NULL;
    if (at) return x->p++, (uint32_t)codes[at - names];
    if (c == 'x') return x->p++, hex_escape(x);
    if (c == '0') return x->p++, octal_escape(x, 0);
    if (c >= '1' && c <= '7' && x->end - x->p > 1 && digit(x->p[1], 8) >= 0)
        return x->p++, octal_escape(x, (uint32_t)(c - '0'));
    if (char_is_digit(c) || char_is_letter(c)) stop(x, REGEX_WRONG, "invalid escape sequence");
    return code_point(x);
}

static void put_named(parser *x, ranges *r, const char *pairs) {
    for (; *pairs; pairs += 2) put(x, r, (uint8_t)pairs[0], (uint8_t)pairs[1]);
}

// \d \w \s and their complements.
static bool perl_class(parser *x, ranges *out) {
    static const struct {
        char name;
        const char *pairs;
    } classes[] = {{'d', "09"}, {'w', "09AZ__az"}, {'s', "\t\n\f\r  "}};
    for (int i = 0; i < 3; i++) {
        ranges r = {0};
        bool negated = *x->p == classes[i].name - 32;
        if (!negated && *x->p != classes[i].name) continue;
        x->p++;
        put_named(x, &r, classes[i].pairs);
        if (negated) r = complement(x, &r);
        for (int j = 0; j < r.n; j++) put(x, out, r.at[j].lo, r.at[j].hi);
        return true;
    }
    if (*x->p == 'p' || *x->p == 'P') stop(x, REGEX_MISSING, "classes of Unicode (\\p)");
    return false;
}

// [:alpha:] within a class.
static bool posix_class(parser *x, ranges *out) {
    static const char *const classes[][2] = {{"alnum", "09AZaz"},
                                             {"alpha", "AZaz"},
                                             {"ascii", "\x01\x7f"},
                                             {"blank", "\t\t  "},
                                             {"cntrl", "\x01\x1f\x7f\x7f"},
                                             {"digit", "09"},
                                             {"graph", "!~"},
                                             {"lower", "az"},
                                             {"print", " ~"},
                                             {"punct", "!/:@[`{~"},
                                             {"space", "\t\r  "},
                                             {"upper", "AZ"},
                                             {"word", "09AZ__az"},
                                             {"xdigit", "09AFaf"}};
    const char *start = x->p;
    if (!accept(x, "[:")) return false;
    bool negated = accept(x, "^");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        ranges r = {0};
        if (!accept(x, arena_printf(x->arena, "%s:]", classes[i][0]))) continue;
        put_named(x, &r, classes[i][1]);
        if (i == 2 || i == 4) put(x, &r, 0, 0);
        if (negated) r = complement(x, &r);
        for (int j = 0; j < r.n; j++) put(x, out, r.at[j].lo, r.at[j].hi);
        return true;
    }
    x->p = start;
    return false;
}

static uint32_t class_character(parser *x) {
    if (!accept(x, "\\")) return code_point(x);
    if (!more(x)) stop(x, REGEX_WRONG, "the pattern ends with a backslash");
    return escaped(x);
}

static part class_part(parser *x) {
    ranges r = {0};
    bool negated = accept(x, "^");
    for (bool first = true; first || (more(x) && *x->p != ']'); first = false) {
        if (!more(x)) stop(x, REGEX_WRONG, "missing ]");
        if (posix_class(x, &r)) continue;
        if (*x->p == '\\' && x->end - x->p > 1) {
            x->p++;
            if (perl_class(x, &r)) continue;
            x->p--;
        }
        uint32_t lo = class_character(x), hi = lo;
        if (x->end - x->p > 1 && x->p[0] == '-' && x->p[1] != ']') {
            x->p++;
            hi = class_character(x);
        }
        if (hi < lo) stop(x, REGEX_WRONG, "a character class has a reversed range");
        put(x, &r, lo, hi);
    }
    if (!accept(x, "]")) stop(x, REGEX_WRONG, "missing ]");
    if (!negated) return set_part(x, &r);
    if (x->flags.fold) fold(x, &r);
    r = complement(x, &r);
    flags outside = x->flags;
    x->flags.fold = false; // folding must not add excluded letters again
    part p = set_part(x, &r);
    x->flags = outside;
    return p;
}

static part character_part(parser *x, uint32_t c) {
    ranges r = {0};
    put(x, &r, c, c);
    return set_part(x, &r);
}

// ---------------------------------------------------------------- parsing: structure
static part alternatives(parser *x);

static part quoted(parser *x) {
    part p = empty_part(x);
    while (more(x) && !accept(x, "\\E")) p = join(x, p, character_part(x, code_point(x)));
    return p;
}

static part escape_part(parser *x) {
    ranges r = {0};
    if (!more(x)) stop(x, REGEX_WRONG, "the pattern ends with a backslash");
    if (accept(x, "A")) return single(x, NFA_BEGIN);
    if (accept(x, "z")) return single(x, NFA_END);
    if (accept(x, "Q")) return quoted(x);
    if (accept(x, "b")) return single(x, NFA_WORD);
    if (accept(x, "B")) return single(x, NFA_NO_WORD);
    if (*x->p == 'C') stop(x, REGEX_MISSING, "single bytes (\\C)");
    if (perl_class(x, &r)) return set_part(x, &r);
    return character_part(x, escaped(x));
}

// (?i) and the like: true if the group consists of flags only.
static bool group_flags(parser *x) {
    bool on = true;
    for (; more(x) && *x->p != ':' && *x->p != ')'; x->p++) {
        if (*x->p == 'i') x->flags.fold = on;
        else if (*x->p == 's') x->flags.dot_all = on;
        else if (*x->p == '-' && on) on = false;
        else if (*x->p == 'm' && on) stop(x, REGEX_MISSING, "several lines (?m)");
        else if (*x->p != 'U' && *x->p != 'm') stop(x, REGEX_WRONG, "invalid group (?");
    }
    return accept(x, ")");
}

static void group_name(parser *x) {
    while (more(x) && *x->p != '>') x->p++;
    if (!accept(x, ">")) stop(x, REGEX_WRONG, "unterminated group name");
}

// After the parenthesis. Flags on their own apply up to the end of the enclosing group.
static part group(parser *x) {
    flags outside = x->flags;
    if (accept(x, "?")) {
        if (accept(x, "P<")) group_name(x);
        else if (accept(x, "<=") || accept(x, "<!"))
            stop(x, REGEX_WRONG, "lookbehind assertions are not part of RE2");
        else if (accept(x, "<")) group_name(x);
        else if (group_flags(x)) return empty_part(x);
        else if (!accept(x, ":")) stop(x, REGEX_WRONG, "missing )");
    }
    if (++x->depth > DEPTH_MOST) stop(x, REGEX_WRONG, "groups are nested too deeply");
    part p = alternatives(x);
    x->depth--;
    if (!accept(x, ")")) stop(x, REGEX_WRONG, "missing )");
    x->flags = outside;
    return p;
}

static part atom(parser *x) {
    if (accept(x, "(")) return group(x);
    if (accept(x, "[")) return class_part(x);
    if (accept(x, "\\")) return escape_part(x);
    if (accept(x, "^")) return single(x, NFA_BEGIN);
    if (accept(x, "$")) return single(x, NFA_END);
    if (accept(x, ".")) {
        ranges r = {0};
        if (!x->flags.dot_all) put(x, &r, '\n', '\n');
        r = complement(x, &r);
        flags outside = x->flags;
        x->flags.fold = false;
        part p = set_part(x, &r);
        x->flags = outside;
        return p;
    }
    if (*x->p == '*' || *x->p == '+' || *x->p == '?')
        stop(x, REGEX_WRONG, "a repetition has nothing to repeat");
    return character_part(x, code_point(x));
}

static bool number(parser *x, int *v) {
    if (!more(x) || digit(*x->p, 10) < 0) return false;
    for (*v = 0; more(x) && digit(*x->p, 10) >= 0; x->p++)
        if (*v <= REPEAT_MOST) *v = *v * 10 + digit(*x->p, 10);
    return true;
}

// {n}, {n,}, {n,m}; anything else in braces is literal. most: -1 if unbounded.
static bool counted(parser *x, int *least, int *most) {
    const char *start = x->p;
    bool ok = accept(x, "{") && number(x, least);
    *most = *least;
    if (ok && accept(x, ",") && !number(x, most)) *most = -1;
    if (!ok || !accept(x, "}")) {
        x->p = start;
        return false;
    }
    if (*least > REPEAT_MOST || *most > REPEAT_MOST || (*most >= 0 && *most < *least))
        stop(x, REGEX_WRONG, "invalid number of repetitions");
    return true;
}

static part repeat(parser *x, part once, int first, int least, int most) {
    int last = x->states.n;
    part p = empty_part(x);
    for (int i = 0; i < least; i++) p = join(x, p, copy_part(x, once, first, last));
    if (most < 0) return join(x, p, star(x, copy_part(x, once, first, last)));
    part rest = empty_part(x);
    for (int i = least; i < most; i++) rest = optional(x, join(x, copy_part(x, once, first, last), rest));
    return join(x, p, rest);
}

static part repeated(parser *x) {
    int first = x->states.n, least, most, before = 0;
    part p = atom(x);
    for (;; before++) {
        if (accept(x, "*")) least = 0, most = -1;
        else if (accept(x, "+")) least = 1, most = -1;
        else if (accept(x, "?")) least = 0, most = 1;
        else if (!counted(x, &least, &most)) return p;
        if (before) stop(x, REGEX_WRONG, "one repetition follows another");
        accept(x, "?"); // non-greedy: the same texts match
        p = repeat(x, p, first, least, most);
    }
}

static part sequence(parser *x) {
    part p = empty_part(x);
    while (more(x) && *x->p != '|' && *x->p != ')') p = join(x, p, repeated(x));
    return p;
}

static part alternatives(parser *x) {
    part p = sequence(x);
    while (accept(x, "|")) p = either(x, p, sequence(x));
    return p;
}

// ---------------------------------------------------------------- the deterministic automaton
// Assertions (begin, end, word boundary) are decided when the next byte is known, so states with an assertion
// stay in the set.
typedef struct subset {
    int n, *at;
    bool first, after_word; // at the beginning of the text; after a byte of a word
    struct subset *same_hash;
    int number;
} subset;

// The context of a position in the text; unknown until the next byte is known.
typedef struct place {
    bool known, begin, end, boundary;
} place;

typedef struct builder {
    parser *x;
    int *mark, stamp, *stack; // of the traversal
    subset decided, next;     // reused
    int64_t work;
    VEC(subset *) all;
    map known; // hash -> subsets
    uint8_t class_of[256];
    int classes;
    bool words; // word boundaries matter
} builder;

static bool passes(const nfa *t, const place *at) {
    switch (t->kind) {
    case NFA_SPLIT: return true;
    case NFA_BEGIN: return at->known && at->begin;
    case NFA_END: return at->known && at->end;
    case NFA_WORD: return at->known && at->boundary;
    case NFA_NO_WORD: return at->known && !at->boundary;
    case NFA_BYTES:
    case NFA_MATCH: break;
    }
    return false;
}

// Adds the epsilon closure of `from` to s.
static void reach(builder *b, subset *s, int from, const place *at) {
    int n = 0;
    b->stack[n++] = from;
    while (n) {
        int i = b->stack[--n];
        if (i < 0 || b->mark[i] == b->stamp) continue;
        if (++b->work > WORK_MOST) stop(b->x, REGEX_MISSING, "the pattern needs too large an automaton");
        b->mark[i] = b->stamp;
        const nfa *t = &b->x->states.at[i];
        if (passes(t, at)) b->stack[n++] = t->out, b->stack[n++] = t->alt;
        else if (!at->known || t->kind == NFA_BYTES || t->kind == NFA_MATCH) s->at[s->n++] = i;
    }
}

static subset *clear(builder *b, subset *s) {
    s->n = 0;
    s->first = s->after_word = false;
    b->stamp++;
    return s;
}

static int compare_ints(const int *a, const int *b, int n) { return memcmp(a, b, (size_t)n * sizeof *a); }

static void sort_subset(subset *s) {
    for (int i = 1; i < s->n; i++)
        for (int j = i; j > 0 && s->at[j - 1] > s->at[j]; j--) {
            int t = s->at[j];
            s->at[j] = s->at[j - 1], s->at[j - 1] = t;
        }
}

static subset *keep(builder *b, const subset *s) {
    subset *own = ARENA_NEW(b->x->arena, subset);
    *own = *s;
    own->number = b->all.n;
    own->at = ARENA_ARRAY(b->x->arena, int, s->n + 1);
    memcpy(own->at, s->at, (size_t)s->n * sizeof *own->at);
    VEC_PUSH(b->x->arena, &b->all, own);
    return own;
}

static int number_of(builder *b, subset *s) {
    if (!s->n) return 0;
    sort_subset(s);
    uint64_t hash = 1469598103934665603u;
    for (int i = 0; i < s->n; i++) hash = (hash ^ (uint64_t)s->at[i]) * 1099511628211u;
    subset *first = map_get_number(&b->known, hash);
    for (subset *k = first; k; k = k->same_hash)
        if (k->n == s->n && k->after_word == s->after_word && compare_ints(k->at, s->at, s->n) == 0)
            return k->number;
    if (b->all.n >= DFA_MOST) stop(b->x, REGEX_MISSING, "the pattern has too many states");
    subset *own = keep(b, s);
    own->same_hash = first;
    map_put_number(&b->known, hash, own);
    return own->number;
}

static bool is_word(int byte) { return char_in_name((char)byte); }

// Groups bytes that no state distinguishes into classes.
static void find_classes(builder *b) {
    bool cut[257] = {true}, words = false;
    for (int i = 0; i < b->x->states.n; i++) {
        const nfa *t = &b->x->states.at[i];
        if (t->kind == NFA_BYTES) cut[t->lo] = cut[t->hi + 1] = true;
        words |= t->kind == NFA_WORD || t->kind == NFA_NO_WORD;
    }
    for (int c = 0; c < 256; c++) {
        b->classes += cut[c] || (words && c && is_word(c) != is_word(c - 1));
        b->class_of[c] = (uint8_t)(b->classes - 1);
    }
    b->words = words;
}

// s after its assertions are decided by what follows.
static subset *decide(builder *b, const subset *s, bool end, bool word) {
    subset *all = clear(b, &b->decided);
    place at = {.known = true, .begin = s->first, .end = end, .boundary = s->after_word != word};
    for (int i = 0; i < s->n; i++) reach(b, all, s->at[i], &at);
    return all;
}

static bool accepts(builder *b, const subset *s, bool end, bool word) {
    const subset *all = decide(b, s, end, word);
    for (int i = 0; i < all->n; i++)
        if (b->x->states.at[all->at[i]].kind == NFA_MATCH) return true;
    return false;
}

static int follow(builder *b, const subset *s, int byte) {
    const subset *all = decide(b, s, false, is_word(byte));
    subset *next = clear(b, &b->next);
    next->after_word = b->words && is_word(byte);
    for (int i = 0; i < all->n; i++) {
        const nfa *t = &b->x->states.at[all->at[i]];
        if (t->kind == NFA_BYTES && byte >= t->lo && byte <= t->hi) reach(b, next, t->out, &(place){false});
    }
    return number_of(b, next);
}

// A start state. They are not shared: the text begins only there.
static void keep_start(builder *b, int start, bool first, bool after_word) {
    subset *s = clear(b, &b->next);
    s->first = first, s->after_word = after_word;
    reach(b, s, start, &(place){false});
    keep(b, s);
}

static int32_t acceptance(builder *b, const subset *s, regex_use use) {
    int32_t bits = accepts(b, s, true, false);
    if (use == REGEX_SEARCH) bits |= accepts(b, s, false, false) << 1 | accepts(b, s, false, true) << 2;
    return bits;
}

static void build(parser *x, int start, regex_use use, automaton *out, arena *to) {
    builder b = {.x = x, .known = {.arena = x->arena}};
    VEC(int32_t) table = {0};
    b.mark = ARENA_ARRAY(x->arena, int, x->states.n + 1);
    b.stack = ARENA_ARRAY(x->arena, int, 3 * x->states.n + 8);
    find_classes(&b);
    VEC_PUSH(x->arena, &b.all, NULL); // the dead state
    b.decided.at = ARENA_ARRAY(x->arena, int, x->states.n + 1);
    b.next.at = ARENA_ARRAY(x->arena, int, x->states.n + 1);
    keep_start(&b, start, true, false);
    if (use == REGEX_SEARCH) keep_start(&b, start, false, false), keep_start(&b, start, false, true);
    for (int c = 0; c < 256; c++) VEC_PUSH(to, &table, b.class_of[c]);
    for (int i = 0; i <= b.classes; i++) VEC_PUSH(to, &table, 0);
    for (int s = 1; s < b.all.n; s++) {
        VEC_PUSH(to, &table, acceptance(&b, b.all.at[s], use));
        for (int k = 0, c = 0; k < b.classes; k++) {
            while (b.class_of[c] != k) c++;
            VEC_PUSH(to, &table, follow(&b, b.all.at[s], c));
        }
    }
    *out = (automaton){b.classes, b.all.n, table.at, table.n};
}

static void compile(parser *x, regex_use use, automaton *out, arena *to) {
    part all = alternatives(x);
    if (more(x)) stop(x, REGEX_WRONG, "unmatched )");
    int match = add(x, (nfa){NFA_MATCH, 0, 0, -1, -1});
    x->states.at[all.out].out = match;
    build(x, all.in, use, out, to);
}

static regex_result regex_compile(arena *a, const char *pattern, size_t size, regex_use use, automaton *out,
                                  const char **message) {
    arena *scratch = arena_new();
    parser *x = ARENA_NEW(scratch, parser);
    *x = (parser){.arena = scratch, .p = pattern, .end = pattern + size};
    regex_result r = (regex_result)setjmp(x->leave);
    if (r == REGEX_OK) compile(x, use, out, a);
    else *message = x->message;
    arena_destroy(scratch);
    return r;
}

automaton regex_of(const node *n, const char *pattern, size_t size, regex_use use) {
    automaton m;
    const char *message = NULL;
    switch (regex_compile(infer_arena(n), pattern, size, use, &m, &message)) {
    case REGEX_OK: break;
    case REGEX_WRONG: infer_error(n, "the pattern '%s' is invalid: %s", pattern, message);
    case REGEX_MISSING:
        diag_fatal_missing(n->graph->module->diag, n->loc, "the pattern '%s' is not supported: %s", pattern,
                           message);
    }
    return m;
}
