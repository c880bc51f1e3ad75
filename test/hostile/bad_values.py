"""The stage that gives `onnxc run` files of values that are wrong: .npy, .npz, .pb, .csv, raw bytes, names that are not files.

Each must be refused with one message that names the file, or be read right; never a crash, nor memory beyond the file's worth.
The numbers of made-up files come from SEED.  usage: bad_values.py [--count N] [--seed N]: so many mutations of each kind.
"""
import argparse
import io
import os
import random
import struct
import sys
import zipfile
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import parallel, run_stage  # noqa: E402
from hostile import complaint, fresh_folder, program, run_limited  # noqa: E402

SEED, COUNT = 11, 12
DATA = np.arange(6, dtype=np.float32).reshape(2, 3)

# Models that give back what they are given: the type of their input.
PORTS = {
    "f": "float[2, 3]", "open": "float[N, 3]", "wide": "float[N, M]", "i": "int64[3]", "i32": "int32[3]", "u8": "uint8[3]",
    "b": "bool[3]", "s": "string[2]", "i4": "int4[3]", "h": "float16[2]", "q": "seq(float[2])", "o": "optional(float[2])",
    "m": "map(int64, float)", "ms": "map(string, string)", "qm": "seq(map(string, double))", "scalar": "float", "none": "float[0, 3]", "c": "complex64[2]",
}


def model(kind):
    return f'<ir_version: 10, opset_import: ["" : 21]>\ng ({kind} x) => ({kind} y) {{ y = Identity (x) }}\n'


# ---------------------------------------------------------------- .npy
def npy(descr="'<f4'", shape="(2, 3)", data=DATA.tobytes(), order="False", version=1, header=None, length=None):
    text = header if header is not None else f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"
    text = text.encode("latin-1" if version < 3 else "utf-8", "replace")
    n = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", n) + text + data


