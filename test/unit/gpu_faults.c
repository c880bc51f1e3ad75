// What the interpreter reports of GPU kernels that are wrong. Every barrier and every wait matters: without
// it a race or a wrong result shows.
#include "test/unit/gpu_models.h"

// The barrier number *n in order, as the place that points to it.
static ins **find_barrier(lblock *b, int *n) {
    for (ins **at = b ? &b->first : NULL; at && *at; at = &(*at)->next) {
        if ((*at)->op == L_BARRIER && (*n)-- == 0) return at;
        for (int j = 0; j < 2; j++) {
            ins **found = find_barrier((*at)->body[j], n);
            if (found) return found;
        }
    }
    return NULL;
}

// Which kernels a run launches: where it chooses, not all.
typedef struct launched {
    const lfunc *at[16];
    int n;
} launched;
static const char *note_launch(void *user, arena *a, const gpu_launch *l) {
    launched *seen = user;
    linterp_order order = ORDER_FORWARD;
    if (seen->n < 16) seen->at[seen->n++] = l->code->f;
    return gpu_interpret(&order, a, l);
}
static bool is_launched(const launched *seen, const lfunc *f) {
    for (int j = 0; j < seen->n; j++)
        if (seen->at[j] == f) return true;
    return false;
}

static int missing_barriers_show_in(fixture *x, const model *m) {
    compiled c = compile(x, m, FP_DEFAULT);
    launched seen = {0};
    int count = 0;
    run_compiled(x, &c, note_launch, &seen);
    for (int j = 0; j < c.code->module->funcs.n; j++) {
        if (!is_launched(&seen, c.code->module->funcs.at[j])) continue;
        for (int n = 0;; n++, count++) {
            int skipped = n;
            ins **at = find_barrier(c.code->module->funcs.at[j]->body, &skipped), *barrier = at ? *at : NULL;
            if (!at) break;
            *at = barrier->next;
            const char *error = interpreted_error(x, &c);
            // Where copies alone bring what is multiplied, threads that run ahead leave others behind.
            bool left = error && strstr(error, "threads wait for copies");
            if (!error || (!strstr(error, "race") && !left))
                fail_msg("%s: barrier %d of %s is gone, and no race shows but '%s'", m->name, n,
                         c.code->module->funcs.at[j]->name, error ? error : "");
            *at = barrier;
        }
    }
    return count;
}

// The first instruction of that kind; groups may be left where `left` says so.
static ins **find_gpu(lblock *b, gpu_op op, int left) {
    for (ins **at = b ? &b->first : NULL; at && *at; at = &(*at)->next) {
        if ((*at)->op == L_GPU && (*at)->gpu->op == op && (left < 0 || (*at)->gpu->count == left)) return at;
        for (int j = 0; j < 2; j++) {
            ins **found = find_gpu((*at)->body[j], op, left);
            if (found) return found;
        }
    }
    return NULL;
}

// Waits and fences, and in how many kernels there must be one.
typedef struct needed_ins {
    gpu_op op;
    int left, least; // left: groups, -1: any number
} needed_ins;
static const needed_ins needed[] = {
    {GPU_CP_ASYNC_WAIT, -1, 8}, {GPU_PROXY_FENCE, -1, 9},    {GPU_WGMMA_FENCE, -1, 9},
    {GPU_WGMMA_COMMIT, -1, 9},  {GPU_WGMMA_WAIT, 0, 9},      {GPU_WGMMA_WAIT, 1, 3},
    {GPU_MBARRIER_INIT, -1, 8}, {GPU_MBARRIER_FENCE, -1, 8}, {GPU_MBARRIER_EXPECT, -1, 8},
    {GPU_BULK_COPY, -1, 8},     {GPU_MBARRIER_WAIT, -1, 8},
};
enum { NEEDED = sizeof needed / sizeof *needed };

static bool has_needed(const lfunc *f) {
    for (int i = 0; i < NEEDED; i++)
        if (find_gpu(f->body, needed[i].op, needed[i].left)) return true;
    return false;
}

// Without the first of each of them in the kernel it goes wrong.
static void missing_ins_show_in(fixture *x, const compiled *c, const lfunc *f, const char *name, int *count) {
    for (int i = 0; i < NEEDED; i++) {
        ins **at = find_gpu(f->body, needed[i].op, needed[i].left), *call = at ? *at : NULL;
        if (!at) continue;
        *at = call->next;
        if (!interpreted_error(x, c))
            fail_msg("%s: no %s, and nothing shows", name, gpu_ins_name(x->a, call->gpu));
        *at = call;
        count[i]++;
    }
}

static void missing_waits_show(void **state) {
    if (EVERY > 1) skip();
    int count[NEEDED] = {0};
    for (int i = 0; i < MODELS; i++) {
        compiled c = compile(*state, &models[i], FP_DEFAULT);
        launched seen = {0};
        bool any = false;
        for (int j = 0; j < c.code->module->funcs.n; j++) any |= has_needed(c.code->module->funcs.at[j]);
        if (any) run_compiled(*state, &c, note_launch, &seen);
        for (int j = 0; j < seen.n; j++) missing_ins_show_in(*state, &c, seen.at[j], models[i].name, count);
    }
    for (int i = 0; i < NEEDED; i++) assert_true(count[i] >= needed[i].least);
}

