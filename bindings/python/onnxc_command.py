"""The command onnxc of an installed package: starts the program. It is not part of the package onnxc, whose import takes longer than
many compilations."""
import os
import sys
from typing import NoReturn

HERE = os.path.dirname(os.path.abspath(__file__))
PLACES = (("onnxc", "_native", "bin"),               # a wheel
          (os.pardir, os.pardir, os.pardir, "bin"),  # PREFIX/share/onnxc/python, or of Debian's packages
          (os.pardir, os.pardir, "build", "release"))  # a source tree


def main() -> NoReturn:
    programs = [os.path.join(HERE, *place, "onnxc") for place in PLACES]
    program = next(filter(os.path.exists, programs), None)
    if not program:
        sys.exit("onnxc: this installation has no command onnxc")
    try:
        os.execv(program, ["onnxc", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"onnxc: cannot start {program}: {error.strerror}")


if __name__ == "__main__":
    main()
