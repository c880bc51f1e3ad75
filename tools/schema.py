#!/usr/bin/env python3
# Writes ir/graph/schema_data.inc (to standard output): every operator version of the standard from onnx.defs, and
# the operators that ONNX Runtime and other projects add to it, as C tables for ir/graph/schema.c. Equal lists of parameters,
# attributes and type variables are stored once.
import sys
from itertools import groupby
from types import SimpleNamespace

import onnx
import onnxruntime
import schema_added
from onnx import TensorProto, defs
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

INT_MAX = 2147483647
TENSOR_BIT = {f"tensor({name.lower()})": code for name, code in TensorProto.DataType.items() if code}
SEQ_BIT = {f"seq(tensor({name.lower()}))": 32 + code for name, code in TensorProto.DataType.items() if code}
OPTION = {"Single": "s", "Optional": "o", "Variadic": "v"}


def type_set(types):
    bits = 0
    for t in types:
        t = t.removeprefix("sparse_")  # the import makes them dense
        bits |= 1 << TENSOR_BIT.get(t, SEQ_BIT.get(t, 63))
    return bits


def quote(text):
    data = text.encode() if isinstance(text, str) else text
    out = ""
    for byte in data:
        c = chr(byte)
        out += "\\" + c if c in '"\\' else c if 32 <= byte < 127 else f"\\{byte:03o}"
    return f'"{out}"'


def default_text(attr):
    """Ints "1 2", floats with 9 digits, a string as it is, strings one per line; None: no default."""
    value = attr.default_value
    if value.type == value.UNDEFINED:
        return None
    value = onnx.helper.get_attribute_value(value)
    if isinstance(value, bytes):
        return value
    items = value if isinstance(value, list) else [value]
    if items and isinstance(items[0], bytes):
        return b"\n".join(items)
    return " ".join(f"{x:.9g}" if isinstance(x, float) else str(x) for x in items)


class Table:
    """Rows of one C array; add() gives the place of a list of rows, shared with an equal earlier list."""

    def __init__(self, ctype, name):
        self.ctype, self.name, self.rows, self.places = ctype, name, [], {}

    def add(self, rows):
        rows = tuple(rows)
        if not rows:
            return "NULL"
        if rows not in self.places:
            self.places[rows] = len(self.rows)
            self.rows += rows
        return f"{self.name} + {self.places[rows]}"

    def write(self):
        print(f"\nstatic const {self.ctype} {self.name}[] = {{")
        for row in self.rows:
            print(f"    {{{row}}},")
        print("};")


PARAMS = Table("schema_param", "params")
ATTRS = Table("schema_attr", "attrs")
VARS = Table("struct schema_type_var", "type_vars")
VERSIONS = Table("schema_version", "versions")
OPS = Table("schema_op", "ops")


def param_row(param, variables):
    index = variables.index(param.type_str) if param.type_str in variables else -1
    types = 0 if index >= 0 else type_set(param.types or [param.type_str])
    option = OPTION[param.option.name]
    return f"{quote(param.name)}, '{option}', {int(param.is_homogeneous)}, {index}, UINT64_C(0x{types:x})"


def attr_row(attr):
    text = default_text(attr)
    kind = onnx.AttributeProto.AttributeType.Value(attr.type.name)
    return f"{quote(attr.name)}, {kind}, {int(attr.required)}, {'NULL' if text is None else quote(text)}"


def version_row(s):
    variables = [c.type_param_str for c in s.type_constraints]
    body = s.has_function or s.has_context_dependent_function
    limits = [s.min_input, s.max_input, s.min_output, s.max_output]
    arity = ", ".join("INT_MAX" if n == INT_MAX else str(n) for n in limits)
    counts = f"{len(s.inputs)}, {len(s.outputs)}, {len(s.attributes)}, {len(variables)}"
    ins = PARAMS.add(param_row(p, variables) for p in s.inputs)
    outs = PARAMS.add(param_row(p, variables) for p in s.outputs)
    attrs = ATTRS.add(attr_row(a) for _, a in sorted(s.attributes.items()))
    types = VARS.add(
        f"{quote(c.type_param_str)}, UINT64_C(0x{type_set(c.allowed_type_strs):x})" for c in s.type_constraints
    )
    flags = f"{int(s.deprecated)}, {int(body)}"
    return f"{s.since_version}, {flags}, {arity}, {counts}, {ins}, {outs}, {attrs}, {types}"


# ---- ONNX Runtime's schemas: other classes with nearly the same members

CONTRIB = ("", "com.microsoft", "com.microsoft.nchwc")


def contrib_param(param):
    return SimpleNamespace(name=param.name, option=param.option, type_str=param.typeStr, types=[param.typeStr],
                           is_homogeneous=param.isHomogeneous)


def contrib_attr(name, attr):
    value = onnx.AttributeProto.FromString(attr._default_value)
    return SimpleNamespace(name=name, type=attr.type, required=attr.required, default_value=value)


def contrib_schema(s):
    return SimpleNamespace(
        domain=s.domain, name=s.name, since_version=s.since_version, deprecated=s.deprecated, has_function=False,
        has_context_dependent_function=False, min_input=s.min_input, max_input=s.max_input, min_output=s.min_output,
        max_output=s.max_output, inputs=[contrib_param(p) for p in s.inputs], outputs=[contrib_param(p) for p in s.outputs],
        attributes={name: contrib_attr(name, a) for name, a in s.attributes.items()}, type_constraints=s.type_constraints)


def contrib_schemas():
    """What ONNX Runtime has beside the standard."""
    standard = {(s.domain, s.name, s.since_version) for s in defs.get_all_schemas_with_history()}
    return [contrib_schema(s) for s in get_all_operator_schema() if s.domain in CONTRIB and
            (s.domain, s.name, s.since_version) not in standard and not s.name.endswith("_TRT")]  # _TRT: a plug-in's


def channels_last_schemas():
    """With the numbers of the standard's versions, of which each has the newest meaning."""
    def fields(s):
        names = [name for name in dir(s) if not name.startswith("_")]
        return {name: getattr(s, name) for name in names if not callable(getattr(s, name))}
    return [SimpleNamespace(**fields(s) | {"domain": schema_added.CHANNELS_LAST, "since_version": 1})
            for s in schema_added.channels_last()]


def newest_opsets(schemas):
    known = {}
    for s in schemas:
        known[s.domain] = max(known.get(s.domain, 0), s.since_version)
    known[""] = known[schema_added.CHANNELS_LAST] = defs.onnx_opset_version()
    return sorted(known.items())


def main():
    key = lambda s: (s.domain.encode(), s.name.encode())
    schemas = defs.get_all_schemas_with_history() + contrib_schemas() + schema_added.added_schemas() + channels_last_schemas()
    schemas = sorted(schemas, key=lambda s: (key(s), s.since_version))
    rows = []
    for (domain, name), group in groupby(schemas, key):
        group = list(group)
        place = VERSIONS.add(version_row(s) for s in group)
        rows.append(f"{quote(domain)}, {quote(name)}, {len(group)}, {place}")
    OPS.rows = rows
    print(f"// Made by tools/schema.py from onnx {onnx.__version__} and onnxruntime {onnxruntime.__version__}; do not edit.")
    for table in (PARAMS, ATTRS, VARS, VERSIONS, OPS):
        table.write()
    print("\nstatic const struct opset { const char *domain; int newest; } opsets[] = {")
    for domain, newest in newest_opsets(schemas):
        print(f"    {{{quote(domain)}, {newest}}},")
    print("};")


if __name__ == "__main__":
    sys.exit(main())
