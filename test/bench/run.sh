#!/bin/sh
# Whole networks against ONNX Runtime and OpenVINO, from PyPI, in one process. usage: test/bench/run.sh [OPTION | NETWORK]...
# (see test/bench/peers.py); a language model: test/bench/run.sh llm [OPTION]... (see test/bench/llm.py)
set -eu
cd "$(dirname "$0")/../.."
make -s -j "$(nproc)"
venv=build/bench-venv
if ! cmp -s test/bench/requirements.txt $venv/installed; then
    rm -rf $venv
    python3 -m venv $venv
    $venv/bin/pip install -q --disable-pip-version-check --no-cache-dir -r test/bench/requirements.txt </dev/null
    cp test/bench/requirements.txt $venv/installed
fi
grep -m1 'model name' /proc/cpuinfo || true
if [ "${1-}" = llm ]; then
    shift
    exec $venv/bin/python test/bench/llm.py build/release/onnxc "$@"
fi
exec $venv/bin/python test/bench/peers.py build/release/onnxc "$@"
