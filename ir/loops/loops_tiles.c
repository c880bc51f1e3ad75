// Matrix tiles: checks of their instructions, and their meaning.
#include "ir/loops/loops_tiles.h"
#include "ir/loops/loops_eval.h"
#include "ir/target.h"
#include <math.h>
#include <string.h>

static bool is_dot(lop op) {
    return op == L_TILE_UU8 || op == L_TILE_US8 || op == L_TILE_SU8 || op == L_TILE_SS8 || op == L_TILE_BF16;
}

const char *tile_ins_error(const ins *x, const target *t) {
    if (!t->amx_int8 && !t->amx_bf16) return "the target has no matrix tiles";
    if (is_dot(x->op) && !(x->op == L_TILE_BF16 ? t->amx_bf16 : t->amx_int8))
        return "the target does not multiply such tiles";
    int tiles = is_dot(x->op) ? 3 : 1;
    for (int i = 0; i < tiles; i++)
        if (tile_of_dot(x, i) >= TILES) return "no such tile";
    if (x->i >> 4 * tiles) return "no such tile";
    if (is_dot(x->op) && (tile_of_dot(x, 0) == tile_of_dot(x, 1) || tile_of_dot(x, 0) == tile_of_dot(x, 2) ||
                          tile_of_dot(x, 1) == tile_of_dot(x, 2)))
        return "the three tiles of a product differ";
    if (x->nargs > 0 && x->args[0]->type.kind != LK_PTR) return "operand 0 is not a pointer";
    if (x->nargs > 1 && (!lkind_is_int(x->args[1]->type.kind) || x->args[1]->type.lanes != 1))
        return "operand 1 is not a number of bytes";
    return NULL;
}

// ---------------------------------------------------------------- meaning
static bool has_reserved_bytes(const uint8_t *config) {
    for (int i = 1; i < TILE_CONFIG_BYTES; i++) {
        bool width = i >= TILE_CONFIG_WIDTHS && i < TILE_CONFIG_WIDTHS + 2 * TILES,
             height = i >= TILE_CONFIG_HEIGHTS && i < TILE_CONFIG_HEIGHTS + TILES;
        if (!width && !height && config[i]) return true;
    }
    return false;
}

const char *tile_configure(tile_file *f, const uint8_t *config) {
    memset(f, 0, sizeof *f);
    if (config[0] != 1) return "a configuration of another palette";
    if (has_reserved_bytes(config)) return "a configuration with reserved bytes";
    for (int t = 0; t < TILES; t++) {
        const uint8_t *w = config + TILE_CONFIG_WIDTHS + 2 * t;
        tile_shape s = {config[TILE_CONFIG_HEIGHTS + t], w[0] | w[1] << 8};
        if (s.rows > TILE_ROWS || s.bytes > TILE_BYTES || !s.rows != !s.bytes) return "no shape of a tile";
        f->shape[t] = s;
    }
    return NULL;
}

// Denormals are zero.
static float from_bf16(const uint8_t *p) {
    uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 24;
    if (!(bits & 0x7f800000)) bits &= 0x80000000;
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
// Products of even and of odd elements are summed separately.
static void multiply_bf16(const uint8_t *a, const uint8_t (*b)[TILE_BYTES], int groups, int n, uint8_t *sum) {
    float even = 0, odd = 0, old;
    for (int k = 0; k < groups; k++) {
        const uint8_t *x = a + k * TILE_GROUP, *y = b[k] + n * TILE_GROUP;
        even = leval_flush(fmaf(from_bf16(x), from_bf16(y), even));
        odd = leval_flush(fmaf(from_bf16(x + 2), from_bf16(y + 2), odd));
    }
    memcpy(&old, sum, sizeof old);
    old = leval_flush(leval_flush(old) + leval_flush(even + odd));
    memcpy(sum, &old, sizeof old);
}

static int byte_of(uint8_t v, bool is_signed) { return is_signed ? (int8_t)v : v; }

static void multiply_bytes(lop op, const uint8_t *a, const uint8_t (*b)[TILE_BYTES], int groups, int n,
                           uint8_t *sum) {
    bool left = op == L_TILE_SS8 || op == L_TILE_SU8, right = op == L_TILE_SS8 || op == L_TILE_US8;
    uint32_t total;
    memcpy(&total, sum, sizeof total);
    for (int k = 0; k < groups * TILE_GROUP; k++)
        total += (uint32_t)(byte_of(a[k], left) *
                            byte_of(b[k / TILE_GROUP][n * TILE_GROUP + k % TILE_GROUP], right));
    memcpy(sum, &total, sizeof total);
}

const char *tile_multiply(tile_file *f, lop op, int c, int a, int b) {
    tile_shape to = f->shape[c], x = f->shape[a], y = f->shape[b];
    if (!to.rows || !x.rows || !y.rows) return "a tile is not configured";
    bool groups_fit = x.bytes % TILE_GROUP == 0 && to.bytes % TILE_GROUP == 0;
    if (to.rows != x.rows || to.bytes != y.bytes || !groups_fit || x.bytes / TILE_GROUP != y.rows)
        return "the shapes of tiles do not match";
    int groups = x.bytes / TILE_GROUP;
    for (int m = 0; m < to.rows; m++)
        for (int n = 0; n < to.bytes / TILE_GROUP; n++) {
            uint8_t *sum = f->data[c][m] + n * TILE_GROUP;
            if (op == L_TILE_BF16) multiply_bf16(f->data[a][m], f->data[b], groups, n, sum);
            else multiply_bytes(op, f->data[a][m], f->data[b], groups, n, sum);
        }
    return NULL;
}

// ---------------------------------------------------------------- building
static void emit(lbuild *b, lop op, int64_t tiles, int nargs, ins *const *args) {
    lb_op(b, op, lt(LK_VOID, 1), nargs, args)->i = tiles;
}
void lb_tile_config(lbuild *b, ins *config) { emit(b, L_TILE_CONFIG, 0, 1, &config); }
void lb_tile_shapes(lbuild *b, ins *memory, const tile_shape shapes[TILES]) {
    uint8_t config[TILE_CONFIG_BYTES] = {1};
    for (int t = 0; t < TILES; t++) {
        config[TILE_CONFIG_WIDTHS + 2 * t] = (uint8_t)shapes[t].bytes;
        config[TILE_CONFIG_HEIGHTS + t] = (uint8_t)shapes[t].rows;
    }
    for (int j = 0; j < TILE_CONFIG_BYTES / 8; j++) {
        int64_t word = 0;
        for (int i = 7; i >= 0; i--) word = word << 8 | config[8 * j + i];
        lb_store(b, memory, lb_idx(b, j), lb_idx(b, word), 0);
    }
    lb_tile_config(b, memory);
}
void lb_tile_release(lbuild *b) { emit(b, L_TILE_RELEASE, 0, 0, NULL); }
void lb_tile_zero(lbuild *b, int tile) { emit(b, L_TILE_ZERO, tile, 0, NULL); }
void lb_tile_load(lbuild *b, int tile, ins *from, ins *stride) {
    emit(b, L_TILE_LOAD, tile, 2, (ins *[]){from, stride});
}
void lb_tile_store(lbuild *b, int tile, ins *to, ins *stride) {
    emit(b, L_TILE_STORE, tile, 2, (ins *[]){to, stride});
}
void lb_tile_dot(lbuild *b, lop op, int c, int x, int y) { emit(b, op, c | x << 4 | y << 8, 0, NULL); }
