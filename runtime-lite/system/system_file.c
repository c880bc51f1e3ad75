// Files: one mapped for reading, a new folder.
#include "runtime-lite/system/system.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#ifdef _WIN32
static const char *reason(void) {
    DWORD code = GetLastError();
    return code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND ? "No such file or directory"
           : code == ERROR_ACCESS_DENIED                                ? "Permission denied"
                                                                        : "the system refuses";
}

// Others may replace or remove the file while it is mapped, as on other systems.
const void *system_map(const char *path, unsigned long long *bytes, const char **why) {
    LARGE_INTEGER size = {.QuadPart = 0};
    HANDLE file =
        CreateFileA(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
    *why = file == INVALID_HANDLE_VALUE ? reason() : NULL;
    if (file == INVALID_HANDLE_VALUE) return NULL;
    HANDLE mapping = GetFileSizeEx(file, &size) && size.QuadPart
                         ? CreateFileMappingA(file, NULL, PAGE_READONLY, 0, 0, NULL)
                         : NULL;
    const void *at = mapping ? MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0) : NULL;
    if (size.QuadPart && !at) *why = reason();
    if (mapping) CloseHandle(mapping);
    CloseHandle(file);
    *bytes = (unsigned long long)size.QuadPart;
    return at;
}

void system_unmap(const void *at, unsigned long long bytes) {
    (void)bytes;
    UnmapViewOfFile(at);
}

int system_make_folder(const char *path) { return CreateDirectoryA(path, NULL) ? 0 : -1; }
#elif defined __wasm__
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

const void *system_map(const char *path, unsigned long long *bytes, const char **why) {
    FILE *f = fopen(path, "rb");
    struct stat s = {0};
    *why = !f || fstat(fileno(f), &s) ? strerror(errno) : NULL;
    size_t size = (size_t)s.st_size;
    void *at = size ? aligned_alloc(64, (size + 63) / 64 * 64) : NULL;
    if (size && !at) *why = strerror(ENOMEM);
    *bytes = at ? fread(at, 1, size, f) : 0;
    if (f) fclose(f);
    return at;
}

void system_unmap(const void *at, unsigned long long bytes) {
    (void)bytes;
    free((void *)(size_t)at);
}

int system_make_folder(const char *path) { return mkdir(path, 0777); }
#else
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// Without fstat, whose symbol is new in glibc 2.33.
const void *system_map(const char *path, unsigned long long *bytes, const char **why) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *why = fd < 0 ? strerror(errno) : NULL;
    if (fd < 0) return NULL;
    char first;
    off_t size = pread(fd, &first, 1, 0) == 1 ? lseek(fd, 0, SEEK_END) : 0;
    void *at = size > 0 ? mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (size > 0 && at == MAP_FAILED) *why = strerror(errno);
    close(fd);
    *bytes = (unsigned long long)size;
    return at == MAP_FAILED ? NULL : at;
}

void system_unmap(const void *at, unsigned long long bytes) { munmap((void *)(size_t)at, (size_t)bytes); }
int system_make_folder(const char *path) { return mkdir(path, 0777); }
#endif
