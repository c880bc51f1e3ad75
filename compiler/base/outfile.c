// Atomic output files.
#include "compiler/base/outfile.h"
#include "compiler/base/cleanup.h"
#include "compiler/base/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct outfile {
    arena *arena;
    diag *diag;
    leftovers *leftovers;         // of the diag, which may be gone when the arena is destroyed
    const char *path, *temporary; // temporary: NULL if written directly or done
    FILE *file;
};

static _Noreturn void fail(outfile *o) {
    if (is_stdout(o->path)) diag_fatal(o->diag, NULL, "cannot write to standard output: %s", strerror(errno));
    diag_fatal(o->diag, NULL, "cannot write '%s': %s", o->path, strerror(errno));
}

static void clean_up(void *user) {
    outfile *o = user;
    if (o->file) fclose(o->file);
    leftovers_lock(o->leftovers);
    if (o->temporary) unlink(o->temporary);
    leftovers_drop(o->leftovers, o->temporary);
    leftovers_unlock(o->leftovers);
    o->file = NULL;
    o->temporary = NULL;
}

// Unique across processes and the files of one process. A long name is cut: file systems allow 255 bytes.
static int create_temporary(outfile *o, mode_t mode) {
    const char *base = base_name(o->path);
    size_t kept = strnlen(base, 255 - 48);
    while (base[kept] && (base[kept] & 0xC0) == 0x80) kept--; // not within a character of UTF-8
    const char *stem = arena_strndup(o->arena, o->path, (size_t)(base - o->path) + kept);
    for (int i = 0; i < 1000; i++) {
        const char *name =
            arena_printf(o->arena, "%s.tmp-%ld-%lx-%d", stem, (long)getpid(), (unsigned long)o, i);
        leftovers_lock(o->leftovers);
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode), problem = errno;
        if (fd >= 0) leftovers_add(o->leftovers, name);
        leftovers_unlock(o->leftovers);
        errno = problem;
        if (fd >= 0) o->temporary = name;
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

// Standard output keeps its offset (after text already printed, or at the end of a file).
static int open_directly(const char *path) {
    if (strcmp(path, "/dev/stdout") != 0) return open(path, O_WRONLY | O_CLOEXEC);
    fflush(stdout);
    if ((fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY) { // open_standard_files
        errno = EBADF;
        return -1;
    }
    return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
}

void outfile_protect(diag *d, const char *input) {
    for (int i = 0; i < d->inputs.n; i++)
        if (strcmp(d->inputs.at[i], input) == 0) return;
    VEC_PUSH(d->arena, &d->inputs, arena_strdup(d->arena, input));
}

void outfile_check(diag *d, const char *path) {
    for (int i = 0; i < d->inputs.n; i++)
        if (same_file(path, d->inputs.at[i]))
            diag_fatal(d, NULL, "output file '%s' is also an input, '%s'", path, d->inputs.at[i]);
}

void outfile_check_folder(diag *d, const char *path) {
    const char *slash = strrchr(path, '/');
    struct stat st;
    if (!slash || slash == path) return;
    const char *folder = arena_strndup(d->arena, path, (size_t)(slash - path));
    int problem = stat(folder, &st) ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    if (problem) diag_fatal(d, NULL, "cannot write '%s': folder '%s': %s", path, folder, strerror(problem));
}

outfile *outfile_open(arena *a, diag *d, const char *path, bool executable) {
    outfile *o = ARENA_NEW(a, outfile);
    if (strcmp(path, "-") == 0) path = "/dev/stdout";
    *o = (outfile){.arena = a, .diag = d, .leftovers = d->leftovers, .path = arena_strdup(a, path)};
    struct stat st;
    bool exists = stat(path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode)) diag_fatal(d, NULL, "cannot write '%s': it is a folder", path);
    outfile_check(d, path);
    bool direct = exists && is_stream(path); // a file in its place would break the name for other processes
    int fd = direct ? open_directly(path) : create_temporary(o, executable ? 0777 : 0666);
    if (fd < 0) fail(o);
    o->file = fdopen(fd, "wb");
    arena_on_destroy(a, clean_up, o);
    if (!o->file) fail(o);
    return o;
}

void outfile_write(outfile *o, const void *at, size_t n) {
    if (n && fwrite(at, 1, n, o->file) != n) fail(o);
}

static void write_to_file(void *o, const char *s, size_t n) { outfile_write(o, s, n); }
sink outfile_sink(outfile *o) { return (sink){write_to_file, o}; }
const char *outfile_temporary(const outfile *o) { return o->temporary ? o->temporary : o->path; }

void outfile_flush(outfile *o) {
    if (fflush(o->file)) fail(o);
}

void outfile_discard(outfile *o) { clean_up(o); }

void outfile_commit(outfile *o) {
    int failed = fclose(o->file);
    o->file = NULL;
    if (failed) fail(o);
    if (o->temporary && rename(o->temporary, o->path)) fail(o);
    leftovers_lock(o->leftovers);
    leftovers_drop(o->leftovers, o->temporary);
    leftovers_unlock(o->leftovers);
    o->temporary = NULL;
}

void outfile_write_whole(arena *a, diag *d, const char *path, bytes content) {
    outfile *o = outfile_open(a, d, path, false);
    outfile_write(o, content.at, content.n);
    outfile_commit(o);
}
