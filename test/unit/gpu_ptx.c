// GPU kernels from small models as PTX, through NVRTC and ptxas where they are installed.
#include "test/unit/gpu_models.h"

// The models that are compiled for one of so many architectures, the oldest first: each for one of those that
// run it.
static lmodule *models_for(fixture *x, int arch, int archs) {
    lmodule *m = NULL;
    for (int i = 0; i < MODELS; i += EVERY) {
        int k = i / EVERY, one = models[i].sm >= 80 ? 1 + k % (archs - 1) : k % archs;
        compiled c;
        if (one == arch) m = add_model(x, m, &c, &models[i], FP_DEFAULT);
    }
    return m;
}

static void ptx_is_accepted(void **state) {
    static const int archs[] = {75, 80, 90, GPU_OWN + 90};
    fixture *x = *state;
    const char *ptxas = find_ptxas(x->a);
    nvrtc *n = nvrtc_open(x->a, NULL, NULL);
    if (!n || !ptxas) {
        print_message("skipped: %s is not installed\n", n ? "ptxas" : "NVRTC");
        skip();
    }
    for (int i = 0; i < 4; i++) {
        int sm = archs[i];
        if (!nvrtc_knows(n, sm)) continue;
        gpu_code all = {.module = models_for(x, i, 4)};
        const char *ptx = gpu_ptx(&all, x->a, n, sm, &x->d),
                   *path = workdir_write(x->dir, "test.ptx", ptx, strlen(ptx));
        bool groups = strstr(ptx, "wgmma.mma_async");
        assert_true(sm > GPU_OWN ? groups || EVERY > 1 : !groups);
        const char *command = arena_printf(x->a, "%s -O0 -arch=sm_%d%s -o %s/test.cubin %s", ptxas,
                                           gpu_arch_number(sm), gpu_arch_letter(sm), x->dir.path, path);
        // ptxas is not ours: what it says of the text it says in the build without sanitizers, and without optimising.
        if (EVERY == 1 && system(command) != 0) fail_msg("%s", command);
    }
}

// More functions than one NVRTC program takes; ptxas sees one module.
static void batches_are_joined(void **state) {
    fixture *x = *state;
    nvrtc *n = nvrtc_open(x->a, NULL, NULL);
    const char *ptxas = find_ptxas(x->a);
    if (!n || !ptxas) skip();
    static const model m = {"pointwise", "points", "in x float N 97\nout z float *\nz = Tanh x", {{13, 97}}};
    compiled c = compile(x, &m, FP_DEFAULT);
    const lfunc *one = c.code->module->funcs.at[0];
    gpu_code all = {.module = lmodule_new(x->a, "test", c.code->module->target)};
    for (int i = 0; i < GPU_BATCH + 2; i++) {
        lfunc *f = ARENA_NEW(x->a, lfunc);
        *f = *one;
        f->name = arena_printf(x->a, "copy_%d", i);
        VEC_PUSH(x->a, &all.module->funcs, f);
    }
    const char *ptx = gpu_ptx(&all, x->a, n, 80, &x->d),
               *path = workdir_write(x->dir, "test.ptx", ptx, strlen(ptx));
    assert_non_null(strstr(ptx, ".entry copy_0("));
    assert_non_null(strstr(ptx, ".entry copy_51("));
    assert_int_equal(system(arena_printf(x->a, "%s -arch=sm_80 -o /dev/null %s", ptxas, path)), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(ptx_is_accepted),
        TEST(batches_are_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
