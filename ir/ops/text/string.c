// Operators on strings. Kernels move strings as handles; library functions look into them
// (runtime-lite/lib/string/lib_string_*.c).
#include "ir/ops/text/string.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/runtime_args.h"
#include "ir/ops/text/regex.h"
#include "runtime-lite/lib/lib_slots.h"
#include <string.h>

// ---------------------------------------------------------------- constants
constant *strings_constant(arena *a, const char *const *s, const size_t *sizes, int64_t count) {
    constant *c = constant_new(a, DT_STRING, 1, &count);
    for (int64_t i = 0; i < count; i++) {
        c->strings[i] = s[i];
        c->string_sizes[i] = sizes ? sizes[i] : strlen(s[i]);
    }
    return c;
}

constant *int64s_constant(arena *a, const int64_t *v, int64_t count) {
    constant *c = constant_new(a, DT_I64, 1, &count);
    for (int64_t i = 0; i < count; i++) dtype_store_int(DT_I64, (uint8_t *)c->data, i, v[i]);
    return c;
}

// ---------------------------------------------------------------- Equal, StringConcat
// The strides of b under the output's shape: 0 along broadcast axes.
static void broadcast_strides(dim *const *out, int rank, const buffer *b, dim **strides) {
    dim *stride = dim_const(b->dims[-1]->table, 1), *zero = dim_const(stride->table, 0), *one = stride;
    for (int j = rank - 1; j >= 0; j--) {
        int own = j - (rank - b->rank);
        if (own < 0) {
            strides[j] = zero;
            continue;
        }
        dim *d = b->dims[own];
        strides[j] = d == out[j] ? stride : dim_select(dim_eq(d, one), zero, stride);
        stride = dim_mul(stride, d);
    }
}

void lower_string_pairs(lowering *l, node *n, const char *function) {
    buffer *a = lower_in(l, n, 0), *b = lower_in(l, n, 1), *out = lower_out(l, n, 0);
    int rank = out->rank;
    step *s = lower_library(l, n, function, 1, 3, 1 + 3 * rank);
    s->args[0] = out, s->args[1] = a, s->args[2] = b;
    s->numbers[0] = infer_k(n, rank);
    for (int j = 0; j < rank; j++) s->numbers[1 + j] = out->dims[j];
    broadcast_strides(out->dims, rank, a, s->numbers + 1 + rank);
    broadcast_strides(out->dims, rank, b, s->numbers + 1 + 2 * rank);
}

static void concat_lower(lowering *l, node *n) { lower_string_pairs(l, n, "string_concat"); }

OPERATOR(StringConcat, .infer = infer_elementwise, .lower = concat_lower);

// ---------------------------------------------------------------- StringSplit
static void split_infer(node *n) {
    const type *in = infer_in(n, 0);
    int rank = infer_rank(n, 0);
    dim *dims[MAX_RANK + 1];
    memcpy(dims, in->dims ? in->dims : dims, (size_t)rank * sizeof *dims);
    dims[rank] = infer_data_dim(n, "pieces", NULL);
    infer_set(n, 0, DT_STRING, rank + 1, dims);
    infer_set(n, 1, DT_I64, rank, in->dims);
}

static void split_lower(lowering *l, node *n) {
    arena *a = l->program->arena;
    buffer *x = lower_in(l, n, 0);
    dim *one = infer_k(n, 1), *count = buffer_count(x), *pieces = infer_made_dim(n, 0);
    dim *most = infer_k(n, node_int(n, "maxsplit", -1));
    const char *delimiter = node_string(n, "delimiter", "");
    buffer *by =
        lower_constant(l, arena_printf(a, "%s.delimiter", x->name), strings_constant(a, &delimiter, NULL, 1));
    buffer *counts =
        node_out(n, 1) ? lower_out(l, n, 1) : lower_temp(l, n, "counts", DT_I64, x->rank, x->dims);
    buffer *widest = lower_temp(l, n, "widest", DT_I64, 1, &one);
    lower_call(l, n, "string_count", 2, BUFFERS(counts, widest, x, by), DIMS(count, most));
    lower_set_dim(l, n, pieces, widest, 0);
    lower_checks(l, n);
    buffer *out = lower_out(l, n, 0);
    if (!out) return;
    lower_check(l, n, dim_eq(out->dims[out->rank - 1], pieces), "the output does not have its declared size");
    lower_call(l, n, "string_split", 1, BUFFERS(out, x, by), DIMS(count, most, pieces));
}

