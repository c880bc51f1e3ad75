// Orders nodes topologically. The standard asks for that order in the file, but tools write others: ONNX
// Runtime's conversion to float16, for example, appends casts of graph inputs behind their first uses.
#include "compiler/import/order.h"

typedef VEC(size_t) indices;
typedef enum { UNSEEN, OPEN, DONE } state; // OPEN: its dependencies are being ordered

typedef struct {
    size_t node;
    int next; // of its dependencies to visit
} frame;

typedef struct {
    arena *arena;
    const scope *scope;
    Onnx__NodeProto **nodes;
    indices *needs; // by node: those that compute its inputs and the outer values of its regions
} sorter;

static void add_name(const sorter *s, indices *needs, const char *name) {
    Onnx__NodeProto **maker = name && *name ? map_get(&s->scope->made_by, name) : NULL;
    if (maker) VEC_PUSH(s->arena, needs, (size_t)(maker - s->nodes));
}

static void add_region(const sorter *s, indices *needs, const Onnx__GraphProto *g, int depth);

static void add_node(const sorter *s, indices *needs, const Onnx__NodeProto *n, int depth) {
    for (size_t i = 0; i < n->n_input; i++) add_name(s, needs, n->input[i]);
    for (size_t i = 0; i < n->n_attribute && depth < DEPTH_MOST; i++) {
        const Onnx__AttributeProto *a = n->attribute[i];
        if (a->g) add_region(s, needs, a->g, depth + 1);
        for (size_t k = 0; k < a->n_graphs; k++) add_region(s, needs, a->graphs[k], depth + 1);
    }
}

static void add_region(const sorter *s, indices *needs, const Onnx__GraphProto *g, int depth) {
    for (size_t i = 0; i < g->n_node; i++) add_node(s, needs, g->node[i], depth);
    for (size_t i = 0; i < g->n_output; i++) add_name(s, needs, g->output[i]->name);
}

const size_t *topological_order(arena *a, const scope *s, Onnx__NodeProto **nodes, size_t count) {
    sorter sort = {.arena = a, .scope = s, .nodes = nodes, .needs = ARENA_ARRAY(a, indices, count + 1)};
    state *states = ARENA_ARRAY(a, state, count + 1);
    frame *stack = ARENA_ARRAY(a, frame, count + 1);
    size_t *order = ARENA_ARRAY(a, size_t, count + 1), done = 0, depth = 0;
    for (size_t i = 0; i < count; i++) add_node(&sort, &sort.needs[i], nodes[i], 0);
    for (size_t i = 0; i < count || depth;) { // depth-first; the stack holds nodes that wait for others
        if (!depth && states[i] == UNSEEN) stack[depth++] = (frame){.node = i};
        if (!depth) {
            i++;
            continue;
        }
        frame *top = &stack[depth - 1];
        const indices *needs = &sort.needs[top->node];
        states[top->node] = OPEN;
        while (top->next < needs->n && states[needs->at[top->next]] != UNSEEN) top->next++;
        if (top->next < needs->n) {
            stack[depth++] = (frame){.node = needs->at[top->next]};
        } else {
            states[top->node] = DONE;
            order[done++] = top->node;
            depth--;
        }
    }
    return order;
}
