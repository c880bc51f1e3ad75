// In: an object in memory. Out: addresses, by LLVM's ORC linker. Data symbols are absolute: weights are not
// copied; data that is produced on demand is produced once, here.
#include "codegen/llvm/load.h"
#include "codegen/llvm/llvm.h"
#include "codegen/target/llvm_guard.h"
#include "codegen/target/target_impl.h"
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <string.h>

struct loaded {
    arena *arena;
    diag *diag;
    LLVMOrcLLJITRef jit;
    text errors; // what the linker reports besides its return values
    bytes object;
    const load_name *names;
    int nnames;
};

static const char *take_error(arena *a, LLVMErrorRef error) {
    char *s = LLVMGetErrorMessage(error);
    const char *copy = arena_strdup(a, s);
    LLVMDisposeErrorMessage(s);
    return copy;
}

static void on_error(void *user, LLVMErrorRef error) {
    loaded *l = user;
    text_printf(&l->errors, "%s%s", l->errors.n ? "; " : "", take_error(l->arena, error));
}

static void check(loaded *l, LLVMErrorRef error, const char *doing) {
    if (!error) return;
    const char *s = take_error(l->arena, error);
    diag_defect(l->diag, NULL, "%s: %s%s%s", doing, s, l->errors.n ? ": " : "", text_str(&l->errors));
}

static void loaded_close(loaded *l) {
    if (!l->jit) return;
    LLVMErrorRef error = LLVMOrcDisposeLLJIT(l->jit);
    l->jit = NULL;
    if (error) LLVMConsumeError(error);
}

static void close_loaded(void *l) { loaded_close(l); }

static void define_names(loaded *l) {
    if (!l->nnames) return;
    LLVMOrcCSymbolMapPair *pairs = ARENA_ARRAY(l->arena, LLVMOrcCSymbolMapPair, l->nnames);
    for (int i = 0; i < l->nnames; i++) {
        pairs[i].Name = LLVMOrcLLJITMangleAndIntern(l->jit, l->names[i].name);
        pairs[i].Sym.Address = (LLVMOrcExecutorAddress)(uintptr_t)l->names[i].address;
        pairs[i].Sym.Flags.GenericFlags = LLVMJITSymbolGenericFlagsExported;
    }
    LLVMOrcMaterializationUnitRef unit = LLVMOrcAbsoluteSymbols(pairs, (size_t)l->nnames);
    check(l, LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(l->jit), unit),
          "defining symbols for loading");
}

static void run(void *user) {
    loaded *l = user;
    probe_initialise();
    check(l, LLVMOrcCreateLLJIT(&l->jit, NULL), "starting the in-process linker");
    arena_on_destroy(l->arena, close_loaded, l);
    LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(l->jit), on_error, l);
    define_names(l);
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(l->object.at, l->object.n, "loaded.o");
    check(l, LLVMOrcLLJITAddObjectFile(l->jit, LLVMOrcLLJITGetMainJITDylib(l->jit), buffer),
          "loading an object");
}

// The same for an object of kind EMIT_LOADABLE without module data.
static loaded *load_object(arena *a, diag *d, bytes object, const load_name *outside, int n) {
    loaded *l = ARENA_NEW(a, loaded);
    *l = (loaded){
        .arena = a, .diag = d, .errors = {.arena = a}, .object = object, .names = outside, .nnames = n};
    llvm_guard(d, DIAG_DEFECT, "loading code", run, l);
    return l;
}

typedef struct lookup {
    loaded *l;
    const char *name;
    LLVMErrorRef error;
    LLVMOrcExecutorAddress address;
} lookup;

static void run_lookup(void *user) {
    lookup *x = user;
    x->error = LLVMOrcLLJITLookup(x->l->jit, &x->address, x->name);
}

static lookup look_up(loaded *l, const char *name) {
    lookup x = {.l = l, .name = name};
    llvm_guard(l->diag, DIAG_DEFECT, "linking code in memory", run_lookup, &x);
    return x;
}

void *loaded_symbol(loaded *l, const char *name) {
    lookup x = look_up(l, name);
    if (!x.error) return (void *)(uintptr_t)x.address;
    LLVMConsumeError(x.error);
    return NULL;
}

// ---------------------------------------------------------------- modules
static const void *data_address(arena *a, const ldata *d) {
    size_t align = d->align > 0 ? (size_t)d->align : 1;
    if (d->bytes_or_null && (uintptr_t)d->bytes_or_null % align == 0) return d->bytes_or_null;
    char *block = arena_alloc(a, (size_t)d->bytes + align);
    char *at = block + (align - (uintptr_t)block % align) % align;
    if (!d->variable) ldata_copy(d, 0, at, d->bytes);
    return at;
}

// The first lookup links the code. Forces it, so that undefined symbols are reported here.
static void link_now(loaded *l, const lmodule *m) {
    for (int i = 0; i < m->funcs.n; i++) {
        if (!m->funcs.at[i]->body || !m->funcs.at[i]->exported) continue;
        lookup x = look_up(l, m->funcs.at[i]->name);
        check(l, x.error, "linking code in memory");
        return;
    }
}

loaded *load_module(arena *a, diag *d, const lmodule *m, const load_name *outside, int n) {
    return load_emitted(a, d, m, llvm_emit(m, EMIT_LOADABLE, a, d), outside, n);
}

loaded *load_emitted(arena *a, diag *d, const lmodule *m, bytes object, const load_name *outside, int n) {
    load_name *names = ARENA_ARRAY(a, load_name, n + m->data.n);
    for (int i = 0; i < n; i++) names[i] = outside[i];
    for (int i = 0; i < m->data.n; i++)
        names[n + i] = (load_name){m->data.at[i]->name, data_address(a, m->data.at[i])};
    loaded *l = load_object(a, d, object, names, n + m->data.n);
    link_now(l, m);
    return l;
}
