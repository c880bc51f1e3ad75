// Kernels over the same rows become stages of one kernel; the buffers between them become local to a row.
//
//   for o in rows: first[o, ...] = ...        for o in rows:
//   for o in rows: ... first[o, ...] ...  =>    stage: local[...] = ...
//                                               stage: ... local[...] ...
//
// A contraction becomes a stage only within attention: its rows are reduced, and the result is contracted
// again along the same row. By itself it is faster over tiles of many rows.
#include "passes/fuse/fuse_impl.h"
#include <string.h>

enum { MOST_SHARED = 8, LOCAL_BYTES = 64 << 10, FEW_ROWS = 16, SMALL_ROW = 4096 };

typedef struct shared { // a buffer that the first kernel writes and the second reads
    buffer *root, *to;
    bool row[MAX_RANK];  // by dim: whether it is a shared outer axis
    int axis1[MAX_RANK]; // that axis in the first kernel
    bool keep;           // the buffer has other readers
    buffer *local;       // in the fused kernel
} shared;

typedef struct rows {
    fuse *f;
    arena *scratch;
    site *p1, *p2;
    kernel k1, k2; // before fusion
    kernel *made;  // the fused kernel, which replaces the second
    shared list[MOST_SHARED];
    int n;
    int *pair1, *pair2; // by axis: the other kernel's axis, NONE or UNSEEN
    bool windows;       // the second reads windows of a shared buffer (pooling), not whole rows
    bool force;         // part of a chain that is known to be profitable
    bool failed;
} rows;

enum { NONE = -1, UNSEEN = -2 };

// ---------------------------------------------------------------- shared axes
static bool is_stage_axis(const kernel *k, int axis) { return axis >= k->nouter; }

// Axes that may become outer axes of the fused kernel: kernels of several stages have fixed ones.
static bool may_be_outer(const kernel *k, int axis) {
    return k->axes.at[axis].kind == AXIS_PARALLEL && (k->stages.n == 1 || !is_stage_axis(k, axis));
}

static int axes_in(const kernel *k, const expr *e) {
    int n = 0;
    for (int a = 0; a < k->axes.n; a++) n += expr_uses_axis(e, a);
    return n;
}

// with: by dim of the shared buffer, the axis of the second kernel that indexes it in all reads.
static void examine_read(rows *r, const shared *s, const expr *e, int *with) {
    kernel *k2 = r->p2->s->kernel;
    expr *at[MAX_RANK];
    if (!view_index(k2, e->buffer, s->to, e->index, at)) {
        r->failed = true;
        return;
    }
    for (int d = 0; d < s->to->rank; d++) {
        r->windows |= axes_in(k2, at[d]) > 1;
        int a = at[d]->op == X_AXIS && may_be_outer(k2, at[d]->axis) ? at[d]->axis : NONE;
        with[d] = with[d] == UNSEEN || with[d] == a ? a : NONE;
    }
}

static bool fits(const rows *r, const write *w, int d, int a2) {
    const expr *i = w->index[d];
    if (a2 < 0 || i->op != X_AXIS || !may_be_outer(&r->k1, i->axis)) return false;
    return dim_equal(r->k1.axes.at[i->axis].extent, r->k2.axes.at[a2].extent) == TRI_YES &&
           dim_equal(r->k1.axes.at[i->axis].extent, w->to->dims[d]) == TRI_YES;
}

static void pair_axes(rows *r, int a1, int a2) {
    bool fresh = r->pair1[a1] == UNSEEN && r->pair2[a2] == UNSEEN;
    if (fresh) r->pair1[a1] = a2, r->pair2[a2] = a1;
    else if (r->pair1[a1] != a2) r->pair1[a1] = r->pair2[a2] = NONE;
}

