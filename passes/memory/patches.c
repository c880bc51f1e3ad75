// Which kernels run in patches. In: a program and the memory it may take. Out: loops around kernels at the peak.
//
//   a = conv(x); b = conv(a)      becomes      for j < steps: rows of a; rows of b
//
// Every read tells which rows of an image a row of the result needs (passes/match/window.h). From these windows follow the
// number of rows of every image in a step, and how far it lags behind. Rows that the next step needs are kept, so that
// nothing is computed twice.
#include "compiler/base/integers.h"
#include "passes/match/form.h"
#include "passes/match/window.h"
#include "passes/memory/memory_plan.h"
#include "passes/memory/patch.h"
#include <string.h>

enum {
    PATCHES_MOST = 16,
    KERNELS_MOST = 64,
    PLANS_MOST = 4000,
    ROWS_MOST = 16,
    RATE_MOST = 16,
    UP_MOST = 1 << 20,
    CALL = 80,
    UNPACKED = 10
};

// ---------------------------------------------------------------- kernels
static bool is_around(kernel *k, const write *w) {
    for (int j = 0; j < w->to->rank; j++) {
        index_window at;
        bool known = window_of_index(k, w->index[j], -1, &at) == WINDOW_FITS && dim_is_const(w->to->dims[j]);
        if (known && (at.hi < 0 || at.lo >= dim_value(w->to->dims[j]))) return true;
    }
    return false;
}

static bool only_fills(kernel *k) {
    for (int j = 0; j < k->stages.n; j++)
        for (int i = 0; i < k->stages.at[j]->writes.n; i++) {
            const write *w = &k->stages.at[j]->writes.at[i];
            if (w->value->op != X_CONST || w->guard || !is_around(k, w)) return false;
        }
    return true;
}

// The only buffer that it writes, all of it once; NULL: it does something else.
static buffer *result_of(const kernel *k) {
    const write_list l = kernel_write_list(k);
    buffer *to = NULL;
    for (int j = 0; j < l.n; j++) {
        const write *w = l.at[j];
        if (w->to->role == BUF_LOCAL) continue;
        if ((to && w->to != to) || !write_is_plain(w) || w->to->view_of) return NULL;
        to = w->to;
    }
    return to && (to->role == BUF_TEMP || to->role == BUF_OUTPUT) && !kernel_reads(k, to) ? to : NULL;
}

static bool has_entry_alone(const buffer *b, int axis) {
    int n = 0;
    for (int j = 0; b->layout && j < b->layout->n; j++) n += b->layout->order[j].axis == axis;
    return (!b->layout || n == 1) && !(b->layout && (b->layout->gap || b->layout->room[axis]));
}

// ---------------------------------------------------------------- axes and rates
// Rows for each row of the first image, a reduced fraction; down 0: the kernel needs more than the rows of images in patches.
typedef struct rate {
    int64_t up, down;
} rate;

static rate rate_of(int64_t up, int64_t by, int64_t down, int64_t of) {
    if (__builtin_mul_overflow(up, by, &up) || __builtin_mul_overflow(down, of, &down)) return (rate){0};
    int64_t g = int_gcd(up, down);
    return up / g <= UP_MOST && down / g <= RATE_MOST ? (rate){up / g, down / g} : (rate){0};
}

static bool set_image(patch_image *i, int axis, rate r) {
    if (!r.down) return false;
    if (i->axis >= 0) return i->axis == axis && i->up == r.up && i->down == r.down;
    if (!dim_is_const(i->of->dims[axis]) || !has_entry_alone(i->of, axis)) return false;
    i->axis = axis, i->up = r.up, i->down = r.down, i->rows = dim_value(i->of->dims[axis]);
    return true;
}

static bool set_kernel(patch_kernel *x, int axis, rate r) {
    if (!r.down) return false;
    if (x->axis >= 0) return x->axis == axis && x->up == r.up && x->down == r.down;
    const dim *extent = x->k->axes.at[axis].extent;
    if (!dim_is_const(extent) || (x->k->stages.n > 1 && axis >= x->k->nouter)) return false;
    x->axis = axis, x->up = r.up, x->down = r.down, x->rows = dim_value(extent);
    return true;
}

