// Fusion: random programs compute the same before and after, and known forms end as the kernels they should
// be.
#include "compiler/driver/pass_run.h"
#include "ir/kernel/interp.h"
#include "ir/kernel/lower.h"
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

typedef struct fixture {
    arena *a;
    diag d;
    jmp_buf jump;
    char message[512];
} fixture;

static void record(void *user, const diag_message *m) {
    snprintf(((fixture *)user)->message, 512, "%s", m->full);
}

// ---------------------------------------------------------------- building programs
enum { MOST_TENSORS = 64, INPUTS = 5, OUTPUTS = 4 };

typedef struct maker {
    arena *a;
    program *p;
    uint64_t seed;
    region *r; // where steps go
    buffer *tensor[MOST_TENSORS];
    int n;
    dim *sizes[6]; // N = 5, M = 3 and constants
    bool half;     // some tensors are float16
    buffer *index; // int64[N], values below 3
} maker;

static unsigned pick(maker *m, unsigned n) {
    m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(m->seed >> 33) % n;
}

static dim *size_const(maker *m, int64_t v) { return dim_const(m->p->dims, v); }

static maker maker_new(fixture *f, uint64_t seed, bool half) {
    module *mod = module_new(f->a, &f->d, "m.onnx");
    maker m = {.a = f->a, .p = program_new(mod), .seed = seed * 2654435761u + 1, .half = half};
    m.r = m.p->main;
    m.sizes[0] = dim_symbol(m.p->dims, "N");
    m.sizes[1] = dim_symbol(m.p->dims, "M");
    for (int j = 2; j < 6; j++) m.sizes[j] = size_const(&m, j == 2 ? 1 : j);
    return m;
}

// The kernel that will write b may have its step already.
static void allocate_before_kernel(maker *m, buffer *b) {
    step *s = step_new(m->p, m->r, STEP_ALLOC, NULL);
    s->buffer = b;
    int n = m->r->steps.n;
    if (n < 2 || m->r->steps.at[n - 2]->kind != STEP_KERNEL || m->r->steps.at[n - 2]->kernel->exprs.n) return;
    m->r->steps.at[n - 1] = m->r->steps.at[n - 2];
    m->r->steps.at[n - 2] = s;
}

static buffer *tensor_new(maker *m, buffer_role role, dtype t, int rank, dim *const *dims) {
    bool heap = role == BUF_TEMP && pick(m, 8) == 0;
    buffer *b = program_buffer(m->p, arena_printf(m->a, "t%d", m->p->buffers.n), heap ? BUF_HEAP : role, t,
                               rank, dims);
    if (heap) allocate_before_kernel(m, b);
    return b;
}

static void add_tensor(maker *m, buffer *b) {
    if (m->n < MOST_TENSORS) m->tensor[m->n++] = b;
}

static buffer *any_tensor(maker *m) { return m->tensor[pick(m, (unsigned)m->n)]; }

static dtype float_type(maker *m) { return m->half && pick(m, 2) ? DT_F16 : DT_F32; }

static void make_inputs(maker *m) {
    dim *n = m->sizes[0], *k = m->sizes[1], *four = m->sizes[4];
    dim *shape[INPUTS][3] = {{n, k, four}, {n, four}, {four, m->sizes[5]}, {k, four, n}, {n}};
    int rank[INPUTS] = {3, 2, 2, 3, 1};
    for (int j = 0; j < INPUTS; j++) {
        buffer *b = tensor_new(m, BUF_INPUT, j == 4 ? DT_I64 : DT_F32, rank[j], shape[j]);
        b->io = j;
        VEC_PUSH(m->a, &m->p->inputs, b);
        if (j == 4) m->index = b;
        else add_tensor(m, b);
    }
}

static kernel *new_kernel(maker *m, const char *op) {
    kernel *k = kernel_new(m->p, arena_printf(m->a, "%s_%d", op, m->p->kernels.n), NULL);
    step_kernel(m->p, m->r, k);
    return k;
}

