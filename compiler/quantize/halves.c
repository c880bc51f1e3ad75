// f16 and bf16. In: a prepared module of float32. Out: weights and arithmetic in 16 bits, with a Cast wherever a value passes
// between nodes in 16 bits and others. Inputs and outputs of the model keep their types.
//
// A node stays in float32 if its operator takes nothing else, if a number would become infinite or 0 (an epsilon of 1e-12),
// or if values beyond 65504 are likely: from the samples or, without samples, by the operator.
#include "compiler/quantize/impl.h"
#include "ir/ops/downgrade.h"
#include <math.h>
#include <string.h>

typedef struct conversion {
    plan *plan;
    dtype to;
    double most, least; // magnitudes of `to`
    bool *was_float;    // by id of value: float32 before
    map casts;          // id of value -> its Cast to the other type
    map constants;      // id -> the constant in 16 bits
} conversion;

// ---------------------------------------------------------------- nodes that can compute in halves
// The variable of input i's type, if it may be `to`; -1: no.
static int type_variable(const node *n, int i, dtype to) {
    const schema_version *s = newest_version(n->op);
    if (!s || !s->nin) return -1;
    int k = s->in[i < s->nin ? i : s->nin - 1].type_var;
    return k >= 0 && (s->type_vars[k].types & SCHEMA_TENSOR(to)) ? k : -1;
}

static bool is_variable_of_result(const node *n, int k) {
    const schema_version *s = newest_version(n->op);
    for (int i = 0; s && i < s->nout; i++)
        if (s->out[i].type_var == k) return true;
    return false;
}

static bool is_cast_to_float(const node *n) { return node_is(n, "Cast") && node_int(n, "to", 0) == DT_F32; }

static bool takes(const conversion *c, const node *n) {
    bool any = is_cast_to_float(n);
    for (int i = 0; i < n->nin; i++) {
        if (!n->in[i] || !c->was_float[n->in[i]->id]) continue;
        int k = type_variable(n, i, c->to);
        if (k >= 0 && is_variable_of_result(n, k)) any = true;
    }
    return any;
}

static bool may_overflow(const node *n) {
    static const char *const names[] = {"Pow",    "Exp",      "ReduceSumSquare", "ReduceSum", "ReduceL2",
                                        "CumSum", "ReduceL1", "ReduceProd",      "Square"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], n->op->name) == 0) return true;
    return false;
}

// A number that has no counterpart. Masks of -1e9 are as good as -65504.
static bool loses_number(const conversion *c, const node *n) {
    for (int i = 0; i < n->nin; i++) {
        const constant *k = n->in[i] ? n->in[i]->constant : NULL;
        if (!k || k->elem != DT_F32 || k->count != 1) continue;
        double v = fabs(constant_float(k, 0));
        if (v > 0 && v < c->least) return true;
    }
    return false;
}

static const char *objection(const conversion *c, const node *n) {
    const plan *p = c->plan;
    static const char *const kept[] = {"NonMaxSuppression",    "Range",          "RandomNormalLike",
                                       "RandomUniformLike",    "QuantizeLinear", "DequantizeLinear",
                                       "DynamicQuantizeLinear"};
    if (!newest_version(n->op) || *n->op->domain) return "the operator is not of ONNX's standard";
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strcmp(kept[i], n->op->name) == 0) return "the operator stays in float";
    if (node_region(n, 0)) return "it has a graph of its own";
    if (!takes(c, n)) return "it takes no 16-bit floats";
    if (c->to != DT_F16) return NULL;
    if (loses_number(c, n)) return "a constant would become 0";
    if (!p->own->data && may_overflow(n)) return "its values may exceed 65504";
    for (int i = 0; i < n->nin + n->nout; i++) {
        const value *v = i < n->nin ? n->in[i] : n->out[i - n->nin];
        const qvalue *q = v ? &p->values[v->id] : NULL;
        if (q && q->count && (q->most > c->most / 2 || q->least < -c->most / 2))
            return "its values come close to 65504";
    }
    return NULL;
}

static void choose(conversion *c) {
    plan *p = c->plan;
    const graph *g = p->module->main;
    int converted = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = g->nodes.at[i];
        qnode *q = &p->nodes[n->id];
        const char *why = objection(c, n);
        q->candidate = !why;
        if (!q->why) q->why = why;
        q->role = takes(c, n) ? ROLE_PRODUCT : ROLE_FLOAT;
        q->quantised = q->candidate && !q->kept;
        converted += q->quantised;
    }
    if (converted) return;
    diag_fatal(p->diag, NULL, "nothing to convert: no float32 node can compute in %s", p->own->to);
}

