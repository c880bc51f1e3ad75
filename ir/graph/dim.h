// Dims: symbolic integers (shapes, loop extents, small integer tensors' contents). Interned in a
// table, so equal dims are the same pointer. Normal form: constant, atom, or polynomial over atoms.
#ifndef ONNXC_IR_GRAPH_DIM_H
#define ONNXC_IR_GRAPH_DIM_H
#include "compiler/base/arena.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct dim dim;
typedef struct dims dims; // the table

typedef enum dim_kind {
    DIM_CONST,
    DIM_SYMBOL,   // a model's named dim (dim_param) or an unnamed input dim
    DIM_OPAQUE,   // runtime symbol: element of a tensor, loop-carried size, count
    DIM_POLY,     // sum of terms coefficient * atom * atom ...
    DIM_FLOORDIV, // a / b rounded down, b != 0
    DIM_MOD,      // a - b * floordiv(a, b)
    DIM_MIN,
    DIM_MAX,
    DIM_LT,       // 1 if a < b else 0
    DIM_EQ,       // 1 if a == b else 0
    DIM_SELECT,   // c != 0 ? a : b
    DIM_OVERFLOW, // a constant left int64: an error wherever it becomes a size
    DIM_BIGSUM,   // a + b and a * b, unexpanded: as a polynomial they would pass DIM_MAX_TERMS terms
    DIM_BIGMUL,   // or DIM_MAX_ATOMS atoms in a term
} dim_kind;

enum { DIM_MAX_TERMS = 64, DIM_MAX_ATOMS = 24 };

typedef struct dim_term {
    int64_t coef;
    int natoms;
    struct dim **atoms; // sorted by id; powers repeat
} dim_term;

struct dim {
    dim_kind kind;
    int id; // order of creation: stable between runs
    dims *table;
    int64_t min, max; // known range, INT64_MIN/MAX when unbounded
    int64_t divisor;  // every value is a multiple of it (>= 1; 0 only for constant 0)
    int64_t value;    // DIM_CONST
    const char *name; // DIM_SYMBOL, DIM_OPAQUE: unique in the table
    dim *most;        // DIM_OPAQUE: it is at most this; NULL: not known
    bool is_count;    // DIM_OPAQUE: a declared size does not hold, as data or a branch decide it
    int nterms;       // DIM_POLY
    dim_term *terms;
    dim *a, *b, *c; // operands of the other kinds (SELECT: c ? a : b)
    dim *next;      // in the table, with the same hash
};

dims *dims_new(arena *a);
dim *dim_const(dims *t, int64_t value);
// The symbol of that name (same name, same dim). Range is 0..INT64_MAX until dim_bound narrows it.
dim *dim_symbol(dims *t, const char *name);
// A fresh opaque dim with a name made from stem ("?stem", "?stem.1" ...); range lo..hi.
dim *dim_opaque(dims *t, const char *stem, int64_t lo, int64_t hi);
// The opaque of exactly that name (with its "?"), made unbounded when there is none.
dim *dim_opaque_named(dims *t, const char *name);
// Narrows the range of a symbol or opaque; ranges of all dims built from it follow. A bound that would leave
// no value is ignored: compare with min and max first. divisor 1: nothing known.
void dim_bound(dim *symbol, int64_t lo, int64_t hi, int64_t divisor);
// Narrows the range of the symbol or opaque that decides whether d >= lo, if a single one does so through sums with
// constants, products and quotients by them: from floordiv(N - 7, 2) >= 0 follows N >= 7.
void dim_require(dim *d, int64_t lo);

dim *dim_add(dim *a, dim *b);
dim *dim_sub(dim *a, dim *b);
dim *dim_neg(dim *a);
dim *dim_mul(dim *a, dim *b);
dim *dim_addk(dim *a, int64_t k);
dim *dim_mulk(dim *a, int64_t k);
dim *dim_floordiv(dim *a, dim *b);
dim *dim_ceildiv(dim *a, dim *b);
dim *dim_truncdiv(dim *a, dim *b); // C's division
dim *dim_mod(dim *a, dim *b);      // floor mod
dim *dim_quotient(dim *a, dim *b); // q of a = q * b, whether or not b is 0; NULL: none is known
dim *dim_min(dim *a, dim *b);
dim *dim_max(dim *a, dim *b);
dim *dim_lt(dim *a, dim *b);
dim *dim_eq(dim *a, dim *b);
dim *dim_select(dim *c, dim *a, dim *b);
dim *dim_product(dims *t, dim *const *d, int n); // 1 for n = 0

typedef enum tri { TRI_NO, TRI_YES, TRI_UNKNOWN } tri;
tri dim_equal(const dim *a, const dim *b);
tri dim_less(const dim *a, const dim *b); // a < b
tri dim_less_equal(const dim *a, const dim *b);
bool dim_is_const(const dim *d); // DIM_CONST
bool dim_is(const dim *d, int64_t value);
int64_t dim_value(const dim *d); // of a DIM_CONST
// Proven bounds, often tighter than min and max; INT64_MIN and INT64_MAX where nothing is proven.
int64_t dim_lower(dim *d);
int64_t dim_upper(dim *d);
// A dim without opaques that d never exceeds; NULL: not known.
dim *dim_largest(dim *d);
bool dim_nonzero(const dim *d); // provably
bool dim_divisible(const dim *d, int64_t by);
int64_t dim_content(const dim *d); // the greatest common divisor of its terms' coefficients; of other dims 1
// The greatest multiple of an atom from which n dims can be computed without dividing: 4 for 8*N + 1 and 4*N. 0: it is in
// none.
int64_t dims_multiple(dim *const *d, int n, const dim *atom);

// The value under an assignment of symbols and opaques; false when one is unset, on division by 0
// or overflow.
bool dim_eval(const dim *d, bool (*lookup)(void *user, const dim *atom, int64_t *value), void *user,
              int64_t *result);
// The value where every atom is `usual`, clamped to its range: a guess for cost models.
bool dim_usual(const dim *d, int64_t usual, int64_t *result);
// Every symbol and opaque replaced by map(user, atom) (itself to keep it).
dim *dim_substitute(dim *d, dim *(*map)(void *user, dim *atom), void *user);
// The same dim in another table, with symbols and opaques of the same names.
dim *dim_in_table(dims *to, const dim *d);
// The distinct symbols and opaques in d.
typedef struct atom_list {
    int n;
    dim **at;
} atom_list;
atom_list dim_atoms(arena *a, const dim *d);
bool dim_has_atom(const dim *d, const dim *atom);
int dim_parts_count(const dim *d);          // distinct dims in d, including d
bool dim_is_opaque(const dim *d);           // one of its atoms is: only a step of the program sets it
bool dims_are_opaque(dim *const *d, int n); // one of them is
// What a value out of d's range is: "negative", "less than 3", "outside the range 3 to 7".
const char *dim_range_text(arena *a, const dim *d);
// d rebuilt with the ranges known by now: often simpler.
dim *dim_simplify(dim *d);
// Text such as "2*N + floordiv(H, 2)"; dim_parse reads it back (NULL: not a dim). Opaques are printed as
// ?name, names that are not identifiers in quotes. Parts of very large dims are named first: "let $0 = max(N,
// 4); $1 = floordiv($0, 2) in $0*$1".
const char *dim_text(arena *a, const dim *d);
// The same for readers: of a text of more than DIM_SHORT characters only what it depends on, "f(N, H)".
enum { DIM_SHORT = 60 };
const char *dim_brief(arena *a, const dim *d);
dim *dim_parse(dims *t, const char *s);
#endif
