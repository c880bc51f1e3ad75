// The command line: the first argument may be a verb; without one the model is compiled. "help" shows the
// options of the verb after it.
#include "compiler/base/fs.h"
#include "compiler/cli/command.h"
#include <string.h>

int main(int argc, char **argv) {
    static const char *const help = "--help";
    open_standard_files();
    const char *const *args = (const char *const *)argv + 1;
    int n = argc > 0 ? argc - 1 : 0;
    const verb *v = n ? verb_find(args[0]) : NULL;
    if (v) return verb_main(v, argv[0], n - 1, args + 1);
    if (n == 0 || n > 2 || strcmp(args[0], "help") != 0) return verb_main(&verb_compile, argv[0], n, args);
    v = n == 2 ? verb_find(args[1]) : &verb_compile;
    return v ? verb_main(v, argv[0], 1, &help) : verb_main(&verb_compile, argv[0], n - 1, args + 1);
}
