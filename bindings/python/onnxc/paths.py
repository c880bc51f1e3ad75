"""Where the files of this installation are: in the package itself (a wheel), in an installed tree, or in the source tree."""
from __future__ import annotations

import os
import sysconfig
from typing import List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))


def _above(levels: int, *names: str) -> str:
    folder = HERE
    for _ in range(levels):
        folder = os.path.dirname(folder)
    return os.path.join(folder, *names)


BUNDLED = os.path.join(HERE, "_native")                    # a wheel: PREFIX of `make install`
INSTALLED = _above(4)                                      # PREFIX/share/onnxc/python/onnxc, or of Debian's packages
BUILT = _above(3, "build", "release")                      # a source tree
MULTIARCH = sysconfig.get_config_var("MULTIARCH") or ""    # Debian's folder in lib
LIBRARIES = [os.path.join(BUNDLED, "lib"), os.path.join(INSTALLED, "lib"), os.path.join(INSTALLED, "lib", MULTIARCH)]


def _first(paths: List[str]) -> Optional[str]:
    return next((path for path in paths if os.path.exists(path)), None)


def compiler_path() -> str:
    """The path of libonnxc; its name alone if the system is to find it."""
    return _first([os.path.join(folder, "libonnxc.so.0") for folder in LIBRARIES] +
                  [os.path.join(BUILT, "libonnxc.so")]) or "libonnxc.so.0"


def _installed(folders: List[str], *names: str) -> str:
    found = _first([os.path.join(folder, *names) for folder in folders])
    if not found:
        raise FileNotFoundError(f"this installation of onnxc has no {'/'.join(names)}")
    return found


def get_include() -> str:
    """The folder of onnxc.h, onnxc_custom.h and onnxc_compiler.h."""
    return _first([os.path.join(prefix, "include") for prefix in (BUNDLED, INSTALLED)
                   if os.path.exists(os.path.join(prefix, "include", "onnxc.h"))]) or _above(3, "runtime-lite")


def get_library_dir() -> str:
    """The folder of libonnxc-rt.a, which objects are linked with."""
    return _first([folder for folder in LIBRARIES if os.path.exists(os.path.join(folder, "libonnxc-rt.a"))]) or BUILT


def get_cmake_dir() -> str:
    """The folder of onnxcConfig.cmake: onnxc_DIR for CMake's find_package."""
    return _installed(LIBRARIES, "cmake", "onnxc")


def get_make_include() -> str:
    """The path of onnxc.mk, for makefiles."""
    return _installed([BUNDLED, INSTALLED], "share", "onnxc", "onnxc.mk")
