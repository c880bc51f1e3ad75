// In: a program. Out: a module with every kernel scheduled for every variant, the host functions, constants
// and the descriptor.
#include "codegen/host/host.h"
#include "codegen/gpu/gpu.h"
#include "codegen/host/descriptor.h"
#include "codegen/host/host_impl.h"
#include "codegen/host/real_time.h"
#include "compiler/base/integers.h"
#include "ir/kernel/library.h"
#include "ir/kernel/uses.h"
#include "ir/loops/legalize.h"
#include "ir/loops/loops_share.h"
#include "ir/loops/weights.h"
#include <string.h>

// Buffers of data-dependent size are in the workspace if this bounds their size.
#define BOUNDED_MOST ((int64_t)16 << 20)

// ---------------------------------------------------------------- symbols
const char *local_name(host *h, const char *name, const char *fallback) {
    enum { MOST = 40 };
    arena *a = h->builder->arena;
    return fit_identifier(a, c_identifier(a, name, fallback), MOST);
}

ins *named_local(lbuild *b, const char *name, lkind elem, int64_t n) {
    ins *x = lb_local(b, elem, n, 0, false);
    x->name = name;
    return x;
}

const char *runtime_function(host_builder *a, const char *name, ltype result, int n, const ltype *params) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    if (map_get(&a->shared->declared, name)) return name;
    lfunc *f = lfunc_new(a->m, name, result);
    for (int j = 0; j < n; j++) lfunc_param(f, names[j], params[j], LK_VOID, DT_NONE, false);
    if (result.kind == LK_I32) f->ctype = "int";
    map_put(&a->shared->declared, name, f);
    return name;
}

const char *library_function(host_builder *a, const char *name, const char *file, ltype result, ltype param) {
    runtime_function(a, name, result, 1, &param);
    ((lfunc *)map_get(&a->shared->declared, name))->library = file;
    return name;
}

// PREFIX_NAMESUFFIX, short enough for "_task" at its end.
static const char *symbol_name(host_builder *a, const char *prefix, const char *name, const char *suffix) {
    enum { LEAST = 16 };
    size_t others = strlen(prefix) + strlen(suffix) + strlen("__task");
    const char *id = c_identifier(a->arena, name, "x");
    size_t most = others + LEAST < IDENTIFIER_MOST ? IDENTIFIER_MOST - others : LEAST;
    return arena_printf(a->arena, "%s_%s%s", prefix, fit_identifier(a->arena, id, most), suffix);
}

static ldata *new_constant(host_builder *a, const buffer *root, const char *name) {
    ldata *d = weights_new(a->arena, root, name, (int)a->align);
    d->section = a->o->const_section;
    if (!a->o->weights) {
        VEC_PUSH(a->arena, &a->m->data, d);
        return d;
    }
    enum { ALIGN = 64 };
    int64_t at = a->result->weights_bytes;
    VEC_PUSH(a->arena, &a->result->weights, (placed_weights){d, at});
    a->result->weights_bytes = round_up(at + d->bytes, ALIGN);
    return d;
}

int64_t constant_place(host_builder *a, const buffer *root) {
    const char *name = constant_symbol(a, root);
    for (int j = a->result->weights.n - 1; j >= 0; j--)
        if (a->result->weights.at[j].data->name == name) return a->result->weights.at[j].offset;
    diag_defect(a->diag, NULL, "constant '%s' is missing from the weights file", root->name);
}

// Constants with the same bytes share a symbol.
const char *constant_symbol(host_builder *a, const buffer *root) {
    const char *known = map_get_number(&a->used, (uint64_t)root->id);
    if (known) return known;
    typedef struct same {
        const buffer *b;
        const char *name;
        struct same *next;
    } same;
    uint64_t hash = weights_hash(root);
    same *first = map_get_number(&a->shared->by_content, hash);
    for (same *s = first; s && !known; s = s->next)
        if (weights_equal(s->b, root)) known = s->name;
    if (!known) {
        const char *prefix = arena_printf(a->arena, "%s_data%d", a->io->name, root->id);
        known = symbol_name(a, prefix, root->name, a->suffix);
        new_constant(a, root, known);
        same *s = ARENA_NEW(a->arena, same);
        *s = (same){root, known, first};
        map_put_number(&a->shared->by_content, hash, s);
    }
    map_put_number(&a->used, (uint64_t)root->id, (void *)known);
    return known;
}