static expr *some_function(maker *m, kernel *k, expr *x) {
    switch (pick(m, 6)) {
    case 0: return x_un(k, X_NEG, x);
    case 1: return x_un(k, X_ABS, x);
    case 2: return x_mul(k, x, x_float(k, DT_F32, 0.5));
    case 3: return x_un(k, X_TANH, x);
    case 4: return x_add(k, x, x_float(k, DT_F32, 1));
    default: return x_bin(k, X_MAX, x, x_zero(k, DT_F32));
    }
}

static bool same_dims(const buffer *x, const buffer *y) {
    bool same = x->rank == y->rank;
    for (int j = 0; same && j < x->rank; j++) same = x->dims[j] == y->dims[j];
    return same;
}

// out = f(x, y) with y of the same shape, or x's own
static void make_pointwise(maker *m, buffer *into) {
    buffer *x = into ? into : any_tensor(m), *y = x;
    for (int tries = 0; tries < 8; tries++) {
        buffer *other = any_tensor(m);
        if (same_dims(x, other) && (!into || other != into)) y = other;
    }
    if (into && y == into) return;
    kernel *k = new_kernel(m, "Point");
    expr *at[MAX_RANK];
    buffer *out = into ? into : tensor_new(m, BUF_TEMP, float_type(m), x->rank, x->dims);
    stage *s = kernel_stage(k);
    axes_over(k, s, out, at);
    expr *v = some_function(m, k, x_read(k, y, at));
    if (!into && pick(m, 2)) v = x_bin(k, pick(m, 2) ? X_ADD : X_SUB, v, x_read(k, x, at));
    stage_write(k, s, out, at, v);
    if (!into) add_tensor(m, out);
}

// out = x + broadcast of y that lost or shrank a dim
static void make_broadcast(maker *m) {
    buffer *x = any_tensor(m), *y = any_tensor(m);
    if (y->rank > x->rank) return;
    for (int j = 1; j <= y->rank; j++)
        if (y->dims[y->rank - j] != x->dims[x->rank - j] && !dim_is(y->dims[y->rank - j], 1)) return;
    kernel *k = new_kernel(m, "Add");
    expr *at[MAX_RANK];
    buffer *out = tensor_new(m, BUF_TEMP, float_type(m), x->rank, x->dims);
    stage *s = kernel_stage(k);
    axes_over(k, s, out, at);
    stage_write(k, s, out, at,
                x_bin(k, pick(m, 2) ? X_SUB : X_MUL, x_read(k, x, at), read_broadcast(k, y, at, x->rank)));
    add_tensor(m, out);
}

static void make_transpose(maker *m) {
    buffer *x = any_tensor(m);
    if (x->rank < 2) return;
    int perm[MAX_RANK];
    dim *dims[MAX_RANK];
    for (int j = 0; j < x->rank; j++) perm[j] = j;
    for (int j = x->rank - 1; j > 0; j--) {
        int i = (int)pick(m, (unsigned)j + 1), t = perm[j];
        perm[j] = perm[i], perm[i] = t;
    }
    for (int j = 0; j < x->rank; j++) dims[j] = x->dims[perm[j]];
    kernel *k = new_kernel(m, "Transpose");
    expr *at[MAX_RANK], *from[MAX_RANK];
    buffer *out = tensor_new(m, BUF_TEMP, x->dtype, x->rank, dims);
    stage *s = kernel_stage(k);
    axes_over(k, s, out, at);
    for (int j = 0; j < x->rank; j++) from[perm[j]] = at[j];
    stage_write(k, s, out, at, x_read(k, x, from));
    add_tensor(m, out);
}

static void make_view(maker *m) {
    buffer *x = any_tensor(m);
    dim *dims[MAX_RANK];
    int rank = 0;
    if (x->rank == 0 || x->rank > 6) return;
    unsigned how = pick(m, 3), at = pick(m, (unsigned)x->rank);
    for (int j = 0; j < x->rank; j++) {
        if (how == 0 && j > 0 && (unsigned)j == at) {
            dims[rank - 1] = dim_mul(dims[rank - 1], x->dims[j]);
        } else if (how == 1 && (unsigned)j == at && dim_is(x->dims[j], 4)) {
            dims[rank++] = size_const(m, 2);
            dims[rank++] = size_const(m, 2);
        } else {
            if (how == 2 && (unsigned)j == at) dims[rank++] = size_const(m, 1);
            dims[rank++] = x->dims[j];
        }
    }
    add_tensor(m, program_view(m->p, x, arena_printf(m->a, "v%d", m->p->buffers.n), rank, dims));
}

