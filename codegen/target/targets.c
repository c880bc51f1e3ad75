// In: the target's description on the command line. Out: a target with its facts, which come from LLVM's own
// tables (target_probe.c), never from a list of CPUs, and from the row of the architecture (arch_NAME.c).
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

static const arch_row *const rows[] = {
#define ROW(llvm, name, triple) &arch_##name,
    ARCHS(ROW)
#undef ROW
};
enum { ROWS = sizeof rows / sizeof *rows };

// ---------------------------------------------------------------- triples
static const char *take_message(arena *a, char *message) {
    const char *copy = arena_strdup(a, message);
    LLVMDisposeMessage(message);
    return copy;
}

static const char *normalise_triple(arena *a, const char *triple) {
    return take_message(a, LLVMNormalizeTargetTriple(triple));
}

static const char *host_triple(arena *a) {
    return HOST_TRIPLE ? HOST_TRIPLE : take_message(a, LLVMGetDefaultTargetTriple());
}

static const arch_prefix *prefix_in(const arch_row *row, const char *triple) {
    for (const arch_prefix *p = row->prefixes; p->prefix; p++)
        if (!strncmp(triple, p->prefix, strlen(p->prefix))) return p;
    return NULL;
}

static const arch_row *find_arch(const char *triple) {
    for (int i = 0; i < ROWS; i++)
        if (prefix_in(rows[i], triple)) return rows[i];
    return NULL;
}

static int pointer_bits(const arch_row *row, const char *triple) {
    return strstr(triple, "x32") || strstr(triple, "_32") ? 32 : prefix_in(row, triple)->ptr_bits;
}

// ---------------------------------------------------------------- names
// "x86, AArch64, ARM and RISC-V"
static const char *titles(arena *a) {
    text t = {.arena = a};
    for (int i = 0; i < ROWS; i++)
        text_printf(&t, "%s%s", !i ? "" : i == ROWS - 1 ? " and " : ", ", rows[i]->title);
    return text_str(&t);
}

static _Noreturn void refuse(diag *d, const target_names *n, const char *why) {
    diag_hint(d, "-o NAME.c writes portable C99 for any target with a C compiler");
    diag_fatal_missing(d, NULL, "target %s: %s", n->triple, why);
}

static object_format format_of(const char *triple) {
    if (!strncmp(triple, "wasm", 4)) return OBJECT_WASM;
    if (strstr(triple, "windows")) return OBJECT_COFF;
    return strstr(triple, "macos") || strstr(triple, "darwin") ? OBJECT_MACHO : OBJECT_ELF;
}

// Objects are little-endian.
static void check_format(arena *a, diag *d, const target_names *n) {
    static const char *const others[] = {"cygwin",  "cygnus",     "itanium", "ios", "tvos", "xros",
                                         "watchos", "emscripten", "uefi",    "aix", "cuda"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(n->triple, others[i]))
            refuse(d, n, "only Linux, Windows, macOS, WASI and no system are supported");
    object_format format = format_of(n->triple);
    bool desktop = format == OBJECT_COFF || format == OBJECT_MACHO;
    if (desktop && n->arch && (pointer_bits(n->arch, n->triple) != 64 || strstr(n->triple, "arm64ec")))
        refuse(d, n, "for Windows and macOS only 64-bit x86 and AArch64 are supported");
    if (!n->arch) refuse(d, n, arena_printf(a, "only %s are supported", titles(a)));
    if (strstr(n->triple, "aarch64_be") || strstr(n->triple, "armeb") || strstr(n->triple, "thumbeb"))
        refuse(d, n, "big-endian targets are not supported");
}

// Names of a system without a version mean the oldest one that all tools of today support.
static const char *with_version(arena *a, const char *triple) {
    const char *system = triple_part(a, triple, 2);
    bool named = !strcmp(system, "macos") || !strcmp(system, "macosx") || !strcmp(system, "darwin");
    return named ? triple_with_part(a, triple, 2, "macosx11.0.0") : triple;
}

// Marks of branch protection are ELF's; constants of more than 2 GiB have separate sections there only.
static arch arch_for(const arch_row *row, object_format format) {
    arch facts = row->facts;
    if (format != OBJECT_COFF && format != OBJECT_MACHO) return facts;
    facts.large_data = false;
    facts.protect[0] = facts.protect[1] = facts.protect_function = NULL;
    return facts;
}