def npy_files():
    """(port, bytes, exit codes, words of the message)."""
    good = npy()
    yield "f", good, (0,), ()
    yield "f", npy(data=DATA.T.tobytes(), order="True"), (0,), ()
    for cut in sorted({0, 1, 5, 6, 7, 8, 9, 10, 11, 20, 40, len(good) - 25, len(good) - 24, len(good) - 1}):
        yield "f", good[:cut], (1,), ()
    for version in (2, 3, 4, 255):
        yield "f", npy(version=version), (0,) if version < 4 else (1,), ()
    for length in (0, 1, 9, 20, 65535):
        yield "f", npy(length=length), (1,), ()
    yield "f", npy(version=2, length=2**32 - 1), (1,), ()
    for shape in (f"({2**40}, {2**40})", f"({2**62}, 4)", f"({2**62}, 4, 0)", f"({2**63},)", f"({2**64},)", "(-1, 6)", "(2, -3)",
                  "(2, 3", "2, 3", "(2.0, 3)", "('2', 3)", "((2, 3))", "(True, 3)", "(2 3)", "(2,,3)", "(2;3)", "[2, 3]", "None", "",
                  "(" + "1, " * 1000 + ")", "(0, 3)", "(3, 2)", "(6,)", "()", f"({2**31}, {2**31})", f"({10**30}, 3)", "(1e1, 3)",
                  f"({2**40}, 3)"):
        yield "f", npy(shape=shape), (1,), ()
        yield "open", npy(shape=shape), (0, 1) if shape == "(0, 3)" else (1,), ()
    yield "wide", npy(shape=f"(0, {2**62})", data=b""), (0, 1), ()
    yield "wide", npy(shape=f"({2**62}, 0)", data=b""), (0, 1), ()
    yield "wide", npy(shape=f"({2**33}, {2**31})", data=b""), (1,), ()
    for descr in ("'<f8'", "'>f4'", "'|O'", "'<U5'", "'|S3'", "'<M8[ns]'", "[('a', '<f4')]", "''", "'<'", "'f4'", "'=f4'", "'<V4'", "'!f4'", "'<f4",
                  "None", "'<f" + "4" * 60000 + "'", "'\x01\x1b[31m'", "'<f4\\n'", "'\xe9'", "'<g16'", "'<i4'", "'?'"):
        yield "f", npy(descr=descr), (0,) if descr in ("'=f4'", "'<V4'") else (1,), ()
    yield "f", npy(descr="'é漢'", version=3), (1,), ()
    yield "f", npy(header="\0" * 50), (1,), ()
    yield "f", npy(header="{" * 60000), (1,), ()
    yield "f", npy(header="{'descr': '<f4', 'shape': (2, 3), }"), (1,), ()
    yield "f", npy(header="{'descr': '<f4', 'fortran_order': 7, 'shape': (2, 3), }"), (1,), ()
    yield "f", npy(header="'shape': 'descr': 'fortran_order':"), (1,), ()
    yield "f", npy(header="{'descr': '<f4', 'fortran_order': False, 'shape'"), (1,), ()
    for kind, descr, size in (("i", "'<i8'", 8), ("i4", "'|V1'", 1), ("h", "'<f2'", 2), ("b", "'|b1'", 1), ("u8", "'|u1'", 1)):
        n = 2 if kind == "h" else 3
        yield kind, npy(descr, f"({n},)", bytes(range(250, 250 + n)) if size == 1 else bytes(n * size)), (0,), ()
        yield kind, npy(descr, f"({n},)", bytes(n * size - 1)), (1,), ()
        yield kind, npy(descr, f"({2**62},)", bytes(n * size)), (1,), ()
        yield kind, npy(descr, f"({2**63 - 1},)", bytes(n * size)), (1,), ()
    yield "s", npy("'<U5'", "(2,)", bytes(40)), (0,), ()
    yield "s", npy("'<U5'", "(2,)", bytes(39)), (1,), ()
    yield "s", npy("'<U5'", "(2,)", b"\0\0\x11\0" * 10), (0,), ()  # beyond Unicode: U+FFFD
    yield "s", npy("'<U5'", "(2,)", b"\0\xd8\0\0" * 10), (0,), ()  # half of a pair: U+FFFD
    yield "s", npy("'<U999999999999999999'", "(2,)", bytes(40)), (1,), ()
    yield "s", npy("'<U5'", f"({2**62}, 4)", bytes(40)), (1,), ()
    yield "s", npy("'|S1'", f"({2**40},)", bytes(40)), (1,), ()
    yield "s", npy("'|S0'", "(2,)", b""), (0, 1), ()
    yield "q", npy(), (1,), ()
    yield "scalar", npy(shape="()", data=bytes(4)), (0,), ()
    yield "none", npy(shape="(0, 3)", data=b""), (0,), ()


