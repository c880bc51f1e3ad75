// States are read by their own indices: the memory of those that grow has room that a view of another shape does not know.
//
//   ku = view of present            present[b, h, j, d]
//   ku[b, h, 0, j, d]
//
// Temporaries of which a state consists, as where keys and values of several layers are one tensor, are parts of it, and each
// part is written by a kernel of its own.
//
//   nk[h, j, d] = f(past[0, h, j, d])     present[0, h, j, d] = f(past[0, h, j, d])
//   ... reads nk                          ... reads present[0, ...]
//   present[0, h, j, d] = nk[h, j, d]
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/fuse/fuse_impl.h"
#include "passes/fuse/split_stages.h"
#include "passes/match/contract.h"
#include "passes/match/spans.h"
#include "passes/passes.h"

static expr *direct_read(void *user, kernel *k, const expr *read) {
    buffer *root = user;
    expr *index[MAX_RANK];
    if (!read->buffer->view_of || buffer_root(read->buffer) != root) return NULL;
    if (!view_index(k, read->buffer, root, read->index, index)) return NULL;
    return x_read_guarded(k, root, index, read->guard, read->fill);
}

static void read_directly(program *p, buffer *state) {
    step_list steps = program_steps(p->arena, p);
    for (int j = 0; j < steps.n; j++)
        if (steps.at[j].s->kind == STEP_KERNEL)
            kernel_rewrite_reads(steps.at[j].s->kernel, direct_read, state);
}

// ---------------------------------------------------------------- parts
// to[low[d] + from's index along of[d]] (-1: low[d] alone) is an element of `from`.
typedef struct part {
    buffer *from, *to;
    const site *at; // of the kernel whose stage copies it
    int stage, of[MAX_RANK];
    dim *low[MAX_RANK];
} part;

// Which axis of kernel k walks over each dim of the buffer that the read covers; false: it does not read all of it.
static bool walks_over(kernel *k, const expr *read, const buffer *root, int *dim_of) {
    expr *at[MAX_RANK];
    dim *low;
    int axis;
    if (!view_index(k, read->buffer, root, read->index, at)) return false;
    for (int a = 0; a < k->axes.n; a++) dim_of[a] = -1;
    for (int d = 0; d < root->rank; d++) {
        if (!shifted_axis(k, at[d], &axis, &low) || !dim_is(low, 0)) return false;
        if (axis < 0 && dim_is(root->dims[d], 1)) continue;
        if (axis < 0 || dim_of[axis] >= 0 || k->axes.at[axis].extent != root->dims[d]) return false;
        dim_of[axis] = d;
    }
    return true;
}

// Whether the stage copies a temporary, as a whole, into the state.
static bool find_part(kernel *k, const stage *s, buffer *state, part *p) {
    if (s->states.n || s->writes.n != 1 || k->axes.n > MAX_AXES) return false;
    const write *w = &s->writes.at[0];
    const expr *x = w->value;
    int dim_of[MAX_AXES], axis, found = 0, wide = 0;
    if (w->to != state || !write_is_plain(w) || x->op != X_READ || x->guard) return false;
    p->from = root_of(x->buffer), p->to = state;
    if (p->from->role != BUF_TEMP || p->from->layout || dtype_bits(state->dtype) < 8) return false;
    if (x->buffer->dtype != state->dtype || p->from->dtype != state->dtype ||
        !walks_over(k, x, p->from, dim_of))
        return false;
    for (int d = 0; d < state->rank; d++) {
        if (!shifted_axis(k, w->index[d], &axis, &p->low[d])) return false;
        p->of[d] = axis < 0 ? -1 : dim_of[axis];
        if (axis >= 0 && p->of[d] < 0 && !dim_is(k->axes.at[axis].extent, 1)) return false;
        for (int e = 0; e < d; e++)
            if (p->of[d] >= 0 && p->of[e] == p->of[d]) return false;
        found += p->of[d] >= 0;
    }
    for (int a = 0; a < k->axes.n; a++) wide += dim_of[a] >= 0;
    return found == wide;
}

static bool sets_directly(const kernel *k, const part *p) {
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++)
        if (buffer_root(all.at[j]->to) == p->from &&
            (all.at[j]->to != p->from || all.at[j]->combine != COMBINE_SET))
            return false;
    return true;
}

// Whether all uses are by kernels, writes before the copy, and by the temporary's own indices.
static bool is_movable(const uses *u, const part *p) {
    const buffer_uses *of = &u->of[p->from->id];
    if (of->by_others || of->output || of->fallback) return false;
    for (int j = 0; j < of->sites.n; j++) {
        const site *x = of->sites.at[j];
        bool writes = site_writes(x, p->from);
        if (x->region != p->at->region || x->s->kind != STEP_KERNEL) return false;
        if (!sets_directly(x->s->kernel, p)) return false;
        if (writes && (x->time >= p->at->time || site_touches(x, p->to))) return false;
        for (int i = 0; i < x->accessed.n; i++) {
            const buffer *b = x->accessed.at[i];
            if (buffer_root(b) == p->from && (!is_plain_view(b) || b->dtype != p->from->dtype)) return false;
        }
    }
    return true;
}

