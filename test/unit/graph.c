// Graphs: building, editing, uses, the verifier, and text there and back.
#include "ir/graph/graph.h"
#include "ir/graph/op.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

typedef struct fixture {
    arena *a;
    diag d;
    module *m;
    const char *message;
    jmp_buf jump;
} fixture;

static void record(void *user, const diag_message *message) { ((fixture *)user)->message = message->full; }

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    f->a = arena_new();
    f->d = (diag){.arena = f->a, .sink = record, .user = f, .file = "m.onnx"};
    f->m = module_new(f->a, &f->d, "m.onnx");
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    arena_destroy(f->a);
    free(f);
    return 0;
}

static type vector(fixture *f, const char *size) {
    return type_tensor(f->a, DT_F32, 1, (dim *[]){dim_parse(f->m->dims, size)});
}

static node *add_node(graph *g, const char *op, value *x, value *y) {
    return node_new(g, NULL, op_find("", op), NULL, y ? 2 : 1, (value *[]){x, y});
}

static value *typed_output(fixture *f, node *n, const char *name) {
    value *v = node_output(n, n->nout, name);
    v->type = vector(f, "N");
    return v;
}

static void names_are_unique(void **state) {
    fixture *f = *state;
    graph *g = graph_new(f->m, NULL, "main");
    assert_ptr_equal(f->m->main, g);
    assert_string_equal(value_new(g, "x")->name, "x");
    assert_string_equal(value_new(g, "x")->name, "x_1");
    assert_string_equal(value_new(g, "x_2")->name, "x_2");
    assert_string_equal(value_new(g, "x")->name, "x_3");
    assert_string_equal(value_new(g, NULL)->name, "v4");
}

static void uses_follow_edits(void **state) {
    fixture *f = *state;
    graph *g = graph_new(f->m, NULL, "main");
    value *x = graph_add_input(g, "x", vector(f, "N")), *y = graph_add_input(g, "y", vector(f, "N"));
    node *n = add_node(g, "Add", x, x);
    value *z = typed_output(f, n, "z");
    graph_add_output(g, z);
    graph_add_output(g, x);
    assert_int_equal(value_uses(x), 3);
    node_set_in(n, 1, y);
    assert_int_equal(value_uses(x), 2);
    assert_int_equal(value_uses(y), 1);
    node_set_in(n, 4, x);
    assert_int_equal(n->nin, 5);
    assert_null(n->in[2]);
    graph_verify(f->m);
    node_set_nin(n, 2);
    graph_verify(f->m);
    node_set_nin(n, 5);
    assert_null(n->in[4]);
    node_set_in(n, 4, x);
    graph_verify(f->m);
    value_replace(x, y);
    assert_int_equal(value_uses(x), 0);
    assert_int_equal(value_uses(y), 4);
    assert_ptr_equal(g->outputs.at[1], y);
    assert_string_equal(g->output_names.at[1], "x");
    graph_verify(f->m);
    graph_set_output(g, 0, x);
    node_delete(n);
    assert_int_equal(value_uses(y), 1);
    assert_int_equal(g->nodes.n, 0);
    assert_string_equal(value_new(g, "z")->name, "z");
    graph_verify(f->m);
}

static void regions_go_with_their_node(void **state) {
    fixture *f = *state;
    graph *g = graph_new(f->m, NULL, "main");
    value *x = graph_add_input(g, "x", vector(f, "N"));
    node *n = add_node(g, "If", x, NULL);
    graph *body = graph_new(f->m, g, "body");
    value *inner = typed_output(f, add_node(body, "Relu", x, NULL), "inner");
    graph_add_output(body, inner);
    node_set_attr(n, (attr){.name = "then_branch", .kind = ATTR_GRAPH, .graph = body});
    typed_output(f, n, "y");
    assert_ptr_equal(body->owner, n);
    assert_int_equal(value_uses(x), 2);
    graph_verify(f->m);
    node *moved = body->nodes.at[0];
    graph_set_output(body, 0, x);
    node_move(moved, g, n);
    assert_int_equal(node_place(moved), 0);
    assert_ptr_equal(node_next(moved), n);
    assert_ptr_equal(moved->out[0]->graph, g);
    graph_verify(f->m);
    node_remove_attr(n, "then_branch");
    assert_int_equal(value_uses(x), 2);
    node_delete(n);
    node_delete(moved);
    assert_int_equal(value_uses(x), 0);
    graph_verify(f->m);
}

