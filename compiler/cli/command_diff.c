// onnxc diff: how two models differ.
#include "compiler/cli/diff.h"
#include <stdio.h>
#include <string.h>

typedef struct diff_options {
    io_options io;
    const char *format, *only;
    tolerance tolerance;
    double both; // rtol and atol; negative: not given
} diff_options;

#define AT(field) offsetof(diff_options, field)
static const option diff_table[] = {
    IO_OPTIONS(diff_options, io),
    {"--only", NULL, "PARTS", OPT_TEXT, AT(only), "Diff",
     "of interface, opsets, metadata, structure, weights, cost, outputs, separated by commas; default: all"},
    {"--format", NULL, "text|json", OPT_CHOICE, AT(format), "Diff", "format of the report; default: text"},
    {"--rtol", NULL, "X", OPT_REAL, AT(tolerance.rtol), "Diff",
     "outputs are the same if |b - a| <= atol + rtol * |a|; default: 1e-3"},
    {"--atol", NULL, "X", OPT_REAL, AT(tolerance.atol), "Diff", "default: 1e-5"},
    {"--tolerance", NULL, "X", OPT_REAL, AT(both), "Diff", "both of them"},
    {NULL},
};

enum { INTERFACE, OPSETS, METADATA, STRUCTURE, WEIGHTS, COST, OUTPUTS, PARTS };
static const char *const part_names[PARTS] = {"interface", "opsets", "metadata", "structure",
                                              "weights",   "cost",   "outputs"};

static void choose_parts(session *s, const char *only, bool *wanted) {
    string_list words = only ? split_words(s->arena, only, ',') : (string_list){0};
    for (int j = 0; j < PARTS; j++) wanted[j] = !only;
    for (int i = 0; i < words.n; i++) {
        int found = -1;
        for (int j = 0; j < PARTS; j++)
            if (strcmp(words.at[i], part_names[j]) == 0) found = j;
        if (found >= 0) {
            wanted[found] = true;
            continue;
        }
        const char *near = nearest_word(s->arena, words.at[i], part_names, PARTS);
        if (near) diag_hint(&s->diag, "did you mean '%s'?", near);
        diag_fatal(
            &s->diag, NULL,
            "--only: '%s' is not one of interface, opsets, metadata, structure, weights, cost, outputs",
            words.at[i]);
    }
}

static void compare(diff *d, const bool *wanted, const io_options *io) {
    void (*const parts[])(diff *) = {diff_interface, diff_opsets,  diff_metadata,
                                     diff_structure, diff_weights, diff_cost};
    for (int k = 0; k < 2; k++) diff_read(d, &d->side[k], d->session->args.at[k]);
    if (wanted[STRUCTURE] || wanted[WEIGHTS]) diff_match(d);
    for (int j = INTERFACE; j < OUTPUTS; j++)
        if (wanted[j]) parts[j](d);
    if (wanted[OUTPUTS]) diff_outputs(d, io);
}

static int run_diff(session *s, void *own) {
    diff_options *o = own;
    bool wanted[PARTS];
    if (s->args.n != 2) {
        diag_hint(&s->diag, "onnxc diff A.onnx B.onnx");
        diag_fatal(&s->diag, NULL, "two models are needed, %d given", s->args.n);
    }
    for (int k = 0; k < 2; k++)
        if (runnable_is_library(s->args.at[k]))
            diag_fatal(&s->diag, NULL, "'%s' is already compiled: diff compares models", s->args.at[k]);
    choose_parts(s, o->only, wanted);
    options_use_native(&s->options);
    expect_inputs(s, &o->io);
    diff d = {.session = s, .arena = s->arena, .tolerance = o->tolerance};
    if (o->both >= 0) d.tolerance = (tolerance){o->both, o->both};
    compare(&d, wanted, &o->io);
    session_clear_progress(s);
    bool json = o->format && strcmp(o->format, "json") == 0, differs = false;
    session_write(s, json ? diff_json(&d) : diff_text(&d));
    for (int i = 0; i < d.sections.n; i++) differs |= d.sections.at[i]->differs;
    return differs ? DIAG_DIFFERS : DIAG_OK;
}

static const diff_options diff_defaults = {.tolerance = {1e-3, 1e-5}, .both = -1};
const verb verb_diff = {
    .name = "diff",
    .usage = "onnxc diff A.onnx B.onnx [options]",
    .summary = "Compares two models: interface, nodes, weights, cost, and outputs for the same inputs.",
    .table = diff_table,
    .size = sizeof(diff_options),
    .defaults = &diff_defaults,
    .run = run_diff,
};
