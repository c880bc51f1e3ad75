// Starting programs and waiting for them.
#include "compiler/lib/process.h"
#include <dirent.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int process_run(arena *a, const string_list *args) {
    char **argv = ARENA_ARRAY(a, char *, args->n + 1);
    for (int i = 0; i < args->n; i++) argv[i] = arena_strdup(a, args->at[i]);
    pid_t pid;
    int status;
    fflush(stdout);
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ)) return -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void remove_folder(void *path) {
    DIR *dir = opendir(path);
    if (!dir) return;
    int fd = dirfd(dir);
    for (struct dirent *e; (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) unlinkat(fd, e->d_name, 0);
    closedir(dir);
    rmdir(path);
}

const char *temporary_folder(arena *a, diag *d) {
    char *path = arena_strdup(a, "/tmp/onnxc-XXXXXX");
    if (!mkdtemp(path)) diag_fatal(d, NULL, "cannot make a folder under /tmp: %s", strerror(errno));
    arena_on_destroy(a, remove_folder, path);
    return path;
}
