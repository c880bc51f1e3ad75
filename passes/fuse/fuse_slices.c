// Slices: if all readers of a buffer read one position of an axis (the last token, the class token), or a constant range of
// positions (those of the step of a stream), the buffer has these alone and its writer computes nothing else. Writers come
// after their readers, so whole chains shrink. Of constants, such as filters that reach beyond a small image, what no kernel
// reads is left out; and ranges of positions that kernels read apart, such as the weights of gates, become constants of their
// own, which can be packed.
//
//   T[i, j] = f(i, j)   for i < n         T[0, j] = f(n - 1, j)
//   y[j] = g(T[n - 1, j])            =>   y[j] = g(T[0, j])
#include "ir/kernel/edit.h"
#include "passes/fuse/fuse_impl.h"
#include "passes/match/form.h"
#include "passes/passes.h"
#include <string.h>

typedef struct slicing {
    program *p;
    uses *u;
    arena *scratch;
} slicing;

// ---------------------------------------------------------------- reads
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

// Positions [from, from + count) of an axis; NULL: none.
typedef struct part {
    dim *from;
    int64_t count;
} part;

// What an index has of an axis of that size, where a guard keeps it inside.
static bool part_of(const kernel *k, const expr *index, const dim *size, part *of) {
    *of = (part){position_of(k, index), 1};
    if (of->from) return true;
    int_range r = expr_range(k, index);
    if (!dim_is_const(size) || is_infinite(r.min) || is_infinite(r.max)) return false;
    if (r.min < 0) r.min = 0;
    if (r.max >= dim_value(size)) r.max = dim_value(size) - 1;
    if (r.max < r.min) return false;
    *of = (part){dim_const(size->table, r.min), r.max - r.min + 1};
    return true;
}

// Extends `to` by `by`. False: they are at different positions, which are not constant.
static bool join_parts(part *to, const part *by) {
    if (!to->from) *to = *by;
    if (to->from == by->from && to->count == by->count) return true;
    if (!dim_is_const(to->from) || !dim_is_const(by->from)) return false;
    int64_t low = dim_value(to->from), high = low + to->count, l = dim_value(by->from), h = l + by->count;
    low = l < low ? l : low, high = h > high ? h : high;
    *to = (part){dim_const(to->from->table, low), high - low};
    return true;
}

// Extends the part of the axis by what the site's kernel reads. False: it is not known.
static bool add_reads(const slicing *s, const site *reader, const buffer *b, int axis, part *of) {
    expr_list all = kernel_nodes(s->scratch, reader->s->kernel, PART_ALL);
    for (int j = 0; j < all.n; j++) {
        part own;
        if (all.at[j]->op != X_READ || all.at[j]->buffer != b) continue;
        if (!part_of(reader->s->kernel, all.at[j]->index[axis], b->dims[axis], &own) || !join_parts(of, &own))
            return false;
    }
    return true;
}

// Whether the part is not all of the axis, and exists wherever the axis has positions. A guard may exclude a position that does not
// exist.
static bool is_inside(const part *of, dim *extent) {
    dim *last = dim_addk(extent, -1), *zero = dim_const(extent->table, 0);
    if (of->count > 1)
        return dim_is_const(extent) && of->count < dim_value(extent) && dim_value(of->from) >= 0 &&
               dim_value(of->from) <= dim_value(extent) - of->count;
    if (of->from == zero || of->from == last || of->from == dim_max(last, zero)) return true;
    return of->from->min >= 0 && dim_less(of->from, extent) == TRI_YES;
}

// The part of the axis that is read; none: all of it, users other than kernels, or the writer may run before its position is
// known.
static part part_read(const slicing *s, const site *writer, const buffer *b, int axis) {
    const buffer_uses *of = &s->u->of[b->id];
    part all = {0}, none = {0};
    bool temporary = (b->role == BUF_TEMP || b->role == BUF_HEAP) && !b->view_of && !b->layout;
    if (!temporary || of->viewed || of->by_others || of->output || of->fallback || dim_is(b->dims[axis], 1))
        return none;
    for (int j = 0; j < of->sites.n; j++) {
        const site *x = of->sites.at[j];
        if (x->s->kind != STEP_KERNEL) continue;
        if (x->region != writer->region) return none; // iterations may read different positions
        if (x == writer ? site_reads(x, b) : site_writes(x, b) || !add_reads(s, x, b, axis, &all))
            return none;
    }
    return all.from && !dims_are_opaque(&all.from, 1) && is_inside(&all, b->dims[axis]) ? all : none;
}

// ---------------------------------------------------------------- writes
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

