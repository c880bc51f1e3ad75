"""House rules that a program can check (docs/contributing.md has all of them).

usage: check_style.py [--report]      --report: also the longest files and functions, and their medians

Includes point one way; every file begins with a comment; clang-format has nothing to change; programs left nothing
behind; files named in comments and docs exist; switches over enums name every case, and nothing depends on the order of enumerators; the library has no data
that can be written to (in build/release/libonnxc.a, where that exists); headers declare what other files use; no function is a copy of another one; the
interface has a new number if it changed (check_interface.py).
"""
import collections
import glob
import os
import re
import shutil
import statistics
import subprocess
import sys

import check_interface
from check_interface import text_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LONGEST_FILE = 800
LONGEST_FUNCTION = 60
LARGEST_FILE = 1 << 20
SMALLEST_COPY = 28  # tokens: shorter functions may be equal by chance
LARGER_FILES = {"samples/llm/speaker.onnx": 3 << 20}

# What files of a room may include besides those of their own: rooms (a folder stands for all within it), or single files.
IR = ["compiler/base", "ir/graph", "ir/kernel"]
OPS = [*IR, "ir/ops"]
PASS = [*IR, "ir/target.h", "passes/match"]
SCHEDULE = [*PASS, "ir/loops", "passes/schedule/common", "passes/memory"]
CODE = [*IR, "ir/loops", "ir/target.h", "runtime-lite"]
LIBRARY = ["compiler/base", "compiler/import", "ir", "passes", "codegen", "runtime-lite"]
ROOMS = {
    "runtime-lite": [], "runtime-lite/lib": ["runtime-lite/onnxc_custom.h"], "runtime-lite/lib/string": ["runtime-lite/lib"],
    "runtime-lite/lib/value": ["runtime-lite/lib"],
    "runtime-lite/system": [],
    "runtime-lite/core": ["runtime-lite/onnxc.h", "runtime-lite/lib", "runtime-lite/system"],
    "runtime-lite/cuda": ["runtime-lite/onnxc.h", "runtime-lite/core", "runtime-lite/system"],
    "runtime-lite/image": ["runtime-lite/system"],
    "compiler/base": ["runtime-lite/core/numbers.h"],
    "ir": ["compiler/base", "ir/graph"],
    "ir/graph": ["compiler/base", "runtime-lite/lib/dtypes.h", "runtime-lite/lib/small_float.h"],
    "ir/kernel": ["compiler/base", "ir/graph", "runtime-lite/lib/lib.h"],
    "ir/loops": [*IR, "ir/target.h"],
    "ir/ops": IR,
    "ir/ops/nn": OPS, "ir/ops/tensor": OPS, "ir/ops/reduce": OPS, "ir/ops/control": OPS, "ir/ops/quant": OPS,
    "ir/ops/contrib": [*OPS, "runtime-lite/lib/lib_block_format.h"], "ir/ops/signal": OPS, "ir/ops/ml": OPS, "ir/ops/training": OPS,
    "ir/ops/text": [*OPS, "runtime-lite/lib/lib_key.h", "runtime-lite/lib/lib_slots.h"],
    "passes": [*PASS, "passes"],
    "passes/graph": [*PASS, "passes/passes.h"],
    "passes/match": [*IR, "ir/target.h"],
    "passes/fuse": [*PASS, "passes/passes.h", "passes/memory"],
    "passes/rewrite": [*PASS, "passes/passes.h", "passes/schedule"],
    "passes/layout": [*PASS, "passes/memory", "passes/rewrite", "passes/schedule"],
    "passes/memory": PASS,
    "passes/stream": [*PASS, "passes/passes.h"],
    "passes/schedule/common": SCHEDULE,
    "passes/schedule/cpu": SCHEDULE,
    "passes/schedule/gpu": SCHEDULE,
    "passes/schedule": [*SCHEDULE, "passes/schedule"],
    "codegen/target": CODE,
    "codegen/object": [*CODE, "codegen/target"],
    "codegen/c": CODE,
    "codegen/llvm": [*CODE, "codegen/target", "codegen/object", "passes/schedule/common"],
    "codegen/gpu": [*CODE, "codegen/c", "codegen/llvm", "passes/schedule/common", "passes/schedule"],
    "codegen/host": [*CODE, "codegen/c", "codegen/llvm", "codegen/gpu", "passes/memory", "passes/schedule"],
    "compiler/import/text": ["compiler/base", "ir/graph", "proto"],
    "compiler/import": ["compiler/base", "compiler/import/text", "ir/graph", "proto"],
    "compiler/values": ["compiler/base", "compiler/import", "ir", "runtime-lite/onnxc.h", "runtime-lite/core/numbers.h"],
    "compiler/driver": LIBRARY,
    "compiler/tune": [*LIBRARY, "compiler/driver"],
    "compiler/report": [*LIBRARY, "compiler/driver"],
    "compiler/output": [*LIBRARY, "compiler/driver", "compiler/report"],
    "compiler/run": [*LIBRARY, "compiler/driver", "compiler/output", "compiler/values"],
    "compiler/quantize": [*LIBRARY, "compiler/driver", "compiler/run", "compiler/values"],
    "compiler/api": [*LIBRARY, "compiler/driver", "compiler/output", "compiler/run", "compiler/tune"],
    "compiler/cli": [*LIBRARY, "compiler"],
}
COMPILER = ("compiler/", "ir/", "passes/", "codegen/")
# What only some rooms may know: no emitter knows an operator.
KNOWN_TO = {
    "ir/graph/op.h": ("ir", "passes", "compiler"),
    "llvm-c/": ("codegen", "compiler"),
    "protobuf-c/": ("compiler/import",),
}
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', re.MULTILINE)
PATH = re.compile(r"(?<![\w./-])((?:compiler|ir|passes|codegen|runtime-lite|test|tools)/[\w/.*-]+\.(?:c|h|py|def|inc|sh|awk))\b")
DECLARED = re.compile(r"^(?!typedef|static|extern|#)[a-z_][\w *]*?[ *](\w+)\([^;{]*;", re.MULTILINE)
HEAD = re.compile(r"^(?!typedef|struct|enum|union|#)[A-Za-z_][^;={]*?(\w+)\(")
# Enums whose order is their meaning.
ORDERED = ("goal",)
ENUM = re.compile(r"typedef enum \w+ \{([^}]*)\} (\w+);")
ROW = re.compile(r"^[A-Z]+\((\w+),", re.MULTILINE)  # of a .def table
FUNCTION = re.compile(r"^(?:static |inline )*[A-Za-z_][\w \*]*?\b(\w+)\([^;{}]*\) \{(?:[^\n]*\}$|\n.*?^\})", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\w[\w.]*|\S')
LOCAL = re.compile(r"\b(?!(?:return|else|case)\b)[A-Za-z_]\w*[ *]+([A-Za-z_]\w*)(?= ?[,)=;[])")
COMPARED = re.compile(r"(?<![<>-])[<>]=?\s*([A-Z]\w+)\b|\b([A-Z]\w+)\s*[<>](?![<>])")
# LLVM's own state is set up once in a process, and its fatal errors come back to the thread that caused them.
MAY_HAVE_DATA = ("llvm_guard.o", "target_probe.o")


def listed(*patterns):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, capture_output=True,
                           text=True, check=True).stdout.split("\n")
    return [path for path in names if path and os.path.exists(os.path.join(ROOT, path))]


