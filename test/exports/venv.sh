#!/bin/sh
# Installs torch and its like from PyPI in a venv of its own (6 GB), if it is not there yet, and prints where that is.
set -eu
cd "$(dirname "$0")/../.."
venv=build/exports-venv
if ! cmp -s test/exports/requirements.txt $venv/installed; then
    rm -rf $venv
    python3 -m venv $venv
    $venv/bin/pip install -q --disable-pip-version-check --no-cache-dir -r test/exports/requirements.txt </dev/null >&2
    cp test/exports/requirements.txt $venv/installed
fi
echo $venv
