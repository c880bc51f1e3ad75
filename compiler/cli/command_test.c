// onnxc test: finds backend-test folders, runs them in worker processes, reports.
#include "compiler/base/fs.h"
#include "compiler/cli/command.h"
#include "compiler/cli/test_case.h"
#include "compiler/cli/test_pool.h"
#include "compiler/driver/gpu_native.h"
#include "compiler/run/runnable.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int isatty(int fd); // of unistd.h

enum { FOLDERS_DEEP = 20, TIMEOUT_MOST = 1000000 };

static const option test_table[] = {
    {"--interpret", NULL, "[=program|gpu]", OPT_TEXT, offsetof(test_options, interpret), "Test",
     "run the interpreter instead of compiled code; =program: on the program after fusion and layout; =gpu: "
     "on kernels as scheduled for a GPU"},
    {"--form", NULL, "static|symbolic|constant|kept", OPT_CHOICE, offsetof(test_options, form), "Test",
     "static: the model as it is; symbolic: every axis of an input is symbolic; constant: inputs become "
     "constants; kept: every value inside the model is kept; default: static"},
    {"--cuda-shim", NULL, "DIR", OPT_TEXT, offsetof(test_options, cuda_shim), "Test",
     "run the kernels' CUDA text on this machine's CPU, with the shim in DIR (test/shim in the source tree)"},
    {"--timeout", NULL, "SECONDS", OPT_NUMBER, offsetof(test_options, timeout), "Test",
     "time limit of one case; default: 60"},
    {"--xfail", NULL, "FILE", OPT_TEXT, offsetof(test_options, xfail), "Test",
     "file of expected failures, one 'CASE REASON' per line; the run fails if any other case fails or a "
     "listed case passes; '* TEXT' also excuses cases whose missing feature matches TEXT"},
    {NULL},
};

typedef struct test_case_info {
    const char *folder;
    const char *reason; // of a known failure; NULL: should pass
} test_case_info;

typedef struct test_run {
    session *session;
    const test_options *o;
    VEC(test_case_info) cases;
    string_list lacking; // parts of messages: cases that lack these need not pass
    int passed, failed, skipped, finished;
    bool holds_gpu; // in a worker that keeps its GPU open
} test_run;

// ---------------------------------------------------------------- finding cases
static string_list subfolders(arena *a, const char *folder) {
    string_list names = {0};
    DIR *dir = opendir(folder);
    if (!dir) return names;
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.') VEC_PUSH(a, &names, arena_printf(a, "%s/%s", folder, e->d_name));
    closedir(dir);
    if (names.n) qsort(names.at, (size_t)names.n, sizeof *names.at, string_order);
    return names;
}

static void find_cases(test_run *t, const char *folder, int depth) {
    arena *a = t->session->arena;
    struct stat s;
    if (stat(arena_printf(a, "%s/model.onnx", folder), &s) == 0) {
        VEC_PUSH(a, &t->cases, ((test_case_info){.folder = folder}));
        return;
    }
    string_list all = subfolders(a, folder);
    for (int i = 0; i < all.n && depth < FOLDERS_DEEP; i++)
        if (stat(all.at[i], &s) == 0 && S_ISDIR(s.st_mode)) find_cases(t, all.at[i], depth + 1);
}

static void find_all(test_run *t) {
    session *s = t->session;
    if (s->args.n == 0) session_lacks(s, "folder");
    for (int i = 0; i < s->args.n; i++) {
        char *folder = arena_strdup(s->arena, s->args.at[i]);
        for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/';) folder[--n] = 0;
        int before = t->cases.n;
        struct stat st;
        find_cases(t, folder, 0);
        if (t->cases.n == before && stat(folder, &st) != 0)
            diag_error(&s->diag, NULL, "there is no folder '%s'", folder);
        else if (t->cases.n == before)
            diag_error(&s->diag, NULL, "'%s' contains no test folder (with a model.onnx)", folder);
    }
    diag_check(&s->diag);
}

// ---------------------------------------------------------------- known failures
// A name matches folders by their last components.
static bool names_case(const char *name, const char *folder) {
    size_t n = strlen(name), m = strlen(folder);
    return m >= n && strcmp(folder + m - n, name) == 0 && (m == n || folder[m - n - 1] == '/');
}

static void read_known_failures(test_run *t) {
    session *s = t->session;
    FILE *f = fopen(t->o->xfail, "r");
    if (!f) diag_fatal(&s->diag, NULL, "cannot read '%s': %s", t->o->xfail, strerror(errno));
    char line[1024];
    while (fgets(line, sizeof line, f)) {
        char *name = line + strspn(line, " \t"), *end = name + strcspn(name, " \t\r\n"),
             *reason = end + strspn(end, " \t");
        if (name == end || *name == '#') continue;
        reason[strcspn(reason, "\r\n")] = 0;
        bool bare = *reason == 0;
        *end = 0;
        if (!strcmp(name, "*") && !bare) VEC_PUSH(s->arena, &t->lacking, arena_strdup(s->arena, reason));
        for (int i = 0; i < t->cases.n; i++)
            if (names_case(name, t->cases.at[i].folder))
                t->cases.at[i].reason = arena_strdup(s->arena, bare ? "no reason given" : reason);
    }
    int failed = ferror(f) ? errno : 0;
    fclose(f);
    if (failed) diag_fatal(&s->diag, NULL, "cannot read '%s': %s", t->o->xfail, strerror(failed));
}

