// Operators that move elements to positions known from shapes: Transpose, Concat, Tile, DepthToSpace,
// SpaceToDepth, ReverseSequence, Trilu. Each is an index map: out[i] = in[map(i)].
#include "ir/ops/runtime_args.h"
#include <string.h>

// ---------------------------------------------------------------- Transpose
typedef struct permutation {
    int rank, perm[MAX_RANK];
    int64_t sizes[MAX_RANK]; // of the input
} permutation;

static permutation permutation_of(const node *n) {
    int given;
    const int64_t *perm = node_ints(n, "perm", &given);
    permutation p = {.rank = infer_rank(n, 0)};
    bool seen[MAX_RANK] = {false};
    if (perm && given != p.rank)
        infer_error(n, "attribute 'perm' has %d axes for an input of rank %d", given, p.rank);
    for (int j = 0; j < p.rank; j++) {
        if (perm && (perm[j] < 0 || perm[j] >= p.rank))
            infer_error(n, "attribute 'perm' holds %lld, which is outside [0, %d]", (long long)perm[j],
                        p.rank - 1);
        p.perm[j] = perm ? (int)perm[j] : p.rank - 1 - j;
        if (seen[p.perm[j]]) infer_error(n, "attribute 'perm' contains axis %d twice", p.perm[j]);
        seen[p.perm[j]] = true;
    }
    return p;
}

static int64_t transpose_position(const void *user, const int64_t *at) {
    const permutation *p = user;
    int64_t in[MAX_RANK];
    for (int j = 0; j < p->rank; j++) in[p->perm[j]] = at[j];
    return flat_position(in, p->sizes, p->rank);
}

static void transpose_infer(node *n) {
    const type *in = infer_in(n, 0);
    permutation p = permutation_of(n);
    dim *out[MAX_RANK];
    for (int j = 0; j < p.rank; j++) out[j] = in->dims[p.perm[j]];
    infer_set(n, 0, in->elem, p.rank, out);
    int64_t count;
    if (infer_static(in, CONTENTS_MAX, p.sizes, &count)) infer_move_contents(n, transpose_position, &p);
}

