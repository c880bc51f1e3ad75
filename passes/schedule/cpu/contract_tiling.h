// Sizes of a contraction's tiles and blocks, from its extents, the target's registers and the class of its
// caches.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_CONTRACT_TILING_H
#define ONNXC_PASSES_SCHEDULE_CPU_CONTRACT_TILING_H
#include "passes/schedule/cpu/contract_bytes.h"
#include "passes/schedule/cpu/contract_factor.h"
#include "passes/schedule/cpu/schedule_contract.h"
#include "passes/schedule/cpu/schedule_words.h"

// The rows of a task are a multiple of tiles of 6 and of 14 rows. CHUNK: columns of a block of K.
enum {
    MAX_ROWS = 14,
    COMPACT_ROWS = 4,
    DIGIT_ROWS = 8,
    DIGIT_TILE = 4,
    DIGIT_SUMS = 16,
    MAX_VECTORS = 4,
    MAX_SIDES = 4,
    PIECE_ROWS = 42,
    MAX_FLAT = 8,
    CHUNK = 256
};

// Cache blocking around the tiles. Axes m[0 .. m_at) and k[0 .. k_at) are outside of it, one position at a
// time.
typedef struct block_plan {
    bool on, splits;        // splits: K is blocked too
    bool nested;            // the axis outside of m_at is blocked too, by a runtime number of positions
    int64_t columns;        // in a chunk
    int m_at, k_at;         // indices into m and k of the blocked axes
    int64_t m_step, k_step; // positions of those axes in a block
    int64_t m_inner;        // positions of the axes of M inside of m_at
    int64_t whole;          // positions that are one block if only a run knows how many there are
} block_plan;

// Rows as sums of bytes (contract_digits.c), in memory at `at`.
typedef struct digit_plan {
    bool on;
    ins *at;
    int64_t inner;             // positions of K in a block, which is the innermost axis
    int64_t segment, segments; // positions of K that share a power of two, parts of a block; of all of K
    word_factor factor;        // of B
    int offset;                // is added to B's elements
    expr *zero;                // the zero point of each block, NULL: B's elements less `offset`
} digit_plan;

// The part of a buffer's offset that depends on the flat axes, the sum of their counters times their strides.
typedef struct row_sum {
    expr *sum, *stride[MAX_FLAT];
    bool even;         // rows are the innermost axis' stride apart
    ins *at[MAX_ROWS]; // its value at each row of the current tile
} row_sum;

// Several axes of M whose positions are rows (contract_flatten.c), outermost first.
typedef struct flat_axes {
    int n, axis[MAX_FLAT]; // 0: none, rows are positions of the tiled axis
    dim *extent[MAX_FLAT];
    VEC(row_sum *) sums;         // of all buffers
    row_sum *a;                  // that of A
    ins *at[MAX_ROWS][MAX_FLAT]; // counters at each row of the current tile
} flat_axes;

