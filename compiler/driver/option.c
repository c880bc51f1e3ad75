// Parses options by tables, and prints the tables as help.
#include "compiler/driver/option.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Limits of option files: nesting, total number, and size of one.
enum { FILES_DEEP = 10, FILES_MOST = 1000, FILE_MOST = 1 << 24 };
enum { HELP_COLUMN = 30, HELP_WIDTH = 100, HELP_WIDTH_LEAST = 60 };

// ---------------------------------------------------------------- words
string_list split_words(arena *a, const char *s, char separator) {
    string_list words = {0};
    for (const char *end; s; s = end ? end + 1 : NULL) {
        end = strchr(s, separator);
        VEC_PUSH(a, &words, end ? arena_strndup(a, s, (size_t)(end - s)) : arena_strdup(a, s));
    }
    return words;
}

bool parse_int64(const char *s, int64_t lo, int64_t *v) {
    char *end;
    errno = 0;
    long long x = strtoll(s, &end, 10);
    if (end == s || *end || errno || x < lo || isspace((unsigned char)*s)) return false;
    *v = x;
    return true;
}

bool parse_real(const char *s, double *v) {
    char *end;
    *v = strtod(s, &end);
    return end != s && !*end && *v >= 0 && isfinite(*v);
}

int64_t parse_bytes(const char *s) {
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (end == s || errno || v < 0 || isspace((unsigned char)*s)) return -1;
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit) end += strncmp(end + 1, "iB", 2) == 0 ? 3 : 1;
    for (int i = 0; unit && i <= unit - units; i++) {
        if (v > INT64_MAX / 1024) return -1;
        v *= 1024;
    }
    return *end ? -1 : v;
}

// ---------------------------------------------------------------- @FILE
static char *read_file(arena *a, diag *d, const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) diag_fatal(d, NULL, "cannot read '%s': %s", path, strerror(errno));
    text t = {.arena = a};
    char block[4096];
    for (size_t n; t.n <= FILE_MOST && (n = fread(block, 1, sizeof block, f)) > 0;) text_addn(&t, block, n);
    int failed = ferror(f) ? errno : 0;
    fclose(f);
    if (failed) diag_fatal(d, NULL, "cannot read '%s': %s", path, strerror(failed));
    if (t.n > FILE_MOST) diag_fatal(d, NULL, "option file '%s' has more than %d bytes", path, FILE_MOST);
    if (strlen(text_str(&t)) != t.n)
        diag_fatal(d, NULL, "option file '%s' is not text: byte %zu is NUL", path, strlen(t.s));
    return (char *)text_str(&t);
}

// Splits words like a shell. where: their origin, for messages.
static void add_file_words(arena *a, diag *d, string_list *to, const char *where, const char *s) {
    while (*s) {
        while (isspace((unsigned char)*s)) s++;
        if (!*s) return;
        text word = {.arena = a};
        char quote = 0;
        for (; *s && (quote || !isspace((unsigned char)*s)); s++) {
            if (*s == '\\' && !s[1] && quote != '\'')
                diag_fatal(d, NULL, "%s: it ends in a backslash", where);
            if (*s == '\\' && quote != '\'') text_addn(&word, ++s, 1);
            else if (quote && *s == quote) quote = 0;
            else if (!quote && (*s == '"' || *s == '\'')) quote = *s;
            else text_addn(&word, s, 1);
        }
        if (quote) diag_fatal(d, NULL, "%s: a quote %c is not closed", where, quote);
        VEC_PUSH(a, to, text_str(&word));
    }
}

static void expand(arena *a, diag *d, string_list *to, int *files, int n, const char *const *args,
                   int depth) {
    for (int i = 0; i < n; i++) {
        if (args[i][0] != '@' || !args[i][1]) {
            VEC_PUSH(a, to, args[i]);
            continue;
        }
        if (depth == FILES_DEEP)
            diag_fatal(d, NULL, "'%s': option files include each other in a cycle", args[i]);
        if (++*files > FILES_MOST)
            diag_fatal(d, NULL, "'%s': there are more than %d option files", args[i], FILES_MOST);
        string_list words = {0};
        const char *where = arena_printf(a, "option file '%s'", args[i] + 1);
        add_file_words(a, d, &words, where, read_file(a, d, args[i] + 1));
        expand(a, d, to, files, words.n, words.at, depth + 1);
    }
}

