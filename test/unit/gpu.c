// GPU kernels from small models: in the loops interpreter and, as CUDA text, on a CPU behind the shim, both
// in three orders of threads, against the unscheduled kernels; as PTX through NVRTC and ptxas where they are
// installed. Every barrier matters: without it a race or a wrong result shows.
#include "codegen/gpu.h"
#include "codegen/cuda.h"
#include "codegen/targets.h"
#include "compiler/import/import.h"
#include "compiler/lib/gpu_shim.h"
#include "ir/lower.h"
#include "passes/passes.h"
#include "test/unit/compile_text.h"
#include "test/unit/onnx_build.h"
#include <dlfcn.h>
#include <math.h>

// A constant b of small numbers: its rank, shape and size, and its type in ONNX's numbers.
#define CONSTANT_B(rank, shape, count, type)                                                                 \
    "init z int64 = int64 0\ninit one int64 = int64 1\ninit p int64 = int64 13\ninit e int64 = int64 " count \
    "\ninit bs int64 " rank " = int64 " shape "\nr = Range z e one\nrp = Mod r p\nrc = Cast rp @to=i," type  \
    "\nb = Reshape rc bs\n"

// Sizes are primes, so that no tile is full; M and N are dynamic.
typedef struct model {
    const char *name, *schedule, *text;
    int64_t dims[4][4]; // of the inputs, 0-terminated
    int processors;     // of the target, 0: its own number
    precision precision;
    int sm;      // 0: any
    bool groups; // sm_90a is there too
    bool placed; // buffers begin at multiples of 64 bytes
} model;
static const model models[] = {
    {"gemm",
     "tiled product",
     "in a float B M 37\nin b float B 37 71\nin c float 71\nout y float *\nt = MatMul a b\ns = Add t c\ny = "
     "Relu s",
     {{2, 67, 37}, {2, 37, 71}, {71}}},
    {"conv",
     "tiled product",
     "in x float N 3 11 13\nin w float 5 3 3 3\nout y float *\ny = Conv x w @pads=I,1,1,1,1 @strides=I,2,1",
     {{2, 3, 11, 13}, {5, 3, 3, 3}}},
    // With one processor the tiles that waste least are chosen, here the large ones.
    // Four columns of b, and four elements of K of a, are fetched at once where they are inside and aligned.
    {"floats_wide",
     "tiled product",
     "in a float M 40\nin b float 40 N\nout y float *\ny = MatMul a b",
     {{67, 40}, {40, 72}}},
    {"floats_wide_large",
     "tiled product",
     "in a float K 132\nin b float 136 K\nout y float *\ny = Gemm a b @transA=i,1 @transB=i,1",
     {{20, 132}, {136, 20}},
     1},
    {"integers_wide",
     "tiled product",
     "in a int32 36 M\nin b int32 40 36\nout y int32 *\ns = Transpose a\nt = Transpose b\ny = MatMul s t",
     {{36, 64}, {40, 36}}},
    {"large",
     "tiled product",
     "in a float M 11\nin b float 11 K\nout y float *\ny = MatMul a b",
     {{127, 11}, {11, 126}},
     1},
    {"wide",
     "tiled product",
     "in a float M 37\nin b float 37 70\nout y float *\ny = MatMul a b",
     {{3, 37}, {37, 70}}},
    {"doubles",
     "tiled product",
     "in a double 67 19\nin b double 19 71\nout y double *\ny = MatMul a b",
     {{67, 19}, {19, 71}},
     1},
    {"halves",
     "tensor product",
     "in a float16 B M 70\nin b float16 70 37\nin c float16 37\nout y float16 *\nt = MatMul a b\ns = Add t "
     "c\ny "
     "= Relu s",
     {{2, 19, 70}, {70, 37}, {37}}},
    {"halves_large",
     "tensor product",
     "in a float16 127 35\nin b float16 B 126 35\nout y float16 *\nt = Transpose b @perm=I,0,2,1\ny = MatMul "
     "a t",
     {{127, 35}, {1, 126, 35}},
     1},
    {"halves_conv",
     "tensor product",
     "in x float16 N 4 11 13\nin w float16 5 4 3 3\nout y float16 *\ny = Conv x w @pads=I,1,1,1,1 "
     "@strides=I,2,1",
     {{2, 4, 11, 13}, {5, 4, 3, 3}}},
    {"bf16",
     "tensor product",
     "in a bfloat16 M 70\nin b bfloat16 70 37\nout y bfloat16 *\ny = MatMul a b",
     {{19, 70}, {70, 37}}},
    {"bytes",
     "tensor product",
     "in a uint8 M 70\nin b int8 70 37\nout y int32 *\ny = MatMulInteger a b",
     {{19, 70}, {70, 37}}},
    {"signed",
     "tensor product",
     "in a int8 70 67\nin b int8 67 37\nout y int32 *\ny = MatMulInteger a b",
     {{70, 67}, {67, 37}},
     1},
    {"signed_unsigned",
     "tensor product",
     "in a int8 M 70\nin b uint8 70 37\nout y int32 *\ny = MatMulInteger a b",
     {{19, 70}, {70, 37}}},
    {"unsigned",
     "tensor product",
     "in a uint8 M 70\nin b uint8 70 37\nout y int32 *\ny = MatMulInteger a b",
     {{19, 70}, {70, 37}}},
    // Rows and columns begin at multiples of 16 bytes: fetched at once where they are inside.
    {"halves_wide",
     "tensor product",
     "in a float16 M 72\nin b float16 72 56\nout y float16 *\ny = MatMul a b",
     {{61, 72}, {72, 56}},
     1},
    {"halves_open",
     "tensor product",
     "in a float16 M K\nin b float16 K N\nout y float16 *\ny = MatMul a b",
     {{61, 40}, {40, 56}}},
    {"bytes_wide",
     "tensor product",
     "in a uint8 M 80\nin b int8 80 56\nout y int32 *\ny = MatMulInteger a b",
     {{61, 80}, {80, 56}},
     1},
    // From sm_80 on copies run beside the products.
    {"halves_async",
     "asynchronous tensor product",
     "in a float16 M K\nin b float16 K N\nin c float16 N\nout y float16 *\nt = MatMul a b\ny = Add t c",
     {{61, 104}, {104, 56}, {56}},
     .sm = 80},
    {"halves_async_large",
     "asynchronous tensor product",
     "in a float16 136 104\nin b float16 104 120\nout y float16 *\ny = MatMul a b",
     {{136, 104}, {104, 120}},
     1,
     .sm = 80},
    // Units that no edge cuts come at once or not at all; two blocks of large warps share a processor.
    {"halves_placed",
     "asynchronous tensor product",
     "in a float16 M 104\nin b float16 104 264\nout y float16 *\ny = MatMul a b",
     {{130, 104}, {104, 264}},
     1,
     .sm = 80,
     .placed = true},
    {"floats_placed",
     "tiled product",
     "in a float M 40\nin b float 40 72\nout y float *\ny = MatMul a b",
     {{67, 40}, {40, 72}},
     .placed = true},
    {"bytes_placed",
     "tensor product",
     "in a uint8 M 208\nin b int8 208 136\nout y int32 *\ny = MatMulInteger a b",
     {{150, 208}, {208, 136}},
     1,
     .placed = true},
    {"rounded_large",
     "tensor product",
     "in a float M 37\nin b float 37 140\nout y float *\ny = MatMul a b",
     {{150, 37}, {37, 140}},
     1,
     PRECISION_BF16},
    {"bf16_async_turned",
     "asynchronous tensor product",
     "in a bfloat16 K M\nin b bfloat16 N K\nout y bfloat16 *\ny = Gemm a b @transA=i,1 @transB=i,1",
     {{72, 48}, {40, 72}},
     .sm = 90},
    // Whole tiles: two results are written at once.
    {"pairs",
     "asynchronous tensor product",
     "in a float16 M 72\nin b float16 72 64\nin c float16 64\nout y float16 *\nt = MatMul a b\ny = Add t c",
     {{37, 72}, {72, 64}, {64}},
     .sm = 80},
    {"bytes_async",
     "asynchronous tensor product",
     "in a uint8 M 208\nin b int8 56 208\nout y int32 *\nt = Transpose b @perm=I,1,0\ny = MatMulInteger a t",
     {{61, 208}, {56, 208}},
     .sm = 80},
    // Groups of warps: lines of shared memory along K and along the rows, elements one by one.
    {"groups",
     "warp-group product",
     "in a float16 M K\nin b float16 K N\nin c float16 N\nout y float16 *\nt = MatMul a b\ny = Add t c",
     {{61, 328}, {328, 56}, {56}},
     1,
     .sm = 90,
     .groups = true},
    {"groups_large",
     "warp-group product",
     "in a float16 150 104\nin b float16 104 136\nout y float16 *\ny = MatMul a b",
     {{150, 104}, {104, 136}},
     1,
     .sm = 90,
     .groups = true},
    {"groups_placed",
     "warp-group product",
     "in a float16 M 200\nin b float16 200 136\nout y float16 *\ny = MatMul a b",
     {{61, 200}, {200, 136}},
     1,
     .sm = 90,
     .groups = true,
     .placed = true},
    {"groups_turned",
     "warp-group product",
     "in a bfloat16 K M\nin b bfloat16 N K\nout y bfloat16 *\ny = Gemm a b @transA=i,1 @transB=i,1",
     {{72, 136}, {40, 72}},
     1,
     .sm = 80,
     .groups = true},
    {"groups_both_turned",
     "warp-group product",
     "in a float16 K M\nin b float16 K N\nout y float16 *\ny = Gemm a b @transA=i,1",
     {{328, 72}, {328, 136}},
     1,
     .sm = 90,
     .groups = true},
    {"groups_odd",
     "warp-group product",
     "in a float16 67 71\nin b float16 71 37\nout y float16 *\ny = MatMul a b",
     {{67, 71}, {71, 37}},
     1,
     .sm = 90,
     .groups = true},
    {"groups_bytes",
     "warp-group product",
     "in a uint8 M 208\nin b int8 56 208\nout y int32 *\nt = Transpose b @perm=I,1,0\ny = MatMulInteger a t",
     {{61, 208}, {56, 208}},
     1,
     .sm = 90,
     .groups = true},
    {"groups_signed",
     "warp-group product",
     "in a int8 70 67\nin b int8 67 37\nout y int32 *\ny = MatMulInteger a b",
     {{70, 67}, {67, 37}},
     1,
     .sm = 90,
     .groups = true},
    {"groups_tf32",
     "warp-group product",
     "in a float M 37\nin b float 37 29\nout y float *\ny = MatMul a b",
     {{19, 37}, {37, 29}},
     1,
     PRECISION_TF32,
     .sm = 90,
     .groups = true},
    {"groups_conv",
     "warp-group product",
     "in x float16 N 4 11 13\nin w float16 5 4 3 3\nout y float16 *\ny = Conv x w @pads=I,1,1,1,1 "
     "@strides=I,2,1",
     {{2, 4, 11, 13}, {5, 4, 3, 3}},
     1,
     .sm = 90,
     .groups = true},
    // Constants come slice by slice in one copy: more slices than places for them, less than one, rows of a,
    // both tiles, and beside what threads write; batches.
    {"bulk",
     "warp-group product",
     "in a float16 M 200\nout y float16 *\n" CONSTANT_B("2", "200 56", "11200", "10") "y = MatMul a b",
     {{61, 200}},
     1,
     .sm = 90,
     .groups = true},
    {"bulk_short",
     "warp-group product",
     "in a float16 M 37\nout y float16 *\n" CONSTANT_B("2", "136 37", "5032",
                                                       "10") "y = Gemm a b @transB=i,1",
     {{67, 37}},
     1,
     .sm = 90,
     .groups = true},
    {"bulk_rows",
     "warp-group product",
     "in a float16 72 N\nout y float16 *\n" CONSTANT_B("2", "80 72", "5760", "10") "y = MatMul b a",
     {{72, 136}},
     1,
     .sm = 80,
     .groups = true},
    {"bulk_bytes",
     "warp-group product",
     "in a uint8 M 141\nout y int32 *\n" CONSTANT_B("2", "141 50", "7050", "3") "y = MatMulInteger a b",
     {{61, 141}},
     1,
     .sm = 90,
     .groups = true},
    {"bulk_batches",
     "warp-group product",
     "in a bfloat16 3 M 72\nout y bfloat16 *\n" CONSTANT_B("3", "3 72 70", "15120", "16") "y = MatMul a b",
     {{3, 19, 72}},
     1,
     .sm = 90,
     .groups = true},
    {"bulk_conv",
     "warp-group product",
     "in x float16 N 4 7 64\nout y float16 *\n" CONSTANT_B(
         "4", "24 64 1 3", "4608", "10") "t = Transpose x @perm=I,0,3,1,2\ny = Conv t b @pads=I,0,1,0,1",
     {{2, 4, 7, 64}},
     1,
     .sm = 90,
     .groups = true},
    // Tiles of 128 x 256, where the products of one slice run on while the next one's begin.
    {"groups_overlap",
     "warp-group product",
     "in a float16 127 344\nin b float16 344 N\nout y float16 *\ny = MatMul a b",
     {{127, 344}, {344, 248}},
     1,
     .sm = 90,
     .groups = true},
    {"groups_overlap_bytes",
     "warp-group product",
     "in a uint8 M 640\nin b int8 256 640\nout y int32 *\nt = Transpose b\ny = MatMulInteger a t",
     {{128, 640}, {256, 640}},
     1,
     .sm = 90,
     .groups = true},
    {"bulk_overlap",
     "warp-group product",
     "in a bfloat16 M 384\nout y bfloat16 *\n" CONSTANT_B("2", "384 230", "88320", "16") "y = MatMul a b",
     {{125, 384}},
     1,
     .sm = 90,
     .groups = true},
    // Both are constants, whose product is too much work to fold.
    {"bulk_both",
     "warp-group product",
     "in c float16 M 104\nout y float16 *\n" CONSTANT_B("2", "200 104", "20800",
                                                        "10") "u = Neg b\n"
                                                              "a = Transpose u\nt = MatMul a b\ny = Add t c",
     {{1, 104}},
     1,
     .sm = 90,
     .groups = true},
    // Constants of f32 are rounded before they are stored.
    {"bulk_tf32",
     "warp-group product",
     "in a float M 70\nout y float *\n" CONSTANT_B("2", "70 37", "2590", "1") "c = Tanh b\ny = MatMul a c",
     {{19, 70}},
     1,
     PRECISION_TF32,
     .sm = 90,
     .groups = true},
    {"bulk_in_f16",
     "warp-group product",
     "in a float M 70\nout y float *\n" CONSTANT_B("2", "70 37", "2590", "1") "c = Tanh b\ny = MatMul a c",
     {{19, 70}},
     1,
     PRECISION_F16,
     .sm = 90,
     .groups = true},
    // Channels last: 16 bytes of them at once, zeros beside the image.
    {"conv_runs",
     "asynchronous tensor product",
     "in x float16 N 11 13 16\nin w float16 5 3 3 16\nout y float16 *\nt = Transpose x @perm=I,0,3,1,2\n"
     "u = Transpose w @perm=I,0,3,1,2\ny = Conv t u @pads=I,1,1,1,1 @strides=I,2,1",
     {{2, 11, 13, 16}, {5, 3, 3, 16}},
     .sm = 80},
    {"conv_runs_groups",
     "warp-group product",
     "in x float16 N 11 13 16\nin w float16 5 3 3 16\nout y float16 *\nt = Transpose x @perm=I,0,3,1,2\n"
     "u = Transpose w @perm=I,0,3,1,2\ny = Conv t u @pads=I,1,1,1,1 @strides=I,2,1",
     {{2, 11, 13, 16}, {5, 3, 3, 16}},
     1,
     .sm = 80,
     .groups = true},
    {"conv_runs_f32",
     "tiled product",
     "in x float N 11 13 8\nin w float 5 3 3 8\nout y float *\nt = Transpose x @perm=I,0,3,1,2\n"
     "u = Transpose w @perm=I,0,3,1,2\ny = Conv t u @pads=I,1,1,1,1 @strides=I,2,1",
     {{2, 11, 13, 8}, {5, 3, 3, 8}}},
    // Weights of few bits, and factors that are more than reads.
    {"weights",
     "tensor product",
     "opset - 23\nin a float16 M 64\nin b int8 64 37\nin s float16 2 37\nout y float16 *\n"
     "w = DequantizeLinear b s @axis=i,0 @block_size=i,32\ny = MatMul a w",
     {{19, 64}, {64, 37}, {2, 37}}},
    {"made_of_halves",
     "tensor product",
     "in a bfloat16 M 37\nin c bfloat16 37\nin b bfloat16 37 29\nout y bfloat16 *\nt = Mul a c\ny = MatMul t "
     "b",
     {{19, 37}, {37}, {37, 29}}},
    {"tf32",
     "tensor product",
     "in a float M 37\nin b float 37 29\nout y float *\ny = MatMul a b",
     {{19, 37}, {37, 29}},
     0,
     PRECISION_TF32},
    {"conv_in_f16",
     "tensor product",
     "in x float N 4 11 13\nin w float 5 4 3 3\nout y float *\ny = Conv x w @pads=I,1,1,1,1",
     {{2, 4, 11, 13}, {5, 4, 3, 3}},
     0,
     PRECISION_F16},
    {"bf16_for_constants",
     "tensor product",
     "in a float M 64\nout y float *\n" CONSTANT_B("2", "64 32", "2048", "1") "c = Tanh b\ny = MatMul a c",
     {{19, 64}},
     0,
     PRECISION_BF16},
    {"bf16_for_f32",
     "tensor product",
     "in a float M 37\nin b float 37 29\nout y float *\ny = MatMul a b",
     {{19, 37}, {37, 29}},
     0,
     PRECISION_BF16},
    // The sum is cut in pieces.
    {"thin",
     "tiled product",
     "in a float 3 512\nin b float 512 37\nin c float 37\nout y float *\nt = MatMul a b\ns = Add t c\ny = "
     "Relu s",
     {{3, 512}, {512, 37}, {37}}},
    {"softmax", "rows", "in x float N 331\nout y float *\ny = Softmax x", {{3, 331}}},
    {"layernorm",
     "rows",
     "in x float N 257\nin s float 257\nin b float 257\nout y float *\ny = LayerNormalization x s b",
     {{3, 257}, {257}, {257}}},
    {"attention",
     "tiled attention",
     "in q float B M 17\nin k float B 17 N\nin v float B N 17\nout y float *\n"
     "s = MatMul q k\np = Softmax s\ny = MatMul p v",
     {{2, 67, 17}, {2, 17, 139}, {2, 139, 17}}},
    {"attention_wide",
     "tiled attention",
     "opset - 23\nin q float 1 2 68 40\nin k float 1 2 N 40\nin v float 1 2 N 132\nout y float *\n"
     "y = Attention q k v @is_causal=i,1",
     {{1, 2, 68, 40}, {1, 2, 71, 40}, {1, 2, 71, 132}}},
    {"attention_of_few",
     "rows",
     "in q float B 3 17\nin k float B 17 N\nin v float B N 17\nout y float *\n"
     "s = MatMul q k\np = Softmax s\ny = MatMul p v",
     {{2, 3, 17}, {2, 17, 139}, {2, 139, 17}}},
    {"flash",
     "tensor attention",
     "opset - 23\nin q float16 B 3 M 40\nin k float16 B 3 N 40\nin v float16 B 3 N 24\nout y float16 *\n"
     "y = Attention q k v @is_causal=i,1",
     {{2, 3, 67, 40}, {2, 3, 139, 40}, {2, 3, 139, 24}},
     .sm = 80},
    // Heads of more than 128 elements: pairs of warps share rows.
    {"flash_deep",
     "tensor attention",
     "opset - 23\nin q float16 1 2 M 136\nin k float16 1 2 N 136\nin v float16 1 2 N 40\nout y float16 *\n"
     "y = Attention q k v @is_causal=i,1",
     {{1, 2, 67, 136}, {1, 2, 75, 136}, {1, 2, 75, 40}},
     .sm = 80},
    {"flash_wide",
     "tensor attention",
     "in q bfloat16 B M 24\nin k bfloat16 B 24 71\nin v bfloat16 B 71 150\nout y bfloat16 *\n"
     "s = MatMul q k\np = Softmax s\ny = MatMul p v",
     {{1, 5, 24}, {1, 24, 71}, {1, 71, 150}}},
    // Rows of 17 elements are never aligned; the mask has rows of its own.
    {"flash_odd",
     "tensor attention",
     "in q bfloat16 B M 17\nin k bfloat16 B 17 71\nin v bfloat16 B 71 19\nin m bfloat16 M 71\nout y bfloat16 "
     "*\n"
     "s = MatMul q k\nt = Add s m\np = Softmax t\ny = MatMul p v",
     {{2, 5, 17}, {2, 17, 71}, {2, 71, 19}, {5, 71}}},
    // Several heads of queries for each of keys.
    {"flash_groups",
     "tensor attention",
     "opset - 23\nin q float16 1 6 M 16\nin k float16 1 2 N 16\nin v float16 1 2 N 16\nout y float16 *\n"
     "y = Attention q k v",
     {{1, 6, 23, 16}, {1, 2, 65, 16}, {1, 2, 65, 16}}},
    // Few queries, many keys: pieces of these, of which the last are empty.
    {"decode",
     "tensor attention",
     "opset - 23\nin q float16 1 4 3 16\nin k float16 1 2 523 16\nin v float16 1 2 523 16\nout y float16 *\n"
     "y = Attention q k v @is_causal=i,1",
     {{1, 4, 3, 16}, {1, 2, 523, 16}, {1, 2, 523, 16}},
     .sm = 80},
    {"decode_f32",
     "rows",
     "in q float 1 2 5\nin k float 1 5 523\nin v float 1 523 5\nout y float *\n"
     "s = MatMul q k\np = Softmax s\ny = MatMul p v",
     {{1, 2, 5}, {1, 5, 523}, {1, 523, 5}}},
    {"flash_in_f16",
     "tensor attention",
     "in q float B M 16\nin k float B N 16\nin v float B N 16\nout y float *\n"
     "t = Transpose k @perm=I,0,2,1\ns = MatMul q t\np = Softmax s\ny = MatMul p v",
     {{1, 9, 16}, {1, 70, 16}, {1, 70, 16}},
     .precision = PRECISION_F16},
    {"pointwise",
     "points",
     "in x float N 97\nin y float 97\nout z float *\na = Add x y\nb = Tanh a\nc = Erf x\nz = Mul b c",
     {{13, 97}, {97}}},
    {"sums",
     "reduction by blocks",
     "in x float N 1009\nout y float *\ny = ReduceL2 x @axes=I,1",
     {{3, 1009}}},
    {"maximum",
     "reduction by blocks",
     "in x float N 311\nout y float *\nm = ReduceMax x @axes=I,1\ny = Exp m",
     {{7, 311}}},
    {"argmax", "points", "in x float N 31\nout y int64 *\ny = ArgMax x @axis=i,1", {{7, 31}}},
    {"scatter",
     "one thread",
     "opset - 18\nin x float N 5\nin u float 11 5\ninit i int64 11 5 = int64 0 1 2 3 4 0 0 0 0 0 1 1 1 1 1 2 "
     "2 2 2 2 "
     "0 1 2 3 4 4 3 2 1 0 0 0 0 0 0 1 1 1 1 1 2 2 2 2 2 3 3 3 3 3 4 4 4 4 4\nout y float *\n"
     "y = ScatterElements x i u @reduction=s,add",
     {{7, 5}, {11, 5}}},
};
enum { MODELS = sizeof models / sizeof *models, ORDERS = 3 };

