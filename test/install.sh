#!/bin/sh
# The installed tree, moved to another folder, as users of make, CMake and pkg-config see it; on this machine and cross.
# usage: install.sh ONNXC_BUILD      prints N passed, N failed, N skipped
set -u
build=$(realpath "$1") STAGE=install
# shellcheck source=test/check.sh
. "$(dirname "$0")/check.sh"

sh "$here/tools/install/install.sh" "$build" "$(cat "$here/VERSION")" "$w/first/usr" "${LLD-}" || exit 1
mv "$w/first" "$w/moved"
p=$w/moved/usr
mkdir "$w/app" && cd "$w/app" || exit 1
cp "$here/test/cli/mlp.onnx" .
cat >main.c <<'EOF'
#include "mlp.h"
#include <stdio.h>
int main(void) {
    const float x[8] = {1, 2, 3, 4, -1, -2, -3, -4};
    float y[6] = {0};
    mlp_in in = {2, x};
    mlp_out out = {0};
    out.y = y;
    int failed = mlp_run(&in, &out, NULL, 0);
    printf("%d %g %g\n", failed, y[0], y[3]);
    return failed || y[0] != 7.5f || y[3] != 0;
}
EOF
cat >Makefile <<EOF
include $p/share/onnxc/onnxc.mk
CFLAGS += -I. -Wall -Wextra -Werror
LDLIBS += -lpthread
main: main.o mlp.o \$(ONNXC_RUNTIME)
main.o: mlp.h
EOF
cat >CMakeLists.txt <<'EOF'
cmake_minimum_required(VERSION 3.16)
project(app C)
find_package(onnxc 0.1 REQUIRED)
onnxc_add_model(mlp mlp.onnx OPTIONS --dim N=1:64)
add_executable(main main.c)
target_link_libraries(main PRIVATE mlp)
EOF
check "the licence of the linker that comes along" sh -c "test ! -e '$p/lib/onnxc/ld.lld' -o -s '$p/share/doc/onnxc/licences/lld.txt'"
check "make" sh -c 'make && ./main'
check "make links again after a change, though the include comes first" sh -c 'touch main.c && make | grep -q -e "-o main\$"'
check "models in folders" sh -c "mkdir -p models/deep && cp mlp.onnx models/deep && make models/deep/mlp.o && make -n models/deep/mlp.o | grep -q 'up to date' &&
 echo 'models/deep/mlp.o: data.bin' >>models/deep/mlp.onnx.d && touch data.bin && make -n models/deep/mlp.o | grep -q onnxc"
check "the makefile of docs/cli.md" sh -c "mkdir manual && cp mlp.onnx manual && cp main.c manual && cd manual &&
    sed -n '/^# Makefile/,/^\$/p' '$here/docs/cli.md' | sed 's|/opt/onnxc|$p|; s/mnist/mlp/g' >Makefile && make CFLAGS=-I. && ./app"
check "make has nothing left to do" sh -c 'make -q'
check "make sees a changed model" sh -c 'touch mlp.onnx && ! make -q'
check "shared library" sh -c "$p/bin/onnxc mlp.onnx -o mlp.so && $p/bin/onnxc run mlp.so --dim N=1 --input x=random"
check "header of custom operators" cc -std=c99 -pedantic -Wall -Wextra -Werror "-I$p/include" -c "$here/test/cli/custom_ops.c" -o ops.o
check "runtime from its sources" make -f "$p/share/onnxc/runtime/Makefile" B=rt
if there pkg-config; then
    check "pkg-config" sh -c "$p/bin/onnxc mlp.onnx -o mlp.o && PKG_CONFIG_PATH=$p/lib/pkgconfig; export PKG_CONFIG_PATH
        cc main.c mlp.o \$(pkg-config --cflags --static --libs onnxc) -o pc && ./pc"
fi
check "libonnxc" sh -c "printf '#include <onnxc_compiler.h>\n#include <stdio.h>\nint main(void) { return puts(onnxc_compiler_version()) < 0; }\n' >lib.c
    cc -std=c99 -pedantic -Wall -Wextra -Werror -I$p/include lib.c -L$p/lib -lonnxc -Wl,-rpath,$p/lib -o lib && ./lib"
python=$here/build/venv/bin/python
if there "$python"; then
    check "Python" env PYTHONPATH="$p/share/onnxc/python" "$python" -c "import onnxc, numpy, os
assert onnxc.paths.compiler_path().startswith('$p/'), onnxc.paths.compiler_path()
assert onnxc.__version__ == onnxc.version() and os.path.isdir(onnxc.get_cmake_dir()), onnxc.__version__
onnxc.compile('mlp.onnx', 'python.so')
assert onnxc.InferenceSession('python.so').run(None, {'x': [[1, 2, 3, 4]]})[0][0, 0] == 7.5"
    check "python -m onnxc" sh -c "PYTHONPATH='$p/share/onnxc/python' '$python' -m onnxc --version | grep onnxc"
