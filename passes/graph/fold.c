// Constant folding: a node whose inputs are all constant is lowered alone and run by the interpreter, within
// limits of work and memory; its outputs become constants. Values whose symbolic contents are constant become
// constants too.
#include "ir/kernel/interp.h"
#include "ir/kernel/lower.h"
#include "ir/target.h"
#include "passes/passes.h"
#include <string.h>

static bool is_foldable(const node *n) {
    if (!n->op->lower && !n->op->is_view) return false;
    if (n->op->has_side_effect_on_random || n->op->uses_system || n->op->custom || n->nout == 0) return false;
    for (int j = 0; j < n->nattrs; j++)
        if (n->attrs[j].kind == ATTR_GRAPH) return false;
    for (int j = 0; j < n->nin; j++)
        if (n->in[j] && (!n->in[j]->constant || n->in[j]->constant->kind == CONST_STRINGS)) return false;
    for (int j = 0; j < n->nout; j++)
        if (n->out[j] && (n->out[j]->type.kind != TYPE_TENSOR || n->out[j]->type.rank == RANK_UNKNOWN ||
                          n->out[j]->type.elem == DT_STRING))
            return false;
    return true;
}

// Whether n only widens the elements of a constant (DequantizeLinear or Cast of weights): the constant stays
// packed and its readers convert, which saves memory and bandwidth.
enum { WIDEN_FREELY = 256 };
static bool widens(const node *n) {
    const constant *c = n->nin && n->in[0] ? n->in[0]->constant : NULL;
    if (!n->op->converts || !c || n->nout != 1 || !n->out[0]) return false;
    const type *t = &n->out[0]->type;
    bool quantised = dtype_bits(c->elem) <= 8 && c->elem != DT_BOOL &&
                     dtype_is_float(t->elem); // the operands of integer products
    if (c->count * dtype_bits(c->elem) <= (quantised ? 8 : 8 * WIDEN_FREELY)) return false;
    if (dtype_bits(t->elem) <= dtype_bits(c->elem) || t->rank != c->rank) return false;
    for (int j = 0; j < t->rank; j++)
        if (!dim_is(t->dims[j], c->dims[j])) return false;
    return true;
}

static bool multiplies(const use *u) { return u->node && u->node->op->is_product && u->index <= 1; }

static bool is_multiplied(const value *v) {
    for (int j = 0; j < v->uses.n; j++)
        if (multiplies(&v->uses.at[j])) return true;
    return false;
}

// Large weights that only products read in another order stay in the mapped file: a copy of each would be as much
// memory as the model. So do those of a product of which a tied embedding looks up columns.
static bool is_read_through(const node *n, const pass_context *c) {
    enum { LARGE = 1 << 20 };
    const value *v = n->nout == 1 ? n->out[0] : NULL;
    const constant *from = n->nin ? n->in[0]->constant : NULL;
    if (!n->op->permutes || !v || !from || c->opt < 1 || (c->target && c->target->arch.is_gpu)) return false;
    if (dtype_size(from->elem, from->count) < LARGE || !v->uses.n) return false;
    for (int j = 0; j < v->uses.n; j++) {
        const use *u = &v->uses.at[j];
        if (!u->node || u->node->graph != n->graph) return false;
        bool looks_up = u->node->op->looks_up && u->index == 0 && is_multiplied(n->in[0]);
        if (!multiplies(u) && !looks_up) return false;
    }
    return true;
}

// Bytes of all outputs; 0 if a size is not constant.
static int64_t output_bytes(const node *n) {
    int64_t sum = 0;
    for (int j = 0; j < n->nout; j++) {
        if (!n->out[j]) continue;
        int64_t count = 1;
        for (int i = 0; i < n->out[j]->type.rank; i++) {
            dim *d = n->out[j]->type.dims[i];
            if (!dim_is_const(d)) return 0; // data-dependent: the interpreter's own limits apply
            if (dim_value(d) && __builtin_mul_overflow(count, dim_value(d), &count)) return INT64_MAX;
        }
        sum += dtype_size(n->out[j]->type.elem, count);
    }
    return sum;
}