// The interpreter of a sanitised build takes several times as long: some of the models show it what it is
// for.
#ifdef __SANITIZE_ADDRESS__
enum { EVERY = 5 };
#else
enum { EVERY = 1 };
#endif

typedef struct fixture {
    arena *a;
    diag d;
    workdir dir;
    jmp_buf jump;
} fixture;

typedef struct compiled {
    program *meaning, *program;
    gpu_code *code;
    tensor in[4], want;
    bool exact;
    double near; // what sums may differ by
} compiled;

static void show(void *user, const diag_message *m) {
    (void)user;
    print_message("%s\n", m->full);
}

static int set_up(void **state) {
    arena *a = arena_new();
    fixture *x = ARENA_NEW(a, fixture);
    x->a = a;
    x->d.arena = a;
    x->d.sink = show;
    x->dir = workdir_new(a);
    *state = x;
    return 0;
}

static int tear_down(void **state) {
    fixture *x = *state;
    workdir_remove(x->dir);
    arena_destroy(x->a);
    return 0;
}

// ---------------------------------------------------------------- compiling

static program *lower_text(fixture *x, const model *m) {
    size_t size;
    const void *bytes = build_model(x->a, m->text, &size);
    module *mo = import_onnx_memory(x->a, &x->d, m->name, NULL, bytes, size, NULL);
    pass_context c = {.module = mo, .opt = 2, .fold_work = 1000000, .fold_bytes = 1 << 20};
    run_graph_passes(&c, NULL, NULL);
    return lower_module(mo);
}

