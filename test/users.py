"""Runs the tasks of test/users from an installed package, and compares what they print with the pages of docs/ that show it.

usage: users.py BUILD [--update] [TASK...]        BUILD: the compiler's build folder; TASK: cmake, firmware ...; all when none is given

Each task is a script that runs in an empty folder, with the installed tree in PREFIX. A page of docs/ shows its output as

    <!-- printed by: test/users/... -->
    ```text
    ...
    ```
    <!-- end -->

where '[...]' stands for any lines or text. A task that needs a tool that is missing is skipped.
"""
import difflib
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

from run_docs import ANY, matches

TEST = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(TEST)
SHOWN = r"(<!-- printed by: test/users/%s\.sh -->\n```text\n)(.*?)(```\n<!-- end -->)"
NEEDS = {"cmake": ["cmake", "ninja"], "firmware": ["arm-none-eabi-gcc", "qemu-system-arm"]}


def install(build, prefix):
    with open(os.path.join(ROOT, "VERSION"), encoding="utf-8") as f:
        version = f.read().strip()
    subprocess.run(["sh", os.path.join(ROOT, "tools", "install", "install.sh"), build, version, prefix, ""], cwd=ROOT, check=True)


def run(task, prefix):
    models = os.path.join(ROOT, "samples", "digits")
    env = {**os.environ, "PREFIX": prefix, "MODELS": models, "SOURCES": ROOT, "LC_ALL": "C", "PYTHON": sys.executable}
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(["sh", os.path.join(TEST, "users", task + ".sh")], cwd=folder, env={**env, "HOME": folder}, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        return ran.returncode, ran.stdout.decode(errors="replace").replace(folder, "/work")


def page_of(task):
    """(path, text, match) of the page that shows the task's output."""
    for path in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        found = re.search(SHOWN % re.escape(task), text, re.DOTALL)
        if found:
            return path, text, found
    return None


def check(task, prefix, update):
    """"": right; else what is wrong."""
    code, printed = run(task, prefix)
    if code != 0:
        return f"exit code {code}\n{printed}"
    page = page_of(task)
    if not page:
        return "no page of docs/ shows its output"
    path, text, found = page
    shown = found[2].splitlines()
    if update and not any(ANY in line for line in shown):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text[:found.start(2)] + printed + text[found.end(2):])
        return ""
    return "" if matches(shown, printed) else "\n".join(difflib.unified_diff(shown, printed.splitlines(), "shown", "printed", n=1, lineterm=""))


def main():
    words = [word for word in sys.argv[1:] if word != "--update"]
    build, tasks = os.path.abspath(words[0]), words[1:]
    tasks = tasks or sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(TEST, "users", "*.sh")))
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "onnxc")
        install(build, prefix)
        for task in tasks:
            if not all(map(shutil.which, NEEDS.get(task, []))):
                skipped += 1
                continue
            wrong = check(task, prefix, "--update" in sys.argv)
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print(f"FAIL users/{task}\n{wrong}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
