// Frees strings and values that a model returned.
#include "runtime-lite/onnxc.h"
#include <stdlib.h>

void onnxc_strings_free(onnxc_string *strings, int64_t count) {
    if (count > 0) free((char *)strings[0].data);
    for (int64_t i = 0; i < count; i++) strings[i] = (onnxc_string){"", 0};
}

void onnxc_value_free(onnxc_value *value) {
    free(value->data);
    *value = (onnxc_value){0};
}
