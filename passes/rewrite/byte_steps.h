// Rising functions of an integer that round to bytes, such as the scaled sum of a quantised product: the values at which
// they step from each byte to the next.
#ifndef ONNXC_PASSES_REWRITE_BYTE_STEPS_H
#define ONNXC_PASSES_REWRITE_BYTE_STEPS_H
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/rewrite/channel_values.h"

enum { LINKS = 24, BYTES = 256 };

// An operation of the function; operand `side` is the link before, `other` known for each channel.
typedef struct link {
    const expr *op;
    const expr *other;
    int side;
} link;

typedef struct span {
    int64_t lo, hi;
} span;

// A function of one integer, link n - 1 first.
typedef struct chain {
    kernel *k;
    const stage *s;
    const uses *uses;
    bool above_byte; // the leaf is the nearest byte that was rounded
    expr *leaf;
    span range; // of the leaf
    channel_axes channels;
    int n;
    link links[LINKS];
    cell constant[LINKS]; // of the channel that is examined
} chain;

// The function of one channel: s = first[n] is the least that gives the byte out.lo + n.
typedef struct byte_steps {
    span out;
    int64_t first[BYTES];
    double slope, offset; // of the result, before it is rounded
    bool rises;           // every factor is positive
} byte_steps;

static inline bool is_small(dtype t) { return dtype_is_int(t) && dtype_bits(t) <= 16; }

// Whether x, a function of one operand, never decreases when the operand increases.
bool rises_alone(const expr *x);
// Of a sum over the reduced axes of s in any order. False: not known to be within 32 bits.
bool sum_span(const kernel *k, const stage *s, const state *st, const expr *term, span *out);
// False: x is not a byte or 16-bit integer computed by such a function.
bool chain_find(chain *c, kernel *k, const stage *s, const uses *u, expr *x);
// The same of the nearest byte that x rounds again, such as a sum that was quantised before a bias was added.
bool chain_find_above(chain *c, kernel *k, const stage *s, const uses *u, expr *x);
// Applies the operations to a value of any kind, and to an integer.
int64_t chain_apply(const chain *c, cell v);
int64_t chain_at(const chain *c, int64_t s);
// Also loads the constants of a channel. False: the function does not rise. line_find does not compute the steps.
bool line_find(chain *c, byte_steps *st, int64_t channel);
bool steps_find(chain *c, byte_steps *st, int64_t channel);
// 0: not known, or too many.
int64_t chain_channels(const chain *c);
// As channel_numbers.
expr *chain_numbers(const chain *c, const char *name, dtype t, const cell *v);
#endif
