// Common subexpression elimination: users of a node that repeats an earlier one (operator, inputs,
// attributes) of its graph or an outer graph use the earlier outputs instead. Outputs of the model that are another value
// unchanged become that value, which is then computed in their memory.
#include "ir/graph/op.h"
#include "passes/passes.h"
#include <string.h>

static bool attr_equal(const attr *a, const attr *b) {
    if (a->kind != b->kind || a->n != b->n || strcmp(a->name, b->name) != 0) return false;
    if (a->kind == ATTR_FLOAT) return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    if (a->kind == ATTR_INT) return a->i == b->i;
    if (a->kind == ATTR_STRING) return a->size == b->size && memcmp(a->s, b->s, a->size) == 0;
    if (a->kind == ATTR_FLOATS) return memcmp(a->floats, b->floats, (size_t)a->n * sizeof *a->floats) == 0;
    if (a->kind == ATTR_INTS) return memcmp(a->ints, b->ints, (size_t)a->n * sizeof *a->ints) == 0;
    return false; // regions and tensors are not compared
}

static bool node_equal(const node *a, const node *b) {
    if (a->op != b->op || a->nin != b->nin || a->nout != b->nout || a->nattrs != b->nattrs) return false;
    for (int j = 0; j < a->nin; j++)
        if (a->in[j] != b->in[j]) return false;
    for (int j = 0; j < a->nout; j++)
        if (!a->out[j] != !b->out[j]) return false;
    for (int j = 0; j < a->nattrs; j++)
        if (!attr_equal(&a->attrs[j], &b->attrs[j])) return false;
    return true;
}

static uint64_t node_hash(const node *n) {
    uint64_t h = hash_string(HASH_SEED, n->op->name);
    for (int j = 0; j < n->nin; j++) {
        int id = n->in[j] ? n->in[j]->id : -1;
        h = hash_bytes(h, &id, sizeof id);
    }
    return h;
}

// The runtime symbols that n defines become those of `first`.
static void merge_node(node *n, const node *first) {
    module *m = n->graph->module;
    for (int i = 0; i < n->nout; i++) {
        value *gone = n->out[i], *kept = first->out[i];
        if (!gone) continue;
        value_replace(gone, kept);
        if (gone->type.kind == TYPE_TENSOR && gone->type.rank > 0 && kept->type.rank == gone->type.rank)
            replace_unknown_dims(m, gone->type.dims, kept->type.dims, gone->type.rank);
        if (gone->ncontents && gone->ncontents == kept->ncontents)
            replace_unknown_dims(m, gone->contents, kept->contents, gone->ncontents);
    }
    node_delete(n);
}

static bool same_type(const type *a, const type *b) {
    if (a->kind != TYPE_TENSOR || b->kind != TYPE_TENSOR || a->elem != b->elem || a->rank != b->rank)
        return false;
    for (int j = 0; j < a->rank; j++)
        if (a->dims[j] != b->dims[j]) return false;
    return a->rank >= 0;
}

// Whether n passes its input on to an output of the model: a cast to its own type, a reshape to its own shape.
static bool is_unchanged_output(const node *n) {
    bool may_be = n->op->is_view || node_is(n, "Cast") || node_is(n, "CastLike");
    const value *v = may_be && n->nout == 1 ? n->out[0] : NULL;
    if (!v || n->graph->outer || !n->in[0] || !same_type(&v->type, &n->in[0]->type)) return false;
    for (int j = 0; j < v->uses.n; j++)
        if (!v->uses.at[j].node) return true;
    return false;
}

static void cse_graph(graph *g, arena *scratch) {
    map seen = {.arena = scratch};
    for (int j = 0; j < g->nodes.n; j++) {
        node *n = g->nodes.at[j];
        for (int i = 0; i < n->nattrs; i++)
            if (n->attrs[i].kind == ATTR_GRAPH) cse_graph(n->attrs[i].graph, scratch);
        if (n->op->has_side_effect_on_random || n->nout == 0) continue;
        if (is_unchanged_output(n)) {
            value_replace(n->out[0], n->in[0]);
            node_delete(n);
            j--;
            continue;
        }
        uint64_t h = node_hash(n);
        node *first = map_get_number(&seen, h);
        if (!first) {
            map_put_number(&seen, h, n);
            continue;
        }
        if (!node_equal(first, n)) continue;
        merge_node(n, first);
        j--;
    }
}

void pass_cse(pass_context *c) {
    arena *scratch = arena_new();
    cse_graph(c->module->main, scratch);
    arena_destroy(scratch);
}