// The part to which all results of the kernel along the axis can be reduced.
static part common_part(const slicing *s, const site *writer, int axis) {
    const kernel *k = writer->s->kernel;
    part all = {0}, none = {0};
    if (k->axes.at[axis].kind != AXIS_PARALLEL) return none;
    for (int j = 0; j < k->stages.n; j++) {
        const stage *st = k->stages.at[j];
        for (int i = 0; i < st->writes.n && stage_has_axis(k, st, axis); i++) {
            const write *w = &st->writes.at[i];
            if (w->to->role == BUF_LOCAL && axis < k->nouter) continue;
            int at = w->to->role == BUF_LOCAL || w->combine != COMBINE_SET ? -1 : index_of_axis(w, axis);
            bool all_of_it = at >= 0 && gives_all(k, w, at, axis);
            part here = all_of_it ? part_read(s, writer, w->to, at) : none;
            if (!here.from || !join_parts(&all, &here)) return none;
        }
    }
    return all.from && is_inside(&all, k->axes.at[axis].extent) ? all : none;
}

// ---------------------------------------------------------------- rewriting
typedef struct kept {
    const buffer *of;
    buffer *to;
    int axis;
    part part;
} kept;

// 0 for a position; what is checked about it stays.
static expr *first_of(kernel *k, const expr *position) {
    expr *zero = x_i64(k, 0);
    return position->op == X_CHECK ? x_check(k, zero, position->arg[1], position->axis) : zero;
}

static expr *read_kept(void *user, kernel *k, const expr *read) {
    const kept *o = user;
    if (read->buffer != o->of) return NULL;
    expr *index[MAX_RANK];
    memcpy(index, read->index, (size_t)read->buffer->rank * sizeof *index);
    expr **at = &index[o->axis];
    *at = o->part.count == 1 ? first_of(k, *at) : x_add(k, *at, x_i64(k, -dim_value(o->part.from)));
    return x_read_guarded(k, o->to, index, read->guard, read->fill);
}