bool on_heap(const buffer *b) { return b->role == BUF_HEAP && !b->view_of && !b->offset; }

// ---------------------------------------------------------------- kernels
// The buffer that owns the memory: the input for an output that is a state.
static const buffer *memory_of(const program *p, const buffer *b) {
    const buffer *root = buffer_root(b);
    bool state = root->role == BUF_OUTPUT && p->state && p->state[root->io];
    return state ? p->inputs.at[p->state[root->io] - 1] : root;
}

static bool shares_memory(const program *p, const kernel_code *c) {
    for (int i = 0; i < c->nbuffers; i++)
        for (int j = 0; j < i; j++)
            if (memory_of(p, c->buffers[i]) == memory_of(p, c->buffers[j]) &&
                (kernel_writes(c->kernel, c->buffers[i]) || kernel_writes(c->kernel, c->buffers[j])))
                return true;
    return false;
}

static bool can_run(const target *t, const target *on, const lblock *b) {
    for (const ins *x = b->first; x; x = x->next) {
        lclass c = lop_class(x->op);
        if (c == LC_TILE || (c == LC_DOT && on->vnni != t->vnni)) return false;
        bool blocks = on->i8mm == t->i8mm && on->bf16mm == t->bf16mm && on->bf16_pairs == t->bf16_pairs;
        if (c == LC_BLOCK && !blocks) return false;
        if (x->op == L_FTRUNC && x->type.kind == LK_BF16 && on->bf16_convert != t->bf16_convert) return false;
        for (int i = 0; i < 2; i++)
            if (x->body[i] && !can_run(t, on, x->body[i])) return false;
    }
    return true;
}

// Scalars, and float elements that are only moved: no level has better instructions for them.
static bool computes(const ins *x) {
    lclass c = lop_class(x->op);
    bool moves = x->op == L_LOAD || x->op == L_CONST;
    if (x->type.lanes > 1 || (lkind_is_float((lkind)x->type.kind) && !moves)) return true;
    if (c == LC_COMPARE && lkind_is_float((lkind)x->args[0]->type.kind)) return true;
    return c == LC_TO_INT || c == LC_DOT || c == LC_BLOCK || c == LC_TILE;
}
static bool is_plain(const lblock *b) { return !lblock_any(b, computes); }

static bool same_machine(const target *t, const target *on) {
    return strcmp(on->cpu, t->cpu) == 0 && on->sve_bits == t->sve_bits &&
           on->register_bits == t->register_bits;
}

// Levels of one CPU differ in features that few kernels use, and levels of several CPUs in what plain kernels do not use.
// The others belong to the first of these levels, so that they are stored once. The kernel's functions are those from
// `first` on.
static void lower_level(host *h, int first) {
    host_builder *a = h->builder;
    for (int j = 0; a->variants[j] != h->t; j++) {
        const target *on = a->variants[j];
        bool can = true, same = same_machine(h->t, on);
        for (int i = first; i < a->m->funcs.n && can; i++) {
            const lfunc *f = a->m->funcs.at[i];
            can = !f->body || (same ? can_run(h->t, on, f->body) : is_plain(f->body));
        }
        if (!can) continue;
        for (int i = first; i < a->m->funcs.n; i++) a->m->funcs.at[i]->target = a->variants[j];
        return;
    }
}

