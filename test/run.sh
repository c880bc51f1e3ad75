#!/bin/sh
# The whole test run: installs what is missing, builds, runs every stage and prints "N passed, N failed, N skipped".
# usage: test/run.sh [STAGE...]     stages: see test/run.py or docs/testing.md
set -eu
cd "$(dirname "$0")/.."
tools/install.sh test
case " $* " in *" wheel "* | *" packages "*) tools/install.sh packages ;; esac
make -s -j "$(nproc)"
venv=build/venv
if ! cmp -s test/requirements.txt $venv/installed; then
    rm -rf $venv
    python3 -m venv $venv
    $venv/bin/pip install -q --disable-pip-version-check --no-cache-dir -r test/requirements.txt </dev/null
    cp test/requirements.txt $venv/installed
fi
exec $venv/bin/python -W ignore test/run.py "$@"
