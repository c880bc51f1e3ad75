// Gradient: dy/dx by reverse-mode differentiation at compile time. In: the values of xs and zs, then, from the
// import, the tensors that the attributes xs, zs and y name. Out: standard operators in place of the node.
//
//     for each node of the subgraph from xs to y, last first:
//         dx += rule(dy)
#include "ir/ops/training/gradient.h"
#include <string.h>

// ---- The subgraph

static int name_count(const node *n, const char *attribute) {
    const attr *a = node_attr(n, attribute);
    return a ? a->n : 0;
}

static int x_count(const node *n) { return name_count(n, "xs"); }
static int named_count(const node *n) { return x_count(n) + name_count(n, "zs"); }
static value *named(const node *n, int i) { return n->in[named_count(n) + i]; }
static value *target_of(const node *n) { return n->in[2 * named_count(n)]; }

typedef VEC(node *) node_list;

static void list_before(node_list *list, const graph *g, const node *end) {
    if (g->owner) list_before(list, g->owner->graph, g->owner);
    for (int i = 0; i < g->nodes.n && g->nodes.at[i] != end; i++)
        VEC_PUSH(g->module->arena, list, g->nodes.at[i]);
}

typedef struct mark_search {
    const map *marks;
    bool found;
} mark_search;

static void see_mark(void *user, value *v) {
    mark_search *s = user;
    s->found |= map_get_number(s->marks, (uint64_t)v->id) != NULL;
}

static bool reads_marked(const node *n, const map *marks) {
    mark_search s = {.marks = marks};
    node_reads(n, see_mark, &s);
    return s.found;
}

static bool has_marked_output(const node *n, const map *marks) {
    bool found = false;
    for (int i = 0; i < n->nout; i++) found |= n->out[i] && map_get_number(marks, (uint64_t)n->out[i]->id);
    return found;
}

static void mark(map *marks, value *v) { map_put_number(marks, (uint64_t)v->id, v); }

typedef struct marker {
    map *marks;
} marker;

static void mark_read(void *user, value *v) { mark(((marker *)user)->marks, v); }

// The nodes before n on which y depends, in order. The named tensors are independent variables: what computes
// them is not part of the subgraph.
static node_list subgraph_of(const node *n) {
    arena *a = infer_arena(n);
    node_list before = {0}, chosen = {0}, ordered = {0};
    map needed = {.arena = a};
    list_before(&before, n->graph, n);
    mark(&needed, target_of(n));
    for (int i = before.n - 1; i >= 0; i--) {
        node *f = before.at[i];
        bool variable = false;
        for (int k = 0; k < named_count(n); k++) variable |= named(n, k)->def == f;
        if (variable || !has_marked_output(f, &needed)) continue;
        node_reads(f, mark_read, &(marker){&needed});
        VEC_PUSH(a, &chosen, f);
    }
    for (int i = chosen.n - 1; i >= 0; i--) VEC_PUSH(a, &ordered, chosen.at[i]);
    return ordered;
}

// ---- Other values than those of the named tensors

static bool differs(const node *n, int i) { return n->in[i] != named(n, i); }

// Copies the part of the subgraph that depends on such values, and differentiates the copy.
static void substitute(node *n) {
    int count = named_count(n);
    arena *a = infer_arena(n);
    map as = {.arena = a};
    value **in = ARENA_ARRAY(a, value *, 2 * count + 1);
    for (int i = 0; i < count; i++) {
        in[i] = in[count + i] = differs(n, i) ? NODE(n, "Identity", n->in[i]) : n->in[i];
        if (differs(n, i)) map_put_number(&as, (uint64_t)named(n, i)->id, in[i]);
    }
    node_list nodes = subgraph_of(n);
    for (int i = 0; i < nodes.n; i++)
        if (reads_marked(nodes.at[i], &as)) node_move(node_copy(nodes.at[i], n->graph, &as), n->graph, n);
    value *y = map_get_number(&as, (uint64_t)target_of(n)->id);
    in[2 * count] = y ? y : target_of(n);
    value *v = insert_before(n, "ai.onnx.preview.training:Gradient", 2 * count + 1, in, NULL);
    for (int i = 0; i < n->nattrs; i++) node_set_attr(v->def, n->attrs[i]);
    for (int i = n->nout - 1; i >= 0; i--)
        if (node_out(n, i)) give_output(n, i, output_of(v, i));
}

// ---- Reverse mode

typedef struct tape {
    node *at;
    map active; // values that depend on xs: themselves
    map sums;   // their gradients so far
} tape;

static bool is_active(const tape *t, const value *v) {
    return v && map_get_number(&t->active, (uint64_t)v->id);
}

static bool is_differentiable(const value *v) {
    return v->type.kind == TYPE_TENSOR && dtype_is_float(v->type.elem);
}

static void add_gradient(tape *t, const value *v, value *d) {
    value *sum = map_get_number(&t->sums, (uint64_t)v->id);
    map_put_number(&t->sums, (uint64_t)v->id, sum ? NODE(t->at, "Add", sum, d) : d);
}

