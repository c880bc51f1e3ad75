// Host code that drives a GPU: a run uses the context's stream, kernels become launches with an array of
// arguments, and copies name the spaces of both sides. Failures return a code of runtime-lite/cuda/cuda.c and
// the driver's message.
#include "codegen/gpu/gpu.h"
#include "codegen/host/host_impl.h"
#include "compiler/base/integers.h"
#include "runtime-lite/core/runtime.h"
#include <stdlib.h>

enum { LAUNCH_SIZES = 6, WEIGHTS_ALIGN = 256 };

static ins *is_set(host *h, ins *code) { return lb_cmp(&h->b, L_NE, code, lb_int(&h->b, i32(), 0)); }

// Like host_fail_if, with the runtime's own code and message.
static void fail_with(host *h, ins *code) {
    lbuild *b = &h->b;
    ins *failed = lb_if(b, is_set(h, code));
    if (h->message) {
        const char *name = runtime_function(h->builder, "onnxc_rt_gpu_message", lt_ptr(), 0, NULL);
        lb_store(b, h->message, lb_idx(b, 0), lb_call(b, lt_ptr(), name, 0, NULL), 0);
    }
    lb_set(b, h->status, code);
    lb_end(b, failed);
}

static void check(host *h, ins *code) {
    fail_with(h, code);
    lb_break(&h->b, is_set(h, lb_get(&h->b, h->status)));
}

static ins *call(host *h, const char *name, ltype result, int n, ins *const *args) {
    ltype types[6];
    for (int j = 0; j < n; j++) types[j] = args[j]->type;
    return lb_call(&h->b, result, runtime_function(h->builder, name, result, n, types), n, args);
}

// ---------------------------------------------------------------- constants
// Offset in the block of constants on the device.
static int64_t device_place(host_builder *a, const buffer *root) {
    device_constants *all = &a->shared->on_device;
    const char *name = constant_symbol(a, root);
    device_constant *known = map_get(&all->by_name, name);
    if (known) return known->offset;
    device_constant *c = ARENA_NEW(a->arena, device_constant);
    *c = (device_constant){name, all->bytes, dim_value(buffer_bytes(root)), 0};
    if (a->o->weights) c->in_file = constant_place(a, root);
    all->bytes += round_up(c->bytes, WEIGHTS_ALIGN);
    map_put(&all->by_name, name, c);
    VEC_PUSH(a->arena, &all->list, c);
    return c->offset;
}

static ins *device_pointer(host *h, const buffer *b) {
    const buffer *root = buffer_root(b);
    if (root->role != BUF_CONST) return buffer_pointer(h, b);
    int64_t offset = device_place(h->builder, root);
    for (const buffer *v = b; v->view_of; v = v->view_of) offset += dtype_size(v->dtype, v->view_offset);
    return lb_offset(&h->b, h->device_weights, lb_idx(&h->b, offset), 1);
}

// void NAME_upload(void *user) uploads all constants, from the object or the mapped file.
static const char *write_upload(host_builder *a, const target *t) {
    const char *name = arena_printf(a->arena, "%s_upload", a->io->name);
    lfunc *f = lfunc_new(a->m, name, lt(LK_VOID, 1));
    f->target = t;
    host h = {.builder = a, .t = t};
    ins *user = lfunc_param(f, "user", lt_ptr(), LK_VOID, DT_NONE, false);
    h.b = lbuild_new(f, t, a->diag);
    const device_constants *all = &a->shared->on_device;
    ins *file = a->o->weights ? call(&h, "onnxc_rt_gpu_file", lt_ptr(), 1, &user) : NULL;
    for (int j = 0; j < all->list.n; j++) {
        const device_constant *c = all->list.at[j];
        ins *from = file ? lb_offset(&h.b, file, lb_idx(&h.b, c->in_file), 1) : lb_symbol(&h.b, c->name);
        ins *args[] = {user, lb_int(&h.b, i64(), c->offset), from, lb_int(&h.b, i64(), c->bytes)};
        call(&h, "onnxc_rt_gpu_put", lt(LK_VOID, 1), 4, args);
    }
    lb_return(&h.b, NULL);
    return name;
}

