// Resize, and Upsample, which is upgraded to it. The image has any rank; scales or sizes may be known only at
// run time. For each axis that changes, last one first:
//
//   x(i) = the position of output i on the input's axis               in double, once per i
//   first[i] = the first of its neighbours, weight[i, t] = the weight of neighbour first[i] + t
//   out[.., i, ..] = sum over t of weight[i, t] * in[.., clamp(first[i] + t), ..]
//
// Nearest neighbours of all axes are one kernel: out[i...] = in[nearest(i)...].
#include "ir/ops/control/control.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/runtime_args.h"
#include <math.h>
#include <string.h>

enum { IN_X, IN_ROI, IN_SCALES, IN_SIZES };
enum { UNROLLED_TAPS = 4 };

typedef enum interpolation { NEAREST, LINEAR, CUBIC } interpolation;
typedef enum transformation {
    HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    CROP_AND_RESIZE,
    HALF_PIXEL_FOR_NN, // versions 11 to 12
} transformation;
typedef enum rounding { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL, SIMPLE /* before version 11 */ } rounding;

static const char interpolations[] = "nearest linear cubic";
static const char transformations[] =
    "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric"
    " tf_crop_and_resize tf_half_pixel_for_nn";
static const char roundings[] = "round_prefer_floor round_prefer_ceil floor ceil simple", simple[] = "simple";

// ---------------------------------------------------------------- sizes
// One axis of the image. Its scale is a number, a quotient of sizes, or an element of the input scales.
typedef struct resized {
    dim *in, *out;
    bool listed;       // among the axes to which the arguments refer
    int argument;      // position in the arguments
    bool known;        // the scale is `scale`
    double scale;      // a float
    dim *over, *under; // the scale is over / under; NULL: it is no such quotient
} resized;

typedef struct image {
    int rank, count; // count: axes to which the arguments refer
    resized axis[MAX_RANK];
    bool by_sizes;
} image;

// Whether the argument is given: older exporters leave it empty.
static bool is_given(const node *n, int i) {
    if (!node_in(n, i)) return false;
    const type *t = infer_in(n, i);
    return !(t->rank == 1 && dim_is(t->dims[0], 0));
}

static void list_axes(const node *n, image *m) {
    int count;
    const int64_t *axes = node_ints(n, "axes", &count);
    m->count = axes && count ? count : m->rank;
    if (m->count > m->rank)
        infer_error(n, "attribute axes has %d values, the input has rank %d", count, m->rank);
    for (int j = 0; j < m->count; j++) {
        int a = axes && count ? infer_axis(n, axes[j], m->rank) : j;
        if (m->axis[a].listed) infer_error(n, "attribute axes names axis %d twice", a);
        m->axis[a].listed = true;
        m->axis[a].argument = j;
    }
}

// The fraction with a small denominator that rounds to f: 0.7f is taken as 7 / 10.
static bool small_fraction(float f, int64_t *over, int64_t *under) {
    for (*under = 1; *under <= 1024; ++*under) {
        *over = llrint((double)f * (double)*under);
        if ((float)((double)*over / (double)*under) == f) return true;
    }
    return false;
}

// floor(in * scale), in float arithmetic if in is constant.
static dim *scaled_size(dim *in, double scale) {
    int64_t over, under = 1;
    if (scale == 1) return in;
    if (dim_is_const(in)) return dim_const(in->table, (int64_t)floorf((float)dim_value(in) * (float)scale));
    if (!small_fraction((float)scale, &over, &under)) {
        int exponent;
        double mantissa = frexp(scale, &exponent);
        under = 1, over = (int64_t)ldexp(mantissa, 24);
        for (exponent -= 24; exponent < 0 && under < INT64_C(1) << 40; exponent++) under *= 2;
        over = exponent < 0 ? 0 : over << (exponent < 20 ? exponent : 20);
    }
    return dim_floordiv(dim_mulk(in, over), dim_const(in->table, under));
}

static void scale_axes(const node *n, image *m, const constant *scales) {
    for (int a = 0; a < m->rank; a++) {
        resized *r = &m->axis[a];
        if (!r->listed || !scales) continue;
        r->known = true;
        r->scale = constant_float(scales, r->argument);
        if (!(r->scale > 0) || !(r->scale <= 0x1p20))
            infer_error(n, "the scale of axis %d is %g; it must be positive", a, r->scale);
        r->out = scaled_size(r->in, r->scale);
    }
}

