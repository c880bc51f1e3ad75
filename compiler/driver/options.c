// The table of compiler options, and values derived from it.
#include "compiler/driver/options.h"
#include "codegen/c/cname.h"
#include "codegen/gpu/nvrtc.h"
#include "compiler/driver/custom.h"
#include "compiler/driver/formats.h"
#include "compiler/driver/gpu_native.h"
#include "compiler/driver/pass_run.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define AT(field)           offsetof(options, field)
#define OUTPUT              "Output"
#define TARGET              "Target"
#define EFFORT              "Effort and precision"
#define MODEL               "Model"
#define INSIGHT             "Messages and insight"
#define NAME(id, name, ...) "|" name
#define SECTION_CHARACTERS  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._$"

const option compile_options[] = {
    {"--output", "-o", "FILE", OPT_TEXT, AT(output), OUTPUT,
     "write the result to FILE; '-' is standard output; default: the model's name with the extension of "
     "--emit"},
    {"--emit", NULL, &FORMATS(NAME)[1], OPT_CHOICE, AT(emit), OUTPUT,
     "kind of output; default: given by the extension of the output file, otherwise obj",
     .synonyms = "o=obj|object=obj|a=lib|archive=lib|so=shared|dll=shared"},
    {"-c", NULL, NULL, OPT_WORD, AT(emit), OUTPUT, "the same as --emit=obj", .word = "obj"},
    {"-S", NULL, NULL, OPT_WORD, AT(emit), OUTPUT, "the same as --emit=asm", .word = "asm"},
    {"-shared", NULL, NULL, OPT_WORD, AT(emit), OUTPUT, "the same as --emit=shared", .word = "shared"},
    {"--opset", NULL, "N|DOMAIN=N", OPT_LIST, AT(opsets), OUTPUT,
     "opset of a written ONNX model, up or down; may be repeated; default: the model's own if it has all "
     "operators"},
    {"--header", NULL, "FILE", OPT_TEXT, AT(header), OUTPUT,
     "write the C header to FILE; default: beside the output"},
    {"--depfile", "-MF", "FILE", OPT_TEXT, AT(depfile), OUTPUT,
     "write a Makefile dependency file: every output depends on the model and its external data"},
    {"--name", NULL, "IDENT", OPT_TEXT, AT(name), OUTPUT,
     "prefix of the C identifiers; default: the name of the output file without its extension",
     .incidental = true},

    {"--target", NULL, "TRIPLE", OPT_TEXT, AT(triple), TARGET,
     "target triple, as in LLVM; *-none-* implies --freestanding --threads 1 -Os; default: this machine"},
    {"--mcpu", NULL, "CPU", OPT_TEXT, AT(cpu), TARGET, "CPU of the target; 'native' is this machine's"},
    {"--mattr", NULL, "+x,-y", OPT_TEXT, AT(features), TARGET, "CPU features to add and remove"},
    {"-m", NULL, "...", OPT_WHOLE, AT(machine), TARGET,
     "machine flags of gcc: -mcpu=, -mthumb, -mfloat-abi=, -mfpu=, -march=, -mabi=, -mavx2 ...; flags that "
     "do not concern onnxc's code (-mtune=, -mno-red-zone ...) are accepted"},
    {"--multiversion", NULL, "CPU,...", OPT_TEXT, AT(multiversion), TARGET,
     "one object with a variant for each CPU level, selected at run time; default: the levels of the target, "
     "unless a CPU or its features are chosen"},
    {"--device", NULL, "cpu|cuda|cuda,cpu", OPT_CHOICE, AT(device), TARGET, "backend; default: cpu",
     .synonyms = "gpu=cuda|cuda:0=cuda"},
    {"--gpu-arch", NULL, "sm_NN,...", OPT_LIST, AT(gpu_arch), TARGET, "GPU architectures; may be repeated"},
    {"--nvrtc", NULL, "PATH", OPT_TEXT, AT(nvrtc), TARGET,
     "NVIDIA's run-time compiler: libnvrtc.so or a folder that contains it; default: the installed CUDA",
     .incidental = true},
    {"--freestanding", NULL, NULL, OPT_FLAG, AT(freestanding), TARGET,
     "no undefined symbols except memcpy, memmove, memset and memcmp: no libm, no allocation, no threads"},
    {"--threads", NULL, "N", OPT_NUMBER, AT(threads), TARGET,
     "maximum number of threads that the emitted code uses; 1: no thread code at all"},
    {"--real-time", NULL, NULL, OPT_FLAG, AT(real_time), TARGET,
     "fail unless runs neither allocate memory nor take locks nor make system calls; implies --threads 1"},
    {"--linker", NULL, "PROGRAM", OPT_TEXT, AT(linker), TARGET,
     "linker for shared libraries and programs, or a C compiler that links; default: LLD",
     .incidental = true},
    {"--sysroot", NULL, "DIR", OPT_TEXT, AT(sysroot), TARGET, "folder with the target's libraries",
     .incidental = true},
    {"--runner", NULL, "CMD", OPT_TEXT, AT(runner), TARGET,
     "run, test, bench: make a program and run it through CMD, such as qemu-aarch64 or ssh",
     .incidental = true},
    {"--max-workspace", NULL, "BYTES", OPT_TEXT, AT(max_workspace), TARGET,
     "most memory for the workspace, such as 6000 or 6K: kernels at the peak run a few rows at a time; fail "
     "with a table of what takes the space if that is not enough"},
    {"--max-flash", NULL, "BYTES", OPT_TEXT, AT(max_flash), TARGET,
     "most bytes of code and constants; fail with a table of what takes the space if the model needs more"},
    {"--pool", NULL, "NAME=BYTES[@SECTION]", OPT_LIST, AT(pools), TARGET,
     "memory for temporaries instead of one workspace, such as tightly coupled memory; may be repeated, the "
     "fastest "
     "first; the caller passes it, or it is in SECTION of the object"},
    {"--runtime", NULL, "FILE", OPT_TEXT, AT(runtime), TARGET,
     "libonnxc-rt.a for the target; default: the one installed with onnxc", .incidental = true},

    {"-O", NULL, "0|1|2|3|s|z", OPT_CHOICE, AT(level), EFFORT,
     "optimisation level; s and z: for size, and for one CPU level unless --multiversion names more; "
     "default: 2",
     .synonyms = "4=3|fast=3|g=1"},
    {"--fp", NULL, "strict|default|fast", OPT_CHOICE, AT(fp), EFFORT,
     "strict: the same bits everywhere; default: documented error bounds; fast: larger bounds"},
    {"-f", NULL, "...", OPT_WHOLE, AT(algorithms), EFFORT,
     "-fno-winograd: no Winograd convolutions; -fwinograd: wherever they are legal; default: where faster; "
     "flags that do not concern onnxc's code (-fPIC, -fstack-protector-strong ...) are accepted"},
    {"--disable-pass", NULL, "PASS", OPT_LIST, AT(disabled), EFFORT,
     "skip an optional pass or group of passes; may be repeated"},
    {"--precision", NULL, "f32|bf16|f16|int8|tf32", OPT_CHOICE, AT(precision), EFFORT,
     "reduced precision allowed in matrix products (CPUs: bf16, f16, int8); default: the model's own"},
    {"--blas", NULL, "cblas|none|PATH", OPT_TEXT, AT(blas), EFFORT,
     "cblas: large products of inputs call cblas_sgemm and cblas_dgemm, to be linked (-lopenblas); PATH, "
     "none: "
     "library for products of --interpret; default: the installed OpenBLAS",
     .incidental = true},
    {"--jobs", "-j", "N", OPT_NUMBER, AT(jobs), EFFORT,
     "number of compile threads, or of worker processes of test; default: the CPUs that this process may "
     "use, 1 for test",
     .incidental = true},
    {"--tune", NULL, "[=SECONDS]", OPT_TEXT, AT(tune), EFFORT,
     "measure variants of the kernels on this machine for SECONDS and use the fastest; default: 60",
     .incidental = true},
    {"--tune-db", NULL, "FILE", OPT_TEXT, AT(tune_db), EFFORT,
     "use results of an earlier --tune from FILE; with --tune: store them there", .incidental = true},
    {"--cache", NULL, "DIR", OPT_TEXT, AT(cache), EFFORT,
     "folder in which compiled code is stored and reused; never changes the result", .incidental = true},

    {"--dim", NULL, "NAME=N", OPT_LIST, AT(dims), MODEL,
     "bind a symbolic dimension (NAME=N), bound it (NAME=MIN:MAX), or compile a version for each of several "
     "sizes (NAME=1,8,1:64); may be repeated"},
    {"--shape", NULL, "NAME=NxCx8", OPT_LIST, AT(shapes), MODEL,
     "shape of an input or output: numbers are fixed sizes, names are symbolic; '*4' is every rank up to 4 "
     "of an "
     "input without a rank; may be repeated"},
    {"--io-dtype", NULL, "NAME=TYPE", OPT_LIST, AT(io_dtype), MODEL,
     "pass an input or output in its quantised form"},
    {"--io-layout", NULL, "NAME=nhwc", OPT_LIST, AT(io_layout), MODEL,
     "pass an input or output channels-last"},
    {"--last", NULL, "OUTPUT", OPT_LIST, AT(last), MODEL,
     "give the last position of OUTPUT, along the axis before its last one, and compute no others; may be "
     "repeated"},
    {"--state", NULL, "OUT=IN", OPT_LIST, AT(state), MODEL,
     "output OUT is input IN of the next call, updated in place"},
    {"--stream", NULL, "INPUT:AXIS=N", OPT_LIST, AT(stream), MODEL,
     "a run takes the next N samples of a signal, along that axis of INPUT, and gives the next samples of "
     "the outputs; may be "
     "repeated"},
    {"--stream-delay", NULL, "N", OPT_NUMBER, AT(stream_delay), MODEL,
     "let outputs of --stream come up to N samples later than those of the model"},
    {"--stream-capacity", NULL, "N", OPT_NUMBER, AT(stream_capacity), MODEL,
     "where attention of --stream sees all earlier samples, keep the last N"},
    {"--constant", NULL, "NAME=VALUE", OPT_LIST, AT(fixed), MODEL,
     "every element of input NAME is VALUE, a number, true or false; the input is left out; may be repeated"},
    {"--override", NULL, "NAME|all", OPT_LIST, AT(override), MODEL,
     "let callers replace the default value of an input, which is a constant otherwise; may be repeated"},
    {"--capacities", NULL, NULL, OPT_FLAG, AT(capacities), MODEL,
     "outputs whose size is not constant have a member for their capacity in NAME_out; runs refuse buffers "
     "that are too "
     "small"},
    {"--weights", NULL, "embed|FILE", OPT_TEXT, AT(weights), MODEL,
     "store constants in the object or in a separate file", .incidental = true},
    {"--const-section", NULL, "SECTION", OPT_TEXT, AT(const_section), MODEL,
     "place constants in sections SECTION.SYMBOL instead of .rodata.SYMBOL (ELF objects, C)"},
    {"--check-weights", NULL, NULL, OPT_FLAG, AT(check_weights), MODEL,
     "add 'int NAME_check_weights(void)', which compares a CRC-32 of all constants with that of this "
     "compilation"},
    {"--hook", NULL, "SYMBOL", OPT_TEXT, AT(hook), MODEL,
     "call 'int SYMBOL(void *user, uint32_t kernel)' between kernels; non-zero cancels"},
    {"--custom-op", NULL, "DOMAIN::NAME=SYMBOL[,...]", OPT_LIST, AT(custom_op), MODEL,
     "nodes of that operator call 'int SYMBOL(onnxc_custom_call *call)' (onnxc_custom.h); ',same', ',shape', "
     "',workspace[=BYTES]': where types, sizes and workspace come from; may be repeated"},
    {"--custom-lib", NULL, "FILE", OPT_TEXT, AT(custom_lib), MODEL,
     "run, test, bench: shared library with the functions of --custom-op", .incidental = true},
    {"--nchwc-block", NULL, "8|16", OPT_CHOICE, AT(nchwc_block), MODEL,
     "channels in a block of com.microsoft.nchwc, in files that do not tell it"},
    {"--external-data-dir", NULL, "DIR", OPT_TEXT, AT(external_data_dir), MODEL,
     "additional folder for external tensor data", .incidental = true},
    {"--check-interface", NULL, "FILE.json", OPT_TEXT, AT(check_interface), MODEL,
     "fail if names, dtypes or dims differ from those in FILE (written by --emit=json)", .incidental = true},

    {"--verbose", "-v", NULL, OPT_FLAG, AT(verbose), INSIGHT, "print more"},
    {"--print-after", NULL, "PASS", OPT_TEXT, AT(print_after), INSIGHT,
     "print the graph, kernels, loops or code after PASS, or after every pass with 'all'; PASS:NAME: only "
     "kernels with NAME in their names"},
    {"--stop-after", NULL, "PASS", OPT_TEXT, AT(stop_after), INSIGHT,
     "stop after PASS; of the outputs, only a graph is written (--emit=ir, onnx, dot)"},
    {"--passes", NULL, "PASS,...", OPT_TEXT, AT(passes), INSIGHT,
     "run only these passes on the kernels, in this order; an empty list runs none"},
    {"--times", NULL, "FILE", OPT_TEXT, AT(times), INSIGHT,
     "show kernel times from FILE (written by 'onnxc bench --save-times') in reports"},
    {"--time-passes", NULL, NULL, OPT_FLAG, AT(time_passes), INSIGHT, "print the time of each pass"},
    {"--remarks", NULL, NULL, OPT_FLAG, AT(remarks), INSIGHT,
     "print what the passes did, and what they could not do and why"},
    {"-W", NULL, "...", OPT_WHOLE, AT(warnings), INSIGHT,
     "-Werror: warnings are errors; -Werror=NAME: one of them is; -Wno-NAME turns one off; messages end with "
     "the "
     "names of warnings"},
    {"-g", NULL, NULL, OPT_FLAG, AT(debug_info), INSIGHT,
     "debug information: functions are named after their kernels, lines are those of --emit=loops"},
    {"--error-limit", NULL, "N", OPT_NUMBER, AT(error_limit), INSIGHT, "stop after N errors; default: 20"},
    {"--diagnostics", NULL, "text|json|sarif", OPT_CHOICE, AT(diagnostics), INSIGHT,
     "format of the messages"},
    {"--color", NULL, "auto|always|never", OPT_CHOICE, AT(color), INSIGHT,
     "colours in messages; default: auto"},
    {NULL},
};