static void transpose_lower(lowering *l, node *n) {
    permutation p = permutation_of(n);
    buffer *in = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[MAX_RANK], *from[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    for (int j = 0; j < p.rank; j++) from[p.perm[j]] = index[j];
    stage_write(k, s, out, index, x_read(k, in, from));
}

OPERATOR(Transpose, .infer = transpose_infer, .lower = transpose_lower, .permutes = true);

// ---------------------------------------------------------------- Concat
static void concat_upgrade_4(node *n) {
    if (!node_attr(n, "axis")) upgrade_set_int(n, "axis", 1);
}

// The symbolic value of input i for interleaving, which requires constant sizes.
static bool concat_part(node *n, int i, int axis, dim ***contents, int64_t *block) {
    const type *t = infer_in(n, i);
    int64_t sizes[MAX_RANK], elements;
    int count;
    if (!infer_static(t, CONTENTS_MAX, sizes, &elements)) return false;
    *block = 1;
    for (int j = axis; j < t->rank; j++) *block *= sizes[j];
    *contents = infer_contents_or_opaque(n, i, &count);
    return *contents != NULL;
}

// Only worthwhile if a symbolic value of some input is known.
static void concat_infer_contents(node *n, int axis) {
    int64_t sizes[MAX_RANK], count, block[CONTENTS_MAX], filled = 0;
    dim *to[CONTENTS_MAX], **part[CONTENTS_MAX];
    int known = 0;
    const value *out = node_out(n, 0);
    for (int i = 0, elements; i < n->nin; i++) known += infer_contents(n, i, &elements) != NULL;
    if (!known || !out || n->nin > CONTENTS_MAX || !infer_static(&out->type, CONTENTS_MAX, sizes, &count))
        return;
    for (int i = 0; i < n->nin; i++)
        if (!concat_part(n, i, axis, &part[i], &block[i])) return;
    for (int64_t outer = 0; filled < count; outer++)
        for (int i = 0; i < n->nin; i++)
            for (int64_t e = 0; e < block[i]; e++) to[filled++] = part[i][outer * block[i] + e];
    infer_set_contents(n, 0, to, (int)count);
}

static void concat_infer(node *n) {
    const type *first = infer_in(n, 0);
    dim *out[MAX_RANK];
    int rank = infer_rank(n, 0);
    for (int i = 1; i < n->nin; i++)
        if (infer_rank(n, i) != rank)
            infer_error(n, "inputs 0 and %d have ranks %d and %d", i, rank, infer_in(n, i)->rank);
    int axis = node_axis(n, 0, rank);
    memcpy(out, first->dims, (size_t)rank * sizeof *out);
    for (int i = 1; i < n->nin; i++)
        for (int j = 0; j < rank; j++) {
            dim *d = infer_in(n, i)->dims[j];
            out[j] = j == axis ? dim_add(out[j], d) : infer_same_dim(n, out[j], d, "sizes of the inputs");
        }
    infer_set(n, 0, first->elem, rank, out);
    concat_infer_contents(n, axis);
}

// for the axes before `axis`: for each input from `first` on, at most `most`: for its other axes:
//   out[.., offset + i, ..] = in[.., i, ..]
// Returns the offset after the last one.
static dim *concat_some(lowering *l, node *n, buffer *out, int axis, int first, int most, dim *offset) {
    kernel *k = lower_kernel(l, n, NULL);
    expr *outer[MAX_RANK];
    for (int j = 0; j < axis; j++)
        outer[j] = x_axis(k, kernel_axis(k, AXIS_PARALLEL, arena_printf(k->arena, "o%d", j), out->dims[j]));
    k->nouter = axis;
    for (int i = first; i < n->nin && i < first + most; i++) {
        buffer *in = lower_in(l, n, i);
        stage *s = kernel_stage(k);
        expr *from[MAX_RANK], *to[MAX_RANK];
        for (int j = 0; j < out->rank; j++) {
            dim *extent = j == axis ? in->dims[j] : out->dims[j];
            int own =
                j < axis ? 0 : kernel_axis(k, AXIS_PARALLEL, arena_printf(k->arena, "i%d_%d", i, j), extent);
            if (j >= axis) stage_axis(k, s, own);
            from[j] = to[j] = j < axis ? outer[j] : x_axis(k, own);
        }
        to[axis] = x_add(k, from[axis], x_dim(k, offset));
        stage_write(k, s, out, to, x_read(k, in, from));
        offset = dim_add(offset, in->dims[axis]);
    }
    return offset;
}

// The arguments of a kernel are limited: to 4096 bytes on a GPU.
static void concat_lower(lowering *l, node *n) {
    enum { MOST = 100 };
    if (lower_known_contents(l, n)) return;
    buffer *out = lower_out(l, n, 0);
    int axis = node_axis(n, 0, out->rank);
    dim *offset = infer_k(n, 0);
    for (int i = 0; i < n->nin; i += MOST) offset = concat_some(l, n, out, axis, i, MOST, offset);
}

OPERATOR(Concat, .upgrades = {{4, concat_upgrade_4}}, .infer = concat_infer, .lower = concat_lower);

// ---------------------------------------------------------------- Tile
typedef struct tile_source {
    int rank;
    int64_t sizes[MAX_RANK];
} tile_source;
static int64_t tile_position(const void *user, const int64_t *at) {
    const tile_source *s = user;
    int64_t in[MAX_RANK];
    for (int a = 0; a < s->rank; a++) in[a] = at[a] % s->sizes[a];
    return flat_position(in, s->sizes, s->rank);
}

static void tile_infer(node *n) {
    const type *in = infer_in(n, 0);
    dim **repeats, *out[MAX_RANK];
    int count;
    if (!infer_argument(n, 1, infer_rank(n, 0), &repeats, &count, in->elem)) return;
    int rank = infer_rank(n, 0);
    if (count != rank) infer_error(n, "%d repeats for an input of rank %d", count, rank);
    for (int a = 0; a < rank; a++) out[a] = dim_mul(in->dims[a], repeats[a]);
    infer_set(n, 0, in->elem, rank, out);
    tile_source s = {rank, {0}};
    int64_t elements;
    if (infer_static(in, CONTENTS_MAX, s.sizes, &elements)) infer_move_contents(n, tile_position, &s);
}

static void tile_lower(lowering *l, node *n) {
    int count;
    dim **repeats = lower_argument(l, n, 1, infer_in(n, 0)->rank, &count);
    lower_arguments(l, n);
    for (int a = 0; a < count; a++) lower_check_size(l, n, repeats[a], "a repeat is negative");
    if (lower_known_contents(l, n)) return;
    buffer *in = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[MAX_RANK], *from[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    for (int a = 0; a < in->rank; a++) {
        bool one = dim_is(in->dims[a], 1), once = dim_is(repeats[a], 1);
        from[a] = one ? x_i64(k, 0) : once ? index[a] : x_bin(k, X_MOD, index[a], x_dim(k, in->dims[a]));
    }
    stage_write(k, s, out, index, x_read(k, in, from));
}

// Version 1 repeats along one axis. The count and the axis are inputs with one element of the data's type.
// The repeats are the count at the axis and 1 elsewhere: a one-hot vector as long as the input's rank.
static value *scalar_int64(node *n, value *v) {
    return NODE(n, "Reshape", with_int(NODE(n, "Cast", v), "to", DT_I64), insert_ints(n, NULL, 0));
}
static void tile_upgrade_6(node *n) {
    if (n->nin != 3) return;
    value *tiles = scalar_int64(n, n->in[1]), *axis = scalar_int64(n, n->in[2]);
    value *shape = upgrade_shape(n, n->in[0]), *rank = NODE(n, "Size", shape);
    value *one = insert_ints(n, (int64_t[]){1}, 1);
    value *values = with_int(NODE(n, "Concat", one, NODE(n, "Reshape", tiles, one)), "axis", 0);
    node_set_in(n, 1, NODE(n, "OneHot", axis, rank, values));
    node_set_nin(n, 2);
}

OPERATOR(Tile, .upgrades = {{6, tile_upgrade_6}}, .infer = tile_infer, .lower = tile_lower);

// ---------------------------------------------------------------- DepthToSpace, SpaceToDepth
typedef struct blocks {
    int64_t size;
    bool column_first; // CRD: the outermost part of the depth is the channel, else the innermost
} blocks;

static blocks blocks_of(const node *n) {
    blocks b = {node_int(n, "blocksize", 0), false};
    if (b.size < 1 || b.size > INT32_MAX) infer_error(n, "attribute 'blocksize' is %lld", (long long)b.size);
    b.column_first = node_choice(n, "mode", "DCR CRD") == 1;
    if (infer_rank(n, 0) != 4) infer_error(n, "the input has rank %d, not 4", infer_rank(n, 0));
    return b;
}

// Whether d is a multiple of by; an error if it certainly is not.
static dim *is_multiple(const node *n, dim *d, int64_t by) {
    dim *holds = dim_eq(dim_mod(d, infer_k(n, by)), infer_k(n, 0));
    if (dim_is(holds, 0))
        infer_error(n, "size %s is not a multiple of %lld", dim_text(infer_arena(n), d), (long long)by);
    return holds;
}

static void depth_to_space_infer(node *n) {
    const type *in = infer_in(n, 0);
    blocks b = blocks_of(n);
    is_multiple(n, in->dims[1], b.size * b.size);
    dim *out[4] = {in->dims[0], dim_floordiv(in->dims[1], infer_k(n, b.size * b.size)),
                   dim_mulk(in->dims[2], b.size), dim_mulk(in->dims[3], b.size)};
    infer_set(n, 0, in->elem, 4, out);
}

static void depth_to_space_lower(lowering *l, node *n) {
    blocks b = blocks_of(n);
    lower_check(l, n, is_multiple(n, infer_in(n, 0)->dims[1], b.size * b.size),
                "the depth is not a multiple of blocksize squared");
    buffer *in = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    kernel *k;
    expr *i[4];
    stage *s = pointwise_stage(l, n, out, &k, i);
    expr *size = x_i64(k, b.size), *c = i[1], *depth = x_dim(k, out->dims[1]);
    expr *block = x_add(k, x_mul(k, x_bin(k, X_MOD, i[2], size), size), x_bin(k, X_MOD, i[3], size));
    expr *channel = b.column_first ? x_add(k, x_mul(k, c, x_i64(k, b.size * b.size)), block)
                                   : x_add(k, x_mul(k, block, depth), c);
    expr *from[4] = {i[0], channel, x_bin(k, X_FLOORDIV, i[2], size), x_bin(k, X_FLOORDIV, i[3], size)};
    stage_write(k, s, out, i, x_read(k, in, from));
}

static void space_to_depth_infer(node *n) {
    const type *in = infer_in(n, 0);
    blocks b = blocks_of(n);
    dim *size = infer_k(n, b.size);
    is_multiple(n, in->dims[2], b.size);
    is_multiple(n, in->dims[3], b.size);
    dim *out[4] = {in->dims[0], dim_mulk(in->dims[1], b.size * b.size), dim_floordiv(in->dims[2], size),
                   dim_floordiv(in->dims[3], size)};
    infer_set(n, 0, in->elem, 4, out);
}

static void space_to_depth_lower(lowering *l, node *n) {
    blocks b = blocks_of(n);
    for (int a = 2; a < 4; a++)
        lower_check(l, n, is_multiple(n, infer_in(n, 0)->dims[a], b.size),
                    "a size is not a multiple of blocksize");
    buffer *in = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    kernel *k;
    expr *i[4];
    stage *s = pointwise_stage(l, n, out, &k, i);
    expr *size = x_i64(k, b.size), *area = x_i64(k, b.size * b.size), *depth = x_dim(k, in->dims[1]);
    expr *block = b.column_first ? x_bin(k, X_MOD, i[1], area) : x_bin(k, X_FLOORDIV, i[1], depth);
    expr *channel = b.column_first ? x_bin(k, X_FLOORDIV, i[1], area) : x_bin(k, X_MOD, i[1], depth);
    expr *row = x_bin(k, X_FLOORDIV, block, size), *column = x_bin(k, X_MOD, block, size);
    expr *from[4] = {i[0], channel, x_add(k, x_mul(k, i[2], size), row),
                     x_add(k, x_mul(k, i[3], size), column)};
    stage_write(k, s, out, i, x_read(k, in, from));
}

OPERATOR(DepthToSpace, .infer = depth_to_space_infer, .lower = depth_to_space_lower);
OPERATOR(SpaceToDepth, .infer = space_to_depth_infer, .lower = space_to_depth_lower);

// ---------------------------------------------------------------- ReverseSequence
static void reverse_axes(const node *n, int *batch, int *time) {
    int rank = infer_rank(n, 0);
    if (rank < 2) infer_error(n, "the input has rank %d; it must be at least 2", rank);
    *batch = infer_axis(n, node_int(n, "batch_axis", 1), rank);
    *time = infer_axis(n, node_int(n, "time_axis", 0), rank);
    if (*batch == *time) infer_error(n, "batch_axis and time_axis are both %d", *batch);
}

static void reverse_sequence_infer(node *n) {
    int batch, time;
    reverse_axes(n, &batch, &time);
    if (infer_rank(n, 1) != 1) infer_error(n, "sequence_lens has rank %d, not 1", infer_rank(n, 1));
    infer_same_dim(n, infer_in(n, 0)->dims[batch], infer_in(n, 1)->dims[0],
                   "batch size and length of sequence_lens");
    infer_same(n, 0, 0);
}

static void reverse_sequence_lower(lowering *l, node *n) {
    int batch, time;
    reverse_axes(n, &batch, &time);
    buffer *in = lower_in(l, n, 0), *lens = lower_in(l, n, 1), *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[MAX_RANK], *from[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    memcpy(from, index, sizeof from);
    expr *t = index[time], *len = x_read(k, lens, &index[batch]);
    expr *mirrored = x_sub(k, x_sub(k, len, x_i64(k, 1)), t);
    from[time] = x_checked_index(k, x_select(k, x_lt(k, t, len), mirrored, t), in->dims[time], false,
                                 "a sequence is longer than the time axis");
    stage_write(k, s, out, index, x_read(k, in, from));
}

OPERATOR(ReverseSequence, .infer = reverse_sequence_infer, .lower = reverse_sequence_lower);

// ---------------------------------------------------------------- Trilu
static dim *trilu_diagonal(node *n) {
    int count;
    if (!node_in(n, 1)) return infer_k(n, 0);
    dim **k = infer_contents_or_opaque(n, 1, &count);
    if (!k || count != 1) infer_error(n, "k must be a scalar");
    return k[0];
}

static void trilu_infer(node *n) {
    if (infer_rank(n, 0) < 2)
        infer_error(n, "the input has rank %d; it must be at least 2", infer_rank(n, 0));
    trilu_diagonal(n);
    infer_same(n, 0, 0);
}

// Clamping the diagonal to [-rows, columns] preserves its meaning and avoids overflow.
static void trilu_lower(lowering *l, node *n) {
    lower_arguments(l, n);
    buffer *in = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    dim *rows = out->dims[out->rank - 2], *columns = out->dims[out->rank - 1];
    dim *diagonal = dim_max(dim_min(trilu_diagonal(n), columns), dim_neg(rows));
    expr *edge = x_add(k, index[out->rank - 2], x_dim(k, diagonal)), *column = index[out->rank - 1];
    expr *keep = node_int(n, "upper", 1) ? x_bin(k, X_LE, edge, column) : x_bin(k, X_LE, column, edge);
    stage_write(k, s, out, index, x_read_guarded(k, in, index, keep, NULL));
}

OPERATOR(Trilu, .infer = trilu_infer, .lower = trilu_lower);