// The axis of rows of a kernel that accesses an image at this index; -1: none or several.
static int axis_in(const kernel *k, const expr *index, axis_kind kind) {
    int found = -1;
    for (int a = 0; a < k->axes.n; a++) {
        if (k->axes.at[a].kind != kind || !expr_uses_axis(index, a)) continue;
        if (found >= 0) return -1;
        found = a;
    }
    return found;
}

static int dim_with(const buffer *b, expr *const *index, int axis) {
    int found = -1;
    for (int j = 0; j < b->rank; j++) {
        if (!expr_uses_axis(index[j], axis)) continue;
        if (found >= 0) return -1;
        found = j;
    }
    return found;
}

static patch_image *image_of(const patch_plan *x, const buffer *b) {
    patch_image *i = b->role == BUF_LOCAL ? NULL : &x->images[buffer_root(b)->id];
    return i && i->written ? i : NULL;
}

static bool join_write(patch_plan *x, patch_kernel *k, const write *w) {
    patch_image *i = image_of(x, w->to);
    if (w->to->role == BUF_LOCAL) return true;
    if (k->axis < 0 && i->axis >= 0) {
        const expr *e = w->index[i->axis];
        if (e->op != X_AXIS || !set_kernel(k, e->axis, (rate){i->up, i->down})) return false;
    }
    if (k->axis < 0) return true;
    int at = dim_with(w->to, w->index, k->axis);
    if (at < 0 || w->index[at]->op != X_AXIS || k->k->axes.at[k->axis].kind != AXIS_PARALLEL) return false;
    return set_image(i, at, (rate){k->up, k->down}) && i->rows == k->rows;
}

// A sum over all rows of an image, in any order.
static bool sums_rows(const patch_kernel *k, const expr *e, const patch_image *i) {
    const stage *s = k->k->stages.at[0];
    if (k->k->stages.n != 1 || s->states.n != 1 || s->writes.n != 1 ||
        !state_begins_neutral(&s->states.at[0]))
        return false;
    reduce_op op = s->states.at[0].op;
    int a = axis_in(k->k, e->index[i->axis], AXIS_REDUCE);
    return (op == RED_SUM || op == RED_MIN || op == RED_MAX) && a >= 0 && e->index[i->axis]->op == X_AXIS &&
           dim_is(k->k->axes.at[a].extent, i->rows) && !k->k->locals.n;
}

static bool join_read(patch_plan *x, patch_kernel *k, const expr *e) {
    patch_image *i = image_of(x, e->buffer);
    index_window w;
    if (!i) return true;
    if (e->buffer->view_of) return false;
    if (k->axis < 0 && i->axis >= 0) {
        int a = axis_in(k->k, e->index[i->axis], AXIS_PARALLEL);
        if (a < 0) {
            if (!sums_rows(k, e, i)) return false;
            k->sums = true, k->image = i;
            return set_kernel(k, axis_in(k->k, e->index[i->axis], AXIS_REDUCE), (rate){i->up, i->down});
        }
        if (window_of_index(k->k, e->index[i->axis], a, &w) != WINDOW_FITS || w.at <= 0) return false;
        if (!set_kernel(k, a, rate_of(i->up, w.down, i->down, w.at))) return false;
    }
    if (k->axis < 0) return true;
    int at = dim_with(e->buffer, e->index, k->axis);
    if (at < 0 || window_of_index(k->k, e->index[at], k->axis, &w) != WINDOW_FITS || w.at <= 0) return false;
    return set_image(i, at, rate_of(k->up, w.at, k->down, w.down));
}

static bool join_kernel(patch_plan *x, patch_kernel *k) {
    arena *scratch = arena_new();
    bool fits = true;
    expr_list nodes = reads_only(kernel_nodes(scratch, k->k, PART_ALL));
    for (int j = 0; j < nodes.n && fits; j++) fits = join_read(x, k, nodes.at[j]);
    write_list l = kernel_write_list(k->k);
    for (int j = 0; j < l.n && fits && !k->sums; j++) fits = join_write(x, k, l.at[j]);
    arena_destroy(scratch);
    return fits;
}

