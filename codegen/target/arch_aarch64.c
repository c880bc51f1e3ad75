// AArch64: 64-bit Arm.
#include "codegen/target/target_impl.h"
#include <stdlib.h>
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

enum { SVE_LEAST = 128, SVE_MOST = 2048 };

// gcc's flag: "scalable", or the number of bits; clang's "256+" means at least 256, which is what every number means here.
static bool set_flag(target_names *n, arena *a, diag *d, const char *flag) {
    const char *value = flag_after(flag, "-msve-vector-bits=");
    (void)a;
    if (!value) return false;
    int bits = strcmp(value, "scalable") ? atoi(value) : SVE_LEAST;
    if (bits < SVE_LEAST || bits > SVE_MOST || bits & (bits - 1))
        diag_fatal(d, NULL, "%s: expected 128, 256, 512, 1024, 2048 or scalable", flag);
    n->sve_bits = bits;
    return true;
}

// "+sve256" is "+sve" with registers of 256 bits at least.
static void take_sve_bits(target_names *n, arena *a) {
    text rest = {.arena = a};
    for (const char *p = text_str(&n->features); *p;) {
        size_t length = strcspn(p, ",");
        int bits = strncmp(p, "+sve", 4) ? 0 : atoi(p + 4);
        if (bits >= SVE_LEAST && bits <= SVE_MOST && !(bits & (bits - 1))) {
            text_printf(&rest, "%s+sve", rest.n ? "," : "");
            n->sve_bits = bits;
        } else {
            text_printf(&rest, "%s%.*s", rest.n ? "," : "", (int)length, p);
        }
        p += length + (p[length] == ',');
    }
    n->features = rest;
}

// Names that LLVM knows but does not list.
static void resolve(target_names *n, arena *a) {
    static const spelling other_names[] = {{"cyclone", "apple-a7"},
                                           {"apple-m1", "apple-a14"},
                                           {"apple-m2", "apple-a15"},
                                           {"apple-m3", "apple-a16"},
                                           {"cobalt-100", "neoverse-n2"},
                                           {"grace", "neoverse-v2"},
                                           {NULL, NULL}};
    const char *listed = n->cpu ? find_spelling(other_names, n->cpu, strlen(n->cpu)) : NULL;
    if (listed) n->cpu = listed;
    take_sve_bits(n, a);
}

static const fixed_cpu fixed[] = {{"generic", "+fp-armv8,+neon"}, {NULL, NULL}};

static void fill_aarch64(target *t, arena *a, diag *d) {
    enum { FP, NEON, DOTPROD, I8MM, BF16, SVE, N };
    static const char *const names[N] = {"fp-armv8", "neon", "dotprod", "i8mm", "bf16", "sve"};
    bool has[N];
    probe_features(a, d, t, fixed, names, N, has);
    t->f32 = t->f64 = t->fma = t->f16_convert = t->round_instr = has[FP];
    if (t->sve_bits && !has[SVE]) {
        diag_hint(d, "--mattr=+sve, or a CPU that has it");
        diag_fatal(d, NULL, "vectors of %d bits: CPU '%s' of %s has no SVE", t->sve_bits, t->cpu, t->triple);
    }
    t->vector_bits = !has[NEON] ? 0 : t->sve_bits > 512 ? 512 : t->sve_bits > 128 ? t->sve_bits : 128;
    t->vector_regs = has[NEON] ? 32 : 0;
    t->masked = t->sve_bits > 0;
    t->vnni = (has[DOTPROD] || t->sve_bits) && has[NEON]; // SVE has it always
    t->i8mm = t->vnni && has[I8MM];
    t->bf16mm = has[BF16] && has[NEON];
    t->bf16_convert = t->bf16mm && t->fp != FP_STRICT; // NaNs get other bits
    t->wide_groups = t->i8mm || t->bf16mm;
    t->folder = "aarch64-linux-gnu";
    t->loader = "/lib/ld-linux-aarch64.so.1";
}

// All Macs have the dot product.
static const cpu_level levels[] = {
    {"generic", "v1", .level = 1, .by_default = LEVEL_ELF | LEVEL_COFF},
    {"generic+dotprod", "v1_dotprod", .level = 2, .by_default = LEVEL_ANY},
    {"generic+dotprod+i8mm+bf16", "v1_i8mm", .level = 3, .by_default = LEVEL_ANY},
    {"generic+dotprod+i8mm+bf16+sve128", "v1_sve", .level = 3, .vector_bits = 128},
    {"generic+dotprod+i8mm+bf16+sve256", "v1_sve256", .level = 3, .vector_bits = 256},
    {"generic+sve512", "v1_sve512", .level = 1, .vector_bits = 512},
    {"generic+dotprod+i8mm+bf16+sve512", "v1_i8mm_sve512", .level = 3, .vector_bits = 512},
    {NULL}};

const arch_row arch_aarch64 = {
    .facts = {.name = "aarch64",
              .divides_floats = true,
              .dot = DOT_AARCH64,
              .dot_signed = true,
              .dot_lanes = true,
              .looks_up_bytes = true,
              .stack_align = 16,
              .levels = levels,
              .protect = {"branch-target-enforcement"},
              .protect_function = "branch-target-enforcement"},
    .title = "AArch64",
    .cpus = aarch64_cpus,
    .features = aarch64_features,
    .prefixes = {{"aarch64", 64, "generic"}, {"arm64", 64, "generic"}},
    .set_cpu = set_cpu,
    .set_flag = set_flag,
    .set_march = set_march,
    .resolve = resolve,
    .fill = fill_aarch64,
};
