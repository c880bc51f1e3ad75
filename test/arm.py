"""Part of the stage `foreign`: CPUs of AArch64 that differ in their units. Bytes of all signs, bf16 and f32 in odd sizes, on each
CPU in an emulator; which level an object with all of them runs; and which instructions its code has."""
import os
import re

from harness import BUILD, ONNXC, parallel, run

FOLDER = os.path.join(BUILD, "test-foreign", "arm")
DOT, BLOCKS = "generic+dotprod", "generic+dotprod+i8mm+bf16"
LEVELS = {"generic": "v1", DOT: "v1_dotprod", BLOCKS: "v1_i8mm", f"{BLOCKS}+sve128": "v1_sve", f"{BLOCKS}+sve256": "v1_sve256",
          "generic+sve512": "v1_sve512", f"{BLOCKS}+sve512": "v1_i8mm_sve512"}
# The emulator's CPU, and the level that it has to run.
CPUS = {"cortex-a72": "v1", "neoverse-n1": "v1_dotprod", "max,sve=off": "v1_i8mm", "max,sve128=on": "v1_sve", "max,sve256=on": "v1_sve256",
        "a64fx": "v1_sve512", "max": "v1_i8mm_sve512"}
# Flags, the emulator's CPU, what the code for bytes and that for bf16 contains, and what it lacks. SVE's registers are
# at least as long as the flag says.
CODE = [("-mcpu=cortex-a72", "cortex-a72", r"smull|umull|addp\tv\d+\.8h|sadalp", "", "dot|mmla"),
        ("-mcpu=neoverse-n1", "neoverse-n1", r"sdot\tv.*\[|udot\tv.*\[", "", "mmla"),
        ("-mcpu=neoverse-n2", "max,sve=off", r"smmla\tv|ummla\tv|usmmla\tv", r"bfmmla\tv", r"\tz\d"),
        ("-mcpu=neoverse-v1 -msve-vector-bits=256", "max,sve256=on", r"smmla\tz|ummla\tz|usmmla\tz", r"bfmmla\tz", r"mmla\tv"),
        ("-mcpu=neoverse-v1 -msve-vector-bits=256", "max", r"smmla\tz", r"bfmmla\tz", r"mmla\tv"),
        ("-mcpu=neoverse-v1 -msve-vector-bits=scalable", "max", r"smmla\tz", r"bfmmla\tz", r"mmla\tv"),
        ("-mcpu=a64fx -msve-vector-bits=512", "a64fx", r"sdot\tz.*\[|udot\tz.*\[", "", "mmla")]
KINDS = ("int8", "uint16", "float", "double")
TYPES = {"s": ("int8", -128, 3), "u": ("uint8", 0, 131)}


def numbers(count, low, high, factor):
    return "{" + ", ".join(str(low + i * factor % (high - low + 1)) for i in range(count)) + "}"


def bytes_model():
    """Products of bytes with both operands of either sign, B constant or not; convolutions with scales of channels."""
    inputs, outputs, constants, nodes = [], [], ["float s = {0.05}", "float big = {2.5}", f"int32[23] bias = {numbers(23, -500, 500, 37)}",
                                                 "float[23] by = {%s}" % ", ".join(str(0.001 * (1 + i % 7)) for i in range(23))], []
    for a, (a_type, _, zero) in TYPES.items():
        inputs += [f"{a_type}[21, 67] x{a}", f"{a_type}[1, 19, 9, 7] i{a}"]
        constants += [f"{a_type} z{a} = {{{zero}}}"]
        for b, (b_type, low, b_zero) in TYPES.items():
            if a == "s":
                inputs.append(f"{b_type}[67, 45] w{b}")
                constants += [f"{b_type}[67, 45] c{b} = {numbers(67 * 45, low, low + 255, 89)}",
                              f"{b_type}[23, 19, 3, 3] k{b} = {numbers(23 * 171, low, low + 255, 89)}",
                              f"{b_type}[23] kz{b} = {{{', '.join([str(b_zero)] * 23)}}}"]
            outputs += [f"int32[21, 45] m{a}{b}", f"int32[21, 45] n{a}{b}", f"{a_type}[1, 23, 9, 7] q{a}{b}"]
            nodes += [f"m{a}{b} = MatMulInteger (x{a}, w{b}, z{a}, z{b})", f"n{a}{b} = MatMulInteger (x{a}, c{b}, z{a}, z{b})",
                      f"q{a}{b} = QLinearConv <pads = [1, 1, 1, 1]> (i{a}, s, z{a}, k{b}, by, kz{b}, big, z{a}, bias)"]
    # Sums of two products of neighbours that 16 bits do not hold, of constants that some of these have, and of others.
    inputs += ["int8[21, 67] least"]
    for name, pair in (("alone", "-128, 5"), ("pairs", "-128, -128")):
        constants += [f"int8[45, 67] {name} = {{{', '.join([pair] * 1507)}, -128}}"]
        outputs += [f"int32[21, 45] l{name}"]
        nodes += [f"t{name} = Transpose <perm = [1, 0]> ({name})", f"l{name} = MatMulInteger (least, t{name})"]
    return model(inputs, outputs, constants, nodes)


