// Temporary files and folders and child processes, which are removed or killed when a signal ends the
// process. Every function accepts NULL for "not watched".
#ifndef ONNXC_COMPILER_BASE_CLEANUP_H
#define ONNXC_COMPILER_BASE_CLEANUP_H
#include "compiler/base/arena.h"
#include <spawn.h>
#include <sys/types.h>

typedef struct leftovers leftovers;

// From now on SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGXCPU remove what is listed before they end the process; until the arena
// is destroyed. NULL if no thread can be started. Threads started before, and children of fork(), do not get
// these signals.
leftovers *leftovers_watch(arena *a);

// Between these two no signal ends the process, so that a file is listed as soon as it exists.
void leftovers_lock(leftovers *l);
void leftovers_unlock(leftovers *l);
// Between them: lists path (a file, or a folder with files) for removal; unlists it, since it was removed or
// is complete.
void leftovers_add(leftovers *l, const char *path);
void leftovers_drop(leftovers *l, const char *path);

void remove_folder(const char *path); // with the files in it

// posix_spawnp of a program that signals end together with this process, and waitpid for it (same result).
int leftovers_spawn(leftovers *l, pid_t *pid, const char *program, const posix_spawn_file_actions_t *actions,
                    char **argv);
int leftovers_wait(leftovers *l, pid_t pid, int *status);
#endif
