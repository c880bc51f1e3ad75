"""ONNX's own test runner (onnx.backend.test.BackendTest), unmodified, over the Python package's backend.

usage: python_backend.py [--every N] [--part K/N] [WORD...]      WORD: only cases whose names hold one of them

The node, simple and pytorch cases. Those that expected_failures.txt lists for compiled code are excluded by name. --every N
takes each Nth; --part K/N runs one of N parts, without it there are as many processes as CPUs, each with a part.
"""
import argparse
import os
import re
import sys
import unittest

from harness import JOBS, ROOT, SUMMARY, parallel, run

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
    from onnxc.backend import OnnxcBackend
    runner = BackendTest(OnnxcBackend, __name__)
    names = "|".join(map(re.escape, sorted(listed())))
    runner.exclude(f"^({names})_cpu$" if names else "^$")
    for test in sorted(flat(runner.test_suite), key=lambda t: t.id()):
        name = test.id().split(".")[-1]
        if name.endswith("_cpu") and "RealModel" not in test.id() and (not words or any(w in name for w in words)):
            yield test


def run_part(options):
    k, n = map(int, options.part.split("/"))
    tests = list(tests_of(options.words))[::options.every][k::n]
    with open(os.devnull, "w") as quiet:
        result = unittest.TextTestRunner(stream=quiet).run(unittest.TestSuite(tests))
    bad = result.failures + result.errors
    for test, why in bad:
        lines = [line for line in why.strip().splitlines() if line.strip()]
        print(f"FAIL python: {test.id().split('.')[-1]}: {' / '.join(lines[-3:])[:400]}")
    print(f"{result.testsRun - len(bad) - len(result.skipped)} passed, {len(bad)} failed, {len(result.skipped)} skipped")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--part")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    if options.part:
        return run_part(options)
    command = [sys.executable, "-W", "ignore", __file__, f"--every={options.every}", *options.words]
    total = [0, 0, 0]
    for ran in parallel(lambda k: run([*command, f"--part={k}/{JOBS}"], timeout=3000), range(JOBS)):
        found = SUMMARY.search(ran.out)
        print(SUMMARY.sub("", ran.out), end="")
        if not found:
            print(f"FAIL python: a process ended early: {ran.why()}")
        counts = map(int, found.groups()) if found else (0, 1, 0)
        total = [a + b for a, b in zip(total, counts)]
    print("{} passed, {} failed, {} skipped".format(*total))
    sys.exit(total[1] != 0)


if __name__ == "__main__":
    main()
