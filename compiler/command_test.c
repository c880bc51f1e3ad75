// onnxc test: runs ONNX backend-test folders (model.onnx, test_data_set_K/{input,output}_J.pb).
#include "compiler/command.h"
#include "compiler/lib/compare.h"
#include "compiler/lib/pipeline.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void show(void *user, const diag_message *m) {
    (void)user;
    if (m->severity == SEV_ERROR) fprintf(stderr, "%s\n", m->full);
}

static bool exists(const char *path) {
    struct stat s;
    return stat(path, &s) == 0;
}

static tensor tensor_of(const constant *c) {
    tensor t = {.dtype = c->elem, .rank = c->rank, .count = c->count, .data = (void *)c->data};
    for (int j = 0; j < c->rank; j++) t.dims[j] = c->dims[j];
    return t;
}

static tensor read_tensor(arena *a, diag *d, const char *path) {
    import_value *v = import_value_file(a, d, path, TYPE_TENSOR);
    return tensor_of(v->tensor);
}

static bool run_set(arena *a, diag *d, const program *p, const char *folder) {
    tensor *in = ARENA_ARRAY(a, tensor, p->inputs.n + 1), *out = ARENA_ARRAY(a, tensor, p->outputs.n + 1);
    for (int j = 0; j < p->inputs.n; j++) in[j] = read_tensor(a, d, arena_printf(a, "%s/input_%d.pb", folder, j));
    const char *message = NULL;
    if (interp_program(p, a, in, out, (interp_limits){0}, &message) != INTERP_OK) {
        fprintf(stderr, "%s: %s\n", folder, message);
        return false;
    }
    bool ok = true;
    for (int j = 0; j < p->outputs.n; j++) {
        const char *file = arena_printf(a, "%s/output_%d.pb", folder, j);
        if (!exists(file)) continue;
        tensor want = read_tensor(a, d, file);
        comparison c = compare_tensors(a, &out[j], &want, 1e-3, 1e-5);
        if (c.same) continue;
        ok = false;
        if (c.why) fprintf(stderr, "%s: output %d is %s\n", folder, j, c.why);
        else fprintf(stderr, "%s: output %d: %lld differ, first [%lld] = %.9g, not %.9g\n", folder, j, (long long)c.differing, (long long)c.first, c.got, c.want);
    }
    return ok;
}

static int run_case(const char *folder) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show};
    jmp_buf jump;
    volatile int result = 1;
    if (DIAG_TRY(&d, jump)) {
        pipeline_options o = {.opt = 2};
        pipeline p = pipeline_file(a, &d, arena_printf(a, "%s/model.onnx", folder), &o);
        bool ok = true;
        for (int k = 0;; k++) {
            const char *set = arena_printf(a, "%s/test_data_set_%d", folder, k);
            if (!exists(set)) break;
            ok &= run_set(a, &d, p.program, set);
        }
        result = ok ? 0 : 4;
    } else {
        result = d.class;
    }
    arena_destroy(a);
    return result;
}

int command_test(int argc, char **argv) {
    int count[5] = {0};
    for (int j = 0; j < argc; j++) {
        if (argv[j][0] == '-') continue;
        int r = run_case(argv[j]);
        count[r]++;
        printf("%s %s\n", r == 0 ? "ok  " : r == 2 ? "MISS" : r == 4 ? "DIFF" : "FAIL", argv[j]);
        fflush(stdout);
    }
    printf("%d passed, %d failed, %d skipped\n", count[0], count[1] + count[3] + count[4], count[2]);
    return count[1] + count[3] + count[4] ? 4 : 0;
}
