// The memory plan and the lifetimes of heap buffers. Random programs are run on a memory that remembers who
// wrote each byte: every read must find what its buffer was given last.
#include "ir/kernel/uses.h"
#include "passes/memory/memory_plan.h"
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
    dim *n, *m;
} fixture;

static fixture *fixture_new(void) {
    arena *a = arena_new();
    fixture *x = ARENA_NEW(a, fixture);
    x->a = a;
    x->d = (diag){.arena = a, .sink = show_message};
    assert_true(DIAG_TRY(&x->d, x->jump));
    x->p = program_new(module_new(a, &x->d, "test"));
    x->n = dim_symbol(x->p->dims, "N");
    x->m = dim_symbol(x->p->dims, "M");
    return x;
}

static dim *k(fixture *x, int64_t v) { return dim_const(x->p->dims, v); }

static buffer *make(fixture *x, const char *name, buffer_role role, dim *count) {
    return program_buffer(x->p, name, role, DT_F32, 1, &count);
}

// to[i] = from[i], or from[0] for all i: what cannot be done in place.
static step *move_kernel(fixture *x, region *r, buffer *to, buffer *from, bool whole) {
    kernel *kn = kernel_new(x->p, "copy", NULL);
    int axis = kernel_axis(kn, AXIS_PARALLEL, "i", to->dims[0]);
    kn->nouter = 1;
    expr *i = x_axis(kn, axis), *zero = x_i64(kn, 0);
    stage_write(kn, kernel_stage(kn), to, &i, x_read(kn, from, whole ? &i : &zero));
    return step_kernel(x->p, r, kn);
}

static int64_t workspace(fixture *x) {
    plan_memory(x->p, SPACE_HOST, NULL, 64, 0, NULL, NULL);
    return dim_value(x->p->workspace);
}

static void dead_memory_is_used_again(void **state) {
    (void)state;
    fixture *x = fixture_new();
    buffer *in = make(x, "in", BUF_INPUT, k(x, 16)), *out = make(x, "out", BUF_OUTPUT, k(x, 16)), *last = in;
    for (int i = 0; i < 5; i++) {
        buffer *next = make(x, "t", BUF_TEMP, k(x, 16));
        move_kernel(x, x->p->main, next, last, false);
        last = next;
    }
    move_kernel(x, x->p->main, out, last, false);
    assert_int_equal(workspace(x), 128);
    arena_destroy(x->a);
}

static void pointwise_kernels_work_in_place(void **state) {
    (void)state;
    fixture *x = fixture_new();
    buffer *in = make(x, "in", BUF_INPUT, x->n), *out = make(x, "out", BUF_OUTPUT, x->n), *last = in;
    for (int i = 0; i < 5; i++) {
        buffer *next = make(x, "t", BUF_TEMP, x->n);
        move_kernel(x, x->p->main, next, last, true);
        last = next;
    }
    move_kernel(x, x->p->main, out, last, true);
    memory_plan plan = plan_memory(x->p, SPACE_HOST, NULL, 64, 0, NULL, NULL);
    assert_ptr_equal(plan.workspace, dim_mulk(dim_ceildiv(x->n, k(x, 16)), 64)); // 4 bytes each, rounded up
    assert_true(plan.in_place[1] && plan.in_place[4]);
    assert_false(plan.in_place[0] || plan.in_place[5]);
    arena_destroy(x->a);
}

// to[i] = sum over j of from[j] + also[i]: `also` is read where its element is written, `from` before.
static void sum_kernel(fixture *x, buffer *to, buffer *from, buffer *also) {
    kernel *kn = kernel_new(x->p, "sum", NULL);
    int i = kernel_axis(kn, AXIS_PARALLEL, "i", to->dims[0]),
        j = kernel_axis(kn, AXIS_REDUCE, "j", from->dims[0]);
    kn->nouter = 1;
    stage *s = kernel_stage(kn);
    stage_axis(kn, s, j);
    expr *at = x_axis(kn, i), *over = x_axis(kn, j),
         *sum = stage_reduce(kn, s, RED_SUM, x_read(kn, from, &over));
    stage_write(kn, s, to, &at, x_bin(kn, X_ADD, sum, x_read(kn, also, &at)));
    step_kernel(x->p, x->p->main, kn);
}

