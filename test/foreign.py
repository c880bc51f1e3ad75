"""The stage `foreign`: other processors, in an emulator where this one cannot run their code: one case of each operator, and on
aarch64, which has schedules of its own (vectors of four, 32 registers), the pieces of networks in real sizes. Objects for all CPU
levels run on older CPUs, too."""
import glob
import os
import platform

import arm
from harness import BUILD, JOBS, ONNXC, ROOT, alone, run, run_cases, sample

# Machines of 64 bits run 32-bit x86 themselves, behind the loader that comes with the cross compiler.
I686 = ("/usr/i686-linux-gnu/lib/ld-linux.so.2 --library-path /usr/i686-linux-gnu/lib" if platform.machine() == "x86_64"
        else "qemu-i386 -L /usr/i686-linux-gnu")
AARCH64 = "qemu-aarch64 -L /usr/aarch64-linux-gnu"
ALL, EVEN, ODD = (1, 0), (2, 0), (2, 1)  # every so many cases from one on
# (triple, what runs its programs, flags of the runtime's compiler, which of the small cases it takes). Operators know no processor: two
# machines of 32 bits, and two others, share the cases. The one with all of them takes the large pieces, too.
TARGETS = [("aarch64-linux-gnu", AARCH64, "-mno-outline-atomics", ALL),
           ("arm-linux-gnueabihf", "qemu-arm -L /usr/arm-linux-gnueabihf", "", EVEN),
           ("riscv64-linux-gnu", "qemu-riscv64 -L /usr/riscv64-linux-gnu", "", ODD), ("i686-linux-gnu", I686, "", ODD),
           ("wasm32-wasi", f"node {os.path.join(ROOT, 'test', 'web', 'wasi.mjs')}", "", EVEN)]
# In place of gcc, its ar, and the linker.
WASM_TOOLS = ("clang-19 --target=wasm32-wasi -nostdlibinc -isystem /usr/include/wasm32-wasi", "llvm-ar-19", None)
# Without AVX; with AVX2; without the dot product; with it. An instruction that the emulated CPU lacks ends the program.
OLDER_CPUS = [("x86_64-linux-gnu", "qemu-x86_64 -cpu Nehalem"), ("x86_64-linux-gnu", "qemu-x86_64 -cpu Haswell"),
              ("aarch64-linux-gnu", f"{AARCH64} -cpu cortex-a72"), ("aarch64-linux-gnu", f"{AARCH64} -cpu neoverse-n1")]
# Large pieces of bytes, whose answers are exact or off by a step, and of f32.
PIECES_OF_LEVELS = ("whole_numbers_?", "bytes_of_the_run_0", "quantised_chain_[01]", "dense_0", "plain_convolutions_0")


def tools_for(triple):
    return WASM_TOOLS if triple.startswith("wasm") else (f"{triple}-gcc", f"{triple}-ar", f"{triple}-gcc")


def runtime_for(results, triple, flags=""):
    """Several stages use it."""
    folder = os.path.join(BUILD, "test-runtime", triple)
    compiler, archiver, _ = tools_for(triple)
    with alone(f"runtime-{triple}"):
        ran = run(["make", "-s", f"-j{JOBS}", "-C", ROOT, "runtime", f"B={folder}", f"CC={compiler}", f"AR={archiver}", f"CFLAGS={flags}"],
                  timeout=300)
    return os.path.join(folder, "libonnxc-rt.a") if results.check(ran.code == 0, f"runtime for {triple}", ran.why()) else None


def options_for(triple, runner, runtime):
    linker = tools_for(triple)[2]
    return [f"--target={triple}", f"--runtime={runtime}", *([f"--linker={linker}"] if linker else []), f"--runner={runner}"]


def rounded(results, options, name):
    """A product of positive numbers rounded to bf16, for one row, and for rows that fill a tile and more: both factors are off by
    2^-8 at most."""
    folder = os.path.join(BUILD, "test-foreign", "rounded")
    os.makedirs(folder, exist_ok=True)
    first, second = (", ".join(str(i * factor % 31 / 32) for i in range(64 * width)) for factor, width in ((7, 64), (11, 36)))
    for rows in (1, 21, 61):
        path = os.path.join(folder, f"rounded{rows}.onnxtxt")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f'<ir_version: 8, opset_import: ["" : 13]> g (float[{rows}, 64] x) => (float[{rows}, 36] y) '
                    f"<float[64, 64] v = {{{first}}}, float[64, 36] w = {{{second}}}> "
                    "{ t = MatMul (x, v) u = Relu (t) y = MatMul (u, w) }")
        ran = run([ONNXC, "run", path, *options, "--precision=bf16", "--input", "x=random:0..1", "--compare=interpret",
                   f"--rtol={2 * 2 ** -8 + 2 ** -14}"], timeout=120)
        results.check(ran.code == 0, f"{name}: {rows} rows in bf16", ran.out[-500:] + ran.why())
    attention(results, options, name, folder)


