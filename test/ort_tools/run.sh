#!/bin/sh
# Models of ONNX Runtime's tools against ONNX Runtime, with the packages of test/exports. usage: test/ort_tools/run.sh [OPTION]...
# (see test/ort_tools/tools.py)
set -eu
cd "$(dirname "$0")/../.."
make -s -j "$(nproc)"
exec "$(sh test/exports/venv.sh)/bin/python" test/ort_tools/tools.py "$@"
