// The one fatal-error handler of the process: it finds the guard of its thread and leaves to it.
#include "codegen/llvm_guard.h"
#include <llvm-c/Core.h>
#include <llvm-c/ErrorHandling.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct guard {
    jmp_buf jump;
    char message[512];
} guard;

// LLVM's handler has no user argument: the thread is the only key there is.
static _Thread_local guard *current;

static void on_fatal(const char *reason) {
    if (!current) {
        fprintf(stderr, "onnxc: LLVM: %s\n", reason);
        abort();
    }
    snprintf(current->message, sizeof current->message, "%s", reason);
    longjmp(current->jump, 2);
}

static void install(void) { LLVMInstallFatalErrorHandler(on_fatal); }

void llvm_guard(diag *d, diag_class class, const char *doing, void (*fn)(void *), void *arg) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    guard here, *outer_guard = current;
    jmp_buf *outer_jump = d->jump;
    current = &here;
    d->jump = &here.jump;
    int how = setjmp(here.jump);
    if (!how) fn(arg);
    current = outer_guard;
    d->jump = outer_jump;
    if (how == 1 && outer_jump) longjmp(*outer_jump, 1);
    if (!how) return;
    const char *why = how == 2 ? here.message : "error";
    if (class == DIAG_USER) diag_fatal(d, NULL, "LLVM failed while %s: %s", doing, why);
    diag_defect(d, NULL, "LLVM failed while %s: %s", doing, why);
}
