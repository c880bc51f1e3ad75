// Concatenations without copies: see concat_elision.h.
#include "passes/layout/concat_elision.h"
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"

// How kernels read a buffer.
typedef struct reading {
    bool known;
    bool windows; // with guards that a halo can replace
    bool plain;   // in sums of products, without guards
} reading;

typedef struct join {
    program *p;
    uses *uses;
    live_range *live; // by id of the root; def 0: it is part of another one now
    const site **def; // its first use before the pass
    int *writers;     // sites that wrote it before the pass
    reading *read;    // by all kernels
    double *bytes;    // of the buffer
    double *locals;   // bytes, by id of the kernel
    double limit;     // largest allowed peak in bytes
} join;

static double bytes_of(const buffer *b) {
    enum { USUAL = 64 };
    int64_t n;
    return dim_usual(buffer_bytes(b), USUAL, &n) ? (double)n : 0;
}

static void find_sizes(join *j, arena *scratch) {
    j->bytes = ARENA_ARRAY(scratch, double, j->p->buffers.n + 1);
    j->locals = ARENA_ARRAY(scratch, double, j->p->kernels.n + 1);
    for (int i = 0; i < j->p->buffers.n; i++) j->bytes[i] = bytes_of(j->p->buffers.at[i]);
    for (int i = 0; i < j->p->kernels.n; i++) {
        const kernel *k = j->p->kernels.at[i];
        for (int l = 0; l < k->locals.n; l++) j->locals[k->id] += bytes_of(k->locals.at[l]);
    }
}

static void find_live_ranges(join *j, arena *scratch) {
    j->live = ARENA_ARRAY(scratch, live_range, j->p->buffers.n + 1);
    j->def = ARENA_ARRAY(scratch, const site *, j->p->buffers.n + 1);
    j->writers = ARENA_ARRAY(scratch, int, j->p->buffers.n + 1);
    j->read = ARENA_ARRAY(scratch, reading, j->p->buffers.n + 1);
    for (int i = 0; i < j->p->buffers.n; i++) {
        const site_list *l = &j->uses->of[i].sites;
        j->live[i] = uses_live_range(j->uses, j->p->buffers.at[i]);
        j->def[i] = l->n ? l->at[0] : NULL;
        for (int s = 0; s < l->n; s++) j->writers[i] += site_writes(l->at[s], j->p->buffers.at[i]);
    }
}

// ---------------------------------------------------------------- parts
// A box: `extent` elements from `low` on along each dim, traversed by kernel axis `axis` (-1: one element).
typedef struct box {
    int axis[MAX_RANK];
    dim *low[MAX_RANK], *extent[MAX_RANK];
} box;

// A buffer that stages of a kernel copy into another one, shifted by `shift` elements along each dim.
typedef struct part {
    buffer *from, *to;
    dim *shift[MAX_RANK];
    box box; // of `from`: the elements copied by the stages found so far
    int stages;
} part;

static bool is_plain_temp(const buffer *b) {
    return b->role == BUF_TEMP && !b->view_of && b->space == SPACE_HOST && dtype_bits(b->dtype) >= 8;
}

// Whether adjacent elements of one buffer are adjacent in the other.
static bool layouts_agree(const layout *part, const layout *whole) {
    if (!part || !whole) return part == whole;
    if (part->n != whole->n || part->gap || whole->gap) return false;
    for (int j = 0; j < part->n; j++) {
        int axis = part->order[j].axis;
        if (axis != whole->order[j].axis || part->order[j].tile || whole->order[j].tile) return false;
        if (part->pad_lo[axis] || part->pad_hi[axis] || whole->pad_lo[axis] || whole->pad_hi[axis])
            return false;
    }
    return true;
}

static bool find_box(const kernel *k, const buffer *b, expr *const *index, box *x) {
    for (int d = 0; d < b->rank; d++) {
        if (!shifted_axis(k, index[d], &x->axis[d], &x->low[d])) return false;
        for (int e = 0; e < d; e++)
            if (x->axis[e] == x->axis[d] && x->axis[d] >= 0) return false;
        x->extent[d] = x->axis[d] < 0 ? dim_const(k->program->dims, 1) : k->axes.at[x->axis[d]].extent;
    }
    return true;
}

static bool is_copy(const kernel *k, const stage *s, part *found) {
    box target;
    if (s->states.n || s->writes.n != 1) return false;
    const write *w = &s->writes.at[0];
    const expr *value = w->value;
    if (w->guard || w->combine != COMBINE_SET || value->op != X_READ || value->guard) return false;
    buffer *from = value->buffer, *to = w->to;
    if (!is_plain_temp(from) || !is_plain_temp(to) || from == to) return false;
    if (from->rank != to->rank || from->dtype != to->dtype || !layouts_agree(from->layout, to->layout))
        return false;
    *found = (part){.from = from, .to = to, .stages = 1};
    if (!find_box(k, from, value->index, &found->box) || !find_box(k, to, w->index, &target)) return false;
    for (int d = 0; d < to->rank; d++) {
        if (found->box.axis[d] != target.axis[d]) return false;
        found->shift[d] = dim_sub(target.low[d], found->box.low[d]);
    }
    return true;
}

