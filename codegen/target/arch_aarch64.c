// AArch64: 64-bit Arm.
#include "codegen/target/target_impl.h"
#include <string.h>

static const spelling extensions[] = {{"fp", "+fp-armv8"},
                                      {"nofp", "-fp-armv8"},
                                      {"simd", "+neon"},
                                      {"nosimd", "-neon"},
                                      {"fp16", "+fullfp16"},
                                      {"crypto", "+aes,+sha2"},
                                      {"nocrypto", "-aes,-sha2"},
                                      {"dotprod", "+dotprod"},
                                      {"rng", "+rand"},
                                      {"memtag", "+mte"},
                                      {NULL, NULL}};

static void set_cpu(target_names *n, arena *a, diag *d, const char *value) {
    (void)d;
    size_t length = strcspn(value, "+");
    n->cpu = arena_strndup(a, value, length);
    names_add_extensions(n, a, NULL, extensions, value + length);
}

static void set_march(target_names *n, arena *a, diag *d, const char *value) {
    if (strncmp(value, "armv", 4)) diag_fatal(d, NULL, "unknown -march=%s for AArch64", value);
    if (strncmp(value, "armv8-a", 7)) // "armv8.2-a" is LLVM's feature v8.2a
        names_add_features(n, arena_printf(a, "+v%.*sa", (int)strcspn(value + 4, "-+"), value + 4));
    names_add_extensions(n, a, NULL, extensions, value + strcspn(value, "+"));
}

// Names that LLVM knows but does not list.
static void settle(target_names *n, arena *a) {
    static const spelling other_names[] = {{"cyclone", "apple-a7"},
                                           {"apple-m1", "apple-a14"},
                                           {"apple-m2", "apple-a15"},
                                           {"apple-m3", "apple-a16"},
                                           {"cobalt-100", "neoverse-n2"},
                                           {"grace", "neoverse-v2"},
                                           {NULL, NULL}};
    const char *listed = n->cpu ? find_spelling(other_names, n->cpu, strlen(n->cpu)) : NULL;
    (void)a;
    if (listed) n->cpu = listed;
}

static void fill_aarch64(target *t, arena *a, diag *d) {
    enum { FP, NEON, DOTPROD, I8MM, BF16, N };
    static const char *const names[N] = {"fp-armv8", "neon", "dotprod", "i8mm", "bf16"};
    bool has[N];
    probe_features(a, d, t, names, N, has);
    t->f32 = t->f64 = t->fma = t->f16_convert = t->round_instr = has[FP];
    t->vector_bits = has[NEON] ? 128 : 0;
    t->vector_regs = has[NEON] ? 32 : 0;
    t->vnni = has[DOTPROD] && has[NEON];
    t->i8mm = t->vnni && has[I8MM];
    t->bf16mm = has[BF16] && has[NEON];
    t->bf16_convert = t->bf16mm && t->fp != FP_STRICT; // NaNs get other bits
    t->wide_groups = t->i8mm || t->bf16mm;
    t->folder = "aarch64-linux-gnu";
    t->loader = "/lib/ld-linux-aarch64.so.1";
}

const arch_row arch_aarch64 = {
    .facts = {.name = "aarch64",
              .dot = DOT_AARCH64,
              .dot_signed = true,
              .dot_lanes = true,
              .stack_align = 16,
              .levels = "generic,generic+dotprod,generic+dotprod+i8mm+bf16",
              .protect = {"branch-target-enforcement"},
              .protect_function = "branch-target-enforcement"},
    .title = "AArch64",
    .cpus = aarch64_cpus,
    .features = aarch64_features,
    .prefixes = {{"aarch64", 64, "generic"}, {"arm64", 64, "generic"}},
    // All Macs have the dot product.
    .macos_levels = "generic+dotprod,generic+dotprod+i8mm+bf16",
    .set_cpu = set_cpu,
    .set_march = set_march,
    .settle = settle,
    .fill = fill_aarch64,
};
