#!/bin/sh
# Makes OUT/onnxc-VERSION-MACHINE.tar.xz from a static build: a tree for any folder of any machine with glibc 2.27 or later. The same
# sources give the same bytes. usage: dist.sh STATIC VERSION OUT
set -eu
static=$1 version=$2 out=$3 here=$(dirname "$0")
name=onnxc-$version-$(uname -m)-linux-gnu
mkdir -p "$out"
sh "$here/tree.sh" "$static" "$version" "$out/runtimes" "$out/$name"

# Dates: of the last commit, unless SOURCE_DATE_EPOCH says so.
date=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || echo 0)}
tar -C "$out" --sort=name --mtime="@$date" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw -cf - "$name" |
    xz -T1 -6 >"$out/$name.tar.xz.tmp"
mv "$out/$name.tar.xz.tmp" "$out/$name.tar.xz"
(cd "$out" && sha256sum "$name.tar.xz" | tee "$name.tar.xz.sha256")
