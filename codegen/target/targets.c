// What the command line says of the machine, in; a target with its facts, out. Names are checked here, facts
// come from LLVM's own tables (target_probe.c), never from a list of CPUs.
#include "codegen/target/llvm_guard.h"
#include "codegen/target/target_impl.h"
#include <limits.h>
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <stdlib.h>
#include <string.h>

#if defined __x86_64__
#define HOST_TRIPLE "x86_64-unknown-linux-gnu"
#elif defined __aarch64__
#define HOST_TRIPLE "aarch64-unknown-linux-gnu"
#else
#define HOST_TRIPLE NULL
#endif
enum { THREADS_MOST = 1024 };

const char *triple_normalise(arena *a, const char *triple) {
    char *s = LLVMNormalizeTargetTriple(triple);
    const char *copy = arena_strdup(a, s);
    LLVMDisposeMessage(s);
    return copy;
}

static const char *host_triple(arena *a) {
    if (HOST_TRIPLE) return HOST_TRIPLE;
    char *s = LLVMGetDefaultTargetTriple();
    const char *copy = arena_strdup(a, s);
    LLVMDisposeMessage(s);
    return copy;
}

// ---------------------------------------------------------------- names
static bool is_bare(const char *triple) {
    return strstr(triple, "-none") || strstr(triple, "-elf") || !strcmp(triple + strcspn(triple, "-"), "");
}

// Only ELF is written, little-endian.
static void check_format(diag *d, const target_names *n) {
    static const char *const others[] = {"windows", "mingw", "cygwin",     "darwin", "macos", "ios", "tvos",
                                         "watchos", "wasi",  "emscripten", "uefi",   "aix",   "cuda"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(n->triple, others[i]))
            diag_fatal_missing(d, NULL, "target %s: only ELF objects are supported so far", n->triple);
    if (n->arch == ARCH_OTHER)
        diag_fatal_missing(d, NULL, "target %s: only x86, AArch64, ARM and RISC-V are supported", n->triple);
    if (strstr(n->triple, "aarch64_be") || strstr(n->triple, "armeb") || strstr(n->triple, "thumbeb"))
        diag_fatal_missing(d, NULL, "target %s: big-endian targets are not supported", n->triple);
}

// Without a triple, a microcontroller's CPU says enough.
static const char *guess_triple(arena *a, const target_options *o) {
    if (o->triple) return o->triple;
    if (o->cpu && !strncmp(o->cpu, "cortex-m", 8)) return "arm-none-eabi";
    for (int i = 0; i < o->machine.n; i++)
        if (!strncmp(o->machine.at[i], "-mcpu=cortex-m", 14)) return "arm-none-eabi";
    return host_triple(a);
}

static void use_host_cpu(target_names *n, arena *a, diag *d) {
    const char *host = host_triple(a);
    if (triple_arch(host) != n->arch)
        diag_fatal(d, NULL, "CPU 'native' means this machine, which is not %s", n->triple);
    char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
    n->cpu = arena_strdup(a, cpu);
    text given = n->features;
    n->features = (text){.arena = a};
    names_add_features(n, features);
    names_add_features(n, text_str(&given));
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(features);
}

// ARM: a plain eabi triple means software floating point unless softfp is asked for, as for gcc and clang.
static void settle_arm(target_names *n, arena *a) {
    const char *env = triple_part(a, n->triple, 3);
    bool hard = strlen(env) > 2 && !strcmp(env + strlen(env) - 2, "hf");
    if (!n->float_abi) n->float_abi = hard ? "hard" : is_bare(n->triple) ? "soft" : "softfp";
    n->soft_float = !strcmp(n->float_abi, "soft");
    if (n->soft_float) names_add_features(n, "+soft-float,-fpregs");
    // Debian's and Fedora's armhf; LLVM would take ARMv4 without floating point.
    else if (hard && !n->cpu && !n->features.n && strstr(n->triple, "linux")) {
        if (!strncmp(n->triple, "arm-", 4)) n->triple = triple_with_part(a, n->triple, 0, "armv7a");
        names_add_features(n, "+vfp3d16");
    }
    // LLVM leaves NEON out of these, where it is optional; gcc and clang take it as there.
    else if (n->cpu && !strncmp(n->cpu, "cortex-a", 8) && !strstr(text_str(&n->features), "-neon"))
        names_add_features(n, "+neon");
}

