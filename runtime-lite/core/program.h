/* A program's model, the files of its tensors and their contents (runtime-lite/core/program.c). */
#ifndef ONNXC_PROGRAM_H
#define ONNXC_PROGRAM_H
#include "runtime-lite/core/runtime.h"
#include "runtime-lite/lib/dtypes.h"
#include "runtime-lite/lib/small_float.h"
#include <stdio.h>

typedef enum element_class {
    DC_NONE,
    DC_FLOAT,
    DC_INT,
    DC_UINT,
    DC_BOOL,
    DC_COMPLEX,
    DC_STRING
} element_class;

typedef struct element {
    const char *name, *npy; /* npy: numpy's type code */
    int bits;
    element_class class;
    float_format format; /* of a small float; else its `special` is FORMAT_NONE */
} element;

typedef struct program {
    const onnxc_model *m;
    const onnxc_descriptor *d;
    const char *name; /* argv[0] */
    /* By tensor, inputs first: the file or "random" it comes from; the file it is written to; NULL: none. */
    const char **file;
    void **data;
    int64_t *dims, *capacity;
    uint64_t seed;
    const int64_t *actual; /* dims, where files are to have those of a run; or NULL */
    const char **sizes;    /* NAME=N of --dim */
    int nsizes;
} program;

const onnxc_tensor_info *program_tensor(const program *p, uint32_t i);
const char *program_name(const program *p, uint32_t i);
/* "NAME: ", for a terminal: control characters and marks of direction become spaces. */
void program_put_name(const program *p, uint32_t i, FILE *to);
/* NULL: programs cannot read or write such tensors. */
const element *program_element(const onnxc_tensor_info *t);
size_t program_element_size(const onnxc_tensor_info *t);
int64_t program_count(const program *p, const onnxc_tensor_info *t); /* -1: not known */
void *program_alloc(int64_t bytes);
int program_complain(const char *path, const char *what); /* returns 0 */
int program_ends_with(const char *s, const char *ending);

/* Complex numbers have two parts. Integers of 64 bits lose digits. */
double program_load(const element *e, const void *data, int64_t i);
void program_store(const element *e, void *data, int64_t i, double v);
void program_store_int(const element *e, void *data, int64_t i, uint64_t v);

/* Reads tensor i from a file by its extension (.npy, .npz, .pb, .csv; others are raw bytes), with its dims. */
int program_read(program *p, uint32_t i, const char *path);
/* range: LO..HI; "": the usual one. */
int program_random(program *p, uint32_t i, const char *range);
int program_check_path(const char *path); /* that program_write knows the format */
int program_write(const program *p, uint32_t i, const char *path);
void program_print(const program *p, uint32_t i);
/* Prints how output i differs from a file. 1: same; 0: it differs; -1: the file cannot be read. */
int program_compare(const program *p, uint32_t i, const char *path, double rtol, double atol);
#endif
