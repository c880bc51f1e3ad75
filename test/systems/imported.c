// Calls a model in a DLL through its import library and its header.
#include "digits.h"
#include <stdio.h>

static _Alignas(64) unsigned char workspace[DIGITS_WORKSPACE_BYTES + 1];

int main(void) {
    float image[64] = {[12] = 16, [20] = 16, [28] = 16, [36] = 16, [44] = 16, [52] = 16}, logits[10];
    int code = digits_run(&(digits_in){.image = image}, &(digits_out){.logits = logits}, workspace,
                          sizeof workspace);
    int best = 0;
    for (int i = 1; i < 10; i++) best = logits[i] > logits[best] ? i : best;
    const char *magic = (const char *)digits_descriptor;
    printf("code %d: a %d, %s\n", code, best, magic);
    return code || best != 1;
}
