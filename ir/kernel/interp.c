// Interprets the steps of a program: dims, memory of buffers, control flow. Kernels are in interp_kernel.c.
#include "ir/kernel/interp_kernel.h"
#include "ir/kernel/layout.h"
#include "ir/kernel/library.h"
#include <stdlib.h>
#include <string.h>

_Noreturn void interp_stop(interp *in, interp_result r, const char *message) {
    in->message = message;
    longjmp(in->jump, (int)r + 1);
}

// ---------------------------------------------------------------- dims
static void grow_dims(interp *in, int id) {
    if (id < in->ndims) return;
    int n = 2 * id + 64;
    in->value = arena_grow(in->arena, in->value, (size_t)in->ndims * sizeof *in->value,
                           (size_t)n * sizeof *in->value);
    in->known = arena_grow(in->arena, in->known, (size_t)in->ndims * sizeof *in->known,
                           (size_t)n * sizeof *in->known);
    in->ndims = n;
}
static void set_dim(interp *in, const dim *d, int64_t v) {
    grow_dims(in, d->id);
    in->value[d->id] = v;
    in->known[d->id] = true;
}
static bool lookup(void *user, const dim *atom, int64_t *v) {
    interp *in = user;
    if (atom->id >= in->ndims || !in->known[atom->id]) return false;
    *v = in->value[atom->id];
    return true;
}
int64_t interp_dim(interp *in, const dim *d) {
    int64_t v;
    if (d->kind == DIM_CONST) return d->value;
    if (!dim_eval(d, lookup, in, &v))
        interp_stop(in, INTERP_FAILED,
                    arena_printf(in->arena, "size %s cannot be computed", dim_text(in->arena, d)));
    return v;
}

// ---------------------------------------------------------------- memory
static const char *too_large(interp *in, const buffer *b, int64_t bytes) {
    return arena_printf(in->arena, "'%s' needs %lld bytes (%.1f GiB): more memory than is available", b->name,
                        (long long)bytes, (double)bytes * 0x1p-30);
}

int64_t memory_shape(interp *in, memory *m, const buffer *b) {
    int64_t n = 1;
    for (int j = b->rank - 1; j >= 0; j--) {
        m->dims[j] = interp_dim(in, b->dims[j]);
        m->stride[j] = n;
        if (m->dims[j] < 0)
            interp_stop(
                in, INTERP_FAILED,
                arena_printf(in->arena, "axis %d of '%s' has size %lld", j, b->name, (long long)m->dims[j]));
        if (__builtin_mul_overflow(n, m->dims[j], &n))
            interp_stop(in, INTERP_FAILED, arena_printf(in->arena, "'%s' is too large", b->name));
    }
    for (int j = 0; b->layout && j < b->layout->n; j++) m->extent[j] = interp_dim(in, layout_extent(b, j));
    int64_t bytes = interp_dim(in, buffer_bytes(b));
    if (in->limits.bytes && bytes > in->limits.bytes - in->bytes)
        interp_stop(in, INTERP_LIMIT, too_large(in, b, bytes));
    if (bytes > INT64_C(1) << 40) interp_stop(in, INTERP_FAILED, too_large(in, b, bytes));
    return bytes;
}

static void allocate(interp *in, const buffer *b) {
    memory *m = &in->at[b->id];
    m->bytes = memory_shape(in, m, b);
    if (m->owned) free(m->data);
    // Aligned as compiled kernels require.
    size_t size = ((size_t)m->bytes + 64) / 64 * 64;
    m->data = aligned_alloc(64, size);
    if (!m->data) interp_stop(in, INTERP_LIMIT, too_large(in, b, m->bytes));
    memset(m->data, 0, size);
    m->owned = m->live = true;
    in->bytes += m->bytes;
}

static void release(interp *in, const buffer *b) {
    memory *m = &in->at[b->id];
    if (m->owned) {
        free(m->data);
        in->bytes -= m->bytes;
    }
    *m = (memory){0};
}

