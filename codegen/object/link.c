// In: object and runtime. Out: .a, .so or program. The linker is a child process, whose messages become
// diagnostics.
#include "codegen/object/link.h"
#include "codegen/object/archive.h"
#include "codegen/object/elf.h"
#include "codegen/object/link_impl.h"
#include "codegen/object/object.h"
#include "codegen/target/targets.h"
#include "compiler/base/cleanup.h"
#include "compiler/base/fs.h"
#include "compiler/base/outfile.h"
#include "compiler/base/process.h"
#include "ir/target.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef string_list strings;

// ---------------------------------------------------------------- files
typedef struct mapping {
    void *at;
    size_t n;
} mapping;

static void unmap(void *m) { munmap(((mapping *)m)->at, ((mapping *)m)->n); }

bytes file_bytes(arena *a, diag *d, const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) diag_fatal(d, NULL, "cannot read '%s': %s", path, strerror(errno));
    mapping *m = ARENA_NEW(a, mapping);
    m->n = (size_t)st.st_size;
    m->at = m->n ? mmap(NULL, m->n, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    int failed = m->at == MAP_FAILED ? errno : 0;
    close(fd);
    if (failed) diag_fatal(d, NULL, "cannot read '%s': %s", path, strerror(failed));
    if (m->n) arena_on_destroy(a, unmap, m);
    return (bytes){m->at, m->n};
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

// Path prefix of temporary files: beside the product, unless that is a device.
static const char *temporary_prefix(arena *a, const outfile *product, const char *path, const lmodule *m) {
    return strcmp(outfile_temporary(product), path) == 0 ? arena_printf(a, "/tmp/onnxc-%s", m->name) : path;
}

// A temporary file with the object and its data.
static outfile *write_object(arena *a, diag *d, bytes object, const lmodule *m, const char *product) {
    outfile *f = outfile_open(a, d, product, false);
    sink to = outfile_sink(f);
    object_write(a, d, object, m, &to);
    outfile_flush(f);
    return f;
}

// ---------------------------------------------------------------- archives
void link_archive(arena *a, diag *d, bytes object, const lmodule *m, const link_options *o,
                  const char *path) {
    archive r = {0};
    outfile *f = outfile_open(a, d, path, false),
            *file = write_object(a, d, object, m, temporary_prefix(a, f, path, m));
    bytes content = file_bytes(a, d, outfile_temporary(file));
    VEC_PUSH(a, &r.members, (archive_member){arena_printf(a, "%s.o", m->name), content});
    if (o->runtime) {
        archive runtime = archive_read(a, d, file_bytes(a, d, o->runtime), o->runtime);
        archive_add_needed(a, d, &r, &runtime);
    }
    sink to = outfile_sink(f);
    if (m->target->format == OBJECT_MACHO) archive_write_bsd(a, d, &r, &to);
    else archive_write(a, d, &r, &to);
    outfile_commit(f);
    outfile_discard(file);
}

// ---------------------------------------------------------------- objects with the runtime
static bool is_always_there(const char *name) {
    static const char *const there[] = {"memcpy", "memmove", "memset", "memcmp"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, there[i]) == 0) return true;
    return false;
}

// The runtime may call its compiler's support library: integer division, software floating point.
static void warn_of_undefined(arena *a, diag *d, const archive *r, const char *runtime) {
    map known = {.arena = a};
    text t = {.arena = a};
    for (int undefined = 0; undefined < 2; undefined++)
        for (int i = 1; i < r->members.n; i++) {
            elf_file *f = elf_read(a, d, r->members.at[i].content, r->members.at[i].name);
            for (int k = 0; k < f->symbols.n; k++) {
                const elf_symbol *s = &f->symbols.at[k];
                if ((s->section ? 0 : 1) != undefined || map_get(&known, s->name)) continue;
                map_put(&known, s->name, f);
                if (undefined && !is_always_there(s->name)) text_printf(&t, "%s%s", t.n ? ", " : "", s->name);
            }
        }
    if (t.n)
        diag_warning(d, WARN_RUNTIME_SYMBOLS, NULL, "%s needs functions of its compiler's own library: %s",
                     runtime, text_str(&t));
}

