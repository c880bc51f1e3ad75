// In: functions of loops. Out: functions that share the bodies of equal ones, and copies of bodies.
#include "ir/loops/loops_share.h"
#include "ir/loops/loops_gpu.h"
#include <string.h>

// ---------------------------------------------------------------- equal bodies
static bool same_text(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

// Two kernels: functions that only call each other; the first one is called from outside.
typedef struct comparison {
    bool named;
    lfunc *const *parts[2];
    int nparts;
} comparison;

static bool same_symbol(const comparison *c, const char *a, const char *b) {
    for (int j = 0; j < c->nparts && a && b; j++)
        if (!strcmp(a, c->parts[0][j]->name)) return !strcmp(b, c->parts[1][j]->name);
    return same_text(a, b);
}

static bool same_name(const comparison *c, const ins *x, const ins *y) {
    if (x->op == L_PARAM) return true;
    if (x->op == L_SYMBOL || x->op == L_CALL) return same_symbol(c, x->name, y->name);
    bool refers = x->op == L_FIELD || x->op == L_SETFIELD;
    return (!refers && !c->named) || same_text(x->name, y->name);
}

static bool same_block(const comparison *c, const lblock *a, const lblock *b);

static bool same_ins(const comparison *c, const ins *x, const ins *y) {
    if (x->op != y->op || x->id != y->id || x->type.kind != y->type.kind || x->type.lanes != y->type.lanes)
        return false;
    if (x->nargs != y->nargs || x->i != y->i || memcmp(&x->f, &y->f, sizeof x->f)) return false;
    if (x->elem != y->elem || x->shared != y->shared || x->align != y->align || x->role != y->role)
        return false;
    for (int j = 0; j < x->nargs; j++)
        if (x->args[j]->id != y->args[j]->id) return false;
    if (!same_name(c, x, y)) return false;
    if (!x->mask != !y->mask || (x->mask && memcmp(x->mask, y->mask, x->type.lanes * sizeof *x->mask)))
        return false;
    if (!x->gpu != !y->gpu || (x->gpu && memcmp(x->gpu, y->gpu, sizeof *x->gpu))) return false;
    return same_block(c, x->body[0], y->body[0]) && same_block(c, x->body[1], y->body[1]);
}

static bool same_block(const comparison *c, const lblock *a, const lblock *b) {
    const ins *x = a ? a->first : NULL, *y = b ? b->first : NULL;
    for (; x && y; x = x->next, y = y->next)
        if (!same_ins(c, x, y)) return false;
    return !x && !y && !a == !b;
}

bool lblock_same(const lblock *a, const lblock *b, bool named) {
    return same_block(&(comparison){.named = named}, a, b);
}

static bool same_function(const comparison *c, const lfunc *f, const lfunc *g) {
    if (f->target != g->target || f->nins != g->nins || f->params.n != g->params.n) return false;
    if (f->result.kind != g->result.kind || f->result.lanes != g->result.lanes || f->kernel != g->kernel ||
        f->exported != g->exported || f->strict_fp != g->strict_fp || f->half_vectors != g->half_vectors)
        return false;
    for (int j = 0; j < f->params.n; j++) {
        const lparam *p = &f->params.at[j], *q = &g->params.at[j];
        if (p->type.kind != q->type.kind || p->type.lanes != q->type.lanes || p->elem != q->elem ||
            p->dtype != q->dtype || p->is_const != q->is_const || p->constant != q->constant ||
            p->value->id != q->value->id || !same_text(p->ctype, q->ctype))
            return false;
    }
    return same_block(c, f->body, g->body);
}

static uint64_t block_hash(uint64_t h, const lblock *b) {
    for (const ins *x = b->first; x; x = x->next) {
        int64_t facts[] = {x->op, x->type.kind, x->type.lanes, x->id, x->i, x->nargs};
        h = hash_bytes(h, facts, sizeof facts);
        h = hash_bytes(h, &x->f, sizeof x->f);
        for (int j = 0; j < 2; j++)
            if (x->body[j]) h = block_hash(h, x->body[j]);
    }
    return h;
}

static uint64_t kernel_hash(lfunc *const *own, int n) {
    uint64_t h = HASH_SEED;
    for (int j = 0; j < n; j++) {
        h = hash_bytes(h, &own[j]->target, sizeof own[j]->target);
        h = block_hash(h, own[j]->body);
    }
    return h;
}

// Of functions without a body only the declaration is in the module: it may be missing for the second kernel.
static bool have_bodies(lfunc *const *own, int n) {
    for (int j = 0; j < n; j++)
        if (!own[j]->body) return false;
    return true;
}

typedef struct known_kernel {
    int first, n;
} known_kernel;

lfunc *lfunc_original(const lmodule *m, map *bodies, int first) {
    lfunc *const *own = m->funcs.at + first;
    int n = m->funcs.n - first;
    if (!have_bodies(own, n)) return NULL;
    uint64_t hash = kernel_hash(own, n);
    known_kernel *known = map_get_number(bodies, hash);
    if (!known) {
        known = ARENA_NEW(bodies->arena, known_kernel);
        *known = (known_kernel){first, n};
        map_put_number(bodies, hash, known);
        return NULL;
    }
    if (known->n != n) return NULL;
    comparison c = {true, {m->funcs.at + known->first, own}, n};
    for (int j = 0; j < n; j++)
        if (!same_function(&c, c.parts[0][j], c.parts[1][j])) return NULL;
    return c.parts[0][0];
}

// ---------------------------------------------------------------- functions that share
lfunc *lfunc_sharing(lmodule *m, const lfunc *f, lfunc *original) {
    lfunc *own = ARENA_NEW(m->arena, lfunc);
    *own = *f;
    own->arena = m->arena;
    own->name = arena_strdup(m->arena, f->name);
    own->comment = f->comment ? arena_strdup(m->arena, f->comment) : NULL;
    own->original = original;
    own->body = original->body;
    own->params.at = NULL;
    own->params.n = own->params.cap = 0;
    for (int i = 0; i < f->params.n; i++) {
        lparam p = f->params.at[i];
        p.name = arena_strdup(m->arena, p.name);
        p.value = original->params.at[i].value;
        VEC_PUSH(m->arena, &own->params, p);
    }
    return own;
}

void lfunc_follow(lfunc *f) {
    if (!f->original) return;
    f->nins = f->original->nins;
    for (int i = f->params.n; i < f->original->params.n; i++)
        VEC_PUSH(f->arena, &f->params, f->original->params.at[i]);
}

// ---------------------------------------------------------------- copies
typedef struct copying {
    arena *arena;
    ins **now; // by id
} copying;

static lblock *copy_block(const copying *c, const lblock *b);

static ins *copy_ins(const copying *c, const ins *x) {
    ins *y = c->now[x->id] = ARENA_NEW(c->arena, ins);
    *y = *x;
    y->next = NULL;
    if (x->nargs) y->args = ARENA_ARRAY(c->arena, ins *, x->nargs);
    for (int i = 0; i < x->nargs; i++) y->args[i] = c->now[x->args[i]->id];
    for (int i = 0; i < 2; i++)
        if (x->body[i]) y->body[i] = copy_block(c, x->body[i]);
    return y;
}

static lblock *copy_block(const copying *c, const lblock *b) {
    lblock *copy = ARENA_NEW(c->arena, lblock);
    for (const ins *x = b->first; x; x = x->next) {
        ins *y = copy_ins(c, x);
        if (copy->last) copy->last->next = y;
        else copy->first = y;
        copy->last = y;
    }
    return copy;
}

static void copy_body(lfunc *f) {
    arena *scratch = arena_within(f->arena);
    copying c = {f->arena, ARENA_ARRAY(scratch, ins *, f->nins + 1)};
    f->body = copy_block(&c, f->body);
    for (int i = 0; i < f->params.n; i++) f->params.at[i].value = c.now[f->params.at[i].value->id];
    f->original = NULL;
    arena_destroy(scratch);
}

lfunc lfunc_copy(const lfunc *f) {
    lfunc copy = *f;
    copy.params.at = NULL;
    copy.params.n = copy.params.cap = 0;
    for (int i = 0; i < f->params.n; i++) VEC_PUSH(f->arena, &copy.params, f->params.at[i]);
    copy_body(&copy);
    return copy;
}

void lfunc_share(lfunc *f, lfunc *original) {
    f->original = original;
    f->body = original->body;
    for (int i = 0; i < f->params.n; i++) f->params.at[i].value = original->params.at[i].value;
}

void lfuncs_separate(lmodule *m) {
    arena *scratch = arena_within(m->arena);
    map other = {.arena = scratch}; // the original of the functions that differ from an original
    for (int i = 0; i < m->funcs.n; i++) {
        lfunc *f = m->funcs.at[i];
        if (!f->original || f->noalias == f->original->noalias) continue;
        lfunc *first = map_get_number(&other, (uint64_t)(uintptr_t)f->original);
        if (first) lfunc_share(f, first);
        else map_put_number(&other, (uint64_t)(uintptr_t)f->original, f), copy_body(f);
    }
    arena_destroy(scratch);
}
