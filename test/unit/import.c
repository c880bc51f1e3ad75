// The import: models that are wrong and the exact message for each, models that are right and what
// becomes of them.
#include "compiler/import/import.h"
#include "ir/graph/op.h"
#include "onnx_build.h"
#include <setjmp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

// ---- What was reported

typedef struct report {
    arena *arena;
    diag diag;
    text text; // all messages, one line each
} report;

static void note(void *user, const diag_message *m) {
    report *r = user;
    if (r->text.n) text_add(&r->text, "\n");
    text_add(&r->text, m->full);
}

static report *new_report(void) {
    arena *a = arena_new();
    report *r = ARENA_NEW(a, report);
    r->arena = r->text.arena = a;
    r->diag = (diag){.arena = a, .sink = note, .user = r, .file = "m.onnx"};
    return r;
}

static void expect(report *r, diag_class class, const char *text) {
    assert_string_equal(text_str(&r->text), text);
    assert_int_equal(r->diag.class, class);
    arena_destroy(r->arena);
}

// The model's import, in a report's arena: NULL when it failed.
static module *import_text(report *r, const char *model, const import_options *options, bool infer) {
    jmp_buf jump;
    size_t size;
    const uint8_t *data = build_model(r->arena, model, &size);
    if (!DIAG_TRY(&r->diag, jump)) return NULL;
    module *m = import_onnx_memory(r->arena, &r->diag, "m.onnx", NULL, data, size, options);
    graph_verify(m);
    if (infer) infer_graph(m->main);
    return m;
}

typedef struct bad {
    const char *model, *message;
    diag_class class; // 0: DIAG_USER
    bool infer;
} bad;

static void check_bad(const bad *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        report *r = new_report();
        assert_null(import_text(r, b[i].model, NULL, b[i].infer));
        expect(r, b[i].class ? b[i].class : DIAG_USER, b[i].message);
    }
}
#define CHECK_BAD(table) check_bad(table, sizeof table / sizeof *table)

// ---- Models

static void bad_headers(void **state) {
    (void)state;
    static const bad table[] = {
        {"ir 0", "m.onnx: error: not an ONNX model: it has no IR version"},
        {"ir 2", "m.onnx: error: IR version 2 is not supported; this build knows 3 to 14", DIAG_MISSING},
        {"ir 15", "m.onnx: error: IR version 15 is not supported; this build knows 3 to 14", DIAG_MISSING},
        {"noopset\nin x float 1\nout x", "m.onnx: error: the model has no opset_import"},
        {"func d f x -> y\nopset - 0\nendfunc\nin x float 1\nout x",
         "m.onnx: error: function 'f' imports version 0 of domain ''"},
        {"opset - 0", "m.onnx: error: the model imports version 0 of domain ''"},
        {"opset - 13\nopset ai.onnx 14", "m.onnx: error: the model imports versions 13 and 14 of domain ''"},
        {"in x float 1", "m.onnx: error: the graph has no outputs"},
        {"in x\nout x", "m.onnx: error: input 'x' has no type"},
        {"in _ float 1\nin x float 1\nout x", "m.onnx: error: an input of graph 'g' has no name"},
        {"in x float 1\nin x float 1\nout x", "m.onnx: error: 'x' is defined twice"},
        {"in x 99 1\nout x", "m.onnx: error: 'x': element type 99 is not in ONNX"},
        {"in x 0 1\nout x", "m.onnx: error: 'x': its type has no element type"},
        {"in x float 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\nout x",
         "m.onnx: error: 'x': has 33 dimensions; at most 32 are supported"},
        {"func d f x -> y\nendfunc\nfunc d f x -> y\nendfunc\nin x float 1\nout x",
         "m.onnx: error: function 'f' of domain 'd' is defined twice"},
    };
    CHECK_BAD(table);
}

static void bad_names(void **state) {
    (void)state;
    static const bad table[] = {
        {"in x float 1\ny = Relu/a z\nout y", "m.onnx: node 'a' (Relu-14): error: 'z' is not defined: it is "
                                              "not an input, an initializer or the output of a node"},
        {"in x float 1\nw = Relu/c y\ny = Relu z\nz = Relu/b w\nout y",
         "m.onnx: node 'b' (Relu-14): error: 'w' is used before node 'c' (Relu) computes it\nhint: a graph "
         "must not have cycles"},
        {"in x float 1\ny = Relu/a y\nout y",
         "m.onnx: node 'a' (Relu-14): error: 'y' is used before node 'a' (Relu) computes it\nhint: a graph "
         "must not have cycles"},
        {"in x float 1\ny = Relu w\nw = Relu/a y\nout y",
         "m.onnx: node 'a' (Relu-14): error: 'y' is used before a node (Relu) computes it\nhint: a graph "
         "must "
         "not have cycles"},
        {"in x float 1\ny = Relu x\ny = Relu/b x\nout y",
         "m.onnx: node 'b' (Relu-14): error: 'y' is defined twice"},
        {"in x float 1\nout z",
         "m.onnx: error: 'z' is not defined: it is not an input, an initializer or the output of a node"},
    };
    CHECK_BAD(table);
}

