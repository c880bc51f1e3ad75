// In: a module. Out: bytes in the arena, by LLVM: context, functions, passes, machine code.
#include "codegen/llvm/cache.h"
#include "codegen/llvm/llvm_impl.h"
#include "codegen/target/llvm_guard.h"
#include "codegen/target/target_impl.h"
#include <llvm-c/Analysis.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Error.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <string.h>

typedef struct exits {
    int64_t pointers, breaks;
} exits;

static void count_exits(exits *c, const lblock *b) {
    for (const ins *x = b->first; x; x = x->next) {
        c->pointers += x->op == L_VAR && x->type.kind == LK_PTR;
        c->breaks += x->op == L_BREAK;
        for (int j = 0; j < 2; j++)
            if (x->body[j]) count_exits(c, x->body[j]);
    }
}

// Host code that frees its memory wherever a step fails: LLVM's own pipeline sets each pointer anew at every place from
// which a run leaves the steps.
static bool has_many_exits(const emit *e) {
    enum { MOST_SETS = 10000 };
    for (int i = 0; i < e->m->funcs.n; i++) {
        const lfunc *f = e->m->funcs.at[i];
        exits c = {0};
        if (!f->body || f->kernel || (e->plan && e->plan->piece[i] != e->piece)) continue;
        count_exits(&c, f->body);
        if (c.pointers * c.breaks > MOST_SETS) return true;
    }
    return false;
}

// Schedules emit loops in their final form, so few passes are needed. For size, LLVM's own pipeline is
// better. Functions that call equal kernels for the tasks of threads are equal, too; with -g each keeps its name.
static const char *pipeline(const emit *e) {
    const target *t = e->m->target;
    if (t->size_level && !has_many_exits(e))
        return e->m->debug_info ? "default<Oz>" : "default<Oz>,mergefunc";
    if (t->opt == 0) return "function(mem2reg)";
    if (e->m->debug_info) return "function(mem2reg,early-cse,instcombine<no-verify-fixpoint>,simplifycfg)";
    return "function(mem2reg,early-cse,instcombine<no-verify-fixpoint>,simplifycfg),mergefunc";
}

static LLVMCodeGenOptLevel codegen_level(const target *t) {
    if (t->opt <= 1 && !t->size_level) return LLVMCodeGenLevelLess; // level "none" spills every vector
    return t->opt >= 3 ? LLVMCodeGenLevelAggressive : LLVMCodeGenLevelDefault;
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user) {
    emit *e = user;
    char *s = LLVMGetDiagInfoDescription(info);
    bool error = LLVMGetDiagInfoSeverity(info) == LLVMDSError;
    if (!note_frame(e, s) && error && !e->llvm_error) e->llvm_error = arena_strdup(e->arena, s);
    LLVMDisposeMessage(s);
}

// Freestanding code for a hosted triple is linked into position-independent programs. 32-bit code would need
// the linker's _GLOBAL_OFFSET_TABLE_ for that.
static bool joins_programs(const target *t) { return t->ptr_bits == 64 && strstr(t->triple, "-linux"); }

static void open_machine(emit *e) {
    const target *t = e->m->target;
    LLVMTargetRef found;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(t->triple, &found, &message)) {
        LLVMDisposeMessage(message);
        diag_fatal_missing(e->diag, NULL, "target '%s' is not supported", t->triple);
    }
    LLVMTargetMachineOptionsRef o = LLVMCreateTargetMachineOptions();
    LLVMTargetMachineOptionsSetCPU(o, t->cpu);
    LLVMTargetMachineOptionsSetFeatures(o, t->features ? t->features : "");
    if (t->abi) LLVMTargetMachineOptionsSetABI(o, t->abi);
    LLVMTargetMachineOptionsSetCodeGenOptLevel(o, codegen_level(t));
    bool movable = (t->hosted && !t->arch.is_wasm) || e->kind == EMIT_LOADABLE || joins_programs(t);
    LLVMTargetMachineOptionsSetRelocMode(o, movable ? LLVMRelocPIC : LLVMRelocStatic);
    if (t->arch.medium_code) LLVMTargetMachineOptionsSetCodeModel(o, LLVMCodeModelMedium);
    e->machine = LLVMCreateTargetMachineWithOptions(found, t->triple, o);
    LLVMDisposeTargetMachineOptions(o);
}

