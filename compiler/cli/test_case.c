// Runs one case in one form:
//   static    the unchanged model
//   symbolic  every input axis its own name; the one program runs at the original size and at sizes 0, 1 and
//             a prime, where the interpreter is right. Where the rank of a result would be unknown, the last
//             axes of integer inputs (shapes, axes, indices) keep their sizes.
//   constant  each input in turn, and all of them, made constants of the model
//   kept      every value inside the model is kept, and looked at while it runs
#include "compiler/cli/test_case.h"
#include "compiler/base/cleanup.h"
#include "compiler/base/fs.h"
#include "compiler/cli/input_files.h"
#include "compiler/cli/run_stream.h"
#include "compiler/driver/bind.h"
#include "compiler/run/probe_call.h"
#include "compiler/run/runnable.h"
#include "compiler/tune/tune.h"
#include "compiler/values/compare.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRIME = 7, SMALL_PRIME = 3, RANK_MOST = 4, ALL_INPUTS = -1, NO_INPUT = -2 };

// One compilation of the model.
typedef struct unit {
    arena *arena;
    diag diag;
    const test_options *o;
    const char *folder, *model;
    bool symbolic;
    bool keeps_last; // axes of integer inputs
    int64_t size;    // size of every symbolic input axis; -1: as in the model
    int constant;    // the input made a constant, or one of the above
    int ninputs;     // of the model
    input_files files;
    int *from;         // by remaining input: the number of its file
    const char *error; // the first
    verdict verdict;
    const char *message;
} unit;

static void keep_error(void *user, const diag_message *m) {
    unit *u = user;
    if (m->severity == SEV_ERROR && !u->error) u->error = m->full;
}

static void fail(unit *u, verdict v, const char *message) {
    if (u->verdict != VERDICT_OK) return;
    u->verdict = v;
    u->message = message;
}

// ---------------------------------------------------------------- the model in its form
static const char *data_set(const unit *u, int k) {
    return arena_printf(u->arena, "%s/test_data_set_%d", u->folder, k);
}

static default_use use_of_input(void *user, const model_input *i) {
    unit *u = user;
    if (!u->files.folder) u->files = (input_files){.arena = u->arena, .folder = data_set(u, 0)};
    return input_files_use(&u->files, i);
}

static import_value *read_value(unit *u, const char *set, const char *stem, int j, type_kind kind) {
    return import_value_file(u->arena, &u->diag, arena_printf(u->arena, "%s/%s_%d.pb", set, stem, j), kind);
}

static bool keeps_axis(const unit *u, dtype elem, int axis, int rank) {
    return u->keeps_last && axis == rank - 1 && (elem == DT_I32 || elem == DT_I64);
}

static void set_sizes(const unit *u, module *m) {
    for (int j = 0; j < m->main->inputs.n; j++) {
        type *t = &m->main->inputs.at[j]->type;
        for (int i = 0; t->kind == TYPE_TENSOR && i < t->rank; i++)
            if (t->dims[i]->kind == DIM_SYMBOL) t->dims[i] = dim_const(m->dims, u->size);
    }
}

static bool wants_symbol(void *user, const value *v, int axis) {
    return !keeps_axis(user, v->type.elem, axis, v->type.rank) || !dim_is_const(v->type.dims[axis]);
}

static void edit(void *user, module *m) {
    unit *u = user;
    u->ninputs = m->main->inputs.n;
    u->from = ARENA_ARRAY(u->arena, int, u->ninputs + 1);
    if (u->symbolic || u->size >= 0) bind_symbolic(m, wants_symbol, u);
    if (u->size >= 0) set_sizes(u, m);
    int left = 0;
    for (int j = 0, at = 0; j < u->ninputs; j++) {
        bool tensor = m->main->inputs.at[at]->type.kind == TYPE_TENSOR;
        int file = u->files.number.at[j];
        if (tensor && (u->constant == j || u->constant == ALL_INPUTS))
            bind_constant(m, at, read_value(u, data_set(u, 0), "input", file, TYPE_TENSOR)->tensor);
        else u->from[left++] = file, at++;
    }
}

// Every value is kept, and resolved in the run.
static bool see_values(void *user, const probe_event *e) {
    arena *scratch = arena_within(((unit *)user)->arena);
    for (int i = 0; i < e->n; i++) probe_read(scratch, &e->values[i], true);
    arena_destroy(scratch);
    return true;
}

static probes *keep_values(unit *u) {
    probes *p = probes_new(u->arena);
    p->before = true;
    p->user = u;
    p->see = see_values;
    return p;
}

static runnable *prepare(unit *u, const char *interpret) {
    pipeline_hooks hooks = {.user = u, .edit = edit, .input = use_of_input, .tune = tune_kernels};
    pipeline *p = pipeline_new(u->arena, &u->diag, u->o->compile, &hooks);
    const source s = {.path = u->model};
    if (u->o->form && strcmp(u->o->form, "kept") == 0) p->probes = keep_values(u);
    bool shim = u->o->cuda_shim && !interpret;
    return shim ? runnable_on_shim(p, &s, u->o->cuda_shim) : runnable_new(p, &s, interpret);
}

