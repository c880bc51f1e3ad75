// In: a node of a graph whose signals have a symbolic length. Out: the reach of its outputs. The node is lowered alone; then
// the time index of each read, an affine function of the time index of the write, gives the window.
#include "passes/stream/reach.h"
#include "compiler/base/integers.h"
#include "ir/kernel/lower.h"
#include "passes/match/form.h"
#include "passes/match/window.h"
#include <string.h>

// A buffer that depends on signals.
typedef struct signal {
    int axis;
    window *inputs; // by input of the node: of this buffer's samples
    bool is_input;
    bool moves;
} signal;

// Of a result: where its signal begins, and the samples at fixed places before and after it.
typedef struct places {
    bool signal, head, tail;
    int64_t first;        // of the signal
    int64_t head_last;    // the last sample of the head
    int64_t tail_first;   // the first one of the tail, from the length of the signal on
    const constant *fill; // all elements of the head; NULL: they differ, or are not known
    const value *one;     // of which the head is a copy; NULL: it is something else
} places;

typedef struct reader {
    arena *arena;
    node *node;
    const dim *length;
    map signals; // id of buffer -> signal
    map placed;  // id of buffer -> places
    map *sized;
    const char *why;
    // Of the stage that is read:
    kernel *kernel;
    int time;                  // the kernel's axis that runs over time; NO_TIME
    int64_t step, first, last; // the write's time index is step * axis + first, up to + last over other axes
    window *into;
    int64_t period; // of positions, on which values depend
    bool any;       // it reads a signal
    bool *seen;     // by id of expr
} reader;

static bool refuse(reader *r, const char *why) {
    if (!r->why) r->why = why;
    return false;
}

int time_axis(const type *t, const dim *length, bool *several) {
    int axis = NO_TIME;
    *several = false;
    for (int j = 0; t->kind == TYPE_TENSOR && j < t->rank; j++) {
        if (!dim_has_atom(t->dims[j], length)) continue;
        *several |= axis != NO_TIME;
        axis = j;
    }
    return axis;
}

// ---------------------------------------------------------------- windows
static window reduced(window w) {
    int64_t g = int_gcd(w.up, w.down);
    w.up /= g, w.down /= g;
    w.lo = div_down(w.lo, g), w.hi = div_down(w.hi, g);
    return w;
}

// The window on the input of `second` seen through `first`, whose input is the output of `second`. False: no window of
// this form.
static bool compose(const window *first, const window *second, window *out) {
    *out = (window){.used = true, .padded = second->padded, .fill = second->fill, .edge = second->edge};
    if (first->down == 1) {
        out->up = first->up * second->up, out->down = second->down;
        out->lo = second->up * first->lo + second->lo, out->hi = second->up * first->hi + second->hi;
    } else if (second->up == 1) {
        out->up = first->up, out->down = first->down * second->down;
        out->lo = first->lo + first->down * second->lo, out->hi = first->hi + first->down * second->hi;
    } else return false;
    *out = reduced(*out);
    return true;
}

static bool same_fill(const constant *a, const constant *b) {
    return a->elem == b->elem && memcmp(a->splat, b->splat, sizeof a->splat) == 0;
}

static bool widen(reader *r, window *to, const window *w) {
    if (!to->used) {
        *to = *w;
        return true;
    }
    if (to->up != w->up || to->down != w->down) return refuse(r, "reads one input at two rates");
    if (w->lo < to->lo) to->lo = w->lo;
    if (w->hi > to->hi) to->hi = w->hi;
    bool differ = to->padded && w->padded && !same_fill(to->fill, w->fill);
    if (differ || (to->padded && w->edge) || (to->edge && w->padded))
        return refuse(r, "pads one input with two values");
    to->edge |= w->edge;
    if (w->padded) to->padded = true, to->fill = w->fill;
    return true;
}

// ---------------------------------------------------------------- buffers
static dim *product_of(dims *t, dim *const *d, int from, int to) {
    return dim_product(t, d + from, to - from);
}

