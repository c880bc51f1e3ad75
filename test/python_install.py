"""Installations of the Python package. Prints N passed, N failed, N skipped.

usage: python_install.py [WHEEL]

Without WHEEL: `pip install bindings/python` and an editable installation, in fresh environments, and the source archive. With it:
that wheel, in a fresh environment, checked by auditwheel, and in a root folder with nothing but Python, numpy and the C library.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

from harness import ONNXC, ROOT, run_unittests

WHEEL = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].endswith(".whl") else None
PACKAGE = os.path.join(ROOT, "bindings", "python")
MODEL = os.path.join(ROOT, "test", "cli", "mlp.onnx")
VERSION = open(os.path.join(ROOT, "VERSION")).read().strip()
CLEAN = {"LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}

PROGRAM = """
import os, sys
import numpy as np
import onnxc
print(onnxc.__version__, onnxc.version())
session = onnxc.InferenceSession("mlp.onnx", providers=["CPUExecutionProvider"])
y, = session.run(None, {"x": np.array([[1, 2, 3, 4]], np.float32)})
print(y.tolist())
made = onnxc.compile("mlp.onnx", "mlp.so")
print(onnxc.InferenceSession(made.output).run(None, [np.array([[1, 2, 3, 4]], np.float32)])[0].tolist())
print(os.path.isfile(os.path.join(onnxc.get_include(), "onnxc.h")), os.path.isfile(os.path.join(onnxc.get_library_dir(), "libonnxc-rt.a")))
"""
PRINTED = f"{VERSION} {VERSION}\n[[7.5, 8.75, 10.0]]\n[[7.5, 8.75, 10.0]]\nTrue True\n"


def run(*command, cwd=None, env=None, check=True):
    ran = subprocess.run([str(c) for c in command], cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, errors="replace")
    if check and ran.returncode:
        raise AssertionError(f"{command[0]} ended with exit code {ran.returncode}: {ran.stdout[-2000:]}")
    return ran.stdout


class Folder(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = os.path.realpath(made.name)
        shutil.copy(MODEL, self.folder)

    def environment(self, *arguments):
        """A fresh environment with the package, and numpy of this one."""
        env = os.path.join(self.folder, "env")
        run(sys.executable, "-m", "venv", env)
        site, = glob.glob(os.path.join(env, "lib", "python3*", "site-packages"))
        import numpy
        with open(os.path.join(site, "numpy.pth"), "w") as f:
            f.write(os.path.dirname(os.path.dirname(numpy.__file__)) + "\n")
        run(os.path.join(env, "bin", "python"), "-m", "pip", "install", "-q", "--no-deps", "--disable-pip-version-check", *arguments,
            cwd=self.folder)
        return os.path.join(env, "bin"), site

    def check_package(self, bin_folder, path=""):
        env = {**CLEAN, "PATH": f"{bin_folder}:{path}"}
        self.assertEqual(run(os.path.join(bin_folder, "python"), "-c", PROGRAM, cwd=self.folder, env=env), PRINTED)
        self.assertIn(f"onnxc {VERSION}", run(os.path.join(bin_folder, "onnxc"), "--version", env=env))
        self.assertIn(f"onnxc {VERSION}", run(os.path.join(bin_folder, "python"), "-m", "onnxc", "--version", env=env))
        run(os.path.join(bin_folder, "onnxc"), "mlp.onnx", "-o", "a.a", cwd=self.folder, env=env)
        self.assertIn("cannot read 'none.onnx'", run(os.path.join(bin_folder, "onnxc"), "none.onnx", "-o", "a.o", env=env, check=False))


@unittest.skipIf(WHEEL, "a wheel is given")
class FromSource(Folder):
    def test_pip_install(self):
        bin_folder, site = self.environment(PACKAGE)
        self.check_package(bin_folder)
        self.assertTrue(os.path.exists(os.path.join(site, "onnxc", "py.typed")))
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(bin_folder), "share", "man", "man1", "onnxc.1")))
        shown = run(os.path.join(bin_folder, "python"), "-m", "pip", "show", "--disable-pip-version-check", "onnxc")
        self.assertRegex(shown, f"(?s)Version: {re.escape(VERSION)}.*Requires: numpy")
        listed = run(os.path.join(bin_folder, "python"), "-m", "pip", "uninstall", "-y", "--disable-pip-version-check", "onnxc")
        self.assertIn("Successfully uninstalled", listed)
        self.assertEqual(glob.glob(os.path.join(site, "onnxc*")), [])

    def test_editable(self):
        bin_folder, site = self.environment("-e", PACKAGE)
        self.check_package(bin_folder, os.environ["PATH"])  # where the linker is
        self.assertFalse(os.path.exists(os.path.join(site, "onnxc")))

    def test_source_archive(self):
        run(sys.executable, "-c", "import sys, build_backend; sys.stdout.write(build_backend.build_sdist(sys.argv[1]))", self.folder, cwd=PACKAGE)
        with tarfile.open(os.path.join(self.folder, f"onnxc-{VERSION}.tar.gz")) as tar:
            tar.extractall(self.folder, filter="data")
        root = os.path.join(self.folder, f"onnxc-{VERSION}")
        for name in "Makefile", "PKG-INFO", "compiler/cli/main.c", "bindings/python/onnxc/session.py":
            self.assertTrue(os.path.exists(os.path.join(root, name)), name)
        with open(os.path.join(root, "pyproject.toml")) as f:
            self.assertIn('backend-path = ["bindings/python"]', f.read())
        env = {**os.environ, "PYTHONPATH": os.path.join(root, "bindings", "python")}
        run(sys.executable, "-c", "import sys, build_backend; build_backend.prepare_metadata_for_build_wheel(sys.argv[1])", self.folder, cwd=root,
            env=env)
        with open(os.path.join(self.folder, f"onnxc-{VERSION}.dist-info", "METADATA")) as f:
            self.assertIn("Requires-Dist: numpy", f.read())


@unittest.skipUnless(WHEEL, "no wheel is given")
class Wheel(Folder):
    def test_environment(self):
        bin_folder, site = self.environment("--no-index", WHEEL)
        self.check_package(bin_folder)
        native = os.path.join(site, "onnxc", "_native")
        for name in "bin/onnxc", "lib/libonnxc.so.0", "lib/onnxc/ld.lld":
            for library in re.findall(r"^\s*(\S+?)\.so", run("ldd", os.path.join(native, name)), re.MULTILINE):
                self.assertRegex(library, r"^(libonnxc|libc|libm|libdl|libpthread|linux-vdso|/lib.*/ld-linux.*)$")
        self.check_bytes(bin_folder)
        self.check_targets(bin_folder, native)

    def check_bytes(self, bin_folder):
        """The same output as that of the build with shared libraries."""
        made = []
        for program in ONNXC, os.path.join(bin_folder, "onnxc"):
            run(program, "mlp.onnx", "-o", "b.o", cwd=self.folder)
            with open(os.path.join(self.folder, "b.o"), "rb") as f:
                made.append(f.read())
        self.assertEqual(*made)

    def check_targets(self, bin_folder, native):
        targets = [os.path.basename(os.path.dirname(p)) for p in glob.glob(os.path.join(native, "lib", "onnxc", "*", "libonnxc-rt.a"))]
        for target, *flags in ("aarch64-linux-gnu",), ("thumbv7em-none-eabihf", "-mcpu=cortex-m4"):
            self.assertIn(target, targets)
            run(os.path.join(bin_folder, "onnxc"), "mlp.onnx", "--target", target, *flags, "-o", f"{target}.a", cwd=self.folder)
        run(os.path.join(bin_folder, "onnxc"), "mlp.onnx", "--target", "aarch64-linux-gnu", "-o", "c.so", cwd=self.folder)

    def test_auditwheel(self):
        said = run(sys.executable, "-m", "auditwheel", "show", WHEEL)
        tag = re.search(r'platform tag:\s+"manylinux_2_(\d+)_\w+"', said)
        self.assertTrue(tag, said)
        self.assertIn(f"manylinux_2_{tag[1]}_", os.path.basename(WHEEL))
        self.assertLessEqual(int(tag[1]), 27)

    def test_contents(self):
        with zipfile.ZipFile(WHEEL) as z:
            names = z.namelist()
        self.assertEqual([n for n in names if n.startswith(("onnxc/_native/share/onnxc/python", "onnxc/_native/share/man"))], [])
        for name in "onnxc/_native/include/onnxc.h", "onnxc/_native/share/onnxc/onnxc.mk", "onnxc/_native/share/doc/onnxc/licences/llvm-19.txt":
            self.assertIn(name, names)
        self.assertLess(os.path.getsize(WHEEL), 50 << 20)

    @unittest.skipIf(subprocess.call(["unshare", "-rm", "true"], stderr=subprocess.DEVNULL), "there are no user namespaces")
    def test_bare_root(self):
        root = os.path.join(self.folder, "root")
        python = bare_root(root)
        with zipfile.ZipFile(WHEEL) as z:
            for about in z.infolist():
                os.chmod(z.extract(about, os.path.join(root, "site")), about.external_attr >> 16 or 0o755)
        for name in "work", "tmp", "proc":
            os.mkdir(os.path.join(root, name))
        shutil.copy(MODEL, os.path.join(root, "work"))

        def inside(*command):
            return run("unshare", "-rm", "sh", "-c", 'mount --rbind /proc "$0/proc" && exec chroot "$0" sh -c \'cd /work && exec "$@"\' sh "$@"', root,
                       *command, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": "/site"})
        self.assertEqual(inside(python, "-c", PROGRAM), PRINTED)
        self.assertIn(f"onnxc {VERSION}", inside(python, "/site/onnxc_command.py", "--version"))
        inside(python, "/site/onnxc_command.py", "run", "mlp.onnx", "--dim", "N=1", "--input", "x=random")
        inside(python, "/site/onnxc_command.py", "mlp.onnx", "--target", "thumbv7em-none-eabi", "-o", "m.a")


def libraries(path):
    """Paths of the shared libraries that a file needs."""
    return re.findall(r"(?:=> )?(/\S+) \(0x", run("ldd", path, check=False))


def bare_root(root):
    """A root folder with Python, numpy, sh, and their libraries; the path of Python in it."""
    import numpy
    home = os.path.realpath(sys.base_prefix)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    left = shutil.ignore_patterns("test", "tests", "site-packages", "dist-packages", "__pycache__", "config-*", "idlelib", "tkinter", "ensurepip",
                                  "*.a", "*_test*")
    shutil.copytree(os.path.join(home, "lib", version), os.path.join(root, "python", "lib", version), ignore=left, symlinks=True)
    modules = os.path.dirname(os.path.dirname(numpy.__file__))
    for name in "numpy", "numpy.libs":
        if os.path.exists(os.path.join(modules, name)):
            shutil.copytree(os.path.join(modules, name), os.path.join(root, "site", name), ignore=shutil.ignore_patterns("tests", "__pycache__"))
    programs = {os.path.realpath(sys.executable): "python/bin/python3", os.path.realpath("/bin/sh"): "bin/sh"}
    for path, name in programs.items():
        os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
        shutil.copy(path, os.path.join(root, name))
    binaries = [*programs, *glob.glob(os.path.join(root, "python", "lib", version, "lib-dynload", "*.so")),
                *glob.glob(os.path.join(modules, "numpy", "**", "*.so"), recursive=True)]
    needed = {library for path in binaries for library in libraries(path) if modules not in library}
    system = {os.path.dirname(os.path.realpath(library)) for library in needed if "libc.so" in library}
    needed |= {os.path.join(folder, name) for folder in system for name in ("libgcc_s.so.1", "libm.so.6", "libdl.so.2", "libpthread.so.0")}
    for library in needed:
        at = os.path.join(root, library.lstrip("/"))
        os.makedirs(os.path.dirname(at), exist_ok=True)
        shutil.copy(library, at)
    return "/python/bin/python3"


if __name__ == "__main__":
    run_unittests("python", Wheel if WHEEL else FromSource)
