// Dims in host code: symbols are read from the inputs' dims and checked, opaque dims are variables, and sizes
// are computed with checks for overflow.
#include "codegen/host/host_impl.h"
#include "passes/schedule/common/emit_dim.h"

// ---------------------------------------------------------------- cached values
// Dims share operands. A cached value is valid in the block in which it was computed.
typedef struct cached_value {
    const lblock *block;
    ins *v;
} cached_value;

static ins *find_cached(const host *h, const map *m, const dim *d) {
    const cached_value *c = map_get_number(m, (uint64_t)d->id);
    return c && c->block == h->b.block ? c->v : NULL;
}

static void cache_value(host *h, map *m, const dim *d, ins *v) {
    m->arena = h->builder->arena;
    cached_value *c = ARENA_NEW(m->arena, cached_value);
    *c = (cached_value){h->b.block, v};
    map_put_number(m, (uint64_t)d->id, c);
}

void host_forget_dims(host *h) {
    h->values = h->sizes = h->natural = h->read = (map){.arena = h->builder->arena};
}

void host_set_dim(host *h, const dim *d, ins *v) {
    ins *var = map_get_number(&h->atoms, (uint64_t)d->id);
    if (!var || var->op != L_VAR) diag_defect(h->builder->diag, NULL, "size '%s' is not a variable", d->name);
    lb_set(&h->b, var, v);
    if (map_get_number(&h->read, (uint64_t)d->id)) host_forget_dims(h);
}

static ins *read_variable(host *h, const dim *d, ins *var) {
    h->read.arena = h->builder->arena;
    map_put_number(&h->read, (uint64_t)d->id, var);
    return lb_get(&h->b, var);
}

static ins *known_dim(void *user, const dim *d) {
    host *h = user;
    if (d->kind != DIM_SYMBOL && d->kind != DIM_OPAQUE) return find_cached(h, &h->values, d);
    ins *v = map_get_number(&h->atoms, (uint64_t)d->id);
    if (!v)
        diag_fatal_missing(h->builder->diag, NULL,
                           "size '%s' cannot be computed from the sizes of the inputs", d->name);
    return v->op == L_VAR ? read_variable(h, d, v) : v;
}

static void keep_dim(void *user, const dim *d, ins *v) {
    host *h = user;
    cache_value(h, &h->values, d, v);
}

ins *host_dim(host *h, const dim *d) {
    return emit_dim_value(&(dim_source){&h->b, LK_I64, known_dim, keep_dim, NULL, h}, d);
}

ins *host_negative(host *h, const dim *d) {
    if (dim_is_const(d) || find_cached(h, &h->natural, d)) return NULL;
    ins *v = host_dim(h, d);
    cache_value(h, &h->natural, d, v);
    return lb_cmp(&h->b, L_SLT, v, lb_int(&h->b, i64(), 0));
}

ins *to_index(host *h, ins *v) {
    return lindex_kind(h->t) == LK_I64 ? v : lb_conv(&h->b, L_ITRUNC, LK_I32, v);
}
ins *host_index(host *h, const dim *d) { return to_index(h, host_dim(h, d)); }

// ---------------------------------------------------------------- sizes All values stay within +-max_size,
// so that sums of a few terms cannot overflow and products are easy to check.
static int64_t max_size(const host *h) { return h->t->ptr_bits == 32 ? INT32_MAX : INT64_C(1) << 46; }

static void add_condition(host *h, ins **large, ins *bad) { *large = lb_bin(&h->b, L_OR, *large, bad); }

static ins *beyond(host *h, ins *v, int64_t limit) {
    lbuild *b = &h->b;
    ins *shifted = lb_bin(b, L_ADD, v, lb_int(b, i64(), limit));
    return lb_cmp(b, L_ULT, lb_int(b, i64(), 2 * limit), shifted);
}

static ins *magnitude(host *h, ins *v) {
    ins *zero = lb_int(&h->b, i64(), 0);
    return lb_bin(&h->b, L_SMAX, v, lb_bin(&h->b, L_SUB, zero, v));
}

static ins *size_product(host *h, ins *x, ins *y, ins **large) {
    lbuild *b = &h->b;
    if (x->op == L_CONST) {
        ins *t = x;
        x = y;
        y = t;
    }
    ins *product = lb_bin(b, L_MUL, x, y);
    if (product->op == L_CONST || (y->op == L_CONST && (y->i == 0 || y->i == 1))) return product;
    if (y->op == L_CONST) {
        add_condition(h, large, beyond(h, x, max_size(h) / (y->i < 0 ? -y->i : y->i)));
    } else if (h->t->ptr_bits == 32) {
        add_condition(h, large, beyond(h, product, max_size(h)));
    } else {
        ins *divisor = lb_bin(b, L_SMAX, magnitude(h, y), lb_int(b, i64(), 1));
        add_condition(
            h, large,
            lb_cmp(b, L_SLT, lb_bin(b, L_UDIV, lb_int(b, i64(), max_size(h)), divisor), magnitude(h, x)));
    }
    return product;
}

