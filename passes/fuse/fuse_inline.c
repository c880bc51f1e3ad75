// Inlining of pointwise producers into the reads of their consumers: read(b, i) becomes the value that was
// written to b at i.
//
// A producer writes its buffer in one piece or, if it is a concatenation, in several; each piece covers a box
// of the buffer:
//   for axes: b[axis + low, ...] = value(axes)
#include "passes/fuse/fuse_impl.h"
#include "passes/match/contract.h"
#include <math.h>

enum { MOST_PIECES = 8, CHEAP = 4, CHEAP_SCALE = 8, FEW_PRODUCTS = 4, OFTEN = 16 };

typedef struct piece {
    const stage *s;
    const write *w;
    int axis[MAX_RANK]; // by dim of the buffer; -1: the index is low alone
    dim *low[MAX_RANK];
} piece;

typedef struct source {
    const kernel *k;
    buffer *root, *to;
    piece pieces[MOST_PIECES];
    int n;
    bool in_row; // pieces are adjacent along dim `along` and cover it
    int along;
} source;

// ---------------------------------------------------------------- taking producers apart

static bool uses_each_once(const kernel *k, const piece *p, int rank) {
    for (int pass = 0; pass < 2; pass++) {
        int n = pass ? p->s->axes.n : k->nouter;
        for (int j = 0; j < n; j++) {
            int a = pass ? p->s->axes.at[j] : j, uses = 0;
            for (int d = 0; d < rank; d++) uses += p->axis[d] == a;
            if (uses > 1 || (uses == 0 && !dim_is(k->axes.at[a].extent, 1))) return false;
        }
    }
    return true;
}

static bool take_piece(source *src, const stage *s, const write *w) {
    if (src->n == MOST_PIECES || s->states.n || !write_is_plain(w)) return false;
    if (src->to && src->to != w->to) return false;
    src->to = w->to;
    piece *p = &src->pieces[src->n++];
    *p = (piece){.s = s, .w = w};
    for (int d = 0; d < w->to->rank; d++)
        if (!shifted_axis(src->k, w->index[d], &p->axis[d], &p->low[d])) return false;
    return !expr_any(w->value, reads_local) && uses_each_once(src->k, p, w->to->rank);
}

static dim *extent_of(const source *src, const piece *p, int d) {
    dims *t = src->k->program->dims;
    return p->axis[d] < 0 ? dim_const(t, 1) : src->k->axes.at[p->axis[d]].extent;
}
static bool covers(const source *src, const piece *p, int d) {
    return dim_is(p->low[d], 0) && dim_equal(extent_of(src, p, d), src->to->dims[d]) == TRI_YES;
}

// Whether the pieces are adjacent along one dim, in order and without gaps.
static bool side_by_side(source *src) {
    src->along = -1;
    for (int d = 0; d < src->to->rank; d++) {
        bool whole = true;
        for (int j = 0; j < src->n; j++) whole &= covers(src, &src->pieces[j], d);
        if (whole) continue;
        if (src->along >= 0) return false;
        src->along = d;
    }
    if (src->along < 0) return false;
    dim *at = dim_const(src->k->program->dims, 0);
    for (int j = 0; j < src->n; j++) {
        if (dim_equal(src->pieces[j].low[src->along], at) != TRI_YES) return false;
        at = dim_add(at, extent_of(src, &src->pieces[j], src->along));
    }
    return true;
}

static bool source_of(const kernel *k, buffer *root, source *src) {
    *src = (source){.k = k, .root = root};
    for (int j = 0; j < k->stages.n; j++) {
        const stage *s = k->stages.at[j];
        for (int i = 0; i < s->writes.n; i++)
            if (root_of(s->writes.at[i].to) == root && !take_piece(src, s, &s->writes.at[i])) return false;
    }
    src->in_row = src->n > 1 && side_by_side(src);
    return src->n > 0;
}

// ---------------------------------------------------------------- reading through
typedef struct inlining {
    fuse *f;
    source *src;
    arena *scratch;
    bool failed;
} inlining;

// The condition that an index is in piece j, given that it is in no later piece.
static expr *inside(kernel *k, const source *src, int j, expr *const *at) {
    const piece *p = &src->pieces[j];
    expr *in = NULL;
    for (int d = 0; d < src->to->rank; d++) {
        if (covers(src, p, d)) continue;
        in = x_both(k, in, x_bin(k, X_LE, x_dim(k, p->low[d]), at[d]));
        if (!src->in_row)
            in = x_both(k, in, x_lt(k, at[d], x_dim(k, dim_add(p->low[d], extent_of(src, p, d)))));
    }
    return in;
}

static expr *read_joined(cloning *g, const expr *e, expr **index, expr *guard, expr *fill) {
    inlining *in = g->user;
    buffer *b = merge_access(in->f, g->to, e->buffer, index);
    return b == e->buffer ? NULL : x_read_guarded(g->to, b, index, guard, fill);
}