options options_default(void) { return (options){0}; }

static const struct algorithm_word {
    const char *word;
    choice winograd;
} algorithm_words[] = {{"-fwinograd", CHOICE_ALWAYS}, {"-fno-winograd", CHOICE_NEVER}};

// Flags of compilers that hold for all code, or do not concern it, as distributions pass them: -fNAME, -fno-NAME, -fNAME=VALUE.
static bool is_neutral(const char *word) {
    static const char names[] =
        " PIC pic PIE pie function-sections data-sections asynchronous-unwind-tables unwind-tables "
        "exceptions "
        "common ident plt semantic-interposition stack-protector stack-protector-all "
        "stack-protector-explicit "
        "stack-protector-strong stack-clash-protection cf-protection omit-frame-pointer "
        "optimize-sibling-calls strict-aliasing strict-overflow wrapv delete-null-pointer-checks "
        "merge-constants zero-initialized-in-bss builtin inline short-enums fat-lto-objects "
        "color-diagnostics "
        "cf-protection= debug-prefix-map= diagnostics-color= file-prefix-map= lto= macro-prefix-map= "
        "max-errors= stack-usage tls-model= trivial-auto-var-init= visibility= zero-call-used-regs= ";
    const char *name = word + strlen("-f");
    if (strncmp(name, "no-", 3) == 0) name += 3;
    size_t n = strcspn(name, "=");
    n += name[n] == '=';
    for (const char *s = names; n && (s = strstr(s, " ")) && s[1]; s++)
        if (strncmp(s + 1, name, n) == 0 && s[1 + n] == ' ') return true;
    return false;
}

