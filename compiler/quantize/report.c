// What quantisation did. In: a plan after it was carried out. Out: text for a terminal, HTML or JSON.
#include "compiler/base/fs.h"
#include "compiler/base/json.h"
#include "compiler/base/outfile.h"
#include "compiler/quantize/impl.h"
#include <math.h>
#include <string.h>

// ---------------------------------------------------------------- texts
const char *seconds_text(arena *a, double seconds) {
    if (fabs(seconds) < 0.5e-9) seconds = 0; // not "-0"
    if (fabs(seconds) < 1e-6) return arena_printf(a, "%.0f ns", 1e9 * seconds);
    if (fabs(seconds) < 1e-3) return arena_printf(a, "%.1f us", 1e6 * seconds);
    return fabs(seconds) < 1 ? arena_printf(a, "%.2f ms", 1e3 * seconds) : arena_printf(a, "%.2f s", seconds);
}

static const char *bytes_text(arena *a, int64_t n) {
    if (n < 10000) return arena_printf(a, "%lld bytes", (long long)n);
    return n < 10000000 ? arena_printf(a, "%.1f kB", 1e-3 * (double)n)
                        : arena_printf(a, "%.1f MB", 1e-6 * (double)n);
}

static const char *decibel_text(arena *a, double signal, double noise) {
    double v = decibels(signal, noise);
    if (isinf(v)) return v > 0 ? "exact" : "-";
    if (fabs(v) < 0.05) v = 0; // not "-0.0"
    return arena_printf(a, "%.1f dB", v);
}

// ---------------------------------------------------------------- rows
typedef struct row {
    const node *n;
    const char *name, *op, *state; // "int8", "float"
    const char *why;               // of float
    const qvalue *out;             // NULL: no range
    const qnode *q;
} row;
typedef VEC(row) rows;

static const char *state_text(const plan *p, const node *n) {
    const qnode *q = &p->nodes[n->id];
    if (q->table) return "int8";
    if (!q->quantised) return "float";
    if (q->activation && p->apply == insert_qdq) return dtype_bits(q->activation) == 16 ? "int16" : "int8";
    return p->own->to;
}

// Nodes with weights, and others that are quantised or could have been.
static rows rows_of(arena *a, const plan *p) {
    rows all = {0};
    for (int i = 0; i < p->nnodes; i++) {
        const node *n = node_of(p, i);
        if (!n) continue;
        const qnode *q = &p->nodes[i];
        if (!q->quantised && !q->table && !q->candidate && q->role != ROLE_PRODUCT) continue;
        const value *v = node_out(n, 0);
        row r = {n,
                 node_label(a, n),
                 n->op->name,
                 state_text(p, n),
                 q->quantised || q->table ? NULL : q->why,
                 NULL,
                 q};
        if (v && v->id < p->nvalues) r.out = &p->values[v->id];
        VEC_PUSH(a, &all, r);
    }
    return all;
}

// The error of its weights, and the resulting error of its output.
static const char *weight_error(arena *a, const row *r) {
    return r->q->weight_signal > 0 ? decibel_text(a, r->q->weight_signal, r->q->weight_noise) : "";
}
static const char *value_error(arena *a, const row *r) {
    return r->out && r->out->signal > 0 ? decibel_text(a, r->out->signal, r->out->noise) : "";
}
static double cosine_of(const qvalue *v) {
    return v->signal > 0 && v->norm > 0 ? v->dot / sqrt(v->signal * v->norm) : NAN;
}
static const char *range_text(arena *a, const row *r) {
    if (!r->out || !(r->out->quantised || r->out->count)) return "";
    double lo = r->out->quantised ? r->out->lo : r->out->least,
           hi = r->out->quantised ? r->out->hi : r->out->most;
    return arena_printf(a, "%.4g..%.4g", lo, hi);
}
static const char *gain_text(arena *a, const row *r) {
    return isnan(r->q->gain) ? "" : seconds_text(a, r->q->gain);
}