OPERATOR(StringSplit, .infer = split_infer, .lower = split_lower);

// ---------------------------------------------------------------- StringNormalizer
static int case_change(const node *n) { return node_choice(n, "case_change_action", "NONE LOWER UPPER"); }

static bool has_stop_words(const node *n) {
    const attr *stops = node_attr(n, "stopwords");
    return stops && stops->n > 0;
}

// Without stop words only an empty input has another number of strings than the output: that has an empty one.
static dim *normalized_count(const node *n, dim *count_in) {
    return has_stop_words(n) ? infer_count_dim(n, NULL) : dim_max(count_in, infer_k(n, 1));
}

static void normalize_infer(node *n) {
    const type *in = infer_in(n, 0);
    int rank = infer_rank(n, 0);
    case_change(n);
    if (rank != 1 && rank != 2)
        infer_error(n, "the input must have the shape [C] or [1, C], not rank %d", rank);
    if (rank == 2) infer_same_dim(n, in->dims[0], infer_k(n, 1), "number of rows");
    dim *dims[2] = {infer_k(n, 1), normalized_count(n, in->dims[rank - 1])};
    infer_set(n, 0, DT_STRING, rank, dims + 2 - rank);
}

static void normalize_lower(lowering *l, node *n) {
    arena *a = l->program->arena;
    buffer *x = lower_in(l, n, 0);
    lower_checks(l, n);
    const attr *stops = node_attr(n, "stopwords");
    const constant *words = strings_constant(a, stops ? stops->strings : NULL, NULL, stops ? stops->n : 0);
    dim *one = infer_k(n, 1), *n_in = buffer_count(x), *room = dim_max(n_in, one),
        *count = normalized_count(n, x->dims[x->rank - 1]);
    buffer *kept = lower_temp(l, n, "kept", DT_STRING, 1, &room),
           *total = lower_temp(l, n, "total", DT_I64, 1, &one);
    buffer *stopwords = lower_constant(l, arena_printf(a, "%s.stopwords", x->name), words);
    lower_call(l, n, "string_normalize", 2, BUFFERS(kept, total, x, stopwords),
               DIMS(n_in, infer_k(n, words->count), infer_k(n, node_int(n, "is_case_sensitive", 0) != 0),
                    infer_k(n, case_change(n))));
    if (has_stop_words(n)) lower_set_dim(l, n, count, total, 0);
    buffer *out = lower_out(l, n, 0);
    lower_check(l, n, dim_eq(out->dims[out->rank - 1], count), "the output does not have its declared size");
    kernel *k;
    expr *index[MAX_RANK];
    stage *stage = suffixed_stage(l, n, NULL, out, &k, index);
    stage_write(k, stage, out, index, x_read(k, kept, &index[out->rank - 1]));
}

OPERATOR(StringNormalizer, .infer = normalize_infer, .lower = normalize_lower);

// ---------------------------------------------------------------- TfIdfVectorizer
typedef struct grams {
    const node *n;
    const int64_t *counts, *columns;
    int ncounts, ncolumns, shortest, longest;
    constant *pool;  // tokens
    int64_t width;   // columns of the output
    int64_t *tokens; // of the pool, as indices into the sorted ones
} grams;

static constant *pool_of(const node *n, arena *a) {
    const attr *strings = node_attr(n, "pool_strings");
    int count;
    const int64_t *ints = node_ints(n, "pool_int64s", &count);
    if (strings && strings->n) return strings_constant(a, strings->strings, NULL, strings->n);
    return int64s_constant(a, ints, count);
}

static grams grams_of(const node *n) {
    grams g = {.n = n, .pool = pool_of(n, infer_arena(n))};
    g.counts = node_ints(n, "ngram_counts", &g.ncounts);
    g.columns = node_ints(n, "ngram_indexes", &g.ncolumns);
    g.shortest = (int)node_int(n, "min_gram_length", 1), g.longest = (int)node_int(n, "max_gram_length", 1);
    if (g.shortest < 1 || g.longest < g.shortest || g.longest > g.ncounts)
        infer_error(n, "lengths from %d to %d do not match %d counts of n-grams", g.shortest, g.longest,
                    g.ncounts);
    for (int i = 0; i < g.ncounts; i++) {
        int64_t end = i + 1 < g.ncounts ? g.counts[i + 1] : g.pool->count;
        if (g.counts[i] < 0 || end < g.counts[i] || end > g.pool->count || (end - g.counts[i]) % (i + 1))
            infer_error(n, "positions %lld to %lld of the pool do not hold n-grams of %d tokens",
                        (long long)g.counts[i], (long long)end, i + 1);
    }
    for (int i = 0; i < g.ncolumns; i++) {
        if (g.columns[i] < 0) infer_error(n, "ngram_indexes has %lld", (long long)g.columns[i]);
        if (g.columns[i] >= g.width) g.width = g.columns[i] + 1;
    }
    return g;
}

