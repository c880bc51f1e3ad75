// Frames of functions. In: reports of the code generator about functions whose frames exceed a limit, which is 0 for
// all. Out: a section of the object (codegen/object/stack.h).
#include "codegen/llvm/llvm_impl.h"
#include "codegen/object/stack.h"
#include <stdlib.h>
#include <string.h>

void report_frame(emit *e, LLVMValueRef fn) {
    if (e->kind == EMIT_OBJECT) LLVMAddTargetDependentFunctionAttr(fn, "warn-stack-size", "0");
}

// "... stack frame size (72) exceeds limit (0) in function 'f'"
bool note_frame(emit *e, const char *message) {
    static const char begin[] = "stack frame size (", in[] = "in function '";
    const char *size = strstr(message, begin), *name = size ? strstr(size, in) : NULL;
    if (!name) return false;
    name += strlen(in);
    int64_t bytes = strtoll(size + strlen(begin), NULL, 10);
    map_put(&e->frames, arena_strndup(e->arena, name, strcspn(name, "'")), (void *)(intptr_t)bytes);
    return true;
}

// Frames with vectors or arrays that the calling convention does not align are aligned at run time.
static int64_t alignment_slack(const target *t, LLVMValueRef fn) {
    int align = t->vector_bits / 8, stack = t->arch.stack_align;
    LLVMValueRef x = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(fn));
    for (; x; x = LLVMGetNextInstruction(x))
        if (LLVMIsAAllocaInst(x) && (int)LLVMGetAlignment(x) > align) align = (int)LLVMGetAlignment(x);
    return align > stack ? align - stack : 0;
}

static bool calls_through_pointer(LLVMValueRef fn) {
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef x = LLVMGetFirstInstruction(b); x; x = LLVMGetNextInstruction(x)) {
            if (!LLVMIsACallInst(x)) continue;
            LLVMValueRef to = LLVMGetCalledValue(x);
            if (!LLVMIsAFunction(to) && !LLVMIsAGlobalAlias(to) && !LLVMIsAInlineAsm(to)) return true;
        }
    return false;
}

static stack_frame frame_of(const emit *e, LLVMValueRef fn) {
    const target *t = e->m->target;
    const char *name = LLVMGetValueName(fn);
    int64_t bytes = (intptr_t)map_get(&e->frames, name);
    bool fixed = t->arch.stack_align && !(t->arch.vectors_vary && t->vector_bits);
    return (stack_frame){name,
                         !fixed  ? -1
                         : bytes ? bytes + alignment_slack(t, fn)
                                 : 0,
                         calls_through_pointer(fn)};
}

void keep_frames(emit *e) {
    stack_frames frames = {0};
    if (e->kind != EMIT_OBJECT || !elf_is_object(e->out)) return;
    for (LLVMValueRef f = LLVMGetFirstFunction(e->module); f; f = LLVMGetNextFunction(f))
        if (LLVMCountBasicBlocks(f)) VEC_PUSH(e->arena, &frames, frame_of(e, f));
    e->out = stack_keep_frames(e->arena, e->diag, e->out, &frames);
}
