// Calls of library functions: buffers are passed as an array of pointers, numbers as an array of int64, and
// the result selects a message of the step.
#include "codegen/host/host_impl.h"
#include "ir/kernel/library.h"

// All calls share the two arrays.
void make_library_arrays(host *h) {
    step_list steps = program_steps(h->builder->arena, h->builder->p);
    int data = 0, numbers = 0; // of the largest call
    for (int j = 0; j < steps.n; j++) {
        const step *s = steps.at[j].s;
        if (s->kind != STEP_LIB) continue;
        data = s->nargs > data ? s->nargs : data;
        numbers = s->nnumbers > numbers ? s->nnumbers : numbers;
    }
    if (data) h->library_data = named_local(&h->b, "buffers", LK_PTR, data);
    if (h->builder->makes) {
        h->made = named_local(&h->b, "made", LK_PTR, 1);
        lb_store(&h->b, h->made, lb_idx(&h->b, 0), lb_null(&h->b), 0);
    }
    if (numbers) h->library_numbers = named_local(&h->b, "numbers", LK_I64, numbers);
}

static const char *library_symbol(host_builder *a, const char *function) {
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

// The user's function.
static ins *custom_function(host *h, const char *symbol) {
    host_builder *a = h->builder;
    if (!map_get(&a->shared->declared, symbol)) {
        lfunc *f = lfunc_new(a->m, symbol, i32());
        lfunc_param(f, "call", lt_ptr(), LK_VOID, DT_NONE, false);
        f->params.at[0].ctype = "onnxc_custom_call";
        f->ctype = "int";
        map_put(&a->shared->declared, symbol, f);
    }
    return lb_symbol(&h->b, symbol);
}

static ins *or_null(host *h, ins *array) { return array ? array : lb_null(&h->b); }

// Strings are exported only if the output has room for them; the other outputs still get their sizes.
static ins *open_room(host *h, const step *s) {
    const buffer *to = s->nwritten ? s->args[0] : NULL;
    if (!to || to->role != BUF_OUTPUT || !dims_are_opaque(to->dims, to->rank)) return NULL;
    return open_capacity(h, to);
}

void library_step(host *h, const step *s) {
    lbuild *b = &h->b;
    for (int j = 0; j < s->nargs; j++)
        lb_store(b, h->library_data, lb_idx(b, j), s->args[j] ? buffer_pointer(h, s->args[j]) : lb_null(b),
                 0);
    for (int j = 0; j < s->nnumbers; j++)
        lb_store(b, h->library_numbers, lb_idx(b, j), host_dim(h, s->numbers[j]), 0);
    ins *call = s->symbol ? custom_function(h, s->symbol) : library_allocates(s->lib) ? h->made : lb_null(b);
    ins *args[] = {call, or_null(h, h->library_data), or_null(h, h->library_numbers)};
    ins *room = open_room(h, s), *failed = lb_call(b, i32(), library_symbol(h->builder, s->lib), 3, args);
    if (library_allocates(s->lib))
        host_fail_if(h, lb_cmp(b, L_EQ, failed, lb_int(b, i32(), -1)), ONNXC_NO_MEMORY,
                     located(h, s->loc, "no memory for strings and sequences"));
    for (int j = 0; j < s->nmessages; j++)
        host_fail_if(h, lb_cmp(b, L_EQ, failed, lb_int(b, i32(), j + 1)), ONNXC_CHECK_FAILED,
                     located(h, s->loc, s->messages[j]));
    if (room) close_capacity(h, room, s->args[0]);
}

// Frees the strings and sequences of a run.
void release_made(host *h) {
    lbuild *b = &h->b;
    if (!h->made) return;
    lb_call(b, i32(), library_symbol(h->builder, "release"), 3, (ins *[]){h->made, lb_null(b), lb_null(b)});
}
