// In: a module and its entry. Out: how often each block runs. Runs the functions with the integers on which loops and
// conditions depend; a loop whose body does not depend on its counter runs once, and counts for all trips.
#include "ir/loops/loops_count.h"
#include "ir/loops/loops_eval.h"
#include <string.h>

enum { STEPS_MOST = 1 << 26 };

// What is known of a value: a number, or a place in constants of the module.
typedef struct fact {
    bool known;
    int64_t v;         // the number, or the offset in bytes
    const ldata *data; // NULL: a number
} fact;

typedef struct counter {
    arena *arena;
    const lmodule *m;
    void (*visit)(void *user, const counted_block *b);
    void *user;
    map functions, data; // by name
    map needed;          // by function: bool by id of an instruction
    int64_t left;        // steps
    bool failed;
} counter;

typedef struct frame {
    counter *c;
    const lfunc *f, *kernel;
    const bool *needed;
    fact *facts; // by id; of variables: the present value
    bool left;   // the innermost L_LOOP
} frame;

static const fact nothing;

// ---------------------------------------------------------------- control dependences
static const bool *needed_of(counter *c, const lfunc *f);

static const lfunc *callee(const counter *c, const ins *x) {
    const lfunc *f = x->op == L_CALL ? map_get(&c->functions, x->name) : NULL;
    return f && f->body && f->params.n == x->nargs ? f : NULL;
}

static bool mark_arguments(counter *c, bool *needed, const ins *x) {
    const lfunc *f = callee(c, x);
    const bool *inside = f ? needed_of(c, f) : NULL;
    bool changed = false;
    for (int i = 0; f && i < x->nargs; i++)
        if (inside[f->params.at[i].value->id]) changed |= ins_mark(needed, x->args[i]);
    return changed;
}

static bool decides(const lfunc *f, const ins *x) {
    return x->op == L_FOR || x->op == L_BREAK || (x->op == L_IF && !f->arithmetic);
}

static bool mark_operands(counter *c, const lfunc *f, bool *needed, const ins *x) {
    if (x->op == L_CALL) return mark_arguments(c, needed, x);
    bool changed = false, set = x->op == L_SET && needed[x->args[0]->id];
    int n = decides(f, x) || set || needed[x->id] ? x->nargs : 0;
    for (int i = 0; i < n; i++) changed |= ins_mark(needed, x->args[i]);
    return changed;
}

static bool mark_block(counter *c, const lfunc *f, bool *needed, const lblock *b) {
    bool changed = false;
    for (const ins *x = b->first; x; x = x->next) {
        for (int i = 0; i < 2; i++)
            if (x->body[i]) changed |= mark_block(c, f, needed, x->body[i]);
        changed |= mark_operands(c, f, needed, x);
    }
    return changed;
}

static const bool *needed_of(counter *c, const lfunc *f) {
    bool *needed = map_get_number(&c->needed, (uint64_t)(uintptr_t)f);
    if (needed) return needed;
    needed = ARENA_ARRAY(c->arena, bool, f->nins + 1);
    map_put_number(&c->needed, (uint64_t)(uintptr_t)f, needed);
    while (mark_block(c, f, needed, f->body)) {
    }
    return needed;
}

// Whether what control depends on changes between the trips of a loop.
static bool sets_needed(const bool *needed, const lblock *b) {
    for (const ins *x = b->first; x; x = x->next) {
        if (x->op == L_SET && needed[x->args[0]->id]) return true;
        for (int i = 0; i < 2; i++)
            if (x->body[i] && sets_needed(needed, x->body[i])) return true;
    }
    return false;
}

// ---------------------------------------------------------------- values
static fact load(const frame *fr, const ins *x) {
    fact p = fr->facts[x->args[0]->id], index = fr->facts[x->args[1]->id];
    lkind kind = (lkind)x->type.kind;
    if (!p.known || !p.data || !index.known || x->type.lanes > 1 || !lkind_is_int(kind)) return nothing;
    int64_t width = lkind_bytes(kind), at = p.v + index.v * width;
    uint64_t word = 0;
    if (at < 0 || at + width > p.data->bytes) return nothing;
    ldata_copy(p.data, at, &word, width);
    return (fact){true, leval_signed(kind, word), NULL};
}

static fact offset(const frame *fr, const ins *x) {
    fact p = fr->facts[x->args[0]->id], index = fr->facts[x->args[1]->id];
    if (!p.known || !index.known) return nothing;
    p.v += index.v * x->i;
    return p;
}

static fact pure(const frame *fr, const ins *x) {
    enum { OPERANDS = 3 };
    int64_t values[OPERANDS], out;
    if (x->nargs > OPERANDS) return nothing;
    for (int i = 0; i < x->nargs; i++) {
        fact a = fr->facts[x->args[i]->id];
        if (!a.known || a.data) return nothing;
        values[i] = a.v;
    }
    return leval_integer(x, values, &out) ? (fact){true, out, NULL} : nothing;
}

static fact value_of(const frame *fr, const ins *x) {
    if (x->op == L_PARAM) return fr->facts[x->id];
    if (x->op == L_GET || x->op == L_VAR) return fr->facts[x->args[0]->id];
    if (x->op == L_LOAD) return load(fr, x);
    if (x->op == L_OFFSET) return offset(fr, x);
    const ldata *data = x->op == L_SYMBOL ? map_get(&fr->c->data, x->name) : NULL;
    if (data) return (fact){!data->variable, 0, data};
    return lop_is_pure(x->op) ? pure(fr, x) : nothing;
}