// A slice, or the whole with a border of one.
static void make_slice_or_pad(maker *m) {
    buffer *x = any_tensor(m);
    if (x->rank == 0) return;
    unsigned d = pick(m, (unsigned)x->rank);
    bool pad = pick(m, 2);
    if (!pad && !(dim_is_const(x->dims[d]) && dim_value(x->dims[d]) > 1)) return;
    if (dim_is_const(x->dims[d]) && dim_value(x->dims[d]) > 12) return;
    dim *dims[MAX_RANK];
    for (int j = 0; j < x->rank; j++) dims[j] = x->dims[j];
    dims[d] = dim_addk(dims[d], pad ? 2 : -1);
    kernel *k = new_kernel(m, pad ? "Pad" : "Slice");
    expr *at[MAX_RANK], *from[MAX_RANK];
    buffer *out = tensor_new(m, BUF_TEMP, x->dtype, x->rank, dims);
    stage *s = kernel_stage(k);
    axes_over(k, s, out, at);
    memcpy(from, at, sizeof from);
    from[d] = x_add(k, at[d], x_i64(k, pad ? -1 : 1));
    expr *inside = x_and(k, x_bin(k, X_LE, x_i64(k, 0), from[d]), x_lt(k, from[d], x_dim(k, x->dims[d])));
    stage_write(k, s, out, at,
                pad ? x_read_guarded(k, x, from, inside, x_float(k, DT_F32, 2)) : x_read(k, x, from));
    add_tensor(m, out);
}

static buffer *concat_of(maker *m, buffer *const *parts, int n, int along) {
    dim *dims[MAX_RANK], *low = size_const(m, 0);
    for (int j = 0; j < parts[0]->rank; j++) dims[j] = parts[0]->dims[j];
    for (int j = 1; j < n; j++) dims[along] = dim_add(dims[along], parts[j]->dims[along]);
    kernel *k = new_kernel(m, "Concat");
    buffer *out = tensor_new(m, BUF_TEMP, parts[0]->dtype, parts[0]->rank, dims);
    for (int part = 0; part < n; part++) {
        stage *s = kernel_stage(k);
        expr *at[MAX_RANK], *to[MAX_RANK];
        axes_over(k, s, parts[part], at);
        memcpy(to, at, sizeof to);
        to[along] = x_add(k, at[along], x_dim(k, low));
        stage_write(k, s, out, to, x_read(k, parts[part], at));
        low = dim_add(low, parts[part]->dims[along]);
    }
    return out;
}

static void make_concat(maker *m) {
    buffer *x = any_tensor(m), *y = any_tensor(m);
    if (x->rank == 0 || x->rank != y->rank || x->dtype != y->dtype) return;
    int along = -1;
    for (int j = 0; j < x->rank; j++)
        if (x->dims[j] != y->dims[j]) {
            if (along >= 0) return;
            along = j;
        }
    if (along < 0) along = (int)pick(m, (unsigned)x->rank);
    dim *sum = dim_add(x->dims[along], y->dims[along]);
    if (sum->max < INT64_MAX && sum->max > 20) return;
    add_tensor(m, concat_of(m, (buffer *[]){x, y}, 2, along));
}

// out[i, ...] = x[index[i], ...], checked
static void make_gather(maker *m) {
    buffer *x = any_tensor(m);
    if (x->rank == 0 ||
        !(x->dims[0] == m->sizes[0] || (dim_is_const(x->dims[0]) && dim_value(x->dims[0]) >= 3)))
        return;
    dim *dims[MAX_RANK];
    for (int j = 0; j < x->rank; j++) dims[j] = x->dims[j];
    dims[0] = m->sizes[0];
    kernel *k = new_kernel(m, "Gather");
    expr *at[MAX_RANK];
    buffer *out = tensor_new(m, BUF_TEMP, x->dtype, x->rank, dims);
    stage *s = kernel_stage(k);
    axes_over(k, s, out, at);
    expr *from[MAX_RANK];
    memcpy(from, at, sizeof from);
    from[0] = x_checked_index(k, x_read(k, m->index, at), x->dims[0], true, "outside");
    stage_write(k, s, out, at, x_read(k, x, from));
    add_tensor(m, out);
}

