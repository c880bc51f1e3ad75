// Symbolic sizes for which the model allows one number only, such as the channels of an image that a convolution with
// constant weights reads. In: a graph with checks. Out: the same with that number, so that callers need not give it.
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
    c->changed = m->required.n > before;
    if (c->changed) replace_required_sizes(m);
}
