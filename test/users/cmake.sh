#!/bin/sh
# A C program built with CMake that contains a model: configured, built, run, and built again after a change.
# in the environment: PREFIX, the installed onnxc; MODELS, a folder with digits.onnx
set -eu
mkdir app && cd app
cp "$MODELS/digits.onnx" .
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.16)
project(app C)
find_package(onnxc REQUIRED)
onnxc_add_model(digits digits.onnx)
add_executable(app main.c)
target_link_libraries(app PRIVATE digits)
END
cat >main.c <<'END'
#include "digits.h"
#include <stdio.h>

int main(void) {
    static _Alignas(DIGITS_WORKSPACE_ALIGN) unsigned char workspace[DIGITS_WORKSPACE_BYTES];
    float image[64] = {[12] = 16, [20] = 16, [28] = 16, [36] = 16, [44] = 16, [52] = 16}, logits[10];
    digits_in in = {.image = image};
    digits_out out = {.logits = logits};
    int failed = digits_run(&in, &out, workspace, sizeof workspace), best = 0;
    if (failed) return fprintf(stderr, "digits: %s\n", out.message), 1;
    for (int i = 1; i < 10; i++) best = logits[i] > logits[best] ? i : best;
    printf("this is a %d\n", best);
}
END
cmake -G Ninja -B build -DCMAKE_PREFIX_PATH="$PREFIX" -DCMAKE_BUILD_TYPE=Release >configure.log
cmake --build build >build.log
echo "first build: $(build/app)"
cmake --build build | grep "no work to do" >/dev/null && echo "second build: nothing to do"
touch digits.onnx
cmake --build build | grep "Compiling ONNX model" >/dev/null && echo "after a change of the model: compiled and linked again"
ldd build/app | grep -c onnxc >/dev/null || echo "shared libraries of onnxc that the program needs: none"
