// The entry functions check all arguments before they write anything, then run the steps. The generic entry
// takes flat arrays (one pointer for each input and output, and all dims). The typed entry fills such arrays
// from its structs, or, if there is no generic entry, reads the structs directly.
#include "codegen/host/host_impl.h"
#include <string.h>

// ---------------------------------------------------------------- failures
// The runtime composes messages, and puts numbers into them. Objects that do not link with it have plain ones.
static bool composes(const host *h) { return h->builder->result->needs_runtime && !h->builder->o->real_time; }

static int64_t message_offset(host *h, const char *s, bool numbers) {
    shared *all = h->builder->shared;
    uintptr_t known = (uintptr_t)map_get(&all->message_at, s);
    if (known) return (int64_t)known - 1;
    int64_t at = (int64_t)all->messages.n;
    if (composes(h)) at = sentences_add(all->sentences, s, numbers);
    else text_addn(&all->messages, s, strlen(s) + 1);
    map_put(&all->message_at, s, (void *)(uintptr_t)(at + 1));
    return at;
}

static void set_message_member(host *h, ins *s) {
    const interface *io = h->builder->io;
    lb_setfield(&h->b, h->out, io->message, interface_pointer_offset(h->t, io->out_int64s, io->out_pointers),
                s);
}

static ins *message_text(host *h, const char *s, bool numbers) {
    ins *all = lb_symbol(&h->b, arena_printf(h->builder->arena, "%s_messages", h->builder->io->name));
    return lb_offset(&h->b, all, idx(h, message_offset(h, s, numbers)), 1);
}

static ins *composed(host *h, const said *m) {
    lbuild *b = &h->b;
    ins *text = message_text(h, m->numbered ? m->numbered : m->plain, m->numbered != NULL);
    const char *name =
        runtime_function(h->builder, "onnxc_rt_message", lt_ptr(), 3, (ltype[]){lt_ptr(), i64(), i64()});
    ins *numbers[] = {m->first, m->second};
    for (int j = 0; j < 2; j++)
        if (!m->numbered || !numbers[j]) numbers[j] = lb_int(b, i64(), 0);
    return lb_call(b, lt_ptr(), name, 3, (ins *[]){text, numbers[0], numbers[1]});
}

static void set_message(host *h, const said *m) {
    lbuild *b = &h->b;
    if (!h->message) {
        lb_comment(b, m->plain);
        return;
    }
    lb_store(b, h->message, idx(h, 0), composes(h) ? composed(h, m) : message_text(h, m->plain, false), 0);
    if (h->says_in_out) set_message_member(h, lb_load(b, lt_ptr(), h->message, idx(h, 0), 0));
}

static void set_plain(host *h, const char *s) { set_message(h, &(said){.plain = s}); }

void host_fail_if(host *h, ins *cond, onnxc_status code, const char *message) {
    host_fail_saying(h, cond, code, &(said){.plain = message});
}

void host_fail_saying(host *h, ins *cond, onnxc_status code, const said *message) {
    lbuild *b = &h->b;
    if (cond->op == L_CONST && !cond->i) return;
    ins *failed = lb_if(b, cond);
    if (h->asks_size) {
        lb_return(b, lb_int(b, h->b.f->result, -1));
    } else {
        set_message(h, message);
        if (!h->status) lb_return(b, lb_int(b, i32(), code));
        else lb_set(b, h->status, lb_int(b, i32(), code)), lb_break(b, lb_int(b, lt(LK_I1, 1), 1));
    }
    lb_end(b, failed);
}

// Fails if that argument ("output 'y'") is a null pointer although the tensor has elements.
static void host_fail_if_null(host *h, ins *pointer, ins *count, const char *what, const char *name) {
    lbuild *b = &h->b;
    ins *none = lb_cmp(b, L_EQ, pointer, lb_null(b));
    if (count->op == L_CONST && count->i == 0) return;
    if (count->op != L_CONST) none = lb_bin(b, L_AND, none, lb_cmp(b, L_NE, count, lb_int(b, i64(), 0)));
    host_fail_if(h, none, ONNXC_NULL_POINTER,
                 arena_printf(h->builder->arena, "%s '%s' is a null pointer", what, name));
}

// ---------------------------------------------------------------- arguments
static const io_tensor *tensor_at(const host *h, bool output, int i) {
    return output ? &h->builder->io->out[i] : &h->builder->io->in[i];
}

static int64_t pointer_place(const host *h, bool output, int i) {
    return interface_pointer_offset(h->t, output ? h->builder->io->out_int64s : h->builder->io->in_int64s,
                                    tensor_at(h, output, i)->pointer_slot);
}

static ins *argument_pointer(host *h, bool output, int i) {
    const interface *io = h->builder->io;
    if (output && io->out[i].state) return argument_pointer(h, false, io->out[i].state - 1);
    if (h->data) return lb_load(&h->b, lt_ptr(), h->data, idx(h, output ? io->nin + i : i), 0);
    return lb_field(&h->b, lt_ptr(), output ? h->out : h->in, tensor_at(h, output, i)->name,
                    pointer_place(h, output, i));
}

