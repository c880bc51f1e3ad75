// Writes the plan into a graph. In: a prepared module and a plan. Out: QuantizeLinear and DequantizeLinear around every
// quantised value, and weights as integers.
//
//   x ─ Conv ─ y          x ─ Q ─ DQ ─ Conv ─ y
//   w ───┘         ->     w (int8) ─ DQ ──┘
#include "compiler/quantize/impl.h"
#include <string.h>

node *new_node(graph *g, node *before, const char *op, const char *name, int nin, value *const *in) {
    arena *a = g->module->arena;
    loc *at = ARENA_NEW(a, loc);
    *at = (loc){.file = g->module->file, .node = name, .op = op};
    return node_new(g, before, op_find("", op), at, nin, in);
}

value *new_output(node *n, const char *name) {
    value *v = node_output(n, 0, name);
    infer_node(n);
    return v;
}

// ---------------------------------------------------------------- values
static bool reads_back(const plan *p, const value *v, const use *u) {
    if (!u->node) return false; // an output of the model keeps its floats
    if (reads_quantised(p, u->node, u->index)) return true;
    return v->def && p->nodes[v->def->id].quantised && u->node->graph == v->graph;
}

// The uses of a value that read it back from integers, found before the graph changes.
typedef struct readers {
    value *v;
    VEC(use) uses;
} readers;

static readers readers_of(const plan *p, value *v) {
    readers r = {.v = v};
    for (int i = 0; i < v->uses.n; i++)
        if (reads_back(p, v, &v->uses.at[i])) VEC_PUSH(p->arena, &r.uses, v->uses.at[i]);
    return r;
}

static void quantise_value(const plan *p, const readers *r) {
    value *v = r->v;
    const qvalue *q = &p->values[v->id];
    graph *g = p->module->main;
    arena *a = g->module->arena;
    node *before = v->def ? node_next(v->def) : g->nodes.at[0];
    value *scale = value_number(g, arena_printf(a, "%s_scale", v->name), DT_F32, q->scale);
    value *zero = value_number(g, arena_printf(a, "%s_zero_point", v->name), q->type, q->zero);
    node *to = new_node(g, before, "QuantizeLinear", arena_printf(a, "%s_QuantizeLinear", v->name), 3,
                        (value *[]){v, scale, zero});
    value *stored = new_output(to, arena_printf(a, "%s_quantized", v->name));
    node *back = new_node(g, before, "DequantizeLinear", arena_printf(a, "%s_DequantizeLinear", v->name), 3,
                          (value *[]){stored, scale, zero});
    value *restored = new_output(back, arena_printf(a, "%s_dequantized", v->name));
    for (int i = 0; i < r->uses.n; i++) node_set_in(r->uses.at[i].node, r->uses.at[i].index, restored);
}

// ---------------------------------------------------------------- weights
// The axis of output channels; -1: one scale for all.
static int channel_axis(const node *n, const constant *w) {
    if (node_is(n, "Conv")) return 0;
    if (node_is(n, "ConvTranspose")) return node_int(n, "group", 1) == 1 ? 1 : -1;
    if (node_is(n, "Gemm")) return node_int(n, "transB", 0) ? 0 : 1;
    return w->rank == 2 ? 1 : -1;
}

// The bias, if it can become int32.
static const constant *bias_of(const node *n, int64_t channels) {
    const value *b = node_in(n, 2);
    if (!b || !b->constant || b->constant->elem != DT_F32 || node_is(n, "MatMul")) return NULL;
    if (b->constant->rank != 1 || b->constant->count != channels) return NULL;
    bool plain = node_float(n, "alpha", 1) == 1 && node_float(n, "beta", 1) == 1;
    return plain && is_finite(b->constant) ? b->constant : NULL;
}

static void quantise_product(plan *p, node *n, float input_scale) {
    const constant *w = n->in[1]->constant;
    int axis = channel_axis(n, w);
    int64_t channels = axis >= 0 ? w->dims[axis] : -1;
    bias_add_missing(p, n);
    if (node_is(n, "ConvTranspose") && axis < 0) channels = w->dims[1] * node_int(n, "group", 1);
    bool whole = p->own->per_tensor || p->nodes[n->id].per_tensor;
    quantised_weights(p, n, 1, whole ? -1 : axis, &input_scale, bias_of(n, channels));
}

// A row that is added to a product of matrices gets the rank of the product. ONNX Runtime makes a Gemm of MatMul and Add if
// the row has rank 1, and has no integer Gemm with a float result.
static void widen_bias(plan *p, const node *n) {
    const value *y = n->out[0];
    if (y->type.rank < 3) return;
    for (int i = 0; i < y->uses.n; i++) {
        node *add = y->uses.at[i].node;
        if (!add || add->id >= p->nnodes || p->nodes[add->id].role != ROLE_BIAS) continue;
        int k = 1 - y->uses.at[i].index;
        const constant *c = add->in[k]->constant;
        if (c->rank != 1) continue;
        constant *wide = ARENA_NEW(p->arena, constant);
        *wide = *c;
        wide->rank = y->type.rank;
        wide->dims = ARENA_ARRAY(p->arena, int64_t, wide->rank);
        for (int j = 0; j < wide->rank; j++) wide->dims[j] = j + 1 < wide->rank ? 1 : c->dims[0];
        node_set_in(add, k, value_constant(n->graph, add->in[k]->name, wide));
    }
}

void insert_qdq(plan *p) {
    graph *g = p->module->main;
    VEC(node *) products = {0};
    VEC(readers) values = {0};
    for (int i = 0; i < g->nodes.n; i++) {
        const qnode *q = &p->nodes[g->nodes.at[i]->id];
        if (q->quantised && q->role == ROLE_PRODUCT) VEC_PUSH(p->arena, &products, g->nodes.at[i]);
    }
    for (int i = 0; i < p->nvalues; i++)
        if (p->values[i].quantised) VEC_PUSH(p->arena, &values, readers_of(p, p->module->values.at[i]));
    for (int i = 0; i < products.n; i++) {
        quantise_product(p, products.at[i], p->values[products.at[i]->in[0]->id].scale);
        widen_bias(p, products.at[i]);
    }
    for (int i = 0; i < values.n; i++) quantise_value(p, &values.at[i]);
    quantise_tables(p);
}
