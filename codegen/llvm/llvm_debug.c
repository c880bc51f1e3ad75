// Debug information (-g): every function has its kernel's name and its line in the output of --emit=loops, so
// that debuggers and profilers name kernels and refer to their loops.
#include "codegen/llvm/llvm_impl.h"
#include <llvm-c/DebugInfo.h>
#include <string.h>

static void add_flag(emit *e, const char *name, unsigned value) {
    LLVMMetadataRef v = LLVMValueAsMetadata(LLVMConstInt(e->kinds[LK_I32], value, 0));
    LLVMAddModuleFlag(e->module, LLVMModuleFlagBehaviorWarning, name, strlen(name), v);
}

void begin_debug(emit *e) {
    enum { DWARF = 4 };
    const char *file = arena_printf(e->arena, "%s.loops", e->m->name), *producer = "onnxc " ONNXC_VERSION;
    if (!e->m->debug_info || e->kind == EMIT_LOADABLE) return;
    add_flag(e, "Debug Info Version", LLVMDebugMetadataVersion());
    add_flag(e, "Dwarf Version", DWARF);
    e->debug = LLVMCreateDIBuilder(e->module);
    e->debug_file = LLVMDIBuilderCreateFile(e->debug, file, strlen(file), ".", 1);
    LLVMDIBuilderCreateCompileUnit(e->debug, LLVMDWARFSourceLanguageC99, e->debug_file, producer,
                                   strlen(producer), 1, "", 0, 0, "", 0, LLVMDWARFEmissionFull, 0, 0, 0, "",
                                   0, "", 0);
    e->debug_line = 1;
}

static unsigned count_lines(const char *s) {
    unsigned n = 0;
    for (; *s; s++) n += *s == '\n';
    return n;
}

// Comments (#) precede the head of a function.
static unsigned head_line(const char *s) {
    unsigned n = 0;
    while (*s == '#') {
        s += strcspn(s, "\n");
        s += *s == '\n';
        n++;
    }
    return n;
}

// Called for all functions in the module's order, so that lines are counted.
void enter_debug(emit *e, const lfunc *f, LLVMValueRef fn) {
    if (!e->debug) return;
    const char *text = lfunc_print(e->arena, f);
    unsigned line = e->debug_line + head_line(text);
    e->debug_line += count_lines(text);
    if (!fn || LLVMGetSubprogram(fn)) return;
    LLVMMetadataRef type =
        LLVMDIBuilderCreateSubroutineType(e->debug, e->debug_file, NULL, 0, LLVMDIFlagZero);
    LLVMMetadataRef sub = LLVMDIBuilderCreateFunction(e->debug, e->debug_file, f->name, strlen(f->name),
                                                      f->name, strlen(f->name), e->debug_file, line, type,
                                                      !f->exported, 1, line, LLVMDIFlagZero, 1);
    LLVMSetSubprogram(fn, sub);
    LLVMSetCurrentDebugLocation2(e->b, LLVMDIBuilderCreateDebugLocation(e->context, line, 0, sub, NULL));
}

void end_debug(emit *e) {
    if (!e->debug) return;
    LLVMDIBuilderFinalize(e->debug);
    LLVMDisposeDIBuilder(e->debug);
}
