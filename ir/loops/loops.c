// The builder of loops. In: calls that name an operation and its operands. Out: instructions appended to the
// current block, or an operand or constant if the result is known. Integer constants are sign-extended (I1: 0
// or 1), float constants rounded to their kind.
#include "compiler/base/integers.h"
#include "ir/loops/loops_eval.h"
#include "ir/target.h"
#include <string.h>

// A block with its enclosing block.
typedef struct scope {
    lblock block;
    lblock *outer;
} scope;

// ---------------------------------------------------------------- modules and functions

void ldata_copy(const ldata *d, int64_t offset, void *to, int64_t n) {
    if (d->bytes_or_null) memcpy(to, (const char *)d->bytes_or_null + offset, (size_t)n);
    else d->produce(d->user, offset, to, n);
}

#define LARGE_DATA ((int64_t)1 << 30)
bool data_is_large(const lmodule *m) {
    int64_t total = 0;
    for (int i = 0; i < m->data.n; i++) total += m->data.at[i]->bytes;
    return m->target->arch.large_data && m->target->ptr_bits == 64 && total > LARGE_DATA;
}

lmodule *lmodule_new(arena *a, const char *name, const target *t) {
    lmodule *m = ARENA_NEW(a, lmodule);
    m->arena = a;
    m->name = arena_strdup(a, name);
    m->target = t;
    return m;
}

lfunc *lfunc_new(lmodule *m, const char *name, ltype result) {
    lfunc *f = ARENA_NEW(m->arena, lfunc);
    f->arena = m->arena;
    f->name = arena_strdup(m->arena, name);
    f->target = m->target;
    f->result = result;
    f->strict_fp = m->target->fp == FP_STRICT;
    VEC_PUSH(m->arena, &m->funcs, f);
    return f;
}

static lblock *new_block(arena *a, lblock *outer) {
    scope *s = ARENA_NEW(a, scope);
    s->outer = outer;
    return &s->block;
}

static ins *new_ins(lfunc *f, lop op, ltype type, int nargs, ins *const *args) {
    ins *x = ARENA_NEW(f->arena, ins);
    x->op = op;
    x->type = type;
    x->id = f->nins++;
    x->nargs = nargs;
    if (nargs) x->args = ARENA_ARRAY(f->arena, ins *, nargs);
    for (int i = 0; i < nargs; i++) {
        x->args[i] = args[i];
        args[i]->uses++;
    }
    return x;
}

ins *lblock_append(lblock *to, ins *x) {
    x->next = NULL;
    if (to->last) to->last->next = x;
    else to->first = x;
    to->last = x;
    return x;
}

bool lblock_any(const lblock *b, bool (*is)(const ins *x)) {
    for (const ins *x = b ? b->first : NULL; x; x = x->next)
        if (is(x) || lblock_any(x->body[0], is) || lblock_any(x->body[1], is)) return true;
    return false;
}

ins **lblock_splice(lblock *made, ins **link) {
    if (!made->first) return link;
    made->last->next = *link;
    *link = made->first;
    return &made->last->next;
}

void lblock_drop(lblock *b, ins *before, const ins *x) {
    for (int i = 0; i < x->nargs; i++) x->args[i]->uses--;
    if (before) before->next = x->next;
    else b->first = x->next;
}

// Parameters stand first in the body, in order.
static void add_param_ins(lfunc *f, ins *x) {
    ins **at = &f->body->first;
    while (*at && (*at)->op == L_PARAM) at = &(*at)->next;
    x->next = *at;
    *at = x;
    if (!x->next) f->body->last = x;
}

ins *lfunc_param(lfunc *f, const char *name, ltype type, lkind elem, dtype dt, bool is_const) {
    ins *x = new_ins(f, L_PARAM, type, 0, NULL);
    x->i = f->params.n;
    x->name = arena_strdup(f->arena, name);
    x->elem = elem;
    VEC_PUSH(
        f->arena, &f->params,
        (lparam){.name = x->name, .type = type, .elem = elem, .dtype = dt, .is_const = is_const, .value = x});
    if (f->body) add_param_ins(f, x);
    return x;
}