// The triple that a short name stands for; NULL: unknown.
static const char *suggested_triple(arena *a, const char *word) {
    static const char *const words[][2] = {
        {"arm32", "armv7-linux-gnueabihf"}, {"armeabi-v7a", "armv7-linux-androideabi"},
        {"armhf", "armv7-linux-gnueabihf"}, {"android", "aarch64-linux-android"},
        {"cuda", "--device=cuda"},          {"darwin", "arm64-apple-macos"},
        {"gpu", "--device=cuda"},           {"linux", "x86_64-linux-gnu"},
        {"mac", "arm64-apple-macos"},       {"macos", "arm64-apple-macos"},
        {"riscv", "riscv64-linux-gnu"},     {"rv32", "riscv32-unknown-elf"},
        {"rv64", "riscv64-linux-gnu"},      {"wasm", "wasm32-wasi"},
        {"win32", "x86_64-windows-gnu"},    {"win64", "x86_64-windows-gnu"},
        {"windows", "x86_64-windows-gnu"},  {"x64", "x86_64-linux-gnu"},
        {"x86", "i686-linux-gnu"},          {"x86-64", "x86_64-linux-gnu"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i][0], word)) return words[i][1];
    const arch_row *row = find_arch(word);
    if (row && !strcmp(prefix_in(row, word)->prefix, word)) return NULL; // also CPUs of x86, as old as i386
    for (int i = 0; i < ROWS; i++)
        if (strstr(rows[i]->cpus, arena_printf(a, " %s ", word))) return arena_printf(a, "--mcpu=%s", word);
    return NULL;
}

static void check_triple(arena *a, diag *d, const char *triple) {
    const char *suggestion = suggested_triple(a, triple);
    if (!suggestion) return;
    diag_hint(d, "did you mean '%s%s'?", *suggestion == '-' ? "" : "--target=", suggestion);
    diag_fatal(d, NULL, "--target=%s is not a triple, such as aarch64-linux-gnu", triple);
}

// The CPU of a microcontroller implies the triple.
static const char *guess_triple(arena *a, const target_options *o) {
    if (o->triple) return o->triple;
    if (o->cpu && !strncmp(o->cpu, "cortex-m", 8)) return "arm-none-eabi";
    for (int i = 0; i < o->machine.n; i++)
        if (!strncmp(o->machine.at[i], "-mcpu=cortex-m", 14)) return "arm-none-eabi";
    return host_triple(a);
}

static void use_host_cpu(target_names *n, arena *a, diag *d) {
    const char *host = host_triple(a);
    if (find_arch(host) != n->arch)
        diag_fatal(d, NULL, "CPU 'native' means this machine, which is not %s", n->triple);
    text given = n->features;
    n->cpu = take_message(a, LLVMGetHostCPUName());
    n->features = (text){.arena = a};
    names_add_features(n, take_message(a, LLVMGetHostCPUFeatures()));
    names_add_features(n, text_str(&given));
}

static target_names resolve_names(arena *a, diag *d, const target_options *o) {
    target_names n = {.cpu = o->cpu, .features = {.arena = a}};
    if (o->triple) check_triple(a, d, o->triple);
    n.triple = normalise_triple(a, guess_triple(a, o));
    n.arch = find_arch(n.triple);
    check_format(a, d, &n);
    names_apply_flags(&n, a, d, o->machine.at, o->machine.n);
    diag_check(d);
    names_add_features(&n, o->features);
    n.cpu_chosen = n.cpu || n.features.n;
    if (n.cpu && !strcmp(n.cpu, "native")) use_host_cpu(&n, a, d);
    n.triple = with_version(a, normalise_triple(a, n.triple));
    if (n.arch->resolve) n.arch->resolve(&n, a);
    if (!n.cpu) n.cpu = prefix_in(n.arch, n.triple)->cpu;
    probe_check_names(a, d, &n);
    return n;
}

// ---------------------------------------------------------------- facts
typedef struct fill_job {
    const arch_row *arch;
    target *t;
    arena *arena;
    diag *diag;
} fill_job;

static void fill_facts(void *user) {
    fill_job *x = user;
    x->arch->fill(x->t, x->arena, x->diag);
}

