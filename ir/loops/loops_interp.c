// The interpreter of loops. In: functions and argument bits. Out: results and written memory, or an error. A
// value is one word per lane: integers zero-extended, floats as their bits. Threads of a block are coroutines
// that yield at barriers and shuffles; shadow memory records who accessed each byte last.
#include "ir/loops/loops_eval.h"
#include "ir/loops/loops_interp_impl.h"
#include "ir/target.h"
#include <string.h>
#include <sys/mman.h>

static flow run_block(frame *fr, const lblock *b);

// ---------------------------------------------------------------- set-up

linterp *linterp_new(arena *a, const lmodule *m) {
    linterp *in = ARENA_NEW(a, linterp);
    in->arena = in->symbols.arena = in->natives.arena = in->layouts.arena = a;
    in->module = m;
    return in;
}

// The number of regions that begin at or before p, in by_address.
static int regions_before(const linterp *in, const char *p) {
    int low = 0, high = in->by_address.n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (in->regions.at[in->by_address.at[middle]].p <= p) low = middle + 1;
        else high = middle;
    }
    return low;
}

static int add_region(linterp *in, const void *p, int64_t bytes, bool writable) {
    int at = regions_before(in, p), number = in->regions.n;
    VEC_PUSH(in->arena, &in->regions, (region){.p = p, .bytes = bytes, .writable = writable});
    VEC_PUSH(in->arena, &in->by_address, number);
    int *place = in->by_address.at + at;
    memmove(place + 1, place, (size_t)(number - at) * sizeof *place);
    *place = number;
    return number;
}

void linterp_memory(linterp *in, const void *p, int64_t bytes, bool writable) {
    in->check = true;
    int r = add_region(in, p, bytes, writable); // may move the regions
    in->regions.at[r].watched = writable;
}

void linterp_flags(linterp *in, void *p, int64_t bytes) {
    in->check = true;
    add_region(in, p, bytes, true);
}

// Address of an external symbol.
static void linterp_symbol(linterp *in, const char *name, void *address) {
    map_put(&in->symbols, name, address);
}

void linterp_function(linterp *in, const char *name, linterp_native *fn, void *user) {
    native *n = ARENA_NEW(in->arena, native);
    *n = (native){fn, user};
    map_put(&in->natives, name, n);
}

void linterp_set_order(linterp *in, linterp_order order, uint64_t seed) {
    in->order = order;
    in->seed = seed;
}

const char *linterp_error(const linterp *in) { return in->error; }

uint64_t linterp_float(float v) { return leval_float_word(LK_F32, v); }
uint64_t linterp_double(double v) { return leval_float_word(LK_F64, v); }

// On the stack of a coroutine, the scheduler performs the jump.
static _Noreturn void fail(linterp *in, const char *text) {
    in->error = text;
    if (in->device && in->device->now) setcontext(&in->device->scheduler);
    longjmp(in->jump, 1);
}

_Noreturn void linterp_fail_at(frame *fr, const ins *x, const char *what) {
    fail(fr->in, arena_printf(fr->in->arena, "function %s, instruction %d (%s): %s", fr->f->name, x->id,
                              lop_name(x->op), what));
}

static void lay_out(const lblock *b, layout_of *l) {
    for (const ins *x = b ? b->first : NULL; x; x = x->next) {
        l->at[x->id] = l->words;
        l->words += x->type.lanes ? x->type.lanes : 1;
        lay_out(x->body[0], l);
        lay_out(x->body[1], l);
    }
}

static layout_of *layout_for(linterp *in, const lfunc *f) {
    layout_of *l = map_get_number(&in->layouts, (uintptr_t)f);
    if (l) return l;
    l = ARENA_NEW(in->arena, layout_of);
    l->at = ARENA_ARRAY(in->arena, int, f->nins + 1);
    lay_out(f->body, l);
    map_put_number(&in->layouts, (uintptr_t)f, l);
    return l;
}

