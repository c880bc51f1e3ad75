// In: a function of loops. Out: which instructions are arithmetic on sizes; the function without those that have no uses.
#include "ir/loops/size_trees.h"

static bool is_size(const ins *x) {
    return x->type.lanes == 1 && (x->type.kind == LK_I64 || x->type.kind == LK_I1);
}

static bool is_size_arithmetic(const ins *x) {
    if (!is_size(x) || x->op == L_CONST || !lop_is_pure(x->op) || x->body[0]) return false;
    for (int i = 0; i < x->nargs; i++)
        if (!is_size(x->args[i])) return false;
    return x->nargs > 0;
}

static bool may_loop(const ins *x) { return x->op == L_FOR || x->op == L_LOOP || x->op == L_CALL; }

bool is_innermost_loop(const ins *x, const lblock *body) {
    return (x->op == L_FOR || x->op == L_LOOP) && !lblock_any(body, may_loop);
}

static void find_trees(size_trees *t, const lblock *b, int64_t least, bool inner) {
    for (const ins *x = b->first; x; x = x->next) {
        int n = is_size_arithmetic(x);
        for (int i = 0; n && i < x->nargs; i++) n += t->nodes[x->args[i]->id];
        t->nodes[x->id] = n <= MOST_TREE_NODES ? n : 0;
        bool any = t->nodes[x->id] && (!inner || x->op == L_MUL);
        t->least[x->id] = any ? 0 : least;
        for (int i = 0; i < 2; i++)
            if (x->body[i]) find_trees(t, x->body[i], least, inner || is_innermost_loop(x, x->body[i]));
    }
}

size_trees size_trees_of(arena *a, const lfunc *f, int64_t least) {
    int n = f->nins + 1;
    size_trees t = {f->nins, ARENA_ARRAY(a, int, n), ARENA_ARRAY(a, int64_t, n)};
    find_trees(&t, f->body, least, false);
    return t;
}

// ---------------------------------------------------------------- what has no uses
static bool may_drop(const size_trees *t, const ins *x) {
    return x->op == L_CONST || (x->id < t->n ? t->nodes[x->id] > 0 : is_size_arithmetic(x));
}

static void mark_operands(const size_trees *t, const ins *x, bool *used) {
    for (int i = 0; i < x->nargs; i++)
        if (ins_mark(used, x->args[i]) && may_drop(t, x->args[i])) mark_operands(t, x->args[i], used);
}

static void mark_used(const size_trees *t, const lblock *b, bool *used) {
    for (const ins *x = b->first; x; x = x->next) {
        if (!may_drop(t, x)) mark_operands(t, x, used);
        for (int i = 0; i < 2; i++)
            if (x->body[i]) mark_used(t, x->body[i], used);
    }
}

static void drop_unused(const size_trees *t, lblock *b, const bool *used) {
    ins *before = NULL;
    for (ins *x = b->first; x; x = x->next) {
        for (int i = 0; i < 2; i++)
            if (x->body[i]) drop_unused(t, x->body[i], used);
        if (!may_drop(t, x) || used[x->id]) {
            before = x;
            continue;
        }
        lblock_drop(b, before, x);
    }
    b->last = before;
}

void size_trees_drop(arena *scratch, const size_trees *t, lfunc *f) {
    bool *used = ARENA_ARRAY(scratch, bool, f->nins + 1);
    mark_used(t, f->body, used);
    drop_unused(t, f->body, used);
}
