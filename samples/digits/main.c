/* Reads handwritten digits with the compiled network. The same file for every target; the Makefile shows how it is built.
 * Prints the images as characters with the digit each is read as and its probability, then how many were right and how long
 * one image took. With -DLOGIT_BITS also the bits of all results, for comparing targets. */
#include "digits.h"
#include "digits_data.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ROUNDS 100
#define ACROSS 5 /* images side by side */

static _Alignas(64) unsigned char workspace[DIGITS_WORKSPACE_BYTES + 1];

/* The index of the largest of the ten logits, or an error code as a negative number. */
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

/* The softmax of one logit, in thousandths: small C libraries print no floating-point numbers. */
static int per_mille(const float *logits, int chosen) {
    float sum = 0;
    for (int i = 0; i < 10; i++) sum += expf(logits[i] - logits[chosen]);
    return (int)(1000 / sum + 0.5f);
}

/* Eight rows of pixels from 0 to 16, two characters each. */
static void print_images(int first, int count) {
    static const char shades[] = " .:-=+*#%@";
    for (int y = 0; y < 8; y++) {
        for (int i = first; i < first + count; i++)
            for (int x = 0; x < 8; x++) {
                char shade = shades[digits_image[i][8 * y + x] * 9 / 16];
                printf("%c%c", shade, shade);
            }
        printf("\n");
    }
}

#ifdef LOGIT_BITS
static void print_bits(int label, const float *logits) {
    printf("bits of %d:", label);
    for (int i = 0; i < 10; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        printf(" %08lx", (unsigned long)bits);
    }
    printf("\n");
}
#endif

/* Prints a row of images and what they are read as; how many are right, or an error code as a negative number. */
static int read_images(int first, int count) {
    float logits[ACROSS][10];
    int right = 0;
    print_images(first, count);
    for (int i = 0; i < count; i++) {
        int answer = classify(digits_image[first + i], logits[i]), p;
        if (answer < 0) return answer;
        p = per_mille(logits[i], answer);
        printf("    %d, %3d.%d %%  ", answer, p / 10, p % 10);
        right += answer == digits_label[first + i];
    }
    printf("\n\n");
#ifdef LOGIT_BITS
    for (int i = 0; i < count; i++) print_bits(digits_label[first + i], logits[i]);
#endif
    return right;
}

int main(void) {
    int right = 0;
    float logits[10];
    for (int i = 0; i < DIGITS_SHOWN; i += ACROSS) {
        int count = read_images(i, DIGITS_SHOWN - i < ACROSS ? DIGITS_SHOWN - i : ACROSS);
        if (count < 0) {
            printf("digits_run: error %d\n", -count);
            return 1;
        }
        right += count;
    }
    clock_t start = clock();
    for (int i = 0; i < ROUNDS * DIGITS_SHOWN; i++) classify(digits_image[i % DIGITS_SHOWN], logits);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("%d of %d right\n", right, DIGITS_SHOWN);
    printf("%lu bytes of workspace, %lu ns per image\n", (unsigned long)DIGITS_WORKSPACE_BYTES,
           (unsigned long)(seconds * 1e9 / (ROUNDS * DIGITS_SHOWN)));
    return right == DIGITS_SHOWN ? 0 : 1;
}