// Sets all scales to the smallest (or largest) sizes[j] / in[j].
static void keep_aspect(image *m, dim *const *sizes, bool smallest) {
    dim *over = NULL, *under = NULL;
    for (int a = 0; a < m->rank; a++) {
        const resized *r = &m->axis[a];
        if (!r->listed) continue;
        dim *size = sizes[r->argument];
        dim *left = over ? dim_mul(size, under) : NULL, *right = over ? dim_mul(over, r->in) : NULL;
        dim *takes = !over ? dim_const(size->table, 1) : smallest ? dim_lt(left, right) : dim_lt(right, left);
        over = over ? dim_select(takes, size, over) : size;
        under = under ? dim_select(takes, r->in, under) : r->in;
    }
    for (int a = 0; a < m->rank; a++) {
        resized *r = &m->axis[a];
        if (!r->listed) continue;
        r->over = over, r->under = under;
        r->out = dim_floordiv(dim_add(dim_mulk(dim_mul(over, r->in), 2), under), dim_mulk(under, 2));
    }
}

static void size_axes(const node *n, image *m, dim *const *sizes) {
    enum { STRETCH, NOT_LARGER, NOT_SMALLER };
    int policy = node_choice(n, "keep_aspect_ratio_policy", "stretch not_larger not_smaller");
    m->by_sizes = true;
    if (policy != STRETCH) {
        keep_aspect(m, sizes, policy == NOT_LARGER);
        return;
    }
    for (int a = 0; a < m->rank; a++) {
        resized *r = &m->axis[a];
        if (!r->listed) continue;
        r->out = r->over = sizes[r->argument];
        r->under = r->in;
        if (r->out->max < 0) infer_error(n, "the size of axis %d is negative", a);
    }
}

static void check_count(const node *n, const image *m, int i, int times, const char *what) {
    if (!is_given(n, i)) return;
    if (infer_rank(n, i) != 1) infer_error(n, "%s must be a list, but has rank %d", what, infer_rank(n, i));
    infer_same_dim(n, infer_in(n, i)->dims[0], infer_k(n, m->count * times),
                   arena_printf(infer_arena(n), "length of %s", what));
}

// The image as known to inference. Sizes that depend on scales known only at run time stay NULL. False: not
// even the number of arguments is known.
static bool image_of(node *n, image *m) {
    const type *x = infer_in(n, IN_X);
    *m = (image){.rank = infer_rank(n, IN_X)};
    for (int a = 0; a < m->rank; a++) m->axis[a].in = x->dims[a];
    list_axes(n, m);
    bool scales = is_given(n, IN_SCALES), sizes = is_given(n, IN_SIZES);
    if (scales && sizes) infer_error(n, "scales and sizes are both given");
    if (!scales && !sizes) infer_error(n, "neither scales nor sizes is given");
    check_count(n, m, IN_ROI, 2, "roi");
    check_count(n, m, scales ? IN_SCALES : IN_SIZES, 1, scales ? "scales" : "sizes");
    for (int a = 0; a < m->rank; a++) {
        resized *r = &m->axis[a];
        if (!r->listed) r->known = true, r->scale = 1, r->out = r->in;
    }
    if (scales) {
        scale_axes(n, m, infer_constant(n, IN_SCALES));
        return true;
    }
    dim **wanted;
    int count;
    if (!infer_argument(n, IN_SIZES, m->count, &wanted, &count, x->elem)) return false;
    size_axes(n, m, wanted);
    return true;
}

static void resize_infer(node *n) {
    image m;
    node_choice(n, "nearest_mode", roundings);
    int mode = node_choice(n, "mode", interpolations);
    if (mode == NEAREST && node_int(n, "antialias", 0))
        infer_error(n, "attribute antialias is for modes linear and cubic");
    bool crop = node_choice(n, "coordinate_transformation_mode", transformations) == CROP_AND_RESIZE;
    if (crop && !is_given(n, IN_ROI)) infer_error(n, "tf_crop_and_resize needs input roi");
    if (mode != NEAREST && infer_in(n, IN_X)->elem == DT_STRING)
        infer_error(n, "strings cannot be interpolated: mode must be nearest, not %s",
                    node_string(n, "mode", "nearest"));
    if (!image_of(n, &m)) return;
    dim *dims[MAX_RANK];
    for (int a = 0; a < m.rank; a++) {
        dim *own = infer_unknown_dim(n, "resized", NULL);
        dims[a] = m.axis[a].out ? m.axis[a].out : own;
    }
    infer_set(n, 0, infer_in(n, IN_X)->elem, m.rank, dims);
}

// ---------------------------------------------------------------- positions
typedef struct resize {
    lowering *l;
    node *n;
    image m;
    interpolation mode;
    transformation how;
    bool antialias, exclude_outside;
    buffer *roi, *scales;
} resize;

static expr *f64(kernel *k, double v) { return x_float(k, DT_F64, v); }
static expr *f64_of(kernel *k, expr *i) { return x_cast(k, i, DT_F64, false); }

static expr *scale_of(const resize *z, kernel *k, const resized *r) {
    if (r->known) return f64(k, r->scale);
    if (r->over && r->over == r->under) return f64(k, 1);
    if (r->over) return x_div(k, f64_of(k, x_dim(k, r->over)), f64_of(k, x_dim(k, r->under)));
    expr *at = x_i64(k, r->argument);
    return f64_of(k, x_read(k, z->scales, &at));
}