static ins *size_sum(host *h, ins *x, ins *y, ins **large) {
    ins *sum = lb_bin(&h->b, L_ADD, x, y);
    if (sum->op != L_CONST && sum != x && sum != y) add_condition(h, large, beyond(h, sum, max_size(h)));
    return sum;
}

// The operand of a minimum (above) or maximum (below). A number beyond all sizes ("to the end") is
// not an error there, because the result is the other operand.
static ins *size_limit(host *h, const dim *d, bool above, bool below, ins **large) {
    lbuild *b = &h->b;
    ins *high = lb_int(b, i64(), max_size(h)), *low = lb_int(b, i64(), -max_size(h));
    if (d->kind == DIM_CONST && above && d->value > max_size(h)) return high;
    if (d->kind == DIM_CONST && below && d->value < -max_size(h)) return low;
    if (d->kind == DIM_MIN || d->kind == DIM_MAX) {
        bool least = d->kind == DIM_MIN;
        ins *x = size_limit(h, d->a, above || least, below || !least, large),
            *y = size_limit(h, d->b, above || least, below || !least, large);
        ins *v = emit_int_op(b, least ? X_MIN : X_MAX, x, y);
        if (!above) add_condition(h, large, lb_cmp(b, L_EQ, v, high));
        if (!below) add_condition(h, large, lb_cmp(b, L_EQ, v, low));
        return v;
    }
    if (d->kind != DIM_OPAQUE) return host_size(h, d, large);
    ins *v = host_dim(h, d);
    if (above) v = lb_bin(b, L_SMIN, v, high);
    if (below) v = lb_bin(b, L_SMAX, v, low);
    if (!above || !below) add_condition(h, large, beyond(h, v, max_size(h)));
    return v;
}

typedef struct size_source {
    host *h;
    ins **large;
} size_source;

static ins *checked_op(void *user, expr_op op, ins *x, ins *y) {
    const size_source *s = user;
    return op == X_ADD ? size_sum(s->h, x, y, s->large) : size_product(s->h, x, y, s->large);
}

static void keep_size(void *user, const dim *d, ins *v) {
    const size_source *s = user;
    cache_value(s->h, &s->h->sizes, d, v);
}

static ins *known_size(void *user, const dim *d) {
    const size_source *s = user;
    host *h = s->h;
    // Symbols were checked when they were bound.
    if (d->kind == DIM_SYMBOL || d->kind == DIM_LT || d->kind == DIM_EQ) return host_dim(h, d);
    if (d->kind == DIM_OPAQUE || d->kind == DIM_CONST) {
        ins *v = host_dim(h, d);
        add_condition(h, s->large, beyond(h, v, max_size(h)));
        return v;
    }
    ins *v = find_cached(h, &h->sizes, d);
    if (v || (d->kind != DIM_MIN && d->kind != DIM_MAX)) return v;
    v = size_limit(h, d, false, false, s->large);
    keep_size(user, d, v);
    return v;
}

ins *host_size(host *h, const dim *d, ins **large) {
    size_source s = {h, large};
    return emit_dim_value(&(dim_source){&h->b, LK_I64, known_size, keep_size, checked_op, &s}, d);
}

// ---------------------------------------------------------------- binding
static void check_range(host *h, const dim *s, ins *v, const char *where) {
    lbuild *b = &h->b;
    int64_t lo = s->min > 0 ? s->min : 0, hi = s->max < max_size(h) ? s->max : max_size(h);
    arena *a = h->builder->arena;
    const char *plain = arena_printf(a, "%s is negative or too large", where), *rule = NULL;
    if (s->max >= max_size(h) && lo)
        rule = arena_printf(a, "%s must be at least %lld, and not too large", s->name, (long long)lo);
    else if (s->max < max_size(h))
        rule = arena_printf(a, "%s must be from %lld to %lld", s->name, (long long)lo, (long long)hi);
    said m = {.first = v, .numbered = arena_printf(a, "%s is \1, which is negative or too large", where)};
    m.plain = rule ? arena_printf(a, "%s: %s", where, rule) : plain;
    if (rule) m.numbered = arena_printf(a, "%s is \1, but %s", where, rule);
    ins *below = lb_bin(b, L_SUB, v, lb_int(b, i64(), lo));
    host_fail_saying(h, lb_cmp(b, L_ULT, lb_int(b, i64(), hi - lo), below), ONNXC_BAD_DIM, &m);
}

