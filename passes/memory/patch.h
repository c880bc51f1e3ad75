// Patch-wise execution: kernels over windows run in a loop over a few rows each, so that the images between them exist as the
// rows that are still read.
#ifndef ONNXC_PASSES_MEMORY_PATCH_H
#define ONNXC_PASSES_MEMORY_PATCH_H
#include "ir/kernel/uses.h"
#include "ir/target.h"

// In step j of the loop, rows j * rate + lead to (j + 1) * rate + lead - 1 of an image are computed, as far as they exist.
typedef struct patch_image {
    buffer *of;
    bool written;     // by a kernel of the loop
    bool inner;       // used in the loop alone: only rows that are still read exist
    int axis;         // of rows; -1: not known so far
    int64_t up, down; // its rows for each of the first image
    int64_t rows, rate, lead;
    int64_t begin;   // rows j * rate + begin to (j + 1) * rate + lead - 1 are in memory
    int first, last; // kernels that use it
    int last_writer;
    buffer *window, *kept; // those rows; the part of them that the next step reads, too
} patch_image;

typedef struct patch_kernel {
    step *s;
    kernel *k;
    bool fills;         // it writes only elements around an image
    bool sums;          // over the rows
    int axis;           // of rows; -1: not known so far
    patch_image *image; // that it writes, or of a sum that it reads
    int64_t up, down, rows, rate, lead;
    bool whole; // all its rows exist in each step in which one does
} patch_kernel;

typedef struct patch_plan {
    arena *arena;
    program *p;
    const uses *uses;
    int first, n; // steps of the program
    int seed;     // axis of rows of the first image
    patch_kernel *kernels;
    patch_image *images; // by id of the buffer
    int nbuffers;        // that there were before
    int64_t steps, scale;
    int64_t own;   // estimate of the peak in the loop
    int64_t bytes; // and in the program
    double cost;   // instructions that it adds, a rough guess
} patch_plan;

// Rows of b's memory as a buffer, with or without the elements around the image.
buffer patch_rows(arena *a, dims *t, const buffer *b, int axis, int64_t rows, bool around);
void apply_patches(patch_plan *x, const target *t);
// patch_weights.c: constants of a kernel that computes `rate` channels in each step.
void split_weights(program *p, const target *t, const patch_kernel *k, dim *step);
// Kernels at the peak of memory run in patches until the program needs at most this number of bytes; false: nothing changed.
// exact: sums of floats keep their order.
bool patch_program(program *p, const target *t, int64_t most, bool exact);
#endif
