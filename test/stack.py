"""The stage `stack`: what headers say of the stack, beside what a run takes of a painted one, on emulated processors.

usage: stack.py ONNXC. Ends with "N passed, N failed, N skipped"."""
import os
import re
import subprocess
import sys
import tempfile

from harness import ROOT, Results, parallel, run

MAIN = os.path.join(ROOT, "test", "cross", "stack_main.c")
BOARD = "qemu-system-arm -nographic -monitor none -serial none -semihosting-config enable=on,target=native"
LAYOUT = """MEMORY { code (rx) : ORIGIN = 0, LENGTH = 512K  data (rwx) : ORIGIN = 0x20000000, LENGTH = 512K }
SECTIONS {
    .text : { KEEP(*(.vectors)) *(.text .text.*) *(.rodata .rodata.*) } > code
    .ARM.exidx : { *(.ARM.exidx*) } > code
    .data : { *(.data .data.*) } > data
    .bss (NOLOAD) : { *(.bss .bss.*) } > data
}
"""
# name: (triple, onnxc's flags, flags of the C compiler, gcc whose support library is linked, emulator)
TARGETS = {
    "m0plus": ("thumbv6m-none-eabi", "-mcpu=cortex-m0plus", "", "arm-none-eabi-gcc -mthumb -mcpu=cortex-m0plus", f"{BOARD} -M mps2-an386 -kernel"),
    "m4": ("thumbv7em-none-eabihf", "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16", "",
           "arm-none-eabi-gcc -mthumb -mcpu=cortex-m4 -mfloat-abi=hard", f"{BOARD} -M mps2-an386 -kernel"),
    "m55": ("thumbv8.1m.main-none-eabihf", "-mcpu=cortex-m55 -mfloat-abi=hard", "", "arm-none-eabi-gcc -mthumb -mcpu=cortex-m55 -mfloat-abi=hard",
            f"{BOARD} -M mps3-an547 -kernel"),
    "aarch64": ("aarch64-none-elf", "", "", "aarch64-linux-gnu-gcc", "qemu-aarch64"),
    "rv32": ("riscv32-none-elf", "-march=rv32imafc -mabi=ilp32f", "-march=rv32imafc -mabi=ilp32f", "", "qemu-riscv32"),
    "x86-64": ("x86_64-none-elf", "", "-mno-red-zone", "", "qemu-x86_64"),
}
LEVELS = ("-O2", "-Os", "-Oz")
MODELS = {
    "convolutions": '<ir_version: 8, opset_import: ["" : 13]> g (float[1, 3, 12, 10] x) => (float[1, 7, 12, 10] y) '
                    "<float[7, 3, 3, 3] v = {%s}, float[7, 7, 1, 1] w = {%s}> "
                    "{ c = Conv <pads = [1, 1, 1, 1]> (x, v) r = Relu (c) d = Conv (r, w) y = Sigmoid (d) }"
                    % (", ".join(str(i % 5 - 2) for i in range(189)), ", ".join(str(i % 3 - 1) for i in range(49))),
    "bytes": '<ir_version: 8, opset_import: ["" : 13]> g (int8[1, 8, 9, 9] x) => (int8[1, 8, 9, 9] y) '
             "<float s = {0.05}, int8 z = {3}, int8[8, 8, 3, 3] v = {%s}, float t = {0.02}, int8 zero = {0}> "
             "{ f = DequantizeLinear (x, s, z) w = DequantizeLinear (v, t, zero) c = Conv <pads = [1, 1, 1, 1]> (f, w) r = Relu (c) "
             "y = QuantizeLinear (r, s, z) }" % ", ".join(str(i * 7 % 23 - 11) for i in range(576)),
    "rows": '<ir_version: 8, opset_import: ["" : 17]> g (float[5, 24] x) => (float[5, 24] y) <float[24] s = {%s}> '
            "{ l = LayerNormalization (x, s) e = Exp (l) y = Softmax (e) }" % ", ".join(["0.5"] * 24),
}
TYPES = {"float": 4, "int8_t": 1}


