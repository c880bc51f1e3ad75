// The program's steps as instructions of the host function.
#include "codegen/host/host_impl.h"
#include "ir/loops/convert.h"
#include <string.h>

// ---------------------------------------------------------------- buffers
static ins *planned_pointer(host *h, const buffer *b) {
    if (!b->offset) diag_defect(h->builder->diag, NULL, "buffer '%s' has no place in the workspace", b->name);
    return lb_offset(&h->b,
                     b->space == SPACE_DEVICE ? h->device
                     : h->pools               ? h->pools[b->pool]
                                              : h->workspace,
                     h->offset[b->id] ? h->offset[b->id] : idx(h, dim_value(b->offset)), 1);
}

static bool has_variable(const host_builder *a, const buffer *b) { return on_heap(b) || a->result_of[b->id]; }

static ins *root_pointer(host *h, const buffer *b) {
    lbuild *l = &h->b;
    switch (b->role) {
    case BUF_INPUT: return io_pointer(h, false, b->io);
    case BUF_OUTPUT: return io_pointer(h, true, b->io);
    case BUF_CONST:
        if (h->weights) return lb_offset(l, h->weights, idx(h, constant_place(h->builder, b)), 1);
        return lb_symbol(l, constant_symbol(h->builder, b));
    case BUF_HEAP:
    case BUF_TEMP:
        if (h->at_caller && b->caller) return h->at_caller[b->id];
        if (has_variable(h->builder, b)) return lb_get(l, h->heap[b->id]);
        return planned_pointer(h, b);
    case BUF_LOCAL: break;
    }
    diag_defect(h->builder->diag, NULL, "buffer '%s' has no memory in host code", b->name);
}

ins *buffer_pointer(host *h, const buffer *b) {
    int64_t offset = 0;
    for (const buffer *v = b; v->view_of; v = v->view_of) offset += dtype_size(v->dtype, v->view_offset);
    return lb_offset(&h->b, root_pointer(h, buffer_root(b)), idx(h, offset), 1);
}

static ins *is_true(host *h, const buffer *b) {
    ins *v = lb_load(&h->b, lt(LK_I8, 1), buffer_pointer(h, b), idx(h, 0), 1);
    return lb_cmp(&h->b, L_NE, v, lb_int(&h->b, lt(LK_I8, 1), 0));
}

const char *located(host *h, const loc *at, const char *message) {
    return text_located(h->builder->arena, at, message);
}

// ---------------------------------------------------------------- kernels
// Values of the arguments, in the block around the branches of levels.
typedef struct values {
    ins *scratch, *tasks; // NULL: none
    ins **dims;           // of all callees
    arguments buffers;
} values;

static void call_callee(host *h, const callees *all, const values *v, const kernel_code *c) {
    arguments a = v->buffers;
    for (int j = 0; j < c->ndims; j++) add_argument(h, &a, v->dims[place_of_dim(all, c->dims[j])]);
    if (c->scratch) add_argument(h, &a, v->scratch);
    if (c->tasks) {
        add_argument(h, &a, idx(h, 0));
        add_argument(h, &a, v->tasks);
    }
    if (c->has_status) add_argument(h, &a, h->kernel_status);
    lb_call(&h->b, lt(LK_VOID, 1), c->f->name, a.n, a.at);
}

static void call_from(host *h, const callees *all, const values *v, int j) {
    ins *own = j + 1 < all->n ? lb_if(&h->b, is_level(h, all, j)) : NULL;
    call_callee(h, all, v, all->code[j]);
    if (!own) return;
    lb_else(&h->b, own);
    call_from(h, all, v, j + 1);
    lb_end(&h->b, own);
}