void lfunc_take_param(lfunc *f, lparam p) {
    p.value->i = f->params.n;
    VEC_PUSH(f->arena, &f->params, p);
    if (f->body) add_param_ins(f, p.value);
}

static void remove_param_ins(lblock *body, const ins *x) {
    ins *before = NULL;
    for (ins *at = body->first; at != x; at = at->next) before = at;
    if (before) before->next = x->next;
    else body->first = x->next;
    if (body->last == x) body->last = before;
}

void lfunc_drop_param(lfunc *f, int i) {
    if (f->body) remove_param_ins(f->body, f->params.at[i].value);
    for (int j = i + 1; j < f->params.n; j++) {
        f->params.at[j - 1] = f->params.at[j];
        f->params.at[j - 1].value->i = j - 1;
    }
    f->params.n--;
}

typedef struct shared_walk {
    int64_t bytes, align, found;
    const ins *wanted;
} shared_walk;
static void walk_shared(const lblock *b, shared_walk *w) {
    for (const ins *x = b ? b->first : NULL; x; x = x->next) {
        if (x->op == L_LOCAL && x->shared) {
            int64_t align = x->align > lkind_bytes(x->elem) ? x->align : lkind_bytes(x->elem);
            w->bytes = round_up(w->bytes, align);
            if (x == w->wanted) w->found = w->bytes;
            w->bytes += x->i * lkind_bytes(x->elem);
            w->align = align > w->align ? align : w->align;
        }
        walk_shared(x->body[0], w);
        walk_shared(x->body[1], w);
    }
}

int64_t lfunc_dynamic_shared(const lfunc *f) {
    enum { DECLARED_MOST = 48 << 10, ALIGN_MOST = 16 };
    shared_walk w = {0};
    walk_shared(f->body, &w);
    return w.bytes > DECLARED_MOST || w.align > ALIGN_MOST ? w.bytes : 0;
}
int64_t lfunc_shared_offset(const lfunc *f, const ins *local) {
    shared_walk w = {.wanted = local};
    walk_shared(f->body, &w);
    return w.found;
}

lbuild lbuild_new(lfunc *f, const target *t, diag *d) {
    if (!f->body) {
        f->body = new_block(f->arena, NULL);
        for (int i = 0; i < f->params.n; i++) lblock_append(f->body, f->params.at[i].value);
    }
    return (lbuild){.arena = f->arena, .f = f, .block = f->body, .target = t, .diag = d};
}

ins *lb_op(lbuild *b, lop op, ltype type, int nargs, ins *const *args) {
    return lblock_append(b->block, new_ins(b->f, op, type, nargs, args));
}

static ins *emit1(lbuild *b, lop op, ltype t, ins *x) { return lb_op(b, op, t, 1, (ins *[]){x}); }
static ins *emit2(lbuild *b, lop op, ltype t, ins *x, ins *y) { return lb_op(b, op, t, 2, (ins *[]){x, y}); }
static ins *emit3(lbuild *b, lop op, ltype t, ins *x, ins *y, ins *z) {
    return lb_op(b, op, t, 3, (ins *[]){x, y, z});
}

static ins *with_number(ins *x, int64_t i) {
    x->i = i;
    return x;
}
static ins *with_name(ins *x, const char *name) {
    x->name = name;
    return x;
}

// ---------------------------------------------------------------- constants

static int64_t fit_int(lkind k, int64_t v) { return leval_signed(k, leval_fit(k, (uint64_t)v)); }

ins *lb_int(lbuild *b, ltype t, int64_t v) {
    ins *x = lb_op(b, L_CONST, t, 0, NULL);
    x->i = fit_int(t.kind, v);
    return x;
}

ins *lb_float(lbuild *b, ltype t, double v) {
    ins *x = lb_op(b, L_CONST, t, 0, NULL);
    x->f = leval_float(t.kind, leval_float_word(t.kind, v));
    return x;
}