static expr *read_roi(const resize *z, kernel *k, int place) {
    expr *at = x_i64(k, place);
    return f64_of(k, x_cast(k, x_read(k, z->roi, &at), DT_F32, false));
}

// With aligned corners: i * span / (width - 1) + start if width is not 1, else middle.
static expr *between(kernel *k, expr *i, expr *width, expr *span, expr *middle) {
    expr *one = f64(k, 1), *at = x_div(k, x_mul(k, i, span), x_sub(k, width, one));
    return x_select(k, x_bin(k, X_EQ, width, one), middle, at);
}

// The position on the input's axis for position i (int64) on the output's.
static expr *position(const resize *z, kernel *k, const resized *r, expr *i) {
    expr *at = f64_of(k, i), *half = f64(k, 0.5), *scale = scale_of(z, k, r);
    expr *in = f64_of(k, x_dim(k, r->in)), *out = f64_of(k, x_dim(k, r->out));
    expr *width =
        r->over && r->out == r->over ? out : x_mul(k, scale, in); // of the output, possibly fractional
    expr *centre = x_sub(k, x_div(k, x_add(k, at, half), scale), half), *last = x_sub(k, in, f64(k, 1));
    switch (z->how) {
    case HALF_PIXEL: return centre;
    case HALF_PIXEL_SYMMETRIC: {
        // The standard's in / 2 (1 - out / (in scale)) + (at + 1 / 2) / scale - 1 / 2, in which whole positions stay whole.
        expr *from_middle = x_sub(k, at, x_mul(k, x_sub(k, out, f64(k, 1)), half));
        return x_add(k, x_mul(k, last, half), x_div(k, from_middle, scale));
    }
    case PYTORCH_HALF_PIXEL: return x_select(k, x_lt(k, f64(k, 1), out), centre, f64(k, 0));
    case ALIGN_CORNERS: return between(k, at, width, last, f64(k, 0));
    case ASYMMETRIC: return x_div(k, at, scale);
    case HALF_PIXEL_FOR_NN: return x_div(k, x_add(k, at, half), scale);
    case CROP_AND_RESIZE: {
        if (!r->listed) return at;
        expr *start = read_roi(z, k, r->argument), *end = read_roi(z, k, z->m.count + r->argument);
        expr *span = x_mul(k, x_sub(k, end, start), last);
        at = x_add(k, between(k, at, width, span, x_mul(k, span, half)), x_mul(k, start, last));
        // Rounded once, to float: halves such as 0.3f * 5 are exact, and a region that ends at 1 ends at the last element.
        return f64_of(k, x_cast(k, at, DT_F32, false));
    }
    }
    return at;
}

// Whether the axis certainly keeps its elements.
static bool stays(const resize *z, const resized *r) {
    if (!r->listed) return true;
    if (z->how == CROP_AND_RESIZE) return false;
    return r->known ? r->scale == 1 : r->over && r->over == r->under;
}

static const char *numbered(const resize *z, const char *what, int axis) {
    return arena_printf(z->l->program->arena, "%s%d", what, axis);
}

// A stage that computes a table over the output's positions on an axis.
static stage *table_stage(const resize *z, const char *what, int axis, buffer *table, kernel **k, expr **at) {
    return suffixed_stage(z->l, z->n, numbered(z, what, axis), table, k, at);
}

static buffer *new_table(const resize *z, const char *what, int axis, dtype t) {
    return lower_temp(z->l, z->n, numbered(z, what, axis), t, 1, &z->m.axis[axis].out);
}

// outside[i]: whether x(i) is outside the input's axis. NULL if that makes no difference.
static buffer *outside_table(const resize *z, int axis) {
    const resized *r = &z->m.axis[axis];
    if (z->how != CROP_AND_RESIZE || !r->listed) return NULL;
    buffer *table = new_table(z, "outside", axis, DT_BOOL);
    kernel *k;
    expr *i;
    stage *s = table_stage(z, "outside", axis, table, &k, &i);
    expr *x = position(z, k, r, i), *last = f64_of(k, x_dim(k, dim_addk(r->in, -1)));
    stage_write(k, s, table, &i, x_bin(k, X_OR, x_lt(k, x, f64(k, 0)), x_lt(k, last, x)));
    return table;
}

// ---------------------------------------------------------------- nearest
static expr *rounded(const resize *z, kernel *k, const resized *r, expr *x) {
    expr *half = f64(k, 0.5);
    switch ((rounding)node_choice(z->n, "nearest_mode", roundings)) {
    case PREFER_FLOOR: return x_un(k, X_CEIL, x_sub(k, x, half));
    case PREFER_CEIL: return x_un(k, X_FLOOR, x_add(k, x, half));
    case FLOOR: return x_un(k, X_FLOOR, x);
    case CEIL: return x_un(k, X_CEIL, x);
    case SIMPLE: {
        expr *shrinks = x_lt(k, scale_of(z, k, r), f64(k, 1));
        return x_select(k, shrinks, x_un(k, X_CEIL, x), x_un(k, X_FLOOR, x));
    }
    }
    return x;
}

