// Expressions of a kernel as instructions. Values are cached by expression while the scope in which they were
// computed is open, so hoisted loop-invariant values are reused within the loop.
#include "passes/schedule/common/emit.h"
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "passes/schedule/common/requantise.h"
#include <string.h>

// ---------------------------------------------------------------- set-up
emitter *emitter_new(lmodule *m, kernel *k, const target *t, diag *d, kernel_code *code) {
    emitter *e = ARENA_NEW(m->arena, emitter);
    e->k = k; // only gets expressions for offsets; stages are unchanged
    e->t = t;
    e->choices = choices_of(t, k);
    e->module = m;
    e->scratch = m->arena;
    e->requantisers = ARENA_NEW(m->arena, struct requantisers);
    e->requantisers->list.arena = m->arena;
    e->code = code;
    e->b = lbuild_new(code->f, t, d);
    e->pointer = ARENA_ARRAY(m->arena, ins *, k->program->buffers.n + 1);
    e->local = ARENA_ARRAY(m->arena, ins *, k->locals.n + 1);
    e->dim_params.arena = e->dim_scales.arena = m->arena;
    e->extent = ARENA_ARRAY(m->arena, dim *, k->axes.n + 1);
    e->counter = ARENA_ARRAY(m->arena, ins *, k->axes.n + 1);
    for (int a = 0; a < k->axes.n; a++) e->extent[a] = k->axes.at[a].extent;
    e->vaxis = -1, e->lanes = 1, e->task_axis = e->task_outer = -1;
    return e;
}

struct emit_entry *entry_of(emitter *e, const expr *x) {
    if (x->id >= e->nentries) {
        int n = 2 * x->id + 64;
        e->entries = arena_grow(e->scratch, e->entries, (size_t)e->nentries * sizeof *e->entries,
                                (size_t)n * sizeof *e->entries);
        e->nentries = n;
    }
    return &e->entries[x->id];
}

static lkind index_kind(const emitter *e) { return lindex_kind(e->t); }

static void buffer_params(emitter *e) {
    kernel_code *c = e->code;
    c->nbuffers = kernel_buffers(e->k, &c->buffers);
    for (int j = 0; j < c->nbuffers; j++) {
        buffer *b = c->buffers[j];
        e->pointer[b->id] =
            lfunc_param(c->f, b->name, lt_ptr(), lkind_of(b->dtype), b->dtype, !kernel_writes(e->k, b));
        c->f->params.at[c->f->params.n - 1].constant = b->role == BUF_CONST;
    }
}

static dim *padded(dim *bytes) { return dim_mulk(dim_ceildiv(bytes, dim_const(bytes->table, 64)), 64); }

// How many rows' elements a local holds.
static int rows_in(const emitter *e, const buffer *local) {
    return local->rank && e->row_lanes ? e->row_lanes : 1;
}

// Locals of rank 0 are variables; small ones of constant size are on the stack, others in scratch memory.
static ins *make_locals(emitter *e, dim *own) {
    enum { MOST_STACK = 16384, MOST_STACK_FREESTANDING = 1024 };
    int64_t most = e->t->freestanding ? MOST_STACK_FREESTANDING : MOST_STACK;
    dim *bytes = own ? padded(own) : dim_const(e->k->program->dims, 0), *offset[256];
    bool in_scratch[256] = {0};
    const kernel *k = e->k;
    if (k->locals.n > 256) diag_defect(e->b.diag, k->loc, "kernel %s has %d locals", k->name, k->locals.n);
    for (int j = 0; j < k->locals.n; j++) {
        dim *n = dim_mulk(buffer_bytes(k->locals.at[j]), rows_in(e, k->locals.at[j]));
        bool small = (dim_is_const(n) && dim_value(n) <= most) || dim_is(padded(n), 0);
        in_scratch[j] = k->locals.at[j]->rank > 0 && !small;
        offset[j] = bytes;
        if (in_scratch[j]) bytes = dim_add(bytes, padded(n));
    }
    ins *scratch = NULL;
    if (!dim_is(bytes, 0)) {
        e->code->scratch = bytes;
        scratch = lfunc_param(e->code->f, "scratch", lt_ptr(), LK_VOID, DT_NONE, false);
    }
    for (int j = 0; j < k->locals.n; j++) {
        const buffer *b = k->locals.at[j];
        if (in_scratch[j]) e->local[j] = lb_offset(&e->b, scratch, emit_dim(e, offset[j]), 1);
        else if (b->rank == 0)
            e->local[j] = lb_var(&e->b, b->name, lb_int(&e->b, lt(compute_kind(b->dtype), 1), 0));
        else
            e->local[j] = lb_local(&e->b, lkind_of(b->dtype),
                                   dim_upper(buffer_physical_count(b)) * rows_in(e, b), 64, false);
    }
    return scratch;
}

void emitter_status(emitter *e) {
    if (e->code->has_status)
        e->status = lb_var(&e->b, "failed", lb_int(&e->b, lt(status_kind(e->k, e->t), 1), 0));
}

