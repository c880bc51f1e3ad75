// The loop order of a contraction and the sizes of its tiles, blocks and tasks, by a cost model: cycles of a
// step of K, caches, load balance.
#include "passes/schedule/cpu/contract_tiling.h"
#include "compiler/base/integers.h"
#include "ir/kernel/program.h"
#include "passes/schedule/cpu/schedule_groups.h"
#include <math.h>

// ---------------------------------------------------------------- axes
bool varies_beyond_read(expr *term, const expr *read, int axis) {
    if (term == read) return false;
    if (term->op == X_READ || term->op == X_AXIS) return expr_uses_axis(term, axis);
    for (int j = 0; j < expr_arity(term->op); j++)
        if (varies_beyond_read(term->arg[j], read, axis)) return true;
    return false;
}

// Removes axes of one position, such as the taps of a 1x1 convolution: they need no loops.
static axis_list several_positions(tiling *t, const axis_list *all) {
    axis_list r = {0};
    for (int j = 0; j < all->n; j++) {
        int a = all->at[j];
        if (dim_is(t->e->extent[a], 1) && (j < all->n - 1 || r.n)) t->e->counter[a] = lb_idx(&t->e->b, 0);
        else r.at[r.n++] = a;
    }
    return r;
}

// Whether stride x is longer than y: a runtime stride spans a whole row or image.
static bool is_longer_stride(const expr *x, const expr *y) {
    if (x->op != X_CONST || y->op != X_CONST) return x->op != X_CONST && y->op == X_CONST;
    return x->i > y->i;
}

// Integer sums are exact in any order.
static bool has_fixed_order(const target *t, const contraction *c) {
    return t->fp == FP_STRICT && c->s->states.at[0].dtype != DT_I32;
}

bool keeps_order(const target *t, const contraction *c) {
    return !has_fixed_order(t, c) || (!group_elements(c) && !can_unpack(c) && !t->scalar_floats);
}

// Loop interchange: reduce axes with the longest strides of A are outermost, so that the innermost one reads
// A and the panels sequentially. Strict sums keep their order.
static void order_k(tiling *t) {
    t->k = several_positions(t, &t->c->k_axes);
    if (has_fixed_order(t->e->t, t->c)) return;
    for (int i = 1; i < t->k.n; i++)
        for (int j = i; j > 0; j--) {
            const expr *x = t->a->coef[t->k.at[j - 1]], *y = t->a->coef[t->k.at[j]];
            if (t->k.at[j] == t->group_axis) break; // that one comes last
            if (t->k.at[j - 1] != t->group_axis && !is_longer_stride(y, x)) break;
            int swap = t->k.at[j];
            t->k.at[j] = t->k.at[j - 1], t->k.at[j - 1] = swap;
        }
}

static void join_axes(tiling *t) {
    entry_of(t->e, t->c->b)->read = t->b; // at the first column, where it is affine
    t->m.n = collapse_axes(t->e, &t->write, t->m.at, t->m.n);
    t->k.n = collapse_axes(t->e, &t->write, t->k.at, t->k.n);
}

static bool has_positions(const tiling *t, int axis, int64_t n) { return t->e->extent[axis]->min >= n; }

// Whether the axis counts the samples of the model: they come first in its inputs and outputs.
static bool counts_samples(const tiling *t, int axis) {
    const program *p = t->e->k->program;
    const dim *n = t->e->extent[axis];
    if (dim_is_const(n)) return false;
    for (int j = 0; j < p->buffers.n; j++) {
        const buffer *b = p->buffers.at[j];
        if ((b->role == BUF_INPUT || b->role == BUF_OUTPUT) && b->rank > 1 && b->dims[0] == n) return true;
    }
    return false;
}

// The last axis known to be long; of axes that all may be short, that along which rows of A are closest: batches
// are further apart than positions of a sequence. Where they are not, a batch of few sequences is more likely.
static int long_row_axis(const tiling *t) {
    enum { MANY = 8 };
    int best = t->m.n - 1;
    for (int j = best - 1; j >= 0; j--)
        if (has_positions(t, t->m.at[j], MANY)) return j;
    for (int j = best - 1; j >= 0; j--) {
        bool many = counts_samples(t, t->m.at[best]), more = counts_samples(t, t->m.at[j]);
        bool closer = is_longer_stride(t->a->coef[t->m.at[best]], t->a->coef[t->m.at[j]]);
        if (many != more ? many : closer) best = j;
    }
    return best;
}

// Rows of a tile are positions of one axis: the innermost, unless it is, or might be, short.
static void choose_row_axis(tiling *t) {
    enum { FEW = 4 };
    if (!t->m.n) return;
    int *last = &t->m.at[t->m.n - 1];
    if (!has_positions(t, *last, FEW)) {
        int j = long_row_axis(t), swap = t->m.at[j];
        t->m.at[j] = *last, *last = swap;
    }
    if (!varies_beyond_read(t->c->term_a, t->c->a, *last)) t->tile_m = *last;
}