// The integer by which the axis grows; 0: none.
static int64_t whole_factor(const resized *r) {
    if (r->over && dim_is_const(r->in) && dim_is_const(r->out) && r->out == r->over && dim_value(r->in) > 0 &&
        dim_value(r->out) % dim_value(r->in) == 0)
        return dim_value(r->out) / dim_value(r->in);
    return r->known && r->scale == floor(r->scale) ? (int64_t)r->scale : 0;
}

// The integer by which elements of the axis are merely repeated; 0 if they are not.
static int64_t repeats(const resize *z, const resized *r) {
    int64_t times = whole_factor(r);
    int mode = node_choice(z->n, "nearest_mode", roundings);
    bool nearest = mode == PREFER_FLOOR || mode == PREFER_CEIL, down = mode == FLOOR || mode == SIMPLE;
    return (z->how == HALF_PIXEL && nearest) || (z->how == ASYMMETRIC && down) ? times : 0;
}

// k, if the axis shrinks by a whole factor k and positions k * i, or k * i + (k - 1) / 2, are exact: k is a power of two.
static int64_t skips(const resize *z, const resized *r) {
    enum { SHIFT_MOST = 20 };
    for (int64_t k = 2; k <= 1 << SHIFT_MOST; k *= 2) {
        bool scaled = r->known && r->scale * (double)k == 1, sized = r->over && dim_is_const(r->in);
        sized = sized && dim_is_const(r->out) && r->out == r->over;
        if (scaled || (sized && dim_value(r->in) == k * dim_value(r->out)))
            return z->how == HALF_PIXEL || z->how == ASYMMETRIC ? k : 0;
    }
    return 0;
}

// The neighbour below position (k - 1) / 2 of every k elements, or the one above.
static int64_t middle(const resize *z, int64_t k, bool above) {
    return z->how == ASYMMETRIC ? 0 : above ? k / 2 : k / 2 - 1;
}

static expr *skipping(kernel *k, expr *i, int64_t times, int64_t first) {
    return x_add(k, x_mul(k, i, x_i64(k, times)), x_i64(k, first));
}

static bool rounds_up(const resize *z) {
    rounding r = (rounding)node_choice(z->n, "nearest_mode", roundings);
    return r != PREFER_FLOOR && r != FLOOR;
}

static buffer *nearest_table(const resize *z, int axis) {
    const resized *r = &z->m.axis[axis];
    buffer *table = new_table(z, "nearest", axis, DT_I64);
    kernel *k;
    expr *i;
    stage *s = table_stage(z, "nearest", axis, table, &k, &i);
    expr *near = x_cast(k, rounded(z, k, r, position(z, k, r, i)), DT_I64, true);
    stage_write(k, s, table, &i, x_clamped(k, near, r->in));
    return table;
}

static expr *extrapolated(const resize *z, kernel *k, buffer *const *outside, expr *const *at, expr *v) {
    bool strings = z->n->in[IN_X]->type.elem == DT_STRING;
    expr *any = NULL, *fill = x_number(k, v->dtype, strings ? 0 : node_float(z->n, "extrapolation_value", 0));
    if (dtype_class_of(z->n->in[IN_X]->type.elem) == DC_COMPLEX) // a real number
        fill = x_select(k, x_bin(k, X_EQ, at[z->m.rank], x_i64(k, 0)), fill, x_zero(k, v->dtype));
    for (int a = 0; a < z->m.rank; a++) {
        expr *one = outside[a] ? x_read(k, outside[a], &at[a]) : NULL;
        if (one) any = any ? x_bin(k, X_OR, any, one) : one;
    }
    return any ? x_select(k, any, fill, v) : v;
}

static void lower_nearest(resize *z, buffer *x, buffer *out) {
    buffer *table[MAX_RANK] = {NULL}, *outside[MAX_RANK];
    for (int a = 0; a < z->m.rank; a++) {
        const resized *r = &z->m.axis[a];
        if (!stays(z, r) && !repeats(z, r) && !skips(z, r)) table[a] = nearest_table(z, a);
        outside[a] = outside_table(z, a);
    }
    kernel *k;
    expr *at[MAX_RANK], *from[MAX_RANK];
    stage *s = pointwise_stage(z->l, z->n, out, &k, at);
    memcpy(from, at, (size_t)out->rank * sizeof *from);
    for (int a = 0; a < z->m.rank; a++) {
        int64_t times = repeats(z, &z->m.axis[a]), every = skips(z, &z->m.axis[a]);
        from[a] = at[a];
        if (every) from[a] = skipping(k, at[a], every, middle(z, every, rounds_up(z)));
        else if (table[a]) from[a] = x_clamped(k, x_read(k, table[a], &at[a]), x->dims[a]);
        else if (!stays(z, &z->m.axis[a])) from[a] = x_bin(k, X_FLOORDIV, at[a], x_i64(k, times));
    }
    stage_write(k, s, out, at, extrapolated(z, k, outside, at, x_read(k, x, from)));
}

