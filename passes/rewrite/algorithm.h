// Algorithm choice: kernels are replaced by kernels that compute the same in another way, where that is legal
// and a roofline of the target says that it is faster. Runs after fusion and before layouts are assigned.
#ifndef ONNXC_PASSES_REWRITE_ALGORITHM_H
#define ONNXC_PASSES_REWRITE_ALGORITHM_H
#include "ir/kernel/program.h"
#include "ir/target.h"

// Told of every kernel that could be computed in several ways: what it is (kernel_key), the kernel that does
// it now, how, and how the cost model would. A way is DIRECT, or DIRECT + 1 + a place in the table.
typedef void way_hook(void *user, const char *key, kernel *k, int way, int model);
typedef enum choice { CHOICE_AUTO, CHOICE_NEVER, CHOICE_ALWAYS } choice; // always: wherever it is legal
typedef struct algorithm_options {
    choice winograd;
    const target *const *variants; // what else the code is for: an algorithm must gain on each of them
    int nvariants;
    const struct algorithm *only; // NULL: all of the table
    way_hook *chosen;             // NULL: nobody wants to know
    void *user;
} algorithm_options;

// What one run of a kernel asks of the machine.
typedef struct algorithm_cost {
    double flops;     // multiply-adds count twice
    double cached;    // bytes that move between caches
    double constants; // bytes of constants, which come from memory
    double workspace; // bytes of temporaries that it adds
} algorithm_cost;

// One alternative. The form is what match found, kept by the caller of the other two.
typedef struct algorithm {
    const char *name;
    choice (*wish)(const algorithm_options *o);
    void *(*match)(arena *scratch, kernel *k); // NULL: not this kernel
    algorithm_cost (*cost)(const void *form);
    algorithm_cost (*direct)(const void *form); // of the kernel as it is
    // Changes s's kernel into the last one of the new way and puts the others before it, in region r.
    void (*apply)(program *p, region *r, step *s, const void *form, const target *t);
    double error; // most difference to be expected, as a part of the largest result
} algorithm;
extern const algorithm *const algorithms[]; // ends with NULL

// Of one core of t; NULL: of a usual one.
double algorithm_cycles(const algorithm_cost *c, const target *t);

// One remark for each choice.
void choose_algorithms(program *p, const target *t, const algorithm_options *o);
#endif
