// WebAssembly, 32 bits. Modules take what browsers and Node.js have had since 2023 (the second version of the
// standard): 128-bit SIMD, bulk memory, conversions that do not trap.
#include "codegen/target/target_impl.h"
#include <string.h>

// -mrelaxed-simd, -mno-simd128
static bool set_flag(target_names *n, arena *a, diag *d, const char *flag) {
    (void)d;
    if (strncmp(flag, "-m", 2)) return false;
    bool off = !strncmp(flag + 2, "no-", 3);
    names_add_features(n, arena_printf(a, "%c%s", off ? '-' : '+', flag + (off ? 5 : 2)));
    return true;
}

// "wasm32" alone is not a bare machine: the module's memory grows. Features given by the user follow the defaults.
static void resolve(target_names *n, arena *a) {
    static const char defaults[] = "+simd128,+bulk-memory,+nontrapping-fptoint,+sign-ext,+mutable-globals";
    if (!strchr(n->triple, '-')) n->triple = arena_printf(a, "%s-unknown-unknown", n->triple);
    if (n->cpu) return;
    text given = n->features;
    n->features = (text){.arena = a};
    names_add_features(n, defaults);
    names_add_features(n, text_str(&given));
}

static void fill_wasm(target *t, arena *a, diag *d) {
    enum { SIMD, RELAXED, N };
    static const char *const names[N] = {"simd128", "simd128,+relaxed-simd"};
    bool has[N];
    probe_features(a, d, t, NULL, names, N, has);
    t->f32 = t->f64 = t->round_instr = true;
    t->vector_bits = has[SIMD] ? 128 : 0;
    t->vector_regs = has[SIMD] ? 16 : 0; // of the processor below, x86-64 or more
    t->relaxed_muladd = has[RELAXED] && t->fp != FP_STRICT;
    t->folder = "wasm32-wasi";
    t->threads = 1;
}

const arch_row arch_wasm = {
    .facts = {.name = "wasm32",
              .divides_floats = true,
              .dot = DOT_WASM,
              .no_unwind_tables = true,
              .is_wasm = true,
              .compiled_again = true},
    .title = "WebAssembly",
    .cpus = wasm_cpus,
    .features = wasm_features,
    .prefixes = {{"wasm32", 32, "generic"}},
    .set_flag = set_flag,
    .resolve = resolve,
    .fill = fill_wasm,
};