static bool join_all(patch_plan *x) {
    int known = -1, now = 0;
    while (now != known) {
        known = now, now = 0;
        for (int j = 0; j < x->n; j++) {
            patch_kernel *k = &x->kernels[j];
            if (k->fills) continue;
            if (!join_kernel(x, k)) return false;
            now += k->axis >= 0;
        }
    }
    for (int j = 0; j < x->n; j++)
        if (!x->kernels[j].fills && x->kernels[j].axis < 0) return false;
    return true;
}

// ---------------------------------------------------------------- leads
static bool set_rates(patch_plan *x, int64_t rows) {
    int64_t scale = 1;
    for (int j = 0; j < x->n; j++) {
        const patch_kernel *k = &x->kernels[j];
        if (k->fills) continue;
        scale = scale / int_gcd(scale, k->down) * k->down;
        for (int i = 0; i < x->p->buffers.n; i++)
            if (x->images[i].axis >= 0) scale = scale / int_gcd(scale, x->images[i].down) * x->images[i].down;
        if (scale > RATE_MOST) return false;
    }
    x->scale = scale * rows;
    for (int i = 0; i < x->p->buffers.n; i++)
        if (x->images[i].axis >= 0) x->images[i].rate = x->images[i].up * x->scale / x->images[i].down;
    for (int j = 0; j < x->n; j++)
        if (!x->kernels[j].fills) x->kernels[j].rate = x->kernels[j].up * x->scale / x->kernels[j].down;
    return true;
}

// The most rows that the kernel can have computed when this image is at its lead.
static int64_t lead_behind(const patch_image *i, const index_window *w) {
    return 1 + div_down(w->down * i->lead - w->hi - 1, w->at);
}

typedef void each_read(patch_plan *x, patch_kernel *k, patch_image *i, const index_window *w);

static void for_reads(patch_plan *x, patch_kernel *k, each_read *f) {
    arena *scratch = arena_new();
    expr_list nodes = reads_only(kernel_nodes(scratch, k->k, PART_ALL));
    for (int j = 0; j < nodes.n; j++) {
        patch_image *i = image_of(x, nodes.at[j]->buffer);
        index_window w;
        if (i && window_of_index(k->k, nodes.at[j]->index[i->axis], k->axis, &w) == WINDOW_FITS)
            f(x, k, i, &w);
    }
    arena_destroy(scratch);
}

static void lag_behind(patch_plan *x, patch_kernel *k, patch_image *i, const index_window *w) {
    (void)x;
    int64_t lead = lead_behind(i, w);
    if (lead < k->lead) k->lead = lead;
}

static void keep_rows(patch_plan *x, patch_kernel *k, patch_image *i, const index_window *w) {
    (void)x;
    int64_t begin = div_down(w->at * k->lead + w->lo, w->down);
    if (begin < i->begin) i->begin = begin;
}

static void find_leads(patch_plan *x) {
    bool changed = true;
    while (changed) {
        changed = false;
        for (int j = 0; j < x->n; j++) {
            patch_kernel *k = &x->kernels[j];
            int64_t was = k->lead;
            if (k->fills) continue;
            if (!k->sums && k->image->lead < k->lead) k->lead = k->image->lead;
            for_reads(x, k, lag_behind);
            if (k->rows % k->rate == 0 && !k->sums) k->lead = k->rate * div_down(k->lead, k->rate);
            if (!k->sums) k->image->lead = k->lead;
            changed |= k->lead != was;
        }
    }
    for (int i = 0; i < x->p->buffers.n; i++) x->images[i].begin = x->images[i].lead;
    x->steps = 0;
    for (int j = 0; j < x->n; j++) {
        patch_kernel *k = &x->kernels[j];
        if (k->fills) continue;
        for_reads(x, k, keep_rows);
        k->whole = k->rows % k->rate == 0 && k->lead % k->rate == 0;
        int64_t steps = -div_down(k->lead - k->rows, k->rate);
        if (steps > x->steps) x->steps = steps;
    }
}

// ---------------------------------------------------------------- images
static bool is_inner(const patch_plan *x, const buffer *b) {
    const buffer_uses *of = &x->uses->of[b->id];
    if (b->role != BUF_TEMP || of->viewed || of->by_others || of->output || of->fallback || b->rounded)
        return false;
    for (int j = 0; j < of->sites.n; j++) {
        const site *at = of->sites.at[j];
        int i = at->depth ? -1 : step_index(x->p->main, at->s);
        if (i < x->first || i >= x->first + x->n) return false;
    }
    return true;
}

