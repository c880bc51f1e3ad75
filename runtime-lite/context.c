// Contexts. In: options and what the object says of its file of weights. Out: the file mapped and known to be
// the right one.
#include "runtime-lite/runtime.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int map_weights(onnxc_context *c, const char *path) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ONNXC_BAD_WEIGHTS;
    void *at = fstat(fd, &st) == 0 && st.st_size > 0
                   ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0)
                   : MAP_FAILED;
    close(fd);
    if (at == MAP_FAILED) return ONNXC_BAD_WEIGHTS;
    c->weights = at, c->weights_size = (size_t)st.st_size, c->mapped = 1;
    return ONNXC_OK;
}

int onnxc_rt_open(const onnxc_options *options, const onnxc_weights_head *head, onnxc_context **context) {
    onnxc_options o = {.size = sizeof o};
    if (!context) return ONNXC_NULL_POINTER;
    *context = NULL;
    if (options) memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    onnxc_context *c = calloc(1, sizeof *c);
    if (!c) return ONNXC_NO_MEMORY;
    c->weights = o.data, c->weights_size = o.data_size;
    int failed = o.data ? ONNXC_OK : map_weights(c, o.weights ? o.weights : (const char *)(head + 1));
    if (!failed && (uintptr_t)c->weights % 64) failed = ONNXC_BAD_WEIGHTS;
    if (!failed && (c->weights_size < head->bytes || memcmp(c->weights, head, sizeof *head)))
        failed = ONNXC_BAD_WEIGHTS;
    if (failed) onnxc_rt_close(c);
    else *context = c;
    return failed;
}

void onnxc_rt_close(onnxc_context *c) {
    if (c && c->mapped) munmap((void *)(uintptr_t)c->weights, c->weights_size);
    free(c);
}