ins *lb_idx(lbuild *b, int64_t v) { return lb_int(b, lt(lindex_kind(b->target), 1), v); }

static bool is_const(const ins *x) { return x->op == L_CONST; }
static bool is_int_const(const ins *x) { return is_const(x) && lkind_is_int(x->type.kind); }
static bool is_int_value(const ins *x, int64_t v) {
    return is_int_const(x) && x->i == fit_int(x->type.kind, v);
}
static bool is_float_value(const ins *x, double v) {
    return is_const(x) && lkind_is_float(x->type.kind) && x->f == v;
}

// ---------------------------------------------------------------- folding

// Folds op on constants with ir/loops/loops_eval.c. NULL: an operand is not constant, or the result is
// undefined.
static ins *fold(lbuild *b, lop op, ltype t, int n, ins *const *args) {
    uint64_t word[2], out;
    const uint64_t *at[] = {&word[0], &word[1]};
    ltype types[2];
    for (int i = 0; i < n; i++) {
        lkind k = args[i]->type.kind;
        if (!is_const(args[i])) return NULL;
        types[i] = lt(k, 1);
        word[i] = lkind_is_float(k) ? leval_float_word(k, args[i]->f) : leval_fit(k, (uint64_t)args[i]->i);
    }
    lclass c = lop_class(op);
    if (c == LC_TO_INT || (c == LC_SHIFT && word[1] >= (uint64_t)lkind_bits(t.kind))) return NULL;
    if (leval(&(ins){.op = op, .type = lt(t.kind, 1)}, types, at, false, &out)) return NULL;
    if (!lkind_is_float(t.kind)) return lb_int(b, t, leval_signed(t.kind, out));
    double f = leval_float(t.kind, out);
    return op == L_BITCAST && f != f ? NULL : lb_float(b, t, f); // a NaN's bits must live
}

static bool idempotent(lop op) { return lop_class(op) == LC_MIN_MAX || op == L_AND || op == L_OR; }

// x op y if one operand decides: y is a constant, or x and y are the same integer.
static ins *fold_neutral(lbuild *b, lop op, ins *x, ins *y) {
    if (lkind_is_float(x->type.kind)) return (op == L_MUL || op == L_FDIV) && is_float_value(y, 1) ? x : NULL;
    if (x == y && idempotent(op)) return x;
    if (x == y && (op == L_SUB || op == L_XOR)) return lb_int(b, x->type, 0);
    if (is_int_value(y, 0)) {
        if (op == L_ADD || op == L_SUB || op == L_OR || op == L_XOR || lop_class(op) == LC_SHIFT) return x;
        if (op == L_MUL || op == L_AND) return y;
    }
    if (is_int_value(y, -1) && (op == L_AND || op == L_OR)) return op == L_AND ? x : y;
    if (is_int_value(y, 1) && x->type.kind != LK_I1) {
        if (op == L_MUL || op == L_SDIV || op == L_UDIV) return x;
        if (op == L_SREM || op == L_UREM) return lb_int(b, x->type, 0);
    }
    return NULL;
}

// (x op c1) op c2 is x op (c1 op c2) for wrapping + and *.
static ins *fold_chain(lbuild *b, lop op, ins *x, ins *y) {
    if ((op != L_ADD && op != L_MUL) || !is_int_const(y) || x->op != op || !is_const(x->args[1])) return NULL;
    ins *c = fold(b, op, y->type, 2, (ins *[]){x->args[1], y});
    return c ? lb_bin(b, op, x->args[0], c) : NULL;
}

static void match_lanes(lbuild *b, ins **x, ins **y) {
    int lanes = (*x)->type.lanes > (*y)->type.lanes ? (*x)->type.lanes : (*y)->type.lanes;
    *x = lb_splat(b, *x, lanes);
    *y = lb_splat(b, *y, lanes);
}

