// Predicates on parts of kernels. In: expressions, writes and stages. Out: what passes ask of their
// structure.
#include "passes/match/form.h"
#include "ir/kernel/program.h"

bool expr_is_int(const expr *x, int64_t v) { return x->op == X_CONST && x->i == v; }
bool reads_local(const expr *x) { return x->op == X_READ && x->buffer->role == BUF_LOCAL; }

dim *expr_known_dim(const kernel *k, const expr *x) {
    if (x->op == X_DIM) return x->dim;
    return x->op == X_CONST ? dim_const(k->program->dims, x->i) : NULL;
}

write_list kernel_write_list(const kernel *k) {
    write_list l = {0};
    for (int s = 0; s < k->stages.n; s++)
        for (int j = 0; j < k->stages.at[s]->writes.n; j++)
            VEC_PUSH(k->arena, &l, &k->stages.at[s]->writes.at[j]);
    return l;
}

bool write_is_plain(const write *w) { return w->when == WRITE_END && w->combine == COMBINE_SET && !w->guard; }

bool stage_writes_at_end(const stage *s) {
    for (int j = 0; j < s->writes.n; j++)
        if (s->writes.at[j].when != WRITE_END) return false;
    return true;
}

bool stage_keeps_terms(const stage *s) {
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        if (w->when == WRITE_END) continue;
        if (w->when != WRITE_BEFORE || w->combine != COMBINE_SET || w->guard ||
            expr_any(w->value, expr_is_state))
            return false;
    }
    return true;
}

bool stage_scans(const kernel *k, const stage *s) {
    for (int j = 0; j < s->axes.n; j++)
        if (k->axes.at[s->axes.at[j]].kind == AXIS_SCAN) return true;
    return false;
}

bool stage_reduces(const kernel *k, const stage *s, const expr *x) {
    for (int j = 0; j < s->axes.n; j++)
        if (k->axes.at[s->axes.at[j]].kind != AXIS_PARALLEL && expr_uses_axis(x, s->axes.at[j])) return true;
    return false;
}

int dim_of_axis(const buffer *b, expr *const *index, int axis, bool plain) {
    int found = -1, n = 0;
    for (int j = 0; j < b->rank; j++)
        if (expr_uses_axis(index[j], axis)) found = j, n++;
    return n == 1 && (!plain || index[found]->op == X_AXIS) ? found : -1;
}

dim *axes_extent(const kernel *k, const int *axes, int n) {
    dim *product = dim_const(k->program->dims, 1);
    for (int j = 0; j < n; j++) product = dim_mul(product, k->axes.at[axes[j]].extent);
    return product;
}

static void add_shape(arena *a, dim_list *l, const buffer *b) {
    for (int j = 0; j < b->rank; j++) VEC_PUSH(a, l, b->dims[j]);
}
dim_list kernel_dims(arena *a, const kernel *k) {
    dim_list l = {0};
    for (int j = 0; j < k->axes.n; j++) VEC_PUSH(a, &l, k->axes.at[j].extent);
    for (int s = 0; s < k->stages.n; s++) {
        const stage *st = k->stages.at[s];
        expr_list all = stage_nodes(a, st, PART_ALL);
        for (int j = 0; j < all.n; j++) {
            if (all.at[j]->op == X_DIM) VEC_PUSH(a, &l, all.at[j]->dim);
            if (all.at[j]->op == X_READ) add_shape(a, &l, all.at[j]->buffer);
        }
        for (int j = 0; j < st->writes.n; j++) add_shape(a, &l, st->writes.at[j].to);
    }
    return l;
}

bool is_chosen_by_data(const expr *read) {
    for (int j = 0; j < read->buffer->rank; j++)
        if (expr_any(read->index[j], expr_is_read)) return true;
    return false;
}

bool kernel_only_gathers(const kernel *k, const buffer *b) {
    arena *scratch = arena_new();
    expr_list reads = reads_only(kernel_nodes(scratch, k, PART_ALL));
    bool only = true;
    for (int j = 0; j < reads.n; j++)
        if (reads.at[j]->buffer == b) only &= is_chosen_by_data(reads.at[j]);
    arena_destroy(scratch);
    return only;
}

bool read_slides(const kernel *k, const expr *read) {
    for (int d = 0; d < read->buffer->rank; d++) {
        bool slides = false, reduces = false;
        for (int i = 0; i < k->axes.n; i++) {
            if (!expr_uses_axis(read->index[d], i) || dim_is(k->axes.at[i].extent, 1)) continue;
            bool sums = k->axes.at[i].kind == AXIS_REDUCE;
            slides |= !sums, reduces |= sums;
        }
        if (slides && reduces) return true;
    }
    return false;
}
