// Products of few rows with weights of at most 8 bits, as sums of bytes (contract_digits.c).
#ifndef ONNXC_PASSES_SCHEDULE_CPU_CONTRACT_DIGITS_H
#define ONNXC_PASSES_SCHEDULE_CPU_CONTRACT_DIGITS_H
#include "passes/schedule/cpu/contract_tiling.h"

// Whether rows can be split, with their digits behind the other parts of the scratch memory (NULL: no).
bool find_digits(tiling *t, ins *scratch);
// Whether this call has few enough rows for that; NULL: always.
ins *digit_rows_only(tiling *t);
// All columns of the rows of this call, of which there are at most DIGIT_ROWS.
void digit_rows(tiling *t);
#endif