static bool is_same(const dim *a, const dim *b) { return dim_equal(a, b) == TRI_YES; }

// Extends the part by another copy of the same buffer with the same shift, if that begins where the part
// ends.
static bool add_piece(part *p, const part *more) {
    int along = -1;
    for (int d = 0; d < p->to->rank; d++) {
        if (!is_same(p->shift[d], more->shift[d])) return false;
        if (is_same(p->box.low[d], more->box.low[d]) && is_same(p->box.extent[d], more->box.extent[d]))
            continue;
        if (along >= 0) return false;
        along = d;
    }
    if (along < 0 || !is_same(dim_add(p->box.low[along], p->box.extent[along]), more->box.low[along]))
        return false;
    p->box.extent[along] = dim_add(p->box.extent[along], more->box.extent[along]);
    p->stages++;
    return true;
}

// What the stages of a kernel copy; `stages` 0: the stage does something else.
static part *find_copies(arena *a, const kernel *k) {
    part *of = ARENA_ARRAY(a, part, k->stages.n + 1);
    for (int j = 0; j < k->stages.n; j++)
        if (!is_copy(k, k->stages.at[j], &of[j])) of[j] = (part){0};
    return of;
}

static bool copies(const part *stage, const part *p) {
    return stage->stages && stage->from == p->from && stage->to == p->to;
}

// Whether an access to the whole buffer is disjoint from the part, judging by each dim separately.
static bool is_apart(const kernel *k, const part *p, expr *const *index) {
    for (int d = 0; d < p->to->rank; d++) {
        int axis;
        dim *low, *end = dim_add(p->shift[d], p->from->dims[d]);
        if (!shifted_axis(k, index[d], &axis, &low)) continue;
        dim *extent = axis < 0 ? dim_const(k->program->dims, 1) : k->axes.at[axis].extent;
        if (dim_less_equal(end, low) == TRI_YES) return true;
        if (dim_less_equal(dim_add(low, extent), p->shift[d]) == TRI_YES) return true;
    }
    return false;
}

static bool writes_apart(const kernel *k, const stage *s, const part *p) {
    for (int i = 0; i < s->writes.n; i++)
        if (s->writes.at[i].to == p->to && !is_apart(k, p, s->writes.at[i].index)) return false;
    return true;
}

// Whether no other stage accesses these elements of the whole, so that their order does not matter.
static bool is_only_access(const kernel *k, const part *of, const part *p) {
    for (int j = 0; j < k->stages.n; j++) {
        const stage *s = k->stages.at[j];
        if (copies(&of[j], p)) continue;
        bool reads = of[j].stages ? of[j].from == p->from || of[j].from == p->to
                                  : stage_reads(s, p->from) || stage_reads(s, p->to);
        if (reads || !writes_apart(k, s, p)) return false;
    }
    return true;
}

// Finds a whole buffer that stages of the kernel copy, `first` being the first of them.
static bool find_part(const kernel *k, const part *of, int first, part *p) {
    *p = of[first];
    if (!p->stages) return false;
    for (int j = 0; j < first; j++)
        if (copies(&of[j], p)) return false;
    for (int j = first + 1; j < k->stages.n; j++)
        if (copies(&of[j], p) && !add_piece(p, &of[j])) return false;
    for (int d = 0; d < p->from->rank; d++)
        if (!dim_is(p->box.low[d], 0) || !is_same(p->box.extent[d], p->from->dims[d])) return false;
    return is_only_access(k, of, p);
}

// ---------------------------------------------------------------- readers
static void see_kernel(reading *r, kernel *k, const buffer *b) {
    arena *scratch = arena_new();
    int64_t lo[MAX_RANK], hi[MAX_RANK];
    contraction c;
    for (int j = 0; j < k->stages.n; j++) {
        if (!stage_reads(k->stages.at[j], b)) continue;
        expr_list reads = reads_only(stage_nodes(scratch, k->stages.at[j], PART_ALL));
        bool products = contraction_in_stage(k, k->stages.at[j], &c) || contraction_find(k, &c);
        for (int i = 0; i < reads.n; i++) {
            const expr *e = reads.at[i];
            if (e->buffer != b) continue;
            r->windows |= e->guard && halo_of_read(k, e, lo, hi);
            r->plain |= products && !e->guard;
        }
    }
    arena_destroy(scratch);
}

