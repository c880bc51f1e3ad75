// Tables of embeddings as int8 with a scale for each row. In: Gather of a constant. Out: Gather of bytes, times Gather of scales:
// only the rows that are read become floats.
//
//   y = Gather(table, i)   ->   y = Cast(Gather(bytes, i)) * Gather(scales, i)
#include "compiler/quantize/impl.h"
#include <math.h>
#include <string.h>

enum { LEAST = 1 << 16 }; // elements of a table that is worth the nodes

static const constant *table_of(const node *n) {
    const value *v = node_in(n, 0);
    if (!node_is(n, "Gather") || *n->op->domain || !v || node_int(n, "axis", 0) != 0) return NULL;
    const constant *c = v->constant;
    return c && c->elem == DT_F32 && c->kind == CONST_BYTES && c->rank == 2 && c->count >= LEAST ? c : NULL;
}

void find_tables(plan *p) {
    const graph *g = p->module->main;
    for (int i = 0; i < g->nodes.n; i++) {
        qnode *q = &p->nodes[g->nodes.at[i]->id];
        const constant *c = table_of(g->nodes.at[i]);
        q->table = !q->kept && c && is_finite(c);
        if (q->table) q->why = NULL;
    }
}

static value *rows_of(node *n, const char *name, constant *c) {
    value *in[] = {value_constant(n->graph, name, c), n->in[1]};
    node *g =
        new_node(n->graph, n, "Gather", arena_printf(n->graph->module->arena, "%s_Gather", name), 2, in);
    return new_output(g, NULL);
}

static void quantise_table(plan *p, node *n) {
    const constant *c = table_of(n);
    arena *a = p->arena;
    int64_t rows = c->dims[0], each = c->dims[1], column[] = {rows, 1};
    constant *bytes = constant_new(a, DT_I8, 2, c->dims), *scales = floats(a, 2, column);
    qnode *q = &p->nodes[n->id];
    for (int64_t r = 0; r < rows; r++) {
        double largest = 0;
        for (int64_t k = 0; k < each; k++) largest = fmax(largest, fabs(constant_float(c, r * each + k)));
        float scale = largest > 0 ? (float)(largest / 127) : 1;
        ((float *)scales->data)[r] = scale;
        for (int64_t k = 0; k < each; k++) {
            double w = constant_float(c, r * each + k), v = nearbyint(w / scale);
            ((int8_t *)bytes->data)[r * each + k] = (int8_t)v;
            q->weight_signal += w * w;
            q->weight_noise += (v * scale - w) * (v * scale - w);
        }
    }
    const char *name = n->in[0]->name;
    value *found = rows_of(n, arena_printf(a, "%s_quantized", name), bytes);
    node *cast = new_node(n->graph, n, "Cast", arena_printf(a, "%s_Cast", name), 1, &found);
    node_set_attr(cast, (attr){.name = "to", .kind = ATTR_INT, .i = DT_F32});
    value *as_float = new_output(cast, NULL), *scale = rows_of(n, arena_printf(a, "%s_scale", name), scales);
    n->op = op_find("", "Mul"); // the value that others read stays where it is
    node_remove_attr(n, "axis");
    node_set_in(n, 0, as_float);
    node_set_in(n, 1, scale);
    infer_node(n);
}

void quantise_tables(plan *p) {
    const graph *g = p->module->main;
    VEC(node *) found = {0}; // the list grows
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->id < p->nnodes && p->nodes[g->nodes.at[i]->id].table)
            VEC_PUSH(p->arena, &found, g->nodes.at[i]);
    for (int i = 0; i < found.n; i++) quantise_table(p, found.at[i]);
}
