// Module-level IR: symbols with linkage and visibility, attributes, sections, COMDATs, and flags that become
// ELF notes.
#include "codegen/llvm/llvm_impl.h"
#include "ir/loops/weights.h"
#include <llvm-c/Comdat.h>
#include <string.h>

enum { INLINE_DATA_MOST = 1 << 16, CODE_LINE = 64 };

// ---------------------------------------------------------------- types
LLVMTypeRef function_type(emit *e, ltype result, const ltype *params, int n) {
    LLVMTypeRef *types = ARENA_ARRAY(e->arena, LLVMTypeRef, n);
    for (int i = 0; i < n; i++) types[i] = type_of(e, params[i]);
    return LLVMFunctionType(type_of(e, result), types, (unsigned)n, 0);
}

LLVMAttributeRef enum_attribute(emit *e, const char *name, uint64_t value) {
    return LLVMCreateEnumAttribute(e->context, LLVMGetEnumAttributeKindForName(name, strlen(name)), value);
}

// Calling conventions require narrow integers to be extended by their sign; some also 32-bit ones.
static const char *extension(const emit *e, ltype t, dtype dt) {
    const target *m = e->m->target;
    if (t.lanes > 1) return NULL;
    if (t.kind == LK_I32 && m->ptr_bits == 64 && m->arch.sign_extends_words) return "signext";
    if (t.kind == LK_I1) return "zeroext";
    if (t.kind != LK_I8 && t.kind != LK_I16) return NULL;
    return dt == DT_U8 || dt == DT_U16 || dt == DT_BOOL ? "zeroext" : "signext";
}

void add_extension_attributes(emit *e, LLVMValueRef v, bool is_call, ltype result, const ltype *params,
                              const dtype *dtypes, int n) {
    for (int i = -1; i < n; i++) {
        const char *name =
            i < 0 ? extension(e, result, DT_NONE) : extension(e, params[i], dtypes ? dtypes[i] : DT_NONE);
        unsigned at = i < 0 ? (unsigned)LLVMAttributeReturnIndex : (unsigned)i + 1;
        if (!name) continue;
        if (is_call) LLVMAddCallSiteAttribute(v, at, enum_attribute(e, name, 0));
        else LLVMAddAttributeAtIndex(v, at, enum_attribute(e, name, 0));
    }
}

// ---------------------------------------------------------------- functions
static void set_text(LLVMValueRef fn, const char *key, const char *value) {
    LLVMAddTargetDependentFunctionAttr(fn, key, value);
}
static void set_flag(emit *e, LLVMValueRef fn, const char *name, uint64_t value) {
    LLVMAddAttributeAtIndex(fn, (unsigned)LLVMAttributeFunctionIndex, enum_attribute(e, name, value));
}

// Code that is loaded here has frame pointers only: LLVM's linker takes one section of tables, not one for each piece.
static bool has_unwind_tables(const emit *e, const target *t) {
    return t->hosted && !t->arch.no_unwind_tables && e->kind != EMIT_LOADABLE;
}

static bool calls_function(const ins *x) { return x->op == L_CALL || x->op == L_CALLPTR; }

// In a kernel that calls nothing no exception begins and no thread is cancelled, nor in a task that runs it: in ELF, where tables are
// for that and for debuggers, -g has their tables.
static bool is_unwound(const emit *e, const lfunc *f) {
    const lfunc *kernel = f->runs ? f->runs : f;
    bool optional = f->target->format == OBJECT_ELF && !e->m->debug_info;
    return has_unwind_tables(e, f->target) &&
           !(optional && kernel->kernel && !lblock_any(kernel->body, calls_function));
}

