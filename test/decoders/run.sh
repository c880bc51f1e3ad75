#!/bin/sh
# Language models token by token against ONNX Runtime, with the packages of test/exports. usage: test/decoders/run.sh [OPTION]...
# (see test/decoders/decoders.py)
set -eu
cd "$(dirname "$0")/../.."
make -s -j "$(nproc)"
exec "$(sh test/exports/venv.sh)/bin/python" test/decoders/decoders.py "$@"