static frame new_frame(linterp *in, const lfunc *f, const uint64_t *args) {
    frame fr = {.in = in, .f = f, .args = args, .layout = layout_for(in, f)};
    fr.words = fr.layout->spare.n ? fr.layout->spare.at[--fr.layout->spare.n]
                                  : ARENA_ARRAY(in->arena, uint64_t, fr.layout->words + 1);
    fr.fused = f->target->fma && f->target->fp != FP_STRICT && !f->strict_fp;
    return fr;
}

static int64_t signed_arg(frame *fr, const ins *x, int i) {
    return leval_signed(x->args[i]->type.kind, *arg(fr, x, i));
}

// ---------------------------------------------------------------- order

static uint64_t next_random(linterp *in) { // xorshift64*
    in->random ^= in->random >> 12;
    in->random ^= in->random << 25;
    in->random ^= in->random >> 27;
    return in->random * 0x2545f4914f6cdd1du;
}

static void make_order(linterp *in, int64_t n, int64_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = in->order == ORDER_REVERSE ? n - 1 - i : i;
    if (in->order != ORDER_PERMUTED) return;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)(next_random(in) % (uint64_t)(i + 1)), t = out[i];
        out[i] = out[j];
        out[j] = t;
    }
}

// ---------------------------------------------------------------- memory

static bool holds(const region *r, const char *p, int64_t n) { return p >= r->p && p - r->p <= r->bytes - n; }

static region *remember(linterp *in, int number) {
    in->recent[in->next_recent++ % RECENT] = number;
    return &in->regions.at[number];
}

static region *find_region(linterp *in, const char *p, int64_t n) {
    for (int k = 0; k < RECENT; k++)
        if (in->recent[k] < in->regions.n && holds(&in->regions.at[in->recent[k]], p, n))
            return &in->regions.at[in->recent[k]];
    int at = regions_before(in, p);
    if (at && holds(&in->regions.at[in->by_address.at[at - 1]], p, n))
        return remember(in, in->by_address.at[at - 1]);
    for (int i = 0; i < in->regions.n; i++) // regions may be nested
        if (holds(&in->regions.at[i], p, n)) return remember(in, i);
    return NULL;
}

// Whether nothing orders access t before the current thread. Blocks have their own shared memory.
static bool is_concurrent(const linterp *in, const region *r, touch t) {
    const device *d = in->device;
    if (!t.thread || t.epoch < d->first_epoch) return false;
    if (t.block != d->block_number) return !r->shared;
    return t.epoch == in->epoch && t.thread != d->now->number + 1;
}

static bool note_touch(const linterp *in, const region *r, shadow *s, bool write) {
    const device *d = in->device;
    touch now = {d->now->number + 1, d->block_number, in->epoch};
    bool readers = is_concurrent(in, r, s->read);
    if (is_concurrent(in, r, s->write) || (write && readers)) return false;
    if (write) s->write = now;
    else s->read = readers ? (touch){-1, s->read.block == now.block ? now.block : -1, now.epoch} : now;
    return true;
}

static void check_race(frame *fr, const ins *x, const region *r, const char *p, int64_t n, bool write) {
    const device *d = fr->in->device;
    if (!d || !d->now || x->op == L_ATOMIC_ADD) return;
    for (shadow *s = r->shadow + (p - r->p), *end = s + n; s < end; s++)
        if (!note_touch(fr->in, r, s, write))
            linterp_fail_at(fr, x,
                            r->shared ? "race on shared memory: a barrier is missing"
                                      : "race: another thread touches the same memory");
}

char *linterp_checked(frame *fr, const ins *x, char *p, int64_t n, bool write) {
    linterp *in = fr->in;
    if (!in->check && !in->device) return p;
    region *r = find_region(in, p, n);
    if (!r && in->check) linterp_fail_at(fr, x, write ? "store out of bounds" : "load out of bounds");
    if (r && write && !r->writable) linterp_fail_at(fr, x, "store to read-only memory");
    if (r && r->shadow) check_race(fr, x, r, p, n, write);
    if (r && r->shared && write && in->device && in->device->now) in->device->now->unshown = true;
    return p;
}

static uint64_t load(frame *fr, const ins *x, lkind k, char *p) {
    uint64_t v = 0;
    memcpy(&v, linterp_checked(fr, x, p, lkind_bytes(k), false), (size_t)lkind_bytes(k));
    return k == LK_I1 ? v & 1 : v;
}

