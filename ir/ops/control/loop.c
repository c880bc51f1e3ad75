// Loop: each carried value has a buffer. Carried sizes that change are runtime symbols, and their buffers are
// heap memory into which the body's result is moved. Scan outputs of unknown length grow by doubling.
//
//   carried = initial
//   for i < trip count and condition:
//     body;  scan_output[i] = element
//     next = body's results;  sizes = next sizes;  carried = next
#include "ir/ops/branches.h"
#include "ir/ops/control/control.h"
#include "ir/ops/control/sequence.h"
#include "ir/ops/runtime_args.h"

// ---- Shapes. Unknown dims that inference makes for the node, in this order:
enum { DIM_ITERATION, DIM_TRIP, DIM_FIRST }; // then one per dim of each carried value and scan element

static graph *body_of(const node *n) {
    graph *g = node_graph(n, "body");
    int carried = n->nin > 2 ? n->nin - 2 : 0;
    if (!g) infer_error(n, "attribute body is missing");
    if (g->inputs.n != carried + 2)
        infer_error(n, "the body has %d inputs; iteration, condition and %d carried values are %d",
                    g->inputs.n, carried, carried + 2);
    if (g->outputs.n < carried + 1 || n->nout > g->outputs.n - 1)
        infer_error(n, "the body has %d outputs; the node has %d inputs and %d outputs", g->outputs.n, n->nin,
                    n->nout);
    return g;
}

static int carried_count(const node *n) { return n->nin > 2 ? n->nin - 2 : 0; }

// Follows views to their source.
static const value *origin(const value *v) {
    while (v->def && v->def->op->is_view && node_in(v->def, 0) && !v->constant) v = v->def->in[0];
    return v;
}

static bool is_true(const value *v) {
    return v->constant && v->constant->elem == DT_BOOL && v->constant->count == 1 &&
           constant_int(v->constant, 0);
}

// Whether the loop runs for the whole trip count: without an initial condition the body's is constant true
// (stop_on_condition), and otherwise it may be.
static bool runs_all(const node *n, const graph *g) {
    const value *start = node_in(n, 1);
    if (!start) return true;
    const value *next = origin(g->outputs.at[0]);
    return is_true(origin(start)) && (is_true(next) || next == g->inputs.at[1]);
}

// The maximum number of iterations; NULL if unbounded or known only at run time.
static dim *most_trips(const node *n) {
    int count;
    dim **m = infer_contents(n, 0, &count);
    return m && count == 1 ? dim_max(m[0], infer_k(n, 0)) : NULL;
}

static dim *known_trips(const node *n, const graph *g) { return runs_all(n, g) ? most_trips(n) : NULL; }

static void set_body_input(graph *g, int i, type t) {
    value *v = g->inputs.at[i];
    v->type = t;
    v->contents = NULL;
    v->ncontents = 0;
}

// A scalar, but where the body declares a list of one: exporters wrote such bodies, and ONNX Runtime takes them.
static type single_type(const node *n, const graph *g, int i, dtype t) {
    bool list = g->inputs.at[i]->type.kind == TYPE_TENSOR && g->inputs.at[i]->type.rank == 1;
    return type_tensor(infer_arena(n), t, list, (dim *[]){infer_k(n, 1)});
}

static void start_types(node *n, graph *g, dim *iteration) {
    arena *a = infer_arena(n);
    set_body_input(g, 0, single_type(n, g, 0, DT_I64));
    value *first = g->inputs.at[0];
    first->contents = ARENA_ARRAY(a, dim *, 1);
    first->contents[0] = iteration;
    first->ncontents = 1;
    set_body_input(g, 1, node_in(n, 1) ? n->in[1]->type : single_type(n, g, 1, DT_BOOL));
    for (int i = 0; i < carried_count(n); i++) {
        if (!node_in(n, i + 2)) infer_error(n, "carried value %d is missing", i);
        type t = n->in[i + 2]->type;
        if (t.kind == TYPE_TENSOR && t.rank >= 0) t = type_tensor(a, t.elem, t.rank, t.dims);
        set_body_input(g, i + 2, t);
    }
}

