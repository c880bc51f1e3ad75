// A model as a program (onnxc --emit exe). In: arguments that name files of inputs and outputs. Out: outputs,
// printed or written, and an exit code.
#include "runtime-lite/core/runtime.h"
#include "runtime-lite/lib/dtypes.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ATTEMPTS = 4, SHOWN = 1000, HEADER_MOST = 4096, RANK_MOST = 32 };

typedef struct program {
    const onnxc_model *m;
    const onnxc_descriptor *d;
    const char **file; // by tensor, inputs first: path to read or write; NULL: none
    void **data;
    int64_t *dims, *capacity;
} program;

static const onnxc_tensor_info *tensor_at(const program *p, uint32_t i) {
    return i < p->d->ninputs ? &onnxc_inputs(p->d)[i] : &onnxc_outputs(p->d)[i - p->d->ninputs];
}
static const char *name_at(const program *p, uint32_t i) { return onnxc_text(p->d, tensor_at(p, i)->name); }

// ---------------------------------------------------------------- element types
typedef struct element {
    const char *name, *npy; // npy: numpy's type code
    int bits;
} element;

// NULL: programs cannot read or write such tensors.
static const element *element_of(const onnxc_tensor_info *t) {
    static const element elements[DT_COUNT] = {
#define X(e, name, code, bits, class, ebits, mbits, special, c, npy, field) [e] = {name, npy, bits},
        DTYPES(X)
#undef X
    };
    if (t->kind || t->dtype <= 0 || t->dtype >= DT_COUNT) return NULL; // a sequence, optional or map
    const element *e = &elements[t->dtype];
    return *e->npy && e->bits >= 8 ? e : NULL; // neither strings nor packed elements
}
static size_t size_of(const onnxc_tensor_info *t) { return (size_t)element_of(t)->bits / 8; }

static int64_t count_of(const program *p, const onnxc_tensor_info *t) {
    int64_t n = 1;
    for (uint32_t j = 0; j < t->rank; j++)
        if (p->dims[t->first_dim + j] < 0 || __builtin_mul_overflow(n, p->dims[t->first_dim + j], &n))
            return -1;
    return n;
}

// Aligned for kernels.
static void *allocate(int64_t bytes) {
    void *block = onnxc_rt_alloc(bytes + 64);
    if (!block) fprintf(stderr, "no memory for %" PRId64 " bytes\n", bytes);
    return block;
}

// ---------------------------------------------------------------- reading
static int complain(const char *path, const char *what) {
    fprintf(stderr, "%s: %s\n", path, what);
    return 0;
}

static int ends_with(const char *s, const char *ending) {
    size_t n = strlen(s), m = strlen(ending);
    return n >= m && strcmp(s + n - m, ending) == 0;
}

// Reads the dims in the header of a .npy file and checks it against the tensor.
static int read_header(const program *p, const onnxc_tensor_info *t, FILE *f, const char *path) {
    unsigned char start[12];
    char text[HEADER_MOST + 1];
    if (fread(start, 1, 10, f) != 10 || memcmp(start, "\x93NUMPY", 6))
        return complain(path, "not a .npy file");
    size_t n = start[8] | (size_t)start[9] << 8;
    if (start[6] > 1 && (fread(start + 10, 1, 2, f) != 2 || start[10] || start[11]))
        return complain(path, "not a .npy file");
    if (n > HEADER_MOST || fread(text, 1, n, f) != n) return complain(path, "its header cannot be read");
    text[n] = 0;
    const char *descr = strstr(text, "'descr': '"), *order = strstr(text, "'fortran_order': "),
               *shape = strstr(text, "'shape': (");
    if (!descr || !order || !shape) return complain(path, "its header cannot be read");
    const element *e = element_of(t);
    if (strncmp(descr + 11, e->npy, strlen(e->npy))) return complain(path, "its elements have another type");
    if (order[17] == 'T' && t->rank > 1) return complain(path, "is in Fortran order");
    uint32_t rank = 0;
    for (char *s = (char *)shape + 10, *end; *s != ')'; s = end + strspn(end, ", L"), rank++) {
        long long size = strtoll(s, &end, 10);
        if (end == s || rank == t->rank) return complain(path, "has another rank");
        p->dims[t->first_dim + rank] = size;
    }
    return rank == t->rank ? 1 : complain(path, "has another rank");
}

