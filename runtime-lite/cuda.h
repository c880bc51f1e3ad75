/* The part of CUDA's driver interface that the runtime uses, found in libcuda.so.1 when it is needed. */
#ifndef ONNXC_CUDA_DRIVER_H
#define ONNXC_CUDA_DRIVER_H
#include <stddef.h>
#include <stdint.h>

typedef uint64_t cuda_address;
typedef struct cuda_stream_s *cuda_stream;
typedef struct cuda_context_s *cuda_context;
typedef struct cuda_module_s *cuda_module;
typedef struct cuda_function_s *cuda_function;
typedef struct cuda_graph_s *cuda_graph;
typedef struct cuda_graph_exec_s *cuda_graph_exec;
enum { CUDA_OK = 0, CUDA_INVALID_VALUE = 1, CUDA_OUT_OF_MEMORY = 2 };
enum {
    CUDA_CAPABILITY_MAJOR = 75,
    CUDA_CAPABILITY_MINOR = 76,
    CUDA_NON_BLOCKING = 1,
    CUDA_CAPTURE_THREAD = 1,
    CUDA_FUNCTION_SHARED_MOST = 8
};

/* X(name here, its symbol, parameters) */
#define CUDA_FUNCTIONS(X)                                                                                    \
    X(init, "cuInit", (unsigned flags))                                                                      \
    X(device_count, "cuDeviceGetCount", (int *count))                                                        \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                                                 \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))                     \
    X(retain, "cuDevicePrimaryCtxRetain", (cuda_context * context, int device))                              \
    X(release, "cuDevicePrimaryCtxRelease_v2", (int device))                                                 \
    X(push, "cuCtxPushCurrent_v2", (cuda_context context))                                                   \
    X(pop, "cuCtxPopCurrent_v2", (cuda_context * context))                                                   \
    X(load, "cuModuleLoadData", (cuda_module * module, const void *image))                                   \
    X(unload, "cuModuleUnload", (cuda_module module))                                                        \
    X(function, "cuModuleGetFunction", (cuda_function * function, cuda_module module, const char *name))     \
    X(function_set, "cuFuncSetAttribute", (cuda_function function, int attribute, int value))                \
    X(alloc, "cuMemAlloc_v2", (cuda_address * at, size_t bytes))                                             \
    X(free, "cuMemFree_v2", (cuda_address at))                                                               \
    X(to_device, "cuMemcpyHtoDAsync_v2", (cuda_address to, const void *from, size_t n, cuda_stream stream))  \
    X(to_host, "cuMemcpyDtoHAsync_v2", (void *to, cuda_address from, size_t n, cuda_stream stream))          \
    X(on_device, "cuMemcpyDtoDAsync_v2", (cuda_address to, cuda_address from, size_t n, cuda_stream stream)) \
    X(fill, "cuMemsetD8Async", (cuda_address at, unsigned char value, size_t n, cuda_stream stream))         \
    X(launch, "cuLaunchKernel",                                                                              \
      (cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,          \
       unsigned block_y, unsigned block_z, unsigned shared, cuda_stream stream, void **arguments,            \
       void **extra))                                                                                        \
    X(stream_create, "cuStreamCreate", (cuda_stream * stream, unsigned flags))                               \
    X(stream_destroy, "cuStreamDestroy_v2", (cuda_stream stream))                                            \
    X(stream_wait, "cuStreamSynchronize", (cuda_stream stream))                                              \
    X(error_name, "cuGetErrorName", (int code, const char **name))                                           \
    X(error_text, "cuGetErrorString", (int code, const char **text))

/* Drivers from 11.4 on have these. */
#define CUDA_GRAPH_FUNCTIONS(X)                                                                              \
    X(capture_begin, "cuStreamBeginCapture_v2", (cuda_stream stream, int mode))                              \
    X(capture_end, "cuStreamEndCapture", (cuda_stream stream, cuda_graph * graph))                           \
    X(is_capturing, "cuStreamIsCapturing", (cuda_stream stream, int *status))                                \
    X(graph_instantiate, "cuGraphInstantiateWithFlags",                                                      \
      (cuda_graph_exec * made, cuda_graph graph, unsigned long long flags))                                  \
    X(graph_destroy, "cuGraphDestroy", (cuda_graph graph))                                                   \
    X(graph_exec_destroy, "cuGraphExecDestroy", (cuda_graph_exec graph))                                     \
    X(graph_launch, "cuGraphLaunch", (cuda_graph_exec graph, cuda_stream stream))

typedef struct cuda_driver {
#define X(name, symbol, parameters) int(*name) parameters;
    CUDA_FUNCTIONS(X)
    CUDA_GRAPH_FUNCTIONS(X) /* NULL where the driver lacks them */
#undef X
} cuda_driver;
int cuda_has_graphs(const cuda_driver *d);

/* Opened and initialised once. NULL: there is none, and *why says so. */
const cuda_driver *cuda_driver_open(const char **why);
#endif
