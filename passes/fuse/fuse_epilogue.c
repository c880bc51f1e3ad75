// Pointwise consumers become the epilogue of their producers: to[i] = v; c[f(i)] = g(to[i], ...) becomes
// c[f(i)] = g(v, ...). If `to` has other readers, both are written.
#include "passes/fuse/fuse_impl.h"
#include "passes/match/contract.h"

enum { MOST_WRITES = 6 };

typedef struct joint {
    fuse *f;
    arena *scratch;
    site *p, *c;
    kernel *pk;
    kernel ck; // before fusion
    kernel *made;
    buffer *root, *to;     // as the producer writes it
    buffer *view;          // as the consumer reads it
    int axis[MAX_RANK];    // by dim of the view: the consumer's axis, -1: none
    dim *stride[MAX_RANK]; // NULL, or a runtime 0 or 1: the consumer broadcasts this dim where it is 0
    bool stretched, keep;
    // while a write is replaced
    const stage *old_stage;
    const write *old_write;
    cloning *g;
    expr *value;
    bool failed;
} joint;

// ---------------------------------------------------------------- how the consumer reads
static bool read_dim(joint *j, const expr *e, int d) {
    const kernel *k = &j->ck;
    dim *n = j->view->dims[d];
    j->axis[d] = -1, j->stride[d] = NULL;
    if (expr_is_int(e, 0) && dim_is(n, 1)) return true;
    if (e->op == X_AXIS) {
        j->axis[d] = e->axis;
        return dim_equal(k->axes.at[e->axis].extent, n) == TRI_YES;
    }
    if (e->op != X_MUL || e->arg[0]->op != X_AXIS || e->arg[1]->op != X_DIM) return false;
    const dim *s = e->arg[1]->dim;
    j->axis[d] = e->arg[0]->axis, j->stride[d] = e->arg[1]->dim;
    j->stretched = true;
    return s->min >= 0 && s->max <= 1;
}

static bool read_form(joint *j) {
    const expr *read = kernel_only_read(&j->ck, j->root);
    if (!read) return false;
    j->view = read->buffer;
    for (int d = 0; d < j->view->rank; d++)
        if (!read_dim(j, read->index[d], d)) return false;
    for (int a = 0; a < j->ck.axes.n; a++) {
        int uses = 0;
        for (int d = 0; d < j->view->rank; d++) uses += j->axis[d] == a;
        if (uses > 1 || (uses == 0 && !dim_is(j->ck.axes.at[a].extent, 1))) return false;
    }
    return true;
}

// ---------------------------------------------------------------- how the producer writes
static bool write_form(joint *j) {
    int n = 0;
    write_list all = kernel_write_list(j->pk);
    for (int i = 0; i < all.n; i++) {
        const write *w = all.at[i];
        if (j->stretched && root_of(w->to) != j->root) return false;
        if (root_of(w->to) != j->root) continue;
        if (w->combine != COMBINE_SET || (j->to && j->to != w->to)) return false;
        j->to = w->to;
        n++;
        for (int d = 0; j->stretched && d < w->to->rank; d++)
            if (j->view == w->to && j->stride[d] && w->index[d]->op != X_AXIS) return false;
    }
    if (j->stretched && (j->view != j->to || n != 1 || j->keep)) return false;
    return n > 0 && n <= MOST_WRITES;
}

// ---------------------------------------------------------------- building
// The value of another output of the producer at the same position in the same stage.
static expr *sibling_value(joint *j, const expr *e, expr **index) {
    for (int i = 0; i < j->old_stage->writes.n; i++) {
        const write *w = &j->old_stage->writes.at[i];
        expr *at[MAX_RANK];
        if (w->to != e->buffer || w->when != j->old_write->when || w->guard || w->combine != COMBINE_SET)
            continue;
        for (int d = 0; d < w->to->rank; d++) at[d] = clone_expr(j->g, w->index[d]);
        bool same = true;
        for (int d = 0; d < w->to->rank; d++) same &= at[d] == index[d];
        if (same) return as_stored(j->f, j->made, clone_expr(j->g, w->value), w->to->dtype);
    }
    return NULL;
}

