// In: a function of loops. Out: LLVM IR: blocks, loops, branches and calls. Variables are allocas, which
// mem2reg turns into values. Loops are rotated (a guard, then the test at the end), the form that the code
// generator handles best.
#include "codegen/llvm/llvm_impl.h"
#include "ir/loops/loops_count.h"
#include <string.h>

LLVMTypeRef type_of(const emit *e, ltype t) {
    LLVMTypeRef scalar = e->kinds[t.kind];
    return t.lanes > 1 ? LLVMVectorType(scalar, t.lanes) : scalar;
}

LLVMValueRef value_of(const emit *e, const ins *x) {
    LLVMValueRef v = e->values[x->id];
    if (!v) diag_defect(e->diag, NULL, "function %s: value %d is used before it is made", e->f->name, x->id);
    return v;
}

int kind_bytes(const emit *e, lkind k) { return k == LK_PTR ? e->t->ptr_bits / 8 : lkind_bytes(k); }
int kind_bits(const emit *e, lkind k) { return k == LK_I1 ? 1 : 8 * kind_bytes(e, k); }

LLVMValueRef const_int(const emit *e, ltype t, int64_t v) {
    LLVMValueRef c = LLVMConstInt(e->kinds[t.kind], (unsigned long long)v, 1);
    if (t.lanes == 1) return c;
    LLVMValueRef *all = ARENA_ARRAY(e->arena, LLVMValueRef, t.lanes);
    for (int i = 0; i < t.lanes; i++) all[i] = c;
    return LLVMConstVector(all, t.lanes);
}

LLVMBasicBlockRef new_block(emit *e, const char *name) {
    if (e->kind == EMIT_LISTING) name = arena_printf(e->arena, "p%d.%d_", e->place.block, e->place.outer);
    return LLVMAppendBasicBlockInContext(e->context, e->fn, name);
}

static place enter_place(emit *e, const ins *owner, int which) {
    place before = e->place;
    e->place = (place){lblock_number(owner, which), before.block};
    return before;
}

static LLVMBasicBlockRef inner_block(emit *e, const ins *owner, int which, const char *name) {
    place before = enter_place(e, owner, which);
    LLVMBasicBlockRef made = new_block(e, name);
    e->place = before;
    return made;
}

// Blocks appear in the order in which they are entered.
void enter_block(emit *e, LLVMBasicBlockRef block) {
    LLVMMoveBasicBlockAfter(block, LLVMGetLastBasicBlock(e->fn));
    LLVMPositionBuilderAtEnd(e->b, block);
    e->done = false;
}

LLVMValueRef build_alloca(emit *e, LLVMTypeRef type, int64_t n, int align) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderBefore(e->b, e->after_allocas);
    LLVMTypeRef whole = n == 1 ? type : LLVMArrayType2(type, (uint64_t)n);
    LLVMValueRef v = LLVMBuildAlloca(e->b, whole, "");
    if (align) LLVMSetAlignment(v, (unsigned)align);
    LLVMPositionBuilderAtEnd(e->b, here);
    return v;
}

// ---------------------------------------------------------------- structure
static void emit_block(emit *e, const lblock *block);
static LLVMValueRef emit_ins(emit *e, const ins *x);
static LLVMValueRef emit_call_of(emit *e, const ins *x, LLVMValueRef callee);

static void emit_body(emit *e, const ins *x, int which) {
    place before = enter_place(e, x, which);
    emit_block(e, x->body[which]);
    e->place = before;
}

static void branch(emit *e, LLVMBasicBlockRef to) {
    if (!e->done) LLVMBuildBr(e->b, to);
    e->done = true;
}

static void emit_unrolled(emit *e, const ins *x, int64_t trips) {
    for (int64_t k = 0; k < trips && !e->done; k++) {
        e->values[x->id] = const_int(e, x->type, x->args[0]->i + k * x->args[2]->i);
        emit_body(e, x, 0);
    }
}

