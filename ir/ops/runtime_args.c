// Arguments known only at run time: inference represents the elements of integer values by runtime symbols,
// and lowering emits the steps that set them. Also helpers for the shape and movement operators.
#include "ir/ops/runtime_args.h"
#include <string.h>

// ---------------------------------------------------------------- dims as conditions
dim *dim_not(dim *condition) { return dim_eq(condition, dim_const(condition->table, 0)); }
dim *dim_or(dim *a, dim *b) { return dim_max(a, b); }
dim *dim_and(dim *a, dim *b) { return dim_min(a, b); }
dim *dim_at_most(dim *a, dim *b) { return dim_not(dim_lt(b, a)); }

dim *dim_is_axis(dim *axis, int a, int rank) {
    dims *t = axis->table;
    return dim_or(dim_eq(axis, dim_const(t, a)), dim_eq(axis, dim_const(t, a - rank)));
}

int64_t flat_position(const int64_t *at, const int64_t *sizes, int rank) {
    int64_t p = 0;
    for (int j = 0; j < rank; j++) p = p * sizes[j] + at[j];
    return p;
}

// ---------------------------------------------------------------- inference
bool infer_static(const type *t, int64_t most, int64_t *sizes, int64_t *count) {
    if (t->kind != TYPE_TENSOR || t->rank == RANK_UNKNOWN) return false;
    *count = 1;
    for (int j = 0; j < t->rank; j++)
        if (dim_is(t->dims[j], 0)) *count = 0;
    for (int j = 0; j < t->rank; j++) {
        if (!dim_is_const(t->dims[j])) return false;
        sizes[j] = dim_value(t->dims[j]);
        if (__builtin_mul_overflow(*count, sizes[j], count) || *count > most) return false;
    }
    return true;
}

// Runtime symbols for the elements of v, named after it so that repeated inference yields the same dims.
static dim **opaque_list(const node *n, const value *v, int count) {
    arena *a = infer_arena(n);
    dim **list = ARENA_ARRAY(a, dim *, count + 1);
    for (int j = 0; j < count; j++)
        list[j] = dim_opaque_named(infer_dims(n), arena_printf(a, "?%s[%d]", v->name, j));
    return list;
}

dim **infer_contents_or_opaque(node *n, int i, int *count) {
    dim **known = infer_contents(n, i, count);
    value *v = node_in(n, i);
    int64_t sizes[MAX_RANK], elements;
    if (known || !v) return known;
    if (!dtype_is_int(v->type.elem) || !infer_static(&v->type, CONTENTS_MAX, sizes, &elements)) return NULL;
    v->ncontents = *count = (int)elements;
    return v->contents = opaque_list(n, v, *count);
}

static void check_position(const node *n, int64_t at, const dim *size) {
    if (dim_is_const(size) && (at < -dim_value(size) || at >= dim_value(size)))
        infer_error(n, "index %lld is out of range for an axis of size %lld", (long long)at,
                    (long long)dim_value(size));
}

void infer_positions(const node *n, int i, dim *const *sizes, int count) {
    const constant *c = infer_constant(n, i);
    for (int64_t e = 0; c && e < c->count; e++) check_position(n, constant_int(c, e), sizes[e % count]);
    int known;
    dim **contents = c ? NULL : infer_contents(n, i, &known);
    for (int e = 0; contents && e < known; e++)
        if (dim_is_const(contents[e])) check_position(n, dim_value(contents[e]), sizes[e % count]);
}

void infer_distinct_axes(const node *n, dim *const *axes, int count, int rank) {
    bool seen[MAX_RANK] = {false};
    for (int i = 0; i < count; i++) {
        if (!dim_is_const(axes[i])) continue;
        int a = infer_axis(n, dim_value(axes[i]), rank);
        if (seen[a]) infer_error(n, "axis %d is given twice", a);
        seen[a] = true;
    }
}

