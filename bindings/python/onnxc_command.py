"""The command onnxc of an installed package: starts the program. It is not part of the package onnxc, whose import takes longer than
many compilations."""
import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    here = os.path.dirname(os.path.abspath(__file__))
    program = os.path.join(here, "onnxc", "_native", "bin", "onnxc")
    if not os.path.exists(program):  # an editable installation
        program = os.path.join(here, os.pardir, os.pardir, "build", "release", "onnxc")
    try:
        os.execv(program, ["onnxc", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"onnxc: cannot start {program}: {error.strerror}")


if __name__ == "__main__":
    main()
