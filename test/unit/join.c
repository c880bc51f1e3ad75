// Kernels that make parts of a joined tensor write them there; others keep their copies.
#include "passes/layout/concat_elision.h"
#include "test/build_graph.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

typedef struct fixture {
    arena *a;
    diag d;
    jmp_buf jump;
    program *p;
    buffer *in, *out, *whole;
    kernel *joining;
} fixture;

static buffer *make(fixture *x, const char *name, buffer_role role, int64_t count) {
    dim *n = dim_const(x->p->dims, count);
    return program_buffer(x->p, name, role, DT_F32, 1, &n);
}

// A stage of kn: to[i + low] = from[i].
static void copy_stage(kernel *kn, buffer *to, buffer *from, int64_t low) {
    stage *s = kernel_stage(kn);
    int axis = kernel_axis(kn, AXIS_PARALLEL, "i", from->dims[0]);
    stage_axis(kn, s, axis);
    expr *i = x_axis(kn, axis), *at = x_add(kn, i, x_i64(kn, low));
    stage_write(kn, s, to, &at, x_read(kn, from, &i));
}

static void copy_kernel(fixture *x, buffer *to, buffer *from) {
    kernel *kn = kernel_new(x->p, "copy", NULL);
    copy_stage(kn, to, from, 0);
    step_kernel(x->p, x->p->main, kn);
}

// in -> a, b; whole = a, b; out = whole.
static fixture *fixture_new(buffer **a, buffer **b) {
    arena *arena = arena_new();
    fixture *x = ARENA_NEW(arena, fixture);
    x->a = arena;
    x->d = (diag){.arena = arena, .sink = show_message};
    assert_true(DIAG_TRY(&x->d, x->jump));
    x->p = program_new(module_new(arena, &x->d, "test"));
    x->in = make(x, "in", BUF_INPUT, 16), x->out = make(x, "out", BUF_OUTPUT, 32);
    x->whole = make(x, "whole", BUF_TEMP, 32);
    VEC_PUSH(arena, &x->p->inputs, x->in);
    VEC_PUSH(arena, &x->p->outputs, x->out);
    *a = make(x, "a", BUF_TEMP, 16), *b = make(x, "b", BUF_TEMP, 16);
    copy_kernel(x, *a, x->in);
    copy_kernel(x, *b, x->in);
    x->joining = kernel_new(x->p, "join", NULL);
    copy_stage(x->joining, x->whole, *a, 0);
    copy_stage(x->joining, x->whole, *b, 16);
    step_kernel(x->p, x->p->main, x->joining);
    return x;
}

static int writers(const program *p, const buffer *b) {
    int n = 0;
    for (int j = 0; j < p->kernels.n; j++) n += kernel_writes(p->kernels.at[j], b);
    return n;
}

static void makers_write_their_parts(void **state) {
    (void)state;
    buffer *a, *b;
    fixture *x = fixture_new(&a, &b);
    copy_kernel(x, x->out, x->whole);
    elide_concats(x->p, &(target){0});
    program_verify(x->p);
    assert_int_equal(x->p->kernels.n, 3);
    assert_int_equal(writers(x->p, x->whole), 2);
    const write *second = &x->p->kernels.at[1]->stages.at[0]->writes.at[0];
    assert_int_equal(second->index[0]->op, X_ADD);
    arena_destroy(x->a);
}

static const expr *read_of(const kernel *k) { return k->stages.at[0]->writes.at[0].value; }

static void others_read_parts_of_the_whole(void **state) {
    (void)state;
    buffer *a, *b;
    fixture *x = fixture_new(&a, &b);
    copy_kernel(x, x->out, x->whole);
    copy_kernel(x, x->out, b);
    elide_concats(x->p, &(target){0});
    program_verify(x->p);
    assert_int_equal(x->p->kernels.n, 4);
    assert_int_equal(writers(x->p, x->whole), 2);
    const expr *read = read_of(x->p->kernels.at[3]);
    assert_ptr_equal(read->buffer, x->whole);
    assert_int_equal(read->index[0]->op, X_ADD);
    arena_destroy(x->a);
}

static void what_changes_the_whole_leaves_parts_to_others(void **state) {
    (void)state;
    buffer *a, *b;
    fixture *x = fixture_new(&a, &b);
    copy_kernel(x, x->whole, x->in); // over the first part
    copy_kernel(x, x->out, x->whole);
    copy_kernel(x, x->out, a);
    elide_concats(x->p, &(target){0});
    assert_int_equal(x->joining->stages.n, 1);
    assert_int_equal(writers(x->p, a), 1);
    assert_int_equal(writers(x->p, b), 0);
    arena_destroy(x->a);
}

