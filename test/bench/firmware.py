"""Flash, RAM and instructions of models on microcontrollers in qemu, with onnx2c beside onnxc if it is given.

usage: firmware.py ONNXC [--cpu cortex-m4,...] [--options "..."] [--onnx2c PROGRAM] [MODEL|FOLDER]...

MODEL is an ONNX file, or a test folder with model.onnx and test_data_set_0; without one, the models for microcontrollers in ../shared/models,
samples/digits, and the networks of tiny_networks.py. Printed for each, as rows of docs/firmware.md:

    flash           code and constants of a program that calls the model only, C library included
    RAM             workspace (or static buffers) and the deepest stack of a run
    instructions    of one run, in thousands, counted by qemu's clock against a loop of known length

Outputs are compared with those of `onnxc run` on this machine.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

import firmware_riscv
import tiny_networks

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# cpu: (triple, machine flags, qemu's board). A Cortex-M0+ runs ARMv6-M, which the M3 of the board executes too, as the M55 of another
# does the code of an M33, an M52 and an M85.
CPUS = {"cortex-m0plus": ("thumbv6m-none-eabi", "-mcpu=cortex-m0plus", "mps2-an385"),
        "cortex-m3": ("thumbv7m-none-eabi", "-mcpu=cortex-m3", "mps2-an385"),
        "cortex-m4": ("thumbv7em-none-eabihf", "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16", "mps2-an386"),
        "cortex-m7": ("thumbv7em-none-eabihf", "-mcpu=cortex-m7 -mfloat-abi=hard -mfpu=fpv5-d16", "mps2-an500"),
        "cortex-m33": ("thumbv8m.main-none-eabihf", "-mcpu=cortex-m33 -mfloat-abi=hard -mfpu=fpv5-sp-d16", "mps3-an547"),
        "cortex-m55": ("thumbv8.1m.main-none-eabihf", "-mcpu=cortex-m55 -mfloat-abi=hard", "mps3-an547"),
        **{cpu: ("thumbv8.1m.main-none-eabihf", f"-mcpu={cpu} -mfloat-abi=hard", "mps3-an547") for cpu in ("cortex-m52", "cortex-m85")},
        **firmware_riscv.CPUS}
LAYOUT = """ENTRY(reset)
MEMORY { code (rx) : ORIGIN = 0x00000000, LENGTH = 512K  more (rx) : ORIGIN = %(more)s, LENGTH = 2M  data (rwx) : ORIGIN = 0x20000000, LENGTH = %(ram)s }
__stack = ORIGIN(data) + LENGTH(data);
SECTIONS {
    .text : { KEEP(*(.vectors)) *(.text .text.*) . = ALIGN(8); } > code
    .rodata : { *(.rodata .rodata.*) . = ALIGN(8); } > more
    .ARM.exidx : { *(.ARM.exidx*) } > code
    .data : ALIGN(8) { __data_start = .; *(.data .data.*) . = ALIGN(8); __data_end = .; } > data AT > code
    __data_load = LOADADDR(.data);
    .bss (NOLOAD) : { __bss_start = .; *(.bss .bss.* COMMON) . = ALIGN(8); __bss_end = .; } > data
    end = .;
}
"""
MAIN = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#define SYST_CSR (*(volatile uint32_t *)0xe000e010)
#define SYST_RVR (*(volatile uint32_t *)0xe000e014)
#define SYST_CVR (*(volatile uint32_t *)0xe000e018)
#define PAINT 0x5aa5c33cu
extern uint32_t end[], __stack[];
static volatile uint32_t wraps;
void tick(void) { wraps++; }
static uint64_t now(void) {
    uint32_t w, v;
    do w = wraps, v = SYST_CVR; while (w != wraps);
    return ((uint64_t)w << 24) + (0xffffffu - v);
}
static void spin(uint32_t n) { __asm volatile(".syntax unified\n1: subs %%0, %%0, #1\n\tbne 1b" : "+l"(n)::"cc"); }
%(model)s
static uint32_t *low;
static inline uint32_t *sp(void) {
    uint32_t *at;
    __asm volatile("mov %%0, sp" : "=r"(at));
    return at;
}
__attribute__((noinline)) static void paint(void) {
    low = end + 4096; // behind the heap of the C library
    for (uint32_t *p = low, *top = sp() - 8; p < top; p++) *p = PAINT; // 8 words: registers that this function saves
}
int main(void) {
    paint();
    uint32_t *top = sp(), *p;
    int failed = call(); // before the timer starts, whose handler would use the painted stack
    for (p = low; *p == PAINT; p++) {
    }
    SYST_RVR = 0xffffff, SYST_CVR = 0, SYST_CSR = 7;
    while (!SYST_CVR) {
    }
    uint64_t t0 = now();
    spin(1000000);
    uint64_t loop = now() - t0;
    t0 = now();
    for (int i = 0; i < 3; i++) failed |= call();
    uint64_t ticks = (now() - t0) / 3;
    printf("failed %%d\nstack %%lu\ninstructions %%lu\nstatic %%lu\n", failed, (unsigned long)((uintptr_t)top - (uintptr_t)p),
           (unsigned long)(ticks * 2000 / loop), (unsigned long)RAM_BYTES);
    show();
    exit(0);
}
"""


