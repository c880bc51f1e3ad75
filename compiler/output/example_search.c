// Finds inputs for an example. In: a program. Out: small sizes of its open dimensions, and numbers of items of its
// sequences, with which it runs on zeros: those that --dim declares, otherwise the first ones for which no check of
// the program fails in the interpreter.
#include "compiler/output/example_search.h"
#include "compiler/base/integers.h"
#include "compiler/driver/versions.h"
#include "ir/kernel/interp.h"
#include <string.h>

enum { SIZE = 2, RUNS = 3000, WORK = 1 << 24, MEMORY = 1 << 30 };

static const int64_t usual_sizes[] = {SIZE, 1, 4, 8, 16, 32, 64, 128, 256, 3, 5, 6};
enum { USUAL = sizeof usual_sizes / sizeof *usual_sizes };

// Something to choose, and its candidates, the best first.
typedef struct open_choice {
    const dim *symbol; // NULL: not a size
    int64_t *value;    // chosen
    VEC(int64_t) at;
} open_choice;

typedef struct search {
    pipeline *p;
    arena *arena; // of the search
    const interface *io;
    example_inputs *inputs;
    int64_t *items, *ranks; // by input: of its sequence or optional; of tensors without a known rank
    VEC(open_choice) choices;
    int runs;
} search;

// ---------------------------------------------------------------- candidates
static void add_candidate(search *s, open_choice *c, int64_t v) {
    for (int j = 0; j < c->at.n; j++)
        if (c->at.at[j] == v) return;
    VEC_PUSH(s->arena, &c->at, v);
}

static const size_list *list_of(const pipeline *p, const dim *symbol) {
    for (int j = 0; j < p->options->dims.n; j++)
        if (strcmp(p->lists[j].name, symbol->name) == 0) return &p->lists[j];
    return NULL;
}

// The next multiple of the divisor within the range of the symbol.
static int64_t fitting(const dim *symbol, int64_t v) {
    v = int_clamp(v, symbol->min, symbol->max);
    int64_t over = symbol->divisor > 1 ? v % symbol->divisor : 0;
    if (!over) return v;
    return v > symbol->max - (symbol->divisor - over) ? v - over : v + symbol->divisor - over;
}

static void add_size(search *s, const dim *symbol, int64_t *value) {
    open_choice c = {symbol, value};
    const size_list *list = list_of(s->p, symbol);
    for (int i = 0; list && i < list->at.n; i++)
        for (int j = 0; j < USUAL; j++)
            add_candidate(s, &c,
                          fitting(symbol, int_clamp(usual_sizes[j], list->at.at[i].lo, list->at.at[i].hi)));
    for (int j = 0; !list && j < USUAL; j++) add_candidate(s, &c, fitting(symbol, usual_sizes[j]));
    *value = c.at.at[0];
    VEC_PUSH(s->arena, &s->choices, c);
}

// The sizes of states that grow begin with their least one.
static bool grows(const interface *io, const dim *symbol) {
    for (int j = 0; j < io->growths.n; j++) {
        const io_tensor *t = &io->in[io->out[io->growths.at[j].output].state - 1];
        if (t->buffer->dims[t->growth_axis] == symbol) return true;
    }
    return false;
}

static void add_other(search *s, int64_t *value, const int64_t *candidates, int n) {
    open_choice c = {NULL, value};
    for (int j = 0; j < n; j++) add_candidate(s, &c, candidates[j]);
    *value = candidates[0];
    VEC_PUSH(s->arena, &s->choices, c);
}

static bool has_open_rank(const type *t) {
    return t->kind == TYPE_TENSOR ? t->rank == RANK_UNKNOWN
                                  : t->kind != TYPE_MAP && t->item && has_open_rank(t->item);
}

