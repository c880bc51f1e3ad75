// Products as calls. The last axis of M, N and K are those of the matrices:
//
//   for batch axes, outer M axes, outer N axes:
//     cblas_sgemm(row-major, A as it is | transposed, B as it is | transposed, M, N, K, 1, A, lda, B, ldb, 0, C, ldc)
#include "passes/schedule/cpu/schedule_cblas.h"
#include "passes/schedule/common/emit_dim.h"
#include <string.h>

enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112, ARGUMENTS = 14 };

typedef struct matrix {
    const access *at;
    int rows, columns; // axes
    bool transposed;
} matrix;

static bool moves_by_one(const access *a, int axis) {
    return a->coef[axis]->op == X_CONST && a->coef[axis]->i == 1;
}

static bool is_matrix(matrix *m) {
    if (!m->at || !m->at->affine) return false;
    m->transposed = !moves_by_one(m->at, m->columns);
    return !m->transposed || moves_by_one(m->at, m->rows);
}

static ins *to_int(emitter *e, ins *x) {
    if (x->op == L_CONST) return lb_int(&e->b, lt(LK_I32, 1), x->i);
    return x->type.kind == LK_I32 ? x : lb_conv(&e->b, L_ITRUNC, LK_I32, x);
}
static ins *size_of(emitter *e, int axis) { return to_int(e, emit_dim(e, e->extent[axis])); }
static ins *stride_of(emitter *e, const matrix *m) {
    return to_int(e, emit_index(e, m->at->coef[m->transposed ? m->columns : m->rows]));
}
static ins *start_of(emitter *e, const matrix *m) {
    ins *at = emit_index(e, m->at->offset);
    return lb_offset(&e->b, pointer_of(e, m->at->buffer), at, dtype_bits(m->at->buffer->dtype) / 8);
}
static ins *layout_word(emitter *e, const matrix *m) {
    return lb_int(&e->b, lt(LK_I32, 1), m->transposed ? TRANSPOSED : AS_IT_IS);
}

// Its declaration, once in a module.
static void declare(emitter *e, const char *name, int n, ins *const *args, dtype t) {
    static const char *const names[ARGUMENTS] = {"order", "transa", "transb", "m",   "n",    "k", "alpha",
                                                 "a",     "lda",    "b",      "ldb", "beta", "c", "ldc"};
    for (int j = 0; j < e->module->funcs.n; j++)
        if (strcmp(e->module->funcs.at[j]->name, name) == 0) return;
    lfunc *f = lfunc_new(e->module, name, lt(LK_VOID, 1));
    for (int j = 0; j < n; j++) {
        bool pointer = args[j]->type.kind == LK_PTR, number = args[j]->type.kind == LK_I32;
        lfunc_param(f, names[j], args[j]->type, pointer ? lkind_of(t) : LK_VOID, number ? DT_I32 : t,
                    j != 12);
    }
}

static void call(emitter *e, const contraction *c, const matrix m[3]) {
    dtype t = c->s->states.at[0].dtype;
    ltype number = lt(lkind_of(t), 1);
    const char *name = t == DT_F32 ? "cblas_sgemm" : "cblas_dgemm";
    ins *const args[ARGUMENTS] = {
        lb_int(&e->b, lt(LK_I32, 1), ROW_MAJOR),
        layout_word(e, &m[0]),
        layout_word(e, &m[1]),
        size_of(e, m[0].rows),
        size_of(e, m[1].columns),
        size_of(e, m[0].columns),
        lb_float(&e->b, number, 1),
        start_of(e, &m[0]),
        stride_of(e, &m[0]),
        start_of(e, &m[1]),
        stride_of(e, &m[1]),
        lb_float(&e->b, number, 0),
        start_of(e, &m[2]),
        stride_of(e, &m[2]),
    };
    declare(e, name, ARGUMENTS, args, t);
    lb_call(&e->b, lt(LK_VOID, 1), name, ARGUMENTS, args);
}

static void loops(emitter *e, const contraction *c, const matrix m[3], const axis_list *outer, int depth) {
    bool innermost = depth == outer->n;
    scope s = innermost ? scope_open(e)
                        : scope_axis(e, outer->at[depth], lb_idx(&e->b, 0),
                                     emit_dim(e, e->extent[outer->at[depth]]), 1, LOOP_SERIAL);
    if (innermost) {
        for (int j = 0; j < 2; j++) e->counter[m[j].rows] = e->counter[m[j].columns] = lb_idx(&e->b, 0);
        call(e, c, m);
    } else {
        loops(e, c, m, outer, depth + 1);
    }
    scope_close(e, s);
}

bool schedule_cblas(emitter *e, const contraction *c) {
    emitter_stage(e, c->s, -1, 1, false);
    if (c->n < 0 || !c->m.n || c->k_axes.n != 1) return false;
    int row = c->m.at[c->m.n - 1], k = c->k_axes.at[0];
    matrix m[3] = {{.at = entry_of(e, c->a)->read, .rows = row, .columns = k},
                   {.at = entry_of(e, c->b)->read, .rows = k, .columns = c->n},
                   {.at = access_make(e, c->w->to, c->w->index), .rows = row, .columns = c->n}};
    if (!is_matrix(&m[0]) || !is_matrix(&m[1]) || !is_matrix(&m[2]) || m[2].transposed) return false;
    axis_list outer = c->batch;
    for (int j = 0; j < c->m.n - 1; j++) outer.at[outer.n++] = c->m.at[j];
    for (int j = 0; j < c->other_n.n; j++) outer.at[outer.n++] = c->other_n.at[j];
    loops(e, c, m, &outer, 0);
    return true;
}