// ---------------------------------------------------------------- control
static void run_block(frame *fr, const lblock *b, int number, double times);

static void run_function(counter *c, const lfunc *f, const lfunc *kernel, const fact *args, double times) {
    const lfunc *body = f->original ? f->original : f;
    arena *own = arena_new(); // there may be many calls
    frame fr = {c, body,
                kernel      ? kernel
                : f->kernel ? f
                            : NULL,
                needed_of(c, body), ARENA_ARRAY(own, fact, body->nins + 1)};
    for (int i = 0; i < f->params.n; i++) fr.facts[body->params.at[i].value->id] = args[i];
    run_block(&fr, body->body, 0, times);
    arena_destroy(own);
}

static void run_call(frame *fr, const ins *x, double times) {
    const lfunc *f = callee(fr->c, x);
    if (!f) return;
    arena *own = arena_new();
    fact *args = ARENA_ARRAY(own, fact, x->nargs + 1);
    for (int i = 0; i < x->nargs; i++) args[i] = fr->facts[x->args[i]->id];
    run_function(fr->c, f, fr->kernel, args, times);
    arena_destroy(own);
}

static void run_for(frame *fr, const ins *x, double times) {
    fact begin = fr->facts[x->args[0]->id], end = fr->facts[x->args[1]->id], step = fr->facts[x->args[2]->id];
    if (!begin.known || !end.known || !step.known || step.v <= 0) {
        fr->c->failed = true;
        return;
    }
    if (end.v <= begin.v) return;
    double trips = (double)((end.v - begin.v - 1) / step.v + 1),
           each = lfor_is_unrolled(x) ? times / trips : times;
    int body = lblock_number(x, 0);
    if (!fr->needed[x->id] && !sets_needed(fr->needed, x->body[0])) {
        run_block(fr, x->body[0], body, each * trips);
        return;
    }
    for (int64_t i = begin.v; i < end.v && !fr->c->failed; i += step.v) {
        fr->facts[x->id] = (fact){true, i, NULL};
        run_block(fr, x->body[0], body, each);
    }
}

static bool returns(const lblock *b) { return b && b->last && b->last->op == L_RETURN; }

static void run_loop(frame *fr, const ins *x, double times) {
    while (!fr->left && !fr->c->failed) run_block(fr, x->body[0], lblock_number(x, 0), times);
    fr->left = false;
}

static void run_break(frame *fr, const ins *x) {
    fact leaves = fr->facts[x->args[0]->id];
    fr->c->failed |= !leaves.known;
    fr->left = leaves.v != 0;
}

// How likely a condition is that depends on data: the low bits of a number are below a limit for the limit's share of their
// values, and anything else is even.
static double likelihood(const ins *x) {
    const ins *low = x->args[0], *limit = x->args[1];
    if (x->op != L_SLT || limit->op != L_CONST || low->op != L_AND || low->args[1]->op != L_CONST) return 0.5;
    double values = (double)low->args[1]->i + 1, below = (double)limit->i;
    return below >= 0 && below <= values ? below / values : 0.5;
}

static void run_if(frame *fr, const ins *x, double times) {
    fact known = fr->facts[x->args[0]->id];
    double likely = x->i ? (double)x->i / 100 : likelihood(x->args[0]);
    for (int i = 0; i < 2; i++, likely = 1 - likely) {
        if (!x->body[i] || (known.known && (known.v != 0) != (i == 0))) continue;
        double part = known.known || returns(x->body[1 - i]) ? 1 : returns(x->body[i]) ? 0 : likely;
        if (part > 0) run_block(fr, x->body[i], lblock_number(x, i), part * times);
    }
}

static void run_block(frame *fr, const lblock *b, int number, double times) {
    counter *c = fr->c;
    c->visit(c->user, &(counted_block){fr->kernel, fr->f, number, times});
    for (const ins *x = b->first; x && !c->failed && !fr->left; x = x->next) {
        if (--c->left < 0) c->failed = true;
        else if (x->op == L_LOOP) run_loop(fr, x, times);
        else if (x->op == L_BREAK) run_break(fr, x);
        else if (x->op == L_FOR) run_for(fr, x, times);
        else if (x->op == L_IF) run_if(fr, x, times);
        else if (x->op == L_CALL) run_call(fr, x, times);
        else if (x->op == L_SET) fr->facts[x->args[0]->id] = fr->facts[x->args[1]->id];
        else if (fr->needed[x->id]) fr->facts[x->id] = value_of(fr, x);
    }
}

bool loops_count(arena *scratch, const lmodule *m, const lfunc *entry,
                 void (*visit)(void *user, const counted_block *b), void *user) {
    counter c = {.arena = scratch, .m = m, .visit = visit, .user = user, .left = STEPS_MOST};
    c.functions.arena = c.data.arena = c.needed.arena = scratch;
    for (int i = 0; i < m->funcs.n; i++) map_put(&c.functions, m->funcs.at[i]->name, m->funcs.at[i]);
    for (int i = 0; i < m->data.n; i++) map_put(&c.data, m->data.at[i]->name, m->data.at[i]);
    run_function(&c, entry, NULL, ARENA_ARRAY(scratch, fact, entry->params.n + 1), 1);
    return !c.failed;
}
