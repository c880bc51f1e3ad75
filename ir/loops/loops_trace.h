// The order in which a function accesses memory, byte by byte, if it follows from constants.
#ifndef ONNXC_IR_LOOPS_LOOPS_TRACE_H
#define ONNXC_IR_LOOPS_LOOPS_TRACE_H
#include "ir/loops/loops.h"

// Memory that is watched. Times are numbers of accesses, from 1.
typedef struct traced_memory {
    int64_t bytes;
    uint32_t *last_read;   // by byte: 0: never
    uint32_t *first_write; // by byte: UINT32_MAX: never
} traced_memory;
// By parameter of f: memory[of_param[i]], or none if -1. False: addresses or trip counts depend on data, or the function
// takes more than `most` steps; the times are unspecified then. *steps: how many it took.
bool loops_trace(arena *scratch, const lmodule *m, const lfunc *f, const int *of_param, traced_memory *memory,
                 int64_t most, int64_t *steps);
#endif
