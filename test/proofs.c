// A program around one model, for test/proofs.py. Alone it starts itself again and again; a started one runs
// the model and prints: ns of processor time from the start to the first answer, and for the fastest of later
// runs; pages that were touched until the first answer; kB of memory at most; bytes of workspace. With "touch
// WORKSPACE x": ns for touching as
// many pages.
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "m.h"
#include "onnxc.h"

extern char **environ;
static const onnxc_model model = M_MODEL;

// Of the processor for this process: what else runs on the machine does not count.
static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1000000000ll * t.tv_sec + t.tv_nsec;
}

static void *room(size_t n) { return aligned_alloc(64, (n + 64) / 64 * 64); }

static size_t tensor_bytes(const onnxc_tensor_info *t, int64_t *dims) {
    const onnxc_dim_info *d = onnxc_dims(model.descriptor, t);
    size_t n = 8;
    for (uint32_t i = 0; i < t->rank; i++) n *= (size_t)(dims[t->first_dim + i] = d[i].value);
    return n;
}

static int child(int runs) {
    const onnxc_descriptor *d = model.descriptor;
    void *data[64];
    int64_t dims[256], capacity[64];
    struct rusage use;
    for (uint32_t i = 0; i < d->ninputs; i++) {
        size_t n = tensor_bytes(&onnxc_inputs(d)[i], dims);
        data[i] = memset(room(n), 0, n);
    }
    for (uint32_t i = 0; i < d->noutputs; i++) {
        data[d->ninputs + i] = room(tensor_bytes(&onnxc_outputs(d)[i], dims));
        capacity[i] = INT64_MAX;
    }
    int64_t size = model.workspace(dims);
    void *workspace = room((size_t)size);
    const char *message = "";
    long long first = 0, best = 1ll << 62;
    for (int i = 0; i < runs; i++) {
        long long begin = now();
        if (model.run(data, dims, capacity, workspace, (size_t)size, &message))
            return fprintf(stderr, "%s\n", message), 1;
        if (i == 0) first = now(), getrusage(RUSAGE_SELF, &use);
        else if (now() - begin < best) best = now() - begin;
    }
    long pages = use.ru_minflt;
    getrusage(RUSAGE_SELF, &use);
    printf("%lld %lld %ld %ld %lld\n", first, best, pages, use.ru_maxrss, (long long)size);
    return 0;
}

// What it takes to read the program's file for the first time, and to touch as many fresh pages as the
// workspace has.
static int touch(const char *program, size_t workspace) {
    struct stat st;
    int fd = open(program, O_RDONLY);
    if (fd < 0 || fstat(fd, &st)) return 1;
    volatile const char *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    volatile char *fresh = room(workspace + 1);
    long long begin = now();
    unsigned sum = 0;
    for (size_t at = 0; at < (size_t)st.st_size; at += 64) sum += (unsigned char)file[at];
    for (size_t at = 0; at < workspace; at += 4096) fresh[at] = (char)sum;
    printf("%lld\n", now() - begin);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 3) return touch(argv[0], (size_t)atoll(argv[2]));
    if (argc > 2) return child(atoi(argv[2]));
    for (int i = 0; i < atoi(argv[1]); i++) {
        char *const args[] = {argv[0], "run", "6", NULL};
        pid_t pid;
        int status;
        fflush(stdout);
        if (posix_spawn(&pid, argv[0], NULL, NULL, args, environ)) return 1;
        if (waitpid(pid, &status, 0) < 0 || status) return 1;
    }
    return 0;
}
