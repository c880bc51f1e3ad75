// Contractions in f32 or int32 whose constant operand has elements of 2 or 4 bits: weights quantised in blocks, or of
// quantised layers. Their panels hold words of 32 bits with neighbours along K, so that one load feeds a vector of columns for
// several steps:
//
//   for k in steps of g = 32 / bits:
//     w[v] = B[n0 / 16 ...][k / g][n0 % 16 ...]         a word per column
//     for u < g:
//       f[v] = table[w[v] >> bits * u]                   the element as f32 or int32
//       for r: acc[r][v] += splat(A[m0 + r][k + u]) * f[v]
//
// Factors of B that are invariant in a block (scales) multiply the block's sum if registers suffice for it.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_WORDS_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_WORDS_H
#include "ir/kernel/eval.h"
#include "passes/match/contract.h"
#include "passes/schedule/common/emit.h"

enum { WORD_BITS = 32 };

typedef struct word_factor {
    expr *value;     // of B's element alone, as f32, which a table gives; NULL: none
    ins *table;      // of `value`, by the element's bits
    expr *whole;     // B's factor
    expr *term;      // it without `scale`
    expr *scale;     // its factors that are invariant along the words; NULL: none
    int bits, lanes; // of an element; of a vector
} word_factor;

// Elements of B in a word; 0: this contraction has none.
int word_elements(const contraction *c);
// The reduce axis of the elements in a word; -1: none.
int word_axis(const contraction *c);
// Splits B's factor, without a table; `axis` is the words' axis.
void split_word_factor(emitter *e, const contraction *c, int axis, word_factor *f);
// Whether e depends on the read alone; its value then, for the element of these bits.
bool word_is_function_of(const expr *e, const expr *read);
double word_value(const expr *e, const expr *read, int code);
// The same with a table.
void find_word_factor(emitter *e, const contraction *c, int axis, int lanes, word_factor *f);
// The words of `lanes` columns from element `at` of B.
ins *load_packed(emitter *e, const contraction *c, ins *at, int lanes);
// Element u of each word: what *value, an expression of B's factor, stands for.
ins *word_element(emitter *e, const contraction *c, const word_factor *f, ins *words, int u,
                  const expr **value);
#endif