static bool has_length(const node *reshape, int length) {
    const constant *shape = reshape->in[1]->constant;
    bool is = shape && shape->count == 1 && constant_int(shape, 0) == length;
    return is && (length || node_int(reshape, "allowzero", 0));
}

// A list before n in its graph that is v with that length, made for another node; NULL: there is none.
static value *find_list(const node *n, const value *v, int length) {
    for (int j = 0; j < v->uses.n; j++) {
        const node *made = v->uses.at[j].node;
        if (made && made->op == op_find("", "Reshape") && made->graph == n->graph && made->in[0] == v &&
            has_length(made, length) && node_place(made) < node_place(n))
            return made->out[0];
    }
    return NULL;
}

// Input i becomes a list with that length: nodes that run without n may want another length of the same list, and
// read nothing where it is shorter.
static void own_list(node *n, int i, int length) {
    value *list = find_list(n, n->in[i], length);
    if (!list) {
        value *in[] = {n->in[i], value_int64s(n->graph, NULL, (int64_t[]){length}, 1)};
        node *made;
        list = insert_before(n, "Reshape", 2, in, &made);
        node_set_attr(made, (attr){.name = "allowzero", .kind = ATTR_INT, .i = 1});
        infer_node(made);
    }
    node_set_in(n, i, list);
}

bool infer_argument(node *n, int i, int expected, dim ***contents, int *count, dtype elem) {
    const type *t = infer_in(n, i);
    *contents = infer_contents_or_opaque(n, i, count);
    if (*contents) return true;
    if (!dtype_is_int(t->elem)) infer_error(n, "input %d must be an integer tensor", i);
    if (expected >= 0 && expected <= CONTENTS_MAX && t->rank == 1) {
        infer_same_dim(n, t->dims[0], infer_k(n, expected), "length of an argument");
        own_list(n, i, expected);
        *contents = infer_contents_or_opaque(n, i, count);
        return true;
    }
    for (int j = 0; j < n->nout; j++) infer_set_unknown(n, j, elem);
    return false;
}

void infer_set_like(node *n, int out, dtype elem, int in) {
    const type *t = infer_in(n, in);
    if (t->rank == RANK_UNKNOWN) infer_set_unknown(n, out, elem);
    else infer_set(n, out, elem, t->rank, t->dims);
}

void infer_one_element(const node *n, int i, const char *what) {
    const type *t = node_in(n, i) ? infer_in(n, i) : NULL;
    what = arena_printf(infer_arena(n), "the number of %s, which must be 1", what);
    for (int j = 0; t && j < t->rank; j++) infer_same_dim(n, t->dims[j], infer_k(n, 1), what);
}

void infer_shape(const node *n, int i, const char *name, int rank, dim *const *want, const char *what) {
    if (!node_in(n, i)) return;
    if (infer_rank(n, i) != rank) infer_error(n, "%s has rank %d, not %d", name, infer_rank(n, i), rank);
    for (int j = 0; j < rank; j++)
        infer_same_dim(n, infer_in(n, i)->dims[j], want[j],
                       what ? what : arena_printf(infer_arena(n), "dim %d of %s", j, name));
}

int infer_supported_rank(const node *n, int rank) {
    if (rank > MAX_RANK)
        infer_error(n, "the output would have rank %d; at most %d is supported", rank, MAX_RANK);
    return rank;
}

int infer_common_length(const node *n, int first, int last) {
    for (int i = first; i <= last; i++) {
        const value *v = node_in(n, i);
        int64_t size, count;
        if (v && v->type.rank == 1 && infer_static(&v->type, CONTENTS_MAX, &size, &count)) return (int)count;
    }
    return -1;
}

dim *infer_count_dim(const node *n, dim *most) {
    const value *v = NULL;
    for (int j = 0; j < n->nout && !v; j++) v = n->out[j];
    dim *d = dim_opaque_named(infer_dims(n), arena_printf(infer_arena(n), "?%s.count", v ? v->name : ""));
    d->is_count = true;
    if (d->min < 0) dim_bound(d, 0, INT64_MAX, 1);
    if (!most) return d;
    d->most = most;
    if (most->max < d->max) dim_bound(d, 0, most->max, 1);
    return d;
}

