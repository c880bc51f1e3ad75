"""ONNX's own test runner (onnx.backend.test.BackendTest), unmodified, over the Python package's backend.

usage: python_backend.py [--every N] [WORD...]      WORD: only cases whose names hold one of them

The node, simple and pytorch cases. Those that expected_failures.txt lists for compiled code are excluded by name. --every N
takes each Nth.
"""
import argparse
import multiprocessing
import os
import re
import sys
import tempfile
import unittest
import warnings

from harness import JOBS, ROOT, split_summary

# The runner takes the length of each array in a sequence, which arrays without axes have not.
NOT_COMPARED = ["test_loop16_seq_none"]
sys.path.insert(0, os.path.join(ROOT, "bindings", "python"))


def listed():
    """Names of the cases that do not pass yet."""
    with open(os.path.join(ROOT, "test", "expected_failures.txt")) as lines:
        for line in lines:
            words = line.split()
            if words and not line.startswith("#") and {"all", "llvm"} & set(words[0].split(",")):
                kind, _, name = words[1].partition("/")
                if kind in ("node", "simple", "pytorch-converted", "pytorch-operator"):
                    yield name


def flat(suite):
    for test in suite:
        yield from flat(test) if isinstance(test, unittest.TestSuite) else [test]


def tests_of(words):
    from onnx.backend.test import BackendTest
    from onnxc import NotSupported
    from onnxc.backend import OnnxcBackend

    class Tested(OnnxcBackend):
        """An operator that the build reports as missing is not a failure, as for `onnxc test`."""

        @classmethod
        def prepare(cls, *args, **kwargs):
            try:
                return super().prepare(*args, **kwargs)
            except NotSupported as error:
                raise unittest.SkipTest(str(error)) from error

    runner = BackendTest(Tested, __name__)
    names = "|".join(map(re.escape, [*NOT_COMPARED, *sorted(listed())]))
    runner.exclude(f"^({names})_cpu$")
    for test in sorted(flat(runner.test_suite), key=lambda t: t.id()):
        name = test.id().split(".")[-1]
        if name.endswith("_cpu") and "RealModel" not in test.id() and (not words or any(w in name for w in words)):
            yield test


def run_part(tests, path):
    """Runs the tests; what fails, and the counts, go to a file."""
    with open(os.devnull, "w") as quiet, open(path, "w") as out:
        result = unittest.TextTestRunner(stream=quiet).run(unittest.TestSuite(tests))
        bad = result.failures + result.errors
        for test, why in bad:
            lines = [line for line in why.strip().splitlines() if line.strip()]
            print(f"FAIL python: {test.id().split('.')[-1]}: {' / '.join(lines[-3:])[:400]}", file=out)
        for test, why in result.skipped:
            if not why.startswith("matched exclude pattern"):
                print(f"skip python: {test.id().split('.')[-1]}: {why}", file=out)
        print(f"{result.testsRun - len(bad) - len(result.skipped)} passed, {len(bad)} failed, {len(result.skipped)} skipped",
              file=out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # the cases are full of infinities
    tests, total = list(tests_of(options.words))[::options.every], [0, 0, 0]
    fork = multiprocessing.get_context("fork")  # making the cases takes longer than many of them
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, str(k)) for k in range(JOBS)]
        processes = [fork.Process(target=run_part, args=(tests[k::JOBS], path)) for k, path in enumerate(paths)]
        for process in processes:
            process.start()
        for process, path in zip(processes, paths):
            process.join()
            text = open(path).read() if os.path.exists(path) else ""
            counts, said = split_summary(text)
            if said.strip():
                print(said.strip())
            if not counts:
                print(f"FAIL python: a process ended early with exit code {process.exitcode}")
            total = [a + b for a, b in zip(total, counts or (0, 1, 0))]
    print("{} passed, {} failed, {} skipped".format(*total))
    sys.exit(total[1] != 0)


if __name__ == "__main__":
    main()
