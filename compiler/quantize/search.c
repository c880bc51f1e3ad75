// --max-loss: the fastest mixture of quantised and float nodes whose outputs are close enough to the float model's. In: a
// plan that quantises all it can. Out: nodes that stay in float.
//
// One model is compiled in which a switch, an element of a further input, selects for each value and weight whether it is
// rounded. With it, the loss of any mixture is measured by running it. Nodes are ordered by the noise that each alone adds to
// the outputs, over the time that it saves; the shortest prefix of this order that must stay in float is found by
// bisection. Nodes of the prefix that the goal does not need return to integers, those with the largest gain first. The model
// itself then says whether the goal is reached; if not, the fewest further nodes are found by bisection again.
#include "compiler/base/clock.h"
#include "compiler/quantize/impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct goals {
    double cosine, changed, decibels; // negative: not asked for
} goals;

typedef struct unit {
    node *n;
    double noise, gain, rank;
} unit;

typedef struct search {
    plan *plan;
    goals goals;
    VEC(unit) units;                 // products
    int *value_switch, *node_switch; // by id; -1: none
    int nswitches;
    runnable *r;
    tensor switches;
    int few, samples; // for one node, for a mixture
} search;

// ---------------------------------------------------------------- the goal
// NAME=X; a share is at most 1 and may be given in percent.
static bool read_goal(const char *s, const char *name, bool share, double *to) {
    size_t n = strlen(name);
    char *end;
    if (strncmp(s, name, n) != 0) return false;
    double v = strtod(s + n, &end);
    bool number = end != s + n;
    if (share && *end == '%') v /= 100, end++;
    if (!number || *end || !(v >= 0) || !isfinite(v) || (share && v > 1)) return false;
    return *to = v, true;
}

static goals parse_goals(const plan *p) {
    goals g = {-1, -1, -1};
    for (int i = 0; i < p->own->max_loss.n; i++) {
        string_list words = split_words(p->arena, p->own->max_loss.at[i], ',');
        for (int j = 0; j < words.n; j++) {
            const char *s = words.at[j];
            if (read_goal(s, "cos=", true, &g.cosine) || read_goal(s, "top1=", true, &g.changed) ||
                read_goal(s, "sqnr=", false, &g.decibels))
                continue;
            diag_hint(p->diag, "goals are cos=0.999, top1=0.5%% and sqnr=30 (dB)");
            diag_fatal(p->diag, NULL, "--max-loss=%s: '%s' is not a goal", p->own->max_loss.at[i], s);
        }
    }
    return g;
}

void check_goals(const plan *p) { parse_goals(p); }

static double changed_answers(const loss *l) {
    if (l->labelled) return (double)(l->right_before - l->right_after) / (double)l->labelled;
    return l->rows ? (double)l->changed / (double)l->rows : 0;
}

static bool reached(const goals *g, const loss *l) {
    return (g->cosine < 0 || l->cosine >= g->cosine) &&
           (g->changed < 0 || changed_answers(l) <= g->changed) &&
           (g->decibels < 0 || decibels(l->signal, l->noise) >= g->decibels);
}

// ---------------------------------------------------------------- the model with switches
static value *switch_of(graph *g, node *before, value *switches, int i) {
    value *in[] = {switches, value_int64(g, i)};
    return new_output(new_node(g, before, "Gather", NULL, 2, in), NULL);
}

static value *either(graph *g, node *before, value *on, value *rounded, value *plain) {
    return new_output(new_node(g, before, "Where", NULL, 3, (value *[]){on, rounded, plain}), NULL);
}

// After the plan is applied: every DequantizeLinear of the plan has a Where after it.
static void add_switch(graph *g, value *switches, value *rounded, value *plain, int i) {
    node *before = node_next(rounded->def);
    int n = rounded->uses.n;
    use *uses = ARENA_ARRAY(g->module->arena, use, n + 1);
    memcpy(uses, rounded->uses.at, (size_t)n * sizeof *uses);
    value *chosen = either(g, before, switch_of(g, before, switches, i), rounded, plain);
    for (int k = 0; k < n; k++)
        if (uses[k].node) node_set_in(uses[k].node, uses[k].index, chosen);
}

static node *reader_of(const value *v, const char *op) {
    for (int i = 0; i < v->uses.n; i++)
        if (v->uses.at[i].node && strcmp(v->uses.at[i].node->op->name, op) == 0) return v->uses.at[i].node;
    return NULL;
}

static void switch_weights(const search *s, graph *g, value *switches) {
    for (int i = 0; i < s->units.n; i++) {
        node *n = g->module->nodes.at[s->units.at[i].n->id];
        const constant *w = s->units.at[i].n->in[1]->constant;
        value *plain = value_constant(g, NULL, (constant *)w);
        add_switch(g, switches, n->in[1], plain, s->node_switch[n->id]);
    }
}