static void missing_barriers_show(void **state) {
    if (EVERY > 1) skip();
    int count = 0;
    for (int i = 0; i < MODELS; i++) count += missing_barriers_show_in(*state, &models[i]);
    assert_true(count >= 15);
}

// The interpreter, on memory that is `shorter` than the kernels need, or begins `odd` bytes late.
typedef struct wrong_memory {
    int64_t shorter, odd;
} wrong_memory;
static const char *interpret_wrong(void *user, arena *a, const gpu_launch *l) {
    const wrong_memory *w = user;
    linterp_order order = ORDER_FORWARD;
    gpu_launch wrong = *l;
    gpu_region *memory = ARENA_ARRAY(a, gpu_region, l->nmemory);
    uint64_t *args = ARENA_ARRAY(a, uint64_t, l->code->f->params.n);
    memcpy(memory, l->memory, (size_t)l->nmemory * sizeof *memory);
    memcpy(args, l->args, (size_t)l->code->f->params.n * sizeof *args);
    for (int i = 0; i < l->nmemory; i++) memory[i].bytes -= w->shorter;
    for (int i = 0; i < l->code->nbuffers; i++) args[i] += (uint64_t)w->odd;
    wrong.memory = memory;
    wrong.args = args;
    return gpu_interpret(&order, a, &wrong);
}

static void wrong_memory_shows(void **state) {
    fixture *x = *state;
    for (int i = 0; i < MODELS; i++) {
        compiled c = compile(x, &models[i], FP_DEFAULT);
        const char *shorter = run_compiled(x, &c, interpret_wrong, &(wrong_memory){.shorter = 1}),
                   *odd = run_compiled(x, &c, interpret_wrong, &(wrong_memory){.odd = 1});
        if (!shorter || !strstr(shorter, "out of bounds"))
            fail_msg("%s: too little memory gives '%s'", models[i].name, shorter ? shorter : "");
        bool bytes = dtype_bits(c.in[0].dtype) == 8; // they have no alignment to miss, what comes out has
        bool seen = odd && (strstr(odd, "less aligned") || (bytes && strstr(odd, "out of bounds")));
        if (!seen) fail_msg("%s: misaligned memory gives '%s'", models[i].name, odd ? odd : "");
    }
}

static int element_bytes(const compiled *c) {
    int most = dtype_bits(c->want.dtype) / 8;
    for (int i = 0; i < c->program->inputs.n; i++) {
        int bytes = dtype_bits(c->in[i].dtype) / 8;
        most = bytes > most ? bytes : most;
    }
    return most;
}

// The interpreter, on inputs and outputs that begin `user` bytes after a multiple of 64.
static const char *interpret_shifted(void *user, arena *a, const gpu_launch *l) {
    enum { ALIGN = 64 };
    int shift = *(const int *)user;
    linterp_order order = ORDER_PERMUTED;
    gpu_launch own = *l;
    gpu_region *memory = ARENA_ARRAY(a, gpu_region, l->nmemory);
    uint64_t *args = ARENA_ARRAY(a, uint64_t, l->code->f->params.n);
    memcpy(args, l->args, (size_t)l->code->f->params.n * sizeof *args);
    memcpy(memory, l->memory, (size_t)l->nmemory * sizeof *memory);
    for (int j = 0; j < l->nmemory; j++) {
        uint64_t from = (uintptr_t)l->memory[j].at, end = from + (uint64_t)l->memory[j].bytes;
        char *to = arena_alloc(a, (size_t)l->memory[j].bytes + 2 * ALIGN);
        to += (-(uintptr_t)to & (ALIGN - 1)) + (uintptr_t)shift;
        for (int i = 0; i < l->code->nbuffers; i++) {
            buffer_role role = buffer_root(l->code->buffers[i])->role;
            bool of_caller = role == BUF_INPUT || role == BUF_OUTPUT;
            if (!of_caller || args[i] < from || args[i] >= end) continue;
            args[i] += (uintptr_t)to - from;
            memory[j].at = to;
        }
        if (memory[j].at == to) memcpy(to, l->memory[j].at, (size_t)l->memory[j].bytes);
    }
    own.memory = memory;
    own.args = args;
    const char *error = gpu_interpret(&order, a, &own);
    for (int j = 0; j < l->nmemory; j++)
        if (memory[j].at != l->memory[j].at) memcpy(l->memory[j].at, memory[j].at, (size_t)memory[j].bytes);
    return error;
}

// Elements are aligned, what is fetched or written at once need not be.
static void buffers_need_not_be_aligned(void **state) {
    for (int i = 0; i < MODELS; i += EVERY) {
        if (models[i].placed) continue;
        compiled c = compile(*state, &models[i], FP_DEFAULT);
        int shift = element_bytes(&c);
        const char *error = run_compiled(*state, &c, interpret_shifted, &shift);
        if (error) fail_msg("%s: %s", models[i].name, error);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(missing_barriers_show),
        TEST(missing_waits_show),
        TEST(wrong_memory_shows),
        TEST(buffers_need_not_be_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
