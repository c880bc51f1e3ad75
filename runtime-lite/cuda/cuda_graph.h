/* Deferred work of a run for the GPU, and CUDA graphs of work that is repeated. */
#ifndef ONNXC_CUDA_GRAPH_H
#define ONNXC_CUDA_GRAPH_H
#include "runtime-lite/cuda/cuda.h"
#include "runtime-lite/system/system.h"

/* Kernels, fills and copies on the device, in order: each is a word with kind and length, then its
 * arguments. */
typedef struct cuda_work {
    uint64_t *words;
    size_t n, room;
    int count;
} cuda_work;

/* Work that a context has started before; `used` is the time of the last use. */
enum { CUDA_GRAPHS_MOST = 32 };
typedef struct cuda_known {
    uint64_t *words, hash, used;
    size_t n;
    cuda_graph_exec graph; /* NULL: started only once so far, or the driver cannot make a graph */
    int no_graph;
} cuda_known;
typedef struct cuda_graphs {
    system_lock lock;
    cuda_known all[CUDA_GRAPHS_MOST];
    uint64_t clock;
    cuda_stream capture; /* used only for capturing */
    int off;
} cuda_graphs;

/* All return a CUresult. sizes: grid x, y, z, block x, y, z; shared: bytes of dynamic shared memory. */
int cuda_work_launch(cuda_work *w, cuda_function f, const int64_t *sizes, unsigned shared, int n,
                     const int64_t *arguments);
int cuda_work_fill(cuda_work *w, cuda_address at, unsigned char value, size_t n);
int cuda_work_copy(cuda_work *w, cuda_address to, cuda_address from, size_t n);
/* Starts and clears the work; repeated work is started as a graph. */
int cuda_work_start(const cuda_driver *d, cuda_graphs *g, cuda_work *w, cuda_stream stream);
void cuda_graphs_open(const cuda_driver *d, cuda_graphs *g, int off);
void cuda_graphs_close(const cuda_driver *d, cuda_graphs *g); /* no graph may be running */
#endif
