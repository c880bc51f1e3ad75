// Shared by the files of dims: the table, traversal, intervals.
#ifndef ONNXC_IR_GRAPH_DIM_IMPL_H
#define ONNXC_IR_GRAPH_DIM_IMPL_H
#include "ir/graph/dim.h"
#include "ir/graph/int_range.h"

struct dims {
    arena *arena;
    VEC(dim *) all; // by id
    map interned;   // hash -> the dims that have it, in a list
    map symbols, opaques, stems;
    dim *overflow;
};

// The factors of a polynomial's terms.
static inline bool dim_is_atom(const dim *d) { return d->kind != DIM_CONST && d->kind != DIM_POLY; }

// The interned dim equal to d (kind, value, name, terms or operands set); terms are copied when new.
dim *dim_intern(dims *t, const dim *d);
// Sum of the terms; they need not be sorted or merged. NULL when there are more than DIM_MAX_TERMS.
dim *dim_from_terms(dims *t, dim_term *terms, int n);
// d as terms (of a constant, atom or polynomial); storage for the single term of the first two.
typedef struct dim_view {
    const dim_term *terms;
    int n;
    dim_term one;
    dim *atom;
} dim_view;
static inline bool overflows(const dim *a, const dim *b) {
    return a->kind == DIM_OVERFLOW || b->kind == DIM_OVERFLOW;
}
void dim_view_of(dim_view *v, dim *d);
// a / b as a term: false when it does not divide. The atoms are stored in `atoms`.
bool dim_term_divide(const dim_term *a, const dim_term *b, dim_term *quotient, dim **atoms);

// Computes min, max and divisor from the operands.
void dim_set_range(dim *d);
// A proven lower bound of d, better than its interval.
int64_t dim_low(dim *d, int depth);

// All dims below d and d itself, operands before users.
typedef struct dim_walk {
    const dim **at;
    int n;
    map place; // from id to 1 + position in at
} dim_walk;
void dim_walk_init(dim_walk *w, arena *a, const dim *d);
static inline int dim_walk_place(const dim_walk *w, const dim *d) {
    return (int)(intptr_t)map_get_number(&w->place, (uint64_t)d->id) - 1;
}
// The operands of d, which repeat where it uses one several times; returns their number.
enum { DIM_MAX_PARTS = DIM_MAX_TERMS * DIM_MAX_ATOMS + 3 };
int dim_parts(const dim *d, const dim **parts);

// Parses the dim at *s and moves *s past it; NULL when there is none.
dim *dim_parse_at(dims *t, const char **s);

int64_t gcd64(int64_t a, int64_t b); // of magnitudes; 0 with 0 is 0
#endif