static void use_constant(interp *in, const buffer *b) {
    memory *m = &in->at[b->id];
    m->bytes = memory_shape(in, m, b);
    if (b->data->kind == CONST_BYTES && !b->layout) {
        m->data = (uint8_t *)b->data->data;
    } else {
        allocate(in, b);
        layout_produce(b, 0, m->data, m->bytes);
    }
    m->live = true;
}

// Views share the memory of the root; their shape is computed on use.
static void refresh(interp *in, buffer *b) {
    memory *m = &in->at[b->id];
    if (b->view_of) {
        refresh(in, b->view_of);
        const memory *of = &in->at[b->view_of->id];
        bool owned = m->owned;
        *m = *of;
        m->owned = owned;
        m->bytes = memory_shape(in, m, b);
        m->data = of->data + (b->view_offset ? dtype_size(b->dtype, b->view_offset) : 0);
        return;
    }
    if (m->live) return;
    if (b->role == BUF_CONST) use_constant(in, b);
    else if (b->role == BUF_TEMP || b->role == BUF_OUTPUT) allocate(in, b);
}

// ---------------------------------------------------------------- steps
static void run_region(interp *in, const region *r);

static void watch_buffer(interp *in, const buffer *b) {
    const memory *m = &in->at[b->id];
    tensor t = {.dtype = b->dtype, .rank = b->rank, .count = 1, .data = m->data};
    for (int j = 0; j < b->rank; j++) t.count *= t.dims[j] = m->dims[j];
    if (!b->layout) in->hooks.watch(in->hooks.user, b, &t);
}

static void run_kernel(interp *in, const kernel *k) {
    buffer **b;
    int n = kernel_buffers(k, &b);
    for (int j = 0; j < n; j++) refresh(in, b[j]);
    if (!in->hooks.kernel || !in->hooks.kernel(in->hooks.user, in, k)) interp_kernel(in, k);
    for (int j = 0; in->hooks.watch && j < n; j++)
        if (kernel_writes(k, b[j])) watch_buffer(in, b[j]);
}

static void run_copy(interp *in, const step *s) {
    refresh(in, s->from);
    refresh(in, s->buffer);
    memory *to = &in->at[s->buffer->id], *from = &in->at[s->from->id];
    // Temporaries of loop-carried data have the current shape.
    int64_t bytes = memory_shape(in, to, s->buffer);
    if (bytes > to->bytes || bytes > from->bytes)
        diag_defect(in->p->diag, s->loc, "copy of %lld bytes of '%s' (%lld) to '%s' (%lld)", (long long)bytes,
                    s->from->name, (long long)from->bytes, s->buffer->name, (long long)to->bytes);
    memmove(to->data, from->data, (size_t)bytes);
    if (in->hooks.watch) watch_buffer(in, s->buffer);
}

static void run_set_dim(interp *in, const step *s) {
    int64_t v;
    if (s->dim) {
        v = interp_dim(in, s->dim);
    } else {
        refresh(in, s->buffer);
        v = dtype_load_int(s->buffer->dtype, in->at[s->buffer->id].data, s->index);
    }
    // Later steps rely on these bounds: implied checks are not in the program.
    if (v < s->target->min || v > s->target->max)
        interp_stop(
            in, INTERP_FAILED,
            text_located(in->arena, s->loc,
                         arena_printf(in->arena, "a size is %s", dim_range_text(in->arena, s->target))));
    set_dim(in, s->target, v);
}

static bool element_true(interp *in, buffer *b) {
    refresh(in, b);
    return in->at[b->id].data[0] != 0;
}

static void run_loop(interp *in, const step *s) {
    int64_t n = s->dim ? interp_dim(in, s->dim) : INT64_MAX;
    for (int64_t i = 0; i < n; i++) {
        set_dim(in, s->target, i);
        if (s->buffer && !element_true(in, s->buffer)) break;
        if (in->limits.work && ++in->work > in->limits.work) interp_stop(in, INTERP_LIMIT, "work");
        run_region(in, s->body[0]);
    }
}

