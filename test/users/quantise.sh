#!/bin/sh
# A model in eight bits for a microcontroller: calibrated on samples, within a given loss, and how much smaller it becomes.
# in the environment: PREFIX, the installed onnxc; MODELS, a folder with digits.onnx; SOURCES, onnxc's repository; PYTHON, with numpy
set -eu
PATH=$PREFIX/bin:$PATH
"$PYTHON" - "$SOURCES/samples/digits/digits_data.h" <<'END'
import re, sys
import numpy as np

text = open(sys.argv[1]).read()
np.save("images.npy", np.array(re.findall(r"\d+", text.split("digits_image")[1].split("=")[1]), np.float32).reshape(20, 1, 8, 8))
np.save("labels.npy", np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9] * 2))
END
onnxc quantize "$MODELS/digits.onnx" --data images.npy --labels labels.npy --max-loss top1=0% --report report.txt -o digits_q.onnx >quantize.log
grep -q "3 of 3 products in int8" quantize.log && echo "all products in int8"
for model in "$MODELS/digits.onnx" digits_q.onnx; do
    onnxc "$model" --target=thumbv7em-none-eabihf -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16 -o m.o
    flash=$(llvm-size-19 m.o | awk 'NR == 2 { print $1 + $2 }')
    ram=$(sed -n 's/^#define M_WORKSPACE_BYTES //p' m.h)
    echo "$(basename "$model"): under 24 kB of flash: $([ "$flash" -lt 24000 ] && echo yes || echo no), under 16 kB: $([ "$flash" -lt 16000 ] && echo yes || echo no); $ram bytes of workspace"
done
"$PYTHON" - <<'END'
import subprocess
import numpy as np

images, labels = np.load("images.npy"), np.load("labels.npy")
right = 0
for image, label in zip(images, labels):
    np.save("image.npy", image[None])
    subprocess.run(["onnxc", "run", "digits_q.onnx", "--input", "image=image.npy", "--output", "logits=logits.npy"], check=True)
    right += int(np.load("logits.npy").argmax() == label)
print(f"{right} of 20 right with the quantised model")
END
