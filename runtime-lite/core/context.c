// Contexts. In: options and the object's copy of the weights file's head. Out: the mapped and verified file.
#include "runtime-lite/core/runtime.h"
#include "runtime-lite/system/system.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refuse(const onnxc_options *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int refuse(const onnxc_options *o, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (o->message && o->message_size) vsnprintf(o->message, o->message_size, format, args);
    va_end(args);
    return ONNXC_BAD_WEIGHTS;
}

static int map_weights(onnxc_context *c, const onnxc_options *o, const char *path) {
    unsigned long long size;
    const char *why;
    c->weights = system_map(path, &size, &why);
    if (!c->weights && !why) return refuse(o, "the weights '%s' are empty or not a regular file", path);
    if (!c->weights) return refuse(o, "cannot read the weights '%s': %s", path, why);
    c->weights_size = (size_t)size;
    c->mapped = 1;
    return ONNXC_OK;
}

static int check_weights(const onnxc_context *c, const onnxc_options *o, const onnxc_weights_head *head,
                         const char *name) {
    if ((uintptr_t)c->weights % 64) return refuse(o, "the weights are not aligned to 64 bytes");
    int same = memcmp(c->weights, head, c->weights_size < sizeof *head ? c->weights_size : sizeof *head) == 0;
    if (!same)
        return refuse(
            o, "the weights '%s' belong to another model, other options or another version of onnxc", name);
    if (c->weights_size < head->bytes)
        return refuse(o, "the weights '%s' are truncated: %llu bytes of %llu", name,
                      (unsigned long long)c->weights_size, (unsigned long long)head->bytes);
    return ONNXC_OK;
}

int onnxc_rt_open(const onnxc_options *options, const onnxc_weights_head *head, onnxc_context **context) {
    onnxc_options o = {.size = sizeof o};
    if (!context) return ONNXC_NULL_POINTER;
    *context = NULL;
    if (options) memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    const char *name = o.weights ? o.weights : (const char *)(head + 1);
    onnxc_context *c = calloc(1, sizeof *c);
    if (!c) return ONNXC_NO_MEMORY;
    c->weights = o.data;
    c->weights_size = o.data_size;
    int failed = o.data ? ONNXC_OK : map_weights(c, &o, name);
    if (!failed) failed = check_weights(c, &o, head, o.data ? "in memory" : name);
    if (failed) onnxc_rt_close(c);
    else *context = c;
    return failed;
}

void onnxc_rt_close(onnxc_context *c) {
    if (c && c->mapped) system_unmap(c->weights, c->weights_size);
    free(c);
}