void infer_move_contents(node *n, contents_source source, const void *user) {
    int known;
    dim **from = infer_contents(n, 0, &known), *to[CONTENTS_MAX];
    const value *out = node_out(n, 0);
    int64_t sizes[MAX_RANK], count, at[MAX_RANK] = {0};
    if (!from || !out || !infer_static(&out->type, CONTENTS_MAX, sizes, &count)) return;
    for (int64_t e = 0; e < count; e++) {
        int64_t position = source(user, at);
        if (position < 0 || position >= known) return;
        to[e] = from[position];
        for (int j = out->type.rank - 1; j >= 0 && ++at[j] == sizes[j]; j--) at[j] = 0;
    }
    infer_set_contents(n, 0, to, (int)count);
}

// ---------------------------------------------------------------- lowering
bool is_declared(const program *p, const dim *d) {
    for (int j = 0; j < p->variables.n; j++)
        if (p->variables.at[j] == d) return true;
    return false;
}

void declare_variable(lowering *l, dim *d) {
    program *p = l->program;
    if (!is_declared(p, d)) VEC_PUSH(p->arena, &p->variables, d);
}

step *lower_set_dim(lowering *l, const node *n, dim *target, buffer *b, int64_t element) {
    declare_variable(l, target);
    step *s = step_new(l->program, l->region, STEP_SET_DIM, n->loc);
    s->target = target, s->buffer = b, s->index = element;
    return s;
}

static bool is_set(const lowering *l, const dim *d) {
    for (int j = 0; j < l->region->steps.n; j++)
        if (l->region->steps.at[j]->target == d) return true;
    return false;
}

// The index of the atom in v's symbolic value; -1 if it does not occur.
static int place_in(const value *v, const dim *atom) {
    for (int j = 0; j < v->ncontents; j++)
        if (v->contents[j] == atom) return j;
    return -1;
}

static bool set_from(lowering *l, node *n, value *v, dim *atom) {
    int place = place_in(v, atom);
    buffer *b = place < 0 ? NULL : map_get_number(&l->buffers, (uint64_t)v->id);
    if (!b || !dtype_is_int(b->dtype) || !graph_sees(n->graph, v->graph)) return false;
    lower_set_dim(l, n, atom, b, place);
    return true;
}

static void set_atom(lowering *l, node *n, dim *atom) {
    if (atom->kind != DIM_OPAQUE || is_set(l, atom)) return;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i] && set_from(l, n, n->in[i], atom)) return;
    const module *m = n->graph->module;
    for (int i = 0; i < m->values.n; i++)
        if (m->values.at[i] && set_from(l, n, m->values.at[i], atom)) return;
}

// An atom stands for an element of a computed value. Setting it again in a region is harmless, and necessary
// if the earlier step that set it is in another branch.
static void set_atoms(lowering *l, node *n, const dim *d) {
    atom_list atoms = dim_atoms(l->program->arena, d);
    for (int i = 0; i < atoms.n; i++) set_atom(l, n, atoms.at[i]);
}

void lower_arguments(lowering *l, node *n) {
    for (int i = 0; i < n->nin; i++) {
        const value *v = n->in[i];
        for (int j = 0; v && j < v->ncontents && !v->constant; j++) set_atoms(l, n, v->contents[j]);
    }
    for (int i = 0; i < n->nout; i++)
        for (int j = 0; n->out[i] && j < n->out[i]->type.rank; j++) set_atoms(l, n, n->out[i]->type.dims[j]);
    lower_checks(l, n);
}

void lower_unknown_length(lowering *l, const node *n) {
    diag_fatal_missing(l->program->diag, n->loc,
                       "an argument has a length that is not known at compile time");
}