// In a separate arena, which is dropped if the module has an equal kernel.
static kernel_code *schedule_separately(host *h, arena *own, kernel *k) {
    host_builder *a = h->builder;
    lmodule apart = *a->m;
    apart.arena = own;
    kernel_code *c = schedule_kernel(&apart, k, h->t, a->diag);
    for (int i = a->m->funcs.n; i < apart.funcs.n; i++) VEC_PUSH(a->arena, &a->m->funcs, apart.funcs.at[i]);
    return c;
}

// Of the kernel whose functions are those from `first` on, its own and its parts.
static kernel_code *share_body(host *h, arena *own, kernel_code *c, int first) {
    host_builder *a = h->builder;
    bool shares = !a->m->target->arch.is_text && a->m->funcs.at[first] == c->f;
    lfunc *original = shares ? lfunc_original(a->m, &a->shared->bodies, first) : NULL;
    if (!original) return c;
    kernel_code *kept = ARENA_NEW(a->arena, kernel_code);
    *kept = *c;
    kept->f = a->m->funcs.at[first] = lfunc_sharing(a->m, c->f, original);
    a->m->funcs.n = first + 1;
    kept->buffers = ARENA_ARRAY(a->arena, buffer *, c->nbuffers + 1);
    for (int i = 0; i < c->nbuffers; i++) kept->buffers[i] = c->buffers[i];
    kept->dims = ARENA_ARRAY(a->arena, dim *, c->ndims + 1);
    for (int i = 0; i < c->ndims; i++) kept->dims[i] = c->dims[i];
    arena_destroy(own);
    return kept;
}

static void schedule_step(host *h, const uses *u, const step *s) {
    if (s->kind != STEP_KERNEL || h->code[s->kernel->id]) return;
    host_builder *a = h->builder;
    bool minor = a->minor && a->minor[s->kernel->id];
    if (minor) {
        h->code[s->kernel->id] = a->lowest[s->kernel->id];
        return;
    }
    if (a->gpu) {
        h->code[s->kernel->id] = a->gpu->kernels[s->kernel->id];
        if (shares_memory(a->p, h->code[s->kernel->id])) h->code[s->kernel->id]->f->noalias = false;
        return;
    }
    int first = a->m->funcs.n;
    arena *own = arena_within(a->arena);
    kernel_code *c = schedule_separately(h, own, s->kernel);
    c->f->name = symbol_name(a, a->io->name, c->f->name, h->suffix);
    if (shares_memory(a->p, c)) c->f->noalias = false;
    if (a->nvariants > 1) lower_level(h, first);
    if (h->t->freestanding) find_overlaps(a, u, c);
    h->code[s->kernel->id] = c = share_body(h, own, c, first);
    VEC_PUSH(a->arena, &a->result->kernel_functions,
             ((kernel_function){c->f->name, a->first_kernel + s->kernel->id}));
}

// "x86-64, x86-64-v2 ... and x86-64-v4+avx512vnni"; "": this architecture has none.
static const char *level_names(arena *a, const cpu_level *levels) {
    text t = {.arena = a};
    for (const cpu_level *l = levels; l && l->name; l++)
        text_printf(&t, "%s%s", l == levels ? "" : l[1].name ? ", " : " and ", l->name);
    return text_str(&t);
}

// Of the names of functions.
static const char *level_suffix(host_builder *a, const target *t) {
    if (t->level) return arena_printf(a->arena, "%s_%s", a->suffix, t->level->suffix);
    const char *names = level_names(a->arena, t->arch.levels);
    if (*names) diag_hint(a->diag, "%s can be combined in one object", names);
    if (!*t->features)
        diag_fatal_missing(a->diag, NULL, "CPUs such as '%s' cannot be selected at run time", t->cpu);
    diag_fatal_missing(a->diag, NULL, "features such as '%s' cannot be selected at run time", t->features);
}

