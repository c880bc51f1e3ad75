#!/bin/sh
# The archive of `make dist` and the packages of `make deb`: built twice with the same bytes, installed and used in root folders that have
# nothing but a C library. Compiles everything three times, from the files of this folder alone: a quarter of an hour of CPU time.
# usage: packages.sh [dist] [deb]      prints N passed, N failed, N skipped
set -u
STAGE=packages
# shellcheck source=test/check.sh
. "$(dirname "$0")/check.sh"
version=$(cat "$here/VERSION") machine=$(uname -m)-linux-gnu
# A root folder with the loader and the libraries that are named, and two models.
bare_root() { # ROOT LIBRARY...
    root=$1
    shift
    mkdir -p "$root/lib/$machine" "$root/lib64" "$root/tmp" "$root/usr"
    cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64"
    for library; do cp -L "$library" "$root/lib/$machine"; done
    cp "$here/test/cli/mlp.onnx" "$root/tmp"
    cp "$here/test/packages/topk.onnxtxt" "$root/tmp"
}
within() { # ROOT COMMAND...
    root=$1
    shift
    env -i PATH=/usr/bin /usr/bin/unshare -r --root="$root" --wd=/tmp "$@"
}
libc="/lib/$machine/libc.so.6 /lib/$machine/libm.so.6 /lib/$machine/libpthread.so.0 /lib/$machine/libdl.so.2"
# Everything that onnxc makes by itself, in a root folder.
use() { # ROOT ONNXC
    within "$1" "$2" mlp.onnx --dim N=1 -o mlp.so &&
        within "$1" "$2" run mlp.so --input x=random:1..1 | grep -q '2.25 2.75 3.25' &&
        within "$1" "$2" bench mlp.so --runs 2 >/dev/null &&
        within "$1" "$2" mlp.onnx -o mlp.a && within "$1" "$2" mlp.onnx -o mlp.c || return 1
    for target in "--target=aarch64-linux-gnu -o topk.a" "--target=armv7-linux-gnueabihf -o topk.so" "--mcpu=cortex-m0 -o m0.o" \
        "--mcpu=cortex-m4 -mfloat-abi=hard -o m4.o" "--mcpu=cortex-m55 -mfloat-abi=hard -o m55.o" "--target=armv7r-none-eabi -o r.o" \
        "--target=riscv32-none-elf -o rv.o" "--target=riscv64-none-elf -march=rv64gc -o rv64.o" "--target=aarch64-none-elf -o a64.o" \
        "--target=x86_64-none-elf -o x64.o" "--target=i686-linux-gnu -o i686.so" "--target=wasm32-wasi --emit=exe -o wasi" "-o m.js" "--target=riscv64-linux-gnu -o rv64.so"; do
        # shellcheck disable=SC2086 # a list of words
        within "$1" "$2" topk.onnxtxt $target || return 1
    done
}
# A program of the outside links with the archive that was made inside.
link_outside() { # ROOT
    cat >"$w/main.c" <<'END'
#include "mlp.h"
#include <stdio.h>
int main(void) {
    const float x[4] = {1, 1, 1, 1};
    float y[3];
    mlp_in in = {1, x};
    mlp_out out = {0};
    out.y = y;
    int failed = mlp_run(&in, &out, NULL, 0);
    printf("%d %g\n", failed, y[0]);
    return failed || y[0] != 2.25f;
}
END
    cc -I"$1/tmp" "$w/main.c" "$1/tmp/mlp.a" -lpthread -o "$w/main" && "$w/main"
}

dist() {
    date=$(git -C "$here" log -1 --format=%ct)
    check "make dist" make -s -C "$here" -j "$(nproc)" dist SOURCE_DATE_EPOCH="$date"
    archive=$here/build/dist/onnxc-$version-$machine.tar.xz
    root=$w/dist
    # shellcheck disable=SC2086 # a list
    bare_root "$root" $libc
    mkdir "$root/opt"
    check "unpack" tar -C "$root/opt" -xf "$archive"
    mv "$root/opt/onnxc-$version-$machine" "$root/opt/moved"
    tree=$root/opt/moved
    check "only glibc is needed" sh -c "! ldd '$tree/bin/onnxc' '$tree/lib/libonnxc.so.0' '$tree/lib/onnxc/ld.lld' |
        grep -v -e linux-vdso -e libc.so -e libm.so -e libpthread.so -e libdl.so -e '$tree.*/libonnxc.so.0' -e ld-linux -e ':\$'"
    check "use it in a bare root folder" use "$root" /opt/moved/bin/onnxc
    check "link with what it made" link_outside "$root"
    check "licences and documents" sh -c "cd '$tree/share/doc/onnxc' && test -s LICENSE -a -s CHANGELOG.md -a -s docs/cli.md && grep -q 'LLVM Exceptions' licences/llvm-19.txt &&
        grep -q protobuf-c licences/libprotobuf-c1.txt"
    check "libonnxc" sh -c "printf '#include <onnxc_compiler.h>\n#include <stdio.h>\nint main(void) { return puts(onnxc_compiler_version()) < 0; }\n' >'$w/lib.c' &&
        PKG_CONFIG_PATH='$tree/lib/pkgconfig' && export PKG_CONFIG_PATH && cc '$w/lib.c' \$(pkg-config --cflags --libs libonnxc) -Wl,-rpath,'$tree/lib' -o '$w/lib' && '$w/lib'"
    # The same files in another folder.
    copy=$w/copy
    mkdir "$copy"
    (cd "$here" && git ls-files -co --exclude-standard | while read -r f; do [ ! -e "$f" ] || echo "$f"; done | tar -cf - -T - | tar -C "$copy" -xf -)
    check "make dist elsewhere" make -s -C "$copy" -j "$(nproc)" dist SOURCE_DATE_EPOCH="$date"
    check "the same bytes" cmp "$archive" "$copy/build/dist/onnxc-$version-$machine.tar.xz"
}

