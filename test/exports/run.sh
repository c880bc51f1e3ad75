#!/bin/sh
# Real exporters' models, with packages of their own (test/exports/venv.sh). usage: test/exports/run.sh [OPTION]...
# (see test/exports/exports.py)
set -eu
cd "$(dirname "$0")/../.."
make -s -j "$(nproc)"
exec "$(sh test/exports/venv.sh)/bin/python" test/exports/exports.py "$@"