static void bad_operators(void **state) {
    (void)state;
    static const bad table[] = {
        {"in x float 1\ny = Relo/a x\nout y", "m.onnx: node 'a' (Relo): error: there is no operator 'Relo' "
                                              "in domain 'ai.onnx'\nhint: did you mean "
                                              "Relu?"},
        {"in x float 1\ny = Frobnicate/a x\nout y",
         "m.onnx: node 'a' (Frobnicate): error: there is no operator 'Frobnicate' in domain 'ai.onnx'\n"
         "hint: a function of the model may define it, or a C function compute it: "
         "--custom-op ai.onnx::Frobnicate=SYMBOL"},
        {"opset - 12\nin x float 1\ny = HardSwish/a x\nout y",
         "m.onnx: node 'a' (HardSwish): error: operator HardSwish exists since opset 14, but the model "
         "imports "
         "opset 12"},
        {"opset - 11\nin x float 1\ny = Scatter/a x x x\nout y",
         "m.onnx: node 'a' (Scatter): error: operator Scatter is deprecated since opset 11; the model "
         "imports "
         "opset 11"},
        {"opset - 99\nin x float 1\ny = Relu/a x\nout y",
         "m.onnx: node 'a' (Relu): error: opset 99 of domain 'ai.onnx' is not supported; this build knows up "
         "to 28",
         DIAG_MISSING},
        {"opset ai.onnx.ml 3\nin x float 1\ny = Relu/a x\nout y",
         "m.onnx: node 'a' (Relu): error: no opset_import for the operator's domain 'ai.onnx'"},
        {"opset - 17\nopset odd 2\nin x float 1\ny = odd:Foo/a x\nz = odd:Foo y\nw = odd:Bar/c z\nout w",
         "m.onnx: node 'a' (Foo): error: operator odd.Foo is not supported (used by 2 nodes)\n"
         "hint: a function of the model may define it, or a C function compute it: --custom-op "
         "odd::Foo=SYMBOL\n"
         "m.onnx: node 'c' (Bar): error: operator odd.Bar is not supported (used by 1 node)\n"
         "hint: a function of the model may define it, or a C function compute it: --custom-op "
         "odd::Bar=SYMBOL",
         DIAG_MISSING},
        {"in x float 1\ny = Relu/a x x\nout y",
         "m.onnx: node 'a' (Relu-14): error: 2 inputs where the operator has 1"},
        {"in x float 1\ny = Add/a x\nout y",
         "m.onnx: node 'a' (Add-14): error: 1 inputs where the operator has 2"},
        {"in x float 1\ny = Add/a _ x\nout y", "m.onnx: node 'a' (Add-14): error: input A is missing"},
        {"in x float 1\ny z = Relu/a x\nout y",
         "m.onnx: node 'a' (Relu-14): error: 2 outputs where the operator has 1"},
        {"in x float 1\ny = Concat/a @axis=i,0\nout y",
         "m.onnx: node 'a' (Concat-13): error: 0 inputs where the operator has 1 or more"},
    };
    CHECK_BAD(table);
}

static void bad_attributes(void **state) {
    (void)state;
    static const bad table[] = {
        {"in x float 1\ny = Relu/a x @slope=f,1\nout y",
         "m.onnx: node 'a' (Relu-14): error: unknown attribute 'slope'"},
        {"in x float 1\ny = Concat/a x\nout y",
         "m.onnx: node 'a' (Concat-13): error: attribute 'axis' is missing"},
        {"in x float 1\ny = Concat/a x @axis=f,1\nout y",
         "m.onnx: node 'a' (Concat-13): error: attribute 'axis' is a float, but must be an int\n"
         "m.onnx: node 'a' (Concat-13): error: attribute 'axis' is missing"},
        {"in x float 1\ny = Concat/a x @axis=i,1 @axis=i,1\nout y",
         "m.onnx: node 'a' (Concat-13): error: attribute 'axis' is given twice"},
        {"in x bool\ny = If/a x @then_branch=g, @else_branch=g,\nout y",
         "m.onnx: node 'a' (If-16): error: attribute 'then_branch' is a graph, but has no value"},
        {"in x float 1\ny = Concat/a x @axis=r,n\nout y",
         "m.onnx: node 'a' (Concat-13): error: attribute 'axis' refers to attribute 'n' of a function, but "
         "is not inside a function"},
    };
    CHECK_BAD(table);
}

