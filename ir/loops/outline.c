// In: a kernel whose tiles end in a call of a function, such as its epilogue. Out: its loops as a function that knows
// neither the function nor that one's parameters, so that kernels that differ only in their epilogues share it.
//
//     kernel(y, x, w, bias):                          kernel(y, x, w, bias):
//       for tiles:                                      env = {y, bias}
//         tile = x * w                    becomes       kernel_tiles(x, w, end, env, NULL)
//         end(y, x, w, bias, tile, m, n)              kernel_tiles(x, w, end, env, numbers):
//                                                       for tiles:
//                                                         tile = x * w
//                                                         (*end)(env, tile, m, n, numbers)
#include "ir/loops/outline.h"
#include "ir/target.h"
#include <string.h>

// Smaller loops are not worth the calls, and vary more.
enum { LEAST_OUTLINED = 1500, MOST_ENDS = 4, MOST_PARAMS = 64 };

typedef struct end_function {
    lfunc *f;
    ins *from_env[MOST_PARAMS]; // by parameter: the kernel's parameter that all calls pass; NULL: they differ
    ins *pointer;               // parameter of the loops
} end_function;

typedef struct outlining {
    lmodule *m;
    lfunc *f, *tiles;
    diag *diag;
    arena *arena; // temporary
    const map *functions;
    VEC(ins *) calls; // of the functions that end tiles
    end_function ends[MOST_ENDS];
    int nends;
    VEC(ins *) env, passed; // parameters of the kernel: that these functions read; that the loops use
    map params;             // parameters of the loops, by the id of the kernel's parameter
    ins *env_param, *numbers;
    bool fits;
} outlining;

// ---------------------------------------------------------------- analysis
static end_function *end_of(outlining *o, const ins *call) {
    for (int j = 0; j < o->nends; j++)
        if (!strcmp(o->ends[j].f->name, call->name)) return &o->ends[j];
    return NULL;
}

static void add_call(outlining *o, ins *call, lfunc *f) {
    end_function *e = end_of(o, call);
    o->fits &= call->nargs == f->params.n && f->params.n <= MOST_PARAMS;
    if (!e && o->nends == MOST_ENDS) o->fits = false;
    if (!o->fits) return;
    bool first = !e;
    if (first) *(e = &o->ends[o->nends++]) = (end_function){.f = f};
    for (int i = 0; i < call->nargs; i++) {
        ins *x = call->args[i]->op == L_PARAM ? call->args[i] : NULL;
        e->from_env[i] = first || e->from_env[i] == x ? x : NULL;
    }
    VEC_PUSH(o->arena, &o->calls, call);
}

// Returns the number of instructions.
static int find_calls(outlining *o, const lblock *b) {
    int n = 0;
    for (ins *x = b->first; x; x = x->next) {
        lfunc *f = x->op == L_CALL ? map_get(o->functions, x->name) : NULL;
        if (f && f->ends_tiles) add_call(o, x, f);
        n += x->op != L_CONST && x->op != L_COMMENT;
        for (int i = 0; i < 2; i++)
            if (x->body[i]) n += find_calls(o, x->body[i]);
    }
    return n;
}

static bool is_word(ltype t) { return t.lanes == 1 && (t.kind == LK_PTR || t.kind == LK_I64); }

// The environment is an array of words.
static bool has_words(const outlining *o) {
    for (int j = 0; j < o->nends; j++)
        for (int i = 0; i < o->ends[j].f->params.n; i++)
            if (o->ends[j].from_env[i] && !is_word(o->ends[j].from_env[i]->type)) return false;
    return true;
}

static int place_in_env(outlining *o, ins *param) {
    for (int j = 0; j < o->env.n; j++)
        if (o->env.at[j] == param) return j;
    VEC_PUSH(o->arena, &o->env, param);
    return o->env.n - 1;
}