// Whether a register has ROW_WORDS neighbours along K, and the processor multiplies by one of its lanes.
static bool takes_lanes(const tiling *t) {
    const contraction *c = t->c;
    int a = t->k.n ? t->k.at[t->k.n - 1] : -1;
    bool plain = c->term_a == c->a && !c->a->guard && c->a->buffer->dtype == DT_F32;
    return t->e->t->arch.dot_lanes && t->e->t->vector_bits && t->e->choices->steps != 1 &&
           t->group_axis < 0 && a >= 0 && plain && c->s->states.at[0].dtype == DT_F32 &&
           expr_is_int(t->a->coef[a], 1) && has_positions(t, a, 2 * ROW_WORDS);
}

void choose_axes(tiling *t) {
    t->m = t->c->m;
    order_k(t);
    join_axes(t);
    choose_row_axis(t);
    t->row_stride = t->tile_m < 0 ? x_i64(t->e->k, 0) : t->a->coef[t->tile_m];
    t->by_lanes = takes_lanes(t);
    t->lane = -1;
}

// ---------------------------------------------------------------- tiles
// Sums of words, which take two registers each: of one row, whose words may be converted for all columns at once.
enum { WORD_SUMS = 4 };

// General registers for sums and factors of a tile, beside those for addresses.
static int registers_for_halves(const target *t) {
    enum { ALL = 8, LOW = 5 }; // ARMv6-M calculates in eight registers only
    return t->tile_regs ? t->tile_regs : t->no_wide_product ? LOW : ALL;
}

// A vector of sums takes up to four registers, if its columns are in a panel. Groups are loaded by vectors of the target.
void choose_lanes(tiling *t) {
    enum { MOST_REGISTERS = 4 };
    const target *of = t->e->t;
    int bits = dtype_bits(t->c->s->states.at[0].dtype), wide = MOST_REGISTERS * of->register_bits;
    t->widens = t->group_axis < 0 && widens_bytes(of, t->c);
    t->lanes = target_lanes(of, bits);
    bool floats = t->c->s->states.at[0].dtype == DT_F32;
    t->registers = of->vector_bits               ? of->vector_regs
                   : floats                      ? of->float_regs
                   : multiplies_halves(of, t->c) ? registers_for_halves(of)
                   : multiplies_words(of, t->c)  ? WORD_SUMS
                                                 : of->tile_regs;
    if (!of->register_bits || !of->panel || t->group_axis >= 0) return;
    if (wide > t->panel * bits) wide = t->panel * bits;
    t->lanes = wide / bits;
    t->registers = of->vector_regs * of->vector_bits / wide;
}

static int64_t const_extent(const tiling *t, int axis) {
    const dim *d = axis < 0 ? NULL : t->e->extent[axis];
    return axis < 0 ? 1 : dim_is_const(d) ? dim_value(d) : INT64_MAX;
}

// Registers that a vector of sums takes.
static int registers_taken(const tiling *t) {
    int bits = t->lanes * dtype_bits(t->c->s->states.at[0].dtype), one = t->e->t->register_bits;
    return one && bits > one ? bits / one : 1;
}

// Rows of sums that fit beside vectors of B and the broadcast of A. Bytes of B are widened to 16 bits, one vector after
// the other. An engine that compiles the code again keeps about four more registers for products and loads.
static int rows_beside(const tiling *t, int vectors) {
    int taken = registers_taken(t), all = t->registers * taken - (t->e->t->arch.compiled_again ? 4 : 0);
    int of_b = t->widens ? vectors * (taken > 1 ? taken / 2 : 1) + 1 : vectors * taken;
    bool broadcast = !t->e->t->arch.scalar_operands || !t->e->t->vector_bits;
    return (all - of_b - broadcast) / (vectors * taken);
}

static int max_rows(const tiling *t, int vectors) {
    if (t->bytes) return (t->e->t->vector_regs - vectors - 3) / (2 * vectors);
    int rows = multiplies_words(t->e->t, t->c) ? 1
               : t->by_lanes                   ? (t->e->t->vector_regs - 2 - vectors) / (vectors + 1)
               : t->group_axis >= 0            ? grouped_rows(t->e->t, t->c, t->group, vectors)
                                               : rows_beside(t, vectors);
    int most = t->e->choices->rows ? t->e->choices->rows : t->e->t->compact ? COMPACT_ROWS : MAX_ROWS;
    return rows > most ? most : rows < 1 ? 1 : rows;
}

// The largest number of rows of A that share a set of the L1 cache, assuming 64 sets of 64 bytes.
static int rows_in_a_set(const tiling *t, int rows) {
    enum { SETS = 64, LINE = 64 };
    int used[SETS] = {0}, most = 1;
    if (t->row_stride->op != X_CONST) return 1;
    int64_t bytes = t->row_stride->i * dtype_bits(t->c->a->buffer->dtype) / 8;
    for (int r = 0; r < rows; r++) {
        int n = ++used[(uint64_t)bytes * (uint64_t)r / LINE % SETS];
        if (n > most) most = n;
    }
    return most;
}

