// com.microsoft.nchwc: convolutions and poolings on tensors whose channels are stored in blocks of 8 or 16, which ONNX
// Runtime's optimizer saves for the CPU it runs on. A tensor in blocks stays (N, C, H, W) here, with its channels
// padded to whole blocks: onnxc chooses layouts itself. Weights are taken out of their blocks when the model is read.
// Operators outside the domain read its memory, (N, C / block, H, W, block), as if it were (N, C, H, W), and the domain's
// operators read what these compute as blocks: so are products with a factor of each channel written, between Reshapes.
#include "compiler/base/integers.h"
#include "ir/ops/contrib/fused.h"
#include <string.h>

// Channels of each value of a graph that is stored in blocks, by its id: 0 is a plain tensor, MEMORY one that was computed
// from the memory of blocks. UNPADDED - c: the blocks hold c channels, and the channels that fill the last one.
enum { PLAIN = 0, BLOCKS_OF_UNKNOWN_COUNT = -1, MEMORY = -2, UNPADDED = -3 };
typedef struct block_search {
    graph *g;
    int64_t *channels; // of the first `values` values of the module: later ones are plain
    int values;
    bool can_be_8, can_be_16;
    bool matters;             // weights are stored in another order for each
    bool padded_8, padded_16; // weights end with zeros, if blocks have that size
    bool reads_memory;        // of the node that is looked at
} block_search;

static int64_t stored_channels(const block_search *s, const value *v) {
    return v && v->graph == s->g && v->id < s->values ? s->channels[v->id] : PLAIN;
}
static bool is_blocked(const block_search *s, const value *v) {
    return stored_channels(s, v) != PLAIN && stored_channels(s, v) != MEMORY;
}

static bool is_nchwc(const node *n) { return strcmp(n->op->domain, "com.microsoft.nchwc") == 0; }
static dim *whole_blocks(dim *channels, int block) {
    dim *size = dim_const(channels->table, block);
    return dim_mul(dim_ceildiv(channels, size), size);
}

// A block must divide the channels of what is stored in blocks.
static void need_divisor(block_search *s, int64_t channels) {
    s->can_be_8 &= channels % 8 == 0;
    s->can_be_16 &= channels % 16 == 0;
}

static void need_padding(block_search *s, int64_t used, int64_t stored) {
    s->can_be_8 &= round_up(used, 8) == stored;
    s->can_be_16 &= round_up(used, 16) == stored;
}

static const constant *weights_of(const node *n) {
    const constant *w = infer_constant(n, 1);
    if (!w || w->rank != 4)
        infer_error(n, "the weights must be a constant of rank 4: they are stored in blocks of channels");
    return w;
}

// Where element k of filter o for channel i is stored: weights (O, I, H, W) are (O / block, I / block, H, W, block of I,
// block of O), or, if I is smaller than a block, (O / block, I, H, W, block of O).
static int64_t stored_at(const constant *w, int64_t block, int64_t o, int64_t i, int64_t k) {
    int64_t in = w->dims[1], inner = in < block ? 1 : block, size = w->dims[2] * w->dims[3];
    int64_t row = (o / block * (in / inner) + i / inner) * size + k;
    return (row * inner + i % inner) * block + o % block;
}

// Whether filter p, or what all filters have for channel p, is zero.
static bool is_zero(const constant *w, int64_t block, bool filter, int64_t p) {
    int64_t count = w->dims[filter ? 1 : 0], size = w->dims[2] * w->dims[3];
    for (int64_t j = 0; j < count; j++)
        for (int64_t k = 0; k < size; k++)
            if (constant_float(w, stored_at(w, block, filter ? p : j, filter ? j : p, k)) != 0) return false;
    return true;
}

// What is zero at the end of the weights, as the padding to whole blocks is.
typedef struct padding {
    bool found, is_all; // is_all: nothing else is zero
} padding;

static padding padding_of(const constant *w, int64_t block) {
    int64_t out = w->dims[0], in = w->dims[1], size = w->dims[2] * w->dims[3], zeros = 0;
    if (out % block || (in > block && in % block) || w->count == 0) return (padding){0};
    while (out && is_zero(w, block, true, out - 1)) out--;
    while (in && is_zero(w, block, false, in - 1)) in--;
    for (int64_t i = 0; i < w->count; i++) zeros += constant_float(w, i) == 0;
    return (padding){zeros && (out < w->dims[0] || in < w->dims[1]), zeros == w->count - out * in * size};
}

static void see_padding(block_search *s, const constant *w) {
    padding in_8 = padding_of(w, 8), in_16 = padding_of(w, 16);
    s->padded_8 |= in_8.found && (!in_16.found || (in_8.is_all && !in_16.is_all));
    s->padded_16 |= in_16.found && (!in_8.found || (in_16.is_all && !in_8.is_all));
}