ins *io_pointer(host *h, bool output, int i) {
    ins *argument = argument_pointer(h, output, i);
    const buffer *fallback = output ? NULL : h->builder->io->in[i].buffer->fallback;
    if (!fallback) return argument;
    ins *none = lb_cmp(&h->b, L_EQ, argument, lb_null(&h->b));
    return lb_select(&h->b, none, buffer_pointer(h, fallback), argument);
}

// The caller's variable with the size of states that grow, of the structs.
static ins *growth_pointer(host *h, const io_growth *g) {
    int64_t place = interface_pointer_offset(h->t, h->builder->io->in_int64s, g->pointer_slot);
    return lb_field(&h->b, lt_ptr(), h->in, g->name, place);
}

static void check_growth_pointers(host *h) {
    const interface *io = h->builder->io;
    for (int j = 0; j < io->growths.n; j++) {
        ins *none = lb_cmp(&h->b, L_EQ, growth_pointer(h, &io->growths.at[j]), lb_null(&h->b));
        host_fail_if(h, none, ONNXC_NULL_POINTER,
                     arena_printf(h->builder->arena, "'%s' is a null pointer", io->growths.at[j].name));
    }
}

// The new sizes: dims of the generic entry, or NULL.
static void store_growths(host *h, ins *dims) {
    const interface *io = h->builder->io;
    for (int j = 0; j < io->growths.n; j++) {
        const io_growth *g = &io->growths.at[j];
        const io_tensor *t = &io->out[g->output];
        ins *now = dims ? lb_load(&h->b, i64(), dims, idx(h, t->first_dim + g->axis), 0)
                        : host_dim(h, t->buffer->dims[g->axis]);
        lb_store(&h->b, growth_pointer(h, g), idx(h, 0), now, 0);
    }
}

ins *io_dim(host *h, bool output, int i, int axis) {
    const io_tensor *t = tensor_at(h, output, i);
    if (h->dims) return lb_load(&h->b, i64(), h->dims, idx(h, t->first_dim + axis), 0);
    if (output && t->state) return io_dim(h, false, t->state - 1, axis);
    if (t->growth && axis == t->growth_axis)
        return lb_load(&h->b, i64(), growth_pointer(h, &h->builder->io->growths.at[t->growth - 1]), idx(h, 0),
                       0);
    if (t->dim_slots[axis] < 0) return lb_int(&h->b, i64(), dim_value(t->buffer->dims[axis]));
    return lb_field(&h->b, i64(), output ? h->out : h->in, t->dims[axis],
                    interface_int64_offset(t->dim_slots[axis]));
}

ins *io_capacity(host *h, int i) {
    const io_tensor *t = tensor_at(h, true, i);
    if (h->capacity) return lb_load(&h->b, i64(), h->capacity, idx(h, i), 0);
    return t->capacity ? lb_field(&h->b, i64(), h->out, t->capacity, interface_int64_offset(t->capacity_slot))
                       : NULL;
}

ins *open_capacity(host *h, const buffer *output) {
    ins *count = host_dim(h, buffer_count(output));
    ins *fits = lb_if(&h->b, lb_cmp(&h->b, L_SLE, count, io_capacity(h, output->io)));
    host_fail_if_null(h, buffer_pointer(h, output), count, "output", output->name);
    return fits;
}

static void say_too_small(host *h, const io_tensor *t, ins *capacity) {
    arena *a = h->builder->arena;
    const char *plain = arena_printf(a, "output '%s' is too small", t->original);
    set_message(h, &(said){plain, arena_printf(a, "%s: \1 elements given, \2 needed", plain), capacity,
                           host_dim(h, buffer_count(t->buffer))});
}

void close_capacity(host *h, ins *fits, const buffer *output) {
    lb_else(&h->b, fits);
    say_too_small(h, tensor_at(h, true, output->io), io_capacity(h, output->io));
    lb_set(&h->b, h->too_small, lb_int(&h->b, lt(LK_I1, 1), 1));
    lb_end(&h->b, fits);
}

// all: also of outputs whose size the run computes.
static void write_output_dims(host *h, bool all) {
    const interface *io = h->builder->io;
    for (int i = 0; i < io->nout; i++) {
        const io_tensor *t = &io->out[i];
        if (t->data_sized && !all) continue;
        for (int j = 0; j < t->buffer->rank; j++) {
            if (h->dims)
                lb_store(&h->b, h->dims, idx(h, t->first_dim + j), host_dim(h, t->buffer->dims[j]), 0);
            else if (t->dim_slots[j] >= 0)
                lb_setfield(&h->b, h->out, t->dims[j], interface_int64_offset(t->dim_slots[j]),
                            host_dim(h, t->buffer->dims[j]));
        }
    }
}

