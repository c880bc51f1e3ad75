// The fatal-error handler of the process. A longjmp must not unwind LLVM's frames, since they contain members
// of global lists. So guarded work runs on a separate thread while the caller waits; if LLVM would end the
// process, that thread sleeps forever with its stack intact, and the caller continues with the message.
#include "codegen/target/llvm_guard.h"
#include <errno.h>
#include <llvm-c/Core.h>
#include <llvm-c/ErrorHandling.h>
#include <locale.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STACK_BYTES = 32 << 20 };
typedef enum ending { ENDED, LEFT_BY_DIAG, FATAL } ending;

typedef struct guard {
    void (*fn)(void *);
    void *arg;
    diag *diag;
    sem_t over;
    locale_t locale;
    ending how;
    char message[512];
} guard;

// LLVM's handler has no user argument, so the guard is found by the thread.
static _Thread_local guard *current;

static void on_fatal(const char *reason) {
    if (!current) {
        fprintf(stderr, "onnxc: LLVM: %s\n", reason);
        abort();
    }
    snprintf(current->message, sizeof current->message, "%.*s", (int)strcspn(reason, "\n"), reason);
    current->how = FATAL;
    sem_post(&current->over);
    for (;;) pause();
}

static void install(void) { LLVMInstallFatalErrorHandler(on_fatal); }

// A fatal error reported by fn ends fn, not the thread.
static void *work(void *user) {
    guard *g = user;
    jmp_buf jump;
    current = g;
    uselocale(g->locale);
    g->diag->jump = &jump;
    if (setjmp(jump)) g->how = LEFT_BY_DIAG;
    else g->fn(g->arg);
    sem_post(&g->over);
    return NULL;
}

static int start(pthread_t *thread, guard *g) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int failed = pthread_create(thread, &attributes, work, g);
    pthread_attr_destroy(&attributes);
    return failed;
}

void llvm_guard(diag *d, diag_class class, const char *doing, void (*fn)(void *), void *arg) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    guard g = {.fn = fn, .arg = arg, .diag = d, .how = ENDED, .locale = uselocale((locale_t)0)};
    jmp_buf *outer = d->jump;
    pthread_t thread;
    sem_init(&g.over, 0, 0);
    int failed = start(&thread, &g);
    if (failed) diag_fatal(d, NULL, "cannot start a thread for %s: %s", doing, strerror(failed));
    while (sem_wait(&g.over) && errno == EINTR) {
    }
    d->jump = outer;
    if (g.how == FATAL) pthread_detach(thread);
    else pthread_join(thread, NULL);
    if (g.how == ENDED) return;
    if (g.how == LEFT_BY_DIAG && outer) longjmp(*outer, 1);
    if (class == DIAG_USER) diag_fatal(d, NULL, "LLVM failed while %s: %s", doing, g.message);
    diag_defect(d, NULL, "LLVM failed while %s: %s", doing, g.message);
}
