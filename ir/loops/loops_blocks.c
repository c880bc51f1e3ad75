// Blocks in vector registers: checks of their instructions, and their meaning.
#include "ir/loops/loops_blocks.h"
#include "ir/loops/loops_eval.h"
#include "ir/target.h"
#include <float.h>
#include <math.h>

static bool is_float_op(lop op) { return op == L_DOT2_BF16 || op == L_BLOCK_BF16 || op == L_PAIR_BF16; }

const char *block_ins_error(const ins *x, const target *t) {
    bool floats = is_float_op(x->op);
    if (!(x->op == L_PAIR_BF16 ? t->bf16_pairs : floats ? t->bf16mm : t->i8mm))
        return "the target has no such products";
    if (x->type.kind != (floats ? LK_F32 : LK_I32)) return "a sum of another kind";
    if (x->type.lanes % BLOCK_LANES) return "no whole registers";
    if (x->args[0]->type.kind != x->type.kind || x->args[0]->type.lanes != x->type.lanes)
        return "operand 0 and result differ in type";
    for (int i = 1; i < 3; i++)
        if (x->args[i]->type.kind != LK_I32 || x->args[i]->type.lanes != x->type.lanes)
            return "an operand is not in words";
    return NULL;
}

// ---------------------------------------------------------------- bf16
static float bf16_of(uint64_t word, int high) {
    return leval_flush((float)leval_float(LK_F32, high ? word & 0xffff0000 : word << 16 & 0xffffffff));
}

// exact + error rounded to odd, where |error| is below half of the last digit of `exact`.
static float to_odd(double exact, double error) {
    float near = (float)exact;
    if (isinf(near) && fabs(exact) < 0x1p128) return copysignf(FLT_MAX, near);
    if (!isfinite(near)) return near;
    double left = exact - (double)near; // exact
    if (left == 0) left = error;
    if (left == 0) return near;
    bool odd = leval_float_word(LK_F32, (double)near) & 1, away = (left > 0) == (near > 0) && near != 0;
    if (odd) return near;
    return away || near == 0 ? nextafterf(near, near == 0 ? (float)left : copysignf(INFINITY, near))
                             : nextafterf(near, 0);
}

static float add_to_odd(float x, float y) {
    double sum = (double)x + y, part = sum - (double)x,
           error = ((double)x - (sum - part)) + ((double)y - part);
    return leval_flush(to_odd(sum, isfinite(sum) ? error : 0));
}

// Arm's Architecture Reference Manual, BFDotAdd without FEAT_EBF16: every step is rounded to odd, denormals are
// zero. A product of two bf16 is exact unless it is denormal or too large.
static float add_pair(float acc, uint64_t x, uint64_t y) {
    float even = leval_flush(to_odd((double)bf16_of(x, 0) * bf16_of(y, 0), 0)),
          odd = leval_flush(to_odd((double)bf16_of(x, 1) * bf16_of(y, 1), 0)),
          sum = add_to_odd(leval_flush(acc), add_to_odd(even, odd));
    return isnan(sum) ? (float)NAN : sum;
}

// Intel's manual, VDPBF16PS: denormals are zero, both additions are rounded to the nearest.
static float add_pair_x86(float acc, uint64_t x, uint64_t y) {
    for (int high = 1; high >= 0; high--)
        acc = leval_flush(fmaf(bf16_of(x, high), bf16_of(y, high), leval_flush(acc)));
    return acc;
}

// ---------------------------------------------------------------- bytes
static uint64_t add_bytes(lop op, uint64_t acc, uint64_t x, uint64_t y) {
    for (int i = 0; i < 32; i += 8) {
        int64_t left = op == L_BLOCK_SS8 ? (int8_t)(x >> i) : (uint8_t)(x >> i);
        int64_t right = op == L_BLOCK_UU8 ? (uint8_t)(y >> i) : (int8_t)(y >> i);
        acc += (uint64_t)(left * right);
    }
    return leval_fit(LK_I32, acc);
}

static uint64_t add_words(lop op, uint64_t acc, uint64_t x, uint64_t y) {
    if (!is_float_op(op)) return add_bytes(op, acc, x, y);
    float sum = (float)leval_float(LK_F32, acc);
    sum = op == L_PAIR_BF16 ? add_pair_x86(sum, x, y) : add_pair(sum, x, y);
    return leval_float_word(LK_F32, (double)sum);
}

uint64_t block_lane(lop op, const uint64_t *const *operands, int lane) {
    uint64_t acc = operands[0][lane];
    if (op == L_DOT2_BF16 || op == L_PAIR_BF16)
        return add_words(op, acc, operands[1][lane], operands[2][lane]);
    int block = lane / BLOCK_LANES * BLOCK_LANES, row = lane / 2 % 2, column = lane % 2;
    for (int k = 0; k < BLOCK_WORDS; k++)
        acc = add_words(op, acc, operands[1][block + BLOCK_WORDS * row + k],
                        operands[2][block + BLOCK_WORDS * column + k]);
    return acc;
}
