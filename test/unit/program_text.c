// Programs as text: broken ones give a message with its line, and what was printed is read back to the same
// text. With arguments, which are models: their programs after lowering and after the last pass are.
#include "compiler/driver/pipeline.h"
#include "ir/kernel/program.h"
#include "passes/passes.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

static const char *const everything =
    "program \"all of it\"\n"
    "dim ?count in 0..7\n"
    "dim ?turn in 0..\n"
    "dim N in 1..64 by 2\n"
    "input x: float[N, 8] else x.default\n"
    "input h: float16[8]\n"
    "input list: uint8[] holds sequence(float[N])\n"
    "const x.default: float[5, 8]\n"
    "const few: int64[3] {1, -2, 3}\n"
    "const same: float[64] layout(0 0:24 last 16) splat 0.5\n"
    "output y: float[N, 8]\n"
    "output state: float16[8] in h\n"
    "temp t: float[N, 8] layout(0 1:4 1 halo 0:1,1 fill -inf gap 1:3)\n"
    "temp \"a b\": bool[] at 64\n"
    "temp flat: float[8*N] view of t + 4\n"
    "heap big: float[?count] on the device\n"
    "workspace 64*N\n"
    "check lt(N, 60): \"N is \\\"large\\\"\"\n"
    "?count := few[2]\n"
    "alloc big\n"
    "kernel all as direct\n"
    "  outer i0 < N\n"
    "    local sum: double[]\n"
    "    local row: float[8]\n"
    "    for j1 < 8\n"
    "      row[j1] = x[i0, (j1 - 1)] if (0 < j1) else -1.0\n"
    "    reduce r2 < 8\n"
    "      s0: double += double(row[r2])\n"
    "      s1 max= row[r2]\n"
    "    sum[] = s0\n"
    "    scan k3 < 8\n"
    "      t[i0, k3] += exp(row[k3]) where (k3 < {N})\n"
    "      s0: int64 = select((s0 < other0), s0, 0) from few[0] merge (s0 + other0)\n"
    "    then\n"
    "    y[i0, 0] = (float(sum[]) + h[0])\n"
    "kernel b\n"
    "  for i0 < 8\n"
    "    state[i0] = round_to(check(h[i0], isnan(h[i0]), \"NaN\"), float8e4m3fn, saturate)\n"
    "if lt(N, 4)\n"
    "  free big\n"
    "else\n"
    "  loop ?turn < 4 while \"a b\"[0]\n"
    "    call topk(t, few; x, _; 1, N) messages \"one\"\n";

typedef struct fixture {
    arena *a;
    diag d;
    jmp_buf jump;
    const char *message;
} fixture;

static void keep(void *user, const diag_message *m) { ((fixture *)user)->message = m->text; }

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    *state = f;
    f->a = arena_new();
    f->d = (diag){.arena = f->a, .sink = keep, .user = f, .jump = &f->jump};
    return 0;
}

static int tear_down(void **state) {
    arena_destroy(((fixture *)*state)->a);
    free(*state);
    return 0;
}

// NULL: it is not a program, and f->message says why.
static program *read_text(fixture *f, const char *s) {
    f->message = NULL;
    if (setjmp(f->jump)) return NULL;
    return program_parse(f->a, &f->d, "m.kernels", s);
}

static void what_is_printed_is_read_back(void **state) {
    fixture *f = *state;
    program *p = read_text(f, everything);
    if (!p) fail_msg("%s", f->message);
    assert_string_equal(program_print(f->a, p), everything);
}

static char *without(fixture *f, const char *s, const char *word, const char *other) {
    const char *at = strstr(s, word);
    assert_non_null(at);
    return arena_printf(f->a, "%.*s%s%s", (int)(at - s), s, other, at + strlen(word));
}

static void expect(fixture *f, const char *word, const char *other, const char *message) {
    assert_null(read_text(f, without(f, everything, word, other)));
    assert_string_equal(f->message, message);
}

