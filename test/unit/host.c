// The emitted interface as its user sees it: small models become C text and objects with a header, which C
// programs include and call, rightly and wrongly.
#include "codegen/c/ctext.h"
#include "codegen/host/header.h"
#include "codegen/llvm/llvm.h"
#include "codegen/object/elf.h"
#include "codegen/target/targets.h"
#include "compiler/driver/pass_run.h"
#include "ir/kernel/lower.h"
#include "runtime-lite/onnxc.h"
#include "test/unit/compile_text.h"

typedef struct fixture {
    arena *a;
    diag d;
    jmp_buf jump;
    workdir dir;
    module *m;
    bool quiet;
    const char *last; // message
} fixture;

static void show(void *user, const diag_message *m) {
    fixture *x = user;
    x->last = m->text;
    if (!x->quiet) print_message("%s\n", m->full);
}

static int set_up(void **state) {
    arena *a = arena_new();
    fixture *x = ARENA_NEW(a, fixture);
    x->a = a;
    x->d = (diag){.arena = a, .sink = show, .user = x};
    x->dir = workdir_new(a);
    x->m = module_new(a, &x->d, "toy.onnx");
    x->m->main = graph_new(x->m, NULL, "toy graph");
    x->m->name = "toy graph";
    x->m->doc = "Adds.\nNothing else?\?/";
    *state = x;
    return 0;
}

static int tear_down(void **state) {
    fixture *x = *state;
    workdir_remove(x->dir);
    arena_destroy(x->a);
    return 0;
}

// ---------------------------------------------------------------- models
static value *input(fixture *x, const char *name, dtype t, dim *d0, dim *d1) {
    dim *d[] = {d0, d1};
    return graph_add_input(x->m->main, name, type_tensor(x->a, t, d1 ? 2 : 1, d));
}

static value *op(fixture *x, const char *name, int n, value *const *in, const char *out) {
    static const loc here = {.file = "toy.onnx", .node = "it", .op = "Op"};
    node *new = node_new(x->m->main, NULL, op_find("", name), &here, n, in);
    return node_output(new, 0, out);
}

static dim *k(fixture *x, int64_t v) { return dim_const(x->m->dims, v); }

// sum = x + y for float[N, 3], twice = sum + sum: one temporary would do, were it not an output.
static void toy_model(fixture *x) {
    dim *n = dim_symbol(x->m->dims, "N");
    value *a = input(x, "x.1", DT_F32, n, k(x, 3)), *b = input(x, "int", DT_F32, n, k(x, 3));
    a->doc = "the first */ one";
    value *sum = op(x, "Add", 2, (value *[]){a, b}, "sum");
    value *twice = op(x, "Transpose", 1, &sum, "t");
    graph_add_output(x->m->main, op(x, "Add", 2, (value *[]){twice, twice}, "/out/2"));
}

// Places of elements that are not zero: as many as there are.
static void data_model(fixture *x) {
    value *a = input(x, "x", DT_F32, dim_symbol(x->m->dims, "N"), NULL);
    graph_add_output(x->m->main, op(x, "NonZero", 1, &a, "places"));
}

static void gather_model(fixture *x) {
    value *a = input(x, "x", DT_F32, k(x, 4), NULL), *i = input(x, "i", DT_I64, k(x, 2), NULL);
    graph_add_output(x->m->main, op(x, "Gather", 2, (value *[]){a, i}, "y"));
}

static program *lowered(fixture *x) {
    pass_context c = {.module = x->m, .opt = 1, .fold_work = 1000000, .fold_bytes = 1 << 20};
    assert_true(DIAG_TRY(&x->d, x->jump));
    run_passes(&c, GOAL_GRAPH, NULL);
    return lower_module(x->m);
}

static const target *c_target(fixture *x, bool freestanding) {
    target_options o = {.fp = FP_DEFAULT, .threads = 1, .freestanding = freestanding};
    return target_for_c(x->a, &o);
}

static const target *machine(fixture *x, const char *cpu) {
    target_options o = {.fp = FP_DEFAULT, .threads = 1, .cpu = cpu};
    return target_from_options(x->a, &x->d, &o);
}

