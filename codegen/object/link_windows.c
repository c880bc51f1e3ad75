// DLLs and programs for Windows: by MinGW's compiler, which knows its libraries, or in Microsoft's flavour by LLD (lld-link).
#include "codegen/object/link_impl.h"
#include "compiler/base/fs.h"
#include "compiler/base/outfile.h"
#include <string.h>

bool is_mingw(const target *t) { return strstr(t->triple, "-gnu") != NULL; }

const char *windows_import_library(arena *a, const char *dll) {
    return arena_printf(a, "%.*s.lib", (int)(strlen(dll) - strlen(extension_of(dll))), dll);
}

static void export(text *t, const char *name, bool is_data) {
    text_printf(t, "    %s%s\n", name, is_data ? " DATA" : "");
}

// What a DLL exports is listed in a file, since objects are to be linked into programs, too, which export nothing.
static const char *definition_file(arena *a, diag *d, const job *j) {
    const char *path = arena_printf(a, "%s/exports.def", j->folder);
    text t = {.arena = a};
    text_printf(&t, "LIBRARY \"%s\"\nEXPORTS\n", base_name(j->path));
    for (int i = 0; i < j->m->funcs.n; i++)
        if (j->m->funcs.at[i]->exported && j->m->funcs.at[i]->body)
            export(&t, j->m->funcs.at[i]->name, false);
    for (int i = 0; i < j->m->data.n; i++)
        if (j->m->data.at[i]->exported) export(&t, j->m->data.at[i]->name, true);
    outfile *f = outfile_open(a, d, path, false);
    outfile_write(f, t.s, t.n);
    outfile_commit(f);
    return path;
}

// Static libraries of the compiler, so that the result needs DLLs of Windows only.
static void mingw_arguments(arena *a, diag *d, const job *j, string_list *args) {
    if (strstr(base_name(j->linker), "clang")) ADD(arena_printf(a, "--target=%s", j->t->triple));
    if (j->shared)
        ADD("-shared", arena_printf(a, "-Wl,--out-implib,%s", windows_import_library(a, j->out)),
            definition_file(a, d, j));
    ADD("-o", j->out, "-static", "-Wl,--no-insert-timestamp");
    if (j->o->sysroot) ADD(arena_printf(a, "--sysroot=%s", j->o->sysroot));
    ADD(j->object);
    add_arguments(a, args, j->o->inputs.at, j->o->inputs.n);
    ADD(j->o->runtime);
}

// Folders of libraries in a tree of Visual Studio (/winsysroot), of xwin, or in one folder; else those of the variable LIB.
static void add_folders(arena *a, const job *j, string_list *args) {
    const char *root = j->o->sysroot, *arch = j->t->arch.name;
    if (!root) return;
    const char *const all[] = {
        arena_printf(a, "%s/crt/lib/%s", root, arch), arena_printf(a, "%s/sdk/lib/um/%s", root, arch),
        arena_printf(a, "%s/sdk/lib/ucrt/%s", root, arch), arena_printf(a, "%s/lib", root)};
    ADD(arena_printf(a, "/winsysroot:%s", root));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ADD(arena_printf(a, "/libpath:%s", all[i]));
}

static void msvc_arguments(arena *a, diag *d, const job *j, string_list *args) {
    add_flavor(a, j, "lld-link", "link", args);
    ADD("/nologo", strcmp(j->t->arch.name, "x86_64") == 0 ? "/machine:x64" : "/machine:arm64", "/Brepro",
        "/opt:ref", arena_printf(a, "/out:%s", j->out));
    if (j->shared)
        ADD("/dll", arena_printf(a, "/def:%s", definition_file(a, d, j)),
            arena_printf(a, "/implib:%s", windows_import_library(a, j->out)));
    else ADD("/subsystem:console");
    add_folders(a, j, args);
    ADD("/defaultlib:libcmt", "/defaultlib:kernel32", j->object);
    add_arguments(a, args, j->o->inputs.at, j->o->inputs.n);
    ADD(j->o->runtime);
}

void windows_arguments(arena *a, diag *d, const job *j, string_list *args) {
    if (is_mingw(j->t)) mingw_arguments(a, d, j, args);
    else msvc_arguments(a, d, j, args);
}
