// Whether Windows finds the callers of a hook through the frames of a model, as exceptions, debuggers and profilers do.
#include "walked.h"
#include <stdio.h>
#include <windows.h>

static const void *expected; // in the function that called the model
static int found, calls;

int before(void *user, uint32_t kernel);
int before(void *user, uint32_t kernel) {
    void *frames[62];
    (void)user;
    (void)kernel;
    int n = CaptureStackBackTrace(0, 62, frames, NULL);
    calls++;
    for (int i = 0; i < n; i++) {
        const char *at = frames[i], *from = expected;
        if (at > from && at < from + 4096) found++;
    }
    return 0;
}

// An address in the caller, which is not inlined.
static __attribute__((noinline)) int call(const walked_in *in, walked_out *out, void *workspace,
                                          size_t size) {
    expected = (const void *)call;
    return walked_run(in, out, workspace, size);
}

int main(void) {
    static float image[64] = {1}, logits[10];
    static _Alignas(64) unsigned char workspace[WALKED_WORKSPACE_BYTES + 1];
    walked_in in = {.image = image};
    walked_out out = {.logits = logits};
    int failed = call(&in, &out, workspace, sizeof workspace);
    printf("code %d, %s\n", failed, calls && found >= calls ? "found" : "lost");
    return failed || !calls || found < calls;
}
