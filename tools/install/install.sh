#!/bin/sh
# Lays out the installed tree: what `make install PREFIX=... DESTDIR=...` runs. Everything in it finds the rest from where it
# lies, so the tree may be moved.
# usage: [LIBDIR=lib/x86_64-linux-gnu] install.sh BUILD VERSION ROOT [LLD]      ROOT: DESTDIR and PREFIX together
set -eu
build=$1 version=$2 root=$3 lld=${4-} here=$(dirname "$0") libdir=${LIBDIR:-lib}
# From LIBDIR up to the prefix.
up=$(printf %s "$libdir" | sed 's|[^/][^/]*|..|g')

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
fill() { sed "s|@VERSION@|$version|g; s|@LIBDIR@|$libdir|g; s|@UP@|$up|g" "$1" >"$root/$2"; }

put 755 "$build/onnxc" bin
put 644 "$build/libonnxc-rt.a" "$libdir"
put 755 "$build/libonnxc.so" "$libdir"
mv "$root/$libdir/libonnxc.so" "$root/$libdir/libonnxc.so.0"
ln -sf libonnxc.so.0 "$root/$libdir/libonnxc.so"
put 644 runtime-lite/onnxc.h runtime-lite/onnxc_custom.h bindings/cpp/onnxc.hpp bindings/cpp/onnxc_compiler.hpp include
sed 's|"runtime-lite/onnxc.h"|"onnxc.h"|' compiler/api/onnxc_compiler.h >"$root/include/onnxc_compiler.h"
for folder in runtime-lite runtime-lite/core runtime-lite/cuda runtime-lite/image runtime-lite/system runtime-lite/lib runtime-lite/lib/string runtime-lite/lib/value; do
    put 644 $(find $folder -maxdepth 1 -name '*.[ch]') share/onnxc/runtime/$folder
done
install -m 644 "$here/runtime.mk" "$root/share/onnxc/runtime/Makefile"
put 644 bindings/python/onnxc/*.py bindings/python/onnxc/py.typed share/onnxc/python/onnxc
put 644 bindings/python/onnxc_command.py share/onnxc/python
put 644 bindings/python/onnxc/capi/*.py share/onnxc/python/onnxc/capi
printf '"""The version of this package."""\n__version__ = "%s"\n' "$version" >"$root/share/onnxc/python/onnxc/_version.py"
fill "$here/onnxc.mk" share/onnxc/onnxc.mk
mkdir -p "$root/$libdir/cmake/onnxc" "$root/$libdir/pkgconfig"
fill "$here/onnxcConfig.cmake" "$libdir/cmake/onnxc/onnxcConfig.cmake"
fill "$here/onnxcConfigVersion.cmake.in" "$libdir/cmake/onnxc/onnxcConfigVersion.cmake"
fill "$here/onnxc.pc.in" "$libdir/pkgconfig/onnxc.pc"
fill "$here/libonnxc.pc.in" "$libdir/pkgconfig/libonnxc.pc"
put 644 README.md CHANGELOG.md SECURITY.md LICENSE share/doc/onnxc
put 644 docs/*.md share/doc/onnxc/docs
[ -z "$lld" ] || [ ! -x "$lld" ] || { put 755 "$lld" lib/onnxc && [ "$(basename "$lld")" = ld.lld ] ||
    mv "$root/lib/onnxc/$(basename "$lld")" "$root/lib/onnxc/ld.lld"; }
# The licence of that linker, from LLVM's own archive or from Debian's package lld-N of /usr/lib/llvm-N.
llvm=$(dirname "$(dirname "$lld")")
for licence in "$llvm/LICENSE.TXT" "/usr/share/doc/lld-${llvm##*llvm-}/copyright"; do
    [ -n "$lld" ] && [ -e "$licence" ] || continue
    mkdir -p "$root/share/doc/onnxc/licences"
    install -m 644 "$licence" "$root/share/doc/onnxc/licences/lld.txt"
    break
done

# Man pages and completions say what --help says (words.sh).
mkdir -p "$root/share/man/man1" "$root/share/bash-completion/completions" "$root/share/zsh/site-functions" \
    "$root/share/fish/vendor_completions.d"
for verb in compile $(sh "$here/words.sh" "$build/onnxc" verbs); do
    page=onnxc-$verb
    [ "$verb" != compile ] || page=onnxc
    sh "$here/man.sh" "$build/onnxc" "$verb" "$version" >"$root/share/man/man1/$page.1"
done
sh "$here/completions.sh" "$build/onnxc" bash >"$root/share/bash-completion/completions/onnxc"
sh "$here/completions.sh" "$build/onnxc" zsh >"$root/share/zsh/site-functions/_onnxc"
sh "$here/completions.sh" "$build/onnxc" fish >"$root/share/fish/vendor_completions.d/onnxc.fish"