static int read_input(program *p, uint32_t i) {
    const onnxc_tensor_info *t = tensor_at(p, i);
    const char *path = p->file[i];
    if (!path && t->has_default) {
        for (uint32_t j = 0; j < t->rank; j++) p->dims[t->first_dim + j] = onnxc_dims(p->d, t)[j].value;
        return 1;
    }
    if (!path) return complain(name_at(p, i), "this input is missing (--input NAME=FILE)");
    FILE *f = fopen(path, "rb");
    if (!f) return complain(path, strerror(errno));
    for (uint32_t j = 0; j < t->rank; j++) p->dims[t->first_dim + j] = onnxc_dims(p->d, t)[j].value;
    int ok = !ends_with(path, ".npy") || read_header(p, t, f, path);
    int64_t n = ok ? count_of(p, t) : 0;
    if (ok && n < 0) ok = complain(path, "does not determine the sizes: use a .npy file");
    if (ok) p->data[i] = allocate(n * (int64_t)size_of(t));
    ok = ok && p->data[i];
    if (ok && fread(p->data[i], size_of(t), (size_t)n, f) != (size_t)n) ok = complain(path, "is too short");
    fclose(f);
    return ok;
}

// ---------------------------------------------------------------- writing
static int write_output(const program *p, uint32_t i) {
    const onnxc_tensor_info *t = tensor_at(p, i);
    const char *path = p->file[i];
    FILE *f = fopen(path, "wb");
    if (!f) return complain(path, strerror(errno));
    if (ends_with(path, ".npy")) {
        char text[HEADER_MOST];
        int n = snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                         size_of(t) > 1 ? '<' : '|', element_of(t)->npy);
        for (uint32_t j = 0; j < t->rank && j < RANK_MOST; j++)
            n += snprintf(text + n, 32, "%" PRId64 ",%s", p->dims[t->first_dim + j],
                          j + 1 < t->rank ? " " : "");
        n += snprintf(text + n, 8, "), }");
        while ((n + 11) % 64) text[n++] = ' ';
        text[n++] = '\n';
        fwrite("\x93NUMPY\1\0", 1, 8, f);
        fputc(n & 255, f);
        fputc(n >> 8, f);
        fwrite(text, 1, (size_t)n, f);
    }
    fwrite(p->data[i], size_of(t), (size_t)count_of(p, t), f);
    int failed = ferror(f);
    failed |= fclose(f);
    return failed ? complain(path, "cannot be written") : 1;
}

static void print_element(const onnxc_tensor_info *t, const void *data, int64_t i) {
    const unsigned char *bytes = data;
    switch (t->dtype) {
    case DT_F32: printf(" %.9g", (double)((const float *)data)[i]); return;
    case DT_U8:
    case DT_BOOL: printf(" %u", bytes[i]); return;
    case DT_I8: printf(" %d", ((const int8_t *)data)[i]); return;
    case DT_U16: printf(" %u", ((const uint16_t *)data)[i]); return;
    case DT_I16: printf(" %d", ((const int16_t *)data)[i]); return;
    case DT_I32: printf(" %" PRId32, ((const int32_t *)data)[i]); return;
    case DT_I64: printf(" %" PRId64, ((const int64_t *)data)[i]); return;
    case DT_F64: printf(" %.17g", ((const double *)data)[i]); return;
    case DT_U32: printf(" %" PRIu32, ((const uint32_t *)data)[i]); return;
    case DT_U64: printf(" %" PRIu64, ((const uint64_t *)data)[i]); return;
    }
    int size = (int)size_of(t);
    printf(" 0x");
    for (int j = size; j-- > 0;) printf("%02x", bytes[i * size + j]);
}