// "min-legal-vector-width" lets LLVM split wider vectors.
static void set_attributes(emit *e, const lfunc *f, LLVMValueRef fn) {
    const target *t = f->target;
    set_flag(e, fn, "nounwind", 0);
    set_text(fn, "target-cpu", t->cpu);
    if (t->features && *t->features) set_text(fn, "target-features", t->features);
    // Vectors of more than 128 bits are in SVE's registers, which may be longer.
    if (t->sve_bits) set_flag(e, fn, "vscale_range", (uint64_t)t->sve_bits / 128 << 32 | 16);
    set_text(fn, "no-builtins", "");
    if (f->half_vectors)
        set_text(fn, "prefer-vector-width", "256"), set_text(fn, "min-legal-vector-width", "0");
    if (t->size_level) set_flag(e, fn, "optsize", 0);
    if (t->size_level == 2 && !(t->arch.shifts_call && t->ptr_bits == 32)) set_flag(e, fn, "minsize", 0);
    // Host code runs once.
    set_flag(e, fn, f->kernel ? "noinline" : "optsize", 0);
    // The alignment of loops to lines of the instruction cache must not depend on other functions: that changed times
    // of networks by 5 %.
    if (f->kernel && !t->size_level && t->vector_bits > 128) LLVMSetAlignment(fn, CODE_LINE);
    if (t->freestanding && t->arch.red_zone) set_flag(e, fn, "noredzone", 0); // of interrupt handlers
    report_frame(e, fn);
    // Spilled vectors must not straddle cache lines.
    if (f->kernel && t->vector_bits > 128) set_text(fn, "stackrealign", "");
    if (t->hosted) {
        if (is_unwound(e, f)) set_flag(e, fn, "uwtable", 2);
        set_text(fn, "frame-pointer", "non-leaf");
        if (t->arch.protect_function) set_text(fn, t->arch.protect_function, "true");
    }
    for (int i = 0; i < f->params.n; i++) {
        if (f->params.at[i].type.kind != LK_PTR) continue;
        if (f->noalias || f->params.at[i].constant)
            LLVMAddAttributeAtIndex(fn, (unsigned)i + 1, enum_attribute(e, "noalias", 0));
        if (f->params.at[i].is_const)
            LLVMAddAttributeAtIndex(fn, (unsigned)i + 1, enum_attribute(e, "readonly", 0));
    }
}

static LLVMValueRef add_function(emit *e, const lfunc *f, const char *name) {
    ltype *types = ARENA_ARRAY(e->arena, ltype, f->params.n);
    dtype *dtypes = ARENA_ARRAY(e->arena, dtype, f->params.n);
    for (int i = 0; i < f->params.n; i++) {
        types[i] = f->params.at[i].type;
        dtypes[i] = f->params.at[i].dtype;
    }
    LLVMValueRef fn = LLVMAddFunction(e->module, name, function_type(e, f->result, types, f->params.n));
    add_extension_attributes(e, fn, false, f->result, types, dtypes, f->params.n);
    return fn;
}

// Whether linkers merge equal ones.
static bool is_shared(LLVMValueRef fn) { return LLVMGetLinkage(fn) == LLVMWeakODRLinkage; }

// Equal kernels are one function, named by content. The name of their first node is a local alias: debuggers and profilers
// show one name for an address. With -g there are all names, for breakpoints.
static LLVMValueRef name_kernel(emit *e, const lfunc *f, LLVMValueRef fn) {
    LLVMValueRef label = LLVMAddAlias2(e->module, LLVMGlobalGetValueType(fn), 0, fn, f->name);
    LLVMSetLinkage(label, LLVMInternalLinkage);
    return label;
}

// Passes drop aliases without references, unless this variable lists them.
static void name_kernels(emit *e) {
    LLVMValueRef *labels = ARENA_ARRAY(e->arena, LLVMValueRef, e->m->funcs.n);
    map named = {.arena = e->arena};
    int n = 0;
    for (int i = 0; i < e->m->funcs.n; i++) {
        LLVMValueRef fn = map_get(&e->symbols, e->m->funcs.at[i]->name);
        if (!fn || !is_shared(fn) || (!e->m->debug_info && map_get(&named, LLVMGetValueName(fn)))) continue;
        labels[n] = name_kernel(e, e->m->funcs.at[i], fn);
        map_put(&named, LLVMGetValueName(fn), labels[n++]);
    }
    if (!n) return;
    LLVMTypeRef type = LLVMArrayType2(e->kinds[LK_PTR], (uint64_t)n);
    LLVMValueRef used = LLVMAddGlobal(e->module, type, "llvm.compiler.used");
    LLVMSetLinkage(used, LLVMAppendingLinkage);
    LLVMSetSection(used, "llvm.metadata");
    LLVMSetInitializer(used, LLVMConstArray2(e->kinds[LK_PTR], labels, (uint64_t)n));
}