static void bad_tensors(void **state) {
    (void)state;
#define TENSOR(text) "in x float 1\ninit w " text "\nout x"
#define SPARSE(text) "in x float 1\nsparse w " text "\nout x"
    static const bad table[] = {
        {TENSOR("float 2 = raw 7"),
         "m.onnx: error: tensor 'w': raw_data has 7 bytes; 2 elements of float take 8"},
        {TENSOR("int4 3 = raw 3"),
         "m.onnx: error: tensor 'w': raw_data has 3 bytes; 3 elements of int4 take 2"},
        {TENSOR("float 2 = float 1"),
         "m.onnx: error: tensor 'w': float_data has 1 entries; its shape needs 2"},
        {TENSOR("float 2"), "m.onnx: error: tensor 'w': float_data has 0 entries; its shape needs 2"},
        {TENSOR("complex64 2 = float 1 2"),
         "m.onnx: error: tensor 'w': float_data has 2 entries; its shape needs 4"},
        {TENSOR("double 1 = double 1 2"),
         "m.onnx: error: tensor 'w': double_data has 2 entries; its shape needs 1"},
        {TENSOR("int64 2 = int64 1"),
         "m.onnx: error: tensor 'w': int64_data has 1 entries; its shape needs 2"},
        {TENSOR("int4 3 = int32 1 2 3"),
         "m.onnx: error: tensor 'w': int32_data has 3 entries; its shape needs 2"},
        {TENSOR("uint32 1 = uint64 4294967296"),
         "m.onnx: error: tensor 'w': uint64_data[0] = 4294967296 does not fit uint32"},
        {TENSOR("uint8 2 = int32 1 256"),
         "m.onnx: error: tensor 'w': int32_data[1] = 256 does not fit uint8"},
        {TENSOR("string 2 = string a"),
         "m.onnx: error: tensor 'w': string_data has 1 entries; its shape needs 2"},
        {TENSOR("string 1 = raw 8"), "m.onnx: error: tensor 'w': strings cannot be raw_data"},
        {TENSOR("float -1 = raw 4"), "m.onnx: error: tensor 'w': dimension 0 is -1"},
        {TENSOR("float 4611686018427387904 4 = raw 4"),
         "m.onnx: error: tensor 'w': has more elements than 64 bits can count"},
        {TENSOR("float 4611686018427387904 = raw 4"),
         "m.onnx: error: tensor 'w': has more elements than 64 bits can count"},
        {TENSOR("0 1 = raw 4"), "m.onnx: error: tensor 'w': has no element type"},
        {TENSOR("99 1 = raw 4"), "m.onnx: error: tensor 'w': element type 99 is not in ONNX"},
        {TENSOR("28 4 = raw 4"),
         "m.onnx: error: tensor 'w': raw_data has 4 bytes; 4 elements of float6e3m2 take 3"},
        {TENSOR("float 1 = ext location=w.bin"),
         "m.onnx: error: tensor 'w': external data 'w.bin', but the model is not in a folder\n"
         "hint: --external-data-dir DIR names its folder"},
        {TENSOR("float 1 = ext offset=0"), "m.onnx: error: tensor 'w': its external data has no location"},
        {"in x float 1\ninit _ float 1 = float 1\nout x", "m.onnx: error: an initializer has no name"},
        {TENSOR("float 1 = float 1 + raw 4"), "m.onnx: error: tensor 'w': has its data twice"},
        {TENSOR("float 1 = segment _"), "m.onnx: error: tensor 'w': segments are not supported",
         DIAG_MISSING},
        {SPARSE("float 2 3 = 2 0 4 6"),
         "m.onnx: error: tensor 'w': index 1 of the sparse tensor is 6 of 6 elements"},
        {SPARSE("float 2 3 = 2 0 4 4"),
         "m.onnx: error: tensor 'w': the sparse tensor's indices are not in ascending order at 1"},
        {SPARSE("float 2 3 = 1 2 1 3"),
         "m.onnx: error: tensor 'w': index 0 of the sparse tensor is 3 at dimension 1 of size 3"},
        {SPARSE("float 2 3 = 2 0 4"),
         "m.onnx: error: tensor 'w': the sparse tensor's indices do not fit its 2 values and 2 dimensions"},
        {SPARSE("int4 2 3 = 1 0 4"), "m.onnx: error: tensor 'w': sparse tensors of int4 are not supported",
         DIAG_MISSING},
        {SPARSE("float 1000000 1000 = 1 0 4"),
         "m.onnx: error: tensor 'w': a sparse tensor of 4000000000 bytes when dense; the limit is 1073741824",
         DIAG_MISSING},
    };
    CHECK_BAD(table);
}

static void bad_functions(void **state) {
    (void)state;
#define FUNCTIONS "opset - 17\nopset d 1\nin x float 4\nout y\n"
    static const bad table[] = {
        {FUNCTIONS "func d f a -> b\nopset d 1\nb = d:f/inner a\nendfunc\ny = d:f/outer x",
         "m.onnx: node 'inner' (f): error: the function calls itself: f -> f\n"
         "  in function 'f' called by node 'outer' (f)"},
        {FUNCTIONS
         "func d f a -> b\nb = d:g/q a\nendfunc\nfunc d g a -> b\nb = d:f/r a\nendfunc\ny = d:f/s x",
         "m.onnx: node 'r' (f): error: the function calls itself: f -> g -> f\n"
         "  in function 'g' called by node 'q' (g)\n  in function 'f' called by node 's' (f)"},
        {FUNCTIONS "func d f a -> b\nopset - 17\nb = Relu a\nendfunc\ny = d:f/s x x",
         "m.onnx: node 's' (f): error: the call passes 2 inputs, but the function has 1"},
        {FUNCTIONS "func d f a -> b\nopset - 17\nb = Relu a\nendfunc\ny z = d:f/s x",
         "m.onnx: node 's' (f): error: the call takes 2 outputs, but the function has 1"},
        {FUNCTIONS "func d f a -> b\nopset - 17\nb = Relu a\nendfunc\ny = d:f/s x @k=i,1",
         "m.onnx: node 's' (f): error: the function has no attribute 'k'"},
        {FUNCTIONS "func d f a -> b\nopset - 17\nc = Relu a\nendfunc\ny = d:f/s x",
         "m.onnx: node 's' (f): error: the function does not compute its output 'b'"},
        {FUNCTIONS "func d f a -> b\nb = Relu/q a\nendfunc\ny = d:f/s x",
         "m.onnx: node 'q' (Relu): error: no opset_import for the operator's domain 'ai.onnx'\n"
         "  in function 'f' called by node 's' (f)"},
        {FUNCTIONS "func d f a -> b\nopset - 17\nb = Relu/q x\nendfunc\ny = d:f/s x",
         "m.onnx: node 'q' (Relu-14): error: 'x' is not defined: it is not an input, an initializer or the "
         "output of a node\n  in function 'f' called by node 's' (f)"},
    };
    CHECK_BAD(table);
}