static expr *piece_value(inlining *in, kernel *k, const piece *p, expr *const *at, expr *guard) {
    cloning *g = clone_new(in->scratch, k, in->src->k);
    for (int a = 0; a < in->src->k->axes.n; a++) g->axis[a] = x_i64(k, 0);
    for (int d = 0; d < in->src->to->rank; d++)
        if (p->axis[d] >= 0) g->axis[p->axis[d]] = x_sub(k, at[d], x_dim(k, p->low[d]));
    g->guard = guard;
    g->read = read_joined;
    g->user = in;
    return as_stored(in->f, k, clone_expr(g, p->w->value), in->src->to->dtype);
}

static bool is_false(const expr *e) { return e && e->op == X_CONST && e->i == 0; }
static bool is_true(const expr *e) { return e && e->op == X_CONST && e->i != 0; }

// value where guard holds, else fill; a plain read with the same guard takes the fill itself.
static expr *guarded(kernel *k, const piece *p, expr *value, expr *guard, expr *fill) {
    if (!guard) return value;
    if (!fill) fill = x_zero(k, value->dtype);
    const expr *old = p->w->value;
    bool same = old->op == X_READ && (!old->guard || (value->op == X_READ && value->fill == fill));
    if (same && value->op == X_READ && value->guard)
        return x_read_guarded(k, value->buffer, value->index, value->guard, fill);
    return x_select(k, guard, value, fill);
}

static expr *read_through(cloning *g, const expr *e, expr **index, expr *guard, expr *fill) {
    inlining *in = g->user;
    kernel *k = g->to;
    source *src = in->src;
    if (in->failed || root_of(e->buffer) != src->root) return NULL;
    expr *at[MAX_RANK], *where[MOST_PIECES], *part[MOST_PIECES], *value = NULL, *left = guard;
    in->failed = !view_index(k, e->buffer, src->to, index, at);
    if (in->failed) return NULL;
    int j = src->n - 1;
    for (; j >= 0; j--) {
        where[j] = j ? inside(k, src, j, at) : NULL;
        part[j] = NULL;
        if (is_false(where[j])) continue;
        if (is_true(where[j])) where[j] = NULL;
        part[j] = piece_value(in, k, &src->pieces[j], at, x_both(k, left, where[j]));
        if (!where[j]) break;
        left = x_both(k, left, x_un(k, X_NOT, where[j]));
    }
    int first = j < 0 ? 0 : j;
    for (j = first; j < src->n; j++)
        if (part[j]) value = !value ? part[j] : x_select(k, where[j], part[j], value);
    return value ? guarded(k, &src->pieces[first], value, guard, fill) : NULL;
}

static bool rewrite_reads(inlining *in, kernel *k) {
    cloning *g = clone_same(in->scratch, k, kernel_begin(k));
    g->read = read_through;
    g->user = in;
    clone_all(g);
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++) all.at[j]->to = merge_access(in->f, k, all.at[j]->to, all.at[j]->index);
    return !in->failed;
}

// ---------------------------------------------------------------- decisions
static bool few_divisions(const kernel *k, const kernel *old) {
    int n = count_divisions(k);
    return n <= MOST_DIVISIONS || n <= count_divisions(old);
}

static bool inline_into(fuse *f, source *src, site *from, site *to) {
    kernel *k = to->s->kernel, saved = *k;
    if (!can_compute_later(f, from, to)) return false;
    inlining in = {.f = f, .src = src, .scratch = arena_new()};
    bool ok = rewrite_reads(&in, k) && small_enough(k) && few_divisions(k, &saved) &&
              still_contracts(k, &saved) && (!only_moves(src->k) || keeps_windows(k, &saved));
    arena_destroy(in.scratch);
    if (ok) free_order(k);
    if (!ok) *k = saved;
    else if (has_states(&saved)) merge_names(k, &saved, src->k);
    else merge_names(k, src->k, &saved);
    return ok;
}

static cost cost_of_source(const source *src) {
    cost all = {.moves = true, .scales = true};
    for (int j = 0; j < src->n; j++) {
        cost c = cost_of(src->k, src->pieces[j].w);
        if (c.work > all.work) all.work = c.work;
        if (c.reads > all.reads) all.reads = c.reads;
        if (c.bits > all.bits) all.bits = c.bits;
        all.moves &= c.moves, all.scales &= c.scales;
    }
    return all;
}

// Whether the kernel reads the buffer at data-dependent positions.
static bool looks_up(const kernel *k, const buffer *root) {
    arena *scratch = arena_new();
    expr_list reads = reads_only(kernel_nodes(scratch, k, PART_ALL));
    bool found = false;
    for (int j = 0; j < reads.n; j++)
        for (int i = 0; i < reads.at[j]->buffer->rank && root_of(reads.at[j]->buffer) == root; i++)
            found |= reads_only(expr_nodes(scratch, reads.at[j]->index[i])).n > 0;
    arena_destroy(scratch);
    return found;
}

