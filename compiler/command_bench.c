#include "compiler/command.h"
static int bench(session *s, void *own) {
    (void)own;
    diag_fatal_missing(&s->diag, NULL, "'onnxc bench' is not supported by this build");
}
const verb verb_bench = {.name = "bench", .usage = "onnxc bench MODEL|LIB... [options]", .summary = "Measures the latency of models.", .run = bench};
