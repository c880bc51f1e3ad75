// Inputs and outputs of a model: read from files, generated, written and shown.
#ifndef ONNXC_COMPILER_VALUES_VALUES_H
#define ONNXC_COMPILER_VALUES_VALUES_H
#include "compiler/import/import.h"
#include "ir/graph/tensor.h"

// An input or output as described by its model.
typedef struct port {
    const char *name;
    type_kind kind;
    dtype dtype;
    int rank;                    // RANK_UNKNOWN: unknown
    int64_t dims[MAX_RANK];      // -1: variable
    const char *sizes[MAX_RANK]; // as text: "3", "N", "2*N"
    bool boxed;                  // runs exchange it as a struct onnxc_value
    const char *type;            // if boxed or with labels: "sequence(float[...])"
    bool has_default;            // an optional input: data NULL
    bool begins_zero;            // the past of a stream: zeros before its first sample
    bool streamed;               // a run has `stream_samples` samples of a signal along stream_axis
    int stream_axis;
    int64_t stream_samples;
    int64_t stream_delay;   // by how many samples an output comes later than in the whole model
    int next_of;            // an output that is this input of the next run, counted from 1; 0: it is none
    const constant *labels; // an output that is a sequence of maps (type): keys of its columns
} port;
const char *port_text(arena *a, const port *p);     // "float[N, 3]"
const char *tensor_text(arena *a, const tensor *t); // "float[2, 3]"

tensor tensor_new(arena *a, dtype t, int rank, const int64_t *dims); // zeroed, data aligned to 64 bytes
void tensor_normalize(tensor *t);        // makes every nonzero byte of a bool 1, as kernels need
tensor tensor_of_default(const port *p); // without data: selects the model's own
tensor tensor_of(arena *a, const constant *c);
constant *constant_of(arena *a, const tensor *t);
// Whether v may be a value of a map of that type: files written from Python's dictionaries have only double
// and int64.
bool map_takes(dtype to, const import_value *v);
dtype map_value_type(const char *type); // of the values of a map, by its type's text; DT_NONE: not a map
port table_port(const port *p);         // without its labels
// The form in which runs exchange values: sequences and optionals are a scalar whose data is a struct
// onnxc_value.
tensor tensor_of_value(arena *a, const port *p, const import_value *v);
import_value *value_of_port(arena *a, const port *p, const tensor *t);
import_value *value_of_tensor(arena *a, const char *name, const tensor *t);

// The extension of FILE selects the format: .npy, .npz (the member of the port's name, or the only one), .pb,
// .csv, otherwise raw bytes. Values that do not fit the port are an error.
import_value *value_read(arena *a, diag *d, const port *p, const char *path);
tensor npy_read(arena *a, diag *d, const char *what, const uint8_t *data, size_t size, dtype hint);
tensor npz_read(arena *a, diag *d, const port *p, const char *path);
// Random, uniform in lo..hi ("": -1..1 for floats, 0..9 for integers); deterministic by port and seed.
// Variable sizes must be in `dims` (-1: unknown), or it is an error.
tensor value_random(arena *a, diag *d, const port *p, const int64_t *dims, const char *range, uint64_t seed);

// The formats of value_read; raw bytes for .bin, .raw and files without an extension, such as devices.
void value_write(arena *a, diag *d, const import_value *v, const char *path);
void value_check_path(diag *d, const char *path); // that value_write knows the extension
// Prints like numpy, but with all digits; long axes are summarised unless all.
void value_print(text *out, const import_value *v, bool all);
void element_print(text *out, const tensor *t, int64_t i);
#endif