static buffer *make_reduce(maker *m, buffer *x, reduce_op op, unsigned along) {
    dim *dims[MAX_RANK];
    for (int j = 0; j < x->rank; j++) dims[j] = x->dims[j];
    dims[along] = size_const(m, 1);
    buffer *out = tensor_new(m, BUF_TEMP, float_type(m), x->rank, dims);
    kernel *k = new_kernel(m, "Reduce");
    expr *at[MAX_RANK], *from[MAX_RANK];
    bool outer = pick(m, 2);
    stage *s = outer ? NULL : kernel_stage(k);
    axes_over(k, s, out, at);
    if (outer) s = kernel_stage(k);
    memcpy(from, at, sizeof from);
    int a = kernel_axis(k, AXIS_REDUCE, "r", x->dims[along]);
    stage_axis(k, s, a);
    from[along] = x_axis(k, a);
    stage_write(k, s, out, at, stage_reduce(k, s, op, x_read(k, x, from)));
    add_tensor(m, out);
    return out;
}

static buffer *binary(maker *m, const char *name, expr_op op, buffer *x, buffer *y) {
    kernel *k = new_kernel(m, name);
    expr *at[MAX_RANK];
    buffer *out = tensor_new(m, BUF_TEMP, DT_F32, x->rank, x->dims);
    stage *s = kernel_stage(k);
    axes_over(k, s, out, at);
    expr *v = x_read(k, x, at);
    stage_write(k, s, out, at, y ? x_bin(k, op, v, read_broadcast(k, y, at, x->rank)) : x_un(k, op, v));
    add_tensor(m, out);
    return out;
}

static buffer *make_softmax(maker *m, buffer *x, unsigned along) {
    buffer *shifted = binary(m, "Sub", X_SUB, x, make_reduce(m, x, RED_MAX, along));
    buffer *e = binary(m, "Exp", X_EXP, shifted, NULL);
    return binary(m, "Div", X_DIV, e, make_reduce(m, e, RED_SUM, along));
}

// out[..., i, j] = sum over r of x[..., i, r] * y[..., r, j]
static buffer *make_product(maker *m, buffer *x, buffer *y) {
    int rank = x->rank;
    if (rank < 2 || (y->rank != rank && y->rank != 2) || x->dims[rank - 1] != y->dims[y->rank - 2])
        return NULL;
    for (int j = 0; y->rank == rank && j < rank - 2; j++)
        if (x->dims[j] != y->dims[j]) return NULL;
    dim *dims[MAX_RANK];
    for (int j = 0; j < rank; j++) dims[j] = x->dims[j];
    dims[rank - 1] = y->dims[y->rank - 1];
    buffer *out = tensor_new(m, BUF_TEMP, float_type(m), rank, dims);
    kernel *k = new_kernel(m, "MatMul");
    stage *s = kernel_stage(k);
    expr *at[MAX_RANK], *left[MAX_RANK], *right[MAX_RANK];
    axes_over(k, s, out, at);
    int r = kernel_axis(k, AXIS_REDUCE, "r", x->dims[rank - 1]);
    stage_axis(k, s, r);
    memcpy(left, at, sizeof left);
    left[rank - 1] = x_axis(k, r);
    for (int j = 0; j < y->rank; j++) right[j] = at[rank - y->rank + j];
    right[y->rank - 2] = x_axis(k, r);
    stage_write(k, s, out, at,
                stage_reduce(k, s, RED_SUM, x_mul(k, x_read(k, x, left), x_read(k, y, right))));
    add_tensor(m, out);
    return out;
}