// Maps the time of a view to the time of the buffer it shares memory with.
static bool view_window(reader *r, const buffer *b, int axis, const buffer *of, int of_axis, window *w) {
    dims *t = r->node->graph->module->dims;
    dim *inner = product_of(t, b->dims, axis + 1, b->rank),
        *of_inner = product_of(t, of->dims, of_axis + 1, of->rank);
    dim *outer = product_of(t, b->dims, 0, axis), *of_outer = product_of(t, of->dims, 0, of_axis);
    *w = (window){.used = true, .up = 1, .down = 1};
    if (outer != of_outer)
        return refuse(r, "merges time with another axis, as a mean over the whole signal does");
    if (inner == of_inner) return true;
    if (!dim_is_const(inner) || !dim_is_const(of_inner))
        return refuse(r, "reshapes time by a size that is not constant");
    int64_t in = dim_value(inner), from = dim_value(of_inner);
    if (in > 0 && from % in == 0) w->down = from / in;
    else if (from > 0 && in % from == 0) w->up = in / from, w->hi = w->up - 1;
    else return refuse(r, "reshapes time by a factor that is not whole");
    return true;
}

static signal *signal_of(reader *r, const buffer *b) {
    if (b->role == BUF_LOCAL) return NULL; // computed by the same kernel, from what that reads
    signal *known = map_get_number(&r->signals, (uint64_t)b->id);
    if (known || !b->view_of || r->why) return known;
    const signal *of = signal_of(r, b->view_of);
    if (!of) return NULL;
    bool several;
    type t = {.kind = TYPE_TENSOR, .rank = b->rank, .dims = b->dims};
    signal *s = ARENA_NEW(r->arena, signal);
    s->axis = time_axis(&t, r->length, &several);
    s->inputs = ARENA_ARRAY(r->arena, window, r->node->nin + 1);
    window own;
    if (several || s->axis == NO_TIME) refuse(r, "changes the shape of time");
    else if (view_window(r, b, s->axis, b->view_of, of->axis, &own))
        for (int j = 0; j < r->node->nin; j++)
            if (of->inputs[j].used && !compose(&own, &of->inputs[j], &s->inputs[j]))
                refuse(r, "changes the rate of time in a way that is not supported");
    map_put_number(&r->signals, (uint64_t)b->id, s);
    return s;
}

// ---------------------------------------------------------------- reads
static bool has_length(const reader *r, const expr *e) {
    return e->op == X_DIM && dim_has_atom(e->dim, r->length);
}

static bool runs_over_time(const reader *r, int axis) {
    return dim_has_atom(r->kernel->axes.at[axis].extent, r->length);
}

static bool depends_on_time(reader *r, const expr *e) {
    if (has_length(r, e)) return true;
    if (e->op == X_AXIS && runs_over_time(r, e->axis)) return true;
    expr *operands[MAX_RANK + 3];
    int n = expr_operands(e, operands);
    for (int j = 0; j < n; j++)
        if (depends_on_time(r, operands[j])) return true;
    return false;
}

static bool time_index(reader *r, expr *index, index_window *w) {
    switch (window_of_index(r->kernel, index, r->time, w)) {
    case WINDOW_COMPUTED: return refuse(r, "reads samples at computed positions");
    case WINDOW_BASE:
        return refuse(r, depends_on_time(r, w->base)
                             ? "reads samples at a distance from the end of the signal"
                             : "reads samples at computed positions");
    case WINDOW_EXTENT:
        return refuse(r, runs_over_time(r, w->other) ? "reads the whole signal"
                                                     : "reads a number of samples that is not constant");
    case WINDOW_FITS: break;
    }
    if (w->at <= 0)
        return refuse(r, w->at < 0 ? "reads the signal backwards"
                                   : "reads a fixed sample of the signal for all others");
    return true;
}