fi
if there cmake; then
    check "cmake" sh -c "cmake -S . -B native -DCMAKE_PREFIX_PATH=$p && cmake --build native && native/main"
fi
if there cmake ninja; then
    check "Ninja has nothing left to do" sh -c "cmake -G Ninja -S . -B ninja -DCMAKE_PREFIX_PATH=$p && cmake --build ninja && cmake --build ninja | grep -q 'no work to do' &&
        touch mlp.onnx && cmake --build ninja | grep -q 'Compiling ONNX model'"
fi
if there cmake g++; then
    mkdir cxx && cp main.c cxx/main.cc && sed 's/(app C)/(app CXX)/; s/main\.c)/main.cc)/; s|mlp.onnx|../mlp.onnx|' CMakeLists.txt >cxx/CMakeLists.txt
    check "CMake project in C++ only" sh -c "cmake -S cxx -B cxx/b -DCMAKE_PREFIX_PATH=$p && cmake --build cxx/b && cxx/b/main"
fi
if there cmake; then
    mkdir "odd names" && sed 's/mlp mlp.onnx/3d-net.v2 mlp.onnx/; s/ mlp)/ 3d-net.v2)/' CMakeLists.txt >"odd names/CMakeLists.txt" && cp mlp.onnx "odd names"
    sed 's/"mlp\.h"/"3d-net.v2.h"/; s/mlp_/m_3d_net_v2_/g' main.c >"odd names/main.c"
    check "a CMake target whose name is no identifier" sh -c "cmake -S 'odd names' -B 'odd names/b' -DCMAKE_PREFIX_PATH=$p && cmake --build 'odd names/b' && 'odd names/b/main'"
fi
if there cmake; then
    mkdir -p tree/deps && cp main.c tree && echo "find_package(onnxc REQUIRED)" >tree/deps/CMakeLists.txt
    sed 's/^find_package.*/add_subdirectory(deps)/; s|mlp.onnx|../mlp.onnx|' CMakeLists.txt >tree/CMakeLists.txt
    check "CMake finds onnxc in a subdirectory" sh -c "cmake -S tree -B tree/b -DCMAKE_PREFIX_PATH=$p && cmake --build tree/b && tree/b/main"
    mkdir source && cp main.c source
    sed "s|^find_package.*|include(FetchContent)\nFetchContent_Declare(onnxc SOURCE_DIR $here)\nFetchContent_MakeAvailable(onnxc)|; s|mlp.onnx|../mlp.onnx|" CMakeLists.txt >source/CMakeLists.txt
    check "FetchContent of the source tree" sh -c "cmake -S source -B source/b && cmake --build source/b && source/b/main"
fi
if there aarch64-linux-gnu-gcc qemu-aarch64; then
    check "make for aarch64" sh -c 'make clean; rm -f *.o; make CC=aarch64-linux-gnu-gcc LDFLAGS=-static main && qemu-aarch64 ./main'
    there cmake && check "cmake for aarch64" sh -c "cmake -S . -B arm64 -DCMAKE_PREFIX_PATH=$p -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=BOTH \
        -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
        -DCMAKE_EXE_LINKER_FLAGS=-static && cmake --build arm64 && qemu-aarch64 arm64/main"
fi
if there arm-none-eabi-gcc; then
    m4="-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
    check "make for Cortex-M4" sh -c "rm -f *.o; make CC=arm-none-eabi-gcc CFLAGS='$m4' mlp.o main.o && arm-none-eabi-readelf -A mlp.o | grep -q VFPv4-D16"
    there cmake && check "cmake for Cortex-M4" sh -c "cmake -S . -B m4 -DCMAKE_PREFIX_PATH=$p -DCMAKE_SYSTEM_NAME=Generic \
        -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY -DCMAKE_C_COMPILER=arm-none-eabi-gcc -DCMAKE_C_FLAGS='$m4' >m4.log 2>&1 && cmake --build m4 --target mlp && ! grep -A9 -i warning m4.log"
fi
check "manual pages" sh -c "for page in onnxc onnxc-run onnxc-test onnxc-bench onnxc-inspect; do
    for part in EXAMPLES 'EXIT STATUS' 'SEE ALSO' OPTIONS; do grep -q \"^.SH \$part\" $p/share/man/man1/\$page.1 || exit 1; done; done"
check "names and descriptions in manual pages" sh -c "tr -d '\\\\' <$p/share/man/man1/onnxc-quantize.1 | grep -A5 '^onnxc-quantize - quantises a model\$' |
    grep -A1 '^Quantises' | grep -q '^or narrower'"
if there mandoc; then
    check "mandoc" sh -c "mandoc -Tlint -W warning $p/share/man/man1/*.1 | grep -v 'missing date' | (! grep .)"
