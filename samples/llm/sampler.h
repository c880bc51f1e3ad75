/* Chooses the next token by the logits of a model. */
#ifndef SAMPLER_H
#define SAMPLER_H
#include <stdint.h>

typedef struct sampler {
    float temperature; /* divides the logits; 0: always the most likely token */
    int top_k;         /* only the k most likely tokens; 0: all */
    float top_p;       /* only the most likely tokens that make up this probability; 1: all */
    uint64_t seed;     /* the same seed gives the same choices; each choice changes it */
} sampler;

typedef struct sampler_choice {
    double weight;
    int token;
} sampler_choice;

/* A token, or -1 if no logit is a number. The choices are room for count elements. */
int sampler_next(sampler *s, const float *logits, int count, sampler_choice *choices);

#endif
