// Caches that lose rows at their front: most steps move nothing.
//
//   for b:                                        for b: by[b] = max(e(b), 0)
//     for r < C:                                  m = min over by > 0;  n = min(m, C - m)
//       out[b, r] = n(b, r) if new(b, r)          for block < ceil((C - m) / n): for b: for r in block of n rows:
//                   else in[b, r + max(e(b), 0)]    in[b, r] = in[b, r + by[b]] if by[b] > 0 & r + by[b] < C
//                        if r + max(e(b), 0) < C  for b, r:
//                        else in[b, r]              out[b, r] = n(b, r) if new(b, r) else in[b, r]
//
// Rows come from beyond the block to which they go, so that a block moves in any order.
#include "passes/memory/slide.h"
#include "ir/kernel/clone.h"
#include "ir/kernel/edit.h"
#include "passes/match/form.h"

typedef struct slide {
    kernel *k;
    const write *w;
    buffer *in;
    const expr *moved, *kept; // the reads in[b, r + by] and in[b, r]
    expr *by;
    int axis; // of the buffer
} slide;

static bool is_zero(const expr *x) { return x->op == X_CONST && x->i == 0; }

static bool is_element(const expr *x, const slide *s) {
    if (x->op != X_READ || x->buffer != s->in || x->guard) return false;
    for (int d = 0; d < s->in->rank; d++)
        if (x->index[d] != s->w->index[d]) return false;
    return true;
}

// How many rows further on than the written element the read is; NULL: none, or it varies among the rows.
static expr *distance(const expr *index, const expr *row) {
    if (row->op != X_AXIS || index->op != X_ADD) return NULL;
    expr *by = index->arg[0] == row ? index->arg[1] : index->arg[1] == row ? index->arg[0] : NULL;
    bool positive = by && by->op == X_MAX && (is_zero(by->arg[0]) || is_zero(by->arg[1]));
    return positive && !expr_uses_axis(by, row->axis) ? by : NULL;
}

static bool find_distance(slide *s) {
    s->by = NULL;
    for (int d = 0; d < s->in->rank; d++) {
        if (s->moved->index[d] == s->w->index[d]) continue;
        if (s->by || !(s->by = distance(s->moved->index[d], s->w->index[d]))) return false;
        s->axis = d;
    }
    return s->by != NULL;
}

// Whether the guard is 0 <= index < size; the first comparison may be missing if it is always true.
static bool is_bound(const slide *s, const expr *guard) {
    const expr *index = s->moved->index[s->axis], *high = guard;
    if (guard->op == X_AND) {
        const expr *low = guard->arg[0];
        high = guard->arg[1];
        if (low->op != X_LE || !is_zero(low->arg[0]) || low->arg[1] != index) return false;
    }
    return high->op == X_LT && high->arg[0] == index &&
           expr_known_dim(s->k, high->arg[1]) == s->in->dims[s->axis];
}

// Whether the distance depends only on axes before the axis of the rows, each of them an axis of the kernel.
static bool depends_on_outer_axes(const slide *s) {
    uint64_t outer = 0;
    for (int d = 0; d < s->axis; d++) {
        const expr *x = s->w->index[d];
        if (x->op == X_AXIS) outer |= UINT64_C(1) << x->axis;
        else if (!dim_is(s->in->dims[d], 1)) return false;
    }
    for (int j = 0; j < s->k->axes.n; j++)
        if (!(outer >> j & 1) && expr_uses_axis(s->by, j)) return false;
    return true;
}

static bool find_slide(slide *s) {
    if (s->k->stages.n != 1 || s->k->stages.at[0]->states.n || s->k->stages.at[0]->writes.n != 1)
        return false;
    s->w = &s->k->stages.at[0]->writes.at[0];
    const expr *x = s->w->value;
    if (s->w->guard || x->op != X_READ || !x->guard) return false;
    s->moved = x->fill;
    if (s->moved->op != X_READ || s->moved->buffer != s->in || !s->moved->guard) return false;
    s->kept = s->moved->fill;
    return is_element(s->kept, s) && find_distance(s) && is_bound(s, s->moved->guard) &&
           depends_on_outer_axes(s);
}

// A temporary with the distance for each element of the axes before the axis of the rows.
static buffer *distances(program *p, const site *at, const slide *s) {
    arena *scratch = arena_new();
    buffer *b = program_buffer(p, "by", BUF_TEMP, DT_I64, s->axis, s->in->dims);
    kernel *k = kernel_new(p, "by", s->k->loc);
    stage *own = kernel_stage(k);
    cloning *g = clone_new(scratch, k, s->k);
    expr *index[MAX_RANK];
    for (int d = 0; d < s->axis; d++) {
        index[d] = stage_own_axis(k, own, AXIS_PARALLEL, "i", s->in->dims[d]);
        if (s->w->index[d]->op == X_AXIS) g->axis[s->w->index[d]->axis] = index[d];
    }
    stage_write(k, own, b, index, clone_expr(g, s->by));
    insert_kernel(p, at->region, step_index(at->region, at->s), k);
    arena_destroy(scratch);
    return b;
}

