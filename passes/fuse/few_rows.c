// Kernels of fewer rows than several threads want tasks. In: a kernel of several stages over few long rows, such as the normalisation
// of the channels of an image. Out: a kernel for each stage (loop fission), with buffers in place of its locals.
//
//   for c: mean = sum over r of x[c, r]         for c:    mean[c] = sum over r of x[c, r]
//          for r: y[c, r] = f(x[c, r], mean)    for c, r: y[c, r] = f(x[c, r], mean[c])
//
// In: a kernel that reduces much to few results. Out: a kernel that reduces parts of it in parallel, and one that reduces their results.
//
//   for c: y[c] = f(sum over p < P, r of x[c, p, r])
//
//   for p < P, c: parts[p, c] = sum over r of x[c, p, r]
//   for c:        y[c] = f(sum over p of parts[p, c])
//
// P does not depend on the number of threads, and so neither does the result.
#include "ir/kernel/clone.h"
#include "ir/kernel/edit.h"
#include "ir/kernel/variant.h"
#include "ir/target.h"
#include "passes/fuse/split_stages.h"
#include "passes/match/attention.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"
#include "passes/passes.h"

// Terms that are worth a fork, more of them if rows leave the cache between stages, and the least in a row.
enum { LEAST_REDUCED = 1 << 17, LEAST_DIVIDED = 1 << 18, LEAST_ROW = 1 << 12, MOST_AXES = 60 };

// ---------------------------------------------------------------- estimates
// Open sizes are assumed to be those of images and texts, but that of the first axis, which is that of a batch.
static double positions(const kernel *k, const stage *s, int axis) {
    enum { ASSUMED = 128 };
    const dim *d = k->axes.at[axis].extent;
    if (dim_is_const(d)) return (double)dim_value(d);
    double least = d->min > 1 ? (double)d->min : 1, most = (double)d->max;
    bool first = k->nouter ? axis == 0 : axis == s->axes.at[0];
    double assumed = first ? 1 : ASSUMED;
    return assumed < least ? least : assumed > most ? most : assumed;
}

static double rows_of(const kernel *k, const stage *s) {
    double rows = 1;
    for (int a = 0; a < k->nouter; a++) rows *= positions(k, s, a);
    for (int j = 0; s && j < s->axes.n; j++)
        if (k->axes.at[s->axes.at[j]].kind == AXIS_PARALLEL) rows *= positions(k, s, s->axes.at[j]);
    return rows;
}

// How much is reduced to one result.
static double row_length(const kernel *k, const stage *s) {
    double n = 1;
    for (int j = 0; j < s->axes.n; j++)
        if (k->axes.at[s->axes.at[j]].kind == AXIS_REDUCE) n *= positions(k, s, s->axes.at[j]);
    return n;
}

static const expr *innermost_index(const expr *read) {
    const buffer *b = read->buffer;
    return b->rank ? read->index[b->layout ? b->layout->order[b->layout->n - 1].axis : b->rank - 1] : NULL;
}

// Whether neighbours in memory belong to different rows, which are then computed in the lanes of vectors.
static bool rows_are_lanes(const kernel *k, const stage *s) {
    expr_list reads = reads_only(stage_nodes(k->arena, s, PART_ALL));
    for (int j = 0; j < reads.n; j++) {
        const expr *index = innermost_index(reads.at[j]);
        if (index && stage_reduces(k, s, index)) return false;
    }
    return true;
}

// Rows that are enough for most machines stay in the cache of one thread from stage to stage.
static bool are_few(double tasks, const target *t) {
    enum { TASKS = 2, THREADS = 16 };
    return tasks < TASKS * (t->threads < THREADS ? t->threads : THREADS);
}

// Tasks that share cache lines would wait for each other.
static bool has_few_tasks(const kernel *k, const stage *s, const target *t, double rows) {
    enum { LINE = 16 }; // floats
    return are_few(rows / (rows_are_lanes(k, s) ? LINE : 1), t);
}

// passes: stages or states, each of which needs all terms.
static bool is_long(double rows, double row, int passes, double least) {
    return row >= LEAST_ROW && rows * row * passes >= least;
}

// ---------------------------------------------------------------- stages
static bool is_planned(const dim *d) { return !dim_is_opaque(d); }

static bool has_simple_axes(const kernel *k) {
    if (k->axes.n > MOST_AXES) return false;
    for (int a = 0; a < k->axes.n; a++)
        if (k->axes.at[a].kind == AXIS_SCAN || !is_planned(k->axes.at[a].extent)) return false;
    return true;
}

