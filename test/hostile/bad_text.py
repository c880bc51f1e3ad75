"""The stage that gives onnxc models as text that are broken: ONNX's text syntax, protobuf's text and JSON formats.

Good models are cut, bytes and tokens changed, swapped, repeated and nested, all told by SEED; some are made by hand.
usage: bad_text.py [--count N] [--seed N]: so many mutations of each form; or --write FOLDER: only writes the good ones.
"""
import argparse
import glob
import os
import random
import re
import sys

import onnx

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("", "cases")]
from format_cases import forms  # noqa: E402
from harness import BUILD, ROOT, parallel, run_stage  # noqa: E402
from hostile import complaint, fresh_folder, program, run_limited  # noqa: E402

SEED, COUNT = 5, 60
ENDINGS = (".onnxtxt", ".textproto", ".json")
LARGEST = 20000  # characters of a model that is changed
NUMBERS = ["0", "-1", "1e999", "-1e-999", "nan", "inf", "9" * 40, "-" + "9" * 400, str(2**31), str(2**63), str(-2**63), str(2**64), "0x7fffffffffffffff",
           "1e308", "00", "1.", ".5", "1e", "+", "-", "0b1", "1_000"]
WORDS = ["", "{", "}", "[", "]", "(", ")", "<", ">", ",", ":", "=", "=>", '"', "'", "\\", "\\u", "\\x", "\\777", '"\\ud800"', "//", "#", "\0", "\xff",
         "null", "true", "float", "float[", "seq(", "optional(", "map(int64,", "graph", "input", "Constant", "If", "then_branch", "domain.Op", "@", "?", "..."]
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_][\w.]*|[-+]?\d[\w.+-]*|\s+|.', re.DOTALL)


def header(body):
    return f'<ir_version: 10, opset_import: ["" : 21]>\n{body}\n'


def written():
    """(name with ending, text, exit codes, words of the message)."""
    deep = 100000
    plain = "g (float[2] x) => (float[2] y) {{ {} }}"
    for name, text in (
        ("empty_header", "<>"), ("only_header", header("")), ("open_header", "<ir_version: 10"), ("deep_seq", header(f"g ({'seq(' * deep}float x) => (float y) {{}}")),
        ("deep_graph", header(plain.format("y = If (x) <then_branch = g () => (float y) { " * deep))),
        ("deep_list", header(plain.format("y = Op <a = " + "[" * deep + "> (x)"))), ("deep_call", header(plain.format("y = " + "Relu(" * deep + "x" + ")" * deep))),
        ("huge_dim", header(f"g (float[{'9' * 100}] x) => (float y) {{ y = Relu(x) }}")), ("negative_dim", header("g (float[-1] x) => (float y) { y = Relu(x) }")),
        ("many_dims", header(f"g (float[{'1,' * 100000}1] x) => (float y) {{ y = Relu(x) }}")), ("open_string", header(plain.format('y = Op <s = "abc> (x)'))),
        ("open_body", header("g (float x) => (float y) { y = Relu(x)")), ("no_body", header("g (float x) => (float y)")),
        ("huge_int", header(plain.format(f"y = Op <i = {'9' * 1000}> (x)"))), ("huge_float", header(plain.format("y = LeakyRelu <alpha: float = 1e9999> (x)"))),
        ("big_opset", '<ir_version: 10, opset_import: ["" : 99999999999999999999]>\n' + plain.format("y = Relu(x)")),
        ("short_constant", header(plain.format("y = Constant <value = float[3] {1, 2}> ()"))), ("huge_constant", header(plain.format(f"y = Constant <value = float[{2**40}] {{1}}> ()"))),
        ("wrong_constant", header(plain.format('y = Constant <value = int64[1] {"a"}> ()'))), ("self_call", header(plain.format("y = local.f(x)")) + '<domain: "local", opset_import: ["local" : 1]>\nf (a) => (b) { b = local.f(a) }'),
        ("twice", header(plain.format("y = Relu(x) y = Relu(x)"))), ("nul", header(plain.format("y = Relu(x)\0"))), ("latin", header("g\xe9 (float x) => (float y) { y = Relu(x) }")),
        ("long_word", header("g" * 1000000 + " (float x) => (float y) { y = Relu(x) }")),
    ):
        yield name + ".onnxtxt", text, (0,) if name in ("negative_dim", "long_word") else (1, 2), ()
    for name, text in (
        ("deep", "graph { " * deep), ("deep_closed", "graph { node { attribute { g { " * 30000 + "} } } } " * 30000), ("no_field", "nothing: 1"), ("no_value", "ir_version:"),
        ("no_close", "graph {"), ("huge", f"ir_version: {'9' * 1000}"), ("text_for_number", 'ir_version: "a"'), ("number_for_text", "producer_name: 3"),
        ("open", 'producer_name: "abc'), ("escapes", r'producer_name: "\x\q\8\u12"'), ("twice", "ir_version: 10 ir_version: 10"), ("list", "opset_import: [{version: 1}, {version: "),
        ("any", "[type.googleapis.com/x] { }"), ("comment", "# only"), ("colons", "ir_version:::::10"), ("dims", f"ir_version: 10 graph {{ initializer {{ dims: {2**62} dims: 4 data_type: 1 }} }}"),
    ):
        yield name + ".textproto", text, (1, 2), ()
    for name, text in (
        ("deep", '{"graph":' * deep), ("deep_list", '{"a":' + "[" * deep), ("unknown_deep", '{"x":' * deep + "1" + "}" * deep), ("no_close", '{"irVersion": 10'), ("comma", '{"irVersion": 10,}'),
        ("huge", '{"irVersion": ' + "9" * 1000 + "}"), ("fraction", '{"irVersion": 1.5}'), ("text", '{"irVersion": "1x"}'), ("null", '{"graph": null}'), ("wrong", '{"graph": 3}'),
        ("list", '{"graph": []}'), ("surrogate", r'{"producerName": "\ud800", "irVersion": 10}'), ("cut_escape", r'{"producerName": "\u12'), ("nul", r'{"producerName": "a\u0000b", "irVersion": 10}'),
        ("base64", '{"irVersion": 10, "graph": {"initializer": [{"dims": ["1"], "dataType": 1, "rawData": "!!!"}]}}'), ("empty", "{}"), ("trailing", '{"irVersion": 10} x'),
        ("enum", '{"graph": {"node": [{"attribute": [{"type": "NOTHING"}]}]}}'), ("numbers", '{"irVersion": 1e400}'), ("key", '{3: 4}'), ("nan", '{"irVersion": NaN}'),
    ):
        yield name + ".json", text, (1, 2), ()


