// Multithreaded kernels: when they pay off, and the function that the runtime calls for a range of tasks.
#include "codegen/host/host_impl.h"

// Every thread has its own scratch memory, reserved in the workspace for this number of threads.
enum { SCRATCH_THREADS = 32 };
// The least work of a thread, several times the cost of waking it (about 10 us). A vectorised multiply-add
// counts 1, a weight that few of them read 4, and any other element 16, because it moves memory or computes
// functions.
enum { WORK_BITS = 19, WEIGHT_WORK = 4, ELEMENT_WORK = 16 };

void add_argument(host *h, arguments *a, ins *x) {
    if (a->n == 512) diag_fatal_missing(h->builder->diag, NULL, "a kernel has more than 512 arguments");
    a->at[a->n++] = x;
}

// ---------------------------------------------------------------- how many threads
static bool sums_products(const stage *s) {
    for (int j = 0; j < s->states.n; j++) {
        const expr *step = s->states.at[j].step;
        if (s->states.at[j].op == RED_SUM && step->op == X_MUL) return true;
    }
    return false;
}

static dim *weights_of(const kernel *k) {
    buffer **all;
    dim *count = dim_const(k->program->dims, 0);
    for (int j = kernel_buffers(k, &all) - 1; j >= 0; j--)
        if (all[j]->role == BUF_CONST) count = dim_add(count, buffer_count(all[j]));
    return count;
}

static dim *kernel_work(const kernel *k) {
    dims *t = k->program->dims;
    dim *work = dim_const(t, 0), *outer = dim_const(t, 1);
    for (int a = 0; a < k->nouter; a++) outer = dim_mul(outer, k->axes.at[a].extent);
    for (int j = 0; j < k->stages.n; j++) {
        const stage *s = k->stages.at[j];
        dim *n = dim_mulk(outer, sums_products(s) ? 1 : ELEMENT_WORK);
        for (int i = 0; i < s->axes.n; i++) n = dim_mul(n, k->axes.at[s->axes.at[i]].extent);
        work = dim_add(work, n);
    }
    for (int j = 0; j < k->stages.n; j++)
        if (sums_products(k->stages.at[j])) work = dim_max(work, dim_mulk(weights_of(k), WEIGHT_WORK));
    return work->kind == DIM_OVERFLOW ? dim_const(t, INT64_MAX / 2) : work;
}

bool runs_parallel(const host *h, const kernel_code *c) {
    if (!c->tasks || h->t->threads == 1 || !h->t->hosted || h->t->arch.is_text) return false;
    return c->tasks->max > 1 && kernel_work(c->kernel)->max >= (INT64_C(2) << WORK_BITS);
}

int kernel_threads(const host *h, const kernel_code *c) {
    return c->scratch && h->t->threads > SCRATCH_THREADS ? SCRATCH_THREADS : h->t->threads;
}

// Bytes; NULL: none.
static dim *thread_scratch(const kernel_code *c) {
    if (!c->scratch) return NULL;
    return dim_mulk(dim_ceildiv(c->scratch, dim_const(c->scratch->table, 64)), 64);
}

static ins *useful_threads(host *h, const callees *all) {
    lbuild *b = &h->b;
    int fewest = h->t->threads;
    for (int j = 0; j < all->n; j++)
        if (kernel_threads(h, all->code[j]) < fewest) fewest = kernel_threads(h, all->code[j]);
    ins *most = lb_int(b, i64(), fewest);
    ins *blocks =
        lb_bin(b, L_ASHR, host_dim(h, kernel_work(all->code[0]->kernel)), lb_int(b, i64(), WORK_BITS));
    return lb_conv(b, L_ITRUNC, LK_I32, lb_bin(b, L_SMIN, blocks, most));
}

// That of the threads that its work and its tasks keep busy. For the most of them if that is little, or if only the run
// knows better.
dim *parallel_scratch(const host *h, const kernel_code *c) {
    enum { SMALL = 1 << 14 };
    dims *t = c->scratch->table;
    dim *blocks = dim_floordiv(kernel_work(c->kernel), dim_const(t, INT64_C(1) << WORK_BITS));
    dim *threads = dim_min(dim_const(t, kernel_threads(h, c)), dim_min(blocks, c->tasks));
    dim *most = dim_mulk(thread_scratch(c), threads->max);
    return most->max <= SMALL || dim_is_opaque(threads)
               ? most
               : dim_mul(thread_scratch(c), dim_max(threads, dim_const(t, 1)));
}

