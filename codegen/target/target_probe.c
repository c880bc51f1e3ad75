// Queries the features of a CPU. LLVM's C interface has no such query, but the inliner compares features: it
// inlines a function only if the caller has every feature of the callee. So a caller for the CPU calls one
// empty function per feature in question, compiled for the same CPU plus that feature; the calls that
// disappear are the features that the CPU has. On RISC-V the inliner does not compare features, but assembly
// has the ISA string.
#include "codegen/target/target_impl.h"
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <string.h>

static void initialise_once(void) {
#define INIT(T, name, triple)                                                                                \
    LLVMInitialize##T##TargetInfo();                                                                         \
    LLVMInitialize##T##Target();                                                                             \
    LLVMInitialize##T##TargetMC();                                                                           \
    LLVMInitialize##T##AsmPrinter();
    ARCHS(INIT)
#undef INIT
}

void probe_initialise(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialise_once);
}

// ---------------------------------------------------------------- names
static bool in_list(arena *a, const char *list, const char *name) {
    return !strchr(name, ' ') && strstr(list, arena_printf(a, " %s ", name));
}

// The names most similar to the wrong one, as "'a', 'b' or 'c'"; "" if none is similar.
static const char *near_names(arena *a, const char *list, const char *wrong) {
    enum { SHOWN = 4, LONGEST = 60 };
    const char *best[SHOWN] = {0};
    size_t given = strlen(wrong);
    int cost[SHOWN], n = 0, limit = (int)(given + 1) / 3;
    for (const char *p = list + strspn(list, " "); *p && given <= LONGEST; p += strspn(p, " ")) {
        size_t length = strcspn(p, " ");
        const char *name = arena_strndup(a, p, length);
        int c = edit_distance(a, wrong, name), at = n;
        if (c <= limit) {
            while (at > 0 && cost[at - 1] > c) at--;
            for (int i = n < SHOWN ? n : SHOWN - 1; i > at; i--) best[i] = best[i - 1], cost[i] = cost[i - 1];
            if (at < SHOWN) best[at] = name, cost[at] = c;
            if (n < SHOWN) n++;
        }
        p += length;
    }
    text t = {.arena = a};
    for (int i = 0; i < n; i++) text_printf(&t, "%s'%s'", !i ? "" : i == n - 1 ? " or " : ", ", best[i]);
    return text_str(&t);
}

static void unknown_name(arena *a, diag *d, const char *what, const char *list, const char *name,
                         const char *triple) {
    const char *near = near_names(a, list, name);
    if (*near) diag_hint(d, "did you mean %s?", near);
    else diag_hint(d, "--list-targets lists them");
    diag_error(d, NULL, "unknown %s '%s' for target %s", what, name, triple);
}

void probe_check_names(arena *a, diag *d, const target_names *n) {
    const char *cpus = n->arch->cpus, *features = n->arch->features;
    if (n->cpu && !in_list(a, cpus, n->cpu)) unknown_name(a, d, "CPU", cpus, n->cpu, n->triple);
    for (const char *p = text_str(&n->features); *p;) {
        size_t length = strcspn(p, ",");
        const char *item = arena_strndup(a, p, length);
        if (*item != '+' && *item != '-') {
            if (*item) diag_error(d, NULL, "feature '%s' needs '+' or '-' before its name", item);
        } else if (!in_list(a, features, item + 1)) {
            unknown_name(a, d, "feature", features, item + 1, n->triple);
        }
        p += length + (p[length] == ',');
    }
    diag_check(d);
}

// ---------------------------------------------------------------- queries
typedef struct probe {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetMachineRef machine;
    LLVMTypeRef type; // void (void)
} probe;

static probe probe_open(diag *d, const char *triple, const char *cpu, const char *features) {
    probe p = {0};
    LLVMTargetRef t;
    char *message = NULL;
    probe_initialise();
    if (LLVMGetTargetFromTriple(triple, &t, &message)) {
        LLVMDisposeMessage(message);
        diag_fatal_missing(d, NULL, "target '%s' is not supported", triple);
    }
    p.machine = LLVMCreateTargetMachine(t, triple, cpu, features, LLVMCodeGenLevelLess, LLVMRelocStatic,
                                        LLVMCodeModelDefault);
    p.context = LLVMContextCreate();
    p.module = LLVMModuleCreateWithNameInContext("probe", p.context);
    LLVMSetTarget(p.module, triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(p.machine);
    LLVMSetModuleDataLayout(p.module, layout);
    LLVMDisposeTargetData(layout);
    p.type = LLVMFunctionType(LLVMVoidTypeInContext(p.context), NULL, 0, 0);
    return p;
}

static void probe_close(probe *p) {
    LLVMDisposeTargetMachine(p->machine);
    LLVMDisposeModule(p->module);
    LLVMContextDispose(p->context);
}

// Adds an empty function for that CPU and positions the builder before its return.
static LLVMValueRef add_function(probe *p, LLVMBuilderRef b, const char *name, const char *cpu,
                                 const char *features) {
    LLVMValueRef f = LLVMAddFunction(p->module, name, p->type);
    LLVMAddTargetDependentFunctionAttr(f, "target-cpu", cpu);
    LLVMAddTargetDependentFunctionAttr(f, "target-features", features);
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(p->context, f, ""));
    LLVMPositionBuilderBefore(b, LLVMBuildRetVoid(b));
    return f;
}