static void long_chains_are_edited_in_linear_time(void **state) {
    fixture *f = *state;
    graph *g = graph_new(f->m, NULL, "main");
    value *x = graph_add_input(g, "x", vector(f, "N")), *v = x;
    enum { LENGTH = 20000 };
    for (int i = 0; i < LENGTH; i++) v = typed_output(f, add_node(g, "Add", v, x), "same name");
    graph_add_output(g, v);
    for (int i = 0; i < LENGTH; i++) {
        node *n = f->m->nodes.at[i], *made = node_new(g, n, n->op, n->loc, 2, n->in);
        value *out = node_output(made, 0, NULL);
        out->type = n->out[0]->type;
        value_replace(n->out[0], out);
        if (i % 2) node_delete(n);
    }
    assert_int_equal(g->nodes.n, LENGTH + LENGTH / 2);
    graph_verify(f->m);
}

static void attributes_are_typed(void **state) {
    fixture *f = *state;
    graph *g = graph_new(f->m, NULL, "main");
    node *n = node_new(g, NULL, op_find("", "Add"), &(loc){.node = "n", .op = "Add", .version = 14}, 0, NULL);
    assert_int_equal(node_int(n, "axis", 7), 7);
    node_set_attr(n, (attr){.name = "axis", .kind = ATTR_INT, .i = -1});
    node_set_attr(n, (attr){.name = "axis", .kind = ATTR_INT, .i = -2});
    assert_int_equal(n->nattrs, 1);
    assert_int_equal(node_int(n, "axis", 7), -2);
    if (DIAG_TRY(&f->d, f->jump)) {
        node_float(n, "axis", 0);
        fail();
    }
    assert_string_equal(f->message, "m.onnx: node 'n' (Add-14): error: attribute 'axis' must be a float");
    node_remove_attr(n, "axis");
    assert_null(node_attr(n, "axis"));
}

// ---- The verifier.

static void break_use(fixture *f) { f->m->main->nodes.at[0]->in[0] = f->m->main->inputs.at[1]; }
static void break_order(fixture *f) {
    node **at = f->m->main->nodes.at, *first = at[0];
    at[0] = at[1];
    at[1] = first;
}
static void break_def(fixture *f) { f->m->main->nodes.at[0]->out[0]->def_index = 3; }
static void break_dims(fixture *f) { f->m->main->inputs.at[0]->type.dims[0] = NULL; }
static void break_name(fixture *f) { f->m->main->inputs.at[0]->name = "y"; }
static void break_list(fixture *f) { VEC_PUSH(f->a, &f->m->main->nodes, f->m->main->nodes.at[0]); }
static void break_outputs(fixture *f) { f->m->main->outputs.n = 0; }
static void break_scope(fixture *f) {
    graph *inner = graph_new(f->m, f->m->main, "inner");
    value *v = graph_add_input(inner, "v", vector(f, "N"));
    node_set_in(f->m->main->nodes.at[0], 0, v);
}
static void break_attr(fixture *f) {
    node_set_attr(f->m->main->nodes.at[0], (attr){.name = "a", .kind = ATTR_INTS, .n = 2});
}

static bool is_sound(fixture *f) {
    if (!DIAG_TRY(&f->d, f->jump)) return false;
    graph_verify(f->m);
    return true;
}

static void the_verifier_finds_what_is_broken(void **state) {
    (void)state;
    static void (*const breakers[])(fixture *) = {break_use,     break_order, break_def,
                                                  break_dims,    break_name,  break_list,
                                                  break_outputs, break_scope, break_attr};
    for (size_t i = 0; i < sizeof breakers / sizeof *breakers; i++) {
        fixture *f;
        set_up((void **)&f);
        graph *g = graph_new(f->m, NULL, "main");
        value *x = graph_add_input(g, "x", vector(f, "N")), *y = graph_add_input(g, "y", vector(f, "N"));
        value *z = typed_output(f, add_node(g, "Add", x, y), "z");
        graph_add_output(g, typed_output(f, add_node(g, "Relu", z, NULL), "r"));
        graph_verify(f->m);
        breakers[i](f);
        if (is_sound(f)) fail_msg("breaker %zu is not found", i);
        assert_int_equal(f->d.class, DIAG_DEFECT);
        tear_down((void **)&f);
    }
}