// ---------------------------------------------------------------- calls void task(void *const *context,
// int64_t begin, int64_t end, int thread) runs the kernel on a range of tasks.
static const char *trampoline(host *h, const callees *all, const kernel_code *c) {
    const char *name = arena_printf(h->builder->arena, "%s_task", c->f->name);
    lfunc *f = lfunc_new(h->builder->m, name, lt(LK_VOID, 1));
    f->target = host_target(h);
    f->runs = c->f;
    ins *context = lfunc_param(f, "context", lt_ptr(), LK_PTR, DT_NONE, true);
    ins *begin = lfunc_param(f, "begin", i64(), LK_VOID, DT_I64, true),
        *end = lfunc_param(f, "end", i64(), LK_VOID, DT_I64, true);
    ins *thread = lfunc_param(f, "thread", i32(), LK_VOID, DT_I32, true);
    host inner = {.builder = h->builder, .t = h->t, .b = lbuild_new(f, h->t, h->builder->diag)};
    lbuild *b = &inner.b;
    arguments a = {.n = 0};
    for (int j = 0; j < c->nbuffers; j++)
        add_argument(h, &a, lb_load(b, lt_ptr(), context, lb_idx(b, j + 1), 0));
    ins *dims = lb_load(b, lt_ptr(), context, lb_idx(b, 0), 0);
    for (int j = 0; j < c->ndims; j++)
        add_argument(h, &a,
                     to_index(&inner, lb_load(b, i64(), dims, lb_idx(b, place_of_dim(all, c->dims[j])), 0)));
    if (c->scratch) {
        ins *mine = lb_bin(b, L_MUL, lb_load(b, i64(), dims, lb_idx(b, all->ndims), 0),
                           lb_conv(b, L_SEXT, LK_I64, thread));
        add_argument(h, &a,
                     lb_offset(b, lb_load(b, lt_ptr(), context, lb_idx(b, c->nbuffers + 1), 0),
                               to_index(&inner, mine), 1));
    }
    add_argument(h, &a, to_index(&inner, begin));
    add_argument(h, &a, to_index(&inner, end));
    if (c->has_status) add_argument(h, &a, lb_load(b, lt_ptr(), context, lb_idx(b, c->nbuffers + 2), 0));
    lb_call(b, lt(LK_VOID, 1), c->f->name, a.n, a.at);
    return f->name;
}

// All calls share the arrays, since they do not overlap in time.
void make_task_arrays(host *h) {
    int pointers = 0, dims = 0;
    for (int k = 0; k < h->builder->p->kernels.n; k++) {
        int level = 0, all = 1;
        for (const kernel_code *c; (c = next_code(h, k, &level));) {
            if (!runs_parallel(h, c)) continue;
            if (c->nbuffers + 3 > pointers) pointers = c->nbuffers + 3;
            all += c->ndims;
            if (all > dims) dims = all;
        }
    }
    if (!pointers) return;
    h->task_context = named_local(&h->b, "context", LK_PTR, pointers);
    h->task_dims = named_local(&h->b, "task_dims", LK_I64, dims);
    lb_store(&h->b, h->task_context, lb_idx(&h->b, 0), h->task_dims, 0);
}

// Of the threads that may run.
static void clear_marks(host *h, ins *tasks, ins *scratch, ins *bytes, ins *threads) {
    lbuild *b = &h->b;
    ins *n = lb_bin(b, L_SMIN, lb_conv(b, L_SEXT, LK_I64, threads), tasks);
    n = to_index(h, lb_bin(b, L_SMAX, n, lb_int(b, i64(), 1)));
    ins *each = to_index(h, bytes);
    ins *j = lb_for(b, "thread", lb_idx(b, 0), n, lb_idx(b, 1), LOOP_SERIAL);
    lb_store(b, lb_offset(b, scratch, lb_bin(b, L_MUL, j, each), 1), lb_idx(b, 0), lb_int(b, i32(), 0), 4);
    lb_end(b, j);
}

static ins *trampoline_of_level(host *h, const callees *all) {
    ins *f = NULL;
    for (int j = all->n - 1; j >= 0; j--) {
        ins *own = lb_symbol(&h->b, trampoline(h, all, all->code[j]));
        f = f ? lb_select(&h->b, is_level(h, all, j), own, f) : own;
    }
    return f;
}

// Arguments are passed as an array of pointers: the array of dims, buffers, scratch memory and status, if there are any.
void call_parallel(host *h, const callees *all, ins *scratch) {
    lbuild *b = &h->b;
    const kernel_code *c = all->code[0];
    ins *context = h->task_context, *dims = h->task_dims;
    for (int j = 0; j < c->nbuffers; j++)
        lb_store(b, context, lb_idx(b, j + 1), buffer_pointer(h, c->buffers[j]), 0);
    for (int j = 0; j < all->ndims; j++) lb_store(b, dims, lb_idx(b, j), host_dim(h, all->dims[j]), 0);
    if (scratch) lb_store(b, context, lb_idx(b, c->nbuffers + 1), scratch, 0);
    if (c->has_status) lb_store(b, context, lb_idx(b, c->nbuffers + 2), h->kernel_status, 0);
    ins *bytes = dim_of_level(h, all, thread_scratch), *tasks = dim_of_level(h, all, tasks_of);
    if (bytes) lb_store(b, dims, lb_idx(b, all->ndims), bytes, 0);
    ins *threads = useful_threads(h, all);
    if (c->marks_scratch) clear_marks(h, tasks, scratch, bytes, threads);
    ins *args[] = {trampoline_of_level(h, all), context, tasks, threads};
    lb_call(b, lt(LK_VOID, 1),
            runtime_function(h->builder, "onnxc_rt_parallel", lt(LK_VOID, 1), 4,
                             (ltype[]){lt_ptr(), lt_ptr(), i64(), i32()}),
            4, args);
}
