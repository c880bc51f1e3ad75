// If, and helpers shared with Loop and Scan (control.h). Both branches become regions of one step, whose
// results are copied or moved into the outputs. If the branches' shapes differ, each branch sets the output's
// sizes. If the condition is constant, the branch replaces the If. If the branches' ranks differ, nodes that
// need to know the rank are sunk into both branches:
//
//   before:  v = If(c) {a} else {b};  w = Shape(x);  y = Neg(v)
//   after:   w = Shape(x);  y = If(c) {Neg(a)} else {Neg(b)}
#include "ir/ops/control/control.h"
#include "ir/ops/control/sequence.h"
#include "ir/ops/runtime_args.h"
#include "ir/ops/value.h"
#include <string.h>

// ---- Shared

void set_dim(lowering *l, const node *n, dim *target, dim *value) {
    lower_set_dim(l, n, target, NULL, 0)->dim = value;
}

void check_dims(lowering *l, const node *n, dim *a, dim *b, const char *message) {
    lower_check(l, n, dim_eq(a, b), message);
}

buffer *heap_buffer(lowering *l, const node *n, const char *suffix, dtype t, int rank, dim *const *dims) {
    const char *name =
        arena_printf(l->program->arena, "%s.%s", n->loc && n->loc->node ? n->loc->node : n->op->name, suffix);
    buffer *b = program_buffer(l->program, name, BUF_HEAP, t, rank, dims);
    b->region = l->depth;
    return b;
}

void step_buffer(lowering *l, const node *n, step_kind kind, buffer *b) {
    step_new(l->program, l->region, kind, n->loc)->buffer = b;
}

void step_between(lowering *l, const node *n, step_kind kind, buffer *to, buffer *from) {
    step *s = step_new(l->program, l->region, kind, n->loc);
    s->buffer = to, s->from = from;
}

region *open_loop(lowering *l, const node *n, dim *counter, dim *count, buffer *condition) {
    declare_variable(l, counter);
    step *loop = step_new(l->program, l->region, STEP_LOOP, n->loc);
    l->certain = (map){.arena = l->certain.arena}; // the body may set dims again, after steps that use them
    loop->target = counter, loop->dim = count, loop->buffer = condition;
    region *outside = l->region;
    l->region = loop->body[0] = ARENA_NEW(l->program->arena, region);
    l->depth++;
    return outside;
}

void close_loop(lowering *l, region *outside) {
    l->depth--;
    l->region = outside;
}

void copy_scalar(lowering *l, const node *n, buffer *to, buffer *from) {
    if (to == from) return;
    if (to->rank != from->rank) from = program_view(l->program, from, from->name, to->rank, to->dims);
    step_between(l, n, STEP_COPY, to, from);
}

bool may_move(const graph *g, const handover *all, int i) {
    const buffer *b = all[i].from;
    if (b->role != BUF_HEAP || b->view_of || !b->value || b->value->graph != g || !b->value->def)
        return false;
    for (int j = 0; j < i; j++)
        if (all[j].moved && all[j].from == b) return false;
    return true;
}

void hand_over(lowering *l, const node *n, handover *all, int count, bool moves) {
    for (int i = 0; i < count; i++) {
        if (all[i].to == all[i].from || all[i].moved != moves) continue;
        if (!moves && all[i].to->role == BUF_HEAP) step_buffer(l, n, STEP_ALLOC, all[i].to);
        step_between(l, n, moves ? STEP_MOVE : STEP_COPY, all[i].to, all[i].from);
    }
}

void slice_kernel(lowering *l, const node *n, const char *suffix, buffer *whole, buffer *part, int axis,
                  dim *at, bool store) {
    kernel *k = lower_kernel(l, n, suffix);
    stage *s = kernel_stage(k);
    expr *index[MAX_RANK], *full[MAX_RANK];
    axes_over(k, s, part, index);
    for (int j = 0; j < whole->rank; j++) full[j] = j == axis ? x_dim(k, at) : index[j - (j > axis)];
    if (store) stage_write(k, s, whole, full, x_read(k, part, index));
    else stage_write(k, s, part, index, x_read(k, whole, full));
}

