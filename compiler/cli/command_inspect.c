// onnxc inspect: the contents of a model and the intermediate results of its compilation.
#include "compiler/cli/command.h"
#include "compiler/report/report.h"
#include <stdio.h>
#include <string.h>

typedef struct inspect_options {
    const char *format;
} inspect_options;
static const option inspect_table[] = {
    {"--format", NULL, "text|json|dot|html", OPT_CHOICE, offsetof(inspect_options, format), "Inspect",
     "format of the report; default: text"},
    {NULL},
};

static int inspect(session *s, void *own) {
    const inspect_options *o = own;
    const char *format = o->format ? o->format : "text";
    source from = session_model(s);
    pipeline *p = session_pipeline(s, &s->options);
    p->gpu_want = GPU_USES;
    s->diag.file = from.path;
    pipeline_run(p, &from, strcmp(format, "dot") == 0 ? GOAL_PROGRAM : GOAL_LOOPS);
    if (p->stopped) return DIAG_OK;
    fputs(strcmp(format, "dot") == 0    ? report_dot(p)
          : strcmp(format, "html") == 0 ? report_html(p)
          : strcmp(format, "json") == 0 ? report_json(p)
                                        : report_text(p),
          stdout);
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