// ---------------------------------------------------------------- checks
static void check_rules(host *h) {
    const build_options *o = h->builder->o;
    lbuild *b = &h->b;
    for (int j = 0; j < o->nrules; j++)
        host_fail_if(h, lb_cmp(b, L_EQ, host_dim(h, o->rules[j].holds), lb_int(b, i64(), 0)), ONNXC_BAD_DIM,
                     o->rules[j].message);
}

static void check_sizes(host *h) {
    const interface *io = h->builder->io;
    ins *large = lb_int(&h->b, lt(LK_I1, 1), 0);
    for (int i = 0; i < io->nin; i++) host_size(h, buffer_bytes(io->in[i].buffer), &large);
    for (int i = 0; i < io->nout; i++)
        if (!io->out[i].data_sized) host_size(h, buffer_bytes(io->out[i].buffer), &large);
    host_size(h, h->builder->plan.workspace, &large);
    if (h->builder->device_workspace) host_size(h, h->builder->device_workspace, &large);
    host_fail_if(h, large, ONNXC_TOO_LARGE, "these sizes need more memory than any machine has");
}

static void check_pointer(host *h, bool output, int i) {
    const io_tensor *t = tensor_at(h, output, i);
    if (t->buffer->fallback) return;
    const buffer *largest = !output && t->growth ? h->builder->io->out[t->state - 1].buffer : t->buffer;
    ins *count = host_dim(h, buffer_count(largest)), *pointer = io_pointer(h, output, i);
    host_fail_if_null(h, pointer, count, output ? "output" : "input", t->original);
}

// Outputs are compared from the last to the first: the message names the first one that is too small.
static void check_capacities(host *h) {
    lbuild *b = &h->b;
    const interface *io = h->builder->io;
    ins *yes = lb_int(b, lt(LK_I1, 1), 1), *any = NULL;
    for (int i = io->nout - 1; i >= 0; i--) {
        const io_tensor *t = &io->out[i];
        ins *capacity = t->data_sized || t->state ? NULL : io_capacity(h, i);
        if (!capacity) continue;
        if (!any) any = lb_var(b, "small", lb_int(b, lt(LK_I1, 1), 0));
        ins *small = lb_if(b, lb_cmp(b, L_SLT, capacity, host_dim(h, buffer_count(t->buffer))));
        say_too_small(h, t, capacity);
        lb_set(b, any, yes);
        lb_end(b, small);
    }
    if (!any) return;
    ins *small = lb_if(b, lb_get(b, any));
    write_output_dims(h, false);
    lb_return(b, lb_int(b, i32(), ONNXC_TOO_SMALL));
    lb_end(b, small);
}

static void check_workspace(host *h) {
    lbuild *b = &h->b;
    host_builder *a = h->builder;
    dim *need = a->plan.workspace;
    if (dim_is(need, 0)) return;
    const char *bytes = dim_text(a->arena, need);
    ins *size = host_index(h, need), *zero = lb_int(b, size_type(h), 0);
    const char *plain = dim_is_const(need)
                            ? arena_printf(a->arena, "workspace too small: %s bytes needed", bytes)
                            : "the workspace is too small";
    ins *given = lindex_kind(h->t) == LK_I64 ? h->size : lb_conv(b, L_ZEXT, LK_I64, h->size);
    host_fail_saying(
        h, lb_cmp(b, L_ULT, h->size, size), ONNXC_WORKSPACE_SIZE,
        &(said){plain, "workspace too small: \1 bytes given, \2 needed", given, host_dim(h, need)});
    ins *none = lb_cmp(b, L_EQ, h->workspace, lb_null(b));
    if (size->op != L_CONST) none = lb_bin(b, L_AND, none, lb_cmp(b, L_NE, size, zero));
    host_fail_if(h, none, ONNXC_NULL_POINTER, "the workspace is a null pointer");
    ins *low =
        lb_bin(b, L_AND, lb_bitcast(b, size_type(h), h->workspace), lb_int(b, size_type(h), a->align - 1));
    host_fail_if(h, lb_cmp(b, L_NE, low, zero), ONNXC_WORKSPACE_ALIGN,
                 arena_printf(a->arena, "the workspace must be aligned to %lld bytes", (long long)a->align));
}

// What a full state has no room for is refused before anything is written.
static void check_rooms(host *h) {
    const program *p = h->builder->p;
    lbuild *b = &h->b;
    for (int j = 0; j < p->outputs.n; j++) {
        int axis = state_axis(p, j);
        if (axis < 0) continue;
        ins *now = host_dim(h, p->outputs.at[j]->dims[axis]), *room = lb_int(b, i64(), state_room(p, j));
        host_fail_if(h, lb_cmp(b, L_SLT, room, now), ONNXC_BAD_DIM, state_full_message(p, j));
    }
}

