// Lowering: the graph's nodes, each through its operator's lower function, to a program of unscheduled
// kernels.
#include "ir/kernel/lower.h"
#include <string.h>

// Allocates b before the current step: a kernel may request its buffers while it is built.
static void allocate(lowering *l, const loc *at, buffer *b) {
    region *r = l->region;
    const step *last = r->steps.n ? r->steps.at[r->steps.n - 1] : NULL;
    bool made = last && last->kind == STEP_KERNEL && last->loc == at;
    step_insert(l->program, r, r->steps.n - made, STEP_ALLOC, at)->buffer = b;
}

static buffer *new_temp(lowering *l, const loc *at, const char *name, dtype t, int rank, dim *const *d) {
    buffer *b = program_temp(l->program, name, t, rank, d);
    b->region = l->depth;
    if (b->role == BUF_HEAP) allocate(l, at, b);
    return b;
}

// Whether the values of a map are single elements of whole bytes; exporters give them shape [] or [1].
static bool is_plain_map(const type *t) {
    const type *v = t->item;
    if ((t->elem != DT_I64 && t->elem != DT_STRING) || v->kind != TYPE_TENSOR || dtype_bits(v->elem) < 8)
        return false;
    for (int j = 0; j < v->rank; j++)
        if (dim_is_const(v->dims[j]) && !dim_is(v->dims[j], 1)) return false;
    return true;
}

static void need_tensor(lowering *l, const loc *at, const value *v) {
    const type *t = &v->type;
    if (t->kind == TYPE_TENSOR) return;
    if (t->kind == TYPE_OPTIONAL && t->item) t = t->item;
    while (t->kind == TYPE_SEQUENCE && t->item) t = t->item;
    if (t->kind != TYPE_TENSOR && (t->kind != TYPE_MAP || !is_plain_map(t)))
        diag_fatal_missing(l->program->diag, at, "value '%s' is %s: that is not supported", v->name,
                           type_text(l->program->arena, t));
}

static bool has_no_rank(const value *v) { return v->type.kind == TYPE_TENSOR && v->type.rank < 0; }

// The value that callers receive: for maps, the table that represents them.
static value *given_value(value *v) {
    const constant *labels;
    value *table = value_table(v, &labels);
    return table ? table : v;
}

static bool is_output(const value *v) {
    const graph *g = v->graph;
    for (int j = 0; g && !g->outer && j < g->outputs.n; j++)
        if (given_value(g->outputs.at[j]) == v) return true;
    return false;
}

static void need_rank(lowering *l, const loc *at, const value *v) {
    need_tensor(l, at, v);
    if (!has_no_rank(v)) return;
    if (!v->def && v->graph && !v->graph->outer)
        diag_hint(
            l->program->diag,
            "--shape %s=NxCx8 gives what the model leaves open, --shape %s=*4 stands for every rank up to 4",
            v->name, v->name);
    else
        diag_hint(
            l->program->diag, "where the rank depends on a size of the model, --dim NAME=N binds that size%s",
            is_output(v) ? "; an output that always has the same rank may be declared with it in the model"
                         : "");
    diag_fatal_missing(l->program->diag, at, "the rank of '%s' is not known at compile time", v->name);
}

type lower_type(const type *t) {
    if (t->kind == TYPE_TENSOR && t->rank >= 0 && t->elem != DT_STRING) return *t;
    if (t->kind != TYPE_TENSOR || t->rank < 0) return (type){.kind = TYPE_TENSOR, .elem = DT_I64};
    type handles = *t;
    handles.elem = DT_I64;
    return handles;
}

static buffer *known_buffer(lowering *l, const value *v) {
    return map_get_number(&l->buffers, (uint64_t)v->id);
}
void map_value(lowering *l, value *v, buffer *b) {
    if (!b->value) b->value = v;
    map_put_number(&l->buffers, (uint64_t)v->id, b);
}

