// Constant folding: a node whose inputs are all constants is lowered alone and run by the interpreter, under
// limits of work and memory; its outputs become constants. Contents known as constant dims become constants
// too.
#include "ir/interp.h"
#include "ir/lower.h"
#include "passes/passes.h"
#include <string.h>

static bool is_foldable(const node *n) {
    if (!n->op->lower && !n->op->is_view) return false;
    if (n->op->has_side_effect_on_random || n->nout == 0) return false;
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

// Whether n only makes wider elements of a constant's (DequantizeLinear or Cast of weights): it stays packed
// and its readers convert, which takes less memory and bandwidth.
enum { WIDEN_FREELY = 256 };
static bool widens(const node *n) {
    const constant *c = n->nin && n->in[0] ? n->in[0]->constant : NULL;
    if (!c || n->nout != 1 || !n->out[0]) return false;
    const type *t = &n->out[0]->type;
    bool quantised = dtype_bits(c->elem) <= 8 && c->elem != DT_BOOL &&
                     dtype_is_float(t->elem); // integer products want these
    if (c->count * dtype_bits(c->elem) <= (quantised ? 8 : 8 * WIDEN_FREELY)) return false;
    if (dtype_bits(t->elem) <= dtype_bits(c->elem) || t->rank != c->rank) return false;
    for (int j = 0; j < t->rank; j++)
        if (!dim_is(t->dims[j], c->dims[j])) return false;
    return true;
}

// Bytes of all outputs, -1 when not constant.
static int64_t output_bytes(const node *n) {
    int64_t sum = 0;
    for (int j = 0; j < n->nout; j++) {
        if (!n->out[j]) continue;
        int64_t count = 1;
        for (int i = 0; i < n->out[j]->type.rank; i++) {
            dim *d = n->out[j]->type.dims[i];
            if (!dim_is_const(d)) return 0; // data-dependent: the interpreter's limits hold
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

// Sizes and elements of a folded value that only the run would have known: known from here on.
typedef struct found_sizes {
    const type *of;
    dim *const *contents;
    int ncontents;
    const constant *k;
    dims *table;
} found_sizes;

static dim *found_size(void *user, dim *atom) {
    const found_sizes *f = user;
    for (int i = 0; i < f->k->rank; i++)
        if (f->of->dims[i] == atom) return dim_const(f->table, f->k->dims[i]);
    for (int i = 0; i < f->ncontents; i++)
        if (f->contents[i] == atom) return dim_const(f->table, constant_int(f->k, i));
    return atom;
}

static void put_sizes(dim **d, int count, found_sizes *f) {
    for (int i = 0; i < count; i++) d[i] = dim_substitute(d[i], found_size, f);
}

static bool any_opaque(dim *const *d, int count) {
    for (int i = 0; i < count; i++)
        if (d[i]->kind == DIM_OPAQUE) return true;
    return false;
}

static void put_type_sizes(module *m, value *v, found_sizes *f) {
    v->type = type_tensor(m->arena, v->type.elem, v->type.rank, v->type.dims);
    put_sizes(v->type.dims, v->type.rank, f);
    for (int i = 0; i < v->type.rank; i++)
        if (v->type.dims[i]->max < 0)
            diag_fatal(m->diag, v->def ? v->def->loc : NULL, "'%s' would have dimension %d = %s", v->name, i,
                       dim_text(m->arena, v->type.dims[i]));
}

static void put_found_sizes(module *m, const value *old, const constant *k) {
    // What changes is what `old` has, too.
    dim **contents = ARENA_ARRAY(m->arena, dim *, old->ncontents + 1);
    if (old->ncontents) memcpy(contents, old->contents, (size_t)old->ncontents * sizeof *contents);
    bool whole = dtype_is_int(k->elem) && old->ncontents == k->count;
    found_sizes f = {&old->type, contents, whole ? old->ncontents : 0, k, m->dims};
    bool any = any_opaque(old->type.dims, k->rank) || any_opaque(contents, f.ncontents);
    for (int j = 0; any && j < m->values.n; j++) {
        value *v = m->values.at[j];
        if (v->type.kind == TYPE_TENSOR && v->type.rank > 0) put_type_sizes(m, v, &f);
        if (v->contents) put_sizes(v->contents, v->ncontents, &f);
    }
    for (int j = 0; any && j < m->checks.n; j++)
        put_sizes(&m->checks.at[j].a, 1, &f), put_sizes(&m->checks.at[j].b, 1, &f);
}

// n's outputs become free-standing values of its graph, then n goes.
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

static program *lower_alone(node *n) {
    module *m = n->graph->module;
    program *p = program_new(m);
    lowering l = {.program = p,
                  .region = p->main,
                  .buffers = {.arena = m->arena},
                  .checked = {.arena = m->arena},
                  .entry = p->main};
    // Sizes of constants are known: what is to be checked concerns other nodes from the same place.
    for (int j = 0; j < m->checks.n; j++) map_put_number(&l.checked, (uint64_t)j, n);
    if (n->op->lower) n->op->lower(&l, n);
    else lower_view(&l, n, 0, 0);
    for (int j = 0; j < n->nout; j++)
        VEC_PUSH(m->arena, &p->outputs, n->out[j] ? lower_buffer(&l, n->out[j]) : NULL);
    return p;
}

static bool fold_node(node *n, pass_context *c) {
    module *m = c->module;
    int64_t bytes = output_bytes(n);
    if (bytes < 0 || bytes > c->fold_bytes) return false;
    program *p = lower_alone(n);
    constant **k = ARENA_ARRAY(m->arena, constant *, n->nout);
    int wanted = 0;
    for (int j = 0; j < n->nout; j++) // the interpreter wants no gaps
        if (p->outputs.at[j]) p->outputs.at[wanted++] = p->outputs.at[j];
    p->outputs.n = wanted;
    tensor *out = ARENA_ARRAY(m->arena, tensor, wanted + 1);
    const char *message;
    interp_limits limits = {c->fold_work, 2 * c->fold_bytes};
    if (interp_program(p, m->arena, NULL, out, limits, &message) != INTERP_OK)
        return false; // fails again, at run time
    for (int j = 0, i = 0; j < n->nout; j++) {
        if (!n->out[j]) continue;
        k[j] = constant_new(m->arena, out[i].dtype, out[i].rank, out[i].dims);
        k[j]->data = out[i++].data;
    }
    detach(n, k);
    return true;
}

// A small integer tensor whose contents inference found to be constant.
static bool fold_contents(node *n) {
    for (int j = 0; j < n->nout; j++) {
        const value *v = n->out[j];
        if (!v) continue;
        if (!v->contents || v->type.kind != TYPE_TENSOR || v->type.rank > 1 ||
            (!dtype_is_int(v->type.elem) && v->type.elem != DT_BOOL))
            return false;
        if (dtype_bits(v->type.elem) < 8) return false;
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

static void fold_graph(graph *g, pass_context *c) {
    for (int j = 0; j < g->nodes.n; j++) {
        node *n = g->nodes.at[j];
        for (int i = 0; i < n->nattrs; i++)
            if (n->attrs[i].kind == ATTR_GRAPH) fold_graph(n->attrs[i].graph, c);
        if (n->nout && !n->op->has_side_effect_on_random && fold_contents(n)) {
            j--;
            continue;
        }
        if (is_foldable(n) && !widens(n) && fold_node(n, c)) j--;
    }
}

void pass_fold(pass_context *c) { fold_graph(c->module->main, c); }
