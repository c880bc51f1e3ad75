// Shared by the files that call linkers: one call, and its arguments by system.
#ifndef ONNXC_CODEGEN_OBJECT_LINK_IMPL_H
#define ONNXC_CODEGEN_OBJECT_LINK_IMPL_H
#include "codegen/object/glibc.h"
#include "codegen/object/link.h"
#include "ir/target.h"

typedef struct job {
    const link_options *o;
    const lmodule *m;
    const target *t;
    const char *linker, *object, *path, *out; // path: the final name; out: the temporary one
    bool shared, stays;                       // stays: threads may run its code after dlclose
    bool whole;                               // written by one call
    bool large;                               // the constants are between the headers and the code
    glibc_wraps wraps;
    bytes code;         // the object without data
    const char *folder; // for files of the linker that are dropped; NULL: none
} job;

void add_arguments(arena *a, string_list *to, const char *const *from, int n); // leaves out NULLs
#define ADD(...)                                                                                             \
    add_arguments(a, args, (const char *const[]){__VA_ARGS__},                                               \
                  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

bytes file_bytes(arena *a, diag *d, const char *path); // mapped
bool is_compiler(const char *linker);
// "-flavor NAME" for LLD under another name than its own for that system.
void add_flavor(arena *a, const job *j, const char *own, const char *flavor, string_list *args);

// link_windows.c
bool is_mingw(const target *t);
void windows_arguments(arena *a, diag *d, const job *j, string_list *args);
const char *windows_import_library(arena *a, const char *dll); // beside the DLL
// link_macos.c
void macos_arguments(arena *a, diag *d, const job *j, string_list *args);
#endif