static void run_move(interp *in, const step *s) {
    memory *to = &in->at[s->buffer->id], *from = &in->at[s->from->id];
    if (to->owned) free(to->data), in->bytes -= to->bytes;
    *to = *from;
    *from = (memory){0};
    memory_shape(in, to, s->buffer);
}

static int run_custom(interp *in, const step *s, void *const *data, const int64_t *numbers) {
    onnxc_custom_function *f = in->hooks.custom ? in->hooks.custom(in->hooks.user, s->symbol) : NULL;
    if (!f)
        interp_stop(in, INTERP_FAILED,
                    arena_printf(in->arena, "the function '%s' cannot be called here", s->symbol));
    return onnxc_lib_custom(f, data, numbers);
}

static void run_library(interp *in, const step *s) {
    onnxc_lib_function *f = library_find(s->lib);
    if (!f && !s->symbol) diag_defect(in->p->diag, s->loc, "no library function %s", s->lib);
    enum { FEW = 32 };
    void *few[FEW] = {NULL}, **data = s->nargs <= FEW ? few : ARENA_ARRAY(in->arena, void *, s->nargs);
    int64_t some[FEW], *numbers = s->nnumbers <= FEW ? some : ARENA_ARRAY(in->arena, int64_t, s->nnumbers);
    for (int j = 0; j < s->nargs; j++) {
        if (!s->args[j]) continue;
        refresh(in, s->args[j]);
        data[j] = in->at[s->args[j]->id].data;
        in->work += in->at[s->args[j]->id].bytes;
    }
    if (in->limits.work && in->work > in->limits.work) interp_stop(in, INTERP_LIMIT, "work");
    for (int j = 0; j < s->nnumbers; j++) numbers[j] = interp_dim(in, s->numbers[j]);
    int failed = s->symbol ? run_custom(in, s, data, numbers) : f(&in->made, data, numbers);
    if (failed < 0) interp_stop(in, INTERP_LIMIT, "memory");
    if (failed) interp_stop(in, INTERP_FAILED, s->messages[failed - 1]);
    for (int j = 0; in->hooks.watch && j < s->nwritten; j++)
        if (s->args[j]) watch_buffer(in, s->args[j]);
}

static void run_check(interp *in, const step *s) {
    if (interp_dim(in, s->dim)) return;
    const char *text = text_located(in->arena, s->loc, s->message), *word = check_compares(s);
    if (word)
        text = arena_printf(in->arena, "%s (%lld%s%lld)", text, (long long)interp_dim(in, s->dim->a), word,
                            (long long)interp_dim(in, s->dim->b));
    interp_stop(in, INTERP_FAILED, text);
}

static void run_step(interp *in, const step *s) {
    switch (s->kind) {
    case STEP_KERNEL: run_kernel(in, s->kernel); break;
    case STEP_CHECK: run_check(in, s); break;
    case STEP_SET_DIM: run_set_dim(in, s); break;
    case STEP_ALLOC: allocate(in, s->buffer); break;
    case STEP_FREE: release(in, s->buffer); break;
    case STEP_COPY: run_copy(in, s); break;
    case STEP_MOVE: run_move(in, s); break;
    case STEP_IF: {
        bool c = s->buffer ? element_true(in, s->buffer) : interp_dim(in, s->dim) != 0;
        run_region(in, s->body[c ? 0 : 1]);
        break;
    }
    case STEP_LOOP: run_loop(in, s); break;
    case STEP_LIB: run_library(in, s); break;
    }
}

static void run_region(interp *in, const region *r) {
    for (int j = 0; j < r->steps.n; j++) run_step(in, r->steps.at[j]);
}