static step *handle_step(lowering *l, region *r, const char *function, buffer *to, buffer *from) {
    step *s = step_library(l->program, r, function, NULL, 1, 2, 1);
    s->args[0] = to, s->args[1] = from;
    s->numbers[0] = buffer_count(to);
    return s;
}

// Strings as a constant of offsets, sizes and bytes; the program makes handles to them at its entry.
static buffer *constant_strings(lowering *l, const char *name, const constant *c) {
    arena *a = l->program->arena;
    dim *sizes[MAX_RANK];
    for (int j = 0; j < c->rank; j++) sizes[j] = dim_const(l->program->dims, c->dims[j]);
    int64_t bytes = 8 * c->count, at = bytes;
    for (int64_t i = 0; i < c->count; i++) bytes += 8 + (int64_t)(c->string_sizes[i] + 7) / 8 * 8;
    constant *block = constant_new(a, DT_U8, 1, &bytes);
    uint8_t *data = arena_alloc(a, (size_t)bytes + 8);
    block->data = data;
    for (int64_t i = 0; i < c->count; i++) {
        int64_t size = (int64_t)c->string_sizes[i];
        memcpy(data + 8 * i, &at, 8);
        memcpy(data + at, &size, 8);
        memcpy(data + at + 8, c->strings[i], c->string_sizes[i]);
        at += 8 + (size + 7) / 8 * 8;
    }
    buffer *b = program_buffer(l->program, name, BUF_TEMP, DT_STRING, c->rank, sizes);
    buffer *from = program_constant(l->program, arena_printf(a, "%s.strings", name), block);
    handle_step(l, l->entry, "string_constants", b, from);
    return b;
}

buffer *lower_constant(lowering *l, const char *name, const constant *c) {
    if (c->kind == CONST_STRINGS) return constant_strings(l, name, c);
    return program_constant(l->program, name, c);
}

buffer *lower_buffer(lowering *l, value *v) {
    buffer *b = known_buffer(l, v);
    if (b) return b;
    need_tensor(l, v->def ? v->def->loc : NULL, v);
    if (!v->constant)
        diag_defect(l->program->diag, v->def ? v->def->loc : NULL, "value '%s' is used before it is computed",
                    v->name);
    b = lower_constant(l, v->name, v->constant);
    map_value(l, v, b);
    return b;
}

buffer *lower_in(lowering *l, const node *n, int i) {
    value *v = node_in(n, i);
    if (v && (!known_buffer(l, v) || has_no_rank(v))) need_rank(l, n->loc, v);
    return v ? lower_buffer(l, v) : NULL;
}

// The position of v among the main graph's outputs when it can be computed in place there, else -1.
static int output_position(lowering *l, const value *v) {
    const graph *g = l->program->module->main;
    if (has_no_rank(v) || l->program->outputs.n != g->outputs.n || v->graph != g ||
        v->type.kind != TYPE_TENSOR || v->type.elem == DT_STRING ||
        dims_are_opaque(v->type.dims, v->type.rank))
        return -1;
    for (int j = 0; j < g->outputs.n; j++)
        if (given_value(g->outputs.at[j]) == v) return j;
    return -1;
}

buffer *lower_out(lowering *l, const node *n, int i) {
    value *v = node_out(n, i);
    if (v) need_rank(l, n->loc, v);
    return lower_handle_out(l, n, i);
}

buffer *lower_handle_out(lowering *l, const node *n, int i) {
    value *v = node_out(n, i);
    if (!v) return NULL;
    buffer *b = known_buffer(l, v);
    if (b) return b;
    need_tensor(l, n->loc, v);
    int position = output_position(l, v);
    type t = lower_type(&v->type);
    if (position >= 0) b = l->program->outputs.at[position];
    else b = new_temp(l, n->loc, v->name, t.elem, t.rank, t.dims);
    map_value(l, v, b);
    return b;
}