//     if (begin < end) do { body; next = i + step; } while (next < end);
static void emit_rolled(emit *e, const ins *x, int64_t trips) {
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b),
                      body = inner_block(e, x, 0, x->name ? x->name : "loop"), after = new_block(e, "done");
    LLVMValueRef begin = value_of(e, x->args[0]), end = value_of(e, x->args[1]),
                 step = value_of(e, x->args[2]);
    if (trips > 0) LLVMBuildBr(e->b, body);
    else LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, begin, end, ""), body, after);
    enter_block(e, body);
    LLVMValueRef counter = LLVMBuildPhi(e->b, type_of(e, x->type), x->name ? x->name : "");
    LLVMAddIncoming(counter, &begin, &before, 1);
    e->values[x->id] = counter;
    emit_body(e, x, 0);
    if (!e->done) {
        LLVMValueRef next = LLVMBuildNSWAdd(e->b, counter, step, "");
        LLVMBasicBlockRef last = LLVMGetInsertBlock(e->b);
        LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, end, ""), body, after);
        LLVMAddIncoming(counter, &next, &last, 1);
    }
    enter_block(e, after);
}

static void emit_for(emit *e, const ins *x) {
    int64_t trips = lfor_trips(x);
    if (lfor_is_unrolled(x)) emit_unrolled(e, x, trips);
    else emit_rolled(e, x, trips);
}

// The first call stands at the end of its block.
static bool emit_as_choice(emit *e, const ins *x) {
    const ins *call;
    LLVMValueRef callee = emit_choice_of_calls(e, x, &call);
    if (!callee) return false;
    for (const ins *y = x->body[0]->first; y != call; y = y->next) e->values[y->id] = emit_ins(e, y);
    emit_choice_of_arguments(e, x);
    emit_call_of(e, call, callee);
    return true;
}

static void emit_if(emit *e, const ins *x) {
    if (emit_as_choice(e, x)) return;
    LLVMBasicBlockRef then = inner_block(e, x, 0, "then"),
                      otherwise = x->body[1] ? inner_block(e, x, 1, "else") : NULL,
                      after = new_block(e, "endif");
    LLVMBuildCondBr(e->b, value_of(e, x->args[0]), then, otherwise ? otherwise : after);
    enter_block(e, then);
    emit_body(e, x, 0);
    branch(e, after);
    if (otherwise) {
        enter_block(e, otherwise);
        emit_body(e, x, 1);
        branch(e, after);
    }
    enter_block(e, after);
}

static void emit_loop(emit *e, const ins *x) {
    LLVMBasicBlockRef body = inner_block(e, x, 0, "repeat"), after = new_block(e, "left"),
                      outer = e->break_to;
    branch(e, body);
    enter_block(e, body);
    e->break_to = after;
    emit_body(e, x, 0);
    branch(e, body);
    e->break_to = outer;
    enter_block(e, after);
}

static void emit_break(emit *e, const ins *x) {
    LLVMBasicBlockRef on = new_block(e, "on");
    LLVMBuildCondBr(e->b, value_of(e, x->args[0]), e->break_to, on);
    enter_block(e, on);
}

static void emit_return(emit *e, const ins *x) {
    if (x->nargs) LLVMBuildRet(e->b, value_of(e, x->args[0]));
    else LLVMBuildRetVoid(e->b);
    e->done = true;
}

// WebAssembly has an instruction that copies bytes, and modules have no library.
static LLVMValueRef emit_copy(emit *e, const ins *x, LLVMValueRef *args) {
    if (!e->t->arch.is_wasm) return NULL;
    if (strcmp(x->name, "memcpy") == 0) return LLVMBuildMemCpy(e->b, args[0], 1, args[1], 1, args[2]);
    if (strcmp(x->name, "memmove") == 0) return LLVMBuildMemMove(e->b, args[0], 1, args[1], 1, args[2]);
    return NULL;
}

// callee NULL: the function that the call names.
static LLVMValueRef emit_call_of(emit *e, const ins *x, LLVMValueRef callee) {
    int first = x->op == L_CALLPTR, n = x->nargs - first;
    ltype *types = ARENA_ARRAY(e->arena, ltype, n);
    LLVMValueRef *args = ARENA_ARRAY(e->arena, LLVMValueRef, n);
    for (int i = 0; i < n; i++) {
        types[i] = x->args[i + first]->type;
        args[i] = value_of(e, x->args[i + first]);
    }
    LLVMValueRef copy = first ? NULL : emit_copy(e, x, args);
    if (copy) return copy;
    LLVMTypeRef type = function_type(e, x->type, types, n);
    if (!callee) callee = first ? value_of(e, x->args[0]) : function_symbol(e, x->name, type);
    LLVMValueRef call = LLVMBuildCall2(e->b, type, callee, args, (unsigned)n, "");
    add_extension_attributes(e, call, true, x->type, types, NULL, n);
    return call;
}

// ---------------------------------------------------------------- instructions
static _Noreturn void not_here(const emit *e, const char *what) {
    diag_defect(e->diag, NULL, "function %s: %s reached the LLVM backend", e->f->name, what);
}