// Whether neighbours in the source's buffer are not neighbours where it reads them.
static bool transposes(const source *src) {
    const write *w = src->pieces[0].w;
    const expr *v = w->value;
    while (v->op == X_CAST) v = v->arg[0];
    if (src->n != 1 || v->op != X_READ || !v->buffer->rank || !w->to->rank) return false;
    const expr *last = w->index[w->to->rank - 1];
    return last->op == X_AXIS && !expr_uses_axis(v->index[v->buffer->rank - 1], last->axis);
}

// Whether data choose the source's rows, and the kernel transposes them for products, which can read them as they are chosen.
static bool transposes_chosen(fuse *f, const source *src, site *to) {
    site *products[MOST_READERS];
    source moved;
    const expr *v = src->pieces[0].w->value;
    if (src->n != 1 || v->op != X_READ || !only_moves(to->s->kernel) || to->writes.n != 1) return false;
    int n = readers_of(f, to, to->writes.at[0], false, products);
    bool all = n > 0, chosen = false;
    for (int j = 0; j < n; j++) all &= is_contraction(products[j]->s->kernel);
    for (int d = 0; d < v->buffer->rank; d++) chosen |= expr_any(v->index[d], expr_is_read);
    return all && chosen && source_of(to->s->kernel, to->writes.at[0], &moved) && transposes(&moved);
}

// Whether sums of the source's values become sums of its bytes, which take less time than floats, and on all CPUs, so that
// these agree: a scale that is not a literal stays within the sum.
static bool sums_bytes(const fuse *f, const source *src) {
    const write *w = src->pieces[0].w;
    return f->sums_bytes && src->n == 1 && reads_only(expr_nodes(f->arena, w->value)).n == 1;
}

// Whether each read of the source's buffer is of one of its pieces, as the components of positions that are read one by one.
static bool picks_pieces(const source *src, const kernel *k) {
    arena *scratch = arena_new();
    expr_list reads = reads_only(kernel_nodes(scratch, k, PART_ALL));
    bool all = src->in_row;
    for (int j = 0; j < src->n && all; j++) all = dim_is_const(src->pieces[j].low[src->along]);
    for (int j = 0; j < reads.n && all; j++) {
        const expr *r = reads.at[j];
        if (root_of(r->buffer) == src->root)
            all = r->buffer == src->to && r->index[src->along]->op == X_CONST;
    }
    arena_destroy(scratch);
    return all;
}

// Whether pieces of the source are elements of a state.
static bool joins_state(const fuse *f, const site *from, const source *src) {
    const program *p = f->p;
    for (int j = 0; p->state && src->n > 1 && j < p->outputs.n; j++)
        if (p->state[j] && site_reads(from, p->inputs.at[p->state[j] - 1])) return true;
    return false;
}

// Whether recomputing values at their reads (rematerialisation) is cheaper than a round trip through memory.
static bool worth(fuse *f, const site *from, const source *src, site *const *to, int n) {
    cost c = cost_of_source(src);
    double demand = src->k->stages.n > src->n; // the kernel computes it for its other results anyway
    bool contraction = false, joined = false;
    if (n > 1 && joins_state(f, from, src))
        return false; // it may become a part of the next state, where others read it
    for (int j = 0; j < n; j++) {
        kernel *k = to[j]->s->kernel;
        bool selects = src->n > 1 && !picks_pieces(src, k);
        if (transposes_chosen(f, src, to[j])) return false;
        joined |= selects;
        if (!f->late && !c.moves && !c.scales && is_movement(k) && c.reads) return false;
        if (selects && has_states(k)) return false; // every term would select its piece
        bool here = false;
        double own = demand_of(k, src->root, &here);
        // Bytes of a table are widened where data choose its rows: that costs less than the lookup.
        if (own > 1 && c.scales && c.work <= CHEAP_SCALE && looks_up(k, src->root)) own = 1;
        demand += own;
        // A table that is looked up often is transposed once.
        if (own >= OFTEN && !here && transposes(src) && looks_up(k, src->root)) return false;
        here |=
            c.scales && c.bits <= 8 && (sums_one_product(k) || makes_bytes(k, src->root, sums_bytes(f, src)));
        // Bytes beside weights that are floats are widened once, instead of for each window.
        if (here && !c.moves && c.bits <= 8 && !f->bare && multiplies_windows(k, src->root)) return false;
        contraction |= here;
        // Loops repeat it, which costs nothing only in products with packed constants.
        if (to[j]->region != from->region && !here) return false;
    }
    // Integer products need the bytes themselves; wider elements are converted once instead of once per
    // product.
    bool scales = c.scales && c.work <= CHEAP_SCALE && (c.bits <= f->factor_bits || demand <= FEW_PRODUCTS);
    if (contraction && !(src->n == 1 && (c.moves || scales))) return false;
    if (joined && (demand > 2 || (n > 1 && f->bare))) return false;
    if (c.moves || contraction || demand <= 1 || (c.reads == 0 && c.work <= CHEAP)) return true;
    return c.work * (demand - 1) <= CHEAP && c.reads * demand <= c.reads + 1 + demand;
}

