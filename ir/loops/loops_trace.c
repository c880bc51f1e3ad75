// In: a function and the memory to watch. Out: times of the accesses. Runs the function with integers and pointers only;
// everything else is unknown, as are elements of memory. Both branches of an unknown condition run. Instructions on which
// neither addresses nor trip counts depend are left out.
#include "ir/loops/loops_trace.h"
#include "ir/loops/loops_eval.h"
#include <string.h>

typedef enum known { UNKNOWN, NUMBER, WATCHED, ELSEWHERE } known; // ELSEWHERE: a pointer to other memory
typedef struct fact {
    known kind;
    int memory; // WATCHED
    int64_t v;  // NUMBER; WATCHED: bytes from its start
} fact;

typedef struct tracer {
    arena *arena;
    const lmodule *m;
    traced_memory *memory;
    int64_t left;  // steps
    uint32_t time; // of the last access
    map paths;     // by function
    bool failed;
} tracer;

// What runs of a function, by id of an instruction.
typedef struct path {
    const int *of_param; // as of loops_trace; NULL: parameters may be any memory
    bool *needed;        // its value is
    const ins **next;    // that runs
} path;

typedef struct frame {
    tracer *t;
    const lfunc *f;
    const path *path;
    fact *facts; // by id; of variables: the present value
} frame;

static const fact nothing = {UNKNOWN, 0, 0};

// ---------------------------------------------------------------- address dependences
static bool is_access(const ins *x) { return lop_class(x->op) == LC_MEMORY; }

// How many lanes of a partial vector exist. NULL: all.
static const ins *lanes_there(const ins *x) {
    return x->op == L_LOADN ? x->args[2] : x->op == L_STOREN ? x->args[3] : NULL;
}

// Whether the access is to memory that is not watched, whatever the arguments of a call are.
static bool is_elsewhere(const path *p, const ins *x) {
    const ins *place = ins_base(x->args[0]);
    if (lop_class(place->op) != LC_PLACE) return false;
    return place->op != L_PARAM || (p->of_param && p->of_param[place->i] < 0);
}

static bool runs(const path *p, const ins *x) {
    lclass class = lop_class(x->op);
    if (class == LC_MEMORY) return !is_elsewhere(p, x);
    if (x->op == L_SET) return p->needed[x->args[0]->id];
    return class == LC_CONTROL || class == LC_CALL || class == LC_TILE || class == LC_THREADS ||
           class == LC_GPU || p->needed[x->id];
}

// Operands whose values matter: of accesses the pointer, the index and the number of lanes, of stores into variables the
// value if the variable is needed.
static bool mark_operands(const path *p, const ins *x) {
    if (is_access(x) && is_elsewhere(p, x)) return false;
    bool changed = false, whole = x->op == L_CALL || lop_class(x->op) == LC_CONTROL || p->needed[x->id];
    int n = is_access(x) ? 2 : whole ? x->nargs : 0;
    if (x->op == L_SET && p->needed[x->args[0]->id]) n = 2;
    for (int i = 0; i < n; i++) changed |= ins_mark(p->needed, x->args[i]);
    if (lanes_there(x)) changed |= ins_mark(p->needed, lanes_there(x));
    return changed;
}

static bool mark_block(const path *p, const lblock *b) {
    bool changed = false;
    for (const ins *x = b->first; x; x = x->next) {
        for (int i = 0; i < 2; i++)
            if (x->body[i]) changed |= mark_block(p, x->body[i]);
        changed |= mark_operands(p, x);
    }
    return changed;
}

static void link_block(path *p, const lblock *b) {
    const ins *last = NULL; // instructions from it on wait for the next one that runs
    for (const ins *x = b->first; x; x = x->next) {
        for (int i = 0; i < 2; i++)
            if (x->body[i]) link_block(p, x->body[i]);
        if (!runs(p, x)) continue;
        for (last = last ? last : b->first; last != x; last = last->next) p->next[last->id] = x;
    }
}

static const path *path_of(tracer *t, const lfunc *f, const int *of_param) {
    path *p = map_get_number(&t->paths, (uint64_t)(uintptr_t)f);
    if (p) return p;
    p = ARENA_NEW(t->arena, path);
    *p = (path){of_param, ARENA_ARRAY(t->arena, bool, f->nins + 1),
                ARENA_ARRAY(t->arena, const ins *, f->nins + 1)};
    while (mark_block(p, f->body)) {
    }
    link_block(p, f->body);
    map_put_number(&t->paths, (uint64_t)(uintptr_t)f, p);
    return p;
}

