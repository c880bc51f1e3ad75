// Calls of library functions: buffers go into an array of pointers, numbers into one of int64, what the
// function answers into the messages of the step.
#include "codegen/host_impl.h"

typedef struct most {
    int data, numbers;
} most;

static void note_call(void *user, region *r, step *s) {
    most *m = user;
    (void)r;
    if (s->kind != STEP_LIB) return;
    if (s->nargs > m->data) m->data = s->nargs;
    if (s->nnumbers > m->numbers) m->numbers = s->nnumbers;
}

// One of each for all calls.
void make_library_arrays(host *h) {
    most m = {0};
    program_walk(h->all->p, note_call, &m);
    if (m.data) h->library_data = named_local(&h->b, "buffers", LK_PTR, m.data);
    if (m.numbers) h->library_numbers = named_local(&h->b, "numbers", LK_I64, m.numbers);
}

static const char *library_symbol(hosting *a, const char *function) {
    const char *name = arena_printf(a->arena, "onnxc_lib_%s", function);
    if (map_get(&a->declared, name)) return name;
    lfunc *f = lfunc_new(a->m, name, i32());
    lfunc_param(f, "call", lt_ptr(), LK_PTR, DT_NONE, false);
    lfunc_param(f, "data", lt_ptr(), LK_PTR, DT_NONE, true);
    lfunc_param(f, "numbers", lt_ptr(), LK_I64, DT_I64, true);
    f->ctype = "int";
    f->library = function;
    map_put(&a->declared, name, f);
    return name;
}

static ins *or_null(host *h, ins *array) { return array ? array : lb_null(&h->b); }

void library_step(host *h, const step *s) {
    lbuild *b = &h->b;
    for (int j = 0; j < s->nargs; j++)
        lb_store(b, h->library_data, lb_idx(b, j), s->args[j] ? buffer_pointer(h, s->args[j]) : lb_null(b),
                 0);
    for (int j = 0; j < s->nnumbers; j++)
        lb_store(b, h->library_numbers, lb_idx(b, j), host_dim(h, s->numbers[j]), 0);
    ins *args[] = {lb_null(b), or_null(h, h->library_data), or_null(h, h->library_numbers)};
    ins *failed = lb_call(b, i32(), library_symbol(h->all, s->lib), 3, args);
    for (int j = 0; j < s->nmessages; j++)
        host_fail_if(h, lb_cmp(b, L_EQ, failed, lb_int(b, i32(), j + 1)), ONNXC_CHECK_FAILED,
                     located(h, s->loc, s->messages[j]));
}
