#!/bin/sh
# A server that answers requests of many threads in batches of up to 16, under ThreadSanitizer too.
# in the environment: PREFIX, the installed onnxc; MODELS, a folder with digits.onnx; SOURCES, onnxc's repository
set -eu
"$PREFIX/bin/onnxc" "$MODELS/digits.onnx" --shape image=Nx1x8x8 --dim N=1:16 -o digits.a
echo "workspace for a batch of 16: $(sed -n 's/^#define DIGITS_WORKSPACE_BYTES_MAX //p' digits.h) bytes per worker"
cc -O2 -Wall -Wextra -I. -I"$PREFIX/include" -I"$SOURCES/samples/digits" "$SOURCES/test/users/server.c" digits.a "$PREFIX/lib/libonnxc-rt.a" -o server -lpthread
./server
# The model as C and the runtime from its sources: ThreadSanitizer sees every access of theirs, too.
"$PREFIX/bin/onnxc" "$MODELS/digits.onnx" --shape image=Nx1x8x8 --dim N=1:16 -o digits.c
make -s -f "$PREFIX/share/onnxc/runtime/Makefile" B=checked-rt CFLAGS="-g -fsanitize=thread" >&2
cc -O1 -g -fsanitize=thread -I. -I"$PREFIX/include" -I"$SOURCES/samples/digits" "$SOURCES/test/users/server.c" digits.c checked-rt/libonnxc-rt.a -o checked -lpthread -lm
setarch -R ./checked | sed 's/^/ThreadSanitizer: /'
