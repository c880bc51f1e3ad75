// Values with two axes of time, such as the scores of attention: one of queries, then one of keys. In: the graph over the whole
// signal. Out: how many samples before and after its own place a query sees, and the roles of a node's inputs.
//
// Masks are functions of positions alone. They are computed at compile time for a signal of PROBE samples: where all keys
// farther away than some distance have one value, that is the mask's value outside of its band. If it makes weights 0, a step needs
// only the keys in the band.
#include "ir/kernel/lower.h"
#include "passes/stream/stream_impl.h"
#include <math.h>
#include <string.h>

// ---------------------------------------------------------------- values of positions
static constant *probe_of(streaming *s, value *v) {
    constant *c = map_get_number(&s->probes, (uint64_t)v->id);
    if (c || !has_length(s, v)) return c;
    c = sizes_at(s, sizes_of(s, v), PROBE);
    if (c) map_put_number(&s->probes, (uint64_t)v->id, c);
    return c;
}

// A pair that depends on the distance of query and key alone.
static bool of_distance(const streaming *s, const value *v) { return period_of_pair(s, v, 1) == 1; }

// Whether n compares positions with one after the probe: its results change where the probe has ended. Distances are
// compared in vain, unless --stream-capacity lets attention see that far.
static bool changes_later(const streaming *s, const node *n) {
    static const char *const names[] = {
        "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Min", "Max", "Clip", "Div", "Mod"};
    enum { POSITIONS = 1 << 24 }; // larger numbers are not positions
    bool compares = false, later = false, distances = false;
    for (size_t j = 0; j < sizeof names / sizeof *names; j++) compares |= node_is(n, names[j]);
    for (int i = 0; compares && i < n->nin; i++) {
        if (!n->in[i]) continue;
        const constant *c = n->in[i]->constant;
        if (!c) distances |= of_distance(s, n->in[i]);
        if (!c || c->count != 1) continue;
        double at = fabs(constant_float(c, 0));
        later |= at >= PROBE - 1 && at < POSITIONS;
    }
    return later && (!distances || s->module->stream_capacity);
}

