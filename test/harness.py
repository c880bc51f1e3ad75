"""What the stages of the test run share: results, running commands, running `onnxc test` over many folders."""
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build")
ONNXC = os.path.join(BUILD, "release", "onnxc")
JOBS = min(os.cpu_count() or 1, 16)


class Results:
    """Of one stage: counts, and a line for everything that is not a pass."""

    def __init__(self, stage):
        self.stage, self.passed, self.failed, self.skipped = stage, 0, [], []

    def ok(self, count=1):
        self.passed += count

    def fail(self, name, why):
        self.failed.append(name)
        print(f"FAIL {self.stage}: {name}: {first_lines(why)}", flush=True)

    def skip(self, name, why, count=1):
        self.skipped += [name] * count
        if count == 1 and self.stage != "backend":
            print(f"skip {self.stage}: {name}: {first_lines(why)}", flush=True)

    def check(self, good, name, why=""):
        if good:
            self.ok()
        else:
            self.fail(name, why)
        return good


def first_lines(text, count=3):
    lines = [line for line in str(text).strip().splitlines() if line.strip()]
    return "\n    ".join(lines[:count])


class Ran:
    """A finished command. code: exit status, negative: the signal that ended it, None: it ran out of time."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err
        self.text = out + err

    def why(self):
        if self.code is None:
            return "ran out of time\n" + self.text
        if self.code < 0:
            return f"ended by {signal.Signals(-self.code).name}\n{self.text}"
        return f"exit code {self.code}\n{self.text}"


def run(command, timeout=60, **options):
    """Runs it in a process group of its own, so that nothing outlives a timeout."""
    process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True, **options)
    try:
        out, err = process.communicate(timeout=timeout)
        return Ran(process.returncode, out, err)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return Ran(None, out, err)


def parallel(function, items):
    """The results of function(item) in order, JOBS at a time."""
    with ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(function, items))


# ---------------------------------------------------------------- onnxc test
VERDICT = re.compile(r"^(ok|MISS|FAIL|DIFF)\s+(\S+?)(?::\s+(.*))?$")


def run_folders(options, folders, timeout=30, chunk=24):
    """`onnxc test` over the folders: {folder: (verdict, message)}. A verdict is ok, MISS (refused, exit code 2), FAIL,
    DIFF (wrong numbers), CRASH or TIME. The first folder without a line is the one that crashed; the rest run again."""
    verdicts = {}

    def run_chunk(todo):
        while todo:
            ran = run([ONNXC, "test", *options, *todo], timeout=timeout + 2 * len(todo))
            messages = ran.err.strip().splitlines()
            for line in ran.out.splitlines():
                match = VERDICT.match(line)
                if match and match[2] in todo:
                    word, folder, why = match.groups()
                    named = [m for m in messages if os.path.basename(folder) in m]
                    verdicts[folder] = (word, why or first_lines("\n".join(named), 1))
            left = [f for f in todo if f not in verdicts]
            if len(left) == len(todo) or left:
                verdicts[left[0]] = ("TIME" if ran.code is None else "CRASH", first_lines(ran.why(), 2))
                left = left[1:]
            todo = left

    parallel(run_chunk, [folders[i : i + chunk] for i in range(0, len(folders), chunk)])
    return verdicts


def read_expected():
    """{(form, case): reason} of expected_failures.txt: lines of FORM[,FORM...] CASE REASON."""
    expected = {}
    with open(os.path.join(ROOT, "test", "expected_failures.txt")) as f:
        for line in f:
            words = line.split(None, 2)
            if len(words) == 3 and not line.startswith("#"):
                for form in words[0].split(","):
                    expected[form, words[1]] = words[2].strip()
    return expected


def judge(results, form, root, verdicts, expected, log):
    """Counts verdicts; what expected_failures.txt lists counts as skipped, and fails when it passes."""
    for folder, (word, why) in sorted(verdicts.items()):
        case = os.path.relpath(folder, root)
        listed = expected.get((form, case)) or expected.get(("*", case))
        if word == "ok" and listed:
            results.fail(f"{form} {case}", "passes, but expected_failures.txt lists it")
        elif word == "ok":
            results.ok()
        elif listed:
            results.skip(f"{form} {case}", listed)
        else:
            results.fail(f"{form} {case}", f"{word} {why}")
        if word != "ok":
            log.write(f"{form} {case} {word} {why}\n")


def run_stage(name, function):
    """Runs one stage, prints its line, returns its results."""
    results, start = Results(name), time.monotonic()
    function(results)
    print(f"{name}: {results.passed} passed, {len(results.failed)} failed, {len(results.skipped)} skipped"
          f" ({time.monotonic() - start:.0f} s)", flush=True)
    sys.stdout.flush()
    return results
