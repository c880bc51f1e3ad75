// Runs the step of a stream (--stream) over a whole signal: in: inputs with any number of samples, out: those of all steps.
#include "compiler/cli/run_stream.h"
#include <string.h>

port whole_signal(const port *p) {
    port open = *p;
    if (p->streamed) open.dims[p->stream_axis] = -1;
    return open;
}

// Copies `count` samples along the axis from sample `at` of one tensor to sample `to_at` of another.
static void copy_samples(const tensor *from, int64_t at, tensor *to, int64_t to_at, int axis, int64_t count) {
    int64_t outer = 1, inner = dtype_size(from->dtype, 1);
    for (int j = 0; j < axis; j++) outer *= from->dims[j];
    for (int j = axis + 1; j < from->rank; j++) inner *= from->dims[j];
    for (int64_t i = 0; i < outer; i++)
        memcpy((char *)to->data + (i * to->dims[axis] + to_at) * inner,
               (const char *)from->data + (i * from->dims[axis] + at) * inner, (size_t)(count * inner));
}

static tensor with_samples(arena *a, const tensor *like, int axis, int64_t samples) {
    int64_t dims[MAX_RANK];
    memcpy(dims, like->dims, (size_t)like->rank * sizeof *dims);
    dims[axis] = samples;
    return tensor_new(a, like->dtype, like->rank, dims);
}

// The number of steps; 0: no input is a signal.
static int64_t steps_of(diag *d, const runnable *r, const tensor *in) {
    int64_t steps = 0;
    const port *first = NULL;
    for (int j = 0; j < r->nin; j++) {
        const port *p = &r->in[j];
        if (!p->streamed) continue;
        if (in[j].rank != p->rank)
            diag_fatal(d, NULL, "input '%s' has rank %d, not %d", p->name, in[j].rank, p->rank);
        int64_t n = in[j].dims[p->stream_axis], own = n / p->stream_samples + (n % p->stream_samples != 0);
        if (!n) diag_fatal(d, NULL, "input '%s' has no samples", p->name);
        if (dtype_bits(p->dtype) < 8) {
            if (n == p->stream_samples) return 0;
            diag_fatal_missing(d, NULL, "input '%s': signals of packed elements are not supported", p->name);
        }
        if (first && own != steps)
            diag_fatal(d, NULL, "input '%s' has samples for %lld steps, but '%s' for %lld", p->name,
                       (long long)own, first->name, (long long)steps);
        steps = own, first = p;
    }
    return steps;
}

// The inputs of step k; after the end of the signal are zeros.
static void take_step(arena *a, const runnable *r, const tensor *in, int64_t k, tensor *step) {
    for (int j = 0; j < r->nin; j++) {
        const port *p = &r->in[j];
        if (!p->streamed) continue;
        int64_t n = p->stream_samples, left = in[j].dims[p->stream_axis] - k * n;
        step[j] = with_samples(a, &in[j], p->stream_axis, n);
        copy_samples(&in[j], k * n, &step[j], 0, p->stream_axis, left < n ? left : n);
    }
}

// Samples of an output for all of the signal.
static int64_t samples_of(const runnable *r, const tensor *in, const port *out) {
    for (int j = 0; j < r->nin; j++) {
        const port *p = &r->in[j];
        if (!p->streamed) continue;
        int64_t n = in[j].dims[p->stream_axis] * out->stream_samples;
        return n / p->stream_samples + (n % p->stream_samples != 0);
    }
    return 0;
}

// A state for the next step: what the run gave, in memory that lasts.
static void keep_state(arena *a, const tensor *got, tensor *state) {
    bool same = got->rank == state->rank;
    for (int j = 0; same && j < got->rank; j++) same = got->dims[j] == state->dims[j];
    if (!same) *state = tensor_new(a, got->dtype, got->rank, got->dims);
    memcpy(state->data, got->data, (size_t)dtype_size(got->dtype, got->count));
}

// The samples of step k that the whole model has, too: from `skip` on, `count` of them, to place `at`.
typedef struct kept {
    int64_t skip, count, at;
} kept;