// ---------------------------------------------------------------- values
static value *converted_constant(conversion *c, value *v) {
    value *made = map_get_number(&c->constants, (uint64_t)v->id);
    if (made) return made;
    arena *a = c->plan->arena;
    const constant *from = v->constant;
    constant *k = constant_new(a, c->to, from->rank, from->dims);
    for (int64_t i = 0; i < from->count; i++) {
        double x = constant_float(from, i);
        if (isfinite(x) && fabs(x) > c->most) x = x > 0 ? c->most : -c->most;
        dtype_store_float(c->to, (void *)k->data, i, x, false);
    }
    made = value_constant(v->graph, arena_printf(a, "%s_%s", v->name, c->plan->own->to), k);
    map_put_number(&c->constants, (uint64_t)v->id, made);
    return made;
}

static value *cast_of(conversion *c, value *v) {
    value *made = map_get_number(&c->casts, (uint64_t)v->id);
    if (made) return made;
    graph *g = c->plan->module->main;
    arena *a = c->plan->arena;
    dtype to = v->type.elem == DT_F32 ? c->to : DT_F32;
    node *before = v->def ? node_next(v->def) : g->nodes.at[0];
    node *n = new_node(g, before, "Cast", arena_printf(a, "%s_Cast", v->name), 1, &v);
    node_set_attr(n, (attr){.name = "to", .kind = ATTR_INT, .i = (int)to});
    made = new_output(n, arena_printf(a, "%s_%s", v->name, to == DT_F32 ? "float" : c->plan->own->to));
    map_put_number(&c->casts, (uint64_t)v->id, made);
    return made;
}

static void convert_inputs(conversion *c, node *n) {
    bool half = c->plan->nodes[n->id].quantised;
    for (int i = 0; i < n->nin; i++) {
        value *v = n->in[i];
        if (!v || v->id >= c->plan->nvalues || !c->was_float[v->id]) continue;
        int k = type_variable(n, i, c->to);
        bool wants = half && k >= 0 && (is_variable_of_result(n, k) || is_cast_to_float(n));
        if (v->constant) {
            if (wants) node_set_in(n, i, converted_constant(c, v));
        } else if ((v->type.elem == c->to) != wants) {
            node_set_in(n, i, cast_of(c, v));
        }
    }
}

// Graphs of If and Loop, and outputs of the model, read float32.
static void keep_outside(conversion *c, value *v) {
    int n = v->uses.n;
    use *uses = ARENA_ARRAY(c->plan->arena, use, n + 1);
    memcpy(uses, v->uses.at, (size_t)n * sizeof *uses);
    for (int i = 0; i < n; i++) {
        if (uses[i].graph) graph_set_output(uses[i].graph, uses[i].index, cast_of(c, v));
        else if (uses[i].node->graph != v->graph) node_set_in(uses[i].node, uses[i].index, cast_of(c, v));
    }
}

static void convert_node(conversion *c, node *n) {
    convert_inputs(c, n);
    if (!c->plan->nodes[n->id].quantised) return;
    if (is_cast_to_float(n)) node_set_attr(n, (attr){.name = "to", .kind = ATTR_INT, .i = (int)c->to});
    infer_node(n);
    for (int i = 0; i < n->nout; i++)
        if (n->out[i] && c->was_float[n->out[i]->id] && n->out[i]->type.elem == c->to)
            keep_outside(c, n->out[i]);
}

static void observe_all(plan *p) {
    const graph *g = p->module->main;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->nout; k++) {
            const value *v = g->nodes.at[i]->out[k];
            if (v && v->type.kind == TYPE_TENSOR && v->type.elem == DT_F32) p->values[v->id].observed = true;
        }
}

// In topological order: types follow from those of the inputs.
static void convert_all(plan *p) {
    conversion c = *(conversion *)p->state;
    c.plan = p;
    c.casts = c.constants = (map){.arena = p->arena};
    VEC(node *) nodes = {0}; // the list grows
    graph *g = p->module->main;
    for (int i = 0; i < g->nodes.n; i++) VEC_PUSH(p->arena, &nodes, g->nodes.at[i]);
    for (int i = 0; i < nodes.n; i++) convert_node(&c, nodes.at[i]);
}

void plan_halves(plan *p) {
    bool f16 = strcmp(p->own->to, "f16") == 0;
    conversion *c = ARENA_NEW(p->arena, conversion);
    *c = (conversion){.plan = p,
                      .to = f16 ? DT_F16 : DT_BF16,
                      .most = f16 ? 65504 : 0x1.fep127,
                      .least = f16 ? 0x1p-25 : 0x1p-134};
    c->was_float = ARENA_ARRAY(p->arena, bool, p->nvalues + 1);
    for (int i = 0; i < p->nvalues; i++) {
        const type *t = &p->module->values.at[i]->type;
        c->was_float[i] = t->kind == TYPE_TENSOR && t->elem == DT_F32;
    }
    apply_patterns(p);
    if (p->own->data && f16) {
        observe_all(p);
        p->infinities = true;
        calibrate(p, NULL, NULL);
    }
    choose(c);
    p->state = c;
    p->apply = convert_all;
}
