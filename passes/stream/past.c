// In: values of the graph of one step. Out: their samples of earlier steps, as states that the graph takes and gives, and the
// values before the first sample, computed at compile time.
#include "ir/target.h"
#include "passes/stream/stream_impl.h"
#include <string.h>

// ---------------------------------------------------------------- nodes
static value *make_with(streaming *s, const op_def *op, int nin, value *const *in, const attr *attrs,
                        int nattrs) {
    node *n = node_new(s->graph, s->at, op, s->at ? s->at->loc : NULL, nin, in);
    for (int j = 0; j < nattrs; j++) node_set_attr(n, attrs[j]);
    value *v = node_output(n, 0, NULL);
    infer_node(n);
    return v;
}

value *make(streaming *s, const char *op, int nin, value *const *in, const attr *a) {
    return make_with(s, op_find("", op), nin, in, a, a != NULL);
}

int64_t length_of(const value *v, int axis) {
    const dim *d = v->type.rank > axis ? v->type.dims[axis] : NULL;
    return d && dim_is_const(d) ? dim_value(d) : -1;
}

value *slice_of(streaming *s, value *v, int axis, int64_t from, int64_t to) {
    if (from == 0 && to >= 0 && to == length_of(v, axis)) return v;
    int64_t at = axis;
    value *in[] = {v, ints(s, &from, 1), ints(s, &to, 1), ints(s, &at, 1)};
    return make(s, "Slice", 4, in, NULL);
}

value *pad_axis(streaming *s, value *v, int axis, int64_t before, int64_t after, const char *mode) {
    int64_t pads[2 * MAX_RANK] = {0};
    attr by = {.name = "mode", .kind = ATTR_STRING, .s = mode};
    if (!before && !after) return v;
    pads[axis] = before, pads[axis + v->type.rank] = after;
    return make(s, "Pad", 2, (value *[]){v, ints(s, pads, 2 * v->type.rank)}, &by);
}

value *join(streaming *s, value *a, value *b, int axis) {
    attr at = {.name = "axis", .kind = ATTR_INT, .i = axis};
    return make(s, "Concat", 2, (value *[]){a, b}, &at);
}

// ---------------------------------------------------------------- states
value *state_new(streaming *s, const char *name, const type *t) {
    return graph_add_input(s->graph, arena_printf(s->arena, "%s_past", name), *t);
}

static void give_next(streaming *s, value *state, value *v) {
    graph_add_output(s->graph, v);
    const char *name = arena_printf(s->arena, "%s_next", state->name);
    s->graph->output_names.at[s->graph->outputs.n - 1] = name;
    VEC_PUSH(s->arena, &s->module->states, ((io_state){.output = name, .input = state->name}));
}

void state_next(streaming *s, value *state, value *v) {
    give_next(s, state, make(s, "Identity", 1, &v, NULL)); // a separate output, even if v is another one
}

// The number of the step, which is its own state.
value *step_number(streaming *s) {
    if (s->step) return s->step;
    type t = type_tensor(s->arena, DT_I64, 1, (dim *[]){dim_const(s->module->dims, 1)});
    s->step = graph_add_input(s->graph, "stream_steps", t);
    return s->step;
}

value *state_or_first(streaming *s, value *state, value *first, int64_t until) {
    value *is_first = make(s, "LessOrEqual", 2, (value *[]){step_number(s), ints(s, &until, 1)}, NULL);
    if (!state->type.rank) is_first = make(s, "Squeeze", 1, &is_first, NULL);
    return make(s, "Where", 3, (value *[]){is_first, first, state}, NULL);
}

// ---------------------------------------------------------------- constants
// NULL: more than constant folding would make.
constant *new_constant(streaming *s, dtype elem, int rank, const int64_t *dims) {
    int64_t count = 1;
    for (int j = 0; j < rank; j++)
        if (__builtin_mul_overflow(count, dims[j], &count)) return NULL;
    if (count > s->context->fold_bytes / 16) return NULL;
    return constant_new(s->arena, elem, rank, dims);
}