static void call_plain(host *h, const callees *all, ins *scratch) {
    const kernel_code *c = all->code[0];
    values v = {.scratch = scratch, .dims = ARENA_ARRAY(h->builder->arena, ins *, all->ndims + 1)};
    for (int j = 0; j < c->nbuffers; j++) add_argument(h, &v.buffers, buffer_pointer(h, c->buffers[j]));
    for (int j = 0; j < all->ndims; j++) v.dims[j] = host_index(h, all->dims[j]);
    if (c->marks_scratch) lb_store(&h->b, scratch, idx(h, 0), lb_int(&h->b, i32(), 0), 4);
    if (c->tasks) v.tasks = to_index(h, dim_of_level(h, all, tasks_of));
    call_from(h, all, &v, 0);
}

// The check with that message, if the status has its index; NULL: it has none.
static const expr *find_check(const kernel *k, int message) {
    const expr *index, *size;
    for (int j = 0; j < k->exprs.n; j++) {
        const expr *e = k->exprs.at[j];
        if (e->op == X_CHECK && e->axis == message && check_operands(e, &index, &size)) return e;
    }
    return NULL;
}

static void fail_check(host *h, const kernel *k, int message, ins *failed, ins *status) {
    arena *a = h->builder->arena;
    lbuild *b = &h->b;
    const expr *check = find_check(k, message), *index, *size;
    said m = {.plain = failure_text(a, k, message)};
    if (status->type.kind == LK_I64 && check && check_operands(check, &index, &size)) {
        m.numbered = failure_numbered(a, k, message);
        m.first = lb_bin(b, L_ASHR, status, lb_int(b, i64(), 8));
        m.second = size->op == X_DIM ? host_dim(h, size->dim) : lb_int(b, i64(), size->i);
    }
    host_fail_saying(h, failed, ONNXC_CHECK_FAILED, &m);
}

static void check_kernel(host *h, const kernel_code *c, ins *status) {
    lbuild *b = &h->b;
    const kernel *k = c->kernel;
    ltype t = status->type;
    if (!h->message || k->messages.n == 1) {
        fail_check(h, k, 0, lb_cmp(b, L_NE, status, lb_int(b, t, 0)), status);
        return;
    }
    ins *any = lb_if(b, lb_cmp(b, L_NE, status, lb_int(b, t, 0)));
    ins *number = t.kind == LK_I64 ? lb_bin(b, L_AND, status, lb_int(b, t, 255)) : status;
    for (int j = 0; j < k->messages.n; j++)
        fail_check(h, k, j, lb_cmp(b, L_EQ, number, lb_int(b, t, j + 1)), status);
    lb_end(b, any);
}

static ins *status_value(host *h, const kernel_code *c, ins *at) {
    lkind kind = status_kind(c->kernel, h->t);
    return lb_load(&h->b, lt(kind, 1), at, idx(h, 0), kind == LK_I64 ? 8 : 4);
}

static void call_hook(host *h, int64_t kernel) {
    lbuild *b = &h->b;
    const char *name =
        runtime_function(h->builder, h->builder->o->hook, i32(), 2, (ltype[]){lt_ptr(), i32()});
    ins *answer = lb_call(b, i32(), name, 2,
                          (ins *[]){h->hook_user ? h->hook_user : lb_null(b), lb_int(b, i32(), kernel)});
    host_fail_if(h, lb_cmp(b, L_NE, answer, lb_int(b, i32(), 0)), ONNXC_CANCELLED, "cancelled by the hook");
}

static ins *scratch_pointer(host *h, const kernel *k) {
    if (h->builder->scratch[k->id]) return buffer_pointer(h, h->builder->scratch[k->id]);
    ins *place = h->scratch[k->id];
    if (!place) place = idx(h, dim_value(h->builder->plan.scratch_offset[k->id]));
    ins *memory = h->pools ? h->pools[h->builder->plan.scratch_pool[k->id]] : h->workspace;
    return lb_offset(&h->b, h->gpu_run ? h->device : memory, place, 1);
}

static void call_kernel(host *h, const callees *all) {
    ins *scratch = NULL;
    for (int j = 0; j < all->n && !scratch; j++)
        if (all->code[j]->scratch) scratch = scratch_pointer(h, all->code[j]->kernel);
    if (runs_parallel(h, all->code[0])) call_parallel(h, all, scratch);
    else call_plain(h, all, scratch);
}

