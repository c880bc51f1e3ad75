// In: a function of loops. Out: the same loops in another order.
//   for n { for y { ... } }   becomes   for y { for n { ... } }     (exchange)
//   for y in 0 .. 24 { f(y) } becomes   for y in 0 .. 24 { f(24 - y) }   (reverse)
//   for n { for y { f } } for y { g }   becomes   for y { for n { f } g }   (join)
#include "ir/loops/loops_order.h"
#include <string.h>

// The block that contains the loop, and the instruction before it.
typedef struct place {
    lblock *block;
    ins *before, *loop;
} place;

static int64_t trips(const ins *x) {
    const ins *begin = x->args[0], *end = x->args[1], *step = x->args[2];
    if (begin->op != L_CONST || end->op != L_CONST || step->op != L_CONST || end->i <= begin->i) return -1;
    return (end->i - begin->i - 1) / step->i + 1;
}

// Of memory that the function does not write.
static bool loads_constant(const lfunc *f, const ins *x) {
    const ins *p = x->op == L_LOAD ? x->args[0] : NULL;
    while (p && p->op == L_OFFSET) p = p->args[0];
    if (!p || p->op != L_PARAM) return false;
    return f->params.at[p->i].constant || (f->noalias && f->params.at[p->i].is_const);
}

static bool moves_freely(const lfunc *f, const ins *x) {
    return lop_is_pure(x->op) || x->op == L_PARAM || x->op == L_SYMBOL || x->op == L_OFFSET ||
           lop_class(x->op) == LC_COMMENT || loads_constant(f, x);
}

// The only loop of a block whose other instructions precede it and can move.
static bool only_loop(const lfunc *f, lblock *b, place *found) {
    *found = (place){.block = b};
    for (ins *x = b->first; x; x = x->next) {
        bool loop = x->op == L_FOR && x->role == LOOP_PARALLEL;
        if (found->loop || (!loop && !moves_freely(f, x)))
            return x->op == L_RETURN && !x->nargs && found->loop;
        if (loop) found->loop = x;
        else found->before = x;
    }
    return found->loop != NULL;
}

static bool outermost(lfunc *f, place *found) {
    lblock *b = f->body;
    while (only_loop(f, b, found)) {
        int64_t n = trips(found->loop);
        if (n > 1) return true;
        if (n < 0) return false;
        b = found->loop->body[0];
    }
    return false;
}

static bool depends_on(const ins *x, const ins *loop, const lblock *inside) {
    if (x == loop) return true;
    for (const ins *y = inside->first; y; y = y->next) {
        if (y != x) continue;
        if (y->op != L_CONST) return true; // may depend on the counter
    }
    return false;
}

// Constants that the inner loop's bounds use move before the outer loop.
static void move_constants(const place *outer, const place *inner) {
    lblock *b = inner->block;
    ins *previous = NULL, *last = outer->before;
    for (ins *x = b->first, *next; x != inner->loop; x = next) {
        next = x->next;
        if (x->op != L_CONST) {
            previous = x;
            continue;
        }
        if (previous) previous->next = next;
        else b->first = next;
        if (last) last->next = x;
        else outer->block->first = x;
        x->next = outer->loop;
        last = x;
    }
}

// The loop in it that exchange_loop brings outside.
static bool find_inner(const lfunc *f, const place *outer, place *inner) {
    if (!only_loop(f, outer->loop->body[0], inner) || trips(inner->loop) < 2 || inner->loop->next)
        return false;
    for (int i = 0; i < 3; i++)
        if (depends_on(inner->loop->args[i], outer->loop, inner->block)) return false;
    return true;
}

