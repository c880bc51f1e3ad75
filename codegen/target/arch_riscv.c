// RISC-V, 32 and 64 bits, with products and divisions at least. Its CPUs cannot be compared by features
// (target_probe.c), but LLVM writes the ISA string of the CPU into assembly.
#include "codegen/target/target_impl.h"
#include <string.h>

// "gcv_zvl256b"
static void add_extensions(target_names *n, arena *a, const char *p) {
    for (; *p && *p != '_' && *p != 'z' && *p != 'x'; p++) {
        names_add_features(n, *p == 'g' ? "+m,+a,+f,+d,+zicsr,+zifencei" : arena_printf(a, "+%c", *p));
    }
    while (*p) {
        p += *p == '_';
        size_t length = strcspn(p, "_");
        if (length) names_add_features(n, arena_printf(a, "+%.*s", (int)length, p));
        p += length;
    }
}

static void riscv_march(target_names *n, arena *a, diag *d, const char *isa) {
    if (strncmp(isa, "rv32", 4) && strncmp(isa, "rv64", 4))
        diag_fatal(d, NULL, "-march=%s: expected rv32... or rv64...", isa);
    n->triple = triple_with_part(a, n->triple, 0, isa[2] == '3' ? "riscv32" : "riscv64");
    add_extensions(n, a, isa + 4);
}

// Triples of Rust and of distributions name the extensions, too: riscv64gc-unknown-linux-gnu. Those of a CPU count more.
static void take_extensions(target_names *n, arena *a) {
    enum { BASE = 7 };
    const char *arch = triple_part(a, n->triple, 0);
    bool has_base = !strncmp(arch, "riscv32", BASE) || !strncmp(arch, "riscv64", BASE);
    if (!has_base || !arch[BASE]) return;
    n->triple = triple_with_part(a, n->triple, 0, arena_strndup(a, arch, BASE));
    if (n->cpu || n->features.n) return;
    add_extensions(n, a, arch + BASE);
    n->cpu_chosen = strcmp(arch + BASE, "gc") != 0; // what all have
}

static void resolve_riscv(target_names *n, arena *a) {
    take_extensions(n, a);
    bool linux = strstr(n->triple, "linux");
    if (n->cpu && !strncmp(n->cpu, "rv64", 4) && !strncmp(n->triple, "riscv64", 7)) { // the name of a level
        add_extensions(n, a, n->cpu + 4);
        n->cpu = "generic-rv64";
    }
    if (n->cpu || n->features.n) return;
    names_add_features(n, linux ? "+m,+a,+f,+d,+c,+zicsr,+zifencei" : "+m,+a,+c");
}

// "_f2p2" in "rv64i2p1_m2p0_f2p2"
static bool isa_has(const char *isa, const char *extension) {
    size_t n = strlen(extension);
    for (const char *p = isa; (p = strchr(p, '_')); p++)
        if (!strncmp(p + 1, extension, n) && p[1 + n] >= '0' && p[1 + n] <= '9' && strchr(p + 1 + n, 'p'))
            return true;
    return false;
}

// Vectors are pairs of registers (LMUL 2), up to 512 bits, and vectors of sums four of them, as wide as panels are. Code for the least length of registers runs on longer ones,
// since it sets the number of elements.
static void fill_vectors(target *t, arena *a, const char *isa) {
    enum { REGISTERS = 32, LEAST = 64, MOST = 512, SUMS = 4 };
    int bits = 0;
    for (int n = LEAST; n <= MOST; n *= 2)
        if (isa_has(isa, arena_printf(a, "zvl%db", n))) bits = n;
    if (!bits) return;
    int pair = bits < MOST ? 2 : 1;
    t->register_bits = bits;
    t->vector_bits = pair * bits;
    t->vector_regs = REGISTERS / pair;
    t->panel = SUMS * bits / 32;
    t->masked = t->round_to_int = t->gathers = true;
    t->f16_convert = t->f16_convert && isa_has(isa, "zvfhmin");
}

static void fill_riscv(target *t, arena *a, diag *d) {
    enum { ISA = 5 }; // Tag_RISCV_arch: "rv64i2p1_m2p0_f2p2"
    const char *isa = probe_attribute(a, d, t, ISA);
    bool wide = t->ptr_bits == 64, e = isa[4] == 'e';
    if (!isa_has(isa, "m") && (wide || !isa_has(isa, "zmmul"))) {
        diag_hint(d, "-march=rv%dim, or a later CPU", wide ? 64 : 32);
        diag_fatal_missing(d, NULL, "CPU '%s' of %s (%s) cannot multiply and divide", t->cpu, t->triple, isa);
    }
    t->no_divider = !isa_has(isa, "m");
    t->f32 = t->fma = isa_has(isa, "f");
    t->round_instr = isa_has(isa, "zfa"); // without it LLVM calls floorf when compiling for size
    t->f64 = isa_has(isa, "d");
    t->f16_convert = isa_has(isa, "zfhmin");
    if (t->f32 && isa_has(isa, "zve32f")) fill_vectors(t, a, isa);
    if (!t->vector_bits && !e && t->size_level < 2) t->tile_regs = 24;
    if (!t->vector_bits && t->f32 && t->size_level < 2) t->float_regs = 32;
    t->folder = wide ? "riscv64-linux-gnu" : "riscv32-linux-gnu";
    t->loader = wide ? "/lib/ld-linux-riscv64-lp64d.so.1" : "/lib/ld-linux-riscv32-ilp32d.so.1";
    if (t->abi) return;
    const char *suffix = e ? "e" : t->f64 ? "d" : t->f32 ? "f" : "";
    t->abi = arena_printf(a, "%s%s", wide ? "lp64" : "ilp32", suffix);
}

static const cpu_level levels[] = {
    {"rv64gc", "v1", .level = 1, .by_default = LEVEL_ELF},
    {"rv64gcv", "rvv", .level = 1, .vector_bits = 128, .by_default = LEVEL_ELF},
    {"rv64gcv_zvl256b", "rvv256", .level = 1, .vector_bits = 256, .by_default = LEVEL_ELF},
    {"rv64gcv_zvl512b", "rvv512", .level = 1, .vector_bits = 512},
    {NULL}};

const arch_row arch_riscv = {
    .facts = {.name = "riscv",
              .no_roundeven = true,
              .sign_extends_words = true,
              .medium_code = true,
              .stack_align = 16,
              .shifts_call = true,
              .vectors_vary = true,
              .scalar_operands = true,
              .widens_products = true,
              .vector_lengths = true,
              .strided_loads = true,
              .levels = levels},
    .title = "RISC-V",
    .cpus = riscv_cpus,
    .features = riscv_features,
    .prefixes = {{"riscv32", 32, "generic-rv32"},
                 {"riscv64", 64, "generic-rv64"},
                 {"riscv", 32, "generic-rv64"}},
    .narrow = "riscv32",
    .wide = "riscv64",
    .has_abis = true,
    .set_march = riscv_march,
    .resolve = resolve_riscv,
    .fill = fill_riscv,
};
