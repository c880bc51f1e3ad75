// Flash-Decoding: attention of too few queries to keep a GPU busy, such as a language model's next token. In:
// a kernel of the form attention (passes/match/attention.h). Out: kernels that attend to pieces of the keys
// in parallel, and combine them (Dao et al. 2023, "Flash-Decoding"):
//
//   for p < PIECES, rows, keys j of piece p:
//       scores s[j]
//       tops[p, row] = max s
//       totals[p, row] = sum exp(s[j] - top)
//       parts[p, row, e] = sum exp(s[j] - top) v[j, e]
//   for rows:
//       top = max tops[p]
//       total = sum totals[p] exp(tops[p] - top)
//       out = f(sum parts[p, e] exp(tops[p] - top), total)
//
// If the number of queries and keys is known only at run time, the program selects there between these two
// kernels and the original one.
#include "ir/kernel/edit.h"
#include "ir/kernel/variant.h"
#include "passes/match/attention.h"
#include "passes/passes.h"
#include <math.h>

enum { PIECES = 16, BLOCK = 64, FEW_ROWS = 512, MANY_KEYS = 512 };

typedef struct split {
    program *p;
    kernel *old;
    attention a;
    dim *rows, *keys, *chunk;
    buffer *parts, *tops, *totals;
    // Of the kernel under construction:
    kernel *k;
    expr **axes; // by axis of the original kernel
    buffer **locals;
    expr *piece, *key, *here; // key axis of the stage; whether the key exists
    int key_axis;             // in the original kernel
    expr *state;
} split;

// ---------------------------------------------------------------- matching

static bool is_known(const kernel *k) {
    for (int j = 0; j < k->axes.n; j++)
        if (dim_is_opaque(k->axes.at[j].extent)) return false;
    return true;
}

static bool reads_narrow(const expr *x) { return x->op == X_READ && dtype_bits(x->buffer->dtype) == 16; }

// Weights of 16-bit factors may be rounded to 16 bits in the pieces, which a wider result would show.
static bool shows_rounding(const attention *a) {
    return dtype_bits(a->value->writes.at[0].to->dtype) > 16 && expr_any(a->q, reads_narrow);
}

// Not 0 if splitting is profitable.
static dim *condition(const split *s) {
    dims *d = s->p->dims;
    return dim_mul(dim_lt(s->rows, dim_const(d, FEW_ROWS + 1)), dim_lt(dim_const(d, MANY_KEYS - 1), s->keys));
}

static bool find(split *s) {
    dims *d = s->p->dims;
    if (!attention_match(s->old, &s->a) || s->a.kept || s->old->messages.n || !is_known(s->old)) return false;
    if (shows_rounding(&s->a)) return false;
    for (int j = 0; j < s->old->locals.n; j++)
        if (s->old->locals.at[j]->rank > 1) return false; // locals of rank 1 have one row of keys
    s->rows = dim_const(d, 1);
    for (int j = 0; j < s->old->nouter; j++) s->rows = dim_mul(s->rows, s->old->axes.at[j].extent);
    s->keys = s->old->axes.at[s->a.j].extent;
    s->chunk = dim_mulk(dim_ceildiv(s->keys, dim_const(d, PIECES * BLOCK)), BLOCK);
    return !dim_is(condition(s), 0);
}

// ---------------------------------------------------------------- the two kernels

static kernel *begin_kernel(split *s, const char *name) {
    s->k = variant_new(s->p, s->old, name, "split");
    s->axes = ARENA_ARRAY(s->k->arena, expr *, s->old->axes.n + 1);
    s->locals = ARENA_ARRAY(s->k->arena, buffer *, s->old->locals.n + 1);
    return s->k;
}

static void add_outer(split *s) {
    for (int j = 0; j < s->old->nouter; j++) {
        const axis *x = &s->old->axes.at[j];
        s->axes[j] = x_axis(s->k, kernel_axis(s->k, AXIS_PARALLEL, x->name, x->extent));
    }
    s->k->nouter = s->k->axes.n;
}

// The indices [piece, row]: rows are collapsed into one axis of bounded size.
static void part_index(const split *s, expr *piece, expr **index) {
    index[0] = piece;
    index[1] = variant_position(s->k, s->old, NULL, s->old->nouter, s->axes);
}