static void store(frame *fr, const ins *x, lkind k, char *p, uint64_t v) {
    memcpy(linterp_checked(fr, x, p, lkind_bytes(k), true), &v, (size_t)lkind_bytes(k));
}

static char *element(frame *fr, const ins *x, lkind k) {
    return pointer(fr, x, 0) + signed_arg(fr, x, 1) * lkind_bytes(k);
}

void linterp_check_aligned(frame *fr, const ins *x, const char *p, int align) {
    if ((uintptr_t)p % (unsigned)align) linterp_fail_at(fr, x, "pointer is less aligned than promised");
}

static void check_alignment(frame *fr, const ins *x, lkind k, const char *p) {
    linterp_check_aligned(fr, x, p, x->align ? x->align : lkind_bytes(k));
}

static void run_load(frame *fr, const ins *x, uint64_t *out, int64_t n) {
    char *p = element(fr, x, x->type.kind);
    check_alignment(fr, x, x->type.kind, p);
    for (int64_t l = 0; l < x->type.lanes; l++)
        out[l] = l < n ? load(fr, x, x->type.kind, p + l * lkind_bytes(x->type.kind)) : 0;
}

static void run_store(frame *fr, const ins *x, int64_t n) {
    ltype t = x->args[2]->type;
    char *p = element(fr, x, t.kind);
    check_alignment(fr, x, t.kind, p);
    for (int64_t l = 0; l < n && l < t.lanes; l++)
        store(fr, x, t.kind, p + l * lkind_bytes(t.kind), arg(fr, x, 2)[l]);
}

static char *lane_element(frame *fr, const ins *x, int l, lkind k) {
    return pointer(fr, x, 0) + leval_signed(x->args[1]->type.kind, arg(fr, x, 1)[l]) * lkind_bytes(k);
}

static void run_atomic_add(frame *fr, const ins *x) {
    lkind k = x->args[2]->type.kind;
    char *p = element(fr, x, k);
    uint64_t v = leval_bin(L_ADD, k, load(fr, x, k, p), *arg(fr, x, 2));
    store(fr, x, k, p, v);
}

static int new_local(frame *fr, const ins *x) {
    int64_t bytes = x->i * lkind_bytes(x->elem), align = x->align > 16 ? x->align : 16;
    char *p = arena_alloc(fr->in->arena, (size_t)(bytes + align));
    p += -(uintptr_t)p & (uintptr_t)(align - 1);
    memset(p, LEVAL_PATTERN, (size_t)bytes);
    return add_region(fr->in, p, bytes, true);
}

// All blocks use the same shared memory, one block after another.
static void forget_shared_memory(linterp *in) {
    device *d = in->device;
    for (int i = 0; i < d->shared_regions.n; i++) {
        const region *r = &in->regions.at[d->shared_regions.at[i]];
        memset((char *)r->p, LEVAL_PATTERN, (size_t)r->bytes);
    }
}

// Shared memory exists once per block. Private memory exists per frame, so that calls and threads have their
// own, and is undefined each time that the instruction runs.
static uint64_t run_local(frame *fr, const ins *x) {
    linterp *in = fr->in;
    uint64_t *slot = value_of(fr, x);
    if (!x->shared || !in->device) {
        if (*slot)
            return memset((void *)(uintptr_t)*slot, LEVAL_PATTERN, (size_t)(x->i * lkind_bytes(x->elem))),
                   *slot;
        int r = new_local(fr, x); // may move the regions
        return (uintptr_t)in->regions.at[r].p;
    }
    uintptr_t known = (uintptr_t)map_get_number(&in->device->shared, (uintptr_t)x);
    if (known) return (uintptr_t)in->regions.at[known - 1].p;
    int r = new_local(fr, x);
    in->regions.at[r].shared = true;
    in->regions.at[r].shadow = ARENA_ARRAY(in->arena, shadow, in->regions.at[r].bytes);
    map_put_number(&in->device->shared, (uintptr_t)x, (void *)(uintptr_t)(r + 1));
    VEC_PUSH(in->arena, &in->device->shared_regions, r);
    return (uintptr_t)in->regions.at[r].p;
}