static void what_is_added_to_sums_is_replaced_by_them(void **state) {
    (void)state;
    fixture *x = fixture_new();
    buffer *in = make(x, "in", BUF_INPUT, x->n), *out = make(x, "out", BUF_OUTPUT, x->n), *t[4];
    for (int i = 0; i < 4; i++) t[i] = make(x, "t", BUF_TEMP, x->n);
    move_kernel(x, x->p->main, t[0], in, true);
    sum_kernel(x, t[1], in, t[0]);   // in place of t[0]
    sum_kernel(x, t[2], t[1], in);   // not of t[1], which every sum reads
    sum_kernel(x, t[3], t[2], t[2]); // nor of what is read in both ways
    move_kernel(x, x->p->main, out, t[3], true);
    memory_plan plan = plan_memory(x->p, SPACE_HOST, NULL, 64, 0, NULL, NULL);
    assert_true(plan.in_place[1]);
    assert_false(plan.in_place[2] || plan.in_place[3]);
    arena_destroy(x->a);
}

static void scratch_lies_beside_its_buffers(void **state) {
    (void)state;
    fixture *x = fixture_new();
    buffer *in = make(x, "in", BUF_INPUT, k(x, 16)), *t = make(x, "t", BUF_TEMP, k(x, 16)),
           *u = make(x, "u", BUF_TEMP, k(x, 16));
    move_kernel(x, x->p->main, t, in, false);
    move_kernel(x, x->p->main, u, t, false);
    dim *scratch[2] = {k(x, 1000), NULL};
    memory_plan plan = plan_memory(x->p, SPACE_HOST, scratch, 64, 0, NULL, NULL);
    assert_int_equal(dim_value(plan.workspace), 1024 + 64);
    assert_null(plan.scratch_offset[1]);
    assert_int_not_equal(dim_value(plan.scratch_offset[0]), dim_value(t->offset));
    arena_destroy(x->a);
}

// The largest first, c is between a and d, at the end of d, and b goes above them; in another order nothing is left between.
static void other_orders_leave_no_gaps(void **state) {
    (void)state;
    fixture *x = fixture_new();
    buffer *in = make(x, "in", BUF_INPUT, k(x, 16)), *out = make(x, "out", BUF_OUTPUT, k(x, 16));
    const int size[] = {5, 4, 2, 5}, first[] = {0, 5, 4, 2}, last[] = {3, 6, 5, 5};
    buffer *t[4];
    for (int i = 0; i < 4; i++) t[i] = make(x, "t", BUF_TEMP, k(x, 16 * size[i]));
    for (int step = 0; step < 7; step++)
        for (int i = 0; i < 4; i++) {
            if (first[i] == step) move_kernel(x, x->p->main, t[i], in, false);
            if (last[i] == step) move_kernel(x, x->p->main, out, t[i], false);
        }
    assert_int_equal(workspace(x), 11 * 64);
    arena_destroy(x->a);
}

// ---------------------------------------------------------------- random programs
enum { MEMORY = 1 << 18, VALUES = 24 };
typedef struct random_program {
    fixture *x;
    unsigned seed;
    buffer *values[VALUES + 1];
    int nvalues, left;
} random_program;

static unsigned draw(random_program *r, unsigned n) {
    r->seed = r->seed * 1103515245u + 12345u;
    return (r->seed >> 16) % n;
}

static dim *some_size(random_program *r) {
    fixture *x = r->x;
    switch (draw(r, 6)) {
    case 0: return k(x, 8);
    case 1: return k(x, 100);
    case 2: return x->n;
    case 3: return dim_mulk(x->n, 3);
    case 4: return dim_mul(x->n, x->m);
    }
    return dim_addk(x->m, 5);
}