def transposes_model():
    """Elements of all sizes, in sizes that vectors divide and others."""
    shapes = {"a": (2, 64, 28), "b": (3, 37, 131), "c": (5, 6, 7)}
    inputs, outputs, nodes = [], [], []
    for kind in KINDS:
        for name, shape in shapes.items():
            inputs.append(f"{kind}[{', '.join(map(str, shape))}] {name}{kind}")
            for perm in ((0, 2, 1), (2, 1, 0), (1, 2, 0)):
                outputs.append(f"{kind}[{', '.join(str(shape[p]) for p in perm)}] {name}{kind}{perm[0]}")
                nodes.append(f"{name}{kind}{perm[0]} = Transpose <perm = [{', '.join(map(str, perm))}]> ({name}{kind})")
    return model(inputs, outputs, [], nodes)


def floats_model():
    """Products of f32 and of dynamically quantised bytes, a softmax and a normalisation, in sizes that no vector divides."""
    weights = ", ".join(str((i * 29 % 31 - 15) / 16) for i in range(67 * 45))
    return model(["float[21, 67] f"], ["float[21, 45] d", "float[21, 45] y"],
                 [f"int8[67, 45] c = {numbers(67 * 45, -128, 127, 89)}", "int8 z = {0}", f"float[67, 45] w = {{{weights}}}",
                  "float[67] g = {%s}" % ", ".join(["0.5"] * 67)],
                 ["q, s, qz = DynamicQuantizeLinear (f)", "i = MatMulInteger (q, c, qz, z)", "j = Cast <to = 1> (i)", "d = Mul (j, s)",
                  "l = LayerNormalization (f, g)", "e = Softmax (l)", "y = MatMul (e, w)"])


def model(inputs, outputs, constants, nodes):
    return (f'<ir_version: 8, opset_import: ["" : 17]> g ({", ".join(inputs)}) => ({", ".join(outputs)}) <{", ".join(constants)}> '
            f"{{ {' '.join(nodes)} }}")


