// The command line: finds the verb.
#include "compiler/command.h"
#include <string.h>

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "test") == 0) return command_test(argc - 2, argv + 2);
    return 1;
}