static build *built(fixture *x, program *p, const target *const *t, int n) {
    build_options o = {.name = "toy", .version = "1.2.3"};
    build *b = build_program(p, t, n, &o, &x->d);
    for (int i = 0; i < b->module->funcs.n; i++)
        if (b->module->funcs.at[i]->body) lfunc_verify(b->module->funcs.at[i], &x->d);
    return b;
}

static const char *header_text(fixture *x, const build *b, program *p) {
    text t = {.arena = x->a};
    sink s = sink_text(&t);
    header_write(b, p, &s);
    return text_str(&t);
}

// toy.h and toy.c in the folder; the latter's path.
static const char *write_c(fixture *x, bool freestanding) {
    program *p = lowered(x);
    const target *t = c_target(x, freestanding);
    build *b = built(x, p, &t, 1);
    const char *h = header_text(x, b, p);
    workdir_write(x->dir, "toy.h", h, strlen(h));
    text c = {.arena = x->a};
    sink s = sink_text(&c);
    ctext_write(b->module, "toy.h", &s, &x->d);
    return workdir_write(x->dir, "toy.c", text_str(&c), c.n);
}

// ---------------------------------------------------------------- the header
static const char *const golden =
    "#define TOY_X_1_DIM1 3\n"
    "#define TOY_INT__DIM1 3\n"
    "#define TOY_OUT_2_DIM0 3\n"
    "\n"
    "typedef struct toy_in {\n"
    "    int64_t x_1_dim0; // N\n"
    "    int64_t int__dim0; // N\n"
    "    const float *x_1; // 'x.1': float[N, 3]. the first */ one\n"
    "    const float *int_; // 'int': float[N, 3]\n"
    "} toy_in;\n"
    "\n"
    "typedef struct toy_out {\n"
    "    int64_t out_2_dim1; // set by the run: N\n"
    "    float *out_2; // '/out/2': float[3, N]\n"
    "    const char *message; // set if the run fails: the reason\n"
    "} toy_out;\n"
    "\n"
    "#define TOY_WORKSPACE_ALIGN 64\n"
    "// Returns (size_t)-1 if the model does not accept inputs of these dims.\n"
    "size_t toy_workspace_bytes(int64_t N);\n"
    "// Real-time safe: a run allocates no memory, takes no lock and makes no system call.\n"
    "#define TOY_REAL_TIME 1\n"
    "\n"
    "// Sets the sizes of the outputs that a run with the sizes of *in will have. A size that depends on\n"
    "// data is the largest possible one, or -1 if there is none. Returns 0 or an onnxc_status.\n"
    "int toy_output_dims(const toy_in *in, toy_out *out);\n"
    "\n"
    "// Returns 0 or an onnxc_status. Thread-safe, provided that each thread has its own workspace.\n"
    "int toy_run(const toy_in *in, toy_out *out, void *workspace, size_t workspace_size);\n"
    "\n"
    "// The generic interface, the same for all models: TOY_MODEL initializes an onnxc_model.\n"
    "extern const int64_t toy_descriptor[];\n"
    "int toy_run_generic(void *const *data, int64_t *dims, const int64_t *capacity, void *workspace,\n"
    "    size_t workspace_size, const char **message);\n"
    "int64_t toy_workspace_generic(const int64_t *dims);\n"
    "#define TOY_MODEL {toy_descriptor, toy_run_generic, toy_workspace_generic, 0, 0}\n"
    "\n"
    "#ifdef __cplusplus\n}\n#endif\n#endif\n";

static void the_header_is_as_expected(void **state) {
    fixture *x = *state;
    toy_model(x);
    program *p = lowered(x);
    const target *t = c_target(x, false);
    const char *h = header_text(x, built(x, p, &t, 1), p), *from = strstr(h, "#define TOY_X_1");
    assert_non_null(from);
    assert_string_equal(from, golden);
    assert_non_null(strstr(h, "from the model 'toy graph'"));
    assert_non_null(strstr(h, "\n// Adds.\n// Nothing else ?/\n"));
}

