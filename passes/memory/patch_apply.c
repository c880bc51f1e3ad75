// In: a plan. Out: the program with the loop.
//
//   kept = fill
//   for j < steps:
//     window[0 .. k) = kept;  window[elements around the image] = fill       for each image
//     if rows exist: window[k ..] = the kernel for these rows
//     kept = the last k rows of the window
#include "ir/kernel/clone.h"
#include "ir/kernel/edit.h"
#include "passes/memory/patch.h"
#include <string.h>

typedef struct applier {
    patch_plan *x;
    const target *t;
    program *p;
    dim *step;    // variable of the loop
    region *body; // of the loop
    VEC(step *) before, after;
} applier;

static step *kernel_step_of(program *p, kernel *k) {
    step *s = ARENA_NEW(p->arena, step);
    *s = (step){.kind = STEP_KERNEL, .loc = k->loc, .kernel = k};
    return s;
}

static buffer *add_rows(applier *y, const patch_image *i, const char *what, int64_t rows, bool around) {
    buffer like = patch_rows(y->p->arena, y->p->dims, i->of, i->axis, rows, around);
    const char *name = arena_printf(y->p->arena, "%s.%s", i->of->name, what);
    buffer *b = program_buffer(y->p, name, BUF_TEMP, like.dtype, like.rank, like.dims);
    b->layout = like.layout, b->space = i->of->space;
    return b;
}

// ---------------------------------------------------------------- boxes
// to[box] = from[box shifted by `shift` along the axis], or the fill; from and count by axis.
static void add_box(kernel *k, buffer *to, const int64_t *begin, dim *const *count, buffer *from, int axis,
                    int64_t shift) {
    expr *at[MAX_RANK], *there[MAX_RANK];
    const layout *l = to->layout;
    stage *s = kernel_stage(k);
    for (int j = 0; j < to->rank; j++) {
        int x = l && l->n == to->rank ? l->order[j].axis : j;
        at[x] = there[x] = x_add(k, stage_own_axis(k, s, AXIS_PARALLEL, "i", count[x]), x_i64(k, begin[x]));
        if (x == axis) there[x] = x_add(k, at[x], x_i64(k, shift));
    }
    expr *fill = x_number(k, dtype_compute(to->dtype), l ? l->fill : 0);
    stage_write(k, s, to, at, from ? x_read(k, from, there) : fill);
}

static kernel *new_kernel(applier *y, const char *what, const patch_image *i) {
    return kernel_new(y->p, arena_printf(y->p->arena, "%s_%s", what, i->of->name),
                      y->x->kernels[i->first].k->loc);
}

// Rows [begin, begin + rows) of `to`, without the elements around the image, are those of `from` or the fill.
static kernel *copy_rows(applier *y, const patch_image *i, const char *what, buffer *to, int64_t begin,
                         int64_t rows, buffer *from, int64_t shift) {
    kernel *k = new_kernel(y, what, i);
    int64_t at[MAX_RANK] = {0};
    dim *count[MAX_RANK];
    memcpy(count, to->dims, (size_t)to->rank * sizeof *count);
    at[i->axis] = begin, count[i->axis] = dim_const(y->p->dims, rows);
    add_box(k, to, at, count, from, i->axis, shift);
    return k;
}

static bool has_rows_around(const patch_image *i) {
    const layout *l = i->of->layout;
    return l && (l->pad_lo[i->axis] || l->pad_hi[i->axis]);
}

static void box_around(const patch_image *i, int64_t *at, dim **count) {
    const layout *l = i->window->layout;
    for (int j = 0; j < i->of->rank; j++) {
        at[j] = -l->pad_lo[j];
        count[j] = dim_addk(i->window->dims[j], l->pad_lo[j] + l->pad_hi[j]);
    }
}

// The elements beside the rows.
static kernel *fill_beside(applier *y, const patch_image *i) {
    const layout *l = i->window->layout;
    kernel *k = new_kernel(y, "halo", i);
    for (int j = 0; l && j < i->of->rank; j++)
        for (int high = 0; high < 2; high++) {
            int64_t at[MAX_RANK], pad = high ? l->pad_hi[j] : l->pad_lo[j];
            dim *count[MAX_RANK];
            if (!pad) continue;
            box_around(i, at, count);
            if (high) at[j] = dim_value(i->of->dims[j]);
            count[j] = dim_const(y->p->dims, pad);
            add_box(k, i->window, at, count, NULL, -1, 0);
        }
    return k->stages.n ? k : NULL;
}

