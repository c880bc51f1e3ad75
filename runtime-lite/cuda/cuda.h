/* The part of CUDA's driver interface that the runtime uses, loaded on demand. */
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
/* X(name here, NVIDIA's, value) */
#define CUDA_CONSTANTS(X)                                                                                    \
    X(CUDA_OK, CUDA_SUCCESS, 0)                                                                              \
    X(CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, 1)                                                       \
    X(CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, 2)                                                       \
    X(CUDA_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE, 200)                                                     \
    X(CUDA_NO_BINARY, CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                                                     \
    X(CUDA_INVALID_PTX, CUDA_ERROR_INVALID_PTX, 218)                                                         \
    X(CUDA_NO_JIT, CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221)                                                   \
    X(CUDA_PTX_TOO_NEW, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222)                                             \
    X(CUDA_JIT_OFF, CUDA_ERROR_JIT_COMPILATION_DISABLED, 223)                                                \
    X(CUDA_INVALID_SOURCE, CUDA_ERROR_INVALID_SOURCE, 300)                                                   \
    X(CUDA_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                               \
    X(CUDA_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                               \
    X(CUDA_SHARED_MOST, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97)                           \
    X(CUDA_NON_BLOCKING, CU_STREAM_NON_BLOCKING, 1)                                                          \
    X(CUDA_CAPTURE_THREAD, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                           \
    X(CUDA_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED, 2)                                               \
    X(CUDA_NOT_CAPTURING, CU_STREAM_CAPTURE_STATUS_NONE, 0)                                                  \
    X(CUDA_FUNCTION_SHARED_MOST, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)                         \
    X(CUDA_JIT_LOG, CU_JIT_ERROR_LOG_BUFFER, 5)                                                              \
    X(CUDA_JIT_LOG_SIZE, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)
#define X(name, theirs, value) name = (value),
enum { CUDA_CONSTANTS(X) };
#undef X

/* X(name here, exported symbol, parameters). NVIDIA's cuda.h has other names for some symbols;
 * test/shim/cuda_api.cc compares the signatures with it. */
#define CUDA_FUNCTIONS(X)                                                                                    \
    X(init, cuInit, (unsigned flags))                                                                        \
    X(version, cuDriverGetVersion, (int *version))                                                           \
    X(device_count, cuDeviceGetCount, (int *count))                                                          \
    X(device_get, cuDeviceGet, (int *device, int ordinal))                                                   \
    X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))                       \
    X(retain, cuDevicePrimaryCtxRetain, (cuda_context * context, int device))                                \
    X(release, cuDevicePrimaryCtxRelease_v2, (int device))                                                   \
    X(push, cuCtxPushCurrent_v2, (cuda_context context))                                                     \
    X(pop, cuCtxPopCurrent_v2, (cuda_context * context))                                                     \
    X(load, cuModuleLoadDataEx,                                                                              \
      (cuda_module * module, const void *image, unsigned n, int *options, void **values))                    \
    X(unload, cuModuleUnload, (cuda_module module))                                                          \
    X(function, cuModuleGetFunction, (cuda_function * function, cuda_module module, const char *name))       \
    X(function_set, cuFuncSetAttribute, (cuda_function function, int attribute, int value))                  \
    X(alloc, cuMemAlloc_v2, (cuda_address * at, size_t bytes))                                               \
    X(free, cuMemFree_v2, (cuda_address at))                                                                 \
    X(to_device, cuMemcpyHtoDAsync_v2, (cuda_address to, const void *from, size_t n, cuda_stream stream))    \
    X(to_host, cuMemcpyDtoHAsync_v2, (void *to, cuda_address from, size_t n, cuda_stream stream))            \
    X(on_device, cuMemcpyDtoDAsync_v2, (cuda_address to, cuda_address from, size_t n, cuda_stream stream))   \
    X(fill, cuMemsetD8Async, (cuda_address at, unsigned char value, size_t n, cuda_stream stream))           \
    X(launch, cuLaunchKernel,                                                                                \
      (cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,          \
       unsigned block_y, unsigned block_z, unsigned shared, cuda_stream stream, void **arguments,            \
       void **extra))                                                                                        \
    X(stream_create, cuStreamCreate, (cuda_stream * stream, unsigned flags))                                 \
    X(stream_destroy, cuStreamDestroy_v2, (cuda_stream stream))                                              \
    X(stream_wait, cuStreamSynchronize, (cuda_stream stream))                                                \
    X(error_name, cuGetErrorName, (int code, const char **name))                                             \
    X(error_text, cuGetErrorString, (int code, const char **text))

/* Available since driver 11.4. */
#define CUDA_GRAPH_FUNCTIONS(X)                                                                              \
    X(capture_begin, cuStreamBeginCapture_v2, (cuda_stream stream, int mode))                                \
    X(capture_end, cuStreamEndCapture, (cuda_stream stream, cuda_graph * graph))                             \
    X(exchange_mode, cuThreadExchangeStreamCaptureMode, (int *mode))                                         \
    X(is_capturing, cuStreamIsCapturing, (cuda_stream stream, int *status))                                  \
    X(graph_instantiate, cuGraphInstantiateWithFlags,                                                        \
      (cuda_graph_exec * made, cuda_graph graph, unsigned long long flags))                                  \
    X(graph_destroy, cuGraphDestroy, (cuda_graph graph))                                                     \
    X(graph_exec_destroy, cuGraphExecDestroy, (cuda_graph_exec graph))                                       \
    X(graph_launch, cuGraphLaunch, (cuda_graph_exec graph, cuda_stream stream))

typedef struct cuda_driver {
#define X(name, symbol, parameters) int(*name) parameters;
    CUDA_FUNCTIONS(X)
    CUDA_GRAPH_FUNCTIONS(X) /* NULL if the driver lacks them */
#undef X
} cuda_driver;
int cuda_has_graphs(const cuda_driver *d);
int cuda_capability(const cuda_driver *d, int device, int *sm); /* a CUresult; 90 for 9.0 */

/* Opens and initialises the driver once. NULL: not available, for the reason in *why. */
const cuda_driver *cuda_driver_open(const char **why);
#endif