// ---------------------------------------------------------------- summary
static void count_nodes(const plan *p, int *quantised, int *all) {
    for (int i = 0; i < p->nnodes; i++) {
        if (!node_of(p, i)) continue;
        const qnode *q = &p->nodes[i];
        *all += q->role == ROLE_PRODUCT;
        *quantised += q->role == ROLE_PRODUCT && q->quantised;
    }
}

static void add_loss(text *t, const plan *p) {
    const loss *l = p->loss;
    text_printf(t, "outputs: signal-to-noise ratio %s, cosine %.6f",
                decibel_text(t->arena, l->signal, l->noise), l->cosine);
    if (l->rows) text_printf(t, ", %lld of %lld answers changed", (long long)l->changed, (long long)l->rows);
    if (l->labelled)
        text_printf(t, ", %.2f %% right (before: %.2f %%)",
                    100.0 * (double)l->right_after / (double)l->labelled,
                    100.0 * (double)l->right_before / (double)l->labelled);
    text_printf(t, " (%d sample%s)\n", p->held.n, p->held.n == 1 ? "" : "s");
}

static bool is_half(const plan *p) {
    return strcmp(p->own->to, "f16") == 0 || strcmp(p->own->to, "bf16") == 0;
}

const char *quantize_summary(arena *a, const plan *p) {
    text t = {.arena = a};
    int quantised = 0, all = 0;
    count_nodes(p, &quantised, &all);
    text_printf(&t, "%s: %d of %d %s in %s", p->module->file ? p->module->file : "model", quantised, all,
                is_half(p) ? "nodes" : "products", p->own->to);
    if (p->nsamples)
        text_printf(&t, ", %lld %ssample%s", (long long)p->nsamples, p->random ? "random " : "",
                    p->nsamples == 1 ? "" : "s");
    if (p->bytes_after)
        text_printf(&t, ", %s (before: %s)", bytes_text(a, p->bytes_after), bytes_text(a, p->bytes_before));
    text_add(&t, "\n");
    if (p->own->equalise && !p->pairs) text_add(&t, "no two products can be equalised\n");
    if (p->own->equalise && p->pairs)
        text_printf(&t, "weights of %d pair%s of products are %s: signal-to-noise ratio %s, equalised %s\n",
                    p->pairs, p->pairs == 1 ? "" : "s", p->equalisation ? "equalised" : "left as they are",
                    decibel_text(a, p->equal_signal, p->equal_noise[false]),
                    decibel_text(a, p->equal_signal, p->equal_noise[true]));
    if (p->bias_signal > 0)
        text_printf(&t, "biases are %s: signal-to-noise ratio %s, with the correction %s\n",
                    p->correct ? "corrected" : "left as they are",
                    decibel_text(a, p->bias_signal, p->bias_noise[false]),
                    decibel_text(a, p->bias_signal, p->bias_noise[true]));
    if (p->loss) add_loss(&t, p);
    if (p->loss && p->time_before > 0)
        text_printf(&t, "time of a run: %s (before: %s)\n", seconds_text(a, p->time_after),
                    seconds_text(a, p->time_before));
    return text_str(&t);
}

// ---------------------------------------------------------------- forms
static const char *report_text(arena *a, const plan *p) {
    rows all = rows_of(a, p);
    text t = {.arena = a};
    text_add(&t, quantize_summary(a, p));
    int width = 32;
    for (int i = 0; i < all.n; i++) {
        int n = (int)strlen(short_text(a, all.at[i].name));
        if (n > width) width = n;
    }
    text_printf(&t, "\n%-*s %-18s %-14s %-20s %9s %9s %10s\n", width, "node", "operator", "to", "range",
                "weights", "result", "gain");
    for (int i = 0; i < all.n; i++) {
        const row *r = &all.at[i];
        text_printf(&t, "%-*s %-18s %-14s %-20s %9s %9s %10s", width, short_text(a, r->name), r->op, r->state,
                    range_text(a, r), weight_error(a, r), value_error(a, r), gain_text(a, r));
        text_printf(&t, "%s%s\n", r->why ? "  " : "", r->why ? r->why : "");
    }
    return text_str(&t);
}

