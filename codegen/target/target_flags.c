// In: gcc's machine flags (-mcpu=, -march=, -mthumb, -mfloat-abi=, -mfpu=, -mabi=, -m32, -mavx2 ...), which
// build systems already have. Out: LLVM's triple, CPU and features.
#include "codegen/target/target_impl.h"
#include <string.h>

const char *find_spelling(const spelling *table, const char *gcc, size_t n) {
    for (; table->gcc; table++)
        for (const char *s = table->gcc; *s; s += strspn(s, " ")) {
            size_t length = strcspn(s, " ");
            if (length == n && !memcmp(s, gcc, n)) return table->llvm;
            s += length;
        }
    return NULL;
}

void names_add_features(target_names *n, const char *list) {
    if (!list || !*list) return;
    if (n->features.n) text_add(&n->features, ",");
    text_add(&n->features, list);
}

// ---------------------------------------------------------------- triples
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

bool triple_is_bare(const char *triple) {
    return strstr(triple, "-none") || strstr(triple, "-elf") || !strcmp(triple + strcspn(triple, "-"), "");
}

// ---------------------------------------------------------------- flags
void names_add_extensions(target_names *n, arena *a, diag *d, const spelling *table, const char *list) {
    while (*list == '+') {
        size_t length = strcspn(++list, "+");
        const char *known = find_spelling(table, list, length);
        bool off = !strncmp(list, "no", 2);
        if (!known && d) diag_error(d, NULL, "unknown extension '+%.*s'", (int)length, list);
        else if (!known && off) known = arena_printf(a, "-%.*s", (int)length - 2, list + 2);
        else if (!known) known = arena_printf(a, "+%.*s", (int)length, list);
        names_add_features(n, known);
        list += length;
    }
}

static void set_width(target_names *n, arena *a, const char *architecture) {
    if (architecture) n->triple = triple_with_part(a, n->triple, 0, architecture);
}

// Features after the CPU's name have LLVM's names unless the architecture has its own.
static void set_cpu(target_names *n, arena *a, diag *d, const char *value) {
    static const spelling none[] = {{NULL, NULL}};
    size_t length = strcspn(value, "+");
    if (n->arch->set_cpu) {
        n->arch->set_cpu(n, a, d, value);
        return;
    }
    n->cpu = arena_strndup(a, value, length);
    names_add_extensions(n, a, NULL, none, value + length);
}

static void set_march(target_names *n, arena *a, diag *d, const char *value) {
    if (!n->arch->set_march) diag_fatal_missing(d, NULL, "-march is not supported for target %s", n->triple);
    n->arch->set_march(n, a, d, value);
}

const char *flag_after(const char *flag, const char *prefix) {
    size_t n = strlen(prefix);
    return strncmp(flag, prefix, n) ? NULL : flag + n;
}

// Flags of gcc and clang that do not change the code that onnxc emits: -mNAME, -mno-NAME, -mNAME=VALUE.
static bool is_neutral(const char *flag) {
    static const spelling names[] = {
        {"accumulate-outgoing-args cet-switch direct-extern-access fentry fix-cortex-a53-835769 "
         "fix-cortex-a53-843419 "
         "indirect-branch-register inline-all-stringops inline-stringops-dynamically long-calls manual-endbr "
         "ms-bitfields omit-leaf-frame-pointer outline-atomics push-args record-mcount red-zone relax "
         "relax-all retpoline skip-rax-setup slow-flash-data stack-arg-probe stackrealign strict-align "
         "thumb-interwork tls-direct-seg-refs unaligned-access vzeroupper "
         "align-data= asm= branch-cost= branch-protection= cmodel= fpmath= function-return= harden-sls= "
         "incoming-stack-boundary= indirect-branch= large-data-threshold= memcpy-strategy= memset-strategy= "
         "prefer-vector-width= preferred-stack-boundary= stack-alignment= stack-protector-guard= "
         "stack-protector-guard-offset= stack-protector-guard-reg= tls-dialect= tls-size= tune=",
         ""},
        {NULL, NULL}};
    const char *name = flag_after(flag, "-mno-");
    if (!name) name = flag_after(flag, "-m");
    size_t n = name ? strcspn(name, "=") : 0;
    return name && find_spelling(names, name, n + (name[n] == '='));
}

static void apply_flag(target_names *n, arena *a, diag *d, const char *f) {
    const char *v;
    if ((v = flag_after(f, "-mcpu="))) set_cpu(n, a, d, v);
    else if ((v = flag_after(f, "-mattr="))) names_add_features(n, v); // as llc and this compiler's --mattr
    else if ((v = flag_after(f, "-march="))) set_march(n, a, d, v);
    else if ((v = flag_after(f, "-mabi="))) n->abi = n->arch->has_abis ? v : NULL;
    else if (!strcmp(f, "-m32")) set_width(n, a, n->arch->narrow);
    else if (!strcmp(f, "-m64")) set_width(n, a, n->arch->wide);
    else if (!is_neutral(f) && !(n->arch->set_flag && n->arch->set_flag(n, a, d, f)))
        diag_fatal(d, NULL, "unknown machine flag '%s' for target %s", f, n->triple);
}

void names_apply_flags(target_names *n, arena *a, diag *d, const char *const *flags, int nflags) {
    if (n->cpu) set_cpu(n, a, d, n->cpu);
    for (int i = 0; i < nflags; i++) apply_flag(n, a, d, flags[i]);
}