// ---------------------------------------------------------------- symbols and calls

static const lfunc *function_named(const linterp *in, const char *name) {
    for (int i = 0; in->module && i < in->module->funcs.n; i++) {
        const lfunc *f = in->module->funcs.at[i];
        if (f->body && strcmp(f->name, name) == 0) return f;
    }
    return NULL;
}

static void *data_named(linterp *in, const char *name) {
    for (int i = 0; in->module && i < in->module->data.n; i++) {
        const ldata *d = in->module->data.at[i];
        if (strcmp(d->name, name) != 0) continue;
        int64_t align = d->align > 16 ? d->align : 16;
        char *p = arena_alloc(in->arena, (size_t)(d->bytes + align));
        p += -(uintptr_t)p & (uintptr_t)(align - 1);
        if (!d->variable) ldata_copy(d, 0, p, d->bytes);
        add_region(in, p, d->bytes, d->variable);
        linterp_symbol(in, name, p);
        return p;
    }
    return NULL;
}

static uint64_t run_symbol(frame *fr, const ins *x) {
    linterp *in = fr->in;
    void *p = map_get(&in->symbols, x->name);
    if (!p) p = (void *)function_named(in, x->name);
    if (!p) p = map_get(&in->natives, x->name);
    if (!p) p = data_named(in, x->name);
    if (!p) linterp_fail_at(fr, x, arena_printf(in->arena, "no symbol %s", x->name));
    return (uintptr_t)p;
}

static uint64_t run_function(linterp *in, const lfunc *f, const uint64_t *args) {
    frame fr = new_frame(in, f, args);
    run_block(&fr, f->body);
    VEC_PUSH(in->arena, &fr.layout->spare, fr.words);
    return fr.result;
}

static const lfunc *function_at(const linterp *in, const void *p) {
    for (int i = 0; in->module && i < in->module->funcs.n; i++)
        if (in->module->funcs.at[i] == p) return in->module->funcs.at[i];
    return NULL;
}

static const native *native_at(const linterp *in, const void *p) {
    for (int i = 0; i < in->natives.n; i++)
        if (in->natives.slots[i].value == p) return p;
    return NULL;
}

// The C library's, as kernels call it.
static bool run_memcpy(frame *fr, const ins *x, const uint64_t *args, int n) {
    if (x->op != L_CALL || strcmp(x->name, "memcpy") || n != 3) return false;
    int64_t bytes = (int64_t)args[2];
    char *to = (char *)(uintptr_t)args[0], *from = (char *)(uintptr_t)args[1];
    if (bytes)
        memcpy(linterp_checked(fr, x, to, bytes, true), linterp_checked(fr, x, from, bytes, false),
               (size_t)bytes);
    return true;
}

static uint64_t run_call(frame *fr, const ins *x) {
    linterp *in = fr->in;
    int skip = x->op == L_CALLPTR, n = x->nargs - skip;
    uint64_t args[64];
    if (n > 64) linterp_fail_at(fr, x, "more than 64 arguments");
    for (int i = 0; i < n; i++) args[i] = *arg(fr, x, i + skip);
    const void *p = skip ? pointer(fr, x, 0) : NULL;
    const lfunc *f = skip ? function_at(in, p) : function_named(in, x->name);
    if (f && f->params.n != n) linterp_fail_at(fr, x, "call with a wrong number of arguments");
    if (f) return run_function(in, f, args);
    const native *c = skip ? native_at(in, p) : map_get(&in->natives, x->name);
    if (!c && run_memcpy(fr, x, args, n)) return args[0];
    if (!c)
        linterp_fail_at(fr, x, arena_printf(in->arena, "no function %s", skip ? "at that address" : x->name));
    return c->fn(c->user, args, n);
}

// ---------------------------------------------------------------- structure

static flow run_iteration(frame *fr, const ins *x, int64_t i) {
    *value_of(fr, x) = leval_fit(x->type.kind, (uint64_t)i);
    return run_block(fr, x->body[0]);
}