// Cycles of a step of k where vector instructions take scalar operands. They take time for each register, as do loads of
// B, and all instructions take issue slots: two for an element of A and its address, three for a vector of B.
static double issue_cost(const tiling *t, double rows, int vectors) {
    if (!t->e->t->vector_bits) return 2 * rows * vectors + 1.3 * rows + vectors + 1;
    double work = (rows + 1) * vectors * registers_taken(t) / 2;
    return work + (rows * vectors + 2 * rows + 3 * vectors) / 2;
}

// Cycles of a step of k: throughput of two multiply-adds or almost two loads per cycle, a latency of four to
// hide, two per line from the L2 cache, three instructions for a vector of packed elements, and a penalty for rows of A that conflict in the L1 cache.
static double step_cost(const tiling *t, double rows, int vectors) {
    enum { LINE = 64, UNPACK = 3 };
    bool half = dtype_bits(t->c->b->buffer->dtype) == 16 && t->group_axis < 0;
    bool wide = t->unpacks || (half && t->wide);
    double unpacked = wide ? 0 : t->words ? UNPACK * vectors / 2.0 : half ? vectors : 0;
    if (t->e->t->arch.scalar_operands || t->widens || multiplies_halves(t->e->t, t->c))
        return issue_cost(t, rows, vectors) + unpacked;
    double work = rows * vectors / 2 + unpacked, loads = 0.6 * (rows + vectors),
           hidden = work > loads ? work : loads;
    double bytes = wide ? 4 : dtype_bits(t->c->b->buffer->dtype) / 8.0,
           lines = bytes / LINE * (vectors * t->lanes + rows);
    if (hidden < 2 * lines) hidden = 2 * lines;
    int crowd = rows_in_a_set(t, (int)ceil(rows));
    double clash = crowd > 6 ? 0.5 * (crowd - 6) : 0;
    return (hidden > 4 ? hidden : 4) + 0.1 * (vectors + rows) + clash;
}

// Of an open number of rows, the fewest that take hardly more time each: all take as much code again.
static int rows_of_open_size(const tiling *t, int vectors) {
    enum { LEAST = 6, LEAST_SUMS = 10 }; // hide the latency of multiply-adds
    const double slower = 1.03;
    int most = max_rows(t, vectors);
    double least = INFINITY;
    for (int n = 1; n <= most; n++) least = fmin(least, step_cost(t, n, vectors) / n);
    for (int n = LEAST; n < most; n += 2)
        if (n * vectors >= LEAST_SUMS && step_cost(t, n, vectors) / n <= least * slower) return n;
    return most;
}

// Cycles of all rows in tiles of nearly one height. A tile begins and ends its loop over K.
static double tiles_cost(const tiling *t, int vectors, int64_t m, int64_t tiles) {
    enum { TURN = 30, LONG = 1 << 20 };
    int64_t k = positions(t->e->k, &t->c->k_axes);
    double steps = k < LONG ? (double)k : LONG;
    return (double)tiles * (steps * step_cost(t, (double)m / (double)tiles, vectors) + TURN);
}

// Rows of a constant number in as few tiles as there can be; in tiles of one height if that takes hardly more time, since
// tiles of another one are as much code again. Ten sums just hide the latency of multiply-adds: 3 % slower than twelve.
static int balanced_rows(const tiling *t, int vectors, int64_t m, int64_t rows) {
    enum { LEAST_SUMS = 12 };
    const double slower = 1.01;
    int64_t tiles = (m + rows - 1) / rows, high = (m + tiles - 1) / tiles;
    double least = tiles_cost(t, vectors, m, tiles);
    for (int64_t even = high; even * vectors >= LEAST_SUMS; even--)
        if (m % even == 0 && tiles_cost(t, vectors, m, m / even) <= least * slower) return (int)even;
    return (int)high;
}

// Rows of the tiles with this number of vectors, balanced: no tiny last tile. Tiles of f32 of scalars and on
// microcontrollers are all of one size where that is possible: a last one would take as much code, and keep loops from
// being exchanged.
int tile_rows(const tiling *t, int vectors) {
    int64_t m = const_extent(t, t->tile_m), rows = max_rows(t, vectors);
    if (m == INT64_MAX || m == 0) return rows_of_open_size(t, vectors);
    bool small = (t->lanes == 1 || is_microcontroller(t->e->t)) && t->c->s->states.at[0].dtype == DT_F32;
    for (int64_t even = rows; small && 2 * even > rows; even--)
        if (m % even == 0) return (int)even;
    return balanced_rows(t, vectors, m, rows);
}

// The cost of all rows times `vectors` vectors of columns; per row if their number is unknown.
static double columns_cost(const tiling *t, int vectors) {
    int64_t m = const_extent(t, t->tile_m);
    int rows = tile_rows(t, vectors);
    if (m == INT64_MAX || m == 0) return step_cost(t, rows, vectors) / rows;
    double tiles = (double)((m + rows - 1) / rows);
    return tiles * step_cost(t, (double)m / tiles, vectors);
}

