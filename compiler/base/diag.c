// Diagnostics: messages are composed, counted and passed to the sink; fatal errors leave by longjmp. The text
// is safe to show on a terminal.
#include "compiler/base/diag.h"
#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 200, TEXT_MOST = 4000, CHAIN_MOST = 16, DEFAULT_LIMIT = 20 };

static const char report_hint[] = "this is a bug in onnxc: please report it, with the model, the command "
                                  "line and the output of 'onnxc --version'";

const char *severity_name(diag_severity s) {
    switch (s) {
    case SEV_REMARK: return "remark";
    case SEV_WARNING: return "warning";
    case SEV_ERROR: return "error";
    }
    return "error";
}

void text_add_node(text *t, const loc *at, bool with_version) {
    text_add(t, "node '");
    text_add_safe(t, at->node ? at->node : "", NAME_MOST);
    text_add(t, "'");
    if (!at->op) return;
    text_add(t, " (");
    text_add_safe(t, at->op, NAME_MOST);
    if (with_version && at->version > 0) text_printf(t, "-%d", at->version);
    text_add(t, ")");
}

// The chain of calls that inlined the node, innermost first.
static void add_chain(text *t, const loc *at) {
    int shown = 0;
    for (; at && at->via; at = at->via) {
        if (++shown > CHAIN_MOST) {
            text_add(t, "\n  ...");
            return;
        }
        text_add(t, "\n  in function '");
        text_add_safe(t, at->graph ? at->graph : "", NAME_MOST);
        text_add(t, "' called by ");
        text_add_node(t, at->via, true);
    }
}

static const char *compose(diag *d, const loc *at, const diag_message *m) {
    text t = {.arena = d->arena};
    const char *file = at && at->file ? at->file : d->file ? d->file : "onnxc";
    text_add_safe(&t, file, NAME_MOST);
    text_add(&t, ": ");
    if (at && (at->node || at->op)) {
        text_add_node(&t, at, true);
        text_add(&t, ": ");
    }
    text_printf(&t, "%s: ", severity_name(m->severity));
    text_add(&t, m->text);
    add_chain(&t, at);
    if (m->table) text_printf(&t, "\n%s", m->table);
    if (m->hint) {
        text_add(&t, "\nhint: ");
        text_add(&t, m->hint);
    }
    return text_str(&t);
}

static const char *safe(diag *d, const char *s) {
    text t = {.arena = d->arena};
    text_add_safe(&t, s, TEXT_MOST);
    return text_str(&t);
}

static int class_rank(diag_class c) {
    switch (c) {
    case DIAG_OK: return 0;
    case DIAG_DIFFERS: return 1;
    case DIAG_MISSING: return 2;
    case DIAG_USER: return 3;
    case DIAG_DEFECT: return 4;
    }
    return 4;
}

static void send(diag *d, diag_severity severity, diag_class class, const loc *at, const char *s) {
    diag_message *m = ARENA_NEW(d->arena, diag_message);
    *m = (diag_message){.severity = severity, .class = class, .text = safe(d, s), .loc = at};
    m->hint = d->pending_hint;
    m->table = d->pending_table;
    d->pending_hint = d->pending_table = NULL;
    if (!m->hint && class == DIAG_DEFECT) m->hint = report_hint;
    m->full = compose(d, at, m);
    if (class_rank(class) > class_rank(d->class)) d->class = class;
    if (d->sink) d->sink(d->user, m);
}

static _Noreturn void leave(diag *d) {
    if (!d->jump) abort();
    longjmp(*d->jump, 1);
}

// Missing operators are listed in full: only errors count against the limit.
static void report_error(diag *d, diag_class class, const loc *at, const char *s) {
    int limit = d->error_limit > 0 ? d->error_limit : DEFAULT_LIMIT;
    if (class == DIAG_USER && d->errors >= limit) {
        d->pending_hint = "--error-limit N shows more";
        send(d, SEV_ERROR, DIAG_USER, NULL,
             arena_printf(d->arena, "too many errors (%d): stopping", d->errors));
        leave(d);
    }
    d->errors++;
    send(d, SEV_ERROR, class, at, s);
}

static _Noreturn void report_fatal(diag *d, diag_class class, const loc *at, const char *s) {
    d->errors++;
    send(d, SEV_ERROR, class, at, s);
    leave(d);
}

void diag_hint(diag *d, const char *format, ...) {
    ARENA_VARIADIC(d->arena, s, format);
    d->pending_hint = safe(d, s);
}

void diag_table(diag *d, const char *lines) { d->pending_table = lines; }

void diag_remark(diag *d, const loc *at, const char *format, ...) {
    if (!d->remarks) {
        d->pending_hint = NULL;
        return;
    }
    ARENA_VARIADIC(d->arena, s, format);
    send(d, SEV_REMARK, DIAG_OK, at, s);
}

