// Symbolic sizes for which the model allows one number only, such as the channels of an image that a convolution with
// constant weights reads. In: a graph with checks. Out: the same with that number, so that callers need not give it. With
// --state also: symbols that may not exceed the fixed size of a state.
#include "passes/passes.h"
#include <string.h>

typedef struct search {
    module *module;
    map runs;  // places of nodes, which run in any case
    map found; // symbols
} search;

static bool has_versions(const pass_context *c, const dim *symbol) {
    for (int i = 0; i < c->versions.n; i++)
        if (strcmp(c->versions.at[i], symbol->name) == 0) return true;
    return false;
}

static void see_check(const pass_context *c, search *s, dim *symbol, const dim *number) {
    if (symbol->kind != DIM_SYMBOL || !dim_is_const(number) || has_versions(c, symbol)) return;
    if (map_get_number(&s->found, (uint64_t)symbol->id)) return;
    map_put_number(&s->found, (uint64_t)symbol->id, symbol);
    VEC_PUSH(s->module->arena, &s->module->required, ((required_size){symbol->name, dim_value(number)}));
}

static const value *input_of_name(const graph *g, const char *name) {
    for (int j = 0; j < g->inputs.n; j++)
        if (strcmp(g->inputs.at[j]->name, name) == 0) return g->inputs.at[j];
    return NULL;
}

const value *state_input(const pass_context *c, const graph *g, int j) {
    size_t n = strlen(g->output_names.at[j]);
    for (int i = 0; i < c->states.n; i++) {
        const char *s = c->states.at[i];
        if (strncmp(s, g->output_names.at[j], n) == 0 && s[n] == '=') return input_of_name(g, s + n + 1);
    }
    return NULL;
}

// A cache of 2048 rows that comes back with max(total, 2048): with more, it would no longer be that size.
static bool bound_by_state(const pass_context *c, const dim *size, const dim *now) {
    if (!dim_is_const(size) || now->kind != DIM_MAX) return false;
    dim *symbol = now->a == size ? now->b : now->a;
    if ((now->a != size && now->b != size) || symbol->kind != DIM_SYMBOL || has_versions(c, symbol) ||
        symbol->min > dim_value(size) || symbol->max <= dim_value(size))
        return false;
    dim_bound(symbol, symbol->min, dim_value(size), 1);
    return true;
}

static void bound_by_states(pass_context *c) {
    const graph *g = c->module->main;
    bool bound = false;
    for (int j = 0; j < g->outputs.n && c->states.n; j++) {
        const value *in = state_input(c, g, j), *out = g->outputs.at[j];
        if (!in || in->type.kind != TYPE_TENSOR || out->type.kind != TYPE_TENSOR || in->type.rank < 0 ||
            in->type.rank != out->type.rank)
            continue;
        for (int i = 0; i < in->type.rank; i++)
            bound |= bound_by_state(c, in->type.dims[i], out->type.dims[i]);
    }
    if (bound) rebuild_sizes(c->module);
    c->changed |= bound;
}

static search search_new(module *m, arena *scratch) {
    search s = {.module = m, .runs = {.arena = scratch}, .found = {.arena = scratch}};
    for (int j = 0; j < m->main->nodes.n; j++) {
        node *n = m->main->nodes.at[j];
        map_put_number(&s.runs, (uint64_t)(uintptr_t)n->loc, n);
    }
    return s;
}

void pass_sizes(pass_context *c) {
    module *m = c->module;
    bound_by_states(c);
    if (c->derived || m->streams.n) return;
    arena *scratch = arena_new();
    search s = search_new(m, scratch);
    int before = m->required.n;
    for (int j = 0; j < m->checks.n; j++) {
        const dim_check *check = &m->checks.at[j];
        if (check->in != m->main || !map_get_number(&s.runs, (uint64_t)(uintptr_t)check->at)) continue;
        see_check(c, &s, check->a, check->b);
        see_check(c, &s, check->b, check->a);
    }
    arena_destroy(scratch);
    if (m->required.n == before) return;
    replace_required_sizes(m);
    c->changed = true;
}
