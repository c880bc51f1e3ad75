// Dims in host code: symbols are read from the inputs' dims and checked, opaque dims are variables, sizes are
// computed so that no overflow passes unseen.
#include "codegen/host/host_impl.h"
#include "passes/schedule/common/emit_dim.h"

// ---------------------------------------------------------------- kept values
// Dims share parts. A value that was computed serves again in the block where it is.
typedef struct kept_value {
    const lblock *block;
    ins *v;
} kept_value;

static ins *find_kept(const host *h, const map *m, const dim *d) {
    const kept_value *k = map_get_number(m, (uint64_t)d->id);
    return k && k->block == h->b.block ? k->v : NULL;
}

static void keep_value(host *h, map *m, const dim *d, ins *v) {
    m->arena = h->all->arena;
    kept_value *k = ARENA_NEW(m->arena, kept_value);
    *k = (kept_value){h->b.block, v};
    map_put_number(m, (uint64_t)d->id, k);
}

void host_forget_dims(host *h) { h->kept = h->sized = (map){.arena = h->all->arena}; }

static ins *known_dim(void *user, const dim *d) {
    host *h = user;
    if (d->kind != DIM_SYMBOL && d->kind != DIM_OPAQUE) return find_kept(h, &h->kept, d);
    ins *v = map_get_number(&h->atoms, (uint64_t)d->id);
    if (!v) diag_fatal_missing(h->all->diag, NULL, "size '%s' does not follow from any input", d->name);
    return v->op == L_VAR ? lb_get(&h->b, v) : v;
}

static void keep_dim(void *user, const dim *d, ins *v) {
    host *h = user;
    keep_value(h, &h->kept, d, v);
}

ins *host_dim(host *h, const dim *d) {
    return emit_dim_value(&(dim_source){&h->b, LK_I64, known_dim, keep_dim, h}, d);
}

ins *to_index(host *h, ins *v) {
    return lindex_kind(h->t) == LK_I64 ? v : lb_conv(&h->b, L_ITRUNC, LK_I32, v);
}
ins *host_index(host *h, const dim *d) { return to_index(h, host_dim(h, d)); }

// ---------------------------------------------------------------- sizes
// Everything stays within +-most, so that sums of a few terms cannot overflow and products are easy to check.
static int64_t most(const host *h) { return h->t->ptr_bits == 32 ? INT32_MAX : INT64_C(1) << 46; }

static void note(host *h, ins **large, ins *bad) { *large = lb_bin(&h->b, L_OR, *large, bad); }

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
        x = y, y = t;
    }
    ins *product = lb_bin(b, L_MUL, x, y);
    if (product->op == L_CONST || (y->op == L_CONST && (y->i == 0 || y->i == 1))) return product;
    if (y->op == L_CONST) {
        note(h, large, beyond(h, x, most(h) / (y->i < 0 ? -y->i : y->i)));
    } else if (h->t->ptr_bits == 32) {
        note(h, large, beyond(h, product, most(h)));
    } else {
        ins *divisor = lb_bin(b, L_SMAX, magnitude(h, y), lb_int(b, i64(), 1));
        note(h, large,
             lb_cmp(b, L_SLT, lb_bin(b, L_UDIV, lb_int(b, i64(), most(h)), divisor), magnitude(h, x)));
    }
    return product;
}

static ins *size_sum(host *h, ins *x, ins *y, ins **large) {
    ins *sum = lb_bin(&h->b, L_ADD, x, y);
    if (sum->op != L_CONST && sum != x && sum != y) note(h, large, beyond(h, sum, most(h)));
    return sum;
}

static ins *size_poly(host *h, const dim *d, ins **large) {
    ins *sum = lb_int(&h->b, i64(), 0);
    for (int j = 0; j < d->nterms; j++) {
        ins *term = lb_int(&h->b, i64(), 1);
        for (int i = 0; i < d->terms[j].natoms; i++)
            term = size_product(h, term, host_size(h, d->terms[j].atoms[i], large), large);
        term = size_product(h, term, lb_int(&h->b, i64(), d->terms[j].coef), large);
        sum = size_sum(h, sum, term, large);
    }
    return sum;
}