static void order(lop op, ins **x, ins **y) {
    if (!lop_commutes(op) || !is_const(*x) || is_const(*y)) return;
    ins *t = *x;
    *x = *y;
    *y = t;
}

ins *lb_bin(lbuild *b, lop op, ins *x, ins *y) {
    match_lanes(b, &x, &y);
    order(op, &x, &y);
    if (op == L_SUB && is_int_const(y) && x->type.kind != LK_I1) {
        op = L_ADD;
        y = lb_int(b, y->type, (int64_t)(0 - (uint64_t)y->i));
    }
    ins *r = fold(b, op, x->type, 2, (ins *[]){x, y});
    if (!r) r = fold_neutral(b, op, x, y);
    if (!r) r = fold_chain(b, op, x, y);
    return r ? r : emit2(b, op, x->type, x, y);
}

ins *lb_un(lbuild *b, lop op, ins *x) {
    if (op == L_FNEG && x->op == L_FNEG) return x->args[0];
    ins *r = fold(b, op, x->type, 1, &x);
    return r ? r : emit1(b, op, x->type, x);
}

ins *lb_cmp(lbuild *b, lop op, ins *x, ins *y) {
    match_lanes(b, &x, &y);
    order(op, &x, &y);
    ltype t = lt(LK_I1, x->type.lanes);
    ins *r = fold(b, op, t, 2, (ins *[]){x, y});
    return r ? r : emit2(b, op, t, x, y);
}

ins *lb_select(lbuild *b, ins *c, ins *x, ins *y) {
    match_lanes(b, &x, &y);
    if (c->type.lanes > 1) {
        x = lb_splat(b, x, c->type.lanes);
        y = lb_splat(b, y, c->type.lanes);
    }
    if (x == y) return x;
    if (is_const(c)) return c->i ? x : y;
    return emit3(b, L_SELECT, x->type, c, x, y);
}

ins *lb_muladd(lbuild *b, ins *x, ins *y, ins *z) {
    match_lanes(b, &x, &y);
    match_lanes(b, &x, &z);
    match_lanes(b, &x, &y);
    if (lkind_is_int(x->type.kind)) return lb_bin(b, L_ADD, lb_bin(b, L_MUL, x, y), z);
    if (is_float_value(x, 1)) return lb_bin(b, L_ADD, y, z);
    if (is_float_value(y, 1)) return lb_bin(b, L_ADD, x, z);
    return emit3(b, L_MULADD, x->type, x, y, z);
}

// ---------------------------------------------------------------- conversions and lanes

ins *lb_conv(lbuild *b, lop op, lkind to, ins *x) {
    ltype t = lt(to, x->type.lanes);
    if (x->type.kind == to) return x;
    if (op == L_BITCAST) return lb_bitcast(b, t, x);
    bool back = op == L_FTRUNC && x->op == L_FEXT && x->args[0]->type.kind == to;
    if (back) return x->args[0]; // it was exact
    ins *r = fold(b, op, t, 1, &x);
    return r ? r : emit1(b, op, t, x);
}

ins *lb_bitcast(lbuild *b, ltype to, ins *x) {
    if (x->type.kind == to.kind && x->type.lanes == to.lanes) return x;
    bool whole = to.lanes == x->type.lanes && lkind_is_float(to.kind) != lkind_is_float(x->type.kind);
    ins *r = whole && to.kind != LK_PTR ? fold(b, L_BITCAST, to, 1, &x) : NULL;
    return r ? r : emit1(b, L_BITCAST, to, x);
}

ins *lb_splat(lbuild *b, ins *x, int lanes) {
    ltype t = lt(x->type.kind, lanes);
    if (x->type.lanes == lanes || x->type.lanes != 1) return x;
    if (is_const(x)) return lkind_is_int(t.kind) ? lb_int(b, t, x->i) : lb_float(b, t, x->f);
    return emit1(b, L_SPLAT, t, x);
}

ins *lb_iota(lbuild *b, ltype t) { return t.lanes == 1 ? lb_int(b, t, 0) : lb_op(b, L_IOTA, t, 0, NULL); }