static kernel *fill_new_rows(applier *y, const patch_image *i) {
    kernel *k = new_kernel(y, "rows", i);
    int64_t at[MAX_RANK];
    dim *count[MAX_RANK];
    box_around(i, at, count);
    at[i->axis] = i->lead - i->begin, count[i->axis] = dim_const(y->p->dims, i->rate);
    add_box(k, i->window, at, count, NULL, -1, 0);
    return k;
}

// ---------------------------------------------------------------- steps
static void run_kernel(applier *y, region *r, kernel *k) { step_kernel(y->p, r, k); }

static void run_if(applier *y, dim *holds, kernel *k) {
    if (dim_is(holds, 1)) {
        run_kernel(y, y->body, k);
        return;
    }
    step *s = step_new(y->p, y->body, STEP_IF, k->loc);
    s->dim = holds;
    s->body[0] = ARENA_NEW(y->p->arena, region), s->body[1] = ARENA_NEW(y->p->arena, region);
    run_kernel(y, s->body[0], k);
}

// The first row of the step, which may not exist.
static dim *first_row(const applier *y, int64_t rate, int64_t lead) {
    return dim_addk(dim_mulk(y->step, rate), lead);
}

static dim *not_below(dim *d, int64_t v) { return dim_max(d, dim_const(d->table, v)); }

static void begin_image(applier *y, patch_image *i) {
    int64_t keeps = i->lead - i->begin;
    i->window = add_rows(y, i, "rows", i->rate + keeps, true);
    if (keeps) {
        i->kept = add_rows(y, i, "kept", keeps, false);
        VEC_PUSH(y->p->arena, &y->before,
                 kernel_step_of(y->p, copy_rows(y, i, "begin", i->kept, 0, keeps, NULL, 0)));
        run_kernel(y, y->body, copy_rows(y, i, "take", i->window, 0, keeps, i->kept, 0));
    }
    kernel *beside = i->window->layout ? fill_beside(y, i) : NULL;
    if (beside) run_kernel(y, y->body, beside);
    if (!has_rows_around(i)) return;
    dim *first = first_row(y, i->rate, i->lead), *rows = dim_const(y->p->dims, i->rows);
    dim *early = dim_lt(first, dim_const(y->p->dims, 0)), *late = dim_lt(rows, dim_addk(first, i->rate));
    dim *some = dim_max(early, late);
    if (!dim_is(some, 0)) run_if(y, some, fill_new_rows(y, i));
}

static void end_image(applier *y, const patch_image *i) {
    int64_t keeps = i->lead - i->begin;
    if (keeps) run_kernel(y, y->body, copy_rows(y, i, "keep", i->kept, 0, keeps, i->window, i->rate));
}

// ---------------------------------------------------------------- kernels
typedef struct moving {
    applier *y;
    patch_kernel *k;
    cloning *local; // of indices of rows, counted from the step's first row of the first image
} moving;

static expr *local_index(const moving *m, const patch_image *i, expr *index) {
    return x_sub(m->k->k, clone_expr(m->local, index), x_i64(m->k->k, i->begin));
}

static patch_image *inner_image(const moving *m, const buffer *b) {
    patch_image *i =
        b->role == BUF_LOCAL || b->view_of || b->id >= m->y->x->nbuffers ? NULL : &m->y->x->images[b->id];
    return i && i->written && i->inner ? i : NULL;
}

static expr *move_read(cloning *g, const expr *e, expr **index, expr *guard, expr *fill) {
    const moving *m = g->user;
    const patch_image *i = inner_image(m, e->buffer);
    if (!i) return NULL;
    index[i->axis] = local_index(m, i, e->index[i->axis]);
    return x_read_guarded(g->to, i->window, index, guard, fill);
}

static void set_rows(const moving *m, cloning *g) {
    const patch_kernel *x = m->k;
    kernel *k = x->k;
    dim *first = first_row(m->y, x->rate, x->lead), *start = x->whole ? first : not_below(first, 0);
    dim *local = dim_sub(start, dim_mulk(m->y->step, x->rate)), *rows = dim_const(m->y->p->dims, x->rate);
    if (!x->whole) {
        dim *end = dim_min(dim_const(m->y->p->dims, x->rows), dim_addk(first, x->rate));
        local = not_below(dim_mulk(m->y->step, -x->rate), x->lead);
        rows = not_below(dim_sub(end, start), 0);
    }
    k->axes.at[x->axis].extent = rows;
    g->axis[x->axis] = x_add(k, x_axis(k, x->axis), x_dim(k, start));
    m->local->axis[x->axis] = x_add(k, x_axis(k, x->axis), x_dim(k, local));
}

