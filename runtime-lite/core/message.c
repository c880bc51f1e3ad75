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

// A message being made, up to where there is room for one more number.
typedef struct message {
    char *to, *end;
    int64_t numbers[2];
} message;

// Up to `stop`, or to the end of the text if that is a null pointer. \3 refers to an earlier part of the table: the distance to
// it in two bytes, and its length in one (codegen/host/host_messages.c).
static void write_part(message *m, const char *from, const char *stop) {
    for (; from != stop && *from && m->to < m->end; from++) {
        const unsigned char *c = (const unsigned char *)from;
        if (*c > 3) *m->to++ = *from;
        else if (*c < 3) m->to = write_number(m->to, m->numbers[*c - 1]);
        else {
            const char *part = from - (c[1] | c[2] << 8);
            write_part(m, part, part + c[3]);
            from += 3;
        }
    }
}

const char *onnxc_rt_message(const char *text, int64_t first, int64_t second) {
    static _Thread_local char made[1024];
    message m = {made, made + sizeof made - DIGITS_MOST - 1, {first, second}};
    write_part(&m, text, NULL);
    *m.to = 0;
    return made;
}
