/* Streams text that continues a prompt.
 * usage: speak [-n TOKENS] [-t TEMPERATURE] [-k TOP_K] [-p TOP_P] [-s SEED] [-o text|numbers] PROMPT */
#include "merges.h"
#include "sampler.h"
#include "speaker.h"
#include "tokenizer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONTEXT = SPEAKER_K0_DIM2, VOCABULARY = SPEAKER_LOGITS_DIM2, MERGES = sizeof merges / sizeof *merges };

static float caches[8][SPEAKER_K0_COUNT], logits[VOCABULARY];
static sampler_choice choices[VOCABULARY];
static tokenizer words;
static int64_t tokens[CONTEXT];
static _Alignas(SPEAKER_WORKSPACE_ALIGN) unsigned char workspace[SPEAKER_WORKSPACE_BYTES_MAX];

static int fail(const char *what, const char *why) {
    fprintf(stderr, "speak: %s%s\n", what, why);
    return 1;
}

/* Computes tokens[from] to tokens[to - 1], whose predecessors are in the caches, and the logits of the next one. */
static int run(int from, int to) {
    int64_t position = from;
#define LAYER(i) .k##i = caches[2 * i], .v##i = caches[2 * i + 1]
    speaker_in in = {.tokens = tokens + from,
                     .tokens_dim1 = to - from,
                     .position = &position,
                     LAYER(0),
                     LAYER(1),
                     LAYER(2),
                     LAYER(3)};
    speaker_out out = {.logits = logits};
    return speaker_run(&in, &out, workspace, sizeof workspace) ? fail("speaker_run: ", out.message) : 0;
}

static void print(int64_t token, int as_number) {
    char bytes[TOKENIZER_BYTES];
    if (as_number) printf("%d ", (int)token);
    else fwrite(bytes, 1, (size_t)tokenizer_decode(&words, token, bytes), stdout);
    fflush(stdout);
}

int main(int argc, char **argv) {
    sampler s = {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .seed = 1};
    int count = 200, as_numbers = 0, a = 1;
    for (; a + 1 < argc && argv[a][0] == '-'; a += 2) {
        const char *value = argv[a + 1];
        switch (argv[a][1]) {
        case 'n': count = atoi(value); break;
        case 't': s.temperature = strtof(value, NULL); break;
        case 'k': s.top_k = atoi(value); break;
        case 'p': s.top_p = strtof(value, NULL); break;
        case 's': s.seed = strtoull(value, NULL, 10); break;
        case 'o': as_numbers = value[0] == 'n'; break;
        default: return fail("unknown option ", argv[a]);
        }
    }
    if (a + 1 != argc) return fail("the arguments are options and a prompt", "");
    if (!tokenizer_init(&words, merges, MERGES)) return fail("the merges are not those of a tokenizer", "");
    int used = tokenizer_encode(&words, argv[a], strlen(argv[a]), tokens, CONTEXT), computed = 0;
    if (used < 1) return fail("a prompt has between 1 and 256 tokens", "");

    for (int i = 0; i < used; i++) print(tokens[i], as_numbers);
    struct timespec begin, end;
    timespec_get(&begin, TIME_UTC);
    for (int i = 0; i < count; i++) {
        if (used == CONTEXT) { /* forgets the older half */
            memmove(tokens, tokens + CONTEXT / 2, sizeof tokens / 2);
            used = CONTEXT / 2, computed = 0;
        }
        if (run(computed, used)) return 1;
        computed = used;
        tokens[used] = sampler_next(&s, logits, VOCABULARY, choices);
        if (tokens[used] < 0) return fail("the logits are not numbers", "");
        print(tokens[used++], as_numbers);
    }
    timespec_get(&end, TIME_UTC);
    double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    fprintf(stderr, "\n%d tokens, %.0f per second\n", count, count / seconds);
}
