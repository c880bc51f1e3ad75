// A hook looks for main among its callers: backtraces that a program makes of itself pass through a shared library.
#include "deep.h"
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int look(void *user, uint32_t kernel) {
    void *callers[64];
    int n = backtrace(callers, 64), found = 0;
    char **names = backtrace_symbols(callers, n);
    for (int i = 0; names && i < n; i++) found |= strstr(names[i], "(main+") != NULL;
    printf("kernel %u: main is %s\n", kernel, found ? "found" : "not found");
    free(names);
    (void)user;
    return 0;
}

int main(void) {
    static _Alignas(64) unsigned char workspace[DEEP_WORKSPACE_BYTES];
    float x[8] = {0}, y[8];
    return deep_run(&(deep_in){.x = x}, &(deep_out){.y = y}, workspace, sizeof workspace);
}
