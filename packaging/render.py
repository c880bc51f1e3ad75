"""Fills in the templates of this folder. usage: render.py OUT [--archive FILE] [--source FILE]

The version is that of VERSION, addresses are those of project.conf; checksums are those of the archive of `make dist` and of the source archive, or zeros.
"""
import argparse
import hashlib
import os
import shutil

HERE = os.path.dirname(os.path.abspath(__file__))
ROOMS = ("conda-forge", "vcpkg", "conan", "homebrew", "docker", "github-actions", "zephyr", "esp-idf", "platformio", "meson", "bazel")


def digest(path, kind):
    if not path:
        return "0" * (2 * hashlib.new(kind).digest_size)
    with open(path, "rb") as f:
        return hashlib.file_digest(f, kind).hexdigest() if hasattr(hashlib, "file_digest") else hashlib.new(kind, f.read()).hexdigest()


def project():
    """{name: value} of project.conf"""
    with open(os.path.join(HERE, "project.conf"), encoding="utf-8") as f:
        return dict(line.strip().split("=", 1) for line in f if line.strip() and not line.startswith("#"))


def words(archive, source):
    home = project()["HOME"]
    with open(os.path.join(os.path.dirname(HERE), "VERSION"), encoding="utf-8") as f:
        version = f.read().strip()
    return {
        "@VERSION@": version,
        **{f"@{name}@": value for name, value in project().items()},
        "@FOLDER@": f"onnxc-{version}-x86_64-linux-gnu",
        "@URL@": f"{home}/releases/download/v{version}/onnxc-{version}-x86_64-linux-gnu.tar.xz",
        "@SOURCE@": f"{home}/archive/refs/tags/v{version}.tar.gz",
        "@SHA256@": digest(archive, "sha256"),
        "@SHA512@": digest(archive, "sha512"),
        "@SOURCE_SHA256@": digest(source, "sha256"),
    }


def render(out, archive=None, source=None):
    fill = words(archive, source)
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(HERE, room)):
            to = os.path.join(out, os.path.relpath(folder, HERE))
            os.makedirs(to, exist_ok=True)
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    text = f.read()
                for word, value in fill.items():
                    text = text.replace(word, value)
                with open(os.path.join(to, name), "w", encoding="utf-8") as f:
                    f.write(text)
                shutil.copymode(os.path.join(folder, name), os.path.join(to, name))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--archive")
    parser.add_argument("--source")
    asked = parser.parse_args()
    render(asked.out, asked.archive, asked.source)
