// The schedule of contractions on CPUs with vectors.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_CONTRACT_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_CONTRACT_H
#include "passes/match/contract.h"
#include "passes/schedule/common/emit.h"

// The columns of a panel for a matrix with this number of columns.
int panel_for(const target *t, const dim *columns);

// Bytes of scratch memory for cache blocking, and after it for columns of 16-bit floats in f32
// (contract_widen.c); 0: none.
int64_t contraction_scratch(const target *t, const contraction *c);
int64_t widened_bytes(const target *t, const contraction *c);
bool widens(const target *t, const contraction *c);         // columns, or pairs
bool copies_columns(const target *t, const contraction *c); // of a large matrix that is no constant
bool widens_pairs(const target *t, const contraction *c);   // of bf16, for which it has no unit
// Constants of a byte or less are unpacked for all rows of a call, and those of 16 bits widened, if the rows are at least this
// number.
int64_t least_unpacked_rows(const target *t, const contraction *c);
bool has_many_rows(const target *t, const contraction *c); // whenever there are any
bool unpacks_for_rows(const target *t, const contraction *c);
// The same after both, for digits of few rows (contract_digits.c).
int64_t digit_bytes(const target *t, const contraction *c);
// The same after all three, for rows in bf16 (contract_pairs.c); NULL: these are not rounded.
dim *pairs_scratch(const target *t, const contraction *c);
// False (and nothing emitted) if this schedule does not apply. scratch NULL: neither.
bool schedule_contraction(emitter *e, const contraction *c, ins *scratch);
typedef struct tiling tiling; // contract_tiling.h
// The same without blocking, in the tiles and tasks that another schedule has chosen for both. scratch: of contract_bytes.h
// and contract_digits.h, or NULL.
void schedule_contraction_in_tasks(emitter *e, const contraction *c, const tiling *like, ins *scratch);
// The columns of a panel of such an operand, or of one in groups.
int panel_of(const buffer *b, bool groups);
// Whether groups of two neighbours along K alternate with columns: [..., columns / 2, K of a group, 2 columns].
bool interleaves(const layout *l);
// Whether b's layout is panels [..., N/16, ..., 16] along the logical axis that the N axis indexes.
bool is_packed_operand(const expr *read, int n_axis);
#endif