static void open_types(emit *e) {
    LLVMContextRef c = e->context;
    LLVMTypeRef kinds[] = {[LK_VOID] = LLVMVoidTypeInContext(c),     [LK_I1] = LLVMInt1TypeInContext(c),
                           [LK_I8] = LLVMInt8TypeInContext(c),       [LK_I16] = LLVMInt16TypeInContext(c),
                           [LK_I32] = LLVMInt32TypeInContext(c),     [LK_I64] = LLVMInt64TypeInContext(c),
                           [LK_F16] = LLVMHalfTypeInContext(c),      [LK_BF16] = LLVMBFloatTypeInContext(c),
                           [LK_F32] = LLVMFloatTypeInContext(c),     [LK_F64] = LLVMDoubleTypeInContext(c),
                           [LK_PTR] = LLVMPointerTypeInContext(c, 0)};
    memcpy(e->kinds, kinds, sizeof kinds);
}

// The module's name becomes the object's file symbol, so it is the model's name and not a path.
static void open_module(emit *e) {
    e->context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(e->context, on_diagnostic, e);
    e->module = LLVMModuleCreateWithNameInContext(e->m->name, e->context);
    e->b = LLVMCreateBuilderInContext(e->context);
    open_types(e);
    open_machine(e);
    LLVMSetTarget(e->module, e->m->target->triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(e->machine);
    LLVMSetModuleDataLayout(e->module, layout);
    LLVMDisposeTargetData(layout);
}

static void close_module(emit *e) {
    LLVMDisposeTargetMachine(e->machine);
    LLVMDisposeBuilder(e->b);
    LLVMDisposeModule(e->module);
    LLVMContextDispose(e->context);
}

static void check_module(emit *e) {
    char *message = NULL;
    bool bad = LLVMVerifyModule(e->module, LLVMReturnStatusAction, &message);
    const char *s = arena_strdup(e->arena, message ? message : "");
    LLVMDisposeMessage(message);
    if (bad) diag_defect(e->diag, NULL, "LLVM IR of '%s' is invalid: %s", e->m->name, s);
}

static void check_diagnostics(emit *e) {
    if (e->llvm_error) diag_defect(e->diag, NULL, "LLVM refuses '%s': %s", e->m->name, e->llvm_error);
}

static void run_passes(emit *e) {
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMPassBuilderOptionsSetLoopVectorization(o, 0);
    LLVMPassBuilderOptionsSetSLPVectorization(o, 0);
    LLVMPassBuilderOptionsSetLoopUnrolling(o, 0);
    LLVMErrorRef error = LLVMRunPasses(e->module, pipeline(e), e->machine, o);
    LLVMDisposePassBuilderOptions(o);
    if (!error) return;
    char *s = LLVMGetErrorMessage(error);
    const char *copy = arena_strdup(e->arena, s);
    LLVMDisposeErrorMessage(s);
    diag_defect(e->diag, NULL, "LLVM's passes failed: %s", copy);
}

// ---------------------------------------------------------------- large host functions
// LLVM's strength reduction flattens every sum that a loop uses, which takes time with the square of the length of the chains of
// offsets in the host code of large models with open sizes. It does not see through frozen values.
static bool is_sum(LLVMValueRef x) {
    LLVMOpcode op = LLVMGetInstructionOpcode(x);
    return (op == LLVMAdd || op == LLVMMul) && LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMIntegerTypeKind;
}

static int count_sums(LLVMValueRef fn) {
    int n = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef x = LLVMGetFirstInstruction(b); x; x = LLVMGetNextInstruction(x)) n += is_sum(x);
    return n;
}

static void freeze_sums(emit *e, LLVMBasicBlockRef b) {
    for (LLVMValueRef x = LLVMGetFirstInstruction(b); x; x = LLVMGetNextInstruction(x)) {
        if (!is_sum(x)) continue;
        LLVMPositionBuilderBefore(e->b, LLVMGetNextInstruction(x));
        LLVMValueRef frozen = LLVMBuildFreeze(e->b, x, "");
        LLVMReplaceAllUsesWith(x, frozen);
        LLVMSetOperand(frozen, 0, x);
        x = frozen;
    }
}

static void hide_long_sums(emit *e) {
    enum { MOST_SUMS = 2000 };
    for (LLVMValueRef fn = LLVMGetFirstFunction(e->module); fn; fn = LLVMGetNextFunction(fn)) {
        if (LLVMIsDeclaration(fn) || count_sums(fn) <= MOST_SUMS) continue;
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
            freeze_sums(e, b);
    }
}

