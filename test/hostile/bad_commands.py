"""The stage that gives onnxc wrong command lines, option files and places for its outputs: one message, the right exit code, and
nothing written that is not whole."""
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import JOBS, ROOT, parallel, run_stage  # noqa: E402
from hostile import complaint, fresh_folder, program, run_limited  # noqa: E402

CLI = os.path.join(ROOT, "test", "cli")
HUGE = ["99999999999999999999", str(2**63), str(2**64)]


def options():
    """(name, arguments, exit codes, words of the message); the model is given too."""
    numbers = [*HUGE, "-1", "", " 1", "1 ", "1x", "0x10", "1.5", "1e3", "+-1", "\x1b[31m", "x" * 5000]
    for option in ("--threads", "--jobs", "--error-limit"):
        for n in numbers:
            yield f"{option} {n[:20]!r}", [option, n], (1,), (option,)
            yield f"{option}={n[:20]!r}", [f"{option}={n}"], (1,), (option,)
    for n in ("-1", "x", "-9999999999999999999999"):
        yield f"-j{n}", [f"-j{n}"], (1,), ("-j",)
    for given in ("", "=", "N", "N=", "=3", "N=x", "N=-1", "N=1.5", "N=3:2", "N=:", "N=1:x", "N=1:2:3", "N=0x10", "M=3", "N==3", "N= 3",
                  *("N=" + n for n in HUGE), "N=1:" + HUGE[0], "\x1b[31m=3", "N" * 3000 + "=1", "N=,", "N=1,x", "N=1,,2"):
        yield f"--dim {given[:20]!r}", ["--dim", given], (0, 1) if given == "N=:" else (1,), ("--dim",)
    for given in ("", "x", "=", "x=", "=2x4", "y=2x4", "z=2x4", "x=2", "x=2x4x1", "x=2x5", "x=-1x4", "x=2x", "x=xx4", "x=2*4", "x=2,", "x=" + "1x" * 3000 + "1",
                  "x=Nx" + HUGE[0], "x=\x1bx4", "x=Nx5"):
        yield f"--shape {given[:20]!r}", ["--shape", given], (1,), ("--shape",)
    for option in ("--io-dtype", "--io-layout", "--state"):
        for given in ("", "=", "x", "x=", "=uint8", "z=uint8", "x=nothing", "x=uint8=uint8", "x=\x1b"):
            yield f"{option} {given!r}", [option, given], (1, 2), (option,) if "=" not in given[1:] else ()
    for name in ("", "3d", "a b", "a-b", "é", "\x1b", "a\nb", "int ", "x;"):
        yield f"--name {name!r}", ["--name", name], (1,), ("--name",)
    for option, value in (("-O", "9"), ("-O", ""), ("--fp", "exact"), ("--emit", "nothing"), ("--emit", ""), ("--precision", "f8"), ("--precision", "f" * 5000),
                          ("--device", "tpu"), ("--color", "red"), ("--diagnostics", "xml"), ("--print-after", "nothing"), ("--stop-after", ""), ("-f", "nothing"),
                          ("--gpu-arch", "90"), ("--gpu-arch", "sm_"), ("--gpu-arch", "sm_99999999999"), ("--gpu-arch", ","),
                          ("--mcpu", "no-such"), ("--mcpu", ""), ("--mattr", "nothing"), ("--mattr", ","), ("--multiversion", ","),
                          ("--multiversion", "no-such"), ("--target", ""), ("--target", "---"), ("--target", "x" * 5000), ("--target", "\x1b[31m")):
        codes = (0, 1, 2) if option in ("--mattr", "--target", "--gpu-arch") else (1, 2)
        yield f"{option} {value[:20]!r}", [f"{option}={value}" if option.startswith("--") else option + value], codes, ()
    for option in ("--threads", "--output", "--emit", "--dim", "--check-interface", "-O", "-MF", "--sysroot"):
        yield f"{option} without a value", [option], (1,), (option,)
    yield "a flag with a value", ["--freestanding=yes"], (1,), ("--freestanding",)
    for word in ("--no-such", "--outptu=x", "-Z", "--" + "x" * 100000, "---", "--=", "-\x1b[31m", "--thre"):
        yield f"{word[:20]!r}", [word], (1,), ("unknown option",)
    yield "two models", ["mlp.onnx"], (1,), ("one model",)
    for emit in ("obj", "c"):
        yield f"--hook of {emit}", ["--emit", emit, "--hook", "1 2"], (1,), ("--hook",)


