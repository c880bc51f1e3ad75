// NAME_check_weights. In: a module with all its constants. Out: a function that computes their CRC-32 (IEEE 802.3, as zlib and
// the CRC units of microcontrollers do) and compares it with the sum of the constants as the object writer writes them.
//
//   NAME_crc32(data, count, sum):  for each byte, low four bits first:  sum = table[(sum ^ bits) & 15] ^ sum >> 4
#include "codegen/host/host_checksum.h"
#include "runtime-lite/onnxc.h"
#include <string.h>

enum { ENTRIES = 16, CHUNK = 1 << 16 };
#define POLYNOMIAL 0xedb88320u

typedef struct checksum {
    build *build;
    lmodule *m;
    diag *diag;
    lbuild b;
    const char *table, *function;
    uint32_t sum; // expected
    ins *now;     // variable: computed
} checksum;

static ltype i32(void) { return lt(LK_I32, 1); }

static uint32_t entry(uint32_t bits) {
    for (int j = 0; j < 4; j++) bits = bits >> 1 ^ (bits & 1 ? POLYNOMIAL : 0);
    return bits;
}

static void add_table(checksum *c) {
    uint32_t *all = ARENA_ARRAY(c->m->arena, uint32_t, ENTRIES);
    for (uint32_t j = 0; j < ENTRIES; j++) all[j] = entry(j);
    ldata *d = ARENA_NEW(c->m->arena, ldata);
    *d = (ldata){.name = c->table, .bytes = ENTRIES * 4, .align = 4, .bytes_or_null = all, .dtype = DT_U32};
    VEC_PUSH(c->m->arena, &c->m->data, d);
}

// What the constant adds to the sum, in its layout.
static void add_expected(checksum *c, const ldata *d) {
    unsigned char *chunk = arena_alloc(c->m->arena, CHUNK);
    for (int64_t at = 0; at < d->bytes; at += CHUNK) {
        int64_t n = d->bytes - at < CHUNK ? d->bytes - at : CHUNK;
        ldata_copy(d, at, chunk, n);
        for (int64_t j = 0; j < n; j++)
            for (int shift = 0; shift < 8; shift += 4)
                c->sum = entry((c->sum ^ chunk[j] >> shift) & 15) ^ c->sum >> 4;
    }
}

// ---------------------------------------------------------------- functions
static lfunc *begin(checksum *c, const char *name, bool exported) {
    lfunc *f = lfunc_new(c->m, name, i32());
    f->target = c->m->target;
    f->exported = exported;
    c->b = lbuild_new(f, f->target, c->diag);
    return f;
}

static ins *number(checksum *c, uint32_t v) { return lb_int(&c->b, i32(), (int32_t)v); }

static void write_sum(checksum *c) {
    lbuild *b = &c->b;
    lfunc *f = begin(c, c->function, false);
    ins *data = lfunc_param(f, "data", lt_ptr(), LK_I8, DT_U8, true);
    ins *count = lfunc_param(f, "count", lt(lindex_kind(f->target), 1), LK_VOID, DT_NONE, true);
    ins *before = lfunc_param(f, "before", i32(), LK_VOID, DT_U32, true);
    ins *sum = lb_var(b, "sum", before);
    ins *i = lb_for(b, "i", lb_idx(b, 0), count, lb_idx(b, 1), LOOP_SERIAL);
    ins *byte = lb_conv(b, L_ZEXT, LK_I32, lb_load(b, lt(LK_I8, 1), data, i, 1));
    for (uint32_t shift = 0; shift < 8; shift += 4) {
        ins *bits = shift ? lb_bin(b, L_LSHR, byte, number(c, shift)) : byte;
        ins *at = lb_bin(b, L_AND, lb_bin(b, L_XOR, lb_get(b, sum), bits), number(c, ENTRIES - 1));
        if (lindex_kind(f->target) == LK_I64) at = lb_conv(b, L_ZEXT, LK_I64, at);
        ins *from = lb_load(b, i32(), lb_symbol(b, c->table), at, 4);
        lb_set(b, sum, lb_bin(b, L_XOR, from, lb_bin(b, L_LSHR, lb_get(b, sum), number(c, 4))));
    }
    lb_end(b, i);
    lb_return(b, lb_get(b, sum));
}

static void add_constant(checksum *c, const ldata *d, ins *at) {
    lbuild *b = &c->b;
    ins *args[] = {at, lb_idx(b, d->bytes), lb_get(b, c->now)};
    if (!d->bytes) return;
    lb_set(b, c->now, lb_call(b, i32(), c->function, 3, args));
    add_expected(c, d);
}

static void fail_if(checksum *c, ins *condition, int code) {
    ins *failed = lb_if(&c->b, condition);
    lb_return(&c->b, number(c, (uint32_t)code));
    lb_end(&c->b, failed);
}

static void add_file(checksum *c, ins *context) {
    lbuild *b = &c->b;
    fail_if(c, lb_cmp(b, L_EQ, context, lb_null(b)), ONNXC_NULL_POINTER);
    ins *weights = lb_load(b, lt_ptr(), context, lb_idx(b, 0), 0);
    fail_if(c, lb_cmp(b, L_EQ, weights, lb_null(b)), ONNXC_NULL_POINTER);
    for (int j = 0; j < c->build->weights.n; j++) {
        const placed_weights *x = &c->build->weights.at[j];
        add_constant(c, x->data, lb_offset(b, weights, lb_idx(b, x->offset), 1));
    }
}

void write_checksum(build *x, diag *d) {
    lmodule *m = x->module;
    const char *name = x->io->name;
    int ndata = m->data.n;
    checksum c = {.build = x, .m = m, .diag = d, .sum = UINT32_MAX};
    c.table = arena_printf(m->arena, "%s_crc32_table", name);
    c.function = arena_printf(m->arena, "%s_crc32", name);
    add_table(&c);
    write_sum(&c);
    lfunc *f = begin(&c, arena_printf(m->arena, "%s_check_weights", name), true);
    f->ctype = "int";
    ins *context = x->io->context ? lfunc_param(f, "context", lt_ptr(), LK_VOID, DT_NONE, true) : NULL;
    if (context) f->params.at[0].ctype = "onnxc_context";
    c.now = lb_var(&c.b, "sum", number(&c, UINT32_MAX));
    if (x->weights_head) add_file(&c, context);
    for (int j = 0; j < ndata; j++)
        if (!m->data.at[j]->variable) add_constant(&c, m->data.at[j], lb_symbol(&c.b, m->data.at[j]->name));
    fail_if(&c, lb_cmp(&c.b, L_NE, lb_get(&c.b, c.now), number(&c, c.sum)), ONNXC_BAD_WEIGHTS);
    lb_return(&c.b, number(&c, ONNXC_OK));
}