void infer_single(const node *n, const value *v, dtype t, const char *what) {
    const type *is = &v->type;
    if (is->kind == TYPE_NONE) return;
    bool good = is->kind == TYPE_TENSOR && is->elem == t;
    for (int j = 0; good && j < is->rank; j++) good = !dim_is_const(is->dims[j]) || dim_is(is->dims[j], 1);
    if (!good)
        infer_error(n, "%s must be a single %s, but is %s", what, dtype_name(t),
                    type_text(infer_arena(n), is));
}

// ---- If

static graph *branch(const node *n, const char *name) {
    graph *g = node_graph(n, name);
    if (!g) infer_error(n, "attribute %s is missing", name);
    if (g->inputs.n) infer_error(n, "%s has inputs; a branch must have none", name);
    if (g->outputs.n < n->nout)
        infer_error(n, "%s has %d outputs, the node has %d", name, g->outputs.n, n->nout);
    return g;
}

// ---- Branches that cannot run
//
// A branch may fit none of the sizes with which it is reached: torch exports x.squeeze(0) as
// If(x.shape[0] == 1) {Squeeze(x)} else {x}, and what follows fits one rank only. Such a branch becomes a check
// that fails with the error that inference reported, and the other branch replaces the If:
//
//   before:  y = If(c) {a} else {does not fit}
//   after:   If(c) {} else {fails};  y = a

enum { THEN, ELSE };
static const char *const branch_names[] = {"then_branch", "else_branch"};
static const char *const impossible_names[] = {"then_branch.impossible", "else_branch.impossible"};

// Why the branch cannot run; NULL: it can.
static const char *impossible(const node *n, int which) {
    return node_string(n, impossible_names[which], NULL);
}

typedef struct inferred_branch {
    graph *g;
    int first; // the first node to infer
} inferred_branch;

static void infer_nodes(void *user) {
    inferred_branch *b = user;
    infer_from(b->g, b->first);
}

static void clear_branch(graph *g) {
    for (int i = 0; i < g->outputs.n; i++) graph_set_output(g, i, value_int64(g, 0));
    while (g->nodes.n) node_delete(g->nodes.at[g->nodes.n - 1]);
}

// Infers a branch from node number `first` on. An error is reported only if it is in both branches.
static void infer_branch(node *n, int which, int first) {
    inferred_branch b = {branch(n, branch_names[which]), first};
    diag *d = n->graph->module->diag;
    const diag_message *why;
    if (impossible(n, which) || infer_attempt(n, infer_nodes, &b, &why)) return;
    if (impossible(n, !which)) diag_fatal(d, why->loc, "%s", why->text);
    text t = {.arena = infer_arena(n)};
    text_printf(&t, "%s cannot run: ", branch_names[which]);
    if (why->loc) text_add_node(&t, why->loc, true);
    text_printf(&t, "%s%s", why->loc ? ": " : "", why->text);
    const char *s = text_str(&t);
    infer_forget_checks(b.g);
    clear_branch(b.g);
    node_set_attr(n, (attr){.name = impossible_names[which], .kind = ATTR_STRING, .s = s, .size = strlen(s)});
}

// The other branch goes after n, which keeps the check.
static bool inline_possible(node *n) {
    if (!n->nout || !impossible(n, THEN) == !impossible(n, ELSE)) return false;
    graph *g = branch(n, branch_names[impossible(n, THEN) ? ELSE : THEN]);
    graph_inline(g, n->graph, node_next(n));
    for (int i = 0; i < n->nout; i++) {
        if (!n->out[i]) continue;
        value_replace(n->out[i], g->outputs.at[i]);
        node_drop_output(n, i);
    }
    clear_branch(g);
    n->nout = 0;
    return true;
}

