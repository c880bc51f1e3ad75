// Ranges, scales and zero points. In: statistics of calibration. Out: for every quantised value, q = round(x / scale) +
// zero with the range of its type.
//
//   minmax      everything that was seen
//   percentile  all but the outermost elements
//   mse         the range with the least expected squared error, of rounding within and of clipping outside
//   entropy     the threshold with the least divergence of the quantised distribution (Migacz, TensorRT 2017)
#include "compiler/quantize/impl.h"
#include <math.h>
#include <string.h>

// Sums over bins, so that sums over ranges take two reads.
typedef struct sums {
    double count[BINS + 1], first[BINS + 1], second[BINS + 1]; // of 1, x, x^2 over the bins before
} sums;

static double centre(const histogram *h, int i) { return (i - BINS / 2 + 0.5) * h->width; }

static sums *sums_of(arena *a, const histogram *h) {
    sums *s = ARENA_NEW(a, sums);
    for (int i = 0; i < BINS; i++) {
        double n = (double)h->bins[i], x = centre(h, i);
        s->count[i + 1] = s->count[i] + n;
        s->first[i + 1] = s->first[i] + n * x;
        s->second[i + 1] = s->second[i] + n * x * x;
    }
    return s;
}

static int bin_at(const histogram *h, double x) {
    double i = floor(x / h->width) + BINS / 2;
    return i < 0 ? 0 : i > BINS ? BINS : (int)i;
}

// ---------------------------------------------------------------- percentile
static void percentile_range(arena *a, const qvalue *v, double percentile, double *lo, double *hi) {
    const histogram *h = &v->seen;
    sums *s = sums_of(a, h);
    double total = s->count[BINS] + (double)h->zeros, cut = (100 - percentile) / 200 * total, below = 0;
    bool found = false;
    for (int i = 0; i < BINS; i++) {
        below += (double)h->bins[i] + (i == BINS / 2 ? (double)h->zeros : 0);
        if (!found && below > cut) *lo = (i - BINS / 2) * h->width, found = true;
        if (below >= total - cut) {
            *hi = (i - BINS / 2 + 1) * h->width;
            break;
        }
    }
    if (*lo < v->least) *lo = v->least;
    if (*hi > v->most) *hi = v->most;
}

// ---------------------------------------------------------------- least squares
// Squares of what clipping to lo..hi and rounding to `levels` steps lose. Zeros are exact. Errors of rounding are independent
// and average out in the sums that follow; errors of clipping all have one sign, so they count as twice as large.
static double loss_of(const histogram *h, const sums *s, double lo, double hi, int levels) {
    const double clipped_counts = 4;
    int a = bin_at(h, lo), b = bin_at(h, hi);
    double step = (hi - lo) / levels, inside = s->count[b] - s->count[a];
    double below = s->second[a] - 2 * lo * s->first[a] + lo * lo * s->count[a];
    double above = s->second[BINS] - s->second[b] - 2 * hi * (s->first[BINS] - s->first[b]) +
                   hi * hi * (s->count[BINS] - s->count[b]);
    return inside * step * step / 12 + clipped_counts * (below + above);
}

static void mse_range(arena *a, const qvalue *v, int levels, bool symmetric, double *lo, double *hi) {
    enum { STEPS = 80 };
    const histogram *h = &v->seen;
    sums *s = sums_of(a, h);
    double best = INFINITY, least = *lo, most = *hi;
    for (int i = 0; i < (symmetric || least == 0 ? 1 : STEPS); i++)
        for (int j = 0; j < (symmetric || most > 0 ? STEPS : 1); j++) {
            double y = most * (STEPS - j) / STEPS, x = symmetric ? -y : least * (STEPS - i) / STEPS;
            double loss = loss_of(h, s, x, y, levels);
            if (loss < best) best = loss, *lo = x, *hi = y;
        }
}

// ---------------------------------------------------------------- entropy
// Kullback-Leibler divergence of the absolute values up to bin n from themselves in `levels` steps.
static double divergence(const double *p, int n, double outside, double total, int levels) {
    double sum = 0;
    for (int k = 0; k < levels; k++) {
        int from = (int)((int64_t)k * n / levels), to = (int)((int64_t)(k + 1) * n / levels), used = 0;
        double mass = 0;
        for (int i = from; i < to; i++) mass += p[i], used += p[i] > 0;
        for (int i = from; i < to; i++) {
            double own = p[i] + (i == n - 1 ? outside : 0);
            if (own > 0) sum += own / total * log(own * (mass > 0 ? used / mass : total));
        }
    }
    return sum;
}