string_list option_words(arena *a, diag *d, const char *s) {
    string_list words = {0};
    add_file_words(a, d, &words, arena_printf(a, "'%s'", s), s);
    return words;
}

string_list option_expand(arena *a, diag *d, int n, const char *const *args) {
    string_list all = {0};
    int files = 0;
    expand(a, d, &all, &files, n, args, 0);
    return all;
}

// ---------------------------------------------------------------- parsing
typedef struct parser {
    arena *arena;
    diag *diag;
    const option_set *sets;
    int nsets;
} parser;

typedef struct found {
    const option *option;
    void *to;            // the field
    const char *value;   // given with the name, NULL: not
    const char *spelled; // the name as given
} found;

static bool is_letter(const char *name) { return name && name[0] == '-' && name[1] != '-' && !name[2]; }
static bool value_optional(const option *o) { return o->value && o->value[0] == '['; }

// arg is `name`, `name=value`, or for letters `name` and the value in one.
static bool matches(found *f, const option *o, const char *name, const char *arg, bool joined) {
    size_t n = name ? strlen(name) : 0;
    if (!n || strncmp(arg, name, n) != 0) return false;
    bool whole = o->kind == OPT_WHOLE;
    f->value = NULL;
    f->spelled = name;
    if (joined) {
        if (!(whole || (is_letter(name) && o->value)) || !arg[n]) return false;
        f->value = whole ? arg : arg + n;
        return true;
    }
    if (whole || (arg[n] && arg[n] != '=')) return false;
    if (arg[n]) f->value = arg + n + 1;
    return true;
}

static bool find(const parser *p, const char *arg, found *f) {
    for (int joined = 0; joined < 2; joined++) {
        for (int s = 0; s < p->nsets; s++) {
            if (p->sets[s].command) continue;
            for (const option *o = p->sets[s].table; o->name; o++) {
                if (!matches(f, o, o->name, arg, joined) && !matches(f, o, o->alias, arg, joined)) continue;
                f->option = o;
                f->to = (char *)p->sets[s].to + o->at;
                return true;
            }
        }
    }
    return false;
}

const char *option_elsewhere(const char *name) {
    static const char *const habits[][2] = {
        {"-emit-llvm", "--emit=llvm-ir or --emit=bitcode"},
        {"-flto", "--emit=bitcode, with clang's linker"},
        {"-ffast-math", "--fp fast"},
        {"-g1", "-g"},
        {"-g2", "-g"},
        {"-g3", "-g"},
        {"-ggdb", "-g"},
        {"-i", "--input NAME=FILE"},
        {"-M", "-MF FILE"},
        {"-MD", "-MF FILE"},
        {"-MM", "-MF FILE"},
        {"-MMD", "-MF FILE"},
        {"-V", "--version"},
        {"-MP", "-MF FILE"},
        {"-E", "--stop-after=import -o NAME.onnxtxt"},
        {"-nostdlib", "--freestanding"},
        {"-static", "--emit=c, with a C compiler that links statically"},
        {"-w", "-Wno-NAME, for each warning"},
        {"--batch", "--dim NAME=N"},
        {"--batch-size", "--dim NAME=N"},
        {"--bf16", "--precision bf16"},
        {"--fp16", "--precision f16"},
        {"--half", "--precision f16"},
        {"--input-shape", "--shape NAME=NxCx8"},
        {"--input-shapes", "--shape NAME=NxCx8"},
        {"--int8", "'onnxc quantize MODEL -o FILE'"},
        {"--iterations", "--runs N of bench"},
        {"--model", "MODEL, without an option"},
        {"--provider", "--device"},
        {"--providers", "--device"},
        {"--time", "--seconds X of bench"},
        {"--dot", "inspect -o NAME.dot"},
        {"--html", "inspect -o NAME.html"},
        {"--json", "inspect -o NAME.json"},
    };
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (strcmp(habits[i][0], name) == 0) return habits[i][1];
    return NULL;
}

// Flags of C compilers about the form of debug information, which do not apply to models.
static bool is_debug_format(const char *arg) {
    static const char *const begin[] = {"-gdwarf", "-gz", "-gno-", "-gsplit-dwarf", "-grecord-gcc-switches"};
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (strncmp(arg, begin[i], strlen(begin[i])) == 0) return true;
    return strcmp(arg, "-g0") == 0;
}