lkind status_kind(const kernel *k, const target *t) {
    bool reports = t->hosted && !t->arch.is_text && !t->arch.is_gpu;
    return reports && k->messages.n < 256 ? LK_I64 : LK_I32;
}

static void status_param(emitter *e) {
    if (!e->k->messages.n) return;
    e->code->has_status = true;
    lkind kind = status_kind(e->k, e->t);
    e->status_param =
        lfunc_param(e->code->f, "status", lt_ptr(), kind, kind == LK_I64 ? DT_I64 : DT_I32, false);
    emitter_status(e);
}

ins *emitter_signature(emitter *e, bool tasks, dim *own_scratch) {
    buffer_params(e);
    emitter_dims(e);
    ins *scratch = make_locals(e, own_scratch);
    if (tasks) {
        e->code->tasks = dim_const(e->k->program->dims, 1);
        e->task_begin = lfunc_param(e->code->f, "begin", lt(index_kind(e), 1), LK_VOID, DT_I64, true);
        e->task_end = lfunc_param(e->code->f, "end", lt(index_kind(e), 1), LK_VOID, DT_I64, true);
    }
    status_param(e);
    return scratch;
}

static bool fits_shared(const buffer *b, int64_t left) {
    dim *n = buffer_bytes(b);
    return dim_is_const(n) && dim_value(n) <= left;
}

enum { GPU_SHARED = 32768 };

void emitter_signature_gpu(emitter *e, bool locals) {
    buffer_params(e);
    emitter_dims(e);
    dim *piece = dim_const(e->k->program->dims, 0), *blocks = dim_const(e->k->program->dims, 1);
    int64_t left = GPU_SHARED;
    for (int j = 0; j < e->k->locals.n && locals; j++) {
        dim *n = buffer_bytes(e->k->locals.at[j]);
        if (fits_shared(e->k->locals.at[j], left)) left -= dim_value(n);
        else piece = dim_add(piece, padded(n));
    }
    for (int a = 0; a < e->k->nouter; a++) blocks = dim_mul(blocks, e->k->axes.at[a].extent);
    if (!dim_is(piece, 0)) {
        e->scratch_piece = piece;
        e->code->scratch = dim_mul(piece, blocks);
        e->scratch_param = lfunc_param(e->code->f, "scratch", lt_ptr(), LK_VOID, DT_NONE, false);
    }
    status_param(e);
}

void emitter_block_locals(emitter *e, ins *block) {
    lbuild *b = &e->b;
    int64_t left = GPU_SHARED;
    ins *at = e->scratch_piece ? lb_mul(b, block, emit_dim(e, e->scratch_piece)) : NULL;
    e->shared_locals = true;
    for (int j = 0; j < e->k->locals.n; j++) {
        const buffer *l = e->k->locals.at[j];
        dim *n = buffer_bytes(l);
        if (fits_shared(l, left)) {
            left -= dim_value(n);
            e->local[j] = lb_local(b, lkind_of(l->dtype), dim_value(buffer_physical_count(l)), 16, true);
            continue;
        }
        e->local[j] = lb_offset(b, e->scratch_param, at, 1);
        at = lb_add(b, at, emit_dim(e, padded(n)));
    }
}

// A kernel whose checks are in another function has none to store.
void emitter_store_status(emitter *e) {
    if (!e->status || !e->status->uses) return;
    ins *failed = lb_get(&e->b, e->status), *zero = lb_int(&e->b, failed->type, 0);
    ins *bad = lb_if(&e->b, lb_cmp(&e->b, L_NE, failed, zero));
    lb_store(&e->b, e->status_param, lb_idx(&e->b, 0), failed, failed->type.kind == LK_I64 ? 8 : 4);
    lb_end(&e->b, bad);
}

void emitter_finish(emitter *e) {
    emitter_store_status(e);
    emitter_drop_dims(e);
}

// ---------------------------------------------------------------- scopes
scope scope_open(emitter *e) { return (scope){.axis = -1, .mark = e->log.n}; }
scope scope_if(emitter *e, ins *condition) {
    return (scope){condition ? lb_if(&e->b, condition) : NULL, -1, e->log.n};
}
scope scope_for(emitter *e, const char *name, ins *begin, ins *end, int64_t step, loop_role role) {
    return (scope){lb_for(&e->b, name, begin, end, lb_idx(&e->b, step), role), -1, e->log.n};
}
scope scope_axis(emitter *e, int axis, ins *begin, ins *end, int64_t step, loop_role role) {
    scope s = scope_for(e, e->k->axes.at[axis].name, begin, end, step, role);
    s.axis = axis;
    e->counter[axis] = s.head;
    return s;
}

scope scope_parallel(emitter *e, int axis) {
    ins *begin, *end;
    axis_range(e, axis, &begin, &end);
    return scope_axis(e, axis, begin, end, 1, LOOP_PARALLEL);
}

