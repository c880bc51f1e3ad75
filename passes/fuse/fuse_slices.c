// Slices: if all readers of a buffer read one position of an axis (the last token, the class token), the buffer has that
// position alone and its writer computes nothing else. Writers come after their readers, so whole chains shrink.
//
//   T[i, j] = f(i, j)   for i < n         T[0, j] = f(n - 1, j)
//   y[j] = g(T[n - 1, j])            =>   y[j] = g(T[0, j])
#include "ir/kernel/edit.h"
#include "passes/fuse/fuse_impl.h"
#include "passes/match/form.h"
#include "passes/passes.h"

typedef struct slicing {
    program *p;
    uses *u;
    arena *scratch;
} slicing;

// ---------------------------------------------------------------- what is read
static dim *position_of(const kernel *k, const expr *e) {
    dims *table = k->program->dims;
    if (e->op == X_CHECK) return position_of(k, e->arg[0]);
    if (e->op == X_CONST) return dim_const(table, e->i);
    if (e->op == X_DIM) return e->dim;
    if (e->op == X_AXIS && k->axes.at[e->axis].extent->max <= 1) return dim_const(table, 0);
    if (e->op != X_ADD) return NULL;
    dim *x = position_of(k, e->arg[0]), *y = position_of(k, e->arg[1]);
    return x && y ? dim_add(x, y) : NULL;
}

// The only position of the axis that the site's kernel reads, unless *at has another one. False: there are several.
static bool reads_position(const slicing *s, const site *reader, const buffer *b, int axis, dim **at) {
    expr_list all = kernel_nodes(s->scratch, reader->s->kernel, PART_ALL);
    for (int j = 0; j < all.n; j++) {
        if (all.at[j]->op != X_READ || all.at[j]->buffer != b) continue;
        dim *here = position_of(reader->s->kernel, all.at[j]->index[axis]);
        if (!here || (*at && *at != here)) return false;
        *at = here;
    }
    return true;
}

// Whether the position exists wherever the axis has positions.
static bool exists(dim *at, dim *extent) {
    dim *last = dim_addk(extent, -1), *zero = dim_const(extent->table, 0);
    if (at == zero || at == last || at == dim_max(last, zero)) return true;
    return at->min >= 0 && dim_less(at, extent) == TRI_YES;
}

// The only position of the axis that is read; NULL: there are several, users other than kernels, or the writer may run
// before the position is known.
static dim *only_position(const slicing *s, const site *writer, const buffer *b, int axis) {
    const buffer_uses *of = &s->u->of[b->id];
    bool temporary = (b->role == BUF_TEMP || b->role == BUF_HEAP) && !b->view_of && !b->layout;
    if (!temporary || of->viewed || of->by_others || of->output || of->fallback || dim_is(b->dims[axis], 1))
        return NULL;
    dim *at = NULL;
    for (int j = 0; j < of->sites.n; j++) {
        const site *x = of->sites.at[j];
        if (x->s->kind != STEP_KERNEL) continue;
        if (x->region != writer->region) return NULL; // iterations may read different positions
        if (x == writer ? site_reads(x, b) : site_writes(x, b) || !reads_position(s, x, b, axis, &at))
            return NULL;
    }
    return at && !dims_are_opaque(&at, 1) && exists(at, b->dims[axis]) ? at : NULL;
}

// ---------------------------------------------------------------- what is written
// The index of the write that is the kernel's axis; -1: none, or the axis is used otherwise.
static int index_of_axis(const write *w, int axis) {
    int at = dim_of_axis(w->to, w->index, axis, true);
    return w->guard && expr_uses_axis(w->guard, axis) ? -1 : at;
}

static bool stage_has_axis(const kernel *k, const stage *st, int axis) {
    bool has = axis < k->nouter;
    for (int j = 0; j < st->axes.n; j++) has |= st->axes.at[j] == axis;
    return has;
}

// Whether the write alone gives the buffer, all along the axis.
static bool gives_all(const kernel *k, const write *w, int place, int axis) {
    int writes = 0;
    for (int j = 0; j < k->stages.n; j++)
        for (int i = 0; i < k->stages.at[j]->writes.n; i++)
            writes += k->stages.at[j]->writes.at[i].to == w->to;
    return writes == 1 && k->axes.at[axis].extent == w->to->dims[place];
}

