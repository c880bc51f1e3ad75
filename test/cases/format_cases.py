"""One model in all formats gives the same object. usage: format_cases.py ONNXC MODEL.onnx...

Binary protobuf is compared with protobuf's text and JSON formats, and with ONNX's text syntax where onnx's own
printer and parser agree on the model.
"""
import os
import subprocess
import sys
import tempfile

import onnx
import onnx.parser
import onnx.printer
from google.protobuf import json_format, text_format


def compile_model(onnxc, path):
    """The object's bytes, or the messages with the file's name left out."""
    made = path + ".o"
    ran = subprocess.run([onnxc, path, "-o", made, "--name", "model", "-O0", "--mcpu", "x86-64-v3"],
                         capture_output=True, text=True, timeout=120)
    if ran.returncode:
        return ran.returncode, ran.stderr.replace(path, "FILE")
    with open(made, "rb") as f:
        return 0, f.read()


def forms(model):
    """Endings, texts, and the model that a binary file of the same content holds."""
    yield ".textproto", text_format.MessageToString(model), model
    yield ".json", json_format.MessageToJson(model), model
    try:
        text = onnx.printer.to_text(model)
        again = onnx.parser.parse_model(text)
    except (onnx.parser.ParseError, UnicodeDecodeError):
        return
    yield ".onnxtxt", text, again


def main():
    onnxc, passed, failed = os.path.abspath(sys.argv[1]), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for path in sys.argv[2:]:
            for ending, text, model in forms(onnx.load(path)):
                written, binary = os.path.join(folder, "model" + ending), os.path.join(folder, "model.onnx")
                with open(written, "w", encoding="utf-8") as f:
                    f.write(text)
                onnx.save(model, binary)
                if compile_model(onnxc, written) == compile_model(onnxc, binary):
                    passed += 1
                else:
                    failed += 1
                    print(f"FAIL {path} as {ending}: other bytes or messages than as binary protobuf")
    print(f"{passed} passed, {failed} failed, 0 skipped")


if __name__ == "__main__":
    main()
