// Inverse, DynamicTimeWarping and MurmurHash3 of com.microsoft: library functions, and hashes of numbers as graphs.
#include "ir/ops/decompose.h"
#include "ir/ops/pointwise.h"

// ---------------------------------------------------------------- Inverse

// Matrices of f16 are inverted as floats.
static bool inverse_canonicalise(node *n) {
    dtype t = infer_in(n, 0)->elem;
    if (t == wide_type(t)) return false;
    give_output(n, 0, narrowed(n, NODE(n, "com.microsoft:Inverse", widened(n, 0)), t));
    node_delete(n);
    return true;
}

static void inverse_infer(node *n) {
    int rank = infer_rank(n, 0);
    const type *x = infer_in(n, 0);
    if (rank < 2) infer_error(n, "the input has rank %d; matrices need at least 2", rank);
    infer_same_dim(n, x->dims[rank - 2], x->dims[rank - 1], "rows and columns");
    infer_same(n, 0, 0);
}

static void inverse_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    dim *size = x->dims[x->rank - 1], *room = dim_mul(size, dim_addk(size, 1));
    buffer *scratch = lower_temp(l, n, "scratch", DT_F64, 1, &room);
    step *s = lower_library(l, n, "inverse", 2, 3, 3);
    s->args[0] = out, s->args[1] = scratch, s->args[2] = x;
    s->numbers[0] = infer_k(n, x->dtype), s->numbers[1] = dim_product(infer_dims(n), x->dims, x->rank - 2);
    s->numbers[2] = size;
}

const op_def op_microsoft_Inverse = {.name = "Inverse",
                                     .domain = "com.microsoft",
                                     .canonicalise = inverse_canonicalise,
                                     .infer = inverse_infer,
                                     .lower = inverse_lower};

// ---------------------------------------------------------------- DynamicTimeWarping

// Costs (rows, columns) or (1, rows, columns)
static void warp_infer(node *n) {
    int rank = infer_rank(n, 0);
    const type *x = infer_in(n, 0);
    if (rank != 2 && rank != 3) infer_error(n, "the input has rank %d, but must have rank 2 or 3", rank);
    if (rank == 3) infer_same_dim(n, x->dims[0], infer_k(n, 1), "number of matrices");
    dim *longest = dim_add(x->dims[rank - 2], x->dims[rank - 1]);
    infer_set(n, 0, DT_I32, 2, (dim *[]){infer_k(n, 2), infer_data_dim(n, "path", longest)});
}

static void warp_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0);
    dim *rows = x->dims[x->rank - 2], *columns = x->dims[x->rank - 1], *count = infer_made_dim(n, 0);
    dim *one = infer_k(n, 1), *most = dim_add(rows, columns), *room = dim_mulk(dim_addk(columns, 1), 2);
    dim *elements = dim_mul(rows, columns);
    buffer *path = lower_temp(l, n, "path", DT_I32, 2, (dim *[]){infer_k(n, 2), most});
    buffer *length = lower_temp(l, n, "length", DT_I64, 1, &one);
    buffer *sums = lower_temp(l, n, "sums", DT_F32, 1, &room),
           *steps = lower_temp(l, n, "steps", DT_I8, 1, &elements);
    step *s = lower_library(l, n, "warp", 4, 5, 2);
    s->args[0] = path, s->args[1] = length, s->args[2] = sums, s->args[3] = steps, s->args[4] = x;
    s->numbers[0] = rows, s->numbers[1] = columns;
    lower_set_dim(l, n, count, length, 0);
    lower_checks(l, n);
    buffer *out = lower_out(l, n, 0);
    if (!out) return;
    lower_check(l, n, dim_eq(out->dims[1], count), "the output does not have its declared size");
    kernel *k;
    expr *index[MAX_RANK];
    stage *move = suffixed_stage(l, n, NULL, out, &k, index);
    stage_write(k, move, out, index, x_read(k, path, index));
}

const op_def op_microsoft_DynamicTimeWarping = {
    .name = "DynamicTimeWarping", .domain = "com.microsoft", .infer = warp_infer, .lower = warp_lower};

// ---------------------------------------------------------------- MurmurHash3
static value *word(node *n, uint32_t v) { return insert_scalar(n, DT_U32, v); }

static value *shifted(node *n, value *v, uint32_t by, const char *direction) {
    return with_string(NODE(n, "BitShift", v, word(n, by)), "direction", direction);
}

static value *turned(node *n, value *v, uint32_t by) {
    return NODE(n, "BitwiseOr", shifted(n, v, by, "LEFT"), shifted(n, v, 32 - by, "RIGHT"));
}

static value *product(node *n, value *v, uint32_t factor) { return NODE(n, "Mul", v, word(n, factor)); }

// hash = rotate(hash ^ rotate(block * c1, 15) * c2, 13) * 5 + c3
static value *with_block(node *n, value *hash, value *block) {
    block = product(n, turned(n, product(n, block, 0xcc9e2d51), 15), 0x1b873593);
    hash = product(n, turned(n, NODE(n, "BitwiseXor", hash, block), 13), 5);
    return NODE(n, "Add", hash, word(n, 0xe6546b64));
}

// hash ^= hash >> by
static value *folded(node *n, value *hash, uint32_t by) {
    return NODE(n, "BitwiseXor", hash, shifted(n, hash, by, "RIGHT"));
}

static value *finished(node *n, value *hash, uint32_t bytes) {
    hash = folded(n, NODE(n, "BitwiseXor", hash, word(n, bytes)), 16);
    hash = folded(n, product(n, hash, 0x85ebca6b), 13);
    return folded(n, product(n, hash, 0xc2b2ae35), 16);
}

static value *bits_as(node *n, value *v, dtype t) { return with_int(NODE(n, "BitCast", v), "to", t); }

static bool is_positive(const node *n) { return node_int(n, "positive", 1); }

// Numbers are hashed by the bytes that they are stored as: one or two blocks.
static bool murmur_canonicalise(node *n) {
    dtype t = infer_in(n, 0)->elem;
    if (t == DT_STRING) return false;
    bool wide = dtype_bits(t) == 64;
    value *hash = word(n, (uint32_t)node_int(n, "seed", 0)),
          *x = bits_as(n, n->in[0], wide ? DT_U64 : DT_U32);
    if (wide) {
        value *by = insert_scalar(n, DT_U64, 32), *mask = insert_scalar(n, DT_U64, 0xffffffff);
        hash = with_block(n, hash, cast_to(n, NODE(n, "BitwiseAnd", x, mask), DT_U32));
        x = cast_to(n, with_string(NODE(n, "BitShift", x, by), "direction", "RIGHT"), DT_U32);
    }
    hash = finished(n, with_block(n, hash, x), wide ? 8 : 4);
    give_output(n, 0, is_positive(n) ? hash : bits_as(n, hash, DT_I32));
    node_delete(n);
    return true;
}

static void murmur_infer(node *n) {
    infer_rank(n, 0);
    const type *x = infer_in(n, 0);
    infer_set(n, 0, is_positive(n) ? DT_U32 : DT_I32, x->rank, x->dims);
}

static void murmur_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    step *s = lower_library(l, n, "string_hash", 1, 2, 2);
    s->args[0] = out, s->args[1] = x;
    s->numbers[0] = buffer_count(x), s->numbers[1] = infer_k(n, node_int(n, "seed", 0) & 0xffffffff);
}

const op_def op_microsoft_MurmurHash3 = {.name = "MurmurHash3",
                                         .domain = "com.microsoft",
                                         .canonicalise = murmur_canonicalise,
                                         .infer = murmur_infer,
                                         .lower = murmur_lower};