static kept kept_of(const port *p, int64_t k, int64_t all) {
    int64_t n = p->stream_samples, begins = k * n - p->stream_delay;
    kept x = {.skip = begins < 0 ? -begins : 0};
    x.at = begins + x.skip, x.count = n - x.skip;
    if (x.count > all - x.at) x.count = all - x.at;
    return x;
}

// Outputs with samples go to their places, states to the inputs of the next step, others stay as they are.
static void keep_step(arena *a, const runnable *r, const tensor *in, int64_t k, const tensor *got,
                      tensor *step, tensor *out) {
    for (int j = 0; j < r->nout; j++) {
        const port *p = &r->out[j];
        if (p->next_of) keep_state(a, &got[j], &step[p->next_of - 1]);
        if (!p->streamed) {
            out[j] = got[j];
            continue;
        }
        int64_t all = samples_of(r, in, p) - p->stream_delay;
        if (!k) out[j] = with_samples(a, &got[j], p->stream_axis, all > 0 ? all : 0);
        kept x = kept_of(p, k, all);
        if (x.count > 0) copy_samples(&got[j], x.skip, &out[j], x.at, p->stream_axis, x.count);
    }
}

static bool is_state(const runnable *r, int input) {
    bool is = false;
    for (int j = 0; j < r->nout; j++) is |= r->out[j].next_of == input + 1;
    return is;
}

bool run_signal(arena *a, diag *d, runnable *r, const tensor *in, tensor *out, const char **message) {
    int64_t steps = steps_of(d, r, in);
    if (!steps) return r->run(r, a, in, out, message);
    tensor *step = ARENA_ARRAY(a, tensor, r->nin + 1), *got = ARENA_ARRAY(a, tensor, r->nout + 1);
    memcpy(step, in, (size_t)r->nin * sizeof *step);
    for (int j = 0; j < r->nin; j++) { // separate memory: the run's results are copied there
        if (!is_state(r, j)) continue;
        step[j] = tensor_new(a, in[j].dtype, in[j].rank, in[j].dims);
        keep_state(a, &in[j], &step[j]);
    }
    bool done = true;
    for (int64_t k = 0; done && k < steps; k++) {
        bool last = k == steps - 1;
        arena *scratch = last ? a : arena_new();
        take_step(scratch, r, in, k, step);
        done = r->run(r, scratch, step, got, message);
        if (done) keep_step(a, r, in, k, got, step, out);
        if (!done) *message = arena_printf(a, "step %lld: %s", (long long)k, *message ? *message : "failed");
        if (!last) arena_destroy(scratch);
    }
    return done;
}

tensor state_before(arena *a, const runnable *r, const tensor *in, int j) {
    const port *p = &r->in[j];
    int64_t dims[MAX_RANK];
    for (int axis = 0; axis < p->rank; axis++) {
        dims[axis] = p->dims[axis] < 0 ? 1 : p->dims[axis];
        for (int i = 0; p->dims[axis] < 0 && i < j; i++)
            for (int at = 0; at < r->in[i].rank && at < in[i].rank; at++)
                if (strcmp(r->in[i].sizes[at], p->sizes[axis]) == 0) dims[axis] = in[i].dims[at];
    }
    return tensor_new(a, p->dtype, p->rank, dims);
}

const import_value *samples_in(arena *a, const port *p, const tensor *got, const import_value *want) {
    int axis = p->stream_axis;
    if (!p->streamed || !p->stream_delay || want->kind != TYPE_TENSOR || want->tensor->rank != got->rank ||
        want->tensor->dims[axis] < got->dims[axis])
        return want;
    import_value *part = ARENA_NEW(a, import_value);
    tensor whole = tensor_of(a, want->tensor), own = with_samples(a, &whole, axis, got->dims[axis]);
    copy_samples(&whole, 0, &own, 0, axis, got->dims[axis]);
    *part = *want;
    part->tensor = constant_of(a, &own);
    return part;
}

bool ends_with_step(const runnable *r, const tensor *in) {
    bool ends = true;
    for (int j = 0; j < r->nin; j++)
        if (r->in[j].streamed) ends &= in[j].dims[r->in[j].stream_axis] % r->in[j].stream_samples == 0;
    for (int j = 0; j < r->nout; j++) ends &= !r->out[j].stream_delay;
    return ends;
}
