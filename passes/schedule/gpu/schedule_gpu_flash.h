// Inside of the GPU's schedules of attention: what all ways have in common.
#ifndef ONNXC_PASSES_SCHEDULE_GPU_SCHEDULE_GPU_FLASH_H
#define ONNXC_PASSES_SCHEDULE_GPU_SCHEDULE_GPU_FLASH_H
#include "passes/match/attention.h"
#include "passes/schedule/gpu/schedule_gpu_product.h"

enum { FLASH_ROWS = 64, FLASH_MOST = 4 };

// A thread has `each` rows of the scores and of the results, in runs of `per` columns that lie `far` apart:
// fragments of tensor cores, or groups of 4 x 4.
typedef struct flash {
    gpu *g;
    emitter *e;
    lbuild *b;
    const attention *a;
    contraction score, value; // what `qk` and `pv` are about
    product qk, pv;
    int each, per, far;
    int threads_of_row;        // neighbours
    int block;                 // keys at once
    int width;                 // columns of the results that a thread's row has with its neighbours
    ins *query, *scores, *acc; // scores and results: flash_element
    ins *weights;              // fragments, or shared memory
    ins *top[FLASH_MOST], *sum[FLASH_MOST]; // of the thread's rows, as far as the thread saw them
    ins *row[FLASH_MOST];                   // where its results begin
    ins *column, *result_column;            // of the scores, of the results
    ins *inside[FLASH_MOST];                // whether there is such a row
    ins *at[FLASH_MOST][MAX_AXES];          // its counters
    ins *keys;                              // how many there are for the block
    bool reads;                             // whether scores read more than their products
    bool copies;                            // whether some come past the registers
} flash;

// schedule_gpu_attention.c
ins *flash_element(flash *f, ins *run, int r, int c); // where column c of the run lies in row r
void flash_clear(flash *f, ins *floats, int n);
// P = exp(S - top) of one element, which the sum of its row gets.
ins *flash_weight(flash *f, ins *run, int r, int c, ins *top);
// S = f(S), the online softmax, and weights, of the keys from j0 on.
void flash_softmax(flash *f, ins *j0);
// The two products, whose operands' axes are set; a factor that is more than a read is computed element by
// element.
void flash_set_products(flash *f, product qk, product pv);

// schedule_gpu_flash_tensor.c
dtype flash_tensor_dtype(const emitter *e, const attention *a); // DT_NONE: not on tensor cores
bool flash_tensor_fits(const emitter *e, const attention *a);
void flash_tensor_products(flash *f);
void flash_tensor_rows(flash *f);
void flash_tensor_memory(flash *f);
void flash_tensor_begin(flash *f);
void flash_tensor_weigh(flash *f, ins *run, int r, ins *top);
void flash_tensor_block(flash *f, ins *j0);
void flash_tensor_end(flash *f);
// schedule_gpu_flash_threads.c: the same by multiply-adds of f32
bool flash_threads_fit(const emitter *e, const attention *a);
void flash_threads_products(flash *f);
void flash_threads_rows(flash *f);
void flash_threads_memory(flash *f);
void flash_threads_weigh(flash *f, ins *run, int r, ins *top);
void flash_threads_block(flash *f, ins *j0);
#endif