def option_files(folder):
    """(name, text of the file 'args' or None, exit codes, words of the message); the command is onnxc @args."""
    def put(name, data):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)

    for i in range(12):
        put(f"chain{i}", f"@chain{i + 1}\n".encode() if i < 11 else b"mlp.onnx")
        put(f"many{i}", f"@many{i + 1}\n".encode() * 300 if i < 6 else b"-v")
    put("odd\xff", b"x")
    good = b"mlp.onnx -o out.o"
    yield "good", good, (0,), ()
    yield "quoted", b"'mlp.onnx'\n\"-o\" o\\ut.o", (0,), ()
    yield "itself", b"mlp.onnx @args", (1,), ("cycle",)
    yield "too deep", b"@chain0", (1,), ("cycle",)
    yield "too many", b"@many0", (1,), ("option files",)
    yield "missing", b"@nothing", (1,), ("nothing",)
    yield "a folder", b"@.", (1,), ("'.'",)
    yield "endless", b"@/dev/zero", (1,), ("/dev/zero",)
    yield "binary", good + b"\0more", (1,), ("NUL",)
    yield "huge", b" ".join([b"-v"] * 20_000_000), (1,), ("args",)
    yield "not closed '", b"mlp.onnx -o 'out.o", (1,), ("quote",)
    yield 'not closed "', b'mlp.onnx -o "out.o', (1,), ("quote",)
    yield "backslash at the end", b"mlp.onnx -o out.o\\", (1,), ("backslash",)
    yield "empty", b"", (1,), ("no model",)
    yield "no UTF-8", b"mlp.onnx -o out.o \xff\xfe", (1,), ()


def tune_files(answer):
    """(name, bytes) of files for --tune-db that are wrong."""
    def one(text):
        return b'{"format": "onnxc-tune-1", "answers": [' + text + b"]}"

    whole = one(answer)
    yield "empty.tune", b""
    yield "deep.tune", b"[" * 100000
    yield "nul.tune", whole.replace(b'"a"', b'"\0"')
    yield "bytes.tune", bytes(range(256))
    yield "other.tune", b"[1, 2]"
    yield "format.tune", whole.replace(b"tune-1", b"tune-2")
    yield "list.tune", b'{"format": "onnxc-tune-1", "answers": {}}'
    yield "none.tune", b'{"format": "onnxc-tune-1"}'
    for cut in range(1, len(whole) - 1, 17):
        yield f"cut{cut}.tune", whole[:cut]
    for name, old, new in (("kernel", b"0123456789abcdef", b"0123456789ABCDEF"), ("short", b"0123456789abcdef", b"0"), ("text", b'"t"', b"7"),
                           ("long", b'"t"', b'"' + b"t" * 5000 + b'"'), ("version", b": 1,", b": 1.5,"), ("minus", b": 1,", b": -1,"),
                           ("huge", b": 1,", b": 1e99,"), ("words", b": 1,", b': "1",'), ("gain", b"1.5", b"1e999"), ("choice", b"rows", b"lines"),
                           ("zero", b"6}", b"0}"), ("many", b"6}", b"15}"), ("most", b"6}", b"99999999999}"), ("real", b"6}", b"6.5}"), ("word", b"6}", b'"6"}'),
                           ("no", b'"rows": 6', b'"blocks": "perhaps"'), ("yes", b'"rows": 6', b'"blocks": ""'), ("both", b'"rows": 6', b'"blocks": "no|yes"'),
                           ("number", b'"rows": 6', b'"blocks": 1'), ("array", b'{"rows": 6}', b"[]"), ("left", b'"about": "a", ', b"")):
        yield f"{name}.tune", one(answer.replace(old, new))
    yield "items.tune", one(b"1")


