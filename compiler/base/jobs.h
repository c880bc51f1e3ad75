// Work in several threads of a compilation. Under GNU make every thread but the first holds one of make's
// tokens, so that all compilations of a build together use no more threads than make was told.
#ifndef ONNXC_COMPILER_BASE_JOBS_H
#define ONNXC_COMPILER_BASE_JOBS_H

// Calls work(user, 0) .. work(user, n - 1), each once, in up to that many threads at a time, and returns when
// all are done. Fewer threads than asked for only take longer.
void jobs_run(int n, int threads, void (*work)(void *user, int index), void *user);

// The jobserver that this value of MAKEFLAGS names. Both -1: none; both -2: one that this process
// cannot use.
typedef struct jobserver {
    int in, out; // descriptors of its own; in does not block
} jobserver;
jobserver jobserver_open(const char *makeflags);
void jobserver_close(jobserver s);
#endif
