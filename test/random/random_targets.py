"""Other machines as forms of random_graphs.py: their programs run in emulators, Node.js or wine.

target_options(NAME) builds the runtime of a target in build/random-targets and gives the options of `onnxc test`.
"""
import os
import shutil

import foreign
import windows
from harness import BUILD, ROOT, run

CROSS = {triple: (runner, flags) for triple, runner, flags, _ in foreign.TARGETS}
RISCV = "riscv64-linux-gnu"


def vectors(bits, own):
    """RISC-V with vectors: code for registers of at least so many bits, on a CPU that has `own`."""
    extensions = ["-march=rv64gcv_zvl%db" % bits]
    return RISCV, f"qemu-riscv64 -L /usr/{RISCV} -cpu rv64,v=true,vext_spec=v1.0,vlen={own}", extensions


# Name of a form: triple, runner (None: that of the stage `foreign`), more options.
TARGETS = {
    "aarch64": ("aarch64-linux-gnu", None, []),
    "sve": ("aarch64-linux-gnu", None, ["-mcpu=neoverse-v1", "-msve-vector-bits=scalable"]),
    "arm": ("arm-linux-gnueabihf", None, []),
    "riscv64": (RISCV, None, []),
    "rvv128": vectors(128, 128),
    "rvv256": vectors(256, 512),
    "i686": ("i686-linux-gnu", None, []),
    "wasm32": ("wasm32-wasi", None, []),
    "windows": ("x86_64-windows-gnu", windows.find_wine(), []),
}


def runtime_for(triple):
    folder = os.path.join(BUILD, "random-targets", triple)
    library = os.path.join(folder, "libonnxc-rt.a")
    if not os.path.exists(library):
        tools = (windows.GCC, windows.AR) if "windows" in triple else foreign.tools_for(triple)
        flags = CROSS[triple][1] if triple in CROSS else ""
        ran = run(["make", "-s", "-C", ROOT, "runtime", f"B={folder}", f"CC={tools[0]}", f"AR={tools[1]}", f"CFLAGS={flags}"], timeout=300)
        if ran.code:
            raise SystemExit(f"runtime for {triple}: {ran.why()}")
    return library


def target_options(name):
    triple, runner, more = TARGETS[name]
    runtime = runtime_for(triple)
    if "windows" in triple:
        prefix = os.path.join(BUILD, "random-targets", "wine")
        os.makedirs(prefix, exist_ok=True)
        os.environ.update(WINEPREFIX=prefix, WINEDEBUG="-all")
        return [f"--target={triple}", f"--runtime={runtime}", f"--runner={runner}"]
    return [*foreign.options_for(triple, runner or CROSS[triple][0], runtime), *more]
