// Candidates of repeats: sequences of statements of a block that recur at a distance, its period. The distances between equal windows
// of statements vote for the periods.
#include "compiler/base/integers.h"
#include "ir/loops/roll_impl.h"
#include <stdlib.h>

// A repeat is found by `WINDOW` equal instructions. Longer periods than the most do not repeat.
enum { WINDOW = 8, MOST_PERIOD = 4096, MOST_PERIODS = 32 };

static int64_t code_bytes(const lblock *b);

// Branches on the CPU level are calls by a table.
static int64_t bytes_of(const ins *x) {
    int64_t inner[] = {x->body[0] ? code_bytes(x->body[0]) : 0, x->body[1] ? code_bytes(x->body[1]) : 0};
    int64_t more = inner[0] > inner[1] ? inner[0] : inner[1];
    lclass c = lop_class(x->op);
    if (c == LC_CONST) return 0;
    if (c == LC_CALL) return 5 + 2 * x->nargs;
    if (c == LC_CONTROL) return 6 + more;
    return c == LC_POINTER || c == LC_MEMORY || c == LC_PLACE ? 6 : 4;
}

static int64_t code_bytes(const lblock *b) {
    int64_t n = 0;
    for (const ins *x = b->first; x; x = x->next) n += bytes_of(x);
    return n;
}

search roll_statements(arena *a, same_functions *functions, const lblock *b) {
    search s = {.arena = a};
    for (ins *x = b->first; x; x = x->next)
        if (x->op != L_CONST && x->op != L_COMMENT) VEC_PUSH(a, &s.statements, x);
    int n = s.statements.n;
    s.shape = ARENA_ARRAY(a, uint64_t, n + 1);
    s.bytes = ARENA_ARRAY(a, int64_t, n + 1);
    for (int j = 0; j < n; j++) {
        s.shape[j] = ins_shape(functions, s.statements.at[j]);
        s.bytes[j + 1] = s.bytes[j] + bytes_of(s.statements.at[j]);
    }
    return s;
}

typedef struct vote {
    int period, votes;
} vote;
typedef VEC(vote) vote_list;

static int by_votes(const void *x, const void *y) {
    const vote *a = x, *b = y;
    return a->votes != b->votes ? (a->votes < b->votes) - (a->votes > b->votes) : a->period - b->period;
}

// Distances of equal windows, the most frequent ones first.
static vote_list find_periods(const search *s) {
    vote_list votes = {0};
    map last = {.arena = s->arena}, at = last;
    for (int j = 0; j + WINDOW <= s->statements.n; j++) {
        uint64_t window = hash_bytes(HASH_SEED, s->shape + j, WINDOW * sizeof *s->shape);
        int before = (int)(intptr_t)map_get_number(&last, window) - 1, period = j - before;
        map_put_number(&last, window, (void *)(intptr_t)(j + 1));
        if (before < 0 || period > MOST_PERIOD) continue;
        int known = (int)(intptr_t)map_get_number(&at, (uint64_t)period) - 1;
        if (known < 0) {
            known = votes.n;
            map_put_number(&at, (uint64_t)period, (void *)(intptr_t)(known + 1));
            VEC_PUSH(s->arena, &votes, (vote){period, 0});
        }
        votes.at[known].votes++;
    }
    if (votes.n) qsort(votes.at, (size_t)votes.n, sizeof *votes.at, by_votes);
    if (votes.n > MOST_PERIODS) votes.n = MOST_PERIODS;
    return votes;
}

static void add_repeats(const search *s, int period, repeat_list *found) {
    int n = s->statements.n - period;
    for (int j = 0, end; j < n; j = end + 1) {
        for (end = j; end < n && s->shape[end] == s->shape[end + period]; end++) {
        }
        int count = (end - j) / period + 1;
        int64_t saved = (s->bytes[j + period] - s->bytes[j]) * (count - 1);
        if (count > 1 && saved >= LEAST_SAVED)
            VEC_PUSH(s->arena, found, (repeat){j, period, end - j + period, count, saved});
    }
}

static int by_saved(const void *x, const void *y) {
    const repeat *a = x, *b = y;
    if (a->saved != b->saved) return (a->saved < b->saved) - (a->saved > b->saved);
    return a->first != b->first ? a->first - b->first : a->period - b->period;
}

repeat_list roll_candidates(const search *s) {
    repeat_list found = {0};
    vote_list periods = find_periods(s);
    for (int j = 0; j < periods.n; j++) add_repeats(s, periods.at[j].period, &found);
    if (found.n) qsort(found.at, (size_t)found.n, sizeof *found.at, by_saved);
    return found;
}
