// In: a kernel before a loop that computes all rows of which each iteration reads one, such as the projected inputs of a recurrent
// layer. Out: the kernel within the loop, which computes one row at a time:
//
//   for t < T: rows[t, ..] = f(t, ..)             loop ?step < T:
//   loop ?step < T:                                 row[0, ..] = f(?step, ..)
//     .. rows[?step, ..] ..                         .. row[0, ..] ..
//
// Floats of one row are multiplied more slowly than those of several: only on bare machines without floating point, with -Os, or where
// the rows take much of --max-workspace.
#include "passes/memory/sink.h"
#include "ir/kernel/clone.h"
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/match/form.h"
#include <string.h>

enum { PART = 4, LITTLE = 1024 }; // of --max-workspace; bytes

typedef struct sinking {
    program *p;
    const uses *u;
    const site *from, *loop;
    kernel *k;          // before the loop
    buffer *rows, *one; // that it writes; for one row
    int dim, axis;      // of the rows; of the kernel
    dim *row;           // that an iteration reads
    bool always;        // each iteration does, so that it is one of the rows
} sinking;

// ---------------------------------------------------------------- matching
static const site *loop_around(const site *at) {
    const site *loop = NULL;
    for (const site *o = at->owner; o; o = o->owner)
        if (o->s->kind == STEP_LOOP) loop = o;
    return loop;
}

// The first dim whose index is an axis of all its rows.
static bool finds_axis(sinking *x) {
    const write *only = NULL;
    for (int j = 0; j < x->k->stages.n; j++)
        for (int i = 0; i < x->k->stages.at[j]->writes.n; i++) {
            if (only) return false;
            only = &x->k->stages.at[j]->writes.at[i];
        }
    for (x->dim = 0; only && x->dim < x->rows->rank; x->dim++) {
        const expr *at = only->index[x->dim];
        if (at->op != X_AXIS) continue;
        const axis *a = &x->k->axes.at[at->axis];
        x->axis = at->axis;
        bool apart =
            x->k->stages.n == 1 || x->axis < x->k->nouter; // no stage computes what others need of all rows
        return apart && a->kind == AXIS_PARALLEL && a->extent == x->rows->dims[x->dim];
    }
    return false;
}

static bool depends_on_loop_alone(arena *a, const dim *row, const dim *variable) {
    atom_list atoms = dim_atoms(a, row);
    return atoms.n == 1 && atoms.at[0] == variable;
}

// Whether all that the kernel reads of the rows is the row of the iteration.
static bool reads_row(sinking *x, const site *at) {
    const kernel *k = at->s->kernel;
    expr_list reads = reads_only(kernel_nodes(x->u->arena, k, PART_ALL));
    for (int j = 0; j < reads.n; j++) {
        const expr *e = reads.at[j];
        if (e->buffer != x->rows) continue;
        dim *row = expr_known_dim(k, e->index[x->dim]);
        if (!row || (x->row && row != x->row)) return false;
        x->row = row;
        x->always |= !e->guard && at->owner == x->loop;
    }
    return x->row && !kernel_writes(k, x->rows) &&
           depends_on_loop_alone(x->u->arena, x->row, x->loop->s->target);
}

static bool reads_in_loop(sinking *x) {
    const buffer_uses *of = &x->u->of[x->rows->id];
    if (of->viewed || of->by_others || of->output || of->fallback || of->sites.n < 2) return false;
    for (int j = 0; j < of->sites.n; j++) {
        const site *at = of->sites.at[j];
        if (at == x->from) continue;
        const site *loop = at->s->kind == STEP_KERNEL ? loop_around(at) : NULL;
        if (!loop || loop->region != x->from->region || (x->loop && x->loop != loop)) return false;
        x->loop = loop;
        if (at->time < x->from->time || !reads_row(x, at)) return false;
    }
    return x->loop && x->always;
}

// Whether nobody writes what the kernel reads up to the end of the loop. *longer: bytes that live until then because of it.
static bool keeps_operands(const sinking *x, int64_t *longer) {
    *longer = 0;
    for (int j = 0; j < x->from->reads.n; j++) {
        buffer *b = x->from->reads.at[j];
        live_range live = uses_live_range(x->u, b);
        const buffer_uses *of = &x->u->of[b->id];
        for (int i = 0; i < of->sites.n; i++) {
            const site *at = of->sites.at[i];
            if (at->time > x->from->time && at->time <= x->loop->end && site_writes(at, b)) return false;
        }
        if (b->role == BUF_INPUT && x->p->state) return false; // perhaps in the memory of an output
        if (b->role != BUF_TEMP || live.last_use >= x->loop->time) continue;
        if (!dim_is_const(buffer_bytes(b))) return false;
        *longer += dim_value(buffer_bytes(b));
    }
    return true;
}