// ---------------------------------------------------------------- inputs and outputs
static void bind_input(interp *in, const buffer *b, const tensor *t) {
    memory *m = &in->at[b->id];
    if (b->fallback && !t->data) {
        use_constant(in, b->fallback);
        *m = in->at[b->fallback->id];
        m->owned = false;
        return;
    }
    if (t->dtype != b->dtype)
        interp_stop(in, INTERP_FAILED,
                    arena_printf(in->arena, "input '%s' is %s, not %s", b->name, dtype_name(b->dtype),
                                 dtype_name(t->dtype)));
    if (t->rank != b->rank)
        interp_stop(in, INTERP_FAILED,
                    arena_printf(in->arena, "input '%s' has rank %d, not %d", b->name, b->rank, t->rank));
    for (int j = 0; j < b->rank; j++) {
        int64_t known;
        const dim *d = b->dims[j];
        if (d->kind == DIM_SYMBOL && !lookup(in, d, &known)) {
            if (t->dims[j] < d->min || t->dims[j] > d->max)
                interp_stop(in, INTERP_FAILED,
                            arena_printf(in->arena, "input '%s': axis %d: %s must be from %lld to %lld",
                                         b->name, j, d->name, (long long)d->min, (long long)d->max));
            set_dim(in, d, t->dims[j]);
        }
        if (interp_dim(in, b->dims[j]) != t->dims[j])
            interp_stop(in, INTERP_FAILED,
                        arena_printf(in->arena, "axis %d of input '%s' is %s = %lld, not %lld", j, b->name,
                                     dim_text(in->arena, b->dims[j]), (long long)interp_dim(in, b->dims[j]),
                                     (long long)t->dims[j]));
    }
    memory_shape(in, m, b);
    m->bytes = dtype_size(t->dtype, t->count);
    m->data = t->data;
    m->live = true;
}

static void give_output(interp *in, buffer *b, tensor *t) {
    refresh(in, b);
    const memory *m = &in->at[b->id];
    if (in->limits.bytes && m->bytes > in->limits.bytes - in->bytes)
        interp_stop(in, INTERP_LIMIT, too_large(in, b, m->bytes));
    in->bytes += m->bytes;
    *t = (tensor){.dtype = b->dtype, .rank = b->rank, .count = 1};
    for (int j = 0; j < b->rank; j++) t->count *= t->dims[j] = interp_dim(in, b->dims[j]);
    t->data = arena_alloc(in->arena, (size_t)m->bytes + 16);
    if (m->bytes) memcpy(t->data, m->data, (size_t)m->bytes);
}

static void free_all(interp *in) {
    for (int j = 0; j < in->p->buffers.n; j++)
        if (in->at[j].owned) free(in->at[j].data);
    if (in->made) onnxc_lib_release(&in->made, NULL, NULL);
    if (in->scratch) arena_destroy(in->scratch);
}

interp_result interp_program_hooked(const program *p, arena *a, const tensor *input, tensor *out,
                                    interp_limits limits, const char **message, const interp_hooks *hooks) {
    interp *in = ARENA_NEW(a, interp);
    *in = (interp){.p = p, .arena = a, .in = input, .limits = limits};
    if (hooks) in->hooks = *hooks;
    in->at = ARENA_ARRAY(a, memory, p->buffers.n + 1);
    interp_result result = INTERP_OK;
    int jumped = setjmp(in->jump);
    if (jumped == 0) {
        for (int j = 0; j < p->inputs.n; j++) bind_input(in, p->inputs.at[j], &input[j]);
        run_region(in, p->main);
        for (int j = 0; j < p->outputs.n; j++) give_output(in, p->outputs.at[j], &out[j]);
    } else {
        result = (interp_result)(jumped - 1);
    }
    if (message) *message = in->message;
    free_all(in);
    return result;
}

interp_result interp_program(const program *p, arena *a, const tensor *in, tensor *out, interp_limits limits,
                             const char **message) {
    return interp_program_hooked(p, a, in, out, limits, message, NULL);
}