// ---- Text.

static module *parse(fixture *f, const char *text) {
    if (DIAG_TRY(&f->d, f->jump)) return graph_parse(f->a, &f->d, "m.onnx", text);
    return NULL;
}

static const char whole[] =
    "module \"m \\\"q\\\"\" {\n"
    "  ir_version 13\n"
    "  producer \"p\"\n"
    "  doc \"line\\n\"\n"
    "  metadata \"k\" \"v\"\n"
    "  dim ?nz in 0..5\n"
    "  dim N in 1..64 by 4\n"
    "  graph \"main\"(%x: float[N, 3] doc \"in\", %\"odd name:0\": sequence(optional(float[...])), %c: "
    "bool[]) {\n"
    "    %w = constant float[3] {0.100000001, -inf, nan} doc \"weights\"\n"
    "    %/layer/k = constant int64[2] {-9223372036854775808, 3}\n"
    "    %u = constant uint64[1] {18446744073709551615}\n"
    "    %s = constant string[2] {\"a\\x00b\", \"\"}\n"
    "    %p = constant int4[3] {-8, 7, 0}\n"
    "    %h = constant double[2, 0, 5] {}\n"
    "    %b = constant bool[2] hex \"0102\"\n"
    "    %z = constant float16[1000000] splat 1.5\n"
    "    %n = constant float[] hex \"0100807f\"\n"
    "    %q = constant complex64[] splat hex \"0000803f00000040\"\n"
    "    %a: float[N, 3], _, %a2: float[?nz + floordiv(N, 3)] = Add(%x, _, %w) {axis = -1, alpha = 1.0, "
    "beta = -nan, gamma = bits:7f800001, mode = \"x\\x00y\", k = [1, -2], f = [0.5, 2.0], s = [\"a\"], e = "
    "ints [], "
    "t = tensor int32[1] {5}, y = type map(int64, float[]), \"odd attr\" = 1} at node \"add\" op \"Add\" 7 "
    "graph "
    "\"fn\" via node \"call\" op \"F\" 1\n"
    "    %i: float[...] = If(%c, %/layer/k, %u, %s, %p, %h, %b, %z, %n, %q) {then_branch = graph \"t\"() {\n"
    "      %one = constant float[] {1.0}\n"
    "      %r: none = Relu(%a) at\n"
    "      return %r, %one\n"
    "    }, else_branch = graph \"\"() {\n"
    "      return %a2\n"
    "    }} at file \"other.onnx\"\n"
    "    return %i, %x as \"out\"\n"
    "  }\n"
    "}\n";

static void text_comes_back(void **state) {
    fixture *f = *state;
    module *m = parse(f, whole);
    if (!m) fail_msg("%s", f->message);
    graph_verify(m);
    assert_string_equal(graph_print(f->a, m), whole);
    const node *add = m->main->nodes.at[0];
    assert_int_equal(add->nin, 3);
    assert_null(add->in[1]);
    assert_int_equal(node_attr(add, "mode")->size, 3);
    assert_string_equal(add->loc->via->node, "call");
    const constant *p = add->graph->nodes.at[1]->in[4]->constant;
    assert_int_equal(constant_int(p, 0), -8);
    assert_int_equal(constant_int(p, 1), 7);
}

