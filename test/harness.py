"""What the stages of the test run share: results, running commands, running `onnxc test` over many folders; and what their test programs
share."""
import contextlib
import fcntl
import io
import os
import re
import resource
import signal
import subprocess
import sys
import time
import traceback
import unittest
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build")
ONNXC = os.path.join(BUILD, "release", "onnxc")
JOBS = min(os.cpu_count() or 1, 16)

# For programs with the address sanitizer: failed allocations are not an error, as without it; short stacks of allocations and a
# small quarantine, as their bookkeeping is most of the time of a program with many allocations.
SAMPLES = True  # run.py --whole: stages that take some of their cases take all of them
ASAN_LEAN = "malloc_context_size=2:quarantine_size_mb=4"
ASAN = f"allocator_may_return_null=1:{ASAN_LEAN}"


class Results:
    """Of one stage: counts, and a line for everything that is not a pass."""

    def __init__(self, stage):
        self.stage, self.passed, self.failed, self.skipped = stage, 0, 0, 0
        self.logged = set()  # forms whose log this stage has begun

    def ok(self, count=1):
        self.passed += count

    def fail(self, name, why):
        self.failed += 1
        print(f"FAIL {self.stage}: {name}: {first_lines(why)}", flush=True)

    def skip(self, name, why):
        self.skipped += 1
        print(f"skip {self.stage}: {name}: {first_lines(why)}", flush=True)

    def add(self, passed, failed, skipped):
        self.passed, self.failed, self.skipped = self.passed + passed, self.failed + failed, self.skipped + skipped

    def check(self, good, name, why=""):
        if good:
            self.ok()
        else:
            self.fail(name, why)
        return good

    def report(self):
        """At the end of a test program; returns its exit code."""
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed else 0


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


@contextlib.contextmanager
def alone(name):
    """Of stages that run at once, only one at a time: they share what make builds, and folders of cases."""
    os.makedirs(os.path.join(BUILD, "lock"), exist_ok=True)
    with open(os.path.join(BUILD, "lock", name), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make(*arguments, timeout=2400):
    with alone("make"):
        return run(["make", "-s", f"-j{JOBS}", *arguments], timeout=timeout, cwd=ROOT)


def generate(results, script, *arguments):
    """Runs a script that writes cases; what it cannot make it says in lines 'skip NAME: reason'."""
    with alone(os.path.basename(script)):
        ran = run([sys.executable, "-W", "ignore", os.path.join(ROOT, "test", script), *arguments], timeout=900)
    return results.check(ran.code == 0, script, ran.why())


def parallel(function, items):
    """The results of function(item) in order, JOBS at a time."""
    with ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(function, items))


def at_once(function, items):
    """Runs function(item) for all items at a time, each in a thread of its own; the exceptions."""
    with ThreadPoolExecutor(len(items)) as pool:
        running = [pool.submit(function, item) for item in items]
    return [r.exception() for r in running if r.exception()]


# ---------------------------------------------------------------- onnxc test
def sample(cases, step, first=0):
    """Every so many of the cases: forms that share most of their code need not see the same ones."""
    return cases[first::step] if SAMPLES else cases


SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)


def split_summary(text):
    """The counts of the last summary in the text (None: it has none), and the text without it. What failed may print summaries
    of its own before."""
    found = list(SUMMARY.finditer(text))
    if not found:
        return None, text
    return [int(n) for n in found[-1].groups()], text[: found[-1].start()] + text[found[-1].end() :]


def expected_file(form):
    """expected_failures.txt (lines of FORM[,FORM...] CASE REASON, `all` for every form) as `onnxc test --xfail` takes it."""
    folder = os.path.join(BUILD, "xfail")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, form)
    with open(os.path.join(ROOT, "test", "expected_failures.txt")) as lines, open(f"{path}.{os.getpid()}", "w") as out:
        for line in lines:
            words = line.split(None, 2)
            if len(words) == 3 and not line.startswith("#") and {"all", form} & set(words[0].split(",")):
                out.write(f"{words[1]} {words[2]}")
    os.replace(out.name, path)  # another stage may be reading it
    return path


def run_cases(results, form, options, folders, timeout=20, program=ONNXC, env=None, again=None):
    """`onnxc test` over all cases below the folders; answers how many pass. What fails goes to build/log/STAGE-FORM.txt
    too, written as lines of expected_failures.txt. Cases that fail with a message that matches `again` run a second time: an emulator
    may fail without a fault of the program."""
    command = [program, "test", *options, f"-j{JOBS}", f"--timeout={timeout}", "--xfail", expected_file(form)]
    ran = run([*command, *folders], timeout=1800, env=env)
    failed = failed_cases(ran.out)
    second = [case for _, case, why in failed if again and re.match(again, why)]
    if second:
        print(f"{form}: a second run of {len(second)} cases: {', '.join(map(os.path.basename, second))}: {ran.err[-500:]}", flush=True)
        repeated = run([*command, *second], timeout=1800, env=env)
        failed = [f for f in failed if f[1] not in second] + failed_cases(repeated.out)
    counts, _ = split_summary(ran.out)
    if not counts or (second and not split_summary(repeated.out)[0]):
        results.fail(form, ran.why())
        return 0
    if second:
        passed = split_summary(repeated.out)[0][0]
        counts = [counts[0] + passed, counts[1] - passed, counts[2]]
    results.add(*counts)
    log_failures(results, form, failed)
    return counts[0]


def failed_cases(text):
    """(MISS, FAIL or DIFF; case; message) of each line of `onnxc test` that tells of one."""
    return re.findall(r"^(MISS|FAIL|DIFF) (\S+?): (.*)", text, re.MULTILINE)


def log_failures(results, form, failed):
    os.makedirs(os.path.join(BUILD, "log"), exist_ok=True)
    with open(os.path.join(BUILD, "log", f"{results.stage}-{form}.txt"), "a" if form in results.logged else "w") as log:
        results.logged.add(form)
        for kind, case, why in failed:
            print(f"{form}: {kind} {case.replace(BUILD + '/', '')}: {why}"[:300], flush=True)
            log.write(f"{form} {'/'.join(case.split('/')[-2:])} {kind} {why[:200]}\n")


def run_stage(name, function):
    """Runs one stage, prints its line, returns its results."""
    results, start, before = Results(name), time.monotonic(), processor_seconds()
    try:
        function(results)
    except Exception as wrong:  # the others go on
        results.fail(type(wrong).__name__, "".join(traceback.format_exception(wrong)[-2:]))
    print(f"{name}: {results.passed} passed, {results.failed} failed, {results.skipped} skipped"
          f" ({time.monotonic() - start:.0f} s, {processor_seconds() - before:.0f} s of processor)", flush=True)
    return results


def processor_seconds():
    """Of this process and of all that it started and that has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


# ---------------------------------------------------------------- test programs
def run_unittests(stage, tests):
    """Runs a module or a class of tests as a program: prints what fails or is skipped, and the counts; ends it."""
    load = unittest.defaultTestLoader
    suite = load.loadTestsFromTestCase(tests) if isinstance(tests, type) else load.loadTestsFromModule(tests)
    result = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
    bad = result.failures + result.errors
    for test, why in bad:
        print(f"FAIL {stage}: {test.id()}: {why}")
    for test, why in result.skipped:
        print(f"skip {stage}: {test.id().split('.', 1)[-1]}: {why}")
    print(f"{result.testsRun - len(bad) - len(result.skipped)} passed, {len(bad)} failed, {len(result.skipped)} skipped")
    sys.exit(len(bad) != 0)
