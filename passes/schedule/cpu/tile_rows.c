// Rows of matrix tiles. In: the tiling of a contraction. Out: the axes of its rows. Images of short rows are one
// axis where that takes fewer blocks: 7 rows of 7 positions, 9 apart in memory, are 61 positions in two blocks; 12 of
// them are between rows.
#include "passes/schedule/cpu/tile_rows.h"
#include "ir/loops/loops_tiles.h"

enum { BLOCK = 2 * TILE_ROWS };

static int64_t in_blocks(int64_t n, int64_t rows) { return (n + rows - 1) / rows; }

int balanced_rows(int64_t n) {
    int64_t blocks = in_blocks(n, BLOCK), rows = blocks ? in_blocks(n, blocks) : BLOCK;
    return (int)(rows + rows % 2);
}

int pair_axis_of(const tiling *t) {
    const dim *rows = t->e->extent[t->tile_m];
    if (!dim_is_const(rows) || dim_value(rows) > TILE_ROWS || t->m.n < 2 || t->m.at[t->m.n - 1] != t->tile_m)
        return -1;
    int axis = t->m.at[t->m.n - 2];
    return t->e->extent[axis]->min > 1 ? axis : -1;
}

int64_t image_positions(const tiling *t, int pair_axis, int64_t pitch) {
    return (dim_value(t->e->extent[pair_axis]) - 1) * pitch + dim_value(t->e->extent[t->tile_m]);
}

int64_t image_pitch(const tiling *t, int pair_axis) {
    if (pair_axis < 0 || t->e->task_axis == pair_axis) return 0;
    const expr *line = t->a->coef[pair_axis], *one = t->a->coef[t->tile_m];
    const dim *lines = t->e->extent[pair_axis];
    if (line->op != X_CONST || one->op != X_CONST || one->i <= 0 || line->i % one->i || !dim_is_const(lines))
        return 0;
    int64_t pitch = line->i / one->i, n = image_positions(t, pair_axis, pitch);
    bool fits = pitch >= dim_value(t->e->extent[t->tile_m]) && n >= BLOCK;
    return fits && in_blocks(n, BLOCK) < in_blocks(dim_value(lines), 2) ? pitch : 0;
}

int64_t row_blocks(const tiling *t, const row_plan *r) {
    enum { SOME_ROWS = 256 };
    int64_t m = positions(t->e->k, &t->c->m);
    if (m == 0 || m == INT64_MAX) return m ? SOME_ROWS / BLOCK : 0;
    int64_t n = dim_value(t->e->extent[t->tile_m]), outer = m / n;
    if (r->pair_axis < 0) return outer * in_blocks(n, r->rows);
    int64_t lines = dim_value(t->e->extent[r->pair_axis]);
    int64_t blocks =
        r->pitch ? in_blocks(image_positions(t, r->pair_axis, r->pitch), r->rows) : in_blocks(lines, 2);
    return outer / lines * blocks;
}