static void ask_facts(arena *a, diag *d, const arch_row *arch, target *t) {
    fill_job x = {arch, t, a, d};
    probe_initialise();
    llvm_guard(d, DIAG_USER, arena_printf(a, "querying the features of CPU '%s' of %s", t->cpu, t->triple),
               fill_facts, &x);
    if (!t->register_bits) t->register_bits = t->vector_bits;
    if (t->float_abi && !strcmp(t->float_abi, "hard") && !t->f32) {
        diag_hint(d, "name the CPU (--mcpu) or the FPU (-mfpu=), or use a soft-float triple");
        diag_fatal(d, NULL, "CPU '%s' of %s has no floating point, which its calling convention needs",
                   t->cpu, t->triple);
    }
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
    if (t->fp != FP_STRICT && t->opt > 0) t->precision = o->precision;
}

target *target_from_options(arena *a, diag *d, const target_options *o) {
    target_names n = resolve_names(a, d, o);
    target *t = ARENA_NEW(a, target);
    object_format format = format_of(n.triple);
    *t = (target){.triple = n.triple,
                  .cpu = n.cpu,
                  .features = text_str(&n.features),
                  .abi = n.abi,
                  .float_abi = n.float_abi,
                  .cpu_chosen = n.cpu_chosen,
                  .sve_bits = n.sve_bits,
                  .format = format,
                  .arch = arch_for(n.arch, format),
                  .ptr_bits = pointer_bits(n.arch, n.triple)};
    set_common(t, d, o, triple_is_bare(n.triple));
    ask_facts(a, d, n.arch, t);
    return t;
}

const char *target_runtime_folder(arena *a, const target *t) {
    if (strstr(t->triple, "-linux-gnu") || t->arch.is_wasm) return t->folder;
    if (!triple_is_bare(t->triple)) return NULL;
    const char *name =
        arena_printf(a, "%s-none-%s", triple_part(a, t->triple, 0), triple_part(a, t->triple, 3));
    return t->abi ? arena_printf(a, "%s-%s", name, t->abi) : name;
}

static unsigned level_bit(const target *t) {
    switch (t->format) {
    case OBJECT_ELF: return LEVEL_ELF;
    case OBJECT_COFF: return LEVEL_COFF;
    case OBJECT_MACHO: return LEVEL_MACHO;
    case OBJECT_WASM: break;
    }
    return 0;
}

const char *target_default_levels(arena *a, const target *t) {
    text names = {.arena = a};
    for (const cpu_level *l = t->arch.levels; l && l->name; l++)
        if (l->by_default & level_bit(t)) text_printf(&names, "%s%s", names.n ? "," : "", l->name);
    return names.n ? text_str(&names) : NULL;
}

static const cpu_level *level_named(const target *t, const char *name) {
    for (const cpu_level *l = t->arch.levels; l && l->name; l++)
        if (!strcmp(l->name, name)) return l;
    return NULL;
}

target *target_with_cpu(arena *a, diag *d, const target *base, const char *cpu) {
    const char *more = strchr(cpu, '+');
    target_names n = {.arch = find_arch(base->triple), .triple = base->triple, .features = {.arena = a}};
    n.cpu = arena_strndup(a, cpu, strcspn(cpu, "+"));
    for (const char *end; more; more = end) {
        end = strchr(more + 1, '+');
        names_add_features(&n, end ? arena_strndup(a, more, (size_t)(end - more)) : more);
    }
    if (!strcmp(n.cpu, "native")) use_host_cpu(&n, a, d);
    if (n.arch->resolve) n.arch->resolve(&n, a);
    probe_check_names(a, d, &n);
    target *t = ARENA_NEW(a, target);
    *t = (target){.triple = base->triple,
                  .cpu = n.cpu,
                  .features = text_str(&n.features),
                  .level = level_named(base, cpu),
                  .sve_bits = n.sve_bits,
                  .abi = base->abi,
                  .float_abi = base->float_abi,
                  .format = base->format,
                  .arch = base->arch,
                  .ptr_bits = base->ptr_bits,
                  .hosted = base->hosted,
                  .freestanding = base->freestanding,
                  .little_endian = true,
                  .fp = base->fp,
                  .precision = base->precision,
                  .threads = base->threads,
                  .opt = base->opt,
                  .size_level = base->size_level};
    t->compact = t->level && t->level->compact && t->opt < 3;
    ask_facts(a, d, n.arch, t);
    return t;
}

