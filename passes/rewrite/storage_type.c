// Element types of temporaries.
#include "passes/rewrite/storage_type.h"
#include "ir/kernel/uses.h"
#include "passes/match/form.h"

static bool is_fixed(const uses *u, const buffer *b) {
    const buffer *root = buffer_root(b);
    return (root->role != BUF_TEMP && root->role != BUF_HEAP) || b->dtype != root->dtype || b->caller ||
           u->of[root->id].by_others;
}

bool *fixed_types(arena *scratch, const program *p) {
    bool *fixed = ARENA_ARRAY(scratch, bool, p->buffers.n + 1);
    const uses *u = uses_build(scratch, p);
    for (int j = 0; j < p->buffers.n; j++) {
        const buffer *b = p->buffers.at[j];
        fixed[buffer_root(b)->id] |= is_fixed(u, b);
    }
    for (int j = 0; j < p->kernels.n; j++) {
        write_list all = kernel_write_list(p->kernels.at[j]);
        for (int i = 0; i < all.n; i++)
            if (all.at[i]->to->role != BUF_LOCAL)
                fixed[buffer_root(all.at[i]->to)->id] |= all.at[i]->combine != COMBINE_SET;
    }
    return fixed;
}

void change_types(program *p, const bool *wanted, int n, dtype t) {
    for (int j = 0; j < p->buffers.n; j++) {
        buffer *b = p->buffers.at[j];
        int root = buffer_root(b)->id;
        if (root < n && wanted[root]) b->dtype = t;
    }
}
