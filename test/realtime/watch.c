// Runs compiled models while calls of the allocator and of locks are counted and system calls are fatal.
// usage: program INPUTS... with one file for each row of `models` (rows.h): all int64, then the tensors:
// numbers of data, dims, outputs; dims; capacities; for each tensor its bytes, and its contents.
// Prints for each model: its code, the code for a workspace that is too small, calls, 1 if it made a system call.
#define _GNU_SOURCE
#include "onnxc.h"
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rows.h"

static volatile int armed, calls;
static void note(void) { calls += armed; }

// ---------------------------------------------------------------- the allocator and locks
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

void *malloc(size_t n) { return note(), __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return note(), __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return note(), __libc_realloc(p, n); }
void *aligned_alloc(size_t align, size_t n) { return note(), __libc_memalign(align, n); }
int posix_memalign(void **to, size_t align, size_t n) { return note(), *to = __libc_memalign(align, n), 0; }
void free(void *p) { note(), __libc_free(p); }

// Functions of the C library that take or wait for locks, and the addresses of its own.
#define LOCKS(X)                                                                                             \
    X(pthread_mutex_lock, pthread_mutex_t *)                                                                 \
    X(pthread_mutex_trylock, pthread_mutex_t *)                                                              \
    X(pthread_mutex_unlock, pthread_mutex_t *)                                                               \
    X(pthread_rwlock_rdlock, pthread_rwlock_t *)                                                             \
    X(pthread_rwlock_wrlock, pthread_rwlock_t *)                                                             \
    X(pthread_cond_signal, pthread_cond_t *)                                                                 \
    X(pthread_cond_broadcast, pthread_cond_t *)                                                              \
    X(pthread_spin_lock, pthread_spinlock_t *)                                                               \
    X(sem_wait, sem_t *)                                                                                     \
    X(sem_post, sem_t *)
#define X(name, type)                                                                                        \
    static int (*real_##name)(type);                                                                         \
    int name(type p) { return note(), real_##name ? real_##name(p) : 0; }
LOCKS(X)
#undef X

static void find_real(void) {
    void *f;
#define X(name, type)                                                                                        \
    f = dlsym(RTLD_NEXT, #name);                                                                             \
    memcpy(&real_##name, &f, sizeof f);
    LOCKS(X)
#undef X
}

// ---------------------------------------------------------------- system calls
static int forbid_system_calls(void) {
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// ---------------------------------------------------------------- a run
static int64_t read_int(FILE *f) {
    int64_t v;
    if (fread(&v, sizeof v, 1, f) != 1) exit(1);
    return v;
}

static int64_t *read_ints(FILE *f, int64_t n) {
    int64_t *all = malloc((size_t)(n + 1) * sizeof *all);
    for (int64_t i = 0; i < n; i++) all[i] = read_int(f);
    return all;
}

static int64_t *copy_of(const int64_t *from, int64_t n) {
    int64_t *to = malloc((size_t)(n + 1) * sizeof *to);
    return memcpy(to, from, (size_t)n * sizeof *to);
}

typedef struct results {
    int code, small_code, calls;
} results;

static void run(const onnxc_model *m, const char *path, results *r) {
    FILE *f = fopen(path, "rb");
    if (!f) exit(1);
    int64_t ndata = read_int(f), ndims = read_int(f), nout = read_int(f);
    int64_t *dims = read_ints(f, ndims), *capacity = read_ints(f, nout);
    int64_t *scratch = copy_of(dims, ndims), *others = copy_of(dims, ndims);
    int64_t *none = calloc((size_t)(nout + 1), sizeof *none);
    void **data = malloc((size_t)(ndata + 1) * sizeof *data);
    for (int64_t i = 0; i < ndata; i++) {
        int64_t n = read_int(f);
        data[i] = aligned_alloc(64, (size_t)(n + 127) / 64 * 64);
        if (fread(data[i], 1, (size_t)n, f) != (size_t)n) exit(1);
    }
    fclose(f);
    int64_t size = m->workspace(dims);
    void *workspace = aligned_alloc(64, (size_t)(size + 127) / 64 * 64);
    const char *message;
    if (forbid_system_calls()) _exit(77);
    armed = 1;
    m->run(data, others, none, workspace, (size_t)size, &message); // outputs without room
    if (size) r->small_code = m->run(data, scratch, capacity, workspace, (size_t)size - 1, &message);
    r->code = m->run(data, dims, capacity, workspace, (size_t)size, &message);
    armed = 0;
    r->calls = calls;
    _exit(0);
}

int main(int argc, char **argv) {
    results *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    find_real();
    for (int i = 1; i < argc; i++) {
        int status;
        *r = (results){-1, -1, -1};
        fflush(stdout);
        pid_t child = fork();
        if (!child) run(&models[i - 1], argv[i], r);
        if (child < 0 || waitpid(child, &status, 0) != child) return 1;
        int killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
        if (!killed && status != 0) return WIFEXITED(status) && WEXITSTATUS(status) == 77 ? 77 : 1;
        printf("%d %d %d %d\n", r->code, r->small_code, r->calls, killed);
    }
}
