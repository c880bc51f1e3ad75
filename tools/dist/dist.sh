#!/bin/sh
# Makes OUT/onnxc-VERSION-MACHINE.tar.xz from a static build: a tree for any folder of any machine with glibc 2.35 or later. The same
# sources give the same bytes. usage: dist.sh STATIC VERSION OUT
set -eu
static=$1 version=$2 out=$3 here=$(dirname "$0")
name=onnxc-$version-$(uname -m)-linux-gnu
root=$out/$name
rm -rf "$root"
mkdir -p "$out"
sh "$here/../install/install.sh" "$static" "$version" "$root" "$static/ld.lld"
sh "$here/runtimes.sh" "$root/share/onnxc/runtime" "$out/runtimes" "$root/lib/onnxc"

# Licences of what is inside, as Debian's packages have them. Apache-2.0, to which some refer, is LICENSE.
mkdir -p "$root/share/doc/onnxc/licences"
for package in llvm-19 liblld-19 libprotobuf-c1 libjansson4 zlib1g libzstd1 libstdc++6; do
    copyright=/usr/share/doc/$package/copyright
    [ -e "$copyright" ] || copyright=/usr/share/doc/$package-dev/copyright
    install -m 644 "$copyright" "$root/share/doc/onnxc/licences/$package.txt"
done

# Dates: of the last commit, unless SOURCE_DATE_EPOCH says so.
date=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || echo 0)}
tar -C "$out" --sort=name --mtime="@$date" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw -cf - "$name" |
    xz -T1 --lzma2=preset=6,dict=128MiB >"$out/$name.tar.xz.tmp"
mv "$out/$name.tar.xz.tmp" "$out/$name.tar.xz"
(cd "$out" && sha256sum "$name.tar.xz" | tee "$name.tar.xz.sha256")
