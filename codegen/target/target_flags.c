// gcc's machine flags (-mcpu=, -march=, -mthumb, -mfloat-abi=, -mfpu=, -mabi=, -m32, -mavx2 ...) into LLVM's
// triple, CPU and features, as a build system passes them on from the toolchain it uses.
#include "codegen/target/target_impl.h"
#include <string.h>

typedef struct pair {
    const char *from, *to;
} pair;

static const char *look_up(const pair *table, const char *key, size_t n) {
    for (; table->from; table++)
        if (strlen(table->from) == n && !memcmp(table->from, key, n)) return table->to;
    return NULL;
}

void names_add_features(target_names *n, const char *list) {
    if (!list || !*list) return;
    if (n->features.n) text_add(&n->features, ",");
    text_add(&n->features, list);
}

// ---------------------------------------------------------------- triples
arch triple_arch(const char *triple) {
    static const struct {
        const char *prefix;
        arch arch;
    } table[] = {{"x86_64", ARCH_X86_64},   {"amd64", ARCH_X86_64},  {"i386", ARCH_X86_64},
                 {"i486", ARCH_X86_64},     {"i586", ARCH_X86_64},   {"i686", ARCH_X86_64},
                 {"aarch64", ARCH_AARCH64}, {"arm64", ARCH_AARCH64}, {"arm", ARCH_ARM},
                 {"thumb", ARCH_ARM},       {"riscv", ARCH_RISCV}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strncmp(triple, table[i].prefix, strlen(table[i].prefix))) return table[i].arch;
    return ARCH_OTHER;
}

static const char *part_start(const char *triple, int part) {
    while (part-- > 0) {
        triple += strcspn(triple, "-");
        triple += *triple == '-';
    }
    return triple;
}

const char *triple_part(arena *a, const char *triple, int part) {
    const char *s = part_start(triple, part);
    return arena_strndup(a, s, strcspn(s, "-"));
}

const char *triple_with_part(arena *a, const char *triple, int part, const char *with) {
    const char *s = part_start(triple, part), *rest = s + strcspn(s, "-");
    bool missing = !*s && part && triple[strlen(triple) - 1] != '-';
    return arena_printf(a, "%.*s%s%s%s", (int)(s - triple), triple, missing ? "-" : "", with, rest);
}

// ---------------------------------------------------------------- ARM
// The architecture of the triple follows the CPU, as gcc has it: arm-none-eabi with -mcpu=cortex-m4 is
// thumbv7em. Longer names before their prefixes.
static const pair arm_cpu_arch[] = {{"cortex-m0", "thumbv6m"},
                                    {"cortex-m1", "thumbv6m"},
                                    {"sc000", "thumbv6m"},
                                    {"cortex-m23", "thumbv8m.base"},
                                    {"cortex-m33", "thumbv8m.main"},
                                    {"cortex-m35p", "thumbv8m.main"},
                                    {"star-mc1", "thumbv8m.main"},
                                    {"cortex-m52", "thumbv8.1m.main"},
                                    {"cortex-m55", "thumbv8.1m.main"},
                                    {"cortex-m85", "thumbv8.1m.main"},
                                    {"cortex-m3", "thumbv7m"},
                                    {"sc300", "thumbv7m"},
                                    {"cortex-m4", "thumbv7em"},
                                    {"cortex-m7", "thumbv7em"},
                                    {"cortex-r4", "armv7r"},
                                    {"cortex-r5", "armv7r"},
                                    {"cortex-r7", "armv7r"},
                                    {"cortex-r8", "armv7r"},
                                    {"cortex-r52", "armv8r"},
                                    {"cortex-r82", "armv8r"},
                                    {"cortex-a5", "armv7a"},
                                    {"cortex-a7", "armv7a"},
                                    {"cortex-a8", "armv7a"},
                                    {"cortex-a9", "armv7a"},
                                    {"cortex-a12", "armv7a"},
                                    {"cortex-a15", "armv7a"},
                                    {"cortex-a17", "armv7a"},
                                    {NULL, NULL}};
static const pair arm_march[] = {{"armv6-m", "thumbv6m"},
                                 {"armv6s-m", "thumbv6m"},
                                 {"armv7-m", "thumbv7m"},
                                 {"armv7e-m", "thumbv7em"},
                                 {"armv8-m.base", "thumbv8m.base"},
                                 {"armv8-m.main", "thumbv8m.main"},
                                 {"armv8.1-m.main", "thumbv8.1m.main"},
                                 {"armv6", "armv6"},
                                 {"armv6k", "armv6k"},
                                 {"armv7", "armv7a"},
                                 {"armv7-a", "armv7a"},
                                 {"armv7ve", "armv7ve"},
                                 {"armv7-r", "armv7r"},
                                 {"armv8-a", "armv8a"},
                                 {"armv8-r", "armv8r"},
                                 {"armv8.2-a", "armv8.2a"},
                                 {NULL, NULL}};