static void compilers_take_the_header(void **state) {
    fixture *x = *state;
    toy_model(x);
    write_c(x, false);
    static const char *const compilers[] = {"gcc -std=c99 -x c", "clang-19 -std=c99 -x c",
                                            "g++ -std=c++98 -Wno-long-long -x c++",
                                            "clang++-19 -std=c++17 -x c++"};
    for (int i = 0; i < 4; i++) {
        const char *command = arena_printf(x->a,
                                           "%s -pedantic -Wall -Wextra -Werror -fsyntax-only -include "
                                           "'%s/toy.h' -include '%s/toy.h' /dev/null",
                                           compilers[i], x->dir.path, x->dir.path);
        const char *name = arena_strndup(x->a, compilers[i], strcspn(compilers[i], " "));
        if (have_program(x->a, name)) assert_int_equal(system(command), 0);
    }
}

static void names_are_identifiers(void **state) {
    fixture *x = *state;
    static const char *const cases[][2] = {{"image", "image"},  {"/model/out:0", "model_out_0"},
                                           {"1", "in1"},        {"_x", "x"},
                                           {"class", "class_"}, {"", "in"},
                                           {"é", "in"},         {"a..b", "a_b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(c_identifier(x->a, cases[i][0], "in"), cases[i][1]);
}

// ---------------------------------------------------------------- calls
// Answers the line of the first check that fails.
#define CALLER_HEAD                                                                                          \
    "#include \"toy.h\"\n#include <string.h>\n#define CHECK(c) if (!(c)) return __LINE__\n"                  \
    "int check(void);\nstatic int64_t ws[100];\n#define WORKSPACE ((void *)(((size_t)ws + 63) / 64 * 64))\n"

static const char *const toy_caller =
    CALLER_HEAD "int check(void) {\n"
                "    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {10, 20, 30, 40, 50, 60}, z[6] = {0};\n"
                "    toy_in in = {2, 2, x, y};\n"
                "    toy_out out = {7, z, NULL};\n"
                "    size_t size = toy_workspace_bytes(2);\n"
                "    CHECK(size > 0 && size % 64 == 0 && size <= sizeof ws - 64);\n"
                "    CHECK(toy_workspace_bytes(-1) == (size_t)-1 && toy_workspace_bytes((int64_t)1 << 60) == "
                "(size_t)-1);\n"
                "    CHECK(toy_run(NULL, &out, WORKSPACE, size) == ONNXC_NULL_POINTER);\n"
                "    CHECK(toy_run(&in, NULL, WORKSPACE, size) == ONNXC_NULL_POINTER);\n"
                "    CHECK(toy_run(&in, &out, NULL, size) == ONNXC_NULL_POINTER);\n"
                "    CHECK(toy_run(&in, &out, WORKSPACE, size - 1) == ONNXC_WORKSPACE_SIZE);\n"
                "    CHECK(strstr(out.message, \"workspace\"));\n"
                "    CHECK(toy_run(&in, &out, (char *)WORKSPACE + 1, size) == ONNXC_WORKSPACE_ALIGN);\n"
                "    in.int__dim0 = 3;\n"
                "    CHECK(toy_run(&in, &out, WORKSPACE, size) == ONNXC_BAD_DIM);\n"
                "    CHECK(strstr(out.message, \"input 'int': axis 0 \"));\n"
                "    in.int__dim0 = in.x_1_dim0 = -2;\n"
                "    CHECK(toy_run(&in, &out, WORKSPACE, size) == ONNXC_BAD_DIM);\n"
                "    in.int__dim0 = in.x_1_dim0 = (int64_t)1 << 45;\n"
                "    CHECK(toy_run(&in, &out, WORKSPACE, size) == ONNXC_TOO_LARGE);\n"
                "    in.int__dim0 = in.x_1_dim0 = 2;\n"
                "    in.x_1 = NULL;\n"
                "    CHECK(toy_run(&in, &out, WORKSPACE, size) == ONNXC_NULL_POINTER);\n"
                "    CHECK(!strcmp(out.message, \"input 'x.1' is a null pointer\"));\n"
                "    CHECK(out.out_2_dim1 == 7 && z[0] == 0);\n"
                "    CHECK(toy_run(NULL, &out, WORKSPACE, size) == ONNXC_NULL_POINTER);\n"
                "    CHECK(!strcmp(out.message, \"'in' is a null pointer\"));\n"
                "    CHECK(toy_run(&in, NULL, WORKSPACE, size) == ONNXC_NULL_POINTER);\n"
                "    in.x_1 = x;\n"
                "    CHECK(toy_run(&in, &out, WORKSPACE, size) == ONNXC_OK && out.message == NULL);\n"
                "    CHECK(out.out_2_dim1 == 2 && z[0] == 22 && z[1] == 88 && z[2] == 44 && z[5] == 132);\n"
                "    in.int__dim0 = in.x_1_dim0 = 0;\n"
                "    in.x_1 = in.int_ = out.out_2 = NULL;\n"
                "    CHECK(toy_run(&in, &out, NULL, 0) == ONNXC_OK && out.out_2_dim1 == 0);\n"
                "    return 0;\n"
                "}\n";

static const char *const generic_caller = CALLER_HEAD
    "int check(void) {\n"
    "    float x[3] = {1, 2, 3}, y[3] = {10, 20, 30}, z[3] = {0};\n"
    "    void *data[3];\n"
    "    int64_t dims[6] = {1, 3, 1, 3, 9, 9}, room = 2, size = toy_workspace_generic(dims);\n"
    "    const char *message = NULL;\n"
    "    data[0] = x; data[1] = y; data[2] = z;\n"
    "    CHECK(size > 0 && size <= (int64_t)sizeof ws - 64);\n"
    "    CHECK(toy_run_generic(data, dims, &room, WORKSPACE, (size_t)size, &message) == ONNXC_TOO_SMALL);\n"
    "    CHECK(dims[4] == 3 && dims[5] == 1 && strstr(message, \"output '/out/2' is too small\"));\n"
    "    room = 3;\n"
    "    CHECK(toy_run_generic(data, dims, &room, WORKSPACE, (size_t)size, NULL) == ONNXC_OK);\n"
    "    CHECK(z[0] == 22 && z[2] == 66);\n"
    "    dims[1] = 4;\n"
    "    CHECK(toy_run_generic(data, dims, &room, WORKSPACE, (size_t)size, &message) == ONNXC_BAD_DIM);\n"
    "    CHECK(strstr(message, \"input 'x.1': axis 1 \") && toy_workspace_generic(dims) == "
    "-1);\n"
    "    CHECK(toy_run_generic(NULL, dims, &room, WORKSPACE, (size_t)size, NULL) == ONNXC_NULL_POINTER);\n"
    "    return 0;\n"
    "}\n";

// Memory that counts its blocks, and can fail: in place of malloc and free, which emitted C calls.
#define COUNTED_MEMORY                                                                                       \
    "#include <stdlib.h>\n#undef malloc\n#undef free\nvoid free(void *);\nint blocks, calls, fail_at = "     \
    "1000;\n"                                                                                                \
    "void *counted_malloc(size_t n) {\n    if (++calls >= fail_at) return NULL;\n    blocks++;\n"            \
    "    return calloc(1, n + 1);\n}\n"                                                                      \
    "void counted_free(void *p) {\n    if (p) blocks--;\n    free(p);\n}\n"

static const char *const data_caller = CALLER_HEAD COUNTED_MEMORY
    "int check(void) {\n"
    "    float x[5] = {0, 1, 0, 2, 3};\n"
    "    int64_t places[5] = {-1, -1, -1, -1, -1};\n"
    "    toy_in in = {5, x};\n"
    "    toy_out out = {0};\n"
    "    int i;\n"
    "    CHECK(TOY_WORKSPACE_BYTES <= sizeof ws - 64);\n"
    "    out.places_capacity = 2; out.places = places;\n"
    "    CHECK(toy_run(&in, &out, WORKSPACE, sizeof ws - 64) == ONNXC_TOO_SMALL);\n"
    "    CHECK(out.places_dim1 == 3 && places[0] == -1 && blocks == 0);\n"
    "    out.places_capacity = out.places_dim1;\n"
    "    CHECK(toy_run(&in, &out, WORKSPACE, sizeof ws - 64) == ONNXC_OK);\n"
    "    CHECK(places[0] == 1 && places[1] == 3 && places[2] == 4 && places[3] == -1 && blocks == 0);\n"
    "    out.places = NULL;\n"
    "    CHECK(toy_run(&in, &out, WORKSPACE, sizeof ws - 64) == ONNXC_NULL_POINTER && blocks == 0);\n"
    "    for (i = 1; i <= calls; i++) {\n"
    "        calls = 0; fail_at = i;\n"
    "        if (toy_run(&in, &out, WORKSPACE, sizeof ws - 64) != ONNXC_NO_MEMORY) break;\n"
    "        CHECK(blocks == 0 && out.message);\n"
    "    }\n"
    "    CHECK(i > 1);\n"
    "    memset(x, 0, sizeof x);\n"
    "    fail_at = 1000; out.places_capacity = 0;\n"
    "    CHECK(toy_run(&in, &out, WORKSPACE, sizeof ws - 64) == ONNXC_OK && out.places_dim1 == 0);\n"
    "    return 0;\n"
    "}\n";

static const char *const bounded_caller = CALLER_HEAD
    "int check(void) {\n"
    "    float x[5] = {0, 1, 0, 2, 3};\n"
    "    int64_t places[5] = {-1, -1, -1, -1, -1};\n"
    "    toy_in in;\n"
    "    toy_out out;\n"
    "    in.x = x; out.places_capacity = 2; out.places = places;\n"
    "    CHECK(TOY_WORKSPACE_BYTES >= 40 && TOY_WORKSPACE_BYTES <= sizeof ws - 64);\n"
    "    CHECK(toy_run(&in, &out, WORKSPACE, TOY_WORKSPACE_BYTES) == ONNXC_TOO_SMALL);\n"
    "    out.places_capacity = 3;\n"
    "    CHECK(toy_run(&in, &out, WORKSPACE, TOY_WORKSPACE_BYTES) == ONNXC_OK && out.places_dim1 == 3);\n"
    "    CHECK(places[0] == 1 && places[1] == 3 && places[2] == 4 && places[3] == -1);\n"
    "    return 0;\n"
    "}\n";

static const char *const gather_caller =
    CALLER_HEAD "int check(void) {\n"
                "    float x[4] = {1, 2, 3, 4}, y[2] = {0};\n"
                "    int64_t i[2] = {3, -4};\n"
                "    toy_in in;\n"
                "    toy_out out;\n"
                "    in.x = x; in.i = i; out.y = y;\n"
                "    memset(ws, 0, sizeof ws);\n"
                "    CHECK(TOY_X_COUNT == 4 && TOY_I_DIM0 == 2 && TOY_WORKSPACE_BYTES == 0 && "
                "toy_workspace_bytes() == 0);\n"
                "    CHECK(toy_run(&in, &out, NULL, 0) == ONNXC_OK && y[0] == 4 && y[1] == 1);\n"
                "    i[1] = 4;\n"
                "    CHECK(toy_run(&in, &out, NULL, 0) == ONNXC_CHECK_FAILED);\n"
                "    return 0;\n"
                "}\n";

static const char *const warnings =
    "-std=c99 -pedantic -Wall -Wextra -Werror -O1 -fsanitize=undefined -fsanitize-undefined-trap-on-error";

static void run_caller(fixture *x, const char *flags, const char *model, const char *caller) {
    const char *path = workdir_write(x->dir, "caller.c", caller, strlen(caller));
    void *dl = compile_and_load(x->dir, arena_printf(x->a, "gcc -I. %s -Wl,-z,defs", flags),
                                arena_printf(x->a, "%s %s", path, model));
    int (*check)(void) = find_function(dl, "check");
    int line = check();
    if (line) fail_msg("line %d of the caller", line);
    dlclose(dl);
}

static void c_models_can_be_called(void **state) {
    fixture *x = *state;
    toy_model(x);
    const char *model = write_c(x, false);
    run_caller(x, warnings, model, toy_caller);
    run_caller(x, warnings, model, generic_caller);
}

static void sizes_may_come_from_data(void **state) {
    fixture *x = *state;
    data_model(x);
    const char *flags = arena_printf(x->a, "%s -Dmalloc=counted_malloc -Dfree=counted_free", warnings);
    run_caller(x, flags, write_c(x, false), data_caller);
}

static void freestanding_models_check_data(void **state) {
    fixture *x = *state;
    gather_model(x);
    const char *model = write_c(x, true);
    run_caller(x, arena_printf(x->a, "%s -nostdlib", warnings), model, gather_caller);
}

static void freestanding_models_plan_for_the_most(void **state) {
    fixture *x = *state;
    value *a = input(x, "x", DT_F32, k(x, 5), NULL);
    graph_add_output(x->m->main, op(x, "NonZero", 1, &a, "places"));
    run_caller(x, warnings, write_c(x, true), bounded_caller);
}

static void freestanding_models_need_no_allocator(void **state) {
    fixture *x = *state;
    data_model(x);
    program *p = lowered(x);
    const target *t = c_target(x, true);
    x->quiet = true;
    if (DIAG_TRY(&x->d, x->jump)) {
        built(x, p, &t, 1);
        fail_msg("a model that allocates was built");
    }
    assert_int_equal(x->d.class, DIAG_MISSING);
    assert_non_null(strstr(x->last, "known only at run time"));
}

#ifdef __x86_64__
static const char *write_object(fixture *x, program *p, const target *const *t, int n) {
    build *b = built(x, p, t, n);
    const char *h = header_text(x, b, p), *path = arena_printf(x->a, "%s/toy.o", x->dir.path);
    workdir_write(x->dir, "toy.h", h, strlen(h));
    elf_write_file(x->a, &x->d, llvm_emit(b->module, EMIT_OBJECT, x->a, &x->d), b->module, path);
    assert_int_equal(b->needs_runtime, n > 1);
    return path;
}

static void objects_can_be_called(void **state) {
    fixture *x = *state;
    toy_model(x);
    program *p = lowered(x);
    const target *t = machine(x, "x86-64");
    const char *model = write_object(x, p, &t, 1);
    run_caller(x, warnings, model, toy_caller);
    run_caller(x, warnings, model, generic_caller);
}

// So that levels with equal kernels share it.
static void host_code_is_for_the_lowest_level(void **state) {
    fixture *x = *state;
    toy_model(x);
    program *p = lowered(x);
    const target *base = machine(x, "x86-64");
    const target *t[] = {target_with_cpu(x->a, &x->d, base, "x86-64-v2"),
                         target_with_cpu(x->a, &x->d, base, "x86-64-v4")};
    const lmodule *m = built(x, p, t, 2)->module;
    int hosts = 0, kernels = 0;
    for (int i = 0; i < m->funcs.n; i++) {
        const lfunc *f = m->funcs.at[i];
        if (!f->body) continue;
        assert_true(f->kernel || f->target != t[1]);
        hosts += !f->kernel && f->target == t[0];
        kernels += f->kernel && f->target == t[1];
    }
    assert_true(hosts >= 2 && kernels >= 1);
}

// The dispatcher takes the best variant that the runtime's answer allows.
// The runtime's, which is C11.
#define MESSAGE "#pragma GCC diagnostic ignored \"-Wpedantic\"\n#include \"runtime-lite/core/message.c\"\n"

static void objects_hold_a_variant_for_each_level(void **state) {
    fixture *x = *state;
    toy_model(x);
    program *p = lowered(x);
    const target *base = machine(x, "x86-64");
    const target *t[] = {target_with_cpu(x->a, &x->d, base, "x86-64-v2"),
                         target_with_cpu(x->a, &x->d, base, "x86-64-v3"),
                         target_with_cpu(x->a, &x->d, base, "x86-64-v4")};
    const char *model = write_object(x, p, t, 3);
    static const char *const level =
        "int onnxc_interface_2(void);\nint onnxc_interface_2(void) { return 2; }\n" MESSAGE;
    run_caller(x, warnings, model, arena_printf(x->a, "%s%s", level, toy_caller));
    run_caller(x, warnings, model, arena_printf(x->a, "%s%s", level, generic_caller));
    static const char *const too_old =
        CALLER_HEAD "int onnxc_interface_2(void);\nint onnxc_interface_2(void) { return 1; }\n" MESSAGE
                    "int check(void) {\n    toy_in in = {0};\n    toy_out out = {0};\n    CHECK(toy_run(&in, "
                    "&out, WORKSPACE, 0) == ONNXC_BAD_CPU && out.message);\n    return 0;\n}\n";
    run_caller(x, warnings, model, too_old);
}
#endif

// ---------------------------------------------------------------- versions
static void versions_that_differ_do_not_link(void **state) {
    fixture *x = *state;
    for (int version = ONNXC_INTERFACE - 1; version <= ONNXC_INTERFACE + 1; version += 2) {
        const char *other = arena_printf(x->a,
                                         "int onnxc_interface_%d(void);\nint check(void);\nint check(void) { "
                                         "return onnxc_interface_%d(); }\n",
                                         version, version);
        const char *path = workdir_write(x->dir, "other.c", other, strlen(other)),
                   *said = arena_printf(x->a, "%s/said", x->dir.path);
        const char *command =
            arena_printf(x->a,
                         "gcc -I. -shared -fPIC -Wl,-z,defs -o %s/other.so %s "
                         "runtime-lite/core/interface_%d.c runtime-lite/core/interface.c 2>%s",
                         x->dir.path, path, version, said);
        assert_int_not_equal(system(command), 0);
        command = arena_printf(x->a, "grep -q object_has_interface_%d_but_runtime_has_interface_%d %s",
                               version, ONNXC_INTERFACE, said);
        assert_int_equal(system(command), 0);
    }
}

// ---------------------------------------------------------------- the descriptor
static const onnxc_descriptor *find_descriptor(const build *b) {
    for (int i = 0; i < b->module->data.n; i++)
        if (strcmp(b->module->data.at[i]->name, "toy_descriptor") == 0)
            return b->module->data.at[i]->bytes_or_null;
    return NULL;
}

static void the_descriptor_tells_all(void **state) {
    fixture *x = *state;
    toy_model(x);
    VEC_PUSH(x->a, &x->m->metadata, "author");
    VEC_PUSH(x->a, &x->m->metadata, "me");
    program *p = lowered(x);
    const target *t = c_target(x, false);
    const onnxc_descriptor *d = find_descriptor(built(x, p, &t, 1));
    assert_non_null(d);
    assert_string_equal(d->magic, "onnxc-m");
    assert_string_equal(onnxc_text(d, d->name), "toy");
    assert_string_equal(onnxc_text(d, d->version), "1.2.3");
    assert_string_equal(onnxc_text(d, d->doc), "Adds.\nNothing else?\?/");
    assert_string_equal(onnxc_text(d, d->model_hash), "");
    assert_int_equal(d->ninputs, 2);
    assert_int_equal(d->ndims, 6);
    assert_int_equal(d->workspace_bytes, -1);
    const onnxc_tensor_info *in = onnxc_inputs(d), *out = onnxc_outputs(d);
    assert_string_equal(onnxc_text(d, in[0].name), "x.1");
    assert_string_equal(onnxc_text(d, in[0].identifier), "x_1");
    assert_string_equal(onnxc_text(d, in[0].doc), "the first */ one");
    assert_int_equal(in[1].dtype, 1);
    assert_int_equal(out[0].first_dim, 4);
    assert_int_equal(onnxc_dims(d, &out[0])[0].value, 3);
    assert_string_equal(onnxc_text(d, onnxc_dims(d, &out[0])[1].text), "N");
    const uint32_t *pair = (const uint32_t *)((const char *)d + d->metadata);
    assert_int_equal(d->nmetadata, 1);
    assert_string_equal(onnxc_text(d, pair[1]), "me");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_header_is_as_expected),
        TEST(compilers_take_the_header),
        TEST(names_are_identifiers),
        TEST(c_models_can_be_called),
        TEST(sizes_may_come_from_data),
        TEST(freestanding_models_check_data),
        TEST(freestanding_models_plan_for_the_most),
        TEST(freestanding_models_need_no_allocator),
        TEST(versions_that_differ_do_not_link),
#ifdef __x86_64__
        TEST(objects_can_be_called),
        TEST(objects_hold_a_variant_for_each_level),
        TEST(host_code_is_for_the_lowest_level),
#endif
        TEST(the_descriptor_tells_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
