// One run of the command line: parses options, prints messages, returns the exit code.
#include "codegen/gpu/nvrtc.h"
#include "compiler/base/cleanup.h"
#include "compiler/base/clock.h"
#include "compiler/base/fs.h"
#include "compiler/base/outfile.h"
#include "compiler/cli/command.h"
#include "compiler/cli/terminal.h"
#include "compiler/tune/tune.h"
#include "ir/graph/op.h"
#include <errno.h>
#include <llvm-c/Core.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

typedef struct info_options {
    bool help, version, list_targets;
    const char *list_ops;
} info_options;
#define AT(field) offsetof(info_options, field)
static const option info_table[] = {
    {"--help", "-h", NULL, OPT_FLAG, AT(help), "Information", "this text"},
    {"--version", NULL, NULL, OPT_FLAG, AT(version), "Information", "versions of onnxc, ONNX and LLVM"},
    {"--list-ops", NULL, "[=markdown]", OPT_TEXT, AT(list_ops), "Information",
     "supported operators and their versions; =markdown: all operators of the standard, as a page"},
    {"--list-targets", NULL, NULL, OPT_FLAG, AT(list_targets), "Information", "supported targets"},
    {NULL},
};
static const option no_options[] = {{NULL}};

// ---------------------------------------------------------------- verbs
static const verb *const verbs[] = {&verb_compile, &verb_run,   &verb_test, &verb_bench,
                                    &verb_inspect, &verb_debug, &verb_diff, &verb_quantize};
enum { VERBS = sizeof verbs / sizeof *verbs };

const verb *verb_find(const char *name) {
    for (int i = 0; i < VERBS; i++)
        if (strcmp(name, verbs[i]->name) == 0) return verbs[i];
    return NULL;
}

// A name without the ending of the file that is there, or the folder of a model.
static void hint_at_ending(session *s, const char *path) {
    if (strcmp(path, "-") == 0) return;
    const char *with = arena_printf(s->arena, path_exists(path) ? "%s/model.onnx" : "%s.onnx", path);
    if (path_exists(with)) diag_hint(&s->diag, "did you mean '%s'?", with);
}

// Words of other tools: the command here, or all of a command line.
static const char *elsewhere(arena *a, const char *word) {
    static const struct synonym {
        const char *words, *here;
    } synonyms[] = {
        {" build convert translate export ", "onnxc MODEL -o FILE"},
        {" optimize optimise simplify ", "onnxc MODEL -o optimised.onnx"},
        {" info show view report check validate verify summary ", "onnxc inspect"},
        {" infer inference predict exec execute ", "onnxc run"},
        {" benchmark perf profile time ", "onnxc bench"},
        {" compare ", "onnxc diff"},
        {" version ", "onnxc --version"},
    };
    const char *whole = arena_printf(a, " %s ", word);
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strstr(synonyms[i].words, whole)) return synonyms[i].here;
    return NULL;
}

// A word in the place of a verb.
static void check_verb(session *s, const char *word) {
    const char *names[VERBS];
    text known = {.arena = s->arena};
    if (s->verb != &verb_compile || strpbrk(word, "./@") || path_exists(word) || strcmp(word, "-") == 0)
        return;
    for (int i = 0; i < VERBS; i++) {
        names[i] = verbs[i]->name;
        text_printf(&known, "%s%s", i ? ", " : "", names[i]);
    }
    const char *other = elsewhere(s->arena, word);
    const char *near = other ? NULL : nearest_word(s->arena, word, names, VERBS);
    hint_at_ending(s, word);
    if (other) diag_hint(&s->diag, "here this is '%s'", other);
    if (near) diag_hint(&s->diag, "did you mean 'onnxc %s'?", near);
    diag_fatal(&s->diag, NULL, "'%s' is neither a file nor a command (%s)", word, text_str(&known));
}

// ---------------------------------------------------------------- information
static const char about_commands[] =
    "\nOther commands: onnxc run, test, bench, inspect, debug, diff, quantize; see 'onnxc COMMAND --help'.\n"
    "MODEL is an .onnx file, a model as text or '-' for standard input; @FILE reads more options from "
    "FILE.\n";
static const char about_options[] =
    "\nAll options of the compiler are accepted as well; see 'onnxc --help'.\n";

static const char *help_text(arena *a, const verb *v) {
    text t = {.arena = a};
    int columns = terminal_columns(1);
    help_paragraph(a, &t, arena_printf(a, "usage: %s\n\n%s\n", v->usage, v->summary), columns);
    if (v->table) option_help(&t, v->table, columns);
    help_paragraph(a, &t, v == &verb_compile ? about_commands : about_options, columns);
    if (v == &verb_compile) option_help(&t, compile_options, columns);
    option_help(&t, info_table, columns);
    return text_str(&t);
}