// Channels of a plain input are fewer than a block has; weights of one channel for each group are not in blocks.
static void see_conv(block_search *s, const node *n) {
    const constant *w = weights_of(n);
    need_divisor(s, w->dims[0]);
    s->matters |= w->dims[1] * w->dims[2] * w->dims[3] > 1;
    if (s->can_be_8 && s->can_be_16) see_padding(s, w);
    int64_t held = s->channels[n->in[0]->id];
    if (held != PLAIN) {
        if (w->dims[1] > 1) need_divisor(s, w->dims[1]);
        if (held < UNPADDED) need_padding(s, UNPADDED - held, w->dims[1] * node_int(n, "group", 1));
    } else {
        s->can_be_8 &= w->dims[1] < 8;
        s->can_be_16 &= w->dims[1] < 16;
    }
    s->channels[n->out[0]->id] = w->dims[0];
}

static void see_output(block_search *s, const node *n) {
    int64_t stored = s->channels[n->in[0]->id], used = node_int(n, "channels", 0);
    if (used < 1) infer_error(n, "attribute channels is %lld", (long long)used);
    if (stored <= 0) return;
    need_padding(s, used, stored);
}

// In blocks, an input has additional channels that fill the last block.
static int64_t channels_of_input(const node *n) {
    const type *t = &n->in[0]->type;
    if (t->kind != TYPE_TENSOR || t->rank != 4) return BLOCKS_OF_UNKNOWN_COUNT;
    dim *channels = t->dims[node_int(n, "channels_last", 0) ? 3 : 1];
    return dim_is_const(channels) ? UNPADDED - dim_value(channels) : BLOCKS_OF_UNKNOWN_COUNT;
}

static void see_read(void *user, value *v) {
    block_search *s = user;
    s->reads_memory |= stored_channels(s, v) != PLAIN;
}

// Operators that ONNX Runtime leaves between those of the domain: they treat all elements, or all channels, alike.
static bool keeps_blocks(const node *n) {
    static const char *const names[] = {"Add",         "Sum",       "Mul",      "Concat", "Relu",
                                        "LeakyRelu",   "Sigmoid",   "Tanh",     "Clip",   "Gelu",
                                        "HardSigmoid", "HardSwish", "QuickGelu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (node_is(n, names[i])) return !node_is(n, "Concat") || node_int(n, "axis", 0) == 1;
    return false;
}

// A node outside the domain that reads the memory of blocks, perhaps as (N, C / block, H, W, block).
static void see_reader(block_search *s, const node *n) {
    const constant *sizes = node_is(n, "Reshape") ? infer_constant(n, 1) : NULL;
    s->reads_memory = false;
    node_reads(n, see_read, s);
    s->matters |= s->reads_memory;
    for (int i = 0; i < n->nout && s->reads_memory; i++)
        if (n->out[i]) s->channels[n->out[i]->id] = MEMORY;
    if (!sizes || sizes->count != 5 || !is_blocked(s, n->in[0])) return;
    s->can_be_8 &= constant_int(sizes, 4) == 8;
    s->can_be_16 &= constant_int(sizes, 4) == 16;
}

// A node outside the domain: if all that it reads is in blocks, its result may be, too.
static void see_other(block_search *s, const node *n) {
    int64_t sum = 0;
    int operands = node_is(n, "Clip") ? 1 : n->nin;
    bool keeps = keeps_blocks(n);
    for (int i = 0; i < operands && keeps; i++) keeps = is_blocked(s, n->in[i]);
    if (!keeps) {
        see_reader(s, n);
        return;
    }
    for (int i = 0; i < operands; i++) {
        int64_t channels = s->channels[n->in[i]->id];
        if (i == 0 || channels < 0 || sum < 0) sum = i == 0 || channels < 0 ? channels : sum;
        else if (node_is(n, "Concat")) sum += channels;
    }
    s->channels[n->out[0]->id] = sum < 0 && node_is(n, "Concat") ? BLOCKS_OF_UNKNOWN_COUNT : sum;
}

static void see_node(block_search *s, const node *n) {
    if (!is_nchwc(n)) see_other(s, n);
    else if (node_is(n, "Conv")) see_conv(s, n);
    else if (node_is(n, "ReorderInput")) s->channels[n->out[0]->id] = channels_of_input(n);
    else if (s->channels[n->in[0]->id] == PLAIN)
        infer_error(n, "the input must be stored in blocks of channels (by ReorderInput)");
    else if (node_is(n, "ReorderOutput")) see_output(s, n);
    else
        s->channels[n->out[0]->id] =
            is_blocked(s, n->in[0]) ? s->channels[n->in[0]->id] : BLOCKS_OF_UNKNOWN_COUNT;
}

// Whether n's input i is a tensor in blocks.
static bool takes_blocks(const block_search *s, const node *n, int i) {
    if (!is_nchwc(n)) return is_blocked(s, node_out(n, 0)) && (i == 0 || !node_is(n, "Clip"));
    if (node_is(n, "ReorderInput") || (i != 0 && i != 3)) return false;
    return i != 0 || !node_is(n, "Conv") || stored_channels(s, n->in[0]) != PLAIN;
}

// v in blocks, (N, C, H, W) here, as the memory of its blocks; or the other way around.
static value *through_memory(node *at, value *v, int block, bool into) {
    value *size = one_int(at, block), *rows = shape_part(at, v, 0, 1), *image = shape_part(at, v, 2, 4);
    value *count = NODE(at, "Div", shape_part(at, v, 1, 2), size);
    value *sizes = into ? JOINED(at, rows, count, size, image) : JOINED(at, rows, count, image, size);
    const int64_t *order = into ? (const int64_t[]){0, 1, 3, 4, 2} : (const int64_t[]){0, 1, 4, 2, 3};
    return as_shape_of(at, transposed(at, reshaped_to(at, v, sizes), 5, order), v);
}

static bool reads_memory(const block_search *s, const use *u, int before) {
    return u->node && u->node->id < before && (u->node->graph != s->g || !takes_blocks(s, u->node, u->index));
}

// Gives the readers of v's memory that memory; nodes from `before` on are new.
static void give_memory(const block_search *s, value *v, int block) {
    int before = s->g->module->nodes.n;
    value *memory = NULL;
    for (int i = v->uses.n - 1; i >= 0; i--) {
        use u = v->uses.at[i];
        if (!reads_memory(s, &u, before)) continue;
        if (!memory) memory = through_memory(node_next(v->def), v, block, true);
        node_set_in(u.node, u.index, memory);
    }
}

static void convert_memory(const block_search *s, int block) {
    int count = s->g->nodes.n;
    node **nodes = ARENA_ARRAY(s->g->module->arena, node *, count + 1);
    memcpy(nodes, s->g->nodes.at, (size_t)count * sizeof *nodes);
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < nodes[i]->nin; j++)
            if (stored_channels(s, nodes[i]->in[j]) == MEMORY && is_nchwc(nodes[i]) &&
                takes_blocks(s, nodes[i], j))
                node_set_in(nodes[i], j, through_memory(nodes[i], nodes[i]->in[j], block, false));
        if (is_blocked(s, node_out(nodes[i], 0))) give_memory(s, nodes[i]->out[0], block);
    }
}

