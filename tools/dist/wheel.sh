#!/bin/sh
# Makes OUT/onnxc-VERSION-py3-none-manylinux_*.whl from a static build. The same sources give the same bytes.
# usage: wheel.sh STATIC VERSION OUT PYTHON
set -eu
static=$1 version=$2 out=$3 python=$4 here=$(dirname "$0")
mkdir -p "$out"
sh "$here/tree.sh" "$static" "$version" "$out/runtimes" "$out/tree"
rm -f "$out"/*.whl
"$python" "$here/../../bindings/python/build_backend.py" --tree "$out/tree" "$out"