// Runs independent iterations in the chosen order.
static flow run_in_order(frame *fr, const ins *x, int64_t begin, int64_t end, int64_t step) {
    int64_t n = begin < end ? (end - begin + step - 1) / step : 0;
    if (n < 2) return n ? run_iteration(fr, x, begin) : FLOW_NEXT;
    int64_t *order = ARENA_ARRAY(fr->in->arena, int64_t, n);
    make_order(fr->in, n, order);
    for (int64_t k = 0; k < n; k++) {
        flow w = run_iteration(fr, x, begin + order[k] * step);
        if (w != FLOW_NEXT) return w;
    }
    return FLOW_NEXT;
}

static flow run_for(frame *fr, const ins *x) {
    int64_t begin = signed_arg(fr, x, 0), end = signed_arg(fr, x, 1), step = signed_arg(fr, x, 2);
    device *d = fr->in->device;
    if (step <= 0) linterp_fail_at(fr, x, "loop step is not positive");
    if (x->role == LOOP_PARALLEL && fr->in->order != ORDER_FORWARD)
        return run_in_order(fr, x, begin, end, step);
    int grid = loop_grid_axis(x->role), thread = loop_thread_axis(x->role);
    if (d && d->now && grid >= 0) begin += step * d->block[grid], step *= d->grid[grid];
    if (d && d->now && thread >= 0) begin += step * d->now->at[thread], step *= d->threads[thread];
    for (int64_t i = begin; i < end; i += step) {
        flow w = run_iteration(fr, x, i);
        if (w != FLOW_NEXT) return w;
    }
    return FLOW_NEXT;
}

static flow run_if(frame *fr, const ins *x) {
    const lblock *b = x->body[*arg(fr, x, 0) ? 0 : 1];
    return b ? run_block(fr, b) : FLOW_NEXT;
}

static flow run_loop(frame *fr, const ins *x) {
    for (;;) {
        flow w = run_block(fr, x->body[0]);
        if (w == FLOW_BREAK) return FLOW_NEXT;
        if (w == FLOW_RETURN) return w;
    }
}

// A fast path of leval for scalar integer arithmetic, which dominates.
static bool run_position(frame *fr, const ins *x, uint64_t *out) {
    if (x->type.lanes != 1 || (x->type.kind != LK_I64 && x->type.kind != LK_I32)) return false;
    uint64_t v, a = x->nargs == 2 ? *arg(fr, x, 0) : 0, b = x->nargs == 2 ? *arg(fr, x, 1) : 0;
    if (x->op == L_CONST) v = (uint64_t)x->i;
    else if (x->op == L_ADD) v = a + b;
    else if (x->op == L_SUB) v = a - b;
    else if (x->op == L_MUL) v = a * b;
    else if (x->op == L_AND) v = a & b;
    else if (x->op == L_OR) v = a | b;
    else if (x->op == L_XOR) v = a ^ b;
    else return false;
    *out = x->type.kind == LK_I32 ? (uint32_t)v : v;
    return true;
}

static void run_value(frame *fr, const ins *x, uint64_t *out) {
    if (run_position(fr, x, out)) return;
    const uint64_t *args[4] = {0};
    ltype types[4] = {0};
    for (int i = 0; i < x->nargs && i < 4; i++) args[i] = arg(fr, x, i), types[i] = x->args[i]->type;
    const char *error = leval(x, types, args, fr->fused, out);
    if (error) linterp_fail_at(fr, x, error);
}

static void run_tile_rows(frame *fr, const ins *x) {
    tile_file *f = &fr->in->tiles;
    tile_shape s = f->shape[x->i];
    char *p = pointer(fr, x, 0);
    for (int r = 0; r < s.rows; r++) {
        char *row = linterp_checked(fr, x, p + r * signed_arg(fr, x, 1), s.bytes, x->op == L_TILE_STORE);
        if (x->op == L_TILE_STORE) memcpy(row, f->data[x->i][r], (size_t)s.bytes);
        else memcpy(f->data[x->i][r], row, (size_t)s.bytes);
    }
}

