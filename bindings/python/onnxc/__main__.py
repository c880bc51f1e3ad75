"""python -m onnxc: the command onnxc."""
import os
import sys
from typing import NoReturn

from .paths import command_path


def main() -> NoReturn:
    program = command_path()
    if not program:
        sys.exit("onnxc: this installation has no command onnxc")
    try:
        os.execv(program, ["onnxc", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"onnxc: cannot start {program}: {error.strerror}")


if __name__ == "__main__":
    main()
