// A model as a program (onnxc --emit exe). In: the arguments of onnxc run that need no compiler. Out: outputs, printed,
// written or compared, and an exit code.
#include "runtime-lite/core/program.h"
#include "runtime-lite/system/system.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ATTEMPTS = 4, PATH = 4096, DIFFERS = 4, USUAL_RUNS = 100 };

const onnxc_tensor_info *program_tensor(const program *p, uint32_t i) {
    return i < p->d->ninputs ? &onnxc_inputs(p->d)[i] : &onnxc_outputs(p->d)[i - p->d->ninputs];
}
const char *program_name(const program *p, uint32_t i) {
    return onnxc_text(p->d, program_tensor(p, i)->name);
}

int64_t program_count(const program *p, const onnxc_tensor_info *t) {
    int64_t n = 1;
    for (uint32_t j = 0; j < t->rank; j++)
        if (p->dims[t->first_dim + j] < 0 || __builtin_mul_overflow(n, p->dims[t->first_dim + j], &n))
            return -1;
    return n;
}

// Aligned for kernels.
void *program_alloc(int64_t bytes) {
    void *block = onnxc_rt_alloc(bytes + 64);
    if (!block) fprintf(stderr, "error: no memory for %" PRId64 " bytes\n", bytes);
    return block;
}

// The bytes of a character at s that controls a terminal or reorders its text; 0: another one.
static int unsafe_bytes(const char *s) {
    unsigned char c = (unsigned char)s[0];
    if (c < 0x20 || c == 0x7f) return 1;
    if (c < 0xc2 || !s[1]) return 0;
    unsigned char next = (unsigned char)s[1], last = (unsigned char)s[2];
    if (c == 0xc2) return next < 0xa0 ? 2 : 0;
    int marks = next == 0x80 && ((last >= 0x8b && last <= 0x8f) || (last >= 0xa8 && last <= 0xae));
    return c == 0xe2 && (marks || (next == 0x81 && last >= 0xa0 && last <= 0xaf)) ? 3 : 0;
}

static void put(const char *text, FILE *to) {
    while (*text) {
        int skipped = unsafe_bytes(text);
        fputc(skipped ? ' ' : *text, to);
        text += skipped ? skipped : 1;
    }
}

void program_put_name(const program *p, uint32_t i, FILE *to) {
    put(program_name(p, i), to);
    fputs(": ", to);
}

int program_complain(const char *path, const char *what) {
    put(path, stderr);
    fputs(": error: ", stderr);
    put(what, stderr);
    fputc('\n', stderr);
    return 0;
}

int program_ends_with(const char *s, const char *ending) {
    size_t n = strlen(s), m = strlen(ending);
    return n >= m && strcmp(s + n - m, ending) == 0;
}

// ---------------------------------------------------------------- arguments
typedef struct arguments {
    const char *input_dir, *output_dir, *times;
    int64_t runs;
    const char **compare; // folders and NAME=FILE
    int ncompare;
    double rtol, atol;
} arguments;