# ---------------------------------------------------------------- .npz
def npz(members, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in members:
            z.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def changed(data, at, form, *values):
    at = at if at >= 0 else len(data) + at
    new = struct.pack(form, *values)
    return data[:at] + new + data[at + len(new):]


def with_zip64(data, size, packed, local):
    """The one member's sizes and place in an extra field of the directory."""
    at = data.rindex(b"PK\1\2")
    head, end = data[at:at + 46], data.rindex(b"PK\5\6")
    head = changed(changed(changed(head, 20, "<II", 2**32 - 1, 2**32 - 1), 42, "<I", 2**32 - 1), 30, "<H", 28)
    name = data[at + 46:end]
    return data[:at] + head + name + struct.pack("<HHQQQ", 1, 24, size, packed, local) + data[end:]


def npz_files():
    good = npz([("x.npy", npy())])
    packed = npz([("x.npy", npy())], zipfile.ZIP_DEFLATED)
    middle, end, directory = len(npy()), good.rindex(b"PK\5\6"), good.rindex(b"PK\1\2")
    yield "f", good, (0,), ()
    yield "f", packed, (0,), ()
    yield "f", npz([("y.npy", b"no"), ("x.npy", npy())]), (0,), ()
    yield "f", npz([("y.npy", npy()), ("z.npy", npy())]), (1,), ("x.npy",)
    yield "f", npz([]), (1,), ()
    yield "f", npz([("../../x.npy", npy())]), (0,), ()
    yield "f", npz([("x.npy", good)]), (1,), ()
    yield "f", npz([("x.npz", npz([("x.npy", npy())]))]), (1,), ()
    yield "f", npz([("\x1b[31m\n.npy", b"no")]), (1,), ()
    yield "f", npz([("x" * 60000, b"no")]), (1,), ()
    yield "f", npz([(f"{i}.npy", b"") for i in range(3000)]), (1,), ()
    yield "f", npz([("x.npy", npy())], zipfile.ZIP_BZIP2), (1,), ("x.npy",)
    yield "f", npz([("x.npy", npy(data=bytes(20 << 20)))], zipfile.ZIP_DEFLATED), (0, 1), ()  # 1,000 times its size: numpy takes it
    yield "f", b"junk" * 9 + good, (0, 1), ()
    yield "f", good + b"more", (0, 1), ()
    yield "f", changed(good, end + 20, "<H", 5), (0, 1), ()
    for data in (good, packed):
        for cut in (0, 3, 21, 29, 40, 60, len(data) // 2, len(data) - 23, len(data) - 22, len(data) - 1):
            yield "f", data[:cut], (1,), ()
        at, end = data.rindex(b"PK\1\2"), data.rindex(b"PK\5\6")
        yield "f", changed(data, at + 16, "<I", 0x12345678), (1,), ("x.npy",)  # check sum
        for v in (0, 1, 100, 2**31, 2**32 - 2, 2**32 - 1):
            yield "f", changed(data, at + 20, "<I", v), (1,), ()
            yield "f", changed(data, at + 24, "<I", v), (1,), ()
        for v in (1, 2**31, 2**32 - 31, 2**32 - 2, 2**32 - 1):
            yield "f", changed(data, at + 42, "<I", v), (1,), ()
        for v in (1, 5, 9, 12, 14, 93, 99, 65535):
            yield "f", changed(data, at + 10, "<H", v), (1,), ()
        yield "f", changed(data, at + 8, "<H", 1), (1,), ("encrypted",)
        for v in (0, 1, 65535):
            yield "f", changed(data, at + 28, "<H", v), (0, 1), ()
            yield "f", changed(data, at + 30, "<H", v), (0, 1), ()
            yield "f", changed(data, 26, "<H", v), (1,), ()
            yield "f", changed(data, end + 10, "<H", v), (0, 1) if v == 1 else (1,), ()
        for v in (0, 1, len(data) - 10, 2**32 - 1, 2**32 - 46):
            yield "f", changed(data, end + 16, "<I", v), (1,), ()
        n, m = len(npy()), at - 30 - 5
        yield "f", with_zip64(data, n, m, 0), (0,), ()
        for local in (2**64 - 1, 2**64 - 10, 2**64 - 31, 2**63, 2**40, at):
            yield "f", with_zip64(data, n, m, local), (1,), ()
        for size in (0, 2**64 - 1, 2**63, 2**40, 2**33, 2**31, n + 1):
            yield "f", with_zip64(data, size, m, 0), (1,), ()
            yield "f", with_zip64(data, n, size, 0), (1,), ()
            yield "f", with_zip64(data, size, size, 0), (1,), ()
    bomb = zlib.compressobj(9, zlib.DEFLATED, -15)
    deflated = bomb.compress(bytes(1 << 20)) + bomb.flush()
    head = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, 0, len(deflated), 3 << 30, 5, 0)
    body = b"PK\3\4" + head + b"x.npy" + deflated
    tail = b"PK\1\2" + struct.pack("<H", 20) + head + bytes(14) + b"x.npy"
    yield "f", body + tail + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(tail), len(body), 0), (1,), ("x.npy",)


# ---------------------------------------------------------------- .pb
def tensor(elem=TensorProto.FLOAT, dims=(2, 3), **fields):
    t = TensorProto(data_type=elem, dims=dims)
    for name, v in fields.items():
        if name in ("raw_data", "data_location", "segment"):
            if name == "segment":
                t.segment.begin = v
            else:
                setattr(t, name, v)
        else:
            getattr(t, name).extend(v)
    return t.SerializeToString()


