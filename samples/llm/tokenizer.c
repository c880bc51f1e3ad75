/* Byte-pair encoding: pieces of text, whose most frequent pairs are joined first, to tokens and back. */
#include "tokenizer.h"

typedef enum kind { LETTER, DIGIT, SPACE, SIGN } kind;

/* Bytes of UTF-8 beyond ASCII count as letters. */
static kind kind_of(char c) {
    unsigned char b = (unsigned char)c;
    if (b >= 0x80 || (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z')) return LETTER;
    if (b >= '0' && b <= '9') return DIGIT;
    return b == ' ' || (b >= '\t' && b <= '\r') ? SPACE : SIGN;
}

/* Where the piece at the start of the text ends. A space belongs to the word after it. */
static size_t piece_end(const char *text, size_t size) {
    kind first = kind_of(text[0]);
    if (text[0] == ' ' && size > 1) first = kind_of(text[1]);
    size_t at = 1;
    while (at < size && at < TOKENIZER_BYTES && kind_of(text[at]) == first) {
        if (first == SPACE && text[at] == ' ' && at + 1 < size && kind_of(text[at + 1]) != SPACE) break;
        at++;
    }
    return at;
}

static unsigned slot_of(unsigned left, unsigned right) {
    uint32_t h = (uint32_t)left << 16 | right;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    return (h ^ h >> 12) % TOKENIZER_SLOTS;
}

/* The slot of a pair, or the empty one where it would be. */
static unsigned find(const tokenizer *t, unsigned left, unsigned right) {
    unsigned s = slot_of(left, right);
    while (t->slots[s] && (t->merges[t->slots[s] - 1][0] != left || t->merges[t->slots[s] - 1][1] != right))
        s = (s + 1) % TOKENIZER_SLOTS;
    return s;
}

static int bytes_of(const tokenizer *t, unsigned token) { return token < 256 ? 1 : t->bytes[token - 256]; }

bool tokenizer_init(tokenizer *t, const uint16_t (*merges)[2], int count) {
    *t = (tokenizer){.merges = merges};
    if (count < 0 || count > TOKENIZER_MERGES) return false;
    for (int i = 0; i < count; i++) {
        unsigned left = merges[i][0], right = merges[i][1], own = 256 + (unsigned)i;
        if (left >= own || right >= own) return false;
        int bytes = bytes_of(t, left) + bytes_of(t, right);
        unsigned s = find(t, left, right);
        if (t->slots[s] || bytes > TOKENIZER_BYTES) return false;
        t->slots[s] = (uint16_t)(i + 1);
        t->bytes[i] = (unsigned char)bytes;
        t->count = i + 1;
    }
    return true;
}

/* Joins a pair wherever it occurs; returns the new length. */
static int join(uint16_t *word, int n, int merge, const uint16_t pair[2]) {
    int made = 0;
    for (int i = 0; i < n; i++) {
        bool here = i + 1 < n && word[i] == pair[0] && word[i + 1] == pair[1];
        word[made++] = here ? (uint16_t)(256 + merge) : word[i];
        i += here;
    }
    return made;
}

/* The tokens of a piece, whose bytes are in word: the most frequent pair is joined first. */
static int join_all(const tokenizer *t, uint16_t *word, int n) {
    for (;;) {
        int best = t->count;
        for (int i = 0; i + 1 < n; i++) {
            int merge = t->slots[find(t, word[i], word[i + 1])] - 1;
            if (merge >= 0 && merge < best) best = merge;
        }
        if (best == t->count) return n;
        n = join(word, n, best, t->merges[best]);
    }
}

int tokenizer_encode(const tokenizer *t, const char *text, size_t size, int64_t *tokens, int capacity) {
    int made = 0;
    while (size > 0) {
        uint16_t word[TOKENIZER_BYTES];
        size_t end = piece_end(text, size);
        for (size_t i = 0; i < end; i++) word[i] = (unsigned char)text[i];
        int n = join_all(t, word, (int)end);
        if (n > capacity - made) return -1;
        for (int i = 0; i < n; i++) tokens[made++] = word[i];
        text += end, size -= end;
    }
    return made;
}

static int spell(const tokenizer *t, unsigned token, char *bytes) {
    if (token < 256) {
        *bytes = (char)token;
        return 1;
    }
    int left = spell(t, t->merges[token - 256][0], bytes);
    return left + spell(t, t->merges[token - 256][1], bytes + left);
}

int tokenizer_decode(const tokenizer *t, int64_t token, char bytes[TOKENIZER_BYTES]) {
    return token < 0 || token >= 256 + t->count ? 0 : spell(t, (unsigned)token, bytes);
}