static host *schedule_variants(host_builder *a, const target *const *variants, int n) {
    host *h = ARENA_ARRAY(a->arena, host, n);
    step_list steps = program_steps(a->arena, a->p);
    const uses *u = uses_build(a->arena, a->p);
    a->minor = NULL;
    for (int j = 0; j < n; j++) {
        h[j] = (host){
            .builder = a, .t = variants[j], .suffix = n == 1 ? a->suffix : level_suffix(a, variants[j])};
        h[j].code = ARENA_ARRAY(a->arena, kernel_code *, a->p->kernels.n + 1);
    }
    bool shares = n > 1 && !a->gpu && share_host_code(h, n);
    for (int j = 0; j < n; j++) {
        store_rounded(a->p, h[j].t);
        for (int i = 0; i < steps.n; i++) schedule_step(&h[j], u, steps.at[i].s);
        if (j == 0 && shares) a->minor = find_minor_kernels(a->arena, a->p, a->lowest = h[0].code);
    }
    return h;
}

// Bytes of scratch memory by kernel, sufficient for every variant and all its threads.
static dim **scratch_sizes(host_builder *a, host *variants, int n) {
    dim **scratch = ARENA_ARRAY(a->arena, dim *, a->p->kernels.n + 1);
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < a->p->kernels.n; k++) {
            const kernel_code *c = variants[j].code[k];
            if (!c || !c->scratch) continue;
            bool several = runs_parallel(&variants[j], c);
            dim *own = several ? parallel_scratch(&variants[j], c) : c->scratch;
            int threads = several ? kernel_threads(&variants[j], c) : 0;
            if (threads > a->result->scratch_threads) a->result->scratch_threads = threads;
            scratch[k] = scratch[k] ? dim_max(scratch[k], own) : own;
        }
    }
    return scratch;
}

static buffer *heap_scratch(host_builder *a, const kernel *k, dim *const *size) {
    if (a->scratch[k->id]) return a->scratch[k->id];
    const char *name = arena_printf(a->arena, "%s.scratch", k->name);
    buffer *b = a->scratch[k->id] = program_buffer(a->p, name, BUF_HEAP, DT_U8, 1, size);
    b->space = a->gpu ? SPACE_DEVICE : SPACE_HOST;
    return b;
}

// Scratch memory of data-dependent size is allocated around its kernel.
static void scratch_on_heap(host_builder *a, dim *const *scratch) {
    step_list steps = program_steps(a->arena, a->p);
    for (int j = 0; j < steps.n; j++) {
        const step *s = steps.at[j].s;
        region *r = steps.at[j].region;
        dim *const *size = s->kind == STEP_KERNEL ? &scratch[s->kernel->id] : NULL;
        if (!size || !*size || !dim_is_opaque(*size)) continue;
        buffer *b = heap_scratch(a, s->kernel, size);
        int at = step_index(r, s);
        step_insert(a->p, r, at + 1, STEP_FREE, s->loc)->buffer = b;
        step_insert(a->p, r, at, STEP_ALLOC, s->loc)->buffer = b;
    }
}

static void refuse_system(host_builder *a, const target *t) {
    step_list steps = program_steps(a->arena, a->p);
    for (int j = 0; j < steps.n && t->freestanding; j++) {
        const step *s = steps.at[j].s;
        if (s->kind == STEP_LIB && library_calls_runtime(s->lib))
            diag_fatal_missing(a->diag, s->loc,
                               "the function '%s' of the run-time library needs an operating system; "
                               "freestanding code has none",
                               s->lib);
    }
}

// Blocks allocated by library functions are freed like those allocated by the run.
static void find_library(host_builder *a, const target *t) {
    step_list steps = program_steps(a->arena, a->p);
    for (int j = 0; j < steps.n; j++) {
        if (steps.at[j].s->kind != STEP_LIB) continue;
        a->calls = true;
        a->makes |= library_allocates(steps.at[j].s->lib);
        a->result->needs_runtime |= library_calls_runtime(steps.at[j].s->lib);
    }
    a->heap |= a->makes;
    if (a->makes && t->freestanding)
        diag_fatal_missing(a->diag, NULL,
                           "the model creates strings or sequences at run time, which needs dynamic "
                           "allocation; freestanding code has no allocator");
}