// The symbolic value is kept if it is the same in both branches.
static void merge_contents(node *n, int i, const value *a, const value *b) {
    if (!a->contents || !b->contents || a->ncontents != b->ncontents) return;
    for (int j = 0; j < a->ncontents; j++)
        if (a->contents[j] != b->contents[j]) return;
    infer_set_contents(n, i, a->contents, a->ncontents);
}

// The output of the model that output i of n is, also through branches of Squeeze around it; else NULL.
static const value *model_output(const node *n, int i) {
    const graph *g = n->graph;
    const node *outer = g->owner;
    if (outer && !node_attr(outer, SQUEEZES_AXES)) return NULL;
    for (int j = 0; j < g->outputs.n; j++) {
        if (g->outputs.at[j] != n->out[i]) continue;
        const value *v = !outer ? n->out[i] : node_out(outer, j) ? model_output(outer, j) : NULL;
        if (v) return v;
    }
    return NULL;
}

// The declared rank of the output of the model that output i of n is; else RANK_UNKNOWN.
static int declared_output_rank(const node *n, int i) {
    const value *v = model_output(n, i);
    const type *declared = v ? infer_declared(v) : NULL;
    return declared && declared->kind == TYPE_TENSOR ? declared->rank : RANK_UNKNOWN;
}

// Callers read one rank of an output of the model. A branch that dropped symbolic axes because their sizes are 1
// (squeeze_canonicalise) gives them back: both branches then have the larger rank, if the model declares it.
static const char restored_axes[] = "restored_axes"; // marks the Unsqueeze that does so

static int dropped_axes(const type *large, const type *small, int64_t *axes) {
    int count = 0, k = 0;
    for (int j = 0; j < large->rank; j++) {
        if (k < small->rank && dim_equal(large->dims[j], small->dims[k]) == TRI_YES) k++;
        else if (large->dims[j]->kind == DIM_SYMBOL) axes[count++] = j;
        else return 0;
    }
    return k == small->rank ? count : 0;
}

static bool restore_axes(node *n, int i, int which) {
    graph *g = branch(n, branch_names[which]), *other = branch(n, branch_names[!which]);
    int64_t axes[MAX_RANK];
    value *small = g->outputs.at[i];
    const type *large = &other->outputs.at[i]->type;
    int count = dropped_axes(large, &small->type, axes), declared = declared_output_rank(n, i);
    if (!count || !node_attr(n, SQUEEZES_AXES) || !model_output(n, i)) return false;
    if (declared < large->rank) return false;
    value *in[] = {small, value_int64s(g, NULL, axes, count)};
    node *unsqueeze = node_new(g, NULL, op_find("", "Unsqueeze"), n->loc, 2, in);
    node_set_attr(unsqueeze, (attr){.name = restored_axes, .kind = ATTR_INT, .i = 1});
    graph_set_output(g, i, node_output(unsqueeze, 0, NULL));
    infer_node(unsqueeze);
    return true;
}

static bool has_restored_axes(const value *v) { return v->def && node_attr(v->def, restored_axes); }

// Uses the declared rank of an output of the model if one of the branches has it. A check ensures that the
// other one is not executed.
static bool use_declared_rank(node *n, int i, const type *a, const type *b) {
    int rank = declared_output_rank(n, i);
    if (rank < 0 || a->rank < 0 || b->rank < 0 || (rank != a->rank && rank != b->rank)) return false;
    dim *dims[MAX_RANK], **like = rank == a->rank ? a->dims : b->dims;
    for (int j = 0; j < rank; j++) {
        dim *own = infer_unknown_dim(n, "if", NULL);
        dims[j] = dim_is_const(like[j]) ? like[j] : own;
    }
    infer_set(n, i, a->elem, rank, dims);
    return true;
}