static expr *read_value(cloning *g, const expr *e, expr **index, expr *guard, expr *fill) {
    joint *j = g->user;
    const buffer *root = root_of(e->buffer);
    expr *v = NULL;
    if (root == j->root) v = j->value;
    else if (site_writes(j->p, root)) {
        v = sibling_value(j, e, index);
        j->failed |= !v;
    } else {
        buffer *b = merge_access(j->f, g->to, e->buffer, index);
        return b == e->buffer ? NULL : x_read_guarded(g->to, b, index, guard, fill);
    }
    return v && guard ? x_select(g->to, guard, v, fill ? fill : x_zero(g->to, v->dtype)) : v;
}

// Maps the consumer's axes to the indices of the producer's write.
static cloning *consumer_cloning(joint *j, const write *w) {
    kernel *k = j->made;
    cloning *g = clone_new(j->scratch, k, &j->ck);
    expr *index[MAX_RANK], *at[MAX_RANK];
    for (int d = 0; d < w->to->rank; d++) index[d] = clone_expr(j->g, w->index[d]);
    j->failed |= !view_index(k, w->to, j->view, index, at);
    if (j->failed) return NULL;
    for (int a = 0; a < j->ck.axes.n; a++) g->axis[a] = x_i64(k, 0);
    for (int d = 0; d < j->view->rank; d++)
        if (j->axis[d] >= 0) g->axis[j->axis[d]] = j->stride[d] ? x_axis(k, w->index[d]->axis) : at[d];
    g->read = read_value;
    g->user = j;
    return g;
}

static void replace_write(joint *j, stage *s, const write *w) {
    kernel *k = j->made;
    j->old_write = w;
    j->value = as_stored(j->f, k, clone_expr(j->g, w->value), w->to->dtype);
    cloning *g = consumer_cloning(j, w);
    if (!g) return;
    if (j->keep) clone_write(j->g, s, w);
    const stage *from = j->ck.stages.at[0];
    for (int i = 0; i < from->writes.n; i++) {
        write *made = clone_write(g, s, &from->writes.at[i]);
        made->to = merge_access(j->f, k, made->to, made->index);
        made->when = w->when;
        expr *guard = clone_expr(j->g, w->guard);
        made->guard = !guard ? made->guard : made->guard ? x_and(k, guard, made->guard) : guard;
    }
}

// The fused kernel starts as the producer without stages; broadcast axes get the consumer's extent.
static void begin_kernel(joint *j) {
    kernel *k = j->made;
    const kernel *from = j->pk;
    arena *a = k->arena;
    int id = k->id;
    *k = *from;
    k->id = id;
    k->stages.n = k->stages.cap = k->exprs.n = k->exprs.cap = 0;
    k->shared = (map){.arena = a};
    k->axes.n = k->axes.cap = k->messages.n = k->messages.cap = 0;
    for (int i = 0; i < from->axes.n; i++) VEC_PUSH(a, &k->axes, from->axes.at[i]);
    for (int i = 0; i < from->messages.n; i++) VEC_PUSH(a, &k->messages, from->messages.at[i]);
}

static const write *write_to(const kernel *k, const buffer *to) {
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++)
        if (all.at[j]->to == to) return all.at[j];
    return NULL;
}

static void stretch(joint *j, cloning *g) {
    const write *w = write_to(j->pk, j->to);
    for (int d = 0; d < j->view->rank; d++) {
        if (!j->stride[d]) continue;
        int a = w->index[d]->axis;
        j->made->axes.at[a].extent = j->ck.axes.at[j->axis[d]].extent;
        g->axis[a] = x_mul(j->made, x_axis(j->made, a), x_dim(j->made, j->stride[d]));
    }
}

static void build(joint *j) {
    begin_kernel(j);
    j->g = clone_same(j->scratch, j->made, j->pk);
    if (j->stretched) stretch(j, j->g);
    for (int s = 0; s < j->pk->stages.n && !j->failed; s++) {
        const stage *old = j->old_stage = j->pk->stages.at[s];
        stage *made = clone_stage(j->g, old);
        for (int i = 0; i < old->writes.n && !j->failed; i++) {
            if (root_of(old->writes.at[i].to) == j->root) replace_write(j, made, &old->writes.at[i]);
            else clone_write(j->g, made, &old->writes.at[i]);
        }
    }
}

// ---------------------------------------------------------------- decisions
// A contraction keeps a single write with the same innermost axis.
static bool keeps_order(const joint *j) {
    if (!is_contraction(j->pk)) return true;
    for (int s = 0; s < j->pk->stages.n; s++) {
        const stage *old = j->pk->stages.at[s], *made = j->made->stages.at[s];
        if (!stage_contracts(j->pk, old)) continue;
        if (old->writes.n != 1 || made->writes.n != 1) return false;
        const write *w = &old->writes.at[0], *m = &made->writes.at[0];
        int d = innermost_dim(w), e = innermost_dim(m);
        if (d < 0 || e < 0 || w->index[d]->op != X_AXIS) continue;
        if (!expr_uses_axis(m->index[e], w->index[d]->axis)) return false;
    }
    return true;
}