static bool can_sink(sinking *x) {
    int64_t longer;
    x->k = x->from->s->kernel;
    if (x->from->writes.n != 1 || x->from->s->kind != STEP_KERNEL) return false;
    x->rows = x->from->writes.at[0];
    if (x->rows->role != BUF_TEMP || x->rows->layout || !dim_is_const(buffer_bytes(x->rows))) return false;
    if (!kernel_only_sets(x->k, x->rows) || x->k->messages.n) return false;
    if (!finds_axis(x) || !reads_in_loop(x) || !keeps_operands(x, &longer)) return false;
    int64_t bytes = dim_value(buffer_bytes(x->rows));
    return bytes > 0 && bytes - bytes / dim_value(x->rows->dims[x->dim]) > longer;
}

// ---------------------------------------------------------------- rewriting
static expr *read_one_row(void *user, kernel *k, const expr *read) {
    const sinking *x = user;
    expr *index[MAX_RANK];
    if (read->buffer != x->rows) return NULL;
    memcpy(index, read->index, (size_t)x->rows->rank * sizeof *index);
    index[x->dim] = x_i64(k, 0);
    return x_read_guarded(k, x->one, index, read->guard, read->fill);
}

static void compute_one_row(const sinking *x) {
    arena *scratch = arena_new();
    kernel *k = x->k, *old = kernel_begin(k);
    cloning *g = clone_same(scratch, k, old);
    axis *axes = ARENA_ARRAY(k->arena, axis, old->axes.n);
    memcpy(axes, old->axes.at, (size_t)old->axes.n * sizeof *axes);
    k->axes.at = axes, k->axes.cap = old->axes.n;
    k->axes.at[x->axis].extent = dim_const(x->p->dims, 1);
    g->axis[x->axis] = x_add(k, x_axis(k, x->axis), x_dim(k, x->row));
    for (int j = 0; j < old->stages.n; j++) {
        stage *s = clone_stage(g, old->stages.at[j]);
        for (int i = 0; i < old->stages.at[j]->writes.n; i++) {
            write *w = clone_write(g, s, &old->stages.at[j]->writes.at[i]);
            w->to = x->one, w->index[x->dim] = x_axis(k, x->axis);
        }
    }
    arena_destroy(scratch);
}

static void move_step(const sinking *x) {
    region *from = x->from->region, *to = x->loop->s->body[0];
    int at = step_index(from, x->from->s);
    memmove(from->steps.at + at, from->steps.at + at + 1,
            (size_t)(from->steps.n - at - 1) * sizeof *from->steps.at);
    from->steps.n--;
    insert_kernel(x->p, to, 0, x->k);
}

static void sink(sinking *x) {
    dim *dims[MAX_RANK];
    memcpy(dims, x->rows->dims, (size_t)x->rows->rank * sizeof *dims);
    dims[x->dim] = dim_const(x->p->dims, 1);
    x->one = program_buffer(x->p, arena_printf(x->p->arena, "%s.row", x->rows->name), BUF_TEMP,
                            x->rows->dtype, x->rows->rank, dims);
    x->one->space = x->rows->space;
    compute_one_row(x);
    const buffer_uses *of = &x->u->of[x->rows->id];
    for (int j = 0; j < of->sites.n; j++)
        if (of->sites.at[j] != x->from) kernel_rewrite_reads(of->sites.at[j]->s->kernel, read_one_row, x);
    move_step(x);
    diag_remark(x->p->diag, x->k->loc,
                "memory: kernel '%s' runs in the loop that reads its rows, one at a time", x->k->name);
    program_compact(x->p);
}

// Those rows with most bytes. False: none have more than `most`.
static bool sink_largest(program *p, int64_t most) {
    arena *a = arena_new();
    const uses *u = uses_build(a, p);
    sinking best = {0};
    for (int j = 0; j < u->n; j++) {
        sinking x = {.p = p, .u = u, .from = &u->sites[j]};
        if (!can_sink(&x) || dim_value(buffer_bytes(x.rows)) <= most) continue;
        best = x, most = dim_value(buffer_bytes(x.rows));
    }
    if (best.rows) sink(&best);
    arena_destroy(a);
    return best.rows;
}

bool sink_rows(program *p, const target *t, int64_t workspace) {
    bool always = t->freestanding && (!t->f32 || t->size_level), changed = false;
    if (!always && !workspace) return false;
    while (sink_largest(p, always ? LITTLE : workspace / PART)) changed = true;
    return changed;
}
