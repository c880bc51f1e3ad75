// Contractions of bytes on targets that add the products of two vectors to a scalar (Helium's VMLADAV). Both operands
// lie in rows along K. With vectors of V bytes:
//
//   for batch, other N and M axes, for n0 in steps of 4:
//     s[4] = 0
//     for outer k axes, for k in steps of V:
//       a = A[m][k .. k+V]                          past the end 0
//       for j < 4: s[j] += sum(a * B[n0 + j][k .. k+V])
//     write f(s) for four columns                   the epilogue, in vectors
//
// Operands of different sign are widened to 16 bits, half as many at a time.
//
// A few vectors of A are loaded once for all columns, and no loop over K remains; those for which there are no registers come from
// the stack, which takes no addresses:
//
//   for batch, other N and M axes:
//     a[i] = A[m][i V .. (i + 1) V]
//     for n0 in steps of 4: s[j] = sum of sum(a[i] * B[n0 + j][i V ...])
//
// Elements of 2 or 4 bits are taken apart, p = 8 / bits of them in a byte; those with signs lie in the high bits of bytes, or, times
// unsigned ones, become unsigned by a sum that A's elements take off:
//
//   for k in steps of p V:
//     a[i] = A[m][k + i, k + i + p, k + i + 2 p ...]                  for i < p
//     for j < 4: w = V bytes of B[n0 + j] from k on; for i < p: s[j] += sum(a[i] * (w << up(i) & mask))
//   for j < 4: s[j] >>= 8 - bits
//
// Windows of several rows, as in the first layer of a network, are copied to local memory before, row after row as B has
// them.
#include "passes/schedule/cpu/contract_tiling.h"
#include "passes/schedule/cpu/schedule_groups.h"
#include "passes/schedule/cpu/schedule_words.h"

enum { COLUMNS = 4, UNROLLED = 4, HELD_VECTORS = 9 };

typedef struct across {
    tiling t;
    int axis, width;           // the innermost axis of K, and its positions in a vector
    int fields;                // elements in a byte of B
    ins *total;                // ... and the sum of A's elements, where they have an offset
    ins *sum[COLUMNS];         // variables
    ins *stride;               // elements of B from one column to the next
    int64_t held;              // elements of A that are loaded once; 0: they are for each group of columns
    ins *vector[HELD_VECTORS]; // ... of bytes: the code generator widens them where it multiplies them
} across;

// ---------------------------------------------------------------- does it fit
static int64_t vectors_of(const across *x, int64_t elements) { return (elements + x->width - 1) / x->width; }

// The elements of A for one sum, if they are loaded once for all columns: columns of B are in one piece, and rows that are copied do not
// take more vectors than rows that are read where they are. 0: they are not.
static int64_t held_elements(const across *x) {
    const tiling *t = &x->t;
    int64_t all = 1, row = dim_is_const(t->e->extent[x->axis]) ? dim_value(t->e->extent[x->axis]) : 0;
    for (int j = t->k.n - 1; j >= 0; j--) {
        const dim *extent = t->e->extent[t->k.at[j]];
        const expr *step = t->b->coef[t->k.at[j]];
        if (!dim_is_const(extent)) return 0;
        if (dim_value(extent) > 1 && (step->op != X_CONST || step->i != all)) return 0;
        all *= dim_value(extent);
        if (all > HELD_VECTORS * x->width) return 0;
    }
    return t->e->t->size_level < 2 && row && vectors_of(x, all) <= all / row * vectors_of(x, row) ? all : 0;
}