static void swap_last(maker *m, buffer *x) {
    kernel *k = new_kernel(m, "Transpose");
    dim *dims[MAX_RANK];
    expr *at[MAX_RANK], *from[MAX_RANK];
    for (int j = 0; j < x->rank; j++) dims[j] = x->dims[j];
    dims[x->rank - 1] = x->dims[x->rank - 2], dims[x->rank - 2] = x->dims[x->rank - 1];
    buffer *out = tensor_new(m, BUF_TEMP, x->dtype, x->rank, dims);
    stage *s = kernel_stage(k);
    axes_over(k, s, out, at);
    memcpy(from, at, sizeof from);
    from[x->rank - 1] = at[x->rank - 2], from[x->rank - 2] = at[x->rank - 1];
    stage_write(k, s, out, at, x_read(k, x, from));
    add_tensor(m, out);
}

// softmax(x x') x, perhaps with something between
static void make_attention(maker *m) {
    buffer *x = any_tensor(m);
    if (x->rank < 2) return;
    swap_last(m, x);
    buffer *scores = make_product(m, x, m->tensor[m->n - 1]);
    if (!scores) return;
    if (pick(m, 2)) {
        make_pointwise(m, NULL);
        if (same_dims(m->tensor[m->n - 1], scores)) scores = m->tensor[m->n - 1];
    }
    buffer *weights = make_softmax(m, scores, (unsigned)x->rank - 1);
    make_product(m, weights, x);
}

// A loop that carries a tensor: acc = f(acc, x) twice.
static void make_loop(maker *m) {
    buffer *x = any_tensor(m);
    if (m->r != m->p->main) return;
    buffer *acc = program_buffer(m->p, "acc", BUF_TEMP, DT_F32, x->rank, x->dims);
    kernel *k = new_kernel(m, "Start");
    expr *at[MAX_RANK];
    stage *s = kernel_stage(k);
    axes_over(k, s, acc, at);
    stage_write(k, s, acc, at, some_function(m, k, x_read(k, x, at)));
    step *loop = step_new(m->p, m->r, STEP_LOOP, NULL);
    loop->target = dim_opaque(m->p->dims, "i", 0, 2);
    VEC_PUSH(m->a, &m->p->variables, loop->target);
    loop->dim = size_const(m, 2);
    loop->body[0] = ARENA_NEW(m->a, region);
    region *outside = m->r;
    m->r = loop->body[0];
    int n = m->n;
    add_tensor(m, acc);
    for (int j = 0; j < 3; j++) make_pointwise(m, NULL);
    buffer *last = m->tensor[m->n - 1];
    if (same_dims(last, acc)) {
        kernel *back = new_kernel(m, "Back");
        stage *b = kernel_stage(back);
        axes_over(back, b, acc, at);
        stage_write(
            back, b, acc, at,
            x_add(back, x_read(back, last, at), x_cast(back, x_dim(back, loop->target), DT_F32, false)));
    }
    m->r = outside;
    m->n = n;
    add_tensor(m, acc);
}

static void make_any(maker *m) {
    buffer *x = any_tensor(m);
    switch (pick(m, 18)) {
    case 0:
    case 1:
    case 2:
    case 3: make_pointwise(m, NULL); break;
    case 4:
    case 5: make_broadcast(m); break;
    case 6:
    case 7: make_transpose(m); break;
    case 8:
    case 9: make_view(m); break;
    case 10: make_slice_or_pad(m); break;
    case 11: make_concat(m); break;
    case 12: make_gather(m); break;
    case 13:
        if (x->rank) make_reduce(m, x, pick(m, 2) ? RED_SUM : RED_MAX, pick(m, (unsigned)x->rank));
        break;
    case 14:
        if (x->rank) make_softmax(m, x, pick(m, (unsigned)x->rank));
        break;
    case 15: make_product(m, x, any_tensor(m)); break;
    case 16: make_attention(m); break;
    case 17:
        if (pick(m, 3) == 0) make_loop(m);
        else if (x->role == BUF_TEMP && !x->view_of && x->dtype == DT_F32)
            make_pointwise(m, x); // writes it again
        break;
    }
}

