// Import, graph passes, lowering, program passes: in this order, each printable, each verified.
#include "compiler/lib/pipeline.h"
#include "ir/lower.h"
#include "passes/passes.h"
#include <string.h>

typedef struct watch {
    pipeline *p;
    const pipeline_options *o;
} watch;

static bool wanted(const char *option, const char *pass) {
    return option && (strcmp(option, pass) == 0 || strcmp(option, "all") == 0);
}

static void after_graph_pass(void *user, const char *pass, double seconds) {
    watch *w = user;
    if (w->o->time_passes && w->o->print)
        w->o->print(w->o->user, pass, arena_printf(w->p->arena, "%-12s %8.3f ms\n", pass, 1e3 * seconds));
    if (wanted(w->o->print_after, pass) && w->o->print) w->o->print(w->o->user, pass, graph_print(w->p->arena, w->p->module));
    if (w->o->stop_after && strcmp(w->o->stop_after, pass) == 0) w->p->stopped = true;
}

pipeline pipeline_module(arena *a, diag *d, module *m, const pipeline_options *o) {
    pipeline p = {.arena = a, .diag = d, .module = m};
    watch w = {&p, o};
    pass_context c = {.module = m, .opt = o->opt, .fold_work = 200 * 1000 * 1000, .fold_bytes = 64 << 20};
    after_graph_pass(&w, "import", 0);
    if (!p.stopped) run_graph_passes(&c, after_graph_pass, &w);
    if (p.stopped) return p;
    p.program = lower_module(m);
    diag_check(d);
    if (wanted(o->print_after, "lower") && o->print) o->print(o->user, "lower", program_print(a, p.program));
    return p;
}

pipeline pipeline_file(arena *a, diag *d, const char *path, const pipeline_options *o) {
    return pipeline_module(a, d, import_onnx_file(a, d, path, &o->import), o);
}
