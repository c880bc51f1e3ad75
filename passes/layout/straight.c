// Operands whose rows have several heads. In: a product of bytes whose operand B is read at positions such as
// B[j][head * D + d]. Out: the product of a buffer that has a dim for each axis, by_axes[head][d][j], and what is written to it: the
// pack that follows moves the elements anyway, and groups along K (schedule_groups.h) need axes that are dims.
#include "passes/layout/straight.h"
#include "ir/kernel/edit.h"
#include "ir/kernel/program.h"
#include "passes/match/form.h"
#include "passes/schedule/cpu/schedule_groups.h"

// The axes along which B moves, K's and N's last. false: more than a buffer has dims.
static bool axes_of_b(const contraction *c, int *axes, int *n) {
    axis_list order = c->batch;
    for (int j = 0; j < c->other_n.n; j++) order.at[order.n++] = c->other_n.at[j];
    for (int j = 0; j < c->k_axes.n; j++) order.at[order.n++] = c->k_axes.at[j];
    order.at[order.n++] = c->n;
    *n = 0;
    for (int j = 0; j < order.n; j++) {
        if (!index_uses_axis(c->b, order.at[j])) continue;
        if (*n == MAX_RANK) return false;
        axes[(*n)++] = order.at[j];
    }
    return true;
}

// Whether the buffer would be no larger than B: in windows an element has several positions.
static bool is_as_large(const contraction *c, const int *axes, int n) {
    return dim_less_equal(axes_extent(c->k, axes, n), buffer_count(c->b->buffer)) == TRI_YES;
}

// Bytes that are widened need columns that lie in one dim, but no groups.
static bool is_straight(const target *t, const contraction *c) {
    return dim_of_axis(c->b->buffer, c->b->index, c->n, true) >= 0 &&
           (group_axis(t, c) >= 0 || widens_bytes(t, c));
}

void straighten_operand(program *p, const target *t, contraction *c, straight_operand *of) {
    kernel *k = (kernel *)c->k;
    buffer *b = (buffer *)c->b->buffer;
    int n = 0;
    of->read = NULL;
    if (c->n < 0 || c->s->states.at[0].dtype != DT_I32 || c->a->guard || c->b->guard || !t->vector_bits)
        return;
    if (b->role == BUF_CONST || b->layout || dtype_bits(b->dtype) != 8 || is_straight(t, c)) return;
    if (!axes_of_b(c, of->axes, &n) || is_chosen_by_data(c->b) || !is_as_large(c, of->axes, n)) return;
    dim *dims[MAX_RANK];
    expr *index[MAX_RANK];
    for (int j = 0; j < n; j++) {
        dims[j] = k->axes.at[of->axes[j]].extent;
        index[j] = x_axis(k, of->axes[j]);
    }
    of->read = c->b;
    of->by_axes = program_temp(p, arena_printf(p->arena, "%s.heads", b->name), b->dtype, n, dims);
    of->by_axes->region = b->region;
    kernel_replace_read(k, c->b, x_read(k, of->by_axes, index));
    contraction_find(k, c);
}

static expr *read_original(void *user, kernel *k, const expr *read) {
    const straight_operand *of = user;
    return read->buffer == of->by_axes ? expr_substitute(k, (expr *)of->read, NULL, NULL) : NULL;
}

void restore_operand(const straight_operand *of, kernel *k) {
    if (of->read) kernel_rewrite_reads(k, read_original, (void *)of);
}

expr *read_straight(kernel *k, const straight_operand *of, expr *const *index, expr *guard) {
    expr *axis[MAX_AXES], *at[MAX_RANK];
    buffer *b = (buffer *)of->read->buffer;
    for (int i = 0; i < MAX_AXES; i++) axis[i] = x_i64(k, 0); // those of one position
    for (int i = 0; i < of->by_axes->rank; i++) axis[of->axes[i]] = index[i];
    for (int j = 0; j < b->rank; j++) at[j] = expr_substitute(k, of->read->index[j], axis, NULL);
    return x_read_guarded(k, b, at, guard, NULL);
}