static buffer *new_parts(split *s, const char *name, dim *columns) {
    dim *dims[] = {dim_const(s->p->dims, PIECES), dim_min(s->rows, dim_const(s->p->dims, FEW_ROWS)), columns};
    const char *result = s->a.value->writes.at[0].to->name;
    return program_temp(s->p, arena_printf(s->p->arena, "%s.%s", result, name), DT_F32, columns ? 3 : 2,
                        dims);
}

// ---------------------------------------------------------------- pieces

// The maximum, or a finite number in place of -inf, so that exp(-inf - top) is 0.
static expr *finite_top(kernel *k, buffer *top) {
    expr *lowest = x_float(k, DT_F32, -INFINITY), *best = x_read(k, top, NULL);
    return x_select(k, x_bin(k, X_EQ, best, lowest), x_float(k, DT_F32, 0), best);
}

// The maximum itself, or the same with -inf already replaced.
static bool is_top(const split *s, const expr *e) {
    if (e->op == X_SELECT && e->arg[0]->op == X_EQ) e = e->arg[2];
    return e->op == X_READ && e->buffer == s->a.top;
}

static expr *moved(split *s, expr *e);

static expr *moved_read(split *s, const expr *e) {
    expr *index[MAX_RANK];
    bool local = e->buffer->role == BUF_LOCAL, by_key = false;
    for (int j = 0; j < e->buffer->rank; j++) {
        by_key |= expr_uses_axis(e->index[j], s->key_axis);
        index[j] = local ? s->key : moved(s, e->index[j]);
    }
    if (local) return x_read(s->k, s->locals[e->buffer->id], index);
    expr *guard = e->guard ? moved(s, e->guard) : NULL;
    if (by_key) guard = guard ? x_and(s->k, guard, s->here) : s->here;
    return x_read_guarded(s->k, e->buffer, index, guard, e->fill ? moved(s, e->fill) : NULL);
}

static expr *to_piece(void *user, expr *e) {
    split *s = user;
    if (is_top(s, e)) return finite_top(s->k, s->locals[s->a.top->id]);
    if (e->op == X_READ) return moved_read(s, e);
    if (e->op != X_AXIS) return NULL;
    if (e->axis != s->key_axis) return s->axes[e->axis];
    return x_add(s->k, x_mul(s->k, s->piece, x_dim(s->k, s->chunk)), s->key);
}
static expr *moved(split *s, expr *e) { return expr_rewrite(s->k, e, to_piece, s); }

// A stage with the axes of the original one, whose axis number `key` are the keys, and its states.
static stage *move_stage(split *s, const stage *old, int key) {
    stage *st = kernel_stage(s->k);
    for (int j = 0; j < old->axes.n; j++) {
        int a = old->axes.at[j];
        const axis *x = &s->old->axes.at[a];
        s->axes[a] = stage_own_axis(s->k, st, x->kind, x->name, j == key ? s->chunk : x->extent);
        if (j == key) s->key = s->axes[a], s->key_axis = a;
    }
    expr *left = x_sub(s->k, x_dim(s->k, s->keys), x_mul(s->k, s->piece, x_dim(s->k, s->chunk)));
    s->here = x_lt(s->k, s->key, left);
    for (int j = 0; j < old->states.n; j++) {
        state c = old->states.at[j];
        c.init = moved(s, c.init), c.step = moved(s, c.step);
        VEC_PUSH(s->k->arena, &st->states, c);
    }
    return st;
}

static void move_locals(split *s) {
    for (int j = 0; j < s->old->locals.n; j++) {
        const buffer *b = s->old->locals.at[j];
        s->locals[j] = kernel_local(s->k, b->name, b->dtype, b->rank, &s->chunk);
    }
}

// Scores of keys past the end are -inf, so that the other stages need no guards.
static void move_local_stage(split *s, const stage *old) {
    const write *w = &old->writes.at[0];
    stage *st = move_stage(s, old, 0);
    expr *value = moved(s, w->value);
    if (old == s->a.score) value = x_select(s->k, s->here, value, x_float(s->k, DT_F32, -INFINITY));
    stage_write(s->k, st, s->locals[w->to->id], &s->key, value);
}

