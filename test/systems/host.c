// A program for Windows that opens a model in a DLL by its path and runs it with the arguments of `onnxc run`.
#include "runtime-lite/core/runtime.h"
#include <stdio.h>

int main(int argc, char **argv) {
    const char *why = NULL;
    onnxc_library *library = argc > 1 ? onnxc_library_open(argv[1], NULL, &why) : NULL;
    if (!library) {
        fprintf(stderr, "%s\n", why ? why : "usage: host DLL [options]");
        return 1;
    }
    onnxc_model model = onnxc_library_model(library);
    int code = onnxc_program(&model, argc - 1, argv + 1);
    onnxc_library_close(library);
    return code;
}