static const struct algorithm_word *find_algorithm(const char *word) {
    for (size_t j = 0; j < sizeof algorithm_words / sizeof *algorithm_words; j++)
        if (strcmp(algorithm_words[j].word, word) == 0) return &algorithm_words[j];
    return NULL;
}

algorithm_options options_algorithms(const options *o) {
    algorithm_options a = {.cblas = options_cblas(o)};
    for (int i = 0; i < o->algorithms.n; i++)
        if (find_algorithm(o->algorithms.at[i])) a.winograd = find_algorithm(o->algorithms.at[i])->winograd;
    return a;
}

static void check_algorithms(diag *d, const options *o) {
    for (int i = 0; i < o->algorithms.n; i++) {
        const char *word = o->algorithms.at[i], *other = option_elsewhere(word);
        if (find_algorithm(word) || is_neutral(word)) continue;
        if (other) diag_hint(d, "here this is %s", other);
        diag_error(d, NULL, "unknown option '%s'; the -f options are -fwinograd and -fno-winograd", word);
    }
}

static void missing_if(diag *d, bool asked, const char *what) {
    if (asked) diag_missing(d, NULL, "%s is not supported by this build", what);
}

string_list options_passes(arena *a, const options *o) {
    return o->passes && *o->passes ? split_words(a, o->passes, ',') : (string_list){0};
}

