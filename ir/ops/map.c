// Maps. A ZipMap that makes an output of the model is given to callers as the table that it reads, whose
// columns have the keys as labels (lower.c asks through op_def.labels).
#include "ir/ops/runtime_args.h"
#include "ir/ops/string.h"

// The list that one of two attributes gives, which must not be empty.
static constant *keys_of(const node *n, const char *strings, const char *ints) {
    const attr *s = node_attr(n, strings), *i = node_attr(n, ints);
    bool has_strings = s && s->n, has_ints = i && i->n;
    if (has_strings == has_ints)
        infer_error(n, has_ints ? "attributes %s and %s are both given" : "neither %s nor %s is given",
                    strings, ints);
    if (has_strings) return strings_constant(infer_arena(n), s->strings, NULL, s->n);
    int64_t count = i->n;
    constant *c = constant_new(infer_arena(n), DT_I64, 1, &count);
    for (int64_t j = 0; j < count; j++) dtype_store_int(DT_I64, (uint8_t *)c->data, j, i->ints[j]);
    return c;
}

static void set_maps(node *n, int out, dtype key, dtype elem) {
    if (!node_out(n, out)) return;
    type *value = ARENA_NEW(infer_arena(n), type), *map = ARENA_NEW(infer_arena(n), type);
    *value = (type){.kind = TYPE_TENSOR, .elem = elem};
    *map = (type){.kind = TYPE_MAP, .elem = key, .item = value};
    n->out[out]->type = (type){.kind = TYPE_SEQUENCE, .item = map};
}

// ---------------------------------------------------------------- ZipMap
static const constant *zip_labels(const node *n) {
    return keys_of(n, "classlabels_strings", "classlabels_int64s");
}

static void zip_infer(node *n) {
    const type *x = infer_in(n, 0);
    const constant *labels = zip_labels(n);
    set_maps(n, 0, labels->elem, x->elem);
    if (!infer_has_rank(n, 0)) return;
    if (x->rank != 1 && x->rank != 2)
        infer_error(n, "X is %s; it must be a matrix, or one row", type_text(infer_arena(n), x));
    dim *columns = x->dims[x->rank - 1];
    if (dim_equal(columns, infer_k(n, labels->count)) == TRI_NO)
        infer_error(n, "X is %s: there are %lld labels for %s columns", type_text(infer_arena(n), x),
                    (long long)labels->count, dim_text(infer_arena(n), columns));
    infer_same_dim(n, columns, infer_k(n, labels->count), "columns and labels");
}

static void zip_lower(lowering *l, node *n) {
    const value *z = n->out[0];
    for (int j = 0; j < z->uses.n; j++)
        if (z->uses.at[j].node || z->uses.at[j].graph->outer)
            diag_fatal_missing(l->program->diag, n->loc,
                               "its maps are read inside of the model; they can only be the model's output");
}

const op_def op_ZipMap = {
    .name = "ZipMap", .domain = "ai.onnx.ml", .infer = zip_infer, .lower = zip_lower, .labels = zip_labels};
