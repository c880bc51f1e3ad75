#!/bin/sh
# Builds the runtime libraries of runtimes.txt with clang. usage: runtimes.sh SOURCES BUILD OUT
#   SOURCES: share/onnxc/runtime of an installed tree; libraries are written to OUT/FOLDER/libonnxc-rt.a
# A target whose C library is not installed is left out with a note.
set -eu
sources=$(realpath "$1") build=$2 out=$3 here=$(cd "$(dirname "$0")" && pwd)
clang=${CLANG:-clang-19} ar=${LLVM_AR:-llvm-ar-19}
sed 's/#.*//' "$here/runtimes.txt" | while read -r folder triple flags; do
    case $folder in "" | "$(uname -m)-linux-gnu") continue ;; esac # lib/libonnxc-rt.a is that of this machine
    case $triple in
    *-linux-* | *-wasi)
        # Debian's packages libc6-dev-*-cross, wasi-libc
        headers="-isystem /usr/$(echo "$folder" | sed s/^i386/i686/)/include"
        [ "$triple" != wasm32-wasi ] || headers="-nostdlibinc -isystem /usr/include/wasm32-wasi"
        # shellcheck disable=SC2086 # lists of words
        if ! echo '#include <stdlib.h>' | $clang --target="$triple" $flags $headers -x c -fsyntax-only - 2>/dev/null; then
            echo "note: no runtime library for $folder: its C library is not installed" >&2
            continue
        fi ;;
    *) headers="-nostdlibinc -I$here/include" ;;
    esac
    MAKEFLAGS= make -s -j "$(nproc)" -f "$sources/Makefile" B="$build/$folder" CC="$clang --target=$triple" AR="$ar" \
        CFLAGS="$flags $headers" LDFLAGS=
    mkdir -p "$out/$folder"
    install -m 644 "$build/$folder/libonnxc-rt.a" "$out/$folder/"
done