static void what_is_wrong_is_told_with_its_line(void **state) {
    fixture *f = *state;
    expect(f, "heap big", "pile big", "line 16: expected a step of the program");
    expect(f, "float[8*N]", "float[8*", "line 15: expected ','");
    expect(f, "float[8*N]", "real[8*N]", "line 15: 'real' is not an element type");
    expect(f, "view of t", "view of x", "line 15: a view must have the role of its buffer");
    expect(f, "halo 0", "halo 2", "line 13: the layout has no axis 2");
    expect(f, "last 16", "last 15",
           "line 10: 'same' has a narrower last panel, but is not a constant in panels");
    expect(f, "row[j1] =", "rows[j1] =", "line 26: there is no buffer 'rows' here");
    expect(f, "row[j1] =", "row[j1, 0] =", "line 26: 'row' has rank 1");
    expect(f, "0 < j1", "0 < j2", "line 26: 'j2' is not an axis of this kernel");
    expect(f, "0 < j1", "0 < 1.5", "line 26: the number is not of type int64");
    expect(f, "if (0 < j1)", "if j1", "line 26: expected bool, got int64");
    expect(f, "exp(row", "isnan(row", "line 32: expected float, got bool");
    expect(f, "few[2]", "few[3]", "line 19: 'few' has no element 3");
    expect(f, "  s1 max=", "    s1 max=", "line 29: inconsistent indentation");
    expect(f, "from few[0] ", "", "line 33: expected 'from' and the first value");
    expect(f, "kernel b", "kernel b c", "line 36: unexpected text at the end of the line");
    expect(f, "free big", "free t", "line 40: 't' is not on the heap");
}

// Every prefix, and every line left out, doubled, or put a column further in.
static void broken_texts_are_no_danger(void **state) {
    fixture *f = *state;
    size_t n = strlen(everything);
    for (size_t i = 0; i < n; i++) read_text(f, arena_strndup(f->a, everything, i));
    for (const char *line = everything; *line;) {
        const char *next = strchr(line, '\n') + 1;
        int size = (int)(next - line), before = (int)(line - everything);
        read_text(f, arena_printf(f->a, "%.*s%s", before, everything, next));
        read_text(f, arena_printf(f->a, "%.*s%.*s%s", before + size, everything, size, line, next));
        read_text(f, arena_printf(f->a, "%.*s  %s", before, everything, line));
        line = next;
    }
}

// ---------------------------------------------------------------- models
typedef struct trip {
    arena *a;
    diag *d;
    const char *wrong; // the pass after which the text is not read back to itself
} trip;

static void check_pass(void *user, const char *pass, const char *text) {
    trip *t = user;
    program *p = program_parse(t->a, t->d, pass, text);
    if (strcmp(program_print(t->a, p), text) != 0) t->wrong = pass;
}

static void tell(void *user, const diag_message *m) {
    (void)user;
    if (m->severity == SEV_ERROR) printf("%s\n", m->full);
}

static bool round_trip(const char *path) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = tell};
    jmp_buf jump;
    trip t = {a, &d, NULL};
    bool volatile ok = false;
    options o = options_default();
    for (int last = 0; last < 2; last++) {
        o.print_after = last ? "layout" : "lower";
        pipeline_hooks hooks = {.user = &t, .print = check_pass};
        ok = false;
        if (!DIAG_TRY(&d, jump)) break;
        pipeline_run(pipeline_new(a, &d, &o, &hooks), &(source){.path = path}, GOAL_PROGRAM);
        ok = !t.wrong;
    }
    if (t.wrong) printf("%s: not the same after %s\n", path, t.wrong);
    arena_destroy(a);
    return ok;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_printed_is_read_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_told_with_its_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(broken_texts_are_no_danger, set_up, tear_down),
    };
    if (argc < 2) return cmocka_run_group_tests(tests, NULL, NULL);
    int passed = 0;
    for (int j = 1; j < argc; j++) passed += round_trip(argv[j]);
    printf("%d passed, %d failed, 0 skipped\n", passed, argc - 1 - passed);
    return passed != argc - 1;
}