// Generalises the carried type to include the type of the body's result; true if it changed.
static bool generalise(node *n, int i, type *carried, const type *given, int own) {
    // An optional remains one if it is assigned a value of its item type.
    if (carried->kind == TYPE_OPTIONAL && given->kind == TYPE_SEQUENCE) return false;
    if (carried->kind != given->kind || (carried->kind == TYPE_TENSOR && carried->elem != given->elem))
        infer_error(n, "carried value %d is %s initially and %s after an iteration", i,
                    type_text(infer_arena(n), carried), type_text(infer_arena(n), given));
    if (carried->kind != TYPE_TENSOR) return sequence_generalise(n, carried, given);
    if (carried->rank == RANK_UNKNOWN) return false;
    if (carried->rank != given->rank) {
        carried->rank = RANK_UNKNOWN;
        return true;
    }
    bool changed = false;
    for (int j = 0; j < carried->rank; j++) {
        dim *variable = infer_made_dim(n, own + j);
        if (carried->dims[j] == variable || dim_equal(carried->dims[j], given->dims[j]) == TRI_YES) continue;
        carried->dims[j] = variable;
        changed = true;
    }
    return changed;
}

static int carried_rank(const node *n, int i) {
    const type *t = &n->in[i + 2]->type;
    return t->kind == TYPE_TENSOR && t->rank > 0 ? t->rank : 0;
}

// The number of the first unknown dim of carried value (or, past those, scan output) i.
static int first_dim(const node *n, const graph *g, int i) {
    int number = DIM_FIRST, carried = carried_count(n);
    for (int j = 0; j < i && j < carried; j++) number += carried_rank(n, j);
    for (int j = carried; j < i; j++) {
        const type *t = &g->outputs.at[j + 1]->type;
        number += t->kind == TYPE_TENSOR && t->rank > 0 ? t->rank : 0;
    }
    return number;
}

// Generalises the types of the body's inputs; true if one changed.
static bool generalise_all(node *n, graph *g) {
    bool changed = false;
    for (int i = 0; i < carried_count(n); i++)
        changed |=
            generalise(n, i, &g->inputs.at[i + 2]->type, &g->outputs.at[i + 1]->type, first_dim(n, g, i));
    return changed;
}

// Inference rewrites nodes: it replaces an If by the branch that runs for these types. So it starts anew from the
// declared body if later iterations have other types than the first one.
static const char declared_body[] = "body.declared";

static void keep_body(node *n, const region_copy *copy) {
    node_set_attr(n, (attr){.name = declared_body, .kind = ATTR_GRAPH, .graph = copy->graph});
}

static graph *restore_body(node *n, const region_copy *copy) {
    graph *inferred = body_of(n), *g = copy->graph;
    for (int i = 0; i < g->inputs.n; i++) {
        const value *v = inferred->inputs.at[i];
        set_body_input(g, i, v->type);
        g->inputs.at[i]->contents = v->contents, g->inputs.at[i]->ncontents = v->ncontents;
    }
    infer_forget_checks(inferred);
    node_set_attr(n, (attr){.name = "body", .kind = ATTR_GRAPH, .graph = g});
    region_take_names(copy);
    return g;
}

static bool changes_rank(const node *n, const graph *g, int i) {
    const type *t = &g->inputs.at[i + 2]->type;
    return t->kind == TYPE_TENSOR && t->rank == RANK_UNKNOWN && n->in[i + 2]->type.rank >= 0;
}

// Marks a node whose body was not inferred, since a carried value changes its rank; then outputs are of any rank
// until loop_canonicalise has changed the node.
static const char rank_changes[] = "rank_changes";

static bool mark_rank_changes(node *n, const graph *g) {
    bool any = false;
    for (int i = 0; i < carried_count(n); i++) any |= changes_rank(n, g, i);
    if (any) node_set_attr(n, (attr){.name = rank_changes, .kind = ATTR_INT, .i = 1});
    for (int i = 0; any && i < n->nout; i++) {
        const type *t = &g->outputs.at[i + 1]->type;
        if (node_out(n, i) && t->kind == TYPE_TENSOR) infer_set_unknown(n, i, t->elem);
        else if (node_out(n, i)) n->out[i]->type = *t;
    }
    return any;
}

