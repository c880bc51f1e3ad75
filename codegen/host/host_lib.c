// Calls of library functions: buffers go into an array of pointers, numbers into one of int64, what the
// function answers into the messages of the step.
#include "codegen/host/host_impl.h"
#include "ir/kernel/library.h"

// One of each for all calls.
void make_library_arrays(host *h) {
    step_list steps = program_steps(h->all->arena, h->all->p);
    int data = 0, numbers = 0; // of the largest call
    for (int j = 0; j < steps.n; j++) {
        const step *s = steps.at[j].s;
        if (s->kind != STEP_LIB) continue;
        data = s->nargs > data ? s->nargs : data;
        numbers = s->nnumbers > numbers ? s->nnumbers : numbers;
    }
    if (data) h->library_data = named_local(&h->b, "buffers", LK_PTR, data);
    if (h->all->makes) {
        h->made = named_local(&h->b, "made", LK_PTR, 1);
        lb_store(&h->b, h->made, lb_idx(&h->b, 0), lb_null(&h->b), 0);
    }
    if (numbers) h->library_numbers = named_local(&h->b, "numbers", LK_I64, numbers);
}

static const char *library_symbol(hosting *a, const char *function) {
    const char *name = arena_printf(a->arena, "onnxc_lib_%s", function);
    if (map_get(&a->shared->declared, name)) return name;
    lfunc *f = lfunc_new(a->m, name, i32());
    lfunc_param(f, "call", lt_ptr(), LK_PTR, DT_NONE, false);
    lfunc_param(f, "data", lt_ptr(), LK_PTR, DT_NONE, true);
    lfunc_param(f, "numbers", lt_ptr(), LK_I64, DT_I64, true);
    f->ctype = "int";
    f->library = function;
    map_put(&a->shared->declared, name, f);
    return name;
}

static ins *or_null(host *h, ins *array) { return array ? array : lb_null(&h->b); }

// Strings are given only where the caller has room; the others still tell their sizes.
static ins *open_room(host *h, const step *s) {
    lbuild *b = &h->b;
    const buffer *to = s->nwritten ? s->args[0] : NULL;
    if (!to || to->role != BUF_OUTPUT || !dims_are_opaque(to->dims, to->rank)) return NULL;
    ins *count = host_dim(h, buffer_count(to));
    ins *fits = lb_if(b, lb_cmp(b, L_SLE, count, io_capacity(h, to->io)));
    ins *none = lb_bin(b, L_AND, lb_cmp(b, L_EQ, buffer_pointer(h, to), lb_null(b)),
                       lb_cmp(b, L_NE, count, lb_int(b, i64(), 0)));
    host_fail_if(h, none, ONNXC_NULL_POINTER,
                 arena_printf(h->all->arena, "output '%s' is a null pointer", to->name));
    return fits;
}

static void close_room(host *h, ins *fits) {
    if (!fits) return;
    lb_else(&h->b, fits);
    lb_set(&h->b, h->too_small, lb_int(&h->b, lt(LK_I1, 1), 1));
    lb_end(&h->b, fits);
}

void library_step(host *h, const step *s) {
    lbuild *b = &h->b;
    for (int j = 0; j < s->nargs; j++)
        lb_store(b, h->library_data, lb_idx(b, j), s->args[j] ? buffer_pointer(h, s->args[j]) : lb_null(b),
                 0);
    for (int j = 0; j < s->nnumbers; j++)
        lb_store(b, h->library_numbers, lb_idx(b, j), host_dim(h, s->numbers[j]), 0);
    ins *call = library_allocates(s->lib) ? h->made : lb_null(b);
    ins *args[] = {call, or_null(h, h->library_data), or_null(h, h->library_numbers)};
    ins *room = open_room(h, s), *failed = lb_call(b, i32(), library_symbol(h->all, s->lib), 3, args);
    if (library_allocates(s->lib))
        host_fail_if(h, lb_cmp(b, L_EQ, failed, lb_int(b, i32(), -1)), ONNXC_NO_MEMORY,
                     located(h, s->loc, "no memory for strings and sequences"));
    for (int j = 0; j < s->nmessages; j++)
        host_fail_if(h, lb_cmp(b, L_EQ, failed, lb_int(b, i32(), j + 1)), ONNXC_CHECK_FAILED,
                     located(h, s->loc, s->messages[j]));
    close_room(h, room);
}

// What the run made for strings and sequences goes when it ends.
void release_made(host *h) {
    lbuild *b = &h->b;
    if (!h->made) return;
    lb_call(b, i32(), library_symbol(h->all, "release"), 3, (ins *[]){h->made, lb_null(b), lb_null(b)});
}
