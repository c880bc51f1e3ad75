"""Runs the examples of the documentation, so that they stay true.

usage: run_docs.py ONNXC [--update] [FILE...]      FILE: README.md and docs/*.md, all when none is given; then links of other pages, too

What is run, in one fresh folder a page, which holds the models of test/cli and of samples/digits (there and under its path):

    ```console            lines `$ COMMAND`, each followed by what it prints (standard error too); a failure must print something
    ```c main.c           a file of that name (```python too)
    ```c ir/graph/dim.h         a part of that file of the repository, word for word
    ```text               shown only; other blocks without a file name too
    <!-- printed by: PROGRAM ARGUMENTS --> ... <!-- end -->     what a program of the build folder prints, as unit/math --table

A printed line '[...]' stands for any number of lines, '[...]' inside a line for any text. onnxc, onnxc.h and the Python
package are found as after an installation. --update writes what the commands print now, but where there is a '[...]'.
Links to files of the repository and to headings must lead somewhere.
docs/operators.md must be what `onnxc --list-ops=markdown` says.
"""
import difflib
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ANY = "[...]"
OTHERS = ("*.md", "bindings/*/*.md", "packaging/**/*.md", "samples/*/*.md")  # of these, links only
TABLE = re.compile(r"^(<!-- printed by: (.+) -->\n)(.*?)(^<!-- end -->)$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def prepare(folder):
    for model in glob.glob(os.path.join(ROOT, "test", "cli", "*.onnx")) + glob.glob(os.path.join(ROOT, "test", "cli", "*.onnxtxt")) + [os.path.join(ROOT, "samples", "digits", "digits.onnx")]:
        shutil.copy(model, folder)
    os.makedirs(os.path.join(folder, "samples", "digits"))
    for name in ("digits.onnx", "digits_data.h"):
        shutil.copy(os.path.join(ROOT, "samples", "digits", name), os.path.join(folder, "samples", "digits"))
    include = os.path.join(folder, ".include")
    os.mkdir(include)
    for header in glob.glob(os.path.join(ROOT, "bindings", "cpp", "*.hpp")):
        shutil.copy(header, include)
    for header in ("onnxc.h", "onnxc_custom.h"):
        shutil.copy(os.path.join(ROOT, "runtime-lite", header), include)
    return include


def run(onnxc, command, folder, include):
    env = {"PATH": os.pathsep.join([os.path.dirname(onnxc), os.path.dirname(sys.executable), os.environ["PATH"]]),
           "PYTHONPATH": os.path.join(ROOT, "bindings", "python"), "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C", "HOME": folder, "CPATH": include,
           "LIBRARY_PATH": os.path.dirname(onnxc)}
    ran = subprocess.run(["sh", "-c", command], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, timeout=300)
    printed = ran.stdout.decode(errors="replace")
    return printed if printed or not ran.returncode else f"exit code {ran.returncode}, nothing printed\n"


def matches(lines, got):
    parts = (r"(?:.*\n)*?" if line == ANY else ".*?".join(map(re.escape, line.split(ANY))) + r"\n" for line in lines)
    return bool(re.fullmatch("".join(parts), got if got.endswith("\n") or not got else got + "\n"))


def commands(block):
    """[command, expected lines] of a console block; a command goes on after a backslash."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif found and found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1][0] += "\n" + line
        elif found:
            found[-1][1].append(line)
    return found


class Page:
    def __init__(self, onnxc, path, update):
        self.onnxc, self.path, self.update = onnxc, path, update
        self.passed = self.failed = 0

    def console(self, block):
        """Runs the block's commands; the block as it is now."""
        out = ""
        for command, expected in commands(block):
            got = run(self.onnxc, command, self.folder, self.include)
            good = matches(expected, got)
            silent = got.endswith("nothing printed\n")
            if self.update and not silent and not any(ANY in line for line in expected):
                expected, good = got.splitlines(), True
            self.passed, self.failed = self.passed + good, self.failed + (not good)
            if not good:
                print(f"FAIL {os.path.relpath(self.path, ROOT)}: $ {command}")
                print("\n".join(difflib.unified_diff(expected, got.splitlines(), "shown", "printed", n=1, lineterm="")))
            out += f"$ {command}\n" + "".join(f"{line}\n" for line in expected)
        return out

    def block(self, found):
        kind, name, text = found.groups()
        if kind == "console":
            return f"```console\n{self.console(text)}```"
        if name and "/" in name:
            good = text in open(os.path.join(ROOT, name)).read()
            self.passed, self.failed = self.passed + good, self.failed + (not good)
            if not good:
                print(f"FAIL {os.path.relpath(self.path, ROOT)}: what it shows of {name} is not in that file")
        elif name:
            with open(os.path.join(self.folder, name), "w") as f:
                f.write(text)
        return found[0]

    def table(self, found):
        start, command, text, end = found.groups()
        if command.startswith("test/"):  # test/users.py
            return found[0]
        program, *arguments = command.split()
        path = os.path.join(os.path.dirname(self.onnxc), program)
        printed = subprocess.run([path, *arguments], capture_output=True, text=True, check=True).stdout
        good = self.update or printed == text
        self.passed, self.failed = self.passed + good, self.failed + (not good)
        if not good:
            print(f"FAIL {os.path.relpath(self.path, ROOT)}: not what {command} prints; run_docs.py ONNXC --update")
        return start + (printed if self.update else text) + end

    def run(self):
        with open(self.path) as f, tempfile.TemporaryDirectory() as self.folder:
            self.include = prepare(self.folder)
            old = f.read()
            new = TABLE.sub(self.table, BLOCK.sub(self.block, old))
        if self.update and new != old:
            with open(self.path, "w") as f:
                f.write(new)


def anchors(path):
    """What links may name in a page: its headings, as GitHub spells them."""
    with open(path, encoding="utf-8") as f:
        headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", f.read(), flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path):
    with open(path, encoding="utf-8") as f:
        links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```|`[^`\n]*`", "", f.read(), flags=re.DOTALL))
    for link in links:
        file, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        if "://" not in link and (not os.path.exists(target) or (anchor and anchor not in anchors(target))):
            yield link


def check_operators(onnxc, path, update):
    """Whether the page is what the program says."""
    want = subprocess.run([onnxc, "--list-ops=markdown"], capture_output=True, text=True, check=True).stdout
    if update:
        with open(path, "w") as f:
            f.write(want)
    if os.path.exists(path) and open(path).read() == want:
        return True
    print("FAIL docs/operators.md is not what the program says; onnxc --list-ops=markdown > docs/operators.md")
    return False


def main():
    args = [os.path.abspath(a) for a in sys.argv[1:] if a != "--update"]
    update = "--update" in sys.argv
    onnxc, docs = args[0], os.path.join(ROOT, "docs")
    operators = os.path.join(docs, "operators.md")
    pages = args[1:] or sorted(glob.glob(os.path.join(docs, "*.md")) + glob.glob(os.path.join(ROOT, "README.md")))
    others = [] if args[1:] else sorted({p for form in OTHERS for p in glob.glob(os.path.join(ROOT, form), recursive=True)} - set(pages))
    passed = failed = 0
    for path in pages + others:
        broken = list(broken_links(path))
        passed, failed = passed + (not broken), failed + bool(broken)
        if broken:
            print(f"FAIL {os.path.relpath(path, ROOT)}: links that lead nowhere: {', '.join(broken)}")
        if path in others:
            continue
        if path == operators:
            good = check_operators(onnxc, path, update)
            passed, failed = passed + good, failed + (not good)
            continue
        page = Page(onnxc, path, update)
        page.run()
        passed, failed = passed + page.passed, failed + page.failed
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