static const char *version_text(arena *a) {
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    return arena_printf(a, "onnxc %s\nONNX opset %d, ai.onnx.ml opset %d, IR version 14; LLVM %u.%u.%u\n",
                        ONNXC_VERSION, schema_newest_opset(""), schema_newest_opset("ai.onnx.ml"), major,
                        minor, patch);
}

static const char *ops_text(session *s, const char *form) {
    if (!*form) return list_ops_text(s->arena);
    if (strcmp(form, "markdown") == 0) return list_ops_markdown(s->arena);
    diag_fatal(&s->diag, NULL, "--list-ops=%s: the forms are text (without a value) and markdown", form);
}

// True: only information was requested.
static bool give_information(session *s, const verb *v, const info_options *info) {
    const verb *named = s->args.n ? verb_find(s->args.at[0]) : NULL; // onnxc --help run
    if (info->help) fputs(help_text(s->arena, named ? named : v), stdout);
    else if (info->version) fputs(version_text(s->arena), stdout);
    else if (info->list_ops) fputs(ops_text(s, info->list_ops), stdout);
    else if (info->list_targets)
        printf("%s\n%s", target_list_text(s->arena), nvrtc_list_text(s->arena, s->options.nvrtc));
    else return false;
    return true;
}

// ---------------------------------------------------------------- the run
// Installed files are found relative to the program. Bare root folders have no /proc.
static const char *program_folder(arena *a) {
    const char *executed = (const char *)(uintptr_t)getauxval(AT_EXECFN);
    char *path = realpath("/proc/self/exe", NULL), *slash;
    if (!path && executed) path = realpath(executed, NULL);
    slash = path ? strrchr(path, '/') : NULL;
    const char *folder = slash ? arena_strndup(a, path, (size_t)(slash - path)) : NULL;
    free(path);
    return folder;
}

// Options for messages come first, since errors in other options are messages.
static void find_message_form(session *s, const string_list *args) {
    for (int i = 0; i < args->n; i++) {
        if (strncmp(args->at[i], "--diagnostics=", 14) == 0) s->options.diagnostics = args->at[i] + 14;
        else if (strcmp(args->at[i], "--diagnostics") == 0 && i + 1 < args->n)
            s->options.diagnostics = args->at[i + 1];
    }
}

static int run_verb(session *s, const verb *v, int argc, const char *const *argv) {
    diag *d = &s->diag;
    void *own = arena_alloc(s->arena, v->size + 1);
    if (v->defaults) memcpy(own, v->defaults, v->size);
    info_options info = {0};
    option_set sets[3 + VERBS] = {
        {v->table ? v->table : no_options, own}, {compile_options, &s->options}, {info_table, &info}};
    int nsets = 3;
    for (int i = 0; i < VERBS; i++)
        if (verbs[i] != v && verbs[i]->table)
            sets[nsets++] = (option_set){verbs[i]->table, .command = verbs[i]->name};
    string_list args = option_expand(s->arena, d, argc, argv);
    find_message_form(s, &args);
    if (args.n && args.at[0][0] != '-') check_verb(s, args.at[0]);
    option_parse(s->arena, d, sets, nsets, &args, &s->args, &s->options.unused);
    diag_check(d);
    options_apply(&s->options, d);
    if (give_information(s, v, &info)) return 0;
    options_check(s->arena, d, &s->options);
    diag_check(d);
    if (!v->forks) d->leftovers = leftovers_watch(s->arena);
    return v->run(s, own);
}

static int finish_output(session *s, int code) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    diag_error(&s->diag, NULL, "cannot write to standard output: %s", strerror(errno));
    return code == DIAG_OK || code == DIAG_DIFFERS ? DIAG_USER : code;
}

static void out_of_memory(void *user) {
    session *s = user;
    diag_fatal(&s->diag, NULL, "this needs more memory than is available (%zu MiB)", s->memory >> 20);
}

int verb_main(const verb *v, const char *program, int argc, const char *const *argv) {
    arena *a = arena_new();
    session *s = ARENA_NEW(a, session);
    *s = (session){.arena = a,
                   .verb = v,
                   .options = options_default(),
                   .program = program,
                   .started = clock_now(),
                   .memory = available_memory()};
    s->options.program_folder = program_folder(a);
    s->diag = (diag){.arena = a, .sink = session_message, .user = s};
    arena_set_limit(a, s->memory, out_of_memory, s);
    jmp_buf jump;
    volatile int code = DIAG_DEFECT;
    if (DIAG_TRY(&s->diag, jump)) code = run_verb(s, v, argc, argv);
    else code = s->diag.class;
    code = finish_output(s, code);
    session_clear_progress(s);
    messages_end(s);
    arena_destroy(a);
    return code;
}

