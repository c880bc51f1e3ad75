/* Library functions: computations that are not loop nests (sorting, selection, strings, sequences) in
 * portable C, one function per file, linked only if a model uses it. All have the same signature. The
 * program's step (ir/kernel/program.h, STEP_LIB) passes the buffers written, then those read (NULL:
 * omitted), and numbers: sizes, attributes, dtypes. The return value is 0, or the number of the step's
 * message about invalid data.
 *
 * They need only memcpy and the like, and their scratch memory is a buffer; only functions that create
 * strings and values allocate memory, in the list *call, and only image_decode needs an operating system. The interpreter runs the same code, objects link
 * with it (libonnxc-rt), and emitted C contains its text: C99, with names of static functions unique among
 * all files. */
#ifndef ONNXC_LIB_H
#define ONNXC_LIB_H
#include "runtime-lite/lib/lib_base.h"
#include "runtime-lite/lib/lib_custom.h"
#include "runtime-lite/onnxc_custom.h"

/* X(name, what it needs: 0 its arguments, 1 also memory, 2 also memory, an operating system and, where
 * emitted C contains its text, the runtime) */
#define ONNXC_LIBRARY(X)                                                                                     \
    X(dequantize_blocks, 0)                                                                                  \
    X(fourier, 0)                                                                                            \
    X(image_decode, 2)                                                                                       \
    X(inverse, 0)                                                                                            \
    X(map_part, 0)                                                                                           \
    X(map_rows, 1)                                                                                           \
    X(nms, 0)                                                                                                \
    X(number_find, 0)                                                                                        \
    X(release, 1)                                                                                            \
    X(scatter_mul, 0)                                                                                        \
    X(sequence_at, 0)                                                                                        \
    X(sequence_concat, 0)                                                                                    \
    X(sequence_dims, 0)                                                                                      \
    X(sequence_erase, 1)                                                                                     \
    X(sequence_insert, 1)                                                                                    \
    X(sequence_join, 1)                                                                                      \
    X(sequence_length, 0)                                                                                    \
    X(sequence_new, 1)                                                                                       \
    X(sequence_split, 1)                                                                                     \
    X(string_concat, 1)                                                                                      \
    X(string_constants, 0)                                                                                   \
    X(string_count, 0)                                                                                       \
    X(string_equal, 0)                                                                                       \
    X(string_export, 1)                                                                                      \
    X(string_find, 0)                                                                                        \
    X(string_hash, 0)                                                                                        \
    X(string_import, 0)                                                                                      \
    X(string_match, 0)                                                                                       \
    X(string_normalize, 1)                                                                                   \
    X(string_parse, 1)                                                                                       \
    X(string_print, 1)                                                                                       \
    X(string_rank, 1)                                                                                        \
    X(string_split, 1)                                                                                       \
    X(tfidf, 0)                                                                                              \
    X(token_count, 0)                                                                                        \
    X(token_split, 1)                                                                                        \
    X(topk, 0)                                                                                               \
    X(unique, 0)                                                                                             \
    X(value_dims, 0)                                                                                         \
    X(value_export, 1)                                                                                       \
    X(value_import, 1)                                                                                       \
    X(value_new, 1)                                                                                          \
    X(value_rank, 0)                                                                                         \
    X(value_read, 0)                                                                                         \
    X(warp, 0)

#define X(name, needs) int onnxc_lib_##name(void **call, void *const *data, const int64_t *numbers);
ONNXC_LIBRARY(X)
#undef X

/* Calls a function of the user's for a custom operator (STEP_LIB with a symbol). */
int onnxc_lib_custom(onnxc_custom_function *f, void *const *data, const int64_t *numbers);

typedef int onnxc_lib_function(void **call, void *const *data, const int64_t *numbers);
#endif
