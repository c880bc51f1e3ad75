// In: branches on a number that differ only in the function they call, as those of host code on the CPU level. Out: a call of
// the function in a table. Its elements are distances of functions from the table, so that loading needs no relocations.
//
//     if (level == 0) conv_v2(y, x);              call table + table[first + min(level, 2)] (y, x)
//     else if (level == 1) conv_v3(y, x);   as
//     else conv_v4(y, x);
//
// An argument that is another place of the same data at each level is a number of the table, too.
#include "codegen/llvm/llvm_impl.h"
#include "ir/target.h"
#include <string.h>

enum { MOST_CHOICES = 8 };

// What is chosen by a number: of `choices[j]` for number j, the last one for all others.
typedef struct choice {
    const ins *number; // unsigned
    const ins *choices[MOST_CHOICES];
    int n;
} choice;

struct choice_table {
    LLVMValueRef place;         // stands for the table while its length is unknown
    VEC(LLVMValueRef) elements; // functions and numbers
    map rows;                   // by the elements of a row -> its first one + 1
};

// ---------------------------------------------------------------- recognising choices
// The parameter that x compares with that constant; NULL: x is something else.
static const ins *compared_with(const ins *x, int64_t constant) {
    if (x->op != L_EQ || x->args[0]->type.kind != LK_I32 || x->args[0]->op != L_PARAM) return NULL;
    return x->args[1]->op == L_CONST && x->args[1]->i == constant ? x->args[0] : NULL;
}

static bool adds(choice *c, const ins *condition) {
    const ins *number = compared_with(condition, c->n);
    if (!number || (c->number && c->number != number) || c->n + 2 > MOST_CHOICES) return false;
    c->number = number;
    return true;
}

static bool is_argument(const ins *x) {
    return x->op == L_CONST || x->op == L_SYMBOL || x->op == L_OFFSET || x->op == L_NULL;
}

// The call or branch at the end of a block that only computes its arguments or condition.
static const ins *last_of(const lblock *b) {
    const ins *x = b->first;
    while (x && x->next && (is_argument(x) || x->op == L_EQ)) x = x->next;
    return x && !x->next ? x : NULL;
}

static bool same_argument(const ins *x, const ins *y) {
    if (x == y) return true;
    bool same = is_argument(x) && x->op == y->op && x->type.kind == y->type.kind && x->type.lanes == 1 &&
                y->type.lanes == 1 && x->i == y->i && x->nargs == y->nargs &&
                !memcmp(&x->f, &y->f, sizeof x->f);
    if (same && x->op == L_SYMBOL) return !strcmp(x->name, y->name);
    for (int j = 0; same && j < x->nargs; j++) same = same_argument(x->args[j], y->args[j]);
    return same;
}

static const ins *symbol_in(const ins *x) {
    bool constant = x->op == L_OFFSET && x->args[1]->op == L_CONST;
    const ins *symbol = constant ? x->args[0] : x;
    return symbol->op == L_SYMBOL ? symbol : NULL;
}

static int64_t place_in_symbol(const ins *x) { return x->op == L_OFFSET ? x->args[1]->i * x->i : 0; }

// Offsets in the same data, as of tables of numbers, that fit an element of the table.
static bool same_data(const ins *x, const ins *y) {
    const ins *a = symbol_in(x), *b = symbol_in(y);
    int64_t most = INT32_MAX;
    return a && b && !strcmp(a->name, b->name) && place_in_symbol(x) <= most && place_in_symbol(y) <= most;
}

static bool same_calls(const ins *x, const ins *y) {
    bool same = x->nargs == y->nargs && x->type.kind == LK_VOID && y->type.kind == LK_VOID;
    for (int j = 0; same && j < x->nargs; j++)
        same = same_argument(x->args[j], y->args[j]) || same_data(x->args[j], y->args[j]);
    return same;
}

static bool find_calls(choice *c, const ins *x) {
    if (!x->body[1] || !adds(c, x->args[0])) return false;
    const ins *then = last_of(x->body[0]), *otherwise = last_of(x->body[1]);
    if (!then || !otherwise || then->op != L_CALL) return false;
    c->choices[c->n++] = then;
    if (otherwise->op == L_IF) return find_calls(c, otherwise);
    c->choices[c->n++] = otherwise;
    for (int j = 1; j < c->n; j++)
        if (c->choices[j]->op != L_CALL || !same_calls(c->choices[0], c->choices[j])) return false;
    return true;
}

static bool find_symbols(choice *c, const ins *x) {
    if (!adds(c, x->args[0]) || x->args[1]->op != L_SYMBOL) return false;
    c->choices[c->n++] = x->args[1];
    if (x->args[2]->op == L_SELECT) return find_symbols(c, x->args[2]);
    c->choices[c->n++] = x->args[2];
    return x->args[2]->op == L_SYMBOL;
}

// ---------------------------------------------------------------- the table
static int row_of(emit *e, LLVMValueRef *elements, int n) {
    choice_table *t = e->choices;
    uint64_t hash = hash_bytes(HASH_SEED, elements, (size_t)n * sizeof *elements);
    int row = (int)(intptr_t)map_get_number(&t->rows, hash) - 1;
    if (row >= 0 && row + n <= t->elements.n &&
        !memcmp(t->elements.at + row, elements, (size_t)n * sizeof *elements))
        return row;
    row = t->elements.n;
    for (int j = 0; j < n; j++) VEC_PUSH(e->arena, &t->elements, elements[j]);
    map_put_number(&t->rows, hash, (void *)(intptr_t)(row + 1));
    return row;
}

