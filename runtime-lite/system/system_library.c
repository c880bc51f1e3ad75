// Libraries that are loaded at run time. In: a path. Out: a handle, addresses, the names that it exports.
#include "runtime-lite/system/system.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef _WIN32
static _Thread_local char error_text[512];

// "The specified module could not be found. (error 126)", without the line's end.
static void keep_error(const char *path) {
    DWORD code = GetLastError();
    int n = snprintf(error_text, sizeof error_text, "%s: ", path);
    if (n < 0 || (size_t)n >= sizeof error_text) return;
    char *at = error_text + n;
    DWORD room = (DWORD)(sizeof error_text - (size_t)n),
          size = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0, at,
                                room, NULL);
    while (size && (at[size - 1] == '\n' || at[size - 1] == '\r')) size--;
    snprintf(at + size, room - size, "%serror %lu", size ? ", " : "", (unsigned long)code);
}

void *system_library(const char *path) {
    HMODULE library = LoadLibraryA(path);
    if (!library) keep_error(path);
    return library;
}

void *system_symbol(void *library, const char *name) {
    FARPROC f = GetProcAddress(library, name);
    void *address;
    memcpy(&address, &f, sizeof address);
    return address;
}

const char *system_library_error(void) { return error_text; }
#elif defined __wasm__
void *system_library(const char *path) { return (void)path, NULL; }
void *system_symbol(void *library, const char *name) { return (void)library, (void)name, NULL; }
const char *system_library_error(void) { return "WebAssembly has no libraries"; }
#else
#include <dlfcn.h>

void *system_library(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
void *system_symbol(void *library, const char *name) { return dlsym(library, name); }
const char *system_library_error(void) { return dlerror(); }
#endif
