#!/bin/sh
# The C++ wrapper with every compiler there is, with and without exceptions. usage: cpp.sh ONNXC_BUILD
# prints N passed, N failed, N skipped
set -u
build=$(realpath "$1") here=$(realpath "$(dirname "$0")/..") passed=0 failed=0 skipped=0
w=$(mktemp -d)
trap 'rm -rf "$w"' EXIT
cd "$w" || exit 1
mkdir include
ln -s "$build/libonnxc.so" libonnxc.so
ln -s "$build/libonnxc.so" libonnxc.so.0
cp "$here"/runtime-lite/onnxc.h "$here"/bindings/cpp/*.hpp include
sed 's|"runtime-lite/onnxc.h"|"onnxc.h"|' "$here/compiler/api/onnxc_compiler.h" >include/onnxc_compiler.h
for m in mlp positive strings; do cp "$here/test/cli/$m.onnx" .; done
onnxc=$build/onnxc
{ "$onnxc" mlp.onnx -o mlp.so && "$onnxc" mlp.onnx -o mlp.o && "$onnxc" positive.onnx -o positive.o &&
    "$onnxc" mlp.onnx --name mapped --weights mapped.weights -o mapped.o; } || exit 1
LC_ALL=C sed 's/onnxc-m\x00\x02/onnxc-m\x00\x01/' mlp.so >old.so
for compiler in ${COMPILERS:-g++ clang++-19}; do
    command -v $compiler >/dev/null || { skipped=$((skipped + 1)); continue; }
    for flags in "-std=c++17" "-std=c++20 -O2" "-std=c++17 -fno-exceptions -fno-rtti" "-std=c++17 -DONNXC_NO_EXCEPTIONS"; do
        for test in "typed mlp.o positive.o mapped.o" "session -L. -lonnxc -Wl,-rpath,$w"; do
            name=${test%% *}
            # shellcheck disable=SC2086 # lists of words
            if $compiler $flags -Wall -Wextra -Werror -pedantic -Wshadow -Wconversion -Iinclude -I. "$here/test/cpp/$name.cc" ${test#* } \
                "$build/libonnxc-rt.a" -lpthread -ldl -lm -o "$name" >log 2>&1 && ./"$name" >>log 2>&1; then
                passed=$((passed + 1))
            else
                failed=$((failed + 1))
                echo "FAIL cpp: $name, $compiler $flags"
                tail -n 20 log
            fi
        done
    done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