static tensor random_tensor(fixture *x, dtype dt, const int64_t *dims, uint32_t seed) {
    tensor t = {.dtype = dt, .count = 1};
    for (; t.rank < 4 && dims[t.rank]; t.rank++) t.count *= t.dims[t.rank] = dims[t.rank];
    t.data = ARENA_ARRAY(x->a, double, t.count);
    for (int64_t i = 0; i < t.count; i++) {
        seed = seed * 1664525 + 1013904223;
        if (dtype_is_float(dt)) dtype_store_float(dt, t.data, i, (double)(seed >> 8) / (1 << 23) - 1, true);
        else dtype_store_int(dt, t.data, i, (int8_t)(seed >> 24));
    }
    return t;
}

static compiled compile(fixture *x, const model *m, fp_mode fp) {
    compiled c = {0};
    const char *message = NULL;
    if (!DIAG_TRY(&x->d, x->jump)) fail_msg("%s does not compile", m->name);
    c.meaning = lower_text(x, m);
    c.program = lower_text(x, m);
    target *t = target_for_text(x->a, ARCH_CUDA, &(target_options){.fp = fp});
    if (m->processors) t->processors = m->processors;
    t->precision = m->precision;
    t->sm = m->sm ? m->sm : 75;
    t->groups = m->groups;
    t->shared_most = (t->sm < 90 ? 99 : 227) << 10;
    t->placed = m->placed;
    program_context pc = {.program = c.program, .target = t, .opt = 2};
    for (const program_pass *p = program_passes; p->name; p++) p->run(&pc);
    c.code = gpu_schedule(c.program, m->name, t, false, &x->d);
    static const double near[] = {1e-5, 5e-3, 4e-2, 5e-3};
    c.near = near[m->precision];
    for (int i = 0; i < c.program->inputs.n; i++)
        c.in[i] = random_tensor(x, c.program->inputs.at[i]->dtype, m->dims[i], (uint32_t)i + 1);
    dtype out = c.program->outputs.at[0]->dtype;
    if (out == DT_F16 || out == DT_BF16) c.near = out == DT_F16 ? 1e-3 : 1e-2;
    if (interp_program(c.meaning, x->a, c.in, &c.want, (interp_limits){0}, &message) != INTERP_OK)
        fail_msg("%s: %s", m->name, message);
    return c;
}