static void check_arguments(host *h) {
    const interface *io = h->builder->io;
    host_bind_symbols(h);
    check_rooms(h);
    host_check_negative(h);
    check_sizes(h);
    for (int i = 0; i < io->nin; i++) check_pointer(h, false, i);
    check_capacities(h);
    for (int i = 0; i < io->nout; i++) {
        if (io->out[i].data_sized || io->out[i].state) continue;
        check_pointer(h, true, i);
    }
    if (!passes_pools(h->builder)) check_workspace(h);
    else if (h->in) check_pool_members(h);
}

// ---------------------------------------------------------------- the run
static void compute_offsets(host *h) {
    host_builder *a = h->builder;
    h->offset = ARENA_ARRAY(a->arena, ins *, a->p->buffers.n + 1);
    h->scratch = ARENA_ARRAY(a->arena, ins *, a->p->kernels.n + 1);
    map known = {.arena = a->arena};
    for (int j = 0; j < a->p->buffers.n + a->p->kernels.n; j++) {
        bool is_buffer = j < a->p->buffers.n;
        int i = is_buffer ? j : j - a->p->buffers.n;
        dim *d = is_buffer ? a->p->buffers.at[i]->offset : a->plan.scratch_offset[i];
        if (!d || dim_is_const(d)) continue;
        ins *v = map_get_number(&known, (uint64_t)d->id);
        if (!v) map_put_number(&known, (uint64_t)d->id, v = host_index(h, d));
        *(is_buffer ? &h->offset[i] : &h->scratch[i]) = v;
    }
}

static bool checks_data(const host *h) {
    const kernel_code *c;
    for (int j = 0; j < h->builder->p->kernels.n; j++)
        for (int level = 0; (c = next_code(h, j, &level));)
            if (c->has_status) return true;
    return false;
}

static bool has_data_sized(const interface *io) {
    for (int i = 0; i < io->nout; i++)
        if (io->out[i].data_sized) return true;
    return false;
}

static const char bad_cpu[] = "this machine's CPU lacks instructions that the model was compiled for";

static ins *runtime_says(host *h, const char *function) {
    const char *name = runtime_function(h->builder, function, i32(), 0, NULL);
    ins *has = lb_call(&h->b, i32(), name, 0, NULL);
    return lb_cmp(&h->b, L_NE, has, lb_int(&h->b, i32(), 0));
}

// Runs without threads make no system call.
static ins *has_tiles(host *h) {
    return runtime_says(h, h->t->threads == 1 ? "onnxc_rt_tiles_at_start" : "onnxc_rt_tiles");
}

// Code for one level is entered without a look at the CPU, but tiles need the system's permission.
static void check_tiles(host *h) {
    bool uses = false;
    for (int k = 0; k < h->builder->p->kernels.n && h->code; k++) uses |= h->code[k] && h->code[k]->has_tiles;
    if (!uses || h->builder->nvariants > 1 || h->t->freestanding) return;
    ins *none = lb_cmp(&h->b, L_EQ, has_tiles(h), lb_int(&h->b, lt(LK_I1, 1), 0));
    host_fail_if(h, none, ONNXC_BAD_CPU, bad_cpu);
}

static void run_body(host *h) {
    lbuild *b = &h->b;
    check_tiles(h);
    check_arguments(h);
    load_pools(h);
    compute_offsets(h);
    host_variables(h);
    make_task_arrays(h);
    make_library_arrays(h);
    prepare_gpu(h);
    bool small = h->t->arch.is_text || !h->t->hosted;
    if (!h->gpu_run && checks_data(h))
        h->kernel_status = named_local(b, "failed", small ? LK_I32 : LK_I64, 1);
    if (has_data_sized(h->builder->io)) h->too_small = lb_var(b, "too_small", lb_int(b, lt(LK_I1, 1), 0));
    host_steps(h);
    write_output_dims(h, true);
    if (h->too_small) {
        ins *small = lb_if(b, lb_get(b, h->too_small));
        lb_return(b, lb_int(b, i32(), ONNXC_TOO_SMALL));
        lb_end(b, small);
    }
    if (!h->data) store_growths(h, NULL);
    lb_return(b, lb_int(b, i32(), ONNXC_OK));
}

// ---------------------------------------------------------------- functions
// Host code needs no feature of a CPU level.
const target *host_target(const host *h) {
    const host_builder *a = h->builder;
    for (int j = 0; j < a->nvariants; j++)
        if (a->variants[j] == h->t) return a->variants[0];
    return h->t;
}

static lfunc *open_function(host *h, const char *name, bool exported, ltype result, const char *ctype) {
    lfunc *f = lfunc_new(h->builder->m, name, result);
    f->target = host_target(h);
    f->exported = exported;
    f->ctype = ctype;
    h->b = lbuild_new(f, h->t, h->builder->diag);
    h->atoms = (map){.arena = h->builder->arena};
    return f;
}

