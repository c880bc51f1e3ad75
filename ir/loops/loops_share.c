// In: functions of loops. Out: functions that share the bodies of equal ones, and copies of bodies.
#include "ir/loops/loops_share.h"
#include "ir/loops/loops_gpu.h"
#include <string.h>

// ---------------------------------------------------------------- equal bodies
static bool same_text(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

static bool same_name(const ins *x, const ins *y, bool named) {
    bool refers = x->op == L_SYMBOL || x->op == L_CALL || x->op == L_FIELD || x->op == L_SETFIELD;
    return (!refers && !named) || x->op == L_PARAM || same_text(x->name, y->name);
}

static bool same_ins(const ins *x, const ins *y, bool named) {
    if (x->op != y->op || x->id != y->id || x->type.kind != y->type.kind || x->type.lanes != y->type.lanes)
        return false;
    if (x->nargs != y->nargs || x->i != y->i || memcmp(&x->f, &y->f, sizeof x->f)) return false;
    if (x->elem != y->elem || x->shared != y->shared || x->align != y->align || x->role != y->role)
        return false;
    for (int j = 0; j < x->nargs; j++)
        if (x->args[j]->id != y->args[j]->id) return false;
    if (!same_name(x, y, named)) return false;
    if (!x->mask != !y->mask || (x->mask && memcmp(x->mask, y->mask, x->type.lanes * sizeof *x->mask)))
        return false;
    if (!x->gpu != !y->gpu || (x->gpu && memcmp(x->gpu, y->gpu, sizeof *x->gpu))) return false;
    return lblock_same(x->body[0], y->body[0], named) && lblock_same(x->body[1], y->body[1], named);
}

bool lblock_same(const lblock *a, const lblock *b, bool named) {
    const ins *x = a ? a->first : NULL, *y = b ? b->first : NULL;
    for (; x && y; x = x->next, y = y->next)
        if (!same_ins(x, y, named)) return false;
    return !x && !y && !a == !b;
}

static bool same_function(const lfunc *f, const lfunc *g) {
    if (f->target != g->target || f->nins != g->nins || f->params.n != g->params.n) return false;
    if (f->result.kind != g->result.kind || f->result.lanes != g->result.lanes || f->kernel != g->kernel ||
        f->exported != g->exported || f->strict_fp != g->strict_fp || f->half_vectors != g->half_vectors)
        return false;
    for (int j = 0; j < f->params.n; j++) {
        const lparam *p = &f->params.at[j], *q = &g->params.at[j];
        if (p->type.kind != q->type.kind || p->type.lanes != q->type.lanes || p->elem != q->elem ||
            p->dtype != q->dtype || p->is_const != q->is_const || p->value->id != q->value->id ||
            !same_text(p->ctype, q->ctype))
            return false;
    }
    return lblock_same(f->body, g->body, true);
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

lfunc *lfunc_original(map *bodies, lfunc *f) {
    const struct target *t = f->target;
    uint64_t hash = block_hash(hash_bytes(HASH_SEED, &t, sizeof t), f->body);
    lfunc *known = map_get_number(bodies, hash);
    if (!known) map_put_number(bodies, hash, f);
    return known && same_function(known, f) ? known : NULL;
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

static void share_body(lfunc *f, lfunc *original) {
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
        if (first) share_body(f, first);
        else map_put_number(&other, (uint64_t)(uintptr_t)f->original, f), copy_body(f);
    }
    arena_destroy(scratch);
}