static const gradient_rule *find_rule(const op_def *op) {
    static const gradient_rule *const tables[] = {gradient_pointwise_rules, gradient_move_rules,
                                                  gradient_reduce_rules,    gradient_product_rules,
                                                  gradient_window_rules,    gradient_bodies};
    for (size_t i = 0; !*op->domain && i < sizeof tables / sizeof *tables; i++)
        for (const gradient_rule *r = tables[i]; r->op; r++)
            if (strcmp(r->op, op->name) == 0) return r;
    return NULL;
}

static void mark_active(tape *t, const node *f) {
    if (!reads_marked(f, &t->active)) return;
    for (int i = 0; i < f->nout; i++)
        if (f->out[i] && is_differentiable(f->out[i])) mark(&t->active, f->out[i]);
}

static void differentiate(tape *t, const node_list *nodes);

// Differentiates a copy of f that is rewritten by `body`.
static void apply_body(tape *t, node *f, void (*body)(node *n), value *const *dy) {
    arena *a = infer_arena(f);
    graph *g = t->at->graph;
    map as = {.arena = a};
    node *copy = node_copy(f, g, &as);
    node_move(copy, g, t->at);
    int first = node_place(copy), nout = copy->nout;
    infer_node(copy);
    value **out = ARENA_ARRAY(a, value *, nout + 1);
    for (int i = 0; i < nout; i++) out[i] = copy->out[i];
    body(copy);
    if (copy->graph) node_delete(copy);
    infer_until(g, first, t->at);
    node_list inner = {0};
    for (int i = first; g->nodes.at[i] != t->at; i++) VEC_PUSH(a, &inner, g->nodes.at[i]);
    for (int i = 0; i < inner.n; i++) mark_active(t, inner.at[i]);
    for (int i = 0; i < nout; i++) {
        if (!dy[i]) continue;
        if (!out[i]->graph)
            diag_fatal_missing(g->module->diag, t->at->loc,
                               "Gradient cannot differentiate output %d of %s (node '%s')", i, f->op->name,
                               f->loc->node);
        add_gradient(t, out[i], dy[i]);
    }
    differentiate(t, &inner);
}

static void apply_rule(tape *t, node *f, const gradient_rule *rule, value **dy) {
    arena *a = infer_arena(f);
    bool *wanted = ARENA_ARRAY(a, bool, f->nin + 1);
    gradient g = {
        .at = t->at, .of = f, .dy = dy, .dx = ARENA_ARRAY(a, value *, f->nin + 1), .wanted = wanted};
    for (int i = 0; i < f->nin; i++) wanted[i] = is_active(t, f->in[i]);
    rule->apply(&g);
    if (g.body) apply_body(t, f, g.body, dy);
    for (int i = 0; i < f->nin; i++)
        if (wanted[i] && g.dx[i]) add_gradient(t, f->in[i], g.dx[i]);
}

static void check_rank(const tape *t, const node *f, const value *v) {
    if (!v || v->type.kind != TYPE_TENSOR || v->type.rank != RANK_UNKNOWN) return;
    diag_fatal_missing(
        f->graph->module->diag, t->at->loc,
        "Gradient cannot differentiate %s (node '%s') with '%s', whose rank is known only at run time",
        f->op->name, f->loc->node, v->name);
}

static void differentiate_node(tape *t, node *f) {
    value **dy = ARENA_ARRAY(infer_arena(f), value *, f->nout + 1);
    bool any = false;
    for (int i = 0; i < f->nout; i++) {
        dy[i] = is_active(t, f->out[i]) ? map_get_number(&t->sums, (uint64_t)f->out[i]->id) : NULL;
        any |= dy[i] != NULL;
    }
    if (!any || !reads_marked(f, &t->active)) return;
    for (int i = 0; i < f->nin; i++) check_rank(t, f, f->in[i]);
    for (int i = 0; i < f->nout; i++) check_rank(t, f, f->out[i]);
    const gradient_rule *rule = find_rule(f->op);
    void (*body)(node *n) = rule ? rule->body : f->op->expand;
    if (rule && rule->apply) apply_rule(t, f, rule, dy);
    else if (body) apply_body(t, f, body, dy);
    else
        diag_fatal_missing(f->graph->module->diag, t->at->loc, "Gradient cannot differentiate %s (node '%s')",
                           f->op->name, f->loc->node);
}

static void differentiate(tape *t, const node_list *nodes) {
    for (int i = nodes->n - 1; i >= 0; i--) differentiate_node(t, nodes->at[i]);
}

static value *filled(node *at, double x, value *like) {
    return NODE(at, "Expand", insert_scalar(at, like->type.elem, x), NODE(at, "Shape", like));
}