static ins *add_param(lfunc *f, const char *name, ltype t, lkind elem, dtype dt, bool is_const,
                      const char *ctype) {
    ins *v = lfunc_param(f, name, t, elem, dt, is_const);
    f->params.at[f->params.n - 1].ctype = ctype;
    return v;
}

static void workspace_params(host *h) {
    lfunc *f = h->b.f;
    h->workspace = add_param(f, "workspace", lt_ptr(), LK_VOID, DT_NONE, false, NULL);
    h->size = add_param(f, "workspace_size", size_type(h), LK_VOID, DT_U64, true, "size_t");
}

// Messages that the caller does not want are stored in a local variable.
static void set_message_slot(host *h, ins *message) {
    lbuild *b = &h->b;
    if (!h->builder->io->messages) return;
    ins *nowhere = named_local(b, "nowhere", LK_PTR, 1);
    h->message = lb_select(b, lb_cmp(b, L_EQ, message, lb_null(b)), nowhere, message);
}

enum { FLAT_PARAMS = 6 };
static void flat_params(host *h) {
    lfunc *f = h->b.f;
    h->data = add_param(f, "data", lt_ptr(), LK_PTR, DT_NONE, true, NULL);
    h->dims = add_param(f, "dims", lt_ptr(), LK_I64, DT_I64, false, NULL);
    h->capacity = add_param(f, "capacity", lt_ptr(), LK_I64, DT_I64, true, NULL);
    workspace_params(h);
    set_message_slot(h, add_param(f, "message", lt_ptr(), LK_PTR, DT_NONE, false, "const char *"));
}

// The result of a function with the same parameters, and one more.
static void return_call_with(host *h, const char *name, ins *more) {
    const lfunc *f = h->b.f;
    ins **args = ARENA_ARRAY(h->builder->arena, ins *, f->params.n + 1);
    for (int j = 0; j < f->params.n; j++) args[j] = f->params.at[j].value;
    args[f->params.n] = more;
    lb_return(&h->b, lb_call(&h->b, i32(), name, f->params.n + (more != NULL), args));
}

static void return_call(host *h, const char *name) { return_call_with(h, name, NULL); }

static void check_arrays(host *h) {
    lbuild *b = &h->b;
    ins *const arrays[] = {h->data, h->dims, h->capacity};
    const char *const names[] = {"data", "dims", "capacity"};
    const interface *io = h->builder->io;
    const int needed[] = {io->nin + io->nout + io->context + (io->hook_user != NULL), io->ndims, io->nout};
    for (int j = 0; j < 3; j++)
        if (needed[j])
            host_fail_if(h, lb_cmp(b, L_EQ, arrays[j], lb_null(b)), ONNXC_NULL_POINTER,
                         arena_printf(h->builder->arena, "the array of %s is a null pointer", names[j]));
}

static ins *start_runtime(host *h) {
    const char *name = arena_printf(h->builder->arena, "onnxc_interface_%d", INTERFACE_VERSION);
    return lb_call(&h->b, i32(), runtime_function(h->builder, name, i32(), 0, NULL), 0, NULL);
}

static void write_flat_run(host *h, const char *name, bool exported) {
    open_function(h, name, exported, i32(), "int");
    flat_params(h);
    if (exported && h->builder->result->needs_runtime && !h->t->freestanding) start_runtime(h);
    check_arrays(h);
    load_context(h);
    run_body(h);
}

// Whether this machine can run a variant.
static ins *can_run(host *h, const cpu_level *l, ins *level) {
    lbuild *b = &h->b;
    ins *can = lb_cmp(b, L_SLE, lb_int(b, i32(), l->level), level);
    const char *question = l->at_start && h->t->threads == 1 ? l->at_start : l->question;
    if (question) can = lb_bin(b, L_AND, can, runtime_says(h, question));
    if (!l->vector_bits) return can;
    ins *bits =
        lb_call(b, i32(), runtime_function(h->builder, "onnxc_rt_vector_bits", i32(), 0, NULL), 0, NULL);
    return lb_bin(b, L_AND, can, lb_cmp(b, L_SLE, lb_int(b, i32(), l->vector_bits), bits));
}

// Calls the best variant that this machine can run.
static void write_dispatch(host_builder *a, host *variants, int n, const char *name, bool exported) {
    host h = {.builder = a, .t = variants[0].t};
    lbuild *b = &h.b;
    open_function(&h, name, exported, i32(), "int");
    flat_params(&h);
    ins *level = start_runtime(&h);
    for (int j = n - 1; j >= 0; j--) {
        ins *can = lb_if(b, can_run(&h, variants[j].t->level, level));
        return_call(&h, arena_printf(a->arena, "%s_run%s", a->io->name, variants[j].suffix));
        lb_end(b, can);
    }
    set_plain(&h, bad_cpu);
    lb_return(b, lb_int(b, i32(), ONNXC_BAD_CPU));
}