typedef struct tiling {
    emitter *e;
    const contraction *c;
    access *a, *b, *write;
    axis_list m, k;           // after collapsing
    int tile_m;               // M axis that is tiled, -1: none
    flat_axes flat;           // which tile_m is all of
    int row_piece;            // its positions in a task
    int64_t column_piece;     // columns in a task, 0: those of a tile
    bool pairs_tasks;         // tasks may be pairs of positions of two axes
    bool grid;                // tasks are pieces of the columns and of the rows
    int lanes, rows, vectors; // L, MR (for the current columns), maximal NV
    int registers;            // for vectors of `lanes` lanes
    bool widens;              // products of bytes are those of 16 bits
    bool packed;
    int panel;                     // columns of a panel, or of rows in place that a vector may take
    expr *side[MAX_SIDES];         // other reads of B's factor along N: scales, zero points
    access *side_panel[MAX_SIDES]; // its first column if it is packed like B, else NULL
    int nsides;
    ins *side_value[MAX_SIDES][MAX_VECTORS]; // by vector, NULL: not loaded yet
    int group_axis, group; // reduce axis in groups (schedule_groups.h), -1: none; elements of one, 1
    bool words;            // the groups are words of packed elements
    bool halves;           // their products are added as adds_halves says
    word_factor word;      // then B's factor; that of bytes, without a table
    bool sums_block;       // `scale` multiplies the sums of a block: steps leave it out
    int sets, set;    // sums of an element of the result, of which steps of K take turns; that of this step
    byte_rows *bytes; // rows are rounded to bytes, NULL: they are not
    digit_plan digits;
    last_panel narrow; // the last one if its rows are narrower, else without rows
    expr *narrow_row;  // the current one of its rows
    ins *panel_stride; // elements from one panel to the next
    expr *row_stride;  // elements of A from one row to the next
    bool by_lanes;     // ROW_WORDS steps of K take lanes of a register of each row
    ins *row_words[MAX_ROWS];
    int lane;        // of the current step, -1: A is read one by one
    bool heavy;      // the epilogue is a loop over the tile
    lfunc *finisher; // ... in this function, NULL: not emitted yet
    block_plan block;
    ins *partial;         // sums over previous blocks of K
    ins *wide;            // memory for B's columns in f32 (contract_widen.c), NULL: not widened
    bool copies;          // `wide` has the chunk's columns unconverted
    bool is_wide;         // the columns of this tile are there
    ins *wide_from;       // their first element in B
    bool unpacks;         // B's factors are stored there for all rows
    bool pairs;           // B is in pairs of bf16, which are widened
    ins *rounded_rows;    // memory for A's elements in bf16 (contract_pairs.c), NULL: they are not rounded
    ins *rounded_from;    // the first of them in A
    ins *m_begin, *m_end; // bounds of the block along M, NULL: all
    ins *outer_begin, *outer_end; // bounds of the axis outside of it, if nested
    ins *m_middle;                // where tiles with one row less begin, NULL: unknown
    ins *k_begin, *k_end;         // bounds of the block along K, NULL: all
    ins *chunk, *chunk_end;       // columns of the block
    int prefetch_panels,
        prefetch_parts;  // parts of B's next tile, each prefetched by a different tile; 0: none
    bool prefetch_done;  // the previous step of K has prefetched
    bool ahead;          // B is read once, and requested ahead
    bool ahead_done;     // in the cache line of the previous step of K
    ins *prefetch;       // elements from this tile's position in B to the prefetched part
    ins *further, *last; // whether the block of K is not the first; is the last
} tiling;

enum { ROW_WORDS = 4 };

typedef struct tile {
    int rows, vectors;
    ins *m0, *n0;
    ins *last; // columns in the last vector, NULL: all
    ins *done; // first rows that are written already and must not be again, NULL: none
    ins *left; // rows that there are, at least `sure`; the others repeat the last one. NULL: all
    int sure;
    bool narrow; // all vectors are in a last panel of narrower rows
    ins *width;  // of the rows of the tile's panel, NULL: known
} tile;

