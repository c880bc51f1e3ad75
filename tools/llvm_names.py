#!/usr/bin/env python3
# Writes codegen/target/llvm_names.inc (to standard output): the CPU and feature names that LLVM knows, by architecture,
# as C strings of names between spaces, for codegen/target/targets.c. LLVM itself only prints unknown names to stderr.
import subprocess
import sys
import textwrap

LLC = sys.argv[1] if len(sys.argv) > 1 else "llc-19"
TRIPLES = [("x86", "x86_64"), ("aarch64", "aarch64"), ("arm", "thumbv7em"), ("riscv", "riscv64")]


def names(triple):
    run = subprocess.run([LLC, f"-mtriple={triple}", "-mattr=help"], stdin=subprocess.DEVNULL, capture_output=True,
                         text=True, check=False)
    cpus, features, into = [], [], None
    for line in run.stderr.splitlines():
        if line.startswith("Available CPUs"):
            into = cpus
        elif line.startswith("Available features"):
            into = features
        elif line.startswith("  ") and " - " in line and into is not None:
            into.append(line.split()[0])
    return cpus, features


def emit(name, words):
    print(f"static const char {name}[] =")
    lines = textwrap.wrap(" ".join(sorted(set(words))), 100, break_on_hyphens=False)
    print("\n".join(f'    " {line}"' for line in lines) + '\n    " ";')


print("// Made by tools/llvm_names.py.")
for arch, triple in TRIPLES:
    cpus, features = names(triple)
    emit(f"{arch}_cpus", cpus)
    emit(f"{arch}_features", features)