// ---------------------------------------------------------------- the program
static void find_heap(host_builder *a, const target *t) {
    for (int j = 0; j < a->p->buffers.n; j++) {
        const buffer *b = a->p->buffers.at[j];
        if (!on_heap(b)) continue;
        a->heap = true;
        if (!t->freestanding) continue;
        diag_hint(a->diag, "--dim bounds sizes that depend on the inputs' shapes");
        diag_missing(a->diag, b->value && b->value->def ? b->value->def->loc : NULL,
                     "the size of '%s' is known only at run time, which needs dynamic allocation; "
                     "freestanding code has no allocator",
                     b->name);
    }
    diag_check(a->diag);
}

static void remark_memory(host_builder *a) {
    const memory_plan *m = &a->plan;
    diag_remark(a->diag, NULL, "memory: the workspace has %s bytes for %d temporaries of %s bytes in total",
                dim_text(a->arena, m->workspace), m->allocations.n, dim_text(a->arena, m->sum));
}

static void check_outputs(host_builder *a) {
    const uses *u = uses_build(a->arena, a->p);
    for (int j = 0; j < a->p->outputs.n; j++) {
        const buffer *root = buffer_root(a->p->outputs.at[j]);
        const site_list *l = &u->of[root->id].sites;
        for (int i = 0; i < l->n && root->role == BUF_OUTPUT && dims_are_opaque(root->dims, root->rank); i++)
            if (l->at[i]->s->kind == STEP_KERNEL)
                diag_defect(a->diag, l->at[i]->s->loc,
                            "kernel %s uses output '%s', whose size is known only at run time",
                            l->at[i]->s->kernel->name, root->name);
    }
}

static void add_messages(host_builder *a) {
    const text *all = &a->shared->messages;
    if (!all->n) return;
    ldata *d = ARENA_NEW(a->arena, ldata);
    *d = (ldata){.name = arena_printf(a->arena, "%s_messages", a->io->name),
                 .bytes = (int64_t)all->n,
                 .align = 1,
                 .bytes_or_null = all->s,
                 .dtype = DT_U8};
    VEC_PUSH(a->arena, &a->m->data, d);
}

// Scratch memory and in-place kernels follow the device's plan.
static void plan_device(host_builder *a, dim *const *scratch, int64_t bounded) {
    enum { DEVICE_ALIGN = 256 };
    dim *host = a->plan.workspace;
    memory_plan device = plan_memory(a->p, SPACE_DEVICE, scratch, DEVICE_ALIGN, bounded, NULL, NULL);
    a->plan.scratch_offset = device.scratch_offset;
    a->plan.in_place = device.in_place;
    a->p->workspace = host;
    a->result->device_workspace = a->device_workspace = device.workspace;
    a->heap = true;
    diag_remark(a->diag, NULL,
                "memory: the workspace on the GPU has %s bytes for %d temporaries of %s bytes in total",
                dim_text(a->arena, device.workspace), device.allocations.n, dim_text(a->arena, device.sum));
}

// ---------------------------------------------------------------- one program
static void schedule_program(host_builder *a) {
    check_outputs(a);
    place_states(a->p);
    insert_frees(a->p);
    find_residents(a->p);
    a->h = schedule_variants(a, a->variants, a->nvariants);
}