def check_tree():
    """Files that programs leave behind are not part of the project: core dumps, folders named like options."""
    for path in listed():
        if path.startswith("-") or os.path.basename(path) == "core":
            yield f"{path}: left behind by a program"
        elif os.path.getsize(os.path.join(ROOT, path)) > (limit := LARGER_FILES.get(path, LARGEST_FILE)):
            yield f"{path}: above {limit} bytes"


def is_within(path, rooms):
    return any(path == room or path.startswith(room.rstrip("/") + "/") for room in rooms)


def check_includes(path, text):
    room = os.path.dirname(path)
    for name in INCLUDE.findall(text):
        for what, rooms in KNOWN_TO.items():
            if name.startswith(what) and room in ROOMS and not is_within(path, rooms):
                yield f"{path}: must not include {name}: it is for {', '.join(rooms)}"
        target = os.path.dirname(name)
        if room not in ROOMS or target not in ROOMS and target != "proto" or target == room:
            continue
        if not is_within(name, ROOMS[room]):
            yield f"{path}: must not include {name}: {room} is below {target}"


def check_paths(path, text):
    """Files that a comment or a page names exist."""
    for number, line in enumerate(text.splitlines(), 1):
        for name in PATH.findall(line):
            if "NAME" not in name and not glob.glob(os.path.join(ROOT, name)):
                yield f"{path}:{number}: there is no {name}"


def check_head(path, text):
    if not text.startswith(("//", "/*")):
        yield f"{path}: begins without a comment that says what goes in and what comes out"


def enumerators(texts):
    """Names that are not counts: all enumerators but an enum's last one, which counts the others."""
    names = set()
    for path, text in texts.items():
        if path.endswith(".def"):
            names |= set(ROW.findall(text))
        for body, name in ENUM.findall(re.sub(r"//.*|/\*.*?\*/", "", text)):
            if name not in ORDERED:
                names |= set(re.findall(r"\b[A-Z]\w+", body)[:-1])
    return names


def check_enums(path, text, names):
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//")[0]
        if re.search(r"\bswitch \(\(int\)|^\s*default:", code):
            yield f"{path}:{number}: name every case: the compiler then finds the one that is missing"
        if not code.startswith("#") and any(a in names or b in names for a, b in COMPARED.findall(code)):
            yield f"{path}:{number}: compares the order of enumerators: use a class or a table"


def check_declarations(texts):
    """Each function that a header declares is used there, by a macro, or by a file other than the one that defines it."""
    words = {path: re.findall(r"\w+", re.sub(r"//.*", "", text)) for path, text in texts.items()}
    users = collections.Counter(word for of_file in words.values() for word in set(of_file))
    for path, text in texts.items():
        for name in DECLARED.findall(text) if path.endswith(".h") and path.startswith(COMPILER) else []:
            if users[name] <= 2 and words[path].count(name) == 1:
                yield f"{path}: {name} is used in one file only: make it static there"


