// The discrete Fourier transform of a length that only the run knows:
//
//   kernel load     re[..., n, ...], im[..., n, ...] = the signal
//   call fourier    re, im -> frequencies of the axis
//   kernel store    writes the frequencies
#include "ir/ops/signal/fourier.h"
#include <string.h>

// Signals are transformed side by side, for whole vectors, unless they are so long that their scratch memory would matter.
enum { MOST_LANES = 4, LONG_SIGNAL = 1 << 13 };

static buffer *make_part(const transform *f, const char *name, dim *size) {
    dim *dims[MAX_RANK];
    memcpy(dims, f->dims, (size_t)f->rank * sizeof *dims);
    dims[f->axis] = size;
    return lower_temp(f->l, f->n, name, f->t, f->rank, dims);
}

// parts[1] is NULL if the signal is real.
static void load_signals(const transform *f, buffer **parts) {
    kernel *k;
    expr *index[MAX_RANK];
    parts[0] = make_part(f, "signal_real", f->length);
    stage *s = suffixed_stage(f->l, f->n, "load", parts[0], &k, index);
    complex_expr v = f->read(f, k, index, NULL);
    parts[1] = v.im ? make_part(f, "signal_imaginary", f->length) : NULL;
    stage_write(k, s, parts[0], index, v.re);
    if (v.im) stage_write(k, s, parts[1], index, v.im);
}

static void store_frequencies(const transform *f, buffer **parts) {
    kernel *k;
    expr *index[MAX_RANK];
    stage *s = suffixed_stage(f->l, f->n, "store", parts[0], &k, index);
    f->write(f, k, s, index, complex_read(k, parts, index, NULL));
}

static void call_library(const transform *f, buffer *const *from, buffer *const *to) {
    dims *t = f->length->table;
    dim *outer = dim_product(t, f->dims, f->axis), *one = dim_const(t, 1);
    dim *inner = dim_product(t, f->dims + f->axis + 1, f->rank - f->axis - 1);
    dim *side = dim_min(dim_mul(outer, inner), dim_const(t, MOST_LANES));
    dim *lanes = dim_select(dim_lt(f->length, dim_const(t, LONG_SIGNAL)), side, one);
    dim *room = dim_mul(f->length, dim_addk(dim_mulk(lanes, 12), 14));
    buffer *scratch = lower_temp(f->l, f->n, "scratch", DT_F64, 1, &room);
    dim *numbers[] = {dim_const(t, f->t), outer, f->length, inner, f->kept, dim_const(t, f->inverse), lanes};
    buffer *args[] = {to[0], to[1], scratch, from[0], from[1]};
    lower_call(f->l, f->n, "fourier", 3, args, 5, numbers, 7);
}

bool transform_by_library(transform *f) {
    if (dim_is_const(f->length) || !f->l->program->module->on_cpu) return false;
    buffer *signals[2];
    buffer *frequencies[] = {make_part(f, "real", f->kept), make_part(f, "imaginary", f->kept)};
    load_signals(f, signals);
    call_library(f, signals, frequencies);
    store_frequencies(f, frequencies);
    return true;
}