static void plan_program(host_builder *a) {
    program *p = a->p;
    const target *t = a->variants[0];
    int n = a->nvariants;
    dim **scratch = scratch_sizes(a, a->h, n);
    a->scratch = ARENA_ARRAY(a->arena, buffer *, p->kernels.n + 1);
    scratch_on_heap(a, scratch);
    find_results(a);
    for (int k = 0; k < p->kernels.n; k++)
        if (a->scratch[k]) scratch[k] = NULL;
    int64_t bounded = t->freestanding ? INT32_MAX : BOUNDED_MOST;
    for (int j = 0; j < n; j++)
        if (!j || !has_bf16_unit(a->variants[j])) store_rounded(p, a->variants[j]);
    a->plan =
        plan_memory(p, SPACE_HOST, a->gpu ? NULL : scratch, a->align, bounded, &a->overlaps, a->o->pools);
    if (a->gpu) plan_device(a, scratch, bounded);
    refuse_system(a, t);
    find_heap(a, t);
    find_library(a, t);
    remark_memory(a);
    bool calls_runtime = has_open(a, t) || n > 1 || a->heap || a->calls;
    for (int j = 0; j < n; j++)
        for (int k = 0; k < p->kernels.n; k++) {
            const kernel_code *c = a->h[j].code[k];
            if (!c) continue;
            calls_runtime |= runs_parallel(&a->h[j], c) || c->has_tiles;
            if (a->plan.in_place[k]) c->f->noalias = false;
        }
    a->result->needs_runtime |= !t->arch.is_text && (calls_runtime || a->o->runtime);
}

// ---------------------------------------------------------------- several programs
static host_builder *add_part(host_builder *a, program *p, const char *suffix, const struct gpu_code *gpu) {
    host_builder *part = ARENA_NEW(a->arena, host_builder);
    *part = *a;
    part->p = p;
    part->suffix = suffix;
    part->gpu = gpu;
    part->io = interface_of_version(a->arena, a->io, p);
    part->used = (map){.arena = a->arena};
    VEC_PUSH(a->arena, &a->parts, part);
    return part;
}

// One part for each version; or one for the CPU and one for the GPU; or the program alone.
static void find_parts(host_builder *a) {
    for (int j = 0; j < a->o->nversions; j++) {
        const version *v = &a->o->versions[j];
        add_part(a, v->program, v->suffix, v->gpu)->first_kernel = v->first_kernel;
    }
    if (a->o->nversions) return;
    VEC_PUSH(a->arena, &a->parts, a);
    if (a->o->gpu_program) {
        host_builder *gpu = add_part(a, a->o->gpu_program, "_cuda", a->o->gpu);
        gpu->nvariants = 1;
    }
}

// The workspace of the version that runs, in dims of the main program.
static void join_workspaces(host_builder *a) {
    dim *all = NULL;
    if (a->io->pools.n) return;
    for (int j = a->o->nversions - 1; j >= 0; j--) {
        const version *v = &a->o->versions[j];
        dim *own = dim_in_table(a->p->dims, v->plan.workspace);
        all = all ? dim_select(v->when, own, all) : own;
    }
    a->plan.workspace = all;
}

// The general version is the last one. Its code is written first, so that names of constants have no suffix.
static void write_versions(host_builder *a) {
    for (int j = a->parts.n - 1; j >= 0; j--) write_version(a->parts.at[j], a->parts.at[j]->h, a->nvariants);
    join_workspaces(a);
}

// ---------------------------------------------------------------- CPU or GPU
// Writes the program for the CPU's variants and the one for the GPU. The workspace is sufficient for both.
static void write_both(host_builder *a) {
    host_builder *gpu = a->parts.at[1];
    write_on_cpu(a, a->h, a->nvariants);
    write_on_gpu(gpu, gpu->h);
    a->plan.workspace = dim_max(a->plan.workspace, dim_in_table(a->p->dims, gpu->plan.workspace));
}

// The program defines the hook and the functions of custom operators: nothing else may have their names.
static void check_defined(host_builder *a, const char *option, const char *symbol) {
    for (int j = 0; symbol && j < a->m->funcs.n; j++) {
        const lfunc *f = a->m->funcs.at[j];
        if (f->body && strcmp(f->name, symbol) == 0)
            diag_fatal(a->diag, NULL, "%s '%s': the model itself has a function of that name", option,
                       symbol);
    }
    for (int j = 0; symbol && j < a->m->data.n; j++)
        if (strcmp(a->m->data.at[j]->name, symbol) == 0)
            diag_fatal(a->diag, NULL, "%s '%s': the model itself has data of that name", option, symbol);
}

