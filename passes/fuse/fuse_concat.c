// Chains of growing concatenations become one: if each extends the one before, all of them are prefixes of
// the last one, and their common parts are copied once.
//
//   x1[c] = x0[c], x1[c + 64] = f(x0)[c]           x2[c] = x0[c]
//   ... reads x1                                   x2[c + 64] = f(x0)[c]
//   x2[c] = x0[c], x2[c + 64] = f(x0)[c],          ... reads the first part of x2
//                  x2[c + 96] = g(x1)[c]           x2[c + 96] = g(x1)[c]
#include "ir/kernel/edit.h"
#include "passes/fuse/fuse_impl.h"
#include "passes/match/contract.h"

enum { LEAST_LENGTH = 3 }; // shorter chains are as well inlined into their readers

// A kernel that only copies whole buffers side by side into one buffer.
typedef struct joint {
    kernel *k;
    buffer *to;
    const site *at;
    VEC(buffer *) parts; // by stage
    int along;           // dim
    int next;            // the joint that begins with all parts of this one, -1: none
    bool continues;      // it extends another one
    int own;             // the first stage that the extended one lacks
} joint;

typedef struct grow {
    arena *arena;
    VEC(joint) list;
    const uses *uses;
} grow;

// ---------------------------------------------------------------- recognition
// The dim along which the stage copies one of several parts, -1: not a whole buffer. *at: where the part
// begins.
static int part_of(const kernel *k, const stage *s, buffer **from, dim **at) {
    if (s->states.n || s->writes.n != 1) return -1;
    const write *w = &s->writes.at[0];
    const expr *x = w->value;
    int along = -1;
    if (w->guard || w->combine != COMBINE_SET || x->op != X_READ || x->guard) return -1;
    if (x->buffer->rank != w->to->rank || x->buffer->dtype != w->to->dtype) return -1;
    for (int d = 0; d < w->to->rank; d++) {
        int axis, read;
        dim *low, *none, *size = x->buffer->dims[d];
        if (!shifted_axis(k, w->index[d], &axis, &low) || !shifted_axis(k, x->index[d], &read, &none))
            return -1;
        if (axis != read || !dim_is(none, 0)) return -1;
        if (axis < 0 ? !dim_is(size, 1) : k->axes.at[axis].extent != size) return -1;
        if (size == w->to->dims[d]) continue;
        if (along >= 0) return -1;
        along = d, *at = low;
    }
    *from = x->buffer;
    return along;
}

static bool find_joint(const grow *g, kernel *k, joint *j) {
    dim *end = dim_const(k->program->dims, 0), *at = end;
    *j = (joint){.k = k, .along = -1, .next = -1};
    for (int i = 0; i < k->stages.n; i++) {
        buffer *from;
        int along = part_of(k, k->stages.at[i], &from, &at);
        if (along < 0 || at != end) return false;
        buffer *to = k->stages.at[i]->writes.at[0].to;
        if (i && (to != j->to || along != j->along)) return false;
        j->to = to, j->along = along;
        end = dim_add(end, from->dims[along]);
        VEC_PUSH(g->arena, &j->parts, from);
    }
    return k->stages.n && end == j->to->dims[j->along] && j->to->role == BUF_TEMP && !j->to->view_of;
}

static void find_joints(grow *g) {
    for (int i = 0; i < g->uses->n; i++) {
        const site *at = &g->uses->sites[i];
        joint j;
        if (at->s->kind != STEP_KERNEL || !find_joint(g, at->s->kernel, &j)) continue;
        j.at = at;
        VEC_PUSH(g->arena, &g->list, j);
    }
}

// Whether all uses are direct ones by kernels of its region, after the kernel that fills it, and none of them
// writes it.
static bool is_own(const grow *g, const joint *j) {
    const buffer_uses *of = &g->uses->of[j->to->id];
    if (of->by_others || of->viewed || of->sites.at[0] != j->at) return false;
    for (int i = 1; i < of->sites.n; i++)
        if (of->sites.at[i]->region != j->at->region || site_writes(of->sites.at[i], j->to)) return false;
    return true;
}

// ---------------------------------------------------------------- chains
// Whether b begins with all parts of a, or with a itself, and in how many stages.
static bool continues(const joint *b, const joint *a, int *stages) {
    if (a->at->region != b->at->region || a->along != b->along || a->to->rank != b->to->rank) return false;
    *stages = 1;
    if (b->parts.at[0] == a->to) return true;
    for (int i = 0; i < a->parts.n; i++)
        if (i >= b->parts.n || a->parts.at[i] != b->parts.at[i]) return false;
    *stages = a->parts.n;
    return b->parts.n > a->parts.n;
}

static void find_chains(grow *g) {
    for (int b = 0; b < g->list.n; b++) {
        joint *last = &g->list.at[b];
        for (int a = b - 1; a >= 0 && !last->continues && is_own(g, last); a--) {
            joint *first = &g->list.at[a];
            if (first->next >= 0 || !is_own(g, first) || !continues(last, first, &last->own)) continue;
            first->next = b;
            last->continues = true;
        }
    }
}

// ---------------------------------------------------------------- rewriting
// Redirects the parts that kernel j of a chain fills to the buffer of the last one.
static void move_joint(const grow *g, const joint *j, buffer *to) {
    kernel *k = j->k;
    int n = 0;
    for (int i = j->continues ? j->own : 0; i < k->stages.n; i++) {
        k->stages.at[i]->writes.at[0].to = to;
        k->stages.at[n++] = k->stages.at[i];
    }
    k->stages.n = n;
    const site_list *l = &g->uses->of[j->to->id].sites;
    for (int i = 0; i < l->n; i++)
        if (site_reads(l->at[i], j->to)) kernel_swap_reads(l->at[i]->s->kernel, j->to, to);
}

void merge_concats(program *p) {
    grow g = {.arena = arena_new()};
    g.uses = uses_build(g.arena, p);
    find_joints(&g);
    find_chains(&g);
    for (int a = 0; a < g.list.n; a++) {
        int length = 1, last = a;
        while (g.list.at[last].next >= 0) last = g.list.at[last].next, length++;
        if (g.list.at[a].continues || length < LEAST_LENGTH) continue;
        for (int j = a; j >= 0; j = g.list.at[j].next) move_joint(&g, &g.list.at[j], g.list.at[last].to);
    }
    arena_destroy(g.arena);
}
