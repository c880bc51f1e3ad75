// The verbs of the command line, and their shared options, messages and exit codes.
#ifndef ONNXC_COMPILER_CLI_COMMAND_H
#define ONNXC_COMPILER_CLI_COMMAND_H
#include "compiler/cli/input_files.h"
#include "compiler/driver/pipeline.h"
#include <stdatomic.h>

typedef struct session {
    arena *arena;
    const struct verb *verb;
    diag diag;
    options options;
    string_list args;    // positional
    string_list sarif;   // results of --diagnostics=sarif, printed at the end
    const char *program; // argv[0]
    double started;
    size_t memory; // bytes available at the start
    atomic_bool progress_shown;
    source piped; // standard input, once it is read
    // For the next run.
    const string_list *given; // --input options, "NAME=..."; NULL: none
    input_files files;
} session;

typedef struct verb {
    const char *name, *usage, *summary;
    const option *table;               // its options; NULL: none
    size_t size;                       // of the struct of options
    const void *defaults;              // of the struct; NULL: zero
    int (*run)(session *s, void *own); // the exit code
    bool forks;                        // its processes handle signals themselves
} verb;
extern const verb verb_compile, verb_run, verb_test, verb_bench, verb_inspect, verb_debug, verb_diff,
    verb_quantize;

// NULL: no verb has that name.
const verb *verb_find(const char *name);
int verb_main(const verb *v, const char *program, int argc, const char *const *argv);
// The model, if it is the only positional argument. A word that looks like a misspelt verb is an error.
source session_model(session *s);
_Noreturn void session_lacks(session *s, const char *what); // a positional argument
source session_source(session *s, const char *path);
pipeline *session_pipeline(session *s, const options *o);
// Warns of options for compiling what is already compiled. --dim is not one: it gives random inputs their sizes.
void session_compiled(session *s, const char *path);
void session_unused(session *s, const char *option, const char *path); // of one such option
void session_clear_progress(session *s);
void session_write(session *s, const char *text);           // to the file of -o, or to standard output
void session_message(void *session, const diag_message *m); // the sink of a diag
extern const char
    operators_notes[]; // operators_notes.md, which tools/embed_text.awk makes a part of the program

// message.c: text, one JSON object per line, or one SARIF document at the end, on standard error.
bool message_terminal(void); // standard error is a terminal that has colours and can erase lines
void messages_end(session *s);
// list_ops.c: the operators of this build, one per line; all operators of the standard (docs/operators.md).
const char *list_ops_text(arena *a);
const char *list_ops_markdown(arena *a);
// sizes.c: compiles the model.
const struct footprint *sizes_measure(session *s, const source *from);
// peak.c: measures floating-point operations per second of one thread with code for t (f32; a multiply-add
// counts as two).
double measure_peak(arena *a, diag *d, const target *t);
// Threads that code for t uses on this machine; bytes per second that this number of threads reads from memory.
int peak_threads(const target *t);
double measure_bandwidth(arena *a, int threads);
#endif