// --nchwc-block, or the only size that fits the channels, or that in which weights end with the zeros of padding.
static int chosen_block(const block_search *s, const node *n) {
    int said = s->g->module->nchwc_block;
    if (said && !(said == 8 ? s->can_be_8 : s->can_be_16))
        infer_error(n, "--nchwc-block=%d: the numbers of channels of this graph do not fit blocks of %d",
                    said, said);
    if (said || !s->matters || s->can_be_8 != s->can_be_16) return said ? said : s->can_be_8 ? 8 : 16;
    if (s->padded_8 != s->padded_16) return s->padded_8 ? 8 : 16;
    diag_hint(
        s->g->module->diag,
        "--nchwc-block=16 if a CPU with AVX-512 or of AArch64 saved it, --nchwc-block=8 if another one did; "
        "files saved with graph_optimization_level ORT_ENABLE_EXTENDED do not depend on the CPU");
    diag_fatal_missing(s->g->module->diag, n->loc,
                       "the file does not tell whether channels are stored in blocks of 8 or of 16");
}

// Channels in a block, from all nodes of n's graph: the file does not say it.
static int find_block(const node *n) {
    graph *g = n->graph;
    block_search s = {.g = g, .values = g->module->values.n, .can_be_8 = true, .can_be_16 = true};
    s.channels = ARENA_ARRAY(infer_arena(n), int64_t, s.values + 1);
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->nin && g->nodes.at[i]->nout && g->nodes.at[i]->in[0])
            see_node(&s, g->nodes.at[i]);
    for (int i = 0; i < g->outputs.n; i++)
        if (is_blocked(&s, g->outputs.at[i]))
            infer_error(n, "output '%s' of the graph is stored in blocks of channels",
                        g->outputs.at[i]->name);
    if (!s.can_be_8 && !s.can_be_16)
        infer_error(n, "the numbers of channels of this graph fit neither blocks of 8 nor blocks of 16");
    int block = chosen_block(&s, n);
    convert_memory(&s, block);
    return block;
}