// ---------------------------------------------------------------- chains
// Two pointwise kernels over the same axes in the same order: the operations of the second are appended to
// the first, so that a long chain is not cloned at each link.
typedef struct link {
    fuse *f;
    const source *src;
    expr *value;
    expr *read; // the only read of the producer's buffer
} link;

static expr *read_link(cloning *g, const expr *e, expr **index, expr *guard, expr *fill) {
    link *l = g->user;
    (void)index, (void)guard, (void)fill;
    return root_of(e->buffer) == l->src->root ? l->value : NULL;
}

static bool same_loops(const link *l, const kernel *to, cloning *g) {
    const piece *p = &l->src->pieces[0];
    int last = -1, last_from = -1, wide = 0;
    if (!l->read || l->read->guard || l->read->buffer != l->src->to) return false;
    for (int a = 0; a < to->axes.n; a++) {
        g->axis[a] = x_i64(g->to, 0);
        wide += !dim_is(to->axes.at[a].extent, 1);
    }
    for (int d = 0; d < l->src->to->rank; d++) {
        const expr *i = l->read->index[d];
        if (i->op == X_CONST && p->axis[d] < 0) continue;
        if (i->op != X_AXIS || p->axis[d] < 0 || !covers(l->src, p, d)) return false;
        if (i->axis <= last || p->axis[d] <= last_from) return false;
        last = i->axis, last_from = p->axis[d];
        if (dim_equal(to->axes.at[last].extent, l->src->to->dims[d]) != TRI_YES) return false;
        g->axis[last] = p->w->index[d];
        wide--;
    }
    return wide == 0;
}

static bool append_to_source(fuse *f, const source *src, site *from, site *to) {
    kernel *k = from->s->kernel, *end = to->s->kernel;
    if (!is_pointwise(k) || !is_pointwise(end) || src->n != 1 || from->writes.n != 1 ||
        k->stages.at[0]->writes.n != 1)
        return false;
    if (!can_compute_later(f, from, to)) return false;
    link l = {.f = f, .src = src, .read = kernel_only_read(end, src->root)};
    arena *scratch = arena_new();
    cloning *g = clone_new(scratch, k, end);
    stage *s = k->stages.at[0], saved = *s;
    bool ok = same_loops(&l, end, g);
    if (ok) {
        l.value = as_stored(f, k, s->writes.at[0].value, src->to->dtype);
        g->read = read_link;
        g->user = &l;
        s->writes.at = NULL, s->writes.n = s->writes.cap = 0;
        for (int i = 0; i < end->stages.at[0]->writes.n; i++)
            clone_write(g, s, &end->stages.at[0]->writes.at[i]);
        ok = small_enough(k);
        if (!ok) *s = saved;
    }
    arena_destroy(scratch);
    if (!ok) return false;
    int id = end->id;
    kernel tail = *end;
    *end = *k;
    end->id = id;
    merge_names(end, k, &tail);
    fuse_removed(f, from);
    fuse_changed(f, to);
    return true;
}

static void inline_source(fuse *f, site *from, buffer *root) {
    site *to[MOST_READERS];
    source src;
    int n = readers_of(f, from, root, reads_constants(from), to);
    if (n <= 0 || f->uses->of[root->id].output || !source_of(from->s->kernel, root, &src)) return;
    if (!worth(f, from, &src, to, n) || (n == 1 && append_to_source(f, &src, from, to[0]))) return;
    kernel saved[MOST_READERS];
    int done = 0;
    for (; done < n; done++) {
        saved[done] = *to[done]->s->kernel;
        if (!inline_into(f, &src, from, to[done])) break;
    }
    if (done < n) {
        while (done-- > 0) *to[done]->s->kernel = saved[done];
        return;
    }
    for (int j = 0; j < n; j++) fuse_changed(f, to[j]);
    if (from->writes.n == 1) fuse_removed(f, from);
}

void fuse_inline(fuse *f) {
    for (int j = 0; j < f->order.n; j++) {
        site *from = f->order.at[j];
        if (!from->s->kernel || is_fixed(from)) continue;
        for (int i = 0; i < from->writes.n && from->s->kernel; i++)
            if (sole_writer(f, from->writes.at[i]) == from) inline_source(f, from, from->writes.at[i]);
    }
}
