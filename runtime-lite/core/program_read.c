/* Inputs of programs from --emit exe. In: a file (.npy, .npz without compression, TensorProto in .pb, numbers as text in .csv, raw bytes) or a
 * range of random numbers. Out: the elements of a tensor and its dims. */
#include "runtime-lite/core/numbers.h"
#include "runtime-lite/core/program.h"
#include <errno.h>

enum { HEADER_MOST = 65536 };

typedef struct contents {
    const char *path;
    unsigned char *at; /* followed by a NUL */
    size_t size;
} contents;

static int wrong(const contents *c, const char *what) { return program_complain(c->path, what); }

static int load_file(contents *c) {
    FILE *f = fopen(c->path, "rb");
    size_t room = 1 << 16, n;
    if (!f) return wrong(c, strerror(errno));
    c->at = malloc(room + 1);
    while (c->at && (n = fread(c->at + c->size, 1, room - c->size, f)) > 0) {
        c->size += n;
        if (c->size < room) continue;
        unsigned char *more = realloc(c->at, 2 * room + 1);
        if (!more) free(c->at);
        c->at = more;
        room *= 2;
    }
    int failed = ferror(f);
    fclose(f);
    if (!c->at) return wrong(c, "no memory for its contents");
    c->at[c->size] = 0;
    return failed ? wrong(c, "the file cannot be read") : 1;
}

/* ---- Dims. */
static const onnxc_dim_info *dim_at(const program *p, const onnxc_tensor_info *t, uint32_t j) {
    return &onnxc_dims(p->d, t)[j];
}

/* Those of the model, and of --dim; -1: open. */
static void known_dims(program *p, const onnxc_tensor_info *t) {
    for (uint32_t j = 0; j < t->rank; j++) {
        const char *text = onnxc_text(p->d, dim_at(p, t, j)->text);
        int64_t *dim = &p->dims[t->first_dim + j];
        *dim = p->actual ? p->actual[t->first_dim + j] : dim_at(p, t, j)->value;
        for (int i = 0; i < p->nsizes && *dim < 0; i++) {
            size_t n = strlen(text);
            if (strncmp(p->sizes[i], text, n) == 0 && p->sizes[i][n] == '=')
                *dim = strtoll(p->sizes[i] + n + 1, NULL, 10);
        }
    }
}

/* Sizes for `count` elements: at most one open size is inferred. */
static int fit_dims(program *p, const onnxc_tensor_info *t, const contents *c, int64_t count) {
    int64_t known = 1, *open = NULL;
    known_dims(p, t);
    for (uint32_t j = 0; j < t->rank; j++) {
        int64_t *dim = &p->dims[t->first_dim + j];
        if (*dim < 0 && open)
            return wrong(c, "the file does not determine the sizes: use a .npy file, or --dim NAME=N");
        if (*dim < 0) open = dim;
        else if (__builtin_mul_overflow(known, *dim, &known)) return wrong(c, "the file has other sizes");
    }
    if (open && known && count % known == 0) {
        *open = count / known;
        return 1;
    }
    if (!open && count == known) return 1;
    return wrong(c, !open && count < known ? "the file is too short"
                    : !open                ? "the file is too long"
                                           : "the file does not determine the sizes");
}

static int give_memory(program *p, uint32_t i) {
    const onnxc_tensor_info *t = program_tensor(p, i);
    int64_t n = program_count(p, t);
    p->data[i] = n < 0 ? NULL : program_alloc(n * (int64_t)program_element_size(t));
    return p->data[i] != NULL;
}

/* Takes the elements from the file's bytes. */
static int take_bytes(program *p, uint32_t i, const contents *c, const unsigned char *from, size_t bytes) {
    const onnxc_tensor_info *t = program_tensor(p, i);
    int64_t n = program_count(p, t);
    if (n < 0 || (uint64_t)n > bytes / program_element_size(t)) return wrong(c, "the file is too short");
    if ((size_t)n * program_element_size(t) < bytes) return wrong(c, "the file is too long");
    if (!give_memory(p, i)) return 0;
    if (bytes) memcpy(p->data[i], from, bytes);
    return 1;
}

