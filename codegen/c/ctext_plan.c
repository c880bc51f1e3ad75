// In: a function. Out: a side table with the live instructions, their positions, values that can be inlined
// into their only user, and integers that are indices and cannot overflow.
#include "codegen/c/ctext_impl.h"

static cinfo *at(const cfn *c, const ins *x) { return info_of(c, x); }

bool cplan_has_effect(const ins *x) {
    lclass c = lop_class(x->op);
    bool writes = (c == LC_MEMORY || c == LC_POINTER) && x->type.kind == LK_VOID && x->op != L_PREFETCH;
    return writes || c == LC_CALL || c == LC_THREADS || c == LC_GPU || x->op == L_BREAK || x->op == L_RETURN;
}

static bool writes_memory(const ins *x) {
    return cplan_has_effect(x) && x->op != L_BREAK && x->op != L_RETURN;
}

// ---------------------------------------------------------------- positions

// The local array that x stores into; NULL: other memory.
static const ins *stored_local(const ins *x) {
    if (x->op != L_STORE && x->op != L_STOREN && x->op != L_SCATTER) return NULL;
    const ins *base = x->args[0];
    while (base->op == L_OFFSET) base = base->args[0];
    return base->op == L_LOCAL ? base : NULL;
}

static void link_write(cfn *c, const ins *to, const ins *x) {
    if (!to) return;
    at(c, x)->next_set = at(c, to)->sets;
    at(c, to)->sets = x;
}

static void place(cfn *c, const lblock *b, const ins *parent) {
    for (const ins *x = b->first; x; x = x->next) {
        cinfo *n = at(c, x);
        n->parent = parent;
        n->block = b;
        n->pos = n->end = c->order.n;
        VEC_PUSH(c->arena, &c->order, x);
        c->mod->doubles |= x->type.kind == LK_F64;
        link_write(c, x->op == L_SET ? x->args[0] : stored_local(x), x);
        for (int k = 0; k < 2; k++)
            if (x->body[k]) place(c, x->body[k], x);
        n->end = c->order.n - 1;
    }
}

// Propagates effects to enclosing structures.
static void propagate_effects(cfn *c) {
    for (int i = c->order.n - 1; i >= 0; i--) {
        const ins *x = c->order.at[i];
        cinfo *n = at(c, x);
        if (n->state == STATE_DEAD) continue;
        if (x->op == L_SET) n->vars = 1ull << (x->args[0]->id & 63);
        if (writes_memory(x)) n->writes = true;
        if (x->op == L_BARRIER || x->op == L_SHFL_XOR || x->op == L_CALL || x->op == L_GPU) n->syncs = true;
        if (!n->parent) continue;
        at(c, n->parent)->writes |= n->writes;
        at(c, n->parent)->syncs |= n->syncs;
        at(c, n->parent)->vars |= n->vars;
    }
    for (int i = 0; i < c->order.n; i++)
        if (c->order.at[i]->op == L_SET) at(c, c->order.at[i])->vars = 0;
}

// ---------------------------------------------------------------- liveness

typedef VEC(const ins *) worklist;

static void mark_live(cfn *c, worklist *w, const ins *x) {
    if (!x || at(c, x)->state != STATE_DEAD) return;
    at(c, x)->state = STATE_LIVE;
    VEC_PUSH(c->arena, w, x);
}

static void use(cfn *c, const ins *user, const ins *x) {
    cinfo *n = at(c, x);
    n->local = !n->uses++ && n->block == at(c, user)->block;
    n->user = user;
}

// A live variable or array keeps the assignments to it alive, a live instruction the structures around it.
static void find_live(cfn *c) {
    worklist w = {0};
    for (int i = 0; i < c->order.n; i++)
        if (cplan_has_effect(c->order.at[i]) && !stored_local(c->order.at[i]))
            mark_live(c, &w, c->order.at[i]);
    while (w.n) {
        const ins *x = w.at[--w.n];
        mark_live(c, &w, at(c, x)->parent);
        for (int k = 0; k < x->nargs && cexpr_known(x) < 0; k++) {
            mark_live(c, &w, x->args[k]);
            use(c, x, x->args[k]);
        }
        if (x->op == L_VAR || x->op == L_LOCAL)
            for (const ins *s = at(c, x)->sets; s; s = at(c, s)->next_set) mark_live(c, &w, s);
    }
}

// ---------------------------------------------------------------- rematerialisation

