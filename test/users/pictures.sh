#!/bin/sh
# Pictures of a model: the report as one HTML file, graph and kernels as DOT, everything as JSON.
# in the environment: PREFIX, the installed onnxc; MODELS, a folder with digits.onnx
set -eu
PATH=$PREFIX/bin:$PATH
onnxc bench "$MODELS/digits.onnx" --seconds 0.2 --save-times digits.times >bench.log
onnxc inspect "$MODELS/digits.onnx" --times digits.times -o digits.html
echo "report: one file without references to others: $(grep -c -E '(src|href)="http' digits.html || true) links"
onnxc inspect "$MODELS/digits.onnx" -o digits.dot
grep -c -- '->' digits.dot | sed 's/$/ edges in digits.dot/'
onnxc inspect "$MODELS/digits.onnx" -o digits.json
python3 -c 'import json; r = json.load(open("digits.json")); print("keys of digits.json:", *r)'