// Finds the dims of a shared buffer that are rows; all writes of it have to agree.
static void pair_shared(rows *r, shared *s) {
    int with[MAX_RANK];
    for (int d = 0; d < MAX_RANK; d++) with[d] = UNSEEN;
    write_list all = kernel_write_list(&r->k1);
    for (int j = 0; j < all.n; j++) {
        const write *w = all.at[j];
        if (root_of(w->to) != s->root) continue;
        r->failed |= (s->to && s->to != w->to) || !write_is_plain(w);
        s->to = w->to;
    }
    r->failed |= !s->to;
    if (r->failed) return;
    expr_list reads = reads_only(kernel_nodes(r->scratch, r->p2->s->kernel, PART_ALL));
    for (int j = 0; j < reads.n; j++)
        if (root_of(reads.at[j]->buffer) == s->root) examine_read(r, s, reads.at[j], with);
    for (int j = 0; j < all.n; j++) {
        const write *w = all.at[j];
        for (int d = 0; w->to == s->to && d < w->to->rank; d++) {
            bool ok = fits(r, w, d, with[d]) && (s->axis1[d] == UNSEEN || s->axis1[d] == w->index[d]->axis);
            s->axis1[d] = ok ? w->index[d]->axis : NONE;
        }
    }
    for (int d = 0; d < s->to->rank; d++)
        if (s->axis1[d] >= 0) pair_axes(r, s->axis1[d], with[d]);
}

static bool paired_in(const shared *s, int a1) {
    for (int d = 0; d < s->to->rank; d++)
        if (s->axis1[d] == a1) return true;
    return false;
}

// Keeps the pairs that all shared buffers have in common. A kernel with fixed outer axes needs a pair for
// each of them.
static bool resolve_pairs(rows *r) {
    for (int a = 0; a < r->k1.axes.n; a++) {
        bool ok = r->pair1[a] >= 0;
        for (int j = 0; j < r->n && ok; j++) ok = paired_in(&r->list[j], a);
        if (!ok && r->pair1[a] >= 0) r->pair2[r->pair1[a]] = NONE;
        if (!ok) r->pair1[a] = NONE;
    }
    for (int a = 0; a < r->k2.axes.n; a++)
        if (r->pair2[a] < 0 || r->pair1[r->pair2[a]] != a) r->pair2[a] = NONE;
    for (int j = 0; j < r->n; j++)
        for (int d = 0; d < r->list[j].to->rank; d++) {
            int a = r->list[j].axis1[d];
            r->list[j].row[d] = a >= 0 && r->pair1[a] >= 0;
        }
    for (int a = 0; r->k1.stages.n > 1 && a < r->k1.nouter; a++)
        if (r->pair1[a] < 0 && !dim_is(r->k1.axes.at[a].extent, 1)) return false;
    for (int a = 0; r->k2.stages.n > 1 && a < r->k2.nouter; a++)
        if (r->pair2[a] < 0 && !dim_is(r->k2.axes.at[a].extent, 1)) return false;
    return true;
}

// ---------------------------------------------------------------- values handed from producer to consumer
static bool find_shared(rows *r) {
    const site *a = r->p1, *b = r->p2;
    for (int j = 0; j < a->writes.n; j++) {
        if (!site_reads(b, a->writes.at[j])) continue;
        if (r->n == MOST_SHARED || sole_writer(r->f, a->writes.at[j]) != a) return false;
        shared *s = &r->list[r->n++];
        *s = (shared){.root = a->writes.at[j], .keep = read_elsewhere(r->f, a->writes.at[j], b)};
        for (int d = 0; d < MAX_RANK; d++) s->axis1[d] = UNSEEN;
    }
    for (int j = 0; j < b->writes.n; j++)
        if (site_reads(a, b->writes.at[j]) || site_writes(a, b->writes.at[j])) return false;
    return r->n > 0;
}

// The elements stored per row; NULL: a scalar.
static dim *row_size(const shared *s) {
    dim *n = NULL;
    for (int d = 0; d < s->to->rank; d++)
        if (!s->row[d] && !dim_is(s->to->dims[d], 1)) n = n ? dim_mul(n, s->to->dims[d]) : s->to->dims[d];
    return n;
}

