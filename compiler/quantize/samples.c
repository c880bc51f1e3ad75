// Calibration data. In: a folder or file. Out: samples, one tensor for each input of the model.
//
// A sample is a folder with input_0.pb ... (also .npy) or NAME.npy for each input, or an .npz file with a member for each
// input. For a model with one input, an .npy, .pb, .csv or raw file. Arrays with one axis more than the input, or with
// several times its first size, have several samples.
#include "compiler/base/fs.h"
#include "compiler/quantize/impl.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef VEC(const char *) paths;

struct samples {
    const plan *plan;
    arena *arena;
    diag *diag;
    const runnable *r;
    paths list; // of samples: folders and files
};

enum { BATCH_MOST = 64, BATCH = 16 };

static bool is_file(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && !S_ISDIR(s.st_mode);
}
static bool is_data(const char *path) {
    return ends_with(path, ".npy") || ends_with(path, ".npz") || ends_with(path, ".pb") ||
           ends_with(path, ".csv") || ends_with(path, ".bin") || ends_with(path, ".raw");
}

// ---------------------------------------------------------------- finding files
// The file of input j in a folder, or NULL.
static const char *file_of_input(const samples *s, arena *a, const char *folder, int j) {
    static const char *const endings[] = {"pb", "npy", "csv", "bin"};
    for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) {
        const char *numbered = arena_printf(a, "%s/input_%d.%s", folder, j, endings[e]);
        if (is_file(numbered)) return numbered;
        const char *named = arena_printf(a, "%s/%s.%s", folder, s->r->in[j].name, endings[e]);
        if (is_file(named)) return named;
    }
    return NULL;
}