// Whether nothing else writes the part of the state, or reads it before the copy.
static bool is_alone(const uses *u, const part *p) {
    span own[MAX_RANK];
    dim *one = dim_const(p->at->s->kernel->program->dims, 1);
    const site_list *l = &u->of[p->to->id].sites;
    for (int d = 0; d < p->to->rank; d++)
        own[d] = (span){p->low[d], p->of[d] < 0 ? one : p->from->dims[p->of[d]]};
    for (int j = 0; j < l->n; j++) {
        const site *x = l->at[j];
        bool writes = site_writes(x, p->to), early = x->time <= p->at->time && site_reads(x, p->to);
        if ((!writes && !early) || sites_exclude(x, p->at)) continue;
        if (x->s->kind != STEP_KERNEL) return false;
        const kernel *k = x->s->kernel;
        if (early && !reads_apart_from(k, p->to, own)) return false;
        if (!writes_apart_from(k, x == p->at ? k->stages.at[p->stage] : NULL, p->to, own)) return false;
    }
    return true;
}

// Whether a kernel computes b from the old state, or moves what is so computed.
static bool comes_from(const uses *u, const buffer *b, const buffer *old, int depth) {
    const site_list *l = &u->of[b->id].sites;
    for (int j = 0; j < l->n; j++) {
        const site *x = l->at[j];
        if (!site_writes(x, b) || x->s->kind != STEP_KERNEL) continue;
        if (site_reads(x, old)) return true;
        for (int i = 0; depth && is_movement(x->s->kernel) && i < x->reads.n; i++)
            if (comes_from(u, x->reads.at[i], old, depth - 1)) return true;
    }
    return false;
}

static expr *read_part(void *user, kernel *k, const expr *read) {
    const part *p = user;
    expr *own[MAX_RANK], *index[MAX_RANK];
    if (buffer_root(read->buffer) != p->from || !view_index(k, read->buffer, p->from, read->index, own))
        return NULL;
    for (int d = 0; d < p->to->rank; d++)
        index[d] = p->of[d] < 0 ? x_dim(k, p->low[d]) : x_add(k, own[p->of[d]], x_dim(k, p->low[d]));
    return x_read_guarded(k, p->to, index, read->guard, read->fill);
}

static void write_part(kernel *k, write *w, const part *p) {
    expr **index = ARENA_ARRAY(k->arena, expr *, p->to->rank);
    for (int d = 0; d < p->to->rank; d++)
        index[d] = p->of[d] < 0 ? x_dim(k, p->low[d]) : x_add(k, w->index[p->of[d]], x_dim(k, p->low[d]));
    w->to = p->to, w->index = index;
}

static void move_part(const uses *u, part *p) {
    kernel *copying = p->at->s->kernel;
    for (int j = p->stage + 1; j < copying->stages.n; j++) copying->stages.at[j - 1] = copying->stages.at[j];
    copying->stages.n--;
    const site_list *l = &u->of[p->from->id].sites;
    for (int j = 0; j < l->n; j++) {
        kernel *k = l->at[j]->s->kernel;
        write_list all = kernel_write_list(k);
        for (int i = 0; i < all.n; i++)
            if (all.at[i]->to == p->from) write_part(k, all.at[i], p);
        kernel_rewrite_reads(k, read_part, p);
    }
}

static bool move_any_part(program *p, int output) {
    enum { DEPTH = 4 };
    arena *scratch = arena_new();
    buffer *state = p->outputs.at[output];
    const buffer *old = p->inputs.at[p->state[output] - 1];
    const uses *u = uses_build(scratch, p);
    const site_list *l = &u->of[state->id].sites;
    bool moved = false;
    for (int j = 0; j < l->n && !moved; j++) {
        part x = {.at = l->at[j]};
        bool kernel = !site_repeats(x.at) && x.at->s->kind == STEP_KERNEL && site_writes(x.at, state);
        for (; kernel && !moved && x.stage < x.at->s->kernel->stages.n; x.stage += !moved) {
            struct kernel *k = x.at->s->kernel;
            moved = find_part(k, k->stages.at[x.stage], state, &x) && is_movable(u, &x) && is_alone(u, &x) &&
                    comes_from(u, x.from, old, DEPTH);
        }
        if (moved) move_part(u, &x);
    }
    arena_destroy(scratch);
    return moved;
}

// ---------------------------------------------------------------- results of branches
//   copy present = t         for i < S: present[i] = t[i]
static void copy_by_kernels(program *p, buffer *state, const buffer *old) {
    step_list steps = program_steps(p->arena, p);
    for (int j = 0; j < steps.n; j++) {
        step *s = steps.at[j].s;
        if (s->kind != STEP_COPY || s->buffer != state || buffer_root(s->from) == old) continue;
        kernel *k = kernel_copying(p, s->from->name, s->loc, s->from, state);
        *s = (step){.kind = STEP_KERNEL, .kernel = k, .loc = s->loc};
    }
}

