// Lookup tables: functions of a single byte are looked up instead of computed. Runs after quantisation, which
// leaves chains of requantisations between bytes.
#ifndef ONNXC_PASSES_REWRITE_TABLES_H
#define ONNXC_PASSES_REWRITE_TABLES_H
#include "ir/kernel/program.h"

// Written values that are functions of a single byte become reads of constants of 256 elements if computing
// them costs more. The interpreter computes the elements.
void tabulate_program(program *p);
#endif