static ins **slot(emitter *e, int id, int which) {
    struct emit_entry *s = &e->entries[id];
    return which == 0 ? &s->value : which == 1 ? &s->index : which == 2 ? &s->vindex : &s->narrow;
}
static void drop_values(emitter *e, int mark) {
    while (e->log.n > mark) {
        struct emit_log l = e->log.at[--e->log.n];
        *slot(e, l.id, l.which) = NULL;
    }
}
scope scope_else(emitter *e, scope s) {
    drop_values(e, s.mark);
    lb_else(&e->b, s.head);
    return s;
}
void scope_close(emitter *e, scope s) {
    drop_values(e, s.mark);
    if (s.axis >= 0) e->counter[s.axis] = NULL;
    if (s.head) lb_end(&e->b, s.head);
}
ins *emit_cache(emitter *e, const expr *x, int which, ins *v) {
    entry_of(e, x);
    *slot(e, x->id, which) = v;
    VEC_PUSH(e->scratch, &e->log, (struct emit_log){x->id, which});
    return v;
}

void use_value(emitter *e, const expr *x, ins *v) { emit_cache(e, x, 0, v); }

scope open_partial_vector(emitter *e, int axis, ins *begin, ins *end) {
    lbuild *b = &e->b;
    ins *left = lb_sub(b, end, begin);
    scope s = scope_if(e, lb_cmp(b, L_SLT, lb_idx(b, 0), left));
    s.axis = axis;
    e->counter[axis] = begin;
    e->active = left;
    return s;
}
void close_partial_vector(emitter *e, scope s) {
    e->active = NULL;
    scope_close(e, s);
}

// ---------------------------------------------------------------- stages
static access *access_of(emitter *e, const expr *read) {
    access *a = entry_of(e, read)->read;
    if (a) return a;
    a = access_make(e, read->buffer, read->index); // may move the entries
    return entry_of(e, read)->read = a;
}

void emitter_stage(emitter *e, const stage *s, int vaxis, int lanes, bool state_varies) {
    e->stage = s;
    expr_list reads = reads_only(stage_nodes(e->scratch, s, PART_ALL));
    for (int j = 0; j < reads.n; j++) access_of(e, reads.at[j]);
    e->vaxis = vaxis, e->lanes = lanes, e->state_varies = state_varies;
    for (int j = 0; j < e->nentries; j++) e->entries[j].varies = 0;
}

emitter emitter_apart(const emitter *e) {
    emitter own = *e;
    int axes = e->k->axes.n;
    own.extent = ARENA_ARRAY(e->scratch, dim *, axes + 1);
    own.counter = ARENA_ARRAY(e->scratch, ins *, axes + 1);
    own.entries = ARENA_ARRAY(e->scratch, struct emit_entry, e->nentries + 1);
    memcpy(own.extent, e->extent, (size_t)axes * sizeof *own.extent);
    memset(&own.log, 0, sizeof own.log);
    return own;
}

expr *guard_of(emitter *e, const expr *x) {
    expr *own = entry_of(e, x)->guard, *guard = own ? own : x->guard;
    return guard && expr_is_int(guard, 1) ? NULL : guard;
}

bool emit_varies(emitter *e, const expr *x) {
    if (e->lanes == 1) return false;
    int known = entry_of(e, x)->varies;
    if (known) return known == 2;
    bool v = false;
    if (x->op == X_AXIS) v = x->axis == e->vaxis;
    if (x->op == X_STATE || x->op == X_OTHER) v = e->state_varies;
    for (int j = 0; j < expr_arity(x->op); j++) v |= emit_varies(e, x->arg[j]);
    if (x->op == X_READ) {
        v |= emit_varies(e, access_of(e, x)->offset);
        v |= e->variables_vary && emit_is_variable(e, x->buffer);
        expr *guard = guard_of(e, x);
        if (guard) v |= emit_varies(e, guard) || emit_varies(e, x->fill);
    }
    entry_of(e, x)->varies = v ? 2 : 1;
    return v;
}

// ---------------------------------------------------------------- indices
static bool is_index_op(const expr *x) {
    return x->dtype == DT_I64 && (x->op == X_ADD || x->op == X_SUB || x->op == X_MUL || x->op == X_FLOORDIV ||
                                  x->op == X_MOD || x->op == X_MIN || x->op == X_MAX);
}

static ins *index_operation(emitter *e, const expr *x, ins *a, ins *c) {
    static const lop direct[X_COUNT] = {
        [X_ADD] = L_ADD, [X_SUB] = L_SUB, [X_MUL] = L_MUL, [X_MIN] = L_SMIN, [X_MAX] = L_SMAX};
    return direct[x->op] ? lb_bin(&e->b, direct[x->op], a, c) : emit_int_op(&e->b, x->op, a, c);
}

static ins *to_index(emitter *e, ins *v) {
    lkind k = index_kind(e);
    if (v->type.kind == k) return v;
    return lb_conv(&e->b, v->type.kind > k ? L_ITRUNC : L_SEXT, k, v);
}

