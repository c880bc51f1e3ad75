// Functions of libdl, which went to libc in glibc 2.34.
#include "runtime-lite/core/glibc_versions.h"

#ifdef ONNXC_GLIBC_BASE
ONNXC_WRAP(void *, dlopen, ONNXC_GLIBC_THREADS, (const char *path, int flags), (path, flags))
ONNXC_WRAP(void *, dlsym, ONNXC_GLIBC_BASE, (void *library, const char *name), (library, name))
ONNXC_WRAP(char *, dlerror, ONNXC_GLIBC_BASE, (void), ())
#endif