// Whether wide tiles have all rows, but not the only one, whose products sum parts of K side by side: sums of few rows and two
// vectors would wait for each other.
static bool has_few_rows(const tiling *t) {
    int64_t m = const_extent(t, t->tile_m);
    return t->e->t->vector_bits && m > 1 && m <= max_rows(t, MAX_VECTORS);
}

static int most_vectors(const tiling *t) {
    bool scalars = t->lanes == 1 && t->group_axis < 0;
    if (multiplies_words(t->e->t, t->c)) return WORD_SUMS;
    if (t->registers >= 32 || scalars) return MAX_VECTORS;
    return has_few_rows(t) ? MAX_VECTORS : 2;
}
static bool allows_width(const tiling *t, int vectors) {
    int64_t width = (int64_t)vectors * t->lanes;
    int64_t most = (int64_t)MAX_VECTORS * target_lanes(t->e->t, dtype_bits(t->c->s->states.at[0].dtype));
    if (t->e->task_columns && t->e->task_columns[t->c->n] && t->e->task_piece % width) return false;
    if (vectors > most_vectors(t) || (vectors > 1 && const_extent(t, t->c->n) <= width - t->lanes))
        return false;
    if (vectors % 2 && t->group == 2 && interleaves(t->c->b->buffer->layout) && const_extent(t, t->c->n) > 1)
        return false;               // tiles begin with the first of two columns
    if (width > most) return false; // as memory for sums and widened columns is
    return width > t->panel ? width % t->panel == 0 : t->panel % width == 0; // whole panels, or a part of one
}

// Chooses the width with the least cost for all columns: full tiles and the tail.
static void choose_vectors(tiling *t) {
    int64_t n = const_extent(t, t->c->n);
    double best = INFINITY;
    t->vectors = t->e->choices->vectors;
    if (t->vectors && allows_width(t, t->vectors)) return;
    for (int v = most_vectors(t); v >= 1; v--) {
        int64_t width = (int64_t)v * t->lanes, blocks = n / width,
                rest = (n % width + t->lanes - 1) / t->lanes;
        if (!allows_width(t, v)) continue;
        double cost = columns_cost(t, v) / v;
        if (n != INT64_MAX)
            cost = (double)blocks * columns_cost(t, v) + (rest ? columns_cost(t, (int)rest) : 0);
        if (cost >= best) continue;
        best = cost;
        t->vectors = v;
    }
}

// Of an open number of rows, which may be small, a task has as few as pay.
void choose_tile(tiling *t) {
    choose_vectors(t);
    if (t->tile_m >= 0 && !dim_is_const(t->e->extent[t->tile_m])) t->row_piece = 2 * tile_rows(t, t->vectors);
}

known_tiles tiles_of(const tiling *t, int64_t m) {
    int64_t tiles = (m + t->rows - 1) / t->rows, rows = tiles > 0 ? (m + tiles - 1) / tiles : 0;
    return (known_tiles){tiles, m - tiles * (rows - 1), (int)rows};
}

// Batches may have few rows, and so may sequences of a batch; images, whose sizes are computed from others, hardly ever do.
bool may_be_few(const tiling *t) {
    enum { BATCH_AND_SEQUENCE = 2 };
    if (t->m.n > 1 || t->flat.n > BATCH_AND_SEQUENCE) return false;
    if (!t->flat.n) return t->c->k->axes.at[t->tile_m].extent->kind == DIM_SYMBOL;
    for (int j = 0; j < t->flat.n; j++)
        if (t->flat.extent[j]->kind != DIM_SYMBOL) return false;
    return true;
}

bool rows_are_pixels(const tiling *t) {
    const dim *m = t->e->extent[t->tile_m];
    for (int j = 0; m->kind == DIM_POLY && j < m->nterms; j++) {
        int computed = 0;
        for (int i = 0; i < m->terms[j].natoms; i++) {
            dim_kind kind = m->terms[j].atoms[i]->kind;
            computed += kind != DIM_SYMBOL && kind != DIM_OPAQUE;
        }
        if (computed > 1) return true;
    }
    return false;
}

int fewer_rows(const tiling *t, int rows) { return rows > 3 && may_be_few(t) ? rows / 2 : 1; }

bool can_repeat_rows(const tiling *t) { return t->group_axis < 0 && !t->rounded_rows; }

bool may_repeat_rows(const tiling *t) { return may_be_few(t) && can_repeat_rows(t); }

bool has_one_height(const tiling *t) { return t->e->t->compact && can_repeat_rows(t); }

bool unrolls_k(const tiling *t) {
    return t->e->choices->steps != 1 && !t->e->t->compact && !t->e->t->arch.compiled_again;
}

// The cost of m rows in tiles of `low` rows, or of lower ones where they are fewer.
static double low_cost(const tiling *t, int vectors, int low, int64_t m) {
    bool repeats = may_repeat_rows(t);
    for (; low > 1 && m < (repeats ? fewer_rows(t, low) + 1 : low); low = fewer_rows(t, low)) {
    }
    return (double)((m + low - 1) / low) * step_cost(t, low, vectors);
}

