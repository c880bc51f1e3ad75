// Verifies loops: operand counts and types, definition before use in the same or an enclosing block,
// structure of blocks. In: a function. Out: a defect for the first violation.
#include "ir/loops/loops_blocks.h"
#include "ir/loops/loops_gpu.h"
#include "ir/loops/loops_tiles.h"
#include "ir/target.h"

typedef struct verify {
    const lfunc *f;
    diag *diag;
    bool *made; // visible values, by id
    int loops;  // L_LOOPs around
    int depth;
} verify;

static void defect(const verify *v, const ins *x, const char *what) {
    diag_defect(v->diag, NULL, "function %s: instruction %d (%s): %s", v->f->name, x->id, lop_name(x->op),
                what);
}

static void need(const verify *v, const ins *x, bool ok, const char *what) {
    if (!ok) defect(v, x, what);
}

static bool same(ltype a, ltype b) { return a.kind == b.kind && a.lanes == b.lanes; }
static bool is_scalar(const ins *x, lkind k) { return x->type.kind == k && x->type.lanes == 1; }
static bool is_index(const ins *x) { return lkind_is_int(x->type.kind) && x->type.kind != LK_I1; }
static bool is_pointer(const ins *x) { return is_scalar(x, LK_PTR); }
static ltype type_of(const ins *x, int i) { return x->args[i]->type; }
static bool is_void(const ins *x) { return x->type.kind == LK_VOID; }
static int bits(ltype t) { return t.lanes * lkind_bits(t.kind); }

static void check_operands(const verify *v, const ins *x) {
    int n = lop_operands(x->op);
    need(v, x, n < 0 || x->nargs == n, "wrong number of operands");
    for (int i = 0; i < x->nargs; i++) {
        const ins *a = x->args[i];
        need(v, x, a && a->id < v->f->nins && v->made[a->id],
             "an operand is not defined before its use, in this block or an enclosing one");
        bool variable = a->op == L_VAR;
        need(v, x, variable == ((x->op == L_GET || x->op == L_SET) && i == 0),
             "variables are for get and set");
        need(v, x, a->type.kind != LK_VOID, "an operand has no value");
    }
}

// ---------------------------------------------------------------- types by group of operations

static void all_same(const verify *v, const ins *x) {
    for (int i = 0; i < x->nargs; i++)
        need(v, x, same(x->type, type_of(x, i)), "operands and result differ in type");
}

static void check_numbers(const verify *v, const ins *x) {
    all_same(v, x);
    need(v, x, lkind_is_float(x->type.kind) || lkind_is_int(x->type.kind), "neither integer nor float");
}

static void check_ints(const verify *v, const ins *x) {
    all_same(v, x);
    need(v, x, lkind_is_int(x->type.kind), "no integer");
}

static void check_scaling(const verify *v, const ins *x) {
    need(v, x, v->f->target->scale_instr, "the target has no instruction that scales by powers of two");
    need(v, x, x->type.kind == LK_F32, "not of f32");
    need(v, x, x->type.lanes >= 4 && x->type.lanes * 32 <= v->f->target->vector_bits, "not one vector");
}

static void check_floats(const verify *v, const ins *x) {
    all_same(v, x);
    need(v, x, lkind_is_float(x->type.kind), "no float");
    if (x->op == L_FMA) need(v, x, v->f->target->fma, "the target has no fused multiply-add");
    if (lop_class(x->op) == LC_ROUND)
        need(v, x, x->type.kind == LK_F32 || x->type.kind == LK_F64, "neither f32 nor f64");
    if (x->op == L_SCALE) check_scaling(v, x);
}

static void check_compare(const verify *v, const ins *x) {
    ltype t = type_of(x, 0);
    need(v, x, same(t, type_of(x, 1)), "operands differ in type");
    need(v, x, x->type.kind == LK_I1 && x->type.lanes == t.lanes,
         "the result is not an i1 with as many lanes");
    need(v, x, !(lkind_is_float(t.kind) && (x->op == L_ULT || x->op == L_ULE)),
         "unsigned comparison of floats");
}