static const pass *check_pass(arena *a, diag *d, const char *option, const char *name, bool over_kernels) {
    const pass *found = pass_find(name);
    if (found && (!over_kernels || found->level == GOAL_PROGRAM)) return found;
    diag_hint(d, "passes: %s", pass_names(a, over_kernels));
    diag_error(d, NULL, "%s: there is no pass '%s'", option, name);
    return NULL;
}

// PASS, all, PASS:KERNEL or all:KERNEL.
static void check_print(arena *a, diag *d, const char *said) {
    const char *colon = said ? strchr(said, ':') : NULL;
    if (!said) return;
    const char *name = colon ? arena_strndup(a, said, (size_t)(colon - said)) : said;
    const pass *r = strcmp(name, "all") == 0 ? NULL : check_pass(a, d, "--print-after", name, false);
    if (r && colon && r->level == GOAL_GRAPH)
        diag_error(d, NULL, "--print-after=%s: the result of '%s' is a graph, which has no kernels", said,
                   name);
}

static void check_disabled(arena *a, diag *d, const options *o) {
    for (int i = 0; i < o->disabled.n; i++) {
        const char *name = o->disabled.at[i];
        if (check_pass(a, d, "--disable-pass", name, false) && !pass_may_be_disabled(name))
            diag_error(d, NULL, "--disable-pass: '%s' is required", name);
    }
}

