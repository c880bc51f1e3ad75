#!/bin/sh
# Makes everything ready: installs what the build needs, builds, and runs the digits sample.
set -eu
cd "$(dirname "$0")/.."
tools/install.sh
make -s -j "$(nproc)"
exec make -s -C samples/digits
