// Threads, and functions that are called once or after a fork.
#include "runtime-lite/system/system.h"
#include <stdlib.h>

typedef struct start {
    void (*run)(void *);
    void *argument;
} start;

static start *start_new(void (*run)(void *), void *argument) {
    start *s = malloc(sizeof *s);
    if (s) *s = (start){run, argument};
    return s;
}

static void begin(void *of) {
    start s = *(start *)of;
    free(of);
    s.run(s.argument);
}

#ifdef _WIN32
static DWORD WINAPI enter(void *of) {
    begin(of);
    return 0;
}

int system_thread(void (*run)(void *), void *argument) {
    start *s = start_new(run, argument);
    HANDLE thread = s ? CreateThread(NULL, 0, enter, s, 0, NULL) : NULL;
    if (!thread) free(s);
    else CloseHandle(thread);
    return thread != NULL;
}

void system_after_fork(void (*f)(void)) { (void)f; } // Windows has no fork

typedef struct call {
    void (*f)(void);
} call;

static BOOL CALLBACK call_it(INIT_ONCE *once, void *of, void **result) {
    (void)once;
    (void)result;
    ((call *)of)->f();
    return TRUE;
}

void system_call_once(system_once *once, void (*f)(void)) {
    call c = {f};
    InitOnceExecuteOnce(once, call_it, &c, NULL);
}
#else
#include <signal.h>

static void *enter(void *of) {
    begin(of);
    return NULL;
}

int system_thread(void (*run)(void *), void *argument) {
    pthread_t thread;
    pthread_attr_t detached;
    sigset_t all, before;
    start *s = start_new(run, argument);
    if (!s) return 0;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // threads must not handle the program's signals
    int failed = pthread_create(&thread, &detached, enter, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    if (failed) free(s);
    return !failed;
}

void system_after_fork(void (*f)(void)) { pthread_atfork(NULL, NULL, f); }
void system_call_once(system_once *once, void (*f)(void)) { pthread_once(once, f); }
#endif