static void edit_switched(void *user, module *m) {
    const search *s = user;
    plan *p = s->plan;
    edit_quantised(p, m);
    graph *g = m->main;
    type t = type_tensor(m->arena, DT_BOOL, 1, (dim *[]){dim_const(m->dims, s->nswitches)});
    value *switches = graph_add_input(g, "onnxc_switches", t);
    switch_weights(s, g, switches);
    for (int i = 0; i < p->nvalues; i++) {
        if (s->value_switch[i] < 0) continue;
        value *plain = m->values.at[i];
        node *q = reader_of(plain, "QuantizeLinear"),
             *back = q ? reader_of(q->out[0], "DequantizeLinear") : NULL;
        if (back) add_switch(g, switches, back->out[0], plain, s->value_switch[i]);
    }
}

static void number_switches(search *s) {
    plan *p = s->plan;
    s->value_switch = ARENA_ARRAY(p->arena, int, p->nvalues + 1);
    s->node_switch = ARENA_ARRAY(p->arena, int, p->nnodes + 1);
    for (int i = 0; i < p->nvalues; i++) s->value_switch[i] = p->values[i].quantised ? s->nswitches++ : -1;
    for (int i = 0; i < s->units.n; i++) s->node_switch[s->units.at[i].n->id] = s->nswitches++;
    int64_t n = s->nswitches;
    s->switches = tensor_new(p->arena, DT_BOOL, 1, &n);
}

static loss loss_with(search *s, int samples) { return measure_loss(s->plan, s->r, samples, &s->switches); }

// The mixture in which the nodes marked as kept are float.
static loss loss_of_choice(search *s) {
    plan *p = s->plan;
    uint8_t *on = s->switches.data;
    choose_nodes(p);
    for (int i = 0; i < p->nvalues; i++)
        if (s->value_switch[i] >= 0) on[s->value_switch[i]] = p->values[i].quantised;
    for (int i = 0; i < s->units.n; i++) {
        int id = s->units.at[i].n->id;
        on[s->node_switch[id]] = p->nodes[id].quantised;
    }
    return loss_with(s, s->samples);
}

// ---------------------------------------------------------------- the order
static void measure_sensitivity(search *s) {
    plan *p = s->plan;
    uint8_t *on = s->switches.data;
    for (int i = 0; i < s->units.n; i++) {
        unit *u = &s->units.at[i];
        memset(on, 0, (size_t)s->nswitches);
        on[s->node_switch[u->n->id]] = 1;
        if (s->value_switch[u->n->in[0]->id] >= 0) on[s->value_switch[u->n->in[0]->id]] = 1;
        loss l = loss_with(s, s->few);
        u->noise = l.signal > 0 ? l.noise / l.signal : l.noise;
        p->nodes[u->n->id].sensitivity = u->noise;
        if (p->in->progress && i % 8 == 0)
            p->in->progress(p->in->user,
                            arena_printf(p->arena, "sensitivity of node %d of %d", i + 1, s->units.n));
    }
}

static int by_rank(const void *a, const void *b) {
    double x = ((const unit *)a)->rank, y = ((const unit *)b)->rank;
    return (x < y) - (x > y);
}

static void order_units(search *s) {
    plan *p = s->plan;
    double mean = 0;
    for (int i = 0; i < s->units.n; i++) {
        double gain = p->nodes[s->units.at[i].n->id].gain;
        if (gain > 0) mean += gain / s->units.n;
    }
    for (int i = 0; i < s->units.n; i++) {
        unit *u = &s->units.at[i];
        double least = 0.01 * mean; // measured gains are noisy
        u->gain = p->nodes[u->n->id].gain;
        u->rank = u->noise / (u->gain > least ? u->gain : least > 0 ? least : 1);
    }
    if (s->units.n) qsort(s->units.at, (size_t)s->units.n, sizeof *s->units.at, by_rank);
}

static void keep_first(search *s, int n) {
    for (int i = 0; i < s->units.n; i++) {
        qnode *q = &s->plan->nodes[s->units.at[i].n->id];
        q->kept = i < n;
        q->why = i < n ? "--max-loss" : NULL;
    }
}

static bool switches_suffice(search *s) {
    loss l = loss_of_choice(s);
    return reached(&s->goals, &l);
}

static int bisect(search *s) {
    int lo = 0, hi = s->units.n;
    keep_first(s, 0);
    if (switches_suffice(s)) return 0;
    while (hi - lo > 1) {
        int middle = (lo + hi) / 2;
        keep_first(s, middle);
        if (switches_suffice(s)) hi = middle;
        else lo = middle;
    }
    return hi;
}

static int by_gain(const void *a, const void *b) {
    double x = ((const unit *)a)->gain, y = ((const unit *)b)->gain;
    return (x < y) - (x > y);
}

