// The C interface of a program: names, struct members and their offsets, as the header declares them and the
// host code uses them. In NAME_in and NAME_out all int64_t members come first, then the pointers, so that
// offsets follow from their number on every target.
#ifndef ONNXC_CODEGEN_HOST_INTERFACE_H
#define ONNXC_CODEGEN_HOST_INTERFACE_H
#include "codegen/c/cname.h"
#include "ir/kernel/program.h"
#include "ir/target.h"
#include "passes/memory/memory_plan.h"

typedef struct io_tensor {
    const buffer *buffer;
    const char *original; // the model's name
    const char *name;     // as a C identifier, unique among all tensors
    const char *macro;    // in upper case, unique
    const char **dims;    // by axis: name of the int64_t member; NULL: constant
    int *dim_slots;       // by axis: number of the int64_t member; -1: constant
    bool data_sized;      // output whose size is known only at run time
    const char *capacity; // name of the int64_t member for its capacity in elements; NULL: none
    int capacity_slot;
    int pointer_slot; // number of the pointer member
    int state; // output: 1 + the input that it updates in place, which has its members; input: 1 + that output
    int growth;                // of a state that grows: 1 + the number of its io_growth; or 0
    int growth_axis;           // the axis of that size
    int64_t room;              // its largest size, for which the memory has room
    int first_dim;             // index in the flat array of dims: of all inputs, then of all outputs
    const io_scale *quant;     // scale and zero point of a quantised tensor; NULL: none
    const constant *labels;    // labels of its columns, or the table that its elements index; NULL: none
    const char **label_macros; // by string label: the macro of its index
} io_tensor;

// Sizes of states that grow are kept by the caller behind a pointer, one for all states of one symbolic size.
typedef struct io_growth {
    const char *name; // of the pointer member of NAME_in
    int output, axis; // the first of these states
    int pointer_slot;
} io_growth;

// A pool of the caller's has members for its address and its size, another one a symbol.
typedef struct io_pool {
    const memory_pool *pool;
    const char *name, *size, *macro; // of the member or symbol, of the member, of macros
    int pointer_slot, size_slot;     // numbers of these members
    int64_t bytes;                   // in use, once memory is planned
} io_pool;

typedef struct interface {
    const char *name, *macro; // prefix of all symbols, of all macros
    int nin, nout;
    io_tensor *in, *out;
    int in_int64s, out_int64s; // numbers of members
    int in_pointers, out_pointers;
    VEC(io_growth) growths;
    int ndims;              // length of the flat array of dims
    VEC(dim *) symbols;     // in order of their first appearance
    const char **arguments; // by symbol: its name as a C identifier
    bool messages;          // NAME_out has a member for the message of a failed run
    bool generic;           // there is a generic entry and a descriptor
    const char *message;    // name of that member
    bool output_dims;       // NAME_output_dims exists
    bool capacities;
    bool context;          // a run has a context parameter
    bool opens;            // NAME_open exists
    const char *hook_user; // member of NAME_in for the hook; NULL: no hook
    map members;           // names of members in use
    VEC(io_pool) pools;    // none: memory is in the workspace
    int callers;           // pools among them that callers pass
} interface;

// Before the extras.
void interface_add_pools(interface *io, arena *a, const memory_pools *pools);
void interface_add_extras(interface *io, arena *a, bool context, bool hook, bool opens);
// capacities: all outputs whose size is not constant have one, not only those whose size depends on data.
interface *interface_new(const program *p, const char *name, const target *t, bool generic, bool capacities);
// The same names and members, with the tensors of another version of the program.
interface *interface_of_version(arena *a, const interface *io, const program *p);
int64_t interface_int64_offset(int slot);
int64_t interface_pointer_offset(const target *t, int int64s, int pointer);
const char *interface_ctype(const buffer *b); // type of the elements
#endif