// Whether a branch returns another size than is declared, as exporters that merge models let a branch return nothing.
static bool contradicts(const value *out, int axis, const type *a, const type *b) {
    const type *t = infer_declared(out);
    if (t->kind != TYPE_TENSOR || t->rank != a->rank) return false;
    const dim *d = t->dims[axis];
    return dim_is_const(d) &&
           (dim_equal(d, a->dims[axis]) == TRI_NO || dim_equal(d, b->dims[axis]) == TRI_NO);
}

static void merge_outputs(node *n, int i, const value *a, const value *b) {
    const type *ta = &a->type, *tb = &b->type;
    if (ta->kind != tb->kind || (ta->kind == TYPE_TENSOR && ta->elem != tb->elem))
        infer_error(n, "output %d is %s in one branch and %s in the other", i, type_text(infer_arena(n), ta),
                    type_text(infer_arena(n), tb));
    if (ta->kind == TYPE_TENSOR && ta->rank >= 0 && tb->rank >= 0 && ta->rank != tb->rank &&
        restore_axes(n, i, ta->rank < tb->rank ? THEN : ELSE)) {
        merge_outputs(n, i, branch(n, "then_branch")->outputs.at[i], branch(n, "else_branch")->outputs.at[i]);
        return;
    }
    if (ta->kind != TYPE_TENSOR) {
        n->out[i]->type = *ta;
        sequence_generalise(n, &n->out[i]->type, tb);
    } else if (ta->rank == RANK_UNKNOWN || ta->rank != tb->rank) {
        if (!use_declared_rank(n, i, ta, tb)) infer_set_unknown(n, i, ta->elem);
    } else {
        dim *dims[MAX_RANK];
        bool restored = has_restored_axes(a) || has_restored_axes(b);
        const type *whole = has_restored_axes(a) ? tb : ta;
        for (int j = 0; j < ta->rank; j++) {
            dim *own = infer_unknown_dim(n, "if", NULL);
            bool known = restored || dim_equal(ta->dims[j], tb->dims[j]) == TRI_YES;
            own->most = dim_max(ta->dims[j], tb->dims[j]);
            own->is_count = contradicts(n->out[i], j, ta, tb);
            dims[j] = known ? whole->dims[j] : own;
        }
        infer_set(n, i, ta->elem, ta->rank, dims);
        merge_contents(n, i, a, b);
    }
}

// The branch that is executed, if inference knows the condition; else NULL. The shapes of the other one may
// be invalid.
static graph *known_branch(const node *n, graph **other) {
    int count;
    dim **condition = infer_contents(n, 0, &count);
    if (!condition || count != 1 || !dim_is_const(condition[0])) return NULL;
    int which = dim_value(condition[0]) ? THEN : ELSE;
    *other = branch(n, branch_names[!which]);
    return branch(n, branch_names[which]);
}

static void check_branches(const node *n) {
    const graph *g = branch(n, "then_branch"), *h = branch(n, "else_branch");
    if (g->outputs.n != h->outputs.n)
        infer_error(n, "then_branch has %d outputs, else_branch has %d", g->outputs.n, h->outputs.n);
    if (node_in(n, 0)) infer_single(n, n->in[0], DT_BOOL, "the condition");
}

static bool if_canonicalise(node *n) {
    check_branches(n);
    graph *other, *g = known_branch(n, &other);
    if (!g) return inline_possible(n);
    infer_forget_checks(other);
    graph_inline(g, n->graph, n);
    for (int i = 0; i < n->nout; i++)
        if (n->out[i]) value_replace(n->out[i], g->outputs.at[i]);
    node_delete(n);
    return true;
}

static void if_infer(node *n) {
    graph *g = branch(n, "then_branch"), *h = branch(n, "else_branch");
    infer_branch(n, THEN, 0);
    infer_branch(n, ELSE, 0);
    if (impossible(n, THEN)) g = h;
    if (impossible(n, ELSE)) h = g;
    for (int i = 0; i < n->nout; i++)
        if (n->out[i]) merge_outputs(n, i, g->outputs.at[i], h->outputs.at[i]);
}