void lower_view(lowering *l, node *n, int out, int in) {
    value *v = node_out(n, out);
    if (!v) return;
    if (n->in[in] && has_no_rank(n->in[in]) && !has_no_rank(v)) need_rank(l, n->loc, n->in[in]);
    if (has_no_rank(v) && !(n->in[in] && has_no_rank(n->in[in])))
        need_rank(l, n->loc, v); // a buffer is not a handle
    need_tensor(l, n->loc, v);
    buffer *from = n->in[in] && has_no_rank(n->in[in]) ? lower_buffer(l, n->in[in]) : lower_in(l, n, in);
    type t = lower_type(&v->type);
    buffer *b = program_view(l->program, from, v->name, t.rank, t.dims);
    int bits = dtype_bits(v->type.elem);
    if (bits && bits < dtype_bits(b->dtype)) b->dtype = v->type.elem; // packed elements of bytes
    map_value(l, v, b);
}

buffer *lower_temp(lowering *l, const node *n, const char *suffix, dtype t, int rank, dim *const *d) {
    const char *base = n->nout && n->out[0]     ? n->out[0]->name
                       : n->loc && n->loc->node ? n->loc->node
                                                : n->op->name;
    return new_temp(l, n->loc, arena_printf(l->program->arena, "%s.%s", base, suffix), t, rank, d);
}

kernel *lower_kernel(lowering *l, const node *n, const char *suffix) {
    arena *a = l->program->arena;
    const char *name = n->op->name;
    if (n->loc && n->loc->node) name = arena_printf(a, "%s_%s", n->op->name, n->loc->node);
    if (suffix) name = arena_printf(a, "%s_%s", name, suffix);
    kernel *k = kernel_new(l->program, name, n->loc);
    step_kernel(l->program, l->region, k);
    return k;
}

step *lower_library(lowering *l, const node *n, const char *function, int nwritten, int nargs, int nnumbers) {
    return step_library(l->program, l->region, function, n->loc, nwritten, nargs, nnumbers);
}

// ---------------------------------------------------------------- building blocks
void axes_over(kernel *k, stage *s, const buffer *b, expr **index) {
    for (int j = 0; j < b->rank; j++) {
        char name[16] = {"ijklmnopqrstuvwxyz"[j % 18], 0};
        int a = kernel_axis(k, AXIS_PARALLEL, name, b->dims[j]);
        if (s) stage_axis(k, s, a);
        else k->nouter = a + 1;
        index[j] = x_axis(k, a);
    }
}

expr *read_broadcast(kernel *k, buffer *b, expr *const *index, int rank) {
    expr *at[MAX_RANK];
    for (int j = 0; j < b->rank; j++) {
        int axis = rank - b->rank + j;
        expr *i = axis < 0 ? x_i64(k, 0) : index[axis];
        dim *d = b->dims[j];
        tri one = dim_equal(d, dim_const(d->table, 1));
        if (one == TRI_YES) at[j] = x_i64(k, 0);
        // A symbolic dim that is also the extent of the axis needs no separate stride.
        else if (one == TRI_NO || (i->op == X_AXIS && k->axes.at[i->axis].extent == d)) at[j] = i;
        else
            at[j] = x_mul(k, i, x_dim(k, dim_sub(dim_const(d->table, 1), dim_eq(d, dim_const(d->table, 1)))));
    }
    return x_read(k, b, at);
}

stage *pointwise_stage(lowering *l, const node *n, buffer *out, kernel **k, expr **index) {
    *k = lower_kernel(l, n, NULL);
    stage *s = kernel_stage(*k);
    axes_over(*k, s, out, index);
    return s;
}

// ---------------------------------------------------------------- the whole module
static bool is_set(const program *p, const dim *atom) {
    bool set = atom->kind != DIM_OPAQUE;
    for (int j = 0; j < p->variables.n && !set; j++) set = p->variables.at[j] == atom;
    return set;
}