// Of the first `kept` units, those without which the goal is missed move to the front; returns their number.
static int find_needed(search *s, int kept, bool (*suffices)(search *s)) {
    const double most = 30; // seconds
    double start = clock_now();
    unit *all = s->units.at, *others = ARENA_ARRAY(s->plan->arena, unit, s->units.n + 1);
    int needed = 0, nothers = 0;
    if (kept) qsort(all, (size_t)kept, sizeof *all, by_gain);
    for (int i = 0; i < kept; i++) {
        qnode *q = &s->plan->nodes[all[i].n->id];
        if (clock_now() - start < most) {
            q->kept = false;
            q->kept = !suffices(s);
        }
        if (q->kept) all[needed++] = all[i];
        else others[nothers++] = all[i];
    }
    if (nothers) qsort(others, (size_t)nothers, sizeof *others, by_rank);
    memcpy(all + needed, others, (size_t)nothers * sizeof *all);
    return needed;
}

// ---------------------------------------------------------------- the search
static void choose(search *s) {
    choose_nodes(s->plan);
    choose_ranges(s->plan);
}

// Whether the model itself, which differs a little from the one with switches, reaches the goal with the choice.
static bool model_suffices(search *s) {
    plan *p = s->plan;
    choose(s);
    arena *a = arena_within(p->arena);
    runnable *r = compile_edited(p, a, edit_quantised, p);
    loss l = measure_loss(p, r, INT32_MAX, NULL);
    bool yes = reached(&s->goals, &l);
    if (yes) {
        p->loss = ARENA_NEW(p->arena, loss);
        *p->loss = l;
    }
    arena_destroy(a);
    return yes;
}

static bool first_suffice(search *s, int n) {
    keep_first(s, n);
    return model_suffices(s);
}

// The fewest units, at least `least`, with which the model itself reaches the goal; all of them: none do.
static int find_sufficient(search *s, int least) {
    int lo = least - 1, hi = least;
    for (int step = 1; hi < s->units.n && !first_suffice(s, hi); step *= 2) {
        lo = hi;
        hi = hi + step < s->units.n ? hi + step : s->units.n;
    }
    while (hi - lo > 1) {
        int middle = lo + (hi - lo) / 2;
        if (first_suffice(s, middle)) hi = middle;
        else lo = middle;
    }
    return hi;
}

// A few samples for every node alone, more for mixtures.
static void choose_samples(search *s) {
    enum { FEW = 2, MANY = 16 };
    const double most = 15; // seconds for all sensitivities
    double start = clock_now();
    loss_with(s, 1);
    double each = (clock_now() - start) * s->units.n;
    s->few = each * FEW > most ? (int)fmax(most / each, 1) : FEW;
    s->samples = each * MANY > 4 * most ? (int)fmax(4 * most / each, 1) : MANY;
    if (s->plan->own->labels || s->goals.changed >= 0) s->samples = INT32_MAX; // answers are counted
}

void search_mixture(plan *p) {
    search s = {.plan = p, .goals = parse_goals(p)};
    double start = clock_now();
    if (p->apply != insert_qdq)
        diag_fatal(p->diag, NULL,
                   "--max-loss is for --to=int8 and --to=int16; --report shows the loss of --to=%s",
                   p->own->to);
    const graph *g = p->module->main;
    for (int i = 0; i < g->nodes.n; i++) {
        const qnode *q = &p->nodes[g->nodes.at[i]->id];
        if (q->quantised && q->role == ROLE_PRODUCT)
            VEC_PUSH(p->arena, &s.units, (unit){.n = g->nodes.at[i]});
    }
    if (!p->held.n)
        diag_fatal(p->diag, NULL, "--max-loss: the model has inputs or outputs that cannot be compared");
    measure_gains(p);
    number_switches(&s);
    if (p->in->progress) p->in->progress(p->in->user, "compiling for the search");
    arena *a = arena_within(p->arena);
    bool correct = p->correct;
    p->correct = false; // biases belong to rounded weights, which the switches turn off
    s.r = compile_edited(p, a, edit_switched, &s);
    p->correct = correct;
    choose_samples(&s);
    measure_sensitivity(&s);
    order_units(&s);
    int likely = find_needed(&s, bisect(&s), switches_suffice);
    arena_destroy(a);
    int kept = find_sufficient(&s, likely);
    // The last one may make others needless.
    if (kept > likely && kept < s.units.n) {
        keep_first(&s, kept);
        kept = find_needed(&s, kept, model_suffices);
    }
    keep_first(&s, kept);
    choose(&s);
    if (kept >= s.units.n)
        diag_fatal(
            p->diag, NULL,
            "--max-loss: no mixture reaches the goal: even the least sensitive of %d products loses more",
            s.units.n);
    p->seconds[2] = clock_now() - start;
}
