/* Library functions: anything that is not a loop nest (sorting, selection, strings, sequences) is portable C,
 * one function per file, linked only if a model uses it. All have the same signature. The program's step
 * (ir/kernel/program.h, STEP_LIB) passes the buffers written, then those read (NULL: omitted), and numbers:
 * sizes, attributes, dtypes. The return value is 0, or the number of the step's message that says what is
 * wrong with the data.
 *
 * They need nothing but memcpy and its like, and take scratch memory as buffers; only those that make strings
 * and sequences allocate, through *call. The same text is the interpreter's meaning, what objects link with
 * (libonnxc-rt) and a part of emitted C: C99, one static name for each helper in all files. */
#ifndef ONNXC_LIB_H
#define ONNXC_LIB_H
#include "runtime-lite/lib/lib_base.h"

/* X(name, whether it allocates) */
#define ONNXC_LIBRARY(X)                                                                                     \
    X(map_part, 0)                                                                                           \
    X(map_rows, 1)                                                                                           \
    X(nms, 0)                                                                                                \
    X(number_find, 0)                                                                                        \
    X(release, 1)                                                                                            \
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
    X(string_find, 0)                                                                                        \
    X(string_give, 1)                                                                                        \
    X(string_match, 0)                                                                                       \
    X(string_normalize, 1)                                                                                   \
    X(string_parse, 1)                                                                                       \
    X(string_print, 1)                                                                                       \
    X(string_rank, 1)                                                                                        \
    X(string_split, 1)                                                                                       \
    X(string_take, 0)                                                                                        \
    X(tfidf, 0)                                                                                              \
    X(topk, 0)                                                                                               \
    X(unique, 0)                                                                                             \
    X(value_dims, 0)                                                                                         \
    X(value_give, 1)                                                                                         \
    X(value_new, 1)                                                                                          \
    X(value_read, 0)                                                                                         \
    X(value_take, 1)

#define X(name, allocates) int onnxc_lib_##name(void **call, void *const *data, const int64_t *numbers);
ONNXC_LIBRARY(X)
#undef X

typedef int onnxc_lib_function(void **call, void *const *data, const int64_t *numbers);
#endif
