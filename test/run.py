"""The stages of the test run. usage: run.py [STAGE...], after test/run.sh has built and installed everything.

Prints what fails, a line for each stage, and at the end "N passed, N failed, N skipped". The stages that walk over all cases
in pieces may be told where to begin, in which forms, and how many to run at once:
run.py gpu-long --from=1400 --forms=cuda-shim --jobs=1
"""
import argparse
import functools
import glob
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

import foreign as other_processors
import macos as macs
import riscv as risc_v
import windows as other_systems
import harness
import objects
import small_ints as integers
import web as web_stage
from harness import BUILD, JOBS, ONNXC, ROOT, Results, generate, make, parallel, run, run_cases, run_stage, sample
sys.path[:0] = [os.path.join(ROOT, "test", room) for room in ("bench", "cases", "gpu", "hostile", "llm")]
import bad_commands  # noqa: E402
import bad_input  # noqa: E402
import bad_models  # noqa: E402
import bad_text  # noqa: E402
import bad_values  # noqa: E402
import gpu_engines  # noqa: E402
import gpu_ptx  # noqa: E402
import speaker  # noqa: E402

TEST = os.path.join(ROOT, "test")
MODELS = os.path.join(os.path.dirname(ROOT), "shared", "models")
LIGHT = os.path.join(BUILD, "cases", "light")

# name in expected_failures.txt: options of `onnxc test`
FORMS = {
    "interpret": ["--interpret"],
    "interpret-symbolic": ["--interpret", "--form", "symbolic"],
    "interpret-constant": ["--interpret", "--form", "constant"],
    "interpret-kept": ["--interpret", "--form", "kept"],
    "llvm": [],
    "llvm-symbolic": ["--form", "symbolic"],
    "llvm-constant": ["--form", "constant"],
    "llvm-kept": ["--form", "kept"],
    "c99": ["--emit", "c"],
    "c99-symbolic": ["--emit", "c", "--form", "symbolic"],
}

# The folder of the shim, with its code compiled.
SHIM = os.path.join(BUILD, "shim")

GPU_FORMS = {
    "gpu": ["--interpret=gpu"],
    "gpu-symbolic": ["--interpret=gpu", "--form", "symbolic"],
    "cuda-shim": ["--cuda-shim", SHIM],
}

# On a GPU: the cases, options of `onnxc test`; of the last the tool of compute-sanitizer.
CUDA_FORMS = {
    "cuda-sample": ("sample", []),
    "cuda-ptx": ("sample", ["--gpu-arch=sm_75"]),
    "cuda": ("all", []),
    "cuda-symbolic": ("all", ["--form", "symbolic"]),
    "cuda-light": ("light", []),
    "memcheck": ("sample", None),
    "racecheck": ("sample", None),
    "synccheck": ("sample", None),
}
CUDA_LIMIT = 540

# Compiled host code, with stand-ins for NVRTC and the driver.
DOUBLES = os.path.join(BUILD, "release", "doubles")
GPU_HOST_FORMS = {
    "gpu-host": ["--device=cuda", "--nvrtc", DOUBLES],
    "gpu-host-symbolic": ["--device=cuda", "--nvrtc", DOUBLES, "--form", "symbolic"],
}

DEFAULT_FORMS = ("interpret", "interpret-symbolic", "interpret-constant", "interpret-kept", "llvm")
SAMPLED_FORMS = ("llvm-symbolic", "llvm-constant", "llvm-kept", "c99", "c99-symbolic")
FORM_TIMEOUT = 60  # the C compiler takes its time for a model with many symbols


def unit(results):
    """The cmocka programs, as built for release."""
    unit_programs(results, "release")


def sanitizers(results):
    """The cmocka programs and onnxc itself over half the single nodes and all other cases, built with the address and undefined-behaviour sanitizers."""
    if not unit_programs(results, "san"):
        return
    checked = os.path.join(BUILD, "san", "onnxc")
    small, needle = small_cases(results), needle_folders(results)
    few = [folder for folder in small if os.path.basename(folder) != "node"]
    nodes = sorted(glob.glob(os.path.join(BUILD, "cases", "node", "*")))
    env = {**os.environ, "ASAN_OPTIONS": harness.ASAN_LEAN}
    run_cases(results, "interpret", FORMS["interpret"], sample(nodes, 2) + few + needle, timeout=120, program=checked, env=env)
    run_cases(results, "llvm", FORMS["llvm"], few + needle, timeout=120, program=checked, env=env)


