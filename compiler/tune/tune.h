// --tune and --tune-db: choices of algorithms and schedules by measuring kernels on this machine, and the
// file that keeps the answers.
#ifndef ONNXC_COMPILER_TUNE_TUNE_H
#define ONNXC_COMPILER_TUNE_TUNE_H
#include "compiler/driver/pipeline.h"

// Sets p->choices from the file and by measuring, before the model goes its way. Targets must be set.
void tune_model(pipeline *p, goal g);
// The answers that the code is made with, as text: they are a part of the options. After the program's
// passes.
const char *tune_used_text(pipeline *p);
// Remarks on the answers of the file, and those that were of no use.
void tune_report(pipeline *p);
// Of --tune, or 0 where what it says is no time.
double tune_seconds(const options *o);
#endif
