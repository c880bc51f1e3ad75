// Padding that reflects the signal. Its first samples go before it, as a concatenation puts them there:
//   y = Pad(x, mode reflect)   ->   y = Pad(Concat(x[.., before ... 1], x), mode constant)
// What stands after the last sample is in no output of a step: zeros do, or nothing where it depends on the length of the signal, as
// where exporters fill up the last frame.
#include "passes/stream/stream_impl.h"
#include <string.h>

// Whether all elements of v but that one are constants.
static bool depends_at_most(const value *v, int one) {
    for (int j = 0; j < v->ncontents; j++)
        if (j != one && !dim_is_const(v->contents[j])) return false;
    return v->contents;
}

// How many elements are put before and after all axes, in the order of the tensor's own. False: not known at compile time.
static bool pads_of(const streaming *s, const node *n, int rank, int end, int64_t *pads) {
    const constant *c = infer_constant(n, 1), *axes = infer_constant(n, 3);
    if (!c && depends_at_most(n->in[1], end)) c = map_get_number(&s->probes, (uint64_t)n->in[1]->id);
    if (!c || (node_in(n, 3) && !axes)) return false;
    int64_t count = axes ? axes->count : rank;
    for (int64_t i = 0; i < count; i++) {
        int64_t axis = axes ? constant_int(axes, i) : i;
        if (axis < 0) axis += rank;
        pads[axis] = constant_int(c, i), pads[axis + rank] = constant_int(c, count + i);
    }
    return true;
}

static value *first_samples_reversed(streaming *s, value *x, int axis, int64_t count) {
    attr at = {.name = "axis", .kind = ATTR_INT, .i = axis};
    value *places = value_constant(s->graph, NULL, numbers(s, DT_I64, count, (double)count, -1));
    return make(s, "Gather", 2, (value *[]){x, places}, &at);
}

// x between other elements along other axes than time, and after what is before the signal.
static value *pad_begin(streaming *s, const node *n, value *x, const int64_t *pads) {
    const value *fill = node_in(n, 2);
    attr mode = {.name = "mode", .kind = ATTR_STRING, .s = node_string(n, "mode", "constant")};
    for (int j = 0; j < 2 * x->type.rank; j++)
        if (pads[j])
            return make(s, "Pad", 3, (value *[]){x, ints(s, pads, 2 * x->type.rank), (value *)fill}, &mode);
    return x;
}

bool pad_signal(streaming *s, node *n) {
    int64_t pads[2 * MAX_RANK] = {0}, ends[2 * MAX_RANK] = {0};
    bool several;
    if (!node_is(n, "Pad")) return false;
    bool reflects = strcmp(node_string(n, "mode", "constant"), "reflect") == 0, known = infer_constant(n, 1);
    value *x = n->in[0];
    int rank = x->type.rank, time = time_axis(&x->type, s->length, &several), end = time + rank;
    if ((known && !reflects) || time == NO_TIME || several || !pads_of(s, n, rank, end, pads)) return false;
    if (reflects && (pads[time] < 0 || (known && !pads[time] && pads[end] <= 0))) return false;
    s->at = n;
    if (reflects && pads[time]) {
        x = join(s, first_samples_reversed(s, x, time, pads[time]), x, time);
        pads[time] = 0;
    }
    ends[end] = known ? pads[end] : 0, pads[end] = 0;
    x = pad_begin(s, n, x, pads);
    value_replace(n->out[0], make(s, "Pad", 2, (value *[]){x, ints(s, ends, 2 * rank)}, NULL));
    node_delete(n);
    return true;
}
