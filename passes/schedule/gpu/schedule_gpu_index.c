// Width of index arithmetic on GPUs, where a 64-bit integer division takes a hundred instructions. In: a
// kernel. Out: whether 32 bits suffice.
#include "compiler/base/integers.h"
#include "ir/kernel/program.h"
#include "passes/schedule/gpu/schedule_gpu_impl.h"

// Tiles and blocks exceed the extents by less than this.
enum { SLACK = 1 << 20 };
static const int64_t most = INT32_MAX - SLACK;

static bool in_range(int64_t lo, int64_t hi) { return lo >= -most && hi <= most; }

static int64_t magnitude(const dim *d) { return d->max > -d->min ? d->max : -d->min; }

static bool dim_fits(const dim *d);

static bool poly_fits(const dim *d) {
    int64_t sum = 0;
    for (int j = 0; j < d->nterms; j++) {
        const dim_term *t = &d->terms[j];
        if (!in_range(t->coef, t->coef)) return false;
        int64_t term = t->coef < 0 ? -t->coef : t->coef;
        for (int i = 0; i < t->natoms; i++) {
            if (!dim_fits(t->atoms[i])) return false;
            term *= magnitude(t->atoms[i]);
            if (term > most) return false;
        }
        if ((sum += term) > most) return false;
    }
    return true;
}

static bool dim_fits(const dim *d) {
    if (!in_range(d->min, d->max)) return false;
    if (d->kind == DIM_POLY) return poly_fits(d);
    const dim *parts[] = {d->a, d->b, d->c};
    for (int j = 0; j < 3; j++)
        if (parts[j] && !dim_fits(parts[j])) return false;
    return true;
}

static bool buffer_fits(const buffer *b) {
    for (int j = 0; j < b->rank; j++)
        if (!dim_fits(b->dims[j])) return false;
    return dim_fits(buffer_physical_count(b)) && dim_fits(buffer_bytes(b));
}

// The range of an index expression. Only arithmetic on counters and sizes has a known one.
typedef struct span {
    int64_t lo, hi;
    bool fits;
} span;

static span span_of(int64_t lo, int64_t hi) { return (span){lo, hi, in_range(lo, hi)}; }

static span span_of_operation(expr_op op, span a, span b) {
    int64_t p = a.lo * b.lo, q = a.lo * b.hi, r = a.hi * b.lo, s = a.hi * b.hi,
            size = int_max(int_max(-a.lo, a.hi), 0);
    if (op == X_ADD) return span_of(a.lo + b.lo, a.hi + b.hi);
    if (op == X_SUB) return span_of(a.lo - b.hi, a.hi - b.lo);
    if (op == X_MUL)
        return span_of(int_min(int_min(p, q), int_min(r, s)), int_max(int_max(p, q), int_max(r, s)));
    if (op == X_MIN) return span_of(int_min(a.lo, b.lo), int_min(a.hi, b.hi));
    if (op == X_MAX) return span_of(int_max(a.lo, b.lo), int_max(a.hi, b.hi));
    if (op == X_FLOORDIV) return span_of(a.lo < 0 || b.lo < 0 ? -size : 0, size);
    return span_of(b.lo < 0 ? b.lo : 0, b.hi > 0 ? b.hi : 0); // X_MOD
}

static bool is_index_op(expr_op op) {
    return op == X_ADD || op == X_SUB || op == X_MUL || op == X_FLOORDIV || op == X_MOD || op == X_MIN ||
           op == X_MAX;
}

static span index_span(const kernel *k, const expr *x) {
    if (x->op == X_CONST) return span_of(x->i, x->i);
    if (x->op == X_DIM) return dim_fits(x->dim) ? span_of(x->dim->min, x->dim->max) : (span){0};
    if (x->op == X_AXIS) return span_of(0, k->axes.at[x->axis].extent->max);
    // Computed in 64 bits and clamped before it is truncated.
    bool clamped = x->op == X_CHECK && x->arg[0]->op == X_MAX && x->arg[0]->arg[0]->op == X_MIN &&
                   x->arg[0]->arg[1]->op == X_CONST;
    if (clamped) return span_of_operation(X_MAX, (span){0}, index_span(k, x->arg[0]->arg[0]->arg[1]));
    if (!is_index_op(x->op)) return (span){0};
    span a = index_span(k, x->arg[0]), b = index_span(k, x->arg[1]);
    return a.fits && b.fits ? span_of_operation(x->op, a, b) : (span){0};
}