static void check_passes(arena *a, diag *d, const options *o) {
    string_list given = options_passes(a, o);
    for (int i = 0; i < given.n; i++) check_pass(a, d, "--passes", given.at[i], true);
}

// Of macros and libraries only: a build may pass all flags, but these ask for something that is not done.
static void unused_argument(diag *d, const char *arg) {
    bool macro = arg[1] == 'D', library = arg[1] == 'l' || arg[1] == 'L' || strncmp(arg, "-Wl", 3) == 0;
    if (!macro && !library && strcmp(arg, "-Xlinker") != 0) return;
    if (macro) diag_hint(d, "--dim NAME=N gives a dimension its size");
    diag_warning(d, WARN_UNUSED_ARGUMENT, NULL, "argument unused: '%s' is for %s", arg,
                 macro ? "C compilers" : "linkers");
}

// -Wl,FLAG, -Wa,FLAG, -Wp,FLAG
static bool is_passed_on(const char *warning) {
    return warning[0] && strchr("alp", warning[2]) && warning[2] && warning[3] == ',';
}

static void check_warnings(arena *a, diag *d, const options *o) {
    diag none = {0};
    for (int i = 0; i < o->warnings.n; i++) {
        if (diag_warning_option(&none, o->warnings.at[i])) continue;
        if (is_passed_on(o->warnings.at[i])) {
            unused_argument(d, o->warnings.at[i]);
            continue;
        }
        diag_hint(d, "warnings: %s", warning_names(a));
        diag_warning(d, WARN_UNKNOWN_OPTION, NULL, "unknown warning option '%s'", o->warnings.at[i]);
    }
}

static bool output_is(const options *o, output_kind kind) {
    const format *f = format_of_options(o);
    return f ? f->kind == kind : kind == OUTPUT_CODE;
}

bool options_for_gpu(const options *o) {
    return (o->device && strcmp(o->device, "cuda") == 0) || output_is(o, OUTPUT_KERNELS);
}

bool options_gpu_host(const options *o) { return options_for_gpu(o) && output_is(o, OUTPUT_CODE); }
bool options_kernels_alone(const options *o) { return output_is(o, OUTPUT_KERNELS); }

// Views into the compiler show the CPU part.
bool options_for_both(const options *o) {
    return o->device && strchr(o->device, ',') && output_is(o, OUTPUT_CODE);
}

// The words of all --gpu-arch options; one option may have several.
static string_list arch_names(arena *a, const options *o) {
    string_list all = {0};
    for (int i = 0; i < o->gpu_arch.n; i++) {
        string_list some = split_words(a, o->gpu_arch.at[i], ',');
        for (int j = 0; j < some.n; j++) VEC_PUSH(a, &all, some.at[j]);
    }
    return all;
}

int options_gpu_archs(arena *a, diag *d, const options *o, int **archs) {
    string_list names = arch_names(a, o);
    bool host = options_gpu_host(o) || options_for_both(o);
    if (o->runs_here && !names.n && host) return gpu_native_archs(a, o->nvrtc, archs);
    *archs = ARENA_ARRAY(a, int, names.n + 1);
    for (int i = 0; i < names.n; i++) {
        const char *s = names.at[i], *digits = strncmp(s, "sm_", 3) ? "" : s + 3;
        bool number = *digits && strlen(digits) < 4 && strspn(digits, "0123456789") == strlen(digits);
        bool own = !strcmp(digits, "90a"); // uses wgmma
        if (!number && !own) diag_error(d, NULL, "--gpu-arch=%s: expected sm_NN or sm_90a", s);
        (*archs)[i] = number || own ? (int)strtol(digits, NULL, 10) + (own ? GPU_OWN : 0) : 0;
    }
    return names.n;
}

