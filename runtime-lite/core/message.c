// Messages of failed runs, with numbers.
#include "runtime-lite/core/runtime.h"

enum { DIGITS_MOST = 20 }; // with a sign

// As printf's %lld, which may allocate.
static char *write_number(char *to, int64_t v) {
    char digits[DIGITS_MOST];
    int n = 0;
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do digits[n++] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (v < 0) *to++ = '-';
    while (n) *to++ = digits[--n];
    return to;
}

const char *onnxc_rt_message(const char *text, int64_t first, int64_t second) {
    static _Thread_local char made[1024];
    char *to = made, *end = made + sizeof made - DIGITS_MOST - 1;
    for (; *text && to < end; text++) {
        if (*text == '\1' || *text == '\2') to = write_number(to, *text == '\1' ? first : second);
        else *to++ = *text;
    }
    *to = 0;
    return made;
}