def places(folder):
    """(name, arguments, exit codes, words of the message)."""
    os.makedirs(os.path.join(folder, "dir.o"))
    os.makedirs(os.path.join(folder, "locked"))
    with open(os.path.join(folder, "file"), "w") as f:
        f.write("a file")
    os.symlink("nowhere/at/all.o", os.path.join(folder, "dangling.o"))
    os.symlink("loop.o", os.path.join(folder, "loop.o"))
    for emit in ("obj", "lib", "shared", "exe", "c", "header", "asm", "llvm-ir", "bitcode", "ir", "kernels", "loops", "onnx", "dot", "html", "json"):
        yield f"{emit} to /dev/full", ["mlp.onnx", "--emit", emit, "-o", "/dev/full"], (1,), ("/dev/full",)
        yield f"{emit} to a folder", ["mlp.onnx", "--emit", emit, "-o", "dir.o"], (1,), ("dir.o",)
        yield f"{emit} where no folder is", ["mlp.onnx", "--emit", emit, "-o", "no/such/out.o"], (1,), ("no/such/out.",)
        yield f"{emit} below a file", ["mlp.onnx", "--emit", emit, "-o", "file/out.o"], (1,), ("file/out.",)
        yield f"{emit} in place of the model", ["mlp.onnx", "--emit", emit, "-o", "mlp.onnx"], (1,), ("mlp.onnx",)
    yield "example in place of a file", ["mlp.onnx", "--emit=example", "-o", "file"], (1,), ("file",)
    yield "example where no folder is", ["mlp.onnx", "--emit=example", "-o", "no/such"], (1,), ("no/such",)
    yield "in place of the model by another name", ["./mlp.onnx", "--emit", "onnx", "-o", f"../{os.path.basename(folder)}/mlp.onnx"], (1,), ("mlp.onnx",)
    yield "to standard output that is full", ["mlp.onnx", "--emit=c", "-o", "-", ">full"], (1,), ("standard output",)
    yield "--help that is full", ["--help", ">full"], (1,), ("standard output",)
    for option in ("--header", "--depfile", "--weights"):
        for place in ("/dev/full", "dir.o", "no/such/x", "file/x", "mlp.onnx", "out.o", "loop.o", ""):
            if (option, place) in (("--header", "loop.o"), ("--depfile", "loop.o"), ("--weights", "loop.o")):
                continue
            yield f"{option} {place!r}", ["mlp.onnx", "-o", "out.o", option, place], (1,), (place or "empty",)
    yield "no output at all", ["mlp.onnx", "-o", ""], (1,), ()
    yield "a name too long", ["mlp.onnx", "-o", "x" * 300 + ".o"], (1,), ()
    for name in ("run", "inspect", "bench"):
        yield f"{name} without a model", [name], (1,), ("no model",)
        yield f"{name} of nothing", [name, "nothing.onnx"], (1,), ("nothing.onnx",)
        yield f"{name} of a folder", [name, "dir.o"], (1,), ("dir.o",)
    yield "test without a folder", ["test"], (1,), ("no folder",)
    yield "test of nothing", ["test", "nothing"], (1,), ("nothing",)
    yield "test with a folder as list", ["test", "case", "--xfail", "dir.o"], (1,), ("dir.o",)
    for seconds in ("0", "-1", "x", HUGE[0]):
        yield f"test --timeout {seconds}", ["test", "case", "--timeout", seconds], (1,), ("--timeout",)
    for jobs in ("0", str(2**31), str(2**32), str(2**62)):
        yield f"test -j {jobs}", ["test", "case", "-j", jobs], (0, 4), ()
    given = ["run", "--interpret", "add.onnx", "--input", "a=random", "--input", "b=random"]
    for place in ("/dev/full", "dir.o", "no/such/c.npy", "file/c.npy", "add.onnx", "x" * 300 + ".npy", ""):
        yield f"run --output c={place[:20]}", [*given, "--output", f"c={place}"], (1,), (place,)
    for place in ("file", "no/such", ""):
        yield f"run --output-dir {place!r}", [*given, "--output-dir", place], (1,), (place,)
    yield "run to standard output that is full", [*given, ">full"], (1,), ("standard output",)
    yield "run --output in place of an input", ["run", "--interpret", "add.onnx", "--input", "a=a.npy", "--input", "b=random", "--output", "c=a.npy"], (0, 1), ()
    for seconds in ("-1", "nan", "inf", "x", ""):
        yield f"bench --seconds {seconds!r}", ["bench", "add.onnx", "--seconds", seconds], (1,), ("--seconds",)
    yield "bench --with what is no option", ["bench", "add.onnx", "--with", "add.onnx"], (1,), ("--with",)
    yield "bench --with what is not closed", ["bench", "add.onnx", "--with", "'-O2"], (1,), ("quote",)
    for name, text in (("none.json", None), ("empty.json", b""), ("deep.json", b"[" * 100000), ("deeper.json", b'{"a":' * 100000), ("cut.json", b'{"inputs": [{"name"'),
                       ("other.json", b"[1, 2]"), ("number.json", b"1" * 100000), ("nul.json", b'{"inputs": "\0"}'), ("bytes.json", bytes(range(256))),
                       ("types.json", b'{"inputs": 3, "outputs": [3]}'), ("strings.json", b'{"inputs": ["x", {"name": 3}], "outputs": {}}')):
        if text is not None:
            with open(os.path.join(folder, name), "wb") as f:
                f.write(text)
        yield f"--check-interface {name}", ["mlp.onnx", "-o", "out.o", "--check-interface", name], (1,), (name,)
    answer = b'{"kernel": "0123456789abcdef", "target": "t", "schedules": 1, "about": "a", "choices": {"rows": 6}, "gain": 1.5}'
    for name, text in tune_files(answer):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(text)
        yield f"--tune-db {name}", ["mlp.onnx", "-o", "out.o", "--tune-db", name], (1,), (name,)
    with open(os.path.join(folder, "good.tune"), "wb") as f:
        f.write(b'{"format": "onnxc-tune-1", "answers": [' + answer + b', {"later": 1, ' + answer[1:].replace(b": 1,", b": 2,").replace(b"rows", b"new") + b"]}")
    yield "--tune-db of other kernels", ["mlp.onnx", "-o", "out.o", "--tune-db", "good.tune"], (0,), ()
    for place in ("dir.o", "no/such/x", "file/x", "file", "mlp.onnx", "", "/dev/full"):
        yield f"--tune-db {place!r}", ["mlp.onnx", "-o", "out.o", "--tune-db", place], (1,), (place,)
        yield f"--tune --tune-db {place!r}", ["mlp.onnx", "-o", "out.o", "--mcpu=native", "--tune=0.001", "--tune-db", place], (1,), (place,)
    for name, data in (("cut.so", b"\x7fELF" + bytes(3)), ("zeros.so", b"\x7fELF" + bytes(5000)), ("head.so", open("/proc/self/exe", "rb").read(4096))):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)
        yield f"run {name}", ["run", name], (1,), (name,)
    yield "run of another library", ["run", "other.so"], (1,), ("other.so",)
    yield "run of a library cut short", ["run", "short.so", "--input", "x=random"], (0, 1), ()
    yield "run of a damaged library", ["run", "harm.so", "--input", "x=random"], (0, 1), ()