static const pair arm_fpu[] = {{"auto", ""},
                               {"fpv4-sp-d16", "+vfp4d16sp"},
                               {"fpv5-sp-d16", "+fp-armv8d16sp"},
                               {"fpv5-d16", "+fp-armv8d16"},
                               {"vfp", "+vfp2"},
                               {"vfpv2", "+vfp2"},
                               {"vfpv3", "+vfp3"},
                               {"vfpv3-d16", "+vfp3d16"},
                               {"vfpv4", "+vfp4"},
                               {"vfpv4-d16", "+vfp4d16"},
                               {"neon", "+neon"},
                               {"neon-vfpv3", "+neon"},
                               {"neon-fp16", "+neon,+fp16"},
                               {"neon-vfpv4", "+neon,+vfp4"},
                               {"fp-armv8", "+fp-armv8"},
                               {"neon-fp-armv8", "+neon,+fp-armv8"},
                               {"crypto-neon-fp-armv8", "+neon,+fp-armv8,+crypto"},
                               {NULL, NULL}};
static const pair arm_extension[] = {{"fp", "+vfp4d16sp"},      {"fp.sp", "+fp-armv8d16sp"},
                                     {"fp.dp", "+fp-armv8d16"}, {"dsp", "+dsp"},
                                     {"nodsp", "-dsp"},         {"nofp", "-fpregs"},
                                     {"mve", "+mve"},           {"mve.fp", "+mve.fp"},
                                     {"nomve", "-mve"},         {"nomve.fp", "-mve.fp"},
                                     {"simd", "+neon"},         {"nosimd", "-neon"},
                                     {"neon", "+neon"},         {"crypto", "+crypto"},
                                     {"nocrypto", "-crypto"},   {"crc", "+crc"},
                                     {"dotprod", "+dotprod"},   {"fp16", "+fullfp16"},
                                     {"i8mm", "+i8mm"},         {"bf16", "+bf16"},
                                     {"nocdecp0", ""},          {NULL, NULL}};