static void settle_riscv(target_names *n) {
    bool linux = strstr(n->triple, "linux");
    if (n->cpu || n->features.n) return;
    names_add_features(n, linux ? "+m,+a,+f,+d,+c,+zicsr,+zifencei" : "+m,+a,+c");
}

static const char *default_cpu(const target_names *n) {
    switch (n->arch) {
    case ARCH_X86_64: return !strncmp(n->triple, "i", 1) ? "pentium4" : "x86-64";
    case ARCH_RISCV: return !strncmp(n->triple, "riscv32", 7) ? "generic-rv32" : "generic-rv64";
    case ARCH_AARCH64:
    case ARCH_ARM:
    case ARCH_OTHER:
    case ARCH_C:
    case ARCH_CUDA: return "generic";
    }
    return "generic";
}

static target_names settle_names(arena *a, diag *d, const target_options *o) {
    target_names n = {.cpu = o->cpu, .features = {.arena = a}};
    n.triple = triple_normalise(a, guess_triple(a, o));
    n.arch = triple_arch(n.triple);
    check_format(d, &n);
    names_apply_flags(&n, a, d, o->machine.at, o->machine.n);
    diag_check(d);
    names_add_features(&n, o->features);
    if (n.cpu && !strcmp(n.cpu, "native")) use_host_cpu(&n, a, d);
    n.triple = triple_normalise(a, n.triple);
    if (n.arch == ARCH_ARM) settle_arm(&n, a);
    if (n.arch == ARCH_RISCV) settle_riscv(&n);
    if (!n.cpu) n.cpu = default_cpu(&n);
    probe_check_names(a, d, &n);
    return n;
}

// ---------------------------------------------------------------- facts
static void fill_x86(target *t, arena *a, diag *d) {
    enum { SSE2, SSE41, FMA, F16C, AVX2, AVX512, VNNI, AVXVNNI, AMX, N };
    static const char *const names[N] = {"sse2",       "sse4.1",  "fma",
                                         "f16c",       "avx2",    "avx512f,+avx512bw,+avx512dq,+avx512vl",
                                         "avx512vnni", "avxvnni", "amx-int8"};
    bool has[N];
    probe_features(a, d, t->triple, t->cpu, t->features, names, N, has);
    if (!has[SSE2]) {
        diag_hint(d, "--mcpu=pentium4, or a later CPU");
        diag_fatal_missing(
            d, NULL, "CPU '%s' of %s has no SSE2, and the x87 does not round to the standard's precisions",
            t->cpu, t->triple);
    }
    t->avx512 = has[AVX512];
    t->vector_bits = t->avx512 ? 512 : has[AVX2] ? 256 : 128;
    t->vector_regs = t->ptr_bits == 32 ? 8 : t->avx512 ? 32 : 16;
    t->f32 = t->f64 = true;
    t->fma = has[FMA] || t->avx512;
    t->f16_convert = has[F16C] || t->avx512;
    t->round_instr = has[SSE41];
    t->masked = has[AVX2];
    t->vnni = (t->avx512 && has[VNNI]) || has[AVXVNNI];
    t->amx = has[AMX] && t->ptr_bits == 64;
}

static void fill_aarch64(target *t, arena *a, diag *d) {
    enum { FP, NEON, DOTPROD, I8MM, N };
    static const char *const names[N] = {"fp-armv8", "neon", "dotprod", "i8mm"};
    bool has[N];
    probe_features(a, d, t->triple, t->cpu, t->features, names, N, has);
    t->f32 = t->f64 = t->fma = t->f16_convert = t->round_instr = has[FP];
    t->vector_bits = has[NEON] ? 128 : 0;
    t->vector_regs = has[NEON] ? 32 : 0;
    t->vnni = has[I8MM] && has[DOTPROD] && has[NEON]; // usdot and sdot
}