static void bad_types(void **state) {
    (void)state;
    static const bad table[] = {
        {"in x float 4\ny = Softmax/a x @axis=i,1\nout y",
         "m.onnx: node 'a' (Softmax-13): error: axis 1 is outside [-1, 0]", DIAG_USER, true},
        {"in x float 1 1 3 3\nin w float 1 1 5 5\ny = Conv/a x w\nout y",
         "m.onnx: node 'a' (Conv-11): error: the kernel has size 5 on spatial axis 0, but the padded image "
         "has "
         "size 3",
         DIAG_USER, true},
        {"in x bool 4\ny = Abs/a x\nout y",
         "m.onnx: node 'a' (Abs-13): error: input X ('x') is bool; allowed: float, uint8, int8, uint16, "
         "int16, "
         "int32, int64, float16, double, uint32, uint64, bfloat16",
         DIAG_USER, true},
        {"in x float 4\nin z int64 4\ny = Add/a x z\nout y",
         "m.onnx: node 'a' (Add-14): error: input B ('z') is int64, but input A ('x') is float; both must "
         "have the "
         "same type (T)",
         DIAG_USER, true},
        {"in i int64 2\nin d int64\nin v float 3\ny = OneHot/a i d v\nout y",
         "m.onnx: node 'a' (OneHot-11): error: the number of values, which must be 2: 3 is not 2", DIAG_USER,
         true},
        {"in x float 4\nin z float 5\ny = Add/a x z\nout y",
         "m.onnx: node 'a' (Add-14): error: cannot broadcast: sizes 4 and 5 at axis 0; 'x' is float[4], 'z' "
         "is float[5]",
         DIAG_USER, true},
        {"in x float 4\ny = Relu/a x\nout y int64 4",
         "m.onnx: node 'a' (Relu-14): error: output Y ('y') is declared as int64[4], but is float[4]",
         DIAG_USER, true},
    };
    CHECK_BAD(table);
}

static void declared_shapes_give_way(void **state) {
    (void)state;
    report *r = new_report();
    r->diag.remarks = true;
    module *m =
        import_text(r, "in x float N 4\ny = Relu/a x\nz = Relu/b y\nvi y float 4\nout z float 7", NULL, true);
    assert_non_null(m);
    assert_string_equal(type_text(r->arena, &m->main->outputs.at[0]->type), "float[N, 4]");
    expect(r, DIAG_OK,
           "m.onnx: node 'a' (Relu-14): remark: output Y ('y') is declared as float[4], but is float[N, "
           "4]; the "
           "declaration is ignored\n"
           "m.onnx: node 'b' (Relu-14): warning: output Y ('z') is declared as float[7], but is float[N, "
           "4]; the "
           "declaration is ignored [-Wdeclared-type]");
}

static void nodes_may_be_in_any_order(void **state) {
    (void)state;
    report *r = new_report();
    module *m = import_text(
        r, "in x float 1\nw = Add/d z y\nz = Relu/b y\ny = Relu/a x\nv = Relu/c x\nout w\nout v", NULL, true);
    assert_non_null(m);
    text t = {.arena = r->arena};
    for (int i = 0; i < m->main->nodes.n; i++) text_add(&t, m->main->nodes.at[i]->loc->node);
    assert_string_equal(text_str(&t), "abdc");
    expect(r, DIAG_OK, "");
}

static void outer_values_of_regions_may_be_computed_later(void **state) {
    (void)state;
    report *r = new_report();
    module *m = import_text(r,
                            "in x float 4\nin c bool\nsub\nt = Relu y\nout t\nendsub\n"
                            "z = If/b c @then_branch=g, @else_branch=g,\ny = Relu/a x\nout z",
                            NULL, true);
    assert_non_null(m);
    assert_string_equal(m->main->nodes.at[0]->loc->node, "a");
    expect(r, DIAG_OK, "");
}

static void unknown_sizes_become_checks(void **state) {
    (void)state;
    report *r = new_report();
    module *m = import_text(r, "in x float N 4\nin z float M 4\ny = MatMul x z\nw = Add/b x z\nout y\nout w",
                            NULL, true);
    assert_non_null(m);
    text t = {.arena = r->arena};
    for (int i = 0; i < m->checks.n; i++)
        text_printf(&t, "%s: %s = %s; ", m->checks.at[i].at->op, dim_text(r->arena, m->checks.at[i].a),
                    dim_text(r->arena, m->checks.at[i].b));
    assert_string_equal(text_str(&t), "MatMul: 4 = M; Add: select(eq(M, 1), select(eq(N, 1), M, N), M) = "
                                      "select(eq(N, 1), M, N); ");
    expect(r, DIAG_OK, "");
}

// A tensor of unknown rank takes its shape from the declaration; named sizes in it are tied to nothing.
static void unknown_ranks_take_the_declared_shape(void **state) {
    (void)state;
    report *r = new_report();
    module *m = import_text(
        r, "in x float *\ny = Relu x\nz = Softmax x\nvi y float 2 N\nw = Add y y\nout w\nout z", NULL, true);
    assert_non_null(m);
    const type *w = &m->main->outputs.at[0]->type;
    assert_int_equal(w->rank, 2);
    assert_true(dim_is(w->dims[0], 2));
    assert_int_equal(w->dims[1]->kind, DIM_OPAQUE);
    assert_int_equal(m->main->outputs.at[1]->type.rank, RANK_UNKNOWN);
    infer_graph(m->main); // again, with the same result
    assert_ptr_equal(m->main->outputs.at[0]->type.dims[1], w->dims[1]);
    expect(r, DIAG_OK, "");
}