// With `length` samples along the axis, and `open` elements along axes of symbolic size.
static constant *shaped(streaming *s, const type *t, int axis, int64_t length, int64_t open) {
    int64_t dims[MAX_RANK];
    for (int j = 0; j < t->rank; j++)
        dims[j] = j == axis ? length : dim_is_const(t->dims[j]) ? dim_value(t->dims[j]) : open;
    return new_constant(s, t->elem, t->rank, dims);
}

constant *numbers(streaming *s, dtype t, int64_t count, double first, double step) {
    int64_t one = 1, n = count < 0 ? 1 : count;
    constant *number = constant_new(s->arena, DT_F64, 0, &one),
             *c = constant_new(s->arena, t, count >= 0, &n);
    for (int64_t i = 0; i < n; i++) {
        double v = first + step * (double)i;
        memcpy((void *)number->data, &v, sizeof v);
        constant_copy(number, 0, t, (void *)c->data, i);
    }
    return c;
}

constant *fill_with(streaming *s, dtype t, double v) {
    int64_t one = 1;
    return constant_splat(s->arena, t, 0, &one, numbers(s, t, -1, v, 0)->data);
}

bool is_zero(const constant *c) {
    size_t n = (size_t)dtype_size(c->elem, c->count);
    for (size_t j = 0; j < n; j++)
        if (c->data[j]) return false;
    return true;
}

// to[.., at + i, ..] = from[.., from_at + i, ..] for i < length along the axis; other axes of `from` are broadcast.
static void copy_samples(const constant *from, int64_t from_at, constant *to, int axis, int64_t at,
                         int64_t length) {
    int64_t count = to->dims[axis] ? to->count / to->dims[axis] * length : 0;
    for (int64_t e = 0; e < count; e++) {
        int64_t rest = e, in = 0, out = 0, in_stride = 1, out_stride = 1;
        for (int j = to->rank - 1; j >= 0; j--) {
            int64_t extent = j == axis ? length : to->dims[j], place = rest % extent;
            int64_t own = from->rank ? from->dims[j] : 1;
            rest /= extent;
            out += (j == axis ? at + place : place) * out_stride;
            if (from->rank && (j == axis || own > 1)) in += (j == axis ? from_at + place : place) * in_stride;
            out_stride *= to->dims[j], in_stride *= own;
        }
        constant_copy(from, in, to->elem, (void *)to->data, out);
    }
}

// The length of a signal of which the node's input has the samples before the first step, and `more`.
static int64_t length_before(const streaming *s, const plan *p, int64_t more) {
    int64_t samples = s->module->streams.at[0].samples;
    for (int i = 0; i < p->node->nin; i++) {
        const signal *in = signal_of(s, p->in[i]);
        if (in && !in->still && in->rate) return ((in->lead > 0 ? in->lead : 0) + more) * samples / in->rate;
    }
    return 0;
}

// Sizes of a signal of that length, or sizes of other axes.
static constant *size_before(streaming *s, const value *v, int64_t length) {
    const sizes *z = map_get_number(&s->sized, (uint64_t)v->id);
    return sizes_at(s, z ? z : sizes_of(s, v), length);
}

// How many frames its first input has before the first step, with `more` samples after them.
static int64_t frames_before(const streaming *s, const plan *p, int64_t more) {
    int64_t lead = signal_of(s, p->in[0])->lead;
    return frames_in(p, (lead > 0 ? lead : 0) + more);
}

// The constants that stand for the inputs of a node before the first step, with `more` samples after them that do not count.
// False: they are not known.
static bool inputs_before(streaming *s, const plan *p, int64_t more, int64_t open, map *as) {
    int64_t length = length_before(s, p, more);
    for (int i = 0; i < p->node->nin; i++) {
        const signal *in = signal_of(s, p->in[i]);
        if (!p->in[i] || p->in[i]->constant) continue;
        int64_t head = in && in->lead > 0 ? in->lead : 0;
        bool known = in && !in->still && (in->head || !head);
        constant *c = known ? shaped(s, &in->now->type, in->axis, head + more, open) : NULL;
        if (!in) c = size_before(s, p->in[i], length);
        if (p->indices && i == 1) c = indices_of(s, p, frames_before(s, p, more));
        if (!c) return false;
        if (head) copy_samples(in->head, 0, c, in->axis, 0, head);
        map_put_number(as, (uint64_t)p->in[i]->id, value_constant(s->graph, NULL, c));
    }
    return true;
}

