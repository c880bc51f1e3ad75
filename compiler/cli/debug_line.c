// In: a terminal, files, pipes. Out: lines. libedit (under the BSD licence, with readline's interface) is loaded
// when it is needed, so that onnxc does not depend on it.
#include "compiler/cli/debug_line.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

line_reader line_reader_new(arena *a, FILE *file) {
    static const char *const names[] = {"libedit.so.2", "libedit.so.0", "libedit.so"};
    line_reader r = {.arena = a, .file = file, .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    void *library = NULL;
    for (int i = 0; r.terminal && !library && i < 3; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) return r;
    *(void **)&r.edit = dlsym(library, "readline");
    *(void **)&r.remember = dlsym(library, "add_history");
    return r;
}

static const char *from_file(line_reader *r, FILE *f) {
    char *line = NULL;
    size_t room = 0;
    ssize_t n = getline(&line, &room, f);
    if (n > 0 && line[n - 1] == '\n') n--;
    const char *own = n >= 0 ? arena_strndup(r->arena, line, (size_t)n) : NULL;
    free(line);
    return own;
}

static const char *edited(line_reader *r, const char *prompt) {
    char *line = r->edit(prompt);
    const char *own = line ? arena_strdup(r->arena, line) : NULL;
    if (line && *line && r->remember) r->remember(line);
    free(line);
    return own;
}

static const char *given(line_reader *r) {
    if (r->next < r->first.n) return r->first.at[r->next++];
    const char *line = r->file ? from_file(r, r->file) : NULL;
    if (!line) r->file = NULL;
    return line;
}

const char *line_read(line_reader *r, const char *prompt) {
    fflush(stdout);
    const char *line = given(r);
    bool typed = !line && r->terminal;
    if (typed && r->edit) {
        line = edited(r, prompt);
    } else if (!line) {
        if (typed) fputs(prompt, stdout), fflush(stdout);
        line = from_file(r, stdin);
    }
    if (!typed && line) printf("%.*s%s\n", (int)strlen(prompt) - !*line, prompt, line); // no space at an end
    if (!line && typed) putchar('\n');
    if (line && *line) VEC_PUSH(r->arena, &r->history, line);
    return line;
}