static void make_constant(module *m, value *v, constant *k) {
    v->constant = k;
    v->def = NULL;
    dim **d = ARENA_ARRAY(m->arena, dim *, k->rank + 1);
    for (int i = 0; i < k->rank; i++) d[i] = dim_const(m->dims, k->dims[i]);
    v->type = type_tensor(m->arena, k->elem, k->rank, d);
}

static void check_type_sizes(module *m, const value *v) {
    for (int i = 0; i < v->type.rank; i++)
        if (v->type.dims[i]->max < 0)
            diag_fatal(m->diag, v->def ? v->def->loc : NULL, "'%s' would have dimension %d = %s", v->name, i,
                       dim_text(m->arena, v->type.dims[i]));
}

// Replaces runtime symbols among the sizes and elements of a folded value by its actual ones.
static void put_found_sizes(module *m, const value *old, const constant *k) {
    int contents = dtype_is_int(k->elem) && old->ncontents == k->count ? old->ncontents : 0;
    int count = k->rank + contents;
    dim **before = ARENA_ARRAY(m->arena, dim *, count + 1), **now = ARENA_ARRAY(m->arena, dim *, count + 1);
    for (int i = 0; i < count; i++) {
        bool size = i < k->rank;
        before[i] = size ? old->type.dims[i] : old->contents[i - k->rank];
        now[i] = dim_const(m->dims, size ? k->dims[i] : constant_int(k, i - k->rank));
    }
    if (!replace_unknown_dims(m, before, now, count)) return;
    for (int j = 0; j < m->values.n; j++)
        if (m->values.at[j]->type.kind == TYPE_TENSOR) check_type_sizes(m, m->values.at[j]);
}

// n's outputs become constants of its graph, and n is deleted.
static void detach(node *n, constant **k) {
    module *m = n->graph->module;
    for (int j = 0; j < n->nout; j++) {
        value *old = n->out[j];
        if (!old) continue;
        value *v = value_constant(n->graph, old->name, k[j]);
        v->contents = old->contents;
        v->ncontents = old->ncontents;
        make_constant(m, v, k[j]);
        value was = *old;
        value_replace(old, v);
        put_found_sizes(m, &was, k[j]);
    }
    node_delete(n);
}

// A view of a constant shares its data: weights stay in the mapped file.
static bool fold_view(node *n) {
    const constant *from = n->op->is_view && n->nout == 1 && n->out[0] ? n->in[0]->constant : NULL;
    if (!from || from->elem != n->out[0]->type.elem) return false;
    const type *t = &n->out[0]->type;
    constant *k = ARENA_NEW(n->graph->module->arena, constant);
    *k = *from;
    k->rank = t->rank;
    k->dims = ARENA_ARRAY(n->graph->module->arena, int64_t, t->rank + 1);
    int64_t count = 1;
    for (int j = 0; j < t->rank; j++) {
        if (!dim_is_const(t->dims[j])) return false;
        k->dims[j] = dim_value(t->dims[j]);
        if (k->dims[j] < 0 || __builtin_mul_overflow(count, k->dims[j], &count)) return false;
    }
    if (!count || count != from->count) return false; // sizes of 0 are checked where views are lowered
    detach(n, &k);
    return true;
}

constant **evaluate_node(node *n, const pass_context *c) {
    module *m = c->module;
    int64_t bytes = output_bytes(n);
    if (!is_foldable(n) || bytes < 0 || bytes > c->fold_bytes) return NULL;
    program *p = lower_alone(n);
    constant **k = ARENA_ARRAY(m->arena, constant *, n->nout);
    int wanted = 0;
    for (int j = 0; j < n->nout; j++) // the interpreter does not accept gaps
        if (p->outputs.at[j]) p->outputs.at[wanted++] = p->outputs.at[j];
    p->outputs.n = wanted;
    tensor *out = ARENA_ARRAY(m->arena, tensor, wanted + 1);
    const char *message;
    interp_limits limits = {c->fold_work, 2 * c->fold_bytes};
    if (interp_program(p, m->arena, NULL, out, limits, &message) != INTERP_OK)
        return NULL; // the error is reported at run time
    for (int j = 0, i = 0; j < n->nout; j++) {
        if (!n->out[j]) continue;
        k[j] = constant_new(m->arena, out[i].dtype, out[i].rank, out[i].dims);
        k[j]->data = out[i++].data;
    }
    return k;
}