static void json_range(json *j, const row *r) {
    if (!r->out || !(r->out->quantised || r->out->count)) return;
    json_number(j, "low", r->out->quantised ? r->out->lo : r->out->least);
    json_number(j, "high", r->out->quantised ? r->out->hi : r->out->most);
    if (!r->out->quantised) return;
    json_number(j, "scale", r->out->scale);
    json_int(j, "zero_point", r->out->zero);
}

static void json_row(json *j, const row *r) {
    json_open(j, NULL, '{');
    json_text(j, "name", r->name);
    json_text(j, "operator", r->op);
    json_text(j, "to", r->state);
    if (r->why) json_text(j, "reason", r->why);
    json_range(j, r);
    if (r->q->weight_signal > 0)
        json_number(j, "weights_sqnr", decibels(r->q->weight_signal, r->q->weight_noise));
    if (r->out && r->out->signal > 0) {
        json_number(j, "sqnr", decibels(r->out->signal, r->out->noise));
        json_number(j, "cosine", cosine_of(r->out));
    }
    if (!isnan(r->q->sensitivity)) json_number(j, "sensitivity", r->q->sensitivity);
    if (!isnan(r->q->gain)) json_number(j, "gain", r->q->gain);
    json_close(j, '}');
}

static const char *report_json(arena *a, const plan *p) {
    rows all = rows_of(a, p);
    json j = json_new_indented(a);
    json_open(&j, NULL, '{');
    json_text(&j, "model", p->module->file);
    json_text(&j, "to", p->own->to);
    json_int(&j, "samples", p->nsamples);
    json_bool(&j, "random", p->random);
    json_int(&j, "bytes_before", p->bytes_before);
    json_int(&j, "bytes_after", p->bytes_after);
    if (p->loss) {
        json_number(&j, "sqnr", decibels(p->loss->signal, p->loss->noise));
        json_number(&j, "cosine", p->loss->cosine);
        json_int(&j, "answers", p->loss->rows);
        json_int(&j, "changed_answers", p->loss->changed);
    }
    if (p->time_before > 0) {
        json_number(&j, "seconds_before", p->time_before);
        json_number(&j, "seconds_after", p->time_after);
    }
    json_open(&j, "nodes", '[');
    for (int i = 0; i < all.n; i++) json_row(&j, &all.at[i]);
    json_close(&j, ']');
    json_close(&j, '}');
    return arena_printf(a, "%s\n", json_done(&j));
}

static void add_html(text *t, const char *s) {
    for (; *s; s++) {
        if (*s == '<') text_add(t, "&lt;");
        else if (*s == '&') text_add(t, "&amp;");
        else if (*s == '>') text_add(t, "&gt;");
        else text_addn(t, s, 1);
    }
}

static void add_cell(text *t, const char *class, const char *s) {
    text_printf(t, "<td%s%s>", *class ? " class=" : "", class);
    add_html(t, s);
    text_add(t, "</td>");
}

// The error of a result as a bar: 60 dB fill it.
static void add_bar(text *t, const row *r) {
    enum { FULL = 60 };
    double v = r->out && r->out->signal > 0 ? decibels(r->out->signal, r->out->noise) : -1;
    double part = v < 0 ? 0 : v > FULL ? 1 : v / FULL;
    text_printf(t, "<td class=bar><i style=\"width:%.0f%%\"></i><span>", 100 * part);
    add_html(t, value_error(t->arena, r));
    text_add(t, "</span></td>");
}