static void run_tile(frame *fr, const ins *x) {
    tile_file *f = &fr->in->tiles;
    const char *error = NULL;
    bool one = x->op == L_TILE_ZERO || x->op == L_TILE_LOAD || x->op == L_TILE_STORE;
    if (one && !f->shape[x->i].rows) linterp_fail_at(fr, x, "the tile is not configured");
    if (x->op == L_TILE_CONFIG) {
        char *p = linterp_checked(fr, x, pointer(fr, x, 0), TILE_CONFIG_BYTES, false);
        error = tile_configure(f, (const uint8_t *)p);
    } else if (x->op == L_TILE_RELEASE) {
        memset(f, 0, sizeof *f);
    } else if (x->op == L_TILE_ZERO) {
        memset(f->data[x->i], 0, sizeof f->data[x->i]);
    } else if (x->op == L_TILE_LOAD || x->op == L_TILE_STORE) {
        if (x->op == L_TILE_LOAD) memset(f->data[x->i], 0, sizeof f->data[x->i]);
        run_tile_rows(fr, x);
    } else {
        error = tile_multiply(f, x->op, tile_of_dot(x, 0), tile_of_dot(x, 1), tile_of_dot(x, 2));
    }
    if (error) linterp_fail_at(fr, x, error);
}

static flow run_ins(frame *fr, const ins *x) {
    uint64_t *out = value_of(fr, x);
    switch (x->op) {
    case L_PARAM: *out = leval_fit(x->type.kind, fr->args[x->i]); break;
    case L_SYMBOL: *out = run_symbol(fr, x); break;
    case L_LOAD: run_load(fr, x, out, x->type.lanes); break;
    case L_LOADN: run_load(fr, x, out, signed_arg(fr, x, 2)); break;
    case L_STORE: run_store(fr, x, x->args[2]->type.lanes); break;
    case L_STOREN: run_store(fr, x, signed_arg(fr, x, 3)); break;
    case L_GATHER:
        for (int l = 0; l < x->type.lanes; l++)
            out[l] = load(fr, x, x->type.kind, lane_element(fr, x, l, x->type.kind));
        break;
    case L_SCATTER:
        for (int l = 0; l < x->args[2]->type.lanes; l++)
            store(fr, x, x->args[2]->type.kind, lane_element(fr, x, l, x->args[2]->type.kind),
                  arg(fr, x, 2)[l]);
        break;
    case L_OFFSET: *out = (uintptr_t)(pointer(fr, x, 0) + signed_arg(fr, x, 1) * x->i); break;
    case L_FIELD: *out = load(fr, x, x->type.kind, pointer(fr, x, 0) + x->i); break;
    case L_SETFIELD: store(fr, x, x->args[1]->type.kind, pointer(fr, x, 0) + x->i, *arg(fr, x, 1)); break;
    case L_ATOMIC_ADD: run_atomic_add(fr, x); break;
    case L_LOCAL: *out = run_local(fr, x); break;
    case L_VAR:
    case L_GET: memcpy(out, arg(fr, x, 0), x->type.lanes * sizeof *out); break;
    case L_SET: memcpy(arg(fr, x, 0), arg(fr, x, 1), x->args[1]->type.lanes * sizeof *out); break;
    case L_FOR: return run_for(fr, x);
    case L_IF: return run_if(fr, x);
    case L_LOOP: return run_loop(fr, x);
    case L_BREAK: return *arg(fr, x, 0) ? FLOW_BREAK : FLOW_NEXT;
    case L_RETURN:
        if (x->nargs) fr->result = *arg(fr, x, 0);
        return FLOW_RETURN;
    case L_CALL:
    case L_CALLPTR: *out = leval_fit(x->type.kind, run_call(fr, x)); break;
    case L_BARRIER: linterp_wait(fr, x, WAIT_BARRIER); break;
    case L_SHFL_XOR: linterp_shuffle(fr, x, out); break;
    case L_GPU: linterp_gpu(fr, x); break;
#define INS(...)
#define PURE(...)
#define TILE(op, ...) case op:
#include "ir/loops/loops.def"
        run_tile(fr, x);
        break;
    case L_PREFETCH: break;
    case L_COMMENT: break;
    case L_COUNT: break;
#define INS(...)
#define TILE(...)
#define PURE(op, ...) case op:
#include "ir/loops/loops.def"
        run_value(fr, x, out);
        break;
    }
    return FLOW_NEXT;
}

