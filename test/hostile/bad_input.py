"""The stage that gives the compiler files and arguments that are wrong: a message and exit code 1, never a crash."""
import gzip
import os
import random
import shutil

import onnx
import onnx.parser
from harness import BUILD, ROOT, parallel, run
from hostile import program

MODEL = os.path.join(ROOT, "samples", "digits", "digits.onnx")
SEED = 7


def other_files():
    """Files that are something else: (name, bytes, a word that the message must hold)."""
    lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
    return [
        ("empty.onnx", b"", ""),
        ("zeros.onnx", bytes(1000), "zeros"),
        ("lfs.onnx", lfs, "LFS"),
        ("page.onnx", b"<!DOCTYPE html>\n<html><body>Not found</body></html>\n", "HTML"),
        ("torch.onnx", b"PK\x03\x04" + bytes(60), ""),
        ("pickle.onnx", b"\x80\x02}q\x00." + bytes(60), ""),
        ("lite.onnx", b"\x1c\x00\x00\x00TFL3" + bytes(60), ""),
        ("packed.onnx", gzip.compress(open(MODEL, "rb").read(), mtime=0), "gzip"),
        ("text.onnx", b"hello, this is not a model\n", "text"),
        ("folder.onnx", b"model.onnx" + bytes(247) + b"ustar\x0000" + bytes(248), "tar"),
        ("frozen.onnx", b"\n\x10\n\x01x\x12\x0bPlaceholder", "TensorFlow"),
        ("deep.onnx", b"\x3a\x7f" * 5000, ""),
    ]


def graph(ins, nodes):
    return f'<ir_version: 9, opset_import: ["" : 20]>\ng ({ins}) => (float y) {{ {nodes} }}\n'


def wrong_models():
    """Models as ONNX text whose numbers are absurd: (name, text, exit codes, a word that the message must hold)."""
    conv = "y = Conv <pads = [{0}, {0}, {0}, {0}], kernel_shape = [3, 3]> (x, w)"
    huge = 2**40
    return [
        ("left_out", graph("float[3] x", 'y = Sub (x, "")'), (1,), "input B is missing"),
        ("huge_input", graph(f"float[{2**62}] x", "y = Relu (x)"), (1,), "input 'x'"),
        ("huge_fill", graph("", f"s = Constant <value_ints = [{huge}, {huge}]> () y = ConstantOfShape (s)"), (1,), "ConstantOfShape"),
        ("huge_expand", graph("float[1] x", f"s = Constant <value_ints = [{2**62}]> () y = Expand (x, s)"), (1,), "Expand"),
        ("huge_random", graph("", f"y = RandomNormal <shape = [{huge}, {huge}]> ()"), (1,), "RandomNormal"),
        ("huge_pads", graph("float[1, 1, 5, 5] x, float[1, 1, 3, 3] w", conv.format(2**31)), (1,), "Conv"),
        ("huge_blocks", graph("float[1, 1, 5, 5] x, float[1, 1, 3, 3] w", f"y = ConvTranspose <strides = [{2**31}, {2**31}]> (x, w)"), (1,), "ConvTranspose"),
        ("huge_margin", graph("float[1, 1, 5, 5] x, float[1, 1, 3, 3] w", f"y = ConvTranspose <output_padding = [{2**63 - 1}, 0]> (x, w)"), (1,), "output_padding"),
        ("huge_dft", graph("float[1, 8, 1] x", f"s = Constant <value_int = {huge}> () y = DFT (x, s)"), (0,), ""),
        ("prime_dft", graph("float[1, 8, 1] x", f"s = Constant <value_int = {2**61 - 1}> () y = DFT (x, s)"), (1,), "DFT"),
    ]


def broken_models():
    """Truncations and changed bytes of a good model."""
    good = open(MODEL, "rb").read()
    dice = random.Random(SEED)
    cuts = sorted({*range(0, 200, 10), *(dice.randrange(len(good)) for _ in range(60)), len(good) - 1})
    for cut in cuts:
        yield f"cut{cut}.onnx", good[:cut]
    for i in range(300):
        data = bytearray(good)
        for _ in range(dice.choice((1, 1, 2, 8))):
            at = dice.randrange(len(data)) if i % 3 == 0 else dice.choice((dice.randrange(900), -1 - dice.randrange(300)))
            data[at] = dice.choice((0, 0xFF, data[at] ^ 1 << dice.randrange(8), dice.randrange(256)))
        yield f"changed{i}.onnx", bytes(data)