dim **lower_argument(lowering *l, node *n, int i, int length, int *count) {
    dim **contents = infer_contents_or_opaque(n, i, count);
    if (contents) return contents;
    const type *t = infer_in(n, i);
    if (length < 0 || length > CONTENTS_MAX || t->rank != 1) lower_unknown_length(l, n);
    lower_check(l, n, dim_eq(t->dims[0], infer_k(n, length)),
                "an argument does not have the length that its node requires");
    dim **list = opaque_list(n, n->in[i], *count = length);
    for (int j = 0; j < length; j++) lower_set_dim(l, n, list[j], lower_in(l, n, i), j);
    return list;
}

void lower_sizes(lowering *l, node *n, dim *const *d) {
    const value *v = node_out(n, 0);
    for (int j = 0; v && j < v->type.rank; j++) {
        dim *size = v->type.dims[j];
        if (size->kind == DIM_OPAQUE && size != d[j] && !is_declared(l->program, size))
            lower_set_dim(l, n, size, NULL, 0)->dim = d[j];
        else lower_check(l, n, dim_eq(size, d[j]), "an output does not have its declared size");
    }
    lower_checks(l, n);
}

void lower_check_size(lowering *l, const node *n, dim *d, const char *message) {
    lower_check(l, n, dim_at_most(dim_const(d->table, 0), d), message);
}

stage *suffixed_stage(lowering *l, const node *n, const char *suffix, buffer *out, kernel **k, expr **index) {
    *k = lower_kernel(l, n, suffix);
    stage *s = kernel_stage(*k);
    axes_over(*k, s, out, index);
    return s;
}

expr *x_inside(kernel *k, expr *i, dim *extent) {
    return x_and(k, x_bin(k, X_LE, x_i64(k, 0), i), x_lt(k, i, x_dim(k, extent)));
}

expr *x_clamped(kernel *k, expr *i, dim *extent) {
    expr *last = x_dim(k, dim_addk(extent, -1));
    return x_bin(k, X_MAX, x_bin(k, X_MIN, i, last), x_i64(k, 0));
}

void lower_convert(lowering *l, const node *n, const char *suffix, buffer *from, buffer *to) {
    kernel *k;
    expr *index[MAX_RANK];
    if (!to) return;
    stage *s = suffixed_stage(l, n, suffix, to, &k, index);
    expr *v = x_read(k, from, index);
    stage_write(k, s, to, index, from->dtype == to->dtype ? v : x_cast(k, v, to->dtype, true));
}

step *lower_call(lowering *l, const node *n, const char *function, int nwritten, buffer *const *args,
                 int nargs, dim *const *numbers, int nnumbers) {
    step *s = lower_library(l, n, function, nwritten, nargs, nnumbers);
    memcpy(s->args, args, (size_t)nargs * sizeof *args);
    if (nnumbers) memcpy(s->numbers, numbers, (size_t)nnumbers * sizeof *numbers);
    return s;
}

bool lower_known_contents(lowering *l, node *n) {
    const value *v = node_out(n, 0);
    if (!v || v->constant || !v->contents || v->ncontents > CONTENTS_MAX) return false;
    if (!dtype_is_int(v->type.elem)) return false;
    if (dims_are_opaque(v->contents, v->ncontents)) return false;
    buffer *out = lower_out(l, n, 0);
    kernel *k = lower_kernel(l, n, NULL);
    stage *s = kernel_stage(k);
    int64_t at[MAX_RANK] = {0};
    for (int j = 0; j < v->ncontents; j++) {
        expr *index[MAX_RANK];
        for (int i = 0; i < out->rank; i++) index[i] = x_i64(k, at[i]);
        stage_write(k, s, out, index, x_cast(k, x_dim(k, v->contents[j]), out->dtype, false));
        for (int i = out->rank - 1; i >= 0 && ++at[i] == dim_value(out->dims[i]); i--) at[i] = 0;
    }
    return true;
}