def write(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def runs(results, options, name, models):
    """Exact for bytes."""
    random = {name: [w for x, r in ranges.items() for w in ("--input", f"{x}=random:{r}")]
              for name, ranges in (("bytes", {x: "-128..127" if x[-1] == "s" else "0..255" for x in ("xs", "xu", "is", "iu", "ws", "wu")} | {"least": "-128..-128"}),
                                   ("floats", {"f": "-3..2"}), ("transposes", {x + kind: "0..100" for x in "abc" for kind in KINDS}))}
    exact = ["--rtol=0", "--atol=0"]
    for kind, limits in (("bytes", exact), ("transposes", exact), ("floats", [])):
        ran = run([ONNXC, "run", models[kind], *options, *random[kind], *limits, "--compare=interpret"], timeout=180)
        results.check(ran.code == 0, f"{name}: {kind}", ran.out[-500:] + ran.why())


def code(results, flags, models, bytes_have, bf16_has, lacks):
    for kind, extra, wanted in (("bytes", [], bytes_have), ("pairs", ["--precision=bf16"], bf16_has), ("transposes", [], r"zip1\tv.*\.16b")):
        path = os.path.join(FOLDER, f"{kind}{abs(hash(flags))}.s")
        ran = run([ONNXC, models[kind], "--target=aarch64-linux-gnu", *flags.split(), *extra, "--emit=asm", "-o", path], timeout=120)
        if not results.check(ran.code == 0, f"{flags}: {kind} as assembly", ran.why()):
            continue
        with open(path, encoding="utf-8") as f:
            text = f.read()
        missing = [w for w in wanted.split("|") if not re.search(rf"\t{w}", text)]
        results.check(not missing, f"{flags}: {kind}", f"the code lacks {missing}")
        found = re.search(rf"\t\w*({lacks})\w*", text)
        results.check(not found, f"{flags}: {kind}", f"the code has {found and found[0].strip()}")


MAIN = """#include "m.h"
static signed char x[192];
static int y[192];
static _Alignas(64) unsigned char workspace[M_WORKSPACE_BYTES + 1];
int main(void) { return m_run(&(m_in){.x = x}, &(m_out){.y = y}, workspace, sizeof workspace); }
"""


def levels(results, runtime, emulator):
    """The function that an object with all levels enters, from the emulator's record of the blocks of code that ran."""
    path = write("levels.onnxtxt", model(["int8[3, 64] x"], ["int32[3, 64] y"], [f"int8[64, 64] w = {numbers(4096, -11, 11, 7)}"],
                                         ["y = MatMulInteger (x, w)"]))
    program, main, made = os.path.join(FOLDER, "levels"), write("main.c", MAIN), os.path.join(FOLDER, "m.o")
    for command in ([ONNXC, path, "--target=aarch64-linux-gnu", "--name=m", "--threads=1", "--multiversion=" + ",".join(LEVELS), "-o", made],
                    ["aarch64-linux-gnu-gcc", "-static", main, made, runtime, "-lpthread", "-o", program]):
        ran = run(command, timeout=120)
        if not results.check(ran.code == 0, "an object with all levels", ran.why()):
            return
    for cpu, level in CPUS.items():
        log = os.path.join(FOLDER, "blocks.txt")
        ran = run([*emulator.split(), "-cpu", cpu, "-d", "exec,nochain", "-D", log, program], timeout=120)
        with open(log, encoding="utf-8", errors="replace") as f:
            entered = set(re.findall(r"m_run_(v1\w*)", f.read()))
        results.check(ran.code == 0 and entered == {level}, f"{cpu}: the level {level}", f"{ran.why()}; entered {entered}")


def units(results, options_for, runtime, emulator):
    os.makedirs(FOLDER, exist_ok=True)
    models = {"bytes": write("bytes.onnxtxt", bytes_model()), "floats": write("floats.onnxtxt", floats_model()),
              "transposes": write("transposes.onnxtxt", transposes_model()),
              "pairs": write("pairs.onnxtxt", model(["float[21, 64] f"], ["float[21, 36] y"], [
                  "float[64, 64] v = {%s}" % ", ".join(str(i * 7 % 31 / 32) for i in range(4096)),
                  "float[64, 36] w = {%s}" % ", ".join(str(i * 11 % 31 / 32) for i in range(64 * 36))],
                  ["t = MatMul (f, v)", "u = Relu (t)", "y = MatMul (u, w)"]))}

    def one(row):
        flags, cpu, *wanted = row
        runs(results, [*options_for(f"{emulator} -cpu {cpu}"), *flags.split()], f"{flags} on {cpu}", models)
        code(results, flags, models, *wanted)
    parallel(one, CODE)
    every = ["--multiversion=" + ",".join(LEVELS)]
    for cpu in ("neoverse-n1", "max,sve256=on"):
        runs(results, [*options_for(f"{emulator} -cpu {cpu}"), *every], f"all levels on {cpu}", models)
    levels(results, runtime, emulator)
