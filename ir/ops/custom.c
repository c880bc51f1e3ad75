// Custom operators. Types of outputs are declared in the model; the program is
//
//     custom SYMBOL_shape(sizes; inputs)              each if asked for
//     dims of outputs := sizes
//     custom SYMBOL_workspace(bytes; inputs)
//     custom SYMBOL(outputs, workspace; inputs)
//
// where each call is one of runtime-lite/lib/lib_custom.c.
#include "ir/ops/custom.h"
#include "ir/kernel/library.h"
#include "ir/ops/runtime_args.h"
#include <string.h>

// ---------------------------------------------------------------- types
static void need_numbers(const node *n, const char *what, int i, const type *t) {
    if (t->kind == TYPE_TENSOR && t->elem != DT_STRING && t->elem != DT_NONE) return;
    diag_fatal_missing(n->graph->module->diag, n->loc,
                       "%s %d of a custom operator is %s: only tensors of numbers are supported", what, i,
                       t->kind == TYPE_NONE ? "of unknown type" : type_text(infer_arena(n), t));
}

static bool is_size_of_inputs(const graph *g, const dim *atom) {
    for (int i = 0; i < g->inputs.n; i++) {
        const type *t = &g->inputs.at[i]->type;
        for (int j = 0; t->kind == TYPE_TENSOR && j < t->rank; j++)
            if (t->dims[j] == atom) return true;
    }
    return false;
}

// Whether d consists of sizes of the model's inputs.
static bool is_known(const node *n, const dim *d) {
    atom_list atoms = dim_atoms(infer_arena(n), d);
    bool known = true;
    for (int i = 0; i < atoms.n; i++) known &= is_size_of_inputs(n->graph->module->main, atoms.at[i]);
    return known;
}

static dim *declared_size(const node *n, int out, dim *d) {
    const custom_op *c = n->op->custom;
    if (dim_is_const(d)) return d;
    if (c->shape) return infer_unknown_dim(n, d->name ? d->name : "size", NULL);
    if (is_known(n, d)) return d;
    diag_hint(n->graph->module->diag, "--custom-op %s::%s=%s,shape lets a function %s_shape set it",
              c->domain, c->name, c->symbol, c->symbol);
    infer_error(n, "size '%s' of output %d ('%s') is not known before the run", dim_text(infer_arena(n), d),
                out, n->out[out]->name);
}

static void set_like_input(node *n, int out, dtype elem) {
    const type *from = infer_in(n, 0);
    dim *sizes[MAX_RANK];
    int rank = infer_rank(n, 0);
    for (int j = 0; j < rank; j++)
        sizes[j] = n->op->custom->shape ? infer_unknown_dim(n, "size", NULL) : from->dims[j];
    infer_set(n, out, elem == DT_NONE ? from->elem : elem, rank, sizes);
}

static void set_output(node *n, int out) {
    const type *t = infer_declared(n->out[out]);
    const custom_op *c = n->op->custom;
    bool shaped = t->kind != TYPE_NONE && (t->kind != TYPE_TENSOR || t->rank >= 0);
    if (!shaped && c->same) {
        set_like_input(n, out, t->elem);
        return;
    }
    if (!shaped)
        diag_hint(n->graph->module->diag,
                  "declare it in the model, or give it the type of input 0: "
                  "--custom-op %s::%s=%s,same",
                  c->domain, c->name, c->symbol);
    if (!shaped)
        infer_error(n, "the model does not declare the shape of output %d ('%s')", out, n->out[out]->name);
    need_numbers(n, "output", out, t);
    dim *sizes[MAX_RANK];
    for (int j = 0; j < t->rank && j < MAX_RANK; j++) sizes[j] = declared_size(n, out, t->dims[j]);
    infer_set(n, out, t->elem, t->rank, sizes);
}

static void infer_custom(node *n) {
    for (int i = 0; i < n->nin; i++) {
        if (!n->in[i]) continue;
        need_numbers(n, "input", i, &n->in[i]->type);
        infer_rank(n, i);
    }
    for (int i = 0; i < n->nout; i++)
        if (n->out[i]) set_output(n, i);
}

// ---------------------------------------------------------------- constants of a call
static constant *bytes_constant(arena *a, const char *s, size_t size) {
    int64_t n = (int64_t)size;
    constant *c = constant_new(a, DT_U8, 1, &n);
    memcpy((void *)c->data, s, size);
    return c;
}