/* ---- .npy */
static int read_npy(program *p, uint32_t i, const contents *c) {
    const onnxc_tensor_info *t = program_tensor(p, i);
    const unsigned char *s = c->at;
    if (c->size < 12 || memcmp(s, "\x93NUMPY", 6) != 0 || s[6] < 1 || s[6] > 3)
        return wrong(c, "the file is not a .npy file");
    size_t start = s[6] == 1 ? 10 : 12, n = s[8] | (size_t)s[9] << 8;
    if (s[6] > 1) n |= (size_t)s[10] << 16 | (size_t)s[11] << 24;
    if (n > HEADER_MOST || start + n > c->size) return wrong(c, "the header cannot be read");
    char *text = malloc(n + 1);
    if (!text) return wrong(c, "no memory for its header");
    memcpy(text, s + start, n);
    text[n] = 0;
    const char *descr = strstr(text, "'descr': '"), *order = strstr(text, "'fortran_order': "),
               *shape = strstr(text, "'shape': (");
    const element *e = program_element(t);
    const char *why = NULL;
    uint32_t rank = 0;
    if (!descr || !order || !shape) why = "the header cannot be read";
    else if (strncmp(descr + 11, e->npy, strlen(e->npy)) != 0 || descr[10] == '>')
        why = "the elements have another type than the model's tensor";
    else if (order[17] == 'T' && t->rank > 1) why = "the file is in Fortran order";
    for (const char *at = shape ? shape + 10 : ")"; !why && *at && *at != ')'; rank++) {
        char *end;
        long long size = strtoll(at, &end, 10);
        if (end == at || rank == t->rank) why = "the file has another rank than the model's tensor";
        else p->dims[t->first_dim + rank] = size;
        at = end + strspn(end, ", L");
    }
    if (!why && rank != t->rank) why = "the file has another rank than the model's tensor";
    free(text);
    return why ? wrong(c, why) : take_bytes(p, i, c, s + start + n, c->size - start - n);
}

/* ---- .npz: a zip archive of .npy files */
enum { ZIP_END = 22, ZIP_ENTRY = 46, ZIP_LOCAL = 30, ZIP_COMMENT_MOST = 65535 };

static uint32_t little(const unsigned char *s, int bytes) {
    uint32_t v = 0;
    for (int j = 0; j < bytes; j++) v |= (uint32_t)s[j] << 8 * j;
    return v;
}

static int has_record(const contents *c, size_t at, size_t size, uint32_t signature) {
    return at <= c->size && size <= c->size - at && little(c->at + at, 4) == signature;
}

/* The member of an entry of the directory. */
static int read_member(program *p, uint32_t i, const contents *c, const unsigned char *entry) {
    size_t local = little(entry + 42, 4), size = little(entry + 24, 4);
    if (little(entry + 10, 2) != 0)
        return wrong(c, "the file is compressed; programs read .npz files without compression (numpy.savez)");
    if (!has_record(c, local, ZIP_LOCAL, 0x04034b50)) return wrong(c, "the file is damaged");
    size_t start = local + ZIP_LOCAL + little(c->at + local + 26, 2) + little(c->at + local + 28, 2);
    if (start > c->size || size > c->size - start)
        return wrong(c, "the file is damaged, or a member has 4 GiB or more");
    return read_npy(p, i, &(contents){c->path, c->at + start, size});
}

/* The member of the tensor's name, or the only one. */
static int read_npz(program *p, uint32_t i, const contents *c) {
    const char *name = program_name(p, i);
    size_t end = c->size < ZIP_END ? 0 : c->size - ZIP_END, tried = 0, length = strlen(name);
    while (end && tried < ZIP_COMMENT_MOST && !has_record(c, end, ZIP_END, 0x06054b50)) end--, tried++;
    if (!has_record(c, end, ZIP_END, 0x06054b50)) return wrong(c, "the file is not a .npz file");
    uint32_t members = little(c->at + end + 10, 2);
    size_t at = little(c->at + end + 16, 4);
    for (uint32_t j = 0; j < members; j++) {
        if (!has_record(c, at, ZIP_ENTRY, 0x02014b50)) return wrong(c, "the file is damaged");
        const unsigned char *entry = c->at + at, *own = entry + ZIP_ENTRY;
        size_t n = little(entry + 28, 2), rest = (size_t)little(entry + 30, 2) + little(entry + 32, 2);
        at += ZIP_ENTRY + n + rest;
        if (at > c->size) return wrong(c, "the file is damaged");
        int same = n >= length && memcmp(own, name, length) == 0 &&
                   (n == length || (n == length + 4 && memcmp(own + length, ".npy", 4) == 0));
        if (same || members == 1) return read_member(p, i, c, entry);
    }
    return wrong(c, "the file has no member of the tensor's name");
}

/* ---- .pb: TensorProto by the field numbers of onnx.proto */
typedef struct wire {
    const unsigned char *at, *end;
    int bad;
} wire;
typedef struct field {
    uint64_t number, kind, value; /* kind: of protobuf; value: number or bytes */
    wire bytes;
} field;