// ---------------------------------------------------------------- accesses
static void note_access(tracer *t, fact p, int64_t offset, int64_t bytes, bool writes) {
    traced_memory *m = &t->memory[p.memory];
    int64_t from = p.v + offset, to = from + bytes;
    t->time++;
    if (from < 0 || to > m->bytes) t->failed = true;
    for (int64_t i = from; i < to && !t->failed; i++) {
        if (!writes) m->last_read[i] = t->time;
        else if (t->time < m->first_write[i]) m->first_write[i] = t->time;
    }
}

// The lanes of a vector that the access touches, -1: not known.
static int64_t touched_lanes(const frame *fr, const ins *x, ltype type) {
    const ins *n = lanes_there(x);
    if (!n) return x->op == L_LOAD || x->op == L_STORE ? type.lanes : -1;
    fact there = fr->facts[n->id];
    if (there.kind != NUMBER) return type.lanes; // at most
    return there.v < 0 ? 0 : there.v < type.lanes ? there.v : type.lanes;
}

static void access(frame *fr, const ins *x) {
    fact p = fr->facts[x->args[0]->id], index = fr->facts[x->args[1]->id];
    bool writes = x->op == L_STORE || x->op == L_STOREN || x->op == L_SCATTER;
    ltype type = writes ? x->args[2]->type : x->type;
    if (p.kind == ELSEWHERE) return;
    int64_t lanes = touched_lanes(fr, x, type), width = lkind_bytes((lkind)type.kind);
    if (p.kind == UNKNOWN || index.kind != NUMBER || lanes < 0) fr->t->failed = true;
    else note_access(fr->t, p, index.v * width, x->op == L_LOAD && x->i ? x->i : lanes * width, writes);
}

// ---------------------------------------------------------------- values
static fact number(int64_t v) { return (fact){NUMBER, 0, v}; }

static fact offset(const frame *fr, const ins *x) {
    fact p = fr->facts[x->args[0]->id], index = fr->facts[x->args[1]->id];
    if (p.kind != WATCHED) return p;
    if (index.kind != NUMBER) return nothing;
    p.v += index.v * x->i;
    return p;
}

// Most of what addresses depend on: sums and products of scalar positions. False: another operation.
static bool position(const ins *x, int64_t a, int64_t b, int64_t *out) {
    lkind k = x->type.kind;
    if (x->nargs != 2 || x->type.lanes != 1 || (k != LK_I32 && k != LK_I64)) return false;
    uint64_t u = (uint64_t)a, v = (uint64_t)b;
    if (x->op == L_ADD) u += v;
    else if (x->op == L_SUB) u -= v;
    else if (x->op == L_MUL) u *= v;
    else return false;
    *out = k == LK_I32 ? (int32_t)u : (int64_t)u;
    return true;
}

static fact pure(const frame *fr, const ins *x) {
    enum { OPERANDS = 3 };
    int64_t values[OPERANDS] = {0}, out;
    if (x->nargs > OPERANDS) return nothing;
    for (int i = 0; i < x->nargs; i++) {
        fact a = fr->facts[x->args[i]->id];
        if (a.kind != NUMBER) return nothing;
        values[i] = a.v;
    }
    bool known = position(x, values[0], values[1], &out) || leval_integer(x, values, &out);
    return known ? number(out) : nothing;
}

static fact value_of(const frame *fr, const ins *x) {
    switch (lop_class(x->op)) {
    case LC_POINTER: return x->op == L_OFFSET ? offset(fr, x) : nothing;
    case LC_PLACE: return x->op == L_PARAM ? fr->facts[x->id] : (fact){ELSEWHERE, 0, 0};
    case LC_VARIABLE: return fr->facts[x->args[0]->id];
    case LC_CONST:
    case LC_LANES:
    case LC_REDUCE:
    case LC_ARITHMETIC:
    case LC_MULADD:
    case LC_FLOAT:
    case LC_DIVIDE:
    case LC_MIN_MAX:
    case LC_BITS:
    case LC_SHIFT:
    case LC_SIGN:
    case LC_SQRT:
    case LC_ROUND:
    case LC_COMPARE:
    case LC_SELECT:
    case LC_RESIZE:
    case LC_TO_FLOAT:
    case LC_TO_INT:
    case LC_PRECISION:
    case LC_BITCAST:
    case LC_DOT:
    case LC_BLOCK: return pure(fr, x);
    case LC_MEMORY:
    case LC_CONTROL:
    case LC_CALL:
    case LC_TILE:
    case LC_THREADS:
    case LC_GPU:
    case LC_COMMENT: return nothing;
    }
    return nothing;
}

