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

typedef struct calls {
    bool any, indirect; // intrinsics do not count
    int arguments;      // of the call that has most
} calls;

static calls calls_of(LLVMValueRef fn) {
    calls c = {0};
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef x = LLVMGetFirstInstruction(b); x; x = LLVMGetNextInstruction(x)) {
            if (!LLVMIsACallInst(x)) continue;
            LLVMValueRef to = LLVMGetCalledValue(x);
            bool function = LLVMIsAFunction(to), known = LLVMIsAGlobalAlias(to) || LLVMIsAInlineAsm(to);
            c.any |= !function || !LLVMGetIntrinsicID(to);
            c.indirect |= !function && !known;
            int n = (int)LLVMGetNumArgOperands(x);
            if (n > c.arguments) c.arguments = n;
        }
    return c;
}

// That calls push, which frames do not contain. Smallest code also loads constants by a push and a pop.
static int64_t pushed_bytes(const target *t, const calls *c) {
    int n = t->arch.pushes_after && c->any ? c->arguments - t->arch.pushes_after : 0;
    int constant = t->arch.pushes_after && t->size_level == 2;
    return (int64_t)(n > 0 ? n + n % 2 : constant) * (t->ptr_bits / 8);
}

static stack_frame frame_of(const emit *e, LLVMValueRef fn) {
    const target *t = e->m->target;
    const char *name = LLVMGetValueName(fn);
    int64_t bytes = (intptr_t)map_get(&e->frames, name);
    calls c = calls_of(fn);
    if (bytes) bytes += alignment_slack(t, fn);
    bytes += pushed_bytes(t, &c);
    if (!c.any && !t->freestanding) bytes += t->arch.red_zone;
    if (!t->arch.stack_align || (t->arch.vectors_vary && t->vector_bits) || t->sve_bits) bytes = -1;
    return (stack_frame){name, bytes, c.indirect};
}

void keep_frames(emit *e) {
    stack_frames frames = {0};
    if (e->kind != EMIT_OBJECT || !elf_is_object(e->out)) return;
    for (LLVMValueRef f = LLVMGetFirstFunction(e->module); f; f = LLVMGetNextFunction(f))
        if (LLVMCountBasicBlocks(f)) VEC_PUSH(e->arena, &frames, frame_of(e, f));
    e->out = stack_keep_frames(e->arena, e->diag, e->out, &frames);
}
