// Worker processes: jobs are numbers, answers are a number and a text. A worker that dies or times out fails
// its job and is replaced.
#ifndef ONNXC_COMPILER_CLI_TEST_POOL_H
#define ONNXC_COMPILER_CLI_TEST_POOL_H
#include "compiler/base/arena.h"
#include <stdbool.h>

typedef struct pool_answer {
    int job, result;
    const char *text;
    bool crashed; // text says how
} pool_answer;

typedef struct pool_work {
    int njobs, nworkers;
    int timeout;                                                  // seconds per job
    int (*run)(void *user, arena *a, int job, const char **text); // in the worker; a lives for the job
    void (*done)(void *user, const pool_answer *r);               // in the caller, in any order
    // Whether the worker is replaced after this result; NULL: never.
    bool (*needs_new_worker)(void *user, int result);
    void *user;
} pool_work;
// False: no worker could be started.
bool pool_run(arena *a, const pool_work *w);
#endif