static bool find_operands(across *x) {
    tiling *t = &x->t;
    emitter *e = t->e;
    const contraction *c = t->c;
    const state *st = &c->s->states.at[0];
    int axis = across_axis(e->t, c);
    bool zero_init = st->init->op == X_CONST && st->init->i == 0;
    if (axis < 0 || !zero_init || dtype_bits(c->w->to->dtype) < 8) return false;
    emitter_stage(e, c->s, -1, 1, false);
    t->a = entry_of(e, c->a)->read, t->b = entry_of(e, c->b)->read;
    t->write = access_make(e, c->w->to, c->w->index);
    if (!t->a->affine || !t->b->affine || !t->write->affine || !steps_by_one(t->write, c->n)) return false;
    t->group_axis = axis; // comes last
    choose_axes(t);
    t->tile_m = t->group_axis = -1;
    x->axis = t->k.at[t->k.n - 1];
    if (!steps_by_one(t->a, x->axis) || !steps_by_one(t->b, x->axis)) return false;
    x->held = x->fields > 1 ? 0 : held_elements(x);
    return true;
}

// ---------------------------------------------------------------- sums
// Elements at p; only the first `left` count (NULL: all).
static ins *load_bytes(across *x, ins *p, ins *at, ins *left) {
    lbuild *b = &x->t.e->b;
    ltype type = lt(LK_I8, x->width);
    return left ? lb_loadn(b, type, p, at, left) : lb_load(b, type, p, at, 1);
}

// In 32 bits.
static ins *widened(across *x, const expr *read, ins *bytes) {
    return lb_conv(&x->t.e->b, read->buffer->dtype == DT_I8 ? L_SEXT : L_ZEXT, LK_I32, bytes);
}

static ins *load_row(across *x, const expr *read, ins *at, ins *left) {
    return widened(x, read, load_bytes(x, pointer_of(x->t.e, read->buffer), at, left));
}

// Whether memory of B goes on past the last of its columns: elements there are multiplied by none of A.
static bool reads_past(const across *x) {
    const expr *read = x->t.c->b;
    int column = dim_of_axis(read->buffer, read->index, x->t.c->n, true);
    return read->buffer->role == BUF_CONST && read->buffer->layout && column >= 0 &&
           read->buffer->layout->pad_hi[column];
}

// Of a row of A, which is 0 past the end, with the elements of B at an index.
static void add_row_products(across *x, int columns, ins *row, ins *at, ins *left) {
    lbuild *b = &x->t.e->b;
    if (reads_past(x)) left = NULL;
    for (int j = 0; j < columns; j++) {
        ins *column = load_row(x, x->t.c->b, lb_add(b, at, idx_mulk(b, x->stride, j)), left);
        ins *products = lb_hreduce(b, L_HADD, lb_bin(b, L_MUL, row, column));
        lb_set(b, x->sum[j], lb_add(b, lb_get(b, x->sum[j]), products));
    }
}

static void add_products(across *x, int columns, ins *left) {
    emitter *e = x->t.e;
    ins *at = emit_index(e, x->t.b->offset);
    ins *row = load_row(x, x->t.c->a, emit_index(e, x->t.a->offset), left);
    add_row_products(x, columns, row, at, left);
}

static void add_at(across *x, int columns, ins *position, ins *left) {
    emitter *e = x->t.e;
    scope step = scope_open(e);
    e->counter[x->axis] = position;
    add_products(x, columns, left);
    scope_close(e, step);
    e->counter[x->axis] = NULL;
}

static void add_row(across *x, int columns) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    ins *extent = emit_dim(e, e->extent[x->axis]), *whole = emit_int_floor(b, extent, x->width);
    bool unrolls = whole->op == L_CONST && whole->i <= (e->t->size_level ? 1 : UNROLLED) * x->width;
    for (int64_t k = 0; unrolls && k < whole->i; k += x->width) add_at(x, columns, lb_idx(b, k), NULL);
    if (!unrolls) {
        scope loop = scope_axis(e, x->axis, lb_idx(b, 0), whole, x->width, LOOP_SERIAL);
        add_products(x, columns, NULL);
        scope_close(e, loop);
    }
    if (same_index(whole, extent)) return;
    ins *left = lb_sub(b, extent, whole);
    scope some = scope_if(e, left->op == L_CONST ? NULL : lb_cmp(b, L_SLT, lb_idx(b, 0), left));
    add_at(x, columns, whole, left);
    scope_close(e, some);
}

