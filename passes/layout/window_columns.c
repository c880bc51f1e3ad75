// Windows of an image as columns of a matrix (im2col), whose rows a product multiplies with the weights. In: a convolution. Out:
//
//   for n, for o: for c, k: columns[n, o_outer, c, k, o_last] = image[n, c, o * stride + k]
//   for n, for m, for o: for c, k: out[n, m, o] += columns[n, o_outer, c, k, o_last] * weights[m, c, k]
//
// The matrix has c * k elements for each of the positions, and the result m, which is written once, as it lies.
#include "passes/layout/window_columns.h"
#include "ir/kernel/edit.h"
#include "passes/match/form.h"

// The axes by which the product reads the image: columns are innermost.
static axis_list axes_of_columns(const contraction *c) {
    const axis_list *parts[] = {&c->batch, &c->other_n, &c->k_axes};
    axis_list all = {0};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < parts[i]->n; j++) all.at[all.n++] = parts[i]->at[j];
    all.at[all.n++] = c->n;
    return all;
}

static int reads_of(const kernel *k, const buffer *b) {
    int n = 0;
    for (int j = 0; j < k->exprs.n; j++) n += k->exprs.at[j]->op == X_READ && k->exprs.at[j]->buffer == b;
    return n;
}

// Whether an index moves along the columns and within a window.
static bool reads_windows(const contraction *c) {
    for (int d = 0; d < c->b->buffer->rank; d++)
        if (expr_uses_axis(c->b->index[d], c->n) && index_reduces(c->k, c->b->index[d])) return true;
    return false;
}

bool columns_pay(const kernel *k, const target *t, contraction *c) {
    enum {
        ROWS_PER_TERM = 2,
        LEAST_COLUMNS = 64
    }; // the matrix is written and read once more than the result
    if (!t->vector_bits || !contraction_find(k, c) || c->n < 0 || !reads_windows(c)) return false;
    const buffer *image = c->b->buffer;
    if (reads_of(k, image) != 1 || !dtype_is_float(image->dtype) || dtype_bits(image->dtype) < 32)
        return false;
    const dim *terms = axes_extent(k, c->k_axes.at, c->k_axes.n), *rows = axes_extent(k, c->m.at, c->m.n);
    return terms->max <= rows->min / ROWS_PER_TERM && k->axes.at[c->n].extent->max >= LEAST_COLUMNS &&
           axes_of_columns(c).n <= MAX_RANK;
}

typedef struct columns {
    const buffer *image;
    buffer *matrix;
    axis_list axes;
} columns;

static expr *read_of_matrix(void *user, kernel *k, const expr *read) {
    const columns *m = user;
    expr *index[MAX_RANK];
    for (int j = 0; j < m->axes.n; j++) index[j] = x_axis(k, m->axes.at[j]);
    return read->buffer == m->image ? x_read(k, m->matrix, index) : NULL;
}

static kernel *matrix_kernel(program *p, const kernel *k, const columns *m, expr *read) {
    kernel *copy = kernel_new(p, arena_printf(p->arena, "columns_%s", m->image->name), k->loc);
    stage *s = kernel_stage(copy);
    expr **axis = ARENA_ARRAY(p->arena, expr *, k->axes.n + 1), *index[MAX_RANK];
    for (int j = 0; j < m->axes.n; j++)
        axis[m->axes.at[j]] = index[j] = stage_own_axis(copy, s, AXIS_PARALLEL, "i", m->matrix->dims[j]);
    stage_write(copy, s, m->matrix, index, expr_substitute(copy, read, axis, NULL));
    return copy;
}

void read_columns(program *p, region *r, const step *s, const contraction *c) {
    kernel *k = s->kernel;
    columns m = {.image = c->b->buffer, .axes = axes_of_columns(c)};
    dim *dims[MAX_RANK];
    for (int j = 0; j < m.axes.n; j++) dims[j] = k->axes.at[m.axes.at[j]].extent;
    m.matrix =
        program_temp(p, arena_printf(p->arena, "%s.columns", m.image->name), m.image->dtype, m.axes.n, dims);
    m.matrix->region = m.image->region;
    if (m.matrix->role == BUF_HEAP)
        step_insert(p, r, step_index(r, s), STEP_ALLOC, s->loc)->buffer = m.matrix;
    insert_kernel(p, r, step_index(r, s), matrix_kernel(p, k, &m, c->b));
    kernel_rewrite_reads(k, read_of_matrix, &m);
}