def nested_bytes(depth, field):
    """A message in a message in a message ..., each in this field."""
    parts, n = [], 0
    for _ in range(depth):
        size, length = b"", n
        while length > 127:
            size, length = size + bytes([length & 127 | 128]), length >> 7
        parts.append(bytes([field << 3 | 2]) + size + bytes([length]))
        n += len(parts[-1])
    return b"".join(reversed(parts))


def external(location, **more):
    t = TensorProto(data_type=TensorProto.FLOAT, dims=(2, 3), data_location=TensorProto.EXTERNAL)
    for key, v in {"location": location, **more}.items():
        t.external_data.add(key=key, value=v)
    return t.SerializeToString()


def pb_files():
    raw = DATA.tobytes()
    good = tensor(raw_data=raw)
    yield "f", good, (0,), ()
    for cut in (0, 1, 3, 5, 8, 10, len(good) - 1):
        yield "f", good[:cut], (1,), ()
    for dims in ((-1, 3), (2, -3), (2**62, 4), (2**62, 4, 0), (2**40, 2**40), (2**63 - 1,), (2**33, 2**31), (0, 3), (6,), (), (3, 2), (1,) * 500):
        yield "f", tensor(dims=dims, raw_data=raw), (1,), ()
        yield "f", tensor(dims=dims, float_data=DATA.reshape(-1)), (1,), ()
        yield "f", tensor(dims=dims), (1,), ()
    for elem in (0, 8, 11, 16, 22, 26, 27, 99, -1, 2**31 - 1):
        yield "f", tensor(elem, raw_data=raw), (1, 2), ()
    yield "f", tensor(raw_data=raw[:-1]), (1,), ("23",)
    yield "f", tensor(raw_data=raw + b"x"), (1,), ("25",)
    yield "f", tensor(raw_data=raw, float_data=[1] * 6), (1,), ("twice",)
    yield "f", tensor(float_data=[1] * 5), (1,), ("5",)
    yield "f", tensor(int32_data=[1] * 6), (1,), ()
    yield "f", tensor(raw_data=raw, segment=1), (1, 2), ()
    for where in ("/etc/passwd", "../x.bin", "", ".", "/dev/zero", "nothing.bin", "a\0b", "x" * 5000):
        yield "f", external(where), (1,), ()
    yield "f", external("y.bin", offset="-1"), (1,), ()
    yield "s", tensor(TensorProto.STRING, (2,), string_data=[b"a\0b", b"\xff\xfe\x1b"]), (0,), ()
    yield "s", tensor(TensorProto.STRING, (3,), string_data=[b"a", b"b", b"c"]), (1,), ("string[3]", "string[2]")
    yield "s", tensor(TensorProto.STRING, (2,), string_data=[b"a"]), (1,), ()
    yield "s", tensor(TensorProto.STRING, (2,), raw_data=b"ab"), (1,), ()
    yield "s", tensor(raw_data=raw), (1,), ("float[2, 3]", "string[2]")
    yield "f", tensor(TensorProto.STRING, (2, 3), string_data=[b"a"] * 6), (1,), ("string[2, 3]", "float[2, 3]")
    yield "i32", tensor(TensorProto.INT32, (3,), int32_data=[-1, 2**31 - 1, -2**31]), (0,), ()
    yield "u8", tensor(TensorProto.UINT8, (3,), int32_data=[0, 256, 0]), (1,), ("256",)
    yield "b", tensor(TensorProto.BOOL, (3,), raw_data=b"\0\2\xff"), (0,), ()
    yield "i4", tensor(TensorProto.INT4, (3,), raw_data=b"\xff\xff"), (0,), ()
    yield "i4", tensor(TensorProto.INT4, (3,), raw_data=b"\xff"), (1,), ()
    two = numpy_helper.from_array(np.ones(2, np.float32))
    other = numpy_helper.from_array(np.ones(2, np.int64))
    tensors = onnx.SequenceProto.TENSOR
    seq = onnx.SequenceProto(elem_type=tensors, tensor_values=[two, two])
    yield "q", seq.SerializeToString(), (0,), ()
    yield "q", b"", (0,), ()
    yield "q", onnx.SequenceProto(elem_type=tensors, tensor_values=[two, other]).SerializeToString(), (1,), ("int64",)
    yield "q", onnx.SequenceProto(elem_type=3, sequence_values=[seq]).SerializeToString(), (1,), ()
    yield "q", good, (1,), ()
    yield "q", b"\x08\x01\x1a\xff\xff\xff\xff\x0f", (1,), ()
    yield "q", nested_bytes(10000, 5), (1,), ()
    yield "o", nested_bytes(10000, 6), (1,), ()
    yield "o", onnx.OptionalProto(elem_type=1, tensor_value=two).SerializeToString(), (0,), ()
    yield "o", onnx.OptionalProto(elem_type=1, tensor_value=other).SerializeToString(), (1,), ("int64",)
    yield "o", onnx.OptionalProto(elem_type=3, sequence_value=seq).SerializeToString(), (1,), ()
    yield "f", b"\x0b" * 10000, (1,), ()
    yield from map_files()


