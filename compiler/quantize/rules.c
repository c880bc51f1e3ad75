// Which nodes are quantised, and which values are stored as integers between them. In: a prepared module. Out: roles,
// candidates, choices.
//
// A product with constant weights reads quantised values. Other operators are quantised where they are between quantised
// nodes, so that values stay integers from one product to the next: y = Add(Conv(a), Conv(b)) before a third Conv. The
// rules are those of ONNX Runtime and TensorRT: no quantisation between a product and its bias, Relu or Clip; one scale
// on both sides of operators that only move elements.
#include "compiler/quantize/impl.h"
#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    role role;
} operators[] = {
    {"Conv", ROLE_PRODUCT},      {"ConvTranspose", ROLE_PRODUCT},
    {"Gemm", ROLE_PRODUCT},      {"MatMul", ROLE_PRODUCT},
    {"Relu", ROLE_CLAMP},        {"Clip", ROLE_CLAMP},
    {"MaxPool", ROLE_MOVE},      {"GlobalMaxPool", ROLE_MOVE},
    {"Reshape", ROLE_MOVE},      {"Transpose", ROLE_MOVE},
    {"Squeeze", ROLE_MOVE},      {"Unsqueeze", ROLE_MOVE},
    {"Flatten", ROLE_MOVE},      {"Slice", ROLE_MOVE},
    {"Gather", ROLE_MOVE},       {"Identity", ROLE_MOVE},
    {"Split", ROLE_MOVE},        {"DepthToSpace", ROLE_MOVE},
    {"Expand", ROLE_MOVE},       {"SpaceToDepth", ROLE_MOVE},
    {"Tile", ROLE_MOVE},         {"Pad", ROLE_MOVE},
    {"Resize", ROLE_MOVE},       {"Concat", ROLE_JOIN},
    {"AveragePool", ROLE_POOL},  {"GlobalAveragePool", ROLE_POOL},
    {"ReduceMean", ROLE_POOL},   {"Add", ROLE_PAIR},
    {"Sub", ROLE_PAIR},          {"Mul", ROLE_PAIR},
    {"Div", ROLE_PAIR},          {"Sigmoid", ROLE_POINT},
    {"Tanh", ROLE_POINT},        {"LeakyRelu", ROLE_POINT},
    {"HardSigmoid", ROLE_POINT}, {"HardSwish", ROLE_POINT},
    {"Elu", ROLE_POINT},         {"Gelu", ROLE_POINT},
    {"Softplus", ROLE_POINT},    {"Mish", ROLE_POINT},
    {"Swish", ROLE_POINT},       {"PRelu", ROLE_POINT},
    {"Erf", ROLE_POINT},         {"Selu", ROLE_POINT},
    {"Celu", ROLE_POINT},
};

static bool is_float(const value *v) { return v && v->type.kind == TYPE_TENSOR && v->type.elem == DT_F32; }
// ---------------------------------------------------------------- roles
static int ninputs_of_data(role r, const node *n) { return r == ROLE_JOIN ? n->nin : r == ROLE_PAIR ? 2 : 1; }

// A row that is added to the result of a product, like a bias.
static bool is_row(const constant *c) {
    return c->rank <= 1 || c->count == c->dims[c->rank - 1] || c->count == 1;
}

// A pointwise operator of a constant and a computed value.
static role role_of_pair(const node *n) {
    const constant *a = infer_constant(n, 0), *b = infer_constant(n, 1);
    if (!a && !b) return is_op(n, "Div") ? ROLE_FLOAT : ROLE_PAIR;
    const value *other = a ? node_in(n, 1) : node_in(n, 0);
    const constant *c = a ? a : b;
    if (a && b) return ROLE_FLOAT;
    if (is_op(n, "Add") && other->def && is_op(other->def, "MatMul") && is_row(c)) return ROLE_BIAS;
    return c->count == 1 ? ROLE_POINT : ROLE_FLOAT;
}

static role role_of(const node *n) {
    role r = ROLE_FLOAT;
    for (size_t i = 0; i < sizeof operators / sizeof *operators && !*n->op->domain; i++)
        if (strcmp(operators[i].name, n->op->name) == 0) r = operators[i].role;
    if (r == ROLE_PAIR) r = role_of_pair(n);
    if (r == ROLE_MOVE && is_op(n, "Resize") && strcmp(node_string(n, "mode", "nearest"), "nearest") != 0)
        r = ROLE_POOL;
    if (is_op(n, "PRelu") && !infer_constant(n, 1)) r = ROLE_FLOAT;
    return r;
}

