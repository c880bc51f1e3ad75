// Exports strings to the caller, in one block that begins with the first. Written: n onnxc_string. Read: n
// handles. Numbers: n.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_string_export(void **call, void *const *data, const int64_t *numbers) {
    onnxc_string *out = (onnxc_string *)data[0];
    const int64_t *handles = (const int64_t *)data[1];
    int64_t i, n = numbers[0];
    size_t bytes = 0;
    char *block;
    (void)call;
    for (i = 0; i < n; i++) bytes += lib_string(handles[i]).size + 1;
    if (!n) return 0;
    block = (char *)malloc(bytes);
    if (!block) return LIB_NO_MEMORY;
    for (i = 0; i < n; i++) {
        onnxc_string s = lib_string(handles[i]);
        memcpy(block, s.data, s.size);
        block[s.size] = 0;
        out[i].data = block;
        out[i].size = s.size;
        block += s.size + 1;
    }
    return 0;
}