def maps(keys, values, key_type=None, strings=None):
    """A MapProto; keys and values as they come."""
    made = onnx.MapProto(key_type=key_type if key_type is not None else TensorProto.STRING if strings else TensorProto.INT64,
                         keys=keys, string_keys=strings or [])
    made.values.elem_type = onnx.SequenceProto.TENSOR
    made.values.tensor_values.extend(numpy_helper.from_array(np.asarray(v)) for v in values)
    return made


def map_files():
    one, half, text = np.float32(1), np.array([0.5]), np.array("x", object)
    for keys, values in (([3, -1], [one, half]), ([], []), ([2**63 - 1, -2**63], [np.int64(4), np.float16(3)])):
        yield "m", maps(keys, values).SerializeToString(), (0,), ()
    yield "m", b"", (0,), ()
    yield "m", maps([1, 1], [one, one]).SerializeToString(), (1,), ("duplicate",)
    yield "m", maps([1, 2], [one]).SerializeToString(), (1,), ("2 keys", "1 values")
    yield "m", maps([1], [one, one]).SerializeToString(), (1,), ("1 keys", "2 values")
    yield "m", onnx.MapProto(key_type=TensorProto.INT64, keys=[1, 2]).SerializeToString(), (1,), ("2 keys", "0 values")
    yield "m", maps([], [one], strings=[b"1"]).SerializeToString(), (1,), ("string", "int64")
    yield "m", maps([1], [one, one], strings=[b"1"]).SerializeToString(), (1,), ("both",)
    yield "m", maps([1], [one], key_type=TensorProto.STRING).SerializeToString(), (1,), ("numbers", "strings")
    yield "m", maps([1], [np.ones(2, np.float32)]).SerializeToString(), (1,), ("several",)
    yield "m", maps([1], [text]).SerializeToString(), (1,), ("string",)
    yield "m", maps([1], [np.complex64(1)]).SerializeToString(), (1,), ("complex64",)
    yield "m", tensor(raw_data=DATA.tobytes()), (1,), ()
    yield "ms", maps([], [text, text], strings=[b"a", b"\xff\0"]).SerializeToString(), (0,), ()
    yield "ms", maps([], [text, text], strings=[b"a", b"a"]).SerializeToString(), (1,), ("duplicate",)
    yield "ms", maps([], [one], strings=[b"a"]).SerializeToString(), (1,), ("float",)
    rows = [maps([], [one], strings=[b"a"]), maps([], [half, one], strings=[b"b", b""])]
    listed = onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP, map_values=rows)
    yield "qm", listed.SerializeToString(), (0,), ()
    yield "qm", onnx.SequenceProto(elem_type=3, sequence_values=[listed]).SerializeToString(), (1,), ()
    yield "qm", onnx.SequenceProto(elem_type=5, map_values=[*rows, maps([1], [one])]).SerializeToString(), (1,), ("int64",)
    yield "q", listed.SerializeToString(), (1,), ("map",)