static void bind(host *h, const dim *s, ins *v, const char *where) {
    if (map_get_number(&h->atoms, (uint64_t)s->id)) return;
    map_put_number(&h->atoms, (uint64_t)s->id, v);
    check_range(h, s, v, where);
}

void host_bind_arguments(host *h, ins *const *values) {
    interface *io = h->builder->io;
    for (int j = 0; j < io->symbols.n; j++) bind(h, io->symbols.at[j], values[j], io->arguments[j]);
}

// " (from input 'ids')", the first one with an axis of that size.
static const char *source_of(host *h, const dim *want) {
    const interface *io = h->builder->io;
    for (int j = 0; j < io->nin && want->kind == DIM_SYMBOL; j++)
        for (int i = 0; i < io->in[j].buffer->rank; i++)
            if (io->in[j].buffer->dims[i] == want)
                return arena_printf(h->builder->arena, " (from input '%s')", io->in[j].original);
    return "";
}

static void check_dim(host *h, const io_tensor *t, int axis, ins *given) {
    arena *a = h->builder->arena;
    const dim *want = t->buffer->dims[axis];
    const char *where = arena_printf(a, "input '%s': axis %d", t->original, axis), *size = dim_text(a, want);
    const char *from = source_of(h, want);
    said m = {.plain = arena_printf(a, "%s must have size %s%s", where, size, from), .first = given};
    m.numbered = dim_is_const(want) ? arena_printf(a, "%s is \1, but must be %s", where, size)
                                    : arena_printf(a, "%s is \1, but %s is \2%s", where, size, from);
    m.second = host_dim(h, want);
    host_fail_saying(h, lb_cmp(&h->b, L_NE, given, m.second), ONNXC_BAD_DIM, &m);
}

void host_bind_symbols(host *h) {
    interface *io = h->builder->io;
    int total = 0;
    for (int j = 0; j < io->nin; j++) total += io->in[j].buffer->rank;
    bool *bound = ARENA_ARRAY(h->builder->arena, bool, total + 1);
    ins **given = ARENA_ARRAY(h->builder->arena, ins *, total + 1);
    for (int j = 0; j < io->nin; j++) {
        const io_tensor *t = &io->in[j];
        for (int i = 0; i < t->buffer->rank; i++) {
            const dim *d = t->buffer->dims[i];
            int at = t->first_dim + i;
            given[at] = io_dim(h, false, j, i);
            if (d->kind != DIM_SYMBOL || map_get_number(&h->atoms, (uint64_t)d->id)) continue;
            bound[at] = true;
            bind(h, d, given[at], arena_printf(h->builder->arena, "input '%s': axis %d", t->original, i));
        }
    }
    for (int j = 0; j < io->nin; j++)
        for (int i = 0; i < io->in[j].buffer->rank; i++)
            if (!bound[io->in[j].first_dim + i]) check_dim(h, &io->in[j], i, given[io->in[j].first_dim + i]);
}

// Rejects sizes that are negative for these values of the symbols, such as a window larger than its image.
void host_check_negative(host *h) {
    program *p = h->builder->p;
    map seen = {.arena = h->builder->arena};
    for (int j = 0; j < p->buffers.n; j++) {
        const buffer *b = p->buffers.at[j];
        if (b->role != BUF_TEMP && b->role != BUF_OUTPUT) continue;
        if (dims_are_opaque(b->dims, b->rank)) continue;
        for (int i = 0; i < b->rank; i++) {
            const dim *d = b->dims[i];
            if (d->min >= 0 || map_get_number(&seen, (uint64_t)d->id)) continue;
            map_put_number(&seen, (uint64_t)d->id, (void *)"");
            const char *text =
                arena_printf(h->builder->arena, "axis %d of '%s' would have %s elements, which is negative",
                             i, b->name, dim_text(h->builder->arena, d));
            host_fail_if(h, lb_cmp(&h->b, L_SLT, host_dim(h, d), lb_int(&h->b, i64(), 0)), ONNXC_BAD_DIM,
                         text);
        }
    }
}

static void add_variable(void *user, const dim *atom) {
    host *h = user;
    if (atom->kind != DIM_OPAQUE || map_get_number(&h->atoms, (uint64_t)atom->id)) return;
    const char *name = atom->name[0] == '?' ? atom->name + 1 : atom->name;
    map_put_number(&h->atoms, (uint64_t)atom->id,
                   lb_var(&h->b, local_name(h, name, "n"), lb_int(&h->b, i64(), 0)));
}

void host_variables(host *h) {
    for (int j = 0; j < h->builder->p->variables.n; j++) add_variable(h, h->builder->p->variables.at[j]);
    step_list steps = program_steps(h->builder->arena, h->builder->p);
    for (int j = 0; j < steps.n; j++)
        if (steps.at[j].s->target) add_variable(h, steps.at[j].s->target);
}