// ---------------------------------------------------------------- runs
static tolerance read_tolerance(const unit *u) {
    tolerance t = {1e-3, 1e-5};
    FILE *f = fopen(arena_printf(u->arena, "%s/tolerance", u->folder), "r");
    if (!f) return t;
    if (fscanf(f, "%lf %lf", &t.rtol, &t.atol) != 2) t = (tolerance){1e-3, 1e-5};
    fclose(f);
    return t;
}

static tensor *read_inputs(unit *u, const runnable *r, const char *set) {
    tensor *in = ARENA_ARRAY(u->arena, tensor, r->nin + 1);
    for (int j = 0; j < r->nin; j++)
        in[j] = r->in[j].begins_zero
                    ? state_before(u->arena, r, in, j)
                    : tensor_of_value(u->arena, &r->in[j],
                                      read_value(u, set, "input", u->from[j], r->in[j].kind));
    return in;
}

// Computes halves in float, to avoid intermediate rounding of the reference.
static tolerance for_dtype(tolerance t, dtype d) {
    double least = d == DT_BF16 ? 0x1p-6 : d == DT_F16 ? 0x1p-9 : 0;
    if (t.rtol < least) t.rtol = least;
    return t;
}

// With --precision, passing cases tell their errors too.
static void report_error_sizes(unit *u, const char *set, const char *output, const comparison *c) {
    if (options_precision(u->o->compile) == PRECISION_OWN || u->verdict != VERDICT_OK) return;
    const char *before = u->message ? arena_printf(u->arena, "%s; ", u->message) : "";
    u->message =
        arena_printf(u->arena, "%s%s: output '%s' %s", before, set, output, comparison_text(u->arena, c));
}

static void check_outputs(unit *u, const runnable *r, const tensor *in, const tensor *out, const char *set) {
    tolerance t = read_tolerance(u);
    bool ended = ends_with_step(r, in);
    for (int j = 0; j < r->nout; j++) {
        const port *p = &r->out[j];
        if (!path_exists(arena_printf(u->arena, "%s/output_%d.pb", set, j)) || (!p->streamed && !ended))
            continue;
        const import_value *want = read_value(u, set, "output", j, p->kind);
        comparison c = compare_values(u->arena, value_of_port(u->arena, p, &out[j]),
                                      samples_in(u->arena, p, &out[j], want), for_dtype(t, out[j].dtype));
        if (c.same) report_error_sizes(u, strrchr(set, '/') + 1, r->out[j].name, &c);
        else
            fail(u, VERDICT_DIFFERS,
                 arena_printf(u->arena, "%s: output '%s' %s", strrchr(set, '/') + 1, r->out[j].name,
                              comparison_text(u->arena, &c)));
    }
}

static void run_sets(unit *u, runnable *r) {
    if (!path_exists(data_set(u, 0)))
        fail(u, VERDICT_MISSING, "test_data_set_0 is missing, so nothing could be compared");
    for (int k = 0; path_exists(data_set(u, k)) && u->verdict == VERDICT_OK; k++) {
        if (k > 0 && u->constant != NO_INPUT) return; // the constants are from set 0
        const char *message = NULL, *set = data_set(u, k);
        tensor *out = ARENA_ARRAY(u->arena, tensor, r->nout + 1);
        tensor *in = read_inputs(u, r, set);
        if (run_signal(u->arena, &u->diag, r, in, out, &message)) check_outputs(u, r, in, out, set);
        else fail(u, VERDICT_FAILED, message);
    }
}

// The inputs of set 0 with every symbolic axis of length `size`; elements repeat.
static tensor *resized_inputs(unit *u, const runnable *r, int64_t size) {
    tensor *in = read_inputs(u, r, data_set(u, 0));
    for (int j = 0; j < r->nin; j++) {
        tensor from = in[j];
        if (r->in[j].boxed) continue;
        int64_t dims[MAX_RANK];
        for (int i = 0; i < from.rank; i++)
            dims[i] = keeps_axis(u, from.dtype, i, from.rank) ? from.dims[i] : size;
        in[j] = tensor_new(u->arena, from.dtype, from.rank, dims);
        int bits = dtype_bits(from.dtype);
        for (int64_t i = 0; from.count && i < in[j].count; i++) {
            if (bits >= 8)
                memcpy((char *)in[j].data + i * bits / 8, (char *)from.data + i % from.count * bits / 8,
                       (size_t)bits / 8);
            else dtype_copy(from.dtype, in[j].data, i, from.dtype, from.data, i % from.count);
        }
    }
    return in;
}