// Those about languages, headers, macros and libraries. -I and the like begin the word or are followed by another one.
static bool is_of_compilers(const parser *p, const string_list *args, int *i) {
    static const char alone[] = " -ansi -pedantic -pedantic-errors -pie -no-pie -pipe -pthread -rdynamic ";
    static const char with_value[] = " -D -I -L -U -l -idirafter -imacros -include -iquote -isystem "
                                     "-Xassembler -Xlinker -Xpreprocessor ";
    const char *arg = args->at[*i];
    const char *word = arena_printf(p->arena, " %s ", arg);
    bool joined = strchr("DILUl", arg[1]) && arg[2];
    if (joined && find(p, arena_printf(p->arena, "-%s", arg), &(found){0})) return false; // -list-ops
    if (strstr(alone, word) || strncmp(arg, "-std=", 5) == 0 || strncmp(arg, "-specs=", 7) == 0) return true;
    if (is_debug_format(arg)) return true;
    if (!joined && !strstr(with_value, word)) return false;
    *i += !joined && *i + 1 < args->n;
    return true;
}

// The other commands that have the option, "run, bench"; "": none.
static const char *commands_with(const parser *p, const char *name) {
    text t = {.arena = p->arena};
    for (int s = 0; s < p->nsets; s++)
        for (const option *o = p->sets[s].table; p->sets[s].command && o->name; o++)
            if (strcmp(o->name, name) == 0) text_printf(&t, "%s%s", t.n ? ", " : "", p->sets[s].command);
    return text_str(&t);
}

static const char *nearest_option(const parser *p, const char *name) {
    string_list names = {0};
    for (int s = 0; s < p->nsets; s++)
        for (const option *o = p->sets[s].table; !p->sets[s].command && o->name; o++)
            if (strncmp(o->name, "--", 2) == 0) VEC_PUSH(p->arena, &names, o->name + 2);
    return nearest_word(p->arena, name + strspn(name, "-"), names.at, names.n);
}

static void unknown(const parser *p, const char *arg) {
    const char *name = arena_strndup(p->arena, arg, strcspn(arg, "="));
    const char *other = option_elsewhere(name), *commands = commands_with(p, name);
    const char *near = other || *commands ? NULL : nearest_option(p, name);
    if (other) diag_hint(p->diag, "here this is %s", other);
    if (*commands) diag_hint(p->diag, "commands with this option: onnxc %s", commands);
    if (near) diag_hint(p->diag, "did you mean '--%s'?", near);
    diag_error(p->diag, NULL, "unknown option '%s'", name);
}

// The choice that is meant by a word; NULL: unknown.
static const char *suggestion(const parser *p, const found *f, const string_list *words) {
    const char *others = f->option->synonyms;
    string_list pairs = others ? split_words(p->arena, others, '|') : (string_list){0};
    size_t n = strlen(f->value);
    for (int i = 0; i < pairs.n; i++)
        if (strncmp(pairs.at[i], f->value, n) == 0 && pairs.at[i][n] == '=') return pairs.at[i] + n + 1;
    return nearest_word(p->arena, f->value, words->at, words->n);
}

static void store_choice(const parser *p, const found *f) {
    string_list words = split_words(p->arena, f->option->value, '|');
    for (int i = 0; i < words.n; i++) {
        if (strcmp(words.at[i], f->value) != 0) continue;
        *(const char **)f->to = f->value;
        return;
    }
    const char *near = suggestion(p, f, &words);
    if (near) diag_hint(p->diag, "did you mean '%s'?", near);
    diag_error(p->diag, NULL, "option '%s': '%s' is not one of %s", f->spelled, f->value, f->option->value);
}

static void store(const parser *p, const found *f) {
    const char *v = f->value;
    switch (f->option->kind) {
    case OPT_FLAG: *(bool *)f->to = true; return;
    case OPT_WORD: *(const char **)f->to = f->option->word; return;
    case OPT_TEXT: *(const char **)f->to = v ? v : ""; return;
    case OPT_CHOICE: store_choice(p, f); return;
    case OPT_NUMBER:
        if (!parse_int64(v, 0, f->to))
            diag_error(p->diag, NULL, "option '%s': expected a non-negative integer, got '%s'", f->spelled,
                       v);
        return;
    case OPT_REAL:
        if (!parse_real(v, f->to))
            diag_error(p->diag, NULL, "option '%s': expected a finite number of at least 0, got '%s'",
                       f->spelled, v);
        return;
    case OPT_LIST:
    case OPT_WHOLE: VEC_PUSH(p->arena, (string_list *)f->to, v); return;
    }
}