// A value of which a minimum (above) or maximum (below) is taken: a number that is beyond all sizes ("as many
// as there are") is no error there, as the other operand counts then.
static ins *size_limit(host *h, const dim *d, bool above, bool below, ins **large) {
    lbuild *b = &h->b;
    ins *high = lb_int(b, i64(), most(h)), *low = lb_int(b, i64(), -most(h));
    if (d->kind == DIM_CONST && above && d->value > most(h)) return high;
    if (d->kind == DIM_CONST && below && d->value < -most(h)) return low;
    if (d->kind == DIM_MIN || d->kind == DIM_MAX) {
        bool least = d->kind == DIM_MIN;
        ins *x = size_limit(h, d->a, above || least, below || !least, large),
            *y = size_limit(h, d->b, above || least, below || !least, large);
        ins *v = emit_int_op(b, least ? X_MIN : X_MAX, x, y);
        if (!above) note(h, large, lb_cmp(b, L_EQ, v, high));
        if (!below) note(h, large, lb_cmp(b, L_EQ, v, low));
        return v;
    }
    if (d->kind != DIM_OPAQUE) return host_size(h, d, large);
    ins *v = host_dim(h, d);
    if (above) v = lb_bin(b, L_SMIN, v, high);
    if (below) v = lb_bin(b, L_SMAX, v, low);
    if (!above || !below) note(h, large, beyond(h, v, most(h)));
    return v;
}

static ins *compute_size(host *h, const dim *d, ins **large) {
    lbuild *b = &h->b;
    static const expr_op op[] = {[DIM_FLOORDIV] = X_FLOORDIV, [DIM_MOD] = X_MOD};
    switch (d->kind) {
    case DIM_CONST:
        if (d->value > most(h) || d->value < -most(h)) *large = lb_int(b, lt(LK_I1, 1), 1);
        return lb_int(b, i64(), d->value);
    case DIM_SYMBOL: return host_dim(h, d); // checked when it was bound
    case DIM_OPAQUE: {
        ins *v = host_dim(h, d);
        note(h, large, beyond(h, v, most(h)));
        return v;
    }
    case DIM_POLY: return size_poly(h, d, large);
    case DIM_BIGSUM: return size_sum(h, host_size(h, d->a, large), host_size(h, d->b, large), large);
    case DIM_BIGMUL: return size_product(h, host_size(h, d->a, large), host_size(h, d->b, large), large);
    case DIM_LT:
    case DIM_EQ: return host_dim(h, d);
    case DIM_SELECT: {
        ins *c = lb_cmp(b, L_NE, host_size(h, d->c, large), lb_int(b, i64(), 0));
        return lb_select(b, c, host_size(h, d->a, large), host_size(h, d->b, large));
    }
    case DIM_MIN:
    case DIM_MAX: return size_limit(h, d, false, false, large);
    case DIM_FLOORDIV:
    case DIM_MOD: {
        ins *x = host_size(h, d->a, large);
        return emit_int_op(b, op[d->kind], x, host_size(h, d->b, large));
    }
    case DIM_OVERFLOW: break;
    }
    diag_fatal(h->all->diag, NULL, "the model needs more memory than any machine has");
}

ins *host_size(host *h, const dim *d, ins **large) {
    bool simple = d->kind == DIM_CONST || d->kind == DIM_SYMBOL || d->kind == DIM_OPAQUE;
    ins *v = simple ? NULL : find_kept(h, &h->sized, d);
    if (v) return v;
    v = compute_size(h, d, large);
    if (!simple) keep_value(h, &h->sized, d, v);
    return v;
}

