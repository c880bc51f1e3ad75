#!/bin/sh
# Makes OUT/onnxc-VERSION-py3-none-manylinux_*.whl. The same sources give the same bytes.
# usage: wheel.sh BUILD VERSION OUT PYTHON      BUILD: the folder of the programs that wheel.mk links
set -eu
build=$1 version=$2 out=$3 python=$4 here=$(dirname "$0")
tree=$out/tree
rm -rf "$tree"
mkdir -p "$out"
ln -sf libonnxc.so "$build/libonnxc.so.0"
LD_LIBRARY_PATH=$build sh "$here/../install/install.sh" "$build" "$version" "$tree" "$build/ld.lld"
[ ! -e "$here/../dist/runtimes.sh" ] || sh "$here/../dist/runtimes.sh" "$tree/share/onnxc/runtime" "$out/runtimes" "$tree/lib/onnxc"

# Licences of what is inside, as Debian's packages have them.
mkdir -p "$tree/share/doc/onnxc/licences"
for package in llvm-19 liblld-19 libprotobuf-c1 libjansson4 zlib1g libzstd1 libstdc++6; do
    copyright=/usr/share/doc/$package/copyright
    [ -e "$copyright" ] || copyright=/usr/share/doc/$package-dev/copyright
    install -m 644 "$copyright" "$tree/share/doc/onnxc/licences/$package.txt"
done
rm -f "$out"/*.whl
"$python" "$here/../../bindings/python/build_backend.py" --tree "$tree" "$out"
