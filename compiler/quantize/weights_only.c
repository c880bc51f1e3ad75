// Weights alone: which constants, in which form. In: a prepared module. Out: products read their weights through
// DequantizeLinear; all arithmetic stays in float.
//
// Matrices get blocks along the axis that is summed over, as ONNX Runtime's MatMulNBits has them; convolutions get int8 with
// a scale for each channel.
#include "compiler/quantize/blocks.h"
#include <string.h>

enum { SMALLEST = 256 }; // elements: below, scales and nodes take what integers save

// The axis of weights that is summed over; -1: n has no weights.
static int sum_axis(const node *n, const constant *w) {
    if (is_op(n, "MatMul")) return w->rank - 2;
    if (is_op(n, "Gemm")) return node_int(n, "transB", 0) ? 1 : 0;
    return is_conv(n) ? 0 : -1;
}

static const char *objection(const node *n) {
    const value *v = node_in(n, 1);
    const constant *w = v ? v->constant : NULL;
    if (!is_op(n, "MatMul") && !is_op(n, "Gemm") && !is_conv(n)) return "the operator has no weights";
    if (!w) return "its weights are computed";
    if (w->elem != DT_F32 && w->elem != DT_F16 && w->elem != DT_BF16) return "its weights are not float";
    if (sum_axis(n, w) < 0 || w->rank < 2) return "its weights are a vector";
    if (w->count < SMALLEST) return "its weights are few";
    if (!is_finite(w)) return "its weights have a NaN or an infinity";
    return NULL;
}

// ---------------------------------------------------------------- samples
typedef struct input_moments {
    plan *plan;
    algebra *algebra;
    bool products;
    map by_value; // id -> moments
} input_moments;

static void see_rows(void *user, int id, const tensor *t) {
    input_moments *all = user;
    moments *m = map_get_number(&all->by_value, (uint64_t)id);
    if (!m || t->rank < 1 || t->dtype != DT_F32) return;
    int64_t n = t->dims[t->rank - 1], rows = n ? t->count / n : 0;
    const float *x = t->data;
    if (!m->squares) {
        m->length = n;
        m->squares = ARENA_ARRAY(all->plan->arena, double, n + 1);
        if (all->products) m->products = ARENA_ARRAY(all->plan->arena, float, n *n + 1);
    }
    if (m->length != n) return;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < n; k++) m->squares[k] += (double)x[r * n + k] * x[r * n + k];
    if (m->products) add_products(all->algebra, x, rows, n, m->products);
    m->rows += rows;
}

static bool reads_rows(const plan *p, const node *n) {
    return p->nodes[n->id].quantised && !is_conv(n) && !node_int(n, "transA", 0) && !n->in[0]->constant &&
           n->in[0]->type.elem == DT_F32;
}

static void collect(plan *p, input_moments *all) {
    *all = (input_moments){.plan = p, .algebra = algebra_open(p), .by_value = {.arena = p->arena}};
    all->products = strcmp(p->own->weights, "gptq") == 0;
    for (int i = 0; i < p->module->main->nodes.n; i++) {
        const node *n = p->module->main->nodes.at[i];
        if (!reads_rows(p, n)) continue;
        p->values[n->in[0]->id].observed = true;
        map_put_number(&all->by_value, (uint64_t)n->in[0]->id, ARENA_NEW(p->arena, moments));
    }
    if (all->by_value.n) calibrate(p, see_rows, all);
    for (int i = 0; i < all->by_value.n; i++) {
        moments *m = all->by_value.slots[i].value;
        for (int64_t k = 0; k < m->length; k++) m->squares[k] /= (double)m->rows;
    }
}

