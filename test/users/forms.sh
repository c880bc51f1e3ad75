#!/bin/sh
# One model as binary protobuf, protobuf text, protobuf JSON and ONNX text; in another operator version; and compiled from each.
# in the environment: PREFIX, the installed onnxc; MODELS, a folder with digits.onnx
set -eu
PATH=$PREFIX/bin:$PATH
onnxc "$MODELS/digits.onnx" --stop-after=import -o digits.onnx
onnxc digits.onnx -o binary.o --name digits
for file in digits.onnxtxt digits.textproto digits.onnx.json; do
    onnxc digits.onnx --stop-after=import -o "$file"
    onnxc "$file" --name digits -o text.o
    cmp binary.o text.o && echo "$file: the same object"
done
grep -c . digits.onnxtxt | sed 's/$/ lines of ONNX text, for example:/'
grep MaxPool digits.onnxtxt
for opset in 13 21; do
    onnxc digits.onnx --stop-after=import --opset $opset -o "digits$opset.onnx"
    echo "opset $opset: $(onnxc run "digits$opset.onnx" --input image=random --compare interpret | cut -d: -f1,2)"
done