// The inferred body; NULL if a carried value changes its rank.
static graph *infer_body(node *n, graph *g) {
    bool changed = true, marked = false;
    while (changed && !marked) {
        region_copy copy = region_copied(g);
        keep_body(n, &copy);
        infer_graph(g);
        changed = generalise_all(n, g);
        marked = changed && mark_rank_changes(n, g);
        if (changed) g = restore_body(n, &copy);
    }
    node_remove_attr(n, declared_body);
    return marked ? NULL : g;
}

static void infer_scan_output(node *n, const graph *g, int i, dim *trips) {
    const type *t = &g->outputs.at[i + 1]->type;
    if (t->kind != TYPE_TENSOR) infer_error(n, "scan output %d is not a tensor", i);
    if (t->rank == RANK_UNKNOWN) {
        infer_set_unknown(n, i, t->elem);
        return;
    }
    dim *dims[MAX_RANK + 1] = {trips};
    for (int j = 0; j < t->rank; j++) {
        dim *own = infer_unknown_dim(n, "scan", NULL);
        dims[j + 1] = dim_is_opaque(t->dims[j]) ? own : t->dims[j];
    }
    infer_set(n, i, t->elem, t->rank + 1, dims);
}

static type given_type(const type *carried, const type *given) {
    return carried->kind == TYPE_OPTIONAL && given->kind == TYPE_SEQUENCE ? *given : *carried;
}

static void check_counters(const node *n, const graph *g) {
    const value *trips = node_in(n, 0), *condition = node_in(n, 1);
    if (trips) infer_single(n, trips, DT_I64, "the trip count");
    if (condition) infer_single(n, condition, DT_BOOL, "the condition");
    infer_single(n, g->inputs.at[0], DT_I64, "the iteration number of the body");
    infer_single(n, g->inputs.at[1], DT_BOOL, "the condition of the body");
}

static void loop_infer(node *n) {
    graph *g = body_of(n);
    check_counters(n, g);
    dim *iteration = infer_unknown_dim(n, "iteration", NULL);
    dim *trips = infer_data_dim(n, "trips", most_trips(n));
    trips->most = most_trips(n);
    start_types(n, g, iteration);
    for (int i = 0; i < carried_count(n); i++)
        for (int j = 0; j < carried_rank(n, i); j++) infer_unknown_dim(n, "carried", NULL);
    g = infer_body(n, g);
    if (!g) return;
    infer_single(n, g->outputs.at[0], DT_BOOL, "the condition that the body returns");
    if (known_trips(n, g)) trips = known_trips(n, g);
    for (int i = 0; i < g->outputs.n - 1; i++) {
        if (i >= carried_count(n)) {
            infer_scan_output(n, g, i, trips);
        } else if (node_out(n, i)) {
            const type *t = &g->inputs.at[i + 2]->type;
            if (t->kind == TYPE_TENSOR && t->rank != RANK_UNKNOWN) infer_set(n, i, t->elem, t->rank, t->dims);
            else n->out[i]->type = given_type(t, &g->outputs.at[i + 1]->type);
        }
    }
}

// ---- Lowering

typedef struct carried {
    value *in, *result; // input and output of the body
    buffer *now, *next; // next: NULL if the sizes never change
    bool varies;
} carried;
typedef struct scanned {
    value *element; // output of the body
    buffer *all;    // the output itself, or a growing buffer
    dim *room;      // capacity of the growing buffer; NULL: it does not grow
    int out, first; // numbers of the output, of its first unknown dim
} scanned;
typedef struct loop_lowering {
    lowering *l;
    node *n;
    graph *g;
    dim *iteration, *count;
    buffer *condition; // NULL: only the trip count terminates the loop
    int ncarried, nscanned;
    carried *carried;
    scanned *scanned;
} loop_lowering;

static dim *loop_k(const loop_lowering *o, int64_t v) { return dim_const(o->l->program->dims, v); }

