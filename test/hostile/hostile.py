"""What the stages with wrong inputs share: onnxc with the sanitizers under limits, and what a good refusal looks like."""
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile

from harness import ASAN_LEAN, BUILD, ONNXC, Ran, make

SANITIZED = os.path.join(BUILD, "san", "onnxc")
TIMEOUT = 30
MESSAGE_MOST = 4300  # characters
# No block larger than 1 GiB: nothing these stages give is that large, whatever it says of itself.
ENV = {**os.environ, "ASAN_OPTIONS": f"max_allocation_size_mb=1024:allocator_may_return_null=0:exitcode=99:{ASAN_LEAN}",
       "UBSAN_OPTIONS": "exitcode=98:print_stacktrace=1", "LC_ALL": "C"}
DEFECT = re.compile(r"Sanitizer|runtime error:|a bug in onnxc")


def program(results):
    """onnxc with the sanitizers; where they cannot be built the one without."""
    made = make("MODE=san", "all")
    return SANITIZED if results.check(made.code == 0, "make MODE=san all", made.why()) else ONNXC


def fresh_folder(name):
    folder = os.path.join(BUILD, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_limited(command, cwd, stdin=subprocess.DEVNULL):
    """Like harness.run, for programs that may write without end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, cwd=cwd, env=ENV, stdin=stdin, stdout=out, stderr=err, preexec_fn=limit_files,
                                   start_new_session=True)
        try:
            code = process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        texts = []
        for f in (out, err):
            f.seek(0)
            texts.append(f.read(1 << 20).decode(errors="replace"))
        return Ran(code, *texts)


def complaint(ran, codes, words=(), most_errors=1):
    """What is wrong with how onnxc refused (or took) something; "": nothing."""
    if ran.code not in codes:
        return f"exit code {ran.code}, not {' or '.join(map(str, codes))}: {ran.err[-1500:]}"
    if DEFECT.search(ran.err):
        return ran.err[-1500:]
    if any(ord(c) < 32 and c != "\n" for c in ran.err):
        return f"control characters in {ran.err!r}"
    errors = len(re.findall(r"\berror: ", ran.err))
    if len(ran.err) > MESSAGE_MOST * max(errors, 1):
        return f"{len(ran.err)} characters of messages: {ran.err[:300]}"
    if ran.code in (0, 4):
        return ""
    if not 1 <= errors <= most_errors:
        return f"{errors} errors: {ran.err[:600]}"
    lacking = [w for w in words if w.lower() not in ran.err.lower()]
    return f"{', '.join(map(repr, lacking))} is not in {ran.err[:600]!r}" if lacking else ""