// The first node of a graph looks for the others, which are decomposed later.
static int block_of(node *n) {
    if (!node_attr(n, "block")) {
        int block = find_block(n);
        for (int i = 0; i < n->graph->nodes.n; i++) {
            node *other = n->graph->nodes.at[i];
            if (is_nchwc(other)) node_set_attr(other, (attr){.name = "block", .kind = ATTR_INT, .i = block});
        }
    }
    return (int)node_int(n, "block", 0);
}

// ---- In and out of blocks
static void reorder_input(node *n) {
    int block = block_of(n), rank = infer_rank(n, 0);
    bool last = node_int(n, "channels_last", 0);
    if (rank != 4) infer_error(n, "the input has rank %d, but must have rank 4", rank);
    value *x = last ? channels_moved(n, n->in[0], rank, true) : n->in[0];
    dim *channels = infer_in(n, 0)->dims[last ? 3 : 1];
    if (dim_equal(channels, whole_blocks(channels, block)) == TRI_YES) {
        give_output(n, 0, x);
        return;
    }
    value *count = shape_part(n, x, 1, 2), *size = insert_ints(n, (const int64_t[]){block}, 1);
    value *missing = NODE(n, "Mod", NODE(n, "Neg", count), size),
          *zero = insert_ints(n, (const int64_t[]){0}, 1);
    value *pads = JOINED(n, zero, missing), *axes = insert_ints(n, (const int64_t[]){1}, 1);
    give_output(n, 0, NODE(n, "Pad", x, pads, NULL, axes));
}

static void reorder_output(node *n) {
    block_of(n);
    value *x = sliced(n, n->in[0], 1, 0, node_int(n, "channels", 0));
    give_output(n, 0, node_int(n, "channels_last", 0) ? channels_moved(n, x, 4, false) : x);
}

static value *plain_weights(node *n, int block) {
    const constant *w = weights_of(n);
    int64_t out = w->dims[0], in = w->dims[1], size = w->dims[2] * w->dims[3];
    if (w->elem != DT_F32) infer_error(n, "the weights must be floats");
    constant *plain = constant_new(infer_arena(n), DT_F32, 4, w->dims);
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < in; i++)
            for (int64_t k = 0; k < size; k++) {
                double v = constant_float(w, stored_at(w, block, o, i, k));
                dtype_store_float(DT_F32, (void *)plain->data, (o * in + i) * size + k, v, false);
            }
    return value_constant(n->graph, NULL, plain);
}

static void nchwc_conv(node *n) {
    value *weights = plain_weights(n, block_of(n));
    value *y = with_conv_attrs(NODE(n, "Conv", n->in[0], weights, node_in(n, 2)), n);
    if (node_in(n, 3)) y = NODE(n, "Add", y, n->in[3]);
    give_output(n, 0, conv_activated(n, y));
}

// ---- Operators that treat all channels alike
static void nchwc_pool(node *n) {
    static const char *const kept[] = {
        "auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides"};
    block_of(n);
    value *y = NODE(n, n->op->name, n->in[0]);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) with_attr_of(y, n, kept[i]);
    give_output(n, 0, y);
}

static void nchwc_upsample(node *n) {
    int count;
    const int64_t *scales = node_ints(n, "scales", &count);
    float factors[4];
    block_of(n);
    if (count != 4) infer_error(n, "attribute scales has %d numbers, but needs 4", count);
    for (int i = 0; i < 4; i++) factors[i] = (float)scales[i];
    value *y = NODE(n, "Resize", n->in[0], NULL, insert_floats(n, factors, 4));
    if (strcmp(node_string(n, "mode", "nearest"), "nearest") == 0) {
        with_string(with_string(y, "mode", "nearest"), "nearest_mode", "floor");
        with_string(y, "coordinate_transformation_mode", "asymmetric");
    } else {
        with_attr_of(with_string(y, "mode", "linear"), n, "coordinate_transformation_mode");
    }
    give_output(n, 0, y);
}

#define NCHWC_OP(NAME, function)                                                                             \
    const op_def op_nchwc_##NAME = {.name = #NAME, .domain = "com.microsoft.nchwc", .decompose = function}
NCHWC_OP(ReorderInput, reorder_input);
NCHWC_OP(ReorderOutput, reorder_output);
NCHWC_OP(Conv, nchwc_conv);
NCHWC_OP(MaxPool, nchwc_pool);
NCHWC_OP(AveragePool, nchwc_pool);
NCHWC_OP(GlobalMaxPool, nchwc_pool);
NCHWC_OP(GlobalAveragePool, nchwc_pool);
NCHWC_OP(Upsample, nchwc_upsample);