static void infer_copy(void *copy) { infer_node(copy); }

constant **evaluate_copy(streaming *s, const node *n, map *as) {
    const diag_message *why;
    node *copy = node_copy(n, s->graph, as);
    bool valid = infer_attempt(copy, infer_copy, copy, &why);
    constant **all = valid ? evaluate_node(copy, s->context) : NULL;
    node_delete(copy);
    return all;
}

static constant *outputs_before(streaming *s, const plan *p, int out, int64_t more, int64_t open) {
    map as = {.arena = s->arena};
    if (!inputs_before(s, p, more, open, &as)) return NULL;
    constant **all = evaluate_copy(s, p->node, &as);
    return all ? all[out] : NULL;
}

// Whether b, made with two elements along axes of symbolic size, is a, made with one, broadcast along them: then it is so for
// any size.
static bool broadcasts(streaming *s, const constant *a, const constant *b) {
    constant *wide = new_constant(s, b->elem, b->rank, b->dims);
    bool same = wide && a->rank == b->rank;
    for (int j = 0; same && j < a->rank; j++) same = a->dims[j] == b->dims[j] || a->dims[j] == 1;
    if (!same || !b->rank)
        return same && memcmp(a->data, b->data, (size_t)dtype_size(a->elem, a->count)) == 0;
    copy_samples(a, 0, wide, 0, 0, a->dims[0]);
    if (a->dims[0] != b->dims[0]) copy_samples(a, 0, wide, 0, 1, 1);
    return memcmp(wide->data, b->data, (size_t)dtype_size(b->elem, b->count)) == 0;
}

// The same for all sizes of symbolic axes; NULL: it is not.
static constant *outputs_for_all(streaming *s, const plan *p, int out, int64_t more) {
    constant *one = outputs_before(s, p, out, more, 1),
             *two = one ? outputs_before(s, p, out, more, 2) : NULL;
    return two && broadcasts(s, one, two) ? one : NULL;
}

const constant *head_of(streaming *s, const plan *p, int out, int64_t lead) {
    const signal *is = signal_of(s, p->node->out[out]);
    constant *all = outputs_for_all(s, p, out, 0);
    int64_t missing = is && all ? lead - all->dims[is->axis] : 0;
    if (missing > 0)
        all = outputs_for_all(s, p, out, missing * p->every); // the node cuts off samples at the end
    if (!is || !all) return all;
    if (all->dims[is->axis] < lead) return NULL;
    int64_t dims[MAX_RANK];
    memcpy(dims, all->dims, (size_t)all->rank * sizeof *dims);
    dims[is->axis] = lead;
    constant *head = constant_new(s->arena, all->elem, all->rank, dims);
    copy_samples(all, 0, head, is->axis, 0, lead);
    return head;
}

// ---------------------------------------------------------------- the past
// What the past holds before the first step: the fill before sample 0, then the head. NULL: zeros.
static constant *constant_past(streaming *s, const signal *of, const past *p) {
    int64_t head = of->lead < p->length ? of->lead : p->length, dims[MAX_RANK];
    if (head <= 0 && !p->fill) return NULL;
    if (head > 0 && !of->head)
        diag_fatal(s->module->diag, s->at ? s->at->loc : NULL,
                   "--stream: the samples before the first step are not known at compile time");
    for (int j = 0; j < of->now->type.rank; j++) // what is the same for all of an axis is broadcast
        dims[j] = j == of->axis ? p->length : head > 0 ? of->head->dims[j] : 1;
    constant *c = new_constant(s, of->now->type.elem, of->now->type.rank, dims);
    if (!c)
        diag_fatal(s->module->diag, s->at ? s->at->loc : NULL,
                   "--stream: %lld earlier samples that are not zero before the first step are too many",
                   (long long)p->length);
    if (p->fill) copy_samples(p->fill, 0, c, of->axis, 0, p->length - (head > 0 ? head : 0));
    if (head > 0) copy_samples(of->head, of->lead - head, c, of->axis, p->length - head, head);
    return is_zero(c) ? NULL : c;
}