static reading readers_of(const join *j, const buffer *b) {
    reading *r = &j->read[b->id];
    const site_list *l = &j->uses->of[b->id].sites;
    for (int i = 0; i < l->n && !r->known; i++)
        if (l->at[i]->s->kind == STEP_KERNEL && site_reads(l->at[i], b))
            see_kernel(r, l->at[i]->s->kernel, b);
    r->known = true;
    return *r;
}

// Products flatten all positions of an image into tiles of rows; with a halo they tile each row separately,
// which wastes lanes on short rows.
static bool has_short_rows(const buffer *b) {
    enum { SHORT = 20 };
    const layout *l = b->layout;
    const dim *row = l && l->n > 1 ? b->dims[l->order[l->n - 2].axis] : NULL;
    return row && dim_is_const(row) && dim_value(row) < SHORT;
}

// A halo needed by the part or the whole is shared by the other.
static bool shares_halo(const join *j, const part *p) {
    if (!has_short_rows(p->to)) return true;
    reading part = readers_of(j, p->from), whole = readers_of(j, p->to);
    return !(part.windows && whole.plain && !whole.windows) &&
           !(whole.windows && part.plain && !part.windows);
}

// Products load vectors of this size from aligned addresses.
static bool stays_aligned(const part *p) {
    enum { FETCH_BITS = 128 };
    for (int d = 0; d < p->to->rank; d++) {
        if (dim_is(p->shift[d], 0) && is_same(p->from->dims[d], p->to->dims[d])) continue;
        const dim *both[] = {p->shift[d], p->to->dims[d]};
        for (int j = 0; j < 2; j++)
            if (!dim_is_const(both[j]) || dim_value(both[j]) * dtype_bits(p->to->dtype) % FETCH_BITS)
                return false;
    }
    return true;
}

static bool reads_as_well(const join *j, const part *p) {
    if (stays_aligned(p)) return true;
    reading r = readers_of(j, p->from);
    return !r.plain && !r.windows;
}

// ---------------------------------------------------------------- memory
// Without the scratch memory of schedules.
static double peak_of(const join *j) {
    arena *scratch = arena_new();
    const uses *u = j->uses;
    int end = u->n ? u->sites[u->n - 1].end : 0;
    double *change = ARENA_ARRAY(scratch, double, end + 2), live = 0, most = 0;
    for (int i = 0; i < j->p->buffers.n; i++) {
        const buffer *b = j->p->buffers.at[i];
        live_range r = j->live[i];
        if (!r.def || b->role != BUF_TEMP || b->view_of) continue;
        int last = r.last_use < end ? r.last_use : end;
        change[r.def] += j->bytes[i], change[last + 1] -= j->bytes[i];
    }
    for (int i = 0; i < j->p->kernels.n; i++) {
        const kernel *k = j->p->kernels.at[i];
        int time = u->of_kernel[k->id] ? u->of_kernel[k->id]->time : 0;
        change[time] += j->locals[k->id], change[time + 1] -= j->locals[k->id];
    }
    for (int i = 0; i <= end; i++) {
        live += change[i];
        most = live > most ? live : most;
    }
    arena_destroy(scratch);
    return most;
}

// The live range of the whole buffer includes the live range of the part.
static void merge_live_ranges(const join *j, const part *p) {
    live_range *from = &j->live[p->from->id], *to = &j->live[p->to->id];
    if (from->def < to->def) to->def = from->def;
    if (from->last_use > to->last_use) to->last_use = from->last_use;
    *from = (live_range){0, 0};
}

static bool fits_memory(const join *j, const part *p) {
    live_range *from = &j->live[p->from->id], *to = &j->live[p->to->id], was[] = {*from, *to};
    merge_live_ranges(j, p);
    bool fits = peak_of(j) <= j->limit;
    *from = was[0], *to = was[1];
    return fits;
}

// ---------------------------------------------------------------- joining
static expr **shifted(kernel *k, const part *p, expr *const *index) {
    expr **out = ARENA_ARRAY(k->arena, expr *, p->to->rank + 1);
    for (int d = 0; d < p->to->rank; d++) out[d] = x_add(k, index[d], x_dim(k, p->shift[d]));
    return out;
}

static expr *move_read(void *user, kernel *k, const expr *read) {
    const part *p = user;
    if (read->buffer != p->from) return NULL;
    return x_read_guarded(k, p->to, shifted(k, p, read->index), read->guard, read->fill);
}

static void move_part(kernel *k, const part *p) {
    part copy = *p;
    if (kernel_reads(k, p->from)) kernel_rewrite_reads(k, move_read, &copy);
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++) {
        write *w = all.at[j];
        if (w->to == p->from) w->index = shifted(k, p, w->index), w->to = p->to;
    }
}