// Sets inlined[i] if the inliner puts callee i into a function for that CPU.
static void run_inliner(probe *p, diag *d, LLVMBuilderRef b, const char *cpu, const char *features,
                        LLVMValueRef *callees, int n, bool *inlined) {
    add_function(p, b, "caller", cpu, features);
    for (int i = 0; i < n; i++) LLVMBuildCall2(b, p->type, callees[i], NULL, 0, "");
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef e = LLVMRunPasses(p->module, "cgscc(inline)", p->machine, options);
    LLVMDisposePassBuilderOptions(options);
    for (int i = 0; i < n; i++) inlined[i] = !LLVMGetFirstUse(callees[i]);
    if (!e) return;
    LLVMConsumeError(e);
    diag_defect(d, NULL, "LLVM's inliner failed");
}

// The sign of a feature in the list: '+' or '-', 0 if it is not listed.
static char sign_of(const char *list, const char *name, size_t length) {
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (n == length + 1 && !strncmp(p + 1, name, length)) return *p;
        p += n + (p[n] == ',');
    }
    return 0;
}

// Answers from two lists that are, together, closed under implication. complete: what they do not name is absent; otherwise that is
// not known, and the result is false.
static bool read_lists(const char *const lists[2], bool complete, const char *const *names, int n,
                       bool *has) {
    for (int i = 0; i < n; i++) {
        has[i] = true;
        for (const char *p = names[i]; *p;) {
            p += *p == ',' ? 2 : 0; // "avx2,+fma"
            size_t length = strcspn(p, ",");
            char sign = sign_of(lists[0], p, length);
            if (!sign) sign = sign_of(lists[1], p, length);
            if (!sign && !complete) return false;
            has[i] &= sign == '+';
            p += length;
        }
    }
    return true;
}

// This machine's list tells of every feature.
static bool read_host(const target *t, const char *const *names, int n, bool *has) {
    char *host = *t->features ? LLVMGetHostCPUFeatures() : NULL;
    bool known = host && !strcmp(host, t->features);
    if (host) LLVMDisposeMessage(host);
    return known && read_lists((const char *const[2]){t->features, ""}, false, names, n, has);
}

// Features that belong to no level may imply some that are not listed.
static bool read_fixed(const target *t, const fixed_cpu *fixed, const char *const *names, int n, bool *has) {
    bool plain = !*t->features || t->level;
    for (; plain && fixed && fixed->cpu; fixed++)
        if (!strcmp(fixed->cpu, t->cpu))
            return read_lists((const char *const[2]){t->features, fixed->features}, true, names, n, has);
    return false;
}

void probe_features(arena *a, diag *d, const target *t, const fixed_cpu *fixed, const char *const *names,
                    int n, bool *has) {
    if (read_host(t, names, n, has) || read_fixed(t, fixed, names, n, has)) return;
    probe p = probe_open(d, t->triple, t->cpu, t->features);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(p.context);
    LLVMValueRef *callees = ARENA_ARRAY(a, LLVMValueRef, n);
    const char *comma = *t->features ? "," : "";
    for (int i = 0; i < n; i++)
        callees[i] =
            add_function(&p, b, names[i], t->cpu, arena_printf(a, "%s%s+%s", t->features, comma, names[i]));
    run_inliner(&p, d, b, t->cpu, t->features, callees, n, has);
    LLVMDisposeBuilder(b);
    probe_close(&p);
}

bool probe_is_subset(diag *d, const target *t, const char *in_cpu, const char *in_features) {
    bool inlined = false;
    probe p = probe_open(d, t->triple, in_cpu, in_features);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(p.context);
    LLVMValueRef callee = add_function(&p, b, "callee", t->cpu, t->features);
    run_inliner(&p, d, b, in_cpu, in_features, &callee, 1, &inlined);
    LLVMDisposeBuilder(b);
    probe_close(&p);
    return inlined;
}

const char *probe_attribute(arena *a, diag *d, const target *t, int attribute) {
    probe p = probe_open(d, t->triple, t->cpu, t->features);
    const char *key = arena_printf(a, ".attribute\t%d, \"", attribute), *value = NULL;
    LLVMMemoryBufferRef out = NULL;
    char *message = NULL;
    if (!LLVMTargetMachineEmitToMemoryBuffer(p.machine, p.module, LLVMAssemblyFile, &message, &out)) {
        const char *s = arena_strndup(a, LLVMGetBufferStart(out), LLVMGetBufferSize(out));
        const char *at = strstr(s, key);
        if (at) value = arena_strndup(a, at + strlen(key), strcspn(at + strlen(key), "\""));
        LLVMDisposeMemoryBuffer(out);
    } else {
        LLVMDisposeMessage(message);
    }
    probe_close(&p);
    if (!value) diag_defect(d, NULL, "LLVM's assembly for %s lacks attribute %d", t->triple, attribute);
    return value;
}