// The first dim of the write that an axis moves along; its rank: none.
static int dim_along(const write *w, int axis) {
    int d = 0;
    while (d < w->to->rank && !expr_uses_axis(w->index[d], axis)) d++;
    return d;
}

// Groups of channels stay together: results whose channels are stored in another order are copied, since convolutions write them along
// the channels.
static bool keeps_groups(const joint *j) {
    for (int s = 0; s < j->pk->stages.n; s++) {
        const stage *old = j->pk->stages.at[s], *made = j->made->stages.at[s];
        if (!stage_contracts(j->pk, old) || old->writes.n != 1 || made->writes.n != 1) continue;
        const write *w = &old->writes.at[0], *m = &made->writes.at[0];
        for (int d = 0; d < w->to->rank; d++) {
            expr *groups;
            int channel = index_digit(j->pk, w->index[d], &groups);
            for (int a = 0; channel >= 0 && groups && a < j->pk->axes.n; a++)
                if (expr_uses_axis(groups, a) && dim_along(m, a) > dim_along(m, channel)) return false;
        }
    }
    return true;
}

static bool independent(const joint *j) {
    const site *p = j->p, *c = j->c;
    for (int i = 0; i < c->writes.n; i++)
        if (site_reads(p, c->writes.at[i]) || site_writes(p, c->writes.at[i])) return false;
    return true;
}

static bool no_more_divisions(const joint *j) {
    return count_divisions(j->made) <= count_divisions(j->pk) + count_divisions(&j->ck);
}

static bool join(fuse *f, site *p, site *c, buffer *root) {
    joint j = {
        .f = f, .p = p, .c = c, .pk = p->s->kernel, .ck = *c->s->kernel, .made = c->s->kernel, .root = root};
    j.keep = read_elsewhere(f, root, c);
    if (!read_form(&j) || !write_form(&j) || !independent(&j) || !can_move_down(f, p, c)) return false;
    j.scratch = arena_new();
    build(&j);
    bool ok = !j.failed && small_enough(j.made) && no_more_divisions(&j) && keeps_order(&j) &&
              keeps_groups(&j) && still_contracts(j.made, j.pk);
    arena_destroy(j.scratch);
    if (!ok) {
        *c->s->kernel = j.ck;
        return false;
    }
    merge_names(j.made, j.pk, &j.ck);
    fuse_removed(f, p);
    fuse_changed(f, c);
    return true;
}

// Whether c widens the elements of root (dequantisation), which is better done by its readers.
static bool expands(const site *c, const buffer *root) {
    const write *w = &c->s->kernel->stages.at[0]->writes.at[0];
    return dtype_bits(w->to->dtype) > dtype_bits(root->dtype) &&
           dim_equal(buffer_count(w->to), buffer_count(root)) == TRI_YES;
}

// Tries producers: contractions first, late ones before early ones.
static bool join_with_producer(fuse *f, site *c) {
    for (int contraction = 1; contraction >= 0; contraction--) {
        for (int limit = c->time, tries = 0; tries < 8; tries++) {
            site *best = NULL;
            buffer *root = NULL;
            for (int i = 0; i < c->reads.n; i++) {
                site *p = sole_writer(f, c->reads.at[i]);
                if (!p || p->region != c->region || p->time >= limit || !p->s->kernel) continue;
                if (is_pointwise(p->s->kernel) || is_contraction(p->s->kernel) != contraction) continue;
                if (!f->late && expands(c, c->reads.at[i])) continue;
                if (!best || p->time > best->time) best = p, root = c->reads.at[i];
            }
            if (!best) break;
            if (join(f, best, c, root)) return true;
            limit = best->time;
        }
    }
    return false;
}

void fuse_epilogue(fuse *f) {
    for (int i = 0; i < f->order.n; i++) {
        site *c = f->order.at[i];
        if (!c->s->kernel || is_fixed(c) || !is_pointwise(c->s->kernel)) continue;
        if (!f->late && is_movement(c->s->kernel) && !is_plain_copy(c->s->kernel)) continue;
        join_with_producer(f, c);
    }
}