static int open_dims(const shared *s) { // inner dims of unknown size
    int n = 0;
    for (int d = 0; d < s->to->rank; d++) n += !s->row[d] && !dim_is_const(s->to->dims[d]);
    return n;
}

static bool rows_fit(const rows *r) {
    for (int j = 0; j < r->n; j++) {
        const dim *n = row_size(&r->list[j]);
        if (!n) continue;
        if (n->max < INT64_MAX / 16 ? n->max * dtype_bits(r->list[j].to->dtype) / 8 > LOCAL_BYTES
                                    : open_dims(&r->list[j]) > 1)
            return false;
    }
    return true;
}

// Parallelism comes from the rows only, so there must be enough of them if they are large or of unknown size.
static bool enough_rows(const rows *r) {
    dim *count = dim_const(r->f->p->dims, 1);
    for (int a = 0; a < r->k1.axes.n; a++)
        if (r->pair1[a] >= 0) count = dim_mul(count, r->k1.axes.at[a].extent);
    if (!dim_is_const(count) || dim_value(count) >= FEW_ROWS) return true;
    const kernel *ks[2] = {&r->k1, &r->k2};
    for (int i = 0; i < 2; i++) {
        dim *all = dim_const(r->f->p->dims, 1);
        for (int a = 0; a < ks[i]->axes.n; a++)
            if ((i ? r->pair2[a] : r->pair1[a]) < 0 && ks[i]->stages.n == 1)
                all = dim_mul(all, ks[i]->axes.at[a].extent);
        if (all->max > SMALL_ROW) return false;
    }
    return true;
}

static bool has_scan(const kernel *k) {
    for (int a = 0; a < k->axes.n; a++)
        if (k->axes.at[a].kind == AXIS_SCAN) return true;
    return false;
}

static bool has_reduction(const kernel *k) { return has_states(k) && !has_scan(k); }

static bool shares_scalar(const rows *r) {
    for (int j = 0; j < r->n; j++)
        if (!row_size(&r->list[j])) return true;
    return false;
}

static bool worth_it(const rows *r) {
    if (has_scan(&r->k1) || has_scan(&r->k2)) return false;
    if (r->force) return true;
    if (r->windows || is_contraction(&r->k1) || is_contraction(&r->k2)) return false;
    if (!has_reduction(&r->k2) && (!has_reduction(&r->k1) || !shares_scalar(r))) return false;
    return rows_fit(r) && enough_rows(r);
}

// ---------------------------------------------------------------- building
static dtype local_type(const rows *r, dtype t) {
    bool half = t == DT_F16 || t == DT_BF16;
    return half && !r->f->strict ? DT_F32 : t;
}

static int inner_index(const shared *s, expr *const *at, expr **out) {
    int n = 0;
    for (int d = 0; d < s->to->rank; d++)
        if (!s->row[d] && !dim_is(s->to->dims[d], 1)) out[n++] = at[d];
    return n;
}

static shared *shared_of(rows *r, const buffer *root) {
    for (int j = 0; j < r->n; j++)
        if (r->list[j].root == root) return &r->list[j];
    return NULL;
}

static expr *read_local(cloning *g, const expr *e, expr **index, expr *guard, expr *fill) {
    rows *r = g->user;
    shared *s = e->buffer->role == BUF_LOCAL ? NULL : shared_of(r, root_of(e->buffer));
    expr *at[MAX_RANK], *inner[MAX_RANK];
    if (!s) return NULL;
    if (!view_index(g->to, e->buffer, s->to, index, at)) {
        r->failed = true;
        return NULL;
    }
    inner_index(s, at, inner);
    return x_read_guarded(g->to, s->local, inner, guard, fill);
}