# ---------------------------------------------------------------- text, raw bytes
def csv_files():
    yield "f", b"1 2 3\n4,5;6\n", (0,), ()
    yield "f", b"nan,inf,-inf,1e400,-0,0x1p3", (0,), ()
    for data in (b"", b"1", b"1,2,3,4,5,6,7", b"1,2,3,4,5,x", b"1,2,3,4,5,6x", b"1,2,3,4,5,6\0", b"1,2,3\0,4,5,6", b"\xff\xfe1,2,3,4,5,6", b"x" * 100000,
                 b"1,2,3,4,5,\x1b[31m", b"1.2.3,2,3,4,5,6", b"1--2,2,3,4,5,6", b"truefalse,2,3,4,5,6", b"1e,2,3,4,5,6", b"PK\3\4" + bytes(50)):
        yield "f", data, (1,), ()
    yield "open", b"1,2,3,4", (1,), ("4",)
    yield "wide", b"1,2,3,4", (1,), ()
    yield "i", b"9223372036854775807,-9223372036854775808,9007199254740993", (0,), ()
    for word in ("nan", "inf", "1e30", "1.5", "9223372036854775808", "-9223372036854775809", "1" * 400, "true1", "--1", "0x"):
        yield "i", f"0,{word},0".encode(), (1,), (word[:20],)
    for kind, bad in (("u8", ("256", "-1", "nan", "3.7")), ("b", ("2", "-1", "nan", "yes")), ("i4", ("8", "-9", "nan")),
                      ("i32", ("2147483648", "-2147483649"))):
        for word in bad:
            yield kind, f"0,{word},0".encode(), (1,), (word,)
    yield "b", b"true,0,false", (0,), ()
    yield "h", b"1e9,-1e-30", (0,), ()
    yield "s", b"a,b", (0,), ()
    yield "s", b"a", (1,), ()
    yield "s", b"a,b,c", (1,), ()
    yield "s", b'a,"b', (1,), ()
    yield "s", b'a,"b"c', (1,), ()
    yield "s", b"a,\xff\xfe", (0, 1), ()
    yield "q", b"1,2", (1,), ()
    yield "m", b"1,2", (1,), ("map",)
    yield "c", b"1,2", (0, 1), ()
    yield "none", b"", (0,), ()
    yield "scalar", b"1", (0,), ()
    yield "f", b"1," * 300000, (1,), ("300000",)


def bin_files():
    raw = DATA.tobytes()
    yield "f", raw, (0,), ()
    for n in (0, 1, 23, 25, 27, 48):
        yield "f", bytes(n), (1,), (str(n),)
    for n in (11, 13, 35):
        yield "open", bytes(n), (1,), (str(n),)
    yield "open", b"", (0,), ()
    yield "i4", bytes(2), (0,), ()
    yield "i4", bytes(1), (1,), ()
    yield "i4", bytes(3), (1,), ()
    yield "h", bytes(5), (1,), ()
    yield "b", b"\0\2\xff", (0,), ()
    yield "s", bytes(32), (1,), ("string",)
    yield "none", b"", (0,), ()
    yield "none", bytes(12), (1,), ()


KINDS = {"npy": npy_files, "npz": npz_files, "pb": pb_files, "csv": csv_files, "bin": bin_files}


def mutations(count, seed):
    """Good files with bytes changed, taken out and put in."""
    dice = random.Random(seed)
    for kind, files in KINDS.items():
        good = [(port, data) for port, data, codes, _ in files() if codes == (0,) and data and len(data) < 5000]
        for _ in range(count):
            port, data = dice.choice(good)
            data = bytearray(data)
            for _ in range(dice.choice((1, 1, 2, 5))):
                at = dice.randrange(len(data))
                how = dice.randrange(5)
                if how == 0:
                    data[at] = dice.choice((0, 0xFF, 0x7F, 0x80, ord("-"), ord("'")))
                elif how == 1:
                    data[at] ^= 1 << dice.randrange(8)
                elif how == 2 and len(data) > 4:
                    del data[at:at + dice.choice((1, 2, 8))]
                elif how == 3:
                    data[at:at] = bytes(dice.randrange(256) for _ in range(dice.choice((1, 4))))
                elif len(data) > 8:
                    struct.pack_into("<I", data, min(at, len(data) - 4), dice.choice((0, 2**31, 2**32 - 1, dice.randrange(2**32))))
                if not data:
                    data = bytearray(b"\0")
            yield kind, port, bytes(data), (0, 1, 2), ()


