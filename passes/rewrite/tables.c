// Lookup tables. In: kernels. Out: kernels in which written values that are functions of a single byte are
// reads of constants of 256 elements, if computing them costs more. The interpreter computes the elements.
// Runs after quantisation, which leaves chains of requantisations between bytes; for targets without floating point again
// after most of them became integers, with what is left of floats.
#include "ir/kernel/eval.h"
#include "ir/target.h"
#include "passes/match/form.h"
#include "passes/passes.h"
#include <string.h>

// A lookup costs about as much as LEAST_COST operations where vectors gather the elements one by one; scalar code is faster, but
// the table takes flash.
enum { BYTES = 256, LEAST_COST = 16, LEAST_SCALAR_COST = 8 };

typedef struct look {
    bool constant;
    expr *source; // the only byte on which the value depends, NULL: none or several values
} look;

typedef struct tables {
    kernel *k;
    arena *scratch;
    look *looks; // by id of the original expressions
    int nlooks;
    map *made; // hash of the elements -> buffer
    const target *t;
    bool floats; // only functions that need floating point, also cheap ones
} tables;

// ---------------------------------------------------------------- matching
static bool is_leaf(const expr *e) {
    return (expr_op_class(e->op) == XC_LEAF && e->op != X_CONST) || e->op == X_CHECK;
}

static void find_source(tables *t, expr *e) {
    look l = {.constant = !is_leaf(e)}, none = {0};
    for (int j = 0; j < expr_arity(e->op) && !is_leaf(e); j++) {
        const look *a = &t->looks[e->arg[j]->id];
        if (a->constant) continue;
        bool same = a->source && (l.constant || l.source == a->source);
        l = same ? (look){.source = a->source} : none;
        if (!same) break;
    }
    if (!l.constant && !l.source && dtype_is_byte(e->dtype)) l.source = e;
    t->looks[e->id] = l;
}

// The cost of distinct operations between the source and e.
static int cost_from(const expr *source, const expr *e, bool *seen) {
    if (e == source || seen[e->id]) return 0;
    seen[e->id] = true;
    int sum = expr_op_cost(e->op);
    for (int j = 0; j < expr_arity(e->op); j++) sum += cost_from(source, e->arg[j], seen);
    return sum;
}

// Whether floats are computed between the source and e.
static bool needs_floats(const expr *source, const expr *e, bool *seen) {
    if (e == source || seen[e->id]) return false;
    seen[e->id] = true;
    bool found = dtype_is_float(e->dtype);
    for (int j = 0; j < expr_arity(e->op) && !found; j++) found = needs_floats(source, e->arg[j], seen);
    return found;
}

// Bare machines whose loads of one element are fast, and whose flash is scarce.
static bool is_scalar_core(const target *t) { return t->freestanding && !t->vector_bits && !t->arch.is_text; }

static bool worthwhile(const tables *t, const expr *source, const expr *e) {
    if (!source || source == e) return false;
    bool cheap = is_scalar_core(t->t) && t->t->f32 && !t->t->size_level;
    bool *seen = ARENA_ARRAY(t->scratch, bool, t->nlooks);
    if (t->floats) return !dtype_is_float(e->dtype) && needs_floats(source, e, seen);
    return cost_from(source, e, seen) >= (cheap ? LEAST_SCALAR_COST : LEAST_COST);
}

// ---------------------------------------------------------------- elements
static int64_t least(const expr *byte) { return byte->dtype == DT_I8 ? -(BYTES / 2) : 0; }

// Gathers need elements of at least 32 bits, except on Helium; lookups of bytes are no gathers.
static dtype stored_type(const target *t, const expr *e) {
    bool bytes = is_scalar_core(t) || t->dot_across || t->arch.looks_up_bytes;
    if (dtype_bits(e->dtype) >= 32 || (dtype_is_byte(e->dtype) && bytes)) return e->dtype;
    return dtype_is_float(e->dtype) ? DT_F32 : DT_I32;
}

static buffer *table_of(tables *t, const expr *source, const expr *e) {
    eval_span span = {t->scratch, source, least(source), BYTES, ARENA_ARRAY(t->scratch, cell *, t->nlooks)};
    const cell *cells = eval_over(&span, e);
    program *p = t->k->program;
    int64_t dims[1] = {BYTES};
    constant *c = constant_new(p->arena, stored_type(t->t, e), 1, dims);
    // By the byte's bits where these are looked up, else by its value.
    int64_t first = t->t->arch.looks_up_bytes ? -least(source) : 0;
    for (int64_t j = 0; j < BYTES; j++) eval_store(c->elem, (void *)c->data, j, cells[(j + first) % BYTES]);
    size_t size = (size_t)dtype_size(c->elem, BYTES);
    uint64_t key = hash_bytes(hash_bytes(HASH_SEED, &c->elem, sizeof c->elem), c->data, size);
    buffer *known = map_get_number(t->made, key);
    if (known && known->dtype == c->elem && memcmp(known->data->data, c->data, size) == 0) return known;
    buffer *b = program_constant(p, "table", c);
    map_put_number(t->made, key, b);
    return b;
}

// ---------------------------------------------------------------- replacing
static expr *read_table(void *user, expr *e) {
    tables *t = user;
    expr *source = e->id < t->nlooks ? t->looks[e->id].source : NULL;
    if (!worthwhile(t, source, e)) return NULL;
    kernel *k = t->k;
    buffer *b = table_of(t, source, e);
    expr *byte = expr_rewrite(k, source, read_table, t);
    bool bits = t->t->arch.looks_up_bytes;
    expr *index = x_cast(k, bits ? x_cast(k, byte, DT_U8, false) : byte, DT_I64, true);
    if (!bits) index = x_add(k, index, x_i64(k, -least(source)));
    return x_cast(k, x_read(k, b, &index), e->dtype, true);
}

static void tabulate_kernel(kernel *k, tables t) {
    t.k = k, t.scratch = arena_new(), t.nlooks = k->exprs.n;
    t.looks = ARENA_ARRAY(t.scratch, look, t.nlooks + 1);
    write_list writes = kernel_write_list(k);
    for (int j = 0; j < writes.n; j++) {
        write *w = writes.at[j];
        expr_list all = expr_nodes(t.scratch, w->value);
        for (int x = 0; x < all.n; x++) find_source(&t, all.at[x]);
        w->value = expr_rewrite(k, w->value, read_table, &t);
    }
    arena_destroy(t.scratch);
}

static void tabulate(pass_context *c, bool floats) {
    program *p = c->program;
    arena *scratch = arena_new();
    map made = {.arena = scratch};
    for (int j = 0; j < p->kernels.n; j++)
        tabulate_kernel(p->kernels.at[j], (tables){.made = &made, .t = c->target, .floats = floats});
    arena_destroy(scratch);
}

void pass_tables(pass_context *c) { tabulate(c, false); }

void pass_float_tables(pass_context *c) {
    if (is_scalar_core(c->target) && !c->target->f32) tabulate(c, true);
}