static bool all_set(const program *p, const dim *d) {
    arena *scratch = arena_new();
    atom_list atoms = dim_atoms(scratch, d);
    bool set = true;
    for (int j = 0; j < atoms.n; j++) set &= is_set(p, atoms.at[j]);
    arena_destroy(scratch);
    return set;
}

static bool has_node_at(const graph *g, const loc *at) {
    for (int j = 0; j < g->nodes.n; j++)
        if (g->nodes.at[j]->loc == at) return true;
    return false;
}

// Nodes of a body that replaced a node have its location, but run while the sizes of the node still change; those
// before the body have it, too, and run where the body does not. Nodes that left a body take its checks along.
static bool belongs_to(const dim_check *c, const node *n) {
    if (c->at != n->loc) return false;
    for (const graph *g = c->in; g; g = g->outer) {
        if (g == n->graph) return true;
        if (has_node_at(g, c->at)) return false;
    }
    return false;
}

// Whether a step that always runs has checked this already; records it if the current region always runs.
static bool holds_always(lowering *l, const dim *holds) {
    if (map_get_number(&l->certain, (uint64_t)holds->id)) return true;
    if (l->region == l->program->main) map_put_number(&l->certain, (uint64_t)holds->id, l);
    return false;
}

void lower_check(lowering *l, const node *n, dim *holds, const char *message) {
    if ((dim_is_const(holds) && !dim_is(holds, 0)) || holds_always(l, holds)) return;
    step *s = step_new(l->program, l->region, STEP_CHECK, n->loc);
    s->dim = holds, s->message = message;
}

enum { READABLE_MOST = 200 };

// Long sizes are expressions of values that the model computes, which tell their reader nothing. The two sizes are in the
// order of `holds`, in which a run that fails tells their numbers.
static const char *mismatch_text(arena *a, const dim_check *c, const dim *holds) {
    bool ordered = holds->kind == DIM_EQ;
    const char *left = dim_text(a, ordered ? holds->a : c->a),
               *right = dim_text(a, ordered ? holds->b : c->b);
    if (strlen(left) + strlen(right) > READABLE_MOST)
        return arena_printf(a, "%s: the sizes do not match", c->what);
    return arena_printf(a, "%s: %s is not %s", c->what, left, right);
}

void lower_checks(lowering *l, const node *n) {
    module *m = l->program->module;
    for (int j = 0; j < m->checks.n; j++) {
        struct dim_check *c = &m->checks.at[j];
        if (!belongs_to(c, n) || map_get_number(&l->checked, (uint64_t)j)) continue;
        dim *holds = dim_eq(c->a, c->b);
        if (dim_is(holds, 1) || !all_set(l->program, holds)) continue;
        map_put_number(&l->checked, (uint64_t)j, c);
        lower_check(l, n, holds, mismatch_text(l->program->arena, c, holds));
    }
}

// Whether the stage computes nothing: 1 or 0.
static dim *is_idle(const kernel *k, const stage *s) {
    dim *least = dim_const(k->program->dims, 1);
    for (int j = 0; j < k->nouter; j++) least = dim_min(least, k->axes.at[j].extent);
    for (int j = 0; j < s->axes.n; j++) least = dim_min(least, k->axes.at[s->axes.at[j]].extent);
    return dim_eq(least, dim_const(least->table, 0));
}

// Checks before step `at` that axes of checked indices, which are clamped to positions, have positions. Returns the number of checks.
static int check_positions(lowering *l, int at, const kernel *k) {
    arena *scratch = arena_new();
    int first = at;
    for (int j = 0; j < k->stages.n; j++) {
        expr_list all = stage_nodes(scratch, k->stages.at[j], PART_ALL);
        for (int i = 0; i < all.n; i++) {
            const expr *index, *size;
            if (all.at[i]->op != X_CHECK || !check_operands(all.at[i], &index, &size) || size->op != X_DIM)
                continue;
            dim *one = dim_const(l->program->dims, 1),
                *holds = dim_max(dim_min(size->dim, one), is_idle(k, k->stages.at[j]));
            if (dim_is(holds, 1) || holds_always(l, holds)) continue;
            step *s = step_insert(l->program, l->region, at++, STEP_CHECK, k->loc);
            s->dim = holds;
            s->message =
                arena_printf(l->program->arena, "%s (size 0)", k->messages.at[all.at[i]->axis]->text);
        }
    }
    arena_destroy(scratch);
    return at - first;
}