// The cost of `whole` tiles of t->rows, and of the other rows, whose last tile may begin within the whole ones.
static double cost_with(const tiling *t, int vectors, int low, int64_t m, int64_t whole) {
    int64_t rest = m - whole * t->rows;
    double cost = (double)whole * step_cost(t, t->rows, vectors);
    if (!rest) return cost;
    return cost + (m < low ? low_cost(t, vectors, low, m)
                           : (double)((rest + low - 1) / low) * step_cost(t, low, vectors));
}

// That with so high tiles is the sum of the costs of different numbers of rows, each as a multiple of one row's.
low_tiles low_tiles_of(const tiling *t, int vectors) {
    enum { WHOLE = 3 };
    low_tiles best = {.rows = 1};
    double least = INFINITY;
    for (int low = 1; low < t->rows; low++) {
        low_tiles l = {.rows = low};
        double sum = 0, one = may_repeat_rows(t) ? step_cost(t, t->rows, vectors) : INFINITY;
        for (int64_t m = 1; m < WHOLE * t->rows; m++) {
            int64_t whole = m / t->rows, left = m % t->rows;
            double cost = cost_with(t, vectors, low, m, whole);
            double other = whole ? cost_with(t, vectors, low, m, whole - 1) : INFINITY;
            if (whole == WHOLE - 1 && other < cost) l.sooner |= (int64_t)1 << left;
            if (!whole && one < cost) l.alone |= (int64_t)1 << left, cost = one;
            sum += (other < cost ? other : cost) / (double)m;
        }
        if (sum < least) least = sum, best = l;
    }
    return best;
}

// Sums of integers, if few rows are computed twice: tiles of another height would be as much code again. Not where the
// epilogue reads its row, whose memory the result may have.
bool last_tile_overlaps(const tiling *t, const known_tiles *k, int64_t m) {
    enum { MOST = 32 };
    int64_t twice = k->tiles * k->rows - m;
    return (t->group > 1 || t->widens) && twice > 0 && twice * MOST <= m &&
           !epilogue_reads_rows(t->e->scratch, t->c);
}

// ---------------------------------------------------------------- blocks
// Bytes of B's panel that stay cached while rows pass, and of A's block that stays in the L2 cache. Cores
// with 512-bit vectors read L2 at the rate of their tiles; others need L1.
static int64_t near_bytes(const target *t) { return t->register_bits >= 512 ? L2_BYTES / 4 : L1_BYTES / 2; }
static int64_t second_bytes(const target *t) {
    return (t->register_bits >= 512 ? L2_BYTES : L2_LEAST_BYTES) / 2;
}

// Bytes of B's columns that stay in the L3 cache while blocks of rows pass; of a copy of columns in a block of K.
enum { WIDE_CHUNK_BYTES = 2 << 20, COPY_BYTES = L2_BYTES / 2 };

// Rows of a matrix that are read together. With at most FEW_ROWS of sums, each of them is used little.
enum { STREAMED_ROWS = 8, FEW_ROWS = 4 };

int64_t positions(const kernel *k, const axis_list *l) {
    int64_t n = 1;
    for (int j = 0; j < l->n; j++) {
        const dim *d = k->axes.at[l->at[j]].extent;
        if (!dim_is_const(d) || dim_value(d) > INT32_MAX) return INT64_MAX;
        n *= dim_value(d);
        if (n > INT32_MAX) return INT64_MAX;
    }
    return n;
}

typedef struct block_limits {
    int64_t depth, rows, columns; // at most
    bool splits;                  // K is blocked too
    int64_t whole;                // rows that need no blocks, if their number is open
} block_limits;

static int64_t const_bytes(const buffer *b) {
    const dim *bytes = buffer_bytes(b);
    return dim_is_const(bytes) ? dim_value(bytes) : INT64_MAX;
}

// Rows of A in a block. If all of B stays in the L2 cache, as many as fit L1, so that the result and the
// operands of the epilogue are accessed sequentially. Otherwise as many as fit L2, or half of it beside
// panels of whole columns, also if each block would widen all of B. Rows of a convolution overlap.
static int64_t near_rows(const target *t, const contraction *c, block_limits *l, int64_t size, int64_t m) {
    const dim *n = c->n < 0 ? NULL : c->k->axes.at[c->n].extent;
    int64_t all = const_bytes(c->a->buffer), row = l->depth * size, most = second_bytes(t);
    bool small = !l->splits && n && dim_is_const(n) && dim_value(n) <= most / 2 / row && !widens(t, c);
    if (!small && all <= most && m != INT64_MAX) return m;
    if (all != INT64_MAX && m != INT64_MAX && all / m < row) row = all / m + 1;
    if (!l->splits && !small) l->whole = most / row;
    if (!l->splits) most = small ? L1_BYTES / 2 : most / 2;
    int64_t rows = most / row;
    if (small && rows < 2 * MAX_ROWS) rows = 2 * MAX_ROWS;
    return m < rows ? m : rows;
}