static const constant *weights_of(const node *n) {
    const constant *w = infer_constant(n, 1);
    return w && w->elem == DT_F32 && w->kind != CONST_STRINGS && w->count > 0 ? w : NULL;
}

// NULL: n can be quantised.
static const char *objection(const node *n, role r) {
    if (r == ROLE_FLOAT) return "the operator stays in float";
    if (n->nout < 1 || !is_float(node_out(n, 0))) return "its result is not float32";
    for (int i = 0; i < ninputs_of_data(r, n); i++)
        if (!is_float(node_in(n, i))) return "its input is not float32";
    for (int i = 1; i < n->nout; i++)
        if (n->out[i] && (is_op(n, "MaxPool") || !is_float(n->out[i]))) return "a second result is in use";
    if (r == ROLE_PRODUCT && !weights_of(n)) return "its weights are computed";
    if (r == ROLE_PRODUCT && infer_constant(n, 0)) return "its input is constant";
    if (r == ROLE_PRODUCT && !is_finite(weights_of(n))) return "its weights have a NaN or an infinity";
    if (r == ROLE_MOVE && is_op(n, "Pad") && strcmp(node_string(n, "mode", "constant"), "constant") == 0 &&
        infer_constant(n, 2) && constant_float(infer_constant(n, 2), 0) != 0)
        return "it pads with other values than 0";
    if (r == ROLE_CLAMP && is_op(n, "Clip") &&
        ((node_in(n, 1) && !infer_constant(n, 1)) || (node_in(n, 2) && !infer_constant(n, 2))))
        return "its bounds are computed";
    return NULL;
}

void find_roles(plan *p) {
    const graph *g = p->module->main;
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = g->nodes.at[i];
        qnode *q = &p->nodes[n->id];
        q->role = role_of(n);
        const char *why = objection(n, q->role);
        q->candidate = !why;
        if (!q->why) q->why = why;
    }
    for (int i = 0; i < p->nnodes; i++) {
        const node *n = node_of(p, i);
        if (!n || !body_owner(n) || role_of(n) != ROLE_PRODUCT) continue;
        p->nodes[i].role = ROLE_PRODUCT;
        p->nodes[i].why = arena_printf(p->arena, "it is in the body of node '%s' (%s)",
                                       node_label(p->arena, body_owner(n)), body_owner(n)->op->name);
    }
}

// ---------------------------------------------------------------- nodes between quantised nodes
static const qnode *state_of(const plan *p, const node *n) { return &p->nodes[n->id]; }

static const node *def_in(const node *n, const value *v) {
    return v && v->def && v->def->graph == n->graph ? v->def : NULL;
}

static bool is_quantised(const plan *p, const node *n) { return n && state_of(p, n)->quantised; }

static bool only_read_by(const value *v, const node *n) {
    for (int i = 0; i < v->uses.n; i++)
        if (v->uses.at[i].node != n) return false;
    return true;
}

// Whether v is the result of a node that stores bytes: a convolution or what follows it. Products of matrices give floats.
static bool gives_bytes(const plan *p, const value *v) {
    for (const node *d = v->def; d && is_quantised(p, d); d = d->in[0]->def) {
        role r = state_of(p, d)->role;
        if (r == ROLE_PRODUCT) return is_op(d, "Conv") || is_op(d, "ConvTranspose");
        if (r != ROLE_CLAMP && r != ROLE_BIAS) return true;
    }
    return false;
}

static bool feeds_quantised(const plan *p, const node *n) {
    for (int j = 0; j < n->nout; j++)
        for (int i = 0; n->out[j] && i < n->out[j]->uses.n; i++) {
            const node *user = n->out[j]->uses.at[i].node;
            if (user && user->graph == n->graph && is_quantised(p, user) &&
                n->out[j]->uses.at[i].index < ninputs_of_data(state_of(p, user)->role, user))
                return true;
        }
    return false;
}

static bool has_quantised_inputs(const plan *p, const node *n) {
    role r = state_of(p, n)->role;
    for (int i = 0; i < ninputs_of_data(r, n); i++) {
        const value *v = n->in[i];
        if (v->constant) {
            if (r == ROLE_POINT) continue;
            return false;
        }
        if (r == ROLE_CLAMP || r == ROLE_BIAS ? !is_quantised(p, def_in(n, v)) : !gives_bytes(p, v))
            return false;
    }
    if (r == ROLE_POINT && n->in[0]->constant) return gives_bytes(p, n->in[1]);
    return true;
}