static bool known_to_lack(const test_run *t, const char *message) {
    for (int i = 0; i < t->lacking.n; i++)
        if (strstr(message, t->lacking.at[i])) return true;
    return false;
}

// ---------------------------------------------------------------- running
static int run_job(void *user, arena *a, int job, const char **text) {
    test_run *t = user;
    if (!t->holds_gpu && options_gpu_host(&t->session->options)) gpu_native_hold();
    t->holds_gpu = true;
    return (int)test_case(a, t->o, t->cases.at[job].folder, text);
}

static const char *word_of(verdict v) {
    switch (v) {
    case VERDICT_OK: return "ok  ";
    case VERDICT_MISSING: return "MISS";
    case VERDICT_FAILED: return "FAIL";
    case VERDICT_DIFFERS: return "DIFF";
    }
    return "FAIL";
}

static void show_count(test_run *t) {
    session *s = t->session;
    if (!s->progress_shown && !isatty(2)) return;
    s->progress_shown = true;
    fprintf(stderr, "\r\x1b[K%d of %d, %d failed", t->finished, t->cases.n, t->failed);
}

static const char *one_line(arena *a, const char *s) {
    char *copy = arena_strdup(a, s);
    for (char *p = copy; *p; p++)
        if (*p == '\n') *p = ' ';
    return copy;
}

static void take_result(void *user, const pool_answer *r) {
    test_run *t = user;
    const test_case_info *c = &t->cases.at[r->job];
    verdict v = r->crashed ? VERDICT_FAILED : (verdict)r->result;
    bool passed = v == VERDICT_OK, expected = c->reason != NULL,
         skipped = expected ? !passed : v == VERDICT_MISSING && (!t->o->xfail || known_to_lack(t, r->text));
    bool bad = !skipped && passed == expected;
    t->finished++;
    if (skipped) t->skipped++;
    else if (bad) t->failed++;
    else t->passed++;
    bool unexpected = v == VERDICT_MISSING && !t->o->xfail; // whose entries excuse
    if (bad || unexpected || (passed && *r->text) || t->session->options.verbose) {
        session_clear_progress(t->session);
        const char *text = passed && expected
                               ? arena_printf(t->session->arena,
                                              "passes, but is listed as an expected failure: %s", c->reason)
                               : r->text;
        printf("%s %s%s%s\n", bad && passed ? "FAIL" : word_of(v), c->folder, *text ? ": " : "",
               one_line(t->session->arena, text));
        fflush(stdout);
    }
    show_count(t);
}

// A fault of a kernel leaves the CUDA context of the process unusable.
static bool needs_new_worker(void *user, int result) {
    const test_run *t = user;
    return result != VERDICT_OK && options_gpu_host(&t->session->options);
}

static int test(session *s, void *own) {
    test_options *o = own;
    test_run t = {.session = s, .o = o};
    options_use_native(&s->options);
    o->compile = &s->options;
    if (o->timeout < 1 || o->timeout > TIMEOUT_MOST)
        diag_fatal(&s->diag, NULL, "--timeout %lld: must be from 1 to %d seconds", (long long)o->timeout,
                   TIMEOUT_MOST);
    if (o->interpret) runnable_check_interpret(&s->diag, o->interpret);
    if (o->cuda_shim && !path_exists(arena_printf(s->arena, "%s/cuda_shim.h", o->cuda_shim)))
        diag_fatal(&s->diag, NULL, "--cuda-shim: there is no '%s/cuda_shim.h'", o->cuda_shim);
    bool whole = !o->form || strcmp(o->form, "static") == 0 || strcmp(o->form, "kept") == 0;
    if (s->options.stream.n && !whole)
        diag_fatal(&s->diag, NULL, "--form %s: models with --stream are tested as they are", o->form);
    find_all(&t);
    if (o->xfail) read_known_failures(&t);
    pool_work w = {.njobs = t.cases.n,
                   .nworkers = s->options.jobs < 1         ? 1
                               : s->options.jobs < INT_MAX ? (int)s->options.jobs
                                                           : INT_MAX,
                   .timeout = (int)o->timeout,
                   .run = run_job,
                   .done = take_result,
                   .needs_new_worker = needs_new_worker,
                   .user = &t};
    if (!pool_run(s->arena, &w)) diag_fatal(&s->diag, NULL, "cannot start worker processes");
    session_clear_progress(s);
    printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped);
    return t.failed ? DIAG_DIFFERS : DIAG_OK;
}

static const test_options test_defaults = {.timeout = 60};
const verb verb_test = {
    .name = "test",
    .usage = "onnxc test DIR... [options]",
    .summary =
        "Runs ONNX backend test cases: DIR and all folders below it with model.onnx and test_data_set_K.",
    .table = test_table,
    .size = sizeof(test_options),
    .defaults = &test_defaults,
    .run = test,
    .forks = true,
};