def unit_programs(results, mode):
    made = make(f"MODE={mode}", "all", "unit")
    if not results.check(made.code == 0, f"make MODE={mode} all unit", made.why()):
        return False
    sources = glob.glob(os.path.join(TEST, "unit", "*.c"))  # those for GPUs take longest: they go first
    names = sorted((os.path.basename(source)[:-2] for source in sources), key=lambda name: (not name.startswith("gpu"), name))
    env = {**os.environ, "ASAN_OPTIONS": harness.ASAN}
    every = parallel(lambda name: run([os.path.join(BUILD, mode, "unit", name)], timeout=600, env=env), names)
    for name, ran in zip(names, every):
        passed = re.search(r"\[  PASSED  \] (\d+) test", ran.text)
        failed = re.findall(r"\[  FAILED  \] (?!\d+ test)(\S+)", ran.text)
        results.ok(int(passed[1]) if passed else 0)
        for test in sorted(set(failed)):
            results.fail(f"{mode} {name} {test}", "\n".join(re.findall(r".*error.*|.*Error.*", ran.text)))
        if not failed and (ran.code != 0 or not passed):
            results.fail(f"{mode} {name}", ran.why())
    return True


def own_program(results, script, *arguments, limit=900):
    """A test program of its own, with its counts in its last line."""
    ran = run(["sh" if script.endswith(".sh") else sys.executable, os.path.join(TEST, script), *arguments], timeout=limit, cwd=ROOT)
    counts, text = harness.split_summary(ran.out)
    if not counts or (ran.code != 0 and not counts[1]):
        return results.fail(script, ran.why())
    if text.strip():
        print(text.strip(), flush=True)
    results.add(*counts)


def cli(results):
    """The command line's golden tests."""
    own_program(results, "run_cli.py", ONNXC)


def pass_table(results):
    """Every pass by its name: printed, and left out."""
    own_program(results, "pass_table.py", ONNXC)


def round_trip(case):
    """What is wrong when a case's program becomes text and a program again, before and after its passes; "": nothing;
    None: this build cannot compile it."""
    with tempfile.TemporaryDirectory() as folder:
        def make(source, name, *options):
            path = os.path.join(folder, name + ".kernels")
            ran = run([ONNXC, source, "--name", "m", *options, "-o", path])
            if ran.code != 0:
                raise LookupError(ran.why()) if ran.code == 2 else ValueError(ran.why())
            return path

        def text(path):
            with open(path, encoding="utf-8", errors="replace") as f:
                return f.read()

        model = os.path.join(case, "model.onnx")
        try:
            lowered = make(model, "lowered", "--passes=")
            ended = make(lowered, "ended")
            pairs = ((lowered, make(lowered, "lowered-again", "--passes=")), (ended, make(ended, "ended-again", "--passes=")),
                     (ended, make(model, "direct")))
        except LookupError:  # it needs what this build lacks
            return None
        except ValueError as failed:
            return str(failed)
        return "; ".join(f"{os.path.basename(a)} is not {os.path.basename(b)}" for a, b in pairs if text(a) != text(b))


def passes(results):
    """Passes that run alone on a text, and programs that are read back from theirs: one case of each operator."""
    own_program(results, "run_cli.py", ONNXC, *sorted(glob.glob(os.path.join(TEST, "passes", "*.test"))))
    cases = os.path.join(BUILD, "cases")
    if generate(results, "cases/backend_cases.py", cases):
        some = families(os.path.join(cases, "node"), 1)
        for case, wrong in zip(some, parallel(round_trip, some)):
            if wrong is not None:
                results.check(not wrong, os.path.basename(case), wrong)


def install(results):
    """The installed tree, as users' makefiles and CMake see it."""
    own_program(results, "install.sh", os.path.dirname(ONNXC))


def users(results):
    """Users' tasks, from an installed package, with the output that docs/ shows."""
    own_program(results, "users.py", os.path.dirname(ONNXC))


def cpp(results):
    """The C++ wrapper, with g++ and clang++, with and without exceptions."""
    own_program(results, "cpp.sh", os.path.dirname(ONNXC))


def rust(results):
    """The Rust crates, with Debian's cargo."""
    own_program(results, "rust.sh", os.path.dirname(ONNXC))