void option_parse(arena *a, diag *d, const option_set *sets, int nsets, const string_list *args,
                  string_list *positional, string_list *unused) {
    parser p = {a, d, sets, nsets};
    bool ended = false;
    for (int i = 0; i < args->n; i++) {
        const char *arg = args->at[i];
        found f = {0};
        if (ended || arg[0] != '-' || !arg[1]) {
            VEC_PUSH(a, positional, arg);
        } else if (strcmp(arg, "--") == 0) {
            ended = true;
        } else if (!find(&p, arg, &f)) {
            if (is_of_compilers(&p, args, &i)) VEC_PUSH(a, unused, arg);
            else unknown(&p, arg);
        } else if (f.value && !f.option->value) {
            diag_error(d, NULL, "option '%s' does not take a value", f.spelled);
        } else {
            bool wants = f.option->value && !f.value && !value_optional(f.option);
            if (wants && i + 1 < args->n) f.value = args->at[++i];
            else if (wants) diag_error(d, NULL, "option '%s' needs a value: %s", f.spelled, f.option->value);
            if (!wants || f.value) store(&p, &f);
        }
    }
}

// ---------------------------------------------------------------- help
// Returns the start of the line in which the names end: choices are broken where a terminal would break them anywhere.
static size_t add_names(text *t, const option *o, size_t width) {
    enum { INDENT = 6 };
    size_t start = t->n;
    text_add(t, "  ");
    if (o->alias) text_printf(t, "%s, ", o->alias);
    text_add(t, o->name);
    if (!o->value) return start;
    bool close = value_optional(o) || o->kind == OPT_WHOLE || is_letter(o->name);
    if (!close) text_add(t, " ");
    for (const char *s = o->value; *s;) {
        size_t n = strcspn(s, "|");
        n += s[n] != 0;
        if (t->n - start + n > width && t->n - start > INDENT) {
            text_add(t, "\n");
            start = t->n;
            text_printf(t, "%*s", INDENT, "");
        }
        text_addn(t, s, n);
        s += n;
    }
    return start;
}

// Adds the words of s, from a column of the line on. Further lines begin at the indent.
static void add_words(text *t, const char *s, size_t column, size_t indent, size_t width) {
    while (*s) {
        size_t n = strcspn(s, " ");
        if (column + n > width && column > indent)
            t->s[--t->n] = 0, text_printf(t, "\n%*s", (int)indent, ""), column = indent;
        text_addn(t, s, n);
        column += n;
        s += n;
        while (*s == ' ') s++;
        if (*s) text_add(t, " "), column++;
    }
    while (t->n && t->s[t->n - 1] == ' ') t->s[--t->n] = 0;
    text_add(t, "\n");
}

static void add_help(text *t, size_t start, const char *s, size_t width) {
    size_t column = t->n - start;
    if (column + 2 > HELP_COLUMN) text_add(t, "\n"), column = 0;
    for (; column < HELP_COLUMN; column++) text_add(t, " ");
    add_words(t, s, column, HELP_COLUMN, width);
}

static size_t help_width(int columns) {
    return !columns || columns > HELP_WIDTH ? HELP_WIDTH
           : columns < HELP_WIDTH_LEAST     ? HELP_WIDTH_LEAST
                                            : (size_t)columns;
}

void help_paragraph(arena *a, text *out, const char *s, int columns) {
    for (const char *end; *s; s = *end ? end + 1 : end) {
        end = s + strcspn(s, "\n");
        add_words(out, arena_strndup(a, s, (size_t)(end - s)), 0, 0,
                  columns ? help_width(columns) : SIZE_MAX);
    }
}

void option_help(text *out, const option *table, int columns) {
    const char *group = NULL;
    size_t width = help_width(columns);
    for (const option *o = table; o->name; o++) {
        if (!group || strcmp(group, o->group) != 0) text_printf(out, "\n%s:\n", group = o->group);
        size_t start = add_names(out, o, columns ? width : SIZE_MAX);
        add_help(out, start, o->help, width);
    }
}