static bool find_images(patch_plan *x) {
    for (int j = 0; j < x->n; j++) {
        patch_kernel *k = &x->kernels[j];
        k->s = x->p->main->steps.at[x->first + j], k->k = k->s->kernel, k->axis = -1;
        k->fills = only_fills(k->k);
        buffer *to = k->fills ? NULL : result_of(k->k);
        if (!k->fills && !to) return false;
        if (to && to->role == BUF_OUTPUT && x->p->state && x->p->state[to->io]) return false;
        if (to) k->image = &x->images[to->id];
        if (to && !k->image->written)
            *k->image =
                (patch_image){.of = to, .written = true, .inner = is_inner(x, to), .axis = -1, .first = j};
        if (to) k->image->last_writer = j;
    }
    for (int j = 0; j < x->n; j++) {
        buffer **all;
        int n = kernel_buffers(x->kernels[j].k, &all);
        for (int i = 0; i < n; i++)
            if (image_of(x, all[i])) image_of(x, all[i])->last = j;
    }
    return true;
}

// Buffers of sums are whole, and nothing in the loop reads them.
static bool sums_are_last(const patch_plan *x) {
    for (int j = 0; j < x->n; j++) {
        const patch_kernel *k = &x->kernels[j];
        const buffer *to = k->sums ? result_of(k->k) : NULL;
        for (int i = 0; i < x->n && to; i++)
            if (!x->kernels[i].fills &&
                (kernel_reads(x->kernels[i].k, to) || (i != j && kernel_writes(x->kernels[i].k, to))))
                return false;
    }
    return true;
}

// ---------------------------------------------------------------- memory
buffer patch_rows(arena *a, dims *t, const buffer *b, int axis, int64_t rows, bool around) {
    buffer own = *b;
    dim **d = ARENA_ARRAY(a, dim *, b->rank + 1);
    d[0] = dim_const(t, 1); // of rank 0
    own.dims = d + 1;
    for (int j = 0; j < b->rank; j++) own.dims[j] = j == axis ? dim_const(t, rows) : b->dims[j];
    if (!b->layout) return own;
    layout *l = ARENA_NEW(a, layout);
    *l = *b->layout;
    for (int j = 0; j < b->rank; j++)
        if (j == axis || !around) l->pad_lo[j] = l->pad_hi[j] = 0;
    own.layout = l;
    return own;
}

static int64_t bytes_of(const buffer *b, int64_t align) {
    dim *bytes = buffer_bytes(b);
    return dim_is_const(bytes) ? round_up(dim_value(bytes), align) : 0;
}

typedef struct estimate {
    int64_t peak;
    int step; // where it is
} estimate;

// Memory of a step of the program outside the loop: all that lives. On bare machines results overlap operands.
static int64_t live_at(const program *p, const uses *u, const target *t, const site *at, int64_t align) {
    int64_t live = 0, made = 0, given = 0;
    for (int j = 0; j < p->buffers.n; j++) {
        const buffer *b = p->buffers.at[j];
        if (b->role != BUF_TEMP || b->view_of || !u->of[b->id].sites.n) continue;
        live_range r = uses_live_range(u, b);
        if (r.def > at->end || r.last_use < at->time) continue;
        int64_t bytes = bytes_of(b, align);
        live += bytes;
        if (r.def == at->time && at->writes.n == 1) made = bytes;
        if (r.last_use == at->time && bytes > given) given = bytes;
    }
    return t->freestanding && at->s->kind == STEP_KERNEL ? live - (made < given ? made : given) : live;
}