def recipes(results):
    """Recipes of package managers and build systems: their form, and the versions in them."""
    own_program(results, "recipes.py")


def packages(results):
    """What make dist and make deb make, installed in bare root folders."""
    for part in ("dist", "deb"):
        own_program(results, "packages.sh", part, limit=3600)


def style(results):
    """House rules that a program can check."""
    own_program(results, "check_style.py")


def overlap(results):
    """Networks for bare machines, whose results lie in the memory of operands."""
    own_program(results, "overlap.py", ONNXC)


def stack(results):
    """What headers say of the stack, and what emulated processors take of it."""
    own_program(results, "stack.py", ONNXC)


def firmware(results):
    """Quantised kernels on emulated microcontrollers: their results, and the instructions they take."""
    own_program(results, "firmware.py", ONNXC)


def names(results):
    """A model with names of hundreds of characters."""
    own_program(results, "names.py", ONNXC)


def real_time(results):
    """Runs that are called safe in real-time threads: one case of each operator, watched."""
    cases = os.path.join(BUILD, "cases")
    if generate(results, "cases/backend_cases.py", cases):
        own_program(results, "realtime/real_time.py", ONNXC, *families(os.path.join(cases, "node"), 1))


def sizes(results):
    """Models compiled for several sizes of their dimensions."""
    own_program(results, "sizes.py", ONNXC)


def page(results):
    """The HTML report in a browser."""
    own_program(results, "page.py", ONNXC)


def growth(results):
    """The time and memory of passes for models of n and 2n nodes."""
    own_program(results, "growth.py", ONNXC)


def proofs(results):
    """Time to the first answer, memory and size of compiled models."""
    own_program(results, "proofs.py", ONNXC)


def formats(results):
    """Models as text: the same objects as from binary files."""
    generate(results, "cases/backend_cases.py", os.path.join(BUILD, "cases"))
    models = sorted(glob.glob(os.path.join(BUILD, "cases", "*", "*", "model.onnx")))[::100]
    own_program(results, "cases/format_cases.py", ONNXC, os.path.join(ROOT, "samples", "digits", "digits.onnx"), *models)


def written(results):
    """Models that onnxc writes as ONNX: the checker, ONNX Runtime, and what onnx and onnxc read of texts."""
    generate(results, "cases/backend_cases.py", os.path.join(BUILD, "cases"))
    generate(results, "cases/exported_cases.py", os.path.join(BUILD, "cases-exported"))
    generate(results, "cases/found_cases.py", os.path.join(BUILD, "cases-found"))
    models = [*sorted(glob.glob(os.path.join(BUILD, "cases", "node", "*")))[::15], *glob.glob(os.path.join(BUILD, "cases-found", "branch*_1*")),
              *glob.glob(os.path.join(BUILD, "cases-found", "written*")),
              *sorted(glob.glob(os.path.join(BUILD, "cases-exported", "*")))[::6], *sorted(glob.glob(os.path.join(MODELS, "*", "")))]
    own_program(results, "cases/written_cases.py", ONNXC, *[m for m in models if os.path.exists(os.path.join(m, "model.onnx"))])


def quantize(results):
    """onnxc quantize: every form and method, and ONNX Runtime on what comes out."""
    own_program(results, "quantize.py", ONNXC)


def docs(results):
    """The examples of the documentation, docs/operators.md, and that docs/testing.md tells of every stage."""
    with open(os.path.join(ROOT, "docs", "testing.md"), encoding="utf-8") as page:
        rows = re.findall(r"^\| ([a-z-]+(?:, [a-z-]+)*) \|", page.read(), re.MULTILINE)
    missing = {*STAGES, *MORE_STAGES} - {name for row in rows for name in row.split(", ")}
    results.check(not missing, "docs/testing.md", f"stages without a row: {', '.join(sorted(missing))}")
    made = make("build/release/unit/math")
    if results.check(made.code == 0, "make unit/math", made.why()):
        own_program(results, "run_docs.py", ONNXC)


def streams(results):
    """Models run sample by sample against the whole signal, to the bit."""
    own_program(results, "streams.py")


def patches(results):
    """Kernels that run a few rows at a time against whole images."""
    own_program(results, "patches.py")


