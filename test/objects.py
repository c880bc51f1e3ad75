"""Stages that look at what is emitted: the digits sample on every target, undefined symbols, determinism, headers."""
import hashlib
import os
import re
import shutil

from harness import BUILD, ONNXC, ROOT, parallel, run

DIGITS = os.path.join(ROOT, "samples", "digits")
MODEL = os.path.join(DIGITS, "digits.onnx")
SYMBOLS = os.path.join(ROOT, "test", "cross", "symbols.txt")

# Small models of different kinds; from ONNX's own cases.
VARIED = ["node/test_add_bcast", "node/test_softmax_axis_1", "node/test_gru_defaults", "node/test_basic_conv_with_padding",
          "node/test_layer_normalization_2d_axis0", "node/test_cast_FLOAT_to_BFLOAT16", "node/test_nonzero_example",
          "node/test_quantizelinear_axis", "node/test_range_float_type_positive_delta", "node/test_div_int32_trunc",
          "pytorch-operator/test_operator_mm"]
# So many kernels that they are compiled in several pieces.
LARGE = "light/test_shufflenet"


def fresh(*parts):
    folder = os.path.join(BUILD, *parts)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def varied_models():
    """(identifier, path) of models to compile."""
    cases = os.path.join(BUILD, "cases")
    found = [("digits", MODEL), ("mlp", os.path.join(ROOT, "test", "cli", "mlp.onnx")),
             *((name, os.path.join(ROOT, "test", "cross", name + ".onnxtxt")) for name in ("product", "integers"))]
    for name in VARIED:
        path = os.path.join(cases, name, "model.onnx")
        if os.path.exists(path):
            found.append((os.path.basename(name)[5:].lower(), path))
    return found


def not_done(results, name, ran):
    """A compilation that did not succeed: skipped where this build lacks something, else a failure."""
    if ran.code == 2:
        results.skip(name, ran.err)
    else:
        results.fail(name, ran.why())


# ---------------------------------------------------------------- digits
def digits(results):
    """The sample's answers are right on every target, and with --fp strict the bits of the logits are the same."""
    folder = fresh("test-digits")

    def build_and_run(job):
        kind, flags = job
        place = os.path.join(folder, kind + flags.replace(" ", ""))
        return run(["make", "-s", "-C", DIGITS, kind, f"B={place}", f"FLAGS={flags}", "DEFINES=-DLOGIT_BITS", f"ONNXC={ONNXC}"], timeout=300)

    jobs = [(kind, flags) for flags in ("", "--fp strict") for kind in ("host", "c99", "aarch64", "cortex-m4")]
    bits = {}
    for (kind, flags), ran in zip(jobs, parallel(build_and_run, jobs)):
        name = f"{kind} {flags}".strip()
        if results.check(ran.code == 0 and "20 of 20 right" in ran.out, name, ran.why()) and flags:
            bits[kind] = re.findall(r"^bits of .*$", ran.out, re.MULTILINE)
    for kind in bits:
        results.check(bits[kind] == bits.get("host"), f"{kind}: same bits as on the host", "logits differ with --fp strict")


def training(results):
    """The training sample reaches its accuracy."""
    place = fresh("training-sample")
    ran = run(["make", "-s", "-C", os.path.join(ROOT, "samples", "training"), f"B={place}", f"ONNXC={ONNXC}"], timeout=300)
    results.check(ran.code == 0 and "test images right" in ran.out, "training", ran.why())


# ---------------------------------------------------------------- undefined symbols
def undefined(path):
    ran = run(["llvm-nm-19", "--undefined-only", "--format=just-symbols", path])
    return sorted(set(ran.out.split())) if ran.code == 0 else ["llvm-nm failed: " + ran.why()]


def read_symbols():
    """{target: options}, {(target, model): symbols}"""
    options, expected = {}, {}
    with open(SYMBOLS) as f:
        for line in f:
            key, _, text = line.partition(":")
            if line.startswith("target "):
                options[key.split()[1]] = text.split()
            elif line.strip() and not line.startswith("#"):
                expected[tuple(key.split())] = text.split()
    return options, expected