enum { TF, IDF, TFIDF };
static int weighting_of(const node *n) { return node_choice(n, "mode", "TF IDF TFIDF"); }

static void tfidf_infer(node *n) {
    const type *in = infer_in(n, 0);
    int rank = infer_rank(n, 0);
    grams g = grams_of(n);
    const attr *weights = node_attr(n, "weights");
    weighting_of(n);
    if (weights && weights->n && weights->n < g.ncolumns)
        infer_error(n, "there are %d weights for %d n-grams", weights->n, g.ncolumns);
    if (rank < 1 || rank > 2)
        infer_error(n, "the input must have the shape [C] or [B, C], not rank %d", rank);
    if ((in->elem == DT_STRING) != (g.pool->kind == CONST_STRINGS))
        infer_error(n, "the input is %s, but the pool is not", dtype_name(in->elem));
    dim *dims[2] = {rank == 2 ? in->dims[0] : NULL, infer_k(n, g.width)};
    infer_set(n, 0, DT_F32, rank == 2 ? 2 : 1, dims + (rank != 2));
}

static int compare_grams(const void *a, const void *b, size_t length) {
    for (size_t j = 0; j < length; j++) {
        int64_t x = ((const int64_t *)a)[j], y = ((const int64_t *)b)[j];
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}

// Inserts an n-gram into a sorted list; the last one of equals is kept. Fast if the n-grams are in order
// already.
static void put_gram(int64_t *to, int64_t *count, const int64_t *gram, size_t length) {
    size_t row = length + 1;
    int64_t low = 0, high = *count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (compare_grams(to + (size_t)middle * row, gram, length) < 0) low = middle + 1;
        else high = middle;
    }
    int64_t *at = to + (size_t)low * row;
    if (low == *count || compare_grams(at, gram, length))
        memmove(at + row, at, (size_t)((*count)++ - low) * row * sizeof *at);
    memcpy(at, gram, row * sizeof *at);
}

typedef struct gram_list {
    const int64_t *grams;
    int64_t length;
} gram_list;

static uint64_t hash_gram(const void *user, uint64_t seed, int64_t i) {
    const gram_list *list = user;
    return lib_hash_words(seed, list->grams + i * (list->length + 1), 1, list->length);
}

// The table read by runtime-lite/lib/lib_tfidf.c.
static constant *gram_table(lowering *l, grams *g) {
    arena *a = l->program->arena;
    int64_t heads = 2 * g->ncounts, words = heads, gram[64 + 1];
    int64_t **parts = ARENA_ARRAY(a, int64_t *, heads + 1), *sizes = ARENA_ARRAY(a, int64_t, heads + 1);
    int number = 0;
    for (int i = 0; i < g->ncounts; i++) {
        int64_t end = i + 1 < g->ncounts ? g->counts[i + 1] : g->pool->count, count = 0;
        int64_t *sorted = ARENA_ARRAY(a, int64_t, 2 * (end - g->counts[i]) + 1);
        if (i + 1 > 64) diag_fatal_missing(l->program->diag, g->n->loc, "n-grams of more than 64 tokens");
        for (int64_t p = g->counts[i]; p + i < end; p += i + 1, number++) {
            if (number >= g->ncolumns) infer_error(g->n, "ngram_indexes has only %d numbers", g->ncolumns);
            memcpy(gram, g->tokens + p, (size_t)(i + 1) * sizeof *gram);
            gram[i + 1] = g->columns[number];
            put_gram(sorted, &count, gram, (size_t)i + 1);
        }
        const constant *slots = slots_constant(a, count, hash_gram, &(gram_list){sorted, i + 1});
        if (!slots) diag_fatal_missing(l->program->diag, g->n->loc, "n-grams whose hashes are equal");
        parts[2 * i] = sorted, sizes[2 * i] = count * (i + 2);
        parts[2 * i + 1] = (int64_t *)(uintptr_t)slots->data, sizes[2 * i + 1] = slots->count;
        words += sizes[2 * i] + sizes[2 * i + 1];
    }
    int64_t *table = ARENA_ARRAY(a, int64_t, words + 1), at = heads;
    for (int64_t i = 0; i < heads; at += sizes[i++]) {
        table[i] = at;
        memcpy(table + at, parts[i], (size_t)sizes[i] * sizeof *table);
    }
    return int64s_constant(a, table, words);
}