// Whether the rows of results are pages apart, and sums so short that writing them takes much of the time. A block of few rows
// writes each of them on and on, along as many columns of B as stay cached. Columns that each block would widen are not cached.
static bool streams_result(const target *t, const contraction *c, int64_t size, int64_t m, block_limits *l) {
    enum { FEW_PRODUCTS = 128, PAGE = 4096 };
    const dim *n = c->n < 0 ? NULL : c->k->axes.at[c->n].extent;
    bool apart = n && m != INT64_MAX && (!dim_is_const(n) || dim_value(n) * size >= PAGE);
    if (l->splits || l->depth > FEW_PRODUCTS || !apart || widens(t, c)) return false;
    l->rows = 2 * MAX_ROWS, l->columns = second_bytes(t) / 2 / (l->depth * size);
    return true;
}

bool is_microcontroller(const target *t) { return t->freestanding && t->ptr_bits == 32; }

// Whether few rows read, in place, matrices that exceed L1. A tile reads a few cache lines of each of their rows,
// which may be pages apart; with K in short blocks, a few rows are read in order. With many registers, several rows of sums
// make up for it unless L2 holds the matrices neither.
static bool streams_matrix(const target *t, const contraction *c, int64_t width, int64_t k, int64_t m) {
    const dim *n = c->n < 0 ? NULL : c->k->axes.at[c->n].extent;
    if (m < 1 || m > FEW_ROWS || c->k_axes.n != 1 || !n || is_packed_operand(c->b, c->n) ||
        k <= STREAMED_ROWS)
        return false;
    int64_t near = m > 1 && t->register_bits >= 512 ? L2_BYTES : 2 * L1_BYTES;
    return !dim_is_const(n) || (dim_value(n) > width && const_bytes(c->b->buffer) > near);
}

// False: no cache blocking.
static bool limits_of(const target *t, const contraction *c, block_limits *l) {
    dtype type = c->s->states.at[0].dtype;
    if ((type != DT_F32 && type != DT_F64) || t->vector_bits < 128 || is_microcontroller(t)) return false;
    if (group_elements(c) && !widens_pairs(t, c) && !unpacks_for_rows(t, c)) return false;
    int64_t size = dtype_bits(type) / 8, lanes = target_lanes(t, dtype_bits(type)),
            width = lanes * (t->vector_regs >= 32 ? MAX_VECTORS : 2), k = positions(c->k, &c->k_axes),
            m = positions(c->k, &c->m);
    const choices *choice = choices_of(t, c->k);
    const dim *n = c->n < 0 ? NULL : c->k->axes.at[c->n].extent;
    *l = (block_limits){.depth = choice->depth ? choice->depth : near_bytes(t) / (width * size)};
    if (choice->blocks == NO || k == 0) return false;
    if (streams_matrix(t, c, width, k, m)) {
        *l = (block_limits){STREAMED_ROWS, m, L1_BYTES / 2 / (m * size), true};
        return true;
    }
    if (copies_columns(t, c)) {
        int64_t depth = COPY_BYTES / (CHUNK * size);
        *l = (block_limits){l->depth < depth ? l->depth : depth, m, CHUNK, true};
        return true;
    }
    if (m <= 2 * MAX_ROWS) return false;
    l->splits = choice->blocks == YES ? k > l->depth : k >= l->depth * 3 / 2;
    if (!l->splits) l->depth = k;
    if (streams_result(t, c, size, m, l)) return true;
    l->rows = near_rows(t, c, l, size, m);
    l->columns = l->splits ? CHUNK : WIDE_CHUNK_BYTES / (l->depth * size);
    return l->splits ||
           (l->rows < m && l->rows >= 2 * MAX_ROWS && n && !(dim_is_const(n) && dim_value(n) <= width));
}

int64_t contraction_scratch(const target *t, const contraction *c) {
    block_limits l;
    if (!limits_of(t, c, &l) || !l.splits) return 0;
    int64_t bits = dtype_bits(c->s->states.at[0].dtype), columns = l.columns;
    const dim *n = c->n < 0 ? NULL : c->k->axes.at[c->n].extent;
    if (n && dim_is_const(n)) {
        int64_t all =
            dim_value(n) + (int64_t)MAX_VECTORS * target_lanes(t, (int)bits); // the last tile may be wider
        columns = all < columns ? all : columns;
    }
    return l.rows * columns * bits / 8;
}

int64_t block_depth(const target *t, const contraction *c) {
    block_limits l;
    return limits_of(t, c, &l) ? l.depth : positions(c->k, &c->k_axes);
}

