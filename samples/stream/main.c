/* Hears telephone keys: reads sound from standard input (WAV or raw, 8 kHz, 16 bits, one channel) in chunks of 20 ms, gives each
 * to a step of the model, and prints keys as soon as they are heard. Then, to standard error, the time and memory of a step.
 * With a file name as argument the levels of all frames go there, as floats. */
#include "tones.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CHUNK  160 /* samples in a step: N of --stream */
#define FRAMES 2   /* levels of a step: one for every 80 samples */
#define TONES  8

static _Alignas(TONES_WORKSPACE_ALIGN) unsigned char workspace[TONES_WORKSPACE_BYTES + 1];
static tones_state state; /* zeros: before the first sample */

/* Skips the header of a WAV file; raw sound is taken as it is. Returns the number of bytes of `first` that are sound. */
static size_t skip_header(unsigned char *first, size_t n) {
    unsigned char head[8];
    if (n < 12 || memcmp(first, "RIFF", 4) != 0) return n;
    while (fread(head, 1, sizeof head, stdin) == sizeof head && memcmp(head, "data", 4) != 0)
        for (unsigned long left = head[4] | head[5] << 8 | (unsigned long)head[6] << 16; left; left--)
            getchar();
    return 0;
}

/* The larger of two tones' levels must stand out; returns the index of the loudest of four, -1: none. */
static int loudest(const float levels[][FRAMES], int frame) {
    int best = 0;
    for (int i = 1; i < 4; i++)
        if (levels[i][frame] > levels[best][frame]) best = i;
    return levels[best][frame] > 0.25f ? best : -1;
}

/* Prints a key in the first frame that has both of its tones. */
static void hear(const float levels[TONES][FRAMES]) {
    static char held;
    for (int f = 0; f < FRAMES; f++) {
        int row = loudest(levels, f), column = loudest(levels + 4, f);
        char key = row < 0 || column < 0 ? 0 : "123A456B789C*0#D"[4 * row + column];
        if (key && key != held) putchar(key), fflush(stdout);
        held = key;
    }
}

/* The next chunk, filled up with silence; 0: the sound has ended. */
static int next_chunk(float *x) {
    static size_t have = 12;
    static unsigned char bytes[2 * CHUNK], started;
    if (!started) have = skip_header(bytes, fread(bytes, 1, have, stdin)), started = 1;
    size_t n = have + fread(bytes + have, 1, sizeof bytes - have, stdin);
    memset(bytes + n, 0, sizeof bytes - n);
    have = 0;
    for (int i = 0; i < CHUNK; i++) {
        int sample = bytes[2 * i] | bytes[2 * i + 1] << 8;
        x[i] = (float)(sample < 32768 ? sample : sample - 65536) / 32768;
    }
    return n > 0;
}

int main(int argc, char **argv) {
    FILE *log = argc > 1 ? fopen(argv[1], "wb") : NULL;
    float x[CHUNK], levels[TONES][FRAMES];
    tones_in in = {.x = x};
    tones_out out = {.levels = levels[0]};
    tones_use_state(&in, &state);
    long steps = 0;
    double seconds = 0;
    while (next_chunk(x)) {
        clock_t begin = clock();
        int code = tones_run(&in, &out, workspace, TONES_WORKSPACE_BYTES);
        seconds += (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (code) return fprintf(stderr, "step %ld: error %d\n", steps, code), 1;
        hear((const float(*)[FRAMES])levels);
        if (log) fwrite(levels, sizeof levels, 1, log);
        steps++;
    }
    putchar('\n');
    fprintf(stderr, "%ld chunks of 20 ms, %.1f us for each; %zu bytes of state, %d of workspace\n", steps,
            steps ? 1e6 * seconds / (double)steps : 0, sizeof state, TONES_WORKSPACE_BYTES);
    return log && fclose(log) ? 1 : 0;
}
