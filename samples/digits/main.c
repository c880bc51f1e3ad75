/* Reads handwritten digits with the compiled network. The same file for every target; see README.md for how
 * it is built. Prints each answer with the bits of its ten logits, then how many were right and how long one
 * answer took. */
#include "digits.h"
#include "digits_data.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ROUNDS 100

static _Alignas(64) unsigned char workspace[DIGITS_WORKSPACE_BYTES + 1];

static int classify(const unsigned char *pixels, float *logits) {
    float image[64];
    for (int i = 0; i < 64; i++) image[i] = pixels[i];
    digits_in in = {.image = image};
    digits_out out = {.logits = logits};
    int code = digits_run(&in, &out, workspace, DIGITS_WORKSPACE_BYTES);
    if (code != 0) return -code;
    int best = 0;
    for (int i = 1; i < 10; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static void print_bits(const float *logits) {
    for (int i = 0; i < 10; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        printf(" %08lx", (unsigned long)bits);
    }
    printf("\n");
}

int main(void) {
    int right = 0;
    float logits[10];
    for (int i = 0; i < DIGITS_SHOWN; i++) {
        int answer = classify(digits_image[i], logits);
        if (answer < 0) {
            printf("digits_run: error %d\n", -answer);
            return 1;
        }
        right += answer == digits_label[i];
        printf("digit %d: read as %d, logits", digits_label[i], answer);
        print_bits(logits);
    }
    clock_t start = clock();
    for (int i = 0; i < ROUNDS * DIGITS_SHOWN; i++) classify(digits_image[i % DIGITS_SHOWN], logits);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("%d of %d right\n", right, DIGITS_SHOWN);
    printf("%lu bytes of workspace, %lu ns an image\n", (unsigned long)DIGITS_WORKSPACE_BYTES,
           (unsigned long)(seconds * 1e9 / (ROUNDS * DIGITS_SHOWN)));
    return right == DIGITS_SHOWN ? 0 : 1;
}
