"""Models made by real tools, compiled and compared with ONNX Runtime: its transformer optimiser, its quantisers, sessions that
save what they optimised, the builder of generative models, and the converters that put a search around a model.

usage: tools.py [--again] [--small] [--only PART,...] [--interpret] [--options "..."]      PART: a regular expression for NAME-RECIPE
--small: the networks in little, of which test/ort_tools/keep.py keeps some for the default tests. Folders are kept in build/tools.
Prints a line for each model with its operators of com.microsoft, and at the end "N passed, N failed, N skipped"; skipped is
what a tool cannot make or ONNX Runtime cannot run.
--interpret: the interpreter too.
"""
import argparse
import collections
import os
import platform
import re
import subprocess
import sys

import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ONNXC = os.path.join(ROOT, "build", "release", "onnxc")
BLOCK = "--nchwc-block"  # in the hint for files whose layout depends on the processor and is not told
PRECISIONS = (("int4", "cpu"), ("int8", "cpu"), ("fp32", "cpu"), ("fp16", "cuda"))
MORE = (("llama", "int4", "cpu", "accuracy_level=1"), ("llama", "int4", "cpu", "use_qdq=true"),
        ("llama", "int4", "cpu", "is_symmetric=false"), ("qwen3", "fp16", "cuda", "fuse_qk_norm_gqa=false"),
        ("qwen2", "int4", "cpu", "block_size=16"), ("phi3", "int4", "cpu", "fuse_qkv=false"))


def listed():
    """(label, line for make.py without its folders) of everything; importing torch in a child keeps this process small."""
    code = ("import networks as n; print(*(f'{a} {r}' for a, all in n.RECIPES.items() for r in all), sep='\\n'); "
            "print(*n.LANGUAGE_MODELS); import search; print(*search.SEARCHES)")
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=HERE, capture_output=True, text=True, check=True)
    *recipes, language, searches = ran.stdout.splitlines()
    for name, recipe in map(str.split, recipes):
        yield f"{name}-{recipe}", ["recipe", name, recipe]
    chosen = [(name, *p) for name in language.split() for p in PRECISIONS]
    for name, precision, provider, *options in [*chosen, *MORE]:
        yield "-".join((name, precision, *options)).replace("=", "_").replace("/", "_"), ["generative", name, precision, provider, *options]
    yield from ((name, ["search", name]) for name in searches.split())


class Maker:
    """The process that makes folders, which keeps what it made."""

    def __init__(self, out, again):
        self.out, self.again, self.made = out, again, set()
        self.process = subprocess.Popen([sys.executable, "-W", "ignore", os.path.join(HERE, "make.py")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, folder, *words):
        """"" if the folder is there, or why not."""
        if folder in self.made or (not self.again and os.path.exists(os.path.join(folder, "tolerance"))):
            return ""
        print(*words, file=self.process.stdin, flush=True)
        if self.process.stdout.readline().strip() == "0":
            self.made.add(folder)
            return ""
        with open(folder + ".log", encoding="utf-8", errors="replace") as f:
            lines = [line for line in f if line.strip()]
        return lines[-1].strip()[:200] if lines else "killed"

    def folder(self, label, words):
        """(where it is, why it is not)"""
        kind, name, *rest = words
        folder = os.path.join(self.out, label)
        if kind == "generative":
            options = [w for w in rest if "=" in w]
            return folder, self.ask(folder, kind, name, *rest[:2], folder, *options)
        if kind == "search":
            return folder, self.ask(folder, kind, name, folder)
        given = os.path.join(self.out, name)
        why = self.ask(given, "source", name, given)
        return folder, why or self.ask(folder, kind, name, *rest, given, folder)


def extras(folder):
    """The operators outside the standard, as text."""
    model = onnx.load(os.path.join(folder, "model.onnx"), load_external_data=False)
    counts = collections.Counter(n.op_type for n in model.graph.node if n.domain not in ("", "ai.onnx"))
    return " ".join(f"{n} {kind}" for kind, n in sorted(counts.items()))


def nchwc_block():
    """ONNX Runtime's block of channels on this processor."""
    with open("/proc/cpuinfo") as f:
        return 16 if platform.machine() == "aarch64" or "avx512f" in f.read() else 8


def check(folder, options, interpret):
    """(passed, failed or skipped, a line)"""
    measure = [sys.executable, os.path.join(HERE, "..", "exports", "measure.py"), folder]
    ran = subprocess.run([*measure, *options], capture_output=True, text=True)
    if BLOCK in ran.stdout and not any(BLOCK in o for o in options):  # this machine saved it
        return check(folder, [*options, f"{BLOCK}={nchwc_block()}"], interpret)
    code, line = ran.returncode, ran.stdout.strip()
    if code < 0:  # ONNX Runtime crashed as it optimised or measured it
        code, line = test(folder, *options)
        line = f"{os.path.basename(folder):30s} without times, for ONNX Runtime ends with signal {-ran.returncode}: {line}"
    if not code and interpret:
        code, answer = test(folder, "--interpret", *options)
        line += "" if code == 0 else "  INTERPRETED: " + answer
    return "failed" if code else "passed", line or f"{os.path.basename(folder)}: {ran.stderr.strip()[-300:]}"


def test(folder, *options):
    ran = subprocess.run([ONNXC, "test", *options, folder], capture_output=True, text=True)
    return ran.returncode, (ran.stdout + ran.stderr).strip()[:300]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--interpret", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--options", default="")
    arguments = parser.parse_args()
    out = os.path.join(ROOT, "build", "tools" + ("-small" if arguments.small else ""))
    os.environ.update({"EXPORTS_SMALL": "1"} if arguments.small else {})
    os.makedirs(out, exist_ok=True)
    maker, counts = Maker(out, arguments.again), {"passed": 0, "failed": 0, "skipped": 0}
    for label, words in listed():
        if arguments.only and not any(re.search(part, label) for part in arguments.only.split(",")):
            continue
        folder, why = maker.folder(label, words)
        if why:
            print(f"{label:30s} not made: {why}", flush=True)
            counts["skipped"] += 1
            continue
        outcome, line = check(folder, arguments.options.split(), arguments.interpret)
        print(f"{line}  [{extras(folder)}]", flush=True)
        counts[outcome] += 1
    maker.process.stdin.close()
    maker.process.wait()
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    sys.exit(counts["failed"] > 0)


if __name__ == "__main__":
    main()