static void names_of_any_bytes_survive(void **state) {
    fixture *f = *state;
    graph *g = graph_new(f->m, NULL, "g\n\"");
    static const char *const names[] = {"",  "_",  "a b", "//x",         "\xff\x01",
                                        "%", "\"", "\\",  "onnx::Add_1", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        graph_add_output(g, graph_add_input(g, names[i], vector(f, "N + 1")));
    graph_add_input(g, "d", type_tensor(f->a, DT_I8, 1, (dim *[]){dim_symbol(f->m->dims, "a\nb")}));
    value *optional = graph_add_input(g, "e", type_tensor(f->a, DT_F32, 0, NULL));
    optional->fallback = constant_new(f->a, DT_F32, 0, NULL);
    const char *text = graph_print(f->a, f->m);
    module *m = parse(f, text);
    if (!m) fail_msg("%s\n%s", f->message, text);
    assert_string_equal(graph_print(f->a, m), text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(m->main->inputs.at[i]->name, names[i]);
}

static void large_constants_are_bytes(void **state) {
    fixture *f = *state;
    graph *g = graph_new(f->m, NULL, "g");
    constant *c = constant_new(f->a, DT_F32, 1, (int64_t[]){1000});
    for (int i = 0; i < 1000; i++) dtype_store_float(DT_F32, (void *)c->data, i, 1.0 / (i + 1), true);
    graph_add_output(g, value_constant(g, "c", c));
    const char *text = graph_print(f->a, f->m);
    assert_non_null(strstr(text, "hex \""));
    module *m = parse(f, text);
    assert_string_equal(graph_print(f->a, m), text);
    assert_memory_equal(m->main->outputs.at[0]->constant->data, c->data, 4000);
}

// What is learned of dims after types were made does not spoil the round trip.
static void late_bounds_survive(void **state) {
    fixture *f = *state;
    graph *g = graph_new(f->m, NULL, "g");
    graph_add_input(g, "x", vector(f, "min(N, 5) + mod(M, 4)*floordiv(N, 2) + K"));
    dim_bound(dim_symbol(f->m->dims, "N"), 8, 9, 1);
    dim_bound(dim_symbol(f->m->dims, "M"), 0, 100, 4);
    dim_bound(dim_symbol(f->m->dims, "K"), 3, 3, 1);
    const char *text = graph_print(f->a, f->m);
    assert_non_null(strstr(text, "float[8]"));
    assert_string_equal(graph_print(f->a, parse(f, text)), text);
}

static void errors_name_the_line(void **state) {
    fixture *f = *state;
    static const char *const cases[][2] = {
        {"", "line 1: expected 'module'"},
        {"module \"\" {\n graph \"\"() {\n %a: float[] = Relu(%b) at\n return } }",
         "line 3: 'b' is not defined here"},
        {"module \"\" { graph \"\"(%a: float[],\n%a: float[]) { return } }", "line 2: 'a' is defined twice"},
        {"module \"\" { graph \"\"() { Nothing() at return } }", "line 1: operator 'Nothing' is unknown"},
        {"module \"\" { graph \"\"() { %c = constant int8[1] {128} return } }", "the number does not fit"},
        {"module \"\" { graph \"\"() { %c = constant int8[3] {1, 2} return } }",
         "2 elements or bytes are given instead of 3"},
        {"module \"\" { graph \"\"() { %c = constant float[99999999999, 99999999999] splat 1.0 return } }",
         "too large"},
        {"module \"\" { graph \"\"() { %c = constant float[N] splat 1.0 return } }", "needs constant dims"},
        {"module \"\" { graph \"\"(%x: float[N) { return } }", "expected"},
        {"module \"\" { graph \"\"(%x: floaty[N]) { return } }", "'floaty' is not an element type"},
        {"module \"\" { dim N in 5..2 graph \"\"() { return } }", "the range of a dim is empty"},
        {"module \"\" { graph \"\"() { return } } x", "unexpected text"},
        {"module \"\" { graph \"\"() { Relu() {a = 1, a = 2} at return } }", "attribute 'a' is given twice"},
        {"module \"\" { graph \"\"() { Relu() {a = []} at return } }", "an empty list needs its kind"},
        {"module \"a\\x00\" { graph \"\"() { return } }", "a NUL is not allowed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        f->message = "nothing";
        module *m = parse(f, cases[i][0]);
        if (m || !strstr(f->message, cases[i][1])) fail_msg("%s\ngives: %s", cases[i][0], f->message);
    }
}

// A value of a region that is over is not seen any more.
static void scopes_end(void **state) {
    fixture *f = *state;
    static const char text[] =
        "module \"\" { graph \"\"(%c: bool[]) {\n"
        "%i: none = If(%c) {b = graph \"\"() { %r: none = Relu(%c) at return %r }} at\n"
        "return %r } }";
    assert_null(parse(f, text));
    assert_non_null(strstr(f->message, "line 3: 'r' is not defined here"));
}

static const char *nested(fixture *f, int depth) {
    text t = {.arena = f->a};
    text_add(&t, "module \"\" { graph \"\"(%c: bool[]) {");
    for (int i = 0; i < depth; i++) text_add(&t, "If(%c) {b = graph \"\"() {");
    for (int i = 0; i < depth; i++) text_add(&t, "return }} at ");
    text_add(&t, "return } }");
    return text_str(&t);
}

static void nesting_is_bounded(void **state) {
    fixture *f = *state;
    assert_non_null(parse(f, nested(f, 190)));
    assert_null(parse(f, nested(f, 5000)));
    assert_non_null(strstr(f->message, "nested too deeply"));
    // Graphs that are built may be deeper.
    graph *g = graph_new(f->m, NULL, "g");
    value *c = graph_add_input(g, "c", vector(f, "N"));
    for (int i = 0; i < 1000; i++) {
        node *n = add_node(g, "If", c, NULL);
        g = graph_new(f->m, g, "g");
        node_set_attr(n, (attr){.name = "b", .kind = ATTR_GRAPH, .graph = g});
    }
    graph_verify(f->m);
    assert_non_null(graph_print(f->a, f->m));
    node_delete(f->m->main->nodes.at[0]);
    assert_int_equal(value_uses(c), 0);
}

static void read_hostile(arena *a, diag *d, const char *s) {
    jmp_buf jump;
    if (!DIAG_TRY(d, jump)) return;
    module *m = graph_parse(a, d, "m", s);
    graph_verify(m);
    graph_print(a, m);
}

// Broken text gives a message or a sound module, never a crash.
static void broken_text_is_survived(void **state) {
    (void)state;
    uint64_t seed = 7;
    size_t n = strlen(whole);
    for (int round = 0; round < 3000; round++) {
        arena *a = arena_new();
        diag d = {.arena = a};
        char *s = arena_strdup(a, whole);
        for (int k = 0; k < 1 + round % 3; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t at = (seed >> 33) % n, from = (seed >> 20) % n, len = (seed >> 50) % 12;
            if (round % 2) s[at] = "{}()[]\"%,=_-$?0a\n:."[(seed >> 13) % 19];
            else memmove(s + at, whole + from, at + len < n && from + len < n ? len : 0);
        }
        read_hostile(a, &d, s);
        if (d.class == DIAG_DEFECT) fail_msg("%s", s);
        arena_destroy(a);
    }
}

static void types_print(void **state) {
    fixture *f = *state;
    type t = vector(f, "2*N");
    type list = {.kind = TYPE_SEQUENCE, .item = &t},
         pairs = {.kind = TYPE_MAP, .elem = DT_STRING, .item = &list};
    assert_string_equal(type_text(f->a, &pairs), "map(string, sequence(float[2*N]))");
    type unknown = type_tensor(f->a, DT_I4, RANK_UNKNOWN, NULL), scalar = type_tensor(f->a, DT_I4, 0, NULL);
    assert_string_equal(type_text(f->a, &unknown), "int4[...]");
    assert_string_equal(type_text(f->a, &scalar), "int4[]");
    type again = vector(f, "N + N");
    assert_true(type_equal(&t, &again));
    assert_false(type_equal(&unknown, &scalar));
}

static void constants_know_their_contents(void **state) {
    fixture *f = *state;
    graph *g = graph_new(f->m, NULL, "g");
    value *v = value_int64s(g, "v", (int64_t[]){4, -1}, 2);
    assert_int_equal(v->ncontents, 2);
    assert_true(dim_is(v->contents[1], -1));
    assert_true(dim_is(value_int64(g, 9)->contents[0], 9));
    float one = 1.5F;
    constant *c = constant_splat(f->a, DT_F32, 2, (int64_t[]){3, 4}, &one);
    assert_true(constant_float(c, 11) == 1.5 && c->count == 12);
    assert_null(value_constant(g, "c", c)->contents);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(names_are_unique),
        TEST(uses_follow_edits),
        TEST(regions_go_with_their_node),
        TEST(long_chains_are_edited_in_linear_time),
        TEST(attributes_are_typed),
        TEST(the_verifier_finds_what_is_broken),
        TEST(text_comes_back),
        TEST(names_of_any_bytes_survive),
        TEST(large_constants_are_bytes),
        TEST(late_bounds_survive),
        TEST(errors_name_the_line),
        TEST(scopes_end),
        TEST(nesting_is_bounded),
        TEST(broken_text_is_survived),
        TEST(types_print),
        TEST(constants_know_their_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
