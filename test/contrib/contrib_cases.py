"""Writes random cases of the operators that ONNX Runtime adds to the standard, as folders that `onnxc test` takes.

usage: contrib_cases.py OUT [OPERATOR...]       OUT/OPERATOR/K/...; with operators: only these, always anew; others stay
       --seed N    other cases than the test run's       --count N    so many for each operator

`skip OPERATOR: reason` where ONNX Runtime refuses what is drawn. In half of the cases some inputs are initializers.
"""
import argparse
import glob
import hashlib
import importlib
import os
import shutil
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "cases")]
import contrib_build  # noqa: E402
from case_files import Stamp, write_case  # noqa: E402

SHARED = ("contrib_build.py", "contrib_cases.py")


def scripts():
    return sorted(glob.glob(os.path.join(HERE, "*.py")))


def draw(domain, name, function, seed):
    """The first case of this seed that ONNX Runtime runs, with its answer; the last reason when it runs none."""
    for attempt in range(8):
        digest = hashlib.sha256(f"{domain}:{name}:{seed}:{attempt}".encode()).digest()
        case = function(np.random.default_rng(list(digest)))
        try:
            return case, [np.asarray(v) for v in contrib_build.answer(domain, name, case)], None
        except Exception as failed:  # whatever ONNX Runtime lacks
            reason = str(failed).splitlines()[0][:300]
    return None, None, reason


def write(out, domain, name, function, seeds):
    cases = os.path.join(out, f"{domain.replace('com.microsoft', 'ms')}.{name}".strip("."))
    shutil.rmtree(cases, ignore_errors=True)
    for seed in seeds:
        case, outputs, reason = draw(domain, name, function, seed)
        if case is None:
            print(f"skip {name}/{seed}: {reason}")
            continue
        model = contrib_build.make_model(domain, name, case, outputs, case.constants)
        inputs = [v for i, v in enumerate(case.inputs) if v is not None and i not in case.constants]
        write_case(os.path.join(cases, str(seed)), model, [(inputs, outputs)], rtol=case.rtol, atol=case.atol)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int)
    options = parser.parse_args()
    stamp = Stamp(options.out, *scripts())
    if stamp.fresh() and not options.operators:
        return
    for path in scripts():
        if os.path.basename(path) not in SHARED:
            importlib.import_module(os.path.basename(path)[:-3])
    unknown = set(options.operators) - {name for _, name in contrib_build.OPERATORS}
    if unknown:
        sys.exit(f"no cases of {', '.join(sorted(unknown))}")
    stamp.begin(empty=not options.operators)
    for (domain, name), (function, count) in contrib_build.OPERATORS.items():
        if not options.operators or name in options.operators:
            seeds = range(options.seed * 1000, options.seed * 1000 + (options.count or count))
            write(options.out, domain, name, function, seeds)
    if not options.operators:
        stamp.done()


if __name__ == "__main__":
    main()
