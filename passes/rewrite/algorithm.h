// Algorithm choice: replaces kernels by others that compute the same result in another way, where that is
// legal and a roofline model of the target predicts a gain. Runs after fusion and before layout assignment.
#ifndef ONNXC_PASSES_REWRITE_ALGORITHM_H
#define ONNXC_PASSES_REWRITE_ALGORITHM_H
#include "ir/kernel/program.h"
#include "ir/target.h"

// Called for every kernel with several algorithms: its kernel_key, the kernel that computes it now, the
// chosen variant and the cost model's. A variant is DIRECT, or DIRECT + 1 + an index into the table.
typedef void algorithm_hook(void *user, const char *key, kernel *k, int number, int model);
typedef enum choice { CHOICE_AUTO, CHOICE_NEVER, CHOICE_ALWAYS } choice; // always: wherever it is legal
typedef struct algorithm_options {
    choice winograd;
    bool cblas;                    // products may call a CBLAS
    const target *const *variants; // other targets of the code: an algorithm must gain on each
    int nvariants;
    const struct algorithm *only; // NULL: all of the table
    algorithm_hook *chosen;       // NULL: none
    void *user;
} algorithm_options;

// The resources that one run of a kernel uses.
typedef struct algorithm_cost {
    double flops;     // multiply-adds count twice
    double cached;    // bytes of traffic between caches
    double constants; // bytes of constants, loaded from memory
    double workspace; // bytes of additional temporaries
} algorithm_cost;

// An algorithm. `match` returns a form, which the caller passes to the other functions.
typedef struct algorithm {
    const char *name;
    choice (*choice_of)(const algorithm_options *o);
    void *(*match)(arena *scratch, kernel *k); // NULL: not this kernel
    algorithm_cost (*cost)(const void *form);
    algorithm_cost (*direct)(const void *form); // of the original kernel
    // Turns s's kernel into the last kernel of the algorithm and inserts the others before it, in region r.
    void (*apply)(program *p, region *r, step *s, const void *form, const target *t);
    double error; // largest expected difference relative to the largest result
} algorithm;
extern const algorithm *const algorithms[]; // ends with NULL

// On one core of t; NULL: a typical one.
double algorithm_cycles(const algorithm_cost *c, const target *t);

// Reports each choice as a remark.
void choose_algorithms(program *p, const target *t, const algorithm_options *o);
#endif
