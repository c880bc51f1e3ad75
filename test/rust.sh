#!/bin/sh
# The Rust crates with Debian's cargo, without a network. usage: rust.sh ONNXC_BUILD      prints N passed, N failed, N skipped
set -u
build=$(realpath "$1") here=$(realpath "$(dirname "$0")/..")
cargo=${CARGO:-/usr/bin/cargo}
[ -x "$cargo" ] || { echo "0 passed, 0 failed, 1 skipped"; exit 0; }
w=$(mktemp -d)
trap 'rm -rf "$w"' EXIT
ln -s "$build/libonnxc.so" "$w/libonnxc.so"
ln -s "$build/libonnxc.so" "$w/libonnxc.so.0"
cp "$build/libonnxc-rt.a" "$w"
ln -s "$build/onnxc" "$w/onnxc"
export PATH="/usr/bin:$PATH" ONNXC_PREFIX="$w" LD_LIBRARY_PATH="$w" CARGO_HOME="$w/home" CARGO_TARGET_DIR="$here/build/rust" CARGO_NET_OFFLINE=true RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc
cd "$here/bindings/rust" || exit 1
passed=0 failed=0
check() { # NAME COMMAND...
    name=$1
    shift
    if "$@" >"$w/log" 2>&1; then
        passed=$((passed + $(grep -o '[0-9]* passed' "$w/log" | awk '{ n += $1 } END { print n + 0 }') + 1))
    else
        failed=$((failed + 1))
        echo "FAIL rust: $name"
        tail -n 40 "$w/log"
    fi
}
check "tests" env RUSTFLAGS="-D warnings" "$cargo" test --offline --locked -q --features onnxc/compiler
check "the program prints what it should" sh -c "\"$cargo\" run --offline --locked -q -p onnxc-example >\"$w/out\" && printf 'a 1\n[2, 3]: [7.5, 8.75, 10.0, 0.0, 0.0, 0.0]\n' | diff - \"$w/out\""
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
