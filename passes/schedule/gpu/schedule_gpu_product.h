// Inside of the GPU's schedule for sums of products: what its four files share.
#ifndef ONNXC_PASSES_SCHEDULE_GPU_SCHEDULE_GPU_PRODUCT_H
#define ONNXC_PASSES_SCHEDULE_GPU_SCHEDULE_GPU_PRODUCT_H
#include "passes/match/cores.h"
#include "passes/schedule/gpu/schedule_gpu_impl.h"

// A block's results, those of one thread (each_m x each_n), and the depth of a slice in words.
typedef struct tile {
    int m, n, each_m, each_n, words;
    double speed; // results in a unit of time, against the fastest
    int stages;   // of the pipeline at most: slices of K in shared memory; 0: 2 or 3
    int together; // blocks of a processor at once that it takes to be so fast; 0: one
    int since;    // the first architecture, 0: any
} tile;

// What tensor cores multiply: 16 x 8 results and 8 words of K at once.
typedef struct tensor_type {
    dtype a, b;
    int per;  // elements in a word
    dtype as; // what factors become, DT_NONE: that of a or b; as they are stored, if they are
} tensor_type;

// One operand of the block: `side` rows or columns from `first` on, one slice of K. A thread fetches it in
// units of unit_rows x unit_words words, which are more than one where they may be fetched at once.
typedef struct operand {
    const expr *read;
    expr *term; // what is multiplied
    dtype as;   // what elements become, DT_NONE: they are multiplied as they are stored
    int axes[MAX_AXES], naxes, side;
    dim *extent;
    ins *first, *staged, *shared; // staged: the thread's words on their way; shared: slices
    bool along_k;                 // neighbours in memory lie along K
    bool transposed;              // shared: rows of K, for ldmatrix_x4_trans
    bool cores; // in memory and shared: core matrices, whole slices of which are copied at once
    int unit_rows, unit_words;
    ins *aligned; // whether units lie at multiples of their size in memory, NULL: they do
} operand;

typedef struct product {
    gpu *g;
    const contraction *c;
    const tensor_type *tensor; // NULL: multiply-adds
    bool async;                // slices come by copies that run on while the block multiplies
    bool warpgroups;           // so, and warpgroups multiply straight from shared memory
    bool copies;               // some units of `async` slices do come so
    ins *mbarriers;            // of bulk copies, one for each stage; NULL: there are none
    int stages;                // slices of an operand in shared memory
    bool overlaps;             // products of a slice run on while the next ones are begun
    tile t;
    int threads;
    operand a, b;
    int outer[MAX_AXES], nouter;
    dim *depth;
    lkind kind, word; // of results, of shared memory
    ins *acc;         // each_m x each_n results
    ins **sums;       // the same as variables, where threads multiply
    ins *lane_m[2];   // where the thread's results begin: unit of rows, row in it
    ins *lane_n[2];
} product;

// schedule_gpu_load.c
// The scope in which an operand's axes stand at position `at` and those of K at `k`.
scope gpu_open_element(product *p, const operand *o, ins *at, ins *k);
void gpu_close_element(product *p, const operand *o, scope s);
static inline bool gpu_is_wide(const operand *o) { return o->unit_rows * o->unit_words > 1; }
void gpu_choose_units(product *p, operand *o);            // p->async: for copies past the registers
int gpu_staged_words(const product *p, const operand *o); // of a thread
int gpu_slice_depth(const product *p);                    // elements of K in a slice
int gpu_slice_words(const product *p, const operand *o);  // shared words of one slice
ins *gpu_shared_at(product *p, const operand *o, ins *row, ins *word); // where a word of a slice lies
ins *gpu_transposed_at(product *p, const operand *o, ins *row,
                       ins *k); // the same, in elements, of a transposed one
void gpu_choose_async(product *p);
void gpu_issue_slice(product *p, operand *o, ins *k0, ins *slice); // starts the copies of a slice
void gpu_load_slice(product *p, operand *o, ins *k0);
void gpu_store_slice(product *p, operand *o, ins *slice);
// Whether two results in neighbouring columns, the first of which is even, may be written at once. *when:
// whether they are, NULL: always.
bool gpu_pairs_fit(product *p, const access *to, const buffer *of, ins **when);
// schedule_gpu_mma.c: NULL where tensor cores do not compute what the contraction means.
const tensor_type *gpu_tensor_type(const target *t, const contraction *c);
void gpu_multiply(lbuild *b, const tensor_type *t, ins *d, ins *x, ins *y); // d += x * y, fragments
const tensor_type *gpu_tensor_of(dtype t); // of two factors of that type, NULL: there is none
bool gpu_is_plain(const expr *term, const expr *read);
// All fragments of an operand for 16 n rows from 16 n * warp on, at one step along K: n times four 8x8
// matrices, which are one fragment of a, or two of b.
void gpu_load_fragments(product *p, const operand *o, int n, bool is_a, ins *slice, ins *warp, ins *word,
                        ins *to);
void gpu_multiply_tensors(product *p, ins *slice);
// By warpgroups: begins, and waits.
void gpu_begin_wgmma(product *p, ins *slice);
void gpu_wait_wgmma(product *p);   // of this slice, or of the one before it where they overlap
void gpu_finish_wgmma(product *p); // of all
// schedule_gpu_bulk.c: whether an operand (its read) may be stored as core matrices, and whether the product would
// make use of them.
bool gpu_find_cores(const target *t, const contraction *c, const expr *read, core_axes *found);
bool gpu_prefers_warpgroups(const target *t, const contraction *c);
// schedule_gpu_bulk.c: copies of whole slices of an operand that lies in core matrices.
// The axis whose positions the K slices of such an operand are, -1: it does not lie so, or is not multiplied
// so.
int gpu_core_axis(const target *t, const contraction *c, const expr *read);
void gpu_make_mbarriers(product *p);
void gpu_copy_slices(product *p, ins *k0, ins *slice); // of those that lie so
void gpu_wait_slice(product *p, ins *number);
// schedule_gpu_product.c
void gpu_set_operand(product *p, operand *o, const expr *read, expr *term); // the operand's axes are set
// What the choice of tiles looks at: results in all, products of K apart.
typedef struct product_size {
    const dim *m, *n, *batch;
    int processors, shared_most, sm;
    bool doubles;
} product_size;
// The cheapest tile. groups: whether warpgroups may multiply, then whether they do; only: they
// must.
tile gpu_choose_tile(const product_size *s, bool tensor, bool *warpgroups, bool only);
#endif