// ---------------------------------------------------------------- linear and cubic
static int64_t support(const resize *z) { return z->mode == LINEAR ? 1 : 2; }

// The number of neighbours: twice support / min(scale, 1), rounded up. NULL: known only at run time.
static dim *taps_of(const resize *z, const resized *r) {
    dims *t = z->l->program->dims;
    int64_t least = 2 * support(z);
    if (!z->antialias) return dim_const(t, least);
    if (r->known)
        return dim_const(t, r->scale < 1 ? 2 * (int64_t)ceil((double)support(z) / r->scale) : least);
    if (!r->over) return NULL;
    dim *stretched =
        dim_mulk(dim_ceildiv(dim_mulk(r->under, support(z)), dim_max(r->over, dim_const(t, 1))), 2);
    return dim_max(stretched, dim_const(t, least));
}

// The factor that widens the filter for antialiasing: min(scale, 1).
static expr *narrowing(const resize *z, kernel *k, const resized *r) {
    return z->antialias ? x_bin(k, X_MIN, scale_of(z, k, r), f64(k, 1)) : f64(k, 1);
}

// The filter at distance d >= 0.
static expr *filter(const resize *z, kernel *k, expr *d) {
    expr *one = f64(k, 1), *zero = f64(k, 0);
    if (z->mode == LINEAR) return x_bin(k, X_MAX, x_sub(k, one, d), zero);
    double a = node_float(z->n, "cubic_coeff_a", -0.75);
    // ((a + 2) d - (a + 3)) d d + 1, and ((a d - 5 a) d + 8 a) d - 4 a beyond 1
    expr *near = x_sub(k, x_mul(k, f64(k, a + 2), d), f64(k, a + 3));
    near = x_add(k, x_mul(k, x_mul(k, near, d), d), one);
    expr *far = x_sub(k, x_mul(k, f64(k, a), d), f64(k, 5 * a));
    far = x_sub(k, x_mul(k, x_add(k, x_mul(k, far, d), f64(k, 8 * a)), d), f64(k, 4 * a));
    return x_select(k, x_bin(k, X_LE, d, one), near, x_select(k, x_lt(k, d, f64(k, 2)), far, zero));
}

// The first neighbour of output i: ceil(x) - taps / 2.
static expr *first_neighbour(const resize *z, kernel *k, const resized *r, dim *taps, expr *i) {
    expr *ceil = x_cast(k, x_un(k, X_CEIL, position(z, k, r, i)), DT_I64, true);
    return x_sub(k, ceil, x_dim(k, dim_floordiv(taps, dim_const(taps->table, 2))));
}

static expr *raw_weight(const resize *z, kernel *k, const resized *r, dim *taps, expr *i, expr *t) {
    expr *place = x_add(k, first_neighbour(z, k, r, taps, i), t);
    expr *away = x_un(k, X_ABS, x_sub(k, f64_of(k, place), position(z, k, r, i)));
    expr *w = filter(z, k, x_mul(k, away, narrowing(z, k, r)));
    if (!z->exclude_outside) return w;
    return x_select(k, x_inside(k, place, r->in), w, f64(k, 0));
}

static buffer *first_table(const resize *z, int axis, dim *taps) {
    buffer *table = new_table(z, "first", axis, DT_I64);
    kernel *k;
    expr *i;
    stage *s = table_stage(z, "first", axis, table, &k, &i);
    stage_write(k, s, table, &i, first_neighbour(z, k, &z->m.axis[axis], taps, i));
    return table;
}

// The whole factor k by which an axis grows, if weights at positions i and i + k of the output are the same, and the first neighbour of
// position i is floor((i + offset) / k) - taps / 2.
static int64_t cycle_of(const resize *z, const resized *r, int64_t *offset) {
    int64_t k = whole_factor(r);
    bool centres = z->how == HALF_PIXEL || (z->how == PYTORCH_HALF_PIXEL && r->out->min > 1);
    if (k < 2 || (!centres && z->how != ASYMMETRIC) || z->antialias || z->exclude_outside) return 0;
    *offset = centres ? k / 2 : k - 1;
    return k;
}

// Over a signal, of which a stream needs windows, the positions are no table.
static bool is_signal(const resize *z, const resized *r) {
    return z->n->graph->module->streams.n && !dim_is_const(r->in);
}

static expr *neighbour_in_cycle(kernel *k, expr *i, int64_t cycle, int64_t offset, expr *tap) {
    expr *at = x_add(k, x_add(k, i, x_i64(k, offset)), x_mul(k, tap, x_i64(k, cycle)));
    return x_bin(k, X_FLOORDIV, at, x_i64(k, cycle));
}