static bool is_variable(const loop_lowering *o, int i, int j) {
    return o->carried[i].in->type.dims[j] == infer_made_dim(o->n, first_dim(o->n, o->g, i) + j);
}

// Initialises a carried value: in the memory of the output if no size varies, else in a separate buffer.
static void start_carried(loop_lowering *o, int i) {
    lowering *l = o->l;
    carried *c = &o->carried[i];
    buffer *initial = lower_in(l, o->n, i + 2);
    type held = lower_type(&c->in->type);
    const type *t = &held;
    if (t->rank == RANK_UNKNOWN)
        diag_fatal_missing(l->program->diag, o->n->loc, "carried value %d of the loop is %s", i,
                           type_text(l->program->arena, &c->in->type));
    for (int j = 0; j < t->rank; j++) {
        if (!is_variable(o, i, j)) continue;
        c->varies = true;
        set_dim(l, o->n, t->dims[j], initial->dims[j]);
    }
    if (c->varies) {
        c->now =
            heap_buffer(l, o->n, arena_printf(l->program->arena, "carried%d", i), t->elem, t->rank, t->dims);
        step_buffer(l, o->n, STEP_ALLOC, c->now);
        if (node_out(o->n, i)) map_value(l, o->n->out[i], c->now);
    } else {
        c->now = lower_out(l, o->n, i);
        const char *name = arena_printf(l->program->arena, "carried%d", i);
        if (!c->now) c->now = lower_temp(l, o->n, name, t->elem, t->rank, t->dims);
    }
    step_between(l, o->n, STEP_COPY, c->now, initial);
    map_value(l, c->in, c->now);
}

// If the condition is never false, the body reads a constant true.
static void start_condition(loop_lowering *o) {
    lowering *l = o->l;
    value *in = o->g->inputs.at[1];
    if (!runs_all(o->n, o->g)) {
        o->condition = lower_temp(l, o->n, "condition", DT_BOOL, in->type.rank, in->type.dims);
        copy_scalar(l, o->n, o->condition, lower_in(l, o->n, 1));
        map_value(l, in, o->condition);
        return;
    }
    int64_t ones[MAX_RANK];
    for (int j = 0; j < MAX_RANK; j++) ones[j] = 1;
    constant *yes = constant_splat(l->program->arena, DT_BOOL, in->type.rank, ones, &(uint8_t){1});
    map_value(l, in, program_constant(l->program, in->name, yes));
}

static void start_scanned(loop_lowering *o, int k) {
    lowering *l = o->l;
    scanned *s = &o->scanned[k];
    s->out = o->ncarried + k;
    s->element = o->g->outputs.at[s->out + 1];
    s->first = first_dim(o->n, o->g, s->out);
    const type *t = &s->element->type;
    if (!node_out(o->n, s->out)) return;
    if (t->rank == RANK_UNKNOWN)
        diag_fatal_missing(l->program->diag, o->n->loc,
                           "the rank of scan output %d is not known at compile time", s->out);
    dim *trips = known_trips(o->n, o->g);
    // A trip count found by folding after inference is not part of the output's type.
    bool declared = trips && o->n->out[s->out]->type.rank > 0 && o->n->out[s->out]->type.dims[0] == trips;
    if (declared && !dim_is_opaque(trips) && !dims_are_opaque(t->dims, t->rank)) {
        s->all = lower_out(l, o->n, s->out);
        return;
    }
    dim *dims[MAX_RANK + 1] = {s->room = dim_opaque(l->program->dims, "room", 0, INT64_MAX)};
    set_dim(l, o->n, s->room, loop_k(o, 0));
    for (int j = 0; j < t->rank; j++) {
        dims[j + 1] = t->dims[j];
        if (!dim_is_opaque(t->dims[j])) continue;
        dims[j + 1] = infer_made_dim(o->n, s->first + j);
        set_dim(l, o->n, dims[j + 1], loop_k(o, 0));
    }
    s->all = heap_buffer(l, o->n, arena_printf(l->program->arena, "scan%d", k), t->elem, t->rank + 1, dims);
    step_buffer(l, o->n, STEP_ALLOC, s->all);
}

