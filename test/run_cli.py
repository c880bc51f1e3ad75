"""Golden tests of the command line.

usage: run_cli.py ONNXC [--update] [FILE...]      FILE: test/cli/*.test when none is given

A test file is a list of blocks:

    < a line of in.kernels    that the commands from here on find in their folder
    $ onnxc --mcup x          the command, run by sh in a fresh folder with the files of test/cli
    > a line of standard output
    ! a line of standard error
    = 1                       exit code; 0 when left out

A line '...' stands for any number of lines, '...' inside a line for any text. --update writes what the commands do
now in place of what is expected, except in blocks that have '...'.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cli")


def parse(path):
    """Blocks [comments and lines of in.kernels, command, out, err, code]; --update keeps the first."""
    blocks, comments = [], []
    for line in open(path).read().splitlines():
        if line.startswith("$ "):
            blocks.append([comments, line[2:], [], [], 0])
            comments = []
        elif line.startswith("> ") or line == ">":
            blocks[-1][2].append(line[2:])
        elif line.startswith("! ") or line == "!":
            blocks[-1][3].append(line[2:])
        elif line.startswith("= "):
            blocks[-1][4] = int(line[2:])
        elif line.strip():
            comments.append(line)
    return blocks


def pattern(lines):
    parts = []
    for line in lines:
        if line == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(re.escape(p) for p in line.split("...")) + r"\n")
    return re.compile("".join(parts) + r"\Z")


def run(onnxc, command, folder):
    env = {"PATH": os.path.dirname(onnxc) + ":" + os.environ["PATH"], "LC_ALL": "C", "PYTHON": sys.executable,
           "CPATH": os.path.join(os.path.dirname(os.path.dirname(HERE)), "runtime-lite"),
           "LSAN_OPTIONS": "exitcode=0", "HOME": folder}
    p = subprocess.run(["sh", "-c", command], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    return p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace"), p.returncode


def write_input(folder, comments):
    lines = [line[2:] + "\n" for line in comments if line.startswith("< ") or line == "<"]
    if lines:
        with open(os.path.join(folder, "in.kernels"), "w") as f:
            f.writelines(lines)


def write(path, blocks):
    with open(path, "w") as f:
        for i, (comments, command, out, err, code) in enumerate(blocks):
            f.write("\n" if i else "")
            f.write("".join(c + "\n" for c in comments))
            f.write(f"$ {command}\n")
            f.write("".join(f"> {line}".rstrip(" ") + "\n" for line in out))
            f.write("".join(f"! {line}".rstrip(" ") + "\n" for line in err))
            if code:
                f.write(f"= {code}\n")


def run_file(onnxc, path, update):
    blocks, failed = parse(path), 0
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(HERE):
            if not name.endswith(".test") and name != "models.py":
                shutil.copy(os.path.join(HERE, name), folder)
        for block in blocks:
            comments, command, out, err, code = block
            write_input(folder, comments)
            got_out, got_err, got_code = run(onnxc, command, folder)
            wild = any("..." in line for line in out + err)
            if update and not wild:
                block[2:] = [got_out.splitlines(), got_err.splitlines(), got_code]
            elif not (pattern(out).match(got_out) and pattern(err).match(got_err) and code == got_code):
                failed += 1
                print(f"{os.path.basename(path)}: $ {command}\nstdout:\n{got_out}stderr:\n{got_err}exit code {got_code}, "
                      f"expected {code}\n")
    if update:
        write(path, blocks)
    return len(blocks), failed


def main():
    args = [a for a in sys.argv[1:] if a != "--update"]
    files = args[1:] or sorted(glob.glob(os.path.join(HERE, "*.test")))
    total = failed = 0
    for path in files:
        n, bad = run_file(os.path.abspath(args[0]), path, "--update" in sys.argv)
        total += n
        failed += bad
    print(f"{total - failed} passed, {failed} failed, 0 skipped")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
