"""The stage `macos`: Mach-O objects, archives, dynamic libraries and programs, linked by LLD without an SDK and examined by LLVM's
tools. A library for x86-64 without imports is mapped into this process and run."""
import ctypes
import mmap
import os
import platform
import shutil
import struct

from harness import BUILD, ONNXC, ROOT, run

FOLDER = os.path.join(BUILD, "test-macos")
DIGITS = os.path.join(ROOT, "samples", "digits", "digits.onnx")
MACHINES = {"arm64": "generic", "x86_64": "x86-64-v2"}
EXPORTS = [f"_digits_{n}" for n in ("descriptor", "run", "run_generic", "workspace_bytes", "workspace_generic")]


def done(results, name, command, expected=""):
    ran = run(command, timeout=120, cwd=FOLDER)
    results.check(ran.code == 0 and expected in ran.text, name, ran.why())
    return ran.out


def compile_to(results, arch, name, *options):
    return done(results, f"{arch}: {name}", [ONNXC, DIGITS, f"--target={arch}-apple-macos", f"--mcpu={MACHINES[arch]}", "--threads=1",
                                             "--name=digits", *options, "-o", name])


def exports(path):
    out = run(["llvm-objdump-19", "--macho", "--exports-trie", path], cwd=FOLDER).out
    return sorted(line.split()[1] for line in out.splitlines() if line.startswith("0x"))


def segments(image):
    """(address, bytes, contents) of each segment."""
    ncommands, at = struct.unpack_from("<I", image, 16)[0], 32
    for _ in range(ncommands):
        kind, size = struct.unpack_from("<II", image, at)
        if kind == 0x19:  # LC_SEGMENT_64
            address, memory, offset, bytes_ = struct.unpack_from("<QQQQ", image, at + 24)
            yield address, memory, image[offset : offset + bytes_]
        at += size


def address_of(path, symbol):
    out = run(["llvm-nm-19", path], cwd=FOLDER).out
    return next(int(line.split()[0], 16) for line in out.splitlines() if line.split()[-1] == symbol)


def run_here(results, path):
    """The answer of code for macOS, whose calling convention is that of Linux. The library needs no address of another one."""
    with open(os.path.join(FOLDER, path), "rb") as f:
        image = f.read()
    parts = list(segments(image))
    memory = mmap.mmap(-1, max(address + size for address, size, _ in parts), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    for address, _, contents in parts:
        memory[address : address + len(contents)] = contents
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    magic = memory[address_of(path, "_digits_descriptor") :][:7]
    results.check(magic == b"onnxc-m", "the descriptor's place", magic)
    pixels, logits = (ctypes.c_float * 64)(*([0] * 12 + ([16] + [0] * 7) * 6 + [0] * 4)), (ctypes.c_float * 10)()
    workspace = (ctypes.c_char * (1 << 20))()
    aligned = ctypes.addressof(workspace) + -ctypes.addressof(workspace) % 64
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    pointers = [ctypes.byref(ctypes.c_void_p(ctypes.addressof(x))) for x in (pixels, logits)]
    code = call(base + address_of(path, "_digits_run"))(*pointers, aligned, (1 << 20) - 64)
    best = max(range(10), key=lambda i: logits[i])
    results.check(code == 0 and best == 1, "code for macOS run here", f"code {code}, a {best}")


def one_machine(results, arch):
    compile_to(results, arch, f"{arch}.o")
    out = done(results, f"{arch}: symbols", ["llvm-nm-19", "-m", f"{arch}.o"])
    results.check(f"external _digits_run\n" in out and "(undefined) external _digits" not in out, f"{arch}: data are defined", out)
    done(results, f"{arch}: version", ["llvm-objdump-19", "--macho", "--private-headers", f"{arch}.o"], "minos 11.0")
    done(results, f"{arch}: unwind data", ["llvm-objdump-19", "--macho", "--unwind-info", f"{arch}.o"], "compact encoding")
    compile_to(results, arch, f"{arch}.a")
    done(results, f"{arch}: index of the archive", ["llvm-nm-19", "--print-armap", f"{arch}.a"], "_digits_run in digits.o")
    for name in (f"{arch}.dylib", f"{arch}-again.dylib"):
        compile_to(results, arch, name)
    results.check(exports(f"{arch}.dylib") == EXPORTS, f"{arch}: exports", exports(f"{arch}.dylib"))
    done(results, f"{arch}: install name", ["llvm-objdump-19", "--macho", "--dylib-id", f"{arch}.dylib"], f"@rpath/{arch}.dylib")
    done(results, f"{arch}: the archive's members are found",
         ["ld64.lld-19", "-arch", arch, "-platform_version", "macos", "11.0", "11.0", "-dylib", "-u", "_digits_run", f"{arch}.a",
          "-undefined", "dynamic_lookup", "-o", f"{arch}-archive.dylib"])
    results.check("_digits_run" in exports(f"{arch}-archive.dylib"), f"{arch}: from the archive", exports(f"{arch}-archive.dylib"))


def macos(results):
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    for arch in MACHINES:
        one_machine(results, arch)
    done(results, "universal library", ["llvm-lipo-19", "-create", "arm64.dylib", "x86_64.dylib", "-output", "both.dylib"])
    done(results, "its machines", ["llvm-lipo-19", "-archs", "both.dylib"], "x86_64 arm64")
    if platform.machine() == "x86_64":
        run_here(results, "x86_64.dylib")