// Each string and its NUL.
static constant *strings_constant(arena *a, const attr *t) {
    text all = {.arena = a};
    for (int i = 0; i < t->n; i++) text_addn(&all, t->strings[i], strlen(t->strings[i]) + 1);
    return bytes_constant(a, text_str(&all), all.n);
}

static constant *attr_constant(const node *n, const attr *t) {
    arena *a = infer_arena(n);
    switch (t->kind) {
    case ATTR_FLOAT:
    case ATTR_INT:
    case ATTR_FLOATS:
    case ATTR_INTS: return attr_numbers(a, t);
    case ATTR_STRING: return bytes_constant(a, arena_strndup(a, t->s, t->size), t->size + 1);
    case ATTR_STRINGS: return strings_constant(a, t);
    case ATTR_TENSOR:
        if (t->tensor->kind != CONST_STRINGS) return t->tensor;
        break;
    case ATTR_NONE:
    case ATTR_GRAPH:
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSOR:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPE:
    case ATTR_TYPES: break;
    }
    diag_fatal_missing(n->graph->module->diag, n->loc,
                       "attribute '%s': custom operators have ints, floats, strings and tensors of numbers",
                       t->name);
}

// ---------------------------------------------------------------- calls
typedef struct caller {
    lowering *l;
    node *n;
    buffer *texts, **attrs, *memory;
} caller;

static caller caller_new(lowering *l, node *n) {
    arena *a = l->program->arena;
    caller x = {.l = l, .n = n, .attrs = ARENA_ARRAY(a, buffer *, n->nattrs + 1)};
    const char *first[] = {n->op->domain, n->op->name, n->loc && n->loc->node ? n->loc->node : ""};
    text t = {.arena = a};
    for (int i = 0; i < 3; i++) text_addn(&t, first[i], strlen(first[i]) + 1);
    for (int i = 0; i < n->nattrs; i++) {
        const char *name = n->attrs[i].name;
        text_addn(&t, name, strlen(name) + 1);
        x.attrs[i] = program_constant(l->program, arena_printf(a, "%s.%s", n->op->name, name),
                                      attr_constant(n, &n->attrs[i]));
    }
    x.texts = program_constant(l->program, arena_printf(a, "%s.texts", n->op->name),
                               bytes_constant(a, text_str(&t), t.n));
    dim *bytes =
        infer_k(n, (n->nin + n->nout) * CUSTOM_TENSOR_BYTES + n->nattrs * CUSTOM_ATTRIBUTE_BYTES + 8);
    x.memory = lower_temp(l, n, "call", DT_U8, 1, &bytes);
    return x;
}

static dim **add_tensor(const node *n, dim **to, dtype t, int rank, dim *const *dims, bool sizes_known) {
    *to++ = infer_k(n, (int)t);
    *to++ = infer_k(n, rank);
    for (int j = 0; j < rank; j++)
        *to++ = sizes_known || !dims_are_opaque(&dims[j], 1) ? dims[j] : infer_k(n, -1);
    return to;
}

static type input_type(const node *n, int i) { return n->in[i] ? lower_type(&n->in[i]->type) : (type){0}; }

static void set_numbers(const caller *x, step *s, custom_purpose purpose, dim *workspace) {
    const node *n = x->n;
    const int first[] = {(int)purpose, n->nout, n->nattrs, n->nin};
    dim **to = s->numbers;
    for (int i = 0; i < 4; i++) *to++ = infer_k(n, first[i]);
    *to++ = workspace;
    for (int i = 0; i < n->nout; i++) {
        const type *t = n->out[i] ? &n->out[i]->type : &(type){0};
        to = add_tensor(n, to, t->elem, t->rank, t->dims, purpose != CUSTOM_SHAPE);
    }
    for (int i = 0; i < n->nattrs; i++)
        to = add_tensor(n, to, x->attrs[i]->dtype, x->attrs[i]->rank, x->attrs[i]->dims, true);
    for (int i = 0; i < n->nin; i++) {
        type t = input_type(n, i);
        to = add_tensor(n, to, t.elem, t.rank, t.dims, true);
    }
}

static int count_numbers(const caller *x) {
    const node *n = x->n;
    int count = CUSTOM_NUMBERS + 2 * (n->nout + n->nattrs + n->nin);
    for (int i = 0; i < n->nout; i++) count += n->out[i] ? n->out[i]->type.rank : 0;
    for (int i = 0; i < n->nattrs; i++) count += x->attrs[i]->rank;
    for (int i = 0; i < n->nin; i++) count += input_type(n, i).rank;
    return count;
}

