// --dim NAME=1,8,1:64: the allowed sizes of a dimension, and the resulting versions of a program.
#ifndef ONNXC_COMPILER_DRIVER_VERSIONS_H
#define ONNXC_COMPILER_DRIVER_VERSIONS_H
#include "compiler/driver/option.h"
#include "ir/graph/dim.h"

typedef struct size_range {
    int64_t lo, hi;
    bool fixed; // one size: the dimension becomes a constant
} size_range;

// One --dim option; all sizes are in `hull`. Fixed sizes come first, in the given order.
typedef struct size_list {
    const char *name; // of the dimension
    const char *said; // the option's value
    VEC(size_range) at;
    size_range hull;
} size_list;

// False: an error was reported.
bool size_list_parse(arena *a, diag *d, const char *said, size_list *list);
// All combinations of ranges, as an index into each of the n lists; combinations of later ranges come later.
int version_choices(arena *a, diag *d, const size_list *lists, int n, int **choices);
const char *version_label(arena *a, const size_list *lists, int n, const int *choice);  // "N=1 S=1:64"
const char *version_suffix(arena *a, const size_list *lists, int n, const int *choice); // "_N1"
dim *size_range_holds(dim *d, const size_range *r);                                     // as 0 or 1
dim *size_list_holds(dim *d, const size_list *list);
const char *size_list_rule(arena *a, const size_list *list); // "N must be 1, 8 or from 1 to 64"
#endif
