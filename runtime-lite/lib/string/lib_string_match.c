// Written: whether an automaton accepts each string (bool). Read: n handles, table (int32): the class of each
// byte, then for each state whether it accepts, and the next state by class. Numbers: n, number of classes.
// State 0 is the dead state, state 1 the start.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_string_match(void **call, void *const *data, const int64_t *numbers) {
    const int32_t *class_of = (const int32_t *)data[2], *states = class_of + 256;
    int64_t i, width = numbers[1] + 1;
    (void)call;
    for (i = 0; i < numbers[0]; i++) {
        onnxc_string s = lib_string(((const int64_t *)data[1])[i]);
        int64_t state = 1;
        size_t j;
        for (j = 0; j < s.size && state; j++)
            state = states[state * width + 1 + class_of[(unsigned char)s.data[j]]];
        ((unsigned char *)data[0])[i] = states[state * width] != 0;
    }
    return 0;
}
