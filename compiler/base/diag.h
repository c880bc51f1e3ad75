// Diagnostics. Every message names file, node and operator; several errors may be collected
// before the compilation stops. A fatal error leaves the compilation by longjmp to the place
// that called diag_try: no function of the compiler returns an error code for bad models.
#ifndef ONNXC_COMPILER_BASE_DIAG_H
#define ONNXC_COMPILER_BASE_DIAG_H
#include "compiler/base/arena.h"
#include <setjmp.h>
#include <stdbool.h>

// Also the exit codes of the command line.
typedef enum diag_class {
    DIAG_OK = 0,
    DIAG_USER = 1,    // the model or the arguments are wrong
    DIAG_MISSING = 2, // the model is right but needs something this build lacks
    DIAG_DEFECT = 3,  // a defect of onnxc
    DIAG_DIFFERS = 4, // a comparison differs
} diag_class;

// Where in the model: any part may be NULL/0.
typedef struct loc {
    const char *file;
    const char *node;      // node name, or a made-up one such as "#12" (12th node of its graph)
    const char *op;        // operator
    int version;           // version of the operator as the file has it
    const char *graph;     // name of the (sub)graph or function
    const struct loc *via; // the node that called the function this node came from
} loc;
void text_add_node(text *t, const loc *at, bool with_version); // node 'name' (operator-version)

typedef enum diag_severity { SEV_REMARK, SEV_WARNING, SEV_ERROR } diag_severity;

typedef struct diag_message {
    diag_severity severity;
    diag_class class;
    const char *text; // without location and severity
    const char *full; // as a terminal shows it, with the function chain and the hint
    const char *hint; // NULL: none
    const loc *loc;
} diag_message;

typedef struct diag {
    arena *arena;                                    // messages live here
    void (*sink)(void *user, const diag_message *m); // called for each message
    void *user;
    const char *file; // used when a loc has none
    int errors;       // errors so far
    int error_limit;  // stop after that many (0: 20)
    bool werror, remarks;
    diag_class class; // worst class so far: DEFECT > USER > MISSING
    jmp_buf *jump;
    const char *pending_hint;
    struct leftovers *leftovers; // what a signal must remove; NULL: nobody watches
} diag;

// The hint printed with the next message.
void diag_hint(diag *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void diag_remark(diag *d, const loc *at, const char *format, ...) __attribute__((format(printf, 3, 4)));
void diag_warning(diag *d, const loc *at, const char *format, ...) __attribute__((format(printf, 3, 4)));
// Records and returns, so that more can be found; call diag_check before results are used.
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

// Runs step(user). True: it returned. False: it left with an error of class DIAG_USER, which is forgotten but for
// *why; errors of other classes are passed on.
bool diag_attempt(diag *d, void (*step)(void *user), void *user, const diag_message **why);

// if (!DIAG_TRY(d)) { it failed: d->class says how } -- nothing declared before and changed
// after may be read afterwards unless volatile.
#define DIAG_TRY(d, buf) ((d)->jump = &(buf), setjmp(buf) == 0)
#endif
