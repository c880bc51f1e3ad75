// Shared by the files of the LLVM backend: the state of one emission.
#ifndef ONNXC_CODEGEN_LLVM_LLVM_IMPL_H
#define ONNXC_CODEGEN_LLVM_LLVM_IMPL_H
#include "codegen/llvm/llvm.h"
#include "ir/target.h"
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

// The partition of a module into pieces.
typedef struct emit_plan {
    const char **symbols; // by function: the name of a shared kernel, else NULL
    int *piece;           // by function
    int n;                // number of pieces
    bool **calls;         // by piece and function: kernels of the piece call it
} emit_plan;

// The block of the loops (lblock_number) to which instructions belong, and the one around it: names in listings.
typedef struct place {
    int block, outer;
} place;

typedef struct choice_table choice_table; // llvm_choice.c

typedef struct emit {
    const lmodule *m;
    arena *arena;
    diag *diag;
    emit_kind kind;
    const emit_plan *plan; // NULL: one piece
    int piece;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMTargetMachineRef machine;
    LLVMTypeRef kinds[LK_PTR + 1];
    map symbols;            // name in the loops -> LLVMValueRef
    map frames;             // name of a function -> bytes, unless these are 0
    choice_table *choices;  // NULL: none so far
    map *labels;            // EMIT_LISTING: by name in the loops
    const char *llvm_error; // first error reported by LLVM's diagnostics
    bytes out;
    LLVMDIBuilderRef debug; // -g, else NULL
    LLVMMetadataRef debug_file;
    unsigned debug_line; // line of the next function in the text of the loops
    // The function being emitted:
    const lfunc *f;
    const target *t;
    LLVMValueRef fn;
    LLVMValueRef *values; // by ins id; variables: their alloca
    LLVMValueRef after_allocas;
    LLVMBasicBlockRef break_to;
    place place;
    bool done;      // the current LLVM block has its terminator
    bool in_memory; // variables stay in memory
} emit;

LLVMTypeRef type_of(const emit *e, ltype t);
LLVMValueRef value_of(const emit *e, const ins *x);
LLVMValueRef const_int(const emit *e, ltype t, int64_t v); // splat for vectors
int kind_bytes(const emit *e, lkind k);                    // in memory on the target
int kind_bits(const emit *e, lkind k);
LLVMValueRef build_alloca(emit *e, LLVMTypeRef type, int64_t n, int align);
LLVMBasicBlockRef new_block(emit *e, const char *name);
void enter_block(emit *e, LLVMBasicBlockRef block);
LLVMAttributeRef enum_attribute(emit *e, const char *name, uint64_t value);
LLVMValueRef call_intrinsic(emit *e, const char *name, LLVMTypeRef *overloads, int noverloads,
                            LLVMValueRef *args, int nargs);
// A target-specific intrinsic, which is not overloaded.
LLVMValueRef call_target_intrinsic(emit *e, const char *name, LLVMValueRef *args, int nargs);
LLVMValueRef splat(emit *e, LLVMValueRef scalar, int lanes);
// Lanes from..from+n of a vector.
LLVMValueRef slice(emit *e, LLVMValueRef v, int from, int n);
LLVMValueRef joined_lanes(emit *e, LLVMValueRef a, LLVMValueRef b);
// The bytes of a table of 256 at the positions x, which are bytes; NULL: not by vector instructions.
LLVMValueRef emit_byte_lookup(emit *e, LLVMValueRef table, LLVMValueRef x, int lanes);
LLVMValueRef concat(emit *e, LLVMValueRef *parts, int nparts);

LLVMValueRef emit_pure(emit *e, const ins *x);   // llvm_ins.c
LLVMValueRef emit_memory(emit *e, const ins *x); // llvm_memory.c
static inline LLVMValueRef byte_offset(emit *e, LLVMValueRef from, LLVMValueRef bytes) {
    return LLVMBuildGEP2(e->b, e->kinds[LK_I8], from, &bytes, 1, "");
}
// v as this type if Helium loaded its lanes one by one, as wide signed ones; else NULL.
LLVMValueRef gathered_lanes(emit *e, LLVMValueRef v, ltype type);
LLVMValueRef emit_dot(emit *e, const ins *x);
// A sum with a product of 16 bits; NULL: x has another form, or the target lacks the instruction.
LLVMValueRef emit_widened_product(emit *e, const ins *x); // llvm_dot.c
// An operand as one of four words in all lanes.
typedef struct word_lane {
    LLVMValueRef four; // NULL: it is not
    int lane;
    bool of_b; // else of c
} word_lane;
// llvm_sve.c; the shuffle is NULL where LLVM's own is as good.
LLVMValueRef emit_sve_product(emit *e, lop op, LLVMValueRef acc, LLVMValueRef b, LLVMValueRef c,
                              const word_lane *l);
LLVMValueRef emit_sve_shuffle(emit *e, const ins *x);
LLVMValueRef emit_sve_muladd(emit *e, const ins *x); // NULL: no operand is such a lane
// The lane of a vector of four words that is in all lanes of the operand; -1: the operand has another form.
int lane_of_four(const ins *operand, const ins **four); // llvm_dot.c
// llvm_choice.c; NULL: the instruction has another form.
LLVMValueRef emit_choice_of_calls(emit *e, const ins *x, const ins **call); // the callee, and the first call
void emit_choice_of_arguments(emit *e, const ins *x);                       // sets the chosen arguments
LLVMValueRef emit_choice_of_symbols(emit *e, const ins *x);
void write_choices(emit *e);                   // once all functions are emitted
void keep_addresses(emit *e);                  // after LLVM's passes
void mend_for_helium(emit *e);                 // llvm_fixed.c: the same
LLVMValueRef emit_tile(emit *e, const ins *x); // llvm_tile.c
LLVMValueRef emit_saturated(emit *e, LLVMValueRef x, int lanes, bool is_signed); // llvm_pack.c
void emit_function(emit *e, const lfunc *f, LLVMValueRef fn);                    // llvm_emit.c
void begin_debug(emit *e);                                                       // llvm_debug.c
void enter_debug(emit *e, const lfunc *f, LLVMValueRef fn); // fn NULL: nothing is emitted
void end_debug(emit *e);
void report_frame(emit *e, LLVMValueRef fn);   // llvm_stack.c: asks for the frame of fn
bool note_frame(emit *e, const char *message); // false: the message is about something else
void keep_frames(emit *e);                     // in the object
void declare_symbols(emit *e);                 // llvm_module.c
LLVMTypeRef function_type(emit *e, ltype result, const ltype *params, int n);
void add_extension_attributes(emit *e, LLVMValueRef call, bool is_call, ltype result, const ltype *params,
                              const dtype *dtypes, int n);
LLVMValueRef symbol_value(emit *e, const char *name);
LLVMValueRef function_symbol(emit *e, const char *name, LLVMTypeRef type);
// The symbol by which linkers merge equal kernels of all models; NULL: the kernel refers to symbols of its
// module.
const char *kernel_symbol(arena *a, const lmodule *m, const lfunc *f);
bytes llvm_emit_piece(const lmodule *m, emit_kind kind, const emit_plan *plan, int piece,
                      const struct cache *c, arena *a, diag *d);
// Whether e's piece refers to function i.
bool emits_mention(const emit *e, int i);
// The digest of all inputs of e's object.
const char *emission_key(const emit *e);
#endif