static void fill_arm(target *t, arena *a, diag *d) {
    enum { FP, FP64, VFP4, FP16, ROUND, NEON, MVE, DSP, DIVIDER, THUMB_DIVIDER, THUMB2, N };
    static const char *const names[N] = {"vfp2sp", "fp64", "vfp4d16sp", "fp16",  "fp-armv8d16sp", "neon",
                                         "mve.fp", "dsp",  "hwdiv-arm", "hwdiv", "thumb2"};
    bool has[N];
    probe_features(a, d, t->triple, t->cpu, t->features, names, N, has);
    t->f32 = has[FP];
    t->f64 = has[FP] && has[FP64];
    t->fma = has[FP] && has[VFP4];
    t->f16_convert = has[FP] && has[FP16];
    t->round_instr = has[FP] && has[ROUND];
    t->vector_bits = has[FP] && (has[NEON] || has[MVE]) ? 128 : 0;
    t->vector_regs = !t->vector_bits ? 0 : has[NEON] ? 16 : 8;
    t->masked = t->vector_bits && !has[NEON];
    t->dsp = has[DSP];
    bool thumb = !strncmp(t->triple, "thumb", 5);
    t->no_divider = !has[thumb ? THUMB_DIVIDER : DIVIDER];
    t->no_wide_product = thumb && !has[THUMB2];
}

// "_f2p2" in "rv64i2p1_m2p0_f2p2"
static bool isa_has(const char *isa, const char *extension) {
    size_t n = strlen(extension);
    for (const char *p = isa; (p = strchr(p, '_')); p++)
        if (!strncmp(p + 1, extension, n) && p[1 + n] >= '0' && p[1 + n] <= '9' && strchr(p + 1 + n, 'p'))
            return true;
    return false;
}

static void fill_riscv(target *t, arena *a, diag *d) {
    const char *isa = probe_riscv_isa(a, d, t->triple, t->cpu, t->features);
    bool wide = t->ptr_bits == 64, e = isa[4] == 'e';
    if (!isa_has(isa, "m") && (wide || !isa_has(isa, "zmmul"))) {
        diag_hint(d, "-march=rv%dim, or a later CPU", wide ? 64 : 32);
        diag_fatal_missing(d, NULL, "CPU '%s' of %s (%s) cannot multiply and divide", t->cpu, t->triple, isa);
    }
    t->no_divider = !isa_has(isa, "m");
    t->f32 = t->fma = isa_has(isa, "f");
    t->round_instr = isa_has(isa, "zfa"); // without, LLVM calls floorf when it compiles for size
    t->f64 = isa_has(isa, "d");
    t->f16_convert = isa_has(isa, "zfhmin");
    if (t->f32 && isa_has(isa, "zve32f"))
        for (int bits = 64; bits <= 1024; bits *= 2)
            if (isa_has(isa, arena_printf(a, "zvl%db", bits))) t->vector_bits = bits;
    t->vector_regs = t->vector_bits ? 32 : 0;
    t->masked = t->vector_bits > 0;
    if (t->abi) return;
    const char *suffix = e ? "e" : t->f64 ? "d" : t->f32 ? "f" : "";
    t->abi = arena_printf(a, "%s%s", wide ? "lp64" : "ilp32", suffix);
}

typedef struct fill {
    target *t;
    arena *arena;
    diag *diag;
} fill;

static void fill_facts(void *user) {
    fill *x = user;
    switch (x->t->arch) {
    case ARCH_X86_64: fill_x86(x->t, x->arena, x->diag); break;
    case ARCH_AARCH64: fill_aarch64(x->t, x->arena, x->diag); break;
    case ARCH_ARM: fill_arm(x->t, x->arena, x->diag); break;
    case ARCH_RISCV: fill_riscv(x->t, x->arena, x->diag); break;
    case ARCH_OTHER:
    case ARCH_C:
    case ARCH_CUDA: break;
    }
}

