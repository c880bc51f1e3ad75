// Written: the largest number of tokens of a string (int64), and 2 for the marks if they are wanted and there is a token.
// Read: n handles, automata (int32; runtime-lite/lib/lib_tokens.h). Numbers: n, whether there are marks, kind, least
// number of characters, number of automata, classes and place of each. Returns 1: a string is not UTF-8.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_tokens.h"

ONNXC_LIB int onnxc_lib_token_count(void **call, void *const *data, const int64_t *numbers) {
    int64_t most = 0, i;
    for (i = 0; i < numbers[0]; i++) {
        onnxc_string s = lib_string(((const int64_t *)data[1])[i]);
        lib_tokens t = lib_tokens_of(call, (const int32_t *)data[2], numbers);
        if (!lib_is_utf8(s)) return 1;
        lib_tokenize(&t, numbers[2], s);
        if (t.count > most) most = t.count;
    }
    *(int64_t *)data[0] = most && numbers[1] ? most + 2 : most;
    return 0;
}