static int64_t live_in_loop(const patch_plan *x, int64_t align) {
    int64_t always = 0, most = 0;
    dims *t = x->p->dims;
    int64_t from = x->uses->of_kernel[x->kernels[0].k->id]->time,
            to = x->uses->of_kernel[x->kernels[x->n - 1].k->id]->time;
    for (int j = 0; j < x->p->buffers.n; j++) {
        const buffer *b = x->p->buffers.at[j];
        const patch_image *i = &x->images[j];
        if (b->role != BUF_TEMP || b->view_of || !x->uses->of[b->id].sites.n) continue;
        live_range r = uses_live_range(x->uses, b);
        if (r.def > to || r.last_use < from) continue;
        if (!i->inner) always += bytes_of(b, align);
        else if (i->lead > i->begin) {
            buffer kept = patch_rows(x->arena, t, b, i->axis, i->lead - i->begin, false);
            always += bytes_of(&kept, align);
        }
    }
    for (int k = 0; k < x->n; k++) {
        int64_t now = 0;
        for (int j = 0; j < x->p->buffers.n; j++) {
            const patch_image *i = &x->images[j];
            if (!i->inner || k < i->first || k > i->last) continue;
            buffer window = patch_rows(x->arena, t, i->of, i->axis, i->rate + i->lead - i->begin, true);
            now += bytes_of(&window, align);
        }
        if (x->kernels[k].sums) now += 8 * dim_value(buffer_count(result_of(x->kernels[k].k)));
        if (now > most) most = now;
    }
    return always + most;
}

// Whether the rows are columns of packed weights, which are read in panels only if all steps have as many (patch_weights.c).
static bool leaves_panels(const patch_kernel *k) {
    if (k->fills || (k->whole && !k->lead)) return false;
    for (int j = 0; j < k->k->exprs.n; j++) {
        const expr *e = k->k->exprs.at[j];
        const layout *l = e->op == X_READ && e->buffer->role == BUF_CONST ? e->buffer->layout : NULL;
        for (int i = 0; l && i < l->n; i++) {
            const expr *at = e->index[l->order[i].axis];
            if (l->order[i].tile && at->op == X_AXIS && at->axis == k->axis) return true;
        }
    }
    return false;
}

static double positions_of(const kernel *k) {
    double n = 1;
    for (int j = 0; j < k->axes.n; j++) n *= (double)dim_upper(k->axes.at[j].extent);
    return n;
}

static double cost_of(const patch_plan *x) {
    double bytes = 0, unpacked = 0;
    for (int j = 0; j < x->n; j++)
        if (leaves_panels(&x->kernels[j])) unpacked += positions_of(x->kernels[j].k);
    for (int j = 0; j < x->p->buffers.n; j++) {
        const patch_image *i = &x->images[j];
        if (!i->inner || i->lead == i->begin) continue;
        buffer kept = patch_rows(x->arena, x->p->dims, i->of, i->axis, i->lead - i->begin, false);
        bytes += 2.0 * (double)bytes_of(&kept, 1);
    }
    return (double)x->steps * (bytes + (double)CALL * x->n) + UNPACKED * unpacked;
}

static int64_t peak_of(const program *p, const uses *u, const target *t, const patch_plan *x, int *step) {
    int64_t align = t->freestanding ? 16 : 64, peak = x ? x->own : 0;
    for (int j = 0; j < u->n; j++) {
        const site *at = &u->sites[j];
        int i = at->depth ? -1 : step_index(p->main, at->s);
        if (i < 0 || (x && i >= x->first && i < x->first + x->n)) continue;
        int64_t now = live_at(p, u, t, at, align);
        if (now > peak) peak = now, *step = i;
    }
    return peak;
}

// ---------------------------------------------------------------- the choice
typedef struct chooser {
    arena *arena;
    program *p;
    const target *t;
    const uses *uses;
    int64_t most;
    bool exact;
    int peak, plans;
    patch_plan *best;
} chooser;

static patch_plan *plan_new(chooser *c, int first, int n) {
    patch_plan *x = ARENA_NEW(c->arena, patch_plan);
    *x = (patch_plan){
        .arena = c->arena, .p = c->p, .uses = c->uses, .first = first, .n = n, .nbuffers = c->p->buffers.n};
    x->kernels = ARENA_ARRAY(c->arena, patch_kernel, n);
    x->images = ARENA_ARRAY(c->arena, patch_image, c->p->buffers.n + 1);
    for (int j = 0; j <= c->p->buffers.n; j++) x->images[j].axis = -1;
    return x;
}

static bool float_sum(const chooser *c, const patch_kernel *k) {
    return k->sums && c->exact && dtype_is_float(k->k->stages.at[0]->states.at[0].dtype);
}