def symbols(results):
    """What objects need from outside is what cross/symbols.txt says."""
    folder = fresh("test-symbols")
    options, expected = read_symbols()
    jobs = [(target, model, path) for target in options for model, path in varied_models()]

    def compile_one(job):
        target, model, path = job
        return run([ONNXC, *options[target], path, "--name", model, "-o", os.path.join(folder, f"{target}-{model}.o")])

    for (target, model, _), ran in zip(jobs, parallel(compile_one, jobs)):
        name = f"{target} {model}"
        if ran.code != 0:
            not_done(results, name, ran)
        else:
            found = undefined(os.path.join(folder, f"{target}-{model}.o"))
            wanted = expected.get((target, model)) or expected.get((target, "*"), [])
            results.check(found == wanted, f"{name}: undefined symbols", f"{found}, not {wanted}")
    old_glibc(results, folder)


IMAGE = """<ir_version: 10, opset_import: ["": 20]>
image (uint8[N] x) => (uint8[H, W, C] y) { y = ImageDecoder(x) }
"""


def old_glibc(results, folder):
    """Shared libraries need no symbol that is newer than glibc 2.17, whatever they are linked on, and name its libraries."""
    image = os.path.join(folder, "image.onnxtxt")
    with open(image, "w") as f:
        f.write(IMAGE)
    product, topk = os.path.join(ROOT, "test", "cli", "mlp.onnx"), os.path.join(ROOT, "test", "packages", "topk.onnxtxt")
    forms = {"threads": (product, ["--threads", "4"], "libpthread.so.0"), "no threads": (product, ["--threads", "1"], None),
             "weights": (product, ["--threads", "4", "--weights", os.path.join(folder, "w.bin")], "libpthread.so.0"),
             "image": (image, [], "libdl.so.2"), "top k": (topk, [], None), "cuda": (product, ["--device=cuda"], "libdl.so.2 libpthread.so.0")}
    for name, (model, options, library) in forms.items():
        path = os.path.join(folder, "old.so")
        ran = run([ONNXC, model, *options, "-o", path])
        if ran.code != 0:
            not_done(results, f"glibc 2.17: {name}", ran)
            continue
        shown = run(["readelf", "-dVW", path]).text
        newer = [v for v in re.findall(r"Name: GLIBC_(2\.\d+)", shown) if int(v[2:]) > 17]
        results.check(not newer, f"glibc 2.17: {name}", f"it needs {newer}")
        needed = set(re.findall(r"\[(lib(?:pthread|dl)\.so\.\d)\]", shown))
        results.check(needed == set((library or "").split()), f"libraries of glibc 2.17: {name}", f"it needs {needed}")


# ---------------------------------------------------------------- matrix tiles
TILES = ["--target=x86_64-linux-gnu", "--mcpu=x86-64-v4", "--mattr=+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16"]
# (what the object is for, options, way to call, answer)
ASKED = [("all levels", [], "plain", "code 0, right, tiles allowed"),
         ("all levels", [], "threads", "code 0, right, tiles allowed"),
         ("all levels", [], "fork", "code 0, right, tiles allowed"),
         ("all levels", [], "refused", "code 0, right, tiles not allowed"),
         ("tiles alone", TILES, "plain", "code 0, right, tiles allowed"),
         ("tiles alone", TILES, "threads", "code 0, right, tiles allowed"),
         ("tiles alone", TILES, "refused", "code 10, wrong, tiles not allowed"),
         ("no tiles", ["--mcpu=x86-64-v3"], "plain", "code 0, right, tiles not allowed")]


def has_tiles():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return {"amx_tile", "amx_int8", "amx_bf16", "avx512_bf16"} <= set(f.read().split())


def tiles(results):
    """Objects with matrix tiles ask the operating system for them, and do without where it refuses."""
    if not has_tiles():
        return results.skip("tiles", "this CPU has no matrix tiles")
    folder = fresh("test-tiles")
    weights = ", ".join(str(i * 7 % 251 - 125) for i in range(128 * 48))
    with open(os.path.join(folder, "tiles.onnxtxt"), "w", encoding="utf-8") as f:
        f.write('<ir_version: 8, opset_import: ["" : 13]> g (uint8[40, 128] x) => (int32[40, 48] y) '
                f"<int8[128, 48] w = {{{weights}}}> {{ y = MatMulInteger (x, w) }}")
    for name, options, how, answer in ASKED:
        built = run(["sh", "-c", f'"$0" tiles.onnxtxt --threads 4 "$@" -o tiles.o && gcc -O1 -Wall -Wextra -Werror -I. '
                     f'{os.path.join(ROOT, "test", "cross", "tiles.c")} tiles.o {os.path.join(os.path.dirname(ONNXC), "libonnxc-rt.a")} '
                     f'-lpthread -lm -o main', ONNXC, *options], cwd=folder)
        ran = run(["./main", how], cwd=folder) if built.code == 0 else built
        results.check(ran.out.strip() == answer, f"{name}, {how}", ran.out + ran.why())