static void open_table(emit *e) {
    e->choices = ARENA_NEW(e->arena, choice_table);
    e->choices->rows.arena = e->arena;
    e->choices->place = LLVMAddGlobal(e->module, LLVMArrayType2(e->kinds[LK_I32], 0), "choices");
}

static LLVMValueRef smaller(emit *e, LLVMValueRef x, int most) {
    LLVMValueRef limit = LLVMConstInt(e->kinds[LK_I32], (unsigned)most, 0);
    return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntULT, x, limit, ""), x, limit, "");
}

// The element of that number in a row, in 64 bits.
static LLVMValueRef load_chosen(emit *e, const choice *c, LLVMValueRef *elements) {
    if (!e->choices) open_table(e);
    int row = row_of(e, elements, c->n);
    LLVMTypeRef word = e->kinds[LK_I64];
    LLVMValueRef number = LLVMBuildZExt(e->b, smaller(e, value_of(e, c->number), c->n - 1), word, "");
    number = LLVMBuildMul(e->b, number, LLVMConstInt(word, 4, 0), "");
    LLVMValueRef at =
        byte_offset(e, byte_offset(e, e->choices->place, number), LLVMConstInt(word, 4 * (unsigned)row, 0));
    return LLVMBuildSExt(e->b, LLVMBuildLoad2(e->b, e->kinds[LK_I32], at, ""), word, "");
}

static LLVMValueRef emit_chosen(emit *e, const choice *c) {
    LLVMValueRef functions[MOST_CHOICES] = {NULL};
    bool same = true;
    for (int j = 0; j < c->n; j++) {
        functions[j] = map_get(&e->symbols, c->choices[j]->name);
        if (!functions[j] || !LLVMIsAFunction(functions[j])) return NULL; // data may be too far away
        same &= functions[j] == functions[0];
    }
    if (same) return functions[0];
    LLVMValueRef distance = load_chosen(e, c, functions);
    return byte_offset(e, e->choices->place, distance);
}

static LLVMValueRef emit_place(emit *e, const choice *c, int arg) {
    LLVMValueRef places[MOST_CHOICES] = {NULL};
    for (int j = 0; j < c->n; j++)
        places[j] = LLVMConstInt(e->kinds[LK_I32], (unsigned)place_in_symbol(c->choices[j]->args[arg]), 0);
    return byte_offset(e, value_of(e, symbol_in(c->choices[0]->args[arg])), load_chosen(e, c, places));
}

static LLVMValueRef element(emit *e, LLVMValueRef f, LLVMValueRef table) {
    LLVMTypeRef word = e->kinds[LK_I64];
    if (LLVMIsAConstantInt(f)) return f;
    return LLVMConstTrunc(LLVMConstSub(LLVMConstPtrToInt(f, word), LLVMConstPtrToInt(table, word)),
                          e->kinds[LK_I32]);
}

void write_choices(emit *e) {
    choice_table *t = e->choices;
    if (!t) return;
    int n = t->elements.n;
    LLVMValueRef table = LLVMAddGlobal(e->module, LLVMArrayType2(e->kinds[LK_I32], (uint64_t)n), "");
    LLVMValueRef *all = ARENA_ARRAY(e->arena, LLVMValueRef, n);
    for (int j = 0; j < n; j++) all[j] = element(e, t->elements.at[j], table);
    LLVMSetInitializer(table, LLVMConstArray2(e->kinds[LK_I32], all, (uint64_t)n));
    LLVMSetGlobalConstant(table, 1);
    LLVMSetAlignment(table, 4);
    LLVMReplaceAllUsesWith(t->place, table);
    LLVMDeleteGlobal(t->place);
    LLVMSetValueName2(table, "choices", strlen("choices"));
    LLVMSetLinkage(table, LLVMInternalLinkage);
}

// LLVM stores a distance from a function whose address does not matter by the relocation of a call, which not all linkers
// take as data on AArch64 and RISC-V (binutils 2.40 does not): addresses matter once equal functions are one.
void keep_addresses(emit *e) {
    if (!e->choices) return;
    for (LLVMValueRef f = LLVMGetFirstFunction(e->module); f; f = LLVMGetNextFunction(f))
        LLVMSetUnnamedAddress(f, LLVMNoUnnamedAddr);
}

// ---------------------------------------------------------------- instructions
// Linkers of other formats have not been tried with such distances.
static bool has_tables(const emit *e) {
    return e->m->target->format == OBJECT_ELF && e->m->target->ptr_bits == 64 && e->kind != EMIT_LISTING;
}

LLVMValueRef emit_choice_of_calls(emit *e, const ins *x, const ins **call) {
    choice c = {0};
    if (!has_tables(e) || !find_calls(&c, x)) return NULL;
    *call = c.choices[0];
    return emit_chosen(e, &c);
}

void emit_choice_of_arguments(emit *e, const ins *x) {
    choice c = {0};
    if (!find_calls(&c, x)) return;
    for (int i = 0; i < c.choices[0]->nargs; i++) {
        bool same = true;
        for (int j = 1; j < c.n; j++) same &= same_argument(c.choices[0]->args[i], c.choices[j]->args[i]);
        if (!same) e->values[c.choices[0]->args[i]->id] = emit_place(e, &c, i);
    }
}

LLVMValueRef emit_choice_of_symbols(emit *e, const ins *x) {
    choice c = {0};
    return has_tables(e) && x->op == L_SELECT && find_symbols(&c, x) ? emit_chosen(e, &c) : NULL;
}