static void check_device(arena *a, diag *d, const options *o) {
    int *archs, narchs = options_gpu_archs(a, d, o, &archs);
    bool cpu = !o->device || strcmp(o->device, "cpu") == 0;
    const format *f = format_of_options(o);
    if (output_is(o, OUTPUT_KERNELS) && narchs > 1)
        diag_error(d, NULL, "one file holds code for one architecture: give --gpu-arch once");
    if (f && strcmp(f->name, "cubin") == 0 && narchs == 0)
        diag_error(d, NULL, "a cubin is code for one architecture: give --gpu-arch=sm_NN");
    if (options_for_gpu(o) && !options_gpu_host(o))
        missing_if(d, o->header, "--header for GPU kernels alone");
    if (cpu && o->device && output_is(o, OUTPUT_KERNELS))
        diag_error(d, NULL, "CUDA text, PTX and cubins are for --device=cuda");
    if (!options_gpu_host(o) && !options_for_both(o)) return;
    if (f && f->text_target)
        diag_missing(d, NULL,
                     "--device=%s: --emit=c is not supported: emitted C stands alone, but onnxc's runtime "
                     "launches GPU kernels; make an object, or use --emit=cuda for the text of the kernels",
                     o->device);
    missing_if(d, o->freestanding, "--freestanding with --device=cuda");
}

double options_tune_seconds(const options *o) {
    char *end;
    if (!o->tune || !*o->tune) return 60;
    double x = strtod(o->tune, &end);
    return *end || !(x > 0) || x > 1e6 ? 0 : x;
}

// The user links: what is linked here and what stands alone has no CBLAS.
static void check_cblas(diag *d, const options *o) {
    const format *f = format_of_options(o);
    if (!options_cblas(o)) return;
    missing_if(d, o->freestanding, "--blas=cblas with --freestanding");
    missing_if(d, options_for_gpu(o) || options_for_both(o), "--blas=cblas with --device=cuda");
    if (f && (strcmp(f->name, "exe") == 0 || strcmp(f->name, "shared") == 0))
        diag_missing(
            d, NULL,
            "--blas=cblas: --emit=%s is not supported: make an object or an archive and link it with "
            "-lopenblas",
            f->name);
}

const char *options_weights(const options *o) {
    return o->weights && strcmp(o->weights, "embed") != 0 ? o->weights : NULL;
}

int64_t options_max_workspace(const options *o) {
    return o->max_workspace ? parse_bytes(o->max_workspace) : -1;
}
int64_t options_max_flash(const options *o) { return o->max_flash ? parse_bytes(o->max_flash) : -1; }

static void check_bytes(diag *d, const char *option, const char *said) {
    if (said && parse_bytes(said) < 0)
        diag_error(d, NULL, "%s=%s: expected bytes, such as 6000, 6K, 6KiB or 1MiB", option, said);
}

memory_pools options_pools(arena *a, const options *o) {
    memory_pools all = {0};
    for (int i = 0; i < o->pools.n; i++) {
        const char *s = o->pools.at[i], *size = strchr(s, '='), *section = size ? strchr(size, '@') : NULL;
        memory_pool p = {.name = arena_strndup(a, s, size ? (size_t)(size - s) : strlen(s)), .bytes = -1};
        if (section) p.section = section + 1;
        if (size)
            p.bytes =
                parse_bytes(section ? arena_strndup(a, size + 1, (size_t)(section - size - 1)) : size + 1);
        VEC_PUSH(a, &all, p);
    }
    return all;
}

static bool is_section(const char *s) { return *s && strspn(s, SECTION_CHARACTERS) == strlen(s); }

static void check_pools(arena *a, diag *d, const options *o) {
    memory_pools all = options_pools(a, o);
    for (int i = 0; i < all.n; i++) {
        const memory_pool *p = &all.at[i];
        bool good = is_identifier(p->name) && p->bytes >= 0 && (!p->section || is_section(p->section));
        if (!good)
            diag_error(d, NULL,
                       "--pool=%s: expected NAME=BYTES or NAME=BYTES@SECTION, such as dtcm=64K@.dtcm",
                       o->pools.at[i]);
        for (int j = 0; j < i; j++)
            if (strcasecmp(all.at[j].name, p->name) == 0)
                diag_error(d, NULL, "--pool=%s: there is a pool '%s' already", o->pools.at[i],
                           all.at[j].name);
    }
    if (all.n && o->max_workspace)
        diag_error(d, NULL, "--max-workspace: with --pool, the sizes of the pools are the limit");
    missing_if(d, all.n && (options_for_gpu(o) || options_for_both(o)), "--pool with --device=cuda");
}