// vector: one index per lane, else the index of lane 0.
static ins *index_of(emitter *e, expr *x, bool vector) {
    lbuild *b = &e->b;
    vector = vector && emit_varies(e, x);
    struct emit_entry *s = entry_of(e, x);
    ins *known = vector ? s->vindex : s->index, *v;
    if (known) return known;
    if (x->op == X_CONST) return lb_idx(b, x->i);
    if (x->op == X_DIM) {
        v = emit_dim(e, x->dim);
    } else if (x->op == X_AXIS) {
        ins *base = e->counter[x->axis];
        if (!base && dim_is(e->k->axes.at[x->axis].extent, 1))
            return lb_idx(b, 0); // schedules need no loop over it
        if (!base)
            diag_defect(b->diag, e->k->loc, "kernel %s: axis '%s' is used outside its loop", e->k->name,
                        e->k->axes.at[x->axis].name);
        if (!vector) return base;
        v = lb_add(b, lb_splat(b, base, e->lanes), lb_iota(b, lt(index_kind(e), e->lanes)));
    } else if (is_index_op(x)) {
        ins *a = index_of(e, x->arg[0], vector), *c = index_of(e, x->arg[1], vector);
        v = index_operation(e, x, a, c);
    } else {
        int lanes = e->lanes;
        // Lane 0 alone cannot be taken from a varying value.
        if (!vector && emit_varies(e, x))
            diag_defect(b->diag, e->k->loc, "kernel %s: an index varies, but its access does not",
                        e->k->name);
        v = to_index(e, emit_value(e, x));
        if (vector && v->type.lanes == 1) v = lb_splat(b, v, lanes);
    }
    return emit_cache(e, x, vector ? 2 : 1, v);
}

ins *emit_index(emitter *e, expr *x) { return index_of(e, x, false); }
ins *emit_indices(emitter *e, expr *x) { return splat_to(e, index_of(e, x, true), true); }

// ---------------------------------------------------------------- reads
ins *splat_to(emitter *e, ins *v, bool vector) {
    return vector && v->type.lanes == 1 ? lb_splat(&e->b, v, e->lanes) : v;
}

// Vectors of packed (sub-byte) elements must start at the first element of a byte.
static bool begins_bytes(const emitter *e, const access *a) {
    int64_t per_byte = 8 / dtype_bits(a->buffer->dtype);
    if (per_byte <= 1) return true;
    if (!a->affine) return false;
    for (int j = 0; j < e->k->axes.n; j++)
        if (j != e->vaxis && !expr_is_multiple(a->coef[j], per_byte)) return false;
    return expr_is_multiple(a->base, per_byte) && e->lanes % per_byte == 0;
}

static bool unit_stride(const emitter *e, const access *a) {
    const expr *c = e->vaxis >= 0 ? a->coef[e->vaxis] : NULL;
    return c && c->op == X_CONST && c->i == 1 && begins_bytes(e, a);
}

ins *pointer_of(emitter *e, const buffer *b) {
    return b->role == BUF_LOCAL ? e->local[b->id] : e->pointer[b->id];
}

// Inactive lanes read element 0: their own index may be out of bounds.
ins *emit_active_indices(emitter *e, ins *at) {
    if (!e->active) return at;
    ins *n = e->active;
    if (n->type.kind != at->type.kind) n = lb_conv(&e->b, L_ITRUNC, at->type.kind, n);
    ins *on = lb_cmp(&e->b, L_SLT, lb_iota(&e->b, at->type), lb_splat(&e->b, n, at->type.lanes));
    return lb_select(&e->b, on, at, lb_int(&e->b, at->type, 0));
}

bool emit_is_variable(const emitter *e, const buffer *b) {
    return b->role == BUF_LOCAL && b->rank == 0 && !e->shared_locals;
}

bool emit_has_gap(const emitter *e, const access *a, int span) {
    const layout *l = a->buffer->role == BUF_LOCAL && !e->row_lanes ? a->buffer->layout : NULL;
    return l && l->gap >= span && l->n == a->buffer->rank && l->gap_entry == l->n - 2 &&
           l->order[l->n - 1].axis == a->buffer->rank - 1;
}

// Whether each vector starts with the first read of an element and ends with the last read of one, or lies
// within the reads of one.
enum { MOST_REPEATED = 256 };
static bool repeats_in_lanes(const emitter *e, const access *a) {
    int64_t c = a->repeats && e->whole_steps && e->vaxis >= 0 ? a->repeats[e->vaxis] : 0;
    if (!c || dtype_bits(a->buffer->dtype) < 8 || a->buffer->dtype == DT_C128) return false;
    return e->lanes <= MOST_REPEATED && (e->lanes % c == 0 || c % e->lanes == 0);
}

ins *load_lanes(lbuild *b, dtype t, ins *p, ins *at, int lanes, ins *n) {
    return n ? load_element_n(b, t, p, at, lanes, n) : load_element(b, t, p, at, lanes);
}

// Adjacent elements, each broadcast to several lanes.
static ins *load_repeated(emitter *e, access *a) {
    lbuild *b = &e->b;
    int64_t c = a->repeats[e->vaxis];
    int n = e->lanes / c > 1 ? (int)(e->lanes / c) : 1, mask[MOST_REPEATED];
    ins *p = pointer_of(e, a->buffer), *at = emit_index(e, a->offset);
    if (n == 1) return lb_splat(b, load_element(b, a->buffer->dtype, p, at, 1), e->lanes);
    ins *few = e->active ? emit_int_op(b, X_FLOORDIV, idx_addk(b, e->active, c - 1), lb_idx(b, c)) : NULL;
    ins *loaded = load_lanes(b, a->buffer->dtype, p, at, n, few);
    for (int j = 0; j < e->lanes; j++) mask[j] = (int)(j / c);
    return lb_shuffle(b, loaded, loaded, mask, e->lanes);
}

