"""The stage gpu-ptx: kernels of the backend cases through NVRTC and, where CUDA's tools are installed, ptxas.

Each case is compiled for one of ARCHS, in turn, so that every architecture sees every family of operators; with the
argument `all` (gpu_ptx.py all) for each of them. --match and --from choose cases, by a pattern of their names and by number.
Without an NVRTC on the machine the one that test/requirements-nvrtc.txt
names is installed into build/nvrtc.
"""
import argparse
import json
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402
from harness import BUILD, ONNXC, ROOT, parallel, run, run_stage  # noqa: E402

ARCHS = ("75", "80", "89", "90", "90a", "100")
NVRTC = os.path.join(BUILD, "nvrtc")
PIECE = 120  # so many at a time: a long run shows where it is


def known_archs(*options):
    return [sm for sm in re.findall(r"\bsm_(\w+)", run([ONNXC, "--list-targets", *options]).out)]


def find_nvrtc(results):
    """(Options that name an NVRTC, those of ARCHS that it knows), or None where there is none and none can be installed."""
    options = []
    if not known_archs():
        options = [f"--nvrtc={NVRTC}"]
        if not os.path.isdir(NVRTC):
            wanted = os.path.join(ROOT, "test", "requirements-nvrtc.txt")
            run([sys.executable, "-m", "pip", "install", "-q", "--target", NVRTC, "-r", wanted], timeout=600)
    archs = [sm for sm in ARCHS if sm in known_archs(*options)]
    if archs:
        return options, archs
    results.skip("gpu-ptx", "there is no NVRTC and none can be installed")
    return None


def find_tool(name):
    return shutil.which(name) or shutil.which(f"/usr/local/cuda/bin/{name}")


def compile_case(case, sm, options, folder):
    """None when all is well, '' when the model needs what this build lacks, else what is wrong."""
    ptx = os.path.join(folder, f"{os.path.basename(case)}-{sm}.ptx")
    made = run([ONNXC, os.path.join(case, "model.onnx"), "--emit=ptx", f"--gpu-arch=sm_{sm}", "-o", ptx, *options], timeout=300)
    if made.code:
        return "" if made.code == 2 else made.why()
    ptxas = find_tool("ptxas")
    taken = ptxas and run([ptxas, f"-arch=sm_{sm}", ptx, "-o", os.devnull], timeout=300)
    os.remove(ptx)
    return taken.why() if taken and taken.code else None


def check_uses(results, case, sm, options):
    """Registers, stack and shared memory in the report are those that ptxas itself tells of the same kernels."""
    model = os.path.join(case, "model.onnx")
    options = [*options, "--fp=strict", f"--gpu-arch=sm_{sm}"]  # where kernels alone are those of objects
    made = run([ONNXC, "inspect", model, "--device=cuda", "--format=json", *options], timeout=300)
    code = {k["gpu"]["function"]: k["gpu"]["code"][0] for k in json.loads(made.out)["kernels"]}
    results.check(code and all(c["registers"] > 0 for c in code.values()), f"registers of {case}", str(code))
    if not find_tool("ptxas"):
        return
    with tempfile.TemporaryDirectory() as folder:
        ptx = os.path.join(folder, "model.ptx")
        run([ONNXC, model, "-o", ptx, *options], timeout=300)
        told = run([find_tool("ptxas"), "-v", f"-arch=sm_{sm}", ptx, "-o", os.devnull], timeout=300).err
    for name, c in code.items():
        wanted = re.search(rf"properties for {name}\n *(\d+) bytes stack.*\n.*Used (\d+) registers(?:.*?(\d+) bytes smem)?", told)
        found = c["stack_bytes"], c["registers"], c["shared_bytes"]
        results.check(wanted and tuple(int(n or 0) for n in wanted.groups()) == found, f"uses of {name}", f"{found}: {told}")


def gpu_ptx(results, everything=False, match="", first=0):
    """Kernels of the backend cases as PTX."""
    found = find_nvrtc(results)
    if not found:
        return
    options, archs = found
    cases = os.path.join(BUILD, "cases")
    folders = [os.path.join(cases, kind, name) for kind in sorted(os.listdir(cases)) if kind != "light"
               and os.path.isdir(os.path.join(cases, kind)) for name in sorted(os.listdir(os.path.join(cases, kind)))]
    folders = [folder for folder in folders if re.search(match, os.path.basename(folder))][first:]
    work = [(case, sm) for i, case in enumerate(folders) for sm in (archs if everything else [archs[i % len(archs)]])]
    for begin in range(0, len(work), PIECE):
        part = work[begin:begin + PIECE]
        with tempfile.TemporaryDirectory() as folder:
            answers = parallel(lambda w: compile_case(*w, options, folder), part)
        for (case, sm), why in zip(part, answers):
            if why == "":
                results.skipped += 1
            else:
                results.check(why is None, f"{os.path.basename(case)} for sm_{sm}", why)
        if everything:
            print(f"{begin + len(part)} of {len(work)}, {results.passed} passed, {results.failed} failed", flush=True)
    for case in ("test_softmax_axis_1", "test_layer_normalization_4d_axis1", "test_gemm_all_attributes", "test_conv_with_strides_padding"):
        for folder in [f for f in folders if os.path.basename(f) == case][:1]:
            check_uses(results, folder, archs[1], options)
    if not find_tool("ptxas"):
        results.skip("ptxas", "it is not installed: NVRTC alone took the kernels")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("which", nargs="?", choices=["all"])
    parser.add_argument("--match", default="")
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--jobs", type=int, default=harness.JOBS)
    asked = parser.parse_args()
    harness.JOBS = asked.jobs
    total = run_stage("gpu-ptx", lambda results: gpu_ptx(results, asked.which == "all", asked.match, asked.first))
    sys.exit(1 if total.failed else 0)
