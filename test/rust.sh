#!/bin/sh
# The Rust crates with Debian's cargo, without a network. usage: rust.sh ONNXC_BUILD      prints N passed, N failed, N skipped
set -u
build=$(realpath "$1") STAGE=rust
# shellcheck source=test/check.sh
. "$(dirname "$0")/check.sh"
cargo=${CARGO:-/usr/bin/cargo} newest=$(command -v cargo)
there "$cargo" || { report; exit; }
ln -s "$build/libonnxc.so" "$w/libonnxc.so"
ln -s "$build/libonnxc.so" "$w/libonnxc.so.0"
cp "$build/libonnxc-rt.a" "$w"
ln -s "$build/onnxc" "$w/onnxc"
export PATH="/usr/bin:$PATH" ONNXC_PREFIX="$w" LD_LIBRARY_PATH="$w" CARGO_HOME="$w/home" CARGO_TARGET_DIR="$here/build/rust" CARGO_NET_OFFLINE=true RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc
cd "$here/bindings/rust" || exit 1
check "tests" env RUSTFLAGS="-D warnings" "$cargo" test --offline --locked -q --features onnxc/compiler
passed=$((passed + $(grep -o '[0-9]* passed' "$w/log" | awk '{ n += $1 } END { print n + 0 }')))
check "the program prints what it should" sh -c "\"$cargo\" run --offline --locked -q -p onnxc-example >\"$w/out\" && printf 'a 1\n[2, 3]: [7.5, 8.75, 10.0, 0.0, 0.0, 0.0]\n' | diff - \"$w/out\""
if [ "$("$newest" --version | cut -d. -f2)" -ge 85 ]; then
    mkdir "$w/bindings" && cp -r . "$w/bindings/rust" && ln -s "$here/samples" "$here/test" "$w"
    sed -i 's/^edition = .*/edition = "2024"/' "$w/bindings/rust/example/Cargo.toml"
    check "programs of the edition 2024" sh -c "cd \"$w/bindings/rust\" && RUSTC=\"${newest%cargo}rustc\" CARGO_TARGET_DIR=\"$w/target\" \"$newest\" run --offline -q -p onnxc-example"
else
    skipped=$((skipped + 1))
fi
report