static void exchange_loop(lfunc *f, place outer, place inner) {
    ins *x = outer.loop, *y = inner.loop;
    move_constants(&outer, &inner);
    // Find what precedes the loops now.
    ins *before_x = NULL, *before_y = NULL;
    for (ins *i = outer.block->first; i != x; i = i->next) before_x = i;
    for (ins *i = inner.block->first; i != y; i = i->next) before_y = i;
    lblock *body = y->body[0], *between = x->body[0];
    // Around both: y in place of x.
    y->next = x->next;
    if (before_x) before_x->next = y;
    else outer.block->first = y;
    if (outer.block->last == x) outer.block->last = y;
    // In y: x, with what was between the loops before the body.
    lblock *only = ARENA_NEW(f->arena, lblock);
    only->first = only->last = x;
    x->next = NULL;
    y->body[0] = only;
    if (before_y) {
        before_y->next = body->first;
        body->first = between->first;
        if (!body->last) body->last = before_y;
    }
    x->body[0] = body;
}

bool loops_exchange(lfunc *f) {
    place outer, inner;
    if (!outermost(f, &outer) || !find_inner(f, &outer, &inner)) return false;
    exchange_loop(f, outer, inner);
    return true;
}

static void replace_uses(lblock *b, const ins *old, ins *by) {
    for (ins *x = b->first; x; x = x->next) {
        for (int i = 0; i < x->nargs; i++)
            if (x->args[i] == old && x != by) x->args[i] = by, by->uses++, ((ins *)old)->uses--;
        for (int i = 0; i < 2; i++)
            if (x->body[i]) replace_uses(x->body[i], old, by);
    }
}

bool loops_reverse(lfunc *f) {
    place p;
    if (!outermost(f, &p)) return false;
    ins *loop = p.loop, *first = loop->body[0]->first, *last = loop->body[0]->last;
    int64_t sum = loop->args[0]->i + loop->args[0]->i + (trips(loop) - 1) * loop->args[2]->i;
    lblock start = {0};
    lbuild b = lbuild_new(f, f->target, NULL);
    b.block = &start;
    ins *all = lb_int(&b, loop->type, sum), *down = lb_op(&b, L_SUB, loop->type, 2, (ins *[]){all, loop});
    replace_uses(loop->body[0], loop, down);
    start.last->next = first;
    loop->body[0]->first = start.first;
    loop->body[0]->last = last ? last : start.last;
    return true;
}

// ---------------------------------------------------------------- join
enum { JOINED_MOST = 8 };

// Parameters through which a function accesses memory.
typedef struct effects {
    arena *arena;
    const lmodule *m;
    bool *loaded, *stored;
} effects;

static bool is_store(const ins *x) { return x->op == L_STORE || x->op == L_STOREN; }

// Of memory of the function's own nothing is to be known, nor of constants.
static bool note_access(effects *e, const ins *pointer, bool loads, bool stores) {
    const ins *root = ins_base(pointer);
    if (root->op == L_LOCAL || (root->op == L_SYMBOL && !stores)) return true;
    if (root->op != L_PARAM) return false;
    e->loaded[root->i] |= loads, e->stored[root->i] |= stores;
    return true;
}

static bool find_effects(effects *e, const lblock *b);

static bool find_effects_of_call(effects *e, const ins *x) {
    const lfunc *f = NULL;
    for (int i = 0; i < e->m->funcs.n && !f; i++)
        if (strcmp(e->m->funcs.at[i]->name, x->name) == 0) f = e->m->funcs.at[i];
    if (!f || !f->body || f->params.n != x->nargs) return false;
    effects of_call = {e->arena, e->m, ARENA_ARRAY(e->arena, bool, x->nargs + 1),
                       ARENA_ARRAY(e->arena, bool, x->nargs + 1)};
    if (!find_effects(&of_call, f->body)) return false;
    for (int i = 0; i < x->nargs; i++)
        if ((of_call.loaded[i] || of_call.stored[i]) &&
            !note_access(e, x->args[i], of_call.loaded[i], of_call.stored[i]))
            return false;
    return true;
}

