// The order of the steps. In: a model and settings. Out: the quantised module, with a plan that says what was done.
#include "compiler/base/clock.h"
#include "compiler/quantize/impl.h"
#include "runtime-lite/core/runtime.h"
#include <math.h>
#include <string.h>

static plan *plan_new(const quantize_input *in) {
    plan *p = ARENA_NEW(in->arena, plan);
    *p = (plan){.arena = in->arena, .diag = in->diag, .in = in, .own = in->own};
    p->module = prepared_module(in);
    p->threads = (int)(in->options->jobs > 0 ? in->options->jobs : onnxc_default_threads());
    p->nnodes = p->module->nodes.n;
    p->nvalues = p->module->values.n;
    p->nodes = ARENA_ARRAY(p->arena, qnode, p->nnodes + 1);
    p->values = ARENA_ARRAY(p->arena, qvalue, p->nvalues + 1);
    for (int i = 0; i < p->nnodes; i++) p->nodes[i].sensitivity = p->nodes[i].gain = NAN;
    return p;
}

static void choose_activation(plan *p) {
    const char *s = p->own->activations;
    bool wide = strcmp(p->own->to, "int16") == 0;
    if (!s) s = wide ? "s16-symmetric" : "s8";
    p->activation = strncmp(s, "s16", 3) == 0   ? DT_I16
                    : strncmp(s, "u16", 3) == 0 ? DT_U16
                    : s[0] == 'u'               ? DT_U8
                                                : DT_I8;
    p->symmetric = strstr(s, "symmetric") != NULL;
    if (wide != (dtype_bits(p->activation) == 16))
        diag_fatal(p->diag, NULL, "--activations=%s cannot be combined with --to=%s", s, p->own->to);
}

// ---------------------------------------------------------------- nothing to do
static int count_op(const module *m, const char *name) {
    int n = 0;
    for (int i = 0; i < m->main->nodes.n; i++) n += strcmp(m->main->nodes.at[i]->op->name, name) == 0;
    return n;
}

static void check_something(plan *p) {
    int products = 0, quantised = 0, kept = 0;
    const char *why = NULL;
    for (int i = 0; i < p->nnodes; i++) {
        const qnode *q = &p->nodes[i];
        if (!node_of(p, i) || q->role != ROLE_PRODUCT) continue;
        products++;
        quantised += q->quantised;
        kept += q->candidate && q->kept;
        if (!q->candidate) why = q->why;
    }
    if (quantised) return;
    int already = count_op(p->module, "DequantizeLinear");
    if (already)
        diag_fatal(p->diag, NULL,
                   "nothing to quantise: the model is quantised already (it has %d DequantizeLinear node%s)",
                   already, already == 1 ? "" : "s");
    if (!products)
        diag_fatal(p->diag, NULL,
                   "nothing to quantise: the model has no Conv, ConvTranspose, Gemm or MatMul");
    if (kept)
        diag_fatal(p->diag, NULL, "nothing to quantise: --keep and --node leave all %d products in float",
                   products);
    diag_fatal(p->diag, NULL,
               "nothing to quantise: the model has %d product%s, and %s cannot be quantised: %s", products,
               products == 1 ? "" : "s", products == 1 ? "it" : "they", why);
}

static void plan_static(plan *p) {
    const char *w = p->own->weights;
    if (w && (strcmp(w, "kquant") == 0 || strcmp(w, "gptq") == 0)) {
        diag_hint(p->diag, "--to=int8-weights, int4-weights and int2-weights quantise weights only");
        diag_fatal(p->diag, NULL, "--weights=%s cannot be combined with --to=%s", w, p->own->to);
    }
    choose_activation(p);
    find_roles(p);
    apply_patterns(p);
    choose_nodes(p);
    check_something(p);
    find_tables(p);
    for (int i = 0; i < p->nvalues; i++) p->values[i].observed = p->values[i].quantised;
    calibrate(p, NULL, NULL);
    choose_ranges(p);
    p->apply = insert_qdq;
    if (p->own->equalise) decide_equalisation(p);
    if (p->own->bias_correction) bias_decide(p);
}

static void warn_if_slower(plan *p) {
    const double noise = 1.1, least = 1e-6; // seconds: less is lost in what surrounds a run
    if (p->time_after <= noise * p->time_before || p->time_after - p->time_before < least) return;
    const char *hint = "small models gain memory rather than time; --report shows which nodes lose time, "
                       "--keep leaves them in float";
    diag_hint(p->diag, "%s", hint);
    diag_warning(p->diag, WARN_SLOWER, NULL,
                 "quantised, a run takes %s on this machine, longer than the %s of the float model",
                 seconds_text(p->arena, p->time_after), seconds_text(p->arena, p->time_before));
}

quantize_result quantize_model(const quantize_input *in) {
    enum { HELD_MOST = 1 << 28 };
    plan *p = plan_new(in);
    const char *to = in->own->to;
    bool compares = in->own->report || in->own->max_loss.n || in->own->measure;
    bool runs_again = compares || in->own->bias_correction || in->own->equalise;
    check_goals(p);
    if (in->own->bias_correction && strcmp(to, "int8") != 0 && strcmp(to, "int16") != 0)
        diag_fatal(p->diag, NULL, "--bias-correction is for --to=int8 and --to=int16, not for --to=%s", to);
    if (in->own->equalise && strcmp(to, "int8") != 0 && strcmp(to, "int16") != 0)
        diag_fatal(p->diag, NULL, "--equalise is for --to=int8 and --to=int16, not for --to=%s", to);
    if (!is_percentile(in->own->percentile))
        diag_fatal(p->diag, NULL, "--percentile %g: it must be more than 50 and at most 100",
                   in->own->percentile);
    p->held_most = runs_again ? HELD_MOST : 1; // one sample
    if (strstr(to, "-weights")) plan_weights_only(p);
    else if (strcmp(to, "f16") == 0 || strcmp(to, "bf16") == 0) plan_halves(p);
    else plan_static(p);
    if (in->own->max_loss.n) search_mixture(p);
    if (compares) compare_values_of(p);
    if (compares && !in->own->max_loss.n) measure_gains(p);
    // Before the search, all products had integers; and the clock between kernels counts in short runs.
    bool again = in->own->max_loss.n || p->time_before < 1e-3;
    if (compares ? again : is_quick_to_measure(p)) measure_times(p);
    warn_if_slower(p);
    diag_check(p->diag);
    double start = clock_now();
    p->apply(p);
    p->seconds[1] = clock_now() - start;
    return (quantize_result){p->module, p};
}

void quantize_set_sizes(plan *p, int64_t before, int64_t after) {
    p->bytes_before = before, p->bytes_after = after;
}