// The state of v, with this number of samples.
static value *past_state(streaming *s, const value *v, const signal *of, int64_t samples) {
    type t = of->now->type;
    dim **dims = ARENA_ARRAY(s->arena, dim *, t.rank + 1);
    memcpy(dims, t.dims, (size_t)t.rank * sizeof *dims);
    dims[of->axis] = dim_const(s->module->dims, samples);
    t = type_tensor(s->arena, t.elem, t.rank, dims);
    return state_new(s, v->name, &t);
}

static value *modulo(streaming *s, value *v, int64_t by) {
    return make(s, "Mod", 2, (value *[]){v, ints(s, &by, 1)}, NULL);
}

value *hide_early(streaming *s, value *v, int axis, int64_t rate, int64_t from, value *fill) {
    int64_t n = length_of(v, axis), dims[MAX_RANK];
    for (int j = 0; j < v->type.rank; j++) dims[j] = j == axis ? n : 1;
    constant *places = constant_new(s->arena, DT_I64, v->type.rank, dims);
    for (int64_t i = 0; i < n; i++) ((int64_t *)places->data)[i] = from + i;
    value *begins = make(s, "Mul", 2, (value *[]){step_number(s), ints(s, &rate, 1)}, NULL);
    value *place = make(s, "Add", 2, (value *[]){begins, value_constant(s->graph, NULL, places)}, NULL);
    value *early = make(s, "Less", 2, (value *[]){place, value_int64(s->graph, 0)}, NULL);
    return make(s, "Where", 3, (value *[]){early, fill, v}, NULL);
}

// A ring instead of a past that moves by the samples of each step.
static value *make_ring(streaming *s, const value *v, const signal *of, value *now, int64_t length) {
    int64_t size = length + of->rate;
    value *state = past_state(s, v, of, 2 * size);
    attr attrs[] = {{.name = "axis", .kind = ATTR_INT, .i = of->axis},
                    {.name = "length", .kind = ATTR_INT, .i = size}};
    value *number = make(s, "Mul", 2, (value *[]){step_number(s), ints(s, &of->rate, 1)}, NULL);
    value *behind = make(s, "Add", 2, (value *[]){number, ints(s, &of->rate, 1)}, NULL);
    value *put[] = {state, now, modulo(s, number, size)};
    value *ring = make_with(s, op_find("onnxc", "RingPut"), 3, put, attrs, 1);
    give_next(s, state, ring);
    return make_with(s, op_find("onnxc", "RingWindow"), 2, (value *[]){ring, modulo(s, behind, size)}, attrs,
                     2);
}

// Whether moving the past in each step costs more than finding its place in a ring does. A ring has each sample twice.
static bool is_long(const streaming *s, const signal *of, const past *p) {
    enum { RING_STEPS = 16, RING_BYTES = 2048 };
    const type *t = &of->now->type;
    bool gpu = s->context->target && s->context->target->arch.is_gpu; // the host would wait for the place
    int64_t count = p->length;
    for (int j = 0; j < t->rank; j++)
        if (j != of->axis && dim_is_const(t->dims[j])) count *= dim_value(t->dims[j]);
    return s->module->rings && !gpu && dtype_bits(t->elem) >= 8 && p->length >= RING_STEPS * of->rate &&
           dtype_size(t->elem, count) >= RING_BYTES;
}

// ---------------------------------------------------------------- the past of an operand
// A value that a node computes from elements of fewer bits, sample by sample, such as a dequantised one: the past of the operand
// is kept instead, and the node runs on all.
typedef struct operand {
    node *n;
    int in;
    const constant *first; // what gives zeros, before the first step; NULL: zeros
} operand;

static const plan *plan_of(const streaming *s, const node *n) {
    for (int j = 0; j < s->plans.n; j++)
        if (s->plans.at[j].node == n) return &s->plans.at[j];
    return NULL;
}