def call_text(header):
    """The C text of inputs, outputs and CALL."""
    found = {kind: re.findall(r"^ *(?:const )?(\w+) \*(\w+);", re.search(r"typedef struct m_%s \{(.*?)\} " % kind, header, re.DOTALL)[1], re.MULTILINE)
             for kind in ("in", "out")}
    members = {kind: [(t, n) for t, n in found[kind] if t in TYPES] for kind in found}
    text = "".join(f"static {t} {n}[4096];\n" for kind in members for t, n in members[kind])
    for kind in members:
        text += f"static m_{kind} m_all_{kind} = {{" + ", ".join(f".{n} = {n}" for _, n in members[kind]) + "};\n"
    return text + ("static unsigned char m_workspace[M_WORKSPACE_BYTES + 64] __attribute__((aligned(64)));\n"
                   "#define CALL(top) on_stack(top, (void *)m_run, &m_all_in, &m_all_out, m_workspace, M_WORKSPACE_BYTES)\n")


def measured(onnxc, folder, model, level, target):
    """(stated, of it for the C library, used)"""
    triple, flags, own, gcc, emulator = TARGETS[target]
    code, header, program = (os.path.join(folder, name) for name in ("m.o", "m.h", "program"))
    commands = [[onnxc, model, f"--target={triple}", *flags.split(), level, "--name", "m", "-o", code]]
    made = run(commands[0], timeout=120)
    if made.code != 0:
        raise RuntimeError(made.why())
    with open(header, encoding="utf-8") as f:
        said = f.read()
    stated = re.search(r"^#define M_STACK_BYTES (\d+)", said, re.MULTILINE)
    if not stated:
        raise RuntimeError("the header says nothing: " + "\n".join(re.findall(".*stack.*", said)))
    library = re.search(r"with (\d+) bytes for functions of the C library", said)
    layout = os.path.join(folder, "layout.ld")
    with open(layout, "w", encoding="utf-8") as f:
        f.write(LAYOUT)
    with open(os.path.join(folder, "model.h"), "w", encoding="utf-8") as f:
        f.write('#include "m.h"\n' + call_text(said))
    support = [subprocess.run([*gcc.split(), "-print-libgcc-file-name"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()] if gcc else []
    steps = [["clang-19", f"--target={triple}", *flags.split(), *own.split(), "-O1", "-ffreestanding", "-fno-builtin", "-fno-pic", f"-I{folder}",
              "-c", MAIN, "-o", os.path.join(folder, "main.o")],
             ["ld.lld-19", "-static", *(["-T", layout] if BOARD in emulator else ["-e", "_start"]), os.path.join(folder, "main.o"), code, *support, "-o", program],
             [*emulator.split(), program]]
    for step in steps:
        ran = run(step, timeout=120)
        if ran.code != 0:
            raise RuntimeError(" ".join(step) + "\n" + ran.why())
    values = dict(re.findall(r"^(\w+) (\d+)$", ran.text, re.MULTILINE))
    if values["code"] != "0":
        raise RuntimeError("the run failed")
    return int(stated[1]), int(library[1]) if library else 0, int(values["used"])


def check(results, onnxc, model, path, level, target):
    name = f"{model} {target} {level}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            stated, library, used = measured(onnxc, folder, path, level, target)
        except (RuntimeError, KeyError) as why:
            return results.fail(name, str(why)[:1500])
    if os.environ.get("STACK_VERBOSE"):
        print(f"{name}: stated {stated}, of it {library} for the C library, used {used}", flush=True)
    # The deepest path of calls may be one that this run does not take, such as that of an error.
    return results.check(used <= stated <= 1.25 * used + library + 64, name, f"stated {stated}, of it {library} for the C library, used {used}")


def main():
    onnxc, results = os.path.abspath(sys.argv[1]), Results("stack")
    with tempfile.TemporaryDirectory() as folder:
        models = {"digits": os.path.join(ROOT, "samples", "digits", "digits.onnx")}
        for name, text in MODELS.items():
            models[name] = os.path.join(folder, name + ".onnxtxt")
            with open(models[name], "w", encoding="utf-8") as f:
                f.write(text)
        parallel(lambda job: check(results, onnxc, *job), [(m, models[m], level, t) for m in models for level in LEVELS for t in TARGETS])
    sys.exit(results.report())


if __name__ == "__main__":
    main()