static void make_pieces(split *s) {
    const attention *a = &s->a;
    dims *d = s->p->dims;
    kernel *k = begin_kernel(s, arena_printf(s->p->arena, "%s_parts", s->old->name));
    s->piece = x_axis(k, kernel_axis(k, AXIS_PARALLEL, "p", dim_const(d, PIECES)));
    add_outer(s);
    move_locals(s);
    s->parts = new_parts(s, "parts", s->old->axes.at[a->e].extent);
    s->tops = new_parts(s, "tops", NULL), s->totals = new_parts(s, "totals", NULL);
    for (int j = 0; s->old->stages.at[j] != a->value; j++) move_local_stage(s, s->old->stages.at[j]);
    stage *last = move_stage(s, a->value, 1), *kept;
    expr *index[3];
    part_index(s, s->piece, index);
    index[2] = s->axes[a->e];
    stage_write(k, last, s->parts, index, x_state(k, 0, DT_F32));
    kept = kernel_stage(k);
    stage_write(k, kept, s->tops, index, x_read(k, s->locals[a->top->id], NULL));
    stage_write(k, kept, s->totals, index, x_read(k, s->locals[a->total->id], NULL));
}

// ---------------------------------------------------------------- joining them

static expr *add_piece(split *s, stage *st) {
    return stage_own_axis(s->k, st, AXIS_REDUCE, "p", dim_const(s->p->dims, PIECES));
}

// exp(tops[p] - top)
static expr *weight_of(split *s, expr *const *index, buffer *top) {
    kernel *k = s->k;
    return x_un(k, X_EXP, x_sub(k, x_read(k, s->tops, index), finite_top(k, top)));
}

static expr *to_joined(void *user, expr *e) {
    split *s = user;
    if (e->op == X_READ && e->buffer->role == BUF_LOCAL) return x_read(s->k, s->locals[e->buffer->id], NULL);
    if (e->op == X_AXIS) return s->axes[e->axis];
    return e->op == X_STATE ? s->state : NULL;
}

static void join_pieces(split *s) {
    const write *w = &s->a.value->writes.at[0];
    kernel *k = begin_kernel(s, s->old->name);
    expr *index[MAX_RANK];
    add_outer(s);
    buffer *top = kernel_local(k, "top", DT_F32, 0, NULL), *total = kernel_local(k, "total", DT_F32, 0, NULL);
    s->locals[s->a.total->id] = total, s->locals[s->a.top->id] = top;
    stage *st = kernel_stage(k);
    part_index(s, add_piece(s, st), index);
    stage_write(k, st, top, NULL, stage_reduce(k, st, RED_NUMBER_MAX, x_read(k, s->tops, index)));
    st = kernel_stage(k);
    part_index(s, add_piece(s, st), index);
    expr *term = x_mul(k, x_read(k, s->totals, index), weight_of(s, index, top));
    stage_write(k, st, total, NULL, stage_reduce(k, st, RED_SUM, term));
    st = kernel_stage(k);
    expr *e = stage_own_axis(k, st, AXIS_PARALLEL, "e", s->old->axes.at[s->a.e].extent);
    part_index(s, add_piece(s, st), index);
    index[2] = s->axes[s->a.e] = e;
    s->state = stage_reduce(k, st, RED_SUM, x_mul(k, x_read(k, s->parts, index), weight_of(s, index, top)));
    for (int j = 0; j < w->to->rank; j++) index[j] = expr_rewrite(k, w->index[j], to_joined, s);
    stage_write(k, st, w->to, index, expr_rewrite(k, w->value, to_joined, s));
}

// ---------------------------------------------------------------- the program

static void split_step(program *p, region *r, step *at) {
    split s = {.p = p, .old = at->kernel};
    if (!find(&s)) return;
    make_pieces(&s);
    kernel *pieces = s.k;
    join_pieces(&s);
    variant_replace(p, r, at, pieces, s.k, dim_is_const(condition(&s)) ? NULL : condition(&s));
}

void pass_split_attention(pass_context *c) {
    program *p = c->program;
    step_list steps = program_steps(p->arena, p);
    for (int j = 0; j < steps.n; j++) {
        step *s = steps.at[j].s;
        if (s->kind == STEP_KERNEL && !s->kernel->algorithm) split_step(p, steps.at[j].region, s);
    }
    program_compact(p);
}