// ---- Ranks that depend on the branch
static bool if_has_hidden_rank(const node *n, int i);
static void if_lower(lowering *l, node *n);

static bool ranks_vary(const node *n, int i);

static bool has_varying_rank(const value *v) {
    return v->def && v->def->op->has_hidden_rank == if_has_hidden_rank && ranks_vary(v->def, v->def_index);
}

static bool ranks_vary(const node *n, int i) {
    if (impossible(n, THEN) || impossible(n, ELSE)) return false;
    const value *a = branch(n, "then_branch")->outputs.at[i], *b = branch(n, "else_branch")->outputs.at[i];
    if (has_varying_rank(a) || has_varying_rank(b)) return true;
    bool known = a->type.kind == TYPE_TENSOR && b->type.kind == TYPE_TENSOR && a->type.rank >= 0;
    return known && b->type.rank >= 0 && a->type.rank != b->type.rank;
}

static bool if_has_hidden_rank(const node *n, int i) {
    if (impossible(n, THEN) || impossible(n, ELSE)) return false;
    const value *a = branch(n, "then_branch")->outputs.at[i], *b = branch(n, "else_branch")->outputs.at[i];
    return ranks_vary(n, i) || (a->contents && b->contents && a->ncontents != b->ncontents);
}

typedef struct reading {
    map *values;
    bool found;
} reading;

static void find_read(void *user, value *v) {
    reading *r = user;
    if (map_get_number(r->values, (uint64_t)v->id)) r->found = true;
}

static bool reads_any(const node *n, map *values) {
    reading r = {.values = values};
    node_reads(n, find_read, &r);
    return r.found;
}

static void mark_value(void *user, value *v) { map_put_number(user, (uint64_t)v->id, v); }

static bool gives_any(const node *n, map *values) {
    for (int i = 0; i < n->nout; i++)
        if (n->out[i] && map_get_number(values, (uint64_t)n->out[i]->id)) return true;
    return false;
}

// Moves nodes that do not depend on n before it, so that only dependent ones remain between n and user.
static void move_others(node *n, const node *user) {
    map later = {.arena = infer_arena(n)};
    for (int i = 0; i < n->nout; i++)
        if (n->out[i]) mark_value(&later, n->out[i]);
    for (node *x = node_next(n), *next; x != user; x = next) {
        next = node_next(x);
        if (!reads_any(x, &later)) node_move(x, n->graph, n);
        else
            for (int i = 0; i < x->nout; i++)
                if (x->out[i]) mark_value(&later, x->out[i]);
    }
}

static void copy_into(const node *n, const node *x, graph *g) {
    map as = {.arena = infer_arena(n)};
    for (int i = 0; i < n->nout; i++)
        if (n->out[i]) map_put_number(&as, (uint64_t)n->out[i]->id, g->outputs.at[i]);
    const node *copy = node_copy(x, g, &as);
    for (int i = 0; i < x->nout; i++)
        if (x->out[i]) graph_add_output(g, copy->out[i]);
}

// Sinks x into both branches; its outputs become outputs of n.
static void sink(node *n, node *x) {
    copy_into(n, x, branch(n, "then_branch"));
    copy_into(n, x, branch(n, "else_branch"));
    for (int i = 0; i < x->nout; i++)
        if (x->out[i]) node_adopt_output(n, x, i);
    node_delete(x);
}

// Drops an output of varying rank without users; the branches get a placeholder for it, so that the numbering
// of the other outputs and of their runtime symbols is preserved.
static void drop_unread(node *n, int i) {
    if (!n->out[i] || value_uses(n->out[i]) || !ranks_vary(n, i)) return;
    node_drop_output(n, i);
    for (int j = 0; j < 2; j++) {
        graph *g = branch(n, j ? "else_branch" : "then_branch");
        value *v = g->outputs.at[i];
        graph_set_output(g, i, value_int64(g, 0));
        if (has_varying_rank(v)) drop_unread(v->def, v->def_index);
    }
}