static void check_operands(const node *n) {
    int count = named_count(n);
    if (n->nin != 2 * count + 1)
        infer_error(n, "%d values are given for the %d tensors of xs and zs", n->nin - count - 1, count);
    if (n->nout > x_count(n))
        infer_error(n, "%d gradients are requested with respect to %d tensors", n->nout, x_count(n));
    for (int i = 0; i < x_count(n); i++)
        if (node_out(n, i) && !is_differentiable(named(n, i)))
            infer_error(n, "tensor '%s' of xs is %s; only tensors of floats have gradients",
                        named(n, i)->name, type_text(infer_arena(n), &named(n, i)->type));
    if (!is_differentiable(target_of(n)))
        infer_error(n, "tensor '%s' is %s; only tensors of floats can be differentiated", target_of(n)->name,
                    type_text(infer_arena(n), &target_of(n)->type));
}

static void gradient_decompose(node *n) {
    check_operands(n);
    for (int i = 0; i < named_count(n); i++) {
        if (!differs(n, i)) continue;
        substitute(n);
        return;
    }
    arena *a = infer_arena(n);
    tape t = {.at = n, .active.arena = a, .sums.arena = a};
    node_list nodes = subgraph_of(n);
    for (int i = 0; i < x_count(n); i++)
        if (node_out(n, i)) mark(&t.active, named(n, i));
    for (int i = 0; i < nodes.n; i++) mark_active(&t, nodes.at[i]);
    infer_rank(n, 2 * named_count(n));
    add_gradient(&t, target_of(n), filled(n, 1, target_of(n)));
    differentiate(&t, &nodes);
    for (int i = 0; i < n->nout; i++) {
        if (!n->out[i]) continue;
        value *d = map_get_number(&t.sums, (uint64_t)named(n, i)->id);
        give_output(n, i, NODE(n, "Identity", d ? d : filled(n, 0, named(n, i))));
    }
}

OPERATOR_OF("ai.onnx.preview.training", Gradient, .decompose = gradient_decompose,
            .named_tensors = "xs zs y");

// ---- For rules

void gradient_missing(const gradient *g, const char *what) {
    diag_fatal_missing(g->of->graph->module->diag, g->at->loc,
                       "Gradient cannot differentiate %s with %s (node '%s')", g->of->op->name, what,
                       g->of->loc->node);
}

value *gradient_number(gradient *g, double x) { return insert_scalar(g->at, g->of->in[0]->type.elem, x); }

value *gradient_shape(gradient *g, value *v) { return G("Shape", v); }

value *gradient_filled(gradient *g, double x, value *like) { return filled(g->at, x, like); }

// d, summed along an axis if `to` has size 1 there, which is known at run time only.
static value *reduced_at_run_time(gradient *g, value *d, int axis, value *to) {
    value *at = insert_ints(g->at, (int64_t[]){axis}, 1);
    value *sum = with_int(G("ReduceSum", d, at), "keepdims", 1);
    value *own = shape_part(g->at, to, axis, axis + 1);
    value *both = G("Where", G("Equal", own, insert_ints(g->at, (int64_t[]){1}, 1)), sum, d);
    return G("Slice", both, insert_ints(g->at, (int64_t[]){0}, 1), own, at);
}

value *gradient_reduced(gradient *g, value *d, int rank, dim *const *dims, value *to) {
    int64_t axes[MAX_RANK];
    const type *t = &to->type;
    int lead = rank - t->rank, count = 0;
    for (int i = 0; i < lead; i++) axes[i] = i;
    if (lead) d = with_int(G("ReduceSum", d, insert_ints(g->at, axes, lead)), "keepdims", 0);
    for (int i = 0; i < t->rank; i++)
        if (dim_is(t->dims[i], 1) && !dim_is(dims[lead + i], 1)) axes[count++] = i;
    if (count) d = with_int(G("ReduceSum", d, insert_ints(g->at, axes, count)), "keepdims", 1);
    bool unsure = false;
    for (int i = 0; i < t->rank; i++) {
        if (dim_is(t->dims[i], 1) || dim_equal(t->dims[i], dims[lead + i]) == TRI_YES) continue;
        d = reduced_at_run_time(g, d, i, to);
        unsure = true;
    }
    return unsure ? as_shape_of(g->at, d, to) : d;
}

value *gradient_unbroadcast(gradient *g, value *d, value *to) {
    const type *y = &g->of->out[0]->type;
    return gradient_reduced(g, d, y->rank, y->dims, to);
}

value *gradient_scattered(gradient *g, value *d, value *places, value *like) {
    value *flat = insert_ints(g->at, (int64_t[]){-1}, 1);
    value *size = G("Reshape", G("Size", like), insert_ints(g->at, (int64_t[]){1}, 1));
    value *zeros = G("Expand", insert_scalar(g->at, like->type.elem, 0), size);
    value *sum = G("ScatterElements", zeros, G("Reshape", places, flat), G("Reshape", d, flat));
    with_string(with_int(sum, "axis", 0), "reduction", "add");
    return as_shape_of(g->at, sum, like);
}