static void move_write(const moving *m, cloning *g, stage *s, const write *w) {
    write *made = clone_write(g, s, w);
    const patch_image *i = inner_image(m, w->to);
    if (!i) return;
    made->to = i->window;
    made->index[i->axis] = local_index(m, i, w->index[i->axis]);
}

// ---------------------------------------------------------------- sums
static expr_op combining(reduce_op op) { return op == RED_MIN ? X_MIN : op == RED_MAX ? X_MAX : X_ADD; }

// acc[parallel axes] = acc[...] op the sum over the rows of the step.
static void add_to_sum(const moving *m, stage *s, buffer *acc, const kernel *old, const stage *was) {
    kernel *k = m->k->k;
    expr *index[MAX_RANK];
    int n = 0;
    for (int j = 0; j < old->nouter; j++) index[n++] = x_axis(k, j);
    for (int j = 0; j < was->axes.n; j++)
        if (old->axes.at[was->axes.at[j]].kind == AXIS_PARALLEL) index[n++] = x_axis(k, was->axes.at[j]);
    const state *st = &was->states.at[0];
    expr *sum = x_bin(k, combining(st->op), x_read(k, acc, index), x_state(k, 0, st->dtype));
    stage_write(k, s, acc, index, sum);
}

typedef struct finish {
    buffer *acc;
    expr **index;
} finish;

static expr *read_sum(cloning *g, const expr *e) {
    const finish *f = g->user;
    return e->op == X_STATE ? x_read(g->to, f->acc, f->index) : NULL;
}

static bool is_parallel(const kernel *k, int axis) { return k->axes.at[axis].kind == AXIS_PARALLEL; }

static buffer *new_sum(applier *y, const kernel *old, const stage *was) {
    dim *dims[MAX_RANK];
    int n = 0;
    for (int j = 0; j < old->nouter; j++) dims[n++] = old->axes.at[j].extent;
    for (int j = 0; j < was->axes.n; j++)
        if (is_parallel(old, was->axes.at[j])) dims[n++] = old->axes.at[was->axes.at[j]].extent;
    return program_buffer(y->p, arena_printf(y->p->arena, "%s.sum", old->name), BUF_TEMP,
                          was->states.at[0].dtype, n, dims);
}

// Before the loop acc is neutral; after the loop, the results are computed from it.
static void around_sum(applier *y, arena *scratch, buffer *acc, const kernel *old, const stage *was) {
    program *p = y->p;
    kernel *begin = kernel_new(p, arena_printf(p->arena, "begin_%s", old->name), old->loc),
           *end = kernel_new(p, old->name, old->loc);
    expr *index[MAX_RANK];
    int n = 0;
    stage *s = kernel_stage(begin);
    for (; n < acc->rank; n++) index[n] = stage_own_axis(begin, s, AXIS_PARALLEL, "i", acc->dims[n]);
    stage_write(begin, s, acc, index, reduce_neutral(begin, was->states.at[0].op, was->states.at[0].dtype));
    cloning *g = clone_new(scratch, end, old);
    stage *made = kernel_stage(end);
    finish f = {acc, index};
    n = 0;
    for (int a = 0; a < old->axes.n; a++) {
        bool outer = a < old->nouter, own = false;
        for (int j = 0; j < was->axes.n; j++) own |= was->axes.at[j] == a;
        if (!is_parallel(old, a) || (!outer && !own)) continue;
        if (outer) end->nouter++;
        g->number[a] = kernel_axis(end, AXIS_PARALLEL, old->axes.at[a].name, old->axes.at[a].extent);
        g->axis[a] = x_axis(end, g->number[a]);
        if (own) stage_axis(end, made, g->number[a]);
    }
    for (int j = 0; j < old->nouter; j++) index[n++] = g->axis[j];
    for (int j = 0; j < was->axes.n; j++)
        if (is_parallel(old, was->axes.at[j])) index[n++] = g->axis[was->axes.at[j]];
    g->node = read_sum, g->user = &f;
    clone_write(g, made, &was->writes.at[0]);
    for (int j = 0; j < old->nodes.n; j++) VEC_PUSH(p->arena, &end->nodes, old->nodes.at[j]);
    VEC_PUSH(p->arena, &y->before, kernel_step_of(p, begin));
    VEC_PUSH(p->arena, &y->after, kernel_step_of(p, end));
}