// mem2reg leaves arrays in memory.
static LLVMValueRef emit_var(emit *e, const ins *x) {
    LLVMTypeRef type = type_of(e, x->type);
    LLVMValueRef slot = build_alloca(e, e->in_memory ? LLVMArrayType2(type, 1) : type, 1, 0);
    LLVMBuildStore(e->b, value_of(e, x->args[0]), slot);
    return slot;
}

static LLVMValueRef emit_ins(emit *e, const ins *x) {
    LLVMValueRef chosen = emit_choice_of_symbols(e, x);
    if (chosen) return chosen;
    switch (x->op) {
    case L_PARAM: return LLVMGetParam(e->fn, (unsigned)x->i);
    case L_SYMBOL: return symbol_value(e, x->name);
    case L_VAR: return emit_var(e, x);
    case L_GET: return LLVMBuildLoad2(e->b, type_of(e, x->type), value_of(e, x->args[0]), "");
    case L_SET: return LLVMBuildStore(e->b, value_of(e, x->args[1]), value_of(e, x->args[0]));
    case L_FOR: emit_for(e, x); return e->values[x->id];
    case L_IF: emit_if(e, x); return NULL;
    case L_LOOP: emit_loop(e, x); return NULL;
    case L_BREAK: emit_break(e, x); return NULL;
    case L_RETURN: emit_return(e, x); return NULL;
    case L_CALL:
    case L_CALLPTR: return emit_call_of(e, x, NULL);
    case L_LOAD:
    case L_LOADN:
    case L_STORE:
    case L_STOREN:
    case L_GATHER:
    case L_SCATTER:
    case L_PREFETCH:
    case L_OFFSET:
    case L_FIELD:
    case L_SETFIELD:
    case L_LOCAL:
    case L_ATOMIC_ADD: return emit_memory(e, x);
#define INS(...)
#define PURE(...)
#define TILE(op, ...) case op:
#include "ir/loops/loops.def"
        return emit_tile(e, x);
    case L_BARRIER: not_here(e, "a barrier");
    case L_SHFL_XOR: not_here(e, "a warp shuffle");
    case L_GPU: not_here(e, "an instruction of GPUs");
    case L_COMMENT: return NULL;
    case L_COUNT: not_here(e, "no instruction");
#define INS(...)
#define TILE(...)
#define PURE(op, ...) case op:
#include "ir/loops/loops.def"
        return emit_pure(e, x);
    }
    not_here(e, "no instruction");
}

// Instructions after a return are unreachable and dropped.
static void emit_block(emit *e, const lblock *block) {
    for (const ins *x = block->first; x && !e->done; x = x->next) e->values[x->id] = emit_ins(e, x);
}

static int count_variables(const lblock *block) {
    int n = 0;
    for (const ins *x = block->first; x; x = x->next) {
        n += x->op == L_VAR;
        for (int i = 0; i < 2; i++)
            if (x->body[i]) n += count_variables(x->body[i]);
    }
    return n;
}

// Host code has a failure exit with a predecessor for each check. As values, its variables would be phi nodes
// there, with a number of operands for which LLVM takes quadratic time.
static bool has_many_variables(const lfunc *f) {
    enum { MANY = 16 };
    return !f->kernel && count_variables(f->body) > MANY;
}

void emit_function(emit *e, const lfunc *f, LLVMValueRef fn) {
    e->f = f;
    e->t = f->target;
    e->fn = fn;
    e->values = ARENA_ARRAY(e->arena, LLVMValueRef, f->nins + 1);
    e->break_to = NULL;
    e->done = false;
    e->place = (place){0, 0};
    e->in_memory = has_many_variables(f);
    LLVMBasicBlockRef entry = new_block(e, "entry"), start = new_block(e, "start");
    LLVMPositionBuilderAtEnd(e->b, entry);
    e->after_allocas = LLVMBuildBr(e->b, start);
    enter_block(e, start);
    for (int i = 0; i < f->params.n; i++) {
        e->values[f->params.at[i].value->id] = LLVMGetParam(fn, (unsigned)i);
        LLVMSetValueName2(LLVMGetParam(fn, (unsigned)i), f->params.at[i].name, strlen(f->params.at[i].name));
    }
    emit_block(e, f->body);
    if (e->done) return;
    if (f->result.kind == LK_VOID) LLVMBuildRetVoid(e->b);
    else LLVMBuildUnreachable(e->b);
}
