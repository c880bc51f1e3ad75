// Products of few rows with weights of at most 8 bits, as sums of bytes (contract_digits.c).
#ifndef ONNXC_PASSES_SCHEDULE_CPU_CONTRACT_DIGITS_H
#define ONNXC_PASSES_SCHEDULE_CPU_CONTRACT_DIGITS_H
#include "passes/schedule/cpu/contract_tiling.h"

// Whether rows can be split, with their digits at `at` (NULL: no).
bool find_digits(tiling *t, ins *at);
// All columns of the rows of this call, of which there are at most DIGIT_ROWS.
void digit_rows(tiling *t);
#endif