static LLVMValueRef declare_kernel(emit *e, const lfunc *f, const char *symbol) {
    LLVMValueRef fn = LLVMGetNamedFunction(e->module, symbol);
    if (!fn) {
        fn = add_function(e, f, symbol);
        set_attributes(e, f, fn);
        LLVMSetLinkage(fn, LLVMWeakODRLinkage);
        LLVMSetVisibility(fn, LLVMHiddenVisibility);
        if (e->m->target->format != OBJECT_MACHO) // which has weak definitions only
            LLVMSetComdat(fn, LLVMGetOrInsertComdat(e->module, symbol));
    }
    return fn;
}

// A function of another piece, linked when the pieces are joined.
static LLVMValueRef declare_elsewhere(emit *e, const lfunc *f, const char *symbol) {
    LLVMValueRef fn = LLVMGetNamedFunction(e->module, symbol);
    if (fn) return fn;
    fn = add_function(e, f, symbol);
    LLVMSetVisibility(fn, LLVMHiddenVisibility);
    return fn;
}

// Host code, in the first piece, refers to all kernels. Shared kernels refer to other shared kernels only.
bool emits_mention(const emit *e, int i) {
    const emit_plan *p = e->plan;
    return !p || !e->m->funcs.at[i]->body || e->piece == 0 || p->piece[i] == e->piece ||
           p->calls[e->piece][i];
}

static const char *symbol_of_original(const emit *e, const lfunc *f) {
    LLVMValueRef original = map_get(&e->symbols, f->original->name);
    return is_shared(original) ? LLVMGetValueName(original) : NULL;
}

static const char *shared_name(emit *e, int i) {
    const lfunc *f = e->m->funcs.at[i];
    if (e->plan) return e->plan->symbols[i];
    if (f->original && e->kind != EMIT_LOADABLE) return symbol_of_original(e, f);
    return f->kernel && f->body && e->kind != EMIT_LOADABLE ? kernel_symbol(e->arena, e->m, f) : NULL;
}

static LLVMValueRef declare_function(emit *e, int i) {
    const lfunc *f = e->m->funcs.at[i];
    const char *symbol = shared_name(e, i);
    if (e->plan && f->body && e->plan->piece[i] != e->piece) return declare_elsewhere(e, f, symbol);
    if (symbol && !f->exported) return declare_kernel(e, f, symbol);
    LLVMValueRef fn = add_function(e, f, f->name);
    if (!f->body) return fn;
    set_attributes(e, f, fn);
    if (!f->exported && e->kind != EMIT_LOADABLE) {
        LLVMSetLinkage(fn, LLVMInternalLinkage);
        LLVMSetUnnamedAddress(fn, LLVMGlobalUnnamedAddr); // no address is compared
    }
    if (f->target->freestanding && f->target->format == OBJECT_ELF)
        LLVMSetSection(fn, arena_printf(e->arena, ".text.%s", f->name));
    return fn;
}

// ---------------------------------------------------------------- data
// Text that is complete; data are added to other forms later.
static bool is_text(const emit *e) {
    return e->kind == EMIT_ASM || e->kind == EMIT_LLVM_IR || e->kind == EMIT_BITCODE;
}

static bool is_inline_data(const emit *e, const ldata *d) {
    return is_text(e) && d->bytes_or_null && d->bytes <= INLINE_DATA_MOST;
}

