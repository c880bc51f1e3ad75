// Core matrices as a layout. In: an operand and its axes. Out: the storage order of its elements.
#include "passes/match/cores.h"

layout layout_of_cores(const buffer *b, const core_axes *x) {
    layout l = {0};
    const struct layout_entry inner[] = {
        {x->k, 0}, {x->row, 0}, {x->k, SLICE_CORES}, {x->row, CORE_ROWS}, {x->k, 128 / dtype_bits(b->dtype)}};
    for (int j = 0; j < b->rank; j++)
        if (j != x->k && j != x->row) l.order[l.n++] = (struct layout_entry){j, 0};
    for (int j = 0; j < 5; j++) l.order[l.n++] = inner[j];
    return l;
}
