/* Trains the digits network with the compiled training step, which updates parameters and moments in place, and
 * prints the accuracy on the images that it did not see. usage: training digits.bin */
#include "training.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 32, EPOCHS = 60, TRAINED = 1437, ALL = 1797, STEPS = EPOCHS * (TRAINED / BATCH) };

static unsigned char digits[ALL][65]; /* pixels 0 to 16 row by row, and the label */
static _Alignas(64) unsigned char workspace[TRAINING_WORKSPACE_BYTES + 1];
static float image[BATCH][64], rate, loss, logits[BATCH][10];
static int64_t label[BATCH], step;

/* Marsaglia's xorshift: the same numbers on every machine. */
static uint32_t dice(void) {
    static uint32_t state = 20;
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
}

static double uniform(void) { return (dice() + 0.5) / 4294967296.0; }

static double normal(void) { return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()); }

/* A parameter or moment: normal numbers of this deviation. */
static float *new_state(int count, double deviation) {
    float *v = malloc((size_t)count * sizeof *v);
    if (!v) exit(1);
    for (int i = 0; i < count; i++) v[i] = deviation > 0 ? (float)(deviation * normal()) : 0;
    return v;
}

/* Digit d in place i of the batch, shifted by up to one pixel. */
static void load(int i, int d, int down, int right) {
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++) {
            int from_y = y - down, from_x = x - right;
            int inside = from_y >= 0 && from_y < 8 && from_x >= 0 && from_x < 8;
            image[i][8 * y + x] = inside ? digits[d][8 * from_y + from_x] : 0;
        }
    label[i] = digits[d][64];
}

static void run(const training_in *in) {
    training_out out = {.loss = &loss, .logits = logits[0]};
    if (training_run(in, &out, workspace, TRAINING_WORKSPACE_BYTES) == 0) return;
    printf("training_run: %s\n", out.message);
    exit(1);
}

static void train(const training_in *in) {
    int order[TRAINED];
    for (int i = 0; i < TRAINED; i++) order[i] = i;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (int i = TRAINED - 1; i > 0; i--) {
            int k = (int)(dice() % (unsigned)(i + 1)), kept = order[i];
            order[i] = order[k], order[k] = kept;
        }
        for (int at = 0; at + BATCH <= TRAINED; at += BATCH) {
            int down = (int)(dice() % 3) - 1, right = (int)(dice() % 3) - 1;
            for (int i = 0; i < BATCH; i++) load(i, order[at + i], down, right);
            step++;
            rate = (float)(2e-3 * 0.5 * (1 + cos(3.141592653589793 * (double)step / STEPS)));
            run(in);
        }
        if (epoch % 10 == 9) printf("epoch %d: loss %.4f\n", epoch + 1, (double)loss);
    }
}

/* A rate of 0 leaves the parameters as they are. */
static int count_right(const training_in *in) {
    int right = 0;
    rate = 0;
    for (int at = TRAINED; at < ALL; at += BATCH) {
        int count = ALL - at < BATCH ? ALL - at : BATCH;
        for (int i = 0; i < count; i++) load(i, at + i, 0, 0);
        run(in);
        for (int i = 0; i < count; i++) {
            int best = 0;
            for (int c = 1; c < 10; c++)
                if (logits[i][c] > logits[i][best]) best = c;
            right += best == label[i];
        }
    }
    return right;
}

int main(int argc, char **argv) {
    FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!f || fread(digits, sizeof digits, 1, f) != 1) {
        printf("usage: training digits.bin\n");
        return 1;
    }
    fclose(f);
#define STATES(name, count, deviation)                                                                       \
    .name = new_state(count, deviation), .name##_mean = new_state(count, 0),                                 \
    .name##_square = new_state(count, 0)
    training_in in = {.image = image[0],
                      .label = label,
                      .rate = &rate,
                      .step = &step,
                      STATES(conv1_weight, 12 * 9, sqrt(2.0 / 9)),
                      STATES(conv1_bias, 12, 0),
                      STATES(conv2_weight, 24 * 12 * 9, sqrt(2.0 / 108)),
                      STATES(conv2_bias, 24, 0),
                      STATES(fc_weight, 96 * 10, sqrt(1.0 / 96)),
                      STATES(fc_bias, 10, 0)};
    train(&in);
    int right = count_right(&in), tested = ALL - TRAINED;
    printf("%d of %d test images right (%.1f %%)\n", right, tested, 100.0 * right / tested);
    return right * 100 >= tested * 98 ? 0 : 1;
}