// A node that reads the output may be sunk into another node before n is inferred again.
static void type_hidden(node *n, int i, const type *inside) {
    if (!n->out[i] || n->out[i]->type.kind != TYPE_NONE || inside->kind != TYPE_TENSOR) return;
    if (ranks_vary(n, i)) infer_set_unknown(n, i, inside->elem);
}

static bool if_sink_into(node *n, node *user) {
    graph *g = branch(n, "then_branch"), *h = branch(n, "else_branch");
    int first = g->nodes.n, second = h->nodes.n;
    if (g->outputs.n != n->nout || h->outputs.n != n->nout) return false;
    move_others(n, user);
    int between = node_place(user) - node_place(n);
    node **sunk = ARENA_ARRAY(infer_arena(n), node *, between + 1);
    map needed = {.arena = infer_arena(n)};
    for (int i = between; i > 0; i--) {
        node *x = n->graph->nodes.at[node_place(n) + i];
        if (x != user && !gives_any(x, &needed)) continue;
        node_reads(x, mark_value, &needed);
        sunk[i] = x;
    }
    for (int i = 1; i <= between; i++)
        if (sunk[i]) sink(n, sunk[i]);
    infer_branch(n, THEN, first);
    infer_branch(n, ELSE, second);
    if (impossible(n, THEN) || impossible(n, ELSE)) return true;
    for (int i = 0; i < n->nout; i++) drop_unread(n, i);
    for (int i = 0; i < n->nout; i++) type_hidden(n, i, &g->outputs.at[i]->type);
    return true;
}

// ---- States that grow in one branch and begin in the other
//   present = If (more) { Concat (past, new) } else { new }          present: [P + S] in both, so P is 0 in the other
//
// The size that a branch gives to the axis if it is more than the input's; NULL: neither does.
static dim *grown_size(const value *out, const dim *from, int axis) {
    for (int j = 0; j < 2; j++) {
        const type *t = &branch(out->def, branch_names[j])->outputs.at[out->def_index]->type;
        bool same = t->kind == TYPE_TENSOR && t->rank == out->type.rank;
        if (same && !dim_is_opaque(t->dims[axis]) && dim_has_atom(t->dims[axis], from)) return t->dims[axis];
    }
    return NULL;
}

void grow_in_branches(value *out, const value *in) {
    const type *a = &in->type, *b = &out->type;
    bool tensors = a->kind == TYPE_TENSOR && b->kind == TYPE_TENSOR && a->rank == b->rank;
    if (!out->def || out->def->op->lower != if_lower || !tensors) return;
    for (int j = 0; j < b->rank; j++) {
        bool decided = a->dims[j]->kind == DIM_SYMBOL && dim_is_opaque(b->dims[j]);
        dim *size = decided ? grown_size(out, a->dims[j], j) : NULL;
        if (size) b->dims[j] = size;
    }
}

// ---- Lowering

// Whether dim j of output i is d in both branches.
static bool always_sized(const node *n, int i, int j, const dim *d) {
    const type *a = &branch(n, "then_branch")->outputs.at[i]->type,
               *b = &branch(n, "else_branch")->outputs.at[i]->type;
    return j < a->rank && j < b->rank && dim_equal(d, a->dims[j]) == TRI_YES &&
           dim_equal(d, b->dims[j]) == TRI_YES;
}