// Whether the layout is only a permutation of axes.
static bool is_permuted(const buffer *b) {
    const layout *l = b->layout;
    if (l && (l->n != b->rank || l->gap)) return false;
    for (int j = 0; l && j < b->rank; j++)
        if (l->order[j].tile || l->pad_lo[j] || l->pad_hi[j]) return false;
    return true;
}

static bool access_fits(const kernel *k, const buffer *b, expr *const *index) {
    int64_t stride = 1, offset = 0;
    if (!is_permuted(b) || !buffer_fits(b)) return false;
    for (int place = b->rank - 1; place >= 0; place--) {
        int j = b->layout ? b->layout->order[place].axis : place;
        span s = index_span(k, index[j]);
        if (!s.fits) return false;
        offset += int_max(-s.lo, s.hi) * stride;
        if (offset > most / 2) return false; // halves of complex numbers are addressed
        stride *= int_max(b->dims[j]->max, 1);
    }
    return true;
}

static bool stage_fits(const kernel *k, const stage *s) {
    expr_list all = stage_nodes(k->arena, s, PART_ALL);
    for (int j = 0; j < all.n; j++) {
        const expr *x = all.at[j];
        if (x->op == X_DIM && !dim_fits(x->dim)) return false;
        if (x->op == X_READ && !access_fits(k, x->buffer, x->index)) return false;
    }
    for (int j = 0; j < s->writes.n; j++)
        if (!access_fits(k, s->writes.at[j].to, s->writes.at[j].index)) return false;
    return true;
}

// Positions of all axes of a stage are flattened, and so are positions of the outer axes.
static bool positions_fit(const emitter *e) {
    int all[MAX_AXES], n = 0;
    const kernel *k = e->k;
    if (k->axes.n > MAX_AXES) return false;
    for (int a = 0; a < k->axes.n; a++)
        if (!dim_fits(k->axes.at[a].extent)) return false;
    for (int a = 0; a < k->nouter; a++) all[n++] = a;
    if (!dim_fits(gpu_product_of(e, all, n))) return false;
    for (int s = 0; s < k->stages.n; s++) {
        const stage *st = k->stages.at[s];
        int parallel = k->stages.n == 1 ? k->nouter : 0, inner[MAX_AXES], reduced = 0;
        for (int j = 0; j < st->axes.n; j++)
            if (k->axes.at[st->axes.at[j]].kind == AXIS_PARALLEL) all[parallel++] = st->axes.at[j];
            else inner[reduced++] = st->axes.at[j];
        if (!dim_fits(gpu_product_of(e, all, parallel)) || !dim_fits(gpu_product_of(e, inner, reduced)))
            return false;
    }
    return true;
}

static bool scratch_fits(const emitter *e) {
    const kernel *k = e->k;
    int outer[MAX_AXES];
    dim *bytes = dim_const(k->program->dims, 0);
    for (int j = 0; j < k->locals.n; j++) {
        if (!buffer_fits(k->locals.at[j])) return false;
        bytes = dim_addk(dim_add(bytes, buffer_bytes(k->locals.at[j])), 64);
    }
    for (int a = 0; a < k->nouter; a++) outer[a] = a;
    return dim_fits(dim_mul(bytes, gpu_product_of(e, outer, k->nouter)));
}

bool gpu_index_fits_32(const emitter *e) {
    if (!positions_fit(e) || !scratch_fits(e)) return false;
    for (int s = 0; s < e->k->stages.n; s++)
        if (!stage_fits(e->k, e->k->stages.at[s])) return false;
    return true;
}