// Whether all elements have the same bits.
static bool is_even(const constant *c) {
    if (c->kind == CONST_STRINGS || !c->count) return false;
    uint8_t first[16] = {0}, element[16] = {0};
    constant_copy(c, 0, c->elem, first, 0);
    for (int64_t i = 1; i < c->count; i++) {
        constant_copy(c, i, c->elem, element, 0);
        if (memcmp(element, first, sizeof first) != 0) return false;
    }
    return true;
}

static const constant *fill_of(reader *r, const expr *e, dtype elem) {
    uint8_t element[16] = {0};
    if (e->op == X_READ && e->buffer->role == BUF_CONST && is_even(e->buffer->data)) {
        constant_copy(e->buffer->data, 0, elem, element, 0);
    } else if (e->op == X_CONST) {
        int64_t one = 1;
        constant *c = constant_new(r->arena, dtype_is_float(e->dtype) ? DT_F64 : DT_I64, 0, &one);
        memcpy((void *)c->data, dtype_is_float(e->dtype) ? (const void *)&e->f : &e->i, 8);
        constant_copy(c, 0, elem, element, 0);
    } else return NULL;
    int64_t one = 1;
    return constant_splat(r->arena, elem, 0, &one, element);
}

// A guard is a conjunction; the comparisons that involve time keep an index inside the signal.
static bool guard_is_range(reader *r, const expr *e, const expr *index, bool *padded) {
    if (!depends_on_time(r, e)) return true;
    if (e->op == X_AND)
        return guard_is_range(r, e->arg[0], index, padded) && guard_is_range(r, e->arg[1], index, padded);
    int64_t zero;
    if (e->op == X_LE && e->arg[1] == index && expr_known_int(e->arg[0], &zero) && zero == 0)
        return *padded = true;
    if (e->op == X_LT && e->arg[0] == index && has_length(r, e->arg[1])) return true;
    return refuse(r, "reads samples under a condition that depends on their position");
}

// i of max(min(i, length - 1), 0), which keeps an index inside the signal. Limits that make no difference may be missing.
static expr *unclamped(const reader *r, expr *index, bool *below) {
    int64_t zero;
    *below = index->op == X_MAX && expr_known_int(index->arg[1], &zero) && zero == 0;
    if (*below) index = index->arg[0];
    return index->op == X_MIN && has_length(r, index->arg[1]) ? index->arg[0] : index;
}

static bool visit(reader *r, expr *e);

static bool visit_signal(reader *r, expr *e, const signal *s) {
    r->any = true;
    index_window at;
    for (int j = 0; j < e->buffer->rank; j++)
        if (j != s->axis && !visit(r, e->index[j])) return false;
    if (r->time == NO_TIME) return refuse(r, "reads the whole signal");
    bool below, padded = false;
    expr *index = unclamped(r, e->index[s->axis], &below);
    if (!time_index(r, index, &at)) return false;
    window w = {.used = true, .up = at.at, .down = r->step * at.down};
    w.lo = r->step * at.lo - at.at * r->last, w.hi = r->step * at.hi - at.at * r->first;
    w = reduced(w);
    if (e->guard && !guard_is_range(r, e->guard, index, &padded)) return false;
    w.edge = below && w.lo < 0;
    if (padded && w.lo < 0) {
        w.padded = true;
        w.fill = e->fill ? fill_of(r, e->fill, e->buffer->dtype) : NULL;
        if (!w.fill) return refuse(r, "pads with a value that is not constant");
    }
    if ((w.edge || w.padded) && !s->is_input) return refuse(r, "pads a signal inside the operator");
    for (int j = 0; j < r->node->nin; j++) {
        window through;
        if (!s->inputs[j].used) continue;
        if (!compose(&w, &s->inputs[j], &through))
            return refuse(r, "changes the rate of time in a way that is not supported");
        through.padded = w.padded, through.fill = w.fill, through.edge = w.edge;
        if (!widen(r, &r->into[j], &through)) return false;
    }
    return !e->fill || visit(r, e->fill);
}