static void lower_node(lowering *l, node *n) {
    int first = l->region->steps.n;
    for (int i = 0; i < n->nin && !n->op->takes_any_rank; i++)
        if (n->in[i] && has_no_rank(n->in[i])) need_rank(l, n->loc, n->in[i]);
    lower_checks(l, n);
    if (n->op->is_view && !n->op->lower) {
        lower_view(l, n, 0, 0);
        return;
    }
    if (!n->op->lower) diag_defect(l->program->diag, n->loc, "no lowering");
    n->op->lower(l, n);
    lower_checks(l, n);
    for (int j = first; j < l->region->steps.n; j++)
        if (l->region->steps.at[j]->kind == STEP_KERNEL)
            j += check_positions(l, j, l->region->steps.at[j]->kernel);
}

void lower_graph(lowering *l, graph *g) {
    for (int j = 0; j < g->nodes.n; j++) lower_node(l, g->nodes.at[j]);
}

// A buffer of the caller: elements of a tensor, or a struct for sequences and optionals.
static buffer *io_buffer(program *p, const char *name, buffer_role role, value *v, int place) {
    const type *t = &v->type;
    bool tensor = t->kind == TYPE_TENSOR && t->rank >= 0;
    buffer *b = program_buffer(p, name, role, tensor ? t->elem : DT_U8, tensor ? t->rank : 0, t->dims);
    b->io = place;
    b->value = v;
    if (!tensor) b->holds = t;
    return b;
}

static const char *hand_function(const buffer *b, bool take) {
    if (b->holds) return take ? "value_import" : "value_export";
    return b->dtype != DT_STRING ? NULL : take ? "string_import" : "string_export";
}

// Encodes the type for value_import; returns the number of numbers.
static int taken_numbers(program *p, const type *t, dim **numbers, int n) {
    int64_t code[3] = {t->kind == TYPE_OPTIONAL   ? 0
                       : t->kind == TYPE_SEQUENCE ? 2
                       : t->kind == TYPE_MAP      ? 3
                                                  : 1,
                       (int)t->elem, t->kind == TYPE_MAP ? (int)t->item->elem : 0};
    int own = t->kind == TYPE_MAP ? 3 : t->kind == TYPE_TENSOR ? 2 : 1;
    for (int j = 0; numbers && j < own; j++) numbers[n + j] = dim_const(p->dims, code[j]);
    if (t->kind == TYPE_SEQUENCE || t->kind == TYPE_OPTIONAL)
        return taken_numbers(p, t->item, numbers, n + own);
    return n + own;
}

// Converts an input to handles.
static buffer *take_input(lowering *l, value *v, buffer *from) {
    program *p = l->program;
    type t = lower_type(&v->type);
    const char *name = arena_printf(p->arena, "%s.handles", v->name);
    buffer *handles = program_buffer(p, name, BUF_TEMP, t.elem, t.rank, t.dims);
    step *s = handle_step(l, l->region, hand_function(from, true), handles, from);
    if (!from->holds) return handles;
    s->numbers = ARENA_ARRAY(p->arena, dim *, taken_numbers(p, &v->type, NULL, 0));
    s->nnumbers = taken_numbers(p, &v->type, s->numbers, 0);
    const char **message = ARENA_ARRAY(p->arena, const char *, 2);
    message[0] = arena_printf(p->arena, "input '%s' must be %s", v->name, type_text(p->arena, &v->type));
    message[1] = arena_printf(p->arena, "input '%s' has a key twice", v->name);
    s->messages = message, s->nmessages = 2;
    return handles;
}

