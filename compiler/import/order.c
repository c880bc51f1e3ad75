// Orders nodes topologically. The standard asks for that order in the file, but tools write others: ONNX
// Runtime's conversion to float16, for example, appends casts of graph inputs after their first uses.
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
    indices *needs; // by node: the nodes that compute its inputs and the outer values of its regions
} sorter;

// The names that a region defines; they refer to no nodes outside.
typedef struct inner {
    const struct inner *outer;
    map names;
    int depth;
} inner;

static bool is_inner(const inner *in, const char *name) {
    while (in && !map_get(&in->names, name)) in = in->outer;
    return in != NULL;
}

static void add_name(const sorter *s, indices *needs, const inner *in, const char *name) {
    Onnx__NodeProto **maker = name && *name ? map_get(&s->scope->made_by, name) : NULL;
    if (maker && !is_inner(in, name)) VEC_PUSH(s->arena, needs, (size_t)(maker - s->nodes));
}

static void add_region(const sorter *s, indices *needs, const inner *outer, const Onnx__GraphProto *g);

static void add_node(const sorter *s, indices *needs, const inner *in, const Onnx__NodeProto *n) {
    for (size_t i = 0; i < n->n_input; i++) add_name(s, needs, in, n->input[i]);
    for (size_t i = 0; i < n->n_attribute && (!in || in->depth < DEPTH_MOST); i++) {
        const Onnx__AttributeProto *a = n->attribute[i];
        if (a->g) add_region(s, needs, in, a->g);
        for (size_t k = 0; k < a->n_graphs; k++) add_region(s, needs, in, a->graphs[k]);
    }
}

static void define(inner *in, const char *name) {
    if (name && *name) map_put(&in->names, name, in);
}

static void add_region(const sorter *s, indices *needs, const inner *outer, const Onnx__GraphProto *g) {
    inner in = {.outer = outer, .names.arena = s->arena, .depth = outer ? outer->depth + 1 : 1};
    for (size_t i = 0; i < g->n_input; i++) define(&in, g->input[i]->name);
    for (size_t i = 0; i < g->n_initializer; i++) define(&in, g->initializer[i]->name);
    for (size_t i = 0; i < g->n_sparse_initializer; i++)
        if (g->sparse_initializer[i]->values) define(&in, g->sparse_initializer[i]->values->name);
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++) define(&in, g->node[i]->output[k]);
    for (size_t i = 0; i < g->n_node; i++) add_node(s, needs, &in, g->node[i]);
    for (size_t i = 0; i < g->n_output; i++) add_name(s, needs, &in, g->output[i]->name);
}

const size_t *topological_order(arena *a, const scope *s, Onnx__NodeProto **nodes, size_t count) {
    sorter sort = {.arena = a, .scope = s, .nodes = nodes, .needs = ARENA_ARRAY(a, indices, count + 1)};
    state *states = ARENA_ARRAY(a, state, count + 1);
    frame *stack = ARENA_ARRAY(a, frame, count + 1);
    size_t *order = ARENA_ARRAY(a, size_t, count + 1), done = 0, depth = 0;
    for (size_t i = 0; i < count; i++) add_node(&sort, &sort.needs[i], NULL, nodes[i]);
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
