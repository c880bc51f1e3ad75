/* Outputs of programs from --emit exe: to files, as text, and compared with files. */
#include "runtime-lite/core/numbers.h"
#include "runtime-lite/core/program.h"
#include <inttypes.h>

enum { SHOWN = 1000, HEADER_MOST = 4096, RANK_MOST = 32 };

/* ---- Files. */
static void write_npy_header(const program *p, const onnxc_tensor_info *t, FILE *f) {
    char text[HEADER_MOST];
    int n = snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                     program_element_size(t) > 1 ? '<' : '|', program_element(t)->npy);
    for (uint32_t j = 0; j < t->rank && j < RANK_MOST; j++)
        n += snprintf(text + n, 32, "%" PRId64 ",%s", p->dims[t->first_dim + j], j + 1 < t->rank ? " " : "");
    n += snprintf(text + n, 8, "), }");
    while ((n + 11) % 64) text[n++] = ' ';
    text[n++] = '\n';
    fwrite("\x93NUMPY\1\0", 1, 8, f);
    fputc(n & 255, f);
    fputc(n >> 8, f);
    fwrite(text, 1, (size_t)n, f);
}

static void write_varint(FILE *f, uint64_t v) {
    for (; v >= 128; v >>= 7) fputc((int)(v & 127) | 128, f);
    fputc((int)v, f);
}

/* Fields dims, data_type and name of TensorProto, and the head of raw_data. */
static void write_pb_header(const program *p, uint32_t i, FILE *f) {
    const onnxc_tensor_info *t = program_tensor(p, i);
    for (uint32_t j = 0; j < t->rank; j++)
        fputc(1 << 3, f), write_varint(f, (uint64_t)p->dims[t->first_dim + j]);
    fputc(2 << 3, f);
    write_varint(f, (uint64_t)t->dtype);
    fputc(8 << 3 | 2, f);
    write_varint(f, strlen(program_name(p, i)));
    fputs(program_name(p, i), f);
    fputc(9 << 3 | 2, f);
    write_varint(f, (uint64_t)program_count(p, t) * program_element_size(t));
}

static void print_real(double v, int single, FILE *f) {
    char text[32];
    number_shortest(text, sizeof text, v, single);
    fputs(text, f);
}

static void print_element(const onnxc_tensor_info *t, const void *data, int64_t i, FILE *f) {
    const element *e = program_element(t);
    int size = e->bits / 8;
    if (e->class == DC_FLOAT) print_real(program_load(e, data, i), size < 8, f);
    else if (e->class == DC_COMPLEX) {
        double imaginary = program_load(e, data, 2 * i + 1);
        print_real(program_load(e, data, 2 * i), size < 16, f);
        if (!signbit(imaginary)) fputc('+', f);
        print_real(imaginary, size < 16, f);
        fputc('j', f);
    } else if (e->class == DC_INT && size == 8) fprintf(f, "%" PRId64, ((const int64_t *)data)[i]);
    else if (e->class == DC_UINT && size == 8) fprintf(f, "%" PRIu64, ((const uint64_t *)data)[i]);
    else fprintf(f, "%.0f", program_load(e, data, i));
}

/* A line for each row. */
static void write_csv(const program *p, uint32_t i, FILE *f) {
    const onnxc_tensor_info *t = program_tensor(p, i);
    int64_t n = program_count(p, t), row = t->rank ? p->dims[t->first_dim + t->rank - 1] : 1;
    for (int64_t j = 0; j < n; j++) {
        print_element(t, p->data[i], j, f);
        fputc((j + 1) % row ? ',' : '\n', f);
    }
}

int program_check_path(const char *path) {
    if (program_ends_with(path, ".npz")) return program_complain(path, "programs write .npy files, not .npz");
    if (!number_unknown_extension(path)) return 1;
    return program_complain(
        path, "values have no such format: the extension is .npy, .pb, .csv, or .bin for raw bytes");
}

int program_write(const program *p, uint32_t i, const char *path) {
    const onnxc_tensor_info *t = program_tensor(p, i);
    int packed = t->dtype == DT_F6E2M3 || t->dtype == DT_F6E3M2;
    if (packed && program_ends_with(path, ".pb"))
        return program_complain(path, "float6 can be written to .npy and raw files only");
    FILE *f = fopen(path, "wb");
    if (!f) return program_complain(path, strerror(errno));
    if (program_ends_with(path, ".npy")) write_npy_header(p, t, f);
    if (program_ends_with(path, ".pb")) write_pb_header(p, i, f);
    if (program_ends_with(path, ".csv")) write_csv(p, i, f);
    else fwrite(p->data[i], program_element_size(t), (size_t)program_count(p, t), f);
    int failed = ferror(f);
    failed |= fclose(f);
    return failed ? program_complain(path, "the file cannot be written") : 1;
}