static bool reads_back(const kernel *k) {
    expr_list reads = reads_only(kernel_nodes(k->arena, k, PART_ALL));
    write_list all = kernel_write_list(k);
    for (int j = 0; j < reads.n; j++)
        for (int i = 0; i < all.n; i++)
            if (!reads_local(reads.at[j]) && root_of(all.at[i]->to) == root_of(reads.at[j]->buffer))
                return true;
    return false;
}

static bool has_locals_of_rows(const kernel *k) {
    for (int j = 0; j < k->locals.n; j++) {
        const buffer *b = k->locals.at[j];
        if (b->layout || b->view_of || k->nouter + b->rank > MAX_RANK) return false;
        for (int d = 0; d < b->rank; d++)
            if (!is_planned(b->dims[d])) return false;
    }
    return k->locals.n > 0;
}

static bool may_divide(kernel *k, const target *t) {
    attention a;
    if (k->stages.n < 2 || k->algorithm || k->in_place || !has_simple_axes(k) || !has_locals_of_rows(k))
        return false;
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++)
        if (all.at[j]->combine != COMBINE_SET) return false;
    double rows = rows_of(k, NULL), row = 0;
    for (int j = 0; j < k->stages.n; j++) {
        double n = k->stages.at[j]->states.n ? row_length(k, k->stages.at[j]) : 0;
        if (n > row) row = n;
    }
    return has_few_tasks(k, k->stages.at[0], t, rows) && is_long(rows, row, k->stages.n, LEAST_DIVIDED) &&
           !reads_back(k) && !attention_match(k, &a);
}

// A kernel whose stages become kernels.
typedef struct fission {
    program *p;
    const kernel *from;
    buffer **arrays; // by local: its instances
    bool
        across; // neighbours in an array are instances, as in the memory of what is read; otherwise elements of one
} fission;

static buffer *array_of(const fission *f, const buffer *local) {
    dim *dims[MAX_RANK];
    int rank = local->rank, outer = f->across ? rank : 0, inner = f->across ? 0 : f->from->nouter;
    for (int a = 0; a < f->from->nouter; a++) dims[outer + a] = f->from->axes.at[a].extent;
    for (int d = 0; d < rank; d++) dims[inner + d] = local->dims[d];
    const char *name = arena_printf(f->p->arena, "%s.%s", f->from->name, local->name);
    return program_temp(f->p, name, local->dtype, f->from->nouter + local->rank, dims);
}

static void array_index(const cloning *g, expr *const *own, int rank, expr **index) {
    const fission *f = g->user;
    int outer = f->across ? rank : 0, inner = f->across ? 0 : f->from->nouter;
    for (int a = 0; a < f->from->nouter; a++) index[outer + a] = g->axis[a];
    for (int d = 0; d < rank; d++) index[inner + d] = own[d];
}

static expr *read_array(cloning *g, const expr *e, expr **own, expr *guard, expr *fill) {
    const fission *f = g->user;
    expr *index[MAX_RANK];
    if (!reads_local(e)) return NULL;
    array_index(g, own, e->buffer->rank, index);
    return x_read_guarded(g->to, f->arrays[e->buffer->id], index, guard, fill);
}

static void write_array(cloning *g, stage *made, const write *w) {
    const fission *f = g->user;
    expr *own[MAX_RANK], *index[MAX_RANK];
    for (int d = 0; d < w->to->rank; d++) own[d] = clone_expr(g, w->index[d]);
    array_index(g, own, w->to->rank, index);
    write *copy = stage_write(g->to, made, f->arrays[w->to->id], index, clone_expr(g, w->value));
    copy->when = w->when, copy->guard = clone_expr(g, w->guard);
}

static void copy_axis(cloning *g, int axis) {
    const struct axis *a = &g->from->axes.at[axis];
    g->number[axis] = kernel_axis(g->to, a->kind, a->name, a->extent);
    g->axis[axis] = x_axis(g->to, g->number[axis]);
}

static kernel *kernel_of_stage(fission *f, const stage *s) {
    arena *scratch = arena_new();
    const buffer *to = s->writes.n ? s->writes.at[0].to : NULL;
    const char *name = to && to->role == BUF_LOCAL ? f->arrays[to->id]->name : f->from->name;
    kernel *k = variant_new(f->p, f->from, name, NULL);
    cloning *g = clone_new(scratch, k, f->from);
    g->read = read_array, g->user = f;
    for (int a = 0; a < f->from->nouter; a++) copy_axis(g, a);
    for (int j = 0; j < s->axes.n; j++) copy_axis(g, s->axes.at[j]);
    k->nouter = f->from->nouter;
    stage *made = clone_stage(g, s);
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        if (w->to->role == BUF_LOCAL) write_array(g, made, w);
        else clone_write(g, made, w);
    }
    arena_destroy(scratch);
    return k;
}

