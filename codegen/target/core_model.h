// What instructions of microcontrollers take, for estimates of whole programs.
#ifndef ONNXC_CODEGEN_TARGET_CORE_MODEL_H
#define ONNXC_CODEGEN_TARGET_CORE_MODEL_H
#include "ir/target.h"

typedef struct code_cost {
    double instructions, cycles;
} code_cost;

typedef struct core_model core_model;
const core_model *core_model_of(const target *t); // NULL: it is not known
// Of a line of assembly, from its mnemonic on. Memory answers at once, and branches are taken.
code_cost core_cost(const core_model *m, const char *line);
#endif
