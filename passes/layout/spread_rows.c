// Rows of products' left operands, spread over the sets of the L1 cache. In: a program. Out: temporaries of bytes and of bf16 that
// products read in groups along K have a gap after each row, where the rows would crowd into few sets:
//
//   temp x: bfloat16[128, 768]    becomes    temp x: bfloat16[128, 768] layout(0 1) gap 0:32
//
// Tiles load 16 rows at a time. A row of 1,024 bytes begins in one of four of 64 sets; one line more, and it begins in any.
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/layout/layout.h"
#include "passes/match/contract.h"
#include "passes/schedule/cpu/schedule_groups.h"
#include "passes/schedule/cpu/schedule_words.h"

enum { LINE = 64, FEW_SETS = 4, SHORT_ROW = 512, SOME_ROWS = 16 };

// Unused elements after a row of `n`, so that rows begin with cache lines and their distance is no multiple of FEW_SETS
// lines.
static int64_t gap_behind(int64_t n, int bits) {
    int64_t bytes = n * bits / 8, fill = (LINE - bytes % LINE) % LINE, lines = (bytes + fill) / LINE;
    if (bytes < SHORT_ROW) return 0;
    return (fill + (lines % FEW_SETS == 0 ? LINE : 0)) * 8 / bits;
}

// The entry of the row-major order of b after which n elements follow; -1: none.
static int entry_before(const buffer *b, int64_t n) {
    int64_t count = 1;
    for (int j = b->rank - 1; j > 0; j--) {
        if (!dim_is_const(b->dims[j])) return -1;
        count *= dim_value(b->dims[j]);
        if (count >= n) return count == n ? j - 1 : -1;
    }
    return -1;
}

static layout *own_layout(program *p, const buffer *b) {
    layout *l = ARENA_NEW(p->arena, layout);
    if (b->layout) {
        *l = *b->layout;
        return l;
    }
    for (; l->n < b->rank; l->n++) l->order[l->n] = (struct layout_entry){l->n, 0};
    return l;
}

static bool is_whole_view(const buffer *b, const buffer *root) {
    for (; b != root; b = b->view_of)
        if (b->view_offset || b->layout || b->dtype != root->dtype) return false;
    return buffer_count(b) == buffer_count(root);
}

// Whether all buffers of the same memory have such rows, each at its own entry.
static bool may_spread(const program *p, const uses *u, const buffer *root, int64_t row) {
    const buffer_uses *of = &u->of[root->id];
    if ((root->role != BUF_TEMP && root->role != BUF_HEAP) || of->by_others || of->output) return false;
    for (int j = 0; j < p->buffers.n; j++) {
        const buffer *b = p->buffers.at[j];
        if (b == root || buffer_root(b) != root) continue;
        if (root->layout || !is_whole_view(b, root) || entry_before(b, row) < 0) return false;
    }
    return root->layout || entry_before(root, row) >= 0;
}

static void spread(program *p, buffer *b, int entry, int64_t gap) {
    layout *l = own_layout(p, b);
    l->gap_entry = entry, l->gap = gap;
    b->layout = l;
}

static void spread_rows_of(const target *t, program *p, const uses *u, const contraction *c) {
    buffer *a = c->a->buffer;
    const buffer *root = buffer_root(a);
    if (c->a->guard || !group_elements(c) || word_elements(c) || group_axis(t, c) < 0 || a->rank < 2 ||
        c->b->buffer->role != BUF_CONST)
        return;
    if (axes_extent(c->k, c->m.at, c->m.n)->max < SOME_ROWS || (a->layout && (a != root || a->layout->gap)))
        return;
    int last = a->layout ? a->layout->n - 1 : a->rank - 1;
    const dim *row = layout_extent(a, last);
    if (last < 1 || !dim_is_const(row)) return;
    int64_t n = dim_value(row), gap = gap_behind(n, dtype_bits(a->dtype));
    if (!gap || !may_spread(p, u, root, n)) return;
    if (a->layout) {
        spread(p, a, last - 1, gap);
        return;
    }
    for (int j = 0; j < p->buffers.n; j++)
        if (buffer_root(p->buffers.at[j]) == root)
            spread(p, p->buffers.at[j], entry_before(p->buffers.at[j], n), gap);
}

void spread_rows(program *p, const target *t) {
    contraction c;
    if (!t->spread_rows && !t->amx_int8 && !t->amx_bf16) return;
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    for (int j = 0; j < p->kernels.n; j++)
        if (!p->kernels.at[j]->algorithm && contraction_find(p->kernels.at[j], &c))
            spread_rows_of(t, p, u, &c);
    arena_destroy(scratch);
}