static void nesting_is_limited(void **state) {
    (void)state;
    report *r = new_report();
    text t = {.arena = r->arena};
    text_add(&t, "opset - 17\nopset d 1\nin x float 4\nfunc d f0 a -> b\nopset - 17\nb = Relu a\nendfunc\n");
    for (int i = 1; i <= 200; i++) text_printf(&t, "func d f%d a -> b\nb = d:f%d/n a\nendfunc\n", i, i - 1);
    text_add(&t, "y = d:f200/top x\nout y");
    assert_null(import_text(r, text_str(&t), NULL, false));
    assert_non_null(strstr(text_str(&r->text),
                           "m.onnx: node 'n' (f0): error: functions and subgraphs are nested "
                           "more than 200 deep\n  in function 'f1' called by node 'n' (f1)\n"));
    arena_destroy(r->arena);
}

static void models_without_graph(void **state) {
    (void)state;
    report *r = new_report();
    jmp_buf jump;
    if (DIAG_TRY(&r->diag, jump))
        import_onnx_memory(r->arena, &r->diag, "m.onnx", NULL, "\x08\x08\x42\x02\x10\x11", 6, NULL);
    expect(r, DIAG_USER, "m.onnx: error: the model has no graph");
}

static void too_many_nodes(void **state) {
    (void)state;
    report *r = new_report();
    // Each function calls the one before twice.
    text t = {.arena = r->arena};
    text_add(&t,
             "opset - 17\nopset d 1\nin x float 4\nfunc d f0 a -> b\nopset - 17\nb = Relu/leaf a\nendfunc\n");
    for (int i = 1; i < 40; i++)
        text_printf(&t, "func d f%d a -> b\nc = d:f%d/left a\nb = d:f%d/right c\nendfunc\n", i, i - 1, i - 1);
    text_add(&t, "y = d:f39/top x\nout y");
    import_options options = {.max_nodes = 20};
    assert_null(import_text(r, text_str(&t), &options, false));
    assert_non_null(strstr(text_str(&r->text),
                           "error: the model has more than 20 nodes once its functions are "
                           "inlined\n  in function 'f20' called by node 'left' (f20)\n"));
    arena_destroy(r->arena);
}

// ---- What becomes of right models

static module *import_good(report *r, const char *model) {
    module *m = import_text(r, model, NULL, false);
    assert_string_equal(text_str(&r->text), "");
    assert_non_null(m);
    return m;
}

static void functions_are_inlined(void **state) {
    (void)state;
    report *r = new_report();
    module *m =
        import_good(r, "opset - 17\nopset d 1\nin x float 4\n"
                       "func d leaky a -> b @alpha\nopset - 16\nb = LeakyRelu/in a @alpha=r,alpha\nendfunc\n"
                       "func d twice a -> b @slope=f,0.5\nopset d 1\n"
                       "c = d:leaky/first a @alpha=r,slope\nb = d:leaky/second c\nendfunc\n"
                       "y = d:twice/one x\nz = d:twice/two y @slope=f,0.25\nc = Relu z\nout z\nout c");
    assert_int_equal(m->main->nodes.n, 5);
    static const double alphas[] = {0.5, 0.01, 0.25, 0.01};
    for (int i = 0; i < 4; i++) {
        const node *n = m->main->nodes.at[i];
        assert_string_equal(n->op->name, "LeakyRelu");
        assert_true(node_float(n, "alpha", 0) == (double)(float)alphas[i]);
        assert_string_equal(n->loc->graph, "leaky");
        assert_string_equal(n->loc->via->node, i % 2 ? "second" : "first");
        assert_string_equal(n->loc->via->via->node, i < 2 ? "one" : "two");
    }
    assert_string_equal(m->main->nodes.at[0]->out[0]->name, "twice/c"); // the main graph has a 'c' of its own
    assert_string_equal(m->main->nodes.at[1]->out[0]->name, "y");
    assert_string_equal(m->main->output_names.at[0], "z");
    assert_ptr_equal(m->main->nodes.at[3]->out[0], m->main->outputs.at[0]);
    arena_destroy(r->arena);
}

static void functions_may_lack_inputs_and_pass_them_through(void **state) {
    (void)state;
    report *r = new_report();
    module *m = import_good(r, "opset - 17\nopset d 1\nin x float 4\n"
                               "func d clip a lo hi -> b a\nopset - 17\nb = Clip a lo hi\nendfunc\n"
                               "y same = d:clip x\nout y\nout same");
    const node *n = m->main->nodes.at[0];
    assert_int_equal(m->main->nodes.n, 1);
    assert_null(node_in(n, 1));
    assert_ptr_equal(m->main->outputs.at[1], m->main->inputs.at[0]);
    assert_string_equal(m->main->output_names.at[1], "same");
    arena_destroy(r->arena);
}

static void regions_see_outer_values(void **state) {
    (void)state;
    report *r = new_report();
    module *m = import_good(r, "in x float 4\nin c bool\nsub\nt = Relu x\nout t\nendsub\n"
                               "y = If c @then_branch=g, @else_branch=g,\nout y");
    graph *then = node_graph(m->main->nodes.at[0], "then_branch");
    assert_ptr_equal(then->outer, m->main);
    assert_ptr_equal(then->owner, m->main->nodes.at[0]);
    assert_ptr_equal(then->nodes.at[0]->in[0], m->main->inputs.at[0]);
    assert_ptr_not_equal(then, node_graph(m->main->nodes.at[0], "else_branch"));
    arena_destroy(r->arena);
}

static void initializers_among_inputs_are_constants(void **state) {
    (void)state;
    static const char model[] =
        "ir %d\nin x float 2\nin w float 2\ninit w float 2 = float 1 2\ny = Add x w\nout y";
    for (int ir = 3; ir <= 4; ir++) {
        report *r = new_report();
        r->diag.remarks = true;
        module *m = import_text(r, arena_printf(r->arena, model, ir), NULL, false);
        assert_int_equal(m->main->inputs.n, 1);
        assert_true(constant_float(m->main->nodes.at[0]->in[1]->constant, 1) == 2);
        expect(r, DIAG_OK,
               ir == 3 ? ""
                       : "m.onnx: remark: input 'w' has a default value and is compiled as a constant; "
                         "--override=w makes it an input that callers may leave out");
    }
}