fi
cat >complete.bash <<EOF
. $p/share/bash-completion/completions/onnxc
try() { COMP_WORDS=("\$@"); COMP_CWORD=\$((\${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _onnxc; echo "\${COMPREPLY[*]}"; }
try onnxc --fp ""; try onnxc m.onnx --target = riscv; try onnxc --mcpu cortex-m5; try onnxc --disable-pass fus; try onnxc -O; try onnxc --emit sh; try onnxc --target h; try onnxc --target wasm
try onnxc run m --interpret = ""; try onnxc inspect --format j; try onnxc run --input-d; try onnxc benc
EOF
cat >complete.want <<'EOF'
strict default fast
riscv64-linux-gnu riscv32-linux-gnu riscv32-none-elf riscv64-none-elf
cortex-m52 cortex-m55
fuse
-O0 -O1 -O2 -O3 -Os -Oz
shared

wasm32 wasm32-wasi
program gpu
json
--input-dir
bench
EOF
check "completions for bash" sh -c "bash complete.bash | diff complete.want -"
if there fish; then
    check "completions for fish" sh -c "fish --no-config -c 'source $p/share/fish/vendor_completions.d/onnxc.fish; complete -C \"onnxc --fp st\"; complete -C \"onnxc inspect --format j\"' | tr '\n' ' ' | grep -q 'strict json'"
fi
if there zsh; then
    check "completions for zsh" sh -c "zsh -n $p/share/zsh/site-functions/_onnxc && grep -q 'fp=:value:(strict default fast)' $p/share/zsh/site-functions/_onnxc"
fi
if there pkg-config; then
    check "libonnxc by pkg-config" sh -c "PKG_CONFIG_PATH=$p/lib/pkgconfig; export PKG_CONFIG_PATH; cc -std=c99 lib.c \$(pkg-config --cflags --libs libonnxc) -Wl,-rpath,$p/lib -o lib2 && ./lib2"
fi
if there localedef && [ -e /usr/share/i18n/locales/de_DE ]; then
    mkdir locales && localedef -i de_DE -f UTF-8 locales/de_DE.UTF-8 2>/dev/null
    cat >comma.c <<'EOF'
#include <locale.h>
#include <onnxc_compiler.h>
#include <stdio.h>
int main(int argc, char **argv) {
    const char *options[] = {"-o", argv[3], "-j4"};
    const onnxc_job job = {.size = sizeof job, .model = argv[2], .options = options, .noptions = 3};
    return argc != 4 || !setlocale(LC_ALL, argv[1]) || printf("%.1f\n", 0.5) != 4 || onnxc_compile(&job);
}
EOF
    check "libonnxc in a locale with decimal commas" sh -c "cp '$here/test/cli/deep.onnx' . && cc comma.c -I$p/include -L$p/lib -lonnxc -Wl,-rpath,$p/lib -o comma && export LOCPATH=\$PWD/locales &&
        ./comma de_DE.UTF-8 deep.onnx deep.onnxtxt | grep -q 0,5 && $p/bin/onnxc deep.onnx -o point.onnxtxt && cmp deep.onnxtxt point.onnxtxt &&
        for model in deep.onnx deep.onnxtxt; do for kind in c html kernels s; do ./comma de_DE.UTF-8 \$model deep.\$kind && mv deep.\$kind comma.txt &&
            $p/bin/onnxc \$model -o deep.\$kind && cmp comma.txt deep.\$kind || exit 1; done; done"
fi
check "make install into a folder with spaces" sh -c "make -s -C '$here' install PREFIX='$w/with spaces' && '$w/with spaces/bin/onnxc' mlp.onnx --name mlp -o spaced.a && cc main.c spaced.a -lpthread -o spaced && ./spaced"
check "make in a folder with spaces" sh -c "! make -f '$w/with spaces/share/onnxc/runtime/Makefile' B=rt2 2>spaces.log && grep -q 'symbolic link' spaces.log &&
    echo 'include $w/with spaces/share/onnxc/onnxc.mk' | sed 's/ spaces/\\\\ spaces/' >spaces.mk && ! make -f spaces.mk 2>spaces.log && grep -q 'symbolic link' spaces.log"
check "LIBDIR for several architectures" sh -c "cd '$here' && LIBDIR=lib/some-machine-gnu sh tools/install/install.sh '$build' 1.2.3 '$w/multi' && test -e '$w/multi/lib/some-machine-gnu/libonnxc-rt.a' &&
    grep -q '/../../../..\"' '$w/multi/lib/some-machine-gnu/cmake/onnxc/onnxcConfig.cmake' && grep -q 'pcfiledir}/../../..\$' '$w/multi/lib/some-machine-gnu/pkgconfig/onnxc.pc'"
report