// ---------------------------------------------------------------- the functions that end tiles
// Takes the parameters out of the body.
static void take_params(lfunc *f) {
    ins *x = f->body->first;
    while (x && x->op == L_PARAM) x = x->next;
    f->body->first = x;
    if (!x) f->body->last = NULL;
}

static void read_env(lbuild *b, ins *param, ins *env, int at) {
    ins *args[] = {env, lb_idx(b, at)};
    param->op = L_LOAD;
    param->nargs = 2;
    param->args = ARENA_ARRAY(b->arena, ins *, 2);
    memcpy(param->args, args, sizeof args);
    env->uses++, args[1]->uses++;
    param->i = 0, param->name = NULL;
    param->elem = LK_VOID;
    param->next = NULL;
    b->block->last->next = param;
    b->block->last = param;
}

// end(a, b, tile) becomes end(env, tile, numbers), with loads of a and b.
static void rewrite_end(outlining *o, const end_function *e) {
    lfunc *f = e->f;
    lblock loads = {0};
    lbuild b = lbuild_new(f, f->target, o->diag);
    int n = f->params.n;
    lparam *before = ARENA_ARRAY(o->arena, lparam, n + 1);
    memcpy(before, f->params.at, (size_t)n * sizeof *before);
    take_params(f);
    f->params.n = 0;
    ins *env = lfunc_param(f, "env", lt_ptr(), LK_VOID, DT_NONE, true);
    b.block = &loads;
    for (int i = 0; i < n; i++) {
        ins *x = before[i].value;
        x->next = NULL;
        if (!e->from_env[i]) lfunc_take_param(f, before[i]);
        else if (x->uses) read_env(&b, x, env, place_in_env(o, e->from_env[i]));
    }
    ins *numbers = lfunc_param(f, "numbers", lt_ptr(), LK_VOID, DT_NONE, true);
    f->params.at[f->params.n - 1].constant = true;
    if (!loads.first) return;
    loads.last->next = numbers->next;
    numbers->next = loads.first;
    if (!loads.last->next) f->body->last = loads.last;
}

// ---------------------------------------------------------------- the loops
static ins *param_of_tiles(outlining *o, const ins *x) {
    ins *known = map_get_number(&o->params, (uint64_t)x->id);
    if (known) return known;
    const lparam *p = &o->f->params.at[x->i];
    ins *own = lfunc_param(o->tiles, p->name, p->type, p->elem, p->dtype, p->is_const);
    o->tiles->params.at[o->tiles->params.n - 1].constant = p->constant;
    map_put_number(&o->params, (uint64_t)x->id, own);
    VEC_PUSH(o->arena, &o->passed, p->value);
    return own;
}

static bool is_end_call(outlining *o, const ins *x) { return x->op == L_CALL && end_of(o, x); }

// In the order of their uses, which does not depend on the parameters of the functions that end tiles.
static void rename_params(outlining *o, const lblock *b) {
    for (ins *x = b->first; x; x = x->next) {
        const end_function *e = is_end_call(o, x) ? end_of(o, x) : NULL;
        for (int i = 0; i < x->nargs; i++) {
            ins *param = x->args[i];
            if (param->op != L_PARAM || param->i >= o->f->params.n ||
                o->f->params.at[param->i].value != param)
                continue;
            param->uses--;
            if (e && e->from_env[i]) continue;
            x->args[i] = param_of_tiles(o, param);
            x->args[i]->uses++;
        }
        for (int i = 0; i < 2; i++)
            if (x->body[i]) rename_params(o, x->body[i]);
    }
}

static void call_by_pointer(outlining *o, ins *x) {
    const end_function *e = end_of(o, x);
    int n = 0;
    ins **args = ARENA_ARRAY(o->tiles->arena, ins *, x->nargs + 3);
    args[n++] = e->pointer;
    args[n++] = o->env_param;
    for (int i = 0; i < x->nargs; i++)
        if (!e->from_env[i]) args[n++] = x->args[i];
    args[n++] = o->numbers;
    e->pointer->uses++, o->env_param->uses++, o->numbers->uses++;
    x->op = L_CALLPTR;
    x->name = NULL;
    x->args = args;
    x->nargs = n;
}