// Of copies, as a concatenation of images has them.
static bool has_long_stages(const kernel *k, const target *t) {
    double rows = rows_of(k, NULL), elements = 0;
    for (int j = 0; j < k->stages.n; j++) {
        double n = rows;
        for (int i = 0; i < k->stages.at[j]->axes.n; i++)
            n *= positions(k, k->stages.at[j], k->stages.at[j]->axes.at[i]);
        elements += n;
    }
    return are_few(rows, t) && elements >= LEAST_DIVIDED && elements / k->stages.n >= LEAST_ROW;
}

static void divide_stages(program *p, const target *t, region *r, step *s) {
    kernel *k = s->kernel;
    if (k->stages.n > 1 && !k->locals.n && !k->algorithm && !k->in_place && has_long_stages(k, t)) {
        split_stages(p, r, s);
        return;
    }
    if (!may_divide(k, t)) return;
    fission f = {p, k, ARENA_ARRAY(p->arena, buffer *, k->locals.n), rows_are_lanes(k, k->stages.at[0])};
    for (int j = 0; j < k->locals.n; j++) f.arrays[j] = array_of(&f, k->locals.at[j]);
    for (int i = 0; i < k->stages.n - 1; i++)
        insert_kernel(p, r, step_index(r, s), kernel_of_stage(&f, k->stages.at[i]));
    s->kernel = kernel_of_stage(&f, k->stages.at[k->stages.n - 1]);
}

// ---------------------------------------------------------------- reductions
typedef struct division {
    program *p;
    const kernel *old;
    const stage *s;
    int axis;      // the reduce axis that parts divide
    int64_t parts; // of equal length; 0: each position is one
    dim *count;
    buffer **results; // of the parts, by state
    kernel *k;        // under construction
} division;

// Parts of a single long axis: as many as divide it.
static int64_t equal_parts(int64_t extent) {
    enum { FEWEST = 8, MOST = 64, SHORTEST = 64 };
    for (int64_t n = MOST; n >= FEWEST; n--)
        if (extent % n == 0 && extent / n >= SHORTEST) return n;
    return 0;
}

static bool choose_axis(division *v) {
    enum { FEWEST = 8, MOST = 4096, SHORTEST = 64 };
    double all = row_length(v->old, v->s);
    for (int j = 0; j < v->s->axes.n; j++) {
        int a = v->s->axes.at[j];
        double n = positions(v->old, v->s, a);
        if (v->old->axes.at[a].kind != AXIS_REDUCE || n < FEWEST) continue;
        v->axis = a, v->count = v->old->axes.at[a].extent, v->parts = 0;
        if (n <= MOST && all / n >= SHORTEST) return true;
        v->parts = dim_is_const(v->count) ? equal_parts(dim_value(v->count)) : 0;
        v->count = dim_const(v->p->dims, v->parts);
        if (v->parts) return true;
    }
    return false;
}

static bool may_reorder(const state *st, const target *t) {
    bool rounds = dtype_is_float(st->dtype) && (st->op == RED_SUM || st->op == RED_PROD);
    return st->op != RED_CUSTOM && !(rounds && t->fp == FP_STRICT);
}

static bool may_reduce_parts(division *v, const target *t) {
    const kernel *k = v->old;
    contraction c;
    if (k->stages.n != 1 || k->locals.n || k->algorithm || k->in_place || !has_simple_axes(k)) return false;
    v->s = k->stages.at[0];
    for (int j = 0; j < v->s->states.n; j++)
        if (!may_reorder(&v->s->states.at[j], t)) return false;
    double rows = rows_of(k, v->s), row = row_length(k, v->s);
    return v->s->states.n && stage_keeps_terms(v->s) && has_few_tasks(k, v->s, t, rows) &&
           is_long(rows, row, v->s->states.n, LEAST_REDUCED) && !reads_back(k) && !contraction_find(k, &c) &&
           choose_axis(v);
}

// The parallel axes in order: of the results of a part.
static int results_axes(const division *v, int *axes) {
    int n = 0;
    for (int a = 0; a < v->old->nouter; a++) axes[n++] = a;
    for (int j = 0; j < v->s->axes.n; j++)
        if (v->old->axes.at[v->s->axes.at[j]].kind == AXIS_PARALLEL) axes[n++] = v->s->axes.at[j];
    return n;
}

static cloning *begin(division *v, arena *scratch, const char *name) {
    v->k = variant_new(v->p, v->old, name, NULL);
    kernel_stage(v->k);
    return clone_new(scratch, v->k, v->old);
}