// Sets the accesses of the operands; false: a form that no schedule of contractions takes.
bool contraction_operands(tiling *t);
void find_panel_stride(tiling *t); // of packed operands
bool find_last_panel(tiling *t);   // if it is narrower; false: its rows are not found
// The elements of B from the first vector of columns to vector v.
ins *column_offset(const tiling *t, int v);
ins *first_column(tiling *t, const tile *x);
ins *column_place(const tiling *t, const tile *x, ins *at, ins *start, int v);
// B's access at n = 0, and at the first group of reduce axis `group` (-1: none): affine in the other axes.
access *access_at_first_column(emitter *e, const expr *read, int n, int group);
// A tiling that is not prepared yet, its operands, and its loops (schedule_contract.c).
tiling tiling_of(emitter *e, const contraction *c, ins *scratch);
bool prepare_tiling(tiling *t); // false: it cannot be
void tiling_loops(tiling *t, ins *scratch);
// Prepares the operands of a contraction whose B is unpacked; false: it cannot be.
bool find_unpacking(tiling *t);
// Prepares B's factor: its sides, its words, the stride of panels, and the lanes of values.
void prepare_factors(tiling *t);
// The product of the extents, INT64_MAX: unknown.
int64_t positions(const kernel *k, const axis_list *l);
// contract_flatten.c: makes one axis of several axes of M if their extents are open. Counters of a row of the matrix; of all
// rows of a tile, of which the first one is the current one; and of row r.
void flatten_rows(tiling *t);
void enter_row(tiling *t, ins *m);
void place_rows(tiling *t, const tile *x);
void enter_row_of_tile(tiling *t, const tile *x, int r);
// A's elements from the tile's first row to row r, or to the last one that there is.
ins *row_offset(const tiling *t, const tile *x, int r);
// Whether the factor depends on the axis other than through its read: a guard, a zero point of the row.
bool varies_beyond_read(expr *term, const expr *read, int axis);
// Chooses the order of M and K, collapses axes, and chooses the tiled axis of M.
void choose_axes(tiling *t);
// Whether each sum of a tile may add its products one by one, or in any order: products in groups are added in another.
bool keeps_order(const target *t, const contraction *c);
void choose_lanes(tiling *t); // and how many vectors of them the registers hold
void choose_tile(tiling *t);
// Rows of tiles with this number of vectors, balanced: no tiny last tile.
int tile_rows(const tiling *t, int vectors);
// Chooses into how many parts each panel of B's next tile is split for prefetching.
void choose_prefetch(tiling *t, int vectors);
// The offset in B from this tile to the part that it prefetches, NULL: none; and the prefetch of one step of
// K.
ins *prefetch_offset(tiling *t, const tile *x);
void emit_prefetch(tiling *t, ins *at_b);
// Whether B is read once, by few rows; requests what follows the tile's columns of `steps` positions of K from B's element
// at_b on, where position k of a panel, or the current one, begins.
bool reads_ahead(const tiling *t);
void request_ahead(tiling *t, const tile *x, ins *at_b, ins *k, int steps);
void emit_request(tiling *t, const tile *x, ins *at_b, int steps);
// The same where element `at` of an operand in such panels is read.
void request_side(tiling *t, const tile *x, const buffer *from, ins *at, ins *stride);
// Positions of K in a block at most.
int64_t block_depth(const target *t, const contraction *c);
// contract_groups.c: rows of sums beside x's rows; adds all products of the group axis; sorts the sums into rows.
int sum_rows(const tiling *t, const tile *x);
void add_groups(tiling *t, const tile *x, ins **acc, ins *start_b);
// All of these positions of an axis of K around that of the groups if they have few words together, which one step adds; otherwise 1.
int taps_in_step(const tiling *t, int64_t taps);
void split_blocks_of_sums(tiling *t, const tile *x, ins **acc);
// contract_words.c: the same of words of packed elements.
void add_packed(tiling *t, const tile *x, ins **acc, ins *start_b);
// contract_sums.c: the sums of each element, and that of all of them, of the j-th of `sums`.
int sets_of(const tiling *t, const tile *x);
ins *sum_of_sets(tiling *t, ins *const *acc, int sums, int j);
// Whether factors of B's bytes that are invariant in a block multiply its sums, and whether there are registers for these.
bool sums_blocks(const tiling *t, const tile *x);
bool has_room_for_block(const tiling *t, const tile *x);
// Whether there are registers for B's factors of two steps beside the sums.
bool has_room_for_steps(const tiling *t, const tile *x);
// Sums of a block; adds them to those of all blocks, times these factors.
void begin_block_sums(tiling *t, const tile *x, ins **part);
void end_block_sums(tiling *t, const tile *x, ins **acc, ins *const *part);
// contract_taps.c: narrows a loop over an axis of K to taps that read an image, not only its halo.
void skip_taps(const tiling *t, const tile *x, int a, ins **begin, ins **end);
// A's factor at element `at`, in all lanes.
ins *factor_a(tiling *t, ins *at);
// Where neither blocks nor unpacked columns pay off: memory is small and fast, and overwritten row by row.
bool is_microcontroller(const target *t);
// Chooses cache blocks if K is long and B's panel is reused by enough rows.
void choose_blocks(tiling *t);