// ---------------------------------------------------------------- running

// NULL when the result is right.
static const char *run_compiled(fixture *x, const compiled *c, gpu_launcher *launch, void *user) {
    gpu_machine m = {.launch = launch, .user = user};
    tensor out = {0};
    const char *message = NULL;
    if (gpu_run(c->program, c->code, &m, x->a, c->in, &out, &message) != INTERP_OK) return message;
    assert_int_equal(out.count, c->want.count);
    for (int64_t i = 0; i < out.count; i++) {
        bool f = dtype_is_float(out.dtype);
        double got =
            f ? dtype_load_float(out.dtype, out.data, i) : (double)dtype_load_int(out.dtype, out.data, i);
        double want = f ? dtype_load_float(out.dtype, c->want.data, i)
                        : (double)dtype_load_int(out.dtype, c->want.data, i);
        if (!(fabs(got - want) <= (c->exact ? 0 : c->near + c->near * fabs(want))))
            return arena_printf(x->a, "element %lld is %.9g instead of %.9g", (long long)i, got, want);
    }
    return NULL;
}

static const char *cuda_text(fixture *x, const lmodule *m) {
    text t = {.arena = x->a};
    sink s = sink_text(&t);
    if (!DIAG_TRY(&x->d, x->jump)) fail_msg("the emitter failed");
    cuda_write(m, &s, &x->d);
    return text_str(&t);
}

static gpu_shim *load_on_shim(fixture *x, const lmodule *m) {
    if (!have_program(x->a, "c++")) skip();
    if (!DIAG_TRY(&x->d, x->jump)) fail_msg("the CUDA text does not compile");
    return gpu_shim_open(x->a, &x->d, m, "test/shim", ORDER_FORWARD);
}

static const char *error_on_shim(fixture *x, const compiled *c, gpu_shim *s) {
    const char *error = NULL;
    for (int order = 0; order < ORDERS && !error; order++) {
        s->order = (linterp_order)order;
        error = run_compiled(x, c, gpu_shim_launch, s);
    }
    return error;
}

// The kernels of a model, compiled to c, into module m, NULL: a new one; they get the model's name in front.
static lmodule *add_model(fixture *x, lmodule *m, compiled *c, const model *of, fp_mode fp) {
    *c = compile(x, of, fp);
    if (!m) m = lmodule_new(x->a, "test", c->code->module->target);
    for (int j = 0; j < c->code->module->funcs.n; j++) {
        lfunc *f = c->code->module->funcs.at[j];
        f->name = arena_printf(x->a, "%s_%s", of->name, f->name);
        VEC_PUSH(x->a, &m->funcs, f);
    }
    return m;
}

// Models in one module, so that they compile in one go.
// Every so many-th model from the first on; c of the others stays as it is.
static lmodule *some_models(fixture *x, compiled *c, fp_mode fp, int first, int every) {
    lmodule *m = NULL;
    for (int i = first; i < MODELS; i += every) m = add_model(x, m, &c[i], &models[i], fp);
    return m;
}

static const char *interpreted_error(fixture *x, const compiled *c) {
    const char *error = NULL;
    for (linterp_order order = ORDER_FORWARD; order <= ORDER_PERMUTED && !error; order++)
        error = run_compiled(x, c, gpu_interpret, &order);
    return error;
}

// ---------------------------------------------------------------- tests

static void kernels_are_right_in_the_interpreter(void **state) {
    fixture *x = *state;
    for (int i = 0; i < MODELS; i += EVERY) {
        compiled c = compile(x, &models[i], FP_DEFAULT);
        const char *error = interpreted_error(x, &c);
        if (error) fail_msg("%s: %s", models[i].name, error);
    }
}

static const char *call_function(void *user, arena *a, const gpu_launch *l) {
    (void)user;
    linterp *li = linterp_new(a, NULL);
    return linterp_call(li, l->code->f, l->args, NULL) ? NULL : linterp_error(li);
}