ins *lb_extract(lbuild *b, ins *x, int lane) {
    ltype t = lt(x->type.kind, 1);
    if (x->type.lanes == 1) return x;
    if (x->op == L_SPLAT) return x->args[0];
    if (x->op == L_IOTA) return lb_int(b, t, lane);
    if (is_const(x)) return lkind_is_int(t.kind) ? lb_int(b, t, x->i) : lb_float(b, t, x->f);
    return with_number(emit1(b, L_EXTRACT, t, x), lane);
}

ins *lb_insert(lbuild *b, ins *v, ins *x, int lane) {
    return v->type.lanes == 1 ? x : with_number(emit2(b, L_INSERT, v->type, v, x), lane);
}

ins *lb_shuffle(lbuild *b, ins *x, ins *y, const int *mask, int lanes) {
    match_lanes(b, &x, &y);
    ins *r = emit2(b, L_SHUFFLE, lt(x->type.kind, lanes), x, y);
    int *copy = ARENA_ARRAY(b->arena, int, lanes);
    memcpy(copy, mask, (size_t)lanes * sizeof *mask);
    r->mask = copy;
    return r;
}

ins *lb_permute(lbuild *b, ins *x, ins *at) { return emit2(b, L_PERMUTE, x->type, x, at); }

ins *lb_hreduce(lbuild *b, lop op, ins *x) {
    return x->type.lanes == 1 ? x : emit1(b, op, lt(x->type.kind, 1), x);
}

// ---------------------------------------------------------------- memory

ins *lb_load(lbuild *b, ltype t, ins *ptr, ins *index, int align) {
    ins *x = emit2(b, L_LOAD, t, ptr, index);
    x->align = align;
    return x;
}

ins *lb_load_part(lbuild *b, ltype t, ins *ptr, ins *index, int bytes) {
    ins *x = lb_load(b, t, ptr, index, 1);
    x->i = bytes;
    return x;
}

ins *lb_loadn(lbuild *b, ltype t, ins *ptr, ins *index, ins *n) {
    return emit3(b, L_LOADN, t, ptr, index, n);
}

void lb_store(lbuild *b, ins *ptr, ins *index, ins *v, int align) {
    emit3(b, L_STORE, lt(LK_VOID, 1), ptr, index, v)->align = align;
}

void lb_storen(lbuild *b, ins *ptr, ins *index, ins *v, ins *n) {
    lb_op(b, L_STOREN, lt(LK_VOID, 1), 4, (ins *[]){ptr, index, v, n});
}

ins *lb_gather(lbuild *b, ltype t, ins *ptr, ins *indices) {
    return t.lanes == 1 ? lb_load(b, t, ptr, indices, 0) : emit2(b, L_GATHER, t, ptr, indices);
}

void lb_scatter(lbuild *b, ins *ptr, ins *indices, ins *v) {
    if (v->type.lanes == 1) lb_store(b, ptr, indices, v, 0);
    else emit3(b, L_SCATTER, lt(LK_VOID, 1), ptr, indices, v);
}

ins *lb_offset(lbuild *b, ins *ptr, ins *index, int64_t scale) {
    if (is_int_value(index, 0) || scale == 0) return ptr;
    ins *x = emit2(b, L_OFFSET, lt_ptr(), ptr, index);
    x->i = scale;
    int bytes = lkind_bytes(ptr->elem);
    x->elem = bytes && scale % bytes == 0 ? ptr->elem : LK_VOID;
    return x;
}

ins *lb_field(lbuild *b, ltype t, ins *ptr, const char *name, int64_t offset) {
    return with_number(with_name(emit1(b, L_FIELD, t, ptr), name), offset);
}

void lb_setfield(lbuild *b, ins *ptr, const char *name, int64_t offset, ins *v) {
    with_number(with_name(emit2(b, L_SETFIELD, lt(LK_VOID, 1), ptr, v), name), offset);
}

