// Runs the step of a stream (--stream) over a whole signal: in: inputs with any number of samples, out: those of all steps.
#include "compiler/cli/run_stream.h"
#include <string.h>

port whole_signal(const port *p) {
    port open = *p;
    if (p->streamed) open.dims[p->stream_axis] = -1;
    return open;
}

static bool is_signal(const port *p, const tensor *t) {
    return p->streamed && t->data && t->dims[p->stream_axis] != p->stream_samples;
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

// The number of steps; 0: the inputs are those of one step.
static int64_t steps_of(session *s, const runnable *r, const tensor *in) {
    int64_t steps = 0;
    const port *first = NULL;
    bool whole = false;
    for (int j = 0; j < r->nin; j++) {
        const port *p = &r->in[j];
        if (!p->streamed) continue;
        int64_t n = in[j].dims[p->stream_axis], own = n / p->stream_samples + (n % p->stream_samples != 0);
        if (dtype_bits(p->dtype) < 8 && is_signal(p, &in[j]))
            diag_fatal_missing(&s->diag, NULL, "input '%s': signals of packed elements are not supported",
                               p->name);
        if (first && own != steps)
            diag_fatal(&s->diag, NULL, "input '%s' has samples for %lld steps, but '%s' for %lld", p->name,
                       (long long)own, first->name, (long long)steps);
        steps = own, first = p;
        whole |= is_signal(p, &in[j]);
    }
    if (whole && !steps) diag_fatal(&s->diag, NULL, "input '%s' has no samples", first->name);
    return whole ? steps : 0;
}

// The inputs of step k; behind the end of the signal are zeros.
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

// Outputs with samples go to their places, states to the inputs of the next step, others stay as they are.
static void keep_step(arena *a, const runnable *r, const tensor *in, int64_t k, const tensor *got,
                      tensor *step, tensor *out) {
    for (int j = 0; j < r->nout; j++) {
        const port *p = &r->out[j];
        if (p->next_of)
            memcpy(step[p->next_of - 1].data, got[j].data, (size_t)dtype_size(got[j].dtype, got[j].count));
        if (!p->streamed) {
            out[j] = got[j];
            continue;
        }
        int64_t all = samples_of(r, in, p), n = p->stream_samples, left = all - k * n;
        if (!k) out[j] = with_samples(a, &got[j], p->stream_axis, all);
        copy_samples(&got[j], 0, &out[j], k * n, p->stream_axis, left < n ? left : n);
    }
}

bool run_signal(session *s, runnable *r, const tensor *in, tensor *out, const char **message) {
    int64_t steps = steps_of(s, r, in);
    if (!steps) return r->run(r, s->arena, in, out, message);
    tensor *step = ARENA_ARRAY(s->arena, tensor, r->nin + 1),
           *got = ARENA_ARRAY(s->arena, tensor, r->nout + 1);
    memcpy(step, in, (size_t)r->nin * sizeof *step);
    for (int j = 0; j < r->nin; j++) { // of their own: the run's results are copied there
        if (!r->in[j].begins_zero) continue;
        step[j] = tensor_new(s->arena, in[j].dtype, in[j].rank, in[j].dims);
        memcpy(step[j].data, in[j].data, (size_t)dtype_size(in[j].dtype, in[j].count));
    }
    bool done = true;
    for (int64_t k = 0; done && k < steps; k++) {
        bool last = k == steps - 1;
        arena *scratch = last ? s->arena : arena_new();
        take_step(scratch, r, in, k, step);
        done = r->run(r, scratch, step, got, message);
        if (done) keep_step(s->arena, r, in, k, got, step, out);
        if (!done)
            *message = arena_printf(s->arena, "step %lld: %s", (long long)k, *message ? *message : "failed");
        if (!last) arena_destroy(scratch);
    }
    return done;
}