static uint64_t next_varint(wire *w) {
    uint64_t v = 0;
    for (int shift = 0; shift < 64 && w->at < w->end; shift += 7) {
        v |= (uint64_t)(*w->at & 127) << shift;
        if (!(*w->at++ & 128)) return v;
    }
    w->bad = 1;
    return 0;
}

static uint64_t next_fixed(wire *w, int bytes) {
    uint64_t v = 0;
    if (w->end - w->at < bytes) return w->bad = 1, (uint64_t)0;
    for (int j = 0; j < bytes; j++) v |= (uint64_t)*w->at++ << 8 * j;
    return v;
}

static uint64_t next_number(wire *w, uint64_t kind) {
    return kind == 1 ? next_fixed(w, 8) : kind == 5 ? next_fixed(w, 4) : next_varint(w);
}

static int next_field(wire *w, field *f) {
    if (w->bad || w->at == w->end) return 0;
    uint64_t key = next_varint(w);
    *f = (field){.number = key >> 3, .kind = key & 7};
    if (f->kind == 2) {
        uint64_t n = next_varint(w);
        if (n > (uint64_t)(w->end - w->at)) w->bad = 1;
        else f->bytes = (wire){w->at, w->at + n, 0}, w->at += n;
    } else if (f->kind == 0 || f->kind == 1 || f->kind == 5) {
        f->value = next_number(w, f->kind);
    } else {
        w->bad = 1;
    }
    return !w->bad;
}

static int read_sizes(program *p, const onnxc_tensor_info *t, const contents *c, uint64_t *dtype, wire *raw) {
    wire all = {c->at, c->at + c->size, 0};
    uint32_t rank = 0;
    for (field f; next_field(&all, &f);) {
        if (f.number == 2) *dtype = f.value;
        if (f.number == 9) *raw = f.bytes;
        if (f.number == 13 || (f.number == 14 && f.value))
            return wrong(c, "the file has its elements in another file");
        if (f.number != 1) continue;
        int packed = f.kind == 2;
        do {
            if (rank == t->rank) return wrong(c, "the file has another rank than the model's tensor");
            p->dims[t->first_dim + rank++] = (int64_t)(packed ? next_varint(&f.bytes) : f.value);
        } while (packed && !f.bytes.bad && f.bytes.at < f.bytes.end);
        all.bad |= f.bytes.bad;
    }
    if (all.bad) return wrong(c, "the file is not a tensor of protobuf");
    return rank == t->rank ? 1 : wrong(c, "the file has another rank than the model's tensor");
}

/* float_data, int32_data, int64_data, double_data, uint64_data; complex numbers have two. */
static int take_fields(program *p, uint32_t i, const contents *c) {
    const onnxc_tensor_info *t = program_tensor(p, i);
    const element *e = program_element(t);
    int64_t parts = e->class == DC_COMPLEX ? 2 : 1, n = program_count(p, t) * parts, at = 0;
    wire all = {c->at, c->at + c->size, 0};
    element part = *e;
    part.bits /= (int)parts;
    if (n > (int64_t)c->size) return wrong(c, "the file is too short"); /* an element has a byte or more */
    if (!give_memory(p, i)) return 0;
    for (field f; next_field(&all, &f);) {
        uint64_t kind = f.number == 4 ? 5 : f.number == 10 ? 1 : 0;
        if (f.number != 4 && f.number != 5 && f.number != 7 && f.number != 10 && f.number != 11) continue;
        int packed = f.kind == 2;
        for (int more = !packed || f.bytes.at < f.bytes.end; more;
             more = packed && f.bytes.at < f.bytes.end) {
            if (at == n) return wrong(c, "the file is too long");
            program_store_int(&part, p->data[i], at++, packed ? next_number(&f.bytes, kind) : f.value);
            if (f.bytes.bad) return wrong(c, "the file is not a tensor of protobuf");
        }
    }
    return at == n ? 1 : wrong(c, "the file is too short");
}

static int read_pb(program *p, uint32_t i, const contents *c) {
    const onnxc_tensor_info *t = program_tensor(p, i);
    uint64_t dtype = 0;
    wire raw = {0};
    if (!read_sizes(p, t, c, &dtype, &raw)) return 0;
    if (dtype != (uint64_t)t->dtype)
        return wrong(c, "the elements have another type than the model's tensor");
    if (program_count(p, t) < 0) return wrong(c, "the file has a negative size");
    if (t->dtype == DT_F6E2M3 || t->dtype == DT_F6E3M2)
        return wrong(c, "the file has float6, which only .npy and raw bytes can give");
    return raw.at ? take_bytes(p, i, c, raw.at, (size_t)(raw.end - raw.at)) : take_fields(p, i, c);
}

