// Small models for the tests of GPU kernels, and ways to compile and run them.
#ifndef ONNXC_TEST_UNIT_GPU_MODELS_H
#define ONNXC_TEST_UNIT_GPU_MODELS_H
#include "codegen/c/cuda.h"
#include "codegen/gpu/gpu.h"
#include "codegen/target/targets.h"
#include "compiler/driver/pass_run.h"
#include "compiler/import/import.h"
#include "compiler/run/gpu_shim.h"
#include "ir/kernel/lower.h"
#include "ir/loops/loops_gpu.h"
#include "test/build_graph.h"
#include "test/unit/compile_text.h"
#include "test/unit/onnx_build.h"
#include "test/unit/sample.h"
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
    int sm;          // 0: any
    bool warpgroups; // sm_90a is there too
    bool placed;     // buffers begin at multiples of 64 bytes
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
    // Warpgroups: lines of shared memory along K and along the rows, elements one by one.
    {"groups",
     "warp-group product",
     "in a float16 M K\nin b float16 K N\nin c float16 N\nout y float16 *\nt = MatMul a b\ny = Add t c",
     {{61, 328}, {328, 56}, {56}},
     1,
     .sm = 90,
     .warpgroups = true},
    {"groups_large",
     "warp-group product",
     "in a float16 150 104\nin b float16 104 136\nout y float16 *\ny = MatMul a b",
     {{150, 104}, {104, 136}},
     1,
     .sm = 90,
     .warpgroups = true},
    {"groups_placed",
     "warp-group product",
     "in a float16 M 200\nin b float16 200 136\nout y float16 *\ny = MatMul a b",
     {{61, 200}, {200, 136}},
     1,
     .sm = 90,
     .warpgroups = true,
     .placed = true},
    {"groups_turned",
     "warp-group product",
     "in a bfloat16 K M\nin b bfloat16 N K\nout y bfloat16 *\ny = Gemm a b @transA=i,1 @transB=i,1",
     {{72, 136}, {40, 72}},
     1,
     .sm = 80,
     .warpgroups = true},
    {"groups_both_turned",
     "warp-group product",
     "in a float16 K M\nin b float16 K N\nout y float16 *\ny = Gemm a b @transA=i,1",
     {{328, 72}, {328, 136}},
     1,
     .sm = 90,
     .warpgroups = true},
    {"groups_odd",
     "warp-group product",
     "in a float16 67 71\nin b float16 71 37\nout y float16 *\ny = MatMul a b",
     {{67, 71}, {71, 37}},
     1,
     .sm = 90,
     .warpgroups = true},
    {"groups_bytes",
     "warp-group product",
     "in a uint8 M 208\nin b int8 56 208\nout y int32 *\nt = Transpose b @perm=I,1,0\ny = MatMulInteger a t",
     {{61, 208}, {56, 208}},
     1,
     .sm = 90,
     .warpgroups = true},
    {"groups_signed",
     "warp-group product",
     "in a int8 70 67\nin b int8 67 37\nout y int32 *\ny = MatMulInteger a b",
     {{70, 67}, {67, 37}},
     1,
     .sm = 90,
     .warpgroups = true},
    {"groups_tf32",
     "warp-group product",
     "in a float M 37\nin b float 37 29\nout y float *\ny = MatMul a b",
     {{19, 37}, {37, 29}},
     1,
     PRECISION_TF32,
     .sm = 90,
     .warpgroups = true},
    {"groups_conv",
     "warp-group product",
     "in x float16 N 4 11 13\nin w float16 5 4 3 3\nout y float16 *\ny = Conv x w @pads=I,1,1,1,1 "
     "@strides=I,2,1",
     {{2, 4, 11, 13}, {5, 4, 3, 3}},
     1,
     .sm = 90,
     .warpgroups = true},
    // Constants come slice by slice in one copy: more slices than places for them, less than one, rows of a,
    // both tiles, and beside what threads write; batches.
    {"bulk",
     "warp-group product",
     "in a float16 M 200\nout y float16 *\n" CONSTANT_B("2", "200 56", "11200", "10") "y = MatMul a b",
     {{61, 200}},
     1,
     .sm = 90,
     .warpgroups = true},
    {"bulk_short",
     "warp-group product",
     "in a float16 M 37\nout y float16 *\n" CONSTANT_B("2", "136 37", "5032",
                                                       "10") "y = Gemm a b @transB=i,1",
     {{67, 37}},
     1,
     .sm = 90,
     .warpgroups = true},
    {"bulk_rows",
     "warp-group product",
     "in a float16 72 N\nout y float16 *\n" CONSTANT_B("2", "80 72", "5760", "10") "y = MatMul b a",
     {{72, 136}},
     1,
     .sm = 80,
     .warpgroups = true},
    {"bulk_bytes",
     "warp-group product",
     "in a uint8 M 141\nout y int32 *\n" CONSTANT_B("2", "141 50", "7050", "3") "y = MatMulInteger a b",
     {{61, 141}},
     1,
     .sm = 90,
     .warpgroups = true},
    {"bulk_batches",
     "warp-group product",
     "in a bfloat16 3 M 72\nout y bfloat16 *\n" CONSTANT_B("3", "3 72 70", "15120", "16") "y = MatMul a b",
     {{3, 19, 72}},
     1,
     .sm = 90,
     .warpgroups = true},
    {"bulk_conv",
     "warp-group product",
     "in x float16 N 4 7 64\nout y float16 *\n" CONSTANT_B(
         "4", "24 64 1 3", "4608", "10") "t = Transpose x @perm=I,0,3,1,2\ny = Conv t b @pads=I,0,1,0,1",
     {{2, 4, 7, 64}},
     1,
     .sm = 90,
     .warpgroups = true},
    // Tiles of 128 x 256, where the products of one slice run on while the next one's begin.
    {"groups_overlap",
     "warp-group product",
     "in a float16 127 344\nin b float16 344 N\nout y float16 *\ny = MatMul a b",
     {{127, 344}, {344, 248}},
     1,
     .sm = 90,
     .warpgroups = true},
    {"groups_overlap_bytes",
     "warp-group product",
     "in a uint8 M 640\nin b int8 256 640\nout y int32 *\nt = Transpose b\ny = MatMulInteger a t",
     {{128, 640}, {256, 640}},
     1,
     .sm = 90,
     .warpgroups = true},
    {"bulk_overlap",
     "warp-group product",
     "in a bfloat16 M 384\nout y bfloat16 *\n" CONSTANT_B("2", "384 230", "88320", "16") "y = MatMul a b",
     {{125, 384}},
     1,
     .sm = 90,
     .warpgroups = true},
    // Both are constants, whose product is too much work to fold.
    {"bulk_both",
     "warp-group product",
     "in c float16 M 208\nout y float16 *\n" CONSTANT_B("2", "200 208", "41600",
                                                        "10") "u = Neg b\n"
                                                              "a = Transpose u\nt = MatMul a b\ny = Add t c",
     {{1, 208}},
     1,
     .sm = 90,
     .warpgroups = true},
    // Constants of f32 are rounded before they are stored.
    {"bulk_tf32",
     "warp-group product",
     "in a float M 70\nout y float *\n" CONSTANT_B("2", "70 37", "2590", "1") "c = Tanh b\ny = MatMul a c",
     {{19, 70}},
     1,
     PRECISION_TF32,
     .sm = 90,
     .warpgroups = true},
    {"bulk_in_f16",
     "warp-group product",
     "in a float M 70\nout y float *\n" CONSTANT_B("2", "70 37", "2590", "1") "c = Tanh b\ny = MatMul a c",
     {{19, 70}},
     1,
     PRECISION_F16,
     .sm = 90,
     .warpgroups = true},
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
     .warpgroups = true},
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
    // Rows of 17 elements are never aligned; the mask has separate rows.
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
enum { MODELS = sizeof models / sizeof *models, ORDERS = 2 };
static const linterp_order orders[ORDERS] = {ORDER_FORWARD, ORDER_PERMUTED};

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