static void check_select(const verify *v, const ins *x) {
    ltype c = type_of(x, 0);
    need(v, x, c.kind == LK_I1 && (c.lanes == 1 || c.lanes == x->type.lanes), "condition of another type");
    need(v, x, same(x->type, type_of(x, 1)) && same(x->type, type_of(x, 2)),
         "operands and result differ in type");
}

static void check_whole_rounding(const verify *v, const ins *x) {
    ltype from = type_of(x, 0);
    need(v, x, v->f->target->round_to_int, "the target has no instruction that rounds to integers");
    need(v, x, from.kind == LK_F32 && x->type.kind == LK_I32, "not from f32 to i32");
    need(v, x, rounds_to_int(v->f->target, from.lanes), "no whole vectors");
}

static void check_saturation(const verify *v, const ins *x) {
    need(v, x, v->f->target->round_to_int, "the target has no instruction that saturates");
    need(v, x, type_of(x, 0).kind == LK_I32 && x->type.kind == LK_I8, "not from i32 to i8");
}

static void check_conversion(const verify *v, const ins *x) {
    ltype from = type_of(x, 0), to = x->type;
    bool fi = lkind_is_int(from.kind), ti = lkind_is_int(to.kind), ff = lkind_is_float(from.kind),
         tf = lkind_is_float(to.kind);
    int wider = bits(lt(to.kind, 1)) - bits(lt(from.kind, 1));
    need(v, x, x->op == L_BITCAST || from.lanes == to.lanes, "operand and result differ in lanes");
    if (x->op == L_SEXT || x->op == L_ZEXT)
        need(v, x, fi && ti && wider > 0, "not from an integer to a wider one");
    else if (x->op == L_ITRUNC) need(v, x, fi && ti && wider < 0, "not from an integer to a narrower one");
    else if (x->op == L_SATU8 || x->op == L_SATS8) check_saturation(v, x);
    else if (x->op == L_SITOF || x->op == L_UITOF) need(v, x, fi && tf, "not from integer to float");
    else if (lop_class(x->op) == LC_TO_INT) need(v, x, ff && ti, "not from float to integer");
    else if (x->op == L_FEXT) need(v, x, ff && tf && wider > 0, "not from a float to a wider one");
    else if (x->op == L_FTRUNC) need(v, x, ff && tf && wider < 0, "not from a float to a narrower one");
    else
        need(v, x, bits(from) == bits(to) || from.kind == LK_PTR || to.kind == LK_PTR,
             "operand and result differ in bits");
    if (x->op == L_RINTI || x->op == L_RINTSAT) check_whole_rounding(v, x);
    if (x->op == L_RINTSAT) need(v, x, rounding_saturates(v->f->target), "rounding does not saturate");
}

static void check_reduction(const verify *v, const ins *x) {
    need(v, x, same(x->type, lt(type_of(x, 0).kind, 1)), "the result is not a lane of the operand");
    lclass two = lop_class(lop_across(x->op, x->type.kind));
    need(v, x, two == LC_ARITHMETIC || two == LC_FLOAT || lkind_is_int(x->type.kind), "no integer");
}

static void check_lanes(const verify *v, const ins *x) {
    if (x->op == L_SPLAT)
        need(v, x, same(type_of(x, 0), lt(x->type.kind, 1)), "the operand is not a scalar of this kind");
    if (x->op == L_EXTRACT) {
        need(v, x, same(x->type, lt(type_of(x, 0).kind, 1)), "the result is not a lane of the operand");
        need(v, x, x->i >= 0 && x->i < type_of(x, 0).lanes, "no such lane");
    }
    if (x->op == L_INSERT) {
        need(v, x, same(x->type, type_of(x, 0)) && same(type_of(x, 1), lt(x->type.kind, 1)),
             "operands of other types");
        need(v, x, x->i >= 0 && x->i < x->type.lanes, "no such lane");
    }
    if (x->op == L_PERMUTE) {
        need(v, x, v->f->target->permuted_words, "the target has no such instruction");
        need(v, x, same(x->type, type_of(x, 0)) && same(type_of(x, 1), lt(LK_I32, x->type.lanes)),
             "operands of other types");
        need(v, x, x->type.lanes == v->f->target->permuted_words && lkind_bits(x->type.kind) == 32,
             "not a vector of words");
    }
    if (x->op != L_SHUFFLE) return;
    ltype t = type_of(x, 0);
    need(v, x, same(t, type_of(x, 1)) && t.kind == x->type.kind, "operands of other types");
    for (int i = 0; i < x->type.lanes; i++)
        need(v, x, x->mask[i] >= 0 && x->mask[i] < 2 * t.lanes, "no such lane");
}

