// Diagnostics. Every message names file, node and operator; several errors may be collected before the
// compilation stops. A fatal error leaves by longjmp to the DIAG_TRY of the compilation, so no function of
// the compiler returns an error code for bad models.
#ifndef ONNXC_COMPILER_BASE_DIAG_H
#define ONNXC_COMPILER_BASE_DIAG_H
#include "compiler/base/arena.h"
#include <setjmp.h>
#include <stdbool.h>

// Also exit codes of the command line.
typedef enum diag_class {
    DIAG_OK = 0,
    DIAG_USER = 1,    // the model or the arguments are wrong
    DIAG_MISSING = 2, // the model is valid but needs something this build lacks
    DIAG_DEFECT = 3,  // a defect of onnxc
    DIAG_DIFFERS = 4, // a comparison differs
} diag_class;

// Location in the model: any part may be NULL/0.
typedef struct loc {
    const char *file;
    const char *node;      // node name, or a made-up one such as "#12" (12th node of its graph)
    bool unnamed;          // it is made up
    const char *op;        // operator
    int version;           // version of the operator in the file
    const char *graph;     // name of the (sub)graph or function
    const struct loc *via; // the call that inlined the function of this node
} loc;
void text_add_node(text *t, const loc *at, bool with_version); // node 'name' (operator-version)

// X(enumerator, name for -W...): the warnings, in docs/cli.md with their meaning.
#define WARNINGS(X)                                                                                          \
    X(WARN_CPU_FALLBACK, "cpu-fallback")                                                                     \
    X(WARN_DECLARED_TYPE, "declared-type")                                                                   \
    X(WARN_DUMP_LIMIT, "dump-limit")                                                                         \
    X(WARN_GPU_USAGE, "gpu-usage")                                                                           \
    X(WARN_IGNORED_INPUT, "ignored-input")                                                                   \
    X(WARN_LOOP_CONDITION, "loop-condition")                                                                 \
    X(WARN_RANDOM_SAMPLES, "random-samples")                                                                 \
    X(WARN_RUNTIME_SYMBOLS, "runtime-symbols")                                                               \
    X(WARN_SLOWER, "slower")                                                                                 \
    X(WARN_UNKNOWN_OPTION, "unknown-warning-option")                                                         \
    X(WARN_UNUSED_ARGUMENT, "unused-command-line-argument")
typedef enum warning {
#define X(id, name) id,
    WARNINGS(X)
#undef X
        WARNING_COUNT
} warning;

typedef enum diag_severity { SEV_REMARK, SEV_WARNING, SEV_ERROR } diag_severity;
const char *severity_name(diag_severity s);

typedef struct diag_message {
    diag_severity severity;
    diag_class class;
    const char *text;  // without location and severity
    const char *full;  // as shown on a terminal, with the function chain and the hint
    const char *hint;  // NULL: none
    const char *table; // lines that belong to the text; NULL: none
    const loc *loc;
} diag_message;

typedef struct diag {
    arena *arena;                                    // messages live here
    void (*sink)(void *user, const diag_message *m); // called for each message
    void *user;
    const char *file; // default for a loc without one
    int errors;       // errors so far
    int error_limit;  // stop after this number (0: 20)
    bool remarks;
    unsigned off, fatal; // warnings, as bits: not shown; treated as errors
    diag_class class;    // worst class so far: DEFECT > USER > MISSING
    jmp_buf *jump;
    const char *pending_hint, *pending_table;
    struct leftovers *leftovers; // removed by signals; NULL: not watched
    map warned;                  // hashes of warnings and their places: each is said once
    string_list inputs;          // files of models, which no output replaces (outfile.h)
} diag;

// Sets the hint of the next message.
void diag_hint(diag *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void diag_table(diag *d, const char *lines); // of the next error; the caller makes names in it safe
void diag_remark(diag *d, const loc *at, const char *format, ...) __attribute__((format(printf, 3, 4)));
void diag_warning(diag *d, warning w, const loc *at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Does what "-Wno-NAME", "-Werror=NAME" ... ask for; false: no warning has that name.
bool diag_warning_option(diag *d, const char *option);
const char *warning_names(arena *a);
// Records an error and returns, so that more can be found; call diag_check before results are used.
void diag_error(diag *d, const loc *at, const char *format, ...) __attribute__((format(printf, 3, 4)));
// Like diag_error with class DIAG_MISSING.
void diag_missing(diag *d, const loc *at, const char *format, ...) __attribute__((format(printf, 3, 4)));
// These record and leave through d->jump.
_Noreturn void diag_fatal(diag *d, const loc *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void diag_fatal_missing(diag *d, const loc *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void diag_defect(diag *d, const loc *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Leaves through d->jump if there were errors.
void diag_check(diag *d);

// Runs step(user) and returns true, unless it leaves with an error of class DIAG_USER: that is not reported, but
// returned as *why. Errors of other classes are passed on.
bool diag_attempt(diag *d, void (*step)(void *user), void *user, const diag_message **why);

// if (!DIAG_TRY(d)) { failed, by d->class } -- as after setjmp, locals changed since then must be volatile to
// be read here.
#define DIAG_TRY(d, buf) ((d)->jump = &(buf), setjmp(buf) == 0)
#endif
