// Values of a model's inputs and outputs: read from files, made up, written and shown.
#ifndef ONNXC_COMPILER_VALUES_VALUES_H
#define ONNXC_COMPILER_VALUES_VALUES_H
#include "compiler/import/import.h"
#include "ir/graph/tensor.h"

// An input or output as its model describes it.
typedef struct port {
    const char *name;
    type_kind kind;
    dtype dtype;
    int rank;                    // RANK_UNKNOWN when not known
    int64_t dims[MAX_RANK];      // -1: not fixed
    const char *sizes[MAX_RANK]; // as text: "3", "N", "2*N"
    bool boxed;                  // runs take and give a struct onnxc_value
    const char *type;            // of what is boxed or has labels: "sequence(float[...])"
    bool has_default;            // an input that may be left out: data NULL
    const constant *labels;      // an output that stands for a sequence of maps (type): keys of its columns
} port;
const char *port_text(arena *a, const port *p);     // "float[N, 3]"
const char *tensor_text(arena *a, const tensor *t); // "float[2, 3]"

tensor tensor_new(arena *a, dtype t, int rank, const int64_t *dims); // zeroed, data aligned to 64 bytes
void tensor_normalize(tensor *t);        // any byte but 0 of a bool means true; kernels count on 1
tensor tensor_of_default(const port *p); // without data: the run takes the model's own
tensor tensor_of(arena *a, const constant *c);
constant *constant_of(arena *a, const tensor *t);
// Whether a map of such values may hold v: files written from Python's dictionaries have doubles and int64.
bool map_takes(dtype to, const import_value *v);
dtype map_value_type(const char *type); // of the values in the map of a type's text; DT_NONE: there is none
port table_port(const port *p);         // the same without its labels
// What runs take and give: of sequences and optionals a scalar whose data is a struct onnxc_value.
tensor tensor_of_value(arena *a, const port *p, const import_value *v);
import_value *value_of_port(arena *a, const port *p, const tensor *t);
import_value *value_of_tensor(arena *a, const char *name, const tensor *t);

// FILE's format follows its ending: .npy, .npz (the member of the port's name, or the only one), .pb, .csv,
// else raw bytes. What does not fit the port is an error.
import_value *value_read(arena *a, diag *d, const port *p, const char *path);
tensor npy_read(arena *a, diag *d, const char *what, const uint8_t *data, size_t size, dtype hint);
tensor npz_read(arena *a, diag *d, const port *p, const char *path);
// Uniform in lo..hi ("" : -1..1 for floats, 0..9 for integers); the same numbers for the same port and seed.
// Sizes that are not fixed must be in `dims` (-1: not known), else it is an error.
tensor value_random(arena *a, diag *d, const port *p, const int64_t *dims, const char *range, uint64_t seed);

void value_write(arena *a, diag *d, const import_value *v, const char *path);
// As numpy prints, but with as many digits as the value has; long axes are summarised when all is false.
void value_print(text *out, const import_value *v, bool all);
void element_print(text *out, const tensor *t, int64_t i);
#endif