// A position modulo a constant is the same in all steps if these have a multiple of so many samples.
static bool is_phase(reader *r, const expr *e) {
    int64_t m;
    if (e->op != X_MOD || e->arg[0]->op != X_AXIS || e->arg[0]->axis != r->time || r->time == NO_TIME)
        return false;
    if (r->step != 1 || !expr_known_int(e->arg[1], &m) || m < 1 || m > INT32_MAX) return false;
    int64_t g = int_gcd(r->period, m);
    return !__builtin_mul_overflow(r->period / g, m, &r->period);
}

static bool keeps_period(const reader *r) {
    bool keeps = r->period == 1;
    for (int j = 0; j < r->node->nin; j++)
        keeps |= r->into[j].used && r->into[j].up == 1 && r->into[j].down % r->period == 0;
    return keeps;
}

// Whether all that e depends on is a window of signals.
static bool visit(reader *r, expr *e) {
    if (r->seen[e->id] || is_phase(r, e)) return true;
    r->seen[e->id] = true;
    if (e->op == X_AXIS && runs_over_time(r, e->axis))
        return refuse(r, "depends on the position in the signal");
    if (has_length(r, e)) return refuse(r, "depends on the length of the signal");
    if (e->op == X_READ) {
        const signal *s = signal_of(r, e->buffer);
        if (r->why) return false;
        if (s) return visit_signal(r, e, s);
        if (e->buffer->value && map_get_number(r->sized, (uint64_t)e->buffer->value->id))
            return refuse(r, "depends on the length of the signal");
    }
    expr *operands[MAX_RANK + 3];
    int n = expr_operands(e, operands);
    for (int j = 0; j < n; j++)
        if (!visit(r, operands[j])) return false;
    return true;
}

static bool visit_stage(reader *r, stage *s) {
    r->seen = ARENA_ARRAY(r->arena, bool, r->kernel->exprs.n + 1);
    for (int j = 0; j < s->states.n; j++) {
        const state *x = &s->states.at[j];
        if (!visit(r, x->init) || !visit(r, x->step)) return false;
    }
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        bool several;
        type t = {.kind = TYPE_TENSOR, .rank = w->to->rank, .dims = w->to->dims};
        int axis = time_axis(&t, r->length, &several);
        for (int i = 0; i < w->to->rank; i++)
            if (i != axis && !visit(r, w->index[i])) return false;
        if (!visit(r, w->value) || (w->guard && !visit(r, w->guard))) return false;
    }
    return true;
}

// ---------------------------------------------------------------- kernels
static const type *type_of(reader *r, const buffer *b) {
    type *t = ARENA_NEW(r->arena, type);
    *t = (type){.kind = TYPE_TENSOR, .rank = b->rank, .dims = b->dims};
    return t;
}

// The part of a concatenation before the signal, of a constant number of samples, or the one after it.
static bool is_end_part(reader *r, expr *index) {
    for (int j = 0; j < r->kernel->axes.n; j++)
        if (runs_over_time(r, j) && expr_uses_axis(index, j)) return false;
    return true;
}

static places *places_of(reader *r, const buffer *b) {
    places *p = map_get_number(&r->placed, (uint64_t)b->id);
    if (!p) p = ARENA_NEW(r->arena, places), map_put_number(&r->placed, (uint64_t)b->id, p);
    return p;
}

// Samples at fixed places belong to no step: only before and after a signal do they not replace some of it.
static bool are_apart(reader *r, const places *p) {
    bool apart =
        !p->signal || ((!p->head || p->head_last < p->first) && (!p->tail || p->tail_first >= p->first));
    return apart || refuse(r, "writes samples at fixed positions of the signal");
}

static bool place_signal(reader *r, const write *w) {
    places *p = places_of(r, w->to);
    if (!p->signal || r->first < p->first) p->first = r->first;
    p->signal = true;
    return are_apart(r, p);
}

// The value that the write copies, at the same places on other axes than time.
static const value *copied(const write *w, int axis) {
    const expr *e = w->value;
    if (e->op != X_READ || e->guard || !e->buffer->value || e->buffer->rank != w->to->rank) return NULL;
    for (int j = 0; j < w->to->rank; j++)
        if (j != axis && (e->index[j] != w->index[j] || e->buffer->dims[j] != w->to->dims[j])) return NULL;
    return e->buffer->value;
}

