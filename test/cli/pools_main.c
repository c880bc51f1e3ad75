// Runs deep.onnx with pools of all kinds: too small, misaligned, missing, right.
#include "deep.h"
#include <stdio.h>

int main(void) {
    static float x[DEEP_X_COUNT], y[DEEP_Y_COUNT];
    static _Alignas(DEEP_WORKSPACE_ALIGN) unsigned char fast[DEEP_POOL_FAST_BYTES + 64];
    deep_in in = {.x = x, .fast = fast, .fast_bytes = DEEP_POOL_FAST_BYTES - 1};
    deep_out out = {.y = y};
    for (int i = 0; i < DEEP_X_COUNT; i++) x[i] = (float)i / 8;
    int small = deep_run(&in, &out, NULL, 0);
#ifndef EMITTED_C
    printf("%s\n", out.message);
#endif
    in.fast_bytes = DEEP_POOL_FAST_BYTES;
    in.fast = fast + 4;
    int apart = deep_run(&in, &out, NULL, 0);
    in.fast = NULL;
    int none = deep_run(&in, &out, NULL, 0);
    in.fast = fast;
    int good = deep_run(&in, &out, NULL, 0);
    printf("%d %d %d %d %d, %g\n", small, apart, none, good, (int)deep_workspace_bytes(), (double)y[0]);
    return good;
}