static program *make_program(maker *m) {
    make_inputs(m);
    int steps = 4 + (int)pick(m, 20);
    for (int j = 0; j < steps && m->n < MOST_TENSORS - 8; j++) make_any(m);
    for (int j = 0; j < OUTPUTS && j < m->n; j++) {
        buffer *from = m->tensor[m->n - 1 - (j < 2 ? j : (int)pick(m, (unsigned)m->n))];
        buffer *out = tensor_new(m, BUF_OUTPUT, from->dtype, from->rank, from->dims);
        out->io = j;
        VEC_PUSH(m->a, &m->p->outputs, out);
        if (j == 1) {
            kernel *k = new_kernel(m, "Last");
            expr *at[MAX_RANK];
            stage *s = kernel_stage(k);
            axes_over(k, s, out, at);
            stage_write(k, s, out, at, some_function(m, k, x_read(k, from, at)));
            continue;
        }
        step *s = step_new(m->p, m->r, STEP_COPY, NULL);
        s->buffer = out, s->from = from;
    }
    program_verify(m->p);
    return m->p;
}

// ---------------------------------------------------------------- running
static tensor input_tensor(arena *a, const buffer *b, int n, int k, int which) {
    tensor t = {.dtype = b->dtype, .rank = b->rank, .count = 1};
    for (int j = 0; j < b->rank; j++) {
        t.dims[j] = dim_is_const(b->dims[j])             ? dim_value(b->dims[j])
                    : strcmp(b->dims[j]->name, "N") == 0 ? n
                                                         : k;
        t.count *= t.dims[j];
    }
    t.data = arena_alloc(a, (size_t)t.count * 8 + 16);
    for (int64_t j = 0; j < t.count; j++) {
        if (b->dtype == DT_I64) ((int64_t *)t.data)[j] = (j * 2) % (n < 3 ? n : 3);
        else ((float *)t.data)[j] = (float)((j * 7 + which * 3) % 13) * 0.25f - 1.5f;
    }
    return t;
}

static interp_result run_program(fixture *f, const program *p, int n, int k, tensor *out) {
    tensor in[INPUTS];
    const char *message = NULL;
    for (int j = 0; j < p->inputs.n; j++) in[j] = input_tensor(f->a, p->inputs.at[j], n, k, j);
    return interp_program(p, f->a, in, out, (interp_limits){.work = 50 * 1000 * 1000}, &message);
}

static bool close_to(double x, double y, double tolerance) {
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    return x == y || fabs(x - y) <= tolerance * (1 + fabs(x));
}

static void compare(const tensor *x, const tensor *y, double tolerance, uint64_t seed, int output) {
    assert_int_equal(x->count, y->count);
    for (int64_t j = 0; j < x->count; j++) {
        double a = dtype_load_float(x->dtype, x->data, j), b = dtype_load_float(y->dtype, y->data, j);
        if (!close_to(a, b, tolerance))
            fail_msg("seed %llu output %d [%lld]: %.9g became %.9g", (unsigned long long)seed, output,
                     (long long)j, a, b);
    }
}

static void check_seed(uint64_t seed, bool strict) {
    fixture f = {.a = arena_new()};
    f.d = (diag){.arena = f.a, .sink = record, .user = &f, .file = "m.onnx"};
    if (!DIAG_TRY(&f.d, f.jump)) fail_msg("seed %llu: %s", (unsigned long long)seed, f.message);
    maker m1 = maker_new(&f, seed, strict), m2 = maker_new(&f, seed, strict);
    program *plain = make_program(&m1), *fused = make_program(&m2);
    target t = {.fp = strict ? FP_STRICT : FP_DEFAULT};
    run_passes(&(pass_context){.program = fused, .target = &t, .opt = 1}, GOAL_PROGRAM, "fuse");
    assert_true(fused->kernels.n <= plain->kernels.n);
    static const int sizes[3][2] = {{5, 3}, {3, 1}, {1, 4}};
    for (int j = 0; j < 3; j++) {
        tensor a[OUTPUTS], b[OUTPUTS];
        interp_result x = run_program(&f, plain, sizes[j][0], sizes[j][1], a);
        interp_result y = run_program(&f, fused, sizes[j][0], sizes[j][1], b);
        // A check may fail in either when what it is about is not wanted in the end.
        if (x != INTERP_OK || y == INTERP_LIMIT) continue;
        assert_int_equal(y, INTERP_OK);
        for (int i = 0; i < plain->outputs.n; i++) compare(&a[i], &b[i], strict ? 0 : 2e-5, seed, i);
    }
    arena_destroy(f.a);
}

