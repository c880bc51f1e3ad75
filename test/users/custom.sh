#!/bin/sh
# An operator of one's own: a C function, linked into the program, loaded from a shared library, and in the interpreter.
# in the environment: PREFIX, the installed onnxc
set -eu
PATH=$PREFIX/bin:$PATH
cat >gate.onnxtxt <<'END'
<ir_version: 10, opset_import: ["": 20, "com.acme": 1]>
gate (float[N, 4] x) => (float[N, 4] y) {
  s = Sigmoid (x)
  g = com.acme.Threshold <limit = 0.5> (s)
  y = Mul (x, g)
}
END
echo "without the option:"
onnxc gate.onnxtxt -o gate.a || true
cat >threshold.c <<'END'
#include <onnxc_custom.h>

int threshold(onnxc_custom_call *call) {
    const float *x = call->inputs[0].data, limit = onnxc_custom_float(call, "limit", 0);
    float *y = call->outputs[0].data;
    if (call->inputs[0].dtype != 1) return 1; /* float */
    for (int64_t i = 0; i < call->inputs[0].count; i++) y[i] = x[i] > limit;
    return 0;
}
END
cat >main.c <<'END'
#include "gate.h"
#include <stdio.h>

int main(void) {
    static _Alignas(64) unsigned char workspace[4096];
    float x[4] = {-2, -1, 1, 2}, y[4];
    gate_out out = {.y = y};
    int failed = gate_run(&(gate_in){.x_dim0 = 1, .x = x}, &out, workspace, sizeof workspace);
    printf("status %d: %g %g %g %g\n", failed, y[0], y[1], y[2], y[3]);
    return failed;
}
END
echo "linked into a program:"
onnxc gate.onnxtxt --custom-op com.acme::Threshold=threshold,same -o gate.a
cc -O2 -Wall -Wextra -Werror -I"$PREFIX/include" main.c threshold.c gate.a -o gate
./gate
echo "loaded by onnxc run, compared with the interpreter:"
cc -O2 -shared -fPIC -I"$PREFIX/include" threshold.c -o threshold.so
onnxc run gate.onnxtxt --custom-op com.acme::Threshold=threshold,same --custom-lib ./threshold.so --dim N=3 --input x=random --compare interpret