// ---------------------------------------------------------------- values
// Whether v is a function of `from` alone, by pointwise nodes.
static bool derives_from(const plan *p, const value *v, const value *from) {
    for (int steps = 0; v != from; steps++) {
        const node *d = v->def;
        if (!d || steps > 8) return false;
        role r = state_of(p, d)->role;
        if (r != ROLE_POINT && r != ROLE_CLAMP) return false;
        v = d->in[0]->constant ? d->in[1] : d->in[0];
    }
    return true;
}

// x * f(x): v is f(x).
static bool is_gate(const plan *p, const node *n, int i) {
    const value *v = n->in[i], *other = n->in[1 - i];
    return state_of(p, n)->role == ROLE_PAIR && v != other && derives_from(p, v, other);
}
static bool has_gate(const plan *p, const node *n) {
    return state_of(p, n)->role == ROLE_PAIR && (is_gate(p, n, 0) || is_gate(p, n, 1));
}

// v is computed in the same breath as its only reader.
static bool stays_in_registers(const plan *p, const value *v, const node *reader) {
    const node *d = def_in(reader, v);
    if (!is_quantised(p, d) || !only_read_by(v, reader)) return false;
    role r = state_of(p, d)->role, by = state_of(p, reader)->role;
    bool chain = r == ROLE_POINT || r == ROLE_CLAMP || has_gate(p, d);
    if (by == ROLE_CLAMP)
        return r == ROLE_PRODUCT || r == ROLE_BIAS || r == ROLE_PAIR || r == ROLE_POOL || chain;
    return by == ROLE_POINT && (r == ROLE_POINT || has_gate(p, d));
}

bool reads_quantised(const plan *p, const node *n, int i) {
    const qnode *q = state_of(p, n);
    if (!q->quantised || i >= ninputs_of_data(q->role, n) || n->in[i]->constant) {
        bool computed_second = q->quantised && q->role == ROLE_POINT && i == 1 && n->in[0]->constant;
        if (!computed_second) return false;
    }
    switch (q->role) {
    case ROLE_FLOAT:
    case ROLE_BIAS: return false;
    case ROLE_PRODUCT:
    case ROLE_MOVE:
    case ROLE_JOIN:
    case ROLE_POOL: return true;
    case ROLE_PAIR: return !is_gate(p, n, i);
    case ROLE_CLAMP:
    case ROLE_POINT: return !stays_in_registers(p, n->in[i], n);
    }
    return false;
}

int group_of(const plan *p, int value) {
    while (p->values[value].group != value) value = p->values[value].group;
    return value;
}

static void join(const plan *p, const value *a, const value *b) {
    int x = group_of(p, a->id), y = group_of(p, b->id);
    if (x != y) p->values[y < x ? x : y].group = y < x ? y : x;
}

// Values on both sides of a movement have one scale, and so have the parts that only a concatenation reads.
static void share_scales(plan *p) {
    const graph *g = p->module->main;
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = g->nodes.at[i];
        role r = state_of(p, n)->role;
        if (!is_quantised(p, n) || (r != ROLE_MOVE && r != ROLE_JOIN)) continue;
        for (int k = 0; k < ninputs_of_data(r, n); k++)
            for (int j = 0; j < n->nout; j++)
                if (n->out[j] && p->values[n->out[j]->id].quantised && !n->in[k]->constant &&
                    (r == ROLE_MOVE || only_read_by(n->in[k], n)))
                    join(p, n->in[k], n->out[j]);
    }
}

static void choose_values(plan *p) {
    const graph *g = p->module->main;
    for (int i = 0; i < p->nvalues; i++) p->values[i].quantised = false, p->values[i].group = i;
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = g->nodes.at[i];
        for (int k = 0; k < n->nin; k++)
            if (n->in[k] && is_quantised(p, n) && reads_quantised(p, n, k))
                p->values[n->in[k]->id].quantised = true;
    }
    share_scales(p);
}

void choose_nodes(plan *p) {
    const graph *g = p->module->main;
    for (int i = 0; i < g->nodes.n; i++) {
        qnode *q = &p->nodes[g->nodes.at[i]->id];
        q->quantised = q->candidate && !q->kept;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < g->nodes.n; i++) {
            const node *n = g->nodes.at[i];
            qnode *q = &p->nodes[n->id];
            if (!q->quantised || q->role == ROLE_PRODUCT) continue;
            if (has_quantised_inputs(p, n) && feeds_quantised(p, n)) continue;
            q->quantised = false;
            changed = true;
            if (!q->why) q->why = "it is not between quantised nodes";
        }
    }
    choose_values(p);
}