// End of the live range of x. A use in a loop that does not contain x extends it to the end of the loop.
static int last_use(cfn *c, const ins *x) {
    int last = at(c, x)->pos;
    for (int i = last + 1; i < c->order.n; i++) {
        const ins *u = c->order.at[i];
        for (int k = 0; k < u->nargs; k++) {
            if (u->args[k] != x || at(c, u)->state == STATE_DEAD) continue;
            int end = i;
            for (const ins *p = at(c, u)->parent; p && p != at(c, x)->parent; p = at(c, p)->parent)
                if (p->op == L_FOR || p->op == L_LOOP) end = at(c, p)->end + 1;
            if (end > last) last = end;
        }
    }
    return last;
}

// A variable can be read at each use if it is not assigned in between.
static bool get_repeats(cfn *c, const ins *x) {
    int from = at(c, x)->pos, last = last_use(c, x);
    for (const ins *s = at(c, x->args[0])->sets; s; s = at(c, s)->next_set)
        if (at(c, s)->state != STATE_DEAD && at(c, s)->pos > from && at(c, s)->pos < last) return false;
    return true;
}

// So can a member of a struct that the function does not change.
static bool field_repeats(cfn *c, const ins *x) {
    const ins *base = x->args[0];
    if (base->op == L_FIELD) return at(c, base)->alias;
    if (base->op != L_PARAM || !c->f->params.at[base->i].ctype) return false;
    if (c->f->params.at[base->i].is_const) return true;
    for (int i = 0; i < c->order.n; i++) {
        const ins *u = c->order.at[i];
        if (u->op == L_SETFIELD && !strcmp(u->name, x->name)) return false;
        for (int k = 0; k < u->nargs; k++)
            if (u->args[k] == base && u->op != L_FIELD && u->op != L_SETFIELD && u->op != L_EQ &&
                u->op != L_NE)
                return false;
    }
    return true;
}

static void find_aliases(cfn *c) {
    for (int i = 0; i < c->order.n; i++) {
        const ins *x = c->order.at[i];
        if (at(c, x)->state == STATE_DEAD) continue;
        if (x->op == L_GET && !(at(c, x)->local && at(c, x)->uses == 1)) at(c, x)->alias = get_repeats(c, x);
        if (x->op == L_FIELD) at(c, x)->alias = field_repeats(c, x);
    }
}

// ---------------------------------------------------------------- indices

static bool is_arithmetic(lop op) {
    lclass c = lop_class(op);
    return c == LC_ARITHMETIC || c == LC_MIN_MAX || c == LC_DIVIDE;
}

static bool forwards(lop op) {
    return op == L_SELECT || op == L_SPLAT || op == L_EXTRACT || op == L_VAR || op == L_GET;
}

// Whether operand k of u is part of an address, a bound or a comparison, by the marks so far.
static bool is_index_use(const cfn *c, const ins *u, int k) {
    static const uint8_t operands[L_COUNT] = {
        [L_LOAD] = 2,   [L_GATHER] = 2, [L_STORE] = 2,   [L_SCATTER] = 2, [L_ATOMIC_ADD] = 2,
        [L_OFFSET] = 2, [L_LOADN] = 6,  [L_STOREN] = 10, [L_FOR] = 7,     [L_EQ] = 3,
        [L_NE] = 3,     [L_SLT] = 3,    [L_SLE] = 3,
    };
    if (u->op == L_SET) return k == 0 || !at(c, u->args[0])->data;
    if (is_arithmetic(u->op) || forwards(u->op)) return !at(c, u)->data;
    return operands[u->op] >> k & 1;
}

static bool mark_data(cfn *c) {
    bool changed = false;
    for (int i = c->order.n - 1; i >= 0; i--) {
        const ins *u = c->order.at[i];
        if (at(c, u)->state == STATE_DEAD) continue;
        for (int k = 0; k < u->nargs; k++) {
            cinfo *n = at(c, u->args[k]);
            if (n->data || is_index_use(c, u, k)) continue;
            n->data = changed = true;
        }
    }
    return changed;
}

static bool args_small(const cfn *c, const ins *x, int from) {
    for (int k = from; k < x->nargs; k++)
        if (!at(c, x->args[k])->small) return false;
    return true;
}