// weight[i, t], or only those of a cycle; normalised to a sum of 1 for each i where necessary.
static buffer *weight_table(const resize *z, int axis, int64_t cycle, dim *taps, dtype t) {
    const resized *r = &z->m.axis[axis];
    dim *positions = cycle && is_signal(z, r) ? dim_const(taps->table, cycle) : r->out;
    buffer *table = lower_temp(z->l, z->n, numbered(z, "weight", axis), t, 2, (dim *[]){positions, taps});
    kernel *k = lower_kernel(z->l, z->n, numbered(z, "weight", axis));
    expr *i = x_axis(k, kernel_axis(k, AXIS_PARALLEL, "i", positions)), *at[2] = {i}, *total = NULL;
    k->nouter = 1;
    if (z->antialias || z->exclude_outside) {
        stage *s = kernel_stage(k);
        expr *tap = stage_own_axis(k, s, AXIS_REDUCE, "t", taps);
        expr *sum = stage_reduce(k, s, RED_SUM, raw_weight(z, k, r, taps, i, tap));
        buffer *local = kernel_local(k, "total", DT_F64, 0, (dim *[]){NULL});
        stage_write(k, s, local, NULL, x_select(k, x_bin(k, X_EQ, sum, f64(k, 0)), f64(k, 1), sum));
        total = x_read(k, local, NULL);
    }
    stage *s = kernel_stage(k);
    at[1] = stage_own_axis(k, s, AXIS_PARALLEL, "t", taps);
    expr *phase = cycle && positions == r->out ? x_bin(k, X_MOD, i, x_i64(k, cycle)) : i;
    expr *w = raw_weight(z, k, r, taps, phase, at[1]);
    stage_write(k, s, table, at, x_cast(k, total ? x_div(k, w, total) : w, t, false));
    return table;
}

// The number of taps if scales are known only at run time, computed by a kernel.
static dim *count_taps(const resize *z, int axis) {
    buffer *count = lower_temp(z->l, z->n, numbered(z, "taps", axis), DT_I64, 0, NULL);
    kernel *k;
    stage *s = suffixed_stage(z->l, z->n, numbered(z, "taps", axis), count, &k, NULL);
    expr *reach = x_div(k, f64(k, (double)support(z)), narrowing(z, k, &z->m.axis[axis]));
    expr *taps = x_mul(k, x_cast(k, x_un(k, X_CEIL, reach), DT_I64, true), x_i64(k, 2));
    stage_write(k, s, count, NULL, taps);
    dim *d = dim_opaque(z->l->program->dims, "taps", 0, INT32_MAX);
    lower_set_dim(z->l, z->n, d, count, 0);
    return d;
}

// A sum in type t converted to storage type `to`; integers are rounded.
static expr *stored(kernel *k, expr *v, dtype to) {
    if (dtype_is_float(to)) return x_cast(k, v, to, true);
    return x_cast(k, x_un(k, X_RINT, v), to, true);
}

// out[.., i, ..] = sum over t of weight[i, t] * x[.., clamp(first[i] + t), ..]
static void lower_axis(const resize *z, int axis, buffer *x, buffer *out, dtype t) {
    const resized *r = &z->m.axis[axis];
    dim *taps = taps_of(z, r);
    if (!taps) taps = count_taps(z, axis);
    int64_t every = z->mode == LINEAR && z->how == HALF_PIXEL && !z->antialias ? skips(z, r) : 0, offset,
            cycle = cycle_of(z, r, &offset);
    bool computed = cycle && is_signal(z, r);
    buffer *first = every || computed ? NULL : first_table(z, axis, taps),
           *weight = every ? NULL : weight_table(z, axis, cycle, taps, t);
    buffer *outside[MAX_RANK] = {NULL};
    outside[axis] = outside_table(z, axis);
    kernel *k;
    expr *at[MAX_RANK], *from[MAX_RANK], *sum = NULL;
    stage *s = suffixed_stage(z->l, z->n, numbered(z, "axis", axis), out, &k, at);
    memcpy(from, at, (size_t)out->rank * sizeof *from);
    expr *place = computed ? x_bin(k, X_MOD, at[axis], x_i64(k, cycle)) : at[axis];
    int64_t unrolled = dim_is_const(taps) && dim_value(taps) <= UNROLLED_TAPS ? dim_value(taps) : 0;
    for (int64_t j = 0; j < (unrolled ? unrolled : 1); j++) {
        expr *tap = x_i64(k, j);
        if (!unrolled) {
            tap = stage_own_axis(k, s, AXIS_REDUCE, "t", taps);
        }
        expr *neighbour =
            every      ? skipping(k, at[axis], every, middle(z, every, false) + j)
            : computed ? neighbour_in_cycle(k, at[axis], cycle, offset, x_sub(k, tap, x_i64(k, support(z))))
                       : x_add(k, x_read(k, first, &at[axis]), tap);
        from[axis] = every ? neighbour : x_clamped(k, neighbour, r->in);
        expr *by = every ? x_float(k, t, 0.5) : x_read(k, weight, (expr *[]){place, tap});
        expr *term = x_mul(k, x_cast(k, x_read(k, x, from), t, false), by);
        sum = sum ? x_add(k, sum, term) : term;
    }
    if (!unrolled) sum = stage_reduce(k, s, RED_SUM, sum);
    sum = extrapolated(z, k, outside, at, sum);
    stage_write(k, s, out, at, stored(k, sum, out->dtype));
}

