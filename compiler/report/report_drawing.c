// Layered drawing (Sugiyama). In: a graph. Out: positions of inputs, nodes and outputs. Layers are longest
// paths from the inputs; items in a layer are sorted by the barycentre of their neighbours, repeatedly.
#include "compiler/report/report_impl.h"
#include <stdlib.h>

enum { GAP = 30, ROW = 90, SWEEPS = 6, NEIGHBOURS_MOST = 64 };

typedef struct item {
    int layer, id;
    double x, want;
    VEC(int) above, below; // neighbours
} item;

typedef struct drawing {
    arena *arena;
    const graph *g;
    item *items; // inputs, nodes, outputs
    int n, reader;
    int *item_of; // by value id: the item that defines it, plus 1
    VEC(int) * layers;
    int nlayers;
} drawing;

// ---------------------------------------------------------------- edges and layers
static void connect(drawing *d, const value *v, int to) {
    int from = v ? d->item_of[v->id] - 1 : -1;
    if (from < 0 || from == to) return;
    if (d->items[to].layer <= d->items[from].layer) d->items[to].layer = d->items[from].layer + 1;
    // A few readers of a widely used value suffice for its position.
    if (d->items[from].below.n < NEIGHBOURS_MOST) VEC_PUSH(d->arena, &d->items[from].below, to);
    if (d->items[to].above.n < NEIGHBOURS_MOST) VEC_PUSH(d->arena, &d->items[to].above, from);
}

static void connect_reads(void *user, value *v) {
    drawing *d = user;
    connect(d, v, d->reader);
}

static void connect_all(drawing *d) {
    const graph *g = d->g;
    for (int j = 0; j < g->inputs.n; j++) d->item_of[g->inputs.at[j]->id] = j + 1;
    for (int j = 0; j < g->nodes.n; j++) {
        const node *n = g->nodes.at[j];
        d->reader = g->inputs.n + j;
        node_reads(n, connect_reads, d); // a node reads what its regions read
        for (int i = 0; i < n->nout; i++)
            if (n->out[i]) d->item_of[n->out[i]->id] = d->reader + 1;
    }
    for (int j = 0; j < g->outputs.n; j++) connect(d, g->outputs.at[j], g->inputs.n + g->nodes.n + j);
}

static void make_layers(drawing *d) {
    for (int i = 0; i < d->n; i++)
        if (d->items[i].layer >= d->nlayers) d->nlayers = d->items[i].layer + 1;
    // Inputs are placed directly above their first reader.
    for (int i = 0; i < d->g->inputs.n; i++) {
        item *x = &d->items[i];
        int first = d->nlayers;
        for (int j = 0; j < x->below.n; j++)
            if (d->items[x->below.at[j]].layer < first) first = d->items[x->below.at[j]].layer;
        x->layer = x->below.n ? first - 1 : 0;
    }
    d->layers = arena_calloc(d->arena, (size_t)d->nlayers + 1, sizeof *d->layers);
    for (int i = 0; i < d->n; i++) VEC_PUSH(d->arena, &d->layers[d->items[i].layer], i);
}

// ---------------------------------------------------------------- places in a layer
static double middle(const drawing *d, const item *x, bool above) {
    int n = above ? x->above.n : x->below.n;
    double sum = 0;
    for (int j = 0; j < n; j++) sum += d->items[above ? x->above.at[j] : x->below.at[j]].x;
    return n ? sum / n : x->x;
}

static int by_want(const void *a, const void *b) {
    const item *x = *(item *const *)a, *y = *(item *const *)b;
    if (x->want != y->want) return x->want < y->want ? -1 : 1;
    return x->id - y->id;
}

// Moves items as near to their wanted positions as the width of boxes allows.
static void spread(item **layer, int n) {
    double shift = 0;
    for (int j = 0; j < n; j++) {
        double least = j ? layer[j - 1]->x + REPORT_BOX_WIDTH + GAP : layer[j]->want;
        layer[j]->x = layer[j]->want > least ? layer[j]->want : least;
        shift += layer[j]->x - layer[j]->want;
    }
    for (int j = 0; j < n; j++) layer[j]->x -= shift / n;
}

static void sweep(drawing *d, bool down, item **layer) {
    for (int k = 0; k < d->nlayers; k++) {
        int at = down ? k : d->nlayers - 1 - k, n = d->layers[at].n;
        for (int j = 0; j < n; j++) {
            layer[j] = &d->items[d->layers[at].at[j]];
            layer[j]->want = middle(d, layer[j], down);
        }
        qsort(layer, (size_t)n, sizeof *layer, by_want);
        spread(layer, n);
    }
}

static report_place *places(const drawing *d, int from, int n, double left) {
    report_place *p = ARENA_ARRAY(d->arena, report_place, n + 1);
    for (int j = 0; j < n; j++)
        p[j] = (report_place){(int)(d->items[from + j].x - left) + GAP, d->items[from + j].layer * ROW + GAP};
    return p;
}

report_layout report_layout_of(arena *a, const graph *g) {
    drawing d = {.arena = a, .g = g, .n = g->inputs.n + g->nodes.n + g->outputs.n};
    d.items = ARENA_ARRAY(a, item, d.n + 1);
    d.item_of = ARENA_ARRAY(a, int, g->module->values.n + 1);
    for (int i = 0; i < d.n; i++) d.items[i].id = i;
    connect_all(&d);
    make_layers(&d);
    item **layer = ARENA_ARRAY(a, item *, d.n + 1);
    for (int k = 0; k < SWEEPS; k++) sweep(&d, k % 2 == 0, layer);
    double left = 0, right = 0;
    for (int i = 0; i < d.n; i++) {
        if (i == 0 || d.items[i].x < left) left = d.items[i].x;
        if (i == 0 || d.items[i].x > right) right = d.items[i].x;
    }
    report_layout l = {.width = (int)(right - left) + REPORT_BOX_WIDTH + 2 * GAP,
                       .height = d.nlayers * ROW + GAP};
    l.inputs = places(&d, 0, g->inputs.n, left);
    l.nodes = places(&d, g->inputs.n, g->nodes.n, left);
    l.outputs = places(&d, g->inputs.n + g->nodes.n, g->outputs.n, left);
    return l;
}
