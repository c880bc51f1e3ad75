// onnxc MODEL -o OUT.
#include "compiler/cli/command.h"
#include "compiler/output/output.h"

static int compile(session *s, void *own) {
    (void)own;
    source from = session_model(s);
    pipeline_hooks hooks = session_hooks(s);
    pipeline *p = pipeline_new(s->arena, &s->diag, &s->options, &hooks);
    s->diag.file = from.path;
    output_compile(p, &from, NULL);
    return DIAG_OK;
}

const verb verb_compile = {
    .name = "compile",
    .usage = "onnxc [options] MODEL -o OUT",
    .summary = "Compiles an ONNX model ahead of time.",
    .run = compile,
};
