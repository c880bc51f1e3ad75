// Matrix tiles: eight registers of up to 16 rows of 64 bytes, as AMX has them (Intel's Software Developer's
// Manual, volume 1, chapter 18). In: tiles by number. Out: what their instructions compute.
//
// A configuration gives each tile its rows and the bytes of a row. A product c += a * b sums, for row m of a and
// group n of 4 bytes of b's rows, the products of group k of a's row m and group n of b's row k. Thus b has a
// row for every 4 bytes of a's rows.
#ifndef ONNXC_IR_LOOPS_LOOPS_TILES_H
#define ONNXC_IR_LOOPS_LOOPS_TILES_H
#include "ir/loops/loops.h"

enum { TILES = 8, TILE_ROWS = 16, TILE_BYTES = 64, TILE_GROUP = 4 };
// A configuration: 64 bytes, zero but for 1 at the start, the bytes of a row of tile t at 16 + 2 t, and its rows
// at 48 + t.
enum { TILE_CONFIG_BYTES = 64, TILE_CONFIG_WIDTHS = 16, TILE_CONFIG_HEIGHTS = 48 };

typedef struct tile_shape {
    int rows, bytes;
} tile_shape;
typedef struct tile_file {
    tile_shape shape[TILES]; // rows 0: not configured
    uint8_t data[TILES][TILE_ROWS][TILE_BYTES];
} tile_file;

const char *tile_ins_error(const ins *x, const struct target *t); // NULL: none
// What the processor does; the result is an error, or NULL.
const char *tile_configure(tile_file *f, const uint8_t *config);
const char *tile_multiply(tile_file *f, lop op, int c, int a, int b);

// tile: the number. config: a pointer.
void lb_tile_config(lbuild *b, ins *config);
// The same for tiles of these shapes; memory: a local of TILE_CONFIG_BYTES.
void lb_tile_shapes(lbuild *b, ins *memory, const tile_shape shapes[TILES]);
void lb_tile_release(lbuild *b);
void lb_tile_zero(lbuild *b, int tile);
void lb_tile_load(lbuild *b, int tile, ins *from, ins *stride); // stride in bytes
void lb_tile_store(lbuild *b, int tile, ins *to, ins *stride);
void lb_tile_dot(lbuild *b, lop op, int c, int x, int y); // c += x * y
static inline int tile_of_dot(const ins *x, int operand) { return (int)(x->i >> 4 * operand & 15); }
#endif
