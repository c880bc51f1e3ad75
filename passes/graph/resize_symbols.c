// Substitution of symbols that a pass has resolved, in all types, contents and checks of a module.
#include "passes/passes.h"

typedef struct replacement {
    dim **before, **now;
    int count;
} replacement;

static dim *replaced(void *user, dim *atom) {
    const replacement *r = user;
    for (int i = 0; i < r->count; i++)
        if (r->before[i] == atom) return r->now[i];
    return atom;
}

static void replace_in(dim **d, int count, replacement *r) {
    for (int i = 0; i < count; i++) d[i] = dim_substitute(d[i], replaced, r);
}

static void replace_in_value(module *m, value *v, replacement *r) {
    if (v->type.kind == TYPE_TENSOR && v->type.rank > 0) {
        v->type = type_tensor(m->arena, v->type.elem, v->type.rank, v->type.dims); // the dims may be shared
        replace_in(v->type.dims, v->type.rank, r);
    }
    if (v->contents) replace_in(v->contents, v->ncontents, r);
}

static void replace_everywhere(module *m, replacement *r) {
    for (int j = 0; j < m->values.n; j++) replace_in_value(m, m->values.at[j], r);
    for (int j = 0; j < m->checks.n; j++)
        replace_in(&m->checks.at[j].a, 1, r), replace_in(&m->checks.at[j].b, 1, r);
}

bool replace_unknown_dims(module *m, dim *const *before, dim *const *now, int count) {
    // copied: `before` may point into what changes
    replacement r = {.before = ARENA_ARRAY(m->arena, dim *, count + 1),
                     .now = ARENA_ARRAY(m->arena, dim *, count + 1)};
    for (int i = 0; i < count; i++) {
        if (before[i]->kind != DIM_OPAQUE || before[i] == now[i]) continue;
        r.before[r.count] = before[i];
        r.now[r.count++] = now[i];
    }
    if (r.count) replace_everywhere(m, &r);
    return r.count > 0;
}

void replace_required_sizes(module *m) {
    int n = m->required.n;
    replacement r = {ARENA_ARRAY(m->arena, dim *, n + 1), ARENA_ARRAY(m->arena, dim *, n + 1), n};
    for (int i = 0; i < n; i++) {
        r.before[i] = dim_symbol(m->dims, m->required.at[i].symbol);
        r.now[i] = dim_const(m->dims, m->required.at[i].size);
    }
    if (n) replace_everywhere(m, &r);
}

void rebuild_sizes(module *m) { replace_everywhere(m, &(replacement){0}); }
