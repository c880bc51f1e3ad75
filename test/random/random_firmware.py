"""Random graphs on emulated microcontrollers, beside this machine.

usage: random_firmware.py [--networks | --edges] [--count N] [--seed S] [--cpus C,D...] [--options="..."]

With --fp=strict among the options, results have the same bits. Graphs that need a heap, strings, threads or more memory than
the boards have are skipped. What fails is kept in build/random-firmware/. Ends with "N passed, N failed, N skipped".
"""
import argparse
import os
import shutil
import subprocess
import sys
import warnings

import numpy as np
import onnx

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("bench", "", "cases")]
import firmware as bench  # noqa: E402  that of test/bench, before others add folders
import harness  # noqa: E402
import random_graphs  # noqa: E402
import random_build  # noqa: E402
import random_nodes  # noqa: E402
from random_build import Graph  # noqa: E402
from random_edges import random_bits  # noqa: E402
from random_networks import random_network  # noqa: E402

OUT = os.path.join(harness.BUILD, "random-firmware")
HOSTED = ("strings", "sequence", "split_to_sequence", "sequence_in_loop", "sequence_map", "optional", "sized_by_data", "picked_by_data")
PRINTED = (1, 2, 3, 5, 6, 7, 9, 11)  # element types whose values the programs print
# What a bare machine cannot do, in words of onnxc and the linker.
BEYOND = ("workspace", "heap", "run-time library", "overflowed", "will not fit", "needs memory", "allocat", "known only at run time", "not supported",
          "_BYTES", "depends on data", "--shape", "is not in this build", "runtime library", "failed 5")  # 5: the size of an output


class Arguments:
    def __init__(self, options):
        self.onnxc, self.options = harness.ONNXC, options


def random_fixed(seed, index, why=None):
    """A graph without sizes of the run, of types that the programs print."""
    dice = random_build.new_dice(seed, index)
    floats = dice.choice([("float32",)] * 3 + [("float32", "float64")])
    g = Graph(dice, dice.choice((9, 11, 13, 15, 17, 19, 21, 23)), floats)
    for _ in range(dice.randint(1, 2)):
        random_graphs.start_input(g)
    random_nodes.add_nodes(g, dice.choice((3, 6, 10, 16)), why)
    return g


def printable(folder):
    """Whether all inputs and outputs are of such types."""
    graph = onnx.load(os.path.join(folder, "model.onnx")).graph
    return all(v.type.tensor_type.elem_type in PRINTED for v in (*graph.input, *graph.output))


def differ(got, want, options):
    if "strict" in options:
        return not np.array_equal(got, want, equal_nan=True)
    with np.errstate(all="ignore"):
        return not np.allclose(got, want, 1e-3, 1e-4, equal_nan=True)


def runtime_for(cpu):
    """The run-time library for a CPU, where its compiler is installed."""
    if cpu in bench.firmware_riscv.CPUS:
        return ""
    folder = os.path.join(harness.BUILD, "random-targets", cpu)
    library = os.path.join(folder, "libonnxc-rt.a")
    if not os.path.exists(library):
        flags = " ".join(bench.for_gcc(bench.CPUS[cpu][1]))
        bench.run("make", "-s", "-C", harness.ROOT, "runtime", f"B={folder}", f"CC=arm-none-eabi-gcc {flags} -mthumb", "AR=arm-none-eabi-ar")
    return f" --runtime={library}"


def run_case(folder, cpu, options):
    """(verdict, message)"""
    work = os.path.join(folder, cpu)
    os.makedirs(work, exist_ok=True)
    model = os.path.join(folder, "model.onnx")
    try:
        host = ("--fp=strict", "--mcpu=x86-64") if "strict" in options else ("--interpret",)
        case = bench.Case(harness.ONNXC, model, folder, work, host)
        measure = bench.firmware_riscv.measure if cpu in bench.firmware_riscv.CPUS else bench.measure
        got = measure(bench.Onnxc(Arguments(options + runtime_for(cpu)), cpu, case, work), cpu, case.sizes, work)[4]
    except (RuntimeError, subprocess.SubprocessError, KeyError, TypeError) as why:
        text = str(why)
        return ("skip" if any(word in text for word in BEYOND) else "FAIL"), text[-400:]
    bad = [k for k, (a, b) in enumerate(zip(got, case.want)) if a.shape != b.shape or differ(a, b, options)]
    if not bad:
        return "pass", ""
    a, b = got[bad[0]], case.want[bad[0]]
    at = np.flatnonzero(~np.isclose(a, b, 1e-3 if "strict" not in options else 0, 0, equal_nan=True))[:3]
    return "FAIL", f"output {bad[0]}: elements {at} of {a.size}: {a[at]}, not {b[at]}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", type=int, default=10)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--cpus", default="cortex-m0plus,cortex-m4,cortex-m55,rv32imac")
    p.add_argument("--options", default="-O2")
    p.add_argument("--networks", action="store_true")
    p.add_argument("--edges", action="store_true")
    p.add_argument("-v", "--verbose", action="store_true", help="why cases are skipped")
    o = p.parse_args()
    make = random_network if o.networks else random_bits if o.edges else random_fixed
    random_build.RUN_TIME = 0
    for name in HOSTED:
        del random_nodes.KINDS[name]
    warnings.simplefilter("ignore")
    Graph.plain = True
    shutil.rmtree(OUT, ignore_errors=True)
    counts = {"pass": 0, "FAIL": 0, "skip": 0}
    for index in range(o.count):
        folder = os.path.join(OUT, f"{o.seed}-{index}")
        os.makedirs(OUT, exist_ok=True)
        random_graphs.make_apart((make, o.seed, index, folder))
        if not os.path.exists(folder) or not printable(folder):
            counts["skip"] += 1
            if o.verbose:
                print(f"skip {o.seed}-{index}: not printable", flush=True)
            continue
        kept = False
        for cpu in o.cpus.split(","):
            verdict, message = run_case(folder, cpu, o.options)
            counts[verdict] += 1
            if verdict == "skip" and o.verbose:
                print(f"{cpu}: skip {os.path.basename(folder)}: {message}", flush=True)
            kept |= verdict == "FAIL"
            if verdict == "FAIL":
                print(f"{cpu}: FAIL {os.path.basename(folder)}: {message}", flush=True)
        if not kept:
            shutil.rmtree(folder)
    print(f"{counts['pass']} passed, {counts['FAIL']} failed, {counts['skip']} skipped")
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