// ---------------------------------------------------------------- elements of less than a byte
static int bits_of_b(const across *x) { return dtype_bits(x->t.c->b->buffer->dtype); }

static bool in_high_bits(const across *x) {
    return dtype_is_signed(x->t.c->b->buffer->dtype) && x->t.c->a->buffer->dtype == DT_I8;
}

static bool has_offset(const across *x) {
    return x->fields > 1 && dtype_is_signed(x->t.c->b->buffer->dtype) && !in_high_bits(x);
}

static int64_t offset_of_b(const across *x) { return 1 << (bits_of_b(x) - 1); }

// The sign bits of all elements of a byte.
static int sign_bits(const across *x) {
    int all = 0;
    for (int i = 0; i < x->fields; i++) all |= (int)offset_of_b(x) << i * bits_of_b(x);
    return all;
}

// Element i of each byte: shifted to one end of it, where a shift does not remove the others.
static ins *field_of_bytes(across *x, ins *bytes, int i) {
    lbuild *b = &x->t.e->b;
    bool high = in_high_bits(x);
    int bits = bits_of_b(x), low = (1 << bits) - 1, shift = high ? 8 - bits * (i + 1) : bits * i;
    if (shift) bytes = lb_bin(b, high ? L_SHL : L_LSHR, bytes, lb_int(b, bytes->type, shift));
    if (i == (high ? 0 : x->fields - 1)) return bytes;
    return lb_bin(b, L_AND, bytes, lb_int(b, bytes->type, (int8_t)(high ? low << (8 - bits) : low)));
}

// Every element `fields` apart, from element i on: two registers are loaded alternately, more of them by positions.
static void load_strided(across *x, ins *at, ins **a) {
    enum { MOST_LANES = 16 };
    lbuild *b = &x->t.e->b;
    int mask[MOST_LANES];
    ltype type = lt(LK_I8, x->width);
    ins *from = lb_offset(b, pointer_of(x->t.e, x->t.c->a->buffer), at, 1), *pair = NULL;
    ins *places = lb_mul(b, lb_iota(b, type), lb_int(b, type, x->fields));
    if (x->fields == 2) pair = lb_load(b, lt(LK_I8, 2 * x->width), from, lb_idx(b, 0), 1);
    for (int i = 0; i < x->fields; i++) {
        for (int j = 0; j < x->width; j++) mask[j] = i + 2 * j;
        ins *v = pair ? lb_shuffle(b, pair, pair, mask, x->width)
                      : lb_gather(b, type, lb_offset(b, from, lb_idx(b, i), 1),
                                  lb_conv(b, L_ZEXT, lindex_kind(x->t.e->t), places));
        a[i] = widened(x, x->t.c->a, v);
    }
}

// A vector of bytes of each column, from that of number `byte` on. The first `before` of them have been added.
static void add_fields_at(across *x, int columns, ins *start_b, ins *byte, int64_t before) {
    enum { MOST_FIELDS = 4 };
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    scope step = scope_open(e);
    e->counter[x->axis] = idx_mulk(b, byte, x->fields);
    ins *a[MOST_FIELDS], *from = pointer_of(e, x->t.c->b->buffer), *at = lb_add(b, start_b, byte);
    load_strided(x, emit_index(e, x->t.a->offset), a);
    ltype type = lt(LK_I8, x->width);
    ins *fresh = before ? lb_cmp(b, L_SLT, lb_int(b, type, before - 1), lb_iota(b, type)) : NULL;
    for (int i = 0; i < x->fields && has_offset(x); i++) {
        ins *zero = lb_int(b, a[i]->type, 0), *sum = fresh ? lb_select(b, fresh, a[i], zero) : a[i];
        lb_set(b, x->total, lb_add(b, lb_get(b, x->total), lb_hreduce(b, L_HADD, sum)));
    }
    for (int j = 0; j < columns; j++) {
        ins *bytes = lb_load(b, type, from, lb_add(b, at, idx_mulk(b, x->stride, j)), 1);
        if (has_offset(x)) bytes = lb_bin(b, L_XOR, bytes, lb_int(b, type, (int8_t)sign_bits(x)));
        if (fresh) bytes = lb_select(b, fresh, bytes, lb_int(b, type, 0));
        for (int i = 0; i < x->fields; i++) {
            ins *element = widened(x, x->t.c->a, field_of_bytes(x, bytes, i));
            ins *products = lb_hreduce(b, L_HADD, lb_bin(b, L_MUL, a[i], element));
            lb_set(b, x->sum[j], lb_add(b, lb_get(b, x->sum[j]), products));
        }
    }
    scope_close(e, step);
    e->counter[x->axis] = NULL;
}

