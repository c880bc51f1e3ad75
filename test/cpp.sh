#!/bin/sh
# The C++ wrapper with every compiler there is, with and without exceptions. usage: cpp.sh ONNXC_BUILD
# prints N passed, N failed, N skipped
set -u
build=$(realpath "$1") STAGE=cpp
# shellcheck source=test/check.sh
. "$(dirname "$0")/check.sh"
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
run() { # PROGRAM LINK...: with $compiler and $flags
    program=$1
    shift
    # shellcheck disable=SC2086 # a list of words
    $compiler $flags -Wall -Wextra -Werror -pedantic -Wshadow -Wconversion -Iinclude -I. "$here/test/cpp/$program.cc" "$@" \
        "$build/libonnxc-rt.a" -lpthread -ldl -lm -o "$program" && ./"$program"
}
old() { # of C++: the first error says what is needed
    echo '#include <onnxc.hpp>' >old.cc
    ! $compiler -std=c++14 -Iinclude -c old.cc 2>old.txt && grep -m1 'error' old.txt | grep -q 'onnxc.hpp needs C++17'
}
for compiler in ${COMPILERS:-g++ clang++-19}; do
    there "$compiler" || continue
    for flags in "-std=c++17" "-std=c++20 -O2" "-std=c++17 -fno-exceptions -fno-rtti" "-std=c++17 -DONNXC_NO_EXCEPTIONS"; do
        check "typed, $compiler $flags" run typed mlp.o positive.o mapped.o
        check "session, $compiler $flags" run session -L. -lonnxc "-Wl,-rpath,$w"
    done
    check "C++14, $compiler" old
done
report