static step *open_if(loop_lowering *o, dim *condition, region **outside) {
    lowering *l = o->l;
    step *s = step_new(l->program, l->region, STEP_IF, o->n->loc);
    s->dim = condition;
    s->body[0] = ARENA_NEW(l->program->arena, region);
    s->body[1] = ARENA_NEW(l->program->arena, region);
    *outside = l->region;
    l->region = s->body[0];
    return s;
}

// The first element determines the sizes; later ones must agree.
static void bind_element(loop_lowering *o, scanned *s, const buffer *element) {
    region *outside;
    open_if(o, dim_eq(o->iteration, loop_k(o, 0)), &outside);
    for (int j = 0; j < element->rank; j++)
        if (s->all->dims[j + 1] != element->dims[j])
            set_dim(o->l, o->n, s->all->dims[j + 1], element->dims[j]);
    o->l->region = outside;
    for (int j = 0; j < element->rank; j++)
        check_dims(o->l, o->n, s->all->dims[j + 1], element->dims[j],
                   "a scan output changes its shape between iterations");
}

// Copies the leading elements: all of `rows`, the smaller one of `to` and `from`.
static void copy_rows(loop_lowering *o, const char *suffix, buffer *to, buffer *from, buffer *rows) {
    kernel *k;
    expr *index[MAX_RANK];
    stage *s = suffixed_stage(o->l, o->n, suffix, rows, &k, index);
    stage_write(k, s, to, index, x_read(k, from, index));
}

static void grow_scanned(loop_lowering *o, int number, scanned *s) {
    lowering *l = o->l;
    region *outside;
    open_if(o, dim_eq(o->iteration, s->room), &outside);
    dim *more = dim_opaque(l->program->dims, "more", 0, INT64_MAX), *dims[MAX_RANK] = {more};
    set_dim(l, o->n, more, dim_max(dim_mulk(s->room, 2), loop_k(o, 4)));
    for (int j = 1; j < s->all->rank; j++) dims[j] = s->all->dims[j];
    const char *name = arena_printf(l->program->arena, "grow%d", number);
    buffer *wider = heap_buffer(l, o->n, name, s->all->dtype, s->all->rank, dims);
    step_buffer(l, o->n, STEP_ALLOC, wider);
    copy_rows(o, name, wider, s->all, s->all);
    step_buffer(l, o->n, STEP_FREE, s->all);
    set_dim(l, o->n, s->room, more);
    step_between(l, o->n, STEP_MOVE, s->all, wider);
    l->region = outside;
}

static void step_scanned(loop_lowering *o, int k) {
    scanned *s = &o->scanned[k];
    if (!s->all) return;
    buffer *element = lower_buffer(o->l, s->element);
    if (s->room) {
        if (dims_are_opaque(s->element->type.dims, s->element->type.rank)) bind_element(o, s, element);
        grow_scanned(o, k, s);
    }
    const char *name = arena_printf(o->l->program->arena, "scan%d", k);
    slice_kernel(o->l, o->n, name, s->all, element, 0, o->iteration, true);
}

static void finish_scanned(loop_lowering *o, int k) {
    scanned *s = &o->scanned[k];
    if (!s->room) return;
    buffer *out = lower_out(o->l, o->n, s->out);
    check_dims(o->l, o->n, out->dims[0], o->count, "the number of iterations is not the declared one");
    for (int j = 1; j < out->rank; j++)
        check_dims(o->l, o->n, out->dims[j], s->all->dims[j],
                   "a scan output does not have its declared size");
    copy_rows(o, arena_printf(o->l->program->arena, "trim%d", k), out, s->all, out);
    step_buffer(o->l, o->n, STEP_FREE, s->all);
}

// Whether `from` is memory that is overwritten when another carried value is assigned.
static bool is_carried(const loop_lowering *o, const buffer *from, int but) {
    const buffer *root = buffer_root(from);
    if (root == o->condition) return true;
    for (int i = 0; i < o->ncarried; i++)
        if (i != but && root == buffer_root(o->carried[i].now)) return true;
    return false;
}