// Before axis b, axis a takes c_a / r_b + c_b for each element of the result, where c is the work of an element and r = out / in;
// after it, c_b / r_a + c_a. So the axis with the largest (1 / r - 1) / c comes first. Elements of rows are gathered.
static double shrinkage(const resize *z, int axis) {
    enum { GATHER = 4 };
    const resized *r = &z->m.axis[axis];
    double shrink = r->known && r->scale > 0 ? 1 / r->scale : 1;
    if (dim_is_const(r->in) && dim_is_const(r->out) && dim_value(r->out) > 0)
        shrink = (double)dim_value(r->in) / (double)dim_value(r->out);
    return axis == z->m.rank - 1 ? (shrink - 1) / GATHER : shrink - 1;
}

// The axes that change, in the order with the least work; in doubt the last one first.
static int choose_order(const resize *z, int *order) {
    int n = 0;
    for (int a = z->m.rank - 1; a >= 0; a--) {
        if (stays(z, &z->m.axis[a])) continue;
        int at = n++;
        for (; at > 0 && shrinkage(z, order[at - 1]) < shrinkage(z, a); at--) order[at] = order[at - 1];
        order[at] = a;
    }
    return n;
}

// Axis by axis; intermediate values have the compute type.
static void lower_filtered(resize *z, buffer *x, buffer *out) {
    int order[MAX_RANK], n = choose_order(z, order);
    if (!n) lower_convert(z->l, z->n, NULL, x, out);
    dtype t = dtype_compute(x->dtype) == DT_F64 ? DT_F64 : DT_F32;
    dim *dims[MAX_RANK];
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    for (int j = 0; j < n; j++) {
        int a = order[j];
        dims[a] = z->m.axis[a].out;
        buffer *to = j == n - 1 ? out : lower_temp(z->l, z->n, numbered(z, "after", a), t, x->rank, dims);
        lower_axis(z, a, x, to, t);
        x = to;
    }
}

// ---------------------------------------------------------------- lowering
// Sizes for scales known only at run time: floor(in * scale), computed by a kernel.
static void set_sizes(resize *z) {
    image *m = &z->m;
    lowering *l = z->l;
    dims *t = l->program->dims;
    bool missing = false;
    for (int a = 0; a < m->rank; a++) missing |= !m->axis[a].out;
    if (!missing) return;
    buffer *sizes = lower_temp(l, z->n, "sizes", DT_I64, 1, (dim *[]){dim_const(t, m->rank)});
    kernel *k = lower_kernel(l, z->n, "sizes");
    stage *s = kernel_stage(k);
    for (int a = 0; a < m->rank; a++) {
        resized *r = &m->axis[a];
        if (r->out) continue;
        expr *at = x_i64(k, r->argument), *place = x_i64(k, a);
        expr *size = x_mul(k, x_cast(k, x_dim(k, r->in), DT_F32, false), x_read(k, z->scales, &at));
        stage_write(k, s, sizes, &place, x_cast(k, x_un(k, X_FLOOR, size), DT_I64, true));
    }
    for (int a = 0; a < m->rank; a++) {
        resized *r = &m->axis[a];
        if (r->out) continue;
        r->out = dim_opaque(t, "resized", 0, INT64_MAX);
        lower_set_dim(l, z->n, r->out, sizes, a);
        lower_check_size(l, z->n, r->out, "a scale is negative");
    }
}

static void resize_lower(lowering *l, node *n) {
    resize z = {.l = l, .n = n};
    z.mode = (interpolation)node_choice(n, "mode", interpolations);
    z.how = (transformation)node_choice(n, "coordinate_transformation_mode", transformations);
    z.antialias = node_int(n, "antialias", 0) != 0;
    z.exclude_outside = node_int(n, "exclude_outside", 0) != 0;
    lower_arguments(l, n);
    if (!image_of(n, &z.m)) lower_unknown_length(l, n);
    z.roi = z.how == CROP_AND_RESIZE ? lower_in(l, n, IN_ROI) : NULL;
    z.scales = z.m.by_sizes ? NULL : lower_in(l, n, IN_SCALES);
    set_sizes(&z);
    dim *sizes[MAX_RANK], *zero = dim_const(l->program->dims, 0);
    for (int a = 0; a < z.m.rank; a++) {
        const resized *r = &z.m.axis[a];
        sizes[a] = r->out;
        lower_check_size(l, n, r->out, "a size is negative");
        if (!stays(&z, r))
            lower_check(l, n, dim_or(dim_lt(zero, r->in), dim_eq(r->out, zero)),
                        "an empty axis cannot be resized to a larger size");
    }
    lower_sizes(l, n, sizes);
    for (int a = 0; a < z.m.rank; a++) z.m.axis[a].out = n->out[0]->type.dims[a];
    buffer *x = lower_parts(l, lower_in(l, n, IN_X)), *out = lower_parts(l, lower_out(l, n, 0));
    if (z.mode == NEAREST) lower_nearest(&z, x, out);
    else lower_filtered(&z, x, out);
}

