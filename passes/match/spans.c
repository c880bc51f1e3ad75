// In: an access by a kernel. Out: the span of elements in each dim, if axes of the kernel walk over them one by one.
#include "passes/match/spans.h"
#include "ir/kernel/edit.h"
#include "passes/match/contract.h"

void index_spans(const kernel *k, expr *const *index, int rank, span *spans) {
    for (int d = 0; d < rank; d++) {
        int axis;
        spans[d] = (span){0};
        if (shifted_axis(k, index[d], &axis, &spans[d].low))
            spans[d].extent = axis < 0 ? dim_const(k->program->dims, 1) : k->axes.at[axis].extent;
    }
}

static bool precedes(const span *a, const span *b) {
    return a->extent && b->extent && dim_less_equal(dim_add(a->low, a->extent), b->low) == TRI_YES;
}

// Judging by each dim alone.
static bool are_apart(const span *a, const span *b, int rank) {
    for (int d = 0; d < rank; d++)
        if (precedes(&a[d], &b[d]) || precedes(&b[d], &a[d])) return true;
    return false;
}

// An access by a view is not analysed.
static bool is_apart(const kernel *k, const buffer *accessed, expr *const *index, const buffer *b,
                     const span *there) {
    span here[MAX_RANK];
    if (buffer_root(accessed) != b) return true;
    if (accessed != b) return false;
    index_spans(k, index, b->rank, here);
    return are_apart(here, there, b->rank);
}

bool reads_apart_from(const kernel *k, const buffer *b, const span *there) {
    arena *scratch = arena_new();
    expr_list reads = reads_only(kernel_nodes(scratch, k, PART_ALL));
    bool apart = true;
    for (int j = 0; j < reads.n && apart; j++)
        apart = is_apart(k, reads.at[j]->buffer, reads.at[j]->index, b, there);
    arena_destroy(scratch);
    return apart;
}

bool writes_apart_from(const kernel *k, const stage *but, const buffer *b, const span *there) {
    for (int j = 0; j < k->stages.n; j++) {
        const stage *s = k->stages.at[j];
        for (int i = 0; s != but && i < s->writes.n; i++)
            if (!is_apart(k, s->writes.at[i].to, s->writes.at[i].index, b, there)) return false;
    }
    return true;
}