static void kernel_step(host *h, const step *s) {
    lbuild *b = &h->b;
    const kernel_code *c = h->code[s->kernel->id];
    if (h->builder->o->hook) call_hook(h, h->builder->first_kernel + s->kernel->id);
    if (h->gpu_run) {
        launch_kernel(h, c, c->scratch ? scratch_pointer(h, s->kernel) : NULL);
        if (!h->builder->o->waits) return;
        wait_on_gpu(h);
        call_hook(h, HOOK_NO_KERNEL);
        return;
    }
    if (c->has_status) {
        lkind kind = status_kind(c->kernel, h->t);
        lb_store(b, h->kernel_status, idx(h, 0), lb_int(b, lt(kind, 1), 0), kind == LK_I64 ? 8 : 4);
    }
    call_by_levels(h, s->kernel, call_kernel);
    if (c->has_status) check_kernel(h, c, status_value(h, c, h->kernel_status));
}

// ---------------------------------------------------------------- memory
static void copy_bytes(host *h, const buffer *to, const buffer *from, ins *bytes) {
    lbuild *b = &h->b;
    if (copies_across(h, to, from)) {
        copy_across(h, to, from, bytes);
        return;
    }
    ltype size = lt(lindex_kind(h->t), 1);
    bool same = buffer_root(to) == buffer_root(from);
    const char *name = runtime_function(h->builder, same ? "memmove" : "memcpy", lt_ptr(), 3,
                                        (ltype[]){lt_ptr(), lt_ptr(), size});
    ins *some = bytes->op == L_CONST ? NULL : lb_if(b, lb_cmp(b, L_NE, bytes, lb_int(b, i64(), 0)));
    ins *args[] = {buffer_pointer(h, to), buffer_pointer(h, from), to_index(h, bytes)};
    lb_call(b, lt_ptr(), name, 3, args);
    if (some) lb_end(b, some);
}

static void copy_step(host *h, const step *s) {
    ins *bytes = host_dim(h, buffer_bytes(s->buffer));
    if (bytes->op == L_CONST && bytes->i == 0) return;
    if (h->gpu_run && buffer_root(s->buffer)->space != SPACE_DEVICE) check_launched(h, check_kernel);
    bool sized = s->buffer->role == BUF_OUTPUT && dims_are_opaque(s->buffer->dims, s->buffer->rank);
    ins *fits = sized ? open_capacity(h, s->buffer) : NULL;
    if (!sized || h->builder->result_of[buffer_root(s->from)->id] != s->buffer)
        copy_bytes(h, s->buffer, s->from, bytes);
    if (fits) close_capacity(h, fits, s->buffer);
}

// The bytes of a heap buffer, of which all dims are checked.
static ins *heap_bytes(host *h, const step *s) {
    arena *a = h->builder->arena;
    const buffer *of = s->buffer;
    for (int j = 0; j < of->rank; j++) {
        ins *negative = host_negative(h, of->dims[j]);
        if (!negative) continue;
        host_fail_if(h, negative, ONNXC_CHECK_FAILED,
                     located(h, s->loc, arena_printf(a, "axis %d of '%s' has a negative size", j, of->name)));
    }
    ins *large = lb_int(&h->b, lt(LK_I1, 1), 0), *bytes = host_size(h, buffer_bytes(of), &large);
    host_fail_if(h, large, ONNXC_TOO_LARGE,
                 located(h, s->loc, arena_printf(a, "'%s' is too large", of->name)));
    return bytes;
}

static void allocate(host *h, const step *s, ins *bytes) {
    lbuild *b = &h->b;
    arena *a = h->builder->arena;
    const buffer *of = s->buffer;
    bool there = of->space == SPACE_DEVICE;
    const char *name =
        there ? NULL : library_function(h->builder, "onnxc_rt_alloc", "alloc", lt_ptr(), i64());
    ins *pointer = there ? alloc_on_gpu(h, bytes) : lb_call(b, lt_ptr(), name, 1, &bytes);
    lb_set(b, h->heap[of->id], pointer);
    ins *none = lb_cmp(b, L_EQ, lb_get(b, h->heap[of->id]), lb_null(b));
    host_fail_if(h, none, ONNXC_NO_MEMORY,
                 located(h, s->loc, arena_printf(a, "no memory for '%s'", of->name)));
}