// Fresh symbols for the next sizes: all are computed before any of them changes.
static void size_next(loop_lowering *o, int i, const buffer *from) {
    lowering *l = o->l;
    carried *c = &o->carried[i];
    dim *dims[MAX_RANK];
    for (int j = 0; j < c->now->rank; j++) {
        dims[j] = c->now->dims[j];
        if (!is_variable(o, i, j)) continue;
        dims[j] = dim_opaque(l->program->dims, "next", 0, INT64_MAX);
        set_dim(l, o->n, dims[j], from->dims[j]);
    }
    const char *name = arena_printf(l->program->arena, "next%d", i);
    c->next = heap_buffer(l, o->n, name, c->now->dtype, c->now->rank, dims);
}

// The assignments at the end of an iteration: `grown` for values that change size, `fixed` for other values,
// `staged` for copies of sources that another assignment overwrites.
typedef struct exchange {
    handover *grown, *fixed, *staged;
    int ngrown, nfixed, nstaged;
} exchange;

static void plan_carried(loop_lowering *o, exchange *x) {
    lowering *l = o->l;
    for (int i = 0; i < o->ncarried; i++) {
        carried *c = &o->carried[i];
        buffer *from = lower_buffer(l, c->result);
        if (from == c->now) continue;
        if (c->varies) {
            size_next(o, i, from);
            handover *h = &x->grown[x->ngrown];
            *h = (handover){.to = c->next, .from = from};
            h->moved = may_move(o->g, x->grown, x->ngrown++);
            continue;
        }
        if (is_carried(o, from, i)) {
            const char *name = arena_printf(l->program->arena, "staged%d", i);
            buffer *copy = lower_temp(l, o->n, name, c->now->dtype, c->now->rank, c->now->dims);
            x->staged[x->nstaged++] = (handover){.to = copy, .from = from};
            from = copy;
        }
        x->fixed[x->nfixed++] = (handover){.to = c->now, .from = from};
    }
}

static void copy_all(loop_lowering *o, const handover *all, int count) {
    for (int i = 0; i < count; i++) step_between(o->l, o->n, STEP_COPY, all[i].to, all[i].from);
}

static void replace_grown(loop_lowering *o) {
    lowering *l = o->l;
    for (int i = 0; i < o->ncarried; i++)
        if (o->carried[i].next) step_buffer(l, o->n, STEP_FREE, o->carried[i].now);
    for (int i = 0; i < o->ncarried; i++) {
        carried *c = &o->carried[i];
        for (int j = 0; c->next && j < c->now->rank; j++)
            if (c->next->dims[j] != c->now->dims[j]) set_dim(l, o->n, c->now->dims[j], c->next->dims[j]);
    }
    for (int i = 0; i < o->ncarried; i++)
        if (o->carried[i].next) step_between(l, o->n, STEP_MOVE, o->carried[i].now, o->carried[i].next);
}

// All copies precede the moves that take sources away, and the overwriting of carried values.
static void assign_carried(loop_lowering *o) {
    lowering *l = o->l;
    exchange x = {0};
    x.grown = ARENA_ARRAY(l->program->arena, handover, o->ncarried + 1);
    x.fixed = ARENA_ARRAY(l->program->arena, handover, o->ncarried + 1);
    x.staged = ARENA_ARRAY(l->program->arena, handover, o->ncarried + 1);
    plan_carried(o, &x);
    hand_over(l, o->n, x.grown, x.ngrown, false);
    copy_all(o, x.staged, x.nstaged);
    if (o->condition) copy_scalar(l, o->n, o->condition, lower_buffer(l, o->g->outputs.at[0]));
    copy_all(o, x.fixed, x.nfixed);
    hand_over(l, o->n, x.grown, x.ngrown, true);
    replace_grown(o);
}

