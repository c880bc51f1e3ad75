"""The stage `windows`: objects, libraries, DLLs and programs for Windows, run by wine; code for 64-bit Arm is linked and examined."""
import glob
import os
import shutil
import subprocess

from harness import BUILD, ONNXC, ROOT, run, run_cases

FOLDER = os.path.join(BUILD, "test-windows")
SOURCES = os.path.join(ROOT, "test", "systems")
DIGITS = os.path.join(ROOT, "samples", "digits", "digits.onnx")
GCC, AR = "x86_64-w64-mingw32-gcc", "x86_64-w64-mingw32-ar"
TARGET, RUNTIME = "--target=x86_64-windows-gnu", os.path.join(FOLDER, "runtime", "libonnxc-rt.a")
INPUTS = ["--seed", "1", "--input", "image=random:0..16"]
# Pieces whose kernels use all registers, of which some belong to the caller on Windows only.
PIECES = ("whole_numbers_?", "bytes_of_the_run_0", "quantised_chain_[01]", "dense_0", "plain_convolutions_0", "attention_0")


def find_wine():
    return shutil.which("wine64") or shutil.which("wine") or "/usr/lib/wine/wine64"


class Wine:
    """One server for all programs of the stage, with a folder of its own for the system. A shell that waits keeps the system's
    services alive, which would otherwise belong to a test and hold its output open."""

    def __init__(self, wine):
        os.makedirs(in_folder("wine"), exist_ok=True)
        os.environ.update(WINEPREFIX=in_folder("wine"), WINEDEBUG="-all")
        self.server = shutil.which("wineserver") or "/usr/lib/wine/wineserver"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([wine, "hostname"], stdin=subprocess.DEVNULL, timeout=300, check=False, **quiet)
        self.shell = subprocess.Popen([wine, "cmd"], stdin=subprocess.PIPE, **quiet)

    def end(self):
        self.shell.stdin.close()
        subprocess.run([self.server, "-k"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)


def in_folder(*names):
    return os.path.join(FOLDER, *names)


def worked(results, name, command, expected="", **options):
    """Runs it in FOLDER; its output contains what is expected."""
    ran = run(command, timeout=120, cwd=FOLDER, **options)
    return results.check(ran.code == 0 and expected in ran.text, name, ran.why())


def build_runtime(results):
    ran = run(["make", "-s", "-C", ROOT, "runtime", f"B={in_folder('runtime')}", f"CC={GCC}", f"AR={AR}", "CFLAGS="], timeout=300)
    return results.check(ran.code == 0, "runtime for Windows", ran.why())


def dll(results, wine):
    """A DLL, opened by its path and linked by its import library, gives what Linux gives. It exports the model alone."""
    if not worked(results, "DLL", [ONNXC, DIGITS, TARGET, f"--runtime={RUNTIME}", "-o", "digits.dll"]):
        return
    out = run(["llvm-readobj-19", "--coff-exports", "digits.dll"], cwd=FOLDER).out
    names = sorted(line.split()[-1] for line in out.splitlines() if line.strip().startswith("Name:"))
    wanted = [f"digits_{n}" for n in ("descriptor", "run", "run_generic", "workspace_bytes", "workspace_generic")]
    results.check(names == wanted and "tmp" not in out, "exports of the DLL", out)
    host = [GCC, "-O1", "-I", ROOT, os.path.join(SOURCES, "host.c"), RUNTIME, "-static", "-o", "host.exe"]
    if worked(results, "host of DLLs", host):
        worked(results, "run of the DLL", [wine, "host.exe", "digits.dll", *INPUTS, "--output", "logits=logits.npy"])
        worked(results, "answer of the DLL", [ONNXC, "run", DIGITS, *INPUTS, "--compare", "logits=logits.npy"])
        ran = run([wine, "host.exe", "none.dll"], cwd=FOLDER)
        results.check(ran.code == 1 and "none.dll" in ran.text, "a DLL that is missing", ran.why())
        ran = run([wine, "host.exe", "kernel32.dll"], cwd=FOLDER)
        results.check(ran.code == 1 and "contains no model" in ran.text, "a DLL without a model", ran.why())
    if worked(results, "import library", [GCC, "-O1", "-I.", os.path.join(SOURCES, "imported.c"), "digits.lib", "-o", "imported.exe"]):
        worked(results, "program with the import library", [wine, "imported.exe"], "code 0: a 1, onnxc-m")


def static_library(results, wine):
    """Model and runtime in one library; kernels in threads, weights in a file."""
    os.makedirs(in_folder("static"), exist_ok=True)
    if worked(results, "static library", [ONNXC, DIGITS, TARGET, f"--runtime={RUNTIME}", "-o", "static/digits.lib"]):
        link = [GCC, "-O1", "-Istatic", os.path.join(SOURCES, "imported.c"), "static/digits.lib", "-o", "static.exe"]
        if worked(results, "program with the library", link):
            worked(results, "run of it", [wine, "static.exe"], "code 0: a 1, onnxc-m")
    made = [ONNXC, DIGITS, TARGET, f"--runtime={RUNTIME}", "--weights", "digits.weights", "--emit=exe", "-o", "weights.exe"]
    if worked(results, "program with a weights file", made):
        worked(results, "run with the weights", [wine, "weights.exe", *INPUTS, "--output", "logits=weights.npy"])
        worked(results, "answer with the weights", [ONNXC, "run", DIGITS, *INPUTS, "--compare", "logits=weights.npy"])
        os.remove(in_folder("digits.weights"))
        ran = run([wine, "weights.exe", *INPUTS], cwd=FOLDER)
        results.check(ran.code != 0 and "No such file or directory" in ran.text, "weights that are missing", ran.why())


def unwinding(results, wine):
    made = [ONNXC, DIGITS, TARGET, f"--runtime={RUNTIME}", "--hook", "before", "--name", "walked", "-o", "walked.lib"]
    if worked(results, "library with a hook", made):
        if worked(results, "walk", [GCC, "-O1", "-I.", os.path.join(SOURCES, "walk.c"), "walked.lib", "-o", "walk.exe"]):
            worked(results, "callers of a hook", [wine, "walk.exe"], "code 0, found")


def msvc(results, wine):
    """Microsoft's flavour, by lld-link. Parts of MinGW stand in for the SDK's libraries."""
    os.makedirs(in_folder("sdk", "lib"), exist_ok=True)
    clang = ["clang-19", "--target=x86_64-pc-windows-msvc", "-O1", "-fno-builtin", "-ffreestanding", "-c",
             os.path.join(SOURCES, "crt.c"), "-o", "crt.obj"]
    if not worked(results, "parts of a C library", clang):
        return
    worked(results, "libcmt.lib", [AR, "rcs", "sdk/lib/libcmt.lib", "crt.obj"])
    shutil.copy("/usr/x86_64-w64-mingw32/lib/libkernel32.a", in_folder("sdk", "lib", "kernel32.lib"))
    model = [ONNXC, DIGITS, "--target=x86_64-windows-msvc", "--sysroot", "sdk", "--threads=1", "--mcpu=x86-64-v2", "--name=digits"]
    if worked(results, "DLL in Microsoft's flavour", [*model, "-o", "msvc.dll"]):
        worked(results, "run of it", [wine, "host.exe", "msvc.dll", *INPUTS, "--output", "logits=msvc.npy"])
        worked(results, "answer of it", [ONNXC, "run", DIGITS, *INPUTS, "--compare", "logits=msvc.npy"])
    worked(results, "object in Microsoft's flavour", [*model, "-o", "msvc.obj"])
    worked(results, "its format", ["llvm-readobj-19", "--file-headers", "msvc.obj"], "COFF-x86-64")


def arm(results):
    """64-bit Arm: the object has unwind data and names that LLD resolves to a DLL."""
    for flavour in ("gnu", "msvc"):
        made = [ONNXC, DIGITS, f"--target=aarch64-windows-{flavour}", "--threads=1", "--mcpu=generic", "-o", f"arm-{flavour}.obj"]
        if not worked(results, f"object for Arm, {flavour}", made):
            continue
        headers = run(["llvm-readobj-19", "--file-headers", "--unwind", "--symbols", f"arm-{flavour}.obj"], cwd=FOLDER).out
        results.check("IMAGE_FILE_MACHINE_ARM64" in headers and "RuntimeFunction" in headers, "unwind data for Arm", headers[:500])
        link = ["lld-link-19", "/dll", "/noentry", "/machine:arm64", "/nodefaultlib", f"arm-{flavour}.obj", f"/out:arm-{flavour}.dll",
                f"/export:arm_{flavour}_run", "/force:unresolved"]
        worked(results, f"DLL for Arm, {flavour}", link)


def windows(results, small, large):
    wine = find_wine()
    if not shutil.which(GCC) or not os.path.exists(wine):
        results.skip("windows", "MinGW or wine is not installed")
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    server = Wine(wine)
    try:
        if not build_runtime(results):
            return
        options = [TARGET, f"--runtime={RUNTIME}", f"--runner={wine}"]
        dll(results, wine)
        static_library(results, wine)
        unwinding(results, wine)
        msvc(results, wine)
        arm(results)
        run_cases(results, "windows", options, small, timeout=120, again="the program ended with exit code")
        pieces = [path for pattern in PIECES for path in sorted(glob.glob(os.path.join(large, pattern)))]
        run_cases(results, "windows", options, pieces, timeout=300, again="the program ended with exit code")
    finally:
        server.end()
