// Values with two axes of time, such as the scores of attention: one of queries, then one of keys. In: the graph over the whole
// signal. Out: how many samples before and behind its own place a query sees, and the roles of a node's inputs.
//
// Masks are functions of positions alone. They are computed at compile time for a signal of PROBE samples: where all keys
// farther away than some distance have one value, that is the mask's value outside of its band. If it makes weights 0, a step needs
// only the keys in the band.
#include "ir/kernel/lower.h"
#include "passes/stream/stream_impl.h"
#include <math.h>
#include <string.h>

enum { PROBE = 1024 };

// ---------------------------------------------------------------- values of positions
static bool probe_length(void *user, const dim *atom, int64_t *value) {
    const streaming *s = user;
    *value = PROBE;
    return atom == s->length;
}

// The contents of sizes for that length.
static constant *probe_sizes(streaming *s, const value *v) {
    if (!v->contents || v->type.rank < 0 || v->type.rank > 1) return NULL;
    int64_t count = v->ncontents, at;
    constant *c = constant_new(s->arena, v->type.elem, v->type.rank, &count);
    for (int j = 0; j < v->ncontents; j++) {
        if (!dim_eval(v->contents[j], probe_length, s, &at)) return NULL;
        dtype_store_int(v->type.elem, (void *)c->data, j, at);
    }
    return c;
}

static constant *probe_of(streaming *s, value *v) {
    constant *c = map_get_number(&s->probes, (uint64_t)v->id);
    if (c || !has_length(s, v)) return c;
    c = probe_sizes(s, v);
    if (c) map_put_number(&s->probes, (uint64_t)v->id, c);
    return c;
}

// Computes n for that length if it depends on nothing else.
static void probe_node(streaming *s, node *n) {
    map as = {.arena = s->arena};
    bool depends = false;
    for (int i = 0; i < n->nin; i++) {
        if (!n->in[i] || n->in[i]->constant) continue;
        constant *c = probe_of(s, n->in[i]);
        if (!c) return;
        depends = true;
        map_put_number(&as, (uint64_t)n->in[i]->id, value_constant(s->graph, NULL, c));
    }
    for (int j = 0; j < n->nout; j++)
        if (n->out[j] && (n->out[j]->type.kind != TYPE_TENSOR || n->out[j]->type.rank < 0)) return;
    if (!depends) return;
    node *copy = node_copy(n, s->graph, &as);
    infer_node(copy);
    constant **all = evaluate_node(copy, s->context);
    node_delete(copy);
    for (int j = 0; all && j < n->nout; j++)
        if (n->out[j]) map_put_number(&s->probes, (uint64_t)n->out[j]->id, all[j]);
}

bool of_positions(const streaming *s, const value *v) { return map_get_number(&s->probes, (uint64_t)v->id); }

// ---------------------------------------------------------------- bands
static int key_axis(const streaming *s, const type *t, int query) {
    int keys = NO_TIME;
    for (int j = query + 1; query != NO_TIME && j < t->rank; j++)
        if (dim_has_atom(t->dims[j], s->length)) keys = j;
    return keys;
}

bool is_pair(const streaming *s, const type *t, int *query, int *keys) {
    *query = *keys = NO_TIME;
    int n = 0;
    for (int j = 0; t->kind == TYPE_TENSOR && j < t->rank; j++) {
        if (!dim_has_atom(t->dims[j], s->length)) continue;
        if (!n) *query = j;
        n++;
    }
    *keys = key_axis(s, t, *query);
    return n == 2;
}

// The value far before each query, and how far before and behind it other values are. False: they are everywhere.
static bool band_of(streaming *s, const value *v, double *outside, int64_t *before, int64_t *ahead) {
    const constant *c = map_get_number(&s->probes, (uint64_t)v->id);
    int query, keys;
    if (!c || !is_pair(s, &v->type, &query, &keys) || c->dims[query] != c->dims[keys]) return false;
    int64_t length = c->dims[query];
    int64_t key_stride = 1, query_stride = 1;
    for (int j = keys + 1; j < c->rank; j++) key_stride *= c->dims[j];
    for (int j = query + 1; j < c->rank; j++) query_stride *= c->dims[j];
    *outside = constant_float(c, (length - 1) * query_stride);
    *before = 0, *ahead = 0;
    for (int64_t e = 0; e < c->count; e++) {
        if (constant_float(c, e) == *outside) continue;
        int64_t distance = e / query_stride % length - e / key_stride % length;
        if (distance > *before) *before = distance;
        if (-distance > *ahead) *ahead = -distance;
    }
    return *before < length / 2 && *ahead < length / 2;
}

