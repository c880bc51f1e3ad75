#!/bin/sh
# A Python program for ONNX Runtime, moved over by one import.
# in the environment: PREFIX, the installed onnxc; MODELS, the folder of digits.onnx; PYTHON, with numpy and onnxruntime
set -eu
cp "$MODELS/digits.onnx" .
cat >classify.py <<'END'
import sys
import numpy as np
import onnxruntime as ort

ort.set_default_logger_severity(3)
options = ort.SessionOptions()
options.intra_op_num_threads = 1
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = ort.InferenceSession(sys.argv[1], sess_options=options, providers=["CPUExecutionProvider"])

image = session.get_inputs()[0]
print("input", image.name, image.shape, image.type, "on", session.get_providers())
one, zero = np.zeros((2, *image.shape), np.float32)
one[0, 0, 1:7, 4] = 16
zero[0, 0, 1:7, [2, 5]] = zero[0, 0, [0, 7], 3:5] = 16
for digit in one, zero:
    logits, = session.run(None, {image.name: digit})
    print("run:", logits.argmax())

binding, logits = session.io_binding(), np.empty((1, 10), np.float32)
binding.bind_cpu_input(image.name, zero)
binding.bind_output("logits", "cpu", 0, np.float32, logits.shape, logits.ctypes.data)
session.run_with_iobinding(binding)
print("bound:", logits.argmax(), f"{logits.max():.2f}")
END
sed 's/^import onnxruntime as ort/import onnxc as ort/' classify.py >moved.py
diff classify.py moved.py || true
export PYTHONPATH="$PREFIX/share/onnxc/python" PYTHONDONTWRITEBYTECODE=1
"$PYTHON" classify.py digits.onnx >before.txt
"$PYTHON" moved.py digits.onnx >after.txt
diff before.txt after.txt && echo "the same output:"
cat after.txt