static void note_fill(reader *r, places *p, const write *w, int axis) {
    const constant *fill = fill_of(r, w->value, w->to->dtype);
    p->one = p->head || fill ? NULL : copied(w, axis);
    if (p->head && fill && (!p->fill || !same_fill(fill, p->fill))) fill = NULL;
    p->fill = fill;
}

static bool place_end(reader *r, const write *w, int axis) {
    kernel *k = r->kernel;
    places *p = places_of(r, w->to);
    expr *base, *coef[256];
    int64_t first, last, c;
    bool affine = k->axes.n <= 256 && expr_affine(k, w->index[axis], &base, coef);
    dim *at = affine ? expr_known_dim(k, base) : NULL;
    if (!at) return refuse(r, "writes samples at computed positions");
    bool tail = !dim_is_const(at);
    dim *from = tail ? dim_sub(at, (dim *)r->length) : at;
    if (!dim_is_const(from)) return refuse(r, "writes samples at computed positions");
    first = last = dim_value(from);
    for (int j = 0; j < k->axes.n; j++) {
        if (!expr_known_int(coef[j], &c) || c < 0 || (c && !dim_is_const(k->axes.at[j].extent)))
            return refuse(r, "writes samples at computed positions");
        if (c) last += c * (dim_value(k->axes.at[j].extent) - 1);
    }
    if (!tail) note_fill(r, p, w, axis);
    if (tail && (!p->tail || first < p->tail_first)) p->tail_first = first;
    if (!tail && (!p->head || last > p->head_last)) p->head_last = last;
    p->tail |= tail, p->head |= !tail;
    return are_apart(r, p);
}

// The kernel's time axis and the write's place on it. False: the write is refused.
static bool place_write(reader *r, const write *w, int axis) {
    kernel *k = r->kernel;
    expr *base, *coef[256];
    if (k->axes.n > 256 || !expr_affine(k, w->index[axis], &base, coef) || !expr_known_int(base, &r->first))
        return refuse(r, "writes samples at computed positions");
    r->last = r->first;
    for (int j = 0; j < k->axes.n; j++) {
        int64_t c;
        if (!expr_known_int(coef[j], &c) || c < 0) return refuse(r, "writes samples at computed positions");
        if (!c) continue;
        const struct axis *x = &k->axes.at[j];
        if (x->kind == AXIS_PARALLEL && dim_is_const(x->extent)) {
            r->last += c * (dim_value(x->extent) - 1);
            continue;
        }
        if (!runs_over_time(r, j) || r->time != NO_TIME || k->axes.at[j].kind != AXIS_PARALLEL)
            return refuse(r, k->axes.at[j].kind == AXIS_PARALLEL ? "writes several samples at a time"
                                                                 : "passes a state from sample to sample");
        r->time = j, r->step = c;
    }
    return r->time != NO_TIME || refuse(r, "writes samples at computed positions");
}

// Whether the write copies the element that it reads, at most shifted in time.
static bool only_moves(reader *r, const write *w, int axis, const window *into) {
    const expr *e = w->value;
    if (e->op != X_READ || e->buffer->rank != w->to->rank || e->buffer->dtype != w->to->dtype) return false;
    const signal *s = signal_of(r, e->buffer);
    if (!s || !s->is_input || s->axis != axis || w->guard) return false;
    for (int j = 0; j < w->to->rank; j++) {
        if (j != axis && (e->index[j] != w->index[j] || e->buffer->dims[j] != w->to->dims[j])) return false;
        bool whole = e->index[j]->op == X_AXIS || dim_is(w->to->dims[j], 1);
        if (j != axis && !whole) return false;
    }
    for (int j = 0; j < r->node->nin; j++)
        if (into[j].used && (into[j].up != 1 || into[j].down != 1 || into[j].lo != into[j].hi)) return false;
    return true;
}

