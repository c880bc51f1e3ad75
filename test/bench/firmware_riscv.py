"""The rows of firmware.py for RISC-V without an operating system: programs of one model, which QEMU's user emulation runs and a plugin counts."""
import os
import re
import subprocess

import numpy as np

CROSS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cross")
# cpu: (triple, machine flags, board: none)
CPUS = {"rv32imac": ("riscv32-none-elf", "-march=rv32imac -mabi=ilp32", None),
        "rv32imafc": ("riscv32-none-elf", "-march=rv32imafc -mabi=ilp32f", None),
        "rv64gc": ("riscv64-none-elf", "-march=rv64gc -mabi=lp64d", None)}
TYPES = {"float": np.float32, "double": np.float64, "int8_t": np.int8, "uint8_t": np.uint8, "int16_t": np.int16, "int32_t": np.int32, "int64_t": np.int64}
MAIN = r"""
typedef unsigned long word;
void *memcpy(void *to, const void *from, size_t n) {
    char *t = to;
    const char *f = from;
    while (n-- > 0) *t++ = *f++;
    return to;
}
void *memset(void *to, int c, size_t n) {
    char *t = to;
    while (n-- > 0) *t++ = (char)c;
    return to;
}
void *memmove(void *to, const void *from, size_t n) {
    char *t = to;
    const char *f = from;
    if (t <= f) return memcpy(to, from, n);
    while (n-- > 0) t[n] = f[n];
    return to;
}
__asm__(".globl _start\n_start: call begin\n");
static word ask(word n, word a, word b, word c) {
    register word a7 __asm__("a7") = n, a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
    return a0;
}
void begin(void) {
    int failed = 0;
    for (int i = 0; i < TIMES; i++) failed |= call();
    show();
    ask(93, (word)failed, 0, 0);
}
"""


def run(*command):
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if ran.returncode != 0:
        raise RuntimeError(f"failed {ran.returncode}: " + " ".join(command) + "\n" + (ran.stdout + ran.stderr).decode(errors="replace"))
    return ran


def sections(elf):
    return {name: int(size) for name, size in re.findall(r"^(\.\w+)\s+(\d+)", run("llvm-size-19", "-A", elf).stdout.decode(), re.MULTILINE)}


def linked(made, cpu, sizes, times, folder):
    """A program that runs the model so often, and writes what it answers."""
    triple, flags, _ = CPUS[cpu]
    source, elf = os.path.join(folder, "main.c"), os.path.join(folder, f"m{times}.elf")
    text = f"#define TIMES {times}\n" + made.main + "static void show(void);\n" + MAIN + "static void show(void) {\n"
    text += "".join(f"    ask(64, 1, (word)o{k}, sizeof o{k});\n" for k in range(len(sizes))) + "}\n"
    with open(source, "w", encoding="utf-8") as f:
        f.write(text)
    run("clang-19", f"--target={triple}", *flags.split(), "-O2", "-ffreestanding", "-fno-builtin", "-fno-pic", "-ffunction-sections", "-w", f"-I{folder}", "-c", source, "-o",
        source + ".o")
    run("ld.lld-19", "-static", "--gc-sections", source + ".o", made.object, "-o", elf)
    return elf


def measure(made, cpu, sizes, folder):
    """(bytes of flash, of static RAM, of stack, instructions, output values)"""
    plugin, emulator = os.path.join(folder, "count.so"), "qemu-riscv" + ("32" if "32" in cpu else "64")
    run("cc", "-shared", "-fPIC", "-O1", os.path.join(CROSS, "count_plugin.c"), "-o", plugin)
    ran = [run(emulator, "-plugin", plugin, linked(made, cpu, sizes, times, folder)) for times in (1, 3)]
    few, many = (int(re.search(rb"^instructions (\d+)$", r.stderr, re.MULTILINE)[1]) for r in ran)
    outputs, at = [], 0
    for (kind, _), n in zip(made.outputs, sizes):
        outputs.append(np.frombuffer(ran[0].stdout, TYPES[kind], n, at).astype(np.float64))
        at += n * np.dtype(TYPES[kind]).itemsize
    alone = os.path.join(folder, "alone.elf")
    run("ld.lld-19", "-static", "--gc-sections", "-e", made.entry, "-u", made.entry, made.object, os.path.join(folder, "main.c.o"), "-o", alone,
        "--unresolved-symbols=ignore-all")
    there = sections(alone)
    with open(os.path.join(folder, "m.h"), encoding="utf-8") as f:
        header = f.read()
    number = lambda name: int(re.search(rf"^#define M_{name} (\d+)", header, re.MULTILINE)[1])  # noqa: E731
    flash = sum(there.get(s, 0) for s in (".text", ".rodata", ".data"))
    return flash, number("WORKSPACE_BYTES") + there.get(".data", 0), number("STACK_BYTES"), (many - few) // 2 // 1000, outputs
