"""The inner loops of products on AArch64: how many of their instructions multiply, and multiply-adds for each instruction.

usage: arm_loops.py [ONNXC]. Needs aarch64-linux-gnu-objdump; nothing is run. Of every product the innermost loop with the most
multiply-adds counts, which is that of whole tiles. Then the instructions of rows that no vector divides, which qemu-aarch64 counts."""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Multiply-adds of a vector register of 128 bits.
PRODUCTS = {"sdot": 16, "udot": 16, "usdot": 16, "sudot": 16, "smmla": 32, "ummla": 32, "usmmla": 32, "bfmmla": 16, "bfdot": 8, "fmla": 4,
            "fmad": 4, "smull": 8, "smull2": 8, "umull": 8, "umull2": 8}
CPUS = (("cortex-a72", "-mcpu=cortex-a72", 128), ("neoverse-n1", "-mcpu=neoverse-n1", 128), ("neoverse-n2", "-mcpu=neoverse-n2", 128),
        ("neoverse-n2, SVE", "-mcpu=neoverse-n2 -msve-vector-bits=scalable", 128),
        ("neoverse-v1, SVE of 256", "-mcpu=neoverse-v1 -msve-vector-bits=256", 256), ("a64fx, SVE of 512", "-mcpu=a64fx -msve-vector-bits=512", 512))
K, N = 768, 768


def numbers(low, high):
    return ", ".join(str(low + i * 89 % (high - low + 1)) for i in range(K * N))


def product(a, b, sums, rows, operator, out):
    weights = numbers(-127, 127) if b == "int8" else numbers(0, 255)
    return (f'<ir_version: 8, opset_import: ["" : 13]> g ({a}[{rows}, {K}] x) => ({sums}[{rows}, {N}] {out}) '
            f"<{b}[{K}, {N}] w = {{{weights}}}> {{ y = {operator} (x, w) {'z = Relu (y) u = MatMul (z, w)' if out == 'u' else ''} }}")


MODELS = (("int8 · int8", product("int8", "int8", "int32", 96, "MatMulInteger", "y"), ""),
          ("uint8 · int8", product("uint8", "int8", "int32", 96, "MatMulInteger", "y"), ""),
          ("int8, one row", product("int8", "int8", "int32", 1, "MatMulInteger", "y"), ""),
          ("f32", product("float", "float", "float", 96, "MatMul", "y"), ""),
          ("bf16", product("float", "float", "float", 96, "MatMul", "u"), "--precision=bf16"))


ROWS = {"softmax": "y = Softmax (x)", "layer normalisation": "y = LayerNormalization (x, s)"}
MAIN = """#include "m.h"
static float x[13 * 77], y[13 * 77];
static _Alignas(64) unsigned char workspace[M_WORKSPACE_BYTES + 64];
int main(int n, char **words) {
    (void)words;
    for (int i = 0; i < 13 * 77; i++) x[i] = (float)(i % 17) / 8;
    return n > 1 ? m_run(&(m_in){.x = x}, &(m_out){.y = y}, workspace, sizeof workspace) : 0;
}
"""


def counted(onnxc, folder, node, flags):
    """Instructions of a run: a program's with and without it."""
    paths = {name: os.path.join(folder, name) for name in ("m.onnxtxt", "m.o", "main.c", "program", "log")}
    for name, text in (("main.c", MAIN), ("m.onnxtxt", '<ir_version: 8, opset_import: ["" : 17]> g (float[13, 77] x) => (float[13, 77] y) '
                                                       f"<float[77] s = {{{', '.join(['0.5'] * 77)}}}> {{ {node} }}")):
        with open(paths[name], "w", encoding="utf-8") as f:
            f.write(text)
    subprocess.run([onnxc, paths["m.onnxtxt"], "--target=aarch64-linux-gnu", "--freestanding", "-O2", "--name=m", *flags.split(), "-o", paths["m.o"]],
                   check=True)
    subprocess.run(["aarch64-linux-gnu-gcc", "-O1", "-static", paths["main.c"], paths["m.o"], "-o", paths["program"]], check=True)
    counts = []
    for words in ([], ["run"]):
        subprocess.run(["qemu-aarch64", "-cpu", "max,sve256=on", "-singlestep", "-d", "exec,nochain", "-D", paths["log"], paths["program"], *words],
                       check=True)
        with open(paths["log"], encoding="utf-8", errors="replace") as f:
            counts.append(sum(line.startswith("Trace") for line in f))
    return counts[1] - counts[0]


def functions(path):
    text = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    code = None
    for line in text.splitlines():
        if re.match(r"[0-9a-f]+ <", line):
            if code:
                yield code
            code = []
        found = re.match(r" *([0-9a-f]+):\t(\S+)(?:\t(.*))?", line)
        if found and code is not None:
            code.append((int(found[1], 16), found[2], found[3] or ""))
    if code:
        yield code


def inner_loops(code):
    at = {address: i for i, (address, _, _) in enumerate(code)}
    loops = []
    for i, (_, op, operands) in enumerate(code):
        to = re.search(r"([0-9a-f]+) <", operands) if re.match(r"b(\.\w+)?$|cbn?z$|tbn?z$", op) else None
        if to and at.get(int(to[1], 16), i + 1) <= i:
            loops.append((at[int(to[1], 16)], i))
    for begin, end in loops:
        if not any(begin <= b and e <= end and (b, e) != (begin, end) for b, e in loops):
            yield code[begin:end + 1]


def width(op, operands, bits):
    """Registers of SVE have all bits, those of NEON 128."""
    return PRODUCTS.get(op, 0) * (bits // 128 if operands.startswith("z") else 1)


def best_loop(path, bits):
    loops = [loop for code in functions(path) for loop in inner_loops(code)]
    return max(loops, key=lambda loop: (sum(width(op, x, bits) for _, op, x in loop), -len(loop)))


def main():
    onnxc = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "release", "onnxc"))
    print("| CPU | operands | product | share of the loop | loads for a product | multiply-adds for an instruction |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        model, made = os.path.join(folder, "m.onnxtxt"), os.path.join(folder, "m.o")
        for cpu, flags, bits in CPUS:
            for name, text, more in MODELS:
                with open(model, "w", encoding="utf-8") as f:
                    f.write(text)
                subprocess.run([onnxc, model, "--target=aarch64-linux-gnu", *flags.split(), *more.split(), "-o", made], check=True)
                loop = best_loop(made, bits)
                kinds = [op for _, op, _ in loop if op in PRODUCTS]
                adds, loads = sum(width(op, x, bits) for _, op, x in loop), sum(op.startswith("ld") for _, op, _ in loop)
                print(f"| {cpu} | {name} | `{max(set(kinds), key=kinds.count)}` | {len(kinds)} of {len(loop)}, {len(kinds) / len(loop):.0%} "
                      f"| {loads / len(kinds):.2f} | {adds / len(loop):.1f} |", flush=True)
        print("\n| instructions for 13 rows of 77 | " + " | ".join(ROWS) + " |\n| --- | --- | --- |")
        for cpu, flags, bits in CPUS[2:5]:
            print(f"| {cpu} | " + " | ".join(f"{counted(onnxc, folder, node, flags):,}" for node in ROWS.values()) + " |", flush=True)


main()