// The position to which all results of the kernel along the axis can be reduced; NULL: none.
static dim *common_position(const slicing *s, const site *writer, int axis) {
    const kernel *k = writer->s->kernel;
    dim *all = NULL;
    if (k->axes.at[axis].kind != AXIS_PARALLEL) return NULL;
    for (int j = 0; j < k->stages.n; j++) {
        const stage *st = k->stages.at[j];
        for (int i = 0; i < st->writes.n && stage_has_axis(k, st, axis); i++) {
            const write *w = &st->writes.at[i];
            if (w->to->role == BUF_LOCAL && axis < k->nouter) continue;
            int at = w->to->role == BUF_LOCAL || w->combine != COMBINE_SET ? -1 : index_of_axis(w, axis);
            bool all_of_it = at >= 0 && gives_all(k, w, at, axis);
            dim *here = all_of_it ? only_position(s, writer, w->to, at) : NULL;
            if (!here || (all && all != here)) return NULL;
            all = here;
        }
    }
    return all;
}

// ---------------------------------------------------------------- rewriting
typedef struct one_position {
    const buffer *of;
    int axis;
} one_position;

// 0 for a position; what is checked about it stays.
static expr *first_of(kernel *k, const expr *position) {
    expr *zero = x_i64(k, 0);
    return position->op == X_CHECK ? x_check(k, zero, position->arg[1], position->axis) : zero;
}

static expr *read_first(void *user, kernel *k, const expr *read) {
    const one_position *o = user;
    if (read->buffer != o->of) return NULL;
    expr *index[MAX_RANK];
    for (int j = 0; j < read->buffer->rank; j++)
        index[j] = j == o->axis ? first_of(k, read->index[j]) : read->index[j];
    return x_read_guarded(k, read->buffer, index, read->guard, read->fill);
}

static void shrink_buffer(slicing *s, buffer *b, int axis) {
    dim **dims = ARENA_ARRAY(s->p->arena, dim *, b->rank + 1);
    for (int j = -1; j < b->rank; j++) dims[j + 1] = b->dims[j];
    dims[axis + 1] = dim_min(b->dims[axis], dim_const(s->p->dims, 1));
    b->dims = dims + 1;
    const buffer_uses *of = &s->u->of[b->id];
    for (int j = 0; j < of->sites.n; j++)
        if (of->sites.at[j]->s->kind == STEP_KERNEL && site_reads(of->sites.at[j], b))
            kernel_rewrite_reads(of->sites.at[j]->s->kernel, read_first, &(one_position){b, axis});
}

static void fix_axis(kernel *k, int axis, expr *at) {
    for (int j = 0; j < k->stages.n; j++) {
        stage *st = k->stages.at[j];
        for (int i = 0; i < st->states.n; i++) {
            state *x = &st->states.at[i];
            x->init = expr_substitute_axis(k, x->init, axis, at);
            x->step = expr_substitute_axis(k, x->step, axis, at);
        }
        for (int i = 0; i < st->writes.n; i++) {
            write *w = &st->writes.at[i];
            w->value = expr_substitute_axis(k, w->value, axis, at);
            if (w->guard) w->guard = expr_substitute_axis(k, w->guard, axis, at);
        }
    }
}

static void keep_position(slicing *s, const site *writer, int axis, dim *at) {
    kernel *k = writer->s->kernel;
    fix_axis(k, axis, x_dim(k, at));
    k->axes.at[axis].extent = dim_min(k->axes.at[axis].extent, dim_const(s->p->dims, 1));
    for (int j = 0; j < k->stages.n; j++)
        for (int i = 0; i < k->stages.at[j]->writes.n; i++) {
            write *w = &k->stages.at[j]->writes.at[i];
            int place = w->to->role == BUF_LOCAL ? -1 : index_of_axis(w, axis);
            if (place < 0) continue;
            shrink_buffer(s, w->to, place);
            w->index[place] = x_axis(k, axis);
        }
}

void pass_slices(pass_context *c) {
    slicing s = {.p = c->program, .scratch = arena_new()};
    s.u = uses_build(s.scratch, s.p);
    for (int j = s.u->n - 1; j >= 0; j--) {
        const site *x = &s.u->sites[j];
        for (int a = 0; x->s->kind == STEP_KERNEL && a < x->s->kernel->axes.n; a++) {
            dim *at = common_position(&s, x, a);
            if (at) keep_position(&s, x, a, at), c->changed = true;
        }
    }
    arena_destroy(s.scratch);
}