// ---------------------------------------------------------------- binding
static void check_range(host *h, const dim *s, ins *v, const char *where) {
    lbuild *b = &h->b;
    int64_t lo = s->min > 0 ? s->min : 0, hi = s->max < most(h) ? s->max : most(h);
    arena *a = h->all->arena;
    const char *text = s->max < most(h) || lo ? arena_printf(a, "%s: %s must be from %lld to %lld", where,
                                                             s->name, (long long)lo, (long long)hi)
                                              : arena_printf(a, "%s is negative or too large", where);
    ins *below = lb_bin(b, L_SUB, v, lb_int(b, i64(), lo));
    host_fail_if(h, lb_cmp(b, L_ULT, lb_int(b, i64(), hi - lo), below), ONNXC_BAD_DIM, text);
}

static void bind(host *h, const dim *s, ins *v, const char *where) {
    if (map_get_number(&h->atoms, (uint64_t)s->id)) return;
    map_put_number(&h->atoms, (uint64_t)s->id, v);
    check_range(h, s, v, where);
}

void host_bind_arguments(host *h, ins *const *values) {
    interface *io = h->all->io;
    for (int j = 0; j < io->symbols.n; j++) bind(h, io->symbols.at[j], values[j], io->arguments[j]);
}

static void check_dim(host *h, const io_tensor *t, int axis, ins *given) {
    const dim *want = t->buffer->dims[axis];
    const char *text = arena_printf(h->all->arena, "input '%s': axis %d must have size %s", t->original, axis,
                                    dim_text(h->all->arena, want));
    host_fail_if(h, lb_cmp(&h->b, L_NE, given, host_dim(h, want)), ONNXC_BAD_DIM, text);
}

void host_bind_symbols(host *h, ins *(*dim_of)(host *, int input, int axis)) {
    interface *io = h->all->io;
    int total = 0;
    for (int j = 0; j < io->nin; j++) total += io->in[j].buffer->rank;
    bool *bound = ARENA_ARRAY(h->all->arena, bool, total + 1);
    ins **given = ARENA_ARRAY(h->all->arena, ins *, total + 1);
    for (int j = 0; j < io->nin; j++) {
        const io_tensor *t = &io->in[j];
        for (int i = 0; i < t->buffer->rank; i++) {
            const dim *d = t->buffer->dims[i];
            int at = t->first_dim + i;
            given[at] = dim_of(h, j, i);
            if (d->kind != DIM_SYMBOL || map_get_number(&h->atoms, (uint64_t)d->id)) continue;
            bound[at] = true;
            bind(h, d, given[at], arena_printf(h->all->arena, "input '%s': axis %d", t->original, i));
        }
    }
    for (int j = 0; j < io->nin; j++)
        for (int i = 0; i < io->in[j].buffer->rank; i++)
            if (!bound[io->in[j].first_dim + i]) check_dim(h, &io->in[j], i, given[io->in[j].first_dim + i]);
}

// Sizes that come out negative for some values of the symbols: a window larger than its image.
void host_check_negative(host *h) {
    program *p = h->all->p;
    map seen = {.arena = h->all->arena};
    for (int j = 0; j < p->buffers.n; j++) {
        const buffer *b = p->buffers.at[j];
        if (b->role != BUF_TEMP && b->role != BUF_OUTPUT) continue;
        if (dims_are_opaque(b->dims, b->rank)) continue;
        for (int i = 0; i < b->rank; i++) {
            const dim *d = b->dims[i];
            if (d->min >= 0 || map_get_number(&seen, (uint64_t)d->id)) continue;
            map_put_number(&seen, (uint64_t)d->id, (void *)"");
            const char *text =
                arena_printf(h->all->arena, "axis %d of '%s' would have %s elements, which is negative", i,
                             b->name, dim_text(h->all->arena, d));
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
                   lb_var(&h->b, c_identifier(h->all->arena, name, "n"), lb_int(&h->b, i64(), 0)));
}

void host_variables(host *h) {
    for (int j = 0; j < h->all->p->variables.n; j++) add_variable(h, h->all->p->variables.at[j]);
    step_list steps = program_steps(h->all->arena, h->all->p);
    for (int j = 0; j < steps.n; j++)
        if (steps.at[j].s->target) add_variable(h, steps.at[j].s->target);
}
