// Messages of failed runs, with numbers.
#include "runtime-lite/core/runtime.h"
#include <inttypes.h>
#include <stdio.h>

const char *onnxc_rt_message(const char *text, int64_t first, int64_t second) {
    static _Thread_local char made[1024];
    size_t n = 0;
    for (; *text && n + 24 < sizeof made; text++) {
        if (*text == '\1' || *text == '\2')
            n += (size_t)snprintf(made + n, sizeof made - n, "%" PRId64, *text == '\1' ? first : second);
        else made[n++] = *text;
    }
    made[n] = 0;
    return made;
}