static void random_programs(void **state) {
    (void)state;
    const char *first = getenv("FUSE_SEED");
    uint64_t seed = first ? strtoull(first, NULL, 10) : 0, n = first ? 1 : 400;
    for (uint64_t j = seed; j < seed + n; j++) check_seed(j, false);
}

static void random_strict_programs(void **state) {
    (void)state;
    for (uint64_t j = 1000; j < 1300; j++) check_seed(j, true);
}

// ---------------------------------------------------------------- known forms
typedef struct known {
    fixture f;
    maker m;
} known;

static int set_up(void **state) {
    known *k = calloc(1, sizeof *k);
    k->f.a = arena_new();
    k->f.d = (diag){.arena = k->f.a, .sink = record, .user = &k->f, .file = "m.onnx"};
    k->m = maker_new(&k->f, 1, false);
    *state = k;
    return 0;
}
static int tear_down(void **state) {
    known *k = *state;
    arena_destroy(k->f.a);
    free(k);
    return 0;
}

static buffer *input(known *k, int rank, dim *const *dims) {
    buffer *b =
        program_buffer(k->m.p, arena_printf(k->m.a, "x%d", k->m.p->inputs.n), BUF_INPUT, DT_F32, rank, dims);
    b->io = k->m.p->inputs.n;
    VEC_PUSH(k->m.a, &k->m.p->inputs, b);
    return b;
}

// The last kernel writes the program's output; how many kernels are left after fusion.
static int fused_kernels(known *k, buffer *last) {
    program *p = k->m.p;
    buffer *out = program_buffer(p, "y", BUF_OUTPUT, last->dtype, last->rank, last->dims);
    VEC_PUSH(k->m.a, &p->outputs, out);
    kernel *end = new_kernel(&k->m, "Identity");
    expr *at[MAX_RANK];
    stage *s = kernel_stage(end);
    axes_over(end, s, out, at);
    stage_write(end, s, out, at, x_read(end, last, at));
    run_passes(&(pass_context){.program = p, .opt = 1}, GOAL_PROGRAM, "fuse");
    return p->kernels.n;
}

static void a_chain_becomes_one_kernel(void **state) {
    known *k = *state;
    buffer *x = input(k, 2, k->m.sizes);
    for (int j = 0; j < 30; j++) x = binary(&k->m, "Neg", j % 2 ? X_TANH : X_NEG, x, NULL);
    assert_int_equal(fused_kernels(k, x), 1);
}

static void a_spelled_softmax_becomes_one_kernel(void **state) {
    known *k = *state;
    dim *dims[] = {k->m.sizes[0], k->m.sizes[1], size_const(&k->m, 40)};
    assert_int_equal(fused_kernels(k, make_softmax(&k->m, input(k, 3, dims), 2)), 1);
    assert_int_equal(k->m.p->kernels.at[0]->nouter, 2);
}

static void spelled_attention_becomes_one_kernel(void **state) {
    known *k = *state;
    dim *n = k->m.sizes[0], *d = size_const(&k->m, 8);
    buffer *q = input(k, 3, (dim *[]){k->m.sizes[1], n, d}),
           *key = input(k, 3, (dim *[]){k->m.sizes[1], n, d});
    buffer *v = input(k, 3, (dim *[]){k->m.sizes[1], n, d});
    swap_last(&k->m, key);
    buffer *scores = make_product(&k->m, q, k->m.tensor[k->m.n - 1]);
    buffer *out = make_product(&k->m, make_softmax(&k->m, scores, 2), v);
    assert_int_equal(fused_kernels(k, out), 1);
    const kernel *one = k->m.p->kernels.at[0];
    assert_int_equal(one->nouter, 2);
    assert_int_equal(one->stages.n, 5);
}

// A product with weights does not become a stage of rows: it stays a separate kernel.
static void products_with_weights_stay(void **state) {
    known *k = *state;
    dim *d = size_const(&k->m, 8);
    int64_t shape[2] = {8, 8};
    buffer *x = input(k, 2, (dim *[]){k->m.sizes[0], d});
    buffer *w = program_constant(k->m.p, "w", constant_new(k->m.a, DT_F32, 2, shape));
    buffer *y = make_softmax(&k->m, make_product(&k->m, x, w), 1);
    y = make_product(&k->m, y, w);
    assert_int_equal(fused_kernels(k, y), 3);
}