def models():
    found = sorted(glob.glob(os.path.join(ROOT, "test", "cli", "*.onnx")))
    for part in ("if", "loop11", "scan_sum", "sequence_map_identity_1_sequence", "quantizelinear", "string_concat", "constant", "optional_has_element_tensor_input", "einsum_sum", "resize_upsample_scales_nearest"):
        found += sorted(glob.glob(os.path.join(BUILD, "cases", "node", f"test_{part}*", "model.onnx")))[:1]
    return found


def good_texts():
    """By ending, the models' texts."""
    texts = {ending: [] for ending in ENDINGS}
    for path in models():
        try:
            for ending, text, _ in forms(onnx.load(path)):
                if len(text) <= LARGEST:
                    texts[ending].append(text)
        except Exception:  # not every model can be written as text
            continue
    return texts


def write_good(folder):
    for ending, texts in good_texts().items():
        for i, text in enumerate(texts):
            with open(os.path.join(folder, f"good{i}{ending}"), "w", encoding="utf-8") as f:
                f.write(text)


def mutate(dice, text):
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        tokens = TOKEN.findall(text)
        at, other = dice.randrange(len(tokens)), dice.randrange(len(tokens))
        how = dice.randrange(11)
        if how == 0:
            return text[:dice.randrange(len(text))]
        if how == 1:
            where = dice.randrange(len(text))
            text = text[:where] + chr(ord(text[where]) ^ 1 << dice.randrange(8)) + text[where + 1:]
            continue
        if how == 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif how == 3:
            del tokens[at]
        elif how == 4:
            tokens.insert(at, tokens[other])
        elif how == 5:
            tokens[at] = dice.choice(WORDS)
        elif how in (6, 7):
            numbers = [i for i, t in enumerate(tokens) if t[0] in "-+0123456789"]
            tokens[dice.choice(numbers or [at])] = dice.choice(NUMBERS)
        elif how == 8:
            tokens[at] = tokens[at] * dice.choice((2, 100, 3000))
        elif how == 9:
            low, high = sorted((at, min(other, at + 200)))
            tokens[low:high] = tokens[low:high] * 2
        else:
            del tokens[at:at + dice.choice((2, 10, 50))]
        text = "".join(tokens) or " "
    return text


def mutations(count, seed):
    dice = random.Random(seed)
    for ending, texts in good_texts().items():
        for i in range(count if texts else 0):
            yield f"changed{i}{ending}", mutate(dice, dice.choice(texts)), (0, 1, 2), ()


def bad_text(results, count=COUNT, seed=SEED):
    onnxc, folder = program(results), fresh_folder("test-bad-text")

    def give(item):
        name, text, codes, words = item
        with open(os.path.join(folder, name), "w", encoding="utf-8", errors="surrogateescape") as f:
            f.write(text)
        ran = run_limited([onnxc, name, "--emit=ir", "-o", name + ".ir"], folder)
        left = ran.code != 0 and os.path.exists(os.path.join(folder, name + ".ir"))
        wrong = complaint(ran, codes, (name, *words), most_errors=21)
        return f"build/test-bad-text/{name}", wrong or ("an output is left" if left else "")

    for name, wrong in parallel(give, [*written(), *mutations(count, seed)]):
        results.check(not wrong, name, wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--write")
    given = parser.parse_args()
    if given.write:
        write_good(given.write)
        sys.exit()
    sys.exit(run_stage("bad-text", lambda results: bad_text(results, given.count, given.seed)).failed != 0)