static void tensors_of_every_form(void **state) {
    (void)state;
    report *r = new_report();
    module *m = import_good(
        r, "in x float 1\nout x\ninit a float16 2 = int32 15360 49152\ninit b int8 2 = int32 -3 5\n"
           "init c int4 3 = int32 33 15\ninit d bool 2 = int32 0 7\ninit e uint32 1 = uint64 4294967295\n"
           "init f double 1 = double 0.1\ninit g int64 = int64 -9\ninit h float 0 3\ninit i string 2 = "
           "string ab c\n"
           "init j uint2 4 = int32 228\ninit k float8e4m3fn 1 = int32 56\ninit l bfloat16 1 = int32 16256\n"
           "init m uint64 1 = uint64 18446744073709551615\ninit n float 300 = raw 1200\nsparse o int32 2 3 = "
           "1 0 4\nsparse p int16 2 3 = 1 2 1 2");
#define CONSTANT(name) (((const value *)map_get(&m->names, name))->constant)
    assert_true(constant_float(CONSTANT("a"), 0) == 1 && constant_float(CONSTANT("a"), 1) == -2);
    assert_true(constant_int(CONSTANT("b"), 0) == -3 && constant_int(CONSTANT("b"), 1) == 5);
    assert_int_equal(constant_int(CONSTANT("c"), 0), 1);
    assert_int_equal(constant_int(CONSTANT("c"), 1), 2);
    assert_int_equal(constant_int(CONSTANT("c"), 2), -1);
    assert_true(!constant_int(CONSTANT("d"), 0) && constant_int(CONSTANT("d"), 1) == 1);
    assert_int_equal(constant_int(CONSTANT("e"), 0), 4294967295);
    assert_true(constant_float(CONSTANT("f"), 0) == 0.1);
    assert_int_equal(constant_int(CONSTANT("g"), 0), -9);
    assert_int_equal(CONSTANT("h")->count, 0);
    assert_string_equal(CONSTANT("i")->strings[0], "ab");
    for (int i = 0; i < 4; i++) assert_int_equal(constant_int(CONSTANT("j"), i), i);
    assert_true(constant_float(CONSTANT("k"), 0) == 1 && constant_float(CONSTANT("l"), 0) == 1);
    assert_int_equal(constant_int(CONSTANT("m"), 0), -1);
    assert_int_equal(CONSTANT("n")->count, 300);
    assert_int_equal(constant_int(CONSTANT("o"), 4), 0x01010101);
    assert_int_equal(constant_int(CONSTANT("o"), 3), 0);
    assert_int_equal(constant_int(CONSTANT("p"), 5), 0x0101);
    arena_destroy(r->arena);
}

static void defaults_are_filled_in(void **state) {
    (void)state;
    report *r = new_report();
    module *m = import_good(r, "in x float 2 3\ny = Gemm x x @alpha=f,0.5\nout y");
    const node *n = m->main->nodes.at[0];
    assert_true(node_float(n, "alpha", 0) == 0.5 && node_float(n, "beta", 0) == 1);
    assert_int_equal(node_attr(n, "transA")->kind, ATTR_INT);
    arena_destroy(r->arena);
}

// ---- The schema table

static void schema_lookups(void **state) {
    (void)state;
    const schema_op *op = schema_find("", "Clip");
    assert_int_equal(schema_for_opset(op, 10)->since, 6);
    assert_int_equal(schema_for_opset(op, 11)->since, 11);
    assert_null(schema_for_opset(schema_find("", "HardSwish"), 13));
    assert_null(schema_find("", "Clap"));
    assert_null(schema_find("ai.onnx.ml", "Clip"));
    assert_int_equal(schema_newest_opset(""), 28);
    assert_int_equal(schema_newest_opset("com.example"), 0);
    for (int i = 0; i < schema_count(); i++)
        assert_ptr_equal(schema_find(schema_at(i)->domain, schema_at(i)->name), schema_at(i));
    assert_string_equal(schema_for_opset(op, 6)->attrs[0].def, "3.40282347e+38");
}

// ---- Files

static char folder[] = "/tmp/onnxc-import-XXXXXX";

static const char *file_named(arena *a, const char *name) { return arena_printf(a, "%s/%s", folder, name); }

