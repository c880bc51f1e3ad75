// Fuzzing of the import: in, any bytes; out, a module or a message, never a crash. With -DFUZZ_STANDALONE a
// program that runs the files it is given; otherwise an entry point for libFuzzer.
#include "compiler/import/import.h"
#include "ir/graph/op.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ignore(void *user, const diag_message *m) {
    (void)user;
    if (m->class == DIAG_DEFECT) {
        fprintf(stderr, "%s\n", m->full);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = ignore, .remarks = true};
    jmp_buf jump;
    import_options options = {.max_nodes = 10000, .max_dense = 1 << 24};
    if (DIAG_TRY(&d, jump)) {
        module *m = import_onnx_memory(a, &d, "fuzz.onnx", NULL, data, size, &options);
        graph_verify(m);
        infer_graph(m->main);
        graph_verify(m);
    }
    arena_destroy(a);
    return 0;
}

#ifdef FUZZ_STANDALONE
static void run_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) {
        perror(path);
        exit(1);
    }
    long size = ftell(f);
    uint8_t *data = malloc((size_t)size + 1); // of the exact size, so that the address sanitizer sees its end
    rewind(f);
    if (!data || fread(data, 1, (size_t)size, f) != (size_t)size) exit(1);
    fclose(f);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) run_file(argv[i]);
    return 0;
}
#endif