// Values that only the functions that end tiles used, and that would tell loops apart.
static void drop_unused(lblock *b, lop op) {
    ins *before = NULL;
    for (ins *x = b->first; x; x = x->next) {
        if (x->op != op || x->uses) {
            before = x;
            continue;
        }
        lblock_drop(b, before, x);
    }
    b->last = before;
}

static void make_tiles(outlining *o) {
    lfunc *f = o->f, *t = o->tiles = lfunc_new(o->m, arena_printf(o->arena, "%s_tiles", f->name), f->result);
    t->target = f->target;
    t->kernel = true;
    t->strict_fp = f->strict_fp, t->half_vectors = f->half_vectors;
    t->nins = f->nins;
    t->body = ARENA_NEW(t->arena, lblock);
    *t->body = *f->body;
    take_params(t);
    lblock moved = *t->body;
    *t->body = (lblock){0};
    drop_unused(&moved, L_VAR);
    drop_unused(&moved, L_CONST);
    rename_params(o, &moved);
    for (int j = 0; j < o->nends; j++)
        o->ends[j].pointer = lfunc_param(t, "end", lt_ptr(), LK_VOID, DT_NONE, true);
    o->env_param = lfunc_param(t, "env", lt_ptr(), LK_VOID, DT_NONE, true);
    o->numbers = lfunc_param(t, "numbers", lt_ptr(), LK_VOID, DT_NONE, true);
    t->params.at[t->params.n - 1].constant = true;
    o->numbers->next = moved.first;
    t->body->last = moved.last;
    for (int j = 0; j < o->calls.n; j++) call_by_pointer(o, o->calls.at[j]);
}

// ---------------------------------------------------------------- the kernel
static void make_caller(outlining *o) {
    lfunc *f = o->f;
    lblock *body = f->body;
    ins *last = body->first;
    for (int i = 1; i < f->params.n; i++) last = last->next;
    last->next = NULL;
    body->last = last;
    lbuild b = lbuild_new(f, f->target, o->diag);
    b.block = body;
    ins *env = lb_local(&b, LK_I64, o->env.n, 8, false);
    for (int j = 0; j < o->env.n; j++) lb_store(&b, env, lb_idx(&b, j), o->env.at[j], 0);
    ins **args = ARENA_ARRAY(o->arena, ins *, o->passed.n + o->nends + 2);
    int n = 0;
    for (int j = 0; j < o->passed.n; j++) args[n++] = o->passed.at[j];
    for (int j = 0; j < o->nends; j++) args[n++] = lb_symbol(&b, o->ends[j].f->name);
    args[n++] = env;
    args[n++] = lb_null(&b);
    lb_call(&b, f->result, o->tiles->name, n, args);
}

lfunc *outline_tiles(lmodule *m, lfunc *f, const map *functions, diag *d) {
    bool own = f->kernel && f->body && !f->original && !f->exported && !f->ends_tiles && f->params.n;
    if (!own || f->target->ptr_bits != 64) return NULL;
    outlining o = {
        .m = m, .f = f, .diag = d, .arena = arena_within(m->arena), .functions = functions, .fits = true};
    o.params.arena = o.arena;
    bool large = find_calls(&o, f->body) >= LEAST_OUTLINED;
    if (large && o.fits && o.nends && has_words(&o)) {
        for (int j = 0; j < o.nends; j++) rewrite_end(&o, &o.ends[j]);
        make_tiles(&o);
        make_caller(&o);
        lfunc_verify(f, d);
        lfunc_verify(o.tiles, d);
        for (int j = 0; j < o.nends; j++) lfunc_verify(o.ends[j].f, d);
    }
    arena_destroy(o.arena);
    return o.tiles;
}