static const pair aarch64_extension[] = {{"fp", "+fp-armv8"},
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

static void arm_arch_from_cpu(target_names *n, arena *a) {
    const char *now = triple_part(a, n->triple, 0), *best = NULL;
    size_t best_length = 0;
    if (!n->cpu || (strcmp(now, "arm") && strcmp(now, "thumb"))) return;
    for (const pair *p = arm_cpu_arch; p->from; p++) {
        size_t length = strlen(p->from);
        if (strncmp(n->cpu, p->from, length) || length <= best_length) continue;
        best = p->to;
        best_length = length;
    }
    // What is not listed is a later Cortex-A or Neoverse: the 32-bit state of ARMv8.
    if (!best) best = !strncmp(n->cpu, "cortex-a", 8) || !strncmp(n->cpu, "neoverse", 8) ? "armv8a" : now;
    n->triple = triple_with_part(a, n->triple, 0, best);
}

// "+dsp+nofp" after a CPU or an architecture.
static void add_extensions(target_names *n, arena *a, diag *d, const char *s) {
    const pair *table = n->arch == ARCH_ARM ? arm_extension : aarch64_extension;
    while (*s == '+') {
        size_t length = strcspn(++s, "+");
        const char *known = look_up(table, s, length);
        if (!known && n->arch == ARCH_ARM) diag_error(d, NULL, "unknown extension '+%.*s'", (int)length, s);
        else if (!known && !strncmp(s, "no", 2)) known = arena_printf(a, "-%.*s", (int)length - 2, s + 2);
        else if (!known) known = arena_printf(a, "+%.*s", (int)length, s);
        names_add_features(n, known);
        s += length;
    }
}

static void set_cpu(target_names *n, arena *a, diag *d, const char *value) {
    size_t length = strcspn(value, "+");
    n->cpu = arena_strndup(a, value, length);
    if (n->arch == ARCH_ARM || n->arch == ARCH_AARCH64) add_extensions(n, a, d, value + length);
    if (n->arch == ARCH_ARM) arm_arch_from_cpu(n, a);
}

// ---------------------------------------------------------------- -march
static void riscv_march(target_names *n, arena *a, diag *d, const char *isa) {
    if (strncmp(isa, "rv32", 4) && strncmp(isa, "rv64", 4))
        diag_fatal(d, NULL, "-march=%s: expected rv32... or rv64...", isa);
    n->triple = triple_with_part(a, n->triple, 0, isa[2] == '3' ? "riscv32" : "riscv64");
    const char *p = isa + 4;
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

static void set_march(target_names *n, arena *a, diag *d, const char *value) {
    size_t length = strcspn(value, "+");
    const char *known;
    switch (n->arch) {
    case ARCH_X86_64: n->cpu = value; break;
    case ARCH_RISCV: riscv_march(n, a, d, value); break;
    case ARCH_ARM:
        known = look_up(arm_march, value, length);
        if (!known) diag_fatal(d, NULL, "unknown -march=%s for ARM", value);
        n->triple = triple_with_part(a, n->triple, 0, known);
        add_extensions(n, a, d, value + length);
        break;
    case ARCH_AARCH64:
        if (strncmp(value, "armv", 4)) diag_fatal(d, NULL, "unknown -march=%s for AArch64", value);
        if (strncmp(value, "armv8-a", 7)) // "armv8.2-a" is LLVM's feature v8.2a
            names_add_features(n, arena_printf(a, "+v%.*sa", (int)strcspn(value + 4, "-+"), value + 4));
        add_extensions(n, a, d, value + length);
        break;
    case ARCH_OTHER:
    case ARCH_C:
    case ARCH_CUDA: diag_fatal_missing(d, NULL, "-march is not supported for target %s", n->triple);
    }
}

// ---------------------------------------------------------------- the others
static void set_float_abi(target_names *n, arena *a, diag *d, const char *value) {
    const char *env = triple_part(a, n->triple, 3);
    size_t length = strlen(env);
    bool hard = !strcmp(value, "hard");
    if (!hard && strcmp(value, "soft") && strcmp(value, "softfp"))
        diag_fatal(d, NULL, "-mfloat-abi=%s: expected hard, softfp or soft", value);
    n->float_abi = value;
    if (length > 2 && !strcmp(env + length - 2, "hf")) env = arena_strndup(a, env, length - 2);
    n->triple = triple_with_part(a, n->triple, 3, hard ? arena_printf(a, "%shf", env) : env);
}

static void set_fpu(target_names *n, diag *d, const char *value) {
    const char *known = look_up(arm_fpu, value, strlen(value));
    if (!known) diag_fatal(d, NULL, "unknown -mfpu=%s", value);
    names_add_features(n, known);
}

static void set_width(target_names *n, arena *a, int bits) {
    if (n->arch == ARCH_X86_64) n->triple = triple_with_part(a, n->triple, 0, bits == 32 ? "i686" : "x86_64");
    if (n->arch == ARCH_RISCV)
        n->triple = triple_with_part(a, n->triple, 0, bits == 32 ? "riscv32" : "riscv64");
}

// Flags that change nothing in what onnxc makes.
static bool is_neutral(const char *f) {
    static const char *const prefixes[] = {
        "-mtune=",         "-mthumb-interwork",     "-mno-thumb-interwork", "-masm=",
        "-mcmodel=medany", "-mcmodel=medlow",       "-mcmodel=small",       "-mno-relax",
        "-mrelax",         "-mno-unaligned-access", "-mlong-calls",         "-mstrict-align",
        "-mfpmath=sse",    "-mslow-flash-data",     "-mtls-dialect="};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(f, prefixes[i], strlen(prefixes[i]))) return true;
    return false;
}

// -mavx2, -mno-fma
static void set_x86_feature(target_names *n, arena *a, const char *name) {
    static const pair spelling[] = {{"fxsr", "fxsr"}, {"sse4", "sse4.2"}, {"abm", "lzcnt"}, {NULL, NULL}};
    bool off = !strncmp(name, "no-", 3);
    if (off) name += 3;
    const char *known = look_up(spelling, name, strlen(name));
    names_add_features(n, arena_printf(a, "%c%s", off ? '-' : '+', known ? known : name));
}

static const char *after(const char *flag, const char *prefix) {
    size_t n = strlen(prefix);
    return strncmp(flag, prefix, n) ? NULL : flag + n;
}

static void apply_flag(target_names *n, arena *a, diag *d, const char *f) {
    const char *v;
    bool arm = n->arch == ARCH_ARM;
    if ((v = after(f, "-mcpu="))) set_cpu(n, a, d, v);
    else if ((v = after(f, "-march="))) set_march(n, a, d, v);
    else if (arm && (v = after(f, "-mfloat-abi="))) set_float_abi(n, a, d, v);
    else if (arm && (v = after(f, "-mfpu="))) set_fpu(n, d, v);
    else if ((v = after(f, "-mabi="))) n->abi = n->arch == ARCH_RISCV ? v : NULL;
    else if (!strcmp(f, "-m32") || !strcmp(f, "-m64")) set_width(n, a, f[2] == '3' ? 32 : 64);
    else if (arm && (!strcmp(f, "-mthumb") || !strcmp(f, "-marm"))) {
        const char *rest = n->triple + (after(n->triple, "thumb") ? 5 : 3);
        n->triple = arena_printf(a, "%s%s", f[2] == 't' ? "thumb" : "arm", rest);
    } else if (is_neutral(f)) return;
    else if (n->arch == ARCH_X86_64 && (v = after(f, "-m"))) set_x86_feature(n, a, v);
    else diag_fatal(d, NULL, "unknown machine flag '%s' for target %s", f, n->triple);
}

void names_apply_flags(target_names *n, arena *a, diag *d, const char *const *flags, int nflags) {
    if (n->cpu) set_cpu(n, a, d, n->cpu);
    for (int i = 0; i < nflags; i++) apply_flag(n, a, d, flags[i]);
}
