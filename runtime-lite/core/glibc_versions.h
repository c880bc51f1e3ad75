/* Wrappers of functions that glibc has had since its first version, but under a newer version of their symbols since 2.32 to 2.34. Shared
 * libraries that onnxc links refer to them by --wrap (codegen/object/glibc.c), and so to the old symbols, which all glibcs have. */
#ifndef ONNXC_RT_GLIBC_VERSIONS_H
#define ONNXC_RT_GLIBC_VERSIONS_H
#ifdef __linux__
#include <features.h>
#endif
#ifdef __GLIBC__
#if defined(__x86_64__) && defined(__LP64__)
#define ONNXC_GLIBC_BASE    "GLIBC_2.2.5"
#define ONNXC_GLIBC_THREADS "GLIBC_2.2.5"
#elif defined(__i386__)
#define ONNXC_GLIBC_BASE    "GLIBC_2.0"
#define ONNXC_GLIBC_THREADS "GLIBC_2.1"
#elif defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)
#define ONNXC_GLIBC_BASE    "GLIBC_2.17"
#define ONNXC_GLIBC_THREADS "GLIBC_2.17"
#elif defined(__arm__) && defined(__ARM_EABI__)
#define ONNXC_GLIBC_BASE    "GLIBC_2.4"
#define ONNXC_GLIBC_THREADS "GLIBC_2.4"
#elif defined(__riscv) && __riscv_xlen == 64
#define ONNXC_GLIBC_BASE    "GLIBC_2.27"
#define ONNXC_GLIBC_THREADS "GLIBC_2.27"
#endif
#endif
/* __wrap_NAME, which calls NAME@VERSION. */
#define ONNXC_WRAP(result, name, version, parameters, arguments)                                             \
    __asm__(".symver onnxc_old_" #name "," #name "@" version);                                               \
    __attribute__((visibility("default"))) result onnxc_old_##name parameters;                               \
    result __wrap_##name parameters;                                                                         \
    result __wrap_##name parameters { return onnxc_old_##name arguments; }
#endif
