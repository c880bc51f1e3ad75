// Prints what deep_check_weights finds; with a weights file, as a program for a bare machine gives it to the model.
#include "deep.h"
#include <stdio.h>
#include <stdlib.h>

int main(void) {
#ifdef WEIGHTS
    static _Alignas(64) unsigned char all[DEEP_WEIGHTS_BYTES];
    FILE *f = fopen(WEIGHTS, "rb");
    onnxc_context context = {.weights = all};
    if (!f || fread(all, 1, sizeof all, f) != sizeof all) return 1;
    printf("%d", deep_check_weights(&context));
    all[DEEP_WEIGHTS_BYTES - 1] ^= 0x40;
    printf(" %d", deep_check_weights(&context));
    context.weights = NULL;
    printf(" %d %d\n", deep_check_weights(&context), deep_check_weights(NULL));
#else
    printf("%d\n", deep_check_weights());
#endif
    exit(0);
}
