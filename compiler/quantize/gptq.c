// GPTQ (Frantar et al. 2022): quantises the elements of a row one after another, and changes the following ones so that the
// product with the samples changes least. In: rows of weights, X^T X of the samples. Out: codes and scales.
//
// Matrices are factored by LAPACK, if a library with it is installed, or by a plain Cholesky factorisation.
#include "compiler/quantize/blocks.h"
#include "compiler/run/blas.h"
#include <dlfcn.h>
#include <math.h>
#include <string.h>

typedef void dpotrf(const char *uplo, const int *n, double *a, const int *lda, int *info);
typedef void sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                   const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

struct algebra {
    sgemm *gemm;             // NULL: loops of our own
    dpotrf *factor, *invert; // NULL: likewise
};

algebra *algebra_open(const plan *p) {
    static const char *const libraries[] = {"libopenblas.so.0", "libopenblas.so", "liblapack.so.3"};
    algebra *l = ARENA_NEW(p->arena, algebra);
    blas b = blas_open(p->diag, p->in->options);
    l->gemm = (sgemm *)b.sgemm;
    if (p->in->options->blas && strcmp(p->in->options->blas, "none") == 0) return l;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !l->factor; i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
        if (!library) continue;
        *(void **)&l->factor = dlsym(library, "dpotrf_");
        *(void **)&l->invert = dlsym(library, "dpotri_");
        if (!l->invert) l->factor = NULL;
    }
    return l;
}

void add_products(const algebra *l, const float *x, int64_t rows, int64_t n, float *c) {
    enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
    if (l->gemm) {
        l->gemm(ROW_MAJOR, TRANSPOSED, PLAIN, (int)n, (int)n, (int)rows, 1, x, (int)n, x, (int)n, 1, c,
                (int)n);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) {
            float v = x[r * n + i];
            if (v == 0) continue;
            for (int64_t j = 0; j < n; j++) c[i * n + j] += v * x[r * n + j];
        }
}

// ---------------------------------------------------------------- Cholesky
// Lower triangle, row-major: a = l l^T. False: not positive definite.
static bool factor_own(double *a, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = j; i < n; i++) {
            double sum = a[i * n + j];
            for (int64_t k = 0; k < j; k++) sum -= a[i * n + k] * a[j * n + k];
            if (i == j && !(sum > 0)) return false;
            a[i * n + j] = i == j ? sqrt(sum) : sum / a[j * n + j];
        }
    return true;
}

// From the lower factor to the lower triangle of the inverse of the matrix: l^-T l^-1.
static void invert_own(double *a, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        a[j * n + j] = 1 / a[j * n + j];
        for (int64_t i = j + 1; i < n; i++) {
            double sum = 0;
            for (int64_t k = j; k < i; k++) sum -= a[i * n + k] * a[k * n + j];
            a[i * n + j] = sum / a[i * n + i];
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t k = i; k < n; k++) sum += a[k * n + i] * a[k * n + j];
            a[i * n + j] = sum;
        }
}

// LAPACK counts by columns: its upper triangle is the lower one here.
static bool factor(const algebra *l, double *a, int64_t n) {
    int size = (int)n, info = 0;
    if (!l->factor) return factor_own(a, n);
    l->factor("U", &size, a, &size, &info);
    return info == 0;
}

static bool invert(const algebra *l, double *a, int64_t n) {
    int size = (int)n, info = 0;
    if (!l->factor) invert_own(a, n);
    else l->invert("U", &size, a, &size, &info);
    return info == 0;
}

// Upper, with inverse = u^T u.
float *inverse_factor(const algebra *l, arena *a, const float *products, int64_t n) {
    const double damping = 0.01;
    double *m = ARENA_ARRAY(a, double, n *n + 1), mean = 0;
    for (int64_t i = 0; i < n * n; i++) m[i] = products[i];
    for (int64_t i = 0; i < n; i++) mean += m[i * n + i] / (double)n;
    for (int64_t i = 0; i < n; i++) m[i * n + i] += damping * mean + (mean == 0);
    if (!factor(l, m, n) || !invert(l, m, n)) return NULL;
    if (!factor(l, m, n)) return NULL;
    float *u = ARENA_ARRAY(a, float, n *n + 1);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i; j < n; j++) u[i * n + j] = (float)m[j * n + i];
    return u;
}

// ---------------------------------------------------------------- rows
static void subtract(float *w, const float *u, float e, int64_t n) {
    enum { LANES = 16 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) w[i + k] -= e * u[i + k];
    for (; i < n; i++) w[i] -= e * u[i];
}

void gptq_rows(const block_weights *b, int nrows, float *w, int *codes, block_scale *scales) {
    int64_t n = b->length;
    for (int64_t k = 0; k < n; k++) {
        const float *u = b->inverse ? b->inverse + k * n : NULL;
        for (int r = 0; r < nrows; r++) {
            float *row = w + r * n;
            block_scale *s = &scales[r * b->nblocks + k / b->block];
            int left = (int)(n - k < b->block ? n - k : b->block);
            if (k % b->block == 0)
                *s = block_fit(&b->format, BLOCK_KQUANT, row + k, b->moments ? b->moments + k : NULL, left);
            codes[r * n + k] = block_code(&b->format, s, row[k]);
            double e = row[k] - s->scale * (codes[r * n + k] - s->zero);
            if (u) subtract(row + k + 1, u + k + 1, (float)(e / u[k]), n - k - 1);
        }
    }
}