static void check_memory(const verify *v, const ins *x) {
    bool gather = x->op == L_GATHER, scatter = x->op == L_SCATTER;
    bool loads = x->op == L_LOAD || x->op == L_LOADN || gather;
    need(v, x, is_pointer(x->args[0]), "operand 0 is not a pointer");
    need(v, x, is_index(x->args[1]), "operand 1 is not an index");
    int lanes = gather ? x->type.lanes : scatter ? type_of(x, 2).lanes : 1;
    need(v, x, type_of(x, 1).lanes == lanes, "the index has the wrong lanes");
    need(v, x, is_void(x) != loads, "a load has a value, a store none");
    if (x->op == L_LOADN) need(v, x, is_index(x->args[2]) && type_of(x, 2).lanes == 1, "n is not an index");
    if (x->op == L_STOREN) need(v, x, is_index(x->args[3]) && type_of(x, 3).lanes == 1, "n is not an index");
}

static void check_dot(const verify *v, const ins *x) {
    all_same(v, x);
    need(v, x, x->type.kind == LK_I32, "no i32");
}

static void check_call(const verify *v, const ins *x) {
    if (x->op == L_CALLPTR) need(v, x, x->nargs > 0 && is_pointer(x->args[0]), "operand 0 is not a pointer");
    else need(v, x, x->name != NULL, "no name");
}

static void check_pointer(const verify *v, const ins *x) {
    need(v, x, is_pointer(x->args[0]), "operand 0 is not a pointer");
    if (x->op == L_OFFSET)
        need(v, x, is_index(x->args[1]) && type_of(x, 1).lanes == 1 && is_pointer(x),
             "operand 1 is not an index");
}

static void check_variable(const verify *v, const ins *x) {
    ltype t = x->args[x->op == L_SET]->type;
    need(v, x, same(t, x->op == L_SET ? x->args[0]->type : x->type), "variable and value differ in type");
}

// ---------------------------------------------------------------- structure

static void check_block(verify *v, const lblock *b);

// Values of a block are not visible after it.
static void check_body(verify *v, const ins *x, int i) {
    if (!x->body[i]) return;
    v->depth++;
    check_block(v, x->body[i]);
    v->depth--;
}

static void check_for(verify *v, const ins *x) {
    all_same(v, x);
    need(v, x, is_index(x) && x->type.lanes == 1, "the counter is not an integer");
    need(v, x, x->args[2]->op != L_CONST || x->args[2]->i > 0, "the step is not positive");
    need(v, x, x->body[0] && !x->body[1], "a loop has one body");
    v->made[x->id] = true;
    int loops = v->loops;
    // A break leaves through a for only where the form of the output can say so: C's would leave the for.
    if (v->f->target->arch.is_text || x->role != LOOP_SERIAL) v->loops = 0;
    check_body(v, x, 0);
    v->loops = loops;
    v->made[x->id] = false;
}

static void check_if(verify *v, const ins *x) {
    need(v, x, is_scalar(x->args[0], LK_I1), "the condition is not an i1");
    need(v, x, x->body[0] != NULL, "no body");
    check_body(v, x, 0);
    check_body(v, x, 1);
}

static void check_loop(verify *v, const ins *x) {
    need(v, x, x->body[0] && !x->body[1], "a loop has one body");
    v->loops++;
    check_body(v, x, 0);
    v->loops--;
}

static void check_return(const verify *v, const ins *x) {
    need(v, x, !x->next, "something follows a return");
    if (v->f->result.kind == LK_VOID) need(v, x, x->nargs == 0, "a value is returned");
    else
        need(v, x, x->nargs == 1 && same(type_of(x, 0), v->f->result),
             "the value does not have the result's type");
}

