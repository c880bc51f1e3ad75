// In: the library functions that a module calls. Out: their C text, preceded by the files that they include.
#include "codegen/c/library.h"
#include <string.h>

typedef struct expansion {
    arena *arena;
    map done; // names
    text out;
} expansion;

const char *library_source_of(const char *name) {
    for (const library_source *s = library_sources; s->name; s++)
        if (strcmp(s->name, name) == 0) return s->text;
    return NULL;
}

// Adds a file and the files that it includes in quotes. lib.h, which lists all functions, is not embedded.
static void add_file(expansion *x, const char *name) {
    static const char include[] = "#include \"";
    const char *s = library_source_of(name);
    if (!s || map_get(&x->done, name)) return;
    map_put(&x->done, name, "");
    while (*s) {
        size_t line = strcspn(s, "\n") + 1;
        if (strncmp(s, include, sizeof include - 1) == 0) {
            const char *path = s + sizeof include - 1;
            path = arena_strndup(x->arena, path, strcspn(path, "\""));
            add_file(x, strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
        } else {
            text_addn(&x->out, s, line);
        }
        s += line;
    }
    text_add(&x->out, "\n");
}

const char *library_text(arena *a, const lmodule *m) {
    expansion x = {.arena = a, .done = {.arena = a}, .out = {.arena = a}};
    for (int i = 0; i < m->funcs.n; i++) {
        const char *name = m->funcs.at[i]->library;
        if (!name) continue;
        if (!x.out.n) text_add(&x.out, "#define ONNXC_LIB static\n\n");
        add_file(&x, "lib_base.h");
        add_file(&x, arena_printf(a, "lib_%s.c", name));
    }
    return x.out.n ? text_str(&x.out) : "";
}