def copies(texts):
    """Functions that differ in their own names and those of their variables only, in groups of "path: name"."""
    groups = collections.defaultdict(list)
    for path, text in texts.items():
        for found in FUNCTION.finditer(text):
            body = COMMENT.sub("", found[0])
            number = {found[1]: "f"}
            for name in LOCAL.findall(body):
                number.setdefault(name, f"v{len(number)}")
            tokens = TOKEN.findall(re.sub(r"^(static |inline )+", "", body))
            for i, token in enumerate(tokens):
                if token in number and (not i or tokens[i - 1] not in (".", ">")):
                    tokens[i] = number[token]
            if len(tokens) >= SMALLEST_COPY:
                groups[" ".join(tokens)].append(f"{path}: {found[1]}")
    return [group for group in groups.values() if len(group) > 1]


def check_format(paths):
    tool = shutil.which("clang-format-19")
    if not tool:
        print("skip: clang-format-19 is not installed")
        return
    ran = subprocess.run([tool, "--dry-run", *paths], cwd=ROOT, capture_output=True, text=True)
    for path in sorted(set(re.findall(r"^(\S+?):\d+:\d+: (?:warning|error)", ran.stderr, re.MULTILINE))):
        yield f"{path}: clang-format-19 -i would change it"


def check_data():
    library = os.path.join(ROOT, "build", "release", "libonnxc.a")
    if not os.path.exists(library):
        return
    shown = subprocess.run(["readelf", "-SW", library], capture_output=True, text=True).stdout
    member = ""
    for line in shown.splitlines():
        if line.startswith("File: "):
            member = line[6:]
        found = re.match(r"\s*\[\s*\d+\] (\.data|\.bss|\.tdata|\.tbss)\S*\s+\S+\s+\S+\s+\S+\s+(\S+)", line)
        if found and not re.search(r"\] \.data\.rel\.ro", line) and int(found[2], 16):
            if not any(name in member for name in MAY_HAVE_DATA):
                yield f"{member}: {int(found[2], 16)} bytes that can be written to, in {found[1]}"


def functions(text):
    """(name, lines) of every function of several lines in a formatted file."""
    head = name = None  # the line where a function's head began; its name
    inside = False
    for number, line in enumerate(text.splitlines()):
        found = HEAD.match(line)
        if not inside and found:
            head, name = number, found[1]
        code = line.split("//")[0].rstrip()
        if head is not None and not inside:
            inside = code.endswith("{")
            if code.endswith((";", "}")):
                head = None
        elif inside and line == "}":
            yield name, number - head + 1
            head, inside = None, False


def lengths(texts):
    """Problems, and the report's lines."""
    files = sorted(((text.count("\n"), path) for path, text in texts.items()), reverse=True)
    long = sorted(((n, f"{path}: {name}") for path, text in texts.items() for name, n in functions(text)), reverse=True)
    problems = [f"{path}: {n} lines, more than {LONGEST_FILE}" for n, path in files if n > LONGEST_FILE]
    problems += [f"{name}: {n} lines, more than {LONGEST_FUNCTION}" for n, name in long if n > LONGEST_FUNCTION]
    report = [f"{len(files)} files, {sum(n for n, _ in files)} lines, median {statistics.median(n for n, _ in files):g}",
              f"{len(long)} functions of several lines, median {statistics.median(n for n, _ in long):g},"
              f" {sum(n > 50 for n, _ in long)} over 50"]
    report += [f"{n:5} {path}" for n, path in files[:10]] + [f"{n:5} {name}" for n, name in long[:20]]
    return problems, report


def main():
    paths = listed("*.c", "*.h", "*.def")
    texts = {path: text_of(path) for path in paths}
    ours = {path: text for path, text in texts.items() if os.path.dirname(path) in ROOMS}
    names = enumerators(ours)
    problems, report = lengths(ours)
    for path, text in ours.items():
        if path.startswith("runtime-lite/"):  # its switches are over numbers that callers pass
            continue
        problems += check_enums(path, text, names)
    for path, text in texts.items():
        problems += check_includes(path, text)
        problems += check_head(path, text)
    for path in listed("*.c", "*.h", "*.def", "*.md", "*.py", "*.awk", "*.sh", "Makefile"):
        problems += check_paths(path, text_of(path))
    problems += check_declarations(texts)
    problems += [f"{group[0]}: is the same as {' and '.join(group[1:])}" for group in copies(ours)]
    problems += check_format([path for path in paths if not path.endswith(".def")])
    problems += check_data()
    problems += check_tree()
    problems += check_interface.problems()
    for line in report if "--report" in sys.argv else []:
        print(line)
    for problem in problems:
        print(f"FAIL {problem}")
    print(f"{len(paths)} passed, 0 failed, 0 skipped" if not problems else f"0 passed, {len(problems)} failed, 0 skipped")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
