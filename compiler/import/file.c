// Opens files under limits, recognises wrong kinds of file, and finds external data, only within its folders.
#include "compiler/import/file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- Opening

typedef struct mapping {
    void *data;
    size_t size;
} mapping;

static void unmap(void *m) { munmap(((mapping *)m)->data, ((mapping *)m)->size); }

static const char *kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
    if (S_ISSOCK(mode)) return "a socket";
    return "of an unknown kind";
}

// Why fd cannot be read; NULL: it can.
static const char *objection(arena *a, int fd, int64_t most, struct stat *st) {
    if (fstat(fd, st)) return strerror(errno);
    if (!S_ISREG(st->st_mode)) return arena_printf(a, "it is %s, not a regular file", kind_of(st->st_mode));
    if (st->st_size > most)
        return arena_printf(a, "it has %lld bytes, the limit is %lld", (long long)st->st_size,
                            (long long)most);
    return NULL;
}

static const uint8_t *map_fd(arena *a, int fd, size_t size) {
    if (!size) return (const uint8_t *)"";
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return NULL;
    mapping *m = ARENA_NEW(a, mapping);
    *m = (mapping){data, size};
    arena_on_destroy(a, unmap, m);
    return data;
}

mapped file_map(arena *a, diag *d, const char *path, int64_t most) {
    struct stat st;
    mapped m = {.path = path};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const char *why = fd < 0 ? strerror(errno) : objection(a, fd, most, &st);
    if (!why) {
        m.size = (size_t)st.st_size;
        m.data = map_fd(a, fd, m.size);
        if (!m.data) why = strerror(errno);
    }
    if (fd >= 0) close(fd);
    if (why) diag_fatal(d, NULL, "cannot read '%s': %s", path, why);
    return m;
}

mapped file_read_stdin(arena *a, diag *d) {
    size_t size = 0, capacity = 1 << 16;
    uint8_t *data = arena_alloc(a, capacity);
    for (;;) {
        ssize_t got = read(STDIN_FILENO, data + size, capacity - size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) diag_fatal(d, NULL, "cannot read standard input: %s", strerror(errno));
        if (got == 0) return (mapped){"-", data, size};
        size += (size_t)got;
        if (size < capacity) continue;
        data = arena_grow(a, data, size, 2 * capacity);
        capacity *= 2;
    }
}

// ---- Kinds of files

typedef struct signature {
    size_t offset;
    const char *bytes;
    size_t size;
    const char *what, *hint;
} signature;

#define BYTES(s) s, sizeof s - 1
static const signature signatures[] = {
    {0, BYTES("version https://git-lfs"), "a Git-LFS pointer, not the file itself",
     "'git lfs pull' fetches the file"},
    {2, BYTES("\0\0TFL3"), "a TensorFlow Lite model",
     "tf2onnx converts it: python -m tf2onnx.convert --tflite FILE"},
    {2, BYTES("\0\0ORTM"), "a model in ONNX Runtime's own format",
     "compile the .onnx file that it was made from"},
    {0, BYTES("\x1f\x8b"), "compressed with gzip", "gunzip it first"},
    {0, BYTES("\3757zXZ"), "compressed with xz", "unxz it first"},
    {0, BYTES("BZh9"), "compressed with bzip2", "bunzip2 it first"},
    {0, BYTES("\x28\xb5\x2f\xfd"), "compressed with zstd", "unzstd it first"},
    {257, BYTES("ustar"), "a tar archive", "unpack it first: tar xf FILE"},
    {0, BYTES("\x89HDF"), "an HDF5 file, perhaps from Keras", "export the model to ONNX first, with tf2onnx"},
    {0, BYTES("GGUF"), "a GGUF file", "export the model to ONNX first"},
    {0, BYTES("\x93NUMPY"), "a NumPy array", NULL},
    {0, BYTES("\177ELF"), "a program or library (ELF)", NULL},
    {0, BYTES("!<arch>\n"), "a static library", "'onnxc run' takes a model or a shared library (.so)"},
};

static bool has(const uint8_t *data, size_t size, size_t offset, const char *bytes, size_t n) {
    return size >= offset + n && memcmp(data + offset, bytes, n) == 0;
}

static bool contains(const uint8_t *data, size_t size, const char *word) {
    size_t most = size < 4096 ? size : 4096;
    return memmem(data, most, word, strlen(word)) != NULL;
}

static _Noreturn void refuse(diag *d, const char *what, const char *hint) {
    if (hint) diag_hint(d, "%s", hint);
    diag_fatal(d, NULL, "not an ONNX model: this is %s", what);
}

static void check_archive(diag *d, const uint8_t *data, size_t size) {
    if (!has(data, size, 0, BYTES("PK\3\4"))) return;
    if (contains(data, size, "data.pkl") || contains(data, size, "data/"))
        refuse(d, "a PyTorch checkpoint", "export the model with torch.onnx.export");
    if (contains(data, size, ".npy")) refuse(d, "a NumPy archive (.npz)", NULL);
    refuse(d, "a zip archive", "unzip it first");
}

static void check_pickle(diag *d, const uint8_t *data, size_t size) {
    if (size > 2 && data[0] == 0x80 && data[1] >= 2 && data[1] <= 5)
        refuse(d, "a Python pickle, perhaps a PyTorch or scikit-learn model",
               "export the model to ONNX first (torch.onnx.export, skl2onnx)");
}

