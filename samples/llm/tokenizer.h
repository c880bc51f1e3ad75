/* A byte-pair tokenizer. Tokens below 256 are bytes; token 256 + i joins the two tokens merges[i], the most frequent pair first.
 * Text is cut into pieces (words with the space before them, numbers, signs), and pairs are joined within a piece. */
#ifndef TOKENIZER_H
#define TOKENIZER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOKENIZER_MERGES = 16384, /* at most */
    TOKENIZER_BYTES = 32,     /* of a token or piece, at most */
    TOKENIZER_SLOTS = 2 * TOKENIZER_MERGES
};

typedef struct tokenizer {
    const uint16_t (*merges)[2];
    int count;
    uint16_t slots[TOKENIZER_SLOTS];       /* hash table: 1 + the index of a merge, or 0 */
    unsigned char bytes[TOKENIZER_MERGES]; /* the length of each token beyond 255 */
} tokenizer;

/* False if there are more merges than TOKENIZER_MERGES, or one joins tokens that do not precede it, repeats another or exceeds
 * TOKENIZER_BYTES. The merges stay the caller's. */
bool tokenizer_init(tokenizer *t, const uint16_t (*merges)[2], int count);

/* The number of tokens of a text, or -1 if there are more than capacity. */
int tokenizer_encode(const tokenizer *t, const char *text, size_t size, int64_t *tokens, int capacity);

/* Writes the bytes of a token, and returns their number: 0 if there is no such token. */
int tokenizer_decode(const tokenizer *t, int64_t token, char bytes[TOKENIZER_BYTES]);

#endif
