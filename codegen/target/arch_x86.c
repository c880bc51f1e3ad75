// x86: i686 and x86-64, with SSE2 at least.
#include "codegen/target/target_impl.h"
#include <string.h>

// -mavx2, -mno-fma
static bool set_flag(target_names *n, arena *a, diag *d, const char *flag) {
    static const spelling spellings[] = {{"sse4", "sse4.2"}, {"abm", "lzcnt"}, {NULL, NULL}};
    const char *name = flag + 2;
    bool off = !strncmp(name, "no-", 3);
    (void)d;
    if (strncmp(flag, "-m", 2)) return false;
    if (off) name += 3;
    // What every 64-bit CPU has selects none.
    static const spelling common[] = {{"cx8 fxsr mmx sse sse2", ""}, {NULL, NULL}};
    if (!off && !strncmp(n->triple, "x86_64", 6) && find_spelling(common, name, strlen(name))) return true;
    const char *known = find_spelling(spellings, name, strlen(name));
    names_add_features(n, arena_printf(a, "%c%s", off ? '-' : '+', known ? known : name));
    return true;
}

static void set_march(target_names *n, arena *a, diag *d, const char *value) {
    (void)a;
    (void)d;
    n->cpu = value;
}

static const fixed_cpu fixed[] = {
    {"x86-64", "+sse2"},
    {"x86-64-v2", "+sse2,+sse4.1"},
    {"x86-64-v3", "+sse2,+sse4.1,+fma,+f16c,+avx2"},
    {"x86-64-v4", "+sse2,+sse4.1,+fma,+f16c,+avx2,+avx512f,+avx512bw,+avx512dq,+avx512vl"},
    {NULL, NULL}};

static void fill_x86(target *t, arena *a, diag *d) {
    enum { SSE2, SSE41, FMA, F16C, AVX2, AVX512, VNNI, AVXVNNI, AMX8, AMXBF16, BF16, FP16, PAIRS, VBMI, N };
    static const char *const names[N] = {"sse2",
                                         "sse4.1",
                                         "fma",
                                         "f16c",
                                         "avx2",
                                         "avx512f,+avx512bw,+avx512dq,+avx512vl",
                                         "avx512vnni",
                                         "avxvnni",
                                         "amx-tile,+amx-int8",
                                         "amx-tile,+amx-bf16",
                                         "avx512bf16,+avx512vl",
                                         "avx512fp16",
                                         "avx512bf16,+sse4a",
                                         "avx512vbmi"};
    bool has[N];
    probe_features(a, d, t, fixed, names, N, has);
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
    t->round_to_int = true;
    t->truncates_narrow = has[AVX2] && !t->avx512;
    t->scale_instr = t->avx512;
    t->permuted_words = t->avx512 ? 16 : has[AVX2] ? 8 : 0;
    t->permutes_bytes = t->avx512 && has[VBMI];
    t->masked = has[AVX2];
    // Microcode makes gathers slow on CPUs before these (Gather Data Sampling, CVE-2022-40982).
    t->gathers = t->avx512 && (has[AVXVNNI] || has[AMX8] || has[FP16]);
    t->vnni = (t->avx512 && has[VNNI]) || has[AVXVNNI];
    bool tiles = t->avx512 && t->ptr_bits == 64 && !t->freestanding; // the runtime asks the system for them
    t->amx_int8 = has[AMX8] && tiles;
    t->amx_bf16 = has[AMXBF16] && has[BF16] && tiles;
    // AMD's do vdpbf16ps at the rate of a multiply-add, Intel's at a quarter of it.
    t->bf16_pairs = t->avx512 && has[PAIRS];
    t->bf16_convert = has[BF16] && t->precision == PRECISION_BF16; // denormal numbers become 0
    t->masked_least = t->avx512 ? 0 : 32;
    t->folder = t->ptr_bits == 32 ? "i386-linux-gnu" : "x86_64-linux-gnu";
    t->loader = t->ptr_bits == 32 ? "/lib/ld-linux.so.2" : "/lib64/ld-linux-x86-64.so.2";
}

// Those with features are for products of bytes and of 16-bit floats; SSE4a: of AMD. No Mac has the units of the last two.
static const cpu_level levels[] = {
    {"x86-64", "v1", .level = 1, .compact = true},
    {"x86-64-v2", "v2", .level = 2, .by_default = LEVEL_ANY, .compact = true},
    {"x86-64-v3", "v3", .level = 3, .by_default = LEVEL_ANY},
    {"x86-64-v3+avxvnni", "v3_vnni", .level = 3, "onnxc_rt_avx_vnni", .by_default = LEVEL_ELF | LEVEL_COFF},
    {"x86-64-v4", "v4", .level = 4, .by_default = LEVEL_ANY},
    {"x86-64-v4+avx512vnni", "v4_vnni", .level = 5, .by_default = LEVEL_ANY},
    {"x86-64-v4+avx512vnni+avx512bf16+sse4a", "v4_bf16", .level = 5, "onnxc_rt_bf16_pairs",
     .by_default = LEVEL_ELF | LEVEL_COFF},
    {"x86-64-v4+avx512vnni+avx512bf16+amx-tile+amx-int8+amx-bf16", "v4_amx", .level = 5, "onnxc_rt_tiles",
     "onnxc_rt_tiles_at_start", .by_default = LEVEL_ELF | LEVEL_COFF},
    {NULL}};

const arch_row arch_x86 = {
    .facts = {.name = "x86_64",
              .divides_floats = true,
              .dot = DOT_X86,
              .dot_unsigned = true,
              .looks_up_bytes = true,
              .large_data = true,
              .stack_align = 16,
              .red_zone = 128,
              .pushes_after = 6,
              .protect = {"cf-protection-branch", "cf-protection-return"},
              .levels = levels},
    .title = "x86",
    .cpus = x86_cpus,
    .features = x86_features,
    .prefixes = {{"x86_64", 64, "x86-64"},
                 {"amd64", 64, "x86-64"},
                 {"i386", 32, "pentium4"},
                 {"i486", 32, "pentium4"},
                 {"i586", 32, "pentium4"},
                 {"i686", 32, "pentium4"}},
    .narrow = "i686",
    .wide = "x86_64",
    .set_march = set_march,
    .set_flag = set_flag,
    .fill = fill_x86,
};