static const char *images_symbol(host_builder *a) { return gpu_images_symbol(a->arena, a->io->name); }

ins *open_on_gpu(host *h, ins *options, ins *context) {
    lbuild *b = &h->b;
    host_builder *a = h->builder;
    bool both = a->o->gpu_program != NULL, file = a->o->weights != NULL;
    ins *args[] = {options,
                   lb_symbol(b, images_symbol(a)),
                   lb_symbol(b, write_upload(a, h->t)),
                   lb_int(b, i64(), a->shared->on_device.bytes),
                   context,
                   file ? lb_symbol(b, weights_head_symbol(a)) : NULL};
    if (!file) return call(h, both ? "onnxc_rt_gpu_or_cpu_open" : "onnxc_rt_gpu_open", i32(), 5, args);
    return call(h, both ? "onnxc_rt_gpu_or_cpu_open_file" : "onnxc_rt_gpu_open_file", i32(), 6, args);
}

// ---------------------------------------------------------------- begin and end
static void find_callers(host *h) {
    lbuild *b = &h->b;
    program *p = h->builder->p;
    ins **at = ARENA_ARRAY(h->builder->arena, ins *, p->buffers.n + 1);
    for (int j = 0; j < p->buffers.n; j++) {
        const buffer *o = p->buffers.at[j];
        if (!o->caller) continue;
        ins *own = o->offset ? buffer_pointer(h, o) : lb_null(b);
        ins *args[] = {h->gpu_run, buffer_pointer(h, o->caller), own,
                       lb_int(b, i32(), o->space == SPACE_DEVICE)};
        at[o->id] = call(h, "onnxc_rt_gpu_caller", lt_ptr(), 4, args);
    }
    h->at_caller = at;
}

static int most_arguments(const host *h) {
    int most = 0;
    for (int j = 0; j < h->builder->p->kernels.n; j++)
        if (h->code[j] && h->code[j]->f->params.n > most) most = h->code[j]->f->params.n;
    return most;
}

static ins *run_member(host *h, int i) { return lb_load(&h->b, lt_ptr(), h->gpu_run, lb_idx(&h->b, i), 0); }

static void number_statuses(host *h) {
    h->status_slot = ARENA_ARRAY(h->builder->arena, int, h->builder->p->kernels.n + 1);
    for (int j = 0; j < h->builder->p->kernels.n; j++)
        if (h->code[j] && h->code[j]->has_status) h->status_slot[j] = h->statuses++;
}

void prepare_gpu(host *h) {
    if (!h->builder->gpu) return;
    h->gpu_run = named_local(&h->b, "run", LK_PTR, sizeof(onnxc_gpu_run) / sizeof(void *));
    h->launch_values = named_local(&h->b, "launch", LK_I64, LAUNCH_SIZES + most_arguments(h));
    number_statuses(h);
    if (h->statuses) h->kernel_status = named_local(&h->b, "failed", LK_I32, h->statuses);
}

void begin_gpu(host *h) {
    lbuild *b = &h->b;
    host_builder *a = h->builder;
    ins *args[] = {h->gpu_run, h->context, lb_symbol(b, images_symbol(a)), host_dim(h, a->device_workspace),
                   lb_int(b, i32(), h->statuses)};
    check(h, call(h, "onnxc_rt_gpu_begin", i32(), 5, args));
    h->device = run_member(h, 0);
    h->device_weights = run_member(h, 1);
    h->device_status = run_member(h, 2);
    find_callers(h);
}

void end_gpu(host *h) {
    lbuild *b = &h->b;
    ins *so_far = lb_get(b, h->status);
    ins *code = call(h, "onnxc_rt_gpu_end", i32(), 2, (ins *[]){h->gpu_run, so_far});
    ins *first = lb_if(b, lb_cmp(b, L_EQ, so_far, lb_int(b, i32(), 0)));
    fail_with(h, code);
    lb_end(b, first);
}

