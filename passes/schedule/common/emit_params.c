// Sizes as parameters of a kernel's function, and dims computed from them.
#include "ir/kernel/program.h"
#include "passes/schedule/common/emit.h"

// The dims whose values the kernel's loops and accesses need: the parts of extents and shapes of buffers.
// The caller computes them, so kernels that only differ in how their sizes follow from the model's are equal.
// Symbols are parameters for dims that the schedule derives, and instead of many parts. Unused parameters are
// dropped at the end.
enum { LARGE_DIM = 12, MANY_PARTS = 8 };
typedef struct params {
    arena *arena;
    dim_list list;
} params;
static void add_unique(params *l, dim *d) {
    for (int j = 0; j < l->list.n; j++)
        if (l->list.at[j] == d) return;
    VEC_PUSH(l->arena, &l->list, d);
}
// Each with more than this number of distinct dims.
static void add_parts(params *l, dim *d, int size) {
    if (dim_is_const(d)) return;
    if (d->kind == DIM_POLY ? d->nterms > LARGE_DIM : dim_parts_count(d) > size) add_unique(l, d);
    for (int j = 0; d->kind == DIM_POLY && j < d->nterms; j++)
        for (int i = 0; i < d->terms[j].natoms; i++)
            if (dim_parts_count(d->terms[j].atoms[i]) > size) add_unique(l, d->terms[j].atoms[i]);
}
static void add_symbols(params *l, const dim *d) {
    atom_list atoms = dim_atoms(l->arena, d);
    for (int j = 0; j < atoms.n; j++) add_unique(l, atoms.at[j]);
}
static params find_params(emitter *e) {
    params l = {.arena = e->scratch}, symbols = l;
    dim_list used = kernel_dims(e->scratch, e->k);
    for (int j = 0; j < used.n; j++) add_parts(&l, used.at[j], 0), add_symbols(&symbols, used.at[j]);
    if (l.list.n > MANY_PARTS && l.list.n > symbols.list.n) {
        l.list.n = 0;
        for (int j = 0; j < used.n; j++) add_parts(&l, used.at[j], LARGE_DIM);
    }
    for (int j = 0; j < symbols.list.n; j++) add_unique(&l, symbols.list.at[j]);
    return l;
}
// Kernels over 8 * N and over 4 * N rows are equal if these are the parameters: the greatest multiple of N from which all
// dims of the kernel follow.
static dim *scaled(emitter *e, const dim_list *used, dim *d) {
    int64_t by = e->t->arch.is_text ? 1 : dims_multiple(used->at, used->n, d);
    dim *whole = by > 1 ? dim_mulk(d, by) : d;
    if (whole == d || whole->kind != DIM_POLY) return d;
    map_put_number(&e->dim_scales, (uint64_t)d->id, (void *)(intptr_t)by);
    return whole;
}

void emitter_dims(emitter *e) {
    params l = find_params(e);
    dim_list used = kernel_dims(e->scratch, e->k);
    e->code->ndims = l.list.n;
    e->code->dims = ARENA_ARRAY(e->scratch, dim *, l.list.n + 1);
    for (int j = 0; j < l.list.n; j++) {
        dim *d = l.list.at[j], *whole = e->code->dims[j] = scaled(e, &used, d);
        const char *name = d->name && whole == d ? d->name : arena_printf(e->scratch, "size%d", j);
        ins *p = lfunc_param(e->code->f, name, lt(lindex_kind(e->t), 1), LK_VOID, DT_I64, true);
        map_put_number(&e->dim_params, (uint64_t)d->id, p);
    }
}

void emitter_drop_dims(emitter *e) {
    kernel_code *c = e->code;
    int kept = 0, n = c->ndims;
    for (int j = 0; j < n; j++) {
        int at = c->nbuffers + kept;
        if (c->f->params.at[at].value->uses) c->dims[kept++] = c->dims[j];
        else lfunc_drop_param(c->f, at);
    }
    c->ndims = kept;
}

static ins *scaled_param(void *user, const dim *d, int64_t *by) {
    emitter *e = user;
    int64_t scale = (int64_t)(intptr_t)map_get_number(&e->dim_scales, (uint64_t)d->id);
    if (scale) *by = scale;
    return map_get_number(&e->dim_params, (uint64_t)d->id);
}

static ins *dim_param(void *user, const dim *d);

// Offsets are multiples of large dims: the offsets of the many parts of a concatenation, whose lengths are sums.
static ins *multiple_of_param(emitter *e, const dim *d) {
    int64_t by = d->nterms > LARGE_DIM ? dim_content(d) : 1;
    ins *p = by > 1 ? dim_param(e, dim_floordiv((dim *)d, dim_const(d->table, by))) : NULL;
    return p ? lb_mul(&e->b, p, lb_idx(&e->b, by)) : NULL;
}

static ins *dim_param(void *user, const dim *d) {
    emitter *e = user;
    int64_t by = 1;
    ins *p = scaled_param(user, d, &by);
    if (!p) p = multiple_of_param(e, d);
    if (!p && d->name)
        diag_defect(e->b.diag, e->k->loc, "kernel %s: dim '%s' is not a parameter", e->k->name, d->name);
    return p && by > 1 ? emit_int_op(&e->b, X_FLOORDIV, p, lb_idx(&e->b, by)) : p;
}

ins *emit_dim(emitter *e, dim *d) {
    return emit_dim_value(&(dim_source){&e->b, lindex_kind(e->t), dim_param, NULL, NULL, e, scaled_param}, d);
}