/* ---- .csv */
static int store_word(const element *e, const char *s, void *data, int64_t i) {
    char *end;
    int yes = number_is_word(s, "true");
    if (e->class == DC_FLOAT) {
        double v = strtod(s, &end);
        program_store(e, data, i, v);
        return end == s + number_word_size(s);
    }
    int unused = 64 - e->bits - (e->class == DC_UINT && e->bits < 64);
    int64_t hi = e->class == DC_BOOL ? 1 : INT64_MAX >> unused, lo = e->class == DC_INT ? -hi - 1 : 0;
    uint64_t v = (uint64_t)yes;
    if (!yes && !number_is_word(s, "false") &&
        !number_int(s, lo, hi, e->class == DC_UINT && e->bits == 64, &v))
        return 0;
    program_store_int(e, data, i, v);
    return 1;
}

static int read_csv(program *p, uint32_t i, const contents *c) {
    const element *e = program_element(program_tensor(p, i));
    const char *all = (const char *)c->at;
    int64_t count = 0, at = 0;
    if (e->class == DC_COMPLEX || (e->class == DC_FLOAT && e->bits < 32 && !e->format.special))
        return wrong(c, "its elements cannot be read from text");
    if (memchr(c->at, 0, c->size)) return wrong(c, "the file is not text");
    for (const char *s = number_next_word(all); s; s = number_next_word(s + number_word_size(s))) count++;
    if (!fit_dims(p, program_tensor(p, i), c, count) || !give_memory(p, i)) return 0;
    for (const char *s = number_next_word(all); s; s = number_next_word(s + number_word_size(s)))
        if (!store_word(e, s, p->data[i], at++)) {
            fprintf(stderr, "%s: error: '%.*s' is not a valid %s\n", c->path, (int)number_word_size(s), s,
                    e->name);
            return 0;
        }
    return 1;
}

/* ---- Any file. */
static int read_raw(program *p, uint32_t i, const contents *c) {
    const onnxc_tensor_info *t = program_tensor(p, i);
    if (c->size % program_element_size(t)) return wrong(c, "the file does not end with a whole element");
    return fit_dims(p, t, c, (int64_t)(c->size / program_element_size(t))) &&
           take_bytes(p, i, c, c->at, c->size);
}

int program_read(program *p, uint32_t i, const char *path) {
    contents c = {.path = path};
    int ok = load_file(&c) && (program_ends_with(path, ".npy")   ? read_npy(p, i, &c)
                               : program_ends_with(path, ".npz") ? read_npz(p, i, &c)
                               : program_ends_with(path, ".pb")  ? read_pb(p, i, &c)
                               : program_ends_with(path, ".csv") ? read_csv(p, i, &c)
                                                                 : read_raw(p, i, &c));
    const onnxc_tensor_info *t = program_tensor(p, i);
    if (ok && program_element(t)->class == DC_BOOL)
        for (int64_t j = program_count(p, t); j-- > 0;)
            ((uint8_t *)p->data[i])[j] = ((uint8_t *)p->data[i])[j] != 0;
    free(c.at);
    return ok;
}

/* ---- Random. */
int program_random(program *p, uint32_t i, const char *range) {
    const onnxc_tensor_info *t = program_tensor(p, i);
    const element *e = program_element(t);
    int real = e->class == DC_FLOAT || e->class == DC_COMPLEX;
    double lo = real ? -1 : 0, hi = real ? 1 : e->class == DC_BOOL ? 1 : 9;
    if (*range && !number_range(range, &lo, &hi))
        return program_complain(range, "not of the form random:LO..HI with LO <= HI");
    if (e->class == DC_FLOAT && e->bits < 32 && !e->format.special)
        return program_complain(program_name(p, i), "its elements cannot be random");
    known_dims(p, t);
    for (uint32_t j = 0; j < t->rank; j++) {
        if (p->dims[t->first_dim + j] >= 0) continue;
        const char *text = onnxc_text(p->d, dim_at(p, t, j)->text);
        program_put_name(p, i, stderr);
        fprintf(stderr, "error: axis %u has the open size %s (--dim %s=8)\n", (unsigned)j, text, text);
        return 0;
    }
    if (!give_memory(p, i)) return 0;
    uint64_t state = number_random_begin(p->seed, program_name(p, i));
    int64_t n = program_count(p, t) * (e->class == DC_COMPLEX ? 2 : 1);
    for (int64_t j = 0; j < n; j++) {
        double u = number_random_unit(&state);
        if (real) program_store(e, p->data[i], j, lo + u * (hi - lo));
        else program_store_int(e, p->data[i], j, (uint64_t)(int64_t)floor(lo + u * (floor(hi) - lo + 1)));
    }
    return 1;
}