// A local that the stage already fills with the same values.
static buffer *known_local(const cloning *g, const stage *s, const write *w, expr *const *inner, int n) {
    for (int i = 0; i < s->writes.n; i++) {
        const write *o = &s->writes.at[i];
        if (o->to->role != BUF_LOCAL || o->to->rank != n || o->value != w->value || o->guard ||
            o->when != w->when)
            continue;
        bool same = true;
        for (int d = 0; d < n; d++) same &= g->done[o->index[d]->id] == inner[d];
        if (same) return g->local[o->to->id];
    }
    return NULL;
}

static void write_shared(rows *r, cloning *g, stage *made, const stage *old, const write *w, shared *s) {
    kernel *k = r->made;
    expr *at[MAX_RANK], *inner[MAX_RANK];
    if (s->keep) clone_write(g, made, w);
    for (int i = 0; i < old->writes.n; i++) // known_local compares their indices
        for (int d = 0; d < old->writes.at[i].to->rank; d++) clone_expr(g, old->writes.at[i].index[d]);
    for (int d = 0; d < w->to->rank; d++) at[d] = clone_expr(g, w->index[d]);
    int n = inner_index(s, at, inner);
    buffer *known = known_local(g, old, w, inner, n);
    if (known && (!s->local || s->local == known)) {
        s->local = known;
        return;
    }
    if (!s->local) {
        dim *dims[MAX_RANK];
        int rank = 0;
        for (int d = 0; d < s->to->rank; d++)
            if (!s->row[d] && !dim_is(s->to->dims[d], 1)) dims[rank++] = s->to->dims[d];
        s->local = kernel_local(k, s->to->name, local_type(r, s->to->dtype), rank, dims);
    }
    stage_write(k, made, s->local, inner, clone_expr(g, w->value));
}

// Unpaired axes of k become axes of its stages; outer axes of a single stage precede its own.
static void clone_part(rows *r, cloning *g, const kernel *k, const int *pair, bool first) {
    for (int a = 0; a < k->axes.n; a++) {
        if (g->axis[a]) continue;
        g->number[a] = kernel_axis(r->made, k->axes.at[a].kind, k->axes.at[a].name, k->axes.at[a].extent);
        g->axis[a] = x_axis(r->made, g->number[a]);
    }
    for (int j = 0; j < k->locals.n; j++) {
        const buffer *b = k->locals.at[j];
        g->local[j] = kernel_local(r->made, b->name, b->dtype, b->rank, b->dims);
    }
    for (int j = 0; j < k->stages.n; j++) {
        const stage *old = k->stages.at[j];
        stage plain = *old;
        plain.axes.n = plain.axes.cap = 0;
        for (int a = 0; a < k->nouter; a++)
            if (pair[a] < 0 && !dim_is(k->axes.at[a].extent, 1)) VEC_PUSH(r->scratch, &plain.axes, a);
        for (int i = 0; i < old->axes.n; i++) {
            const axis *x = &k->axes.at[old->axes.at[i]];
            bool one = x->kind == AXIS_PARALLEL && dim_is(x->extent, 1);
            if (pair[old->axes.at[i]] < 0 && !one) VEC_PUSH(r->scratch, &plain.axes, old->axes.at[i]);
        }
        stage *made = clone_stage(g, &plain);
        for (int i = 0; i < old->writes.n; i++) {
            const write *w = &old->writes.at[i];
            shared *s = first && w->to->role != BUF_LOCAL ? shared_of(r, root_of(w->to)) : NULL;
            if (s) write_shared(r, g, made, old, w, s);
            else clone_write(g, made, w);
        }
    }
}