static void print_output(const program *p, uint32_t i) {
    const onnxc_tensor_info *t = tensor_at(p, i);
    int64_t n = count_of(p, t);
    printf("%s: %s[", name_at(p, i), element_of(t)->name);
    for (uint32_t j = 0; j < t->rank; j++) printf("%s%" PRId64, j ? ", " : "", p->dims[t->first_dim + j]);
    printf("]\n");
    for (int64_t j = 0; j < n && j < SHOWN; j++) print_element(t, p->data[i], j);
    printf("%s\n", n > SHOWN ? " ..." : "");
}

// ---------------------------------------------------------------- the run
static int usage(const program *p, const char *name) {
    printf("usage: %s --input NAME=FILE ... [--output NAME=FILE ...]     FILE: .npy or raw bytes\n", name);
    for (uint32_t i = 0; i < p->d->ninputs + p->d->noutputs; i++) {
        const onnxc_tensor_info *t = tensor_at(p, i);
        const element *e = element_of(t);
        printf("%s %s: ", i < p->d->ninputs ? "input " : "output", name_at(p, i));
        if (t->kind) {
            printf("%s\n", onnxc_text(p->d, t->type));
            continue;
        }
        printf("%s[", e ? e->name : "?");
        for (uint32_t j = 0; j < t->rank; j++)
            printf("%s%s", j ? ", " : "", onnxc_text(p->d, onnxc_dims(p->d, t)[j].text));
        printf("]%s\n", t->has_default ? ", may be left out" : "");
    }
    return 0;
}

static int set_file(program *p, const char *option, const char *value) {
    int output = strcmp(option, "--output") == 0;
    uint32_t from = output ? p->d->ninputs : 0, to = output ? from + p->d->noutputs : p->d->ninputs;
    for (uint32_t i = from; i < to; i++) {
        size_t n = strlen(name_at(p, i));
        if (strncmp(value, name_at(p, i), n) || value[n] != '=') continue;
        p->file[i] = value + n + 1;
        return 1;
    }
    return complain(value, output ? "there is no such output" : "there is no such input");
}

static int read_arguments(program *p, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *names[] = {"--input", "--output"}, *value = NULL;
        int found = -1;
        for (int k = 0; k < 2 && found < 0; k++) {
            size_t n = strlen(names[k]);
            if (strncmp(argv[i], names[k], n) || (argv[i][n] && argv[i][n] != '=')) continue;
            found = k;
            value = argv[i][n] ? argv[i] + n + 1 : i + 1 < argc ? argv[++i] : NULL;
        }
        if (found < 0) return complain(argv[i], "unknown option");
        if (!value) return complain(names[found], "needs NAME=FILE");
        if (!set_file(p, names[found], value)) return 0;
    }
    return 1;
}

// Memory of a state that grows, in place of the tensor that was read.
static int give_room(program *p, uint32_t output) {
    const onnxc_tensor_info *t = tensor_at(p, p->d->ninputs + output);
    onnxc_rt_state s = onnxc_rt_state_of(p->d, output, p->dims, (int64_t)size_of(t));
    void **tensor = &p->data[t->state - 1], *room = allocate(s.outer * s.inner * s.room);
    int64_t size = p->dims[tensor_at(p, t->state - 1)->first_dim + s.axis];
    if (!room) return 0;
    if (size <= s.room) onnxc_rt_state_fill(&s, room, *tensor, size); // the run refuses others
    onnxc_rt_free(*tensor);
    *tensor = room;
    return 1;
}

