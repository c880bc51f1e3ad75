// Files and folders that are there only while onnxc works, and programs that work for it: what must go when a
// signal ends the process. In: names and process ids. Every function takes NULL for "nobody watches".
#ifndef ONNXC_COMPILER_BASE_CLEANUP_H
#define ONNXC_COMPILER_BASE_CLEANUP_H
#include "compiler/base/arena.h"
#include <spawn.h>
#include <sys/types.h>

typedef struct leftovers leftovers;

// From now on SIGINT, SIGTERM and SIGHUP remove what is listed before they end the process; ended with the
// arena. NULL where no thread can be had. Threads made before, and children of fork(), would not get these
// signals any more.
leftovers *leftovers_watch(arena *a);

// Between these two no signal ends the process: the caller makes a file and lists it.
void leftovers_lock(leftovers *l);
void leftovers_unlock(leftovers *l);
// Inside of them: path (a file, or a folder with files) must go; it has gone, or has become what it should
// be.
void leftovers_add(leftovers *l, const char *path);
void leftovers_drop(leftovers *l, const char *path);

void remove_folder(const char *path); // with the files in it

// posix_spawnp of a program that signals end together with this one, and waitpid for it, which answers what
// waitpid does.
int leftovers_spawn(leftovers *l, pid_t *pid, const char *program, const posix_spawn_file_actions_t *actions,
                    char **argv);
int leftovers_wait(leftovers *l, pid_t pid, int *status);
#endif
