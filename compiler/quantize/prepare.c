// The model before quantisation. In: an imported module. Out: types are known, computations of constants are done, and
// batch normalisations after convolutions are part of their weights.
#include "compiler/quantize/impl.h"
#include "passes/passes.h"
#include <math.h>
#include <string.h>

enum { FOLD_WORK = 1 << 28, FOLD_BYTES = 1 << 28 };

static const constant *constant_in(const node *n, int i) {
    const value *v = node_in(n, i);
    return v && v->constant && v->constant->kind != CONST_STRINGS ? v->constant : NULL;
}

constant *floats(arena *a, int rank, const int64_t *dims) { return constant_new(a, DT_F32, rank, dims); }

// ---------------------------------------------------------------- batch normalisation
typedef struct normalisation {
    const constant *scale, *shift, *mean, *variance;
    double epsilon;
} normalisation;

static double factor_of(const normalisation *b, int64_t c) {
    return constant_float(b->scale, c) / sqrt(constant_float(b->variance, c) + b->epsilon);
}

static bool find_normalisation(const node *n, normalisation *b) {
    if (!node_is(n, "BatchNormalization") || *n->op->domain || node_int(n, "training_mode", 0)) return false;
    for (int i = 1; i < n->nout; i++)
        if (n->out[i]) return false;
    *b = (normalisation){constant_in(n, 1), constant_in(n, 2), constant_in(n, 3), constant_in(n, 4),
                         node_float(n, "epsilon", 1e-5)};
    return b->scale && b->shift && b->mean && b->variance;
}

// The convolution whose result only n reads; NULL: another node.
static node *convolution_before(const node *n) {
    value *v = node_in(n, 0);
    node *c = v ? v->def : NULL;
    if (!c || c->graph != n->graph || *c->op->domain || value_uses(v) != 1) return NULL;
    bool transposed = strcmp(c->op->name, "ConvTranspose") == 0;
    if (!transposed && strcmp(c->op->name, "Conv") != 0) return NULL;
    if (transposed && node_int(c, "group", 1) != 1) return NULL;
    const constant *w = constant_in(c, 1);
    if (!w || w->elem != DT_F32 || (node_in(c, 2) && !constant_in(c, 2))) return NULL;
    return c;
}

static void fold_normalisation(node *n) {
    normalisation b;
    node *c = find_normalisation(n, &b) ? convolution_before(n) : NULL;
    if (!c) return;
    arena *a = n->graph->module->arena;
    const constant *w = constant_in(c, 1), *old = constant_in(c, 2);
    int axis = strcmp(c->op->name, "Conv") == 0 ? 0 : 1;
    int64_t channels = w->dims[axis], inner = 1;
    for (int i = axis + 1; i < w->rank; i++) inner *= w->dims[i];
    if (b.scale->count != channels) return;
    constant *scaled = floats(a, w->rank, w->dims), *bias = floats(a, 1, &channels);
    for (int64_t i = 0; i < w->count; i++)
        ((float *)scaled->data)[i] = (float)(constant_float(w, i) * factor_of(&b, i / inner % channels));
    for (int64_t i = 0; i < channels; i++) {
        double before = (old ? constant_float(old, i) : 0) - constant_float(b.mean, i);
        ((float *)bias->data)[i] = (float)(before * factor_of(&b, i) + constant_float(b.shift, i));
    }
    graph *g = c->graph;
    const char *name = old ? node_in(c, 2)->name : node_in(n, 2)->name;
    node_set_in(c, 1, value_constant(g, node_in(c, 1)->name, scaled));
    node_set_in(c, 2, value_constant(g, name, bias));
    value_replace(n->out[0], c->out[0]);
}

void prepare(module *m) {
    pass_context c = {.module = m, .fold_work = FOLD_WORK, .fold_bytes = FOLD_BYTES};
    pass_infer(&c);
    pass_fold(&c);
    for (int i = 0; i < m->main->nodes.n; i++) fold_normalisation(m->main->nodes.at[i]);
    pass_dce(&c);
    diag_check(m->diag);
}

void prepare_again(const plan *p, module *m) {
    prepare(m);
    if (m->values.n != p->nvalues) diag_defect(m->diag, NULL, "the model changed between two imports");
    if (p->equalisation) equalise(p->equalisation, m);
}

module *prepared_module(const quantize_input *in) {
    const source *s = &in->source;
    module *m =
        s->data ? import_onnx_memory(in->arena, in->diag, s->path, s->folder, s->data, s->size, &in->import)
                : import_onnx_file(in->arena, in->diag, s->path, &in->import);
    prepare(m);
    return m;
}