static void fill_region(random_program *r, region *to, int depth) {
    fixture *x = r->x;
    int before = r->nvalues;
    for (int steps = 3 + (int)draw(r, 5); steps > 0 && r->left > 0; steps--) {
        buffer *from = r->values[r->nvalues - 1 - (int)draw(r, (unsigned)(r->nvalues < 5 ? r->nvalues : 5))];
        unsigned what = draw(r, 8);
        if (what == 0 && depth < 2) {
            step *loop = step_new(x->p, to, STEP_LOOP, NULL);
            loop->target = dim_opaque(x->p->dims, "i", 0, INT64_MAX), loop->dim = k(x, 2);
            loop->body[0] = ARENA_NEW(x->a, region);
            fill_region(r, loop->body[0], depth + 1);
        } else if (what == 1 && from->role == BUF_TEMP) {
            // A carried value: written again where it was made before.
            for (int j = 0; j < r->nvalues; j++)
                if (r->values[j]->role == BUF_TEMP && r->values[j]->dims[0] == from->dims[0] &&
                    r->values[j] != from) {
                    step *s = step_new(x->p, to, STEP_COPY, NULL);
                    s->buffer = r->values[j], s->from = from;
                    break;
                }
        } else {
            bool same = draw(r, 2);
            buffer *next = make(x, "t", BUF_TEMP, same ? from->dims[0] : some_size(r));
            move_kernel(x, to, next, from, same);
            r->values[r->nvalues++] = next;
            r->left--;
        }
    }
    if (depth) r->nvalues = before; // made anew in every iteration
}

typedef struct machine {
    fixture *x;
    int64_t n, m;
    int tag[MEMORY];
    int given[512]; // by buffer id: what it holds
    int now;
} machine;

static bool value_of(void *user, const dim *atom, int64_t *v) {
    machine *c = user;
    *v = atom == c->x->n ? c->n : c->m;
    return true;
}
static int64_t size_of(machine *c, const dim *d) {
    int64_t v = -1;
    assert_true(dim_eval(d, value_of, c, &v));
    return v;
}

static void touch(machine *c, const buffer *b, bool write) {
    if (b->role != BUF_TEMP) return;
    int64_t at = size_of(c, b->offset), bytes = size_of(c, buffer_bytes(b));
    assert_int_equal(at % 64, 0);
    assert_true(at >= 0 && at + bytes <= size_of(c, c->x->p->workspace) && at + bytes <= MEMORY);
    if (write) c->given[b->id] = ++c->now;
    for (int64_t i = at; i < at + bytes; i++) {
        if (write) c->tag[i] = c->given[b->id];
        else assert_int_equal(c->tag[i], c->given[b->id]);
    }
}

static void run_region(machine *c, const region *r) {
    for (int j = 0; j < r->steps.n; j++) {
        const step *s = r->steps.at[j];
        if (s->kind == STEP_LOOP) {
            for (int i = 0; i < 2; i++) run_region(c, s->body[0]);
        } else if (s->kind == STEP_COPY) {
            touch(c, s->from, false);
            touch(c, s->buffer, true);
        } else {
            buffer **all;
            int n = kernel_buffers(s->kernel, &all);
            for (int i = 1; i < n; i++) touch(c, all[i], false);
            touch(c, all[0], true); // writes come first
        }
    }
}

static void plans_hold_for_all_sizes(void **state) {
    (void)state;
    machine *c = calloc(1, sizeof *c);
    for (unsigned seed = 1; seed <= 80; seed++) {
        fixture *x = fixture_new();
        random_program r = {.x = x, .seed = seed, .left = VALUES};
        r.values[r.nvalues++] = make(x, "in", BUF_INPUT, x->n);
        while (r.left > 0) fill_region(&r, x->p->main, 0);
        plan_memory(x->p, SPACE_HOST, NULL, 64, 0, NULL, NULL);
        const int64_t sizes[] = {0, 1, 7, 33};
        for (int i = 0; i < 16; i++) {
            c->x = x, c->n = sizes[i % 4], c->m = sizes[i / 4];
            run_region(c, x->p->main);
        }
        arena_destroy(x->a);
    }
    free(c);
}