// The sorted tokens of the pool; g->tokens maps each token of the pool to its index among them.
static constant *sort_pool(lowering *l, grams *g) {
    arena *a = l->program->arena;
    int64_t *order = ARENA_ARRAY(a, int64_t, g->pool->count + 1), count = sort_keys(g->pool, order);
    g->tokens = ARENA_ARRAY(a, int64_t, g->pool->count + 1);
    for (int64_t i = 0; i < g->pool->count; i++) {
        int64_t low = 0, high = count;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (compare_places(g->pool, order[middle], i) < 0) low = middle + 1;
            else high = middle;
        }
        g->tokens[i] = low;
    }
    return pick_constant(a, g->pool, order, count);
}

// counts = occurrences of each n-gram;  y = counts, or 1 and 0, depending on the mode, times the weights
static void tfidf_lower(lowering *l, node *n) {
    arena *a = l->program->arena;
    grams g = grams_of(n);
    buffer *x = lower_in(l, n, 0);
    const constant *keys = sort_pool(l, &g);
    value *in = n->in[0];
    if (in->type.elem == DT_I32) {
        constant *narrow = constant_new(a, DT_I32, 1, &keys->count);
        for (int64_t i = 0; i < keys->count; i++)
            dtype_store_int(DT_I32, (void *)narrow->data, i, constant_int(keys, i));
        keys = narrow;
    }
    buffer *tokens = lower_find(l, n, in, keys), *out = lower_out(l, n, 0);
    dim *rows = out->rank == 2 ? out->dims[0] : infer_k(n, 1);
    dim *all[2] = {rows, infer_k(n, g.width)};
    const attr *weights = node_attr(n, "weights");
    int mode = weighting_of(n);
    bool weighted = weights && weights->n && mode != TF, plain = mode != IDF && !weighted;
    buffer *counts = plain ? out : lower_temp(l, n, "counts", DT_F32, out->rank, all + 2 - out->rank);
    buffer *table = lower_constant(l, arena_printf(a, "%s.grams", x->name), gram_table(l, &g));
    lower_call(l, n, "tfidf", 1, BUFFERS(counts, tokens, table),
               DIMS(rows, x->rank ? x->dims[x->rank - 1] : infer_k(n, 1), all[1], infer_k(n, g.shortest),
                    infer_k(n, g.longest), infer_k(n, node_int(n, "max_skip_count", 0))));
    if (plain) return;
    kernel *k;
    expr *index[MAX_RANK];
    stage *stage = suffixed_stage(l, n, NULL, out, &k, index);
    expr *y = x_read(k, counts, index), *zero = x_float(k, DT_F32, 0);
    if (mode == IDF) y = x_select(k, x_lt(k, zero, y), x_float(k, DT_F32, 1), zero);
    if (weighted) {
        constant *w = constant_new(a, DT_F32, 1, &g.width);
        for (int i = 0; i < g.ncolumns; i++)
            dtype_store_float(DT_F32, (void *)w->data, g.columns[i], weights->floats[i], true);
        buffer *by = lower_constant(l, arena_printf(a, "%s.weights", x->name), w);
        y = x_mul(k, y, x_read(k, by, &index[out->rank - 1]));
    }
    stage_write(k, stage, out, index, y);
}

OPERATOR(TfIdfVectorizer, .infer = tfidf_infer, .lower = tfidf_lower);

// ---------------------------------------------------------------- RegexFullMatch
// The pattern becomes an automaton, whose table the library function walks.
static void match_infer(node *n) { infer_bool_like_first(n); }

static void match_lower(lowering *l, node *n) {
    arena *a = l->program->arena;
    const char *pattern = node_string(n, "pattern", "");
    automaton m = regex_of(n, pattern, strlen(pattern), REGEX_WHOLE);
    constant *table = constant_new(a, DT_I32, 1, &m.words);
    table->data = (const uint8_t *)m.table;
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    buffer *states = lower_constant(l, arena_printf(a, "%s.automaton", x->name), table);
    lower_call(l, n, "string_match", 1, BUFFERS(out, x, states),
               DIMS(buffer_count(x), infer_k(n, m.classes)));
}

OPERATOR(RegexFullMatch, .infer = match_infer, .lower = match_lower);