static LLVMValueRef declare_data(emit *e, const ldata *d, bool large) {
    LLVMTypeRef type = LLVMArrayType2(e->kinds[LK_I8], (uint64_t)d->bytes);
    LLVMValueRef v = LLVMAddGlobal(e->module, type, d->name);
    LLVMSetGlobalConstant(v, !d->variable);
    LLVMSetAlignment(v, (unsigned)(d->align ? d->align : 1));
    if (d->variable && is_text(e)) {
        LLVMSetInitializer(v, LLVMConstNull(type));
        LLVMSetSection(v, d->section);
    }
    if (large && !d->variable) LLVMSetSection(v, ".lrodata"); // 64-bit addresses
    if (e->kind == EMIT_LOADABLE) return v;
    // Code for Windows would expect exported data in a DLL; COFF itself has no visibility.
    if (!d->exported || e->m->target->format == OBJECT_COFF) LLVMSetVisibility(v, LLVMHiddenVisibility);
    if (is_inline_data(e, d))
        LLVMSetInitializer(v, LLVMConstStringInContext2(e->context, d->bytes_or_null, (size_t)d->bytes, 1));
    return v;
}

// Declares a function of the runtime or of the user if the module does not define it. WebAssembly's linker compares its
// type with the type of the definition.
LLVMValueRef function_symbol(emit *e, const char *name, LLVMTypeRef type) {
    LLVMValueRef v = map_get(&e->symbols, name);
    if (v) return v;
    v = LLVMAddFunction(e->module, name, type);
    map_put(&e->symbols, name, v);
    return v;
}

// Other modules' symbols whose address is taken are functions of custom operators.
LLVMValueRef symbol_value(emit *e, const char *name) {
    return function_symbol(e, name, LLVMFunctionType(e->kinds[LK_I32], &e->kinds[LK_PTR], 1, 0));
}

// ---------------------------------------------------------------- flags
static void add_flag(emit *e, const char *name, LLVMMetadataRef value) {
    LLVMAddModuleFlag(e->module, LLVMModuleFlagBehaviorError, name, strlen(name), value);
}
static void add_int_flag(emit *e, const char *name, int value) {
    add_flag(e, name, LLVMValueAsMetadata(LLVMConstInt(e->kinds[LK_I32], (unsigned)value, 0)));
}

static void add_module_flags(emit *e) {
    const target *t = e->m->target;
    if (t->abi) add_flag(e, "target-abi", LLVMMDStringInContext2(e->context, t->abi, strlen(t->abi)));
    if (!t->hosted) return;
    if (!t->arch.is_wasm) add_int_flag(e, "PIC Level", 2);
    if (has_unwind_tables(e, t)) add_int_flag(e, "uwtable", 2);
    add_int_flag(e, "frame-pointer", 1);
    for (int i = 0; i < 2; i++)
        if (t->arch.protect[i]) add_int_flag(e, t->arch.protect[i], 1);
}

static void add_ident(emit *e) {
#ifdef ONNXC_VERSION
    const char *s = "onnxc " ONNXC_VERSION;
#else
    const char *s = "onnxc";
#endif
    LLVMMetadataRef text = LLVMMDStringInContext2(e->context, s, strlen(s));
    LLVMAddNamedMetadataOperand(e->module, "llvm.ident",
                                LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, &text, 1)));
}

static void check_unique(emit *e, const char *name) {
    if (map_get(&e->symbols, name)) diag_defect(e->diag, NULL, "two definitions of symbol %s", name);
}

void declare_symbols(emit *e) {
    bool large = data_is_large(e->m) && e->kind != EMIT_LOADABLE;
    add_module_flags(e);
    add_ident(e);
    for (int i = 0; i < e->m->data.n && e->piece == 0; i++) {
        check_unique(e, e->m->data.at[i]->name);
        map_put(&e->symbols, e->m->data.at[i]->name, declare_data(e, e->m->data.at[i], large));
    }
    for (int i = 0; i < e->m->funcs.n; i++) {
        if (!emits_mention(e, i)) continue;
        check_unique(e, e->m->funcs.at[i]->name);
        map_put(&e->symbols, e->m->funcs.at[i]->name, declare_function(e, i));
    }
    name_kernels(e);
}
