// Written: handles [n, width], the tokens of each string, between marks if they are wanted, then the padding. Read: n
// handles, automata, handles of the padding and the two marks. Numbers: those of token_count, but width first.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_tokens.h"

ONNXC_LIB int onnxc_lib_token_split(void **call, void *const *data, const int64_t *numbers) {
    int64_t *out = (int64_t *)data[0], width = numbers[0], i;
    const int64_t *given = (const int64_t *)data[3];
    numbers++;
    for (i = 0; width && i < numbers[0]; i++) {
        int64_t *end = out + width;
        lib_tokens t = lib_tokens_of(call, (const int32_t *)data[2], numbers);
        if (numbers[1]) *out++ = given[1];
        t.out = out;
        if (lib_tokenize(&t, numbers[2], lib_string(((const int64_t *)data[1])[i]))) return LIB_NO_MEMORY;
        out = t.out;
        if (numbers[1]) *out++ = given[2];
        while (out < end) *out++ = given[0];
    }
    return 0;
}
