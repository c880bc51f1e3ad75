"""Builds the Python package: wheels and source archives (PEP 517, 660). Uses the standard library only.

In: a source tree, which `make` builds with Debian's libraries, or the tree of an installation (--config-settings tree=FOLDER).
Out: a wheel whose package contains that tree as onnxc/_native. Its platform is manylinux_2_N where the tree needs nothing but
glibc and libgcc_s, N being the newest version of glibc that it uses.

    python3 bindings/python/build_backend.py --tree FOLDER OUT
"""
import base64
import csv
import hashlib
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import zipfile

try:
    import tomllib
except ImportError:
    import tomli as tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SYSTEM = re.compile(r"lib(c|m|dl|pthread|rt|gcc_s)\.so\.\d+|ld-linux.*")
# Parts of an installed tree that a package does not need.
LEFT_OUT = ("share/onnxc/python/", "share/doc/onnxc/docs/", "share/man/", "share/bash-completion/", "share/zsh/", "share/fish/")
SHARED = ("share/man/", "share/bash-completion/", "share/zsh/", "share/fish/")  # go to the prefix of the environment


def read(*names):
    with open(os.path.join(*names), "rb") as f:
        return f.read()


def project():
    with open(os.path.join(HERE, "pyproject.toml"), "rb") as f:
        return tomllib.load(f)["project"]


def version():
    return read(ROOT, "VERSION").decode().strip()


def date():
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    return time.gmtime(max(int(epoch), 315532800) if epoch else 315532800)[:6]


# ---------------------------------------------------------------- what is in a wheel
def metadata():
    p, lines = project(), []
    lines += ["Metadata-Version: 2.4", f"Name: {p['name']}", f"Version: {version()}", f"Summary: {p['description']}"]
    lines += [f"Keywords: {','.join(p['keywords'])}", f"License-Expression: {p['license']}", "License-File: LICENSE"]
    lines += [f"Classifier: {c}" for c in p["classifiers"]]
    lines += [f"Requires-Python: {p['requires-python']}", *(f"Requires-Dist: {d}" for d in p["dependencies"])]
    for extra, wanted in p["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {d}; extra == "{extra}"' for d in wanted)]
    lines += ["Description-Content-Type: text/markdown", "", read(HERE, p["readme"]).decode()]
    return "\n".join(lines).encode()


def entry_points():
    return "".join(["[console_scripts]\n", *(f"{k} = {v}\n" for k, v in project()["scripts"].items())]).encode()


def wheel_file(platform):
    return f"Wheel-Version: 1.0\nGenerator: onnxc {version()}\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n".encode()


def info_files(platform):
    info = f"onnxc-{version()}.dist-info"
    return {f"{info}/METADATA": (metadata(), 0o644), f"{info}/WHEEL": (wheel_file(platform), 0o644),
            f"{info}/entry_points.txt": (entry_points(), 0o644), f"{info}/licenses/LICENSE": (read(ROOT, "LICENSE"), 0o644)}


def package_files():
    """The modules, with the version written down."""
    for package in "onnxc", "onnxc/capi":
        for name in sorted(os.listdir(os.path.join(HERE, package))):
            if name.endswith((".py", ".typed")):
                yield f"{package}/{name}", (read(HERE, package, name), 0o644)
    yield "onnxc/_version.py", (f'"""The version of this package."""\n__version__ = "{version()}"\n'.encode(), 0o644)
    yield "onnxc_command.py", (read(HERE, "onnxc_command.py"), 0o644)


def tree_files(tree):
    """Files of an installation: those of the package, and those of the environment's prefix."""
    for folder, _, names in os.walk(tree):
        for name in sorted(names):
            path = os.path.join(folder, name)
            inside = os.path.relpath(path, tree)
            if os.path.islink(path):  # wheels have no links; libonnxc.so has another name with its version
                continue
            content = read(path), os.stat(path).st_mode & 0o755 | 0o644
            if not inside.startswith(LEFT_OUT):
                yield f"onnxc/_native/{inside}", content
            if inside.startswith(SHARED):
                yield f"onnxc-{version()}.data/data/{inside}", content


def write_wheel(folder, platform, files):
    name, rows = f"onnxc-{version()}-py3-none-{platform}.whl", []
    files = {**files, **info_files(platform)}
    record = f"onnxc-{version()}.dist-info/RECORD"
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        def add(path, data, mode):
            about = zipfile.ZipInfo(path, date())
            about.external_attr, about.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            z.writestr(about, data)
        for path, (data, mode) in sorted(files.items(), key=lambda f: (".dist-info/" in f[0], f[0])):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append((path, f"sha256={digest}", len(data)))
            add(path, data, mode)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*rows, (record, "", "")])
        add(record, text.getvalue().encode(), 0o644)
    return name


