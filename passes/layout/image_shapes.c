// Images have the shape in which convolutions access them. In: buffers that some kernels access in another shape, such as
//
//   for g < 4, m < 34, h, w: b[0, 34 * g + m, h, w] = ...                        a convolution of groups
//   for j < 34, g < 4, h, w: d[0, j, g, h, w] = c[0, g, j, h, w]                 c and e are views of b and d
//   for m < 136, h, w:       f[0, m, h, w] += e[0, m, h + k, w + l] * ...        a depthwise convolution
//
// Out: accesses to root buffers of one shape, whose layout can be chosen:
//
//   for j < 34, g < 4, h, w: d[0, 4 * j + g, h, w] = b[0, 34 * g + j, h, w]
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/layout/channels_last.h"
#include "passes/layout/layout.h"
#include "passes/match/form.h"
#include "passes/match/view.h"

enum { LEAST_RANK = 4 };

typedef struct reshaping {
    buffer *root, *to; // to: a view of the root, or the root itself
    int before, after; // divisions in indices
    bool possible, changes;
} reshaping;

static void consider_access(reshaping *r, kernel *k, const buffer *b, expr *const *index) {
    expr *at[MAX_RANK];
    if (buffer_root(b) != r->root) return;
    r->possible &= b->dtype == r->to->dtype && !b->layout && view_index(k, b, r->to, index, at);
    if (!r->possible) return;
    r->changes |= b != r->to;
    for (int j = 0; j < b->rank; j++) r->before += divisions_in(index[j]);
    for (int j = 0; j < r->to->rank; j++) r->after += divisions_in(at[j]);
}

static void consider_kernel(reshaping *r, kernel *k) {
    arena *scratch = arena_new();
    expr_list reads = reads_only(kernel_nodes(scratch, k, PART_ALL));
    for (int j = 0; j < reads.n && r->possible; j++)
        consider_access(r, k, reads.at[j]->buffer, reads.at[j]->index);
    write_list writes = kernel_write_list(k);
    for (int j = 0; j < writes.n && r->possible; j++)
        consider_access(r, k, writes.at[j]->to, writes.at[j]->index);
    arena_destroy(scratch);
}

static expr *reshape_read(void *user, kernel *k, const expr *read) {
    const reshaping *r = user;
    expr *at[MAX_RANK];
    if (buffer_root(read->buffer) != r->root || !view_index(k, read->buffer, r->to, read->index, at))
        return NULL;
    return x_read_guarded(k, r->to, at, read->guard, read->fill);
}

static void reshape_accesses(reshaping *r, kernel *k) {
    kernel_rewrite_reads(k, reshape_read, r);
    write_list writes = kernel_write_list(k);
    for (int j = 0; j < writes.n; j++) {
        write *w = writes.at[j];
        expr **at = ARENA_ARRAY(k->arena, expr *, r->to->rank + 1);
        if (buffer_root(w->to) != r->root || !view_index(k, w->to, r->to, w->index, at)) continue;
        w->to = r->to, w->index = at;
    }
}

// The view takes the place of its root.
static void become_root(reshaping *r, const buffer_uses *of) {
    for (int j = 0; j < of->sites.n; j++) {
        step *s = of->sites.at[j]->s;
        if (s->kind != STEP_KERNEL && s->buffer == r->root) s->buffer = r->to;
    }
    r->to->view_of = NULL;
}

static bool reshape(const uses *u, buffer *to) {
    reshaping r = {.root = root_of(to), .to = to, .possible = true};
    const buffer_uses *of = &u->of[r.root->id];
    bool own =
        r.root->role == BUF_TEMP || r.root->role == BUF_HEAP || (r.root->role == BUF_OUTPUT && to == r.root);
    if (!own || of->by_others || !of->viewed || to->rank < LEAST_RANK || !is_plain_view(to)) return false;
    for (int j = 0; j < of->sites.n && r.possible; j++)
        if (of->sites.at[j]->s->kind == STEP_KERNEL) consider_kernel(&r, of->sites.at[j]->s->kernel);
    if (!r.possible || !r.changes || r.after > r.before) return false;
    for (int j = 0; j < of->sites.n; j++)
        if (of->sites.at[j]->s->kind == STEP_KERNEL) reshape_accesses(&r, of->sites.at[j]->s->kernel);
    if (to != r.root) become_root(&r, of);
    return true;
}

void shape_images(program *p, const target *t) {
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    bool any = false;
    for (int j = 0; j < p->kernels.n; j++) {
        conv_form f;
        if (!find_conv(p->kernels.at[j], t, &f)) continue;
        if (f.image) any |= reshape(u, f.image);
        if (find_conv(p->kernels.at[j], t, &f) && f.out) any |= reshape(u, f.out);
    }
    for (int j = 0; j < p->outputs.n; j++) any |= reshape(u, p->outputs.at[j]);
    arena_destroy(scratch);
    if (any) program_compact(p); // drops the views
}