static void ask_facts(arena *a, diag *d, target *t) {
    fill x = {t, a, d};
    probe_initialise();
    llvm_guard(d, DIAG_USER, arena_printf(a, "querying the features of CPU '%s' of %s", t->cpu, t->triple),
               fill_facts, &x);
    if (t->float_abi && !strcmp(t->float_abi, "hard") && !t->f32) {
        diag_hint(d, "name the CPU (--mcpu) or the FPU (-mfpu=), or use a soft-float triple");
        diag_fatal(d, NULL, "CPU '%s' of %s has no floating point, which its calling convention needs",
                   t->cpu, t->triple);
    }
}

static int pointer_bits(const char *triple) {
    bool wide = !strncmp(triple, "x86_64", 6) || !strncmp(triple, "amd64", 5) ||
                !strncmp(triple, "aarch64", 7) || !strncmp(triple, "arm64", 5) ||
                !strncmp(triple, "riscv64", 7);
    return wide && !strstr(triple, "x32") && !strstr(triple, "_32") ? 64 : 32;
}

static void set_opt(target *t, diag *d, const char *opt, bool bare) {
    if (!opt) opt = bare ? "s" : "2";
    t->opt = 2;
    t->size_level = 0;
    if (!strcmp(opt, "s")) t->size_level = 1;
    else if (!strcmp(opt, "z")) t->size_level = 2;
    else if (strlen(opt) == 1 && *opt >= '0' && *opt <= '3') t->opt = *opt - '0';
    else diag_fatal(d, NULL, "-O%s: expected 0, 1, 2, 3, s or z", opt);
}

static void set_common(target *t, diag *d, const target_options *o, bool bare) {
    t->freestanding = o->freestanding || bare;
    t->hosted = !t->freestanding;
    t->fp = o->fp;
    t->threads = o->threads ? o->threads : bare ? 1 : THREADS_MOST;
    if (t->freestanding) t->threads = 1;
    t->little_endian = true;
    set_opt(t, d, o->opt, bare);
}

target *target_from_options(arena *a, diag *d, const target_options *o) {
    target_names n = settle_names(a, d, o);
    target *t = ARENA_NEW(a, target);
    *t = (target){.triple = n.triple,
                  .cpu = n.cpu,
                  .features = text_str(&n.features),
                  .abi = n.abi,
                  .float_abi = n.float_abi,
                  .arch = n.arch,
                  .ptr_bits = pointer_bits(n.triple)};
    set_common(t, d, o, is_bare(n.triple));
    ask_facts(a, d, t);
    return t;
}

target *target_with_cpu(arena *a, diag *d, const target *base, const char *cpu) {
    const char *more = strchr(cpu, '+');
    target_names n = {.arch = base->arch, .triple = base->triple, .cpu = cpu, .features = {.arena = a}};
    if (more) n.cpu = arena_printf(a, "%.*s", (int)(more - cpu), cpu), names_add_features(&n, more);
    if (!strcmp(n.cpu, "native")) use_host_cpu(&n, a, d);
    probe_check_names(a, d, &n);
    target *t = ARENA_NEW(a, target);
    *t = (target){.triple = base->triple,
                  .cpu = n.cpu,
                  .features = text_str(&n.features),
                  .abi = base->abi,
                  .float_abi = base->float_abi,
                  .arch = base->arch,
                  .ptr_bits = base->ptr_bits,
                  .hosted = base->hosted,
                  .freestanding = base->freestanding,
                  .little_endian = true,
                  .fp = base->fp,
                  .threads = base->threads,
                  .opt = base->opt,
                  .size_level = base->size_level};
    ask_facts(a, d, t);
    return t;
}