static void move_kernel(applier *y, patch_kernel *x) {
    arena *scratch = arena_new();
    kernel *k = x->k, *old = kernel_begin(k);
    moving m = {y, x, clone_same(scratch, k, old)};
    cloning *g = clone_same(scratch, k, old);
    axis *axes = ARENA_ARRAY(k->arena, axis, old->axes.n + 1);
    memcpy(axes, old->axes.at, (size_t)old->axes.n * sizeof *axes);
    k->axes.at = axes, k->axes.cap = old->axes.n;
    g->read = move_read, g->user = &m;
    set_rows(&m, g);
    for (int j = 0; j < old->stages.n; j++) {
        stage *s = clone_stage(g, old->stages.at[j]);
        const stage *was = old->stages.at[j];
        buffer *acc = x->sums ? new_sum(y, old, was) : NULL;
        for (int i = 0; i < was->writes.n && !acc; i++) move_write(&m, g, s, &was->writes.at[i]);
        if (acc) add_to_sum(&m, s, acc, old, was), around_sum(y, scratch, acc, old, was);
    }
    arena_destroy(scratch);
    split_weights(y->p, y->t, x, y->step);
    dim *first = first_row(y, x->rate, x->lead), *zero = dim_const(y->p->dims, 0);
    dim *exists =
        dim_mul(dim_lt(zero, dim_addk(first, x->rate)), dim_lt(first, dim_const(y->p->dims, x->rows)));
    run_if(y, exists, k);
}

// ---------------------------------------------------------------- the program
static void put_loop(applier *y, step *loop) {
    patch_plan *x = y->x;
    region *main = y->p->main, all = {0};
    arena *a = y->p->arena;
    for (int j = 0; j < x->first; j++) VEC_PUSH(a, &all.steps, main->steps.at[j]);
    for (int j = 0; j < y->before.n; j++) VEC_PUSH(a, &all.steps, y->before.at[j]);
    VEC_PUSH(a, &all.steps, loop);
    for (int j = 0; j < y->after.n; j++) VEC_PUSH(a, &all.steps, y->after.at[j]);
    for (int j = x->first + x->n; j < main->steps.n; j++) VEC_PUSH(a, &all.steps, main->steps.at[j]);
    main->steps.at = all.steps.at, main->steps.n = all.steps.n, main->steps.cap = all.steps.cap;
}

static bool fills_inner(const patch_plan *x, const kernel *k) {
    const buffer *to = k->stages.at[0]->writes.at[0].to;
    return x->images[to->id].written && x->images[to->id].inner;
}

void apply_patches(patch_plan *x, const target *t) {
    program *p = x->p;
    applier y = {.x = x, .t = t, .p = p, .step = dim_opaque(p->dims, "patch", 0, x->steps - 1)};
    step *loop = ARENA_NEW(p->arena, step);
    VEC_PUSH(p->arena, &p->variables, y.step);
    *loop = (step){.kind = STEP_LOOP,
                   .loc = x->kernels[0].k->loc,
                   .target = y.step,
                   .dim = dim_const(p->dims, x->steps),
                   .rows = x->kernels[x->n - 1].rate};
    y.body = loop->body[0] = ARENA_NEW(p->arena, region);
    for (int j = 0; j < x->n; j++) {
        patch_kernel *k = &x->kernels[j];
        patch_image *i = k->sums ? NULL : k->image;
        if (k->fills && !fills_inner(x, k->k)) VEC_PUSH(p->arena, &y.before, k->s);
        if (k->fills) continue;
        if (i && i->inner && i->first == j) begin_image(&y, i);
        move_kernel(&y, k);
        if (i && i->inner && i->last_writer == j) end_image(&y, i);
    }
    diag_remark(p->diag, loop->loc, "patches: %d kernels run in %lld steps of up to %lld rows", x->n,
                (long long)x->steps, (long long)x->kernels[x->n - 1].rate);
    put_loop(&y, loop);
    program_compact(p);
}