// Sets the sizes of output i, which inference numbered from `made` on, to the sizes in this branch. Sizes that
// differ in one branch are set in both, for the check after the node.
static void bind_dims(lowering *l, const node *n, int i, const buffer *from, int made) {
    const type *out = &n->out[i]->type;
    for (int j = 0; j < out->rank; j++) {
        dim *own = infer_made_dim(n, made + j);
        if (always_sized(n, i, j, out->dims[j])) continue;
        set_dim(l, n, own, from->dims[j]);
        if (out->dims[j] == own || dim_equal(out->dims[j], from->dims[j]) == TRI_YES) continue;
        const char *wrong = "a branch returns a different size than declared";
        const dim *more = dim_sub(out->dims[j], from->dims[j]);
        if (more->kind == DIM_SYMBOL)
            wrong = arena_printf(l->program->arena, "this branch begins the output anew, so '%s' must be 0",
                                 more->name);
        check_dims(l, n, out->dims[j], from->dims[j], wrong);
    }
}

// A branch whose rank differs from the declared one must not be executed.
static void refuse_rank(lowering *l, const node *n, int i, const buffer *from, int made) {
    dim *zero = infer_k(n, 0);
    int rank = n->out[i]->type.rank, place = 0;
    const value *v = model_output(n, i);
    if (!v) v = n->out[i];
    while (v->graph->outputs.at[place] != v) place++;
    const char *message =
        arena_printf(l->program->arena, "output '%s' would have rank %d, not %d as declared",
                     v->graph->output_names.at[place], from->rank, rank);
    check_dims(l, n, zero, infer_k(n, 1), message);
    for (int j = 0; j < rank; j++) set_dim(l, n, infer_made_dim(n, made + j), zero);
}

static void lower_branch(lowering *l, const node *n, int which, region *r, buffer *const *out) {
    region *outside = l->region;
    graph *g = branch(n, branch_names[which]);
    l->region = r;
    if (impossible(n, which)) check_dims(l, n, infer_k(n, 0), infer_k(n, 1), impossible(n, which));
    lower_graph(l, g);
    handover *all = ARENA_ARRAY(l->program->arena, handover, n->nout + 1);
    int count = 0, made = 0;
    for (int i = 0; i < n->nout; i++) {
        if (!n->out[i]) continue;
        const type *inside = &g->outputs.at[i]->type;
        int rank = n->out[i]->type.rank;
        bool differs = n->out[i]->type.kind == TYPE_TENSOR && rank < 0; // a handle, for any rank
        buffer *from = differs ? value_from_tensor(l, n, g->outputs.at[i], "of_rank")
                               : lower_buffer(l, g->outputs.at[i]);
        if (rank >= 0 && rank != inside->rank) refuse_rank(l, n, i, from, made);
        else bind_dims(l, n, i, from, made);
        made += rank > 0 ? rank : 0;
        if (rank != inside->rank && !differs) continue;
        all[count] = (handover){.to = out[i], .from = from};
        all[count].moved = out[i]->role == BUF_HEAP && may_move(g, all, count);
        count++;
    }
    hand_over(l, n, all, count, false);
    hand_over(l, n, all, count, true);
    l->region = outside;
}

static void if_lower(lowering *l, node *n) {
    buffer *condition = lower_in(l, n, 0), **out = ARENA_ARRAY(l->program->arena, buffer *, n->nout + 1);
    for (int i = 0; i < n->nout; i++) {
        value *v = n->out[i];
        if (!v) continue;
        bool sized = v->type.kind != TYPE_TENSOR || v->type.rank == RANK_UNKNOWN ||
                     !dims_are_opaque(v->type.dims, v->type.rank);
        out[i] = sized ? lower_handle_out(l, n, i)
                       : heap_buffer(l, n, v->name, v->type.elem, v->type.rank, v->type.dims);
        if (sized) continue;
        map_value(l, v, out[i]);
    }
    step *s = step_new(l->program, l->region, STEP_IF, n->loc);
    s->buffer = condition;
    for (int b = 0; b < 2; b++) {
        s->body[b] = ARENA_NEW(l->program->arena, region);
        lower_branch(l, n, b, s->body[b], out);
    }
}

OPERATOR(If, .canonicalise = if_canonicalise, .infer = if_infer, .has_hidden_rank = if_has_hidden_rank,
         .sink_into = if_sink_into, .lower = if_lower, .takes_any_rank = true);