# ---------------------------------------------------------------- the same bytes
def digest(folder):
    sums = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as f:
            sums[name] = hashlib.sha256(f.read()).hexdigest()
    return sums


def same_bytes(results):
    """The same model gives the same bytes in another folder, under another path, at another time, with more threads."""
    kinds = ("m.o", "m.c", "m.a", "m.so", "m.ll")
    places = [fresh("test-bytes", "one"), fresh("test-bytes", "a longer", "folder")]

    def compile_all(model):
        name, path = model
        for jobs, place in enumerate(places, 1):
            own = os.path.join(place, name)
            out = os.path.join(own, "out")
            os.makedirs(out)
            shutil.copy(path, os.path.join(own, "m.onnx"))
            for kind in kinds:
                ran = run([ONNXC, "m.onnx", f"-j{3 * jobs - 2}", "--name", "m", "-o", os.path.join(out, kind)], cwd=own)
                if ran.code != 0:
                    return kind, ran
        return None, [digest(os.path.join(place, name, "out")) for place in places]

    models = varied_models()
    large = os.path.join(BUILD, "cases", LARGE, "model.onnx")
    if os.path.exists(large):
        models.append(("shufflenet", large))
    for (name, _), (problem, made) in zip(models, parallel(compile_all, models)):
        if problem:
            not_done(results, f"{name} {problem}", made)
            continue
        one, two = made
        for kind in sorted(one):
            results.check(one[kind] == two.get(kind), f"{name} {kind}", "the bytes differ between two folders")


# ---------------------------------------------------------------- headers and C
PEDANTIC = ["-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only"]
LANGUAGES = {"C99": ["gcc", "-std=c99"], "C11 clang": ["clang-19", "-std=c11"], "C++11": ["g++", "-std=c++11"],
             "C++20 clang": ["clang++-19", "-std=c++20"]}


def headers(results):
    """Headers compile in C and C++, twice in one file; emitted C compiles as C99, without warnings."""
    folder = fresh("test-headers")
    models = varied_models()

    def compile_one(model):
        name, path = model
        return run([ONNXC, path, "--name", name, "-o", os.path.join(folder, f"{name}.c")])

    made = [m for m, ran in zip(models, parallel(compile_one, models)) if ran.code == 0 or not_done(results, m[0], ran)]

    def check_one(job):
        (name, _), language = job
        extension = "cpp" if "++" in language else "c"
        user = os.path.join(folder, f"{name}-{language.replace(' ', '')}.{extension}")
        with open(user, "w") as f:
            f.write(f'#include "{name}.h"\n#include "{name}.h"\nint user(void);\nint user(void) {{ return {name}_run != 0; }}\n')
        return run([*LANGUAGES[language], *PEDANTIC, "-Wno-address", "-I", folder, user])

    jobs = [(m, language) for m in made for language in LANGUAGES]
    for ((name, _), language), ran in zip(jobs, parallel(check_one, jobs)):
        results.check(ran.code == 0, f"{name}.h as {language}", ran.why())

    check_sources(results, folder, [name for name, _ in made])


def check_sources(results, folder, names):
    """Emitted C without the warnings that firmware is compiled with."""

    def check_source(job):
        name, compiler = job
        return run([compiler, "-std=c99", *PEDANTIC, "-Wsign-conversion", "-Wdouble-promotion", "-Wcast-qual", "-Wvla", os.path.join(folder, f"{name}.c")])

    jobs = [(name, compiler) for name in names for compiler in ("gcc", "clang-19")]
    for (name, compiler), ran in zip(jobs, parallel(check_source, jobs)):
        results.check(ran.code == 0, f"{name}.c with {compiler}", ran.why())


def sources(results, cases):
    """The C of these cases, folders with a model."""
    folder = fresh("test-sources")
    names = [os.path.basename(c) for c in cases]
    made = parallel(lambda name: run([ONNXC, os.path.join(cases[names.index(name)], "model.onnx"), "-o", os.path.join(folder, f"{name}.c")]), names)
    check_sources(results, folder, [name for name, ran in zip(names, made) if ran.code == 0 or not_done(results, name, ran)])