deb() {
    there dpkg-buildpackage lintian dh || return
    check "make deb" make -s -C "$here" deb
    check "lintian" sh -c "cd '$here/build/deb' && lintian --fail-on error,warning ./*.deb"
    root=$w/deb
    llvm=$(ldconfig -p | sed -n 's/.*libLLVM.so.19.1 .*=> //p')
    libraries=$(ldd "$here/build/deb/onnxc-$version/debian/onnxc/usr/bin/onnxc" /usr/bin/ld.lld-19 | sed -n 's/.*=> \(\S*\).*/\1/p' | sort -u)
    # shellcheck disable=SC2086 # lists
    bare_root "$root" $libc $llvm $libraries
    mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/triggers" "$root/usr/bin"
    touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
    cp -L /usr/bin/ld.lld-19 /usr/bin/wasm-ld-19 "$root/usr/bin" # of package lld-19
    mkdir -p "$root/usr/lib"
    cp -rL /usr/lib/wasm32-wasi "$root/usr/lib" # of package wasi-libc
    packages=$(find "$here/build/deb" -maxdepth 1 -name '*.deb' ! -name 'python3*' ! -name '*dbgsym*')
    # shellcheck disable=SC2086 # a list
    check "dpkg installs them" dpkg --root="$root" --force-depends --force-script-chrootless --log="$w/dpkg.log" -i $packages
    check "use them in a bare root folder" use "$root" /usr/bin/onnxc
    check "link with what they made" link_outside "$root"
    check "multiarch folders" sh -c "test -e '$root/usr/lib/$machine/libonnxc-rt.a' -a -e '$root/usr/lib/$machine/cmake/onnxc/onnxcConfig.cmake' &&
        test -h '$root/usr/lib/$machine/libonnxc.so' && test ! -e '$root/usr/lib/libonnxc-rt.a'"
    mkdir "$w/cmake"
    cp "$here/test/cli/mlp.onnx" "$w/main.c" "$w/cmake"
    printf 'cmake_minimum_required(VERSION 3.16)\nproject(app C)\nfind_package(onnxc %s REQUIRED)\nonnxc_add_model(mlp mlp.onnx)\nadd_executable(main main.c)\ntarget_link_libraries(main mlp)\n' "$version" >"$w/cmake/CMakeLists.txt"
    check "CMake" sh -c "cmake -S '$w/cmake' -B '$w/cmake/b' -DCMAKE_PREFIX_PATH='$root/usr' && cmake --build '$w/cmake/b' && '$w/cmake/b/main'"
    check "pkg-config" sh -c "PKG_CONFIG_LIBDIR='$root/usr/lib/$machine/pkgconfig' pkg-config --exists 'onnxc = $version' 'libonnxc = $version'"
    check "onnxc.mk" sh -c "cd '$w/cmake' && printf 'include $root/usr/share/onnxc/onnxc.mk\nmain: main.o mlp.o \$(ONNXC_RUNTIME)\nmain.o: mlp.h\n' >Makefile && make LDLIBS=-lpthread && ./main"
    # Its scripts compile it for the system's Python, which is not in this root folder.
    check "unpack python3-onnxc" dpkg-deb -x "$(echo "$here"/build/deb/python3-onnxc_*.deb)" "$root"
    if python=$here/build/venv/bin/python && [ -x "$python" ]; then # with NumPy
        check "Python" sh -c "cd '$w/cmake' && LD_LIBRARY_PATH='$root/usr/lib/$machine' PYTHONPATH='$root/usr/lib/python3/dist-packages' '$python' -c '
import os, numpy, onnxc
assert onnxc.__file__.startswith(\"$root\"), onnxc.__file__
assert onnxc.paths.compiler_path().startswith(\"$root\"), onnxc.paths.compiler_path()
assert os.path.isfile(os.path.join(onnxc.get_library_dir(), \"libonnxc-rt.a\")) and os.path.isfile(os.path.join(onnxc.get_include(), \"onnxc.h\"))
assert os.path.isdir(onnxc.get_cmake_dir()) and os.path.isfile(onnxc.get_make_include())
y, = onnxc.InferenceSession(\"mlp.onnx\").run(None, {\"x\": numpy.ones((1, 4), numpy.float32)})
assert y.tolist() == [[2.25, 2.75, 3.25]], y'"
    else
        skipped=$((skipped + 1))
    fi
    for part in onnxc libonnxc0 libonnxc-dev python3-onnxc; do
        check "copyright of $part" test -s "$root/usr/share/doc/$part/copyright"
    done
}
[ $# -gt 0 ] || set -- dist deb
for part; do "$part"; done
report
