// The schedule of products that a CBLAS of the user's computes (--blas=cblas).
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_CBLAS_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_CBLAS_H
#include "passes/match/contract.h"
#include "passes/schedule/common/emit.h"

// False (and nothing emitted) where the layouts do not fit.
bool schedule_cblas(emitter *e, const contraction *c);
#endif