static void check_budgets(diag *d, const options *o) {
    const format *f = format_of_options(o);
    check_bytes(d, "--max-workspace", o->max_workspace);
    check_bytes(d, "--max-flash", o->max_flash);
    missing_if(d, o->max_workspace && options_for_gpu(o), "--max-workspace with --device=cuda");
    missing_if(d, o->max_flash && f && f->text_target,
               "--max-flash for C text, of which the C compiler makes the code,");
}

// Emitted code calls or defines other functions with these names.
static bool is_other_function(const char *s) {
    static const char *const taken[] = {"main", "memcpy", "memmove", "memset", "memcmp", "malloc", "free"};
    for (size_t j = 0; j < sizeof taken / sizeof *taken; j++)
        if (strcmp(s, taken[j]) == 0) return true;
    return strncmp(s, "onnxc_", 6) == 0 || strncmp(s, "lib_", 4) == 0;
}

void check_symbol(diag *d, const char *option, const char *symbol) {
    if (!is_identifier(symbol)) diag_error(d, NULL, "%s '%s' is not a C identifier", option, symbol);
    else if (c_is_reserved(symbol) || is_other_function(symbol))
        diag_error(d, NULL, "%s '%s': a program cannot define a function of that name, which %s", option,
                   symbol, is_other_function(symbol) ? "emitted code uses" : "C or C++ reserves");
}

static void check_const_section(diag *d, const options *o) {
    const char *s = o->const_section;
    if (!s) return;
    if (!*s || strspn(s, SECTION_CHARACTERS) != strlen(s))
        diag_error(d, NULL, "--const-section='%s': expected a name of letters, digits, '.', '_' and '$'", s);
    if (options_weights(o))
        diag_error(d, NULL,
                   "--const-section: with --weights=FILE the constants are in the file, not in the object");
}

static void check_opsets(diag *d, const options *o) {
    const format *f = format_of_options(o);
    bool model = f && (f->id == FORMAT_ONNX || f->id == FORMAT_TEXTPROTO || f->id == FORMAT_ONNX_JSON ||
                       f->id == FORMAT_ONNXTXT);
    if (o->opsets.n && !model)
        diag_error(d, NULL,
                   "--opset=%s: only ONNX models (--emit=onnx, textproto, onnx-json, onnxtxt) have one",
                   o->opsets.at[0]);
}

static void check_folder(diag *d, const char *option, const char *path) {
    struct stat st;
    if (!path) return;
    if (stat(path, &st) != 0) diag_error(d, NULL, "%s: '%s': %s", option, path, strerror(errno));
    else if (!S_ISDIR(st.st_mode)) diag_error(d, NULL, "%s: '%s' is not a folder", option, path);
}

static void check_precision(diag *d, const options *o) {
    const format *f = format_of_options(o);
    precision p = options_precision(o);
    missing_if(d, p == PRECISION_INT8 && options_for_gpu(o), "--precision=int8 with --device=cuda");
    if (p == PRECISION_OWN || options_for_gpu(o)) return;
    if (p == PRECISION_TF32) diag_missing(d, NULL, "--precision=tf32 needs --device=cuda");
    missing_if(d, p != PRECISION_TF32 && f && f->text_target, "--precision=bf16, f16 or int8 with --emit=c");
}

void options_check(arena *a, diag *d, const options *o) {
    check_opsets(d, o);
    check_const_section(d, o);
    if (o->hook) check_symbol(d, "--hook", o->hook);
    check_custom_ops(a, d, o);
    check_print(a, d, o->print_after);
    if (o->stop_after) check_pass(a, d, "--stop-after", o->stop_after, false);
    check_disabled(a, d, o);
    check_passes(a, d, o);
    check_warnings(a, d, o);
    for (int i = 0; i < o->unused.n; i++) unused_argument(d, o->unused.at[i]);
    check_algorithms(d, o);
    check_device(a, d, o);
    check_cblas(d, o);
    check_precision(d, o);
    check_budgets(d, o);
    check_folder(d, "--external-data-dir", o->external_data_dir);
    check_pools(a, d, o);
    missing_if(d, o->check_weights && (options_for_gpu(o) || options_for_both(o)),
               "--check-weights with --device=cuda");
    missing_if(d, o->tune && options_for_gpu(o), "--tune with --device=cuda");
    missing_if(d, o->override.n && options_for_gpu(o), "--override with --device=cuda");
    if (options_tune_seconds(o) == 0) diag_error(d, NULL, "--tune='%s': expected a time in seconds", o->tune);
    missing_if(d, options_weights(o) && output_is(o, OUTPUT_KERNELS), "--weights=FILE for GPU kernels alone");
}