static flow run_block(frame *fr, const lblock *b) {
    for (const ins *x = b->first; x; x = x->next) {
        flow w = run_ins(fr, x);
        if (w != FLOW_NEXT) return w;
    }
    return FLOW_NEXT;
}

bool linterp_call(linterp *in, const lfunc *f, const uint64_t *args, uint64_t *result) {
    in->error = NULL;
    in->device = NULL;
    in->random = in->seed * 2 + 1;
    if (setjmp(in->jump)) return false;
    uint64_t r = run_function(in, f, args);
    if (result) *result = r;
    return true;
}

// ---------------------------------------------------------------- threads

static void thread_main(unsigned low, unsigned high) {
    linterp *in = (linterp *)(uintptr_t)((uint64_t)high << 32 | low);
    device *d = in->device;
    run_function(in, d->f, d->args);
    d->now->wait = WAIT_DONE;
    d->now->where = NULL;
    setcontext(&d->scheduler);
}

static void start_thread(linterp *in, thread *t, int number, char *stack) {
    device *d = in->device;
    *t = (thread){.number = number};
    int64_t rest = number;
    for (int a = 0; a < 3; a++, rest /= d->threads[a - 1]) t->at[a] = rest % d->threads[a];
    getcontext(&t->context);
    t->context.uc_stack.ss_sp = stack;
    t->context.uc_stack.ss_size = STACK;
    uint64_t address = (uintptr_t)in;
    makecontext(&t->context, (void (*)(void))thread_main, 2, (unsigned)address, (unsigned)(address >> 32));
}

static void resume(linterp *in, thread *t) {
    device *d = in->device;
    t->wait = WAIT_NONE;
    d->now = t;
    swapcontext(&d->scheduler, &t->context);
    d->now = NULL;
    if (in->error) longjmp(in->jump, 1);
}

// Whether all threads of [first, first + n) wait for the same thing.
static bool all_wait(const device *d, int first, int n, wait_kind kind) {
    for (int i = first; i < first + n && i < d->n; i++)
        if (d->all[i].wait != kind || d->all[i].where != d->all[first].where) return false;
    return true;
}

static void release_shuffles(linterp *in) {
    device *d = in->device;
    for (int w = 0; w < d->n; w += WARP) {
        if (d->all[w].wait != WAIT_SHUFFLE) continue;
        if (!all_wait(d, w, WARP, WAIT_SHUFFLE))
            fail(in, "the threads of a warp do not reach one shuffle together");
        for (int i = w; i < w + WARP && i < d->n; i++) {
            thread *t = &d->all[i];
            int other = i ^ (int)t->where->i;
            if (other < d->n && other / WARP == i / WARP) t->received = d->all[other].deposit;
            t->wait = WAIT_NONE;
        }
    }
}

// A product needs all threads of a warp.
static void release_products(linterp *in) {
    device *d = in->device;
    for (int w = 0; w < d->n; w += WARP) {
        if (d->all[w].wait != WAIT_PRODUCT) continue;
        if (w + WARP > d->n || !all_wait(d, w, WARP, WAIT_PRODUCT))
            fail(in, "the threads of a warp do not reach one product together");
        const uint32_t **registers = ARENA_ARRAY(in->arena, const uint32_t *, WARP);
        for (int i = 0; i < WARP; i++) {
            thread *t = &d->all[w + i];
            registers[i] = t->registers;
            t->warps = registers;
            t->wait = WAIT_NONE;
        }
    }
}

static bool release_bulks(linterp *in) {
    device *d = in->device;
    bool released = false;
    for (int i = 0; i < d->n; i++) {
        thread *t = &d->all[i];
        if (t->wait == WAIT_BULK && linterp_bulk_passed(in, t)) t->wait = WAIT_NONE, released = true;
    }
    return released;
}

