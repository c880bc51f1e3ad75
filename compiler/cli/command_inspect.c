// onnxc inspect: the contents of a model and the intermediate results of its compilation.
#include "compiler/base/fs.h"
#include "compiler/cli/command.h"
#include "compiler/report/report.h"
#include <stdio.h>
#include <string.h>

typedef struct inspect_options {
    const char *format;
    bool sizes;
} inspect_options;
static const option inspect_table[] = {
    {"--format", NULL, "text|json|dot|html", OPT_CHOICE, offsetof(inspect_options, format), "Inspect",
     "format of the report; default: by the extension of --output, else text"},
    {"--sizes", NULL, NULL, OPT_FLAG, offsetof(inspect_options, sizes), "Inspect",
     "compile the model too, and report the bytes of its code, data and stack; default with --freestanding"},
    {NULL},
};

typedef struct report_format {
    const char *name, *extension;
    goal goal;
    const char *(*text)(pipeline *);
} report_format;
static const report_format formats[] = {{"text", ".txt", GOAL_LOOPS, report_text},
                                        {"json", ".json", GOAL_LOOPS, report_json},
                                        {"dot", ".dot", GOAL_PROGRAM, report_dot},
                                        {"html", ".html", GOAL_LOOPS, report_html}};
enum { FORMATS_N = sizeof formats / sizeof *formats };

static const report_format *format_named(const char *name) {
    for (int i = 0; i < FORMATS_N; i++)
        if (strcmp(formats[i].name, name) == 0) return &formats[i];
    return NULL;
}

static const report_format *format_of_extension(const char *path) {
    for (int i = 0; i < FORMATS_N; i++)
        if (ends_with(path, formats[i].extension)) return &formats[i];
    return NULL;
}

// By --format, --emit or the extension of --output.
static const report_format *format_wanted(session *s, const inspect_options *own) {
    static const char *const pictures[] = {".svg", ".png", ".pdf", ".jpg", ".jpeg"};
    const options *o = &s->options;
    const char *name = own->format ? own->format : o->emit;
    const report_format *f = name ? format_named(name) : o->output ? format_of_extension(o->output) : NULL;
    if (!f && name) {
        diag_hint(&s->diag, "'onnxc MODEL --emit=%s' writes other kinds of output", name);
        diag_fatal(&s->diag, NULL, "inspect: --emit=%s is not a report: expected text, json, dot or html",
                   name);
    }
    const char *extension = f || !o->output ? "" : extension_of(o->output);
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        if (strcmp(extension, pictures[i]) != 0) continue;
        diag_hint(&s->diag, "a report in .html saves its graph as SVG and PNG; .dot is for Graphviz");
        diag_fatal(&s->diag, NULL, "inspect: '%s' is not a report: expected .txt, .json, .dot or .html",
                   o->output);
    }
    return f ? f : &formats[0];
}

static int inspect(session *s, void *own) {
    const inspect_options *own_options = own;
    const report_format *f = format_wanted(s, own_options);
    source from = session_model(s);
    pipeline *p = session_pipeline(s, &s->options);
    p->gpu_want = GPU_USES;
    s->diag.file = from.path;
    pipeline_run(p, &from, f->goal);
    if (p->stopped) return DIAG_OK;
    bool sizes = f->goal == GOAL_LOOPS && (own_options->sizes || p->target->freestanding);
    if (sizes) p->footprint = sizes_measure(s, &from);
    session_write(s, f->text(p));
    return DIAG_OK;
}

const verb verb_inspect = {
    .name = "inspect",
    .usage = "onnxc inspect MODEL [options]",
    .summary = "Shows the inputs, outputs, operators, sizes, kernels and memory of a model.",
    .table = inspect_table,
    .size = sizeof(inspect_options),
    .run = inspect,
};