/* ---- Text. */
static void print_shape(const program *p, const onnxc_tensor_info *t) {
    printf("%s[", program_element(t)->name);
    for (uint32_t j = 0; j < t->rank; j++) printf("%s%" PRId64, j ? ", " : "", p->dims[t->first_dim + j]);
    printf("]");
}

void program_print(const program *p, uint32_t i) {
    const onnxc_tensor_info *t = program_tensor(p, i);
    int64_t n = program_count(p, t);
    program_put_name(p, i, stdout);
    print_shape(p, t);
    printf("\n");
    for (int64_t j = 0; j < n && j < SHOWN; j++) {
        printf(" ");
        print_element(t, p->data[i], j, stdout);
    }
    printf("%s\n", n > SHOWN ? " ..." : "");
}

/* ---- Comparison. */
typedef struct difference {
    int64_t count, first;
    number_errors errors;
} difference;

static int same_element(const element *e, const void *got, const void *want, int64_t i, double rtol,
                        double atol, difference *d) {
    size_t size = (size_t)e->bits / 8;
    if (e->class != DC_FLOAT &&
        memcmp((const char *)got + (size_t)i * size, (const char *)want + (size_t)i * size, size) == 0)
        return 1;
    if (e->class == DC_COMPLEX) {
        double gr = program_load(e, got, 2 * i), gi = program_load(e, got, 2 * i + 1),
               wr = program_load(e, want, 2 * i), wi = program_load(e, want, 2 * i + 1);
        return (number_same(gr, wr) && number_same(gi, wi)) ||
               number_near(&d->errors, hypot(gr - wr, gi - wi), hypot(wr, wi), rtol, atol);
    }
    double g = program_load(e, got, i), w = program_load(e, want, i);
    return (e->class == DC_FLOAT && number_same(g, w)) || number_near(&d->errors, fabs(g - w), w, rtol, atol);
}

static void print_position(const program *p, const onnxc_tensor_info *t, int64_t at) {
    int64_t inner = program_count(p, t);
    for (uint32_t j = 0; j < t->rank; j++) {
        inner /= p->dims[t->first_dim + j];
        printf("%s%" PRId64, j ? ", " : " [", at / inner);
        at %= inner;
    }
    if (t->rank) printf("]");
}

static int compare(const program *p, const program *file, uint32_t i, double rtol, double atol) {
    const onnxc_tensor_info *t = program_tensor(p, i);
    const element *e = program_element(t);
    int64_t n = program_count(p, t);
    program_put_name(p, i, stdout);
    for (uint32_t j = 0; j < t->rank; j++) {
        if (p->dims[t->first_dim + j] == file->dims[t->first_dim + j]) continue;
        printf("differs: is ");
        print_shape(p, t);
        printf(", not ");
        print_shape(file, t);
        printf("\n");
        return 0;
    }
    difference d = {0};
    for (int64_t j = 0; j < n; j++)
        if (!same_element(e, p->data[i], file->data[i], j, rtol, atol, &d) && d.count++ == 0) d.first = j;
    printf(d.count ? "differs: " : "same: ");
    if (d.count) {
        printf("%" PRId64 " of %" PRId64 " elements differ, first", d.count, n);
        print_position(p, t, d.first);
        printf(" = ");
        print_element(t, p->data[i], d.first, stdout);
        printf(", not ");
        print_element(t, file->data[i], d.first, stdout);
        printf("; ");
    }
    printf("max abs %.3g, max rel %.3g\n", d.errors.abs, d.errors.rel);
    return !d.count;
}

int program_compare(const program *p, uint32_t i, const char *path, double rtol, double atol) {
    program file = *p;
    uint32_t n = p->d->ninputs + p->d->noutputs;
    file.dims = calloc(p->d->ndims + 1, sizeof *file.dims);
    file.data = calloc(n + 1, sizeof *file.data);
    file.actual = p->dims;
    int read = file.dims && file.data && program_read(&file, i, path),
        same = read ? compare(p, &file, i, rtol, atol) : -1;
    if (file.data) onnxc_rt_free(file.data[i]);
    free(file.data);
    free(file.dims);
    return same;
}
