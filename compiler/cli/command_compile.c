// onnxc MODEL -o OUT.
#include "compiler/cli/command.h"
#include "compiler/output/output.h"

static int compile(session *s, void *own) {
    (void)own;
    source from = session_model(s);
    pipeline *p = session_pipeline(s, &s->options);
    s->diag.file = from.path;
    output_compile(p, &from, NULL);
    return DIAG_OK;
}

const verb verb_compile = {
    .name = "compile",
    .usage = "onnxc [options] MODEL [-o OUT]",
    .summary = "Compiles an ONNX model ahead of time.",
    .run = compile,
};
