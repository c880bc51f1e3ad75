// Rotary position embeddings of com.microsoft, as the standard's RotaryEmbedding.
#include "ir/ops/contrib/attention.h"

enum { IN_X, IN_POSITIONS, IN_COS, IN_SIN };

// ---- Heads

static void check_operands(const node *n) {
    int rank = infer_rank(n, IN_X);
    if (rank != 3 && rank != 4) infer_error(n, "the input has rank %d; it must be 3 or 4", rank);
    if (infer_rank(n, IN_COS) != 2 || infer_rank(n, IN_SIN) != 2)
        infer_error(n, "the caches have ranks %d and %d; they must be 2", infer_rank(n, IN_COS),
                    infer_rank(n, IN_SIN));
    if (node_int(n, "rotary_embedding_dim", 0) > 0 && node_int(n, "num_heads", 0) < 1)
        infer_error(n, "rotary_embedding_dim needs num_heads");
}

// The number of heads of a 3-d input, 0: unknown. Without num_heads a head is twice as wide as the caches.
static int64_t heads_of(const node *n) {
    int64_t given = node_int(n, "num_heads", 0);
    if (given > 0) return given;
    dim *all = infer_in(n, IN_X)->dims[2], *half = infer_in(n, IN_COS)->dims[1];
    if (!dim_is_const(all) || !dim_is_const(half) || dim_value(half) < 1) return 0;
    if (dim_value(all) % (2 * dim_value(half)))
        infer_error(n, "the width of %lld is not a multiple of twice the caches' width of %lld",
                    (long long)dim_value(all), (long long)dim_value(half));
    return dim_value(all) / (2 * dim_value(half));
}

// x rotated; positions NULL: the caches are [batch, row, half].
static value *rotated_input(node *n, value *cosines, value *sines, value *positions) {
    value *x = n->in[IN_X];
    bool pairs = node_int(n, "interleaved", 0) == 1;
    if (infer_rank(n, IN_X) == 4) return rotated(n, x, cosines, sines, positions, 0, pairs);
    int64_t heads = heads_of(n);
    if (heads) return rotated(n, x, cosines, sines, positions, heads, pairs);
    value *head = NODE(n, "Mul", axis_size(n, n->in[IN_COS], 1), one_int(n, 2));
    value *apart = heads_apart(n, x, -1, head);
    value *y =
        transposed(n, rotated(n, apart, cosines, sines, positions, 0, pairs), 4, (int64_t[]){0, 2, 1, 3});
    return NODE(n, "Reshape", y, NODE(n, "Shape", x));
}

// ---- RotaryEmbedding: position_ids has the position of every row, or that of the first one

static value *positions(node *n) {
    value *given = n->in[IN_POSITIONS], *x = n->in[IN_X];
    if (infer_rank(n, IN_POSITIONS) == 2) return given;
    if (infer_rank(n, IN_POSITIONS) != 1)
        infer_error(n, "position_ids has rank %d; it must be 1 or 2", infer_rank(n, IN_POSITIONS));
    value *rows = axis_size(n, x, infer_rank(n, IN_X) - 2);
    value *shape = with_int(NODE(n, "Concat", axis_size(n, x, 0), rows), "axis", 0);
    return NODE(n, "Expand", NODE(n, "Add", given, numbers_to(n, rows)), shape);
}

static void rotary_embedding_decompose(node *n) {
    check_operands(n);
    give_output(n, 0, rotated_input(n, n->in[IN_COS], n->in[IN_SIN], positions(n)));
}

// ---- MRotaryEmbedding: each column of the caches is read at one of three positions

enum { STREAMS = 3 };

// By which of the three positions column i of the caches is read.
static int stream_of(const int64_t *section, bool interleaved, int64_t i) {
    if (interleaved) return i % STREAMS && i < STREAMS * section[i % STREAMS] ? (int)(i % STREAMS) : 0;
    return i < section[0] ? 0 : i < section[0] + section[1] ? 1 : 2;
}

// bool[half]: the columns of that stream
static value *columns_of(node *n, const int64_t *section, int64_t half, int stream) {
    bool interleaved = node_int(n, "mrope_layout", 0) == 1;
    constant *c = constant_new(n->graph->module->arena, DT_BOOL, 1, &half);
    for (int64_t i = 0; i < half; i++)
        dtype_store_int(DT_BOOL, (uint8_t *)c->data, i, stream_of(section, interleaved, i) == stream);
    return value_constant(n->graph, NULL, c);
}

// [batch, row, half]
static value *angles(node *n, value *cache, const int64_t *section, int64_t half) {
    dtype t = infer_in(n, IN_X)->elem;
    double scale = node_float(n, "scale", 1);
    value *sum = NULL;
    for (int i = 0; i < STREAMS; i++) {
        value *at = with_int(NODE(n, "Gather", n->in[IN_POSITIONS], insert_scalar(n, DT_I64, i)), "axis", 0);
        value *read = with_int(NODE(n, "Gather", cache, at), "axis", 0);
        sum = i ? NODE(n, "Where", columns_of(n, section, half, i), read, sum) : read;
    }
    if (scale == 1) return sum;
    return cast_to(n, NODE(n, "Mul", cast_to(n, sum, DT_F32), insert_scalar(n, DT_F32, scale)), t);
}

static void mrotary_embedding_decompose(node *n) {
    int count;
    const int64_t *section = node_ints(n, "mrope_section", &count);
    check_operands(n);
    if (count != STREAMS) infer_error(n, "attribute mrope_section has %d numbers, not 3", count);
    if (section[0] < 0 || section[1] < 0 || section[2] < 0)
        infer_error(n, "attribute mrope_section has a negative number");
    if (infer_rank(n, IN_POSITIONS) != 3)
        infer_error(n, "position_ids has rank %d, not 3", infer_rank(n, IN_POSITIONS));
    int64_t half = section[0] + section[1] + section[2];
    infer_same_dim(n, infer_in(n, IN_COS)->dims[1], infer_k(n, half),
                   "the caches' width and the sum of mrope_section");
    give_output(n, 0,
                rotated_input(n, angles(n, n->in[IN_COS], section, half),
                              angles(n, n->in[IN_SIN], section, half), NULL));
}

// ---- GemmaRotaryEmbedding: x * cos(emb) + x_rot * sin(emb), for queries and keys

static void gemma_rotary_embedding_decompose(node *n) {
    value *axis = one_int(n, 1), *angle = n->in[0];
    dtype t = infer_in(n, 1)->elem;
    value *sines = NODE(n, "Unsqueeze", cast_to(n, NODE(n, "Sin", angle), t), axis);
    value *cosines = NODE(n, "Unsqueeze", cast_to(n, NODE(n, "Cos", angle), t), axis);
    for (int i = 0; i < 2; i++) {
        value *x = n->in[1 + 2 * i], *rotated = n->in[2 + 2 * i];
        give_output(n, i, NODE(n, "Add", NODE(n, "Mul", x, cosines), NODE(n, "Mul", rotated, sines)));
    }
}

MICROSOFT_OP(RotaryEmbedding, rotary_embedding_decompose);
MICROSOFT_OP(MRotaryEmbedding, mrotary_embedding_decompose);
MICROSOFT_OP(GemmaRotaryEmbedding, gemma_rotary_embedding_decompose);