def lookups(results, options, name):
    """Functions of bytes: in whole vectors and in their last lanes, of both signs."""
    model = os.path.join(ROOT, "test", "cross", "lookups.onnxtxt")
    ranges = {"x": "0..255", "i": "-128..127", "j": "-128..127"}
    ran = run([ONNXC, "run", model, *options, "--dim=N=4", *(w for n, r in ranges.items() for w in ("--input", f"{n}=random:{r}")),
               "--compare=interpret", "--rtol=0", "--atol=0"], timeout=120)
    results.check(ran.code == 0, f"{name}: lookups of bytes", ran.out[-500:] + ran.why())


def attention(results, options, name, folder):
    """Scores are below 4 and off by 2^-7 of themselves, so that weights are off by 7 %; values are off by 2^-8, as are weights."""
    path = os.path.join(folder, "attention.onnxtxt")
    with open(path, "w", encoding="utf-8") as f:
        f.write('<ir_version: 10, opset_import: ["" : 23]> g (float[1, 2, 37, 16] q, float[1, 2, 70, 16] k, float[1, 2, 70, 20] v) '
                "=> (float[1, 2, 37, 20] y) { y = Attention (q, k, v) }")
    ran = run([ONNXC, "run", path, *options, "--precision=bf16", *(w for x in "qkv" for w in ("--input", f"{x}=random:0..1")),
               "--compare=interpret", "--atol=0.075"], timeout=120)
    results.check(ran.code == 0, f"{name}: attention in bf16", ran.out[-500:] + ran.why())


def denormals(results, options, name, *flags):
    """Products, sums and maxima below 2^-126, made large: with --fp=strict the interpreter's bits."""
    path = os.path.join(BUILD, "test-foreign", "denormals.onnxtxt")
    small = ", ".join(f"{(i * 7 % 37 - 18) * 1e-40:g}" for i in range(37))
    with open(path, "w", encoding="utf-8") as f:
        f.write('<ir_version: 8, opset_import: ["" : 17]> g (float[5, 37] x) => (float[5, 37] y) '
                f"<float[37] a = {{{small}}}, float large = {{1e30}}, float zero = {{0}}> "
                "{ p = Mul (x, a) s = Add (p, a) m = Max (s, zero) y = Mul (m, large) }")
    ran = run([ONNXC, "run", path, *options, *flags, "--fp=strict", "--input=x=random", "--compare=interpret", "--rtol=0", "--atol=0"], timeout=120)
    results.check(ran.code == 0, f"{name}: denormal numbers", ran.out[-500:] + ran.why())


PORTABLE = """<ir_version: 10, opset_import: ["" : 21]> g (float[3, 17] x, int8[5, 9] i) => (float[3, 17] y, uint8[3, 17] q, int32[5, 4] s, float16[3, 17] h)
<float step = {0.05}, uint8 zero = {100}, int8[9, 4] w = {%s}, int4[17] small = {%s}> {
    f = Floor (x) r = Round (x) e = Softmax (x) t = Tanh (x) c = Cast <to = 1> (small)
    a = Add (f, r) b = Add (e, t) ab = Add (a, b) y = Mul (ab, c) q = QuantizeLinear (x, step, zero) s = MatMulInteger (i, w) h = Cast <to = 10> (y) }"""
PORTABLE_MAIN = r"""#include "m.h"
#include <stdio.h>
#include <string.h>
int main(void) {
    static float x[51], y[51];
    static int8_t i[45];
    static uint8_t q[51];
    static int32_t s[20];
    static uint16_t h[51];
    static _Alignas(64) unsigned char workspace[M_WORKSPACE_BYTES + 1];
    for (int j = 0; j < 51; j++) x[j] = (float)(j * 37 % 101 - 50) / 8;
    for (int j = 0; j < 45; j++) i[j] = (int8_t)(j * 59 % 256 - 128);
    m_out out = {.y = y, .q = q, .s = s, .h = h};
    int code = m_run(&(m_in){.x = x, .i = i}, &out, workspace, sizeof workspace);
    for (int j = 0; j < 51; j++) printf("%a %d %d ", y[j], q[j], h[j]);
    for (int j = 0; j < 20; j++) printf("%d ", s[j]);
    return code;
}
"""
# Compilers of emitted C, and what runs their programs. gcc for s390x, a big-endian machine, computes f32 as f64 with -std=c11.
PORTABLE_COMPILERS = [("gcc -std=c11", ""), ("i686-linux-gnu-gcc -std=c11 -msse2 -mfpmath=sse", ""), ("arm-linux-gnueabihf-gcc -std=c11", "qemu-arm"),
                      ("s390x-linux-gnu-gcc -std=c11", "qemu-s390x"), ("s390x-linux-gnu-gcc -std=gnu11", "qemu-s390x")]


