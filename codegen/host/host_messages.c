// In: sentences that runs may say. Out: a table of texts that onnxc_rt_message (runtime-lite/core/message.c) reads. What a
// sentence has in common with an earlier one, such as the name of a node, is a reference to that place in the table:
//
//     node 'conv1' (Conv): no memory for 'y'        node 'conv1' (Conv): no memory for 'y'
//     node 'conv1' (Conv): 'y' is too large    as   [node 'conv1' (Conv): ]['y']" is too large"
//
// A reference refers to whole characters and references.
#include "codegen/host/host_impl.h"
#include <limits.h>
#include <string.h>

enum { REFERENCE = 4, LEAST_SHARED = REFERENCE + 2, MOST_DEPTH = 8, MOST_TRIES = 64, MOST_SENTENCE = 990 };

// `place` by position in the text: offset in the table, -1 inside what a reference stands for. `depth` of a reference there:
// how many are nested.
typedef struct sentence {
    const char *text;
    int n, *place, *depth;
} sentence;

typedef struct spot {
    const sentence *in;
    int at, before; // the spot before with the same key + 1
} spot;

struct sentences {
    arena *arena;
    text *table;
    map last; // the next bytes -> spot + 1
    VEC(spot) spots;
};

typedef struct match {
    const sentence *in;
    int at, n, depth;
} match;

sentences *sentences_new(arena *a, text *table) {
    sentences *s = ARENA_NEW(a, sentences);
    *s = (sentences){.arena = a, .table = table, .last.arena = a};
    return s;
}

// ---------------------------------------------------------------- shared sentences
static uint64_t key_at(const char *s) { return hash_bytes(HASH_SEED, s, LEAST_SHARED); }

static void remember(sentences *s, const sentence *new) {
    for (int j = 0; j + LEAST_SHARED <= new->n; j++) {
        if (new->place[j] < 0) continue;
        uint64_t key = key_at(new->text + j);
        VEC_PUSH(s->arena, &s->spots, (spot){new, j, (int)(intptr_t)map_get_number(&s->last, key)});
        map_put_number(&s->last, key, (void *)(intptr_t)s->spots.n);
    }
}

// As much of the sentence from there as one reference can stand for.
static match match_at(const sentences *s, const spot *from, const char *text) {
    const sentence *in = from->in;
    match m = {in, from->at, 0, 0};
    if ((int64_t)s->table->n - in->place[from->at] > UINT16_MAX) return m;
    for (int j = from->at, depth = 0; j < in->n && in->text[j] == text[j - from->at]; j++) {
        if (in->place[j] >= 0 && in->depth[j] >= depth) depth = in->depth[j] + 1;
        if (in->place[j + 1] < 0) continue;
        if (in->place[j + 1] - in->place[from->at] > UINT8_MAX || depth > MOST_DEPTH) break;
        m.n = j + 1 - from->at, m.depth = depth;
    }
    return m;
}

static match find_match(const sentences *s, const char *text) {
    match best = {0};
    int tries = 0;
    if (strlen(text) < LEAST_SHARED) return best;
    for (int j = (int)(intptr_t)map_get_number(&s->last, key_at(text)); j && tries < MOST_TRIES; tries++) {
        match m = match_at(s, &s->spots.at[j - 1], text);
        if (m.n > best.n || (m.n == best.n && m.depth < best.depth)) best = m;
        j = s->spots.at[j - 1].before;
    }
    return best.n < LEAST_SHARED ? (match){0} : best;
}

// ---------------------------------------------------------------- messages
// Clipped, and without bytes that mean something else to the runtime.
static char *clipped_text(arena *a, const char *text, bool numbers) {
    size_t n = strlen(text);
    bool clipped = n > MOST_SENTENCE;
    if (clipped) n = MOST_SENTENCE;
    while (clipped && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
    char *s = arena_printf(a, "%.*s%s", (int)n, text, clipped ? " ..." : "");
    for (char *c = s; *c; c++)
        if (*c == '\3' || (!numbers && (*c == '\1' || *c == '\2'))) *c = '?';
    return s;
}

static void add_reference(sentences *s, const match *m) {
    const int *place = m->in->place + m->at;
    unsigned distance = (unsigned)s->table->n - (unsigned)place[0];
    char bytes[REFERENCE] = {'\3', (char)(distance & 255), (char)(distance >> 8),
                             (char)(place[m->n] - place[0])};
    text_addn(s->table, bytes, sizeof bytes);
}

int64_t sentences_add(sentences *s, const char *text, bool numbers) {
    int64_t start = (int64_t)s->table->n;
    sentence *new = ARENA_NEW(s->arena, sentence);
    new->text = clipped_text(s->arena, text, numbers);
    new->n = (int)strlen(new->text);
    new->place = ARENA_ARRAY(s->arena, int, new->n + 1);
    new->depth = ARENA_ARRAY(s->arena, int, new->n + 1);
    for (int j = 0; j < new->n;) {
        match m = find_match(s, new->text + j);
        new->place[j] = (int)s->table->n;
        new->depth[j] = m.depth;
        for (int k = 1; k < m.n; k++) new->place[j + k] = -1;
        if (m.n) add_reference(s, &m);
        else text_addn(s->table, new->text + j, 1);
        j += m.n ? m.n : 1;
    }
    new->place[new->n] = (int)s->table->n;
    text_addn(s->table, "", 1);
    remember(s, new);
    return start;
}
