// If, and what it shares with Loop and Scan (control.h): both branches become regions of one step; what they
// give is copied or moved into the outputs. Where the branches' shapes differ, each sets the output's sizes.
// Where the condition is known, the branch takes the If's place.
#include "ir/ops/control.h"
#include "ir/ops/sequence.h"

// ---- Shared

static void find_opaque(void *user, const dim *atom) {
    if (atom->kind == DIM_OPAQUE) *(bool *)user = true;
}

bool has_opaque(dim *const *dims, int rank) {
    bool found = false;
    for (int j = 0; j < rank; j++) dim_atoms(dims[j], find_opaque, &found);
    return found;
}

void declare_variable(lowering *l, dim *d) {
    program *p = l->program;
    for (int j = 0; j < p->variables.n; j++)
        if (p->variables.at[j] == d) return;
    VEC_PUSH(p->arena, &p->variables, d);
}

void set_dim(lowering *l, const node *n, dim *target, dim *value) {
    declare_variable(l, target);
    step *s = step_new(l->program, l->region, STEP_SET_DIM, n->loc);
    s->target = target, s->dim = value;
}

void check_dims(lowering *l, const node *n, dim *a, dim *b, const char *message) {
    if (dim_equal(a, b) == TRI_YES) return;
    step *s = step_new(l->program, l->region, STEP_CHECK, n->loc);
    s->dim = dim_eq(a, b), s->message = message;
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

// ---- If

static graph *branch(const node *n, const char *name) {
    graph *g = node_graph(n, name);
    if (!g) infer_error(n, "attribute %s is missing", name);
    if (g->inputs.n) infer_error(n, "%s has inputs; a branch must have none", name);
    if (g->outputs.n < n->nout)
        infer_error(n, "%s has %d outputs, the node has %d", name, g->outputs.n, n->nout);
    return g;
}

// Contents survive where both branches give the same ones.
static void merge_contents(node *n, int i, const value *a, const value *b) {
    if (!a->contents || !b->contents || a->ncontents != b->ncontents) return;
    for (int j = 0; j < a->ncontents; j++)
        if (a->contents[j] != b->contents[j]) return;
    infer_set_contents(n, i, a->contents, a->ncontents);
}

static void merge_outputs(node *n, int i, const value *a, const value *b) {
    const type *ta = &a->type, *tb = &b->type;
    if (ta->kind != tb->kind || (ta->kind == TYPE_TENSOR && ta->elem != tb->elem))
        infer_error(n, "output %d is %s in one branch and %s in the other", i, type_text(infer_arena(n), ta),
                    type_text(infer_arena(n), tb));
    if (ta->kind != TYPE_TENSOR) {
        n->out[i]->type = *ta;
        sequence_generalise(n, &n->out[i]->type, tb);
    } else if (ta->rank == RANK_UNKNOWN || ta->rank != tb->rank) {
        infer_set_unknown(n, i, ta->elem);
    } else {
        dim *dims[MAX_RANK];
        for (int j = 0; j < ta->rank; j++) {
            dim *own = infer_unknown_dim(n, "if", NULL);
            dims[j] = dim_equal(ta->dims[j], tb->dims[j]) == TRI_YES ? ta->dims[j] : own;
        }
        infer_set(n, i, ta->elem, ta->rank, dims);
        merge_contents(n, i, a, b);
    }
}

// The branch that runs where inference knows the condition, NULL: it does not. The other one may not even fit
// the sizes.
static graph *known_branch(const node *n) {
    int count;
    dim **condition = infer_contents(n, 0, &count);
    if (!condition || count != 1 || !dim_is_const(condition[0])) return NULL;
    return branch(n, dim_value(condition[0]) ? "then_branch" : "else_branch");
}

static bool if_resolve(node *n) {
    graph *g = known_branch(n);
    if (!g) return false;
    graph_inline(g, n);
    for (int i = 0; i < n->nout; i++)
        if (n->out[i]) value_replace(n->out[i], g->outputs.at[i]);
    node_delete(n);
    return true;
}

static void if_infer(node *n) {
    graph *g = branch(n, "then_branch"), *h = branch(n, "else_branch");
    infer_graph(g);
    infer_graph(h);
    for (int i = 0; i < n->nout; i++)
        if (n->out[i]) merge_outputs(n, i, g->outputs.at[i], h->outputs.at[i]);
}

// Whether dim j of output i is d whichever branch runs.
static bool always_sized(const node *n, int i, int j, const dim *d) {
    const type *a = &branch(n, "then_branch")->outputs.at[i]->type,
               *b = &branch(n, "else_branch")->outputs.at[i]->type;
    return j < a->rank && j < b->rank && dim_equal(d, a->dims[j]) == TRI_YES &&
           dim_equal(d, b->dims[j]) == TRI_YES;
}

// The sizes of output i, made by inference from number `made` on, take those of this branch. Both branches
// set them where one differs: a check after the node reads them.
static void bind_dims(lowering *l, const node *n, int i, const buffer *from, int made) {
    const type *out = &n->out[i]->type;
    for (int j = 0; j < out->rank; j++) {
        dim *own = infer_made_dim(n, made + j);
        if (always_sized(n, i, j, out->dims[j])) continue;
        set_dim(l, n, own, from->dims[j]);
        if (out->dims[j] != own && dim_equal(out->dims[j], from->dims[j]) != TRI_YES)
            check_dims(l, n, out->dims[j], from->dims[j], "a branch gives another size than declared");
    }
}

static void lower_branch(lowering *l, const node *n, graph *g, region *r, buffer *const *out) {
    region *outside = l->region;
    l->region = r;
    lower_graph(l, g);
    handover *all = ARENA_ARRAY(l->program->arena, handover, n->nout + 1);
    int count = 0, made = 0;
    for (int i = 0; i < n->nout; i++) {
        if (!n->out[i]) continue;
        buffer *from = lower_buffer(l, g->outputs.at[i]);
        bind_dims(l, n, i, from, made);
        made += n->out[i]->type.rank;
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
                     !has_opaque(v->type.dims, v->type.rank);
        out[i] = sized ? lower_handle_out(l, n, i)
                       : heap_buffer(l, n, v->name, v->type.elem, v->type.rank, v->type.dims);
        if (sized) continue;
        out[i]->value = v;
        map_put_number(&l->buffers, (uint64_t)v->id, out[i]);
    }
    step *s = step_new(l->program, l->region, STEP_IF, n->loc);
    s->buffer = condition;
    for (int b = 0; b < 2; b++) {
        s->body[b] = ARENA_NEW(l->program->arena, region);
        lower_branch(l, n, branch(n, b ? "else_branch" : "then_branch"), s->body[b], out);
    }
}

const op_def op_If = {.name = "If",
                      .domain = "",
                      .resolve = if_resolve,
                      .infer = if_infer,
                      .lower = if_lower,
                      .takes_any_rank = true};
