// 32-bit Arm: Cortex-A with NEON, Cortex-R, and Cortex-M in Thumb code.
#include "codegen/target/target_impl.h"
#include <string.h>

// As in gcc, the CPU determines the architecture of the triple: arm-none-eabi with -mcpu=cortex-m4 is
// thumbv7em.
static const spelling arm_cpu_arch[] = {
    {"cortex-m0 cortex-m1 sc000", "thumbv6m"},
    {"cortex-m23", "thumbv8m.base"},
    {"cortex-m33 cortex-m35p star-mc1", "thumbv8m.main"},
    {"cortex-m52 cortex-m55 cortex-m85", "thumbv8.1m.main"},
    {"cortex-m3 sc300", "thumbv7m"},
    {"cortex-m4 cortex-m7", "thumbv7em"},
    {"cortex-r4 cortex-r5 cortex-r7 cortex-r8", "armv7r"},
    {"cortex-r52 cortex-r82", "armv8r"},
    {"cortex-a5 cortex-a7 cortex-a8 cortex-a9 cortex-a12 cortex-a15 cortex-a17", "armv7a"},
    {NULL, NULL}};
static const spelling arm_march[] = {{"armv6-m armv6s-m", "thumbv6m"},
                                     {"armv7-m", "thumbv7m"},
                                     {"armv7e-m", "thumbv7em"},
                                     {"armv8-m.base", "thumbv8m.base"},
                                     {"armv8-m.main", "thumbv8m.main"},
                                     {"armv8.1-m.main", "thumbv8.1m.main"},
                                     {"armv6", "armv6"},
                                     {"armv6k", "armv6k"},
                                     {"armv7 armv7-a", "armv7a"},
                                     {"armv7ve", "armv7ve"},
                                     {"armv7-r", "armv7r"},
                                     {"armv8-a", "armv8a"},
                                     {"armv8-r", "armv8r"},
                                     {"armv8.2-a", "armv8.2a"},
                                     {NULL, NULL}};
static const spelling arm_fpu[] = {{"auto", ""},
                                   {"fpv4-sp-d16", "+vfp4d16sp"},
                                   {"fpv5-sp-d16", "+fp-armv8d16sp"},
                                   {"fpv5-d16", "+fp-armv8d16"},
                                   {"vfp vfpv2", "+vfp2"},
                                   {"vfpv3", "+vfp3"},
                                   {"vfpv3-d16", "+vfp3d16"},
                                   {"vfpv4", "+vfp4"},
                                   {"vfpv4-d16", "+vfp4d16"},
                                   {"none", "-fpregs"},
                                   {"neon neon-vfpv3", "+neon"},
                                   {"neon-fp16", "+neon,+fp16"},
                                   {"neon-vfpv4", "+neon,+vfp4"},
                                   {"fp-armv8", "+fp-armv8"},
                                   {"neon-fp-armv8", "+neon,+fp-armv8"},
                                   {"crypto-neon-fp-armv8", "+neon,+fp-armv8,+crypto"},
                                   {NULL, NULL}};
static const spelling arm_extension[] = {{"fp", "+vfp4d16sp"},
                                         {"fp.sp", "+fp-armv8d16sp"},
                                         {"fp.dp", "+fp-armv8d16"},
                                         {"dsp", "+dsp"},
                                         {"nodsp", "-dsp"},
                                         {"nofp", "-fpregs"},
                                         {"mve", "+mve"},
                                         {"mve.fp", "+mve.fp"},
                                         {"nomve", "-mve"},
                                         {"nomve.fp", "-mve.fp"},
                                         {"simd", "+neon"},
                                         {"nosimd", "-neon"},
                                         {"neon", "+neon"},
                                         {"crypto", "+crypto"},
                                         {"nocrypto", "-crypto"},
                                         {"crc", "+crc"},
                                         {"dotprod", "+dotprod"},
                                         {"fp16", "+fullfp16"},
                                         {"i8mm", "+i8mm"},
                                         {"bf16", "+bf16"},
                                         {"nofp.dp", "-fp64"},
                                         {"pacbti nopacbti nocdecp0", ""},
                                         {NULL, NULL}};
static void arm_arch_from_cpu(target_names *n, arena *a) {
    const char *now = triple_part(a, n->triple, 0), *best = NULL;
    if (!n->cpu || (strcmp(now, "arm") && strcmp(now, "thumb"))) return;
    for (size_t length = strlen(n->cpu); length && !best; length--) // "cortex-m0plus" like "cortex-m0"
        best = find_spelling(arm_cpu_arch, n->cpu, length);
    // Cortex-A and Neoverse CPUs that are not listed: the 32-bit state of ARMv8.
    bool recent = flag_after(n->cpu, "cortex-a") || flag_after(n->cpu, "neoverse");
    n->triple = triple_with_part(a, n->triple, 0, best ? best : recent ? "armv8a" : now);
}

static void set_cpu(target_names *n, arena *a, diag *d, const char *value) {
    size_t length = strcspn(value, "+");
    if (!strcmp(value + length, "+")) length++; // "cortex-m0+", which is not the name of a CPU
    n->cpu = arena_strndup(a, value, length);
    names_add_extensions(n, a, d, arm_extension, value + length);
    arm_arch_from_cpu(n, a);
}

