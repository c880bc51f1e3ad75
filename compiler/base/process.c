// Starting programs and waiting for them.
#include "compiler/base/process.h"
#include "compiler/base/cleanup.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

int process_run(arena *a, diag *d, const string_list *args) {
    char **argv = ARENA_ARRAY(a, char *, args->n + 1);
    for (int i = 0; i < args->n; i++) argv[i] = arena_strdup(a, args->at[i]);
    pid_t pid;
    int status;
    fflush(stdout);
    if (leftovers_spawn(d->leftovers, &pid, argv[0], NULL, argv)) return -1;
    if (leftovers_wait(d->leftovers, pid, &status) < 0) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void remove_temporary(void *path) { remove_folder(path); }

const char *temporary_folder(arena *a, diag *d) {
    char *path = arena_strdup(a, "/tmp/onnxc-XXXXXX");
    leftovers_lock(d->leftovers);
    bool made = mkdtemp(path) != NULL;
    int problem = errno;
    if (made) leftovers_add(d->leftovers, path);
    leftovers_unlock(d->leftovers);
    if (!made) diag_fatal(d, NULL, "cannot make a folder under /tmp: %s", strerror(problem));
    arena_on_destroy(a, remove_temporary, path);
    return path;
}
