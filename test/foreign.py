"""The stage `foreign`: other processors, whose code runs in an emulator: one case of each operator, and on aarch64, which has
schedules of its own (vectors of four, 32 registers), the pieces of networks in real sizes."""
import os
import shutil

from harness import BUILD, ONNXC, ROOT, run, run_cases

# (triple, qemu, flags of the runtime's compiler, whether it takes the large pieces)
TARGETS = [("aarch64-linux-gnu", "qemu-aarch64", "-mno-outline-atomics", True), ("arm-linux-gnueabihf", "qemu-arm", "", False),
           ("riscv64-linux-gnu", "qemu-riscv64", "", False)]


def runtime_for(results, triple, flags):
    folder = os.path.join(BUILD, "test-foreign", triple)
    shutil.rmtree(folder, ignore_errors=True)
    ran = run(["make", "-s", "-C", ROOT, "runtime", f"B={folder}", f"CC={triple}-gcc", f"AR={triple}-ar", f"CFLAGS={flags}"],
              timeout=300)
    return os.path.join(folder, "libonnxc-rt.a") if results.check(ran.code == 0, f"runtime for {triple}", ran.why()) else None


def foreign(results, small, large):
    for triple, qemu, flags, all_sizes in TARGETS:
        runtime = runtime_for(results, triple, flags)
        options = [f"--target={triple}", f"--runtime={runtime}", f"--linker={triple}-gcc", f"--runner={qemu} -L /usr/{triple}"]
        if runtime:
            run_cases(results, "foreign", options, [*small, *([large] if all_sizes else [])], timeout=120)
