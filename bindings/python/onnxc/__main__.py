"""python -m onnxc: the command onnxc."""
from onnxc_command import main

if __name__ == "__main__":
    main()
