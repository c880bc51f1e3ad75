/* Logits to a token: softmax with a temperature, cut to the most likely tokens. */
#include "sampler.h"
#include <math.h>

/* Steele's and Vigna's splitmix64: the same numbers on every machine, from 0 to below 1. */
static double dice(uint64_t *seed) {
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

static int most_likely(const float *logits, int count) {
    int best = -1;
    for (int i = 0; i < count; i++)
        if (!isnan(logits[i]) && (best < 0 || logits[i] > logits[best])) best = i;
    return best;
}

/* More likely, and of equal ones the lower token. */
static int precedes(const sampler_choice *a, const sampler_choice *b) {
    return a->weight > b->weight || (a->weight == b->weight && a->token < b->token);
}

static void swap(sampler_choice *a, sampler_choice *b) {
    sampler_choice kept = *a;
    *a = *b, *b = kept;
}

/* Restores the heap of n choices, most likely first, below position i. */
static void sift(sampler_choice *heap, int n, int i) {
    for (int child = 2 * i + 1; child < n; i = child, child = 2 * i + 1) {
        if (child + 1 < n && precedes(&heap[child + 1], &heap[child])) child++;
        if (!precedes(&heap[child], &heap[i])) return;
        swap(&heap[child], &heap[i]);
    }
}

/* Weights e^((x - maximum) / temperature); returns how many are positive. */
static int weigh(const float *logits, int count, float maximum, double temperature, sampler_choice *choices) {
    int n = 0;
    for (int i = 0; i < count; i++) {
        double weight = exp(((double)logits[i] - (double)maximum) / temperature);
        if (weight > 0) choices[n++] = (sampler_choice){weight, i};
    }
    return n;
}

/* Moves the k most likely of n choices to the end, the most likely last. */
static void take_out(sampler_choice *choices, int n, int k) {
    for (int i = n / 2 - 1; i >= 0; i--) sift(choices, n, i);
    for (int last = n - 1; last >= n - k; last--) {
        swap(&choices[0], &choices[last]);
        sift(choices, last, 0);
    }
}

int sampler_next(sampler *s, const float *logits, int count, sampler_choice *choices) {
    int best = most_likely(logits, count);
    if (best < 0 || !(s->temperature > 0) || isinf(logits[best])) return best;
    int n = weigh(logits, count, logits[best], (double)s->temperature, choices);
    int k = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    take_out(choices, n, k);
    double total = 0, kept = 0;
    for (int i = n - k; i < n; i++) total += choices[i].weight;
    int first = n; /* of those kept */
    while (first > n - k && (first == n || kept < total * (double)s->top_p)) kept += choices[--first].weight;
    double at = dice(&s->seed) * kept;
    for (int i = n - 1; i > first; i--)
        if ((at -= choices[i].weight) < 0) return choices[i].token;
    return choices[first].token;
}
