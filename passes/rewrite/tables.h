// Tables: what a value of eight bits decides alone is looked up, not computed. Runs after quantisation, which
// leaves the chains of roundings between bytes that this is for.
#ifndef ONNXC_PASSES_REWRITE_TABLES_H
#define ONNXC_PASSES_REWRITE_TABLES_H
#include "ir/kernel/program.h"

// Expressions in what kernels write whose only varying part is a byte become reads of constants of 256
// elements where computing them costs more. The elements are what the interpreter computes.
void tabulate_program(program *p);
#endif