// The last vector overlaps the one before.
static void add_row_of_fields(across *x, int columns) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    int64_t bytes = dim_value(e->extent[x->axis]) / x->fields, whole = bytes / x->width * x->width;
    e->counter[x->axis] = lb_idx(b, 0);
    ins *start = emit_int_op(b, X_FLOORDIV, emit_index(e, x->t.b->offset), lb_idx(b, x->fields));
    e->counter[x->axis] = NULL;
    scope loop = scope_for(e, "byte", lb_idx(b, 0), lb_idx(b, whole), x->width, LOOP_SERIAL);
    add_fields_at(x, columns, start, loop.head, 0);
    scope_close(e, loop);
    if (bytes > whole)
        add_fields_at(x, columns, start, lb_idx(b, bytes - x->width), x->width - (bytes - whole));
}

static ins *sums_of_elements(across *x, ins *sums) {
    lbuild *b = &x->t.e->b;
    if (in_high_bits(x)) return lb_bin(b, L_ASHR, sums, lb_int(b, sums->type, 8 - bits_of_b(x)));
    if (!has_offset(x)) return sums;
    ins *total = lb_mul(b, lb_get(b, x->total), lb_int(b, lt(LK_I32, 1), offset_of_b(x)));
    return lb_sub(b, sums, lb_splat(b, total, COLUMNS));
}

static void k_loops(across *x, int columns, int depth) {
    tiling *t = &x->t;
    emit_hoist(t->e, t->a->offset);
    emit_hoist(t->e, t->b->offset);
    if (depth == t->k.n - 1) {
        if (x->fields > 1) add_row_of_fields(x, columns);
        else add_row(x, columns);
        return;
    }
    scope loop = scope_axis(t->e, t->k.at[depth], lb_idx(&t->e->b, 0),
                            emit_dim(t->e, t->e->extent[t->k.at[depth]]), 1, LOOP_SERIAL);
    k_loops(x, columns, depth + 1);
    scope_close(t->e, loop);
}

// ---------------------------------------------------------------- vectors that are held
// The elements of vector i that exist; NULL: all.
static ins *rest_of_held(across *x, int64_t i) {
    int64_t left = x->held - i * x->width;
    return left < x->width ? lb_idx(&x->t.e->b, left) : NULL;
}

// The innermost axes along which A is in one piece: the first of them, and their positions.
static int first_of_piece(const across *x, int64_t *positions) {
    const tiling *t = &x->t;
    int j = t->k.n - 1;
    for (*positions = dim_value(t->e->extent[x->axis]); j > 0; j--) {
        int axis = t->k.at[j - 1];
        if (!expr_is_int(t->a->coef[axis], *positions) && !dim_is(t->e->extent[axis], 1)) break;
        *positions *= dim_value(t->e->extent[axis]);
    }
    return j;
}

// A word, a half or a byte.
static int64_t scalar_bytes(int64_t n) { return n >= 4 ? 4 : n >= 2 ? 2 : 1; }

// Copies that are masked take about as long as three of them.
static bool copies_by_scalars(int64_t n) {
    enum { MOST_SCALARS = 2 };
    int scalars = 0;
    for (; n > 0; n -= scalar_bytes(n)) scalars++;
    return scalars <= MOST_SCALARS;
}