// A small one that many kernels read while large ones come and go, beside one that is made last.
static void parts_stay_where_the_whole_would_live_too_long(void **state) {
    (void)state;
    buffer *a, *b;
    fixture *x = fixture_new(&a, &b);
    buffer *large = make(x, "large", BUF_TEMP, 64);
    x->p->main->steps.n = x->p->kernels.n = 0;
    x->whole = make(x, "whole", BUF_TEMP, 80);
    copy_kernel(x, a, x->in);
    copy_kernel(x, large, a);
    copy_kernel(x, x->out, large);
    x->joining = kernel_new(x->p, "join", NULL);
    copy_stage(x->joining, x->whole, a, 0);
    step_kernel(x->p, x->p->main, x->joining);
    copy_kernel(x, x->out, x->whole);
    elide_concats(x->p, &(target){0});
    assert_int_equal(writers(x->p, a), 1);
    arena_destroy(x->a);
}

static void what_is_read_before_it_is_joined_stays(void **state) {
    (void)state;
    buffer *a, *b;
    fixture *x = fixture_new(&a, &b);
    copy_kernel(x, x->out, x->whole);
    region *r = x->p->main; // the reader goes first: what a loop's turn before has left
    step *last = r->steps.at[r->steps.n - 1];
    memmove(r->steps.at + 1, r->steps.at, (size_t)(r->steps.n - 1) * sizeof(step *));
    r->steps.at[0] = last;
    elide_concats(x->p, &(target){0});
    assert_int_equal(x->joining->stages.n, 2);
    arena_destroy(x->a);
}

static void wholes_are_parts(void **state) {
    (void)state;
    buffer *a, *b;
    fixture *x = fixture_new(&a, &b);
    buffer *more = make(x, "more", BUF_TEMP, 48);
    kernel *again = kernel_new(x->p, "again", NULL);
    copy_stage(again, more, x->whole, 16);
    step_kernel(x->p, x->p->main, again);
    copy_kernel(x, x->out, x->whole);
    copy_kernel(x, x->out, more);
    elide_concats(x->p, &(target){0});
    program_verify(x->p);
    assert_int_equal(x->p->kernels.n, 4);
    assert_int_equal(writers(x->p, more), 2);
    assert_ptr_equal(read_of(x->p->kernels.at[2])->buffer, more);
    arena_destroy(x->a);
}

// What is written to the same elements one after the other stays in that order.
static void parts_that_meet_are_copied(void **state) {
    (void)state;
    buffer *a, *b;
    fixture *x = fixture_new(&a, &b);
    copy_kernel(x, x->out, x->whole);
    x->joining->stages.n = 0;
    copy_stage(x->joining, x->whole, b, 0);
    copy_stage(x->joining, x->whole, a, 8);
    elide_concats(x->p, &(target){0});
    assert_int_equal(x->joining->stages.n, 2);
    arena_destroy(x->a);
}

// to[i + at] = from[i + at] for `count` elements.
static void piece_stage(kernel *kn, buffer *to, buffer *from, int64_t at, int64_t count) {
    stage *s = kernel_stage(kn);
    int axis = kernel_axis(kn, AXIS_PARALLEL, "i", dim_const(kn->program->dims, count));
    stage_axis(kn, s, axis);
    expr *i = x_add(kn, x_axis(kn, axis), x_i64(kn, at));
    stage_write(kn, s, to, &i, x_read(kn, from, &i));
}

static void pieces_make_a_part(void **state) {
    (void)state;
    for (int all = 0; all < 2; all++) {
        buffer *a, *b;
        fixture *x = fixture_new(&a, &b);
        copy_kernel(x, x->out, x->whole);
        x->joining->stages.n = 0;
        piece_stage(x->joining, x->whole, a, 0, 6);
        piece_stage(x->joining, x->whole, a, 6, all ? 10 : 9);
        elide_concats(x->p, &(target){0});
        assert_int_equal(x->joining->stages.n, all ? 0 : 2);
        arena_destroy(x->a);
    }
}

static void what_is_joined_twice_is_copied(void **state) {
    (void)state;
    buffer *a, *b;
    fixture *x = fixture_new(&a, &b);
    copy_kernel(x, x->out, x->whole);
    x->joining->stages.n = 0;
    copy_stage(x->joining, x->whole, a, 0);
    copy_stage(x->joining, x->whole, a, 16);
    elide_concats(x->p, &(target){0});
    assert_int_equal(x->joining->stages.n, 2);
    arena_destroy(x->a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makers_write_their_parts),
        cmocka_unit_test(others_read_parts_of_the_whole),
        cmocka_unit_test(what_changes_the_whole_leaves_parts_to_others),
        cmocka_unit_test(parts_stay_where_the_whole_would_live_too_long),
        cmocka_unit_test(what_is_read_before_it_is_joined_stays),
        cmocka_unit_test(wholes_are_parts),
        cmocka_unit_test(parts_that_meet_are_copied),
        cmocka_unit_test(pieces_make_a_part),
        cmocka_unit_test(what_is_joined_twice_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
