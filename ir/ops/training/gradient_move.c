// Gradients of operators that move elements.
#include "ir/ops/training/gradient.h"
#include <string.h>

static void reshape(gradient *g) { g->dx[0] = as_shape_of(g->at, g->dy[0], g->of->in[0]); }

static void expand(gradient *g) { g->dx[0] = gradient_unbroadcast(g, g->dy[0], g->of->in[0]); }

static void transpose(gradient *g) {
    int64_t inverse[MAX_RANK];
    int count, rank = g->of->in[0]->type.rank;
    const int64_t *order = node_ints(g->of, "perm", &count);
    for (int i = 0; i < rank; i++) inverse[order ? order[i] : rank - 1 - i] = i;
    g->dx[0] = transposed(g->at, g->dy[0], rank, inverse);
}

static int axis_of(const gradient *g, int64_t fallback) {
    int64_t axis = node_int(g->of, "axis", fallback);
    return (int)(axis < 0 ? axis + g->of->out[0]->type.rank : axis);
}

static void concat(gradient *g) {
    int axis = axis_of(g, 0), count = g->of->nin;
    value **sizes = ARENA_ARRAY(infer_arena(g->of), value *, count + 1);
    for (int i = 0; i < count; i++) sizes[i] = shape_part(g->at, g->of->in[i], axis, axis + 1);
    value *all = with_int(insert_node(g->at, "Concat", (size_t)count, sizes), "axis", 0);
    value *parts = with_int(G("Split", g->dy[0], all), "axis", axis);
    for (int i = 0; i < count; i++) g->dx[i] = output_of(parts, i);
}

static void split(gradient *g) {
    int count = g->of->nout, given = 0;
    value **parts = ARENA_ARRAY(infer_arena(g->of), value *, count + 1);
    for (int i = 0; i < count; i++) {
        if (!g->of->out[i]) gradient_missing(g, "outputs left out");
        parts[given++] = g->dy[i] ? g->dy[i] : gradient_filled(g, 0, g->of->out[i]);
    }
    g->dx[0] = with_int(insert_node(g->at, "Concat", (size_t)given, parts), "axis", axis_of(g, 0));
}

// The flat position of each element of v, as a tensor of the same shape.
static value *positions(gradient *g, value *v) {
    value *all = G("Range", insert_scalar(g->at, DT_I64, 0), G("Size", v), insert_scalar(g->at, DT_I64, 1));
    return as_shape_of(g->at, all, v);
}

// Any operator that only selects elements: moves their positions likewise, and adds up by position.
static void movement(gradient *g) {
    value **in = ARENA_ARRAY(infer_arena(g->of), value *, g->of->nin + 1);
    memcpy(in, g->of->in, (size_t)g->of->nin * sizeof *in);
    in[0] = positions(g, in[0]);
    value *moved = insert_node(g->at, g->of->op->name, (size_t)g->of->nin, in);
    for (int i = 0; i < g->of->nattrs; i++) node_set_attr(moved->def, g->of->attrs[i]);
    g->dx[0] = gradient_scattered(g, g->dy[0], moved, g->of->in[0]);
}

// Padding with a constant is undone by padding with less than nothing.
static void pad(gradient *g) {
    if (strcmp(node_string(g->of, "mode", "constant"), "constant") != 0) {
        movement(g);
        return;
    }
    if (g->of->nin > 2 && g->wanted[2]) gradient_missing(g, "a variable constant_value");
    g->dx[0] = G("Pad", g->dy[0], G("Neg", g->of->in[1]), NULL, node_in(g->of, 3));
}

static void gather(gradient *g) {
    if (node_int(g->of, "axis", 0) != 0) {
        movement(g);
        return;
    }
    value *places = G("Unsqueeze", g->of->in[1], insert_ints(g->at, (int64_t[]){-1}, 1));
    value *sum = G("ScatterND", gradient_filled(g, 0, g->of->in[0]), places, g->dy[0]);
    g->dx[0] = with_string(sum, "reduction", "add");
}

static void gather_elements(gradient *g) {
    value *sum = G("ScatterElements", gradient_filled(g, 0, g->of->in[0]), g->of->in[1], g->dy[0]);
    g->dx[0] = with_string(with_attr_of(sum, g->of, "axis"), "reduction", "add");
}

// Whether a scatter adds to its data; otherwise it replaces elements.
static bool adds(const gradient *g) {
    const char *reduction = node_string(g->of, "reduction", "none");
    bool add = strcmp(reduction, "add") == 0;
    if (!add && strcmp(reduction, "none") != 0)
        gradient_missing(g, arena_printf(infer_arena(g->of), "reduction '%s'", reduction));
    return add;
}

static void scatter_elements(gradient *g) {
    value *places = g->of->in[1], *dy = g->dy[0];
    g->dx[0] = dy;
    if (!adds(g)) {
        value *cleared = G("ScatterElements", dy, places, gradient_filled(g, 0, g->of->in[2]));
        g->dx[0] = with_attr_of(cleared, g->of, "axis");
    }
    if (g->wanted[2]) g->dx[2] = with_attr_of(G("GatherElements", dy, places), g->of, "axis");
}

static void scatter_nd(gradient *g) {
    value *places = g->of->in[1], *dy = g->dy[0];
    g->dx[0] = adds(g) ? dy : G("ScatterND", dy, places, gradient_filled(g, 0, g->of->in[2]));
    if (g->wanted[2]) g->dx[2] = G("GatherND", dy, places);
}

static void trilu(gradient *g) {
    g->dx[0] = with_attr_of(G("Trilu", g->dy[0], node_in(g->of, 1)), g->of, "upper");
}

static void cumulative_sum(gradient *g) {
    value *v = with_attr_of(G("CumSum", g->dy[0], g->of->in[1]), g->of, "exclusive");
    g->dx[0] = with_int(v, "reverse", !node_int(g->of, "reverse", 0));
}

const gradient_rule gradient_move_rules[] = {
    {.op = "Reshape", .apply = reshape},
    {.op = "Flatten", .apply = reshape},
    {.op = "Squeeze", .apply = reshape},
    {.op = "Unsqueeze", .apply = reshape},
    {.op = "Expand", .apply = expand},
    {.op = "Transpose", .apply = transpose},
    {.op = "Concat", .apply = concat},
    {.op = "Split", .apply = split},
    {.op = "Slice", .apply = movement},
    {.op = "Tile", .apply = movement},
    {.op = "GatherND", .apply = movement},
    {.op = "Compress", .apply = movement},
    {.op = "DepthToSpace", .apply = movement},
    {.op = "SpaceToDepth", .apply = movement},
    {.op = "ReverseSequence", .apply = movement},
    {.op = "Pad", .apply = pad},
    {.op = "Gather", .apply = gather},
    {.op = "GatherElements", .apply = gather_elements},
    {.op = "ScatterElements", .apply = scatter_elements},
    {.op = "ScatterND", .apply = scatter_nd},
    {.op = "Trilu", .apply = trilu},
    {.op = "CumSum", .apply = cumulative_sum},
    {0},
};