// ---------------------------------------------------------------- stages of several parts
//   for i < n: to[i] = select(low <= i, x(i), y(i))     for i < low: to[i] = y(i)
//                                                       for i < n - low: to[i + low] = x(i + low)
typedef struct half {
    const expr *when;
    int axis;
    expr *holds, *place; // what replaces `when` and the axis
} half;

static expr *in_half(void *user, expr *x) {
    const half *h = user;
    return x == h->when ? h->holds : x->op == X_AXIS && x->axis == h->axis ? h->place : NULL;
}

static stage *half_of(kernel *k, const stage *s, half *h, bool behind, dim *low) {
    const axis *old = &k->axes.at[h->axis];
    int own = kernel_axis(k, AXIS_PARALLEL, old->name, behind ? dim_sub(old->extent, low) : low);
    stage *made = ARENA_NEW(k->arena, stage);
    for (int j = 0; j < s->axes.n; j++) stage_axis(k, made, s->axes.at[j] == h->axis ? own : s->axes.at[j]);
    h->place = behind ? x_add(k, x_axis(k, own), x_dim(k, low)) : x_axis(k, own);
    h->holds = x_int(k, DT_BOOL, behind);
    const write *w = &s->writes.at[0];
    expr *index[MAX_RANK];
    for (int d = 0; d < w->to->rank; d++) index[d] = expr_rewrite(k, w->index[d], in_half, h);
    stage_write(k, made, w->to, index, expr_rewrite(k, w->value->arg[behind ? 1 : 2], in_half, h));
    return made;
}

static bool is_old(const expr *x, const buffer *old) {
    return x->op == X_READ && buffer_root(x->buffer) == old;
}

// Not where one half keeps or moves elements of the old state: that is seen as a whole.
static bool halve(kernel *k, int at, const buffer *old) {
    stage *s = k->stages.at[at];
    if (s->states.n || s->writes.n != 1 || !write_is_plain(&s->writes.at[0])) return false;
    const expr *x = s->writes.at[0].value;
    if (x->op != X_SELECT || x->arg[0]->op != X_LE || x->arg[0]->arg[1]->op != X_AXIS) return false;
    if (is_old(x->arg[1], old) || is_old(x->arg[2], old)) return false;
    half h = {.when = x->arg[0], .axis = x->arg[0]->arg[1]->axis};
    dim *low = expr_known_dim(k, x->arg[0]->arg[0]);
    bool own = false;
    for (int j = 0; j < s->axes.n; j++) own |= s->axes.at[j] == h.axis;
    if (!own || !low || low->min < 0 || dim_less_equal(low, k->axes.at[h.axis].extent) != TRI_YES)
        return false;
    k->stages.at[at] = half_of(k, s, &h, false, low);
    VEC_PUSH(k->arena, &k->stages, NULL);
    for (int j = k->stages.n - 1; j > at + 1; j--) k->stages.at[j] = k->stages.at[j - 1];
    k->stages.at[at + 1] = half_of(k, s, &h, true, low);
    return true;
}

static bool halve_writers(program *p, const buffer *state, const buffer *old) {
    bool any = false;
    step_list steps = program_steps(p->arena, p);
    for (int j = 0; j < steps.n; j++) {
        kernel *k = steps.at[j].s->kernel;
        if (steps.at[j].s->kind != STEP_KERNEL || !kernel_writes(k, state)) continue;
        for (int i = 0; i < k->stages.n; i++)
            if (k->stages.at[i]->writes.n && k->stages.at[i]->writes.at[0].to == state && halve(k, i, old))
                any = true, i--;
    }
    return any;
}

// ---------------------------------------------------------------- the pass
// Kernels that write several parts of the state become one for each.
static void split_writers(program *p, const buffer *state) {
    step_list steps = program_steps(p->arena, p);
    for (int j = 0; j < steps.n; j++)
        if (steps.at[j].s->kind == STEP_KERNEL && kernel_writes(steps.at[j].s->kernel, state))
            split_stages(p, steps.at[j].region, steps.at[j].s);
}

void pass_states(pass_context *c) {
    program *p = c->program;
    bool any = false;
    for (int j = 0; p->state && j < p->outputs.n; j++) {
        if (!p->state[j]) continue;
        buffer *in = p->inputs.at[p->state[j] - 1], *out = p->outputs.at[j];
        bool grows = state_axis(p, j) >= 0, parts = halve_writers(p, out, in);
        if (grows) copy_by_kernels(p, out, in);
        while (move_any_part(p, j)) parts = true;
        if (!parts && !grows) continue;
        read_directly(p, in), read_directly(p, out);
        if (parts) split_writers(p, out);
        any = true;
    }
    if (any) program_compact(p);
}