// What the kernels compute as scheduled for C.
static tensor result_of_c(fixture *x, const compiled *c) {
    target *t = target_for_text(x->a, ARCH_C, &(target_options){.fp = FP_STRICT, .threads = 1});
    gpu_code code = {.module = lmodule_new(x->a, "c", t),
                     .kernels = ARENA_ARRAY(x->a, kernel_code *, c->program->kernels.n)};
    for (int i = 0; i < c->program->kernels.n; i++)
        if (c->code->kernels[i])
            code.kernels[i] = schedule_kernel(code.module, c->program->kernels.at[i], t, &x->d);
    gpu_machine m = {.launch = call_function};
    tensor out = {0};
    const char *message = NULL;
    if (gpu_run(c->program, &code, &m, x->a, c->in, &out, &message) != INTERP_OK) fail_msg("%s", message);
    return out;
}

static void strict_kernels_have_the_bits_of_c(void **state) {
    fixture *x = *state;
    for (int i = 0; i < MODELS; i += EVERY) {
        if (models[i].sm) continue; // what newer GPUs have rounds in its own way: strict kernels are the same
        compiled c = compile(x, &models[i], FP_STRICT);
        c.want = result_of_c(x, &c);
        c.exact = true;
        linterp_order order = ORDER_PERMUTED;
        const char *error = run_compiled(x, &c, gpu_interpret, &order);
        if (error) fail_msg("%s: %s", models[i].name, error);
    }
}

static void schedules_are_as_meant(void **state) {
    for (int i = 0; i < MODELS; i++) {
        compiled c = compile(*state, &models[i], FP_DEFAULT);
        bool found = false;
        for (int j = 0; j < c.code->nkernels; j++)
            if (c.code->kernels[j]) found |= !strcmp(c.code->kernels[j]->schedule, models[i].schedule);
        if (!found) fail_msg("%s: no kernel is scheduled as %s", models[i].name, models[i].schedule);
    }
}

static void kernels_are_right_on_the_shim(void **state) {
    fixture *x = *state;
    compiled c[MODELS];
    gpu_shim *s = load_on_shim(x, some_models(x, c, FP_DEFAULT, 0, 1));
    for (int i = 0; i < MODELS; i++) {
        const char *error = error_on_shim(x, &c[i], s);
        if (error) fail_msg("%s: %s", models[i].name, error);
    }
    int *no_groups = dlsym(s->library, "shim_no_groups"); // as on GPUs without wgmma
    *no_groups = 1;
    for (int i = 0; i < MODELS; i++) {
        const char *error = models[i].groups ? error_on_shim(x, &c[i], s) : NULL;
        if (error) fail_msg("%s by small products: %s", models[i].name, error);
    }
}

// In the text only muladd may be one rounding: what the interpreter computes bit by bit, the text does too.
// Each model in one mode.
static void text_has_the_bits_of_the_interpreter(void **state) {
    fixture *x = *state;
    for (fp_mode fp = FP_STRICT; fp <= FP_FAST; fp++) {
        compiled c[MODELS];
        gpu_shim *s = load_on_shim(x, some_models(x, c, fp, (int)fp, 3 * EVERY));
        for (int i = (int)fp; i < MODELS; i += 3 * EVERY) {
            linterp_order order = ORDER_FORWARD;
            gpu_machine m = {.launch = gpu_interpret, .user = &order};
            const char *message = NULL;
            gpu_run(c[i].program, c[i].code, &m, x->a, c[i].in, &c[i].want, &message);
            c[i].exact = true;
            const char *error = message ? message : run_compiled(x, &c[i], gpu_shim_launch, s);
            if (error) fail_msg("%s, fp %d: %s", models[i].name, (int)fp, error);
        }
    }
}

// The barrier number *n in order, as the place that points to it.
static ins **find_barrier(lblock *b, int *n) {
    for (ins **at = b ? &b->first : NULL; at && *at; at = &(*at)->next) {
        if ((*at)->op == L_BARRIER && (*n)-- == 0) return at;
        for (int j = 0; j < 2; j++) {
            ins **found = find_barrier((*at)->body[j], n);
            if (found) return found;
        }
    }
    return NULL;
}

// Which kernels a run launches: where it chooses, not all.
typedef struct launched {
    const lfunc *at[16];
    int n;
} launched;
static const char *note_launch(void *user, arena *a, const gpu_launch *l) {
    launched *seen = user;
    linterp_order order = ORDER_FORWARD;
    if (seen->n < 16) seen->at[seen->n++] = l->code->f;
    return gpu_interpret(&order, a, l);
}
static bool is_launched(const launched *seen, const lfunc *f) {
    for (int j = 0; j < seen->n; j++)
        if (seen->at[j] == f) return true;
    return false;
}

static int missing_barriers_show_in(fixture *x, const model *m) {
    compiled c = compile(x, m, FP_DEFAULT);
    launched seen = {0};
    int count = 0;
    run_compiled(x, &c, note_launch, &seen);
    for (int j = 0; j < c.code->module->funcs.n; j++) {
        if (!is_launched(&seen, c.code->module->funcs.at[j])) continue;
        for (int n = 0;; n++, count++) {
            int skipped = n;
            ins **at = find_barrier(c.code->module->funcs.at[j]->body, &skipped), *barrier = at ? *at : NULL;
            if (!at) break;
            *at = barrier->next;
            const char *error = interpreted_error(x, &c);
            // Where copies alone bring what is multiplied, threads that run ahead leave others behind.
            bool left = error && strstr(error, "threads wait for copies");
            if (!error || (!strstr(error, "race") && !left))
                fail_msg("%s: barrier %d of %s is gone, and no race shows but '%s'", m->name, n,
                         c.code->module->funcs.at[j]->name, error ? error : "");
            *at = barrier;
        }
    }
    return count;
}

// The first call whose name begins so.
static ins **find_call(lblock *b, const char *name) {
    for (ins **at = b ? &b->first : NULL; at && *at; at = &(*at)->next) {
        if ((*at)->op == L_CALL && !strncmp((*at)->name, name, strlen(name))) return at;
        for (int j = 0; j < 2; j++) {
            ins **found = find_call((*at)->body[j], name);
            if (found) return found;
        }
    }
    return NULL;
}

// What waits and fences are called, and in how many kernels there must be one.
typedef struct needed_call {
    const char *name;
    int least;
} needed_call;
static const needed_call needed_calls[] = {
    {"async_wait", 8},  {"group_show", 9},  {"group_fence", 9}, {"group_commit", 9},
    {"group_wait", 9},  {"group_leave", 3}, {"bulk_init", 8},   {"bulk_show", 8},
    {"bulk_expect", 8}, {"bulk_copy", 8},   {"bulk_wait", 8},
};
enum { NEEDED_CALLS = sizeof needed_calls / sizeof *needed_calls };

static bool has_needed_call(const lfunc *f) {
    for (int i = 0; i < NEEDED_CALLS; i++)
        if (find_call(f->body, needed_calls[i].name)) return true;
    return false;
}

// Without the first of each of them in the kernel it goes wrong.
static void missing_calls_show_in(fixture *x, const compiled *c, const lfunc *f, const char *name,
                                  int *count) {
    for (int i = 0; i < NEEDED_CALLS; i++) {
        ins **at = find_call(f->body, needed_calls[i].name), *call = at ? *at : NULL;
        if (!at) continue;
        *at = call->next;
        if (!interpreted_error(x, c)) fail_msg("%s: no %s, and nothing shows", name, needed_calls[i].name);
        *at = call;
        count[i]++;
    }
}