// The only input of the node that is not constant; -1: there are several, or none.
static int only_operand(const node *n) {
    int found = -1;
    for (int i = 0; i < n->nin; i++) {
        if (!n->in[i] || n->in[i]->constant) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

// All values of a byte, or 0 alone, one after the other along the axis.
static constant *candidates(streaming *s, const type *t, int axis) {
    bool byte = dtype_is_int(t->elem) && dtype_bits(t->elem) == 8;
    constant *c = shaped(s, t, axis, byte ? 256 : 1, 1);
    int64_t inner = 1;
    for (int j = axis + 1; c && j < c->rank; j++) inner *= c->dims[j];
    for (int64_t e = 0; byte && c && e < c->count; e++) ((uint8_t *)c->data)[e] = (uint8_t)(e / inner % 256);
    return c;
}

static bool sample_is_zero(const constant *c, int axis, int64_t at) {
    int64_t inner = dtype_size(c->elem, 1), outer = 1, one = c->dims[axis];
    for (int j = 0; j < c->rank; j++) *(j < axis ? &outer : &inner) *= j == axis ? 1 : c->dims[j];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++)
            if (c->data[(o * one + at) * inner + i]) return false;
    return true;
}

// Which operand makes zeros. False: none is known.
static bool find_first(streaming *s, operand *x, int axis) {
    map as = {.arena = s->arena};
    value *in = x->n->in[x->in];
    constant *all = candidates(s, &in->type, axis);
    if (!all) return false;
    map_put_number(&as, (uint64_t)in->id, value_constant(s->graph, NULL, all));
    constant **made = evaluate_copy(s, x->n, &as);
    if (!made || made[0]->rank != all->rank || made[0]->dims[axis] != all->dims[axis]) return false;
    for (int64_t t = 0; t < all->dims[axis]; t++) {
        if (!sample_is_zero(made[0], axis, t)) continue;
        double first = (double)(in->type.elem == DT_U8 ? t : (int8_t)t);
        x->first = t ? numbers(s, in->type.elem, -1, first, 0) : NULL;
        return true;
    }
    return false;
}

static bool find_operand(streaming *s, const signal *of, operand *x) {
    node *n = of->now->def;
    const plan *p = n ? plan_of(s, n) : NULL;
    if (!p || p->carries || p->moves || n->nout != 1) return false;
    *x = (operand){.n = n, .in = only_operand(n)};
    const signal *in = x->in < 0 ? NULL : signal_of(s, p->in[x->in]);
    if (!in || in->still || in->pair || in->axis != of->axis || in->rate != of->rate || in->lead != of->lead)
        return false;
    const type *t = &n->in[x->in]->type;
    bool same = t->rank == of->now->type.rank && length_of(n->in[x->in], of->axis) == of->rate;
    return same && dtype_bits(t->elem) >= 8 && dtype_bits(t->elem) < dtype_bits(of->now->type.elem) &&
           find_first(s, x, of->axis);
}

static value *run_on_all(streaming *s, const operand *x, value *all) {
    map as = {.arena = s->arena};
    map_put_number(&as, (uint64_t)x->n->in[x->in]->id, all);
    node *copy = node_copy(x->n, s->graph, &as);
    node_move(copy, s->graph, s->at);
    infer_node(copy);
    return copy->out[0];
}

// ---------------------------------------------------------------- before the first sample
// With this number of samples, of which the last ones are those of v, after zeros or others; one sample stands for all.
static value *ending_with(streaming *s, value *v, int axis, int64_t samples, const constant *fill) {
    int64_t own = length_of(v, axis), pads[2 * MAX_RANK] = {0};
    if (own >= samples) return slice_of(s, v, axis, own - samples, own);
    if (own == 1 && !fill) return v;
    pads[axis] = samples - own;
    value *by = fill ? value_constant(s->graph, NULL, (constant *)fill) : NULL;
    return make(s, "Pad", 3, (value *[]){v, ints(s, pads, 2 * v->type.rank), by}, NULL);
}

// What stands before sample 0, which is number `at` of its step: `first` or, if that is NULL, sample 0 itself.
static value *first_now(streaming *s, const signal *of, const value *first, int64_t at) {
    const signal *computed = first ? signal_of(s, first) : NULL;
    if (first) return computed ? computed->now : (value *)first;
    value *samples = of->lead <= 0 ? of->now
                     : of->begins  ? of->begin
                                   : value_constant(s->graph, NULL, (constant *)of->head);
    return slice_of(s, samples, of->axis, at, at + 1);
}

value *before_first(streaming *s, const signal *of, const window *w, int64_t samples) {
    if (of->begins) {
        const constant *fill = w->padded ? w->fill : w->head ? w->head : numbers(s, of->elem, -1, 0, 0);
        return ending_with(s, of->begin, of->axis, samples, fill);
    }
    value *first = first_now(s, of, w->first, 0);
    if (!w->edge) return first;
    attr at = {.name = "axis", .kind = ATTR_INT, .i = of->axis};
    value *same = value_constant(s->graph, NULL, numbers(s, DT_I64, samples, 0, 0));
    return make(s, "Gather", 2, (value *[]){first, same}, &at);
}

// `all` is the past and the samples of a step. In the step that has sample 0, all before that are replaced; later steps find
// them in the state. One sample of another value replaces them in earlier steps, too.
static value *begin(streaming *s, const signal *of, const past *p, value *all) {
    int64_t behind = of->lead < 0 ? -of->lead : 0, until = behind / of->rate, at = behind % of->rate;
    int64_t early = p->length + at - (of->lead > 0 ? of->lead : 0);
    if (!p->first && !p->edge) return all;
    if (until && !p->edge && is_one_sample(p->first, of->axis))
        return hide_early(s, all, of->axis, of->rate, of->lead - p->length, first_now(s, of, p->first, at));
    if (early <= 0) return all;
    value *fill = ending_with(s, first_now(s, of, p->first, at), of->axis, early, NULL);
    value *replaced = state_or_first(s, slice_of(s, all, of->axis, 0, early), fill, until);
    int64_t samples = length_of(all, of->axis);
    return early == samples ? replaced
                            : join(s, replaced, slice_of(s, all, of->axis, early, samples), of->axis);
}

// The past and the samples of the step, of which `keep` is the value that is kept.
static value *with_past(streaming *s, const value *v, const signal *keep, value *now, const past *p,
                        value *first) {
    value *state = past_state(s, v, keep, p->length), *before = state;
    if (first) before = state_or_first(s, state, first, 0);
    value *all = begin(s, keep, p, join(s, before, now, keep->axis));
    state_next(s, state, slice_of(s, all, keep->axis, keep->rate, keep->rate + p->length));
    return all;
}

static value *zero_past(streaming *s, const value *v, const signal *of, value *now, const past *p) {
    operand x;
    signal keep = *of;
    bool narrow = now == of->now && find_operand(s, of, &x);
    if (narrow) keep.now = now = x.n->in[x.in];
    value *first = narrow && x.first ? value_constant(s->graph, NULL, (constant *)x.first) : NULL;
    value *all = !first && is_long(s, &keep, p) ? make_ring(s, v, &keep, now, p->length)
                                                : with_past(s, v, &keep, now, p, first);
    return narrow ? run_on_all(s, &x, all) : all;
}

static value *first_past(streaming *s, const signal *of, const past *p) {
    if (of->begins)
        return ending_with(s, of->begin, of->axis, p->length,
                           p->fill ? p->fill : numbers(s, of->elem, -1, 0, 0));
    constant *c = constant_past(s, of, p);
    return c ? value_constant(s->graph, NULL, c) : NULL;
}

static void make_past(streaming *s, const value *v, signal *of, past *p) {
    value *now = of->now, *fill = p->fill ? value_constant(s->graph, NULL, (constant *)p->fill) : NULL;
    if (fill && of->lead < 0) now = hide_early(s, now, of->axis, of->rate, of->lead, fill);
    value *first = p->length ? first_past(s, of, p) : NULL;
    if (!p->length) p->all = begin(s, of, p, now);
    else if (first || p->first || p->edge) p->all = with_past(s, v, of, now, p, first);
    else p->all = zero_past(s, v, of, now, p);
}

value *samples_of(streaming *s, const value *of, const span *at) {
    signal *in = signal_of(s, of);
    int64_t begins = in->lead;
    value *all = in->now;
    if (at->past >= 0) {
        past *p = &in->pasts.at[at->past];
        if (!p->all) make_past(s, of, in, p);
        all = p->all, begins -= p->length;
    }
    return slice_of(s, all, in->axis, at->from - begins, at->to - begins);
}