def test_of_large_case(results, onnxc, folder):
    """A case that is too large for the machine fails by itself, and the next one passes."""
    for name, nodes in (("large", f"s = Constant <value_ints = [{2**40}]> () y = ConstantOfShape (s)"), ("small", "y = Constant <value_float = 1.0> ()")):
        os.makedirs(os.path.join(folder, "cases", name, "test_data_set_0"))
        onnx.save(onnx.parser.parse_model(graph("", nodes)), os.path.join(folder, "cases", name, "model.onnx"))
    for how in ([], ["--interpret"]):
        ran = run([onnxc, "test", os.path.join(folder, "cases"), *how], timeout=60)
        good = ran.code == 4 and "1 passed, 1 failed" in ran.out and "memory" in ran.out and "(4096.0 GiB)" in ran.out
        results.check(good, " ".join(["4 TiB to test", *how]), ran.why())
    shutil.rmtree(os.path.join(folder, "cases"))


def bad_input(results):
    onnxc = program(results)
    folder = os.path.join(BUILD, "test-bad")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)

    def compile_file(item):
        name, data = item[:2]
        path, out = os.path.join(folder, name), os.path.join(folder, name + ".o")
        with open(path, "wb") as f:
            f.write(data)
        return run([onnxc, path, "-o", out], timeout=30), os.path.exists(out)

    def check(name, ran, written, codes, word=""):
        tidy = ran.code == 0 or (not written and name in ran.err and word.lower() in ran.err.lower())
        results.check(ran.code in codes and tidy, name, ran.why())

    for (name, _, word), (ran, written) in zip(other_files(), parallel(compile_file, other_files())):
        check(name, ran, written, (1,), word)
    wrong = [(name + ".onnxtxt", text.encode(), codes, word) for name, text, codes, word in wrong_models()]
    for (name, _, codes, word), (ran, written) in zip(wrong, parallel(compile_file, wrong)):
        check(name, ran, written, codes, word)
    fill = os.path.join(folder, "huge_fill_1.onnxtxt")
    with open(fill, "w") as f:
        f.write(graph("", f"s = Constant <value_ints = [{2**40}]> () y = ConstantOfShape (s)"))
    for how in ([], ["--interpret"]):
        ran = run([onnxc, "run", fill, *how], timeout=30)
        results.check(ran.code == 1 and "memory" in ran.err and "(4096.0 GiB)" in ran.err, " ".join(["4 TiB to run", *how]), ran.why())
    test_of_large_case(results, onnxc, folder)
    broken = list(broken_models())
    for (name, _), (ran, written) in zip(broken, parallel(compile_file, broken)):
        check(name, ran, written, (1,) if name.startswith("cut") else (0, 1, 2))
    left = [f for f in os.listdir(folder) if not f.endswith((".onnx", ".onnxtxt", ".o", ".h"))]
    results.check(not left, "temporary files", f"left behind: {left[:5]}")

    missing = os.path.join(folder, "nothing.onnx")
    for name, code, command in (
        ("no arguments", 1, []),
        ("no such file", 1, [missing, "-o", "x.o"]),
        ("a folder", 1, [folder, "-o", "x.o"]),
        ("unknown option", 1, [MODEL, "--no-such-option"]),
        ("bad dim", 1, [MODEL, "--dim", "N=", "-o", "x.o"]),
        ("bad -O", 1, [MODEL, "-O9", "-o", "x.o"]),
        ("no such folder for the output", 1, [MODEL, "-o", os.path.join(folder, "no", "such", "x.o")]),
        ("a target that is not there", 2, [MODEL, "--target", "pdp11-dec-none", "-o", "x.o"]),
    ):
        ran = run([onnxc, *command], cwd=folder)
        results.check(ran.code == code and ran.err.strip() and not os.path.exists(os.path.join(folder, "x.o")), name, ran.why())