ins *lb_local(lbuild *b, lkind elem, int64_t n, int align, bool shared) {
    ins *x = lb_op(b, L_LOCAL, lt_ptr(), 0, NULL);
    x->elem = elem;
    x->i = n;
    x->align = align;
    x->shared = shared;
    return x;
}

ins *lb_symbol(lbuild *b, const char *name) { return with_name(lb_op(b, L_SYMBOL, lt_ptr(), 0, NULL), name); }

ins *lb_null(lbuild *b) { return lb_op(b, L_NULL, lt_ptr(), 0, NULL); }

ins *lb_atomic_add(lbuild *b, ins *ptr, ins *index, ins *v) {
    return emit3(b, L_ATOMIC_ADD, lt(LK_VOID, 1), ptr, index, v);
}

ins *lb_var(lbuild *b, const char *name, ins *init) {
    return with_name(emit1(b, L_VAR, init->type, init), name);
}

ins *lb_get(lbuild *b, ins *var) { return emit1(b, L_GET, var->type, var); }

void lb_set(lbuild *b, ins *var, ins *v) {
    emit2(b, L_SET, lt(LK_VOID, 1), var, lb_splat(b, v, var->type.lanes));
}

// ---------------------------------------------------------------- structure

static ins *open_body(lbuild *b, ins *x) {
    x->body[0] = new_block(b->arena, b->block);
    b->block = x->body[0];
    return x;
}

ins *lb_for(lbuild *b, const char *name, ins *begin, ins *end, ins *step, loop_role role) {
    ins *x = emit3(b, L_FOR, begin->type, begin, end, step);
    x->name = name;
    x->role = role;
    return open_body(b, x);
}

ins *lb_if(lbuild *b, ins *cond) { return open_body(b, emit1(b, L_IF, lt(LK_VOID, 1), cond)); }

static void expect_open(lbuild *b, const ins *x) {
    if (!b->block || (b->block != x->body[0] && b->block != x->body[1]))
        diag_defect(b->diag, NULL, "function %s: the block being closed is not the innermost one",
                    b->f->name);
}

void lb_else(lbuild *b, ins *the_if) {
    expect_open(b, the_if);
    the_if->body[1] = new_block(b->arena, ((scope *)b->block)->outer);
    b->block = the_if->body[1];
}

ins *lb_loop(lbuild *b) { return open_body(b, lb_op(b, L_LOOP, lt(LK_VOID, 1), 0, NULL)); }

void lb_break(lbuild *b, ins *cond) { emit1(b, L_BREAK, lt(LK_VOID, 1), cond); }

void lb_end(lbuild *b, ins *opened) {
    expect_open(b, opened);
    b->block = ((scope *)b->block)->outer;
}

ins *lb_call(lbuild *b, ltype result, const char *name, int nargs, ins *const *args) {
    return with_name(lb_op(b, L_CALL, result, nargs, args), name);
}

void lb_return(lbuild *b, ins *v) { lb_op(b, L_RETURN, lt(LK_VOID, 1), v != NULL, &v); }

void lb_comment(lbuild *b, const char *s) { lb_op(b, L_COMMENT, lt(LK_VOID, 1), 0, NULL)->name = s; }

ins *lb_dot(lbuild *b, lop op, ins *acc, ins *x, ins *y) {
    ltype words = lt(LK_I32, acc->type.lanes);
    return emit3(b, op, acc->type, acc, lb_bitcast(b, words, x), lb_bitcast(b, words, y));
}

void lb_prefetch(lbuild *b, ins *ptr, ins *bytes) { emit2(b, L_PREFETCH, lt(LK_VOID, 1), ptr, bytes); }

void lb_barrier(lbuild *b) { lb_op(b, L_BARRIER, lt(LK_VOID, 1), 0, NULL); }

ins *lb_shfl_xor(lbuild *b, ins *x, int lane_xor) {
    return with_number(emit1(b, L_SHFL_XOR, x->type, x), lane_xor);
}