static void check_safetensors(diag *d, const uint8_t *data, size_t size) {
    uint64_t header = 0;
    for (size_t i = 0; i < 8 && i < size; i++) header |= (uint64_t)data[i] << 8 * i;
    if (size > 9 && data[8] == '{' && header >= 2 && header <= size - 8)
        refuse(d, "a safetensors file, which has weights but no graph", "export the model to ONNX first");
}

// A GraphDef begins with a node, field 1; in an ONNX model that is a number.
static void check_tensorflow(diag *d, const uint8_t *data, size_t size) {
    bool nodes = has(data, size, 0, BYTES("\n"));
    if (nodes && (contains(data, size, "\22\13Placeholder") || contains(data, size, "\22\5Const")))
        refuse(d, "a TensorFlow graph", "tf2onnx converts it: python -m tf2onnx.convert --graphdef FILE");
}

static bool is_space(uint8_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static bool starts(const uint8_t *s, size_t n, const char *word) {
    return n >= strlen(word) && strncasecmp((const char *)s, word, strlen(word)) == 0;
}

// Whether the file has bytes of text only, as far as it takes to tell: a model has tags and lengths below space.
static bool is_plain(const uint8_t *s, size_t n) {
    size_t most = n < 512 ? n : 512;
    for (size_t i = 0; i < most; i++)
        if (s[i] == 0x7f || (s[i] < ' ' && !is_space(s[i]))) return false;
    return true;
}

static void check_text(diag *d, const uint8_t *s, size_t n) {
    if (has(s, n, 0, BYTES("\xef\xbb\xbf"))) s += 3, n -= 3;
    while (n && is_space(*s)) s++, n--;
    if (starts(s, n, "<!doctype html") || starts(s, n, "<html"))
        refuse(d, "an HTML page",
               "the download may have needed a login, or the link led to a page about the file");
    if (starts(s, n, "<?xml")) refuse(d, "an XML file", NULL);
    if (starts(s, n, "module \"") || starts(s, n, "program "))
        refuse(d, "onnxc's own text form of a graph or kernels",
               "--emit=onnx writes a graph that onnxc and other tools can read");
}

void file_check_kind(diag *d, const uint8_t *data, size_t size) {
    if (!size) diag_fatal(d, NULL, "the file is empty");
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
        const signature *s = &signatures[i];
        if (has(data, size, s->offset, s->bytes, s->size)) refuse(d, s->what, s->hint);
    }
    check_archive(d, data, size);
    check_pickle(d, data, size);
    check_safetensors(d, data, size);
    check_tensorflow(d, data, size);
    check_text(d, data, size);
}

void file_check_binary(diag *d, const uint8_t *data, size_t size) {
    if (is_plain(data, size))
        refuse(d, "text, but not a model in a form that onnxc reads",
               "the endings of these forms are .onnxtxt, .textproto and .onnx.json");
    for (size_t i = 0; i < size && i < 512; i++)
        if (data[i]) return;
    refuse(d, "a file of zeros", "the download may be incomplete");
}

// ---- Folders

const char *file_folder(arena *a, const char *path, bool resolve) {
    char real[PATH_MAX];
    if (resolve) {
        if (!realpath(path, real)) return NULL;
        path = real;
    }
    const char *slash = strrchr(path, '/');
    if (!slash) return ".";
    return slash == path ? "/" : arena_strndup(a, path, (size_t)(slash - path));
}

static bool has_parent_part(const char *path) {
    for (const char *s = path; *s; s += *s == '/') {
        size_t n = strcspn(s, "/");
        if (n == 2 && s[0] == '.' && s[1] == '.') return true;
        s += n;
    }
    return false;
}

static bool is_below(const char *real, const char *folder) {
    char root[PATH_MAX];
    if (!folder || !realpath(folder, root)) return false;
    size_t n = strcmp(root, "/") ? strlen(root) : 0;
    return strncmp(real, root, n) == 0 && real[n] == '/';
}

const char *file_below(arena *a, diag *d, const loc *at, const char *const *folders, int n,
                       const char *location, const char **found) {
    char real[PATH_MAX];
    if (!*location) diag_fatal(d, at, "external data has an empty location");
    if (*location == '/') diag_fatal(d, at, "external data has an absolute location, '%s'", location);
    if (has_parent_part(location))
        diag_fatal(d, at, "external data has '..' in its location, '%s'", location);
    bool outside = false;
    for (int i = 0; i < n; i++) {
        if (!folders[i]) continue;
        *found = strcmp(folders[i], ".") ? arena_printf(a, "%s/%s", folders[i], location)
                                         : arena_strdup(a, location);
        if (!realpath(*found, real)) continue;
        for (int k = 0; k < n; k++)
            if (is_below(real, folders[k])) return arena_strdup(a, real);
        outside = true;
    }
    if (outside)
        diag_fatal(d, at, "external data '%s' is a link that leads out of the model's folder", location);
    diag_hint(d, "external data is searched for in the model's folder; --external-data-dir DIR adds another");
    diag_fatal(d, at, "external data '%s' does not exist", location);
}