static void shrink_buffer(slicing *s, buffer *b, int axis, part of) {
    dim **dims = ARENA_ARRAY(s->p->arena, dim *, b->rank + 1);
    for (int j = -1; j < b->rank; j++) dims[j + 1] = b->dims[j];
    dims[axis + 1] = dim_min(b->dims[axis], dim_const(s->p->dims, of.count));
    b->dims = dims + 1;
    const buffer_uses *uses = &s->u->of[b->id];
    for (int j = 0; j < uses->sites.n; j++)
        if (uses->sites.at[j]->s->kind == STEP_KERNEL && site_reads(uses->sites.at[j], b))
            kernel_rewrite_reads(uses->sites.at[j]->s->kernel, read_kept, &(kept){b, b, axis, of});
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

static void keep_part(slicing *s, const site *writer, int axis, part of) {
    kernel *k = writer->s->kernel;
    expr *at = x_dim(k, of.from);
    fix_axis(k, axis, of.count > 1 ? x_add(k, x_axis(k, axis), at) : at);
    k->axes.at[axis].extent = dim_min(k->axes.at[axis].extent, dim_const(s->p->dims, of.count));
    for (int j = 0; j < k->stages.n; j++)
        for (int i = 0; i < k->stages.at[j]->writes.n; i++) {
            write *w = &k->stages.at[j]->writes.at[i];
            int place = w->to->role == BUF_LOCAL ? -1 : index_of_axis(w, axis);
            if (place < 0) continue;
            shrink_buffer(s, w->to, place, of);
            w->index[place] = x_axis(k, axis);
        }
}

// ---------------------------------------------------------------- constants
enum { LEAST_SAVED = 1024 }; // bytes

// The part of the axis that kernels read; none: all of it, or users other than kernels.
static part part_of_constant(const slicing *s, const buffer *b, int axis) {
    const buffer_uses *of = &s->u->of[b->id];
    part all = {0}, none = {0};
    for (int j = 0; j < of->sites.n; j++)
        if (of->sites.at[j]->s->kind != STEP_KERNEL || !add_reads(s, of->sites.at[j], b, axis, &all))
            return none;
    return all.from && dim_is_const(all.from) && is_inside(&all, b->dims[axis]) ? all : none;
}

static constant *cut_constant(arena *a, const constant *c, int axis, part of) {
    int64_t *dims = ARENA_ARRAY(a, int64_t, c->rank), rows = 1, size = dtype_size(c->elem, 1);
    for (int j = 0; j < c->rank; j++) {
        dims[j] = j == axis ? of.count : c->dims[j];
        if (j < axis) rows *= c->dims[j];
        if (j > axis) size *= c->dims[j];
    }
    const uint8_t *first = c->data + dim_value(of.from) * size;
    if (rows == 1) { // a part of the same bytes, which may be a mapped file's
        constant *bytes = ARENA_NEW(a, constant);
        *bytes = *c;
        bytes->dims = dims, bytes->data = first;
        bytes->count = c->count / c->dims[axis] * of.count;
        return bytes;
    }
    constant *cut = constant_new(a, c->elem, c->rank, dims);
    uint8_t *to = (uint8_t *)cut->data;
    for (int64_t j = 0; j < rows; j++)
        memcpy(to + j * of.count * size, first + j * c->dims[axis] * size, (size_t)(of.count * size));
    return cut;
}

static void cut_axis(slicing *s, buffer *b, int axis) {
    const constant *c = b->data;
    int64_t size = dtype_size(c->elem, c->count);
    part of = c->dims[axis] > 1 ? part_of_constant(s, b, axis) : (part){0};
    if (!of.from || size - size / c->dims[axis] * of.count < LEAST_SAVED) return;
    b->data = cut_constant(s->p->arena, c, axis, of);
    shrink_buffer(s, b, axis, of);
}

// By kernel that reads the constant: its range of positions. False: one is not known, or overlaps another one.
static bool ranges_apart(const slicing *s, const buffer *b, int axis, part *ranges) {
    const buffer_uses *of = &s->u->of[b->id];
    for (int j = 0; j < of->sites.n; j++) {
        if (of->sites.at[j]->s->kind != STEP_KERNEL || !add_reads(s, of->sites.at[j], b, axis, &ranges[j]))
            return false;
        if (!ranges[j].from || !dim_is_const(ranges[j].from) || !is_inside(&ranges[j], b->dims[axis]))
            return false;
        for (int i = 0; i < j; i++) {
            int64_t x = dim_value(ranges[i].from), y = dim_value(ranges[j].from);
            bool same = x == y && ranges[i].count == ranges[j].count;
            if (!same && x < y + ranges[j].count && y < x + ranges[i].count) return false;
        }
    }
    return of->sites.n > 1;
}

// The range's constant, which it shares with earlier readers of the same.
static buffer *constant_of_range(slicing *s, const buffer *b, int axis, const part *ranges, buffer **made,
                                 int at) {
    for (int j = 0; j < at; j++)
        if (ranges[j].from == ranges[at].from) return made[j];
    return program_constant(s->p, b->name, cut_constant(s->p->arena, b->data, axis, ranges[at]));
}

static void separate_ranges(slicing *s, const buffer *b, int axis) {
    const buffer_uses *of = &s->u->of[b->id];
    part *ranges = ARENA_ARRAY(s->scratch, part, of->sites.n + 1);
    buffer **made = ARENA_ARRAY(s->scratch, buffer *, of->sites.n + 1);
    if (b->data->dims[axis] < 2 || !ranges_apart(s, b, axis, ranges)) return;
    int64_t position = dtype_size(b->data->elem, b->data->count) / b->data->dims[axis];
    for (int j = 0; j < of->sites.n; j++)
        if (ranges[j].count == 1 || ranges[j].count * position < LEAST_SAVED) return;
    for (int j = 0; j < of->sites.n; j++) {
        kernel *k = of->sites.at[j]->s->kernel;
        made[j] = constant_of_range(s, b, axis, ranges, made, j);
        kernel_rewrite_reads(k, read_kept, &(kept){b, made[j], axis, ranges[j]});
    }
}

static bool may_be_cut(const slicing *s, const buffer *b) {
    const buffer_uses *of = &s->u->of[b->id];
    return b->role == BUF_CONST && !b->view_of && !b->layout && b->data->kind == CONST_BYTES &&
           b->rank == b->data->rank && dtype_bits(b->dtype) % 8 == 0 && !of->viewed && !of->by_others &&
           !of->output && !of->fallback;
}

void pass_slices(pass_context *c) {
    slicing s = {.p = c->program, .scratch = arena_new()};
    s.u = uses_build(s.scratch, s.p);
    for (int j = s.u->n - 1; j >= 0; j--) {
        const site *x = &s.u->sites[j];
        for (int a = 0; x->s->kind == STEP_KERNEL && a < x->s->kernel->axes.n; a++) {
            part of = common_part(&s, x, a);
            if (of.from) keep_part(&s, x, a, of), c->changed = true;
        }
    }
    bool shared = c->versions.n || c->derived; // programs that may read other parts of the same constants
    for (int j = 0, n = s.p->buffers.n; j < n && !shared; j++)
        for (int a = 0; may_be_cut(&s, s.p->buffers.at[j]) && a < s.p->buffers.at[j]->rank; a++) {
            cut_axis(&s, s.p->buffers.at[j], a);
            separate_ranges(&s, s.p->buffers.at[j], a);
        }
    arena_destroy(s.scratch);
}
