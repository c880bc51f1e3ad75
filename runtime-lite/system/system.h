/* What the runtime asks of the operating system: locks, threads, libraries, files in memory, time. POSIX or Win32. */
#ifndef ONNXC_RT_SYSTEM_H
#define ONNXC_RT_SYSTEM_H
#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

typedef SRWLOCK system_lock;
typedef CONDITION_VARIABLE system_condition;
typedef INIT_ONCE system_once;
#define SYSTEM_LOCK      SRWLOCK_INIT
#define SYSTEM_CONDITION CONDITION_VARIABLE_INIT
#define SYSTEM_ONCE      INIT_ONCE_STATIC_INIT

static inline void system_lock_init(system_lock *l) { InitializeSRWLock(l); }
static inline void system_lock_destroy(system_lock *l) { (void)l; }
static inline void system_lock_take(system_lock *l) { AcquireSRWLockExclusive(l); }
static inline int system_lock_try(system_lock *l) { return TryAcquireSRWLockExclusive(l); }
static inline void system_lock_release(system_lock *l) { ReleaseSRWLockExclusive(l); }
static inline void system_wait(system_condition *c, system_lock *l) {
    SleepConditionVariableSRW(c, l, INFINITE, 0);
}
static inline void system_wake(system_condition *c) { WakeConditionVariable(c); }
static inline void system_wake_all(system_condition *c) { WakeAllConditionVariable(c); }
#elif !defined __wasm__ /* which has no threads */
#include <pthread.h>

typedef pthread_mutex_t system_lock;
typedef pthread_cond_t system_condition;
typedef pthread_once_t system_once;
#define SYSTEM_LOCK      PTHREAD_MUTEX_INITIALIZER
#define SYSTEM_CONDITION PTHREAD_COND_INITIALIZER
#define SYSTEM_ONCE      PTHREAD_ONCE_INIT

static inline void system_lock_init(system_lock *l) { pthread_mutex_init(l, 0); }
static inline void system_lock_destroy(system_lock *l) { pthread_mutex_destroy(l); }
static inline void system_lock_take(system_lock *l) { pthread_mutex_lock(l); }
static inline int system_lock_try(system_lock *l) { return pthread_mutex_trylock(l) == 0; }
static inline void system_lock_release(system_lock *l) { pthread_mutex_unlock(l); }
static inline void system_wait(system_condition *c, system_lock *l) { pthread_cond_wait(c, l); }
static inline void system_wake(system_condition *c) { pthread_cond_signal(c); }
static inline void system_wake_all(system_condition *c) { pthread_cond_broadcast(c); }
#endif

#ifndef __wasm__
/* system_thread.c. Calls run(argument) in a separate thread, which handles no signals; 0: there is none. */
int system_thread(void (*run)(void *), void *argument);
/* Calls f in every child process that is forked from now on. */
void system_after_fork(void (*f)(void));
void system_call_once(system_once *once, void (*f)(void));
#endif

/* system_library.c. NULL: system_library_error says why, until the next call in this thread. */
void *system_library(const char *path);
void *system_symbol(void *library, const char *name);
const char *system_library_error(void);
void system_library_close(void *library);
/* Calls found(user, name) for each name that the library exports. */
void system_library_names(void *library, void (*found)(void *user, const char *name), void *user);

/* system_file.c. Maps a file for reading, at a multiple of 64 bytes; WebAssembly reads it. NULL: *why is the reason, or NULL if it is empty or not a regular file. */
const void *system_map(const char *path, unsigned long long *bytes, const char **why);
void system_unmap(const void *at, unsigned long long bytes);
int system_make_folder(const char *path); /* 0: made */

/* system_clock.c. Since some moment; it never goes back. */
double system_seconds(void);
#endif