def make_libraries(onnxc, folder):
    """A model as a library, cut short; a library that holds no model."""
    run_limited([onnxc, "mlp.onnx", "--dim", "N=2", "-o", "good.so"], folder)
    path = os.path.join(folder, "good.so")
    data = open(path, "rb").read() if os.path.exists(path) else b""
    with open(os.path.join(folder, "short.so"), "wb") as f:
        f.write(data[:len(data) * 2 // 3])
    shutil.copy(path, os.path.join(folder, "harm.so"))
    found = [p for p in ("/lib/x86_64-linux-gnu/libz.so.1", "/lib/aarch64-linux-gnu/libz.so.1", "/usr/lib/libz.so.1") if os.path.exists(p)]
    if found:
        shutil.copy(found[0], os.path.join(folder, "other.so"))


def snapshot(folder):
    return {name: open(os.path.join(folder, name), "rb").read() for name in sorted(os.listdir(folder))
            if os.path.isfile(os.path.join(folder, name))}


def prepare(onnxc, name):
    """A folder with the models, a case, an input and libraries."""
    folder = fresh_folder(name)
    for name in os.listdir(CLI):
        if name.endswith(".onnx"):
            shutil.copy(os.path.join(CLI, name), folder)
    os.makedirs(os.path.join(folder, "case", "test_data_set_0"))
    shutil.copy(os.path.join(CLI, "strings.onnx"), os.path.join(folder, "case", "model.onnx"))
    run_limited([onnxc, "run", "--interpret", "add.onnx", "--input", "a=random", "--input", "b=random", "--output", "c=a.npy"], folder)
    make_libraries(onnxc, folder)
    return folder


def undo(folder, before):
    """The files that have changed, after which they are as they were."""
    after = snapshot(folder)
    changed = sorted(n for n in {*before, *after} if before.get(n) != after.get(n))
    for n in changed:
        if n in before:
            with open(os.path.join(folder, n), "wb") as f:
                f.write(before[n])
        else:
            os.remove(os.path.join(folder, n))
    return changed


def try_places(onnxc, name, share):
    """Every JOBS-th place, in a folder of its own, since what one writes another would see."""
    folder, found = prepare(onnxc, name), []
    for name, args, codes, words in list(places(folder))[share::JOBS]:
        before = snapshot(folder)
        command = [onnxc, *args]
        if args[-1] == ">full":
            command = ["sh", "-c", 'exec "$0" "$@" >/dev/full', onnxc, *args[:-1]]
        ran = run_limited(command, folder)
        wrong = complaint(ran, codes, [w for w in words if len(w) < 200], most_errors=4 if "--check-interface" in args else 1)
        changed = undo(folder, before)
        if ran.code == 1 and changed and not wrong:
            wrong = f"changed {', '.join(changed)[:200]}: {ran.err}"
        found.append((name, wrong))
    return found


def bad_commands(results):
    onnxc = program(results)
    folder = prepare(onnxc, "test-bad-options")

    def try_option(item):
        name, args, codes, words = item
        return name, complaint(run_limited([onnxc, "mlp.onnx", "--emit=kernels", "-o", "-", *args], folder), codes, words, most_errors=2)

    found = parallel(try_option, options())
    for some in parallel(lambda share: try_places(onnxc, f"test-bad-places-{share}", share), range(JOBS)):
        found += some
    for name, data, codes, words in option_files(folder):
        with open(os.path.join(folder, "args"), "wb") as f:
            f.write(data)
        found.append((f"@FILE: {name}", complaint(run_limited([onnxc, "@args"], folder), codes, words)))
    for name, wrong in found:
        results.check(not wrong, name, wrong)


if __name__ == "__main__":
    sys.exit(run_stage("bad-commands", bad_commands).failed != 0)
