// In: a function of loops. Out: the same loops in another order.
//   for n { for y { ... } }   becomes   for y { for n { ... } }     (exchange)
//   for y in 0 .. 24 { f(y) } becomes   for y in 0 .. 24 { f(24 - y) }   (reverse)
#include "ir/loops/loops_order.h"

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

bool loops_exchange(lfunc *f) {
    place outer, inner;
    if (!outermost(f, &outer) || !only_loop(f, outer.loop->body[0], &inner) || trips(inner.loop) < 2)
        return false;
    for (int i = 0; i < 3; i++)
        if (depends_on(inner.loop->args[i], outer.loop, inner.block)) return false;
    ins *x = outer.loop, *y = inner.loop;
    if (y->next) return false;
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