// ---------------------------------------------------------------- output
static void keep_buffer(emit *e, LLVMMemoryBufferRef buffer) {
    size_t n = LLVMGetBufferSize(buffer);
    e->out = (bytes){arena_grow(e->arena, LLVMGetBufferStart(buffer), n, n + 1), n};
    LLVMDisposeMemoryBuffer(buffer);
}

static void write_machine_code(emit *e, LLVMCodeGenFileType type) {
    LLVMMemoryBufferRef buffer = NULL;
    char *message = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(e->machine, e->module, type, &message, &buffer)) {
        const char *copy = arena_strdup(e->arena, message);
        LLVMDisposeMessage(message);
        diag_defect(e->diag, NULL, "LLVM cannot write '%s': %s", e->m->name, copy);
    }
    keep_buffer(e, buffer);
}

static void keep_labels(emit *e) {
    for (int i = 0; i < e->m->funcs.n; i++) {
        const char *name = e->m->funcs.at[i]->name;
        LLVMValueRef fn = map_get(&e->symbols, name);
        if (fn) map_put(e->labels, name, arena_strdup(e->arena, LLVMGetValueName(fn)));
    }
}

static void write_listing(emit *e) {
    LLVMSetTargetMachineAsmVerbosity(e->machine, 1);
    write_machine_code(e, LLVMAssemblyFile);
}

static void write_output(emit *e) {
    switch (e->kind) {
    case EMIT_OBJECT:
    case EMIT_LOADABLE: write_machine_code(e, LLVMObjectFile); break;
    case EMIT_LISTING: write_listing(e); break;
    case EMIT_ASM: write_machine_code(e, LLVMAssemblyFile); break;
    case EMIT_BITCODE: keep_buffer(e, LLVMWriteBitcodeToMemoryBuffer(e->module)); break;
    case EMIT_LLVM_IR: {
        char *s = LLVMPrintModuleToString(e->module);
        e->out = (bytes){arena_strdup(e->arena, s), strlen(s)};
        LLVMDisposeMessage(s);
        break;
    }
    }
}

static void run(void *user) {
    emit *e = user;
    probe_initialise();
    open_module(e);
    declare_symbols(e);
    begin_debug(e);
    for (int i = 0; i < e->m->funcs.n; i++) {
        const lfunc *f = e->m->funcs.at[i];
        LLVMValueRef fn = map_get(&e->symbols, f->name);
        bool here = !e->plan || e->plan->piece[i] == e->piece;
        bool wanted = f->body && here && !LLVMCountBasicBlocks(fn);
        enter_debug(e, f, wanted ? fn : NULL);
        if (wanted) emit_function(e, f, fn);
    }
    end_debug(e);
    write_choices(e);
    check_module(e);
    if (e->labels) keep_labels(e);
    run_passes(e);
    hide_long_sums(e);
    keep_addresses(e);
    mend_for_helium(e);
    write_output(e);
    keep_frames(e);
    check_diagnostics(e);
    close_module(e);
}

static bytes emit_guarded(emit *e) {
    llvm_guard(e->diag, DIAG_DEFECT, arena_printf(e->arena, "compiling '%s'", e->m->name), run, e);
    return e->out;
}

static emit *emit_new(const lmodule *m, emit_kind kind, arena *a, diag *d) {
    emit *e = ARENA_NEW(a, emit);
    *e = (emit){.m = m, .arena = a, .diag = d, .kind = kind, .symbols = {.arena = a}, .frames = {.arena = a}};
    return e;
}

bytes llvm_emit(const lmodule *m, emit_kind kind, arena *a, diag *d) {
    return emit_guarded(emit_new(m, kind, a, d));
}

bytes llvm_emit_listing(const lmodule *m, map *labels, arena *a, diag *d) {
    emit *e = emit_new(m, EMIT_LISTING, a, d);
    e->labels = labels;
    return emit_guarded(e);
}

// Debug information depends on more than the key.
static bytes emit_or_find(emit *e, const cache *c) {
    if (!c || e->m->debug_info) return emit_guarded(e);
    const char *key = emission_key(e);
    if (cache_find(c, e->arena, key, &e->out)) return e->out;
    emit_guarded(e);
    cache_keep(c, e->arena, key, e->out);
    return e->out;
}

bytes llvm_emit_piece(const lmodule *m, emit_kind kind, const emit_plan *plan, int piece, const cache *c,
                      arena *a, diag *d) {
    emit *e = emit_new(m, kind, a, d);
    e->plan = plan;
    e->piece = piece;
    return emit_or_find(e, c);
}