static ins *load_gathered(emitter *e, access *a) {
    ins *narrow = emit_narrow_gather(e, a);
    if (narrow) return narrow;
    ins *at = emit_active_indices(e, index_of(e, a->offset, true));
    return load_element_gather(&e->b, a->buffer->dtype, pointer_of(e, a->buffer), at);
}
static ins *load_neighbours(emitter *e, access *a) {
    ins *p = pointer_of(e, a->buffer), *at = emit_index(e, a->offset);
    return load_lanes(&e->b, a->buffer->dtype, p, at, e->lanes,
                      emit_has_gap(e, a, e->lanes) ? NULL : e->active);
}

static bool may_be_run(const emitter *e, const access *a) {
    return a->runs && e->whole_steps && e->vaxis >= 0 && a->runs[e->vaxis] &&
           dtype_bits(a->buffer->dtype) >= 8;
}

// Offsets that grow by at most one per lane are contiguous if the last one says so; otherwise a gather.
static ins *load_run(emitter *e, access *a) {
    lbuild *b = &e->b;
    int axis = e->vaxis;
    ins *first = emit_index(e, a->offset), *begin = e->counter[axis],
        *more = e->active ? idx_subk(b, e->active, 1) : lb_idx(b, e->lanes - 1);
    ins *one = load_element(b, a->buffer->dtype, pointer_of(e, a->buffer), first, 1);
    ins *result = lb_var(b, a->buffer->name, lb_splat(b, one, e->lanes));
    saved_values known = values_save(e, a->offset, axis);
    e->counter[axis] = lb_add(b, begin, more);
    scope mark = scope_open(e);
    ins *last = emit_index(e, a->offset);
    scope_close(e, mark);
    e->counter[axis] = begin;
    values_restore(&known);
    ins *run = lb_if(b, lb_cmp(b, L_EQ, lb_sub(b, last, first), more));
    lb_set(b, result, load_neighbours(e, a));
    lb_else(b, run);
    mark = scope_open(e);
    lb_set(b, result, load_gathered(e, a));
    scope_close(e, mark);
    lb_end(b, run);
    return lb_get(b, result);
}

ins *load_access(emitter *e, access *a, bool vector) {
    lbuild *b = &e->b;
    const buffer *buf = a->buffer;
    ins *p = pointer_of(e, buf);
    if (emit_is_variable(e, buf)) return lb_get(b, p);
    if (!vector) {
        ins *at = emit_index(e, a->offset);
        if (buf->dtype != DT_C128) return load_element(b, buf->dtype, p, at, 1);
        return lb_load(b, lt(LK_I64, 1), p, idx_addk(b, idx_mulk(b, at, 2), e->half), 8);
    }
    if (repeats_in_lanes(e, a)) return load_repeated(e, a);
    if (may_be_run(e, a)) return load_run(e, a);
    if (unit_stride(e, a)) return load_neighbours(e, a);
    ins *strided = e->t->dot_across ? NULL : emit_strided(e, a); // there, one instruction gathers
    return strided ? strided : load_gathered(e, a);
}

static ins *emit_read(emitter *e, expr *x) {
    access *a = access_of(e, x);
    bool vector = emit_varies(e, x);
    return guard_of(e, x) ? load_guarded(e, x, a, vector) : load_access(e, a, vector);
}

// ---------------------------------------------------------------- values
// The index of a lane that fails.
static ins *failing_index(emitter *e, ins *ok, ins *index) {
    lbuild *b = &e->b;
    if (index->type.kind != LK_I64) index = lb_conv(b, L_SEXT, LK_I64, index);
    if (ok->type.lanes == 1 || index->type.lanes == 1) return index;
    ins *least = lb_splat(b, lb_int(b, lt(LK_I64, 1), INT64_MIN), ok->type.lanes);
    return lb_hreduce(b, L_HSMAX, lb_select(b, ok, least, index));
}

// The status has 56 bits of the index: indices beyond that become the largest or least of these.
static void report_index(emitter *e, const expr *x, ins *ok, ins *lanes, ins *index) {
    lbuild *b = &e->b;
    ltype t = lt(LK_I64, 1);
    ins *failed = lb_if(b, lb_cmp(b, L_EQ, ok, lb_int(b, ok->type, 0)));
    ins *most = lb_int(b, t, INT64_MAX >> 8), *least = lb_int(b, t, INT64_MIN / 256);
    index = lb_bin(b, L_SMAX, lb_bin(b, L_SMIN, failing_index(e, lanes, index), most), least);
    ins *shifted = lb_bin(b, L_SHL, index, lb_int(b, t, 8));
    lb_set(b, e->status, lb_bin(b, L_OR, shifted, lb_int(b, t, x->axis + 1)));
    lb_end(b, failed);
}

