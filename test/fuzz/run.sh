#!/bin/sh
# The importer under libFuzzer, with the sanitizers. usage: test/fuzz/run.sh [SECONDS], 60 by default. Begins with
# the models of the tests in all their forms; a crash leaves its input in build/fuzz. Then files of values and models
# as text that are changed by seeds, for some minutes.
set -eu
cd "$(dirname "$0")/../.."
clang=${CLANG:-clang-19}
make -s MODE=fuzz CC="$clang" build/fuzz/libonnxc.a build/fuzz/libonnxc-rt.a -j "$(nproc)"
flags="-std=c11 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -I. -Ibuild/fuzz"
# shellcheck disable=SC2086,SC2046 # lists of words
$clang $flags test/fuzz/import.c build/fuzz/libonnxc.a build/fuzz/libonnxc-rt.a -o build/fuzz/import \
    -lprotobuf-c -ljansson -lz $("${LLVM_CONFIG:-llvm-config-19}" --libs --ldflags) -lm -lpthread -ldl
mkdir -p build/fuzz/corpus build/fuzz/seeds
for f in test/cli/*.onnx samples/*/*.onnx; do cp "$f" build/fuzz/seeds/; done
"${PYTHON:-build/venv/bin/python}" test/hostile/bad_text.py --write build/fuzz/seeds
build/fuzz/import -max_total_time="${1:-60}" -timeout=10 -rss_limit_mb=4096 -max_len=65536 \
    -artifact_prefix=build/fuzz/ build/fuzz/corpus build/fuzz/seeds
"${PYTHON:-build/venv/bin/python}" test/hostile/bad_values.py --count 500 --seed "${SEED:-1}"
exec "${PYTHON:-build/venv/bin/python}" test/hostile/bad_text.py --count 1500 --seed "${SEED:-1}"