// One function for all levels, and for each a name, under which it passes its number.
static void write_shared_runs(host_builder *a, host *variants, int n) {
    host *h = &variants[0];
    const char *all = arena_printf(a->arena, "%s_run%s_level", a->io->name, a->suffix);
    open_function(h, all, false, i32(), "int");
    flat_params(h);
    h->level = add_param(h->b.f, "level", i32(), LK_VOID, DT_I32, true, NULL);
    check_arrays(h);
    load_context(h);
    run_body(h);
    for (int j = 0; j < n; j++) {
        host own = {.builder = a, .t = variants[j].t};
        open_function(&own, arena_printf(a->arena, "%s_run%s", a->io->name, variants[j].suffix), false, i32(),
                      "int");
        flat_params(&own);
        return_call_with(&own, all, lb_int(&own.b, i32(), j));
    }
}

static void write_flat_runs(host_builder *a, host *variants, int n, const char *name, bool exported) {
    bool shared = n > 1 && share_host_code(variants, n);
    if (shared) write_shared_runs(a, variants, n);
    for (int j = 0; j < n && !shared; j++) {
        store_rounded(a->p, variants[j].t);
        write_flat_run(&variants[j],
                       n == 1 ? name : arena_printf(a->arena, "%s_run%s", a->io->name, variants[j].suffix),
                       n == 1 && exported);
    }
    if (n > 1) write_dispatch(a, variants, n, name, exported);
}

static void struct_params(host *h) {
    lfunc *f = h->b.f;
    const char *name = h->builder->io->name;
    arena *a = h->builder->arena;
    if (h->builder->io->context)
        h->context = add_param(f, "context", lt_ptr(), LK_VOID, DT_NONE, true, "onnxc_context");
    h->in = add_param(f, "in", lt_ptr(), LK_VOID, DT_NONE, true, arena_printf(a, "%s_in", name));
    h->out = add_param(f, "out", lt_ptr(), LK_VOID, DT_NONE, false, arena_printf(a, "%s_out", name));
    workspace_params(h);
}

// From here on messages go into *out, so the one about `out` itself has no place.
static void check_structs(host *h) {
    lbuild *b = &h->b;
    ins *in = lb_cmp(b, L_EQ, h->in, lb_null(b)), *out = lb_cmp(b, L_EQ, h->out, lb_null(b));
    if (h->builder->io->messages) {
        host_fail_if(h, out, ONNXC_NULL_POINTER, "'out' is a null pointer");
        h->message = named_local(b, "message", LK_PTR, 1);
        h->says_in_out = true;
        host_fail_if(h, in, ONNXC_NULL_POINTER, "'in' is a null pointer");
    } else
        host_fail_if(h, lb_bin(b, L_OR, in, out), ONNXC_NULL_POINTER, "in and out must not be null pointers");
    check_growth_pointers(h);
}

static void write_struct_run(host *h, const char *name, bool exported) {
    open_function(h, name, exported, i32(), "int");
    struct_params(h);
    if (exported) check_structs(h);
    if (exported && h->builder->result->needs_runtime && !h->t->freestanding) start_runtime(h);
    load_context(h);
    run_body(h);
}

// Copies the structs' members to the arrays of the generic entry. Dims of outputs, too: it may not set them.
static void fill_arrays(host *h, ins *data, ins *dims, ins *capacity) {
    const interface *io = h->builder->io;
    lbuild *b = &h->b;
    for (int j = 0; j < io->nin + io->nout; j++) {
        bool output = j >= io->nin;
        int i = output ? j - io->nin : j;
        const io_tensor *t = tensor_at(h, output, i);
        lb_store(b, data, idx(h, j), argument_pointer(h, output, i), 0);
        for (int axis = 0; axis < t->buffer->rank; axis++)
            lb_store(b, dims, idx(h, t->first_dim + axis), io_dim(h, output, i, axis), 0);
        if (!output) continue;
        ins *room = io_capacity(h, i);
        lb_store(b, capacity, idx(h, i), room ? room : lb_int(b, i64(), INT64_MAX), 0);
    }
}

static void fill_extras(host *h, ins *data) {
    const interface *io = h->builder->io;
    int at = io->nin + io->nout;
    if (io->context) lb_store(&h->b, data, idx(h, at++), h->context, 0);
    if (!io->hook_user) return;
    int64_t place = interface_pointer_offset(h->t, io->in_int64s, io->in_pointers);
    lb_store(&h->b, data, idx(h, at), lb_field(&h->b, lt_ptr(), h->in, io->hook_user, place), 0);
}