static void build(rows *r) {
    kernel *k = r->made;
    bool second = r->k1.stages.n == 1; // whose order of outer axes is used
    const kernel *order = second ? &r->k2 : &r->k1;
    const int *pair = second ? r->pair2 : r->pair1;
    *k = (kernel){.id = k->id,
                  .arena = k->arena,
                  .program = k->program,
                  .name = k->name,
                  .loc = k->loc,
                  .shared = {.arena = k->arena}};
    cloning *g1 = clone_new(r->scratch, k, &r->k1), *g2 = clone_new(r->scratch, k, &r->k2);
    for (int a = 0; a < order->axes.n; a++) {
        if (pair[a] < 0) continue;
        int a1 = second ? pair[a] : a, a2 = second ? a : pair[a];
        const axis *x = &r->k1.axes.at[a1];
        int made = kernel_axis(k, AXIS_PARALLEL, x->name, x->extent);
        g1->number[a1] = g2->number[a2] = made;
        g1->axis[a1] = g2->axis[a2] = x_axis(k, made);
    }
    k->nouter = k->axes.n;
    g2->read = read_local;
    g2->user = r;
    clone_part(r, g1, &r->k1, r->pair1, true);
    clone_part(r, g2, &r->k2, r->pair2, false);
}

// ---------------------------------------------------------------- joining
static bool rows_of(rows *r, fuse *f, site *p1, site *p2, bool force) {
    *r = (rows){.f = f,
                .p1 = p1,
                .p2 = p2,
                .k1 = *p1->s->kernel,
                .k2 = *p2->s->kernel,
                .made = p2->s->kernel,
                .force = force};
    r->scratch = arena_new();
    r->pair1 = ARENA_ARRAY(r->scratch, int, r->k1.axes.n + 1);
    r->pair2 = ARENA_ARRAY(r->scratch, int, r->k2.axes.n + 1);
    for (int a = 0; a < r->k1.axes.n; a++) r->pair1[a] = UNSEEN;
    for (int a = 0; a < r->k2.axes.n; a++) r->pair2[a] = UNSEEN;
    if (!find_shared(r)) return false;
    for (int j = 0; j < r->n && !r->failed; j++) pair_shared(r, &r->list[j]);
    r->k2 = *p2->s->kernel; // including the expressions made by the comparison
    return !r->failed && resolve_pairs(r) && worth_it(r) && can_move_down(f, p1, p2);
}

bool rows_join(fuse *f, site *p1, site *p2, bool force) {
    rows r;
    bool ok = rows_of(&r, f, p1, p2, force);
    if (ok) {
        build(&r);
        ok = !r.failed && small_enough(r.made);
        if (ok) merge_names(r.made, &r.k1, &r.k2);
        else *p2->s->kernel = r.k2;
    }
    arena_destroy(r.scratch);
    if (!ok) return false;
    fuse_removed(f, p1);
    fuse_changed(f, p2);
    return true;
}

static bool join_with_producers(fuse *f, site *p2) {
    bool any = false;
    for (bool again = true; again;) {
        again = false;
        site *best = NULL;
        for (int limit = p2->time, tries = 0; tries < 8 && !again; tries++) {
            best = NULL;
            for (int i = 0; i < p2->reads.n; i++) {
                site *p = sole_writer(f, p2->reads.at[i]);
                if (!p || p->region != p2->region || p->time >= limit || !p->s->kernel) continue;
                if (!best || p->time > best->time) best = p;
            }
            if (!best) break;
            limit = best->time;
            again = rows_join(f, best, p2, false);
            any |= again;
        }
    }
    return any;
}

void fuse_rows(fuse *f) {
    for (int i = 0; i < f->order.n; i++) {
        site *p = f->order.at[i];
        bool moves = p->s->kernel && is_pointwise(p->s->kernel) && only_moves(p->s->kernel);
        if (p->s->kernel && !is_fixed(p) && (f->late || !moves)) join_with_producers(f, p);
    }
}

void fuse_chains(fuse *f) {
    for (int i = 0; i < f->order.n; i++) {
        site *p = f->order.at[i];
        if (p->s->kernel && !is_fixed(p)) fuse_chain(f, p);
    }
}