static bool fold_node(node *n, const pass_context *c) {
    constant **k = evaluate_node(n, c);
    if (k) detach(n, k);
    return k;
}

// Folds a small integer tensor whose contents inference has found to be constant.
static bool fold_contents(node *n) {
    for (int j = 0; j < n->nout; j++) {
        const value *v = n->out[j];
        if (!v) continue;
        if (!v->contents || v->type.kind != TYPE_TENSOR || v->type.rank > 1 ||
            (!dtype_is_int(v->type.elem) && v->type.elem != DT_BOOL))
            return false;
        if (dtype_bits(v->type.elem) < 8) return false;
        bool sized = v->type.rank ? dim_is(v->type.dims[0], v->ncontents) : v->ncontents == 1;
        if (!sized) return false; // a run checks whether the elements fill the shape
        for (int i = 0; i < v->ncontents; i++)
            if (!dim_is_const(v->contents[i])) return false;
    }
    module *m = n->graph->module;
    constant **k = ARENA_ARRAY(m->arena, constant *, n->nout);
    for (int j = 0; j < n->nout; j++) {
        const value *v = n->out[j];
        if (!v) continue;
        int64_t count = v->ncontents;
        k[j] = constant_new(m->arena, v->type.elem, v->type.rank, &count);
        for (int i = 0; i < v->ncontents; i++)
            dtype_store_int(v->type.elem, (void *)k[j]->data, i, dim_value(v->contents[i]));
    }
    detach(n, k);
    return true;
}

static bool has_sizes(const type *t) { return t->kind == TYPE_TENSOR && t->rank != RANK_UNKNOWN; }

static bool has_unknown_sizes(const value *v) {
    for (int j = 0; v && has_sizes(&v->type) && j < v->type.rank; j++)
        if (v->type.dims[j]->kind == DIM_OPAQUE) return true;
    return false;
}

// Infers sizes again from inputs that folding made constant, such as limits of a range or scales of an image:
// lowering sees the constants and would not set the runtime symbols of the first inference.
static void infer_again(node *n) {
    bool unknown = false, known = false;
    for (int j = 0; j < n->nout; j++) unknown |= has_unknown_sizes(n->out[j]);
    for (int j = 0; j < n->nin; j++) known |= n->in[j] && n->in[j]->constant;
    for (int j = 0; j < n->nattrs; j++) unknown &= n->attrs[j].kind != ATTR_GRAPH;
    if (!unknown || !known) return;
    module *m = n->graph->module;
    type *before = ARENA_ARRAY(m->arena, type, n->nout + 1);
    for (int j = 0; j < n->nout; j++)
        if (n->out[j]) before[j] = n->out[j]->type;
    infer_node(n);
    for (int j = 0; j < n->nout; j++)
        if (has_sizes(&before[j]) && n->out[j]->type.rank == before[j].rank)
            replace_unknown_dims(m, before[j].dims, n->out[j]->type.dims, before[j].rank);
}

static void fold_graph(graph *g, pass_context *c) {
    for (int j = 0; j < g->nodes.n; j++) {
        node *n = g->nodes.at[j];
        for (int i = 0; i < n->nattrs; i++)
            if (n->attrs[i].kind == ATTR_GRAPH) fold_graph(n->attrs[i].graph, c);
        if (n->nout && !n->op->has_side_effect_on_random && fold_contents(n)) {
            j--;
            continue;
        }
        infer_again(n);
        if (is_foldable(n) && !widens(n) && !is_read_through(n, c) && (fold_view(n) || fold_node(n, c))) j--;
    }
}

void pass_fold(pass_context *c) { fold_graph(c->module->main, c); }