// A plan for kernels from `first` on, by one axis of the first image; NULL: they do not run in patches.
static patch_plan *plan_by(chooser *c, int first, int n, int axis, int64_t rows) {
    patch_plan *x = plan_new(c, first, n);
    if (!find_images(x)) return NULL;
    patch_image *seed = NULL;
    for (int j = 0; j < n && !seed; j++) seed = x->kernels[j].image;
    if (!seed || axis >= seed->of->rank || !set_image(seed, axis, (rate){1, 1}) || seed->rows < 2 ||
        !join_all(x))
        return NULL;
    bool any = false;
    for (int j = 0; j < n; j++)
        if (float_sum(c, &x->kernels[j])) return NULL;
    for (int j = 0; j < c->p->buffers.n; j++) any |= x->images[j].inner && x->images[j].axis >= 0;
    for (int j = 0; j < n; j++)
        if (x->kernels[j].sums) x->images[result_of(x->kernels[j].k)->id].inner = false;
    if (!any || !sums_are_last(x) || !set_rates(x, rows)) return NULL;
    find_leads(x);
    return x;
}

// 0: the program needs no more than allowed, 1: the loop does not, 2: neither.
static int rank_of(const chooser *c, const patch_plan *x) {
    return x->bytes <= c->most ? 0 : x->own <= c->most ? 1 : 2;
}

static bool is_better(const chooser *c, const patch_plan *x, const patch_plan *than) {
    int rank = rank_of(c, x), other = rank_of(c, than);
    if (rank != other) return rank < other;
    if (rank == 1 && x->bytes != than->bytes) return x->bytes < than->bytes;
    if (rank == 2 && x->own != than->own) return x->own < than->own;
    return x->cost < than->cost;
}

static void consider(chooser *c, patch_plan *x) {
    int step = 0;
    x->own = live_in_loop(x, c->t->freestanding ? 16 : 64);
    x->bytes = peak_of(c->p, c->uses, c->t, x, &step);
    x->cost = cost_of(x);
    if (!c->best || is_better(c, x, c->best)) c->best = x;
}

// By the outermost axis of the first image that has rows.
static bool try_kernels(chooser *c, int first, int n) {
    for (int axis = 0; axis < MAX_RANK && c->plans < PLANS_MOST; axis++) {
        patch_plan *x = plan_by(c, first, n, axis, 1);
        c->plans++;
        if (!x) continue;
        x->seed = axis;
        consider(c, x);
        return true;
    }
    return false;
}

// More rows in a step: fewer steps, as long as they fit.
static void try_more_rows(chooser *c) {
    const patch_plan *b = c->best;
    for (int64_t rows = 2; b && rows <= ROWS_MOST; rows++) {
        patch_plan *x = plan_by(c, b->first, b->n, b->seed, rows);
        if (x) consider(c, x);
    }
}

static bool is_kernel(const region *r, int i) {
    return i >= 0 && i < r->steps.n && r->steps.at[i]->kind == STEP_KERNEL;
}

// Kernels around the peak, more and more of them.
static void find_plan(chooser *c) {
    const region *main = c->p->main;
    for (int first = c->peak; is_kernel(main, first) && c->peak - first < KERNELS_MOST; first--) {
        int refused = 0;
        for (int last = c->peak; is_kernel(main, last) && last - first < KERNELS_MOST && refused < 2;
             last++) {
            if (last == first) continue;
            refused = try_kernels(c, first, last - first + 1) ? 0 : refused + 1;
        }
    }
    try_more_rows(c);
}

static bool sizes_are_known(const program *p) {
    for (int j = 0; j < p->buffers.n; j++) {
        const buffer *b = p->buffers.at[j];
        if (b->role == BUF_TEMP && !dim_is_const(buffer_bytes(b))) return false;
    }
    return true;
}

bool patch_program(program *p, const target *t, int64_t most, bool exact) {
    bool changed = false;
    for (int j = 0; j < PATCHES_MOST && sizes_are_known(p); j++) {
        arena *a = arena_new();
        chooser c = {
            .arena = a, .p = p, .t = t, .uses = uses_build(a, p), .most = most, .exact = exact, .peak = -1};
        int64_t now = peak_of(p, c.uses, t, NULL, &c.peak);
        if (now > most) find_plan(&c);
        bool better = c.best && c.best->own < now;
        if (better) apply_patches(c.best, t);
        arena_destroy(a);
        if (!better) break;
        changed = true;
    }
    return changed;
}