static void add_call(const caller *x, custom_purpose purpose, buffer *const *out, buffer *result,
                     dim *workspace) {
    static const char *const endings[] = {"", "_shape", "_workspace"};
    node *n = x->n;
    arena *a = x->l->program->arena;
    step *s =
        lower_library(x->l, n, "custom", n->nout + 2, n->nout + 3 + n->nattrs + n->nin, count_numbers(x));
    s->symbol = arena_printf(a, "%s%s", n->op->custom->symbol, endings[purpose]);
    buffer **to = s->args;
    for (int i = 0; i < n->nout; i++) *to++ = out ? out[i] : NULL;
    *to++ = result, *to++ = x->memory, *to++ = x->texts;
    for (int i = 0; i < n->nattrs; i++) *to++ = x->attrs[i];
    for (int i = 0; i < n->nin; i++)
        *to++ = n->op->takes_any_rank ? lower_buffer(x->l, n->in[i]) : lower_in(x->l, n, i);
    set_numbers(x, s, purpose, workspace);
    const char **messages = ARENA_ARRAY(a, const char *, 2);
    const char *dot = *n->op->domain ? "." : "";
    messages[0] = arena_printf(a, "operator %s%s%s: the function '%s' failed", n->op->domain, dot,
                               n->op->name, s->symbol);
    messages[1] = arena_printf(a, "operator %s%s%s: the function '%s' gave a negative size", n->op->domain,
                               dot, n->op->name, s->symbol);
    s->messages = messages, s->nmessages = purpose == CUSTOM_RUN ? 1 : 2;
}

static void take_size(const caller *x, dim *size, buffer *sizes, int64_t at) {
    bool own = size->kind == DIM_OPAQUE && !is_declared(x->l->program, size);
    dim *given = own ? size : dim_opaque(infer_dims(x->n), "size", 0, INT64_MAX);
    lower_set_dim(x->l, x->n, given, sizes, at);
    if (!own)
        lower_check(x->l, x->n, dim_eq(given, size),
                    arena_printf(x->l->program->arena,
                                 "the function '%s_shape' gave an output another size than %s",
                                 x->n->op->custom->symbol, dim_text(x->l->program->arena, size)));
}

static void set_sizes(const caller *x) {
    node *n = x->n;
    int64_t count = 0, at = 0;
    for (int i = 0; i < n->nout; i++) count += n->out[i] ? n->out[i]->type.rank : 0;
    if (!count) return;
    dim *length = infer_k(n, count);
    buffer *sizes = lower_temp(x->l, n, "sizes", DT_I64, 1, &length);
    add_call(x, CUSTOM_SHAPE, NULL, sizes, infer_k(n, 0));
    for (int i = 0; i < n->nout; i++)
        for (int j = 0; n->out[i] && j < n->out[i]->type.rank; j++)
            take_size(x, n->out[i]->type.dims[j], sizes, at++);
}

static dim *workspace_bytes(const caller *x) {
    const custom_op *c = x->n->op->custom;
    if (!c->workspace) return infer_k(x->n, c->workspace_bytes);
    dim *one = infer_k(x->n, 1), *bytes = dim_opaque(infer_dims(x->n), "bytes", 0, INT64_MAX);
    buffer *to = lower_temp(x->l, x->n, "bytes", DT_I64, 1, &one);
    add_call(x, CUSTOM_WORKSPACE, NULL, to, infer_k(x->n, 0));
    lower_set_dim(x->l, x->n, bytes, to, 0);
    return bytes;
}

void lower_custom(lowering *l, node *n) {
    caller x = caller_new(l, n);
    if (n->op->custom->shape) set_sizes(&x);
    lower_checks(l, n);
    dim *bytes = workspace_bytes(&x);
    buffer *workspace = dim_is(bytes, 0) ? NULL : lower_temp(l, n, "workspace", DT_U8, 1, &bytes);
    buffer **out = ARENA_ARRAY(l->program->arena, buffer *, n->nout + 1);
    for (int i = 0; i < n->nout; i++) out[i] = lower_out(l, n, i);
    add_call(&x, CUSTOM_RUN, out, workspace, bytes);
}

const op_def *custom_op_new(arena *a, custom_op of) {
    custom_op *c = ARENA_NEW(a, custom_op);
    op_def *op = ARENA_NEW(a, op_def);
    *c = of;
    op_def made = {
        .name = of.name, .domain = of.domain, .infer = infer_custom, .lower = lower_custom, .custom = c};
    memcpy(op, &made, sizeof made);
    return op;
}