void find_bands(streaming *s) {
    for (int j = 0; j < s->graph->nodes.n; j++) probe_node(s, s->graph->nodes.at[j]);
    for (int j = 0; j < s->graph->nodes.n; j++) {
        const node *n = s->graph->nodes.at[j];
        for (int i = 0; i < n->nin; i++) {
            double outside;
            int64_t before, ahead;
            if (!n->in[i] || !n->nout || !n->out[0] || of_positions(s, n->out[0]) ||
                !band_of(s, n->in[i], &outside, &before, &ahead))
                continue;
            if (before > s->before) s->before = before;
            if (ahead > s->ahead) s->ahead = ahead;
        }
    }
}

// Elements of a probe between its two axes, and before, between and behind them.
static int64_t stride_of(const constant *c, int axis) {
    int64_t n = 1;
    for (int j = axis + 1; j < c->rank; j++) n *= c->dims[j];
    return n;
}

static bool same_element(const constant *c, int64_t a, int64_t b) {
    double x = constant_float(c, a), y = constant_float(c, b);
    return x == y || (isnan(x) && isnan(y));
}

bool of_distance(const streaming *s, const value *v) {
    const constant *c = map_get_number(&s->probes, (uint64_t)v->id);
    int query, keys;
    if (!c || !is_pair(s, &v->type, &query, &keys) || c->dims[query] != c->dims[keys]) return false;
    int64_t q = stride_of(c, query), k = stride_of(c, keys), length = c->dims[query];
    for (int64_t e = 0; e < c->count; e++)
        if (e / q % length && e / k % length && !same_element(c, e, e - q - k)) return false;
    return true;
}

const constant *pair_of_step(streaming *s, const value *v, const signal *as) {
    const constant *c = map_get_number(&s->probes, (uint64_t)v->id);
    int64_t dims[MAX_RANK], length = c->dims[as->axis];
    memcpy(dims, c->dims, (size_t)c->rank * sizeof *dims);
    dims[as->axis] = as->rate, dims[as->keys] = s->before + as->rate + s->ahead;
    constant *step = new_constant(s, c->elem, c->rank, dims);
    if (!step) return NULL;
    int64_t q = stride_of(c, as->axis), k = stride_of(c, as->keys), step_q = stride_of(step, as->axis),
            step_k = stride_of(step, as->keys);
    const constant *far = numbers(s, c->elem, -1, as->outside, 0);
    int64_t outer = q * length, step_outer = step_q * as->rate, between = q / (k * length);
    for (int64_t e = 0; e < step->count; e++) {
        int64_t distance = e / step_q % as->rate - e / step_k % dims[as->keys] + s->before;
        if (distance <= -length || distance >= length) {
            if (!as->outside_known) return NULL;
            constant_copy(far, 0, c->elem, (void *)step->data, e);
            continue;
        }
        int64_t row = distance > 0 ? distance : 0, middle = e % step_q / (step_k * dims[as->keys]) % between;
        int64_t at =
            e / step_outer * outer + row * q + middle * k * length + (row - distance) * k + e % step_k;
        constant_copy(c, at, c->elem, (void *)step->data, e);
    }
    return step;
}

bool outside_of_mask(streaming *s, const value *v, double *outside) {
    int64_t before, ahead;
    return band_of(s, v, outside, &before, &ahead);
}

// ---------------------------------------------------------------- values outside of the band
typedef struct known {
    bool is;
    double value;
} known;

enum { LARGE = 10000 }; // minus this, as a score, gives a weight of 0

static known known_input(streaming *s, const plan *p, int i) {
    const value *v = i < p->node->nin ? p->in[i] : NULL;
    if (!v) return (known){0};
    if (v->constant && v->constant->count == 1) return (known){true, constant_float(v->constant, 0)};
    const signal *x = signal_of(s, v);
    return x && x->pair ? (known){x->outside_known, x->outside} : (known){0};
}

static bool is(const node *n, const char *name) { return strcmp(n->op->name, name) == 0; }

static known outside_of(streaming *s, const plan *p, int keys, int rank) {
    const node *n = p->node;
    known a = known_input(s, p, 0), b = known_input(s, p, 1), c = known_input(s, p, 2), none = {0};
    if (is(n, "Where")) return !a.is ? none : a.value != 0 ? b : c;
    if (is(n, "Add") || is(n, "Sub")) {
        if (is(n, "Sub")) b.value = -b.value;
        if (a.is && b.is) return (known){true, a.value + b.value};
        return a.is && fabs(a.value) >= LARGE ? a : b.is && fabs(b.value) >= LARGE ? b : none;
    }
    if (is(n, "Mul") || is(n, "And")) {
        if (a.is && b.is) return (known){true, a.value * b.value};
        return a.is && a.value == 0 ? a : b.is && b.value == 0 ? b : none;
    }
    if (is(n, "Div") && a.is && b.is && b.value != 0) return (known){true, a.value / b.value};
    if (is(n, "Not")) return (known){a.is, a.value == 0};
    if (is(n, "Softmax")) {
        int64_t axis = node_int(n, "axis", -1);
        bool over_keys = (axis < 0 ? axis + rank : axis) == keys;
        return over_keys && a.is && a.value <= -LARGE ? (known){true, 0} : none;
    }
    if (n->op->is_view || is(n, "Cast") || is(n, "Identity") || is(n, "Dropout")) return a;
    return none;
}