static ins *emit_check(emitter *e, expr *x) {
    lbuild *b = &e->b;
    const expr *index, *size;
    bool reports = status_kind(e->k, e->t) == LK_I64 && check_operands(x, &index, &size);
    ins *v = emit_value(e, x->arg[0]), *ok = emit_value(e, x->arg[1]);
    ins *i = reports ? emit_value(e, (expr *)(uintptr_t)index) : NULL;
    if (ok->type.lanes > 1 && e->active) {
        ins *lane = lb_iota(b, lt(index_kind(e), e->lanes));
        ok = lb_bin(b, L_OR, ok, lb_cmp(b, L_SLE, lb_splat(b, e->active, e->lanes), lane));
    }
    ins *lanes = ok;
    if (ok->type.lanes > 1) ok = lb_hreduce(b, L_HAND, ok);
    if (i) report_index(e, x, ok, lanes, i);
    else {
        ins *before = lb_get(b, e->status);
        lb_set(b, e->status, lb_select(b, ok, before, lb_int(b, before->type, x->axis + 1)));
    }
    return v;
}

static ins *code_of_constant(emitter *e, ins *v) {
    dtype t = e->b.codes;
    e->b.codes = DT_NONE;
    ins *code = element_code(&e->b, t, v);
    e->b.codes = t;
    return code->type.kind == LK_F16 ? lb_bitcast(&e->b, lt(LK_I16, 1), code) : code;
}

static ins *emit_constant(emitter *e, const expr *x) {
    bool bits = dtype_class_of(x->dtype) == DC_COMPLEX;
    ltype t = lt(bits ? LK_I64 : compute_kind(x->dtype), 1);
    if (!dtype_is_float(x->dtype)) return lb_int(&e->b, t, x->i);
    ins *v = lb_float(&e->b, t, x->f);
    return dtype_is_float(e->b.codes) ? code_of_constant(e, v) : v; // beside truths, floats are positions
}

static ins *index_to_value(emitter *e, expr *x) {
    ins *v = index_of(e, x, true);
    return index_kind(e) == LK_I64 ? v : lb_conv(&e->b, L_SEXT, LK_I64, v);
}

// The product of x = a * b + c or c + a * b if that may be contracted to a fused multiply-add; NULL: another
// form, or both operands are products (which of them is rounded would be arbitrary). Differences stay as they
// are: in E(x*x) - E(x)*E(x) an unrounded product would leave the rounding error of the other where 0 is
// right.
static const expr *contracted(emitter *e, const expr *x) {
    if (x->op != X_ADD || (x->dtype != DT_F32 && x->dtype != DT_F64) || e->t->fp == FP_STRICT) return NULL;
    const expr *a = x->arg[0], *b = x->arg[1];
    if ((a->op == X_MUL) == (b->op == X_MUL)) return NULL;
    const expr *product = a->op == X_MUL ? a : b;
    return entry_of(e, product)->value ? NULL : product;
}

static ins *emit_contracted(emitter *e, const expr *x, const expr *product) {
    ins *a = emit_value(e, product->arg[0]), *b = emit_value(e, product->arg[1]),
        *c = emit_value(e, x->arg[x->arg[0] == product ? 1 : 0]);
    bool vector = a->type.lanes > 1 || b->type.lanes > 1 || c->type.lanes > 1;
    return lb_muladd(&e->b, splat_to(e, a, vector), splat_to(e, b, vector), splat_to(e, c, vector));
}

static bool is_sum_of_state(const expr *x) {
    return x->op == X_STATE || (x->op == X_ADD && (x->arg[0]->op == X_STATE || x->arg[1]->op == X_STATE));
}

// What is read is added to the sum, with its bias, in this order: a residual connection is on either side of an Add, and its
// kernels are equal then.
static bool begins_with_second(const emitter *e, const expr *x) {
    bool adds = x->op == X_ADD && dtype_is_float(x->dtype) && e->t->fp != FP_STRICT;
    return adds && x->arg[0]->op == X_READ && is_sum_of_state(x->arg[1]);
}

