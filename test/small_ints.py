"""The stage `small-ints`: emitted C where C's int has 16 bits, on an ATmega1284P in simavr. Cases of ONNX with numbers narrower than
32 bits, whose arithmetic C does in int, and one of each other operator that is small enough; those in double are refused by gcc's
preprocessor, since its double has 32 bits there.
"""
import glob
import os
import re

import numpy as np
import onnx
from onnx import numpy_helper

from harness import BUILD, ONNXC, parallel, run

FOLDER = os.path.join(BUILD, "test-small-ints")
COMPILER = ["avr-gcc", "-mmcu=atmega1284p", "-Os", "-std=gnu99", "-Wall", "-Wextra", "-Werror"]
SIMULATOR = ["simavr", "-m", "atmega1284p", "-f", "16000000"]
TYPES = {"float32": "float", "float16": "uint16_t", "bool": "uint8_t", **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)}}
NARROW = re.compile(r"u?int(8|16)|float16")
LEAST = 100  # cases
RAM = 3000  # bytes of the tensors of a case; the processor has 16,384
GCC_DEFECT = "unrecognizable insn"  # of gcc 5.4

MAIN = r"""
#include "m.h"
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include <math.h>
#include <stdio.h>
static int put(char c, FILE *f) {
    (void)f;
    while (!(UCSR0A & (1 << UDRE0))) {}
    UDR0 = (uint8_t)c;
    return 0;
}
static FILE serial = FDEV_SETUP_STREAM(put, NULL, _FDEV_SETUP_WRITE);
ARRAYS
static uint8_t memory[M_WORKSPACE_BYTES + 64];
int main(void) {
    uint8_t *workspace = (uint8_t *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    m_in in = {INPUTS};
    m_out out = {OUTPUTS};
    UCSR0B = 1 << TXEN0;
    stdout = &serial;
    int status = m_run(&in, &out, workspace, M_WORKSPACE_BYTES);
    if (status) printf("status %d\n", status);
CHECKS
    printf("end\n");
    cli();
    sleep_enable();
    sleep_cpu();
    return 0;
}
"""


def arrays(folder, kind):
    """The tensors of a case; None: it also has other values."""
    paths = glob.glob(os.path.join(folder, "test_data_set_0", f"{kind}_*.pb"))
    try:
        return [numpy_helper.to_array(onnx.load_tensor(p)) for p in sorted(paths, key=lambda p: int(re.findall(r"\d+", p)[-1]))]
    except Exception:  # noqa: BLE001  a sequence or optional
        return None


def bits(array):
    """A C initializer, of floats as bits: the compiler's own decimal numbers are not what this tests."""
    plain = array.view({2: np.uint16, 4: np.uint32}[array.itemsize]) if array.dtype.kind == "f" else array
    suffix = "LL" if plain.dtype.name == "int64" else "ULL" if plain.dtype.name == "uint64" else "L" if plain.itemsize == 4 else ""
    texts = [f"(-{2**63 - 1}LL - 1)" if v == -2**63 else f"{v}{suffix}" for v in map(int, plain.ravel())]
    return "{" + ", ".join(texts or ["0"]) + "}"


def declared(name, array, initial=True):
    kind = "uint32_t" if array.dtype == np.float32 else TYPES[array.dtype.name]
    return f"static {kind} {name}[{max(array.size, 1)}]" + (f" = {bits(array)};" if initial else ";")


def check(k, array):
    """C that compares an output: floats within a thousandth, others exactly."""
    wrong = f"o{k}[i] != e{k}[i]"
    if array.dtype == np.float32:
        wrong = f"!(o{k}[i] == e{k}[i] || fabs(x - y) <= 1e-5 + 1e-3 * fabs(y))"
    elif array.dtype == np.float16:
        wrong = f"o{k}[i] - e{k}[i] + 1 > 2u"  # neighbours
    values = f"float x = *(float *)&o{k}[i], y = *(float *)&e{k}[i];" if array.dtype == np.float32 else ""
    return (f'    for (int i = 0; i < {array.size}; i++) {{\n        {values}\n        if ({wrong})\n'
            f'            printf("output {k} [%d]: %ld, not %ld\\n", i, (long)o{k}[i], (long)e{k}[i]);\n    }}')


