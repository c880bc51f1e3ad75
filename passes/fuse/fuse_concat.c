// Concatenations that grow become one: where each is the one before and something more, all are parts of the
// last, and what they have in common is copied once.
//
//   x1[c] = x0[c], x1[c + 64] = f(x0)[c]           x2[c] = x0[c]
//   ... reads x1                                   x2[c + 64] = f(x0)[c]
//   x2[c] = x0[c], x2[c + 64] = f(x0)[c],          ... reads the first part of x2
//                  x2[c + 96] = g(x1)[c]           x2[c + 96] = g(x1)[c]
#include "ir/kernel/edit.h"
#include "passes/fuse/fuse_impl.h"
#include "passes/match/contract.h"
#include "passes/memory/memory_plan.h"

enum { LEAST_LENGTH = 3 }; // two may as well be computed where they are read

// A kernel that does nothing but write buffers side by side, whole ones, into a buffer of its own.
typedef struct joint {
    kernel *k;
    buffer *to;
    region *region;
    VEC(buffer *) parts; // by stage
    int along;           // dim
    int next;            // the one that has all of this one's parts first, -1: none
    bool continues;      // another one
    int own;             // the first stage with what that other one does not have
} joint;

typedef struct grow {
    program *p;
    arena *arena;
    VEC(joint) list;
    VEC(kernel *) * users; // by id of the root
    bool *fixed;           // by id: seen through views, in other regions, or by other steps than kernels
    region **region;       // by id
    region *now;
    kernel *kernel;
} grow;

// ---------------------------------------------------------------- recognition
// The dim along which the stage's part is one of several; -1: it is no whole buffer. at: where it begins.
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
    *j =
        (joint){.k = k, .to = k->stages.n ? k->stages.at[0]->writes.at[0].to : NULL, .along = -1, .next = -1};
    for (int i = 0; i < k->stages.n; i++) {
        buffer *from;
        int along = part_of(k, k->stages.at[i], &from, &at);
        if (along < 0 || at != end || k->stages.at[i]->writes.at[0].to != j->to) return false;
        if (i && along != j->along) return false;
        j->along = along;
        end = dim_add(end, from->dims[along]);
        VEC_PUSH(g->arena, &j->parts, from);
    }
    return k->stages.n && end == j->to->dims[j->along] && j->to->role == BUF_TEMP && !j->to->view_of;
}

// ---------------------------------------------------------------- uses
static void note_use(void *user, buffer *b) {
    grow *g = user;
    int id = root_of(b)->id;
    g->fixed[id] |= !g->kernel || b->view_of || (g->region[id] && g->region[id] != g->now);
    g->region[id] = g->now;
    if (g->kernel) VEC_PUSH(g->arena, &g->users[id], g->kernel);
}

static void note_step(void *user, region *r, step *s) {
    grow *g = user;
    joint j;
    g->now = r, g->kernel = s->kernel;
    step_buffers(s, note_use, g);
    if (s->kind != STEP_KERNEL || !find_joint(g, s->kernel, &j)) return;
    j.region = r;
    VEC_PUSH(g->arena, &g->list, j);
}

// Whether nobody uses it before that kernel fills it, nor writes it afterwards.
static bool is_own(const grow *g, const joint *j) {
    int id = j->to->id;
    if (g->fixed[id] || g->users[id].at[0] != j->k) return false;
    for (int i = 1; i < g->users[id].n; i++)
        if (kernel_writes(g->users[id].at[i], j->to)) return false;
    return true;
}

// ---------------------------------------------------------------- chains
// Whether b begins with all that a has, or with a itself; then with how many stages.
static bool continues(const joint *b, const joint *a, int *stages) {
    if (a->region != b->region || a->along != b->along || a->to->rank != b->to->rank) return false;
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
// What the chain's kernel j fills lies in the last one's buffer.
static void move_joint(const grow *g, const joint *j, buffer *to) {
    kernel *k = j->k;
    int n = 0;
    for (int i = j->continues ? j->own : 0; i < k->stages.n; i++) {
        k->stages.at[i]->writes.at[0].to = to;
        k->stages.at[n++] = k->stages.at[i];
    }
    k->stages.n = n;
    for (int i = 0; i < g->users[j->to->id].n; i++) {
        kernel *reader = g->users[j->to->id].at[i];
        if (kernel_reads(reader, j->to)) kernel_swap_reads(reader, j->to, to);
    }
}

void fuse_grow(program *p) {
    grow g = {.p = p, .arena = arena_new()};
    g.users = arena_alloc(g.arena, sizeof *g.users * (size_t)(p->buffers.n + 1));
    g.fixed = ARENA_ARRAY(g.arena, bool, p->buffers.n + 1);
    g.region = ARENA_ARRAY(g.arena, region *, p->buffers.n + 1);
    program_walk(p, note_step, &g);
    find_chains(&g);
    for (int a = 0; a < g.list.n; a++) {
        int length = 1, last = a;
        while (g.list.at[last].next >= 0) last = g.list.at[last].next, length++;
        if (g.list.at[a].continues || length < LEAST_LENGTH) continue;
        for (int j = a; j >= 0; j = g.list.at[j].next) move_joint(&g, &g.list.at[j], g.list.at[last].to);
    }
    arena_destroy(g.arena);
}