static void epilogues_join_products(void **state) {
    known *k = *state;
    dim *d = size_const(&k->m, 8);
    buffer *x = input(k, 2, (dim *[]){k->m.sizes[0], d}), *w = input(k, 2, (dim *[]){d, d}),
           *b = input(k, 1, &d);
    buffer *y = binary(&k->m, "Add", X_ADD, make_product(&k->m, x, w), b);
    buffer *gate = binary(&k->m, "Tanh", X_TANH, y, NULL);
    y = binary(&k->m, "Add", X_ADD, binary(&k->m, "Mul", X_MUL, y, gate), x);
    assert_int_equal(fused_kernels(k, y), 1);
}

static void long_chains_are_cut(void **state) {
    known *k = *state;
    buffer *x = input(k, 2, k->m.sizes);
    for (int j = 0; j < 2000; j++) x = binary(&k->m, "Neg", j % 2 ? X_TANH : X_NEG, x, NULL);
    int n = fused_kernels(k, x);
    assert_in_range(n, 2, 100);
    for (int j = 0; j < n; j++) assert_true(strlen(k->m.p->kernels.at[j]->name) < 128);
}

// What all of x gives for each row, in as many columns as a product with weights has.
static buffer *grow(known *k, buffer *x) {
    int64_t shape[2] = {dim_value(x->dims[1]), 4};
    buffer *w = program_constant(k->m.p, "w", constant_new(k->m.a, DT_F32, 2, shape));
    return make_product(&k->m, x, w);
}

// x1 = x0, f(x0); x2 = x0, f(x0), f(x1) or x1, f(x1); ...: nothing is copied twice.
static void what_grows_is_one(void **state) {
    known *k = *state;
    for (int nested = 0; nested < 2; nested++) {
        k->m = maker_new(&k->f, 1, false);
        buffer *x = input(k, 2, (dim *[]){k->m.sizes[0], size_const(&k->m, 8)}), *parts[5] = {x};
        for (int n = 1; n < 5; n++) {
            parts[n] = grow(k, x);
            x = nested ? concat_of(&k->m, (buffer *[]){x, parts[n]}, 2, 1)
                       : concat_of(&k->m, parts, n + 1, 1);
        }
        fused_kernels(k, x);
        int copied = 0;
        for (int j = 0; j < k->m.p->kernels.n; j++) {
            const kernel *each = k->m.p->kernels.at[j];
            for (int s = 0; s < each->stages.n; s++)
                copied +=
                    each->stages.at[s]->writes.n == 1 && each->stages.at[s]->writes.at[0].value->op == X_READ;
        }
        assert_int_equal(copied, 5); // each part, in the output itself
        tensor out;
        assert_int_equal(run_program(&k->f, k->m.p, 5, 3, &out), INTERP_OK);
        assert_int_equal(out.count, 5 * 24);
    }
}

// A reduction over what lies side by side does not ask for each element where it lies.
static void joined_rows_are_reduced_as_one(void **state) {
    known *k = *state;
    buffer *x = input(k, 2, (dim *[]){k->m.sizes[0], size_const(&k->m, 8)}), *y = grow(k, x);
    make_reduce(&k->m, concat_of(&k->m, (buffer *[]){y, x}, 2, 1), RED_MAX, 0);
    fused_kernels(k, k->m.tensor[k->m.n - 1]);
    for (int j = 0; j < k->m.p->kernels.n; j++) {
        const stage *s = k->m.p->kernels.at[j]->stages.at[0];
        for (int i = 0; i < s->states.n; i++) assert_int_not_equal(s->states.at[i].step->op, X_SELECT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs),
        cmocka_unit_test(random_strict_programs),
        cmocka_unit_test_setup_teardown(a_chain_becomes_one_kernel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_spelled_softmax_becomes_one_kernel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(spelled_attention_becomes_one_kernel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(products_with_weights_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(epilogues_join_products, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_chains_are_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_grows_is_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(joined_rows_are_reduced_as_one, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