static void add_signal(reader *r, const buffer *to, int axis, const window *into, bool moves) {
    signal *s = map_get_number(&r->signals, (uint64_t)to->id);
    if (!s) {
        s = ARENA_NEW(r->arena, signal);
        *s =
            (signal){.axis = axis, .inputs = ARENA_ARRAY(r->arena, window, r->node->nin + 1), .moves = moves};
        map_put_number(&r->signals, (uint64_t)to->id, s);
    }
    s->moves &= moves;
    for (int j = 0; j < r->node->nin; j++)
        if (into[j].used) widen(r, &s->inputs[j], &into[j]);
}

static bool has_states_over_time(const reader *r, const stage *s) {
    for (int j = 0; j < s->axes.n; j++)
        if (r->kernel->axes.at[s->axes.at[j]].kind != AXIS_PARALLEL && runs_over_time(r, s->axes.at[j]))
            return true;
    return false;
}

// Stages that fill locals for this one have the same outer axes; time must be one of these.
static bool visit_locals(reader *r, const stage *s) {
    for (int j = 0; j < r->kernel->stages.n && r->kernel->stages.at[j] != s; j++) {
        stage *x = r->kernel->stages.at[j];
        bool fills = false;
        for (int i = 0; i < x->writes.n; i++) fills |= x->writes.at[i].to->role == BUF_LOCAL;
        if (fills && !visit_stage(r, x)) return false;
    }
    return true;
}

static bool visit_write(reader *r, stage *s, const write *w) {
    bool several;
    int axis = time_axis(type_of(r, w->to), r->length, &several);
    if (several) return refuse(r, "has a result with two axes of time");
    r->time = NO_TIME, r->into = ARENA_ARRAY(r->arena, window, r->node->nin + 1), r->any = false;
    r->period = 1;
    bool end = axis != NO_TIME && is_end_part(r, w->index[axis]);
    if (axis != NO_TIME && !end && !place_write(r, w, axis)) return false;
    if (w->combine != COMBINE_SET) return refuse(r, "adds to samples at computed positions");
    if (end) {
        if (!place_end(r, w, axis)) return false;
        r->seen = ARENA_ARRAY(r->arena, bool, r->kernel->exprs.n + 1);
        return visit(r, w->value);
    }
    if (!visit_stage(r, s) || !visit_locals(r, s)) return false;
    if (!keeps_period(r)) return refuse(r, "depends on the position in the signal");
    if (axis == NO_TIME) return true;
    add_signal(r, w->to, axis, r->into, only_moves(r, w, axis, r->into));
    return place_signal(r, w);
}

static bool reads_signals(reader *r, const kernel *k) {
    buffer **all;
    int n = kernel_buffers(k, &all);
    for (int j = 0; j < n; j++)
        if (signal_of(r, all[j]) || time_axis(type_of(r, all[j]), r->length, &(bool){0}) != NO_TIME)
            return true;
    return false;
}

static bool visit_kernel(reader *r, kernel *k) {
    r->kernel = k;
    if (!reads_signals(r, k)) return true;
    for (int j = 0; j < k->locals.n; j++)
        if (time_axis(type_of(r, k->locals.at[j]), r->length, &(bool){0}) != NO_TIME)
            return refuse(r, "reads the whole signal");
    for (int j = 0; j < k->stages.n; j++) {
        stage *s = k->stages.at[j];
        if (has_states_over_time(r, s))
            return refuse(r, s->axes.n && k->axes.at[s->axes.at[s->axes.n - 1]].kind == AXIS_SCAN
                                 ? "passes a state from sample to sample"
                                 : "reads the whole signal");
        for (int i = 0; i < s->writes.n; i++)
            if (s->writes.at[i].to->role != BUF_LOCAL && !visit_write(r, s, &s->writes.at[i])) return false;
    }
    return true;
}