static void entropy_range(arena *a, const qvalue *v, int levels, double *lo, double *hi) {
    enum { WIDE = 2048 };
    const histogram *h = &v->seen;
    double *p = ARENA_ARRAY(a, double, WIDE), total = 0, inside = 0, best = INFINITY;
    double largest = -v->least > v->most ? -v->least : v->most, width = largest / WIDE, threshold = largest;
    for (int i = 0; i < BINS; i++) {
        int at = (int)(fabs(centre(h, i)) / width);
        p[at < WIDE ? at : WIDE - 1] += (double)h->bins[i];
        total += (double)h->bins[i];
    }
    int steps = v->least < 0 ? levels / 2 : levels;
    for (int n = 1; n <= WIDE; n++) {
        inside += p[n - 1];
        if (n < steps || n % 8) continue;
        double d = divergence(p, n, total - inside, total, steps);
        if (d < best) best = d, threshold = n * width;
    }
    if (*lo < -threshold) *lo = -threshold;
    if (*hi > threshold) *hi = threshold;
}

// ---------------------------------------------------------------- scales
static void find_range(plan *p, const value *v) {
    qvalue *q = &p->values[v->id];
    const qnode *n = v->def ? &p->nodes[v->def->id] : NULL;
    const char *method = n && n->ranges ? n->ranges : p->own->ranges;
    double percentile = n && n->percentile > 0 ? n->percentile : p->own->percentile;
    if (q->fixed) return;
    q->lo = q->count && q->least < 0 ? q->least : 0;
    q->hi = q->count && q->most > 0 ? q->most : 0;
    if (q->lo == q->hi || q->seen.width == 0) return;
    int levels = (int)(dtype_int_max(q->type) - dtype_int_min(q->type));
    arena *a = arena_within(p->arena);
    if (strcmp(method, "percentile") == 0) percentile_range(a, q, percentile, &q->lo, &q->hi);
    if (strcmp(method, "mse") == 0) {
        double largest = -q->lo > q->hi ? -q->lo : q->hi;
        if (p->symmetric) q->lo = -largest, q->hi = largest;
        mse_range(a, q, levels, p->symmetric, &q->lo, &q->hi);
    }
    if (strcmp(method, "entropy") == 0) entropy_range(a, q, levels < 256 ? levels : 256, &q->lo, &q->hi);
    arena_destroy(a);
    if (q->lo > 0) q->lo = 0;
    if (q->hi < 0) q->hi = 0;
}

static void set_scale(const plan *p, qvalue *q) {
    int64_t least = dtype_int_min(q->type), most = dtype_int_max(q->type);
    double lo = q->lo, hi = q->hi;
    bool is_signed = dtype_is_signed(q->type);
    if (p->symmetric) {
        double largest = -lo > hi ? -lo : hi;
        lo = -largest, hi = largest;
        if (is_signed) least = -most;
    }
    q->scale = (float)((hi - lo) / (double)(most - least));
    if (!(q->scale > 0x1p-120f)) q->scale = 1; // nothing but zeros
    double zero =
        p->symmetric ? (is_signed ? 0 : (double)(most + 1) / 2) : nearbyint((double)least - lo / q->scale);
    q->zero = (int)(zero<(double)least ? (double)least : zero>(double) most ? (double)most : zero);
}

// Readers may ask for another type (--node NODE=int16).
static dtype type_of(const plan *p, const value *v) {
    for (int i = 0; i < v->uses.n; i++) {
        const node *n = v->uses.at[i].node;
        if (n && p->nodes[n->id].quantised && p->nodes[n->id].activation) return p->nodes[n->id].activation;
    }
    return p->activation;
}

void choose_ranges(plan *p) {
    for (int i = 0; i < p->nvalues; i++)
        if (p->values[i].quantised) {
            p->values[i].type = type_of(p, p->module->values.at[i]);
            find_range(p, p->module->values.at[i]);
        }
    for (int i = 0; i < p->nvalues; i++) {
        qvalue *q = &p->values[i], *whole = &p->values[group_of(p, i)];
        if (!q->quantised || q == whole) continue;
        if (q->lo < whole->lo) whole->lo = q->lo;
        if (q->hi > whole->hi) whole->hi = q->hi;
        if (dtype_bits(q->type) > dtype_bits(whole->type)) whole->type = q->type;
    }
    for (int i = 0; i < p->nvalues; i++) {
        qvalue *q = &p->values[i], *whole = &p->values[group_of(p, i)];
        if (!q->quantised) continue;
        q->lo = whole->lo, q->hi = whole->hi, q->type = whole->type;
        set_scale(p, q);
    }
}