# ---------------------------------------------------------------- the platform
def platform_of(tree):
    """manylinux_2_N_MACHINE if the programs need only glibc and libgcc_s, else linux_MACHINE."""
    newest, plain = 5, f"linux_{os.uname().machine}"
    own = {name for _, _, names in os.walk(tree) for name in names}
    for name in ("bin/onnxc", "lib/libonnxc.so.0", "lib/onnxc/ld.lld"):
        path = os.path.join(tree, name)
        if not os.path.exists(path):
            continue
        said = subprocess.run(["readelf", "-dVW", path], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", said)
        if not all(SYSTEM.fullmatch(n) or n in own for n in needed):
            return plain
        newest = max([newest, *(int(n) for n in re.findall(r"Name: GLIBC_2\.(\d+)", said))])
    return f"many{plain}".replace("linux_", f"linux_2_{newest}_", 1)


# ---------------------------------------------------------------- building
def installed(folder):
    """Builds the source tree and installs it there."""
    try:
        subprocess.run(["make", "-s", "-C", ROOT, f"-j{os.cpu_count() or 1}"], check=True)
        llvm = subprocess.run(["llvm-config-19", "--bindir"], capture_output=True, text=True, check=True).stdout.strip()
        subprocess.run(["sh", "tools/install/install.sh", "build/release", version(), folder, os.path.join(llvm, "ld.lld")], cwd=ROOT, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"onnxc cannot be built from source: {error}\non Debian, tools/install.sh installs what the build needs; "
                         "wheels contain everything") from error
    return folder


def build(folder, tree=None):
    with tempfile.TemporaryDirectory() as made:
        tree = tree or installed(made)
        return write_wheel(folder, platform_of(tree), {**dict(package_files()), **dict(tree_files(tree))})


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return build(wheel_directory, (config_settings or {}).get("tree"))


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    for path, (data, _) in info_files("any").items():
        os.makedirs(os.path.dirname(os.path.join(metadata_directory, path)), exist_ok=True)
        with open(os.path.join(metadata_directory, path), "wb") as f:
            f.write(data)
    return f"onnxc-{version()}.dist-info"


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    subprocess.run(["make", "-s", "-C", ROOT, f"-j{os.cpu_count() or 1}"], check=True)
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return write_wheel(wheel_directory, platform, {"onnxc.pth": (f"{HERE}\n".encode(), 0o644)})


def sources():
    """The files under version control, or in an unpacked archive all."""
    if os.path.exists(os.path.join(ROOT, ".git")):
        found = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True).stdout.decode().split("\0")
        return sorted(f for f in found if f and os.path.isfile(os.path.join(ROOT, f)))
    return sorted(os.path.relpath(os.path.join(folder, name), ROOT) for folder, _, names in os.walk(ROOT) for name in names)


def build_sdist(sdist_directory, config_settings=None):
    """The whole source tree, which pip builds like a checkout."""
    base = f"onnxc-{version()}"
    own = {"pyproject.toml": read(HERE, "pyproject.toml").replace(b'backend-path = ["."]', b'backend-path = ["bindings/python"]'),
           "PKG-INFO": metadata()}
    with tarfile.open(os.path.join(sdist_directory, f"{base}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name in [*own, *(f for f in sources() if f not in own)]:
            data = own.get(name) or read(ROOT, name)
            about = tarfile.TarInfo(f"{base}/{name}")
            about.size, about.mode = len(data), 0o644 if name in own else os.stat(os.path.join(ROOT, name)).st_mode & 0o755
            tar.addfile(about, io.BytesIO(data))
    return f"{base}.tar.gz"


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] != "--tree":
        sys.exit(__doc__)
    print(os.path.join(sys.argv[3], build(sys.argv[3], sys.argv[2])))
