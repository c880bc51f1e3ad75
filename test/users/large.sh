#!/bin/sh
# A model whose weights lie in a file beside it, MB megabytes of them (default 256): compiled with the weights in a mapped file, used by two
# processes at once. MB=3072 takes 3 GB of disk twice and half a minute.
# in the environment: PREFIX, the installed onnxc
set -eu
: "${MB:=256}"
rows=$((MB * 32)) # of 8192 floats
cat >big.onnxtxt <<END
<ir_version: 10, opset_import: ["": 21]>
big (float[1, $rows] x) => (float[1, 8192] y)
<float[$rows, 8192] w = ["location": "big.data", "offset": "0", "length": "$((MB * 1048576))"]> {
  y = MatMul (x, w)
}
END
truncate -s "${MB}M" big.data
# w[0, 8190] = 0.1, for which 16 bits would not do; w[0, 8191] = 1
printf '\315\314\314=\0\0\200?' | dd of=big.data conv=notrunc bs=4 seek=8190 2>dd.log
"$PREFIX/bin/onnxc" big.onnxtxt --weights big.weights -o big.so
echo "the library is small: $([ "$(stat -c %s big.so)" -lt 200000 ] && echo yes)"
echo "the file of weights has those of the model: $([ "$(stat -c %s big.weights)" -ge $((MB * 1048576)) ] && echo yes)"
cat >main.c <<'END'
#include "big.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    onnxc_context *c;
    float *x = calloc(BIG_X_DIM1, sizeof *x), *y = malloc(BIG_Y_DIM1 * sizeof *y);
    void *workspace = aligned_alloc(BIG_WORKSPACE_ALIGN, BIG_WORKSPACE_BYTES + BIG_WORKSPACE_ALIGN);
    x[0] = 42;
    fork();
    int failed = big_open(NULL, &c);
    big_out out = {.y = y};
    if (!failed) failed = big_run(c, &(big_in){.x = x}, &out, workspace, BIG_WORKSPACE_BYTES);
    printf("status %d, y[0] = %g, y[8191] = %g\n", failed, y[0], y[8191]);
    fflush(stdout);
    big_close(c);
    wait(NULL);
    return failed;
}
END
"$PREFIX/bin/onnxc" big.onnxtxt --weights big.weights -o big.a
cc -O2 main.c big.a -o main -lpthread
./main