// ---------------------------------------------------------------- nodes
static block_format format_of(const plan *p, const node *n) {
    const char *to = p->nodes[n->id].activation == DT_I8 ? "int8" : p->own->to;
    bool plain = p->own->symmetric_weights || is_conv(n) || to[3] == '8';
    block_format f = {.scale = n->in[1]->constant->elem, .symmetric = plain};
    if (is_conv(n) || to[3] == '8') f.type = DT_I8, f.least = -127, f.most = 127;
    else if (to[3] == '4') f.type = plain ? DT_I4 : DT_U4, f.least = plain ? -8 : 0, f.most = plain ? 7 : 15;
    else f.type = plain ? DT_I2 : DT_U2, f.least = plain ? -2 : 0, f.most = plain ? 1 : 3;
    return f;
}

static block_method method_of(const char *name) {
    if (strcmp(name, "mse") == 0) return BLOCK_MSE;
    if (strcmp(name, "kquant") == 0) return BLOCK_KQUANT;
    return strcmp(name, "gptq") == 0 ? BLOCK_GPTQ : BLOCK_MINMAX;
}

// A convolution's output channels have a scale each: the other axes are one block.
static void quantise_convolution(plan *p, node *n) {
    bool whole = is_op(n, "ConvTranspose") && node_int(n, "group", 1) != 1;
    float one = 1;
    quantised_weights(p, n, 1, whole ? -1 : is_op(n, "Conv") ? 0 : 1, &one, NULL);
}

static void quantise_node(plan *p, node *n, input_moments *all) {
    const constant *w = n->in[1]->constant;
    arena *a = arena_within(p->arena);
    block_weights b = {.format = format_of(p, n),
                       .method = method_of(p->own->weights),
                       .input = 1,
                       .axis = sum_axis(n, w),
                       .block = p->own->block};
    const moments *m = all ? map_get_number(&all->by_value, (uint64_t)n->in[0]->id) : NULL;
    if (m && m->length == w->dims[b.axis] && w->rank == 2) {
        b.moments = m->squares;
        if (m->products) b.inverse = inverse_factor(all->algebra, a, m->products, m->length);
    }
    if (b.method == BLOCK_GPTQ && !b.inverse) b.method = BLOCK_KQUANT;
    node_set_in(n, 1, block_quantise(p, n, b));
    arena_destroy(a);
}

static void choose(plan *p) {
    bool any = false;
    for (int i = 0; i < p->nnodes; i++) {
        if (!node_of(p, i)) continue;
        qnode *q = &p->nodes[i];
        const char *why = objection(node_of(p, i));
        q->candidate = !why;
        q->role = why && strcmp(why, "the operator has no weights") == 0 ? ROLE_FLOAT : ROLE_PRODUCT;
        if (!q->why) q->why = why;
        q->quantised = q->candidate && !q->kept;
        any |= q->quantised;
    }
    if (!any)
        diag_fatal(p->diag, NULL,
                   "nothing to quantise: no Conv, ConvTranspose, Gemm or MatMul has finite "
                   "float weights of %d elements or more, or --keep and --node leave them in float",
                   SMALLEST);
}

static void quantise_all(plan *p) {
    for (int i = 0; i < p->nnodes; i++) {
        if (!p->nodes[i].quantised || !node_of(p, i)) continue;
        if (is_conv(node_of(p, i))) quantise_convolution(p, node_of(p, i));
        else quantise_node(p, node_of(p, i), p->state);
    }
    quantise_tables(p);
}

void plan_weights_only(plan *p) {
    if (!p->own->weights) {
        quantize_options *o = ARENA_NEW(p->arena, quantize_options);
        *o = *p->own;
        o->weights = "kquant";
        p->own = o;
    }
    bool gptq = strcmp(p->own->weights, "gptq") == 0;
    apply_patterns(p);
    choose(p);
    find_tables(p);
    if (!p->own->data && gptq) {
        diag_hint(p->diag, "--data DIR names a folder of samples; --weights=kquant does without");
        diag_fatal(p->diag, NULL, "--weights=gptq needs samples");
    }
    if (p->own->data && (gptq || strcmp(p->own->weights, "kquant") == 0)) {
        input_moments *all = ARENA_NEW(p->arena, input_moments);
        collect(p, all);
        p->state = all;
    }
    p->apply = quantise_all;
}