bytes link_runtime(arena *a, diag *d, bytes object, const lmodule *m, const link_options *o) {
    archive r = {0}, runtime = archive_read(a, d, file_bytes(a, d, o->runtime), o->runtime);
    VEC_PUSH(a, &r.members, (archive_member){arena_printf(a, "%s.o", m->name), object});
    archive_add_needed(a, d, &r, &runtime);
    if (r.members.n == 1) return object;
    bytes *all = ARENA_ARRAY(a, bytes, r.members.n);
    for (int i = 0; i < r.members.n; i++) all[i] = r.members.at[i].content;
    warn_of_undefined(a, d, &r, o->runtime);
    return elf_join(a, d, all, r.members.n, 1, m->name);
}

// ---------------------------------------------------------------- the linker
static const char *in_path(arena *a, const char *name) {
    const char *path = getenv("PATH");
    for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
        size_t n = strcspn(p, ":");
        const char *candidate = arena_printf(a, "%.*s/%s", (int)n, p, name);
        if (n && access(candidate, X_OK) == 0) return candidate;
        p += n + (p[n] == ':');
    }
    return NULL;
}

// The names of linkers for the target, without the versions that some systems append.
static strings linker_names(arena *a, const target *t) {
    strings all = {0};
    if (t->format == OBJECT_COFF && is_mingw(t)) {
        VEC_PUSH(a, &all, arena_printf(a, "%s-w64-mingw32-gcc", t->arch.name));
        VEC_PUSH(a, &all, arena_printf(a, "%s-w64-mingw32-clang", t->arch.name));
        return all;
    }
    static const char *const endings[] = {"-19", "-20", "-18", ""};
    const char *name = t->format == OBJECT_COFF    ? "lld-link"
                       : t->format == OBJECT_MACHO ? "ld64.lld"
                       : t->format == OBJECT_WASM  ? "wasm-ld"
                                                   : "ld.lld";
    for (int i = 0; i < 4; i++) VEC_PUSH(a, &all, arena_printf(a, "%s%s", name, endings[i]));
    return all;
}

static const char *find_linker(arena *a, diag *d, const link_options *o, const target *t) {
    strings names = linker_names(a, t);
    bool lld = t->format != OBJECT_COFF || !is_mingw(t);
    if (o->linker) {
        const char *found = strchr(o->linker, '/') ? o->linker : in_path(a, o->linker);
        if (found && exists(found)) return found;
        diag_fatal(d, NULL, "linker '%s' not found", o->linker);
    }
    for (int i = 0; o->program_folder && i < 2 && lld; i++) {
        const char *beside = arena_printf(a, "%s/%sld.lld", o->program_folder, i ? "../lib/onnxc/" : "");
        if (exists(beside)) return beside;
    }
    for (int i = 0; i < names.n; i++) {
        const char *found = in_path(a, names.at[i]);
        if (found) return found;
    }
    diag_hint(d, "install %s, name a linker (--linker cc), or make an object or archive and link it yourself",
              lld ? "LLD" : "MinGW");
    diag_fatal_missing(d, NULL, "no linker was found (%s)", names.at[names.n - 1]);
}

// "cc", "aarch64-linux-gnu-gcc-12", "clang"
bool is_compiler(const char *linker) {
    const char *s = base_name(linker);
    if (!strcmp(s, "cc") || !strcmp(s, "c99")) return true;
    return strstr(s, "gcc") || strstr(s, "clang") || strstr(s, "-cc") || strstr(s, "musl-");
}