// Code of an architecture runs on later ones with its first digit too: those of 8.x, like 12.x, have 99 KiB
// for a block, Hopper and the Blackwells of data centres 227.
static int shared_memory_of(const char *archs) {
    int least = archs ? 227 << 10 : 64 << 10;
    for (const char *s = archs; s && (s = strstr(s, "sm_")); s += 3) {
        int sm = atoi(s + 3), own = sm < 80 ? 64 << 10 : sm < 90 || sm >= 120 ? 99 << 10 : 227 << 10;
        if (own < least) least = own;
    }
    return least;
}

target *target_for_text(arena *a, arch kind, const target_options *o) {
    target *t = ARENA_NEW(a, target);
    bool cuda = kind == ARCH_CUDA;
    *t = (target){.arch = kind,
                  .ptr_bits = 64,
                  .f32 = true,
                  .f64 = true,
                  .fma = cuda,
                  .f16_convert = cuda,
                  .bf16_convert = cuda && o->fp != FP_STRICT, // NaNs get other bits
                  .round_instr = cuda,
                  .little_endian = true,
                  .fp = o->fp,
                  .opt = 2,
                  .threads = o->threads,
                  .hosted = !o->freestanding,
                  .freestanding = o->freestanding};
    if (!t->threads) t->threads = 1;
    if (cuda) t->sm = o->cpu && !strncmp(o->cpu, "sm_", 3) ? atoi(o->cpu + 3) : 80;
    if (cuda) t->warpgroups = o->cpu && t->sm >= 80 && strstr(o->cpu, "sm_90a");
    if (cuda) t->shared_most = shared_memory_of(o->cpu);
    if (cuda) t->precision = o->precision;
    // Between the small ones' 40 and the large ones' 148; H100 and H200 have 132.
    if (cuda) t->processors = t->shared_most > 99 << 10 ? 132 : 100;
    return t;
}

bool target_runs_here(arena *a, diag *d, const target *t) {
    target_names host = {.triple = host_triple(a), .features = {.arena = a}};
    host.arch = triple_arch(host.triple);
    if (host.arch != t->arch || pointer_bits(host.triple) != t->ptr_bits || !strstr(t->triple, "linux"))
        return false;
    use_host_cpu(&host, a, d);
    probe_initialise();
    return probe_is_subset(a, d, t->triple, t->cpu, t->features, host.cpu, text_str(&host.features));
}

// ---------------------------------------------------------------- --list-targets
static void list_cpus(text *t, const char *heading, arch k) {
    int column = 0;
    text_printf(t, "\n%s CPUs (--mcpu):\n", heading);
    for (const char *p = probe_cpu_list(k) + 1; *p; p += strspn(p, " ")) {
        int n = (int)strcspn(p, " ");
        if (column && column + n > 96) text_add(t, "\n"), column = 0;
        text_printf(t, "%s%.*s", column ? " " : "  ", n, p);
        column += n + (column ? 1 : 2);
        p += n;
    }
    text_add(t, "\n");
}

const char *target_list_text(arena *a) {
    text t = {.arena = a};
    text_add(&t, "Targets (--target TRIPLE; LLVM's and gcc's names):\n"
                 "  x86_64-linux-gnu i686-linux-gnu                    hosted\n"
                 "  aarch64-linux-gnu                                  hosted\n"
                 "  arm-linux-gnueabi arm-linux-gnueabihf              hosted\n"
                 "  riscv64-linux-gnu riscv32-linux-gnu                hosted\n"
                 "  arm-none-eabi arm-none-eabihf aarch64-none-elf     freestanding\n"
                 "  riscv32-none-elf riscv64-none-elf x86_64-none-elf  freestanding\n"
                 "CPU 'native' is this machine's own with its features. gcc's machine flags (-mcpu, -march,\n"
                 "-mthumb, -mfloat-abi, -mfpu, -mabi, -m32 ...) are taken too.\n");
    list_cpus(&t, "x86", ARCH_X86_64);
    list_cpus(&t, "AArch64", ARCH_AARCH64);
    list_cpus(&t, "ARM", ARCH_ARM);
    list_cpus(&t, "RISC-V", ARCH_RISCV);
    return text_str(&t);
}