static void add_choices(search *s) {
    static const int64_t lengths[] = {2, 1, 3, 4, 8, 0}, present[] = {1, 0}, ranks[] = {2, 1, 3, 4, 0};
    for (int j = 0; j < s->io->symbols.n; j++) {
        const dim *symbol = s->io->symbols.at[j];
        if (!grows(s->io, symbol)) add_size(s, symbol, &s->inputs->sizes[j]);
        else s->inputs->sizes[j] = fitting(symbol, 0);
    }
    for (int j = 0; j < s->io->nin; j++) {
        const type *t = s->io->in[j].buffer->holds;
        if (t && t->kind == TYPE_SEQUENCE) add_other(s, &s->items[j], lengths, 6);
        if (t && t->kind == TYPE_OPTIONAL) add_other(s, &s->items[j], present, 2);
        if (t && has_open_rank(t)) add_other(s, &s->ranks[j], ranks, 5);
    }
}

// ---------------------------------------------------------------- a run
static bool is_known_zero(const search *s, const dim *d) {
    int64_t v;
    return example_size(s->io, s->inputs, d, &v) && v == 0;
}

// A size as declared and the checks at the beginning of the program, without a run.
static bool may_run(search *s) {
    const build *b = s->p->build;
    for (int j = 0; j < b->nrules; j++)
        if (is_known_zero(s, b->rules[j].holds)) return false;
    const region *main = s->p->program->main;
    for (int j = 0; j < main->steps.n; j++)
        if (main->steps.at[j]->kind == STEP_CHECK && is_known_zero(s, main->steps.at[j]->dim)) return false;
    return true;
}

static void *zeros(arena *a, dtype t, int64_t count) {
    if (t != DT_STRING) return arena_alloc(a, (size_t)dtype_size(t, count) + 1);
    onnxc_string *s = ARENA_ARRAY(a, onnxc_string, count + 1);
    for (int64_t j = 0; j < count; j++) s[j].data = "";
    return s;
}

// size: of open dimensions.
static void fill_tensor(arena *a, onnxc_value *v, dtype elem, int rank, dim *const *dims, int64_t size) {
    int64_t *sizes = ARENA_ARRAY(a, int64_t, rank + 1);
    *v = (onnxc_value){.kind = 1, .dtype = (int)elem, .rank = rank, .count = 1, .dims = sizes};
    for (int j = 0; j < rank; j++)
        v->count *= sizes[j] = dims && dim_is_const(dims[j]) ? dim_value(dims[j]) : size;
    v->data = zeros(a, elem, v->count);
}

static void fill_value(arena *a, onnxc_value *v, const type *t, int64_t items, int64_t rank) {
    bool open = t->rank == RANK_UNKNOWN;
    *v = (onnxc_value){0};
    switch (t->kind) {
    case TYPE_NONE: return;
    case TYPE_TENSOR:
    case TYPE_SPARSE:
        fill_tensor(a, v, t->elem, open ? (int)rank : t->rank, open ? NULL : t->dims, SIZE);
        return;
    case TYPE_SEQUENCE:
        *v = (onnxc_value){.kind = 2, .count = items, .data = ARENA_ARRAY(a, onnxc_value, items + 1)};
        for (int64_t j = 0; j < items; j++) fill_value(a, (onnxc_value *)v->data + j, t->item, 1, rank);
        return;
    case TYPE_OPTIONAL:
        if (items) fill_value(a, v, t->item, SIZE, rank);
        return;
    case TYPE_MAP: {
        onnxc_value *parts = ARENA_ARRAY(a, onnxc_value, 2);
        *v = (onnxc_value){.kind = 3, .count = 1, .data = parts};
        fill_tensor(a, &parts[0], t->elem, 1, NULL, 1);
        fill_tensor(a, &parts[1], t->item->elem, 1, NULL, 1);
        return;
    }
    }
}

static void fill_values(search *s, arena *a) {
    for (int j = 0; j < s->io->nin; j++) {
        const type *t = s->io->in[j].buffer->holds;
        if (t) fill_value(a, &s->inputs->values[j], t, s->items[j], s->ranks[j]);
    }
}