static void lower_inputs(lowering *l, graph *g) {
    program *p = l->program;
    for (int j = 0; j < g->inputs.n; j++) {
        value *v = g->inputs.at[j];
        need_tensor(l, NULL, v);
        buffer *b = io_buffer(p, v->name, BUF_INPUT, v, j);
        VEC_PUSH(p->arena, &p->inputs, b);
        if (v->fallback)
            b->fallback = program_constant(p, arena_printf(p->arena, "%s.default", v->name), v->fallback);
        if (hand_function(b, true)) b = take_input(l, v, b);
        map_value(l, v, b);
    }
}

static void make_outputs(lowering *l, graph *g) {
    program *p = l->program;
    for (int j = 0; j < g->outputs.n; j++) {
        value *v = g->outputs.at[j], *given = given_value(v);
        need_tensor(l, v->def ? v->def->loc : NULL, v);
        buffer *b = io_buffer(p, g->output_names.at[j], BUF_OUTPUT, given, j);
        if (value_table(v, &b->labels)) b->value = v;
        VEC_PUSH(p->arena, &p->outputs, b);
    }
}

// Copies outputs that were not computed in place: inputs, constants, views, repeated and data-sized ones,
// handles.
static void copy_outputs(lowering *l, graph *g) {
    for (int j = 0; j < g->outputs.n; j++) {
        buffer *from = lower_buffer(l, given_value(g->outputs.at[j])), *to = l->program->outputs.at[j];
        if (from == to) continue;
        if (hand_function(to, false)) {
            handle_step(l, l->region, hand_function(to, false), to, from);
            continue;
        }
        step *s = step_new(l->program, l->region, STEP_COPY, NULL);
        s->buffer = to, s->from = from;
    }
}

// Puts the steps of `first` before the steps of r.
static void put_before(program *p, region *r, const region *first) {
    region all = {0};
    for (int j = 0; j < first->steps.n; j++) VEC_PUSH(p->arena, &all.steps, first->steps.at[j]);
    for (int j = 0; j < r->steps.n; j++) VEC_PUSH(p->arena, &all.steps, r->steps.at[j]);
    *r = all;
}

program *lower_module(module *m) {
    program *p = program_new(m);
    lowering l = {.program = p, .region = p->main, .entry = ARENA_NEW(m->arena, region)};
    l.buffers.arena = l.checked.arena = l.certain.arena = m->arena;
    lower_inputs(&l, m->main);
    make_outputs(&l, m->main);
    lower_graph(&l, m->main);
    copy_outputs(&l, m->main);
    put_before(p, p->main, l.entry);
    program_verify(p);
    return p;
}

// Inputs of the program for values that n reads and that are not constant.
static void lower_alone_inputs(lowering *l, const node *n) {
    for (int j = 0; j < n->nin; j++) {
        value *v = n->in[j];
        if (!v || v->constant || known_buffer(l, v)) continue;
        buffer *b = io_buffer(l->program, v->name, BUF_INPUT, v, l->program->inputs.n);
        VEC_PUSH(l->program->arena, &l->program->inputs, b);
        map_value(l, v, b);
    }
}

program *lower_alone(node *n) {
    module *m = n->graph->module;
    program *p = program_new(m);
    lowering l = {.program = p,
                  .region = p->main,
                  .buffers = {.arena = m->arena},
                  .checked = {.arena = m->arena},
                  .certain = {.arena = m->arena},
                  .entry = p->main};
    // The recorded checks belong to other nodes at the same place.
    for (int j = 0; j < m->checks.n; j++) map_put_number(&l.checked, (uint64_t)j, n);
    lower_alone_inputs(&l, n);
    if (n->op->lower) n->op->lower(&l, n);
    else lower_view(&l, n, 0, 0);
    for (int j = 0; j < n->nout; j++)
        VEC_PUSH(m->arena, &p->outputs, n->out[j] ? lower_buffer(&l, n->out[j]) : NULL);
    return p;
}