static void check_const(const verify *v, const ins *x) {
    bool number = lkind_is_int(x->type.kind) || lkind_is_float(x->type.kind);
    if (x->op == L_NULL) need(v, x, is_pointer(x), "no pointer");
    else need(v, x, number, "neither integer nor float");
}

static void check_place(const verify *v, const ins *x) {
    if (x->op == L_PARAM)
        need(v, x, x->i >= 0 && x->i < v->f->params.n && v->f->params.at[x->i].value == x,
             "no such parameter");
    if (x->op == L_SYMBOL) need(v, x, x->name && is_pointer(x), "no name");
    if (x->op == L_LOCAL) {
        need(v, x, is_pointer(x), "no pointer");
        need(v, x, x->i >= 0 && lkind_bytes(x->elem) > 0, "no size");
    }
}

static void check_control(verify *v, const ins *x) {
    if (x->op == L_FOR) check_for(v, x);
    if (x->op == L_IF) check_if(v, x);
    if (x->op == L_LOOP) check_loop(v, x);
    if (x->op == L_RETURN) check_return(v, x);
    if (x->op == L_BREAK)
        need(v, x, v->loops > 0 && is_scalar(x->args[0], LK_I1),
             "not inside a loop, or the condition is not an i1");
}

static void check_ins(verify *v, const ins *x) {
    check_operands(v, x);
    need(v, x, is_void(x) || x->type.lanes > 0, "a value without lanes");
    switch (lop_class(x->op)) {
    case LC_CONST: check_const(v, x); break;
    case LC_PLACE: check_place(v, x); break;
    case LC_LANES: check_lanes(v, x); break;
    case LC_REDUCE: check_reduction(v, x); break;
    case LC_ARITHMETIC: check_numbers(v, x); break;
    case LC_MULADD:
    case LC_FLOAT:
    case LC_SIGN:
    case LC_SQRT:
    case LC_ROUND: check_floats(v, x); break;
    case LC_DIVIDE:
    case LC_MIN_MAX:
    case LC_BITS:
    case LC_SHIFT: check_ints(v, x); break;
    case LC_COMPARE: check_compare(v, x); break;
    case LC_SELECT: check_select(v, x); break;
    case LC_RESIZE:
    case LC_TO_FLOAT:
    case LC_TO_INT:
    case LC_PRECISION:
    case LC_BITCAST: check_conversion(v, x); break;
    case LC_DOT: check_dot(v, x); break;
    case LC_BLOCK: need(v, x, !block_ins_error(x, v->f->target), block_ins_error(x, v->f->target)); break;
    case LC_MEMORY: check_memory(v, x); break;
    case LC_POINTER: check_pointer(v, x); break;
    case LC_VARIABLE: check_variable(v, x); break;
    case LC_CONTROL: check_control(v, x); break;
    case LC_CALL: check_call(v, x); break;
    case LC_GPU: need(v, x, !gpu_ins_error(x), gpu_ins_error(x)); break;
    case LC_TILE: need(v, x, !tile_ins_error(x, v->f->target), tile_ins_error(x, v->f->target)); break;
    case LC_THREADS:
    case LC_COMMENT: break;
    }
}

static void check_block(verify *v, const lblock *b) {
    const ins *last = NULL;
    for (const ins *x = b->first; x; x = x->next) {
        need(v, x, x->op < L_COUNT && x->id >= 0 && x->id < v->f->nins, "no such instruction or number");
        need(v, x, !v->made[x->id], "a number is used twice");
        check_ins(v, x);
        v->made[x->id] = x->op != L_FOR;
        last = x;
    }
    if (b->last != last)
        diag_defect(v->diag, NULL, "function %s: a block's last instruction is not its last", v->f->name);
    for (const ins *x = b->first; x && v->depth; x = x->next) v->made[x->id] = false;
}

void lfunc_verify(const lfunc *f, diag *d) {
    if (!f->body) return;
    verify v = {.f = f, .diag = d, .made = ARENA_ARRAY(f->arena, bool, f->nins + 1)};
    check_block(&v, f->body);
}
