// A thread that waits for signals, removes everything that is listed, and ends the process by the signal.
#include "compiler/base/cleanup.h"
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// WAKE ends the thread: pthread_cancel would need libgcc_s. The kernel ignores this signal by default.
enum { MOST = 256 /* further ones are not removed */, WAKE = SIGURG };

struct leftovers {
    pthread_mutex_t lock;
    pthread_t watcher;
    sigset_t watched, before;
    atomic_bool stopped;
    const char *paths[MOST];
    int n;
    pid_t child; // 0: none
};

void leftovers_lock(leftovers *l) {
    if (l) pthread_mutex_lock(&l->lock);
}

void leftovers_unlock(leftovers *l) {
    if (l) pthread_mutex_unlock(&l->lock);
}

void leftovers_add(leftovers *l, const char *path) {
    if (l && l->n < MOST) l->paths[l->n++] = path;
}

void leftovers_drop(leftovers *l, const char *path) {
    for (int i = 0; l && i < l->n; i++)
        if (l->paths[i] == path) l->paths[i--] = l->paths[--l->n];
}

void remove_folder(const char *path) {
    DIR *dir = opendir(path);
    if (!dir) return;
    int fd = dirfd(dir);
    for (struct dirent *e; (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) unlinkat(fd, e->d_name, 0);
    closedir(dir);
    rmdir(path);
}

// The lock is kept, so that no further file is made.
static void end_process(leftovers *l, int sig) {
    pthread_mutex_lock(&l->lock);
    if (l->child) kill(l->child, sig);
    for (int i = 0; i < l->n; i++)
        if (unlink(l->paths[i]) && (errno == EISDIR || errno == EPERM)) remove_folder(l->paths[i]);
    signal(sig, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, sig);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    raise(sig);
}

static void *watch(void *user) {
    leftovers *l = user;
    for (int sig; !atomic_load(&l->stopped);)
        if (sigwait(&l->watched, &sig) == 0 && sig != WAKE) end_process(l, sig);
    return NULL;
}

static void stop(void *user) {
    leftovers *l = user;
    atomic_store(&l->stopped, true);
    pthread_kill(l->watcher, WAKE);
    pthread_join(l->watcher, NULL);
    pthread_sigmask(SIG_SETMASK, &l->before, NULL);
}

leftovers *leftovers_watch(arena *a) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};
    leftovers *l = ARENA_NEW(a, leftovers);
    pthread_mutex_init(&l->lock, NULL);
    sigemptyset(&l->watched);
    sigaddset(&l->watched, WAKE);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction now; // a signal ignored by nohup stays ignored
        if (!sigaction(ends[i], NULL, &now) && now.sa_handler != SIG_IGN) sigaddset(&l->watched, ends[i]);
    }
    signal(SIGXFSZ, SIG_IGN); // writes beyond the limit fail, as on a full disk
    pthread_sigmask(SIG_BLOCK, &l->watched, &l->before);
    if (pthread_create(&l->watcher, NULL, watch, l)) {
        pthread_sigmask(SIG_SETMASK, &l->before, NULL);
        return NULL;
    }
    arena_on_destroy(a, stop, l);
    return l;
}

int leftovers_spawn(leftovers *l, pid_t *pid, const char *program, const posix_spawn_file_actions_t *actions,
                    char **argv) {
    extern char **environ;
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    if (l) posix_spawnattr_setsigmask(&attributes, &l->before);
    if (l) posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    leftovers_lock(l);
    int failed = posix_spawnp(pid, program, actions, &attributes, argv, environ);
    if (l && !failed) l->child = *pid;
    leftovers_unlock(l);
    posix_spawnattr_destroy(&attributes);
    return failed;
}

int leftovers_wait(leftovers *l, pid_t pid, int *status) {
    int answer;
    while ((answer = waitpid(pid, status, 0)) < 0 && errno == EINTR) {
    }
    leftovers_lock(l);
    if (l) l->child = 0;
    leftovers_unlock(l);
    return answer;
}
