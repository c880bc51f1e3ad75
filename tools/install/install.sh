#!/bin/sh
# Lays out the installed tree: what `make install PREFIX=... DESTDIR=...` runs. Everything in it finds the rest from where it
# lies, so the tree may be moved.
# usage: install.sh BUILD VERSION ROOT [LLD]      ROOT: DESTDIR and PREFIX together
set -eu
build=$1 version=$2 root=$3 lld=${4-} here=$(dirname "$0")

put() { # MODE FILE... FOLDER
    mode=$1
    shift
    for folder; do :; done
    mkdir -p "$root/$folder"
    while [ $# -gt 1 ]; do
        install -m "$mode" "$1" "$root/$folder/"
        shift
    done
}
fill() { sed "s|@VERSION@|$version|g" "$1" >"$root/$2"; }

put 755 "$build/onnxc" bin
put 644 "$build/libonnxc-rt.a" lib
put 755 "$build/libonnxc.so" lib
mv "$root/lib/libonnxc.so" "$root/lib/libonnxc.so.0"
ln -sf libonnxc.so.0 "$root/lib/libonnxc.so"
put 644 runtime-lite/onnxc.h runtime-lite/onnxc_custom.h include
sed 's|"runtime-lite/onnxc.h"|"onnxc.h"|' compiler/api/onnxc_compiler.h >"$root/include/onnxc_compiler.h"
for folder in runtime-lite runtime-lite/core runtime-lite/cuda runtime-lite/image runtime-lite/lib runtime-lite/lib/string runtime-lite/lib/value; do
    put 644 $(find $folder -maxdepth 1 -name '*.[ch]') share/onnxc/runtime/$folder
done
install -m 644 "$here/runtime.mk" "$root/share/onnxc/runtime/Makefile"
put 644 bindings/python/onnxc/*.py bindings/python/onnxc/py.typed share/onnxc/python/onnxc
printf '"""The version of this package."""\n__version__ = "%s"\n' "$version" >"$root/share/onnxc/python/onnxc/_version.py"
put 644 "$here/onnxc.mk" share/onnxc
put 644 "$here/onnxcConfig.cmake" lib/cmake/onnxc
fill "$here/onnxcConfigVersion.cmake.in" lib/cmake/onnxc/onnxcConfigVersion.cmake
mkdir -p "$root/lib/pkgconfig"
fill "$here/onnxc.pc.in" lib/pkgconfig/onnxc.pc
[ -z "$lld" ] || [ ! -x "$lld" ] || { put 755 "$lld" lib/onnxc && [ "$(basename "$lld")" = ld.lld ] ||
    mv "$root/lib/onnxc/$(basename "$lld")" "$root/lib/onnxc/ld.lld"; }

# Man pages and completions say what --help says.
mkdir -p "$root/share/man/man1" "$root/share/bash-completion/completions" "$root/share/zsh/site-functions" \
    "$root/share/fish/vendor_completions.d"
for verb in compile run test bench inspect debug diff quantize; do
    page=onnxc-$verb
    [ "$verb" != compile ] || page=onnxc
    sh "$here/man.sh" "$build/onnxc" "$verb" "$version" >"$root/share/man/man1/$page.1"
done
sh "$here/completions.sh" "$build/onnxc" bash >"$root/share/bash-completion/completions/onnxc"
sh "$here/completions.sh" "$build/onnxc" zsh >"$root/share/zsh/site-functions/_onnxc"
sh "$here/completions.sh" "$build/onnxc" fish >"$root/share/fish/vendor_completions.d/onnxc.fish"
