// Shared by the GPU schedules of attention.
#ifndef ONNXC_PASSES_SCHEDULE_GPU_SCHEDULE_GPU_FLASH_H
#define ONNXC_PASSES_SCHEDULE_GPU_SCHEDULE_GPU_FLASH_H
#include "passes/schedule/gpu/schedule_gpu_product.h"

enum { FLASH_ROWS = 64, FLASH_MOST = 4 };

// A thread has `each` rows of the scores and of the results, in runs of `per` columns at a distance of `far`:
// fragments of tensor cores, or groups of 4 x 4.
typedef struct flash {
    gpu *g;
    emitter *e;
    lbuild *b;
    const attention *a;
    const struct flash_unit *unit;
    contraction score, value; // the contractions of `qk` and `pv`
    product qk, pv;
    int each, per, far;
    int threads_of_row;                     // adjacent threads that share a row
    int block;                              // keys per block
    int width;                              // columns of the results that the threads of a row have
    ins *query, *scores, *acc;              // scores and results: flash_element
    ins *weights;                           // fragments, or shared memory
    ins *top[FLASH_MOST], *sum[FLASH_MOST]; // of the thread's rows, over the columns of the thread
    ins *row[FLASH_MOST];                   // index of the row
    ins *column, *result_column;            // first column of the scores, of the results
    ins *inside[FLASH_MOST];                // whether the row exists
    ins *at[FLASH_MOST][MAX_AXES];          // counters of the row
    ins *keys;                              // number of keys that the block uses
    bool reads;                             // whether scores read more than their products
    bool copies;                            // whether some operands are copied asynchronously
} flash;

// schedule_gpu_attention.c
ins *flash_element(flash *f, ins *run, int r, int c); // offset of column c of the run in row r
void flash_clear(flash *f, ins *floats, int n);
// P = exp(S - top) of one element, added to the sum of its row.
ins *flash_weight(flash *f, ins *run, int r, int c, ins *top);
// S = f(S), the online softmax and the weights for the keys from j0 on.
void flash_softmax(flash *f, ins *j0);
// Sets up the two products. A factor that is not a plain read is computed element by element.
void flash_set_products(flash *f, product qk, product pv);

// How a block computes the products and the weights; NULL: nothing to do.
typedef struct flash_unit {
    const char *schedule;
    bool (*fits)(const emitter *e, const attention *a);
    void (*products)(flash *f), (*memory)(flash *f), (*rows)(flash *f), (*begin)(flash *f), (*end)(flash *f);
    void (*weigh)(flash *f, ins *run, int r, ins *top);
    void (*block)(flash *f, ins *j0);
} flash_unit;
extern const flash_unit flash_tensor, flash_threads; // tensor cores; multiply-adds of f32
#endif