static bool is_sample(const samples *s, const char *folder) {
    for (int j = 0; j < s->r->nin; j++)
        if (!s->r->in[j].has_default && !file_of_input(s, s->arena, folder, j)) return false;
    return s->r->nin > 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static paths entries_of(const samples *s, const char *folder) {
    struct dirent **list = NULL;
    int n = scandir(folder, &list, NULL, by_name);
    paths found = {0};
    for (int i = 0; i < n; i++) {
        if (list[i]->d_name[0] != '.')
            VEC_PUSH(s->arena, &found, arena_printf(s->arena, "%s/%s", folder, list[i]->d_name));
        free(list[i]);
    }
    free(list);
    return found;
}

static bool is_single_file(const samples *s, const char *path) {
    return is_data(path) && (s->r->nin == 1 || ends_with(path, ".npz"));
}

static void find_samples(samples *s, const char *path, int depth) {
    enum { DEEPEST = 3 };
    if (!is_folder(path)) {
        if (is_single_file(s, path)) VEC_PUSH(s->arena, &s->list, path);
        return;
    }
    if (is_sample(s, path) &&
        (s->r->nin > 1 || depth > 0 || is_file(arena_printf(s->arena, "%s/input_0.pb", path)))) {
        VEC_PUSH(s->arena, &s->list, path);
        return;
    }
    paths inside = entries_of(s, path);
    for (int i = 0; i < inside.n && depth < DEEPEST; i++) find_samples(s, inside.at[i], depth + 1);
}

static const char *inputs_text(const samples *s) {
    text t = {.arena = s->arena};
    for (int j = 0; j < s->r->nin; j++)
        text_printf(&t, "%s'%s' (%s)", j ? ", " : "", s->r->in[j].name, port_text(s->arena, &s->r->in[j]));
    return text_str(&t);
}

samples *samples_open(const plan *p, const runnable *r) {
    samples *s = ARENA_NEW(p->arena, samples);
    *s = (samples){.plan = p, .arena = p->arena, .diag = p->diag, .r = r};
    const char *data = p->own->data;
    if (!data) return s;
    if (!is_folder(data) && !is_file(data))
        diag_fatal(s->diag, NULL, "--data: there is no folder or file '%s'", data);
    find_samples(s, data, 0);
    if (s->list.n) return s;
    diag_hint(
        s->diag,
        "a sample is a folder with input_0.pb ..., an .npz file with a member for each input, or, for one "
        "input, an .npy or .pb file");
    diag_fatal(s->diag, NULL, "--data: '%s' has no samples for the input%s %s", data, r->nin == 1 ? "" : "s",
               inputs_text(s));
}

// ---------------------------------------------------------------- reading
static tensor read_input(const samples *s, arena *a, int j, const char *path) {
    port any = s->r->in[j];
    bool has_shape = ends_with(path, ".npy") || ends_with(path, ".npz") || ends_with(path, ".pb");
    if (has_shape && any.kind == TYPE_TENSOR && !any.boxed) any.rank = RANK_UNKNOWN;
    return tensor_of_value(a, &s->r->in[j], value_read(a, s->diag, &any, path));
}

static bool sizes_fit(const port *p, const tensor *t, int from, int from_port) {
    if (t->rank - from != p->rank - from_port) return false;
    for (int i = from_port; i < p->rank; i++)
        if (p->dims[i] >= 0 && p->dims[i] != t->dims[i - from_port + from]) return false;
    return true;
}

// The number of samples in t, and how many elements of axis 0 each has (0: t has one axis more); 0: it does not fit.
static int64_t parts_of(const port *p, const tensor *t, int64_t *rows) {
    *rows = t->rank ? t->dims[0] : 1;
    if (p->boxed || p->rank == RANK_UNKNOWN) return 1;
    if (sizes_fit(p, t, 0, 0)) {
        bool open = p->rank > 1 && p->dims[0] < 0 && t->dims[0] > BATCH_MOST;
        if (open) *rows = BATCH;
        return open ? (t->dims[0] + BATCH - 1) / BATCH : 1;
    }
    if (t->rank == p->rank + 1 && sizes_fit(p, t, 1, 0)) return *rows = 0, t->dims[0];
    if (t->rank != p->rank || !p->rank || !sizes_fit(p, t, 1, 1) || p->dims[0] <= 0 ||
        t->dims[0] % p->dims[0])
        return 0;
    *rows = p->dims[0];
    return t->dims[0] / p->dims[0];
}

static tensor part_of(const tensor *t, int64_t rows, int64_t i) {
    tensor part = *t;
    if (!t->rank) return part;
    int64_t each = t->dims[0] ? t->count / t->dims[0] : 0, from = rows ? i * rows : i;
    int64_t n = rows ? (from + rows > t->dims[0] ? t->dims[0] - from : rows) : 1;
    part.data = (uint8_t *)t->data + dtype_size(t->dtype, from * each);
    part.count = n * each;
    if (rows) {
        part.dims[0] = n;
        return part;
    }
    part.rank = t->rank - 1;
    memmove(part.dims, part.dims + 1, (size_t)part.rank * sizeof *part.dims);
    return part;
}

static int64_t run_parts(samples *s, arena *a, const char *path, const tensor *in, int64_t most,
                         sample_hook *fn, void *user) {
    int nin = s->r->nin;
    int64_t parts = 1, *rows = ARENA_ARRAY(a, int64_t, nin + 1);
    for (int j = 0; j < nin; j++) {
        if (!in[j].data && s->r->in[j].has_default) continue;
        int64_t n = parts_of(&s->r->in[j], &in[j], &rows[j]);
        if (n == 0)
            diag_fatal(s->diag, NULL, "'%s' contains %s, but input '%s' is %s", path, tensor_text(a, &in[j]),
                       s->r->in[j].name, port_text(a, &s->r->in[j]));
        if (n > 1 && parts > 1 && n != parts)
            diag_fatal(s->diag, NULL, "'%s': the inputs have different numbers of samples, %lld and %lld",
                       path, (long long)parts, (long long)n);
        if (n > parts) parts = n;
    }
    tensor *one = ARENA_ARRAY(a, tensor, nin + 1);
    for (int64_t i = 0; i < parts && i < most; i++) {
        for (int j = 0; j < nin; j++) {
            int64_t all;
            bool split = in[j].data && parts_of(&s->r->in[j], &in[j], &all) > 1;
            one[j] = split ? part_of(&in[j], rows[j], i) : in[j];
        }
        arena *inner = arena_within(s->arena);
        fn(user, inner, parts > 1 ? arena_printf(inner, "%s[%lld]", path, (long long)i) : path, one);
        arena_destroy(inner);
    }
    return parts < most ? parts : most;
}

static int64_t run_path(samples *s, const char *path, int64_t most, sample_hook *fn, void *user) {
    arena *a = arena_within(s->arena);
    tensor *in = ARENA_ARRAY(a, tensor, s->r->nin + 1);
    bool folder = is_folder(path);
    for (int j = 0; j < s->r->nin; j++) {
        const char *file = folder ? file_of_input(s, a, path, j) : path;
        in[j] = file ? read_input(s, a, j, file) : tensor_of_default(&s->r->in[j]);
    }
    int64_t n = run_parts(s, a, path, in, most, fn, user);
    arena_destroy(a);
    return n;
}

// ---------------------------------------------------------------- random samples
static void run_random(samples *s, int64_t most, sample_hook *fn, void *user) {
    enum { RANDOM_SAMPLES = 8 };
    for (int64_t i = 0; i < most && i < RANDOM_SAMPLES; i++) {
        arena *a = arena_within(s->arena);
        tensor *in = ARENA_ARRAY(a, tensor, s->r->nin + 1);
        for (int j = 0; j < s->r->nin; j++) {
            const port *p = &s->r->in[j];
            int64_t sizes[MAX_RANK];
            for (int k = 0; k < p->rank; k++) sizes[k] = options_size(s->plan->in->options, p->sizes[k]);
            in[j] = p->has_default
                        ? tensor_of_default(p)
                        : value_random(a, s->diag, p, sizes, "", (uint64_t)s->plan->own->seed + (uint64_t)i);
        }
        fn(user, a, arena_printf(a, "random sample %lld", (long long)i), in);
        arena_destroy(a);
    }
}

void samples_each(samples *s, int64_t most, sample_hook *fn, void *user) {
    if (!s->list.n) {
        run_random(s, most, fn, user);
        return;
    }
    for (int i = 0; i < s->list.n && most > 0; i++) most -= run_path(s, s->list.at[i], most, fn, user);
}
