// Parallel work of a compilation. Under GNU make every thread but the first holds a token of the jobserver,
// so that all compilations of a build together keep to its -j.
#ifndef ONNXC_COMPILER_BASE_JOBS_H
#define ONNXC_COMPILER_BASE_JOBS_H

// Calls work(user, 0) .. work(user, n - 1), each once, in up to that many threads at a time, and returns when
// all are done. Fewer threads than asked for only take longer.
void jobs_run(int n, int threads, void (*work)(void *user, int index), void *user);
#endif