static void mark_doubtful(streaming *s, node *n) {
    bool doubt = changes_later(s, n);
    for (int i = 0; i < n->nin; i++)
        doubt |= n->in[i] && map_get_number(&s->doubtful, (uint64_t)n->in[i]->id);
    for (int j = 0; doubt && j < n->nout; j++)
        if (n->out[j]) map_put_number(&s->doubtful, (uint64_t)n->out[j]->id, n->out[j]);
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
    mark_doubtful(s, n);
    constant **all = evaluate_copy(s, n, &as);
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

int64_t stride_of(const constant *c, int axis) {
    int64_t n = 1;
    for (int j = axis + 1; j < c->rank; j++) n *= c->dims[j];
    return n;
}

// The distances at which keys have another value than `outside`. False: far away on a side that must have none.
static bool distances(const constant *c, int query, int keys, double outside, bool bounded, int64_t *before,
                      int64_t *ahead) {
    int64_t length = c->dims[query], q = stride_of(c, query), k = stride_of(c, keys);
    *before = 0, *ahead = 0;
    for (int64_t e = 0; e < c->count; e++) {
        if (constant_float(c, e) == outside) continue;
        int64_t distance = e / q % length - e / k % length;
        if (distance > *before) *before = distance;
        if (-distance > *ahead) *ahead = -distance;
    }
    return (bounded || *before < length / 2) && *ahead < length / 2;
}

// The value far before each query, and how far before and after it other values are; or, if all that is before it may
// be seen, the value far behind it, and the number of samples that --stream-capacity allows. False: the values do not
// settle.
static bool band_of(streaming *s, const value *v, double *outside, int64_t *before, int64_t *ahead) {
    const constant *c = map_get_number(&s->probes, (uint64_t)v->id);
    int query, keys;
    if (!c || !is_pair(s, &v->type, &query, &keys) || c->dims[query] != c->dims[keys]) return false;
    int64_t last = c->dims[query] - 1, capacity = s->module->stream_capacity;
    *outside = constant_float(c, last * stride_of(c, query));
    if (distances(c, query, keys, *outside, false, before, ahead)) return true;
    if (!capacity) return false;
    *outside = constant_float(c, last * stride_of(c, keys));
    if (!distances(c, query, keys, *outside, true, before, ahead)) return false;
    const sizes own = {.type = {.rank = 0, .elem = DT_I64}, .contents = &v->type.dims[keys], .count = 1};
    const constant *most = sizes_at(s, &own, capacity);
    *before = most && constant_int(most, 0) > 0 ? constant_int(most, 0) - 1 : 0;
    return most;
}

void find_probes(streaming *s) {
    s->probes = s->doubtful = (map){.arena = s->arena};
    for (int j = 0; j < s->graph->nodes.n; j++) probe_node(s, s->graph->nodes.at[j]);
}

void find_bands(streaming *s) {
    for (int j = 0; j < s->graph->nodes.n; j++) {
        const node *n = s->graph->nodes.at[j];
        for (int i = 0; i < n->nin; i++) {
            double outside;
            int64_t before, ahead;
            if (!n->in[i] || !n->nout || !n->out[0] || of_positions(s, n->out[0]) ||
                !band_of(s, n->in[i], &outside, &before, &ahead))
                continue;
            if (map_get_number(&s->doubtful, (uint64_t)n->in[i]->id))
                diag_fatal(s->module->diag, n->loc,
                           "--stream: the mask of this node depends on positions beyond the first %d", PROBE);
            if (before > s->before) s->before = before;
            if (ahead > s->ahead) s->ahead = ahead;
        }
    }
}

static bool same_element(const constant *c, int64_t a, int64_t b) {
    double x = constant_float(c, a), y = constant_float(c, b);
    return x == y || (isnan(x) && isnan(y));
}

int64_t period_of_pair(const streaming *s, const value *v, int64_t rate) {
    const constant *c = map_get_number(&s->probes, (uint64_t)v->id);
    int query, keys;
    if (!c || !is_pair(s, &v->type, &query, &keys) || c->dims[query] != c->dims[keys]) return 0;
    int64_t q = stride_of(c, query), k = stride_of(c, keys), length = c->dims[query];
    for (int64_t period = 1; period <= rate && period < length; period++) {
        bool repeats = rate % period == 0;
        for (int64_t e = 0; repeats && e < c->count; e++)
            repeats = e / q % length < period || e / k % length < period ||
                      same_element(c, e, e - period * (q + k));
        if (repeats) return period;
    }
    return 0;
}

// Whether all keys farther away than half of the probe have one value on each side of the query.
static bool has_even_ends(const constant *c, int query, int keys) {
    int64_t length = c->dims[query], q = stride_of(c, query), k = stride_of(c, keys);
    for (int64_t e = 0; e < c->count; e++) {
        int64_t row = e / q % length, column = e / k % length, distance = row - column;
        if (distance > length / 2 && !same_element(c, e, e - column * k)) return false;
        if (-distance > length / 2 && !same_element(c, e, e + (length - 1 - column) * k)) return false;
    }
    return true;
}

bool extends_to(streaming *s, const value *v, int64_t distance) {
    const constant *c = map_get_number(&s->probes, (uint64_t)v->id);
    int query, keys;
    is_pair(s, &v->type, &query, &keys);
    return distance < c->dims[query] || has_even_ends(c, query, keys);
}

const constant *pair_of_step(streaming *s, const value *v, const signal *as, int64_t lead) {
    const constant *c = map_get_number(&s->probes, (uint64_t)v->id);
    int64_t dims[MAX_RANK], length = c->dims[as->axis], farthest = length - as->period;
    memcpy(dims, c->dims, (size_t)c->rank * sizeof *dims);
    dims[as->axis] = as->rate, dims[as->keys] = s->before + as->rate + s->ahead;
    constant *step = new_constant(s, c->elem, c->rank, dims);
    if (!step) return NULL;
    int64_t q = stride_of(c, as->axis), k = stride_of(c, as->keys), step_q = stride_of(step, as->axis),
            step_k = stride_of(step, as->keys);
    int64_t outer = q * length, step_outer = step_q * as->rate, between = q / (k * length);
    for (int64_t e = 0; e < step->count; e++) {
        int64_t own = e / step_q % as->rate;
        int64_t distance = own - e / step_k % dims[as->keys] + s->before;
        if (distance > farthest) distance = farthest;
        if (distance < -farthest) distance = -farthest;
        // The first row of the probe that has the distance, at the same place in the period.
        int64_t row = distance > 0 ? distance : 0, middle = e % step_q / (step_k * dims[as->keys]) % between;
        row += own + lead - row - div_down(own + lead - row, as->period) * as->period;
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

static known outside_of(streaming *s, const plan *p, int keys, int rank) {
    const node *n = p->node;
    known a = known_input(s, p, 0), b = known_input(s, p, 1), c = known_input(s, p, 2), none = {0};
    if (node_is(n, "Where")) return !a.is ? none : a.value != 0 ? b : c;
    if (node_is(n, "Add") || node_is(n, "Sub")) {
        if (node_is(n, "Sub")) b.value = -b.value;
        if (a.is && b.is) return (known){true, a.value + b.value};
        return a.is && fabs(a.value) >= LARGE ? a : b.is && fabs(b.value) >= LARGE ? b : none;
    }
    if (node_is(n, "Mul") || node_is(n, "And")) {
        if (a.is && b.is) return (known){true, a.value * b.value};
        return a.is && a.value == 0 ? a : b.is && b.value == 0 ? b : none;
    }
    if (node_is(n, "Div") && a.is && b.is && b.value != 0) return (known){true, a.value / b.value};
    if (node_is(n, "Not")) return (known){a.is, a.value == 0};
    if (node_is(n, "Softmax")) {
        int64_t axis = node_int(n, "axis", -1);
        bool over_keys = (axis < 0 ? axis + rank : axis) == keys;
        return over_keys && a.is && a.value <= -LARGE ? (known){true, 0} : none;
    }
    if (node_is(n, "IsNaN")) return (known){a.is, isnan(a.value)};
    if (n->op->is_view || node_is(n, "Cast") || node_is(n, "Identity") || node_is(n, "Dropout")) return a;
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