def python(results):
    """The Python package: its own tests, and ONNX's test runner over its backend."""
    own_program(results, "python_session.py")
    own_program(results, "python_ort.py")
    own_program(results, "python_install.py")
    own_program(results, "python_backend.py", "--every", "10")


def wheel(results):
    """The wheel for other systems, built and installed."""
    made = make("wheel")
    if results.check(made.code == 0, "make wheel", made.why()):
        own_program(results, "python_install.py", made.out.strip().splitlines()[-1])


def python_long(results):
    """All cases of ONNX's test runner."""
    own_program(results, "python_backend.py")


def small_cases(results):
    """The folders of ONNX's own cases but for the light models, which are too large for most forms."""
    cases = os.path.join(BUILD, "cases")
    if not generate(results, "cases/backend_cases.py", cases):
        return []
    return sorted(f for f in glob.glob(os.path.join(cases, "*")) if os.path.isdir(f) and f != LIGHT)


def backend(results):
    """ONNX's own 2,033 cases, interpreted and compiled; how many of them pass is printed."""
    small = small_cases(results)
    passed = {form: run_cases(results, form, FORMS[form], small) for form in DEFAULT_FORMS if small}
    run_cases(results, "interpret", FORMS["interpret"], [LIGHT], timeout=120)
    compiled = passed.get("llvm", 0) + run_cases(results, "llvm", [], [LIGHT], timeout=120)
    total = len(glob.glob(os.path.join(BUILD, "cases", "*", "*", "model.onnx")))
    before = results.passed
    own_program(results, "cases/judged.py", os.path.join(BUILD, "cases"))
    print(f"of ONNX's {total} backend cases {compiled} pass compiled, {results.passed - before} more by another judge", flush=True)


def forms(results):
    """The same cases in the forms of which the stage `backend` runs a sample: compiled with symbolic sizes, as C99."""
    small = small_cases(results)
    for form in SAMPLED_FORMS:
        if small:
            run_cases(results, form, FORMS[form], small, timeout=FORM_TIMEOUT)


def forms_sample(results):
    """One case of each operator in those forms."""
    cases = os.path.join(BUILD, "cases")
    for form in SAMPLED_FORMS if generate(results, "cases/backend_cases.py", cases) else ():
        run_cases(results, form, FORMS[form], families(os.path.join(cases, "node"), 1), timeout=FORM_TIMEOUT)


def headers(results):
    """Headers, and the C of a case of each operator, without warnings."""
    objects.headers(results)
    cases = os.path.join(BUILD, "cases")
    if generate(results, "cases/backend_cases.py", cases):
        objects.sources(results, families(os.path.join(cases, "node"), 1))