def start():
    """The digits sample's start-up code, with a handler for the timer."""
    with open(os.path.join(ROOT, "samples", "digits", "cortex-m4", "start.c"), encoding="utf-8") as f:
        text = f.read()
    text = text.replace("CPACR |= 0xfu << 20;", "#ifdef __ARM_FP\n    CPACR |= 0xfu << 20;\n#endif")
    at = text.rindex("(void *)stop")
    return "void tick(void);\n" + text[:at] + "(void *)tick" + text[at + len("(void *)stop"):]


def run(*command, **keywords):
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **keywords)
    if ran.returncode != 0:
        raise RuntimeError(" ".join(command) + "\n" + ran.stdout)
    return ran.stdout


def inputs_of(model, folder):
    """Arrays of a model's inputs, symbolic sizes 1."""
    graph = onnx.load(model).graph
    constants = {i.name for i in graph.initializer}
    for k, i in enumerate(i for i in graph.input if i.name not in constants):
        stored = os.path.join(folder, "test_data_set_0", f"input_{k}.pb")
        if os.path.exists(stored):
            tensor = onnx.TensorProto()
            with open(stored, "rb") as f:
                tensor.ParseFromString(f.read())
            yield i.name, numpy_helper.to_array(tensor)
        else:
            shape = [d.dim_value or 1 for d in i.type.tensor_type.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
            yield i.name, (np.random.default_rng(k).uniform(0, 16, shape)).astype(dtype)


def c_array(name, array):
    kind = {"float32": "float", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "bool": "uint8_t", "float64": "double",
            "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t"}[array.dtype.name]
    numbers = ", ".join(str(v) for v in array.astype(array.dtype if array.dtype != bool else np.uint8).ravel().tolist())
    for word, value in (("nan", '__builtin_nan("")'), ("inf", "__builtin_inf()")):
        numbers = numbers.replace(word, value)
    return f"static const {kind} {name}[{array.size}] = {{{numbers}}};\n"


def pointers(header, struct):
    """Members of a struct of the header that point to tensors: (C type, name)."""
    body = re.search(r"typedef struct \w+_%s \{(.*?)\} " % struct, header, re.DOTALL)[1]
    return [(kind, name) for kind, name in re.findall(r"^ *((?:const )?\w+) \*(\w+);", body, re.MULTILINE) if name != "message"]


class Case:
    """A model with inputs, and what this machine answers."""

    def __init__(self, onnxc, model, place, folder, options=()):
        self.model, self.arrays = model, dict(inputs_of(model, place))
        self.want = expected(onnxc, model, self.arrays, folder, options)
        self.sizes = [w.size for w in self.want]
        self.symbols = {d.dim_param for i in onnx.load(model).graph.input for d in i.type.tensor_type.shape.dim if d.dim_param}


class Onnxc:
    """Compiles a model, and writes the part of main.c that calls it."""

    def __init__(self, arguments, cpu, case, folder):
        model, arrays = case.model, case.arrays
        triple, flags, _ = CPUS[cpu]
        self.object = os.path.join(folder, "m.o")
        sizes = [f"--shape={name}={'x'.join(map(str, a.shape))}" for name, a in arrays.items() if a.ndim]
        run(arguments.onnxc, model, f"--target={triple}", *flags.split(), *sizes, *arguments.options.split(), "--name", "m", "-o", self.object)
        with open(os.path.join(folder, "m.h"), encoding="utf-8") as f:
            header = f.read()
        members, outputs = pointers(header, "in"), pointers(header, "out")
        inputs, pools = [m for m in members if m[0] != "void"], [name for kind, name in members if kind == "void"]
        text = '#include "m.h"\n' + "".join(c_array(f"i{k}", a) for k, a in enumerate(arrays.values()))
        for k, (kind, _) in enumerate(outputs):
            text += f"static {kind} o{k}[{case.sizes[k]}];\n"
        text += "static unsigned char w[M_WORKSPACE_BYTES + 1] __attribute__((aligned(16)));\n"
        for name in pools:
            text += f"static unsigned char pool_{name}[M_POOL_{name.upper()}_BYTES + 1] __attribute__((aligned(16)));\n"
        text += "#define RAM_BYTES M_WORKSPACE_BYTES" + "".join(f" + M_POOL_{name.upper()}_BYTES" for name in pools) + "\n__attribute__((noinline)) static int call(void) {\n"
        text += "    m_in in = {" + ", ".join([f".{name} = i{k}" for k, (_, name) in enumerate(inputs)] +
                                              [f".{name} = pool_{name}, .{name}_bytes = sizeof pool_{name} - 1" for name in pools]) + "};\n"
        text += "    m_out out = {" + ", ".join(f".{name} = o{k}" for k, (_, name) in enumerate(outputs)) + "};\n    return m_run(&in, &out, w, M_WORKSPACE_BYTES);\n}\n"
        self.main, self.outputs, self.entry = text, outputs, "m_run"


class Onnx2c:
    def __init__(self, arguments, cpu, case, folder):
        model, arrays = case.model, case.arrays
        _, flags, _ = CPUS[cpu]
        source, self.object = os.path.join(folder, "peer.c"), os.path.join(folder, "peer.o")
        with open(source, "w", encoding="utf-8") as f:
            f.write(subprocess.run([arguments.onnx2c, *(f"-d{d}:1" for d in case.symbols), model], stdout=subprocess.PIPE, text=True, check=True).stdout)
        run("arm-none-eabi-gcc", *for_gcc(flags), "-mthumb", "-O2", "-ffunction-sections", "-fdata-sections", "-w", "-c", source, "-o", self.object)
        with open(source, encoding="utf-8") as f:
            signature = re.search(r"^void entry\((.*?)\)", f.read(), re.MULTILINE)[1]
        parameters = [re.match(r"(?:const )?(\w+) (\w+)((?:\[\d+\])*)", p.strip()).groups() for p in signature.split(",")]
        self.outputs = [(kind, name) for kind, name, _ in parameters[len(arrays):]]
        text = "".join(c_array(f"i{k}", a) for k, a in enumerate(arrays.values()))
        text += "".join(f"static {kind} o{k}[{case.sizes[k]}];\n" for k, (kind, _) in enumerate(self.outputs))
        text += "#define RAM_BYTES 0\nvoid entry();\n__attribute__((noinline)) static int call(void) {\n    entry(" + ", ".join([f"i{k}" for k in range(len(arrays))] + [f"o{k}" for k in range(len(self.outputs))]) + ");\n    return 0;\n}\n"
        self.main, self.entry = text, "entry"


def for_gcc(flags):
    """Flags of the C compiler, which does not know all of these CPUs."""
    return re.sub("cortex-m(52|85)", "cortex-m55", flags).split()


def section_sizes(elf):
    return {name: int(size) for name, size in re.findall(r"^(\.\w+)\s+(\d+)", run("arm-none-eabi-size", "-A", elf), re.MULTILINE)}


def measure(made, cpu, sizes, folder):
    """(bytes of flash, of static RAM, of stack, instructions, output values)"""
    _, flags, board = CPUS[cpu]
    script, main, begin = (os.path.join(folder, name) for name in ("board.ld", "main.c", "start.c"))
    show = "static void show(void) {\n" + "".join(
        f'    for (int i = 0; i < {n}; i++) {{ union {{ double d; uint32_t u[2]; }} v = {{(double)o{k}[i]}}; printf("out {k} %08lx%08lx\\n", (unsigned long)v.u[1], (unsigned long)v.u[0]); }}\n'
        for k, n in enumerate(sizes)) + "}\n"
    with open(script, "w", encoding="utf-8") as f:
        f.write(LAYOUT % ({"more": "0x01000000", "ram": "512K"} if "547" in board else {"more": "0x00080000", "ram": "4M"}))
    with open(main, "w", encoding="utf-8") as f:
        f.write(MAIN % {"model": made.main + show})
    with open(begin, "w", encoding="utf-8") as f:
        f.write(start())
    compiler = ["arm-none-eabi-gcc", *for_gcc(flags), "-mthumb"]
    alone, elf = os.path.join(folder, "alone.elf"), os.path.join(folder, "m.elf")
    run(*compiler, "-nostartfiles", "--specs=nano.specs", f"-Wl,-e,{made.entry},--gc-sections,-u,{made.entry}", made.object, "-lm", "-o", alone)
    run(*compiler, "-O2", "-w", f"-I{folder}", main, begin, made.object, "-o", elf, "-nostartfiles", "--specs=nano.specs", "--specs=rdimon.specs",
        "-T", script, "-Wl,--gc-sections,--no-warn-rwx-segments", "-lm")
    printed = run("qemu-system-arm", "-M", board, "-nographic", "-monitor", "none", "-serial", "none", "-icount", "shift=0", "-semihosting-config",
                  "enable=on,target=native", "-kernel", elf, timeout=120)
    values = dict(re.findall(r"^(failed|stack|instructions|static) (\d+)", printed, re.MULTILINE))
    if values.get("failed") != "0":
        raise RuntimeError(f"the run failed: {printed[:300]}")
    outputs = [np.array([int(x, 16) for x in re.findall(rf"^out {k} ([0-9a-f]+)", printed, re.MULTILINE)], np.uint64).view(np.float64) for k in range(len(sizes))]
    there = section_sizes(alone)
    flash = sum(there.get(s, 0) for s in (".text", ".rodata", ".data", ".ARM"))
    ram = int(values["static"]) + there.get(".data", 0) + there.get(".bss", 0)
    return flash, ram, int(values["stack"]), int(values["instructions"]), outputs


def expected(onnxc, model, arrays, folder, options=()):
    """Outputs of this machine, as arrays of double."""
    options = list(options)
    for k, (name, a) in enumerate(arrays.items()):
        np.save(os.path.join(folder, f"in{k}.npy"), a)
        options += ["--input", f"{name}={folder}/in{k}.npy"]
    names = [o.name for o in onnx.load(model).graph.output]
    for k, name in enumerate(names):
        options += ["--output", f"{name}={folder}/out{k}.npy"]
    run(onnxc, "run", model, *options)
    return [np.load(os.path.join(folder, f"out{k}.npy")).astype(np.float64).ravel() for k in range(len(names))]


def row(arguments, cpu, path):
    model, place = (os.path.join(path, "model.onnx"), path) if os.path.isdir(path) else (path, os.path.dirname(path))
    name = os.path.basename(path).replace(".onnx", "")
    with tempfile.TemporaryDirectory() as folder:
        case = Case(arguments.onnxc, model, place, folder)
        riscv = cpu in firmware_riscv.CPUS
        for engine in [Onnxc] + [Onnx2c] * (bool(arguments.onnx2c) and not riscv):
            try:
                flash, ram, stack, count, got = (firmware_riscv.measure if riscv else measure)(engine(arguments, cpu, case, folder), cpu, case.sizes, folder)
            except (RuntimeError, subprocess.CalledProcessError) as why:
                print(f"| {name} | {cpu} | {engine.__name__} | {str(why)[:1500]} |", flush=True)
                continue
            most = max((float(np.abs(g - w).max()) for g, w in zip(got, case.want)), default=0)
            print(f"| {name} | {cpu} | {engine.__name__.lower()} | {flash / 1024:.1f} | {(ram + stack) / 1024:.1f} | {stack} | {count:,} | {most:.1e} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("onnxc", type=os.path.abspath)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--cpu", default="cortex-m4")
    parser.add_argument("--options", default="-O2")
    parser.add_argument("--onnx2c")
    arguments = parser.parse_intermixed_args()
    models = arguments.models or (sorted(glob.glob(os.path.join(ROOT, "..", "shared", "models", "tiny_*"))) + [os.path.join(ROOT, "samples", "digits", "digits.onnx")] +
                                  tiny_networks.write(os.path.join(ROOT, "build", "bench", "tiny")))
    print("| model | CPU | engine | flash, KiB | RAM with stack, KiB | of it stack, bytes | thousand instructions | difference |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    for path in models:
        for cpu in arguments.cpu.split(","):
            row(arguments, cpu, path)


if __name__ == "__main__":
    sys.exit(main())