static void store_results(host *h, ins *dims, ins *message) {
    const interface *io = h->builder->io;
    lbuild *b = &h->b;
    for (int i = 0; i < io->nout; i++) {
        const io_tensor *t = &io->out[i];
        for (int j = 0; j < t->buffer->rank; j++) {
            if (t->dim_slots[j] < 0) continue;
            ins *v = lb_load(b, i64(), dims, idx(h, t->first_dim + j), 0);
            lb_setfield(b, h->out, t->dims[j], interface_int64_offset(t->dim_slots[j]), v);
        }
    }
    if (!io->messages) return;
    set_message_member(h, lb_load(b, lt_ptr(), message, idx(h, 0), 0));
}

// The function with an array of the pools' addresses as workspace, which both entries call.
static const char *pools_function(const host_builder *a) {
    return arena_printf(a->arena, "%s_run_pools", a->io->name);
}

static void write_pools_generic(host_builder *a, const target *t) {
    host h = {.builder = a, .t = t};
    lfunc *f = open_function(&h, arena_printf(a->arena, "%s_run_generic", a->io->name), true, i32(), "int");
    flat_params(&h);
    check_workspace(&h);
    ins *args[] = {
        h.data, h.dims, h.capacity, split_workspace(&h), h.size, f->params.at[FLAT_PARAMS - 1].value};
    lb_return(&h.b, lb_call(&h.b, i32(), pools_function(a), FLAT_PARAMS, args));
}

static void write_typed_run(host_builder *a, const target *t) {
    host h = {.builder = a, .t = t};
    lbuild *b = &h.b;
    const interface *io = a->io;
    open_function(&h, arena_printf(a->arena, "%s_run", io->name), true, i32(), "int");
    struct_params(&h);
    check_structs(&h);
    ins *data = named_local(b, "data", LK_PTR, io->nin + io->nout + 3),
        *dims = named_local(b, "dims", LK_I64, io->ndims + 1);
    ins *capacity = named_local(b, "capacity", LK_I64, io->nout + 1);
    ins *message = io->messages ? h.message : lb_null(b);
    if (io->messages) lb_store(b, message, idx(&h, 0), lb_null(b), 0);
    bool pools = passes_pools(a);
    if (pools) check_pool_members(&h);
    fill_arrays(&h, data, dims, capacity);
    fill_extras(&h, data);
    ins *args[] = {data, dims, capacity, pools ? pool_array(&h) : h.workspace, h.size, message};
    const char *run = pools ? pools_function(a) : arena_printf(a->arena, "%s_run_generic", io->name);
    ins *result = lb_call(b, i32(), run, FLAT_PARAMS, args);
    store_results(&h, dims, message);
    if (io->growths.n) {
        ins *done = lb_if(b, lb_cmp(b, L_EQ, result, lb_int(b, i32(), ONNXC_OK)));
        store_growths(&h, dims);
        lb_end(b, done);
    }
    lb_return(b, result);
}

// ---------------------------------------------------------------- workspace size
static void return_workspace(host *h) {
    lbuild *b = &h->b;
    ins *large = lb_int(b, lt(LK_I1, 1), 0);
    check_rules(h);
    host_check_negative(h);
    ins *size = host_size(h, h->builder->plan.workspace, &large);
    host_fail_if(h, large, ONNXC_TOO_LARGE, "");
    lb_return(b, h->b.f->result.kind == LK_I64 ? size : to_index(h, size));
}

static void write_workspace_generic(host_builder *a, const target *t) {
    host h = {.builder = a, .t = t, .asks_size = true};
    lfunc *f =
        open_function(&h, arena_printf(a->arena, "%s_workspace_generic", a->io->name), true, i64(), NULL);
    h.dims = add_param(f, "dims", lt_ptr(), LK_I64, DT_I64, true, NULL);
    host_bind_symbols(&h);
    return_workspace(&h);
}

static void write_workspace_bytes(host_builder *a, const target *t) {
    host h = {.builder = a, .t = t, .asks_size = true};
    const interface *io = a->io;
    lfunc *f = open_function(&h, arena_printf(a->arena, "%s_workspace_bytes", io->name), true, size_type(&h),
                             "size_t");
    ins **values = ARENA_ARRAY(a->arena, ins *, io->symbols.n + 1);
    if (!dim_is_const(a->plan.workspace))
        for (int j = 0; j < io->symbols.n; j++)
            values[j] = add_param(f, io->arguments[j], i64(), LK_VOID, DT_I64, true, NULL);
    if (dim_is_const(a->plan.workspace)) {
        lb_return(&h.b, lb_int(&h.b, f->result, dim_value(a->result->workspace)));
        return;
    }
    host_bind_arguments(&h, values);
    return_workspace(&h);
}

// ---------------------------------------------------------------- sizes of outputs
static ins *bound_or_dim(host *h, dim *d) {
    const dim *most = dim_largest(d);
    return most ? host_dim(h, most) : lb_int(&h->b, i64(), -1);
}