def families(folder, most):
    """Of the cases of each operator, told by the first word of their names, at most so many, spread evenly."""
    found = {}
    for case in sorted(os.listdir(folder)):
        found.setdefault(re.match(r"test_([a-z]+)|", case)[1], []).append(os.path.join(folder, case))
    return [cases[i * len(cases) // n] for cases in found.values() for n in [min(most, len(cases))] for i in range(n)]


def build_shim(results):
    os.makedirs(SHIM, exist_ok=True)
    shutil.copy(os.path.join(TEST, "shim", "cuda_shim.h"), SHIM)
    code, made = os.path.join(TEST, "shim", "cuda_shim.c"), os.path.join(SHIM, "cuda_shim.o")
    ran = run(["c++", "-std=c++17", "-O1", "-ffp-contract=off", "-fPIC", "-x", "c++", "-c", code, "-o", made])
    return results.check(ran.code == 0, "the shim compiles", ran.why())


def gpu_shim(results):
    """Some cases of each operator as GPU kernels: interpreted with races and wrong accesses as errors, and as CUDA text on
    the CPU."""
    cases = os.path.join(BUILD, "cases")
    if generate(results, "cases/backend_cases.py", cases):
        run_cases(results, "gpu", GPU_FORMS["gpu"], families(os.path.join(cases, "node"), 2), timeout=120)
        if build_shim(results):
            run_cases(results, "cuda-shim", GPU_FORMS["cuda-shim"], families(os.path.join(cases, "node"), 1), timeout=120)


def gpu_long(results, first=0, forms=None):
    """All backend cases as GPU kernels, in every form."""
    small = small_cases(results)
    for form in forms or GPU_FORMS if small and build_shim(results) else ():
        for cases in pieces(small, first):
            run_cases(results, form, GPU_FORMS[form], cases, timeout=300)


def pieces(folders, first=0, size=200):
    """The cases of these folders, so many at a time: a long run shows where it is, and none takes too long."""
    cases = sorted(os.path.dirname(model) for folder in folders for model in glob.glob(os.path.join(folder, "*", "model.onnx")))
    for begin in range(first, len(cases), size):
        yield cases[begin:begin + size]
        print(f"{min(begin + size, len(cases))} of {len(cases)} cases", flush=True)


def gpu_host_cases(results, form, folders):
    made = make("doubles")
    if results.check(made.code == 0, "make doubles", made.why()):
        run_cases(results, form, GPU_HOST_FORMS[form], folders, timeout=180, env={**os.environ, "LD_LIBRARY_PATH": DOUBLES})
    return made.code == 0


def gpu_host(results):
    """Host code that launches GPU kernels, on stand-ins for NVRTC and the driver: one case of every other operator; contexts,
    failures, memory."""
    cases = os.path.join(BUILD, "cases")
    if generate(results, "cases/backend_cases.py", cases):
        if gpu_host_cases(results, "gpu-host", sample(families(os.path.join(cases, "node"), 1), 2)):
            own_program(results, "gpu/gpu_host.py")
            own_program(results, "gpu/gpu_driver.py")


def gpu_host_long(results, first=0, forms=None):
    """All backend cases that way, also with symbolic sizes."""
    small = small_cases(results)
    for form in forms or GPU_HOST_FORMS:
        for cases in pieces(small, first):
            gpu_host_cases(results, form, cases)


def needle_folders(results):
    cases = os.path.join(BUILD, "cases-needles")
    return [cases] if generate(results, "cases/needle_cases.py", cases) else []


def needles(results):
    """Loops of many turns and sizes that the run decides."""
    for form in ("interpret", "llvm", "c99"):
        run_cases(results, form, FORMS[form], needle_folders(results))


def light(results):
    """The light models' graphs with random weights, which show what constant weights hide, against ONNX Runtime."""
    cases = os.path.join(BUILD, "cases-light")
    if generate(results, "cases/light_cases.py", LIGHT, cases):
        run_cases(results, "llvm", [], [cases], timeout=120)


def large(results):
    """Pieces of networks in sizes that networks have, against ONNX Runtime."""
    cases = os.path.join(BUILD, "cases-large")
    all_of, even, odd = (1, 0), (2, 0), (2, 1)  # every so many from one on
    forms = {"llvm": ([], all_of), "v2": (["--mcpu=x86-64-v2"], even), "v3": (["--mcpu=x86-64-v3"], odd),
             "threads": (["--threads", "2"], even), "symbolic": (["--form", "symbolic"], all_of), "c99": (["--emit", "c"], odd),
             "compact": (["--multiversion=x86-64-v2"], odd), "compact symbolic": (["--multiversion=x86-64-v2", "--form", "symbolic"], even)}
    if generate(results, "cases/large_cases.py", cases):
        folders = sorted(os.path.dirname(model) for model in glob.glob(os.path.join(cases, "*", "model.onnx")))
        for form, (options, which) in forms.items():
            run_cases(results, form, options, sample(folders, *which), timeout=120)


def foreign(results):
    """One case of each operator on AArch64, on two of the other processors each; the large pieces on the first."""
    cases, pieces = (os.path.join(BUILD, n) for n in ("cases", "cases-large"))
    if generate(results, "cases/backend_cases.py", cases) and generate(results, "cases/large_cases.py", pieces):
        other_processors.foreign(results, families(os.path.join(cases, "node"), 1), pieces)


def small_ints(results):
    """Emitted C on a processor of 8 bits."""
    cases = os.path.join(BUILD, "cases")
    if generate(results, "cases/backend_cases.py", cases):
        integers.small_ints(results, os.path.join(cases, "node"))


def web(results):
    """Models in Node.js and in a browser: of ONNX's node cases two of each operator, and all others."""
    cases = os.path.join(BUILD, "cases")
    if generate(results, "cases/backend_cases.py", cases):
        node = os.path.join(cases, "node")
        web_stage.web(results, families(node, 2) + [case for case in web_stage.all_cases() if os.path.dirname(case) != node])


def web_long(results):
    """All of ONNX's cases in Node.js."""
    if generate(results, "cases/backend_cases.py", os.path.join(BUILD, "cases")):
        web_stage.official_cases(results, web_stage.all_cases())


def windows(results):
    """One case of each operator on Windows, and its libraries."""
    cases, pieces = (os.path.join(BUILD, n) for n in ("cases", "cases-large"))
    if generate(results, "cases/backend_cases.py", cases) and generate(results, "cases/large_cases.py", pieces):
        other_systems.windows(results, families(os.path.join(cases, "node"), 1), pieces)


def versions(results):
    """Every operator version, against the reference evaluator."""
    cases = os.path.join(BUILD, "cases-versions")
    if not generate(results, "cases/version_cases.py", cases):
        return
    supported = {line.split()[0].rsplit(".", 1)[-1] for line in run([ONNXC, "--list-ops"]).out.splitlines() if line.strip()}
    folders = []
    for operator in sorted(os.listdir(cases)):
        folder = os.path.join(cases, operator)
        if operator in supported:
            folders.append(folder)
        elif os.path.isdir(folder):
            results.skip(f"{operator} ({len(os.listdir(folder))} cases)", "the operator is not in this build")
    if results.check(folders, "onnxc --list-ops", "no operator of the cases is listed"):
        run_cases(results, "interpret", FORMS["interpret"], folders)
        run_cases(results, "llvm", FORMS["llvm"], folders)


def types(results):
    """Every type that an operator version allows, of each of its type variables."""
    folder = os.path.join(BUILD, "cases-types")
    if generate(results, "cases/type_cases.py", folder):
        newest = os.path.join(folder, "newest")
        rare = sorted(glob.glob(os.path.join(newest, "*", "*string*")) + glob.glob(os.path.join(newest, "*", "*complex*")))
        run_cases(results, "interpret", FORMS["interpret"], [folder])
        run_cases(results, "llvm", FORMS["llvm"], sample(sorted(glob.glob(os.path.join(newest, "*", "*"))), 2))
        run_cases(results, "c99", FORMS["c99"], sample(rare, 4))


def options(results):
    """Options of operators that ONNX's own cases leave out, functions, maps, spectra, and gradients."""
    for script, folder in (("cases/option_cases.py", "cases-options"), ("cases/function_cases.py", "cases-functions"),
                           ("cases/map_cases.py", "cases-maps"), ("cases/spectrum_cases.py", "cases-spectra"),
                           ("cases/gradient_cases.py", "cases-gradients")):
        cases = os.path.join(BUILD, folder)
        if generate(results, script, cases):
            every = sorted(glob.glob(os.path.join(cases, "**", "model.onnx"), recursive=True))
            for form, step in (("interpret", 1), ("llvm", 2), ("llvm-symbolic", 3), ("c99", 12)):
                run_cases(results, form, FORMS[form], [os.path.dirname(model) for model in sample(every, step)])


def contrib(results):
    """Random cases of the operators that ONNX Runtime adds to the standard, against ONNX Runtime."""
    folder = os.path.join(BUILD, "cases-contrib")
    if generate(results, "contrib/contrib_cases.py", folder):
        cases = sorted(glob.glob(os.path.join(folder, "*", "*")))
        for form, step in (("interpret", 1), ("llvm", 3), ("llvm-symbolic", 10), ("c99", 40)):
            run_cases(results, form, FORMS[form], sample(cases, step))


def contrib_symbolic(results):
    """The same cases, all of them with symbolic sizes."""
    folder = os.path.join(BUILD, "cases-contrib")
    if generate(results, "contrib/contrib_cases.py", folder):
        run_cases(results, "llvm-symbolic", FORMS["llvm-symbolic"], [folder])


def random(results):
    """Models that once went wrong, and random ones."""
    cases = os.path.join(BUILD, "cases-found")
    if generate(results, "cases/found_cases.py", cases):
        for form in ("interpret", "llvm", "c99", "interpret-symbolic", "llvm-symbolic"):
            run_cases(results, form, FORMS[form], [cases])
    own_program(results, "random/random_graphs.py", "--count", "40", "--seed", "1")
    own_program(results, "random/random_graphs.py", "--edges", "--count", "12", "--seed", "3", "--forms", "interpret,llvm", "--room", "random-edges")
    own_program(results, "random/random_graphs.py", "--networks", "--count", "14", "--seed", "8", "--forms", "symbolic+threads3",
                "--room", "random-networks")
    own_program(results, "random/random_states.py", "--count", "20", "--seed", "2")


def exported(results):
    """Small networks as torch's exporters wrote them, against ONNX Runtime."""
    cases = os.path.join(BUILD, "cases-exported")
    if generate(results, "cases/exported_cases.py", cases):
        for form in ("interpret", "llvm"):
            run_cases(results, form, FORMS[form], [cases], timeout=120)


def tools(results):
    """Small models as ONNX Runtime's optimisers, quantisers and builders write them, against ONNX Runtime."""
    cases = os.path.join(BUILD, "cases-tools")
    if generate(results, "ort_tools/stand_ins.py", cases):
        for form in ("interpret", "llvm"):
            run_cases(results, form, FORMS[form], [cases], timeout=120)


def decoders(results):
    """Language models as exporters write them, token by token against ONNX Runtime."""
    own_program(results, "decoders/stored.py")


def models(results):
    """Models of real exporters, when they lie beside the repository."""
    if not os.path.isdir(MODELS):
        return results.skip("models", f"{MODELS} is not there")
    for form in ("interpret", "llvm", "c99"):
        run_cases(results, form, FORMS[form], [MODELS], timeout=60)


def sanitized(results, tool, nvrtc, cases):
    """Runs under compute-sanitizer, which looks at the process that it starts only."""
    checker = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if not checker:
        return results.skip(tool, "compute-sanitizer is not installed")

    def check(case):
        data = os.path.join(case, "test_data_set_0")
        return run([checker, "--tool", tool, "--error-exitcode=9", ONNXC, "run", os.path.join(case, "model.onnx"), "--device=cuda", *nvrtc,
                    "--input-dir", data, "--compare", data], timeout=300)

    for case, ran in zip(cases, parallel(check, cases)):
        name, seen = f"{tool} {os.path.basename(case)}", re.search(r"SUMMARY: (\d+) (error|hazard)", ran.text)
        if ran.code in (9, None) or (seen and seen[1] != "0"):
            results.fail(name, ran.why())
        elif seen:
            results.ok()
        else:
            results.skip(name, ran.text.strip().splitlines()[-1] if ran.text.strip() else f"exit code {ran.code}")
    return None


def no_gpu():
    """Why, or None."""
    ran = run([sys.executable, "-c", "import ctypes; c, n = ctypes.CDLL('libcuda.so.1'), ctypes.c_int(); "
               "e = c.cuInit(0) or c.cuDeviceGetCount(ctypes.byref(n)); exit(f'the driver starts with error {e}' if e else not n.value)"])
    return None if ran.code == 0 else "there is no GPU: " + (ran.err.strip().splitlines() or ["the driver has none"])[-1]


def cuda_cases(results):
    """{which: case folders}; empty: they could not be written."""
    folders = {"all": small_cases(results), "light": [LIGHT]}
    if not folders["all"]:
        return {}
    found = {which: sorted(os.path.dirname(model) for f in all_of for model in glob.glob(os.path.join(f, "*", "model.onnx")))
             for which, all_of in folders.items()}
    return {**found, "sample": families(os.path.join(BUILD, "cases", "node"), 1)}


def cuda(results, first=0, forms=None, limit=CUDA_LIMIT, nvrtc=None):
    """Cases on this machine's GPU, in pieces, so that what is known so far has been printed when the time is over."""
    why, (found, where) = no_gpu(), gpu_engines.find_nvrtc(ONNXC, nvrtc)
    if why or not found:
        return results.skip("cuda", why or "there is no NVRTC: --nvrtc PATH")
    cases, end, nvrtc = cuda_cases(results), time.monotonic() + limit, ["--nvrtc", where] if where else []
    for form in forms or CUDA_FORMS if cases else ():
        which, options = CUDA_FORMS[form]
        for begin in range(first, len(cases[which]), 100):
            some, rest = cases[which][begin:begin + 100], end - time.monotonic()
            if rest < 1:
                results.skip(form, f"after {limit} s the cases from {begin} on are left: --forms={form} --from={begin}")
                break
            if options is None:
                sanitized(results, form, nvrtc, some)
            else:
                run_cases(results, form, ["--device=cuda", *nvrtc, *options], some, timeout=120)
            print(f"{form}: {begin + len(some)} of {len(cases[which])} cases; {results.passed} passed, {results.failed} failed so far", flush=True)
    return None


STAGES = {
    "style": style,
    "unit": unit,
    "cli": cli,
    "passes": passes,
    "pass-table": pass_table,
    "docs": docs,
    "backend": backend,
    "forms-sample": forms_sample,
    "needles": needles,
    "versions": versions,
    "light": light,
    "large": large,
    "exported": exported,
    "tools": tools,
    "models": models,
    "random": random,
    "foreign": foreign,
    "small-ints": small_ints,
    "riscv": risc_v.riscv,
    "web": web,
    "windows": windows,
    "macos": macs.macos,
    "digits": objects.digits,
    "training": objects.training,
    "speaker": speaker.speaker,
    "decoders": decoders,
    "streams": streams,
    "patches": patches,
    "symbols": objects.symbols,
    "tiles": objects.tiles,
    "same-bytes": objects.same_bytes,
    "headers": headers,
    "formats": formats,
    "written": written,
    "quantize": quantize,
    "sizes": sizes,
    "stack": stack,
    "firmware": firmware,
    "overlap": overlap,
    "names": names,
    "real-time": real_time,
    "page": page,
    "proofs": proofs,
    "growth": growth,
    "install": install,
    "cpp": cpp,
    "rust": rust,
    "recipes": recipes,
    "users": users,
    "python": python,
    "types": types,
    "options": options,
    "contrib": contrib,
    "gpu-shim": gpu_shim,
    "gpu-host": gpu_host,
    "sanitizers": sanitizers,
    "bad-input": bad_input.bad_input,
    "bad-values": bad_values.bad_values,
    "bad-commands": bad_commands.bad_commands,
    "bad-models": bad_models.bad_models,
    "bad-text": bad_text.bad_text,
    "cuda": cuda,
}

# Not part of a run without arguments.
MORE_STAGES = {"forms": forms, "contrib-symbolic": contrib_symbolic, "python-long": python_long, "gpu-long": gpu_long,
               "packages": packages, "wheel": wheel, "web-long": web_long,
               "gpu-host-long": gpu_host_long, "gpu-ptx": gpu_ptx.gpu_ptx}

LONG_STAGES = ("gpu-long", "gpu-host-long", "cuda")

# Two stages run at once, in processes of their own, so that one of them has work while the other does one thing after the other. Those that
# do so all the time go first: at the end a stage should fill the machine.
STAGES_AT_ONCE = 2
SERIAL_STAGES = ("cli", "sizes", "streams", "windows", "cpp", "patches", "page", "names")
LONE_STAGES = ("proofs", "cuda")  # they measure time


def run_all(names, known):
    """The results of these stages, in no particular order."""
    shared = sorted((name for name in names if name not in LONE_STAGES), key=lambda name: name not in SERIAL_STAGES)
    with ProcessPoolExecutor(STAGES_AT_ONCE, mp_context=multiprocessing.get_context("fork")) as pool:
        done = list(pool.map(run_stage, shared, [known[name] for name in shared]))
    return done + [run_stage(name, known[name]) for name in names if name in LONE_STAGES]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stages", nargs="*")
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--forms", type=lambda text: text.split(","))
    parser.add_argument("--whole", action="store_true", help="all cases where a stage takes some of them")
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--limit", type=int, default=CUDA_LIMIT, help="seconds for the stage cuda")
    parser.add_argument("--nvrtc", help="for the stage cuda")
    asked = parser.parse_args()
    harness.JOBS, harness.SAMPLES = asked.jobs, not asked.whole
    known = {**STAGES, **MORE_STAGES}
    for name in LONG_STAGES:
        known[name] = functools.partial(known[name], first=asked.first, forms=asked.forms)
    known["cuda"] = functools.partial(known["cuda"], limit=asked.limit, nvrtc=asked.nvrtc)
    names = asked.stages or list(STAGES)
    unknown = [n for n in names if n not in known]
    if unknown:
        sys.exit(f"no stage {', '.join(unknown)}; stages: {', '.join(known)}")
    total = Results("all")
    for results in run_all(names, known):
        total.add(results.passed, results.failed, results.skipped)
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    sys.exit(1 if total.failed else 0)


if __name__ == "__main__":
    main()