static void set_march(target_names *n, arena *a, diag *d, const char *value) {
    size_t length = strcspn(value, "+");
    const char *known = find_spelling(arm_march, value, length);
    if (!known) diag_fatal(d, NULL, "unknown -march=%s for ARM", value);
    n->triple = triple_with_part(a, n->triple, 0, known);
    names_add_extensions(n, a, d, arm_extension, value + length);
}

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
    const char *known = find_spelling(arm_fpu, value, strlen(value));
    if (!known) diag_fatal(d, NULL, "unknown -mfpu=%s", value);
    names_add_features(n, known);
}

static bool set_flag(target_names *n, arena *a, diag *d, const char *flag) {
    const char *value, *rest = n->triple + (flag_after(n->triple, "thumb") ? 5 : 3);
    if ((value = flag_after(flag, "-mfloat-abi="))) set_float_abi(n, a, d, value);
    else if ((value = flag_after(flag, "-mfpu="))) set_fpu(n, d, value);
    else if (!strcmp(flag, "-mthumb")) n->triple = arena_printf(a, "thumb%s", rest);
    else if (!strcmp(flag, "-marm")) n->triple = arena_printf(a, "arm%s", rest);
    else return false;
    return true;
}

// As in gcc and clang, a plain eabi triple means software floating point, unless -mfloat-abi=softfp is given.
static void resolve_arm(target_names *n, arena *a) {
    const char *env = triple_part(a, n->triple, 3);
    bool hard = strlen(env) > 2 && !strcmp(env + strlen(env) - 2, "hf");
    if (!n->float_abi) n->float_abi = hard ? "hard" : triple_is_bare(n->triple) ? "soft" : "softfp";
    if (!strcmp(n->float_abi, "soft")) names_add_features(n, "+soft-float,-fpregs");
    // Debian's and Fedora's armhf; LLVM would assume ARMv4 without floating point.
    else if (hard && !n->cpu && !n->features.n && strstr(n->triple, "linux")) {
        if (!strncmp(n->triple, "arm-", 4)) n->triple = triple_with_part(a, n->triple, 0, "armv7a");
        names_add_features(n, "+vfp3d16");
    }
    // LLVM leaves out NEON where it is optional; gcc and clang assume it.
    else if (n->cpu && !strncmp(n->cpu, "cortex-a", 8) && !strstr(text_str(&n->features), "-neon"))
        names_add_features(n, "+neon");
}

static void fill_arm(target *t, arena *a, diag *d) {
    enum { FP, FP64, VFP4, FP16, ROUND, NEON, MVE, DSP, DIVIDER, THUMB_DIVIDER, THUMB2, N };
    static const char *const names[N] = {"vfp2sp", "fp64", "vfp4d16sp", "fp16",  "fp-armv8d16sp", "neon",
                                         "mve.fp", "dsp",  "hwdiv-arm", "hwdiv", "thumb2"};
    bool has[N];
    probe_features(a, d, t, NULL, names, N, has);
    t->f32 = has[FP];
    t->f64 = has[FP] && has[FP64];
    t->fma = has[FP] && has[VFP4];
    t->f16_convert = has[FP] && has[FP16];
    t->round_instr = has[FP] && has[ROUND];
    t->vector_bits = has[FP] && (has[NEON] || has[MVE]) ? 128 : 0;
    t->vector_regs = !t->vector_bits ? 0 : has[NEON] ? 16 : 8;
    t->masked = t->dot_across = t->vector_bits && !has[NEON];
    t->arch.strided_loads = t->arch.dot_signed = t->dot_across;
    t->scalar_floats = t->vector_bits && t->fp == FP_STRICT;
    t->round_to_int = has[FP] && (!t->vector_bits || !has[NEON]); // vcvtr, vcvtn
    t->dsp = has[DSP];
    if (t->f32 && !t->vector_bits && t->size_level < 2) t->float_regs = 32;
    bool thumb = !strncmp(t->triple, "thumb", 5);
    t->no_divider = !has[thumb ? THUMB_DIVIDER : DIVIDER];
    t->no_wide_product = thumb && !has[THUMB2];
    t->adds_wide_products = !t->no_wide_product;
    bool hard = t->float_abi && !strcmp(t->float_abi, "hard");
    t->folder = hard ? "arm-linux-gnueabihf" : "arm-linux-gnueabi";
    t->loader = hard ? "/lib/ld-linux-armhf.so.3" : "/lib/ld-linux.so.3";
}

const arch_row arch_arm = {
    .facts =
        {.name = "arm", .dot = DOT_ARM, .no_roundeven = true, .no_unwind_tables = true, .stack_align = 8},
    .title = "ARM",
    .cpus = arm_cpus,
    .features = arm_features,
    .prefixes = {{"arm", 32, "generic"}, {"thumb", 32, "generic"}},
    .set_cpu = set_cpu,
    .set_march = set_march,
    .set_flag = set_flag,
    .resolve = resolve_arm,
    .fill = fill_arm,
};
