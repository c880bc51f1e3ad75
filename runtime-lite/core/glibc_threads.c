// Functions of libpthread, which went to libc in glibc 2.32 and 2.34.
#include "runtime-lite/core/glibc_versions.h"

#ifdef ONNXC_GLIBC_BASE
#include <pthread.h>
#include <signal.h>

ONNXC_WRAP(int, pthread_create, ONNXC_GLIBC_THREADS,
           (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument),
           (thread, attributes, start, argument))
ONNXC_WRAP(int, pthread_mutex_trylock, ONNXC_GLIBC_BASE, (pthread_mutex_t * mutex), (mutex))
ONNXC_WRAP(int, pthread_once, ONNXC_GLIBC_BASE, (pthread_once_t * done, void (*first)(void)), (done, first))
ONNXC_WRAP(int, pthread_sigmask, ONNXC_GLIBC_BASE, (int how, const sigset_t *set, sigset_t *before),
           (how, set, before))
#endif