static void add_option(text *t, const option *x, const options *o) {
    const void *at = (const char *)o + x->at;
    switch (x->kind) {
    case OPT_FLAG:
        if (*(const bool *)at) text_printf(t, "%s\n", x->name);
        break;
    case OPT_WORD: break; // the option for which it is short
    case OPT_TEXT:
    case OPT_CHOICE:
        if (*(const char *const *)at) text_printf(t, "%s=%s\n", x->name, *(const char *const *)at);
        break;
    case OPT_NUMBER:
        if (*(const int64_t *)at) text_printf(t, "%s=%lld\n", x->name, (long long)*(const int64_t *)at);
        break;
    case OPT_REAL:
        if (*(const double *)at != 0) text_printf(t, "%s=%a\n", x->name, *(const double *)at);
        break;
    case OPT_LIST:
    case OPT_WHOLE: {
        const string_list *l = at;
        for (int i = 0; i < l->n; i++) text_printf(t, "%s=%s\n", x->name, l->at[i]);
        break;
    }
    }
}

const char *options_text(arena *a, const options *o) {
    text t = {.arena = a};
    for (const option *x = compile_options; x->name; x++)
        if (!x->incidental && strcmp(x->group, OUTPUT) != 0 && strcmp(x->group, INSIGHT) != 0)
            add_option(&t, x, o);
    if (options_cblas(o)) text_printf(&t, "--blas=cblas\n");
    return text_str(&t);
}

void options_apply(const options *o, diag *d) {
    d->off = d->fatal = 0;
    for (int named = 0; named < 2; named++) // -Werror does not override -Wno-error=NAME
        for (int i = 0; i < o->warnings.n; i++) {
            const char *s = o->warnings.at[i];
            bool all = strcmp(s, "-Werror") == 0 || strcmp(s, "-Wno-error") == 0;
            if (all != (named == 1)) diag_warning_option(d, s);
        }
    d->remarks = o->remarks;
    d->error_limit = o->error_limit > 1000000 ? 1000000 : (int)o->error_limit;
}

void options_use_native(options *o) {
    if (!o->cpu && !o->triple && !o->machine.n && !o->multiversion) o->cpu = "native";
    o->runs_here = true;
}

// One variant for each CPU level, unless an option names the CPU.
const char *options_variants(arena *a, const options *o, const target *t) {
    if (o->multiversion) return o->multiversion;
    bool plain = t->ptr_bits == 64 && t->hosted && !t->freestanding && !t->size_level;
    return plain && !t->cpu_chosen ? target_default_levels(a, t) : NULL;
}

fp_mode options_fp(const options *o) {
    if (o->fp && strcmp(o->fp, "strict") == 0) return FP_STRICT;
    return o->fp && strcmp(o->fp, "fast") == 0 ? FP_FAST : FP_DEFAULT;
}

bool options_cblas(const options *o) { return o->blas && strcmp(o->blas, "cblas") == 0; }

precision options_precision(const options *o) {
    static const char *const names[] = {"f32", "tf32", "bf16", "f16", "int8"};
    int i = PRECISION_INT8;
    while (i > 0 && (!o->precision || strcmp(o->precision, names[i]) != 0)) i--;
    return (precision)i;
}

const char *options_dim(const options *o, const char *name) {
    size_t n = strlen(name);
    for (int i = 0; i < o->dims.n; i++)
        if (strncmp(o->dims.at[i], name, n) == 0 && o->dims.at[i][n] == '=') return o->dims.at[i] + n + 1;
    return NULL;
}

int64_t options_size(const options *o, const char *name) {
    const char *said = options_dim(o, name);
    int64_t v;
    return said && parse_int64(said, 0, &v) ? v : -1;
}

bool options_small(const options *o) { return o->level && (o->level[0] == 's' || o->level[0] == 'z'); }

int options_level(const options *o) { return !o->level || options_small(o) ? 2 : o->level[0] - '0'; }

target_options options_target(arena *a, const options *o) {
    target_options t = {.triple = o->triple,
                        .cpu = o->cpu,
                        .features = o->features,
                        .freestanding = o->freestanding,
                        .fp = options_fp(o),
                        .precision = options_precision(o),
                        .threads =
                            o->real_time && !o->threads ? 1 : (int)(o->threads < 1024 ? o->threads : 1024),
                        .opt = o->level};
    for (int i = 0; i < o->machine.n; i++) VEC_PUSH(a, &t.machine, o->machine.at[i]);
    return t;
}