// ---------------------------------------------------------------- models
source session_source(session *s, const char *path) {
    if (strcmp(path, "-") != 0) return (source){.path = path};
    if (!s->piped.path) s->piped = source_at(s->arena, &s->diag, path);
    return s->piped;
}

void session_lacks(session *s, const char *what) {
    bool compiles = s->verb == &verb_compile;
    diag_hint(&s->diag, "'onnxc %s%s--help' shows the usage", compiles ? "" : s->verb->name,
              compiles ? "" : " ");
    diag_fatal(&s->diag, NULL, "no %s given", what);
}

void session_unused(session *s, const char *option, const char *path) {
    diag_warning(&s->diag, WARN_UNUSED_ARGUMENT, NULL, "argument unused: '%s': '%s' is already compiled",
                 option, path);
}

void session_compiled(session *s, const char *path) {
    string_list lines = split_words(s->arena, options_text(s->arena, &s->options), '\n');
    for (int i = 0; i < lines.n; i++) {
        const char *line = lines.at[i];
        bool letter = strncmp(line, "-O=", 3) == 0; // its value follows without a sign
        if (*line && strncmp(line, "--dim=", 6) != 0)
            session_unused(s, letter ? arena_printf(s->arena, "-O%s", line + 3) : line, path);
    }
}

source session_model(session *s) {
    if (s->args.n == 0) session_lacks(s, "model");
    check_verb(s, s->args.at[0]);
    hint_at_ending(s, s->args.at[0]);
    if (s->args.n > 1) {
        diag_hint(&s->diag, "other files follow options: -o FILE, --input NAME=FILE");
        diag_fatal(&s->diag, NULL, "expected one model, got '%s' and '%s'", s->args.at[0], s->args.at[1]);
    }
    return session_source(s, s->args.at[0]);
}

void session_write(session *s, const char *text) {
    const char *path = s->options.output;
    if (!path || is_stdout(path)) fputs(text, stdout);
    else outfile_write_whole(s->arena, &s->diag, path, (bytes){text, strlen(text)});
}

// ---------------------------------------------------------------- output of a compilation
static void print_pass(void *user, const char *pass, const char *s) {
    session *x = user;
    session_clear_progress(x);
    printf("=== after %s ===\n%s", pass, s);
}

static void print_time(void *user, const char *pass, const char *s) {
    (void)pass;
    session_clear_progress(user);
    fputs(s, stderr);
}

// On a terminal, a line for compilations longer than a second: "[======      ]  52 % codegen, 85 kernels, 12 s left". It is cut to
// the terminal's width: a line that wraps could not be replaced by the next.
static void show_progress(void *user, const char *pass, double share, int kernels) {
    enum { WIDTH = 24, LINE = 128 };
    session *s = user;
    double spent = clock_now() - s->started;
    char bar[WIDTH + 1], count[32] = "", left[32] = "", line[LINE];
    if (spent < 1 || !message_terminal()) return;
    for (int i = 0; i < WIDTH; i++) bar[i] = i < (int)(share * WIDTH) ? '=' : ' ';
    bar[WIDTH] = 0;
    if (kernels) snprintf(count, sizeof count, ", %d kernels", kernels);
    if (share > 0.3 && share < 1)
        snprintf(left, sizeof left, ", %.0f s left", spent * (1 - share) / share + 0.5);
    snprintf(line, sizeof line, "[%s] %3.0f %% %s%s%s", bar, 100 * share, pass, count, left);
    int columns = terminal_columns(2), length = columns > 0 && columns < LINE ? columns - 1 : LINE;
    // One call, since several threads may be here.
    fprintf(stderr, "\r\x1b[K%.*s", length, line);
    fflush(stderr);
    s->progress_shown = true;
}

void session_clear_progress(session *s) {
    if (s->progress_shown) fputs("\r\x1b[K", stderr);
    s->progress_shown = false;
}

static default_use use_of_input(void *user, const model_input *i) {
    session *s = user;
    size_t n = strlen(i->name);
    for (int j = 0; s->given && i->overridable && j < s->given->n; j++)
        if (strncmp(s->given->at[j], i->name, n) == 0 && s->given->at[j][n] == '=') return DEFAULT_IS_DROPPED;
    return s->files.folder ? input_files_use(&s->files, i) : DEFAULT_IS_CONSTANT;
}

static pipeline_hooks session_hooks(session *s) {
    return (pipeline_hooks){.user = s,
                            .print = print_pass,
                            .time = print_time,
                            .progress = show_progress,
                            .input = use_of_input,
                            .tune = tune_kernels};
}

pipeline *session_pipeline(session *s, const options *o) {
    pipeline_hooks hooks = session_hooks(s);
    return pipeline_new(s->arena, &s->diag, o, &hooks);
}
