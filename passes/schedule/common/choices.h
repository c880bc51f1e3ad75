// Decisions of the schedules' cost models as parameters: a choice in the table is taken wherever it is legal,
// and all others are left to the models. --tune finds them (compiler/tune/tune.h); --tune-db stores them.
#ifndef ONNXC_PASSES_SCHEDULE_COMMON_CHOICES_H
#define ONNXC_PASSES_SCHEDULE_COMMON_CHOICES_H
#include "ir/kernel/kernel.h"
#include "ir/target.h"

// Incremented when the meaning of a choice changes: older results are then ignored.
enum { SCHEDULES_VERSION = 1 };

// X(name, values, words): values are 1 to `values`, with words for them if there are some; 0 always leaves
// the choice to the model.
#define CHOICES(X)                                                                                           \
    X(algorithm, 3, "direct|winograd|winograd-2x2") /* of a convolution */                                   \
    X(vectors, 4, NULL)                             /* width of a contraction's tile */                      \
    X(rows, 14, NULL)                               /* ... and its rows at most */                           \
    X(blocks, 2, "no|yes")                          /* of K */                                               \
    X(depth, 8192, NULL)                            /* positions of K in a block at most */                  \
    X(steps, 2, NULL)                               /* of K in one turn of the loop */                       \
    X(ahead, 2, "no|yes")                           /* fetches the next tile's columns while it runs */      \
    X(tasks, 2, "columns|rows")                     /* what threads share out */                             \
    X(axis, 64, NULL)                               /* 1 + the axis that runs in vectors */

typedef struct choices {
#define X(name, values, words) int name;
    CHOICES(X)
#undef X
} choices;
enum { NO = 1, YES = 2, TASKS_COLUMNS = 1, TASKS_ROWS = 2, DIRECT = 1 };

typedef struct choice_field {
    const char *name, *words; // words NULL: numbers
    int values;
    size_t at;
} choice_field;
extern const choice_field choice_fields[]; // ends with a NULL name
static inline int *choice_at(choices *c, const choice_field *f) { return (int *)((char *)c + f->at); }
// "vectors=2, blocks=no"; "as the model says" if nothing is chosen.
const char *choices_text(arena *a, const choices *c);

// The choices of a kernel.
typedef struct choice_entry {
    choices c;
    const char *kernel, *target; // kernel_key, target_key
    const char *about;           // the kernel's name, for readers of the file
    double gain;                 // measured speedup over the models' own choices
    bool used;
} choice_entry;
typedef struct choice_table {
    arena *arena;
    map entries;       // "kernel target" -> choice_entry
    int stale;         // results in a file for other versions, ignored
    const choices *of; // for all kernels, instead of the entries; or NULL
} choice_table;

choice_table *choice_table_new(arena *a);
// Stable keys of a kernel (its loops, sizes, types and layouts, without names) and of a target.
const char *kernel_key(arena *a, const kernel *k);
const char *target_key(arena *a, const target *t);
// Stores a copy of x in place of an earlier entry for its kernel and target.
void choice_table_put(choice_table *t, const choice_entry *x);
// Never NULL.
const choices *choices_of(const target *t, const kernel *k);
#endif