// ---------------------------------------------------------------- upgrades
// How version 10 rounds: up where the image shrinks, otherwise down. Later versions say that only for all axes together.
static const char *rounding_by_scale(const constant *scales) {
    bool known = scales && scales->elem == DT_F32, grows = known, shrinks = known;
    for (int64_t i = 0; known && i < scales->count; i++) {
        double scale = dtype_load_float(scales->elem, scales->data, i);
        grows &= scale >= 1;
        shrinks &= scale <= 1;
    }
    return grows ? "floor" : shrinks ? "ceil" : simple;
}

// Version 10 has positions i / scale, rounded up if the image shrinks, and no roi.
static void resize_upgrade_11(node *n) {
    value *scales = node_in(n, 1);
    node_set_in(n, IN_SCALES, scales);
    node_set_in(n, IN_ROI, NULL);
    upgrade_set_string(n, "coordinate_transformation_mode", "asymmetric");
    upgrade_set_string(n, "nearest_mode", rounding_by_scale(downgrade_constant(n, IN_SCALES)));
    if (strcmp(node_string(n, "mode", ""), "bilinear") == 0) upgrade_set_string(n, "mode", "linear");
}

static void give_scales(node *n, const float *scales, int count) {
    constant *c = constant_new(infer_arena(n), DT_F32, 1, (const int64_t[]){count});
    for (int i = 0; i < count; i++) dtype_store_float(DT_F32, (void *)c->data, i, (double)scales[i], false);
    node_set_in(n, 1, value_constant(n->graph, NULL, c));
}

// Version 1 scales the height and width of images [batch, channel, height, width].
static void upsample_upgrade_7(node *n) {
    float scales[] = {1, 1, (float)node_float(n, "height_scale", 1), (float)node_float(n, "width_scale", 1)};
    give_scales(n, scales, 4);
    node_remove_attr(n, "height_scale");
    node_remove_attr(n, "width_scale");
}

static void upsample_upgrade_9(node *n) {
    const attr *scales = node_attr(n, "scales");
    if (scales && scales->kind == ATTR_FLOATS) give_scales(n, scales->floats, scales->n);
    node_remove_attr(n, "scales");
}

static void upsample_upgrade_11(node *n) {
    n->op = op_find("", "Resize");
    resize_upgrade_11(n);
}

static bool resize_undo_11(node *as) {
    const char *mode = node_string(as, "mode", "nearest"), *how = node_string(as, "nearest_mode", "");
    value *scales = node_in(as, IN_SCALES);
    bool nearest = strcmp(mode, "nearest") == 0;
    if (!scales || node_in(as, IN_SIZES) || (!nearest && strcmp(mode, "linear") != 0)) return false;
    if (strcmp(node_string(as, "coordinate_transformation_mode", ""), "asymmetric") != 0) return false;
    const char *older = rounding_by_scale(downgrade_constant(as, IN_SCALES));
    if (nearest && strcmp(how, simple) != 0 && strcmp(how, older) != 0) return false;
    downgrade_set_input(as, 1, scales);
    downgrade_set_input(as, IN_SCALES, NULL);
    node_remove_attr(as, "coordinate_transformation_mode");
    node_remove_attr(as, "nearest_mode");
    return true;
}

// The standard's own words for the rounding depend on scales that are known.
static bool resize_expressible(const node *as, int since) {
    return since < 11 || strcmp(node_string(as, "mode", "nearest"), "nearest") != 0 ||
           strcmp(node_string(as, "nearest_mode", ""), simple) != 0;
}

static bool resize_undo_19(node *as) {
    return strcmp(node_string(as, "coordinate_transformation_mode", ""), "half_pixel_symmetric") != 0;
}

OPERATOR(Resize, .upgrades = {{11, resize_upgrade_11, resize_undo_11}, {19, NULL, resize_undo_19}},
         .expressible = resize_expressible, .infer = resize_infer, .lower = resize_lower);
OPERATOR(Upsample, .upgrades = {{7, upsample_upgrade_7}, {9, upsample_upgrade_9}, {11, upsample_upgrade_11}});