// The expected outputs at that size by the interpreter, for interpreted programs those of the model compiled
// for that size, and the runnable that they belong to: it may know ranks that the other does not. NULL: none.
static const runnable *reference(unit *u, int64_t size, tensor **out) {
    unit *own = ARENA_NEW(u->arena, unit);
    *own = *u;
    own->symbolic = !u->o->interpret;
    own->size = u->o->interpret ? size : -1;
    own->diag = (diag){.arena = u->arena, .sink = keep_error, .user = own, .leftovers = u->diag.leftovers};
    jmp_buf jump;
    const runnable *volatile from = NULL;
    if (DIAG_TRY(&own->diag, jump)) {
        runnable *r = prepare(own, "");
        const char *message = NULL;
        *out = ARENA_ARRAY(u->arena, tensor, r->nout + 1);
        if (r->run(r, u->arena, resized_inputs(own, r, size), *out, &message)) from = r;
    }
    return from;
}

// The tolerance of a case is for its own data. At other sizes a sum may cancel to nearly 0, where two valid
// summation orders differ by an ulp of the summands: allow one ulp of the largest element.
static tolerance for_other_data(tolerance t, const tensor *want) {
    double largest = 0;
    if (!dtype_is_float(want->dtype)) return t;
    for (int64_t i = 0; i < want->count; i++) {
        double v = fabs(dtype_load_float(want->dtype, want->data, i));
        if (isfinite(v) && v > largest) largest = v;
    }
    double unit = want->dtype == DT_F64 ? 0x1p-52 : 0x1p-23;
    if (t.atol < unit * largest) t.atol = unit * largest;
    return t;
}

static void run_resized(unit *u, runnable *r, int64_t size) {
    tensor *want = NULL, *out = ARENA_ARRAY(u->arena, tensor, r->nout + 1);
    const char *message = NULL;
    const runnable *known = reference(u, size, &want);
    bool done = r->run(r, u->arena, resized_inputs(u, r, size), out, &message);
    if (!known) return;
    if (!done) fail(u, VERDICT_FAILED, arena_printf(u->arena, "at size %lld: %s", (long long)size, message));
    for (int j = 0; done && j < r->nout; j++) {
        comparison c = compare_values(u->arena, value_of_port(u->arena, &r->out[j], &out[j]),
                                      value_of_port(u->arena, &known->out[j], &want[j]),
                                      for_other_data(for_dtype(read_tolerance(u), out[j].dtype), &want[j]));
        if (!c.same)
            fail(u, VERDICT_DIFFERS,
                 arena_printf(u->arena, "at size %lld: output '%s' %s", (long long)size, r->out[j].name,
                              comparison_text(u->arena, &c)));
    }
}

static int rank_of(const runnable *r) {
    int most = 0;
    for (int j = 0; j < r->nin; j++)
        if (r->in[j].rank > most) most = r->in[j].rank;
    return most;
}

// If `reference` failed, so has the case.
static void out_of_memory(void *user) {
    unit *u = user;
    diag_fatal(&u->diag, NULL, "this needs more memory than is available");
}

static void run_unit(unit *u) {
    u->diag =
        (diag){.arena = u->arena, .sink = keep_error, .user = u, .leftovers = leftovers_watch(u->arena)};
    jmp_buf jump;
    size_t workers = u->o->compile->jobs > 1 ? (size_t)u->o->compile->jobs : 1;
    arena_set_limit(u->arena, available_memory() / workers, out_of_memory, u);
    if (DIAG_TRY(&u->diag, jump)) {
        runnable *r = prepare(u, u->o->interpret);
        run_sets(u, r);
        const int64_t sizes[] = {0, 1, rank_of(r) > RANK_MOST ? SMALL_PRIME : PRIME};
        for (int k = 0; u->symbolic && k < 3 && rank_of(r) > 0 && u->verdict == VERDICT_OK; k++)
            run_resized(u, r, sizes[k]);
    } else {
        fail(u, u->diag.class == DIAG_MISSING ? VERDICT_MISSING : VERDICT_FAILED, u->error);
    }
    arena_set_limit(u->arena, 0, NULL, NULL);
}

verdict test_case(arena *a, const test_options *o, const char *folder, const char **message) {
    const char *form = o->form ? o->form : "static";
    unit first = {.arena = a,
                  .o = o,
                  .folder = folder,
                  .model = arena_printf(a, "%s/model.onnx", folder),
                  .size = -1,
                  .constant = NO_INPUT};
    bool constant = strcmp(form, "constant") == 0;
    first.symbolic = strcmp(form, "symbolic") == 0;
    unit u = first;
    if (constant) u.constant = ALL_INPUTS;
    run_unit(&u);
    if (first.symbolic && u.verdict == VERDICT_MISSING) {
        unit kept = first;
        kept.keeps_last = true;
        run_unit(&kept);
        if (kept.verdict != VERDICT_MISSING) u = kept;
    }
    int n = constant && u.ninputs > 1 ? u.ninputs : 0;
    for (int j = 0; j < n && u.verdict == VERDICT_OK; j++) {
        u = first;
        u.constant = j;
        run_unit(&u);
        if (u.verdict != VERDICT_OK) u.message = arena_printf(a, "input %d constant: %s", j, u.message);
    }
    *message = u.message ? u.message : "";
    return u.verdict;
}
