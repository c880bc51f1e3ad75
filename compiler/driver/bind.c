// Applies the options about the interface: binds, bounds and names sizes, makes inputs constants and inner
// values outputs. In: an imported module.
#include "compiler/driver/bind.h"
#include "ir/graph/boundary.h"
#include "ir/kernel/program.h"
#include "ir/ops/branches.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct binder {
    arena *arena;
    diag *diag;
    module *module;
    map to;           // symbol id -> its replacement
    bool generalised; // a fixed size of the model was given a name
} binder;

// ---------------------------------------------------------------- substitution
static dim *replacement(void *user, dim *atom) {
    dim *d = map_get_number(&((binder *)user)->to, (uint64_t)atom->id);
    return d ? d : atom;
}

static void substitute_type(binder *b, type *t) {
    for (int j = 0; j < t->rank; j++) t->dims[j] = dim_substitute(t->dims[j], replacement, b);
    if (t->item) substitute_type(b, t->item);
}

// Where types were inferred before (pipeline_hooks), the program has its checks of sizes already.
static void substitute(binder *b) {
    module *m = b->module;
    for (int j = 0; j < m->values.n; j++) substitute_type(b, &m->values.at[j]->type);
    for (int j = 0; j < m->checks.n; j++) {
        dim_check *c = &m->checks.at[j];
        c->a = dim_substitute(c->a, replacement, b), c->b = dim_substitute(c->b, replacement, b);
    }
}

static bool reads_maps_only(const node *n) {
    bool maps = n->nin > 0;
    for (int i = 0; i < n->nin; i++) maps &= n->in[i] && n->in[i]->type.kind == TYPE_MAP;
    return maps;
}

// Drops declared shapes of values computed from tensors: they may hold only for the sizes of the export.
static void drop_declarations(module *m) {
    for (int j = 0; j < m->values.n; j++) {
        value *v = m->values.at[j];
        if (v->def && v->type.kind == TYPE_TENSOR && !reads_maps_only(v->def))
            v->type.rank = RANK_UNKNOWN, v->type.dims = NULL;
    }
}

// ---------------------------------------------------------------- --dim
static void add_symbols(map *symbols, const dim *d) {
    atom_list atoms = dim_atoms(symbols->arena, d);
    for (int i = 0; i < atoms.n; i++)
        if (atoms.at[i]->kind == DIM_SYMBOL) map_put(symbols, atoms.at[i]->name, atoms.at[i]);
}

static map input_symbols(const binder *b) {
    map symbols = {.arena = b->arena};
    const graph *g = b->module->main;
    for (int j = 0; j < g->inputs.n; j++)
        for (int i = 0; i < g->inputs.at[j]->type.rank; i++)
            add_symbols(&symbols, g->inputs.at[j]->type.dims[i]);
    return symbols;
}

static void unknown_name(const binder *b, const char *what, const char *name, const map *known) {
    text t = {.arena = b->arena};
    for (int j = 0; j < known->n; j++) text_printf(&t, "%s%s", j ? ", " : "", known->slots[j].key);
    if (known->n) diag_hint(b->diag, "the model has %s", text_str(&t));
    diag_error(b->diag, NULL, "%s: the model has no name '%s'", what, name);
}

static void unknown_symbol(const binder *b, const char *name, const map *symbols) {
    const graph *g = b->module->main;
    const value *first = g->inputs.n ? g->inputs.at[0] : NULL;
    if (!symbols->n && first && first->type.rank > 0) {
        text t = {.arena = b->arena};
        for (int i = 1; i < first->type.rank; i++)
            text_printf(&t, "x%s", dim_text(b->arena, first->type.dims[i]));
        diag_hint(b->diag, "all sizes of its inputs are fixed; --shape %s=%s%s names one", first->name, name,
                  text_str(&t));
    }
    unknown_name(b, "--dim", name, symbols);
}