static void copy_bytes(across *x, ins *window, ins *to, ins *from, ins *at, int64_t n) {
    static const lkind of_bytes[] = {[1] = LK_I8, [2] = LK_I16, [4] = LK_I32};
    lbuild *b = &x->t.e->b;
    bool scalars = copies_by_scalars(n);
    if (n >= x->width) {
        lb_store(b, window, to, load_bytes(x, from, at, NULL), 1);
    } else if (scalars) {
        ltype type = lt(of_bytes[scalar_bytes(n)], 1);
        ins *p = lb_offset(b, from, at, 1), *q = lb_offset(b, window, to, 1), *zero = lb_idx(b, 0);
        lb_store(b, q, zero, lb_load(b, type, p, zero, 1), 1);
    } else {
        ins *left = lb_idx(b, n);
        lb_storen(b, window, to, load_bytes(x, from, at, left), left);
    }
    int64_t done = n >= x->width ? x->width : scalars ? scalar_bytes(n) : n;
    if (n > done) copy_bytes(x, window, idx_addk(b, to, done), from, idx_addk(b, at, done), n - done);
}

static void copy_pieces(across *x, ins *window, ins *at, int depth);

// To `window`, at the index `at` in units of the axes from `depth` on.
static void copy_piece(across *x, ins *window, ins *at, int depth, ins *position) {
    tiling *t = &x->t;
    scope one = scope_open(t->e);
    t->e->counter[t->k.at[depth]] = position;
    at = idx_mulk(&t->e->b, at, dim_value(t->e->extent[t->k.at[depth]]));
    copy_pieces(x, window, lb_add(&t->e->b, at, position), depth + 1);
    scope_close(t->e, one);
    t->e->counter[t->k.at[depth]] = NULL;
}

static void copy_pieces(across *x, ins *window, ins *at, int depth) {
    enum { UNROLLED_ROWS = 4 };
    tiling *t = &x->t;
    emitter *e = t->e;
    lbuild *b = &e->b;
    int64_t positions;
    if (depth < first_of_piece(x, &positions)) {
        int64_t extent = dim_value(e->extent[t->k.at[depth]]);
        bool unrolls = extent <= UNROLLED_ROWS && !e->t->size_level;
        for (int64_t i = 0; i < extent && unrolls; i++) copy_piece(x, window, at, depth, lb_idx(b, i));
        if (unrolls) return;
        scope loop = scope_axis(e, t->k.at[depth], lb_idx(b, 0), lb_idx(b, extent), 1, LOOP_SERIAL);
        copy_piece(x, window, at, depth, loop.head);
        scope_close(e, loop);
        return;
    }
    for (int j = depth; j < t->k.n; j++) e->counter[t->k.at[j]] = lb_idx(b, 0);
    copy_bytes(x, window, idx_mulk(b, at, positions), pointer_of(e, t->c->a->buffer),
               emit_index(e, t->a->offset), positions);
    for (int j = depth; j < t->k.n; j++) e->counter[t->k.at[j]] = NULL;
}

static void at_first_k(across *x) {
    for (int j = 0; j < x->t.k.n; j++) x->t.e->counter[x->t.k.at[j]] = lb_idx(&x->t.e->b, 0);
}

static void leave_k(across *x) {
    for (int j = 0; j < x->t.k.n; j++) x->t.e->counter[x->t.k.at[j]] = NULL;
}

static void hold_vectors(across *x) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    int64_t n = vectors_of(x, x->held);
    scope mark = scope_open(e);
    ins *from = pointer_of(e, x->t.c->a->buffer), *at = lb_idx(b, 0);
    if (x->held > dim_value(e->extent[x->axis])) {
        from = lb_local(b, LK_I8, n * x->width, x->width, false);
        copy_pieces(x, from, at, 0);
    } else {
        at_first_k(x);
        at = emit_index(e, x->t.a->offset);
        leave_k(x);
    }
    for (int64_t i = 0; i < n; i++)
        x->vector[i] = load_bytes(x, from, idx_addk(b, at, i * x->width), rest_of_held(x, i));
    scope_close(e, mark);
}