// ---------------------------------------------------------------- control
static void run_block(frame *fr, const lblock *b);
static void run_function(tracer *t, const lfunc *f, const fact *args, const int *of_param);

static void run_for(frame *fr, const ins *x) {
    fact begin = fr->facts[x->args[0]->id], end = fr->facts[x->args[1]->id], step = fr->facts[x->args[2]->id];
    if (begin.kind != NUMBER || end.kind != NUMBER || step.kind != NUMBER || step.v <= 0) {
        fr->t->failed = true;
        return;
    }
    for (int64_t i = begin.v; i < end.v && !fr->t->failed; i += step.v) {
        fr->facts[x->id] = number(i);
        run_block(fr, x->body[0]);
    }
}

// Variables that the block sets are unknown from here on.
static void forget_sets(frame *fr, const lblock *b) {
    for (const ins *x = b->first; x; x = x->next) {
        if (x->op == L_SET) fr->facts[x->args[0]->id] = nothing;
        for (int i = 0; i < 2; i++)
            if (x->body[i]) forget_sets(fr, x->body[i]);
    }
}

// With an unknown condition, both branches, after which their variables are unknown.
static void run_if(frame *fr, const ins *x) {
    fact c = fr->facts[x->args[0]->id];
    for (int i = 0; i < 2; i++) {
        if (!x->body[i] || (c.kind == NUMBER && (c.v != 0) != (i == 0))) continue;
        run_block(fr, x->body[i]);
        if (c.kind != NUMBER) forget_sets(fr, x->body[i]);
    }
}

static void run_call(frame *fr, const ins *x) {
    const lfunc *f = NULL;
    for (int i = 0; i < fr->t->m->funcs.n && !f; i++)
        if (strcmp(fr->t->m->funcs.at[i]->name, x->name) == 0) f = fr->t->m->funcs.at[i];
    fact *args = ARENA_ARRAY(fr->t->arena, fact, x->nargs + 1);
    bool watched = false;
    for (int i = 0; i < x->nargs; i++) {
        args[i] = fr->facts[x->args[i]->id];
        watched |= x->args[i]->type.kind == LK_PTR && args[i].kind != ELSEWHERE;
    }
    if (f && f->body && f->params.n == x->nargs) run_function(fr->t, f, args, NULL);
    else fr->t->failed |= watched;
}

static void run_control(frame *fr, const ins *x) {
    if (x->op == L_FOR) run_for(fr, x);
    else if (x->op == L_IF) run_if(fr, x);
    else if (x->op != L_RETURN) fr->t->failed = true;
}

static void run_block(frame *fr, const lblock *b) {
    tracer *t = fr->t;
    const ins *first = b->first;
    if (first && !runs(fr->path, first)) first = fr->path->next[first->id];
    for (const ins *x = first; x && !t->failed; x = fr->path->next[x->id]) {
        lclass class = lop_class(x->op);
        if (--t->left < 0) t->failed = true;
        else if (class == LC_CONTROL) run_control(fr, x);
        else if (class == LC_CALL) run_call(fr, x);
        else if (class == LC_MEMORY) access(fr, x), fr->facts[x->id] = nothing;
        else if (class == LC_TILE || class == LC_THREADS || class == LC_GPU) t->failed = true;
        else if (x->op == L_SET) fr->facts[x->args[0]->id] = fr->facts[x->args[1]->id];
        else fr->facts[x->id] = value_of(fr, x);
    }
}

static void run_function(tracer *t, const lfunc *f, const fact *args, const int *of_param) {
    frame fr = {t, f, path_of(t, f, of_param), ARENA_ARRAY(t->arena, fact, f->nins + 1)};
    for (int i = 0; i < f->params.n; i++) fr.facts[f->params.at[i].value->id] = args[i];
    run_block(&fr, f->body);
}

bool loops_trace(arena *scratch, const lmodule *m, const lfunc *f, const int *of_param, traced_memory *memory,
                 int64_t most, int64_t *steps) {
    tracer t = {.arena = scratch, .m = m, .memory = memory, .left = most, .paths.arena = scratch};
    fact *args = ARENA_ARRAY(scratch, fact, f->params.n + 1);
    for (int i = 0; i < f->params.n; i++) {
        bool pointer = f->params.at[i].type.kind == LK_PTR;
        if (of_param[i] >= 0) args[i] = (fact){WATCHED, of_param[i], 0};
        else args[i] = pointer ? (fact){ELSEWHERE, 0, 0} : nothing;
    }
    run_function(&t, f, args, of_param);
    *steps = most - t.left;
    return !t.failed;
}
