// Dynamic libraries and programs for macOS, by LLD or Apple's compiler. Without an SDK (--sysroot), a text stub of libSystem
// is made of the names that are needed of it, as SDKs have stubs instead of libraries.
#include "codegen/object/archive.h"
#include "codegen/object/link_impl.h"
#include "codegen/object/object.h"
#include "compiler/base/fs.h"
#include "compiler/base/outfile.h"
#include <string.h>

static const char *arch_of(const target *t) {
    return strcmp(t->arch.name, "aarch64") == 0 ? "arm64" : "x86_64";
}

// "11.0.0" of arm64-apple-macosx11.0.0
static const char *version_of(const target *t) {
    const char *at = strstr(t->triple, "macos");
    return at ? at + strcspn(at, "0123456789") : "11.0.0";
}

static void note(arena *a, diag *d, map *defined, string_list *wanted, const archive_member *m) {
    object_symbols all = object_read_symbols(a, d, m->content, m->name);
    for (int i = 0; i < all.n; i++) {
        if (all.at[i].local) continue;
        if (all.at[i].defined) map_put(defined, all.at[i].name, (void *)m);
        else VEC_PUSH(a, wanted, all.at[i].name);
    }
}

static archive with_runtime(arena *a, diag *d, const job *j) {
    archive r = {0};
    VEC_PUSH(a, &r.members, (archive_member){"model.o", j->code});
    if (!j->o->runtime) return r;
    archive runtime = archive_read(a, d, file_bytes(a, d, j->o->runtime), j->o->runtime);
    archive_add_needed(a, d, &r, &runtime);
    return r;
}

// The object's own data are undefined in the code; the linker finds them in the object first.
static const char *stub_of_system(arena *a, diag *d, const job *j) {
    const char *path = arena_printf(a, "%s/libSystem.tbd", j->folder);
    map defined = {.arena = a};
    string_list wanted = {0};
    text t = {.arena = a};
    archive r = with_runtime(a, d, j);
    for (int i = 0; i < r.members.n; i++) note(a, d, &defined, &wanted, &r.members.at[i]);
    for (int i = 0; i < j->m->data.n; i++)
        map_put(&defined, arena_printf(a, "_%s", j->m->data.at[i]->name), &r);
    text_printf(&t, "--- !tapi-tbd\ntbd-version: 4\ntargets: [ %s-macos ]\n", arch_of(j->t));
    text_printf(&t, "install-name: '/usr/lib/libSystem.B.dylib'\nexports:\n  - targets: [ %s-macos ]\n",
                arch_of(j->t));
    text_add(&t, "    symbols: [ dyld_stub_binder");
    for (int i = 0; i < wanted.n; i++) {
        if (map_get(&defined, wanted.at[i])) continue;
        map_put(&defined, wanted.at[i], &r);
        text_printf(&t, ", '%s'", wanted.at[i]);
    }
    text_add(&t, " ]\n...\n");
    outfile *f = outfile_open(a, d, path, false);
    outfile_write(f, t.s, t.n);
    outfile_commit(f);
    return path;
}

static void compiler_arguments(arena *a, const job *j, string_list *args) {
    if (strstr(base_name(j->linker), "clang")) ADD(arena_printf(a, "--target=%s", j->t->triple));
    if (j->shared) ADD("-dynamiclib", "-install_name", arena_printf(a, "@rpath/%s", base_name(j->path)));
    if (j->o->sysroot) ADD("-isysroot", j->o->sysroot);
    ADD("-Wl,-dead_strip", "-o", j->out, j->object);
    add_arguments(a, args, j->o->inputs.at, j->o->inputs.n);
    ADD(j->o->runtime);
}

void macos_arguments(arena *a, diag *d, const job *j, string_list *args) {
    if (is_compiler(j->linker)) {
        compiler_arguments(a, j, args);
        return;
    }
    add_flavor(a, j, "ld64.lld", "darwin", args);
    ADD("-arch", arch_of(j->t), "-platform_version", "macos", version_of(j->t), version_of(j->t),
        "-dead_strip", "-o", j->out);
    if (j->shared) ADD("-dylib", "-install_name", arena_printf(a, "@rpath/%s", base_name(j->path)));
    ADD(j->object);
    add_arguments(a, args, j->o->inputs.at, j->o->inputs.n);
    ADD(j->o->runtime);
    if (j->o->sysroot) ADD("-syslibroot", j->o->sysroot, "-lSystem");
    else ADD(stub_of_system(a, d, j));
}