// The reason for a deadlock.
static const char *why_stuck(const device *d, const linterp *in) {
    for (int i = 0; i < d->n; i++)
        if (d->all[i].wait == WAIT_BULK) return linterp_bulk_stuck(in);
    return "not all threads of a block reach one barrier";
}

// Runs threads until each waits; then all must wait for the same thing.
static void run_threads(linterp *in) {
    device *d = in->device;
    int64_t *order = ARENA_ARRAY(in->arena, int64_t, d->n);
    for (;;) {
        make_order(in, d->n, order);
        bool ran = release_bulks(in);
        for (int k = 0; k < d->n; k++) {
            thread *t = &d->all[order[k]];
            if (t->wait == WAIT_NONE) resume(in, t), ran = true;
        }
        if (ran) {
            release_shuffles(in);
            release_products(in);
            continue;
        }
        if (all_wait(d, 0, d->n, WAIT_DONE)) return;
        bool meet = false;
        for (int i = 0; i < d->n; i++)
            meet |= d->all[i].wait == WAIT_SHUFFLE || d->all[i].wait == WAIT_PRODUCT;
        if (meet || !all_wait(d, 0, d->n, WAIT_BARRIER)) fail(in, why_stuck(d, in));
        in->epoch++;
        for (int i = 0; i < d->n; i++) {
            d->unshown |= d->all[i].unshown;
            d->all[i].wait = WAIT_NONE;
        }
    }
}

static void run_device_block(linterp *in, char *stacks) {
    device *d = in->device;
    forget_shared_memory(in);
    d->unshown = false;
    d->bulks.n = 0;
    memset(d->begun, 0, sizeof d->begun);
    in->epoch++;
    for (int i = 0; i < d->n; i++) start_thread(in, &d->all[i], i, stacks + (size_t)i * STACK);
    run_threads(in);
    const char *unfinished =
        linterp_bulk_left(in) ? "a block ends before its copies are complete" : linterp_unfinished(in);
    if (unfinished) fail(in, unfinished);
}

static void run_grid(linterp *in, char *stacks) {
    device *d = in->device;
    int64_t n = d->grid[0] * d->grid[1] * d->grid[2], *order = ARENA_ARRAY(in->arena, int64_t, n);
    make_order(in, n, order);
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = order[k];
        d->block_number = (int)order[k];
        for (int a = 0; a < 3; a++, rest /= d->grid[a - 1]) d->block[a] = rest % d->grid[a];
        run_device_block(in, stacks);
    }
}

static int64_t size_of(int64_t asked, int64_t known) { return asked ? asked : known ? known : 1; }

// Adds race detection to writable memory of the caller.
static void watch_memory(linterp *in) {
    for (int i = 0; i < in->regions.n; i++) {
        region *r = &in->regions.at[i];
        if (r->watched && !r->shadow) r->shadow = ARENA_ARRAY(in->arena, shadow, r->bytes);
    }
}

bool linterp_launch(linterp *in, const lfunc *f, const uint64_t *args, const int64_t grid[3],
                    const int64_t threads[3]) {
    device *d = ARENA_NEW(in->arena, device);
    d->f = f;
    d->args = args;
    for (int a = 0; a < 3; a++) {
        d->grid[a] = size_of(grid ? grid[a] : 0, f->grid[a]);
        d->threads[a] = size_of(threads ? threads[a] : 0, f->threads[a]);
    }
    d->n = (int)(d->threads[0] * d->threads[1] * d->threads[2]);
    d->all = ARENA_ARRAY(in->arena, thread, d->n);
    d->shared.arena = in->arena;
    d->first_epoch = in->epoch + 1;
    watch_memory(in);
    in->error = NULL;
    in->device = d;
    in->random = in->seed * 2 + 1;
    size_t bytes = (size_t)d->n * STACK;
    char *volatile stacks =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) {
        in->error = "no memory for the threads' stacks";
        return false;
    }
    volatile bool ok = false;
    if (!setjmp(in->jump)) {
        run_grid(in, stacks);
        ok = true;
    }
    munmap(stacks, bytes);
    in->device = NULL;
    return ok;
}