def program(header, inputs, outputs):
    """The text of main.c; "": sizes that only a run knows of."""
    fields = [re.findall(r"^ +(?:const )?(\w+) \*(\w+);", re.search(rf"typedef struct m_{s} \{{(.*?)\}}", header, re.S)[1], re.M)
              if f"m_{s} {{" in header else [] for s in ("in", "out")]
    fields[1] = [f for f in fields[1] if f[1] != "message"]
    if len(fields[0]) != len(inputs) or len(fields[1]) != len(outputs) or re.search(r"^ +int64_t", header, re.M):
        return ""
    names = [declared(f"i{k}", a) for k, a in enumerate(inputs)]
    names += [text for k, a in enumerate(outputs) for text in (declared(f"e{k}", a), declared(f"o{k}", a, False))]
    given = [", ".join(f".{name} = (void *){letter}{k}" for k, (_, name) in enumerate(f)) for letter, f in zip("io", fields)]
    text = MAIN.replace("ARRAYS", "\n".join(names)).replace("INPUTS", given[0] or "0").replace("OUTPUTS", given[1])
    return text.replace("CHECKS", "\n".join(check(k, a) for k, a in enumerate(outputs)))


def outcome(case):
    """"": right; None: not for this processor; what is wrong."""
    inputs, outputs = arrays(case, "input"), arrays(case, "output")
    if inputs is None or outputs is None or any(a.dtype.name not in TYPES for a in inputs + outputs):
        return None
    if sum(a.nbytes for a in inputs + 2 * outputs) > RAM:
        return None
    folder = os.path.join(FOLDER, os.path.basename(case))
    os.makedirs(folder, exist_ok=True)
    ran = run([ONNXC, os.path.join(case, "model.onnx"), "-o", "m.c"], cwd=folder)
    if ran.code == 2:
        return None
    if ran.code:
        return ran.why()
    with open(os.path.join(folder, "m.h")) as f:
        header = f.read()
    main = "" if "libonnxc-rt" in header else program(header, inputs, outputs)
    if not main:
        return None
    with open(os.path.join(folder, "main.c"), "w") as f:
        f.write(main)
    ran = run([*COMPILER, "-c", "m.c"], cwd=folder)
    if ran.code:
        return None if GCC_DEFECT in ran.err or "double must have 64 bits" in ran.err else ran.why()
    ran = run([*COMPILER, "-w", "m.o", "main.c", "-o", "m.elf", "-lm"], cwd=folder)
    if ran.code:
        return None if "will not fit" in ran.err or "overflowed" in ran.err else ran.why()
    ran = run([*SIMULATOR, "m.elf"], cwd=folder)
    said = re.sub(r"\x1b\[[0-9;]*m", "", ran.out + ran.err)
    lines = [line for line in said.splitlines() if re.match(r"status|output|end", line)]
    return "" if lines and lines[0].startswith("end") else "\n".join(lines[:3]) or ran.why()


def chosen(cases):
    """Small ones with narrow numbers, every other; and the first with each other operator."""
    narrow, others = [], {}
    for case in sorted(glob.glob(os.path.join(cases, "*"))):
        with open(os.path.join(case, "model.onnx"), "rb") as f:
            graph = onnx.load(f).graph
        types = {onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type).name
                 for v in (*graph.input, *graph.output) if v.type.tensor_type.elem_type}
        if any(NARROW.fullmatch(t) for t in types):
            narrow.append(case)
        else:
            others.setdefault(graph.node[0].op_type if len(graph.node) == 1 else "", case)
    return narrow[::2] + list(others.values())[::3]


def small_ints(results, cases):
    some = chosen(cases)
    done = [(case, wrong) for case, wrong in zip(some, parallel(outcome, some)) if wrong is not None]
    for case, wrong in done:
        results.check(not wrong, os.path.basename(case), wrong)
    results.check(len(done) > LEAST, "cases that ran", f"only {len(done)}")
