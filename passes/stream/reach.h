// Which samples of its inputs a node reads for each sample of its outputs, found in the kernels that it lowers to.
#ifndef ONNXC_PASSES_STREAM_REACH_H
#define ONNXC_PASSES_STREAM_REACH_H
#include "passes/match/window.h"

// The samples of one input that output sample t depends on: floor((up*t + lo) / down) to floor((up*t + hi) / down).
// A convolution of stride 2 and kernel 3 with one element of padding has up 2, down 1, lo -1, hi 1; nearest
// upsampling by 2 has up 1, down 2. up and down have no common factor.
typedef struct window {
    bool used;
    int64_t up, down, lo, hi;
    bool padded;          // samples before the first one count as `fill`
    const constant *fill; // of one element; padded only
    bool edge;            // samples before the first one count as the first one
    // Of one element: what a concatenation puts before the signal, -lo samples of it; NULL: nothing, or something else.
    const constant *head;
    const value *first; // the same, where it puts another input there
} window;

// What one output depends on along the time axis.
typedef struct reach {
    int axis;       // of the output; NO_TIME: none of its sizes depends on the length of the signal
    window *inputs; // by input of the node
    bool moves;     // the output is the only input it uses, shifted in time: nothing is computed
} reach;

enum { NO_TIME = -1 };

// The axis of t whose size depends on the symbol `length`; NO_TIME: none. *several: more than one does.
int time_axis(const type *t, const dim *length, bool *several);

// The reach of every output of n, by its index. `sized`: ids of values that depend on the length of the signal without being
// signals, such as shapes. NULL: n needs samples that a stream does not have; *why says which.
reach *node_reach(node *n, const dim *length, map *sized, const char **why);
#endif
