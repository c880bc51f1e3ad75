// Contractions of bytes on targets that add the products of two vectors to a scalar (Helium's VMLADAV). Both operands
// lie in rows along K. With vectors of V bytes:
//
//   for batch, other N and M axes, for n0 in steps of 4:
//     s[4] = 0
//     for outer k axes, for k in steps of V:
//       a = A[m][k .. k+V]                          past the end 0
//       for j < 4: s[j] += sum(a * B[n0 + j][k .. k+V])
//     write f(s) for four columns                   the epilogue, in vectors
//
// Operands of different sign are widened to 16 bits, half as many at a time.
#include "passes/schedule/cpu/contract_tiling.h"
#include "passes/schedule/cpu/schedule_groups.h"

enum { COLUMNS = 4, UNROLLED = 4 };

typedef struct across {
    tiling t;
    int axis, width;   // the innermost axis of K, and its positions in a vector
    ins *sum[COLUMNS]; // variables
    ins *stride;       // elements of B from one column to the next
} across;

// ---------------------------------------------------------------- does it fit
static bool find_operands(across *x) {
    tiling *t = &x->t;
    emitter *e = t->e;
    const contraction *c = t->c;
    const state *st = &c->s->states.at[0];
    int axis = across_axis(e->t, c);
    bool zero_init = st->init->op == X_CONST && st->init->i == 0;
    if (axis < 0 || !zero_init || dtype_bits(c->w->to->dtype) < 8) return false;
    emitter_stage(e, c->s, -1, 1, false);
    t->a = entry_of(e, c->a)->read, t->b = entry_of(e, c->b)->read;
    t->write = access_make(e, c->w->to, c->w->index);
    if (!t->a->affine || !t->b->affine || !t->write->affine || !steps_by_one(t->write, c->n)) return false;
    t->group_axis = axis; // comes last
    choose_axes(t);
    t->tile_m = t->group_axis = -1;
    x->axis = t->k.at[t->k.n - 1];
    return steps_by_one(t->a, x->axis) && steps_by_one(t->b, x->axis);
}

// ---------------------------------------------------------------- sums
// Elements of an operand, of which `left` count (NULL: all), in 32 bits.
static ins *load_row(across *x, const expr *read, ins *at, ins *left) {
    lbuild *b = &x->t.e->b;
    ltype type = lt(LK_I8, x->width);
    ins *p = pointer_of(x->t.e, read->buffer);
    ins *v = left ? lb_loadn(b, type, p, at, left) : lb_load(b, type, p, at, 1);
    return lb_conv(b, read->buffer->dtype == DT_I8 ? L_SEXT : L_ZEXT, LK_I32, v);
}

static void add_products(across *x, int columns, ins *left) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    ins *at = emit_index(e, x->t.b->offset);
    ins *row = load_row(x, x->t.c->a, emit_index(e, x->t.a->offset), left);
    for (int j = 0; j < columns; j++) {
        ins *column = load_row(x, x->t.c->b, lb_add(b, at, idx_mulk(b, x->stride, j)), left);
        ins *products = lb_hreduce(b, L_HADD, lb_bin(b, L_MUL, row, column));
        lb_set(b, x->sum[j], lb_add(b, lb_get(b, x->sum[j]), products));
    }
}

static void add_at(across *x, int columns, ins *position, ins *left) {
    emitter *e = x->t.e;
    scope step = scope_open(e);
    e->counter[x->axis] = position;
    add_products(x, columns, left);
    scope_close(e, step);
    e->counter[x->axis] = NULL;
}

