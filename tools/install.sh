#!/bin/sh
# Installs the Debian packages that are missing: what the build needs, with "test" also what the tests need.
# usage: tools/install.sh [test]
set -eu
build="gcc g++ libc6-dev make protobuf-c-compiler libprotobuf-c-dev llvm-19-dev lld-19"
tests="clang-19 libclang-rt-19-dev libcmocka-dev python3-venv qemu-user qemu-system-arm gcc-arm-none-eabi
       libnewlib-arm-none-eabi gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
wanted=$build
[ "${1-}" != test ] || wanted="$build $tests"
missing=
for p in $wanted; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
root=
[ "$(id -u)" = 0 ] || root=sudo
echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # lists of words
{
    $root apt-get -q -o DPkg::Lock::Timeout=300 update >/dev/null || echo "warning: apt-get update failed" >&2
    $root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
        install --no-install-recommends $missing </dev/null >/dev/null
}