static const char html_head[] =
    "<style>\n"
    ":root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#d0d7de;--bar:#7fb2e5;--dim:#656d76}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--line:#30363d;--bar:#2f5d8c;--"
    "dim:#8b949e}}\n"
    "body{font:14px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:1.5rem "
    "auto;max-width:80rem;padding:0 1rem}\n"
    "h1{overflow-wrap:anywhere}\npre{white-space:pre-wrap;overflow-wrap:anywhere}\n.wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;width:100%}\n"
    "th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid "
    "var(--line);white-space:nowrap;vertical-align:top}\n"
    "td.node{white-space:normal;overflow-wrap:anywhere;min-width:9rem}\ntd.node "
    "small{display:block;color:var(--dim)}\n"
    "th.n,td.n{text-align:right;font-variant-numeric:tabular-nums}\ntr.float td,.about{color:var(--dim)}\n"
    "td.bar{position:relative;min-width:7rem}\n"
    "td.bar i{position:absolute;left:0;top:.3rem;height:1.3rem;background:var(--bar)}\ntd.bar "
    "span{position:relative}\n"
    "#others:not(:checked)~.wide tr.other{display:none}\n</style>\n";

static const char html_about[] =
    "<p class=about>Result and Weights: signal-to-noise ratio of a node's result and of its weights, beside "
    "the model "
    "before. 20 dB is an error of 10 %, 40 dB of 1 %; a result has the errors of the nodes before it, too. "
    "Gain: the "
    "time of a run that the node saves on this machine. Range: of the result, over the samples.</p>\n";

static void add_html_row(text *t, const row *r) {
    bool quantised = r->q->quantised || r->q->table;
    text_printf(t, "<tr%s>",
                quantised                    ? ""
                : r->q->role == ROLE_PRODUCT ? " class=float"
                                             : " class=\"float other\"");
    text_add(t, "<td class=node>");
    add_html(t, safe_text(t->arena, r->name));
    text_printf(t, "<small>%s", r->op);
    if (r->why) text_add(t, ": "), add_html(t, r->why);
    text_add(t, "</small></td>");
    add_cell(t, "", r->state);
    add_bar(t, r);
    add_cell(t, "n", gain_text(t->arena, r));
    add_cell(t, "n", weight_error(t->arena, r));
    add_cell(t, "n", range_text(t->arena, r));
    text_add(t, "</tr>\n");
}

static const char *report_html(arena *a, const plan *p) {
    rows all = rows_of(a, p);
    text t = {.arena = a};
    int others = 0;
    for (int i = 0; i < all.n; i++)
        others += all.at[i].q->role != ROLE_PRODUCT && !all.at[i].q->quantised && !all.at[i].q->table;
    const char *name = safe_text(a, p->module->file ? base_name(p->module->file) : "model");
    text_add(&t, "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport "
                 "content=\"width=device-width\">\n"
                 "<title>onnxc quantize ");
    add_html(&t, name);
    text_printf(&t, "</title>\n%s<body data-ready=yes>\n<h1>Quantisation of ", html_head);
    add_html(&t, name);
    text_add(&t, "</h1>\n<pre>");
    add_html(&t, quantize_summary(a, p));
    text_printf(&t, "</pre>\n%s", html_about);
    if (others)
        text_printf(
            &t, "<input type=checkbox id=others> <label for=others>%d other node%s left in float</label>\n",
            others, others == 1 ? "" : "s");
    text_add(&t, "<div class=wide><table>\n<tr><th>Node<th>To<th>Result<th class=n>Gain<th "
                 "class=n>Weights<th class=n>Range</tr>\n");
    for (int i = 0; i < all.n; i++) add_html_row(&t, &all.at[i]);
    text_add(&t, "</table></div>\n</html>\n");
    return text_str(&t);
}

void quantize_write_report(arena *a, diag *d, const plan *p, const char *path) {
    const char *s = ends_with(path, ".html")   ? report_html(a, p)
                    : ends_with(path, ".json") ? report_json(a, p)
                                               : report_text(a, p);
    outfile_write_whole(a, d, path, (bytes){s, strlen(s)});
}
