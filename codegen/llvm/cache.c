// In: keys. Out: the bytes stored under them, in a folder of files with a head (key, digest and size of the
// contents). New files are renamed into place, so concurrent compilations can share a folder.
#include "codegen/llvm/cache.h"
#include "codegen/llvm/digest.h"
#include "compiler/base/fs.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <llvm-c/Core.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT_MOST ((off_t)1 << 30)
enum { DIGITS = 64 };

typedef struct head {
    char magic[8];
    char key[DIGITS], content[DIGITS]; // digests
    uint64_t bytes;
} head;
static const char magic[8] = "onnxc-c1";

struct cache {
    const char *folder;
};

// ---------------------------------------------------------------- files
cache *cache_open(arena *a, diag *d, const char *folder) {
    struct stat st;
    if (mkdir(folder, 0700) && errno != EEXIST)
        diag_fatal(d, NULL, "--cache: cannot make folder '%s': %s", folder, strerror(errno));
    if (stat(folder, &st) || !S_ISDIR(st.st_mode))
        diag_fatal(d, NULL, "--cache: '%s' is not a folder", folder);
    cache *c = ARENA_NEW(a, cache);
    c->folder = folder;
    return c;
}

// Only files of this user, because their code runs.
static bool is_own(int fd, off_t *bytes) {
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) return false;
    *bytes = st.st_size;
    return st.st_size >= (off_t)sizeof(head) && st.st_size <= KEPT_MOST;
}

static const char *digest_of(arena *a, bytes content) {
    digest *d = digest_new(a);
    digest_add(d, content.at, content.n);
    return digest_text(d);
}

static bool read_entry(int fd, arena *a, const char *key, bytes *content) {
    off_t size;
    head h;
    if (!is_own(fd, &size) || !read_all(fd, &h, sizeof h)) return false;
    if (memcmp(h.magic, magic, sizeof magic) || memcmp(h.key, key, DIGITS)) return false;
    if (h.bytes != (uint64_t)size - sizeof h) return false;
    char *at = arena_alloc(a, (size_t)h.bytes + 1);
    if (!read_all(fd, at, (size_t)h.bytes)) return false;
    *content = (bytes){at, (size_t)h.bytes};
    return memcmp(digest_of(a, *content), h.content, DIGITS) == 0;
}

bool cache_find(const cache *c, arena *a, const char *key, bytes *content) {
    int fd = open(arena_printf(a, "%s/%s", c->folder, key), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool found = fd >= 0 && read_entry(fd, a, key, content);
    if (fd >= 0) close(fd);
    return found;
}

// Errors, such as a full disk, are ignored: the cache then lacks the entry.
void cache_keep(const cache *c, arena *a, const char *key, bytes content) {
    head h = {.bytes = content.n};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.key, key, DIGITS);
    memcpy(h.content, digest_of(a, content), DIGITS);
    char *temporary = arena_printf(a, "%s/.new-XXXXXX", c->folder);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) return;
    bool ok = write_all(fd, &h, sizeof h) && write_all(fd, content.at, content.n);
    ok &= close(fd) == 0;
    if (!ok || rename(temporary, arena_printf(a, "%s/%s", c->folder, key))) unlink(temporary);
}

// ---------------------------------------------------------------- identity of the compiler
typedef struct build_id {
    uintptr_t inside; // an address in the code to be identified
    digest *to;
    bool found;
} build_id;

// The build-id note of a program or library: 12 bytes, "GNU", the id.
static void add_notes(build_id *b, const char *at, size_t n) {
    while (n >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, at, sizeof note);
        size_t name = (note.n_namesz + 3u) & ~3u, id = (note.n_descsz + 3u) & ~3u,
               all = sizeof note + name + id;
        if (all > n) return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(at + sizeof note, "GNU", 4)) {
            digest_add(b->to, at + sizeof note + name, note.n_descsz);
            b->found = true;
        }
        at += all;
        n -= all;
    }
}

static int visit_object(struct dl_phdr_info *info, size_t size, void *user) {
    build_id *b = user;
    bool inside = false;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        inside |= p->p_type == PT_LOAD && b->inside - info->dlpi_addr - p->p_vaddr < p->p_memsz;
    }
    for (int i = 0; inside && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_NOTE) add_notes(b, (const char *)(info->dlpi_addr + p->p_vaddr), p->p_memsz);
    }
    return inside;
}

// Builds without a build id are identified by their file.
static void add_file(digest *to, const void *inside) {
    Dl_info found = {0};
    struct stat st;
    if (!dladdr(inside, &found) || !found.dli_fname || stat(found.dli_fname, &st)) return;
    int64_t facts[] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (int64_t)st.st_ino};
    digest_add(to, facts, sizeof facts);
}

static void add_build(digest *to, const void *inside) {
    build_id b = {.inside = (uintptr_t)inside, .to = to};
    dl_iterate_phdr(visit_object, &b);
    if (!b.found) add_file(to, inside);
}

const char *cache_identity(arena *a) {
    digest *d = digest_new(a);
    unsigned version[3];
    LLVMGetVersion(&version[0], &version[1], &version[2]);
    digest_add(d, version, sizeof version);
    digest_add(d, ONNXC_VERSION, sizeof ONNXC_VERSION);
    add_build(d, (const void *)(uintptr_t)cache_identity);
    add_build(d, (const void *)(uintptr_t)LLVMContextCreate);
    return digest_text(d);
}

const char *cache_build(arena *a, const void *inside) {
    digest *d = digest_new(a);
    add_build(d, inside);
    return digest_text(d);
}

const char *cache_key(arena *a, const char *const *parts, int n) {
    digest *d = digest_new(a);
    for (int i = 0; i < n; i++) digest_add(d, parts[i], strlen(parts[i]) + 1);
    return digest_text(d);
}