static tensor input_tensor(search *s, arena *a, int j) {
    const buffer *b = s->io->in[j].buffer;
    tensor t = {.dtype = b->dtype, .rank = b->rank, .count = 1};
    if (b->holds) {
        t.data = &s->inputs->values[j];
        return t;
    }
    for (int i = 0; i < b->rank; i++) {
        if (!example_size(s->io, s->inputs, b->dims[i], &t.dims[i])) t.dims[i] = SIZE;
        if (__builtin_mul_overflow(t.count, t.dims[i], &t.count) || t.count > MEMORY) t.count = -1;
    }
    if (!b->fallback && t.count >= 0) t.data = zeros(a, b->dtype, t.count);
    return t;
}

static void free_outputs(const program *p, tensor *out) {
    for (int j = 0; j < p->outputs.n; j++) {
        const buffer *b = p->outputs.at[j];
        if (b->holds && out[j].data) onnxc_value_free(out[j].data);
        else if (b->dtype == DT_STRING && out[j].data) onnxc_strings_free(out[j].data, out[j].count);
    }
}

// A run that reaches the limit has not failed so far.
static interp_result interpret(search *s, arena *a) {
    program own = *s->p->program;
    diag quiet = {.arena = a, .file = s->p->diag->file};
    tensor *in = ARENA_ARRAY(a, tensor, own.inputs.n + 1), *out = ARENA_ARRAY(a, tensor, own.outputs.n + 1);
    const interp_limits limits = {WORK, MEMORY};
    jmp_buf jump;
    own.diag = &quiet;
    for (int j = 0; j < own.inputs.n; j++) {
        in[j] = input_tensor(s, a, j);
        if (in[j].count < 0) return INTERP_FAILED;
    }
    if (!DIAG_TRY(&quiet, jump)) return INTERP_FAILED;
    const char *message;
    interp_result result = interp_program(&own, a, in, out, limits, &message);
    for (int j = 0; result == INTERP_OK && j < own.outputs.n; j++) s->inputs->counts[j] = out[j].count;
    if (result == INTERP_OK) free_outputs(&own, out);
    return result;
}

static bool runs(search *s) {
    if (s->runs++ > RUNS || !may_run(s)) return false;
    arena *a = arena_within(s->arena);
    fill_values(s, a);
    bool ok = interpret(s, a) != INTERP_FAILED;
    arena_destroy(a);
    return ok;
}

// ---------------------------------------------------------------- the search
static void choose(open_choice *c, int candidate) {
    *c->value = c->at.at[candidate < c->at.n ? candidate : c->at.n - 1];
}

// With `others` choices other than they are, from choice `from` on.
static bool find_some(search *s, int from, int others) {
    if (!others) return runs(s);
    for (int j = from; j < s->choices.n; j++) {
        open_choice *c = &s->choices.at[j];
        int64_t before = *c->value;
        for (int k = 0; k < c->at.n; k++) {
            if (c->at.at[k] == before) continue;
            *c->value = c->at.at[k];
            if (find_some(s, j + 1, others - 1)) return true;
        }
        *c->value = before;
    }
    return false;
}

static bool find_inputs(search *s) {
    for (int others = 0; others <= 2; others++) {
        for (int k = 0; k < USUAL; k++) {
            for (int j = 0; j < s->choices.n; j++) choose(&s->choices.at[j], s->choices.at[j].symbol ? k : 0);
            if (find_some(s, 0, others)) return true;
        }
    }
    return false;
}

example_inputs *example_search(pipeline *p) {
    arena *a = p->arena;
    const interface *io = p->build->io;
    example_inputs *x = ARENA_NEW(a, example_inputs);
    x->sizes = ARENA_ARRAY(a, int64_t, io->symbols.n + 1);
    x->values = ARENA_ARRAY(a, onnxc_value, io->nin + 1);
    x->counts = ARENA_ARRAY(a, int64_t, io->nout + 1);
    search s = {.p = p, .arena = a, .io = io, .inputs = x};
    s.items = ARENA_ARRAY(a, int64_t, io->nin + 1);
    s.ranks = ARENA_ARRAY(a, int64_t, io->nin + 1);
    add_choices(&s);
    x->fails = !find_inputs(&s);
    for (int j = 0; x->fails && j < s.choices.n; j++) choose(&s.choices.at[j], 0);
    fill_values(&s, a);
    return x;
}