// False: the block does something else than compute, load and store.
static bool find_effects(effects *e, const lblock *b) {
    for (const ins *x = b->first; x; x = x->next) {
        lclass class = lop_class(x->op);
        bool control = x->op == L_FOR || x->op == L_IF || (x->op == L_RETURN && !x->nargs);
        bool place = class == LC_PLACE || class == LC_POINTER || class == LC_COMMENT || class == LC_VARIABLE;
        if (x->op == L_CALL) {
            if (!find_effects_of_call(e, x)) return false;
        } else if (is_store(x) || x->op == L_LOAD || x->op == L_LOADN) {
            if (!note_access(e, x->args[0], !is_store(x), is_store(x))) return false;
        } else if (!control && !place && !lop_is_pure(x->op)) {
            return false;
        }
        for (int i = 0; i < 2; i++)
            if (x->body[i] && !find_effects(e, x->body[i])) return false;
    }
    return true;
}

static bool reads_results(const lmodule *m, const lfunc *f) {
    effects e = {f->arena, m, ARENA_ARRAY(f->arena, bool, f->params.n + 1),
                 ARENA_ARRAY(f->arena, bool, f->params.n + 1)};
    if (!find_effects(&e, f->body)) return true;
    for (int i = 0; i < f->params.n; i++)
        if (e.loaded[i] && e.stored[i]) return true;
    return false;
}

// The loops of the body, all of them parallel, in order. 0: something else is in it that cannot move.
static int top_loops(const lfunc *f, place *loops) {
    int n = 0;
    ins *before = NULL;
    for (ins *x = f->body->first; x; before = x, x = x->next) {
        if (x->op == L_RETURN && !x->nargs) continue;
        if (x->op != L_FOR || x->role != LOOP_PARALLEL) {
            if (!moves_freely(f, x)) return 0;
            continue;
        }
        if (n == JOINED_MOST || trips(x) < 1) return 0;
        loops[n++] = (place){f->body, before, x};
    }
    return n;
}

static bool same_range(const ins *x, const ins *y) {
    return trips(x) == trips(y) && x->args[0]->i == y->args[0]->i && x->args[2]->i == y->args[2]->i &&
           x->type.kind == y->type.kind;
}

// x's body ends with y's, whose loop is gone. Everything before y moves before x.
static void append_loop(lfunc *f, ins *x, ins *y) {
    ins *before_x = NULL, *before_y = NULL, *last = x->body[0]->first;
    for (ins *i = f->body->first; i != x; i = i->next) before_x = i;
    for (ins *i = f->body->first; i != y; i = i->next) before_y = i;
    if (before_y != x) {
        ins *first = x->next;
        x->next = y->next, before_y->next = x;
        if (before_x) before_x->next = first;
        else f->body->first = first;
    } else {
        x->next = y->next;
    }
    if (f->body->last == y) f->body->last = x;
    replace_uses(y->body[0], y, x);
    while (last->next) last = last->next;
    last->next = y->body[0]->first;
    if (x->body[0]->last) x->body[0]->last = y->body[0]->last;
}

bool loops_join(const lmodule *m, lfunc *f) {
    place loops[JOINED_MOST], inner;
    int n = top_loops(f, loops);
    if (n < 2 || !f->noalias || reads_results(m, f)) return false;
    // The range is that of the last loop, which often is the rest of the first one's columns.
    const ins *range = loops[n - 1].loop;
    bool exchanged[JOINED_MOST];
    for (int j = 0; j < n; j++) {
        exchanged[j] = !same_range(loops[j].loop, range);
        if (exchanged[j] && (!find_inner(f, &loops[j], &inner) || !same_range(inner.loop, range)))
            return false;
    }
    for (int j = 0; j < n; j++)
        if (exchanged[j]) {
            top_loops(f, loops);
            find_inner(f, &loops[j], &inner);
            exchange_loop(f, loops[j], inner);
        }
    for (; n > 1; n--) {
        top_loops(f, loops);
        append_loop(f, loops[0].loop, loops[1].loop);
    }
    return true;
}