// A's first element of this call rounded down to a multiple of `unit`, and the number of elements from there on.
ins *range_of_rows(tiling *t, int64_t unit, ins **from);
// Whether all elements of A between two that a kernel reads are in its buffer.
bool rows_are_compact(const tiling *t);
bool panels_are_dense(const tiling *t); // a panel is the positions of K in the order of their loops
// Widens the 16-bit columns of a tile in the current block of K (contract_widen.c); loads vector v of them at B's
// element `at`, that of its first column.
void widen_columns(tiling *t, const tile *x, ins *first_column);
ins *load_widened(tiling *t, const tile *x, ins *at, int v);
// Copies the columns from tile x to `end` (NULL: those of x) in the current block; loads vector v of x from the copy.
void copy_columns(tiling *t, tile x, ins *end);
ins *load_copied(tiling *t, const tile *x, int v);

// contract_pairs.c: prepares products in pairs of bf16, false: they are not; rounds the rows of a call; the columns of B's
// factor at two neighbours along K in words; and adds the products of a word's positions.
bool find_pairs(tiling *t, ins *scratch);
void round_to_pairs(tiling *t);
ins *pair_of_factors(lbuild *b, ins *even, ins *odd);
void accumulate_pairs(tiling *t, const tile *x, ins **acc, ins *at_a, ins *at_b);

int64_t columns_of_task(const tiling *t);
// Chooses the tasks: positions of the batch or of other outer axes, else columns or rows.
void choose_tasks(tiling *t, const axis_list *outer);

// Constant M, perhaps blocked: as few tiles as possible, first of `rows` rows and then of rows - 1, so that
// none is tiny.
typedef struct known_tiles {
    int64_t tiles, high; // all tiles, those of `rows`
    int rows;
} known_tiles;
known_tiles tiles_of(const tiling *t, int64_t m);

// Runtime M: tiles of t->rows, then lower ones. The last of these begins earlier, so that it overlaps the one before; if it would begin
// before the first row, there are tiles of fewer_rows(rows). If rows may be few, a number between two heights is one tile, too,
// which repeats the last row.
typedef struct low_tiles {
    int rows;
    int64_t sooner; // bit r: if r rows are left, one whole tile less takes less time
    int64_t alone;  // bit r: so few rows are one whole tile
} low_tiles;
low_tiles low_tiles_of(const tiling *t, int vectors);
int fewer_rows(const tiling *t, int rows);
bool may_be_few(const tiling *t);
// The positions of images whose height and width follow from other sizes. They are seldom fewer than a tile's rows, and need no
// tiles of their own then.
bool rows_are_pixels(const tiling *t);
bool can_repeat_rows(const tiling *t);
bool may_repeat_rows(const tiling *t);

// Code of old CPUs: all rows are in tiles of t->rows; the last one has some rows several times. If there may be a single
// row, as in a batch, it has a separate tile.
bool has_one_height(const tiling *t);
bool unrolls_k(const tiling *t); // whether a turn of the innermost loop over K has several steps

// Whether the last one has `rows` rows, too, and begins earlier.
bool last_tile_overlaps(const tiling *t, const known_tiles *k, int64_t m);

// Whether the epilogue is too long to be unrolled for each vector of a tile.
bool is_heavy_epilogue(const tiling *t);

// Whether it reads elements of a row of the result, such as a residual.
bool epilogue_reads_rows(arena *scratch, const contraction *c);
// Sums over blocks of K, and sums that are added to what is in their memory, are written once; of stored tiles all, so that
// products share their code.
bool writes_once(const tiling *t);
// Whether there is a row r of the tile, and whether it is to be written; NULL: it is.
ins *is_row(const tiling *t, const tile *x, int r);
// Where the tile's sums over previous blocks of K are; loads and stores them.
ins *partial_place(tiling *t, const tile *x);
void load_partial(tiling *t, const tile *x, ins **acc, ins *at);
void store_partial(tiling *t, const tile *x, ins **acc, ins *at);
// Writes f(acc) for the rows of the tile that are left.
void write_tile(tiling *t, const tile *x, ins **acc);
#endif