// Shared memory of a block on every GPU that runs code for these architectures, which includes later ones
// with the same first digit: 8.x and 12.x have 99 KiB, Hopper and the data centre's Blackwell 227 KiB.
static int shared_memory_of(const char *archs) {
    int least = archs ? 227 << 10 : 64 << 10;
    for (const char *s = archs; s && (s = strstr(s, "sm_")); s += 3) {
        int sm = atoi(s + 3), own = sm < 80 ? 64 << 10 : sm < 90 || sm >= 120 ? 99 << 10 : 227 << 10;
        if (own < least) least = own;
    }
    return least;
}

target *target_for_c(arena *a, const target_options *o) {
    target *t = ARENA_NEW(a, target);
    *t = (target){.arch = {.name = "c", .is_text = true},
                  .ptr_bits = 64,
                  .f32 = true,
                  .f64 = true,
                  .little_endian = true,
                  .fp = o->fp,
                  .opt = 2,
                  .threads = o->threads ? o->threads : 1,
                  .hosted = !o->freestanding,
                  .freestanding = o->freestanding};
    return t;
}

target *target_for_cuda(arena *a, const target_options *o) {
    target *t = target_for_c(a, o);
    bool named = o->cpu && flag_after(o->cpu, "sm_");
    t->arch = (arch){.name = "cuda", .is_text = true, .is_gpu = true};
    t->fma = t->f16_convert = t->round_instr = true;
    t->bf16_convert = o->fp != FP_STRICT; // NaNs get other bits
    t->sm = named ? atoi(o->cpu + 3) : 80;
    t->warpgroups = o->cpu && t->sm >= 80 && strstr(o->cpu, "sm_90a");
    t->shared_most = shared_memory_of(o->cpu);
    t->precision = o->precision;
    // Small GPUs have 40, large ones 148, H100 and H200 132.
    t->processors = t->shared_most > 99 << 10 ? 132 : 100;
    return t;
}

bool target_is_host_arch(const target *t) {
    arena *a = arena_new();
    const char *host = host_triple(a);
    const arch_row *row = find_arch(host);
    bool same = row && t->triple && row == find_arch(t->triple) && pointer_bits(row, host) == t->ptr_bits;
    arena_destroy(a);
    return same;
}

bool target_runs_here(arena *a, diag *d, const target *t) {
    target_names host = {.triple = host_triple(a), .features = {.arena = a}};
    host.arch = find_arch(host.triple);
    if (!target_is_host_arch(t) || !strstr(t->triple, "linux")) return false;
    use_host_cpu(&host, a, d);
    probe_initialise();
    return probe_is_subset(d, t, host.cpu, text_str(&host.features));
}

// ---------------------------------------------------------------- --list-targets
static void list_cpus(text *t, const arch_row *arch) {
    int column = 0;
    text_printf(t, "\n%s CPUs (--mcpu):\n", arch->title);
    for (const char *p = arch->cpus + 1; *p; p += strspn(p, " ")) {
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
                 "  x86_64-windows-gnu x86_64-windows-msvc             hosted, COFF\n"
                 "  aarch64-windows-gnu aarch64-windows-msvc           hosted, COFF\n"
                 "  x86_64-apple-macos arm64-apple-macos               hosted, Mach-O\n"
                 "  arm-linux-gnueabi arm-linux-gnueabihf              hosted\n"
                 "  riscv64-linux-gnu riscv32-linux-gnu                hosted\n"
                 "  arm-none-eabi arm-none-eabihf aarch64-none-elf     freestanding\n"
                 "  riscv32-none-elf riscv64-none-elf x86_64-none-elf  freestanding\n"
                 "  wasm32 wasm32-wasi                                 WebAssembly, WASI\n"
                 "CPU 'native' is this machine's own with its features. gcc's machine flags (-mcpu, -march,\n"
                 "-mthumb, -mfloat-abi, -mfpu, -mabi, -m32 ...) are taken too.\n");
    for (int i = 0; i < ROWS; i++) list_cpus(&t, rows[i]);
    return text_str(&t);
}
