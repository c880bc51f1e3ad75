// Tokenizer: strings [C] or [N, C] as tokens [.., D], D those of the string that has most. Library functions count and
// write them; its regular expressions are automata, whose tables are one constant.
//
//   D, y = token_count(x), token_split(x)
#include "ir/ops/runtime_args.h"
#include "ir/ops/text/regex.h"
#include "ir/ops/text/string.h"
#include <string.h>

enum { OF_CHARACTERS, BETWEEN_SEPARATORS, OF_EXPRESSION }; // as in runtime-lite/lib/lib_tokens.h
typedef struct tokenizer {
    int kind, count;
    const char *const *patterns;
} tokenizer;

static tokenizer tokenizer_of(const node *n) {
    const attr *separators = node_attr(n, "separators"), *expression = node_attr(n, "tokenexp");
    int64_t least = node_int(n, "mincharnum", 0);
    tokenizer t = {.kind = BETWEEN_SEPARATORS};
    if (least < 1) infer_error(n, "attribute mincharnum is %lld; it must be positive", (long long)least);
    if (separators && separators->n) {
        t.count = separators->n, t.patterns = separators->strings;
    } else {
        if (!expression || !expression->size)
            infer_error(n, "one of the attributes separators and tokenexp must be given");
        t.kind = OF_EXPRESSION, t.count = 1, t.patterns = &expression->s;
    }
    if (t.count == 1 && strcmp(t.patterns[0], t.kind == OF_EXPRESSION ? "." : "") == 0)
        t = (tokenizer){.kind = OF_CHARACTERS};
    if (t.kind == OF_CHARACTERS && least > 1)
        infer_error(n, "attribute mincharnum is %lld, but each character is a token", (long long)least);
    return t;
}

static void tokenizer_infer(node *n) {
    const type *x = infer_in(n, 0);
    int rank = infer_rank(n, 0);
    dim *dims[MAX_RANK];
    tokenizer_of(n);
    if (rank != 1 && rank != 2) infer_error(n, "the input has rank %d, not 1 or 2", rank);
    memcpy(dims, x->dims, (size_t)rank * sizeof *dims);
    dims[rank] = infer_data_dim(n, "tokens", NULL);
    infer_set(n, 0, DT_STRING, rank + 1, dims);
}

// The tables of all automata; classes and place of each go to `numbers`.
static buffer *automata_of(lowering *l, const node *n, const tokenizer *t, dim **numbers) {
    VEC(int32_t) words = {0};
    arena *a = l->program->arena;
    for (int i = 0; i < t->count; i++) {
        automaton m = regex_of(n, t->patterns[i], strlen(t->patterns[i]), REGEX_SEARCH);
        numbers[2 * i] = infer_k(n, m.classes), numbers[2 * i + 1] = infer_k(n, words.n);
        for (int64_t j = 0; j < m.words; j++) VEC_PUSH(a, &words, m.table[j]);
    }
    if (!words.n) VEC_PUSH(a, &words, 0);
    constant *table = constant_new(a, DT_I32, 1, (int64_t[]){words.n});
    table->data = (const uint8_t *)words.at;
    return lower_constant(l, arena_printf(a, "%s.automata", n->out[0]->name), table);
}

static void tokenizer_lower(lowering *l, node *n) {
    static const char *const message[] = {"a string is not UTF-8"};
    arena *a = l->program->arena;
    tokenizer t = tokenizer_of(n);
    const char *given[] = {node_string(n, "pad_value", ""), "\x02", "\x03"};
    buffer *x = lower_in(l, n, 0);
    int marks = node_flag(n, "mark", 0), count = 6 + 2 * t.count;
    dim *one = infer_k(n, 1), *width = infer_made_dim(n, 0), **numbers = ARENA_ARRAY(a, dim *, count);
    dim *first[] = {width,
                    buffer_count(x),
                    infer_k(n, marks),
                    infer_k(n, t.kind),
                    infer_k(n, node_int(n, "mincharnum", 0)),
                    infer_k(n, t.count)};
    memcpy(numbers, first, sizeof first);
    buffer *automata = automata_of(l, n, &t, numbers + 6);
    buffer *words =
        lower_constant(l, arena_printf(a, "%s.marks", n->out[0]->name), strings_constant(a, given, NULL, 3));
    buffer *widest = lower_temp(l, n, "widest", DT_I64, 1, &one);
    step *s = lower_call(l, n, "token_count", 1, BUFFERS(widest, x, automata), numbers + 1, count - 1);
    s->messages = message, s->nmessages = 1;
    lower_set_dim(l, n, width, widest, 0);
    lower_checks(l, n);
    buffer *out = lower_out(l, n, 0);
    lower_check(l, n, dim_eq(out->dims[out->rank - 1], width), "the output does not have its declared size");
    lower_call(l, n, "token_split", 1, BUFFERS(out, x, automata, words), numbers, count);
}

const op_def op_microsoft_Tokenizer = {
    .name = "Tokenizer", .domain = "com.microsoft", .infer = tokenizer_infer, .lower = tokenizer_lower};