// ---------------------------------------------------------------- warnings
static const char *const warning_name[] = {
#define X(id, name) name,
    WARNINGS(X)
#undef X
};

// Inference may come to the same node several times.
static bool has_warned(diag *d, const loc *at, const char *s) {
    uint64_t key = hash_bytes(hash_bytes(HASH_SEED, &at, sizeof at), s, strlen(s));
    d->warned.arena = d->arena;
    if (map_get_number(&d->warned, key)) return true;
    map_put_number(&d->warned, key, d);
    return false;
}

void diag_warning(diag *d, warning w, const loc *at, const char *format, ...) {
    bool fatal = d->fatal >> w & 1;
    if (d->off >> w & 1) {
        d->pending_hint = NULL;
        return;
    }
    ARENA_VARIADIC(d->arena, s, format);
    const char *said = arena_printf(d->arena, "%s [%s-W%s]", s, fatal ? "-Werror," : "", warning_name[w]);
    if (at && has_warned(d, at, said)) {
        d->pending_hint = NULL;
        return;
    }
    if (fatal) report_error(d, DIAG_USER, at, said);
    else send(d, SEV_WARNING, DIAG_OK, at, said);
}

const char *warning_names(arena *a) {
    text t = {.arena = a};
    for (int i = 0; i < WARNING_COUNT; i++) text_printf(&t, "%s%s", i ? ", " : "", warning_name[i]);
    return text_str(&t);
}

static unsigned warning_bit(const char *name) {
    for (unsigned i = 0; i < WARNING_COUNT; i++)
        if (strcmp(name, warning_name[i]) == 0) return 1u << i;
    return 0;
}

bool diag_warning_option(diag *d, const char *option) {
    static const char *const groups[] = {"-Wall", "-Wextra", "-Wpedantic", "-Weverything"};
    const unsigned all = (1u << WARNING_COUNT) - 1;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strcmp(option, groups[i]) == 0) return true;
    if (strcmp(option, "-Wno-error") == 0) return d->fatal = 0, true;
    if (strcmp(option, "-Werror") == 0) return d->fatal = all, true;
    bool off = strncmp(option, "-Wno-", 5) == 0;
    const char *name = option + (off ? 5 : 2);
    bool error = strncmp(name, "error=", 6) == 0;
    unsigned bit = warning_bit(error ? name + 6 : name);
    if (off && error) d->fatal &= ~bit;
    else if (off) d->off |= bit;
    else d->off &= ~bit, d->fatal |= error ? bit : 0;
    return bit != 0;
}

// ---------------------------------------------------------------- errors
void diag_error(diag *d, const loc *at, const char *format, ...) {
    ARENA_VARIADIC(d->arena, s, format);
    report_error(d, DIAG_USER, at, s);
}

void diag_missing(diag *d, const loc *at, const char *format, ...) {
    ARENA_VARIADIC(d->arena, s, format);
    report_error(d, DIAG_MISSING, at, s);
}

_Noreturn void diag_fatal(diag *d, const loc *at, const char *format, ...) {
    ARENA_VARIADIC(d->arena, s, format);
    report_fatal(d, DIAG_USER, at, s);
}

_Noreturn void diag_fatal_missing(diag *d, const loc *at, const char *format, ...) {
    ARENA_VARIADIC(d->arena, s, format);
    report_fatal(d, DIAG_MISSING, at, s);
}

_Noreturn void diag_defect(diag *d, const loc *at, const char *format, ...) {
    ARENA_VARIADIC(d->arena, s, format);
    report_fatal(d, DIAG_DEFECT, at, arena_printf(d->arena, "internal error: %s", s));
}

void diag_check(diag *d) {
    if (d->errors) leave(d);
}

// ---- Attempts

typedef struct attempt {
    diag outer;                // the state to return to
    const diag_message *error; // the last one
} attempt;

// Errors are held back; warnings and remarks are sent.
static void hold_errors(void *user, const diag_message *m) {
    attempt *a = user;
    if (m->severity == SEV_ERROR) a->error = m;
    else if (a->outer.sink) a->outer.sink(a->outer.user, m);
}

bool diag_attempt(diag *d, void (*step)(void *user), void *user, const diag_message **why) {
    attempt *a = ARENA_NEW(d->arena, attempt);
    jmp_buf here;
    a->outer = *d;
    d->sink = hold_errors, d->user = a, d->class = DIAG_OK;
    bool volatile returned = false;
    if (DIAG_TRY(d, here)) {
        step(user);
        returned = d->errors == a->outer.errors;
    }
    diag_class class = d->class;
    a->outer.warned = d->warned;
    *d = a->outer;
    if (returned) return true;
    if (class != DIAG_USER) {
        d->class = class, d->errors++;
        if (d->sink) d->sink(d->user, a->error);
        leave(d);
    }
    *why = a->error;
    return false;
}