static void write_output_sizes(host_builder *a, const target *t) {
    host h = {.builder = a, .t = t};
    const interface *io = a->io;
    if (!io->output_dims) return;
    lfunc *f = open_function(&h, arena_printf(a->arena, "%s_output_dims", io->name), true, i32(), "int");
    h.in = add_param(f, "in", lt_ptr(), LK_VOID, DT_NONE, true, arena_printf(a->arena, "%s_in", io->name));
    h.out =
        add_param(f, "out", lt_ptr(), LK_VOID, DT_NONE, false, arena_printf(a->arena, "%s_out", io->name));
    check_structs(&h);
    host_bind_symbols(&h);
    check_rules(&h);
    host_check_negative(&h);
    check_sizes(&h);
    for (int i = 0; i < io->nout; i++)
        for (int j = 0; j < io->out[i].buffer->rank; j++)
            if (io->out[i].dim_slots[j] >= 0)
                lb_setfield(&h.b, h.out, io->out[i].dims[j], interface_int64_offset(io->out[i].dim_slots[j]),
                            bound_or_dim(&h, io->out[i].buffer->dims[j]));
    lb_return(&h.b, lb_int(&h.b, i32(), ONNXC_OK));
}

// ---------------------------------------------------------------- several versions
static const char *version_function(const host_builder *a, const char *suffix) {
    return arena_printf(a->arena, "%s_run%s%s", a->io->name, *suffix ? "" : "_any", suffix);
}

void write_version(host_builder *a, host *variants, int n) {
    const char *name = version_function(a, a->suffix);
    if (!a->io->generic) write_struct_run(&variants[0], name, false);
    else write_flat_runs(a, variants, n, name, false);
}

// The entry calls the first version whose condition holds.
static void write_size_dispatch(host_builder *a, const target *t, const char *name) {
    host h = {.builder = a, .t = t};
    lbuild *b = &h.b;
    open_function(&h, name, true, i32(), "int");
    if (a->io->generic) {
        flat_params(&h);
        if (a->result->needs_runtime && !t->freestanding) start_runtime(&h);
        check_arrays(&h);
    } else {
        struct_params(&h);
        check_structs(&h);
    }
    host_bind_symbols(&h);
    check_rules(&h);
    for (int j = 0; j < a->o->nversions; j++) {
        const version *v = &a->o->versions[j];
        bool last = j + 1 == a->o->nversions; // the rules exclude all other sizes
        ins *fits = last ? NULL : lb_if(b, lb_cmp(b, L_NE, host_dim(&h, v->when), lb_int(b, i64(), 0)));
        return_call(&h, version_function(a, v->suffix));
        if (fits) lb_end(b, fits);
    }
}

// ---------------------------------------------------------------- CPU or GPU
static const char *device_function(const host_builder *a, const char *device) {
    return arena_printf(a->arena, "%s_run_%s", a->io->name, device);
}

void write_on_cpu(host_builder *a, host *variants, int n) {
    write_flat_runs(a, variants, n, device_function(a, "cpu"), false);
}
void write_on_gpu(host_builder *a, host *h) { write_flat_runs(a, h, 1, device_function(a, "cuda"), false); }

// The entry runs on the device of the context.
static void write_device_dispatch(host_builder *a, const target *t, const char *name) {
    host h = {.builder = a, .t = t};
    lbuild *b = &h.b;
    open_function(&h, name, true, i32(), "int");
    flat_params(&h);
    start_runtime(&h);
    check_arrays(&h);
    load_context(&h);
    ins *gpu = lb_load(b, lt_ptr(), h.context, idx(&h, offsetof(onnxc_context, gpu) / sizeof(void *)), 0);
    ins *there = lb_if(b, lb_cmp(b, L_NE, gpu, lb_null(b)));
    return_call(&h, device_function(a, "cuda"));
    lb_end(b, there);
    return_call(&h, device_function(a, "cpu"));
}

static void hide_function(host_builder *a, const char *name) {
    for (int j = 0; j < a->m->funcs.n; j++)
        if (strcmp(a->m->funcs.at[j]->name, name) == 0) a->m->funcs.at[j]->exported = false;
}

void write_entries(host_builder *a, host *variants, int n) {
    bool structs = !a->io->generic, pools = !structs && passes_pools(a);
    const char *run = pools ? pools_function(a)
                            : arena_printf(a->arena, structs ? "%s_run" : "%s_run_generic", a->io->name);
    const target *t = a->m->target;
    if (a->o->nversions) write_size_dispatch(a, t, run);
    else if (a->o->gpu_program) write_device_dispatch(a, t, run);
    else if (structs) write_struct_run(&variants[0], run, true);
    else write_flat_runs(a, variants, n, run, true);
    if (pools) {
        hide_function(a, run);
        write_pools_generic(a, t);
    }
    if (!structs) {
        write_typed_run(a, t);
        write_workspace_generic(a, t);
    }
    write_workspace_bytes(a, t);
    write_output_sizes(a, t);
    write_context_entries(a, t);
    if (a->result->weights_head) end_weights(a);
}
