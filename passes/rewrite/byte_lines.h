// Requantisation by one product and one sum in f32.
#ifndef ONNXC_PASSES_REWRITE_BYTE_LINES_H
#define ONNXC_PASSES_REWRITE_BYTE_LINES_H
#include "passes/rewrite/byte_steps.h"

// The byte x of the chain; NULL: no two constants of each channel give it, or it takes no more operations as it is. Not
// `exact`: few bytes may begin one integer sooner or later.
expr *byte_of_line(arena *scratch, chain *c, expr *x, bool exact);
#endif
