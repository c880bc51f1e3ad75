// Reads and writes of all requested bytes of files and pipes.
#include "compiler/base/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool read_all(int fd, void *to, size_t n) {
    for (char *at = to; n;) {
        ssize_t got = read(fd, at, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got, n -= (size_t)got;
    }
    return true;
}

bool write_all(int fd, const void *from, size_t n) {
    for (const char *at = from; n;) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        at += done, n -= (size_t)done;
    }
    return true;
}

const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool ends_with(const char *s, const char *ending) {
    size_t n = strlen(s), m = strlen(ending);
    return n >= m && strcmp(s + n - m, ending) == 0;
}

const char *extension_of(const char *path) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    return dot && dot != path && dot[-1] != '/' ? dot : "";
}

bool is_stdout(const char *path) {
    return path && (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0);
}

void open_standard_files(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

bool path_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool is_stream(const char *path) {
    static const char *const descriptors[] = {"/dev/std", "/dev/fd/", "/proc/"};
    struct stat st;
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++)
        if (strncmp(path, descriptors[i], strlen(descriptors[i])) == 0) return true;
    return is_stdout(path) || (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
}

static bool stat_folder_of(const char *path, struct stat *st) {
    char folder[PATH_MAX];
    size_t n = (size_t)(base_name(path) - path);
    if (!n) return stat(".", st) == 0;
    if (n >= sizeof folder) return false;
    memcpy(folder, path, n);
    folder[n] = 0;
    return stat(folder, st) == 0;
}

static bool same_inode(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool same_file(const char *a, const char *b) {
    struct stat x, y;
    bool has_a = stat(a, &x) == 0, has_b = stat(b, &y) == 0;
    if (has_a && has_b) return S_ISREG(x.st_mode) && same_inode(&x, &y);
    if (has_a || has_b || strcmp(base_name(a), base_name(b)) != 0) return false;
    return strcmp(a, b) == 0 || (stat_folder_of(a, &x) && stat_folder_of(b, &y) && same_inode(&x, &y));
}