static void add_row(across *x, int columns) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    ins *extent = emit_dim(e, e->extent[x->axis]), *whole = emit_int_floor(b, extent, x->width);
    bool unrolls = whole->op == L_CONST && whole->i <= (e->t->size_level ? 1 : UNROLLED) * x->width;
    for (int64_t k = 0; unrolls && k < whole->i; k += x->width) add_at(x, columns, lb_idx(b, k), NULL);
    if (!unrolls) {
        scope loop = scope_axis(e, x->axis, lb_idx(b, 0), whole, x->width, LOOP_SERIAL);
        add_products(x, columns, NULL);
        scope_close(e, loop);
    }
    if (same_index(whole, extent)) return;
    ins *left = lb_sub(b, extent, whole);
    scope some = scope_if(e, left->op == L_CONST ? NULL : lb_cmp(b, L_SLT, lb_idx(b, 0), left));
    add_at(x, columns, whole, left);
    scope_close(e, some);
}

static void k_loops(across *x, int columns, int depth) {
    tiling *t = &x->t;
    emit_hoist(t->e, t->a->offset);
    emit_hoist(t->e, t->b->offset);
    if (depth == t->k.n - 1) {
        add_row(x, columns);
        return;
    }
    scope loop = scope_axis(t->e, t->k.at[depth], lb_idx(&t->e->b, 0),
                            emit_dim(t->e, t->e->extent[t->k.at[depth]]), 1, LOOP_SERIAL);
    k_loops(x, columns, depth + 1);
    scope_close(t->e, loop);
}

// ---------------------------------------------------------------- columns
static void some_columns(across *x, ins *n0, int columns) {
    tiling *t = &x->t;
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *zero = lb_int(b, lt(LK_I32, 1), 0);
    scope mark = scope_open(e);
    e->counter[t->c->n] = n0;
    x->stride = emit_index(e, t->b->coef[t->c->n]);
    for (int j = 0; j < columns; j++) x->sum[j] = lb_var(b, "sum", zero);
    k_loops(x, columns, 0);
    scope_close(e, mark);
    ins *sums = lb_splat(b, lb_get(b, x->sum[0]), COLUMNS);
    for (int j = 1; j < columns; j++) sums = lb_insert(b, sums, lb_get(b, x->sum[j]), j);
    ins *acc = lb_var(b, "acc", sums);
    tile whole = {.rows = 1, .vectors = 1, .m0 = lb_idx(b, 0), .n0 = n0};
    if (columns < COLUMNS) whole.last = lb_idx(b, columns);
    write_tile(t, &whole, &acc);
    e->counter[t->c->n] = NULL;
}

static void all_columns(across *x) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    int64_t n = dim_value(e->extent[x->t.c->n]), rest = n % COLUMNS;
    if (n > rest) {
        scope loop = scope_for(e, "n", lb_idx(b, 0), lb_idx(b, n - rest), COLUMNS, LOOP_PARALLEL);
        some_columns(x, loop.head, COLUMNS);
        scope_close(e, loop);
    }
    if (rest) some_columns(x, lb_idx(b, n - rest), (int)rest);
}

static void outer_loops(across *x, const axis_list *axes, int depth) {
    if (depth == axes->n) {
        all_columns(x);
        return;
    }
    scope loop = scope_parallel(x->t.e, axes->at[depth]);
    outer_loops(x, axes, depth + 1);
    scope_close(x->t.e, loop);
}

bool schedule_across(emitter *e, const contraction *c) {
    emitter own = emitter_apart(e);
    bool same = c->a->buffer->dtype == c->b->buffer->dtype;
    across x = {.t = {.e = &own, .c = c, .tile_m = -1, .lanes = COLUMNS, .vectors = 1},
                .width = target_lanes(e->t, same ? 8 : 16)};
    if (!find_operands(&x)) return false;
    own.state = ARENA_ARRAY(own.scratch, ins *, 1);
    own.active = NULL;
    emitter_stage(&own, c->s, c->n, COLUMNS, true);
    axis_list outer = c->batch;
    for (int j = 0; j < c->other_n.n; j++) outer.at[outer.n++] = c->other_n.at[j];
    for (int j = 0; j < x.t.m.n; j++) outer.at[outer.n++] = x.t.m.at[j];
    outer_loops(&x, &outer, 0);
    *e = own;
    return true;
}