static void check_symbols(host_builder *a) {
    check_defined(a, "--hook", a->o->hook);
    for (int i = 0; i < a->parts.n; i++) {
        step_list steps = program_steps(a->arena, a->parts.at[i]->p);
        for (int j = 0; j < steps.n; j++) check_defined(a, "--custom-op", steps.at[j].s->symbol);
    }
}

// ---------------------------------------------------------------- the module, step by step
host_builder *host_begin(program *p, const target *const *variants, int nvariants, const build_options *o,
                         diag *d) {
    const target *t = variants[0];
    arena *arena = p->arena;
    shared *s = ARENA_NEW(arena, shared);
    s->messages.arena = s->message_at.arena = s->declared.arena = s->by_content.arena = s->bodies.arena =
        arena;
    s->on_device.by_name.arena = arena;
    s->sentences = sentences_new(arena, &s->messages);
    build *result = ARENA_NEW(arena, build);
    host_builder *a = ARENA_NEW(arena, host_builder);
    *a = (host_builder){
        .arena = arena, .diag = d, .p = p, .o = o, .shared = s, .suffix = "", .used.arena = arena};
    a->variants = variants;
    a->nvariants = nvariants;
    a->generic = nvariants > 1 || o->descriptor || (!t->freestanding && !o->no_generic);
    a->result = result;
    a->io = result->io = interface_new(p, o->name ? o->name : "model", t, a->generic, o->capacities);
    interface_add_pools(a->io, p->arena, o->pools);
    interface_add_extras(a->io, p->arena, o->weights || o->gpu, o->hook != NULL, has_open(a, t));
    a->m = result->module = lmodule_new(arena, a->io->name, t);
    a->align = result->align = t->freestanding ? 16 : 64;
    result->check_weights = o->check_weights;
    result->versions = o->versions;
    result->nversions = o->nversions;
    result->rules = o->rules;
    result->nrules = o->nrules;
    if (o->weights) begin_weights(a);
    a->gpu = o->gpu_program ? NULL : o->gpu;
    find_parts(a);
    return a;
}

lmodule *host_schedule(host_builder *a) {
    for (int j = 0; j < a->parts.n; j++) schedule_program(a->parts.at[j]);
    return a->m;
}

void host_plan(host_builder *a) {
    for (int j = 0; j < a->parts.n; j++) plan_program(a->parts.at[j]);
    lfuncs_separate(a->m);
    measure_pools(a);
    for (int j = 0; j < a->o->nversions; j++) a->o->versions[j].plan = a->parts.at[j]->plan;
}

build *host_write(host_builder *a) {
    bool parts = a->parts.at[0] != a;
    if (parts) write_versions(a);
    else if (a->o->gpu_program) write_both(a);
    a->result->workspace = a->io->pools.n ? dim_const(a->p->dims, 0) : a->plan.workspace;
    a->result->plan = a->plan;
    write_entries(a, parts || a->o->gpu_program ? NULL : a->h, a->nvariants);
    add_messages(a);
    reserve_pools(a);
    if (a->generic) descriptor_add(a->result, a->p, a->o);
    check_symbols(a);
    a->result->real_time = real_time_find(a);
    diag_remark(a->diag, NULL, "real-time safe: %s", real_time_text(a->arena, a->result->real_time));
    return a->result;
}

build *build_program(program *p, const target *const *variants, int nvariants, const build_options *o,
                     diag *d) {
    host_builder *a = host_begin(p, variants, nvariants, o, d);
    host_schedule(a);
    host_plan(a);
    build *b = host_write(a);
    legalize(b->module, d);
    return b;
}

code_cost build_kernel_cost(const build *b, int kernel) {
    code_cost sum = {0};
    for (int i = 0; b->cost && i < b->kernel_functions.n; i++) {
        const kernel_function *f = &b->kernel_functions.at[i];
        const code_cost *c = f->kernel == kernel ? map_get(&b->cost->of_function, f->name) : NULL;
        if (c) sum.instructions += c->instructions, sum.cycles += c->cycles;
    }
    return sum;
}