static inline int set_up(void **state) {
    arena *a = arena_new();
    fixture *x = ARENA_NEW(a, fixture);
    x->a = a;
    x->d.arena = a;
    x->d.sink = show_message;
    x->dir = workdir_new(a);
    *state = x;
    return 0;
}

static inline int tear_down(void **state) {
    fixture *x = *state;
    workdir_remove(x->dir);
    arena_destroy(x->a);
    return 0;
}

// ---------------------------------------------------------------- compiling

static inline program *lower_text(fixture *x, const model *m) {
    size_t size;
    const void *bytes = build_model(x->a, m->text, &size);
    module *mo = import_onnx_memory(x->a, &x->d, m->name, NULL, bytes, size, NULL);
    pass_context c = {.module = mo, .opt = 2, .fold_work = 1000000, .fold_bytes = 1 << 20};
    run_passes(&c, GOAL_GRAPH, NULL);
    return lower_module(mo);
}

static inline tensor random_tensor(fixture *x, dtype dt, const int64_t *dims, uint32_t seed) {
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

static inline compiled compile(fixture *x, const model *m, fp_mode fp) {
    compiled c = {0};
    const char *message = NULL;
    if (!DIAG_TRY(&x->d, x->jump)) fail_msg("%s does not compile", m->name);
    c.meaning = lower_text(x, m);
    c.program = lower_text(x, m);
    target *t = target_for_cuda(x->a, &(target_options){.fp = fp});
    if (m->processors) t->processors = m->processors;
    t->precision = m->precision;
    t->sm = m->sm ? m->sm : 75;
    t->warpgroups = m->warpgroups;
    t->shared_most = (t->sm < 90 ? 99 : 227) << 10;
    t->placed = m->placed;
    pass_context pc = {.program = c.program, .target = t, .opt = 2};
    run_passes(&pc, GOAL_PROGRAM, NULL);
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
static inline const char *run_compiled(fixture *x, const compiled *c, gpu_launcher *launch, void *user) {
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

static inline const char *cuda_text(fixture *x, const lmodule *m) {
    text t = {.arena = x->a};
    sink s = sink_text(&t);
    if (!DIAG_TRY(&x->d, x->jump)) fail_msg("the emitter failed");
    cuda_write(m, &s, &x->d);
    return text_str(&t);
}

static inline gpu_shim *load_on_shim(fixture *x, const lmodule *m) {
    if (!have_program(x->a, "c++")) skip();
    if (!DIAG_TRY(&x->d, x->jump)) fail_msg("the CUDA text does not compile");
    return gpu_shim_open(x->a, &x->d, m, "test/shim", ORDER_FORWARD);
}

static inline const char *error_on_shim(fixture *x, const compiled *c, gpu_shim *s) {
    const char *error = NULL;
    for (int order = 0; order < ORDERS && !error; order++) {
        s->order = orders[order];
        error = run_compiled(x, c, gpu_shim_launch, s);
    }
    return error;
}

// The kernels of a model, compiled to c, into module m, NULL: a new one; they get the model's name in front.
static inline lmodule *add_model(fixture *x, lmodule *m, compiled *c, const model *of, fp_mode fp) {
    *c = compile(x, of, fp);
    if (!m) m = lmodule_new(x->a, "test", c->code->module->target);
    for (int j = 0; j < c->code->module->funcs.n; j++) {
        lfunc *f = c->code->module->funcs.at[j];
        f->name = arena_printf(x->a, "%s_%s", of->name, f->name);
        VEC_PUSH(x->a, &m->funcs, f);
    }
    return m;
}

// Every so many-th model from the first on, in one module, so that they compile in one go; c of the others stays as it is.
static inline lmodule *some_models(fixture *x, compiled *c, fp_mode fp, int first, int every) {
    lmodule *m = NULL;
    for (int i = first; i < MODELS; i += every) m = add_model(x, m, &c[i], &models[i], fp);
    return m;
}

static inline const char *interpreted_error(fixture *x, const compiled *c) {
    const char *error = NULL;
    for (int order = 0; order < ORDERS && !error; order++) {
        linterp_order own = orders[order];
        error = run_compiled(x, c, gpu_interpret, &own);
    }
    return error;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#endif
