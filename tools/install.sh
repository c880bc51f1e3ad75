#!/bin/sh
# Installs the Debian packages that are missing: what the build needs, with "test" also what the tests need,
# with "packages" what `make dist` and `make deb` need.
# usage: tools/install.sh [test|packages]
set -eu
wanted="gcc g++ libc6-dev make protobuf-c-compiler libprotobuf-c-dev libjansson-dev zlib1g-dev libzstd-dev llvm-19-dev lld-19
    libjpeg62-turbo-dev libopenjp2-7-dev libpng-dev libtiff-dev libwebp-dev"
[ "${1-}" != test ] || wanted="$wanted clang-19 clang-format-19 libclang-rt-19-dev libcmocka-dev libopenblas0-pthread python3-venv cmake ninja-build pkg-config qemu-user
    qemu-system-arm chromium-headless-shell gcc-arm-none-eabi libnewlib-arm-none-eabi gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    gcc-arm-linux-gnueabihf libc6-dev-armhf-cross gcc-riscv64-linux-gnu libc6-dev-riscv64-cross
    gcc-i686-linux-gnu libc6-dev-i386-cross gcc-s390x-linux-gnu libc6-dev-s390x-cross gcc-avr avr-libc simavr wine64 gcc-mingw-w64-x86-64 llvm-19 wasi-libc nodejs cargo rustc fish zsh mandoc python3-yaml meson ruby"
# make dist, make deb and their tests
[ "${1-}" != packages ] || wanted="$wanted clang-19 llvm-19 liblld-19-dev wasi-libc dpkg-dev debhelper dh-python lintian pkg-config cmake
    libc6-dev-arm64-cross libc6-dev-armhf-cross libc6-dev-riscv64-cross libc6-dev-i386-cross"
missing=
for p in $wanted; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
as_root="env"
[ "$(id -u)" = 0 ] || as_root="sudo env"
get="$as_root DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300"
echo "installing$missing"
$get update </dev/null >/dev/null || echo "warning: apt-get update failed" >&2
# shellcheck disable=SC2086 # a list of words
$get install --no-install-recommends $missing </dev/null >/dev/null