static void add_held(across *x, int columns) {
    emitter *e = x->t.e;
    scope mark = scope_open(e);
    at_first_k(x);
    ins *at = emit_index(e, x->t.b->offset);
    for (int64_t i = 0; i < vectors_of(x, x->held); i++)
        add_row_products(x, columns, widened(x, x->t.c->a, x->vector[i]), idx_addk(&e->b, at, i * x->width),
                         rest_of_held(x, i));
    scope_close(e, mark);
    leave_k(x);
}

// ---------------------------------------------------------------- columns
static void some_columns(across *x, ins *n0, int columns) {
    tiling *t = &x->t;
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *zero = lb_int(b, lt(LK_I32, 1), 0);
    scope mark = scope_open(e);
    e->counter[t->c->n] = n0;
    x->stride = emit_int_op(b, X_FLOORDIV, emit_index(e, t->b->coef[t->c->n]), lb_idx(b, x->fields));
    for (int j = 0; j < columns; j++) x->sum[j] = lb_var(b, "sum", zero);
    if (has_offset(x)) x->total = lb_var(b, "total", zero);
    if (x->held) add_held(x, columns);
    else k_loops(x, columns, 0);
    scope_close(e, mark);
    ins *sums = lb_splat(b, lb_get(b, x->sum[0]), COLUMNS);
    for (int j = 1; j < columns; j++) sums = lb_insert(b, sums, lb_get(b, x->sum[j]), j);
    if (x->fields > 1) sums = sums_of_elements(x, sums);
    ins *acc = lb_var(b, "acc", sums);
    tile whole = {.rows = 1, .vectors = 1, .m0 = lb_idx(b, 0), .n0 = n0};
    if (columns < COLUMNS) whole.last = lb_idx(b, columns);
    write_tile(t, &whole, &acc);
    e->counter[t->c->n] = NULL;
}

static void all_columns(across *x) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    int64_t n = dim_value(e->extent[x->t.c->n]), rest = n % COLUMNS;
    if (n > rest) {
        scope loop = scope_for(e, "n", lb_idx(b, 0), lb_idx(b, n - rest), COLUMNS, LOOP_PARALLEL);
        some_columns(x, loop.head, COLUMNS);
        scope_close(e, loop);
    }
    if (rest) some_columns(x, lb_idx(b, n - rest), (int)rest);
}

static void outer_loops(across *x, const axis_list *axes, int depth) {
    if (depth == axes->n) {
        if (x->held) hold_vectors(x);
        all_columns(x);
        return;
    }
    scope loop = scope_parallel(x->t.e, axes->at[depth]);
    outer_loops(x, axes, depth + 1);
    scope_close(x->t.e, loop);
}

bool schedule_across(emitter *e, const contraction *c) {
    emitter own = emitter_apart(e);
    bool small = word_elements(c), same = small || c->a->buffer->dtype == c->b->buffer->dtype;
    across x = {.t = {.e = &own, .c = c, .tile_m = -1, .lanes = COLUMNS, .vectors = 1},
                .width = target_lanes(e->t, same ? 8 : 16),
                .fields = small ? 8 / dtype_bits(c->b->buffer->dtype) : 1};
    if (!find_operands(&x)) return false;
    own.state = ARENA_ARRAY(own.scratch, ins *, 1);
    own.active = NULL;
    emitter_stage(&own, c->s, c->n, COLUMNS, true);
    axis_list outer = c->batch;
    for (int j = 0; j < c->other_n.n; j++) outer.at[outer.n++] = c->other_n.at[j];
    for (int j = 0; j < x.t.m.n; j++) outer.at[outer.n++] = x.t.m.at[j];
    outer_loops(&x, &outer, 0);
    *e = own;
    return true;
}