// ---------------------------------------------------------------- blocks
typedef struct blocks {
    dim *rows, *number, *block; // of a block; of blocks; the loop's variable
} blocks;

static dim *variable(program *p, const char *name, int64_t most) {
    dim *d = dim_opaque(p->dims, name, 0, most);
    VEC_PUSH(p->arena, &p->variables, d);
    return d;
}

static void set_dim(program *p, region *r, int at, dim *d, buffer *from, int64_t index, const loc *where) {
    step *s = step_insert(p, r, at, STEP_SET_DIM, where);
    s->target = d, s->buffer = from, s->index = index;
}

// Computes the sizes of blocks before the site.
static blocks find_blocks(program *p, const site *at, const slide *s, buffer *by) {
    dim *size = s->in->dims[s->axis], *two = dim_const(p->dims, 2);
    buffer *sizes = program_buffer(p, "moves", BUF_TEMP, DT_I64, 1, &two);
    kernel *k = kernel_new(p, "moves", s->k->loc);
    stage *own = kernel_stage(k);
    expr *index[MAX_RANK], *capacity = x_dim(k, size), *zero = x_i64(k, 0), *one = x_i64(k, 1);
    for (int d = 0; d < by->rank; d++) index[d] = stage_own_axis(k, own, AXIS_REDUCE, "i", by->dims[d]);
    expr *leaving = x_read(k, by, index),
         *some = x_and(k, x_lt(k, zero, leaving), x_lt(k, leaving, capacity));
    expr *least = stage_reduce(k, own, RED_MIN, x_select(k, some, leaving, capacity));
    least = x_bin(k, X_MIN, least, capacity);
    expr *stay = x_sub(k, capacity, least), *rows = x_bin(k, X_MIN, least, stay),
         *number = x_bin(k, X_FLOORDIV, x_add(k, stay, x_sub(k, rows, one)), x_bin(k, X_MAX, rows, one));
    stage_write(k, own, sizes, &zero, rows);
    stage_write(k, own, sizes, &one, x_select(k, x_lt(k, zero, rows), number, zero));
    insert_kernel(p, at->region, step_index(at->region, at->s), k);
    blocks b = {variable(p, "moved", size->max), variable(p, "moves", size->max),
                dim_opaque(p->dims, "move", 0, size->max)};
    VEC_PUSH(p->arena, &p->variables, b.block);
    set_dim(p, at->region, step_index(at->region, at->s), b.rows, sizes, 0, s->k->loc);
    set_dim(p, at->region, step_index(at->region, at->s), b.number, sizes, 1, s->k->loc);
    return b;
}

// Moves the rows of a block, in the memory of the cache.
static kernel *move_rows(program *p, const slide *s, buffer *out, buffer *by, const blocks *b) {
    kernel *k = kernel_new(p, "move", s->k->loc);
    stage *own = kernel_stage(k);
    expr *index[MAX_RANK], *from[MAX_RANK];
    for (int d = 0; d < s->in->rank; d++)
        index[d] = from[d] =
            stage_own_axis(k, own, AXIS_PARALLEL, "i", d == s->axis ? b->rows : s->in->dims[d]);
    expr *leaving = x_read(k, by, index),
         *row = x_add(k, x_mul(k, x_dim(k, b->block), x_dim(k, b->rows)), index[s->axis]);
    index[s->axis] = row, from[s->axis] = x_add(k, row, leaving);
    expr *moves =
        x_and(k, x_lt(k, x_i64(k, 0), leaving), x_lt(k, from[s->axis], x_dim(k, s->in->dims[s->axis])));
    stage_write(k, own, out, index, x_read_guarded(k, s->in, from, moves, NULL))->guard = moves;
    return k;
}

static void insert_moves(program *p, const site *at, const slide *s, buffer *out) {
    buffer *by = distances(p, at, s);
    blocks b = find_blocks(p, at, s, by);
    step *loop = step_insert(p, at->region, step_index(at->region, at->s), STEP_LOOP, s->k->loc);
    loop->target = b.block, loop->dim = b.number;
    loop->body[0] = ARENA_NEW(p->arena, region);
    step_kernel(p, loop->body[0], move_rows(p, s, out, by, &b));
}

static expr *keep(void *user, expr *x) {
    const slide *s = user;
    return x == s->moved ? x->fill : NULL;
}

void slide_in_place(program *p, const site *at, buffer *in, buffer *out) {
    slide s = {.k = at->s->kernel, .in = in};
    if (dtype_bits(in->dtype) < 8 || in->space != SPACE_HOST || !find_slide(&s) || s.w->to != out) return;
    insert_moves(p, at, &s, out);
    kernel_rewrite(s.k, keep, &s);
}