ins *emit_value(emitter *e, expr *x) {
    if (x->op == X_CONST) return emit_constant(e, x);
    if (x->op == X_STATE) return e->state[x->axis];
    if (x->op == X_OTHER) return e->other[x->axis];
    if (x->op == X_AXIS || x->op == X_DIM) return index_to_value(e, x);
    ins *known = entry_of(e, x)->value;
    if (known) return known;
    if (x->op == X_READ) return emit_cache(e, x, 0, emit_read(e, x));
    if (x->op == X_CHECK) return emit_cache(e, x, 0, emit_check(e, x));
    ins *quantised = x->op == X_CAST && (e->lanes == 1 || emit_varies(e, x)) ? emit_requantised(e, x) : NULL;
    if (quantised) return emit_cache(e, x, 0, quantised);
    ins *small = x->op == X_CAST ? emit_small_as_float(e, x) : NULL;
    if (small) return emit_cache(e, x, 0, small);
    ins *selected = x->op == X_SELECT ? emit_selected(e, x) : NULL;
    if (selected) return emit_cache(e, x, 0, selected);
    ins *compared = emit_position_compare(e, x);
    if (compared) return emit_cache(e, x, 0, compared);
    // Where indices have 32 bits, integers of 64 take several instructions, or functions.
    if (is_index_op(x) && index_kind(e) == LK_I32 && expr_is_short(e->k, x))
        return emit_cache(e, x, 0, index_to_value(e, x));
    const expr *product = contracted(e, x);
    if (product) return emit_cache(e, x, 0, emit_contracted(e, x, product));
    ins *arg[3] = {0};
    bool vector = false, swaps = begins_with_second(e, x);
    for (int j = 0; j < expr_arity(x->op); j++) {
        arg[j] = emit_value(e, x->arg[swaps ? 1 - j : j]);
        vector |= arg[j]->type.lanes > 1;
    }
    // A scalar condition of a select between vectors stays a scalar.
    for (int j = 0; vector && j < expr_arity(x->op); j++)
        if (!(x->op == X_SELECT && j == 0)) arg[j] = splat_to(e, arg[j], true);
    return emit_cache(e, x, 0, expr_apply(&e->b, x, arg));
}

ins *emit_vector(emitter *e, expr *x) { return splat_to(e, emit_value(e, x), e->lanes > 1); }

// ---------------------------------------------------------------- writes
static ins *combined(emitter *e, const write *w, ins *old, ins *v) {
    static const expr_op op[] = {
        [COMBINE_ADD] = X_ADD, [COMBINE_MUL] = X_MUL, [COMBINE_MIN] = X_MIN, [COMBINE_MAX] = X_MAX};
    return emit_operation(&e->b, op[w->combine], w->value->dtype, old, v);
}

static void store_scalar(emitter *e, const write *w, ins *p, ins *at, ins *v) {
    lbuild *b = &e->b;
    dtype t = w->to->dtype;
    if (v->type.lanes > 1)
        diag_defect(b->diag, e->k->loc, "kernel %s: lanes of '%s' are not contiguous", e->k->name,
                    w->to->name);
    if (t == DT_C128) {
        lb_store(b, p, idx_addk(b, idx_mulk(b, at, 2), e->half), v, 8);
        return;
    }
    if (w->combine != COMBINE_SET) v = combined(e, w, load_element(b, t, p, at, 1), v);
    store_element(b, t, p, at, v, 1);
}

ins *emit_stored(emitter *e, const buffer *to, ins *v) {
    return buffer_root(to)->tf32 ? lb_bitcast(&e->b, v->type, tf32_bits(&e->b, v)) : v;
}

// Whether each lane writes its own element, with other elements in between; v may be the same in all lanes.
static bool is_scattered(const emitter *e, const write *w, const access *to, const ins *v) {
    if (e->lanes == 1 || e->active || !to->affine || unit_stride(e, to) || w->combine != COMBINE_SET)
        return false;
    const expr *step = e->vaxis >= 0 ? to->coef[e->vaxis] : NULL;
    return v->type.lanes > 1 || (step && !expr_is_int(step, 0));
}

void emit_write(emitter *e, const write *w, access *to, ins *v) {
    lbuild *b = &e->b;
    if (!v && !w->guard) v = emit_value(e, w->value);
    ins *p = pointer_of(e, w->to);
    scope guarded = scope_if(e, w->guard ? emit_value(e, w->guard) : NULL);
    if (!v) v = emit_value(e, w->value);
    v = emit_stored(e, w->to, v);
    if (emit_is_variable(e, w->to)) {
        lb_set(b, p, splat_to(e, v, e->variables_vary));
    } else if (is_scattered(e, w, to, v)) {
        store_element_scatter(b, w->to->dtype, p, index_of(e, to->offset, true), splat_to(e, v, true));
    } else if (e->lanes == 1 || !unit_stride(e, to)) {
        store_scalar(e, w, p, emit_index(e, to->offset), v);
    } else {
        ins *at = emit_index(e, to->offset);
        v = splat_to(e, v, true);
        if (w->combine != COMBINE_SET)
            v = combined(e, w, load_lanes(b, w->to->dtype, p, at, e->lanes, e->active), v);
        if (e->active && !emit_has_gap(e, to, e->lanes))
            store_element_n(b, w->to->dtype, p, at, v, e->lanes, e->active);
        else store_element(b, w->to->dtype, p, at, v, e->lanes);
    }
    if (w->guard) scope_close(e, guarded); // other values stay valid
}

// ---------------------------------------------------------------- hoisting (loop-invariant code motion)
static bool stage_writes(const stage *s, const buffer *b) {
    for (int j = 0; j < s->writes.n; j++)
        if (s->writes.at[j].to == b) return true;
    return false;
}

// Whether the elements of the buffer exist already: earlier stages or kernels wrote them.
static bool is_made(const emitter *e, const buffer *b) {
    return b->role == BUF_LOCAL ? !stage_writes(e->stage, b) : !kernel_writes(e->k, b);
}