static void missing_waits_show(void **state) {
    if (EVERY > 1) skip();
    int count[NEEDED_CALLS] = {0};
    for (int i = 0; i < MODELS; i++) {
        compiled c = compile(*state, &models[i], FP_DEFAULT);
        launched seen = {0};
        bool any = false;
        for (int j = 0; j < c.code->module->funcs.n; j++) any |= has_needed_call(c.code->module->funcs.at[j]);
        if (any) run_compiled(*state, &c, note_launch, &seen);
        for (int j = 0; j < seen.n; j++) missing_calls_show_in(*state, &c, seen.at[j], models[i].name, count);
    }
    for (int i = 0; i < NEEDED_CALLS; i++) assert_true(count[i] >= needed_calls[i].least);
}

static void missing_barriers_show(void **state) {
    if (EVERY > 1) skip();
    int count = 0;
    for (int i = 0; i < MODELS; i++) count += missing_barriers_show_in(*state, &models[i]);
    assert_true(count >= 15);
}

// The interpreter, on memory that is `shorter` than the kernels need, or begins `odd` bytes late.
typedef struct wrong_memory {
    int64_t shorter, odd;
} wrong_memory;
static const char *interpret_wrong(void *user, arena *a, const gpu_launch *l) {
    const wrong_memory *w = user;
    linterp_order order = ORDER_FORWARD;
    gpu_launch wrong = *l;
    gpu_region *memory = ARENA_ARRAY(a, gpu_region, l->nmemory);
    uint64_t *args = ARENA_ARRAY(a, uint64_t, l->code->f->params.n);
    memcpy(memory, l->memory, (size_t)l->nmemory * sizeof *memory);
    memcpy(args, l->args, (size_t)l->code->f->params.n * sizeof *args);
    for (int i = 0; i < l->nmemory; i++) memory[i].bytes -= w->shorter;
    for (int i = 0; i < l->code->nbuffers; i++) args[i] += (uint64_t)w->odd;
    wrong.memory = memory;
    wrong.args = args;
    return gpu_interpret(&order, a, &wrong);
}

static void wrong_memory_shows(void **state) {
    fixture *x = *state;
    for (int i = 0; i < MODELS; i++) {
        compiled c = compile(x, &models[i], FP_DEFAULT);
        const char *shorter = run_compiled(x, &c, interpret_wrong, &(wrong_memory){.shorter = 1}),
                   *odd = run_compiled(x, &c, interpret_wrong, &(wrong_memory){.odd = 1});
        if (!shorter || !strstr(shorter, "out of bounds"))
            fail_msg("%s: too little memory gives '%s'", models[i].name, shorter ? shorter : "");
        bool bytes = dtype_bits(c.in[0].dtype) == 8; // they have no alignment to miss, what comes out has
        bool seen = odd && (strstr(odd, "less aligned") || (bytes && strstr(odd, "out of bounds")));
        if (!seen) fail_msg("%s: misaligned memory gives '%s'", models[i].name, odd ? odd : "");
    }
}

static int element_bytes(const compiled *c) {
    int most = dtype_bits(c->want.dtype) / 8;
    for (int i = 0; i < c->program->inputs.n; i++) {
        int bytes = dtype_bits(c->in[i].dtype) / 8;
        most = bytes > most ? bytes : most;
    }
    return most;
}

// The interpreter, on inputs and outputs that begin `user` bytes behind a multiple of 64.
static const char *interpret_shifted(void *user, arena *a, const gpu_launch *l) {
    enum { ALIGN = 64 };
    int shift = *(const int *)user;
    linterp_order order = ORDER_PERMUTED;
    gpu_launch own = *l;
    gpu_region *memory = ARENA_ARRAY(a, gpu_region, l->nmemory);
    uint64_t *args = ARENA_ARRAY(a, uint64_t, l->code->f->params.n);
    memcpy(args, l->args, (size_t)l->code->f->params.n * sizeof *args);
    memcpy(memory, l->memory, (size_t)l->nmemory * sizeof *memory);
    for (int j = 0; j < l->nmemory; j++) {
        uint64_t from = (uintptr_t)l->memory[j].at, end = from + (uint64_t)l->memory[j].bytes;
        char *to = arena_alloc(a, (size_t)l->memory[j].bytes + 2 * ALIGN);
        to += (-(uintptr_t)to & (ALIGN - 1)) + (uintptr_t)shift;
        for (int i = 0; i < l->code->nbuffers; i++) {
            buffer_role role = buffer_root(l->code->buffers[i])->role;
            bool of_caller = role == BUF_INPUT || role == BUF_OUTPUT;
            if (!of_caller || args[i] < from || args[i] >= end) continue;
            args[i] += (uintptr_t)to - from;
            memory[j].at = to;
        }
        if (memory[j].at == to) memcpy(to, l->memory[j].at, (size_t)l->memory[j].bytes);
    }
    own.memory = memory;
    own.args = args;
    const char *error = gpu_interpret(&order, a, &own);
    for (int j = 0; j < l->nmemory; j++)
        if (memory[j].at != l->memory[j].at) memcpy(l->memory[j].at, memory[j].at, (size_t)memory[j].bytes);
    return error;
}

// Elements are aligned, what is fetched or written at once need not be.
static void buffers_need_not_be_aligned(void **state) {
    for (int i = 0; i < MODELS; i += EVERY) {
        if (models[i].placed) continue;
        compiled c = compile(*state, &models[i], FP_DEFAULT);
        int shift = element_bytes(&c);
        const char *error = run_compiled(*state, &c, interpret_shifted, &shift);
        if (error) fail_msg("%s: %s", models[i].name, error);
    }
}

// ---------------------------------------------------------------- the module

static void equal_kernels_are_one_function(void **state) {
    static const model m = {
        "twice",
        "tiled product",
        "in x float 19 50\nin w float 50 50\nout y float *\na = MatMul x w\ny = MatMul a w",
        {{19, 50}, {50, 50}}};
    fixture *x = *state;
    compiled c = compile(x, &m, FP_DEFAULT);
    int kernels = 0;
    for (int j = 0; j < c.code->nkernels; j++) kernels += c.code->kernels[j] != NULL;
    assert_true(kernels > c.code->module->funcs.n);
    const char *error = interpreted_error(x, &c);
    if (error) fail_msg("%s", error);
}

static int kernels_of(const compiled *c) {
    int n = 0;
    for (int j = 0; j < c->code->nkernels; j++) n += c->code->kernels[j] != NULL;
    return n;
}

// Long sums with few results: in pieces, unless that changes bits, is not worth it, or the sizes are open.
static void long_sums_are_split(void **state) {
    static const model
        thin = {"thin",
                "",
                "in a float 3 512\nin b float 512 37\nout y float *\ny = MatMul a b",
                {{3, 512}, {512, 37}}},
        halves = {"halves",
                  "",
                  "in a float16 3 512\nin b float16 512 37\nout y float16 *\ny = MatMul a b",
                  {{3, 512}, {512, 37}}},
        conv = {"conv",
                "",
                "in x float 2 64 4 5\nin w float 5 64 3 3\nout y float *\ny = Conv x w @pads=I,1,1,1,1",
                {{2, 64, 4, 5}, {5, 64, 3, 3}}},
        bytes = {"bytes",
                 "",
                 "in a uint8 3 512\nin b int8 512 37\nout y int32 *\ny = MatMulInteger a b",
                 {{3, 512}, {512, 37}}},
        prime = {"prime",
                 "",
                 "in a float 3 521\nin b float 521 37\nout y float *\ny = MatMul a b",
                 {{3, 521}, {521, 37}}},
        open = {"open",
                "",
                "in a float M 512\nin b float 512 37\nout y float *\ny = MatMul a b",
                {{3, 512}, {512, 37}}},
        rows =
            {"rows",
             "",
             "in a float16 B M 512\nin b float16 512 37\nin c float16 37\nout y float16 *\nt = MatMul a b\n"
             "y = Add t c",
             {{2, 3, 512}, {512, 37}, {37}}},
        dequantized = {"dequantized", // the passes leave an axis behind
                       "",
                       "opset - 23\nin a float M 512\nin b int8 512 37\nin s float 16 37\nout y float *\n"
                       "w = DequantizeLinear b s @axis=i,0 @block_size=i,32\ny = MatMul a w",
                       {{3, 512}, {512, 37}, {16, 37}}},
        many = {"many",
                "",
                "in a float M 512\nin b float 512 37\nout y float *\ny = MatMul a b",
                {{65, 512}, {512, 37}}},
        long_open = {"long_open",
                     "",
                     "in a float 3 K\nin b float K 37\nout y float *\ny = MatMul a b",
                     {{3, 512}, {512, 37}}};
    const model *const split[] = {&thin, &halves, &conv, &bytes}, *const whole[] = {&prime, &long_open},
                       *const either[] = {&open, &rows, &dequantized, &many};
    for (int j = 0; j < 4; j++) {
        compiled c = compile(*state, split[j], FP_DEFAULT), strict = compile(*state, split[j], FP_STRICT);
        const char *error = interpreted_error(*state, &c);
        if (error) fail_msg("%s: %s", split[j]->name, error);
        assert_int_equal(kernels_of(&c), 2);
        assert_int_equal(kernels_of(&strict), 1);
    }
    for (int j = 0; j < 4; j++) { // as the run finds the number of rows
        compiled c = compile(*state, either[j], FP_DEFAULT);
        if (either[j] == &dequantized) c.near = 1e-3; // terms of hundreds make up results of ones
        const char *error = interpreted_error(*state, &c);
        if (error) fail_msg("%s: %s", either[j]->name, error);
        assert_int_equal(kernels_of(&c), 3);
    }
    for (int j = 0; j < 2; j++) {
        compiled c = compile(*state, whole[j], FP_DEFAULT);
        assert_int_equal(kernels_of(&c), 1);
    }
}

