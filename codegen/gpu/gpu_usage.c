// In: the log of ptxas -v, lines such as
//   ptxas info    : Function properties for k_Gemm_0
//       8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
//   ptxas info    : Used 72 registers, used 1 barriers, 9216 bytes smem, 392 bytes cmem[0]
// Out: the resources of the functions of a GPU module.
#include "codegen/gpu/gpu.h"
#include <stdlib.h>
#include <string.h>

int gpu_function_number(const gpu_code *g, const lfunc *f) {
    for (int j = 0; j < g->module->funcs.n; j++)
        if (g->module->funcs.at[j] == f) return j;
    return -1;
}

// The number before `what` in the line; 0: not found.
static int64_t number_before(const char *line, size_t n, const char *what) {
    const char *found = memmem(line, n, what, strlen(what));
    const char *digits = found;
    while (digits && digits > line && digits[-1] >= '0' && digits[-1] <= '9') digits--;
    return digits ? strtoll(digits, NULL, 10) : 0;
}

static int number_of(const lmodule *m, const char *name, size_t n) {
    for (int j = 0; j < m->funcs.n; j++)
        if (strlen(m->funcs.at[j]->name) == n && !memcmp(m->funcs.at[j]->name, name, n)) return j;
    return -1;
}

// The function that the following lines describe; `now` if this line does not name one.
static int function_after(const lmodule *m, const char *line, size_t n, int now) {
    static const char title[] = "Function properties for ";
    const char *found = memmem(line, n, title, sizeof title - 1);
    if (!found) return now;
    const char *name = found + sizeof title - 1;
    return number_of(m, name, (size_t)(line + n - name));
}

gpu_use *gpu_read_uses(const lmodule *m, const char *log) {
    gpu_use *of = ARENA_ARRAY(m->arena, gpu_use, m->funcs.n + 1);
    for (int j = 0; j < m->funcs.n; j++) of[j].shared = lfunc_dynamic_shared(m->funcs.at[j]);
    int now = -1;
    for (const char *line = log; *line;) {
        size_t n = strcspn(line, "\n");
        now = function_after(m, line, n, now);
        if (now >= 0) {
            of[now].stack += number_before(line, n, " bytes stack frame");
            of[now].spilled += number_before(line, n, " bytes spill stores");
            of[now].spilled += number_before(line, n, " bytes spill loads");
            of[now].registers += (int)number_before(line, n, " registers");
            of[now].shared += number_before(line, n, " bytes smem");
        }
        line += n + (line[n] != 0);
    }
    return of;
}