static void drop_copies(kernel *k, part *of, const part *p) {
    int n = 0;
    for (int j = 0; j < k->stages.n; j++)
        if (!copies(&of[j], p)) of[n] = of[j], k->stages.at[n++] = k->stages.at[j];
    k->stages.n = n;
}

// Whether the stage reads the part's elements within the whole buffer.
static bool reads_place(const kernel *k, const stage *s, const part *p) {
    arena *scratch = arena_new();
    expr_list nodes = stage_nodes(scratch, s, PART_ALL);
    bool meets = false;
    for (int j = 0; j < nodes.n && !meets; j++) {
        const expr *e = nodes.at[j];
        meets = e->op == X_READ && e->buffer == p->to && !is_apart(k, p, e->index);
    }
    arena_destroy(scratch);
    return meets;
}

static bool all_in(const buffer_uses *of, const region *r) {
    for (int j = 0; j < of->sites.n; j++)
        if (of->sites.at[j]->region != r) return false;
    return true;
}

// Whether no other kernel accesses the part's elements of the whole buffer before this kernel fills them, nor
// overwrites them later if the part has other readers.
static bool is_free(const join *j, const site *at, const part *p, bool others) {
    const buffer_uses *to = &j->uses->of[p->to->id];
    bool defines = j->def[p->to->id] == at;
    if (defines && !others) return true;
    if (!all_in(to, at->region) || to->by_others) return false;
    if (to->viewed && (!defines || j->writers[p->to->id] > 1)) return false;
    for (int i = 0; i < to->sites.n; i++) {
        const kernel *x = to->sites.at[i]->s->kernel;
        bool before = to->sites.at[i]->time < at->time;
        for (int l = 0; l < x->stages.n && to->sites.at[i] != at; l++) {
            if (before && reads_place(x, x->stages.at[l], p)) return false;
            if ((before || others) && !writes_apart(x, x->stages.at[l], p)) return false;
        }
    }
    return true;
}

// Whether all users of the part can use the whole buffer instead: first its producers, then other readers,
// before or after this kernel.
static bool can_join(const join *j, const site *at, const part *p, bool alone) {
    const buffer_uses *from = &j->uses->of[p->from->id];
    int readers = 0;
    if (!all_in(from, at->region) || from->viewed || from->by_others || !j->live[p->from->id].def)
        return false;
    for (int i = 0; i < from->sites.n; i++) {
        const site *user = from->sites.at[i];
        bool writes = site_writes(user, p->from), reads = site_reads(user, p->from);
        if (user == at || (!writes && !reads)) continue;
        if (writes &&
            (reads || readers || user->time > at->time || !kernel_only_sets(user->s->kernel, p->from)))
            return false;
        if (reads && alone) return false;
        readers += reads;
    }
    if (readers && !reads_as_well(j, p)) return false;
    if (!is_free(j, at, p, readers > 0)) return false;
    return readers == 0 || (shares_halo(j, p) && fits_memory(j, p));
}

static void join_part(const join *j, const site *at, const part *p) {
    const site_list *from = &j->uses->of[p->from->id].sites;
    const kernel *k = at->s->kernel;
    for (int i = 0; i < from->n; i++) {
        kernel *x = from->at[i]->s->kernel;
        if (x == k) continue;
        for (int l = 0; l < k->nodes.n && kernel_writes(x, p->from); l++)
            VEC_PUSH(x->arena, &x->nodes, k->nodes.at[l]);
        move_part(x, p);
        uses_update(j->uses, from->at[i]);
    }
    merge_live_ranges(j, p);
    j->read[p->to->id] = (reading){0};
}

// Parts without other readers first, since they leave more memory for the rest.
static void join_kernel(const join *j, const site *at) {
    arena *scratch = arena_new();
    kernel *k = at->s->kernel;
    part p, *of = find_copies(scratch, k);
    for (int alone = 1; alone >= 0; alone--)
        for (int i = 0; i < k->stages.n; i++) {
            if (!find_part(k, of, i, &p) || !can_join(j, at, &p, alone)) continue;
            drop_copies(k, of, &p);
            join_part(j, at, &p);
            i--;
        }
    arena_destroy(scratch);
}

void elide_concats(program *p, const target *t) {
    arena *scratch = arena_new();
    join j = {.p = p, .uses = uses_build(scratch, p)};
    find_live_ranges(&j, scratch);
    find_sizes(&j, scratch);
    // A tenth more memory is acceptable for speed where memory is plentiful.
    j.limit = peak_of(&j) * (t->freestanding || t->size_level ? 1 : 1.1);
    for (int i = 0; i < j.uses->n; i++)
        if (j.uses->sites[i].s->kind == STEP_KERNEL) join_kernel(&j, &j.uses->sites[i]);
    program_compact(p);
    arena_destroy(scratch);
}