def near(a, b):
    """Lines of hexadecimal floats and integers."""
    pairs = [[float.fromhex(w) if "x" in w else int(w) for w in pair] for pair in zip(a.split(), b.split())]
    return len(a.split()) == len(b.split()) and all(abs(x - y) <= (1 if isinstance(x, int) else 1e-4 * (1 + abs(x))) for x, y in pairs)


def portable_c(results):
    """Emitted C for machines of either byte order and word size has the same bits with --fp=strict; x87 is refused in any mode."""
    folder = os.path.join(BUILD, "test-foreign", "portable")
    os.makedirs(folder, exist_ok=True)
    model, code, program = (os.path.join(folder, name) for name in ("m.onnxtxt", "m.c", "m"))
    with open(model, "w", encoding="utf-8") as f:
        f.write(PORTABLE % (", ".join(str(i * 71 % 256 - 128) for i in range(36)), ", ".join(str(i % 16 - 8) for i in range(17))))
    with open(os.path.join(folder, "main.c"), "w", encoding="utf-8") as f:
        f.write(PORTABLE_MAIN)
    for mode in "default", "strict":
        made, answers = run([ONNXC, model, f"--fp={mode}", "-o", code]), {}
        for compiler, runner in PORTABLE_COMPILERS:
            built = run([*compiler.split(), "-O2", "-static", os.path.join(folder, "main.c"), code, "-o", program, "-lpthread"])
            ran = run([*runner.split(), program]) if built.code == 0 else built
            answers[compiler] = ran.out
            agrees = near if mode == "default" else str.__eq__
            results.check(made.code == 0 and ran.code == 0 and agrees(ran.out, answers["gcc -std=c11"]),
                          f"emitted C, {mode}, {compiler}", ran.out[:500] + ran.why())
        refused = run(["i686-linux-gnu-gcc", "-c", code, "-o", program])
        results.check(refused.code and "-mfpmath=sse" in refused.err, f"emitted C, {mode}, for x87", refused.why())


def integers(results, triple, runner, runtime):
    """Divisions and conversions of 64 bits, in a program that LLD links: without a library of a compiler."""
    model = os.path.join(ROOT, "test", "cross", "integers.onnxtxt")
    threads = [] if triple.startswith("wasm") else ["--threads=3"]
    ranges = {"n": "-9e18..9e18", "u": "0..9e18", "f": "-9e18..9e18", "i": "-2e9..2e9"}
    for d, v in (("1..3", "1..3"), ("-9e5..-1", "1..9e5"), ("1..9e12", "1..9e12"), ("-9e18..-1e18", "1e18..9e18")):
        ranges.update({"d": d, "v": v, "j": "-9e5..-1" if d[0] == "-" else "1..9e3"})
        ran = run([ONNXC, "run", model, f"--target={triple}", f"--runtime={runtime}", f"--runner={runner}", *threads, "--dim=N=4000",
                   *(w for name, r in ranges.items() for w in ("--input", f"{name}=random:{r}")), "--compare=interpret", "--rtol=0",
                   "--atol=0"], timeout=120)
        results.check(ran.code == 0, f"{triple}: integers by {d}", ran.out[-500:] + ran.why())


def older_cpus(results, pieces):
    """Default objects, with code for all CPU levels, on CPUs that have few of them."""
    folders = [path for pattern in PIECES_OF_LEVELS for path in sorted(glob.glob(os.path.join(pieces, pattern)))]
    for triple, runner in OLDER_CPUS:
        own = triple.startswith(platform.machine())
        if not own and triple.startswith("x86_64"):
            continue
        runtime = os.path.join(os.path.dirname(ONNXC) if own else os.path.join(BUILD, "test-runtime", triple), "libonnxc-rt.a")
        options = options_for(triple, runner, runtime)
        if own:
            options = [o if not o.startswith("--linker") else "--linker=gcc" for o in options]
        run_cases(results, "foreign", options, folders, timeout=120)
        rounded(results, options, runner)
        lookups(results, options, runner)


def foreign(results, small, large):
    for triple, runner, flags, which in TARGETS:
        runtime = runtime_for(results, triple, flags)
        if not runtime:
            continue
        options = options_for(triple, runner, runtime)
        run_cases(results, "foreign", options, [*sample(small, *which), *([large] if which == ALL else [])], timeout=120)
        if which == ALL:
            rounded(results, options, runner)
            lookups(results, options, runner)
            arm.units(results, lambda emulator: options_for(triple, emulator, runtime), runtime, runner)
        if triple.startswith("arm-"):
            denormals(results, options, triple, "-mcpu=cortex-a9")
        integers(results, triple, runner, runtime)
    portable_c(results)
    older_cpus(results, large)