// From the innermost axis outwards: how many axes fit completely, and the step of the next one, balanced and
// a multiple of `unit`.
static int fit_axes(const tiling *t, const axis_list *l, int64_t most, int64_t unit, int64_t *step,
                    int64_t *inner) {
    int at = l->n - 1;
    *inner = 1;
    while (at > 0 && *inner && const_extent(t, l->at[at]) <= most / *inner)
        *inner *= const_extent(t, l->at[at--]);
    if (!*inner) { // an axis has no elements: no blocks
        *step = 0;
        return at;
    }
    int64_t n = const_extent(t, l->at[at]), fits = most / *inner;
    if (*inner > 1) unit = 1;
    if (n <= fits) {
        *step = n;
        return at;
    }
    if (n != INT64_MAX) {
        int64_t blocks = (n + fits - 1) / fits;
        int64_t even = (n + blocks - 1) / blocks, up = round_up(even, unit);
        fits = up <= fits ? up : even;
    } else if (fits > unit) fits -= fits % unit; // the tiles of each block but the last are whole
    *step = fits;
    return at;
}

void choose_blocks(tiling *t) {
    block_limits l;
    block_plan *p = &t->block;
    int64_t k_inner, width = (int64_t)t->vectors * t->lanes;
    if (t->group_axis >= 0 || (t->tile_m < 0 && t->m.n > 0) || !limits_of(t->e->t, t->c, &l)) return;
    if (l.splits && !t->partial) return;
    int unit = t->unpacks && t->group > 1 ? t->group : t->pairs || t->rounded_rows ? 2 : 1;
    p->m_step = p->m_inner = 1;
    if (t->m.n) p->m_at = fit_axes(t, &t->m, l.rows, tile_rows(t, t->vectors), &p->m_step, &p->m_inner);
    p->k_at = fit_axes(t, &t->k, l.depth, unit, &p->k_step, &k_inner);
    p->nested = l.splits && p->m_at > 0 && p->m_at == t->m.n - 1 && t->m.at[p->m_at] == t->tile_m &&
                const_extent(t, t->tile_m) == INT64_MAX;
    p->splits = l.splits;
    p->whole = l.whole;
    p->columns = l.columns > width ? l.columns / width * width : width;
    p->on = p->m_step > 0 && p->k_step > 0;
    if (t->unpacks && p->splits && p->k_at == t->k.n - 1 && p->k_step % unit) *p = (block_plan){0};
}

// ---------------------------------------------------------------- prefetching
// The number of tiles of M per tile of columns (in a block), counted along the diagonal of the axes.
static int64_t tiles_in_turn(const tiling *t) {
    int64_t n = 0, rows = t->rows;
    for (int j = t->block.on ? t->block.m_at : 0; j < t->m.n; j++) {
        int64_t extent = const_extent(t, t->m.at[j]);
        if (t->block.on && j == t->block.m_at && t->block.m_step < extent) extent = t->block.m_step;
        if (extent == INT64_MAX) return INT64_MAX;
        n += t->m.at[j] == t->tile_m ? (extent + rows - 1) / rows : extent - 1;
    }
    return n;
}

void choose_prefetch(tiling *t, int vectors) {
    enum { MOST_PARTS = 4 };
    dtype type = t->c->b->buffer->dtype;
    int64_t tiles = tiles_in_turn(t), width = (int64_t)vectors * t->lanes,
            k = positions(t->e->k, &t->c->k_axes), n = const_extent(t, t->c->n);
    int panels = (int)((width + t->panel - 1) / t->panel);
    t->prefetch_panels = t->prefetch_parts = 0;
    if (!t->packed || t->tile_m < 0 || !width || width % t->panel || tiles < 2 || n <= width) return;
    if (t->e->choices->ahead == NO || t->words || t->e->t->compact) return;
    bool small = k != INT64_MAX && n != INT64_MAX && k * n * dtype_bits(type) / 8 <= second_bytes(t->e->t);
    if (small && t->e->choices->ahead != YES) return;
    const expr *step = t->b->coef[t->k.at[t->k.n - 1]];
    if (step->op != X_CONST || step->i != t->panel) return;
    t->prefetch_panels = panels, t->prefetch_parts = 1;
    while (t->prefetch_parts < MOST_PARTS && 2 * t->prefetch_parts * panels <= tiles) t->prefetch_parts *= 2;
}

// ---------------------------------------------------------------- tasks
static bool has_several(const emitter *e, int axis, int64_t enough) {
    return !dim_is_const(e->extent[axis]) || dim_value(e->extent[axis]) >= enough;
}

// The row axis whose positions or chunks are tasks: one outside of the tile, else the tiled one; -1: none.
static int row_tasks(tiling *t, dim **tasks) {
    emitter *e = t->e;
    for (int j = 0; j < t->m.n; j++) {
        int a = t->m.at[j];
        if (a == t->tile_m || !has_several(e, a, 4)) continue;
        *tasks = e->extent[a];
        return a;
    }
    if (t->tile_m < 0) return -1;
    dim *rows = e->extent[t->tile_m];
    *tasks = dim_ceildiv(rows, dim_const(rows->table, t->row_piece));
    return t->tile_m;
}