static void write_file(arena *a, const char *name, const void *data, size_t size) {
    FILE *f = fopen(file_named(a, name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

static module *import_named(report *r, const char *name, const import_options *options) {
    jmp_buf jump;
    r->diag.file = NULL;
    if (!DIAG_TRY(&r->diag, jump)) return NULL;
    return import_onnx_file(r->arena, &r->diag, file_named(r->arena, name), options);
}

// Messages have the test's own folder as "@".
static void expect_named(report *r, diag_class class, const char *expected) {
    text t = {.arena = r->arena};
    for (const char *s = text_str(&r->text); *s;) {
        bool here = strncmp(s, folder, strlen(folder)) == 0;
        text_addn(&t, here ? "@" : s, 1);
        s += here ? strlen(folder) : 1;
    }
    assert_string_equal(text_str(&t), expected);
    assert_int_equal(r->diag.class, class);
    arena_destroy(r->arena);
}

static void wrong_kinds_of_file(void **state) {
    (void)state;
#define NO       "@/f: error: not an ONNX model: this is "
#define F(bytes) bytes, sizeof bytes - 1
    static const struct kind {
        const char *bytes;
        size_t size;
        const char *message;
        diag_class class;
    } kinds[] = {
        {F(""), "@/f: error: the file is empty", DIAG_USER},
        {F("version https://git-lfs.github.com/spec/v1\noid sha256:0"),
         NO "a Git-LFS pointer, not the file itself\nhint: 'git lfs pull' fetches the file", DIAG_USER},
        {F("\n<!DOCTYPE html><html>"),
         NO
         "an HTML page\nhint: the download may have needed a login, or the link led to a page about the file",
         DIAG_USER},
        {F("<?xml version"), NO "an XML file", DIAG_USER},
        {F("PK\3\4......archive/data.pkl"),
         NO "a PyTorch checkpoint\nhint: export the model with torch.onnx.export", DIAG_USER},
        {F("PK\3\4......x.txt"), NO "a zip archive\nhint: unzip it first", DIAG_USER},
        {F("\x80\x02}q\x00"),
         NO "a Python pickle, perhaps a PyTorch or scikit-learn model\nhint: export the model to ONNX first "
            "(torch.onnx.export, skl2onnx)",
         DIAG_USER},
        {F("\x1c\0\0\0TFL3"),
         NO "a TensorFlow Lite model\nhint: tf2onnx converts it: python -m tf2onnx.convert --tflite FILE",
         DIAG_USER},
        {F("\x28\0\0\0ORTM"),
         NO "a model in ONNX Runtime's own format\nhint: compile the .onnx file that it was made from",
         DIAG_USER},
        {F("\x0a\0\0\0\0\0\0\0{\"a\":1}   "),
         NO "a safetensors file, which has weights but no graph\nhint: export the model to ONNX first",
         DIAG_USER},
        {F("\x1f\x8b\x08"), NO "compressed with gzip\nhint: gunzip it first", DIAG_USER},
        {F("{\"irVersion\": 8}"), "@/f: error: the model has no graph", DIAG_USER},
        {F("<\n  ir_version: 8,\n"), "@/f: error: line 3, column 1: expected a word", DIAG_USER},
        {F("ir_version: 8\n"), "@/f: error: the model has no graph", DIAG_USER},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        report *r = new_report();
        write_file(r->arena, "f", kinds[i].bytes, kinds[i].size);
        assert_null(import_named(r, "f", NULL));
        expect_named(r, kinds[i].class, kinds[i].message);
    }
}

static void only_regular_files(void **state) {
    (void)state;
    report *r = new_report();
    assert_null(import_named(r, "none", NULL));
    expect_named(r, DIAG_USER, "onnxc: error: cannot read '@/none': No such file or directory");
    r = new_report();
    assert_null(import_named(r, ".", NULL));
    expect_named(r, DIAG_USER, "onnxc: error: cannot read '@/.': it is a folder, not a regular file");
    r = new_report();
    mkfifo(file_named(r->arena, "pipe"), 0600);
    assert_null(import_named(r, "pipe", NULL));
    expect_named(r, DIAG_USER, "onnxc: error: cannot read '@/pipe': it is a pipe, not a regular file");
    r = new_report();
    write_file(r->arena, "f", "12345", 5);
    assert_null(import_named(r, "f", &(import_options){.max_file = 4}));
    expect_named(r, DIAG_USER, "onnxc: error: cannot read '@/f': it has 5 bytes, the limit is 4");
}

static void write_model(report *r, const char *name, const char *model) {
    size_t size;
    const uint8_t *data = build_model(r->arena, model, &size);
    write_file(r->arena, name, data, size);
}

#define EXTERNAL(entries) "in x float 2\ninit w float 2 = ext " entries "\ny = Add x w\nout y"

static void external_data(void **state) {
    (void)state;
    report *r = new_report();
    static const float data[] = {0, 1, 2, 3};
    file_list files = {0};
    mkdir(file_named(r->arena, "sub"), 0700);
    write_file(r->arena, "sub/w.bin", data, sizeof data);
    write_model(r, "m.onnx", EXTERNAL("location=sub/w.bin offset=8 length=8"));
    module *m = import_named(r, "m.onnx", &(import_options){.files = &files});
    assert_non_null(m);
    assert_true(constant_float(m->main->nodes.at[0]->in[1]->constant, 0) == 2);
    assert_int_equal(files.n, 2);
    assert_string_equal(files.at[0], file_named(r->arena, "m.onnx"));
    assert_string_equal(files.at[1], file_named(r->arena, "sub/w.bin"));
    expect_named(r, DIAG_OK, "");
}

// A model behind a link finds its data beside the link and beside what the link leads to.
static void external_data_behind_links(void **state) {
    (void)state;
    report *r = new_report();
    static const float data[] = {4, 5};
    mkdir(file_named(r->arena, "blobs"), 0700);
    mkdir(file_named(r->arena, "view"), 0700);
    write_file(r->arena, "blobs/1", data, sizeof data);
    write_model(r, "blobs/2", EXTERNAL("location=w.bin"));
    symlink("../blobs/2", file_named(r->arena, "view/m.onnx"));
    symlink("../blobs/1", file_named(r->arena, "view/w.bin"));
    module *m = import_named(r, "view/m.onnx", NULL);
    assert_non_null(m);
    assert_true(constant_float(m->main->nodes.at[0]->in[1]->constant, 1) == 5);
    expect_named(r, DIAG_OK, "");
}

static void bad_external_data(void **state) {
    (void)state;
    static const struct external {
        const char *model, *message;
    } table[] = {
        {EXTERNAL("location=/etc/passwd"),
         "@/m.onnx: error: external data has an absolute location, '/etc/passwd'"},
        {EXTERNAL("location=../w.bin"),
         "@/m.onnx: error: external data has '..' in its location, '../w.bin'"},
        {EXTERNAL("location="), "@/m.onnx: error: external data has an empty location"},
        {EXTERNAL("location=none.bin"),
         "@/m.onnx: error: external data 'none.bin' does not exist\nhint: external data is searched for in "
         "the model's folder; --external-data-dir DIR adds another"},
        {EXTERNAL("location=out.bin"),
         "@/m.onnx: error: external data 'out.bin' is a link that leads out of the model's folder"},
        {EXTERNAL("location=sub"),
         "@/m.onnx: error: cannot read '@/sub': it is a folder, not a regular file"},
        {EXTERNAL("location=pipe"),
         "@/m.onnx: error: cannot read '@/pipe': it is a pipe, not a regular file"},
        {EXTERNAL("location=w.bin offset=-1"),
         "@/m.onnx: error: tensor 'w': the offset of its external data is '-1', not a number"},
        {EXTERNAL("location=w.bin length=9"),
         "@/m.onnx: error: tensor 'w': external data has 9 bytes; 2 elements of float take 8"},
        {EXTERNAL("location=w.bin offset=4"),
         "@/m.onnx: error: tensor 'w': 8 bytes at byte 4 of its external data 'w.bin', which has only 8"},
        {EXTERNAL("location=w.bin offset=18446744073709551615"),
         "@/m.onnx: error: tensor 'w': 8 bytes at byte 18446744073709551615 of its external data 'w.bin', "
         "which "
         "has only 8"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        report *r = new_report();
        mkdir(file_named(r->arena, "sub"), 0700);
        mkfifo(file_named(r->arena, "pipe"), 0600);
        symlink("/etc/passwd", file_named(r->arena, "out.bin"));
        write_file(r->arena, "w.bin", "12345678", 8);
        write_model(r, "m.onnx", table[i].model);
        assert_null(import_named(r, "m.onnx", NULL));
        r->diag.file = NULL;
        expect_named(r, DIAG_USER, table[i].message);
    }
}

static void value_files(void **state) {
    (void)state;
    report *r = new_report();
    jmp_buf jump;
    Onnx__TensorProto t = ONNX__TENSOR_PROTO__INIT;
    Onnx__OptionalProto o = ONNX__OPTIONAL_PROTO__INIT;
    Onnx__SequenceProto s = ONNX__SEQUENCE_PROTO__INIT, *const no_items = &s;
    uint8_t bytes[256];
    int64_t three = 3, values[] = {7, 8, 9};
    Onnx__TensorProto *tensors[] = {&t, &t};
    t.name = "x", t.has_data_type = 1, t.data_type = DT_I64;
    t.n_dims = 1, t.dims = &three, t.n_int64_data = 3, t.int64_data = values;
    assert_true(DIAG_TRY(&r->diag, jump));
    write_file(r->arena, "v.pb", bytes, onnx__tensor_proto__pack(&t, bytes));
    import_value *v = import_value_file(r->arena, &r->diag, file_named(r->arena, "v.pb"), TYPE_TENSOR);
    assert_string_equal(v->name, "x");
    assert_int_equal(constant_int(v->tensor, 2), 9);
    write_file(r->arena, "o.pb", bytes, onnx__optional_proto__pack(&o, bytes));
    v = import_value_file(r->arena, &r->diag, file_named(r->arena, "o.pb"), TYPE_OPTIONAL);
    assert_int_equal(v->n, 0);
    write_file(r->arena, "e.pb", bytes, onnx__sequence_proto__pack(no_items, bytes));
    v = import_value_file(r->arena, &r->diag, file_named(r->arena, "e.pb"), TYPE_SEQUENCE);
    assert_int_equal(v->n, 0);
    s.n_tensor_values = 2, s.tensor_values = tensors;
    write_file(r->arena, "s.pb", bytes, onnx__sequence_proto__pack(&s, bytes));
    v = import_value_file(r->arena, &r->diag, file_named(r->arena, "s.pb"), TYPE_SEQUENCE);
    assert_int_equal(v->n, 2);
    assert_int_equal(constant_int(v->items[1].tensor, 0), 7);
    expect(r, DIAG_OK, "");
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_headers),
        cmocka_unit_test(bad_names),
        cmocka_unit_test(bad_operators),
        cmocka_unit_test(bad_attributes),
        cmocka_unit_test(bad_tensors),
        cmocka_unit_test(bad_functions),
        cmocka_unit_test(bad_types),
        cmocka_unit_test(declared_shapes_give_way),
        cmocka_unit_test(unknown_sizes_become_checks),
        cmocka_unit_test(unknown_ranks_take_the_declared_shape),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(models_without_graph),
        cmocka_unit_test(too_many_nodes),
        cmocka_unit_test(functions_are_inlined),
        cmocka_unit_test(functions_may_lack_inputs_and_pass_them_through),
        cmocka_unit_test(regions_see_outer_values),
        cmocka_unit_test(nodes_may_be_in_any_order),
        cmocka_unit_test(outer_values_of_regions_may_be_computed_later),
        cmocka_unit_test(initializers_among_inputs_are_constants),
        cmocka_unit_test(tensors_of_every_form),
        cmocka_unit_test(defaults_are_filled_in),
        cmocka_unit_test(schema_lookups),
        cmocka_unit_test(wrong_kinds_of_file),
        cmocka_unit_test(only_regular_files),
        cmocka_unit_test(external_data),
        cmocka_unit_test(external_data_behind_links),
        cmocka_unit_test(bad_external_data),
        cmocka_unit_test(value_files),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