// ---------------------------------------------------------------- uses
static void live_ranges_span_loops(void **state) {
    (void)state;
    fixture *x = fixture_new();
    program *p = x->p;
    buffer *in = make(x, "in", BUF_INPUT, x->n), *a = make(x, "a", BUF_TEMP, x->n),
           *b = make(x, "b", BUF_TEMP, x->n), *out = make(x, "out", BUF_OUTPUT, x->n);
    VEC_PUSH(x->a, &p->outputs, out);
    step *first = move_kernel(x, p->main, a, in, true); // 1
    step *loop = step_new(p, p->main, STEP_LOOP, NULL); // 2, its end 5
    loop->target = dim_opaque(p->dims, "i", 0, INT64_MAX), loop->body[0] = ARENA_NEW(x->a, region);
    step *reader = move_kernel(x, loop->body[0], b, program_view(p, a, "view", 1, &x->n), true); // 3
    move_kernel(x, loop->body[0], out, b, true);                                                 // 4
    uses *u = uses_build(x->a, p);
    live_range live_a = uses_live_range(u, a), live_b = uses_live_range(u, b);
    assert_int_equal(live_a.def, 1);
    assert_int_equal(live_a.last_use, 5);
    assert_int_equal(live_b.def, 3);
    assert_int_equal(live_b.last_use, 4);
    site *at = u->of_kernel[reader->kernel->id];
    assert_true(u->of[a->id].viewed && !u->of[a->id].by_others && u->of[out->id].output);
    assert_true(site_reads(at, a) && !site_writes(at, a) && site_writes(at, b));
    assert_ptr_equal(uses_last_site(u, a)->s, loop);
    assert_ptr_equal(u->of[in->id].sites.at[0]->s, first);
    reader->kernel = NULL;
    uses_update(u, at);
    assert_false(site_touches(at, a) || site_touches(at, b));
    arena_destroy(x->a);
}

// ---------------------------------------------------------------- heap
static void heap_dies_at_its_last_use(void **state) {
    (void)state;
    fixture *x = fixture_new();
    program *p = x->p;
    buffer *in = make(x, "in", BUF_INPUT, x->n), *a = make(x, "a", BUF_HEAP, x->n),
           *b = make(x, "b", BUF_HEAP, x->n);
    buffer *out = make(x, "out", BUF_OUTPUT, x->n);
    step_new(p, p->main, STEP_ALLOC, NULL)->buffer = a;
    move_kernel(x, p->main, a, in, true);
    step *loop = step_new(p, p->main, STEP_LOOP, NULL);
    loop->target = dim_opaque(p->dims, "i", 0, INT64_MAX), loop->body[0] = ARENA_NEW(x->a, region);
    step_new(p, loop->body[0], STEP_ALLOC, NULL)->buffer = b;
    move_kernel(x, loop->body[0], b, program_view(p, a, "view", 1, &x->n), true);
    move_kernel(x, p->main, out, in, true);
    insert_frees(p);
    insert_frees(p); // a second time there is nothing to do
    assert_int_equal(p->main->steps.n, 5);
    assert_int_equal(p->main->steps.at[3]->kind, STEP_FREE);
    assert_ptr_equal(p->main->steps.at[3]->buffer, a);
    assert_int_equal(loop->body[0]->steps.n, 3);
    assert_int_equal(loop->body[0]->steps.at[2]->kind, STEP_FREE);
    assert_ptr_equal(loop->body[0]->steps.at[2]->buffer, b);
    arena_destroy(x->a);
}

static void moved_memory_is_freed_by_its_new_owner(void **state) {
    (void)state;
    fixture *x = fixture_new();
    program *p = x->p;
    buffer *a = make(x, "a", BUF_HEAP, x->n), *b = make(x, "b", BUF_HEAP, x->n),
           *out = make(x, "out", BUF_OUTPUT, x->n);
    step *choice = step_new(p, p->main, STEP_IF, NULL);
    choice->dim = x->m;
    for (int i = 0; i < 2; i++) choice->body[i] = ARENA_NEW(x->a, region);
    step_new(p, choice->body[0], STEP_ALLOC, NULL)->buffer = a;
    step *move = step_new(p, choice->body[0], STEP_MOVE, NULL);
    move->buffer = b, move->from = a;
    step_new(p, choice->body[1], STEP_ALLOC, NULL)->buffer = b;
    move_kernel(x, p->main, out, b, true);
    insert_frees(p);
    assert_int_equal(choice->body[0]->steps.n, 2);
    assert_int_equal(choice->body[1]->steps.n, 1);
    assert_int_equal(p->main->steps.n, 3);
    assert_ptr_equal(p->main->steps.at[2]->buffer, b);
    arena_destroy(x->a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_memory_is_used_again),
        cmocka_unit_test(pointwise_kernels_work_in_place),
        cmocka_unit_test(what_is_added_to_sums_is_replaced_by_them),
        cmocka_unit_test(scratch_lies_beside_its_buffers),
        cmocka_unit_test(other_orders_leave_no_gaps),
        cmocka_unit_test(plans_hold_for_all_sizes),
        cmocka_unit_test(live_ranges_span_loops),
        cmocka_unit_test(heap_dies_at_its_last_use),
        cmocka_unit_test(moved_memory_is_freed_by_its_new_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
