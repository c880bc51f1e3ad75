// Whether a run may be called where nothing may wait: no allocation, no lock, no system call.
#ifndef ONNXC_CODEGEN_HOST_REAL_TIME_H
#define ONNXC_CODEGEN_HOST_REAL_TIME_H
#include "compiler/base/arena.h"

typedef struct real_time {
    string_list faults;    // what a run does that may wait; none: it is safe
    string_list callbacks; // functions of the user's that a run calls, which must be safe, too
    string_list varying;   // what takes a time that depends on the values of tensors
} real_time;

// The functions that a run of the finished module may call, with the steps of the program that are the reason.
struct host_builder;
real_time *real_time_find(struct host_builder *a);
// Adds functions that only machine code shows: what the code generator calls.
void real_time_add_symbol(arena *a, real_time *r, const char *symbol);
const char *real_time_condition(arena *a, const real_time *r); // "", "if tick is"
const char *real_time_reasons(arena *a, const real_time *r);   // the first ones
// "yes", "yes, if tick is", "no: REASONS"
const char *real_time_text(arena *a, const real_time *r);
#endif
