#!/bin/sh
# Lays out the tree that archives and wheels contain: an installation of a static build, runtime libraries of other machines, licences.
# usage: tree.sh STATIC VERSION RUNTIMES ROOT      RUNTIMES: a folder for building them
set -eu
static=$1 version=$2 runtimes=$3 root=$4 here=$(dirname "$0")
rm -rf "$root"

# A function of glibc with a newer version needs a line in glibc.c.
newer=$(for file in onnxc ld.lld libonnxc.so; do
    LC_ALL=C objdump -T "$static/$file" | sed -n 's/.*(\(GLIBC_2\.\(2[89]\|[3-9][0-9]\)\)) */\1 /p'
done)
[ -z "$newer" ] || { printf 'newer than glibc 2.27:\n%s\n' "$newer" >&2; exit 1; }

ln -sf libonnxc.so "$static/libonnxc.so.0"
LD_LIBRARY_PATH=$static sh "$here/../install/install.sh" "$static" "$version" "$root" "$static/ld.lld"
sh "$here/runtimes.sh" "$root/share/onnxc/runtime" "$runtimes" "$root/lib/onnxc"
# Modules for WebAssembly contain parts of its C library.
for part in libc.a crt1-command.o crt1-reactor.o; do install -m 644 "/usr/lib/wasm32-wasi/$part" "$root/lib/onnxc/wasm32-wasi/"; done

# Licences of what is inside, as Debian's packages have them. Apache-2.0, to which some refer, is LICENSE.
mkdir -p "$root/share/doc/onnxc/licences"
for package in llvm-19 liblld-19 libprotobuf-c1 libjansson4 zlib1g libzstd1 libstdc++6 wasi-libc; do
    copyright=/usr/share/doc/$package/copyright
    [ -e "$copyright" ] || copyright=/usr/share/doc/$package-dev/copyright
    install -m 644 "$copyright" "$root/share/doc/onnxc/licences/$package.txt"
done