static void add_axis(cloning *g, int a, axis_kind kind, dim *extent) {
    g->axis[a] = stage_own_axis(g->to, g->to->stages.at[0], kind, g->from->axes.at[a].name, extent);
}

// The axes of the results, and where a part has them: behind its number, which is the first index.
static int add_results(const division *v, cloning *g, dim **dims, expr **index) {
    int axes[MOST_AXES], n = results_axes(v, axes);
    for (int j = 0; j < n; j++) {
        dims[j + 1] = v->old->axes.at[axes[j]].extent;
        add_axis(g, axes[j], AXIS_PARALLEL, dims[j + 1]);
        index[j + 1] = g->axis[axes[j]];
    }
    return n + 1;
}

static void add_reduced(const division *v, cloning *g, expr *part) {
    for (int j = 0; j < v->s->axes.n; j++) {
        int a = v->s->axes.at[j];
        const axis *x = &v->old->axes.at[a];
        if (x->kind == AXIS_REDUCE && a != v->axis) add_axis(g, a, AXIS_REDUCE, x->extent);
    }
    g->axis[v->axis] = part;
    if (!v->parts) return;
    int64_t length = dim_value(v->old->axes.at[v->axis].extent) / v->parts;
    add_axis(g, v->axis, AXIS_REDUCE, dim_const(v->p->dims, length));
    g->axis[v->axis] = x_add(v->k, x_mul(v->k, part, x_i64(v->k, length)), g->axis[v->axis]);
}

static void clone_writes(const division *v, cloning *g, bool at_end) {
    for (int j = 0; j < v->s->writes.n; j++)
        if ((v->s->writes.at[j].when == WRITE_END) == at_end)
            clone_write(g, v->k->stages.at[0], &v->s->writes.at[j]);
}

static void make_parts(division *v) {
    arena *scratch = arena_new();
    cloning *g = begin(v, scratch, arena_printf(v->p->arena, "%s_parts", v->old->name));
    stage *made = v->k->stages.at[0];
    dim *dims[MAX_RANK] = {v->count};
    expr *index[MAX_RANK] = {stage_own_axis(v->k, made, AXIS_PARALLEL, "p", v->count)};
    int rank = add_results(v, g, dims, index);
    add_reduced(v, g, index[0]);
    for (int j = 0; j < v->s->states.n; j++) {
        const state *st = &v->s->states.at[j];
        const char *name = arena_printf(v->p->arena, "%s.parts%d", v->old->name, j);
        v->results[j] = program_temp(v->p, name, st->dtype, rank, dims);
        stage_write(v->k, made, v->results[j], index,
                    stage_reduce(v->k, made, st->op, clone_expr(g, st->step)));
    }
    clone_writes(v, g, false);
    arena_destroy(scratch);
}

static void make_result(division *v) {
    arena *scratch = arena_new();
    cloning *g = begin(v, scratch, v->old->name);
    stage *made = v->k->stages.at[0];
    dim *dims[MAX_RANK];
    expr *index[MAX_RANK];
    add_results(v, g, dims, index);
    index[0] = stage_own_axis(v->k, made, AXIS_REDUCE, "p", v->count);
    for (int j = 0; j < v->s->states.n; j++) {
        state st = v->s->states.at[j];
        st.init = clone_expr(g, st.init), st.step = x_read(v->k, v->results[j], index);
        VEC_PUSH(v->k->arena, &made->states, st);
    }
    clone_writes(v, g, true);
    arena_destroy(scratch);
}

static void divide_reduction(program *p, const target *t, region *r, step *at) {
    division v = {.p = p, .old = at->kernel};
    if (!may_reduce_parts(&v, t)) return;
    int axes[MOST_AXES];
    if (results_axes(&v, axes) + 1 > MAX_RANK) return;
    v.results = ARENA_ARRAY(p->arena, buffer *, v.s->states.n);
    make_parts(&v);
    kernel *parts = v.k;
    make_result(&v);
    variant_replace(p, r, at, parts, v.k, NULL);
}

// ---------------------------------------------------------------- pass
static void for_kernels(pass_context *c, void (*divide)(program *, const target *, region *, step *)) {
    program *p = c->program;
    step_list steps = program_steps(p->arena, p);
    for (int j = 0; j < steps.n; j++) {
        step *s = steps.at[j].s;
        if (s->kind == STEP_KERNEL) divide(p, c->target, steps.at[j].region, s);
    }
    program_compact(p);
}

void pass_few_rows(pass_context *c) {
    const target *t = c->target;
    if (t->threads < 2 || t->size_level) return;
    for_kernels(c, divide_stages);
    for_kernels(c, divide_reduction);
}
