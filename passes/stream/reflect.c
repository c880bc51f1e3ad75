// Padding that reflects the signal. Its first samples go before it, as a concatenation puts them there:
//   y = Pad(x, mode reflect)   ->   y = Pad(Concat(x[.., before ... 1], x), mode constant)
// What stands after the last sample is in no output of a step, so that zeros do.
#include "passes/stream/stream_impl.h"
#include <string.h>

// What is reflected on all axes, in the order of the tensor's own. False: some of it is not known at compile time.
static bool reflected(const node *n, int rank, int64_t *pads) {
    const constant *c = infer_constant(n, 1), *axes = infer_constant(n, 3);
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

bool reflect_signal(streaming *s, node *n) {
    int64_t pads[2 * MAX_RANK] = {0}, ends[2 * MAX_RANK] = {0};
    bool several, is_pad = node_is(n, "Pad") && strcmp(node_string(n, "mode", ""), "reflect") == 0;
    if (!is_pad) return false;
    value *x = n->in[0];
    int rank = x->type.rank, time = time_axis(&x->type, s->length, &several), end = time + rank;
    if (time == NO_TIME || several || !reflected(n, rank, pads)) return false;
    if (pads[time] < 0 || (!pads[time] && pads[end] <= 0)) return false;
    s->at = n;
    if (pads[time]) x = join(s, first_samples_reversed(s, x, time, pads[time]), x, time);
    ends[end] = pads[end], pads[time] = pads[end] = 0;
    attr mode = {.name = "mode", .kind = ATTR_STRING, .s = "reflect"};
    for (int j = 0; j < 2 * rank; j++)
        if (pads[j]) {
            x = make(s, "Pad", 2, (value *[]){x, ints(s, pads, 2 * rank)}, &mode);
            break;
        }
    mode.s = "constant";
    value *padded = make(s, "Pad", 2, (value *[]){x, ints(s, ends, 2 * rank)}, &mode);
    value_replace(n->out[0], padded);
    node_delete(n);
    return true;
}
