// The command line: the first argument may be a verb; without one the model is compiled.
#include "compiler/cli/command.h"
#include <string.h>

int main(int argc, char **argv) {
    static const verb *const verbs[] = {&verb_compile, &verb_run, &verb_test, &verb_bench, &verb_inspect};
    const char *const *args = (const char *const *)argv + 1;
    for (size_t i = 0; argc > 1 && i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(argv[1], verbs[i]->name) == 0) return verb_main(verbs[i], argv[0], argc - 2, args + 1);
    return verb_main(&verb_compile, argv[0], argc > 0 ? argc - 1 : 0, args);
}