# ---------------------------------------------------------------- names and random inputs
def arguments(folder):
    """(name, port, further arguments, exit codes, words of the message)."""
    os.makedirs(os.path.join(folder, "dir.npy"))
    os.mkfifo(os.path.join(folder, "pipe.npy"))
    os.symlink("loop.npy", os.path.join(folder, "loop.npy"))
    for name in ("dir.npy", "pipe.npy", "loop.npy", "nothing.npy", "/dev/zero", "/dev/null", "/proc/self/mem", "", "dir.npy/x.npy",
                 "y" * 5000 + ".npy"):
        yield f"from {name[:20]!r}", "f", ["--input", f"x={name}"], (1,), ()
    yield "from a missing folder", "f", ["--input-dir", "nothing"], (1,), ("nothing/input_0.pb",)
    for given in ("x", "=", "x.npy", "z=a.npy", ""):
        yield f"--input {given!r}", "f", ["--input", given], (1,), ()
    for span in ("", "1", "..", "5..1", "nan..nan", "0..inf", "0..1e400", "1..2..3", "a..b", "0 .. 1", "0..1x", "-1e300..1e300"):
        codes = (0,) if span == "-1e300..1e300" else (0, 1) if span == "" else (1,)
        yield f"random:{span}", "f", ["--input", f"x=random:{span}"], codes, ()
        yield f"random:{span} of integers", "i", ["--input", f"x=random:{span}"], (0, 1), ()
    for n in (2**40, 2**50, 2**60, 2**62, 2**63 - 1, 2**63, -1):
        yield f"random of N={n}", "open", ["--dim", f"N={n}", "--input", "x=random"], (1,), ()
    yield "random strings", "s", ["--input", "x=random"], (1,), ("string",)
    yield "random map", "m", ["--input", "x=random"], (1,), ("map",)
    yield "random sequence", "q", ["--input", "x=random"], (1,), ()
    yield "a seed too large", "f", ["--seed", "99999999999999999999", "--input", "x=random"], (1,), ("seed",)
    for with_what in ("nothing", "y", "y=", "y=nothing.npy", "z=x.npy", "dir.npy", "interpreter", ""):
        yield f"--compare {with_what!r}", "f", ["--input", "x=random", "--compare", with_what], (1,), ()
    for tolerance in ("-1", "nan", "x", "", "1e-3x", "inf"):
        yield f"--rtol {tolerance!r}", "f", ["--input", "x=random", "--rtol", tolerance], (1,), ("--rtol",)


def bad_values(results, count=COUNT, seed=SEED):
    onnxc, folder = program(results), fresh_folder("test-bad-values")
    for port, kind in PORTS.items():
        with open(os.path.join(folder, port + ".onnxtxt"), "w") as f:
            f.write(model(kind))

    def give(item):
        i, (kind, port, data, codes, words) = item
        name = f"{i}.{kind}"
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)
        ran = run_limited([onnxc, "run", "--interpret", port + ".onnxtxt", "--input", f"x={name}", "--output", "y=" + name + ".out.pb"], folder)
        left = [f for f in (name + ".out.pb",) if ran.code and os.path.exists(os.path.join(folder, f))]
        return f"{kind} for {PORTS[port]}, build/test-bad-values/{name}", complaint(ran, codes, (name, *words)) or "".join(left)

    def argue(item):
        name, port, more, codes, words = item
        return name, complaint(run_limited([onnxc, "run", "--interpret", port + ".onnxtxt", *more], folder), codes, words)

    files = [(kind, *f) for kind, make in KINDS.items() for f in make()] + list(mutations(count, seed))
    for name, wrong in parallel(give, enumerate(files)) + parallel(argue, arguments(folder)):
        results.check(not wrong, name, wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    sys.exit(run_stage("bad-values", lambda results: bad_values(results, given.count, given.seed)).failed != 0)
