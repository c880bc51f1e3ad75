// Shared by the files that roll repeats.
#ifndef ONNXC_IR_LOOPS_ROLL_IMPL_H
#define ONNXC_IR_LOOPS_ROLL_IMPL_H
#include "ir/loops/loops.h"

// Functions of the module by content.
typedef struct same_functions {
    arena *arena;    // temporary
    map by_name;     // name -> function
    map first;       // name -> the first function of its content
    map by_hash;     // of a content -> the first function
    bool keep_names; // of functions that are no kernels: debuggers show them
} same_functions;

// A number that may differ between iterations, where the first one has it.
typedef struct number_slot {
    ins *statement, *user; // the user is in the statement
    int arg;
    int64_t *values; // by iteration
} number_slot;

// A value from before the repeat, the address of data, or what a variable has, that may differ between iterations.
typedef struct value_slot {
    ins *statement, *user;
    int arg;      // USER_ITSELF: a symbol or a read of a variable that the repeat does not set
    ins **values; // by iteration
} value_slot;
enum { USER_ITSELF = -1 };

// A value of the iteration before, and what the first one has instead.
typedef struct carried_slot {
    ins *statement, *user;
    int arg;
    ins *first, *next; // next: in the first iteration, for the second one
} carried_slot;

// A variable of the function that differs between iterations.
typedef struct variable_slot {
    ins **variables; // by iteration
    bool differ;
} variable_slot;

// Iterations of a repeat, compared with the first one.
typedef struct matching {
    arena *arena; // temporary
    same_functions *functions;
    ins **pair;               // by id of an instruction: its counterpart in the first iteration
    int *place;               // by id: in which statement of the block it is, from 1; 0: in none
    int first, period, count; // statements of an iteration, iterations
    VEC(number_slot) numbers;
    VEC(value_slot) values;
    VEC(carried_slot) carried;
    VEC(variable_slot *) variables;
    map slot_of;       // id of a variable -> its slot
    bool carries;      // values of the iteration before are allowed
    bool reads;        // variables that the repeat does not set are values, so that iterations may share them
    map set;           // ids of those that it sets
    bool reads_differ; // iterations do not match since they share variables
    // While one iteration is compared:
    int now, number, value, carry;
    ins *statement;
} matching;

// roll_search.c
enum { LEAST_SAVED = 96 }; // bytes of code
typedef struct repeat {
    int first, period, length; // in statements
    int count;                 // iterations
    int64_t saved;             // bytes, at most
} repeat;
typedef VEC(repeat) repeat_list;

typedef struct search {
    arena *arena;
    VEC(ins *) statements; // of a block, without constants and comments
    uint64_t *shape;
    int64_t *bytes; // of the statements before
} search;
search roll_statements(arena *a, same_functions *functions, const lblock *b);
repeat_list roll_candidates(const search *s); // those that save most first

// roll_match.c
void same_functions_init(same_functions *s, const lmodule *m, arena *a);
// A hash of what matching instructions have in common.
uint64_t ins_shape(same_functions *s, const ins *x);
// In which iteration an instruction is, from 0; NO_ITERATION: in none.
int iteration_of(const matching *m, const ins *x);
enum { NO_ITERATION = -1 };
// Compares the iterations with the first one, and leaves in m->count how many match. Statements: instructions of the block
// without constants and comments.
void match_repeats(matching *m, ins *const *statements);
#endif
