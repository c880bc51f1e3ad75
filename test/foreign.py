"""The stage `foreign`: other processors, in an emulator where this one cannot run their code: one case of each operator, and on
aarch64, which has schedules of its own (vectors of four, 32 registers), the pieces of networks in real sizes."""
import os
import platform
import shutil

from harness import BUILD, ONNXC, ROOT, run, run_cases

# Machines of 64 bits run 32-bit x86 themselves, behind the loader that comes with the cross compiler.
I686 = ("/usr/i686-linux-gnu/lib/ld-linux.so.2 --library-path /usr/i686-linux-gnu/lib" if platform.machine() == "x86_64"
        else "qemu-i386 -L /usr/i686-linux-gnu")
# (triple, what runs its programs, flags of the runtime's compiler, whether it takes the large pieces)
TARGETS = [("aarch64-linux-gnu", "qemu-aarch64 -L /usr/aarch64-linux-gnu", "-mno-outline-atomics", True),
           ("arm-linux-gnueabihf", "qemu-arm -L /usr/arm-linux-gnueabihf", "", False),
           ("riscv64-linux-gnu", "qemu-riscv64 -L /usr/riscv64-linux-gnu", "", False), ("i686-linux-gnu", I686, "", False)]


def runtime_for(results, triple, flags):
    folder = os.path.join(BUILD, "test-foreign", triple)
    shutil.rmtree(folder, ignore_errors=True)
    ran = run(["make", "-s", "-C", ROOT, "runtime", f"B={folder}", f"CC={triple}-gcc", f"AR={triple}-ar", f"CFLAGS={flags}"],
              timeout=300)
    return os.path.join(folder, "libonnxc-rt.a") if results.check(ran.code == 0, f"runtime for {triple}", ran.why()) else None


def foreign(results, small, large):
    for triple, runner, flags, all_sizes in TARGETS:
        runtime = runtime_for(results, triple, flags)
        options = [f"--target={triple}", f"--runtime={runtime}", f"--linker={triple}-gcc", f"--runner={runner}"]
        if runtime:
            run_cases(results, "foreign", options, [*small, *([large] if all_sizes else [])], timeout=120)