// The image between two convolutions, and the weights of the second: 16 bytes of channels at once.
static void images_lie_channels_last(void **state) {
    static const model m = {
        "between",
        "",
        "in x float16 N 3 11 13\ninit z int64 = int64 0\ninit e1 int64 = int64 432\ninit e2 int64 = int64 "
        "1152\n"
        "init one int64 = int64 1\ninit seven int64 = int64 7\ninit s1 int64 4 = int64 16 3 3 3\n"
        "init s2 int64 4 = int64 8 16 3 3\nout y float16 *\n"
        "r1 = Range z e1 one\nm1 = Mod r1 seven\nc1 = Cast m1 @to=i,10\nw1 = Reshape c1 s1\n"
        "r2 = Range z e2 one\nm2 = Mod r2 seven\nc2 = Cast m2 @to=i,10\nw2 = Reshape c2 s2\n"
        "a = Conv x w1 @pads=I,1,1,1,1\nb = Tanh a\np = MaxPool b @kernel_shape=I,2,2\n"
        "y = Conv p w2 @pads=I,1,1,1,1 @strides=I,2,1",
        {{2, 3, 11, 13}},
        .sm = 80};
    compiled c = compile(*state, &m, FP_DEFAULT), strict = compile(*state, &m, FP_STRICT);
    int laid = 0, weights = 0;
    for (int j = 0; j < c.program->buffers.n; j++) {
        const buffer *b = c.program->buffers.at[j];
        laid += b->layout && b->role != BUF_CONST, weights += b->layout && b->role == BUF_CONST;
    }
    assert_int_equal(laid, 2); // before the pool and after it
    assert_int_equal(weights, 1);
    assert_non_null(strstr(cuda_text(*state, c.code->module), "async_16_or_0("));
    assert_null(strstr(cuda_text(*state, strict.code->module), "async_16"));
    c.near = 4e-3;
    const char *error = interpreted_error(*state, &c);
    if (error) fail_msg("%s", error);
}

// A convolution reads a part of a wider image and writes the next one: nothing is copied, 16 bytes come at
// once.
static void parts_of_images_lie_channels_last(void **state) {
    static const model m = {
        "joined",
        "",
        "in x float16 N 3 11 13\ninit z int64 = int64 0\ninit e1 int64 = int64 432\ninit e2 int64 = int64 "
        "2304\ninit one int64 = int64 1\ninit seven int64 = int64 7\ninit s1 int64 4 = int64 16 3 3 3\ninit "
        "s2 int64 4 = int64 16 16 3 3\ninit s3 int64 4 = int64 8 32 3 3\nout y float16 *\nr1 = Range z e1 "
        "one\nm1 = Mod r1 seven\nc1 = Cast m1 @to=i,10\nw1 = Reshape c1 s1\nr2 = Range z e2 one\nm2 = Mod r2 "
        "seven\nc2 = Cast m2 @to=i,10\nw2 = Reshape c2 s2\nw3 = Reshape c2 s3\na = Conv x w1 "
        "@pads=I,1,1,1,1\nb = Sigmoid a\nc = Conv b w2 @pads=I,1,1,1,1\nd = Sigmoid c\nj = Concat b d "
        "@axis=i,1\ny = Conv j w3 @pads=I,1,1,1,1",
        {{2, 3, 11, 13}},
        .sm = 80,
        .processors = 1};
    compiled c = compile(*state, &m, FP_DEFAULT);
    const buffer *whole = NULL;
    int laid = 0, reading = 0, writing = 0;
    for (int j = 0; j < c.program->buffers.n; j++) {
        const buffer *b = c.program->buffers.at[j];
        if (b->layout && b->role != BUF_CONST) laid++, whole = b;
    }
    assert_int_equal(laid, 1);
    for (int j = 0; j < c.program->kernels.n; j++) {
        const kernel *k = c.program->kernels.at[j];
        reading += kernel_reads(k, whole), writing += kernel_writes(k, whole);
        assert_int_equal(k->stages.n, 1);
    }
    assert_int_equal(reading, 2);
    assert_int_equal(writing, 2);
    const char *text = cuda_text(*state, c.code->module), *first = strstr(text, "async_16_or_0(");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "async_16_or_0("));
    c.near = 4e-3;
    const char *error = interpreted_error(*state, &c);
    if (error) fail_msg("%s", error);
}

// What the caller gave is copied, by as many threads as it has elements.
static void joined_parts_are_kernels(void **state) {
    static const model m = {"beside",
                            "",
                            "in a float 1 6 40\nin b float 1 9 40\nout y float *\ny = Concat a b @axis=i,1",
                            {{1, 6, 40}, {1, 9, 40}}};
    compiled c = compile(*state, &m, FP_DEFAULT);
    assert_int_equal(c.program->kernels.n, 2);
    for (int j = 0; j < 2; j++) assert_string_equal(c.code->kernels[j]->schedule, "points");
    const char *error = interpreted_error(*state, &c);
    if (error) fail_msg("%s", error);
}

static const buffer *constant_with(const compiled *c, dtype t, int rank) {
    for (int j = 0; j < c->program->buffers.n; j++) {
        const buffer *b = c->program->buffers.at[j];
        if (b->role == BUF_CONST && b->dtype == t && b->rank == rank) return b;
    }
    return NULL;
}

// What only products read is rounded and laid out for them; what others read too, or what slices along K do
// not fill, stays as it is.
static void constants_are_made_for_products(void **state) {
    static const model
        alone = {"alone",
                 "",
                 "in a float M 64\nout y float *\n" CONSTANT_B("2", "64 32", "2048", "1") "y = MatMul a b",
                 {{19, 64}},
                 1,
                 PRECISION_BF16,
                 .sm = 90,
                 .groups = true},
        shared = {"shared",
                  "",
                  "in a float M 64\nin w float 32\nout y float *\n" CONSTANT_B(
                      "2", "64 32", "2048",
                      "1") "t = MatMul a b\nd = Mul b w\nl = ReduceL2 d @axes=I,0 @keepdims=i,0\ny = Add t l",
                  {{19, 64}, {32}},
                  1,
                  PRECISION_BF16,
                  .sm = 90,
                  .groups = true};
    static const model thin = {
        "thin",
        "",
        "in a float16 M 8\nout y float16 *\n" CONSTANT_B("2", "8 16000", "128000", "10") "y = MatMul a b",
        {{1, 8}},
        1,
        .sm = 90,
        .groups = true};
    compiled c = compile(*state, &alone, FP_DEFAULT), strict = compile(*state, &alone, FP_STRICT),
             both = compile(*state, &shared, FP_DEFAULT), wide = compile(*state, &thin, FP_DEFAULT);
    assert_null(constant_with(&wide, DT_F16, 2)->layout);
    assert_non_null(constant_with(&c, DT_BF16, 2));
    assert_non_null(constant_with(&c, DT_BF16, 2)->layout);
    assert_null(constant_with(&strict, DT_BF16, 2));
    assert_null(constant_with(&both, DT_BF16, 2));
    assert_null(constant_with(&both, DT_F32, 2)->layout);
    both.near = 0.3; // sums of terms up to 12
    const char *error = interpreted_error(*state, &both);
    if (error) fail_msg("%s", error);
}

