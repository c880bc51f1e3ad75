"""Whether the number of the interface fits its declarations. usage: check_interface.py [--record]

runtime-lite/interfaces.txt has a line for each number: a digest of the declarations that objects, the runtime and programs
share, without comments and spacing, and the release that has it, or '-' until then. Declarations of a released number do not
change any more: a new number is due (ONNXC_INTERFACE in runtime-lite/onnxc.h). --record notes the digest of a number that is
not released yet. The bindings that declare the structs again must have the same number and members.
"""
import hashlib
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADERS = ("runtime-lite/onnxc.h", "runtime-lite/onnxc_custom.h", "runtime-lite/core/runtime.h", "runtime-lite/lib/lib.h")
RUST = "bindings/rust/onnxc-sys/src/lib.rs"
TABLE = "runtime-lite/interfaces.txt"


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def number():
    return re.search(r"#define ONNXC_INTERFACE (\d+)", text_of(HEADERS[0]))[1]


def digest():
    declared = " ".join(re.sub(r"/\*.*?\*/|//[^\n]*", " ", text_of(path), flags=re.DOTALL) for path in HEADERS)
    words = re.findall(r"\w+|[^\w\s]", declared.replace("#define ONNXC_INTERFACE " + number(), ""))
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]


def table():
    """Number: [digest, release]."""
    lines = [line.split() for line in text_of(TABLE).splitlines() if line and line[0] != "#"]
    return {line[0]: line[1:] for line in lines}


def c_members(name):
    """The members of a struct of the public headers, in order."""
    header = re.sub(r"/\*.*?\*/", " ", text_of(HEADERS[0]) + text_of("compiler/api/onnxc_compiler.h"), flags=re.DOTALL)
    body = re.search(r"typedef struct " + name + r" \{(.*?)\n\} " + name + ";", header, re.DOTALL)[1]
    functions = re.sub(r"\(\*(\w+)\)\s*\([^;]*", r" \1", body)  # a pointer to a function
    return re.findall(r"\w+", " ".join(re.findall(r"(\w+)(?:\[\d+\])?\s*(?=[,;])", functions)))


def mirrors():
    """Bindings that declare the same things again."""
    for path, pattern in (("bindings/python/onnxc/abi.py", r"^INTERFACE = (\d+)"), (RUST, r"ONNXC_INTERFACE: u32 = (\d+)")):
        found = re.search(pattern, text_of(path), re.MULTILINE)
        if not found or found[1] != number():
            yield f"{path}: has the interface {found and found[1]}, onnxc.h has {number()}"
    for name, body in re.findall(r"pub struct (onnxc_\w+) \{(.*?)\n\s*\}", text_of(RUST), re.DOTALL):
        members = [member.rstrip("_") for member in re.findall(r"pub (\w+):", body)]
        if members and members != c_members(name):
            yield f"{RUST}: {name} has the members {members}, in onnxc.h {c_members(name)}"


def problems():
    yield from mirrors()
    recorded = table().get(number())
    if not recorded:
        yield f"{TABLE}: interface {number()} is missing: test/check_interface.py --record"
    elif recorded[0] != digest():
        yield (f"runtime-lite/onnxc.h: the declarations of interface {number()} changed: "
               + ("test/check_interface.py --record, as it is not released yet" if recorded[1] == "-" else
                  f"{recorded[1]} has it, so ONNXC_INTERFACE becomes {int(number()) + 1} (docs/versioning.md)"))


def record():
    rows = table()
    if rows.get(number(), ["", "-"])[1] != "-":
        sys.exit(f"interface {number()} is that of {rows[number()][1]}: raise ONNXC_INTERFACE")
    rows[number()] = [digest(), "-"]
    head = [line for line in text_of(TABLE).splitlines() if line.startswith("#")]
    with open(os.path.join(ROOT, TABLE), "w", encoding="utf-8") as f:
        f.write("\n".join(head + [" ".join([n, *row]) for n, row in rows.items()]) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        record()
    for problem in problems():
        print(f"FAIL {problem}")