// A read may be hoisted out of a loop if it is in bounds even where the loop does not run at all: every index
// is the counter of an open loop over that very dim, or a number below its least size.
static bool is_safe_read(emitter *e, const expr *x) {
    if (x->guard || !is_made(e, x->buffer)) return false;
    if (x->buffer->dtype == DT_C128) return false; // read once per half
    for (int j = 0; j < x->buffer->rank; j++) {
        const expr *i = x->index[j];
        bool counter =
            i->op == X_AXIS && e->counter[i->axis] && e->k->axes.at[i->axis].extent == x->buffer->dims[j];
        bool inside = i->op == X_CONST && i->i >= 0 && i->i < x->buffer->dims[j]->min;
        if (!counter && !inside) return false;
    }
    return true;
}

// Among scalars that are not indices, only the largest expressions are hoisted, so that multiply-adds within
// them stay one instruction.
static void hoist_scalar(emitter *e, expr *x, bool hoistable) {
    if (hoistable && x->dtype != DT_I64 && expr_arity(x->op) && !emit_varies(e, x)) emit_value(e, x);
}

static bool hoist_node(emitter *e, expr *x) {
    struct emit_entry *s = entry_of(e, x);
    if (s->seen == e->visit) return s->hoistable;
    bool hoistable = x->op != X_STATE && x->op != X_OTHER && x->op != X_CHECK, own[3];
    if (x->op == X_AXIS) hoistable = e->counter[x->axis] != NULL;
    for (int j = 0; j < expr_arity(x->op); j++) hoistable &= own[j] = hoist_node(e, x->arg[j]);
    for (int j = 0; j < expr_arity(x->op); j++)
        if (!hoistable || emit_varies(e, x)) hoist_scalar(e, x->arg[j], own[j]);
    if (x->op == X_READ) {
        if (entry_of(e, x)->read) hoist_node(e, entry_of(e, x)->read->offset);
        expr *guard = guard_of(e, x);
        if (guard) hoist_scalar(e, guard, hoist_node(e, guard)), hoist_node(e, x->fill);
        hoistable = is_safe_read(e, x);
        if (hoistable && !emit_varies(e, x)) emit_value(e, x);
    } else if (hoistable && x->dtype == DT_I64 && expr_arity(x->op) && !emit_varies(e, x)) {
        emit_index(e, x);
    }
    s = entry_of(e, x);
    s->seen = e->visit;
    s->hoistable = hoistable;
    return hoistable;
}

void emit_hoist(emitter *e, expr *x) {
    e->visit++;
    hoist_node(e, x);
}

bool emit_is_invariant(emitter *e, expr *x) {
    e->visit++;
    return hoist_node(e, x) && !emit_varies(e, x);
}

void emit_hoist_stage(emitter *e, const stage *s, access *const *writes) {
    e->visit++;
    for (int j = 0; j < s->states.n; j++)
        hoist_node(e, s->states.at[j].init), hoist_node(e, s->states.at[j].step);
    for (int j = 0; j < s->writes.n; j++) {
        hoist_node(e, s->writes.at[j].value);
        hoist_node(e, writes[j]->offset);
        if (s->writes.at[j].guard) hoist_node(e, s->writes.at[j].guard);
    }
}

// ---------------------------------------------------------------- reductions
ins *emit_reduce(emitter *e, reduce_op op, dtype t, ins *old, ins *term) {
    static const expr_op ops[] = {
        [RED_SUM] = X_ADD,        [RED_PROD] = X_MUL, [RED_MIN] = X_MIN, [RED_MAX] = X_MAX,
        [RED_NUMBER_MAX] = X_MAX, [RED_AND] = X_AND,  [RED_OR] = X_OR};
    if (old->type.lanes > 1) term = splat_to(e, term, true);
    // L_FMAX returns its second operand if one is NaN: the maximum so far, which is none.
    if (op == RED_NUMBER_MAX && dtype_is_float(t)) return lb_bin(&e->b, L_FMAX, term, old);
    return emit_operation(&e->b, ops[op], t, old, term);
}

ins *emit_horizontal(emitter *e, reduce_op op, dtype t, ins *v) {
    lbuild *b = &e->b;
    bool f = dtype_is_float(t), s = dtype_is_signed(t) && t != DT_BOOL;
    lop l = L_HADD;
    if (v->type.lanes == 1) return v;
    switch (op) {
    case RED_SUM: l = L_HADD; break;
    case RED_PROD: l = L_HMUL; break;
    case RED_MIN: l = t == DT_BOOL ? L_HAND : s ? L_HSMIN : L_HUMIN; break;
    case RED_MAX:
    case RED_NUMBER_MAX: l = t == DT_BOOL ? L_HOR : s ? L_HSMAX : L_HUMAX; break;
    case RED_AND: l = L_HAND; break;
    case RED_OR: l = L_HOR; break;
    case RED_CUSTOM: break;
    }
    ins *r = lb_hreduce(b, l, v);
    if (!f || (op != RED_MIN && op != RED_MAX)) return r;
    ins *nan = lb_hreduce(b, L_HOR, lb_cmp(b, L_NE, v, v)); // the minimum over lanes drops NaN
    return lb_select(b, nan, lb_float(b, r->type, __builtin_nan("")), r);
}