// Few queries over many keys: in pieces, unless that changes bits; the run chooses where it alone knows.
static void few_queries_are_split(void **state) {
    static const model
        known = {"known",
                 "",
                 "in q float16 2 3 16\nin k float16 2 16 600\nin v float16 2 600 16\nout y float16 *\n"
                 "s = MatMul q k\np = Softmax s\ny = MatMul p v",
                 {{2, 3, 16}, {2, 16, 600}, {2, 600, 16}}},
        open = {"open",
                "",
                "in q float16 B M 16\nin k float16 B 16 N\nin v float16 B N 16\nout y float16 *\n"
                "s = MatMul q k\np = Softmax s\ny = MatMul p v",
                {{2, 3, 16}, {2, 16, 70}, {2, 70, 16}}},
        open_long = {"open_long",
                     "",
                     "in q float16 B M 16\nin k float16 B 16 N\nin v float16 B N 16\n"
                     "out y float16 *\ns = MatMul q k\np = Softmax s\ny = MatMul p v",
                     {{2, 3, 16}, {2, 16, 600}, {2, 600, 16}}},
        shown = {"shown",
                 "",
                 "in q float16 2 3 16\nin k float16 2 16 600\nin v float16 2 600 16\nout y float *\n"
                 "s = MatMul q k\np = Softmax s\nt = MatMul p v\ny = Cast t @to=i,1",
                 {{2, 3, 16}, {2, 16, 600}, {2, 600, 16}}};
    const model *const all[] = {&known, &open, &open_long, &shown};
    static const int kernels[] = {2, 3, 3, 1};
    for (int j = 0; j < 4; j++) {
        compiled c = compile(*state, all[j], FP_DEFAULT), strict = compile(*state, all[j], FP_STRICT);
        c.near = 1e-3;
        const char *error = interpreted_error(*state, &c);
        if (error) fail_msg("%s: %s", all[j]->name, error);
        assert_int_equal(kernels_of(&c), kernels[j]);
        assert_true(kernels_of(&strict) >= 1);
    }
}

// Sizes that are known take 32-bit positions; unknown or large ones do not.
static void positions_are_as_wide_as_needed(void **state) {
    static const model small = {"small", "", "in x float 3 50\nout y float *\ny = Transpose x", {{3, 50}}},
                       open = {"open", "", "in x float N 50\nout y float *\ny = Transpose x", {{3, 50}}};
    fixture *x = *state;
    compiled c[] = {compile(x, &small, FP_DEFAULT), compile(x, &open, FP_DEFAULT)};
    assert_non_null(strstr(cuda_text(x, c[0].code->module), "int32_t block = "));
    assert_null(strstr(cuda_text(x, c[0].code->module), "int64_t block = "));
    assert_non_null(strstr(cuda_text(x, c[1].code->module), "int64_t block = "));
}

static const char *find_ptxas(arena *a) {
    if (have_program(a, "ptxas")) return "ptxas";
    return have_program(a, "/usr/local/cuda/bin/ptxas") ? "/usr/local/cuda/bin/ptxas" : NULL;
}

// The models that are compiled for one of so many architectures, the oldest first: each for one of those that
// run it.
static lmodule *models_for(fixture *x, int arch, int archs) {
    lmodule *m = NULL;
    for (int i = 0; i < MODELS; i += EVERY) {
        int k = i / EVERY, one = models[i].sm >= 80 ? 1 + k % (archs - 1) : k % archs;
        compiled c;
        if (one == arch) m = add_model(x, m, &c, &models[i], FP_DEFAULT);
    }
    return m;
}

static void ptx_is_accepted(void **state) {
    static const int archs[] = {75, 80, 90, GPU_OWN + 90};
    fixture *x = *state;
    const char *ptxas = find_ptxas(x->a);
    nvrtc *n = nvrtc_open(x->a, NULL, NULL);
    if (!n || !ptxas) {
        print_message("skipped: %s is not installed\n", n ? "ptxas" : "NVRTC");
        skip();
    }
    for (int i = 0; i < 4; i++) {
        int sm = archs[i];
        if (!nvrtc_knows(n, sm)) continue;
        gpu_code all = {.module = models_for(x, i, 4)};
        const char *ptx = gpu_ptx(&all, x->a, n, sm, &x->d),
                   *path = workdir_write(x->dir, "test.ptx", ptx, strlen(ptx));
        bool groups = strstr(ptx, "wgmma.mma_async");
        assert_true(sm > GPU_OWN ? groups || EVERY > 1 : !groups);
        const char *command = arena_printf(x->a, "%s -arch=sm_%d%s -o %s/test.cubin %s", ptxas,
                                           gpu_arch_number(sm), gpu_arch_letter(sm), x->dir.path, path);
        if (system(command) != 0) fail_msg("%s", command);
    }
}

// More functions than one NVRTC program takes; ptxas sees one module.
static void batches_are_joined(void **state) {
    fixture *x = *state;
    nvrtc *n = nvrtc_open(x->a, NULL, NULL);
    const char *ptxas = find_ptxas(x->a);
    if (!n || !ptxas) skip();
    static const model m = {"pointwise", "points", "in x float N 97\nout z float *\nz = Tanh x", {{13, 97}}};
    compiled c = compile(x, &m, FP_DEFAULT);
    const lfunc *one = c.code->module->funcs.at[0];
    gpu_code all = {.module = lmodule_new(x->a, "test", c.code->module->target)};
    for (int i = 0; i < GPU_BATCH + 2; i++) {
        lfunc *f = ARENA_NEW(x->a, lfunc);
        *f = *one;
        f->name = arena_printf(x->a, "copy_%d", i);
        VEC_PUSH(x->a, &all.module->funcs, f);
    }
    const char *ptx = gpu_ptx(&all, x->a, n, 80, &x->d),
               *path = workdir_write(x->dir, "test.ptx", ptx, strlen(ptx));
    assert_non_null(strstr(ptx, ".entry copy_0("));
    assert_non_null(strstr(ptx, ".entry copy_51("));
    assert_int_equal(system(arena_printf(x->a, "%s -arch=sm_80 -o /dev/null %s", ptxas, path)), 0);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(kernels_are_right_in_the_interpreter),
        TEST(strict_kernels_have_the_bits_of_c),
        TEST(schedules_are_as_meant),
        TEST(kernels_are_right_on_the_shim),
        TEST(text_has_the_bits_of_the_interpreter),
        TEST(missing_barriers_show),
        TEST(missing_waits_show),
        TEST(wrong_memory_shows),
        TEST(buffers_need_not_be_aligned),
        TEST(equal_kernels_are_one_function),
        TEST(long_sums_are_split),
        TEST(images_lie_channels_last),
        TEST(parts_of_images_lie_channels_last),
        TEST(joined_parts_are_kernels),
        TEST(constants_are_made_for_products),
        TEST(few_queries_are_split),
        TEST(positions_are_as_wide_as_needed),
        TEST(ptx_is_accepted),
        TEST(batches_are_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