static int usage(const program *p, const char *name) {
    printf("usage: %s --input NAME=FILE ... [options]\n\n"
           "  --input NAME=FILE           read an input from FILE (.npy, .npz, .pb, .csv, raw bytes)\n"
           "  --input NAME=random[:LO..HI]  or generate it\n"
           "  --input-dir DIR             read the inputs in order from DIR/input_0.pb, input_1.pb ...\n"
           "  --dim NAME=N                an open size of inputs that do not tell it\n"
           "  --seed N                    seed of random inputs; default: 0\n"
           "  --output NAME=FILE          write an output to FILE instead of printing the outputs\n"
           "  --output-dir DIR            write the outputs to DIR/output_0.pb, output_1.pb ...\n"
           "  --compare DIR|NAME=FILE     compare outputs with DIR/output_0.pb ..., or with FILE; exit code "
           "4 if they "
           "differ\n"
           "  --rtol X, --atol X          |got - want| <= atol + rtol * |want|; default: 1e-3 and 1e-5\n"
           "  --times FILE                time further runs, and write the seconds of each to FILE\n"
           "  --runs N                    number of these runs; default: 100\n\n",
           name);
    for (uint32_t i = 0; i < p->d->ninputs + p->d->noutputs; i++) {
        const onnxc_tensor_info *t = program_tensor(p, i);
        const element *e = program_element(t);
        fputs(i < p->d->ninputs ? "input  " : "output ", stdout);
        program_put_name(p, i, stdout);
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

// The tensor of NAME=FILE: the longest name counts, since names may contain '='. FILE alone is enough for the
// only tensor. -1: none.
static int64_t find_tensor(const program *p, int output, const char *value, const char **file) {
    uint32_t from = output ? p->d->ninputs : 0, to = output ? from + p->d->noutputs : p->d->ninputs;
    int64_t best = -1;
    for (uint32_t i = from; i < to; i++) {
        size_t n = strlen(program_name(p, i));
        if (strncmp(value, program_name(p, i), n) != 0 || value[n] != '=') continue;
        if (best >= 0 && value + n + 1 < *file) continue;
        best = i;
        *file = value + n + 1;
    }
    if (best >= 0 || strchr(value, '=') || to - from != 1 || strcmp(value, program_name(p, from)) == 0)
        return best;
    *file = value;
    return from;
}

static int set_file(program *p, int output, const char *value) {
    const char *file = NULL;
    int64_t i = find_tensor(p, output, value, &file);
    if (i < 0) return program_complain(value, output ? "there is no such output" : "there is no such input");
    p->file[i] = file;
    return !output || program_check_path(file);
}

static int number(const char *option, const char *value, double *v) {
    char *end;
    *v = strtod(value, &end);
    return end != value && !*end ? 1 : program_complain(option, "needs a number");
}

static int take(program *p, arguments *a, const char *option, const char *value) {
    double v;
    if (strcmp(option, "--input") == 0) return set_file(p, 0, value);
    if (strcmp(option, "--output") == 0) return set_file(p, 1, value);
    if (strcmp(option, "--input-dir") == 0) return a->input_dir = value, 1;
    if (strcmp(option, "--output-dir") == 0) return a->output_dir = value, 1;
    if (strcmp(option, "--dim") == 0) return p->sizes[p->nsizes++] = value, 1;
    if (strcmp(option, "--compare") == 0) return a->compare[a->ncompare++] = value, 1;
    if (strcmp(option, "--rtol") == 0) return number(option, value, &a->rtol);
    if (strcmp(option, "--atol") == 0) return number(option, value, &a->atol);
    if (strcmp(option, "--times") == 0) return a->times = value, 1;
    if (!number(option, value, &v)) return 0;
    if (strcmp(option, "--runs") == 0) {
        a->runs = strtoll(value, NULL, 10);
        return a->runs > 0 ? 1 : program_complain(option, "needs a positive number");
    }
    p->seed = (uint64_t)strtoll(value, NULL, 10);
    return 1;
}

static int read_arguments(program *p, arguments *a, int argc, char **argv) {
    static const char *const names[] = {"--input", "--output", "--input-dir", "--output-dir",
                                        "--dim",   "--seed",   "--compare",   "--rtol",
                                        "--atol",  "--times",  "--runs"};
    enum { NAMES = sizeof names / sizeof *names };
    for (int i = 1; i < argc; i++) {
        const char *value = NULL;
        int found = -1;
        for (int k = 0; k < NAMES && found < 0; k++) {
            size_t n = strlen(names[k]);
            if (strncmp(argv[i], names[k], n) != 0 || (argv[i][n] && argv[i][n] != '=')) continue;
            found = k;
            value = argv[i][n] ? argv[i] + n + 1 : i + 1 < argc ? argv[++i] : NULL;
        }
        if (found < 0) return program_complain(argv[i], "unknown option");
        if (!value) return program_complain(names[found], found < 2 ? "needs NAME=FILE" : "needs a value");
        if (!take(p, a, names[found], value)) return 0;
    }
    return 1;
}

// ---------------------------------------------------------------- inputs
static int exists(const char *path) {
    struct stat s;
    return stat(path, &s) == 0;
}

// A folder has a file for every input without default value, or one for every input.
static int read_folder(program *p, const char *folder) {
    char path[PATH];
    uint32_t plain = 0, required = 0;
    for (uint32_t i = 0; i < p->d->ninputs; i++) required += !program_tensor(p, i)->has_default;
    snprintf(path, sizeof path, "%s/input_%u.pb", folder, (unsigned)required);
    int all = exists(path);
    for (uint32_t i = 0; i < p->d->ninputs; i++) {
        int optional = program_tensor(p, i)->has_default;
        snprintf(path, sizeof path, "%s/input_%u.pb", folder, (unsigned)(all ? i : plain));
        plain += !optional;
        if (p->file[i] || (optional && (!all || !exists(path)))) continue;
        if (!program_read(p, i, path)) return 0;
    }
    return 1;
}

static int read_inputs(program *p, const arguments *a) {
    if (a->input_dir && !read_folder(p, a->input_dir)) return 0;
    for (uint32_t i = 0; i < p->d->ninputs; i++) {
        const onnxc_tensor_info *t = program_tensor(p, i);
        const char *file = p->file[i];
        int random = file && strncmp(file, "random", 6) == 0 && (!file[6] || file[6] == ':');
        if (p->data[i]) continue;
        if (!file && !t->has_default)
            return program_complain(program_name(p, i), "this input is missing (--input NAME=FILE)");
        if (!file)
            for (uint32_t j = 0; j < t->rank; j++) p->dims[t->first_dim + j] = onnxc_dims(p->d, t)[j].value;
        else if (!(random ? program_random(p, i, file[6] ? file + 7 : "") : program_read(p, i, file)))
            return 0;
    }
    return 1;
}

// ---------------------------------------------------------------- the run
// Memory of a state that grows, in place of the tensor that was read.
static int give_room(program *p, uint32_t output) {
    const onnxc_tensor_info *t = program_tensor(p, p->d->ninputs + output);
    onnxc_rt_state s = onnxc_rt_state_of(p->d, output, p->dims, (int64_t)program_element_size(t));
    void **tensor = &p->data[t->state - 1], *room = program_alloc(s.outer * s.inner * s.room);
    int64_t size = p->dims[program_tensor(p, t->state - 1)->first_dim + s.axis];
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
        const onnxc_tensor_info *t = program_tensor(p, i);
        if (!t->room) continue;
        onnxc_rt_state s = onnxc_rt_state_of(p->d, j, p->dims, (int64_t)program_element_size(t));
        void *tensor = program_alloc(program_count(p, t) * (int64_t)program_element_size(t));
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
        const onnxc_tensor_info *t = program_tensor(p, i);
        for (uint32_t k = 0; k < t->rank; k++)
            if (onnxc_dims(p->d, t)[k].value >= 0) p->dims[t->first_dim + k] = onnxc_dims(p->d, t)[k].value;
        int64_t n = program_count(p, t);
        if (t->state) {
            if (t->room && !p->data[i] && !give_room(p, j)) return 0;
            p->data[i] = p->data[t->state - 1];
            continue;
        }
        onnxc_rt_free(p->data[i]);
        p->data[i] = program_alloc(n * (int64_t)program_element_size(t));
        p->capacity[j] = n;
        if (!p->data[i]) return 0;
    }
    return 1;
}

// The seconds of each run, a line each; 0: one failed, or the file cannot be written.
static int time_runs(program *p, const arguments *a, void *workspace, size_t bytes, const char **message) {
    FILE *to = fopen(a->times, "w");
    int status = ONNXC_OK;
    for (int64_t i = 0; to && i < a->runs && status == ONNXC_OK; i++) {
        double start = system_seconds();
        status = p->m->run(p->data, p->dims, p->capacity, workspace, bytes, message);
        fprintf(to, "%.9f\n", system_seconds() - start);
    }
    int failed = !to || ferror(to);
    return (to && fclose(to)) || failed || status != ONNXC_OK ? 0 : 1;
}

static int run(program *p, const arguments *a) {
    int64_t bytes = p->m->workspace(p->dims);
    void *workspace = program_alloc(bytes > 0 ? bytes : 0);
    const char *message = NULL;
    int status = ONNXC_TOO_SMALL;
    for (int i = 0; workspace && i < ATTEMPTS && status == ONNXC_TOO_SMALL; i++) {
        if (!make_outputs(p)) break;
        status = p->m->run(p->data, p->dims, p->capacity, workspace, bytes > 0 ? (size_t)bytes : 0, &message);
    }
    int timed = status != ONNXC_OK || !a->times ||
                time_runs(p, a, workspace, bytes > 0 ? (size_t)bytes : 0, &message);
    onnxc_rt_free(workspace);
    if (!timed) return program_complain(a->times, "the runs could not be timed");
    if (status == ONNXC_OK) return take_states(p);
    program_complain(p->name, message ? message : onnxc_status_text(status));
    return 0;
}

// ---------------------------------------------------------------- outputs
// -1: it cannot be read.
static int compare_with(const program *p, const arguments *a, const char *with) {
    char path[PATH];
    const char *file = NULL;
    struct stat s;
    int same = 1;
    if (stat(with, &s) == 0 && S_ISDIR(s.st_mode)) {
        for (uint32_t j = 0; j < p->d->noutputs && same >= 0; j++) {
            snprintf(path, sizeof path, "%s/output_%u.pb", with, (unsigned)j);
            int now = program_compare(p, p->d->ninputs + j, path, a->rtol, a->atol);
            if (now < same) same = now;
        }
        return same;
    }
    int64_t i = find_tensor(p, 1, with, &file);
    if (i >= 0) return program_compare(p, (uint32_t)i, file, a->rtol, a->atol);
    program_complain(with, "neither a folder nor NAME=FILE with the name of an output");
    return -1;
}

static int give_outputs(const program *p, const arguments *a) {
    char path[PATH];
    int quiet = a->output_dir || a->ncompare || a->times, same = 1;
    if (a->output_dir && system_make_folder(a->output_dir) && !exists(a->output_dir))
        return !program_complain(a->output_dir, "the folder cannot be made");
    for (uint32_t j = 0; j < p->d->noutputs; j++) {
        uint32_t i = p->d->ninputs + j;
        snprintf(path, sizeof path, "%s/output_%u.pb", a->output_dir ? a->output_dir : "", (unsigned)j);
        if (a->output_dir && !program_write(p, i, path)) return 1;
        if (p->file[i] && !program_write(p, i, p->file[i])) return 1;
        if (!p->file[i] && !quiet) program_print(p, i);
    }
    for (int j = 0; j < a->ncompare; j++) {
        int now = compare_with(p, a, a->compare[j]);
        if (now < 0) return 1;
        same &= now;
    }
    return fflush(stdout) != 0 ? 1 : same ? 0 : DIFFERS;
}

static int run_model(program *p, const arguments *a) {
    const onnxc_model *m = p->m;
    uint32_t n = p->d->ninputs + p->d->noutputs;
    onnxc_context *context = NULL;
    char why[512] = "";
    onnxc_options options = {.size = sizeof options, .message = why, .message_size = sizeof why};
    int failed = m->open ? m->open(&options, &context) : ONNXC_OK;
    if (failed) return !program_complain(p->name, *why ? why : onnxc_status_text(failed));
    if (context && context->device < 0)
        fprintf(stderr, "%s: warning: the CPU runs the model: %s\n", p->name, why);
    p->data[n] = context;
    int ran = run(p, a);
    if (context) m->close(context);
    return ran ? give_outputs(p, a) : 1;
}

int onnxc_program(const onnxc_model *m, int argc, char **argv) {
    const onnxc_descriptor *d = m->descriptor;
    uint32_t n = d->ninputs + d->noutputs;
    program p = {.m = m, .d = d, .name = argv[0]};
    arguments a = {.rtol = 1e-3, .atol = 1e-5, .runs = USUAL_RUNS};
    p.file = calloc(n + 1, sizeof *p.file);
    p.data = calloc(n + 3, sizeof *p.data);
    p.dims = calloc(d->ndims + 1, sizeof *p.dims);
    p.capacity = calloc(n + 1, sizeof *p.capacity);
    p.sizes = calloc((size_t)argc + 1, sizeof *p.sizes);
    a.compare = calloc((size_t)argc + 1, sizeof *a.compare);
    if (!p.file || !p.data || !p.dims || !p.capacity || !p.sizes || !a.compare) return 1;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return usage(&p, argv[0]);
    for (uint32_t i = 0; i < n; i++)
        if (!program_element(program_tensor(&p, i)))
            return !program_complain(program_name(&p, i),
                                     "this program cannot read and write its element type");
    if (!read_arguments(&p, &a, argc, argv) || !read_inputs(&p, &a)) return 1;
    return run_model(&p, &a);
}