static bool touches_signals(reader *r, const step *s) {
    for (int j = 0; j < s->nargs; j++)
        if (s->args[j] &&
            (signal_of(r, s->args[j]) || time_axis(type_of(r, s->args[j]), r->length, &(bool){0}) != NO_TIME))
            return true;
    return (s->buffer && signal_of(r, s->buffer)) || (s->from && signal_of(r, s->from));
}

static bool visit_steps(reader *r, const program *p) {
    step_list all = program_steps(r->arena, p);
    for (int j = 0; j < all.n; j++) {
        step *s = all.at[j].s;
        if (s->kind == STEP_LOOP || s->kind == STEP_IF)
            return refuse(r, "computes the signal in a loop or a branch");
        if (s->kind == STEP_KERNEL ? !visit_kernel(r, s->kernel) : false) return false;
        bool harmless =
            s->kind == STEP_KERNEL || s->kind == STEP_CHECK || s->kind == STEP_ALLOC || s->kind == STEP_FREE;
        if (!harmless && touches_signals(r, s)) return refuse(r, "computes the signal by a library function");
    }
    return !r->why;
}

// ---------------------------------------------------------------- nodes
static void add_inputs(reader *r, const program *p) {
    for (int j = 0; j < p->inputs.n; j++) {
        const buffer *b = p->inputs.at[j];
        bool several;
        int axis = time_axis(type_of(r, b), r->length, &several);
        if (axis == NO_TIME) continue;
        if (several) refuse(r, "reads an input with two axes of time");
        signal *s = ARENA_NEW(r->arena, signal);
        *s = (signal){
            .axis = axis, .inputs = ARENA_ARRAY(r->arena, window, r->node->nin + 1), .is_input = true};
        for (int i = 0; i < r->node->nin; i++)
            if (r->node->in[i] == b->value) s->inputs[i] = (window){.used = true, .up = 1, .down = 1};
        map_put_number(&r->signals, (uint64_t)b->id, s);
    }
}

static bool has_samples(const value *v, int axis, int64_t samples) {
    return v && dim_is_const(v->type.dims[axis]) && dim_value(v->type.dims[axis]) == samples;
}

// What a concatenation puts before the signal that it only moves.
static void note_head(reader *r, const buffer *b, signal *as) {
    const places *at = map_get_number(&r->placed, (uint64_t)b->id);
    for (int j = 0; at && at->head && as->moves && j < r->node->nin; j++) {
        if (!as->inputs[j].used || as->inputs[j].lo != -at->first) continue;
        as->inputs[j].head = at->fill;
        if (has_samples(at->one, as->axis, at->first)) as->inputs[j].first = at->one;
    }
}

static reach reach_of(reader *r, program *p, int out) {
    reach at = {.axis = NO_TIME, .inputs = ARENA_ARRAY(r->arena, window, r->node->nin + 1)};
    const value *v = r->node->out[out];
    if (!v) return at;
    bool several;
    at.axis = time_axis(&v->type, r->length, &several);
    if (several) refuse(r, "has a result with two axes of time");
    signal *s = signal_of(r, p->outputs.at[out]);
    if (s) note_head(r, p->outputs.at[out], s);
    if (s) at.inputs = s->inputs, at.moves = s->moves;
    return at;
}

reach *node_reach(node *n, const dim *length, map *sized, const char **why) {
    arena *a = n->graph->module->arena;
    reader r = {.arena = a,
                .node = n,
                .length = length,
                .signals = {.arena = a},
                .placed = {.arena = a},
                .sized = sized};
    for (int j = 0; j < n->nattrs; j++)
        if (n->attrs[j].kind == ATTR_GRAPH) refuse(&r, "computes the signal in a loop or a branch");
    if (!n->op->lower && !n->op->is_view) refuse(&r, "is not implemented");
    reach *all = ARENA_ARRAY(a, reach, n->nout + 1);
    if (!r.why) {
        program *p = lower_alone(n);
        add_inputs(&r, p);
        if (visit_steps(&r, p))
            for (int j = 0; j < n->nout; j++) all[j] = reach_of(&r, p, j);
    }
    *why = r.why;
    return r.why ? NULL : all;
}
