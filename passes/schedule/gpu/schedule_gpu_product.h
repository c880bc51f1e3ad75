// Shared by the files of the GPU schedule for sums of products.
#ifndef ONNXC_PASSES_SCHEDULE_GPU_SCHEDULE_GPU_PRODUCT_H
#define ONNXC_PASSES_SCHEDULE_GPU_SCHEDULE_GPU_PRODUCT_H
#include "passes/match/cores.h"
#include "passes/schedule/gpu/schedule_gpu_impl.h"

// The results of a block and of a thread (each_m x each_n), and the depth of a K tile in words.
typedef struct tile {
    int m, n, each_m, each_n, words;
    double speed;  // relative throughput
    int stages;    // pipeline stages (K tiles in shared memory) at most; 0: 2 or 3
    int occupancy; // blocks per processor (occupancy) needed for this throughput; 0: one
    int least_sm;  // first architecture, 0: any
} tile;

// A type of tensor core products: 16 x 8 results and 8 words of K each.
typedef struct tensor_type {
    dtype a, b;
    int per;  // elements per word
    dtype as; // type to which factors are converted, DT_NONE: stored as a and b
} tensor_type;

// One operand of the block: `side` rows or columns from `first` on, one K tile. A thread loads it in units of
// unit_rows x unit_words words, larger than one word if vector loads are possible.
typedef struct operand {
    const expr *read;
    expr *term; // the factor
    dtype as;   // type to which elements are converted, DT_NONE: multiplied as stored
    int axes[MAX_AXES], naxes, side;
    dim *extent;
    ins *first, *staged,
        *shared;     // staged: the thread's words in registers (register staging); shared: K tiles
    bool along_k;    // memory is contiguous along K
    bool transposed; // shared: rows of K, for ldmatrix_x4_trans
    bool cores;      // stored as core matrices in global and shared memory: bulk copies of whole K tiles
    int unit_rows, unit_words;
    ins *aligned; // whether units are aligned in memory, NULL: always
} operand;

typedef struct product {
    gpu *g;
    const contraction *c;
    const tensor_type *tensor; // NULL: multiply-adds
    bool async;                // K tiles are copied asynchronously (software pipelining)
    bool warpgroups;           // in addition, warpgroups multiply from shared memory
    bool copies;               // some units of `async` K tiles are copied asynchronously
    ins *mbarriers;            // of bulk copies, one per stage; NULL: none
    int stages;                // pipeline stages: K tiles of an operand in shared memory
    bool overlaps;             // products of a K tile overlap with the next ones
    tile t;
    int threads;
    operand a, b;
    int outer[MAX_AXES], nouter;
    dim *depth;
    lkind kind, word; // kind of results, of words in shared memory
    ins *acc;         // each_m x each_n results
    ins **sums;       // the same as variables, if threads multiply
    ins *lane_m[2];   // first row of the thread's results: unit of rows, row within it
    ins *lane_n[2];
} product;

// schedule_gpu_load.c
// The scope in which an operand's axes are at position `at` and the axes of K at `k`.
scope gpu_open_element(product *p, const operand *o, ins *at, ins *k);
void gpu_close_element(product *p, const operand *o, scope s);
static inline bool gpu_is_wide(const operand *o) { return o->unit_rows * o->unit_words > 1; }
void gpu_choose_units(product *p, operand *o);                         // p->async: for asynchronous copies
int gpu_staged_words(const product *p, const operand *o);              // per thread
int gpu_slice_depth(const product *p);                                 // elements of K in a K tile
int gpu_slice_words(const product *p, const operand *o);               // shared words of a K tile
ins *gpu_shared_at(product *p, const operand *o, ins *row, ins *word); // offset of a word in a K tile
ins *gpu_transposed_at(product *p, const operand *o, ins *row,
                       ins *k); // the same, in elements, if transposed
void gpu_choose_async(product *p);
void gpu_issue_slice(product *p, operand *o, ins *k0, ins *slice); // starts the copies of a K tile
void gpu_load_slice(product *p, operand *o, ins *k0);
void gpu_store_slice(product *p, operand *o, ins *slice);
// Whether two results in adjacent columns, the first of which is even, may be stored together; *when: the
// runtime condition, NULL: always.
bool gpu_pairs_fit(product *p, const access *to, const buffer *of, ins **when);
// schedule_gpu_mma.c: NULL if tensor cores do not compute the contraction.
const tensor_type *gpu_tensor_type(const target *t, const contraction *c);
void gpu_multiply(lbuild *b, const tensor_type *t, ins *d, ins *x, ins *y); // d += x * y, fragments
const tensor_type *gpu_tensor_of(dtype t); // for two factors of that type, NULL: none
bool gpu_is_plain(const expr *term, const expr *read);
// Loads all fragments of an operand for 16 n rows from 16 n * warp on, at one step along K: n times four 8x8
// matrices, which are one fragment of a, or two of b.
void gpu_load_fragments(product *p, const operand *o, int n, bool is_a, ins *slice, ins *warp, ins *word,
                        ins *to);
void gpu_multiply_tensors(product *p, ins *slice);
// By warpgroups: begins the products of a K tile, and waits for them.
void gpu_begin_wgmma(product *p, ins *slice);
void gpu_wait_wgmma(product *p);   // for this K tile, or for the one before it if they overlap
void gpu_finish_wgmma(product *p); // for all
// schedule_gpu_bulk.c: whether an operand (its read) may be stored as core matrices, and whether the product
// prefers warpgroups, which use them.
bool gpu_find_cores(const target *t, const contraction *c, const expr *read, core_axes *found);
bool gpu_prefers_warpgroups(const target *t, const contraction *c);
// schedule_gpu_bulk.c: bulk copies of K tiles of an operand stored as core matrices. The axis along which the
// K tiles of such an operand are cut, -1: it is not stored or not used as core matrices.
int gpu_core_axis(const target *t, const contraction *c, const expr *read);
void gpu_make_mbarriers(product *p);
void gpu_copy_slices(product *p, ins *k0, ins *slice); // of operands stored as core matrices
void gpu_wait_slice(product *p, ins *number);
// schedule_gpu_product.c
void gpu_set_operand(product *p, operand *o, const expr *read, expr *term); // o's axes are set already
// The inputs of the choice of tiles: numbers of results, and facts of the target.
typedef struct product_size {
    const dim *m, *n, *batch;
    int processors, shared_most, sm;
    bool doubles;
} product_size;
product_size gpu_product_size(const target *t, const dim *m, const dim *n, const dim *batch);
// The cheapest tile. *warpgroups: whether warpgroups are possible, on return whether they are chosen; only:
// they are required.
tile gpu_choose_tile(const product_size *s, bool tensor, bool *warpgroups, bool only);
#endif