static text read_to_end(arena *a, int fd) {
    text t = {.arena = a};
    char buffer[4096];
    ssize_t n;
    while ((n = read(fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0) text_addn(&t, buffer, (size_t)n);
    close(fd);
    return t;
}

// Reports each line of the linker's output as a message.
static _Noreturn void report_linker(diag *d, const char *linker, char *output, int status) {
    enum { SHOWN = 12 };
    int n = 0;
    for (char *line = output; line && *line; n++) {
        char *end = strchr(line, '\n');
        if (end) *end = 0;
        if (*line && n < SHOWN) diag_error(d, NULL, "%s", line);
        line = end ? end + 1 : NULL;
    }
    if (n > SHOWN) diag_hint(d, "%d more lines of linker output not shown", n - SHOWN);
    if (WIFEXITED(status))
        diag_fatal(d, NULL, "the linker '%s' failed with exit code %d", linker, WEXITSTATUS(status));
    diag_fatal(d, NULL, "the linker '%s' was killed by signal %d", linker, WTERMSIG(status));
}

static void run_linker(arena *a, diag *d, strings *args) {
    int pipes[2], status;
    pid_t child;
    VEC_PUSH(a, args, NULL);
    if (pipe2(pipes, O_CLOEXEC)) diag_fatal(d, NULL, "cannot start the linker: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], 2);
    int failed = leftovers_spawn(d->leftovers, &child, args->at[0], &actions, (char **)args->at);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    if (failed) {
        close(pipes[0]);
        diag_fatal(d, NULL, "cannot start the linker '%s': %s", args->at[0], strerror(failed));
    }
    text output = read_to_end(a, pipes[0]);
    leftovers_wait(d->leftovers, child, &status);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        report_linker(d, args->at[0], (char *)text_str(&output), status);
}

// ---------------------------------------------------------------- the linker's arguments Existing library
// folders under the system root: Debian's, its cross compilers', other distributions'.
static strings library_folders(arena *a, const link_options *o, const target *t) {
    const char *root = o->sysroot ? o->sysroot : "", *triple = t->folder;
    const char *cross = strcmp(triple, "i386-linux-gnu") == 0 ? "i686-linux-gnu" : triple;
    const char *const all[] = {arena_printf(a, "%s/usr/lib/%s", root, triple),
                               arena_printf(a, "%s/lib/%s", root, triple),
                               arena_printf(a, "%s/usr/%s/lib", root, cross),
                               arena_printf(a, "%s/usr/lib64", root),
                               arena_printf(a, "%s/lib64", root),
                               arena_printf(a, "%s/usr/lib", root),
                               arena_printf(a, "%s/lib", root)};
    enum { NAMED = 3 }; // the others contain libraries of the host only
    strings found = {0};
    for (size_t i = 0; i < (o->sysroot || target_is_host_arch(t) ? sizeof all / sizeof *all : NAMED); i++)
        if (exists(all[i])) VEC_PUSH(a, &found, all[i]);
    return found;
}

static const char *find_file(arena *a, const strings *folders, const char *name) {
    for (int i = 0; i < folders->n; i++) {
        const char *path = arena_printf(a, "%s/%s", folders->at[i], name);
        if (exists(path)) return path;
    }
    return NULL;
}

void add_arguments(arena *a, string_list *to, const char *const *from, int n) {
    for (int i = 0; i < n; i++)
        if (from[i]) VEC_PUSH(a, to, from[i]);
}

void add_flavor(arena *a, const job *j, const char *own, const char *flavor, string_list *args) {
    if (strncmp(base_name(j->linker), own, strlen(own)) != 0) ADD("-flavor", flavor);
}

// Names of kernels and constants, to which nothing refers, would take a tenth as much as the code. Other objects may
// have debug information.
static bool drops_symbols(const job *j) { return !j->m->debug_info && !j->o->inputs.n; }

// A C compiler finds its own libraries.
static void compiler_arguments(arena *a, const job *j, strings *args) {
    ADD(j->shared ? "-shared" : NULL, "-o", j->out, "-Wl,--fatal-warnings", "-Wl,-z,now");
    if (j->shared) ADD(arena_printf(a, "-Wl,-soname,%s", base_name(j->path)), "-Wl,--exclude-libs,ALL");
    if (j->stays) ADD("-Wl,-z,nodelete");
    if (drops_symbols(j)) ADD("-Wl,--strip-all");
    if (j->o->sysroot) ADD(arena_printf(a, "--sysroot=%s", j->o->sysroot));
    ADD(j->object);
    add_arguments(a, args, j->o->inputs.at, j->o->inputs.n);
    ADD(j->o->runtime, "-lm", "-lpthread");
}

static void need(diag *d, const job *j, const char *file, const char *name) {
    if (file) return;
    diag_hint(d, "--sysroot names the folder of the target's libraries, --linker its C compiler");
    diag_fatal_missing(d, NULL, "%s of the C library for %s was not found", name, j->t->triple);
}

static void program_start(arena *a, diag *d, const job *j, const strings *folders, strings *args) {
    const char *start = find_file(a, folders, "Scrt1.o"), *prologue = find_file(a, folders, "crti.o");
    need(d, j, start, "Scrt1.o");
    need(d, j, prologue, "crti.o");
    ADD("-pie", "--dynamic-linker", j->t->loader, start, prologue);
}

// Old versions of symbols, where the linker finds a glibc that has them and the libraries that they were in.
static void old_symbols(arena *a, const job *j, const strings *folders, strings *args) {
    for (int i = 0; i < 2; i++)
        if (j->wraps.libraries[i] && !find_file(a, folders, j->wraps.libraries[i])) return;
    for (int i = 0; i < j->wraps.names.n; i++) ADD(arena_printf(a, "--wrap=%s", j->wraps.names.at[i]));
    for (int i = 0; i < 2; i++)
        if (j->wraps.libraries[i]) ADD(arena_printf(a, "-l:%s", j->wraps.libraries[i]));
}

// A shared library can be linked without a C library, since the program that opens it has one.
static void lld_arguments(arena *a, diag *d, const job *j, strings *args) {
    strings folders = library_folders(a, j->o, j->t);
    const char *libc = find_file(a, &folders, "libc.so");
    ADD("-o", j->out, "--fatal-warnings", "--hash-style=gnu", "--gc-sections", "-z", "now", "-z", "relro");
    // C compilers ask for it, too: without it debuggers walk the stack, but backtraces of the process itself stop here.
    ADD("--eh-frame-hdr");
    if (j->o->sysroot) ADD(arena_printf(a, "--sysroot=%s", j->o->sysroot));
    if (drops_symbols(j)) ADD("--strip-all");
    if (j->whole) ADD("--no-mmap-output-file");
    // The linker's own one is at the headers, which the C library's code would not reach.
    if (j->large) ADD("--defsym=__dso_handle=_DYNAMIC");
    if (j->shared)
        ADD("-shared", "-soname", base_name(j->path), "--exclude-libs", "ALL",
            j->stays ? "-znodelete" : NULL);
    else program_start(a, d, j, &folders, args);
    ADD(j->object);
    add_arguments(a, args, j->o->inputs.at, j->o->inputs.n);
    ADD(j->o->runtime);
    for (int i = 0; i < folders.n; i++) ADD(arena_printf(a, "-L%s", folders.at[i]));
    if (!j->shared) need(d, j, libc, "libc.so");
    if (j->shared && libc) old_symbols(a, j, &folders, args);
    if (libc) ADD("--as-needed", "-lm", "-lc");
    if (!j->shared) ADD(find_file(a, &folders, "crtn.o"));
}

static void export(arena *a, const char *option, const char *name, strings *args) {
    ADD(arena_printf(a, "--%s=%s", option, name));
}

// A command for WASI, or a module with the functions of the header. The stack is below the data, so that it cannot
// grow into them. The memory above __heap_base belongs to malloc if the module has one, else to the caller.
static void wasm_arguments(arena *a, diag *d, const job *j, strings *args) {
    enum { STACK_BYTES = 1 << 18 };
    strings folders = library_folders(a, j->o, j->t);
    if (j->o->runtime) {
        size_t n = strlen(j->o->runtime) - strlen(base_name(j->o->runtime));
        VEC_PUSH(a, &folders, n ? arena_strndup(a, j->o->runtime, n) : ".");
    }
    const char *start_name = j->shared ? "crt1-reactor.o" : "crt1-command.o";
    const char *libc = find_file(a, &folders, "libc.a"), *start = find_file(a, &folders, start_name);
    add_flavor(a, j, "wasm-ld", "wasm", args);
    ADD("-o", j->out, "--fatal-warnings", "--stack-first", arena_printf(a, "-zstack-size=%d", STACK_BYTES));
    if (!j->m->debug_info) ADD("--strip-all");
    if (j->shared) ADD("--no-entry");
    for (int i = 0; i < j->m->funcs.n && j->shared; i++)
        if (j->m->funcs.at[i]->exported) export(a, "export", j->m->funcs.at[i]->name, args);
    for (int i = 0; i < j->m->data.n && j->shared; i++)
        if (j->m->data.at[i]->exported) export(a, "export", j->m->data.at[i]->name, args);
    if (j->shared) ADD("--export=__heap_base");
    ADD(j->object);
    add_arguments(a, args, j->o->inputs.at, j->o->inputs.n);
    if (!j->o->runtime) return;
    need(d, j, libc, "libc.a");
    need(d, j, start, start_name);
    ADD(start, j->o->runtime, libc);
    // Without _initialize each exported function would begin and end a separate program.
    if (j->shared) ADD("--export=malloc", "--export=free", "--export=_initialize");
}

// The runtime's threads wait for work as long as the process lives.
static bool starts_threads(const lmodule *m) {
    for (int i = 0; i < m->funcs.n; i++)
        if (strcmp(m->funcs.at[i]->name, "onnxc_rt_parallel") == 0) return true;
    return false;
}

// A file written by one call is in huge pages of Linux's page cache, which are mapped as such: weights are then read up to a
// quarter faster. The linker keeps it in memory until then, so not the largest ones.
static bool gains_by_huge_pages(const lmodule *m) {
    enum { LEAST = 4 << 20, MOST = 1 << 30 };
    int64_t n = 0;
    for (int i = 0; i < m->data.n; i++) n += m->data.at[i]->bytes;
    return n >= LEAST && n <= MOST;
}

// Linkers for other formats write the name of their output into it, and some write further files beside it.
static const char *place_output(arena *a, diag *d, job *j) {
    if (j->t->format == OBJECT_ELF) return NULL;
    j->folder = temporary_folder(a, d);
    const char *name = base_name(j->path);
    bool appends = j->t->format == OBJECT_COFF && !strchr(name, '.'); // MinGW's compiler
    return arena_printf(a, "%s/%s%s", j->folder, name, appends ? ".exe" : "");
}

static void add_linker_arguments(arena *a, diag *d, const job *j, strings *args) {
    VEC_PUSH(a, args, j->linker);
    switch (j->t->format) {
    case OBJECT_ELF:
        if (is_compiler(j->linker)) compiler_arguments(a, j, args);
        else lld_arguments(a, d, j, args);
        return;
    case OBJECT_WASM: wasm_arguments(a, d, j, args); return;
    case OBJECT_COFF: windows_arguments(a, d, j, args); return;
    case OBJECT_MACHO: macos_arguments(a, d, j, args); return;
    }
}

static void copy_file(arena *a, diag *d, const char *from, outfile *to) {
    bytes content = file_bytes(a, d, from);
    outfile_write(to, content.at, content.n);
}

static void link_file(arena *a, diag *d, bytes object, const lmodule *m, const link_options *o,
                      const char *path, bool shared) {
    strings args = {0};
    outfile *output = outfile_open(a, d, path, true), *linked = output, *import = NULL;
    const char *product = temporary_prefix(a, output, path, m);
    if (product != path) linked = outfile_open(a, d, product, true);
    outfile *input = write_object(a, d, object, m, product);
    job j = {.o = o,
             .m = m,
             .t = m->target,
             .linker = find_linker(a, d, o, m->target),
             .object = outfile_temporary(input),
             .path = path,
             .out = outfile_temporary(linked),
             .shared = shared,
             .stays = shared && starts_threads(m),
             .whole = gains_by_huge_pages(m),
             .large = data_is_large(m),
             .code = object};
    archive runtime = {0}; // read here, as linkers say more about a file that is not one
    if (o->runtime) runtime = archive_read(a, d, file_bytes(a, d, o->runtime), o->runtime);
    if (shared && o->runtime && strstr(m->target->triple, "-linux-gnu"))
        j.wraps = glibc_wraps_of(a, d, object, &runtime);
    const char *elsewhere = place_output(a, d, &j);
    if (elsewhere) j.out = elsewhere;
    add_linker_arguments(a, d, &j, &args);
    run_linker(a, d, &args);
    if (linked != output || elsewhere) copy_file(a, d, j.out, output);
    if (linked != output) outfile_discard(linked);
    if (m->target->format == OBJECT_COFF && shared) {
        import = outfile_open(a, d, windows_import_library(a, path), false);
        copy_file(a, d, windows_import_library(a, j.out), import);
        outfile_commit(import);
    }
    outfile_commit(output);
    outfile_discard(input);
}

void link_shared(arena *a, diag *d, bytes object, const lmodule *m, const link_options *o, const char *path) {
    link_file(a, d, object, m, o, path, true);
}

void link_program(arena *a, diag *d, bytes object, const lmodule *m, const link_options *o,
                  const char *path) {
    link_file(a, d, object, m, o, path, false);
}