// ---------------------------------------------------------------- the roles of inputs
typedef struct reading {
    streaming *s;
    kernel *kernel;
    pair_role roles[256]; // of the kernel's axes
    bool sums;            // over keys
    const char *why;
} reading;

static bool over_time(const reading *r, int axis) {
    return dim_has_atom(r->kernel->axes.at[axis].extent, r->s->length);
}

static void set_role(reading *r, const expr *index, pair_role role) {
    if (index->op != X_AXIS || !over_time(r, index->axis))
        r->why = "reads samples of both axes of time at computed positions";
    else if (r->roles[index->axis] && r->roles[index->axis] != role)
        r->why = "exchanges the two axes of time";
    else r->roles[index->axis] = role;
}

static type buffer_type(const buffer *b) {
    return (type){.kind = TYPE_TENSOR, .rank = b->rank, .dims = b->dims};
}

static void see_pair(reading *r, const buffer *b, expr *const *index) {
    int query, keys;
    type t = buffer_type(b);
    if (!is_pair(r->s, &t, &query, &keys)) return;
    set_role(r, index[query], ROLE_QUERY);
    set_role(r, index[keys], ROLE_KEY);
}

// Besides indices, nothing may depend on positions and the length.
static void check_values(reading *r, const expr *e) {
    if (r->why) return;
    if ((e->op == X_AXIS && over_time(r, e->axis)) || (e->op == X_DIM && dim_has_atom(e->dim, r->s->length)))
        r->why = "depends on the position in the signal";
    for (int j = 0; j < 3 && e->arg[j]; j++) check_values(r, e->arg[j]);
    if (e->op != X_READ) return;
    if (e->guard || e->fill) r->why = "pads two axes of time";
    for (int j = 0; j < e->buffer->rank; j++)
        if (!dim_has_atom(e->buffer->dims[j], r->s->length)) check_values(r, e->index[j]);
}

static void read_stage(reading *r, const stage *st, plan *p) {
    expr_list l = reads_only(stage_nodes(r->s->arena, st, PART_ALL));
    for (int j = 0; j < l.n; j++) see_pair(r, l.at[j]->buffer, l.at[j]->index);
    for (int j = 0; j < st->writes.n; j++) see_pair(r, st->writes.at[j].to, st->writes.at[j].index);
    for (int j = 0; j < st->axes.n; j++) {
        int axis = st->axes.at[j];
        if (!over_time(r, axis) || r->kernel->axes.at[axis].kind == AXIS_PARALLEL) continue;
        if (r->roles[axis] != ROLE_KEY || r->kernel->axes.at[axis].kind == AXIS_SCAN)
            r->why = "reads the whole signal";
        r->sums = true;
    }
    for (int j = 0; j < l.n && !r->why; j++) {
        const buffer *b = l.at[j]->buffer;
        type t = buffer_type(b);
        bool several;
        int axis = time_axis(&t, r->s->length, &several);
        if (axis == NO_TIME || several) continue;
        const expr *at = l.at[j]->index[axis];
        pair_role role = at->op == X_AXIS ? r->roles[at->axis] : ROLE_NONE;
        if (role == ROLE_NONE) r->why = "reads samples at computed positions";
        for (int i = 0; i < p->node->nin; i++) {
            if (p->in[i] != b->value) continue;
            if (p->roles[i] && p->roles[i] != role) r->why = "reads one input as queries and as keys";
            p->roles[i] = role;
        }
    }
    for (int j = 0; j < st->states.n; j++)
        check_values(r, st->states.at[j].init), check_values(r, st->states.at[j].step);
    for (int j = 0; j < st->writes.n; j++) check_values(r, st->writes.at[j].value);
}

bool read_pairs(streaming *s, plan *p, const char **why) {
    reading r = {.s = s};
    program *g = lower_alone(p->node);
    step_list all = program_steps(s->arena, g);
    for (int j = 0; j < all.n && !r.why; j++) {
        step *st = all.at[j].s;
        if (st->kind != STEP_KERNEL) {
            if (st->kind != STEP_CHECK && st->kind != STEP_ALLOC && st->kind != STEP_FREE)
                r.why = "computes two axes of time by more than loops";
            continue;
        }
        r.kernel = st->kernel;
        if (r.kernel->axes.n > 256) r.why = "has too many axes";
        memset(r.roles, 0, sizeof r.roles);
        for (int i = 0; i < r.kernel->stages.n && !r.why; i++) read_stage(&r, r.kernel->stages.at[i], p);
    }
    p->sums_keys = r.sums;
    *why = r.why;
    return !r.why;
}

void set_outside(streaming *s, const plan *p, signal *out, int rank) {
    known k = outside_of(s, p, out->keys, rank);
    out->outside_known = k.is, out->outside = k.value;
}
