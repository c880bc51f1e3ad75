// Contractions with matrix tiles: sums of products of bytes or of bf16, with constants in panels.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_TILES_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_TILES_H
#include "passes/match/contract.h"
#include "passes/schedule/common/emit.h"
#include "passes/schedule/cpu/tile_parts.h"

// False (and nothing emitted) if the target has no tiles for these operands or they do not pay. parts: of the
// operands, made in `scratch` (tile_parts.h), or NULL.

bool schedule_tiles(emitter *e, const contraction *c, tile_parts *parts, ins *scratch);
#endif