// Column tasks read all of A but only their own columns of B, which saves most traffic if B is larger; with
// few rows there is no alternative.
static bool prefers_columns(const tiling *t, const dim *columns, const dim *rows) {
    enum { ENOUGH = 8 };
    const dim *n = t->e->extent[t->c->n];
    int64_t m = positions(t->e->k, &t->c->m);
    if (!rows || rows->max < 2 || t->e->choices->tasks == TASKS_COLUMNS) return true;
    if (t->e->choices->tasks == TASKS_ROWS) return false;
    if (!dim_is_const(n)) return false;
    if (m == INT64_MAX) return dim_value(columns) >= ENOUGH;
    if (dim_value(columns) < ENOUGH) return dim_value(columns) > dim_value(rows);
    return dim_value(n) > m || dim_value(rows) < ENOUGH;
}

int64_t columns_of_task(const tiling *t) {
    return t->column_piece ? t->column_piece : (int64_t)t->vectors * t->lanes;
}

// The next axis of M of several positions, which the loops have within `axis`: one outside of the tile, else the tiled
// one, unless the blocks' loops find its range before the position of `axis`; -1: none.
static int row_axis_within(const tiling *t, int axis) {
    bool outside = false, tiled = false;
    for (int j = 0; j < t->m.n; j++) {
        int a = t->m.at[j];
        if (outside && a != t->tile_m && has_several(t->e, a, 2)) return a;
        if (outside && a == t->tile_m) tiled = !t->block.nested && has_several(t->e, a, 2 * t->row_piece);
        outside |= a == axis;
    }
    return tiled ? t->tile_m : -1;
}

static void tasks_of_rows(tiling *t, int axis, dim *tasks) {
    emitter *e = t->e;
    bool pairs = t->pairs_tasks && axis != t->tile_m && may_be_single(e->extent[axis]);
    int inner = pairs ? row_axis_within(t, axis) : -1;
    dim *pieces = inner >= 0 ? e->extent[inner] : NULL;
    if (pieces && inner == t->tile_m) pieces = dim_ceildiv(pieces, dim_const(pieces->table, t->row_piece));
    if (pieces) emitter_task_pairs(e, axis, inner, pieces);
    else emitter_tasks(e, axis, tasks);
}

// Whether the tasks are positions of axes outside of the matrices; *single: one of them that may have one position only.
static bool outer_tasks(tiling *t, const axis_list *outer, int *single) {
    emitter *e = t->e;
    int j = 0;
    while (j < outer->n && !has_several(e, outer->at[j], 4)) j++;
    if (j == outer->n) return false;
    int first = outer->at[j];
    *single = t->pairs_tasks && may_be_single(e->extent[first]) ? first : -1;
    if (*single < 0) emitter_tasks(e, first, e->extent[first]);
    while (*single >= 0 && ++j < outer->n)
        if (has_several(e, outer->at[j], 2)) {
            emitter_task_pairs(e, first, outer->at[j], e->extent[outer->at[j]]);
            return true;
        }
    return *single < 0;
}

// Whether pieces of rows and columns together are tasks: if either of them are too few to keep many threads busy.
static bool choose_grid(tiling *t, const dim *columns, int axis, const dim *rows) {
    enum { ENOUGH = 32, FEW_ROWS = 16, FEW_THREADS = 2 };
    emitter *e = t->e;
    bool plain = t->pairs_tasks && !t->widens && !t->unpacks && !t->words && !t->block.nested;
    if (!plain || axis < 0 || e->t->size_level || e->t->threads <= FEW_THREADS || e->choices->tasks ||
        !dim_is_const(columns) || positions(e->k, &t->c->m) == INT64_MAX ||
        positions(e->k, &t->c->m) < FEW_ROWS)
        return false;
    int64_t wide = dim_value(columns), high = dim_value(rows), most = wide > high ? wide : high;
    if (most >= ENOUGH || wide < 2) return false;
    int64_t piece = t->row_piece;
    if (axis == t->tile_m) {
        int64_t height = tile_rows(t, t->vectors), m = dim_value(e->extent[axis]),
                tiles = (m + height - 1) / height, goal = (ENOUGH + wide - 1) / wide;
        piece = (tiles + goal - 1) / goal * height, high = (m + piece - 1) / piece;
    }
    if (high < 2) return false;
    t->row_piece = (int)piece;
    t->grid = true;
    emitter_task_grid(e, t->c->n, axis, dim_const(columns->table, wide), dim_const(columns->table, high));
    return true;
}

void choose_tasks(tiling *t, const axis_list *outer) {
    emitter *e = t->e;
    int single = -1;
    if (!e->task_begin || e->task_axis >= 0)
        return; // in a kernel of several stages, which has its tasks already
    if (outer_tasks(t, outer, &single)) return;
    dim *n = e->extent[t->c->n], *columns = dim_ceildiv(n, dim_const(n->table, columns_of_task(t))),
        *rows = NULL;
    int axis = row_tasks(t, &rows);
    bool by_columns = prefers_columns(t, columns, rows);
    if (!by_columns && axis < 0) return;
    if (single < 0 && choose_grid(t, columns, axis, rows)) return;
    if (single >= 0) emitter_task_pairs(e, single, by_columns ? t->c->n : axis, by_columns ? columns : rows);
    else if (by_columns) emitter_tasks(e, t->c->n, columns);
    else tasks_of_rows(t, axis, rows);
}