static void alloc_step(host *h, const step *s) {
    const buffer *of = s->buffer;
    bool result = h->builder->result_of[of->id];
    if (!on_heap(of) && !result) return;
    ins *bytes = on_heap(of) ? heap_bytes(h, s) : NULL, *own = result ? open_own_memory(h, of) : NULL;
    if (bytes) allocate(h, s, bytes);
    else lb_set(&h->b, h->heap[of->id], planned_pointer(h, of));
    if (own) lb_end(&h->b, own);
}

static void free_step(host *h, const buffer *of) {
    lbuild *b = &h->b;
    if (!on_heap(of)) return;
    ins *pointer = lb_get(b, h->heap[of->id]),
        *own = h->builder->result_of[of->id] ? open_own_free(h, of) : NULL;
    if (of->space == SPACE_DEVICE) {
        free_on_gpu(h, pointer);
    } else {
        const char *name = library_function(h->builder, "onnxc_rt_free", "alloc", lt(LK_VOID, 1), lt_ptr());
        lb_call(b, lt(LK_VOID, 1), name, 1, &pointer);
    }
    if (own) lb_end(b, own);
    lb_set(b, h->heap[of->id], lb_null(b));
}

static void move_step(host *h, const step *s) {
    lb_set(&h->b, h->heap[s->buffer->id], lb_get(&h->b, h->heap[s->from->id]));
    lb_set(&h->b, h->heap[s->from->id], lb_null(&h->b));
}

// ---------------------------------------------------------------- dims and control
// The memory plan relies on the bounds of sizes, and checks that they imply are not in the program.
static void check_bounds(host *h, const step *s, ins *v) {
    lbuild *b = &h->b;
    const dim *d = s->target;
    if (d->min <= INT64_MIN / 2 || v->op == L_CONST) return;
    if (s->dim && s->dim->min >= d->min && s->dim->max <= d->max) return;
    ins *above = lb_bin(b, L_SUB, v, lb_int(b, i64(), d->min));
    ins *wrong = lb_cmp(b, L_ULT, lb_int(b, i64(), d->max - d->min), above);
    const char *range = dim_range_text(h->builder->arena, d);
    const char *plain = arena_printf(h->builder->arena, "a size is %s", range);
    const char *numbered = arena_printf(h->builder->arena, "size \1 is %s", range);
    host_fail_saying(h, wrong, ONNXC_CHECK_FAILED,
                     &(said){located(h, s->loc, plain), located(h, s->loc, numbered), v, NULL});
}

static void set_dim_step(host *h, const step *s) {
    lbuild *b = &h->b;
    ins *v;
    if (s->dim) {
        v = host_dim(h, s->dim);
    } else {
        dtype t = s->buffer->dtype;
        v = load_element(b, t, buffer_pointer(h, s->buffer), idx(h, s->index), 1);
        v = convert_value(b, dtype_compute(t), DT_I64, v, true);
    }
    check_bounds(h, s, v);
    host_set_dim(h, s->target, v);
}

static void region_steps(host *h, const region *r);

static void if_step(host *h, const step *s) {
    lbuild *b = &h->b;
    ins *condition =
        s->buffer ? is_true(h, s->buffer) : lb_cmp(b, L_NE, host_dim(h, s->dim), lb_int(b, i64(), 0));
    ins *choice = lb_if(b, condition);
    region_steps(h, s->body[0]);
    if (s->body[1]->steps.n) {
        lb_else(b, choice);
        region_steps(h, s->body[1]);
    }
    lb_end(b, choice);
}