static void lower_iteration(loop_lowering *o) {
    lowering *l = o->l;
    value *in = o->g->inputs.at[0];
    buffer *number = lower_temp(l, o->n, "iteration", DT_I64, in->type.rank, in->type.dims);
    map_value(l, in, number);
    if (!value_uses(in)) return;
    kernel *k = lower_kernel(l, o->n, "iteration");
    stage_write(k, kernel_stage(k), number, (expr *[]){x_i64(k, 0)}, x_dim(k, o->iteration));
}

static void lower_body(loop_lowering *o, dim *limit) {
    lowering *l = o->l;
    region *outside = open_loop(l, o->n, o->iteration, limit, o->condition);
    lower_iteration(o);
    lower_graph(l, o->g);
    for (int k = 0; k < o->nscanned; k++) step_scanned(o, k);
    assign_carried(o);
    set_dim(l, o->n, o->count, dim_addk(o->iteration, 1));
    close_loop(l, outside);
}

// The bound of the loop: a known dim, a symbol set from the tensor, or NULL.
static dim *trip_limit(loop_lowering *o) {
    if (!node_in(o->n, 0)) return NULL;
    dim *most = most_trips(o->n);
    if (most) return most;
    dim *limit = dim_opaque(o->l->program->dims, "limit", INT64_MIN, INT64_MAX);
    lower_set_dim(o->l, o->n, limit, lower_in(o->l, o->n, 0), 0);
    return limit;
}

static void loop_lower(lowering *l, node *n) {
    arena *a = l->program->arena;
    loop_lowering o = {.l = l, .n = n, .g = body_of(n), .ncarried = carried_count(n)};
    o.nscanned = o.g->outputs.n - 1 - o.ncarried;
    o.iteration = infer_made_dim(n, DIM_ITERATION), o.count = infer_made_dim(n, DIM_TRIP);
    o.carried = ARENA_ARRAY(a, carried, o.ncarried + 1);
    o.scanned = ARENA_ARRAY(a, scanned, o.nscanned + 1);
    set_dim(l, n, o.count, loop_k(&o, 0));
    for (int i = 0; i < o.ncarried; i++) {
        o.carried[i] = (carried){.in = o.g->inputs.at[i + 2], .result = o.g->outputs.at[i + 1]};
        start_carried(&o, i);
    }
    start_condition(&o);
    for (int k = 0; k < o.nscanned; k++) start_scanned(&o, k);
    lower_body(&o, trip_limit(&o));
    for (int k = 0; k < o.nscanned; k++) finish_scanned(&o, k);
}

// A condition that the body computes of such values may change its rank as well.
static void return_scalar_condition(node *n, graph *g) {
    value *in[] = {g->outputs.at[0], value_int64s(g, NULL, (int64_t[]){0}, 0)};
    graph_set_output(g, 0, node_output(node_new(g, NULL, op_find("", "Reshape"), n->loc, 2, in), 0, NULL));
}

static void carry_changing_ranks(node *n) {
    graph *g = body_of(n);
    for (int i = 0; i < carried_count(n); i++)
        if (changes_rank(n, g, i)) carry_any_rank(n, g, i);
    return_scalar_condition(n, g);
    node_remove_attr(n, rank_changes);
}

// Without an initial condition the standard ignores the condition that the body returns. ONNX Script writes `break`
// that way, and ONNX Runtime stops there: so does onnxc, with a warning.
static bool stop_on_condition(node *n) {
    graph *g = body_of(n);
    const value *next = origin(g->outputs.at[0]);
    if (node_in(n, 1) || is_true(next) || next == g->inputs.at[1]) return false;
    diag_warning(
        n->graph->module->diag, WARN_LOOP_CONDITION, n->loc,
        "the body returns a condition, but the loop has no initial condition: the loop ends when the "
        "condition is false, as in ONNX Runtime, although the standard ignores it");
    node_set_in(n, 1, insert_scalar(n, DT_BOOL, 1));
    return true;
}

static bool loop_canonicalise(node *n) {
    if (!node_attr(n, rank_changes)) return stop_on_condition(n);
    carry_changing_ranks(n);
    return true;
}

OPERATOR(Loop, .canonicalise = loop_canonicalise, .infer = loop_infer, .lower = loop_lower);