// ---------------------------------------------------------------- launches
static int function_number(const host *h, const lfunc *f) {
    const lmodule *m = h->builder->gpu->module;
    for (int j = 0; j < m->funcs.n; j++)
        if (m->funcs.at[j] == f) return j;
    diag_defect(h->builder->diag, NULL, "kernel %s is not in the GPU's module", f->name);
}

typedef struct launch {
    host *h;
    int n;
} launch;

static void add_value(launch *l, ins *v) {
    lb_store(&l->h->b, l->h->launch_values, lb_idx(&l->h->b, l->n++), v, 8);
}
static void add_pointer(launch *l, ins *p) { add_value(l, lb_bitcast(&l->h->b, i64(), p)); }
static void add_dim(launch *l, const dim *d) {
    add_value(l, d ? host_dim(l->h, d) : lb_int(&l->h->b, i64(), 1));
}

// { grid.x, .y, .z, block.x, .y, .z, arguments... }
void launch_kernel(host *h, const kernel_code *c, ins *scratch) {
    lbuild *b = &h->b;
    launch l = {.h = h};
    for (int j = 0; j < 3; j++) add_dim(&l, c->grid[j]);
    for (int j = 0; j < 3; j++) add_dim(&l, c->block[j]);
    for (int j = 0; j < c->nbuffers; j++) add_pointer(&l, device_pointer(h, c->buffers[j]));
    for (int j = 0; j < c->ndims; j++) add_dim(&l, c->dims[j]);
    if (c->scratch) add_pointer(&l, scratch);
    if (c->has_status) {
        int64_t slot = h->status_slot[c->kernel->id];
        add_pointer(&l, lb_offset(b, h->device_status, lb_idx(b, slot), sizeof(int32_t)));
        h->unchecked = true;
    }
    ins *args[] = {h->gpu_run, lb_int(b, i32(), function_number(h, c->f)),
                   lb_int(b, i32(), l.n - LAUNCH_SIZES), h->launch_values};
    check(h, call(h, "onnxc_rt_gpu_launch", i32(), 4, args));
}

void wait_on_gpu(host *h) { check(h, call(h, "onnxc_rt_gpu_wait", i32(), 1, &h->gpu_run)); }

// The status of kernels is read when the host waits for them anyway, or at the end.
void check_launched(host *h, void (*report)(host *h, const kernel_code *c, ins *status)) {
    lbuild *b = &h->b;
    if (!h->unchecked) return;
    check(h, call(h, "onnxc_rt_gpu_status", i32(), 2, (ins *[]){h->gpu_run, h->kernel_status}));
    for (int j = 0; j < h->builder->p->kernels.n; j++)
        if (h->code[j] && h->code[j]->has_status)
            report(h, h->code[j], lb_load(b, i32(), h->kernel_status, lb_idx(b, h->status_slot[j]), 4));
    if (h->depth <= 1) h->unchecked = false;
}

// ---------------------------------------------------------------- memory
bool copies_across(const host *h, const buffer *to, const buffer *from) {
    return h->builder->gpu &&
           (buffer_root(to)->space != SPACE_HOST || buffer_root(from)->space != SPACE_HOST);
}

void copy_across(host *h, const buffer *to, const buffer *from, ins *bytes) {
    lbuild *b = &h->b;
    space here = buffer_root(to)->space, there = buffer_root(from)->space;
    bool constant = buffer_root(from)->role == BUF_CONST && here == SPACE_DEVICE;
    if (constant) there = SPACE_DEVICE;
    ins *args[] = {
        h->gpu_run, buffer_pointer(h, to),  constant ? device_pointer(h, from) : buffer_pointer(h, from),
        bytes,      lb_int(b, i32(), here), lb_int(b, i32(), there)};
    check(h, call(h, "onnxc_rt_gpu_copy", i32(), 6, args));
}

ins *alloc_on_gpu(host *h, ins *bytes) {
    return call(h, "onnxc_rt_gpu_alloc", lt_ptr(), 2, (ins *[]){h->gpu_run, bytes});
}
void free_on_gpu(host *h, ins *pointer) {
    call(h, "onnxc_rt_gpu_free", lt(LK_VOID, 1), 2, (ins *[]){h->gpu_run, pointer});
}
