// In: options. Out: targets of a pipeline: the CPU with its variants, the GPU.
#include "codegen/gpu/gpu.h"
#include "compiler/driver/pipeline_impl.h"
#include "ir/kernel/program.h"
#include "passes/match/contract.h"
#include <string.h>

// CUDA text serves all architectures. Host code only waits, so one variant serves all CPUs.
void set_gpu_target(pipeline *p) {
    target_options t = options_target(p->arena, p->options), gpu = t;
    int *archs, narchs = options_gpu_archs(p->arena, p->diag, p->options, &archs), oldest = 75;
    bool own = false;
    for (int i = 0; i < narchs; i++) {
        int sm = gpu_arch_number(archs[i]);
        oldest = i && oldest < sm ? oldest : sm;
        own |= sm != archs[i];
    }
    gpu.cpu = arena_printf(p->arena, "sm_%d%s", oldest, own ? ",sm_90a" : "");
    p->target = target_for_cuda(p->arena, &gpu);
    VEC_PUSH(p->arena, &p->variants, p->target);
    if (!options_gpu_host(p->options)) return;
    p->target->placed = true; // by runtime-lite/cuda/cuda.c, for any buffers of the caller
    p->gpu_target = p->target;
    p->target = target_from_options(p->arena, p->diag, &t);
    p->variants.at[0] = p->target;
    if (!p->target->hosted || p->target->freestanding || p->target->ptr_bits != 64)
        diag_fatal_missing(p->diag, NULL, "--device=cuda: host code for %s is not supported by this build",
                           p->target->triple);
}

// Tiles multiply f16 in parts, too.
static bool multiplies_halves(const target *t) {
    return t->precision == PRECISION_F16 ? t->amx_bf16 : has_bf16_unit(t);
}

// What one program for all variants needs.
static void set_common_facts(pipeline *p) {
    bool alone = p->variants.n == 1, wide = false, units = false, tiles = false, narrow = false;
    int panel = 0, bits = 0;
    for (int i = 0; i < p->variants.n; i++) {
        const target *v = p->variants.at[i];
        wide |= v->wide_groups;
        units |= multiplies_halves(v);
        tiles |= v->amx_int8 || v->amx_bf16;
        narrow |= v->f16_convert;
        bits = v->vector_bits > bits ? v->vector_bits : bits;
        panel = v->panel > panel ? v->panel : panel;
    }
    for (int i = 0; i < p->variants.n; i++) {
        target *v = (target *)p->variants.at[i];
        v->wide_groups = wide;
        v->half_units = units;
        v->spread_rows = tiles;
        v->narrow_scales = narrow;
        v->panel = panel;
        v->scalar_panels = !bits;
        v->widest_bits = bits;
        v->bf16_products = (v->precision == PRECISION_BF16 && units) || (alone && has_bf16_unit(v));
    }
}

// Code that this process loads, or text that it compiles and loads.
static void check_runs_here(const pipeline *p) {
    const target *t = p->target;
    bool text = p->text_target && p->options->runs_here, loads = p->runs_here;
    if (!text && !loads) return;
    if (t->freestanding) {
        diag_hint(p->diag, "without --freestanding and *-none-* targets, the same kernels run here");
        diag_fatal(p->diag, NULL, "freestanding code cannot run in this process");
    }
    if (text || (target_is_host_arch(t) && strstr(t->triple, "linux"))) return;
    diag_hint(p->diag, "'onnxc run', 'test' and 'bench' take --runner CMD, such as qemu-aarch64");
    diag_fatal(p->diag, NULL, "this machine cannot run code for %s", t->triple);
}

void set_targets(pipeline *p) {
    if (options_for_gpu(p->options)) {
        set_gpu_target(p);
        if (options_gpu_host(p->options)) check_runs_here(p);
        return;
    }
    target_options t = options_target(p->arena, p->options);
    p->target = p->text_target ? target_for_c(p->arena, &t) : target_from_options(p->arena, p->diag, &t);
    bool wasm = p->target->arch.is_wasm;
    if (options_cblas(p->options) && (p->target->freestanding || wasm) && !p->options->freestanding)
        diag_fatal_missing(p->diag, NULL, "--blas=cblas for %s is not supported by this build",
                           p->target->triple);
    if (wasm && p->options->threads > 1)
        diag_fatal_missing(p->diag, NULL,
                           "--threads=%lld: code for WebAssembly has one thread; run one instance per worker",
                           (long long)p->options->threads);
    check_runs_here(p);
    const char *names = p->text_target ? NULL : options_variants(p->arena, p->options, p->target);
    string_list cpus = {0};
    if (names) cpus = split_words(p->arena, names, ',');
    for (int i = 0; i < cpus.n; i++) {
        for (int j = 0; j < i; j++)
            if (strcmp(cpus.at[i], cpus.at[j]) == 0)
                diag_fatal(p->diag, NULL, "--multiversion=%s: '%s' is there twice", names, cpus.at[i]);
        VEC_PUSH(p->arena, &p->variants, target_with_cpu(p->arena, p->diag, p->target, cpus.at[i]));
    }
    if (!names) VEC_PUSH(p->arena, &p->variants, p->target);
    set_common_facts(p);
    p->target = (target *)p->variants.at[0];
}

// Or smaller elements, if their products may be computed as products of bytes.
static bool has_bytes_for_weights(const program *p, const target *t) {
    int least = t->arch.dot == DOT_X86 || t->precision == PRECISION_INT8 ? 1 : 8;
    for (int j = 0; j < p->buffers.n; j++) {
        const buffer *b = p->buffers.at[j];
        int bits = dtype_bits(b->dtype);
        if (b->role == BUF_CONST && dtype_is_int(b->dtype) && bits >= least && bits <= 8 && b->rank >= 2)
            return true;
    }
    return false;
}

static bool is_bytes(const buffer *b) { return dtype_is_int(b->dtype) && dtype_bits(b->dtype) <= 8; }

// Of two inputs, or of values inside of the model.
static bool has_products_of_bytes(const program *p) {
    contraction c;
    for (int j = 0; j < p->kernels.n; j++)
        if (contraction_find(p->kernels.at[j], &c) && is_bytes(c.a->buffer) && is_bytes(c.b->buffer))
            return true;
    return false;
}

static bool has_products_of_halves(const program *p) {
    contraction c;
    for (int j = 0; j < p->kernels.n; j++) {
        if (!contraction_find(p->kernels.at[j], &c)) continue;
        const buffer *b = c.a->buffer->role == BUF_CONST ? c.a->buffer : c.b->buffer;
        if (b->role == BUF_CONST && (b->dtype == DT_F16 || b->dtype == DT_BF16)) return true;
    }
    return false;
}

// Drops the variants for products of bytes or of 16-bit floats if the model has none.
void drop_variants_for_units(pipeline *p) {
    if (p->options->multiversion || p->variants.n < 2) return;
    bool bytes = has_bytes_for_weights(p->program, p->target) || has_products_of_bytes(p->program),
         bf16 = p->target->precision == PRECISION_BF16,
         halves = p->target->precision != PRECISION_OWN || has_products_of_halves(p->program);
    int n = 0;
    for (int j = 0; j < p->variants.n; j++) {
        const target *v = p->variants.at[j];
        bool vectors = v->level && v->level->vector_bits;
        if (!j || vectors || !*v->features || (bytes && v->vnni && !v->bf16_pairs) ||
            (halves && v->amx_bf16) || (bf16 && (v->bf16mm || v->bf16_pairs)))
            p->variants.at[n++] = v;
    }
    p->variants.n = n;
}
