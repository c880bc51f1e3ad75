// Indices that read a window around the position on an axis.
#ifndef ONNXC_PASSES_MATCH_WINDOW_H
#define ONNXC_PASSES_MATCH_WINDOW_H
#include "ir/kernel/kernel.h"

typedef enum window_fit {
    WINDOW_FITS,
    WINDOW_COMPUTED, // the index is not affine, or a coefficient is not constant
    WINDOW_BASE,     // `base` is not constant
    WINDOW_EXTENT,   // the extent of another axis, `other`, is not constant
} window_fit;

// floor((at * axis + lo) / down) to floor((at * axis + hi) / down): lo and hi are the ends over all other axes.
typedef struct index_window {
    int64_t at, lo, hi, down;
    const expr *base;
    int other;
} index_window;

bool expr_known_int(const expr *e, int64_t *v); // a constant, or a dim that is one
window_fit window_of_index(kernel *k, expr *index, int axis, index_window *w);
static inline int64_t div_down(int64_t a, int64_t b) { return a / b - (a % b && (a < 0) != (b < 0)); }
#endif
