// Dead code elimination: removes writes without readers, stages without writes and kernels without stages.
#include "ir/kernel/edit.h"
#include "passes/fuse/fuse_impl.h"

static bool reads_root(expr_list l, const buffer *root) {
    bool found = false;
    for (int j = 0; j < l.n && !found; j++)
        found = l.at[j]->op == X_READ && buffer_root(l.at[j]->buffer) == root;
    return found;
}

// Whether the kernel itself reads the buffer that w writes, other than in w: a value carried between
// iterations of a loop around the kernel.
static bool is_carried(const kernel *k, const write *w) {
    const buffer *root = buffer_root(w->to);
    arena *scratch = arena_new();
    bool found = false;
    for (int j = 0; j < k->stages.n && !found; j++) {
        const stage *s = k->stages.at[j];
        found = reads_root(stage_nodes(scratch, s, PART_INIT | PART_STEP), root);
        for (int i = 0; i < s->writes.n && !found; i++)
            found = &s->writes.at[i] != w && reads_root(expr_nodes(scratch, s->writes.at[i].value), root);
    }
    arena_destroy(scratch);
    return found;
}

// Reads by the kernel itself count only as carried values.
static bool is_live(const uses *u, const site *at, const write *w) {
    const buffer *root = buffer_root(w->to);
    const buffer_uses *of = &u->of[root->id];
    bool live = w->to->role == BUF_OUTPUT || of->output || of->by_others;
    for (int j = 0; j < of->sites.n && !live; j++)
        live = of->sites.at[j] != at && site_reads(of->sites.at[j], root);
    return live || is_carried(at->s->kernel, w);
}

// Drops dead writes, and stages without writes; true if anything was dropped.
static bool prune(const uses *u, const site *at) {
    arena *scratch = arena_new();
    kernel *k = at->s->kernel;
    const bool *local_read = kernel_locals_read(scratch, k);
    bool changed = false;
    int stages = 0;
    for (int j = 0; j < k->stages.n; j++) {
        stage *s = k->stages.at[j];
        int n = 0;
        for (int i = 0; i < s->writes.n; i++) {
            const write *w = &s->writes.at[i];
            bool keep = w->to->role == BUF_LOCAL ? local_read[w->to->id] : is_live(u, at, w);
            if (keep) s->writes.at[n++] = *w;
        }
        changed |= n != s->writes.n;
        s->writes.n = n;
        if (n) k->stages.at[stages++] = s;
    }
    k->stages.n = stages;
    arena_destroy(scratch);
    return changed;
}

// In reverse program order, because what a dead kernel reads may become dead. Loops carry values backwards,
// so this is repeated until nothing changes.
void eliminate_dead_code(program *p) {
    enum { ROUNDS = 8 };
    arena *scratch = arena_new();
    uses *u = uses_build(scratch, p);
    bool changed = true;
    for (int round = 0; round < ROUNDS && changed; round++) {
        changed = false;
        for (int j = u->n - 1; j >= 0; j--) {
            site *at = &u->sites[j];
            if (at->s->kind != STEP_KERNEL || !at->s->kernel) continue;
            while (at->s->kernel->stages.n && prune(u, at)) {
                uses_update(u, at);
                changed = true;
            }
        }
    }
    arena_destroy(scratch);
}
