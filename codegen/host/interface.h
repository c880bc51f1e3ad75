// The C interface of a program: names, struct members and their places, as the header declares them and the
// host code uses them. In NAME_in and NAME_out all int64_t members come first, then the pointers, so that
// places are the same sums on every target.
#ifndef ONNXC_CODEGEN_HOST_INTERFACE_H
#define ONNXC_CODEGEN_HOST_INTERFACE_H
#include "codegen/c/cname.h"
#include "ir/kernel/program.h"
#include "ir/target.h"

typedef struct io_tensor {
    const buffer *buffer;
    const char *original; // the model's name
    const char *name;     // as a C identifier, unique among all tensors
    const char *macro;    // in upper case, unique
    const char **dims;    // by axis: the int64_t member that holds it, NULL: constant
    int *dim_slots;       // by axis: which int64_t member, -1: constant
    bool data_sized;      // output whose size is known during the run only
    const char *capacity; // data_sized: the int64_t member for the elements that fit
    int capacity_slot;
    int pointer_slot; // which pointer member
    int state; // output: 1 + the input whose memory it takes and whose members stand for it; input: 1 + that
               // output
    int first_dim; // of its dims in the flat array of the generic interface: all inputs', then all outputs'
    const io_scale *quant;     // of its quantised form; NULL: none
    const constant *labels;    // of its columns, or what its elements are indices of; NULL: none
    const char **label_macros; // by label of a table, where labels are strings: the macro of its index
} io_tensor;

typedef struct interface {
    const char *name, *macro; // prefix of all symbols, of all macros
    int nin, nout;
    io_tensor *in, *out;
    int in_int64s, out_int64s; // members of the structs
    int out_pointers;
    int ndims;              // in the flat array
    VEC(dim *) symbols;     // in order of their first appearance
    const char **arguments; // by symbol: its name as a C identifier
    bool messages;          // NAME_out has a member for the message of a failed run
    bool generic;           // there is a generic entry and a descriptor
    const char *message;    // name of that member
    bool context;           // runs take a context
    bool opens;             // there is NAME_open
    const char *hook_user;  // member of NAME_in for the hook; NULL: there is no hook
    map members;            // taken names of members
} interface;

void interface_add_extras(interface *io, arena *a, bool context, bool hook, bool opens);
interface *interface_new(const program *p, const char *name, const target *t, bool generic);
// The same names and places, with the tensors of another version of the program.
interface *interface_of_version(arena *a, const interface *io, const program *p);
int64_t interface_int64_offset(int slot);
int64_t interface_pointer_offset(const target *t, int int64s, int pointer);
const char *interface_ctype(const buffer *b); // of the elements
#endif