static ins *failed_so_far(host *h) {
    return lb_cmp(&h->b, L_NE, lb_get(&h->b, h->status), lb_int(&h->b, i32(), 0));
}

static void loop_step(host *h, const step *s) {
    lbuild *b = &h->b;
    ins *limit = s->dim ? host_dim(h, s->dim) : NULL;
    host_forget_dims(h); // the body sets variables
    ins *count = lb_var(b, "iteration", lb_int(b, i64(), 0));
    ins *loop = lb_loop(b);
    ins *now = lb_get(b, count);
    if (limit) lb_break(b, lb_cmp(b, L_SLE, limit, now));
    host_set_dim(h, s->target, now);
    if (s->buffer)
        lb_break(b, lb_cmp(b, L_EQ, lb_conv(b, L_ZEXT, LK_I32, is_true(h, s->buffer)), lb_int(b, i32(), 0)));
    region_steps(h, s->body[0]);
    lb_set(b, count, lb_bin(b, L_ADD, now, lb_int(b, i64(), 1)));
    lb_end(b, loop);
    host_forget_dims(h);
    if (h->status) lb_break(b, failed_so_far(h));
}

static void check_step(host *h, const step *s) {
    ins *wrong = lb_cmp(&h->b, L_EQ, host_dim(h, s->dim), lb_int(&h->b, i64(), 0));
    said m = {.plain = located(h, s->loc, s->message)};
    const char *word = check_compares(s);
    if (word) {
        m.numbered = arena_printf(h->builder->arena, "%s (\1%s\2)", m.plain, word);
        m.first = host_dim(h, s->dim->a), m.second = host_dim(h, s->dim->b);
    }
    host_fail_saying(h, wrong, ONNXC_CHECK_FAILED, &m);
}

static void one_step(host *h, const step *s) {
    switch (s->kind) {
    case STEP_KERNEL: kernel_step(h, s); break;
    case STEP_CHECK: check_step(h, s); break;
    case STEP_SET_DIM: set_dim_step(h, s); break;
    case STEP_ALLOC: alloc_step(h, s); break;
    case STEP_FREE: free_step(h, s->buffer); break;
    case STEP_COPY: copy_step(h, s); break;
    case STEP_MOVE: move_step(h, s); break;
    case STEP_IF: if_step(h, s); break;
    case STEP_LOOP: loop_step(h, s); break;
    case STEP_LIB: library_step(h, s); break;
    }
}

static void region_steps(host *h, const region *r) {
    h->depth++;
    for (int j = 0; j < r->steps.n; j++) one_step(h, r->steps.at[j]);
    h->depth--;
}

// With heap buffers all steps are in a loop that runs once: failures leave it, and the code after it frees
// all buffers that are still allocated.
void host_steps(host *h) {
    lbuild *b = &h->b;
    program *p = h->builder->p;
    ins *once = NULL;
    h->heap = ARENA_ARRAY(h->builder->arena, ins *, p->buffers.n + 1);
    for (int j = 0; j < p->buffers.n; j++) {
        const buffer *o = p->buffers.at[j];
        if (has_variable(h->builder, o))
            h->heap[o->id] = lb_var(b, local_name(h, o->name, "buffer"), lb_null(b));
    }
    if (h->builder->heap) {
        h->status = lb_var(b, "status", lb_int(b, i32(), 0));
        once = lb_loop(b);
    }
    if (h->gpu_run) begin_gpu(h);
    region_steps(h, p->main);
    if (h->gpu_run) check_launched(h, check_kernel);
    if (!once) return;
    lb_break(b, lb_int(b, lt(LK_I1, 1), 1));
    lb_end(b, once);
    for (int j = 0; j < p->buffers.n; j++)
        if (h->heap[j]) free_step(h, p->buffers.at[j]);
    release_made(h);
    if (h->gpu_run) end_gpu(h);
    ins *failed = lb_if(b, failed_so_far(h));
    lb_return(b, lb_get(b, h->status));
    lb_end(b, failed);
    h->status = NULL;
}
