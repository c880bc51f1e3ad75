// Rows that the iterations of a loop read one by one are computed there.
#ifndef ONNXC_PASSES_MEMORY_SINK_H
#define ONNXC_PASSES_MEMORY_SINK_H
#include "ir/kernel/program.h"
#include "ir/target.h"

// `workspace`: that the rows should not take much of; 0: any. False: nothing changed.
bool sink_rows(program *p, const target *t, int64_t workspace);
#endif