static bool is_small(const cfn *c, const ins *x) {
    if (x->op == L_CONST) return x->i > -(1ll << 31) && x->i < 1ll << 31;
    if (x->op == L_PARAM) return c->f->kernel;
    if (x->op == L_VAR)
        for (const ins *s = at(c, x)->sets; s; s = at(c, s)->next_set)
            if (!at(c, s->args[1])->small) return false;
    if (is_arithmetic(x->op) || forwards(x->op)) return args_small(c, x, x->op == L_SELECT);
    return x->op == L_FOR;
}

// Greatest fixed point: starts with everything small. Variables and loops need several rounds.
static bool mark_small(cfn *c) {
    bool changed = false;
    for (int i = 0; i < c->order.n; i++) {
        cinfo *n = at(c, c->order.at[i]);
        if (!n->small || is_small(c, c->order.at[i])) continue;
        n->small = false;
        changed = true;
    }
    return changed;
}

static int kind_bits(lkind k) { return k == LK_I1 ? 2 : 8 * lkind_bytes(k); }

static int const_bits(int64_t v) {
    uint64_t u = (uint64_t)(v < 0 ? ~v : v);
    int n = 1;
    while (u >> (n - 1)) n++;
    return n;
}

// Bits of the value as a signed number, at most the bits of its kind.
static int value_bits(const ins *x, int depth) {
    int all = kind_bits(x->type.kind), n = all;
    const ins *a = x->nargs > 0 ? x->args[0] : NULL, *b = x->nargs > 1 ? x->args[1] : NULL;
    if (depth == 0) return all;
    if (x->op == L_CONST) n = const_bits(x->i);
    if (x->op == L_SEXT) n = value_bits(a, depth - 1);
    if (x->op == L_ZEXT) n = kind_bits(a->type.kind) + (a->type.kind != LK_I1);
    if (x->op == L_AND && b->op == L_CONST && b->i >= 0) n = const_bits(b->i);
    if (x->op == L_FOR && a->op == L_CONST && a->i >= 0 && b->op == L_CONST) n = const_bits(b->i);
    if (x->op == L_ADD || x->op == L_SUB || x->op == L_MUL || x->op == L_SMIN || x->op == L_SMAX) {
        int p = value_bits(a, depth - 1), q = value_bits(b, depth - 1);
        n = x->op == L_MUL ? p + q : (p > q ? p : q) + (x->op == L_ADD || x->op == L_SUB);
    }
    return n < all ? n : all;
}

bool cplan_no_wrap(const cfn *c, const ins *x) {
    if (kind_bits(x->type.kind) < 32) return true; // computed in int, then truncated
    if (!at(c, x)->data && at(c, x)->small) return true;
    int a = value_bits(x->args[0], 5), b = value_bits(x->args[1], 5);
    return (x->op == L_MUL ? a + b : (a > b ? a : b) + 1) <= kind_bits(x->type.kind);
}

// ---------------------------------------------------------------- pointers

static void note_access(cfn *c, const ins *ptr, lkind k) {
    cinfo *n = at(c, ptr);
    if (n->access && n->access != k) n->mixed = true;
    n->access = k;
}

// Accesses through a pointer count for its base pointer, too, if the offset is a multiple of the element.
static void find_accesses(cfn *c) {
    for (int i = c->order.n - 1; i >= 0; i--) {
        const ins *x = c->order.at[i];
        lkind own = at(c, x)->access;
        if (at(c, x)->state == STATE_DEAD) continue;
        if (x->op == L_LOAD || x->op == L_LOADN || x->op == L_GATHER)
            note_access(c, x->args[0], x->type.kind);
        if (x->op == L_STORE || x->op == L_STOREN || x->op == L_SCATTER || x->op == L_ATOMIC_ADD)
            note_access(c, x->args[0], x->args[2]->type.kind);
        if (!own) continue;
        if (x->op == L_GET) {
            note_access(c, x->args[0], own);
            at(c, x->args[0])->mixed |= at(c, x)->mixed;
        }
        if (x->op == L_OFFSET && !at(c, x)->mixed && x->i % lkind_bytes(own) == 0)
            note_access(c, x->args[0], own);
    }
}

void ctext_plan(cfn *c) {
    place(c, c->f->body, NULL);
    find_live(c);
    propagate_effects(c);
    find_aliases(c);
    find_accesses(c);
    while (mark_data(c)) {
    }
    for (int i = 0; i < c->order.n; i++) at(c, c->order.at[i])->small = true;
    while (mark_small(c)) {
    }
}