// Makes tensors of states that grew.
static int take_states(program *p) {
    for (uint32_t j = 0; j < p->d->noutputs; j++) {
        uint32_t i = p->d->ninputs + j;
        const onnxc_tensor_info *t = tensor_at(p, i);
        if (!t->room) continue;
        onnxc_rt_state s = onnxc_rt_state_of(p->d, j, p->dims, (int64_t)size_of(t));
        void *tensor = allocate(count_of(p, t) * (int64_t)size_of(t));
        if (!tensor) return 0;
        onnxc_rt_state_read(&s, tensor, p->data[i], p->dims[t->first_dim + s.axis]);
        p->data[i] = tensor;
    }
    return 1;
}

// Allocates the outputs by the dims known so far.
static int make_outputs(program *p) {
    for (uint32_t j = 0; j < p->d->noutputs; j++) {
        uint32_t i = p->d->ninputs + j;
        const onnxc_tensor_info *t = tensor_at(p, i);
        for (uint32_t k = 0; k < t->rank; k++)
            if (onnxc_dims(p->d, t)[k].value >= 0) p->dims[t->first_dim + k] = onnxc_dims(p->d, t)[k].value;
        int64_t n = count_of(p, t);
        if (t->state) {
            if (t->room && !p->data[i] && !give_room(p, j)) return 0;
            p->data[i] = p->data[t->state - 1];
            continue;
        }
        onnxc_rt_free(p->data[i]);
        p->data[i] = allocate(n * (int64_t)size_of(t));
        p->capacity[j] = n;
        if (!p->data[i]) return 0;
    }
    return 1;
}

static int run(program *p) {
    int64_t bytes = p->m->workspace(p->dims);
    void *workspace = allocate(bytes > 0 ? bytes : 0);
    const char *message = NULL;
    int status = ONNXC_TOO_SMALL;
    for (int i = 0; workspace && i < ATTEMPTS && status == ONNXC_TOO_SMALL; i++) {
        if (!make_outputs(p)) break;
        status = p->m->run(p->data, p->dims, p->capacity, workspace, bytes > 0 ? (size_t)bytes : 0, &message);
    }
    onnxc_rt_free(workspace);
    if (status == ONNXC_OK) return take_states(p);
    fprintf(stderr, "the run failed: %s\n", message ? message : onnxc_status_text(status));
    return 0;
}

int onnxc_program(const onnxc_model *m, int argc, char **argv) {
    const onnxc_descriptor *d = m->descriptor;
    uint32_t n = d->ninputs + d->noutputs;
    program p = {m,
                 d,
                 calloc(n + 1, sizeof *p.file),
                 calloc(n + 3, sizeof *p.data),
                 calloc(d->ndims + 1, sizeof *p.dims),
                 calloc(n + 1, sizeof *p.capacity)};
    if (!p.file || !p.data || !p.dims || !p.capacity) return 1;
    if (argc > 1 && strcmp(argv[1], "--help") == 0) return usage(&p, argv[0]);
    for (uint32_t i = 0; i < n; i++)
        if (!element_of(tensor_at(&p, i)))
            return !complain(name_at(&p, i), "this program cannot read and write its element type");
    if (!read_arguments(&p, argc, argv)) return 1;
    for (uint32_t i = 0; i < d->ninputs; i++)
        if (!read_input(&p, i)) return 1;
    onnxc_context *context = NULL;
    char why[512] = "";
    onnxc_options options = {.size = sizeof options, .message = why, .message_size = sizeof why};
    int failed = m->open ? m->open(&options, &context) : ONNXC_OK;
    if (failed) return !complain("the model", *why ? why : onnxc_status_text(failed));
    if (context && context->device < 0) fprintf(stderr, "the CPU runs the model: %s\n", why);
    p.data[n] = context;
    int ran = run(&p);
    if (context) m->close(context);
    if (!ran) return 1;
    for (uint32_t i = d->ninputs; i < n; i++) {
        if (!p.file[i]) print_output(&p, i);
        else if (!write_output(&p, i)) return 1;
    }
    return fflush(stdout) != 0;
}
