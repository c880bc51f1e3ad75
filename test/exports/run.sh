#!/bin/sh
# Real exporters' models, with torch and its like from PyPI in a venv of its own (6 GB). usage: test/exports/run.sh [OPTION]...
# (see test/exports/exports.py)
set -eu
cd "$(dirname "$0")/../.."
make -s -j "$(nproc)"
venv=build/exports-venv
if ! cmp -s test/exports/requirements.txt $venv/installed; then
    rm -rf $venv
    python3 -m venv $venv
    $venv/bin/pip install -q --disable-pip-version-check --no-cache-dir -r test/exports/requirements.txt </dev/null
    cp test/exports/requirements.txt $venv/installed
fi
exec $venv/bin/python test/exports/exports.py "$@"