// Binds the symbol to one size, or bounds it by the range of all sizes given.
static void bind_dim(binder *b, const map *symbols, const size_list *list, const size_range *r) {
    dim *symbol = map_get(symbols, list->name);
    if (!symbol) unknown_symbol(b, list->name, symbols);
    else if (r->fixed) map_put_number(&b->to, (uint64_t)symbol->id, dim_const(b->module->dims, r->lo));
    else dim_bound(symbol, r->lo, r->hi, 1);
}

// ---------------------------------------------------------------- --shape
static dim *parse_size(binder *b, const char *s) {
    int64_t n;
    if (parse_int64(s, 0, &n)) return dim_const(b->module->dims, n);
    if (!isalpha((unsigned char)*s) && *s != '_') return NULL;
    for (const char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_' && *p != '.') return NULL;
    return dim_symbol(b->module->dims, s);
}

static void set_size(binder *b, const char *option, value *v, int axis, dim *given) {
    dim *old = v->type.dims[axis];
    if (old == given) return;
    if (old->kind == DIM_SYMBOL && !map_get_number(&b->to, (uint64_t)old->id)) {
        map_put_number(&b->to, (uint64_t)old->id, given);
        return;
    }
    dim *now = old->kind == DIM_SYMBOL ? map_get_number(&b->to, (uint64_t)old->id) : old;
    if (now == given) return;
    if (dim_is_const(now) && dim_is_const(given)) {
        long long is = dim_value(now), asked = dim_value(given);
        diag_hint(
            b->diag,
            "a name instead of %lld opens the axis if the model's nodes allow it; --dim NAME=%lld binds it",
            asked, asked);
        diag_error(b->diag, NULL, "--shape %s: axis %d of input '%s' is %lld, not %lld", option, axis,
                   v->name, is, asked);
    }
    v->type.dims[axis] = given;
    b->generalised = true;
}

// INPUT=* and INPUT=*N: every rank up to 8, or up to N.
static void bind_ranks(binder *b, value *v, const char *option, const char *most) {
    enum { RANKS_MOST = 8 };
    int64_t n = RANKS_MOST;
    if (*most && (!parse_int64(most, 0, &n) || n > RANKS_MOST))
        diag_error(b->diag, NULL, "--shape %s: '%s' is not a rank up to %d", option, most, RANKS_MOST);
    else if (v->type.kind != TYPE_TENSOR || v->type.rank != RANK_UNKNOWN)
        diag_error(b->diag, NULL, "--shape %s: '*' is for inputs without a rank, but input '%s' is %s",
                   option, v->name, type_text(b->arena, &v->type));
    else branch_on_rank(v, (int)n);
}

// What the file declares of an output is that of one run where a name takes the place of a size.
static void open_output(binder *b, value *v, const char *option, dim *const *sizes, int n) {
    for (int j = 0; j < n; j++) {
        const dim *declared = v->type.rank == n ? v->type.dims[j] : NULL;
        if (!dim_is_const(sizes[j]) || sizes[j] == declared) continue;
        diag_error(b->diag, NULL,
                   "--shape %s: output '%s' is %s; a name leaves a size open, and numbers do not change",
                   option, v->name, type_text(b->arena, &v->type));
        return;
    }
    v->type = type_tensor(b->arena, v->type.elem, n, sizes);
}

static bool is_tensor_of_rank(const value *v, int n) {
    return v->type.kind == TYPE_TENSOR && n <= MAX_RANK &&
           (v->type.rank == RANK_UNKNOWN || v->type.rank == n);
}

static void bind_shape(binder *b, const map *known, const char *s) {
    const char *equals = strrchr(s, '=');
    const char *name = equals ? arena_strndup(b->arena, s, (size_t)(equals - s)) : "";
    value *v = map_get(known, name);
    if (!equals) diag_error(b->diag, NULL, "--shape %s: not of the form INPUT=2x3", s);
    else if (!v) unknown_name(b, "--shape", name, known);
    if (!v) return;
    if (equals[1] == '*') {
        bind_ranks(b, v, s, equals + 2);
        return;
    }
    string_list parts = split_words(b->arena, equals + 1, strchr(equals, ',') ? ',' : 'x');
    int n = parts.n == 1 && !*parts.at[0] ? 0 : parts.n;
    dim *sizes[MAX_RANK];
    for (int j = 0; j < n && j < MAX_RANK; j++) {
        sizes[j] = parse_size(b, parts.at[j]);
        if (sizes[j]) continue;
        diag_error(b->diag, NULL, "--shape %s: '%s' is neither a size nor a name", s, parts.at[j]);
        return;
    }
    if (!is_tensor_of_rank(v, n))
        diag_error(b->diag, NULL, "--shape %s: %d size%s, but %s '%s' is %s", s, n, n == 1 ? "" : "s",
                   v->def ? "output" : "input", name, type_text(b->arena, &v->type));
    else if (v->def) open_output(b, v, s, sizes, n);
    else if (v->type.rank == RANK_UNKNOWN) v->type = type_tensor(b->arena, v->type.elem, n, sizes);
    else
        for (int j = 0; j < n; j++) set_size(b, s, v, j, sizes[j]);
}

void bind_options(arena *a, diag *d, module *m, const options *o, const size_list *lists, const int *choice) {
    binder b = {.arena = a, .diag = d, .module = m, .to = {.arena = a}};
    map known = {.arena = a};
    for (int j = 0; j < m->main->inputs.n; j++)
        map_put(&known, m->main->inputs.at[j]->name, m->main->inputs.at[j]);
    for (int j = 0; j < m->main->outputs.n; j++)
        if (m->main->outputs.at[j]->def)
            map_put(&known, m->main->outputs.at[j]->name, m->main->outputs.at[j]);
    for (int j = 0; j < o->shapes.n; j++) bind_shape(&b, &known, o->shapes.at[j]);
    diag_check(d);
    if (b.to.n) substitute(&b);
    if (b.generalised) drop_declarations(m);
    b.to = (map){.arena = a};
    map symbols = input_symbols(&b); // including those that --shape has named
    for (int j = 0; j < o->dims.n; j++) {
        const size_list *l = &lists[j];
        bind_dim(&b, &symbols, l, choice ? &l->at.at[choice[j]] : l->at.n == 1 ? &l->at.at[0] : &l->hull);
    }
    diag_check(d);
    if (b.to.n) substitute(&b);
}

// ---------------------------------------------------------------- --io-dtype, --io-layout, --last
static const char *lower_case(arena *a, const char *s) {
    char *c = arena_strdup(a, s);
    for (char *p = c; *p; p++) *p = (char)tolower((unsigned char)*p);
    return c;
}

// Finds the input and the output called NAME in "NAME=REST"; both if both have the name. NULL: an error was
// reported.
static const char *find_ports(diag *d, const module *m, const char *option, const char *s, int *in,
                              int *out) {
    *in = *out = -1;
    for (const char *equals = strchr(s, '='); equals; equals = strchr(equals + 1, '=')) {
        size_t n = (size_t)(equals - s);
        for (int j = 0; j < m->main->inputs.n; j++)
            if (text_equals(s, n, m->main->inputs.at[j]->name)) *in = j;
        for (int j = 0; j < m->main->outputs.n; j++)
            if (text_equals(s, n, m->main->output_names.at[j])) *out = j;
        if (*in >= 0 || *out >= 0) return equals + 1;
    }
    if (strchr(s, '=')) diag_error(d, NULL, "%s %s: no input or output has this name", option, s);
    else diag_error(d, NULL, "%s %s: not of the form NAME=VALUE", option, s);
    return NULL;
}

static void check_no_default(diag *d, const char *option, const value *v) {
    if (v->fallback)
        diag_fatal(d, NULL, "%s: input '%s' has a default value, whose type and layout --override keeps",
                   option, v->name);
}

static int find_output(const module *m, const char *name) {
    for (int j = 0; j < m->main->outputs.n; j++)
        if (strcmp(name, m->main->output_names.at[j]) == 0) return j;
    return -1;
}

void bind_io(arena *a, diag *d, module *m, const options *o) {
    int in, out;
    for (int j = 0; j < o->io_dtype.n; j++) {
        const char *s = o->io_dtype.at[j], *rest = find_ports(d, m, "--io-dtype", s, &in, &out);
        dtype t = rest ? dtype_from_name(rest) : DT_NONE;
        if (rest && t == DT_NONE) diag_error(d, NULL, "--io-dtype %s: there is no type '%s'", s, rest);
        if (in >= 0) check_no_default(d, "--io-dtype", m->main->inputs.at[in]);
        if (in >= 0 && t != DT_NONE) boundary_dtype(m, false, in, t);
        if (out >= 0 && t != DT_NONE) boundary_dtype(m, true, out, t);
    }
    for (int j = 0; j < o->io_layout.n; j++) {
        const char *rest = find_ports(d, m, "--io-layout", o->io_layout.at[j], &in, &out);
        if (rest && in >= 0) check_no_default(d, "--io-layout", m->main->inputs.at[in]);
        if (rest && in >= 0) boundary_layout(m, false, in, lower_case(a, rest));
        if (rest && out >= 0) boundary_layout(m, true, out, lower_case(a, rest));
    }
    for (int j = 0; j < o->last.n; j++) {
        out = find_output(m, o->last.at[j]);
        if (out < 0) diag_error(d, NULL, "--last %s: no output has this name", o->last.at[j]);
        else boundary_last(m, out);
    }
    diag_check(d);
}

// ---------------------------------------------------------------- --constant
void bind_constant(module *m, int i, constant *c) {
    graph *g = m->main;
    value *old = g->inputs.at[i];
    value_replace(old, value_constant(g, old->name, c));
    graph_drop_input(g, i);
}

static bool is_known(const type *t) {
    bool known = t->kind == TYPE_TENSOR && t->rank >= 0;
    for (int j = 0; known && j < t->rank; j++) known = dim_is_const(t->dims[j]);
    return known;
}

// Stores an element; false: the type has no such element.
static bool parse_element(dtype t, const char *s, void *to) {
    bool yes = strcmp(s, "true") == 0;
    char *end;
    int64_t n = yes;
    if (t == DT_STRING || dtype_class_of(t) == DC_COMPLEX || !*s) return false;
    if (dtype_is_float(t)) return dtype_store_float(t, to, 0, strtod(s, &end), true), !*end;
    int64_t least = t == DT_BOOL ? 0 : dtype_int_min(t), most = t == DT_BOOL ? 1 : dtype_int_max(t);
    if (!yes && strcmp(s, "false") != 0 && (!parse_int64(s, least, &n) || n > most)) return false;
    return dtype_store_int(t, to, 0, n), true;
}

// The name of the input; NULL: an error was reported.
static const char *bind_value(arena *a, diag *d, module *m, const char *s) {
    int in, out;
    const char *rest = find_ports(d, m, "--constant", s, &in, &out);
    if (!rest) return NULL;
    const value *v = in < 0 ? NULL : m->main->inputs.at[in];
    if (!v) diag_fatal(d, NULL, "--constant %s: '%s' is an output", s, m->main->output_names.at[out]);
    check_no_default(d, "--constant", v);
    if (!is_known(&v->type)) {
        diag_hint(d, "--dim and --shape bind sizes");
        diag_fatal(d, NULL, "--constant %s: input '%s' is %s", s, v->name, type_text(a, &v->type));
    }
    uint64_t element = 0;
    int64_t sizes[MAX_RANK];
    for (int j = 0; j < v->type.rank; j++) sizes[j] = dim_value(v->type.dims[j]);
    if (!parse_element(v->type.elem, rest, &element))
        diag_fatal(d, NULL, "--constant %s: '%s' is not an element of %s", s, rest, type_text(a, &v->type));
    bind_constant(m, in, constant_splat(m->arena, v->type.elem, v->type.rank, sizes, &element));
    return v->name;
}

// An input that has become a constant is no longer one of the model's.
static void check_bound_once(diag *d, const string_list *bound, const char *s) {
    for (int i = 0; i < bound->n; i++) {
        size_t n = strlen(bound->at[i]);
        if (strncmp(s, bound->at[i], n) == 0 && s[n] == '=')
            diag_fatal(d, NULL, "--constant %s: '%s' has a value already", s, bound->at[i]);
    }
}

void bind_constants(arena *a, diag *d, module *m, const options *o) {
    string_list bound = {0};
    for (int j = 0; j < o->fixed.n; j++) {
        check_bound_once(d, &bound, o->fixed.at[j]);
        const char *name = bind_value(a, d, m, o->fixed.at[j]);
        if (name) VEC_PUSH(a, &bound, name);
    }
    diag_check(d); // names that the model lacks
}

// ---------------------------------------------------------------- --state
static int find_buffer(const char *name, size_t n, buffer *const *all, int count) {
    for (int j = 0; j < count; j++)
        if (text_equals(name, n, all[j]->name)) return j;
    return -1;
}

static const char *buffer_text(arena *a, const buffer *b) {
    type t = type_tensor(a, b->dtype, b->rank, b->dims);
    return type_text(a, &t);
}

// The number of axes in which the types differ, *axis: the last of them; -1: more than that differs.
static int differing_axes(const buffer *x, const buffer *y, int *axis) {
    int n = 0;
    if (x->dtype != y->dtype || x->rank != y->rank) return -1;
    for (int j = 0; j < x->rank; j++)
        if (dim_equal(x->dims[j], y->dims[j]) != TRI_YES) n++, *axis = j;
    return n;
}

static bool has_versions(const options *o, const char *name) {
    for (int j = 0; j < o->dims.n; j++) {
        const char *s = o->dims.at[j], *equals = strrchr(s, '=');
        if (equals && text_equals(s, (size_t)(equals - s), name) && strchr(equals, ',')) return true;
    }
    return false;
}

static bool names_state(const options *o, const char *out, const char *in) {
    for (int j = 0; j < o->state.n; j++) {
        const char *s = o->state.at[j];
        size_t n = strlen(out);
        if (strncmp(s, out, n) == 0 && s[n] == '=' && strcmp(s + n + 1, in) == 0) return true;
    }
    return false;
}

void bind_growing_branches(const module *m, const options *o) {
    const graph *g = m->main;
    for (int j = 0; o->state.n && j < g->outputs.n; j++)
        for (int i = 0; i < g->inputs.n; i++)
            if (names_state(o, g->output_names.at[j], g->inputs.at[i]->name))
                grow_in_branches(g->outputs.at[j], g->inputs.at[i]);
}

// States that share the size have to grow to the same one, which the run checks where it does not follow.
static void grow_alike(program *p, diag *d, const char *grows, int out, const dim *size, dim *now) {
    int axis = state_axis(p, out);
    if (axis < 0 || p->inputs.at[p->state[out] - 1]->dims[axis] != size) return;
    dim *other = p->outputs.at[out]->dims[axis];
    const char *name = p->outputs.at[out]->name;
    if (dim_equal(other, now) == TRI_YES) return;
    if (dim_equal(other, now) == TRI_NO)
        diag_error(d, NULL, "%s, but '%s' to %s", grows, name, dim_text(p->arena, other));
    step *check = step_insert(p, p->main, 0, STEP_CHECK, NULL);
    check->dim = dim_eq(other, now);
    check->message = arena_printf(p->arena, "the states with size %s do not grow alike", size->name);
}

// The output is the input and more along one axis, whose size has a bound: memory has room for that many elements.
static void bind_growth(program *p, diag *d, const options *o, const char *s, int out, int axis) {
    dim *size = p->inputs.at[p->state[out] - 1]->dims[axis], *now = p->outputs.at[out]->dims[axis];
    const char *grows = arena_printf(p->arena, "--state %s: axis %d grows from %s to %s", s, axis,
                                     dim_text(p->arena, size), dim_text(p->arena, now));
    if (size->max == INT64_MAX || has_versions(o, size->name)) {
        diag_hint(d, "--dim %s=0:2048 gives it room for 2048 elements", size->name);
        diag_error(d, NULL, "%s, and '%s' needs one bound", grows, size->name);
        return;
    }
    if (options_for_gpu(o)) diag_missing(d, NULL, "%s: not on a GPU", grows);
    if (dtype_bits(p->outputs.at[out]->dtype) < 8)
        diag_missing(d, NULL, "%s: not with packed elements", grows);
    for (int j = 0; j < p->outputs.n; j++) grow_alike(p, d, grows, j, size, now);
    step *check = step_insert(p, p->main, 0, STEP_CHECK, NULL);
    check->dim = dim_lt(now, dim_const(p->dims, size->max + 1));
    check->message = state_full_message(p, out);
}

static void bind_state(program *p, diag *d, const options *o, const char *s) {
    int in = -1, out = -1, axis = 0;
    for (const char *equals = strchr(s, '='); equals && (in < 0 || out < 0);
         equals = strchr(equals + 1, '=')) {
        out = find_buffer(s, (size_t)(equals - s), p->outputs.at, p->outputs.n);
        in = find_buffer(equals + 1, strlen(equals + 1), p->inputs.at, p->inputs.n);
    }
    if (in < 0 || out < 0) {
        diag_hint(d, "the form is OUTPUT=INPUT, with names of the model");
        diag_error(d, NULL, "--state %s: no such %s", s, out < 0 ? "output" : "input");
        return;
    }
    buffer *x = p->inputs.at[in], *y = p->outputs.at[out];
    for (int j = 0; j < p->outputs.n; j++)
        if (p->state[j] == in + 1 || (j == out && p->state[j]))
            diag_error(d, NULL, "--state %s: '%s' is part of another state", s,
                       p->state[out] ? y->name : x->name);
    if (x->fallback) diag_error(d, NULL, "--state %s: input '%s' may be left out (--override)", s, x->name);
    for (int j = 0; j < 2; j++) {
        const buffer *b = j ? y : x;
        if (b->holds || b->dtype == DT_STRING)
            diag_error(d, NULL, "--state %s: '%s' is %s, not a tensor of numbers", s, b->name,
                       b->holds ? type_text(p->arena, b->holds) : buffer_text(p->arena, b));
    }
    int differ = differing_axes(x, y, &axis);
    if (differ == 1 && dims_are_opaque(&y->dims[axis], 1)) {
        diag_hint(d, "--constant NAME=VALUE binds an input that decides a branch");
        diag_missing(
            d, NULL,
            "--state %s: the size of axis %d of '%s' is known only at run time, but the growth of a state "
            "must follow from the sizes of the inputs",
            s, axis, y->name);
        return;
    }
    bool grows = differ == 1 && x->dims[axis]->kind == DIM_SYMBOL;
    if (differ && !grows) {
        diag_hint(d, "--dim and --shape bind sizes");
        diag_error(d, NULL, "--state %s: '%s' is %s, but '%s' is %s", s, y->name, buffer_text(p->arena, y),
                   x->name, buffer_text(p->arena, x));
    }
    p->state[out] = in + 1;
    if (grows) bind_growth(p, d, o, s, out, axis);
}

void bind_states(program *p, diag *d, const options *o) {
    const module *m = p->module;
    if (!o->state.n && !m->states.n) return;
    p->state = ARENA_ARRAY(p->arena, int, p->outputs.n + 1);
    for (int j = 0; j < o->state.n; j++) bind_state(p, d, o, o->state.at[j]);
    for (int j = 0; j < m->states.n; j++)
        bind_state(p, d, o, arena_printf(p->arena, "%s=%s", m->states.at[j].output, m->states.at[j].input));
    diag_check(d);
}

// ---------------------------------------------------------------- --stream
static value *find_input(const module *m, const char *name, size_t n) {
    for (int j = 0; j < m->main->inputs.n; j++)
        if (text_equals(name, n, m->main->inputs.at[j]->name)) return m->main->inputs.at[j];
    return NULL;
}

// INPUT:AXIS=N; names of inputs may have colons.
static bool parse_stream(binder *b, const char *s, stream_input *in) {
    const char *equals = strrchr(s, '='), *colon = equals;
    while (colon && colon > s && *colon != ':') colon--;
    int64_t axis;
    if (!equals || *colon != ':' ||
        !parse_int64(arena_strndup(b->arena, colon + 1, (size_t)(equals - colon - 1)), INT32_MIN, &axis) ||
        !parse_int64(equals + 1, 1, &in->samples) || in->samples > INT32_MAX) {
        diag_error(b->diag, NULL, "--stream %s: not of the form INPUT:AXIS=N", s);
        return false;
    }
    in->input = find_input(b->module, s, (size_t)(colon - s));
    if (!in->input) {
        diag_error(b->diag, NULL, "--stream %s: the model has no such input", s);
        return false;
    }
    const type *t = &in->input->type;
    if (t->kind != TYPE_TENSOR || t->rank < 0 || axis < -t->rank || axis >= t->rank) {
        diag_error(b->diag, NULL, "--stream %s: input '%s' is %s, without axis %lld", s, in->input->name,
                   type_text(b->arena, t), (long long)axis);
        return false;
    }
    in->axis = (int)(axis < 0 ? axis + t->rank : axis);
    return true;
}

// All streamed axes get one symbolic size; a fixed size is the length at export.
void bind_streams(arena *a, diag *d, module *m, const options *o) {
    // Longer than all that a model does at the ends of a signal.
    enum { LONG = 1 << 16 };
    binder b = {.arena = a, .diag = d, .module = m, .to = {.arena = a}};
    dim *length = dim_symbol(m->dims, "stream.length");
    for (int j = 0; j < o->stream.n; j++) {
        stream_input in = {0};
        if (!parse_stream(&b, o->stream.at[j], &in)) continue;
        const dim *size = in.input->type.dims[in.axis];
        if (dim_is_const(size)) in.exported = dim_value(size);
        VEC_PUSH(a, &m->streams, in);
        set_size(&b, o->stream.at[j], in.input, in.axis, length);
    }
    m->stream_delay = o->stream_delay, m->stream_capacity = o->stream_capacity;
    if (o->stream_delay && !o->stream.n) diag_error(d, NULL, "--stream-delay is for --stream");
    if (o->stream_capacity && !o->stream.n) diag_error(d, NULL, "--stream-capacity is for --stream");
    diag_check(d);
    if (!m->streams.n) return;
    if (b.to.n) substitute(&b);
    drop_declarations(m);
    dim_bound(length, LONG, INT64_MAX, 1);
}

// ---------------------------------------------------------------- for tests
void bind_symbolic(module *m, bool (*wanted)(void *user, const value *v, int axis), void *user) {
    drop_declarations(m);
    for (int j = 0; j < m->main->inputs.n; j++) {
        value *v = m->main->inputs.at[j];
        for (int i = 0; v->type.kind == TYPE_TENSOR && i < v->type.rank; i++)
            if (wanted(user, v, i))
                v->type.dims[i] = dim_symbol(m->dims, arena_printf(m->arena, "%s.%d", v->name, i));
    }
}
