/* Tokenizer and sampler of samples/llm: prints the tokens of each line of its input, for test/llm/speaker.py to compare; checks that they
 * spell the line, that limits are kept, and how often the sampler chooses what. */
#include "merges.h"
#include "sampler.h"
#include "tokenizer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 4096, MERGES = sizeof merges / sizeof *merges };

static tokenizer words;

static void require(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* The line is copied to a block of its own size, where a sanitizer sees reads beyond it. */
static void check_line(const char *line, size_t size) {
    static int64_t tokens[LINE];
    char *text = malloc(size ? size : 1), *spelt = malloc(size + TOKENIZER_BYTES);
    require(text && spelt, "no memory");
    memcpy(text, line, size);
    int n = tokenizer_encode(&words, text, size, tokens, LINE);
    require(n >= 0 && n <= (int)size, "number of tokens");
    require(!n || tokenizer_encode(&words, text, size, tokens, n - 1) == -1, "no room for the last token");
    require(tokenizer_encode(&words, text, size, tokens, n) == n, "room for all tokens");
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        at += (size_t)tokenizer_decode(&words, tokens[i], spelt + at);
        require(at <= size, "tokens spell more than the line");
        printf("%d ", (int)tokens[i]);
    }
    require(at == size && !memcmp(text, spelt, size), "tokens spell another line");
    printf("\n");
    free(text), free(spelt);
}

static void check_lines(void) {
    static char line[LINE];
    while (fgets(line, sizeof line, stdin)) check_line(line, strcspn(line, "\n"));
}

static void check_limits(void) {
    static tokenizer other;
    char bytes[TOKENIZER_BYTES];
    require(tokenizer_decode(&words, -1, bytes) == 0 && tokenizer_decode(&words, 256 + MERGES, bytes) == 0,
            "no such token");
    require(tokenizer_decode(&words, INT64_MAX, bytes) == 0 && tokenizer_decode(&words, 255, bytes) == 1,
            "tokens at the ends");
    const uint16_t later[][2] = {{65, 256}}, twice[][2] = {{65, 66}, {65, 66}},
                   fine[][2] = {{65, 66}, {256, 256}};
    const uint16_t longer[][2] = {{65, 65}, {256, 256}, {257, 257}, {258, 258}, {259, 259}, {260, 260}};
    require(!tokenizer_init(&other, later, 1), "a pair of a later token");
    require(!tokenizer_init(&other, twice, 2), "a pair that is there already");
    require(!tokenizer_init(&other, fine, -1) && !tokenizer_init(&other, fine, TOKENIZER_MERGES + 1),
            "too many pairs");
    require(tokenizer_init(&other, longer, 5) && !tokenizer_init(&other, longer, 6),
            "a token that is too long");
    require(tokenizer_init(&other, fine, 2) && tokenizer_decode(&other, 257, bytes) == 4,
            "a tokenizer of two pairs");
    int64_t token;
    require(tokenizer_encode(&other, "ABAB", 4, &token, 1) == 1 && token == 257, "the pair of pairs");
    require(tokenizer_encode(&other, "", 0, NULL, 0) == 0, "no text");
}

/* How often each of four tokens is chosen, of 10,000. */
static void draw(sampler s, const float *logits, int times[4]) {
    sampler_choice choices[4];
    memset(times, 0, 4 * sizeof *times);
    for (int i = 0; i < 10000; i++) {
        int token = sampler_next(&s, logits, 4, choices);
        require(token >= 0 && token < 4, "a token that does not exist");
        times[token]++;
    }
}

static void check_sampler(void) {
    const float logits[] = {logf(1), logf(4), logf(2), logf(1)}, none[] = {NAN, NAN, NAN, NAN};
    const float some[] = {NAN, 1, -INFINITY, NAN}, first[] = {0, INFINITY, 0, 0};
    int n[4];
    sampler_choice choices[4];
    draw((sampler){.temperature = 1, .top_p = 1, .seed = 3}, logits, n);
    require(abs(n[0] - 1250) < 150 && abs(n[1] - 5000) < 200 && abs(n[2] - 2500) < 200, "probabilities");
    draw((sampler){.temperature = 0.5f, .top_p = 1, .seed = 4}, logits, n);
    require(abs(n[1] - 10000 * 16 / 22) < 200, "probabilities at a lower temperature");
    draw((sampler){.temperature = 1, .top_k = 2, .top_p = 1, .seed = 5}, logits, n);
    require(!n[0] && !n[3] && abs(n[1] - 6667) < 200, "the two most likely");
    draw((sampler){.temperature = 1, .top_p = 0.7f, .seed = 6}, logits, n);
    require(!n[0] && !n[3] && abs(n[1] - 6667) < 200, "70 % of the probability");
    draw((sampler){.temperature = 1, .top_k = 9, .top_p = 0, .seed = 7}, logits, n);
    require(n[1] == 10000, "the most likely at least");
    draw((sampler){.temperature = 0, .top_p = 1}, logits, n);
    require(n[1] == 10000, "temperature 0");
    sampler s = {.temperature = 1, .top_p = 1, .seed = 8}, same = s;
    require(sampler_next(&s, none, 4, choices) == -1 && sampler_next(&s, none, 0, choices) == -1,
            "no number");
    require(sampler_next(&s, some, 4, choices) == 1 && sampler_next(&s, first, 4, choices) == 1,
            "one number");
    s = same;
    for (int i = 0; i < 100; i++)
        require(sampler_next(&s, logits, 4, choices) == sampler_next(&same, logits, 4, choices),
                "the same seed");
}

int main(void) {
    require(tokenizer_init(&words, merges, MERGES), "the merges of the sample");
    check_limits();
    check_sampler();
    check_lines();
}
