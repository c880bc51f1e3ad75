"""The Python package: sessions, compilations, errors. Prints N passed, N failed, N skipped."""
import gc
import os
import re
import subprocess
import sys
import tempfile
import unittest
import warnings
import weakref

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, parser

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bindings", "python"))

import onnxc  # noqa: E402
from harness import at_once, run_unittests  # noqa: E402
from onnxc import backend, values  # noqa: E402

MODELS = os.path.join(ROOT, "test", "cli")
X = np.array([[1, 2, 3, 4], [-1, -2, -3, -4]], np.float32)
Y = np.array([[7.5, 8.75, 10], [0, 0, 0]], np.float32)


def path_of(name):
    return os.path.join(MODELS, name)


def text_model(text, ir_version=13, opset=25):
    return parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}]>\n{text}')


def identity(number):
    """y = x, of that element type. Identity does not know those of version 28."""
    x, y = (helper.make_tensor_value_info(n, number, ["N"]) for n in "xy")
    new = values.ELEMENTS[number].name.startswith("float6")
    node = helper.make_node("Cast", ["x"], ["y"], to=number) if new else helper.make_node("Identity", ["x"], ["y"])
    return helper.make_model(helper.make_graph([node], "g", [x], [y]),
                             opset_imports=[helper.make_opsetid("", 28 if new else 25)], ir_version=14 if new else 13)


class Models(unittest.TestCase):
    def check_mlp(self, session):
        np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], Y)

    def test_from_path_bytes_and_proto(self):
        self.check_mlp(onnxc.InferenceSession(path_of("mlp.onnx")))
        with open(path_of("mlp.onnx"), "rb") as f:
            data = f.read()
        for model in data, bytearray(data), memoryview(data), onnx.load(path_of("mlp.onnx")):
            self.check_mlp(onnxc.InferenceSession(model))

    def test_from_shared_library(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mlp.so")
            onnxc.compile(path_of("mlp.onnx"), path)
            self.check_mlp(onnxc.InferenceSession(path))
            self.check_mlp(onnxc.InferenceSession(path, model_name="mlp"))
            with self.assertRaisesRegex(onnxc.InvalidArgument, "contains no model 'other'"):
                onnxc.InferenceSession(path, model_name="other")
            with self.assertRaisesRegex(onnxc.InvalidArgument, "takes no options"):
                onnxc.InferenceSession(path, ["-O3"])
            with self.assertRaisesRegex(onnxc.InvalidArgument, r"takes no options \(O=, fp=\)"):
                onnxc.InferenceSession(path, O=3, fp="strict")

    def test_library_without_model(self):
        with self.assertRaisesRegex(onnxc.InvalidArgument, "contains no model"):
            onnxc.InferenceSession(os.path.realpath(onnxc.paths.compiler_path()))

    def test_weights_in_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            weights, path = os.path.join(folder, "w"), os.path.join(folder, "mlp.so")
            self.check_mlp(onnxc.InferenceSession(path_of("mlp.onnx"), weights=weights))
            onnxc.compile(path_of("mlp.onnx"), path, weights=weights)
            self.check_mlp(onnxc.InferenceSession(path, weights=weights))
            with self.assertRaises(onnxc.RunError) as caught:
                onnxc.InferenceSession(path, weights=path)
            self.assertEqual(caught.exception.code_name, "ONNXC_BAD_WEIGHTS")

    def test_metadata(self):
        session = onnxc.InferenceSession(path_of("mlp.onnx"))
        self.assertEqual(session.get_inputs(), [("x", ["N", 4], "tensor(float)")])
        self.assertEqual(session.get_outputs(), [("y", ["N", 3], "tensor(float)")])
        self.assertEqual(session.get_modelmeta().producer_name, "onnxc-tests")

    def test_inputs_with_default_values(self):
        model = text_model("g (float[2] x, float alpha) => (float[2] y) <float alpha = {2}> { y = Mul (x, alpha) }")
        x, alpha = np.float32([1, 3]), np.float32(5)
        constant = onnxc.InferenceSession(model)
        self.assertEqual(constant.get_overridable_initializers(), [])
        with self.assertRaisesRegex(onnxc.InvalidArgument, "no input 'alpha'"):
            constant.run(None, {"x": x, "alpha": alpha})
        session = onnxc.InferenceSession(model, override="alpha")
        self.assertEqual([p.name for p in session.get_inputs()], ["x"])
        self.assertEqual(session.get_overridable_initializers(), [("alpha", [], "tensor(float)")])
        self.assertEqual(session.run(None, {"x": x})[0].tolist(), [2, 6])
        self.assertEqual(session.run(None, {"x": x, "alpha": alpha})[0].tolist(), [5, 15])

    def test_compile_to_memory(self):
        self.assertEqual(onnxc.compile(path_of("mlp.onnx"))[:4], b"\x7fELF")
        self.assertIn(b"mlp_run", onnxc.compile(path_of("mlp.onnx"), emit="c"))

    def test_option_words(self):
        words = onnxc.compiler.option_words(["-g"], {"O": 3, "fp": "strict", "dim": {"N": 8, "M": "1:4"}, "remarks": True,
                                                     "target": None, "io_dtype": ["a=int8", "b=int8"]})
        self.assertEqual(words, ["-g", "-O3", "--fp=strict", "--dim=N=8", "--dim=M=1:4", "--remarks", "--io-dtype=a=int8",
                                 "--io-dtype=b=int8"])
        self.assertEqual(onnxc.InferenceSession(path_of("mlp.onnx"), ["--dim=N=2"], threads=1).get_inputs()[0].shape, [2, 4])


class Custom(unittest.TestCase):
    """Operators that C functions compute."""
    OPS = {"mine::Scale": "scale,same", "mine::Sorted": "sorted,same,workspace", "mine::DropZeros": "drop_zeros,shape"}

    def build(self, folder, name="ops.so", source=path_of("custom_ops.c")):
        library = os.path.join(folder, name)
        subprocess.run(["cc", "-shared", "-fPIC", "-I", os.path.join(ROOT, "runtime-lite"), source, "-o", library], check=True)
        return library

    def test_of_several_types(self):
        x, k = np.float32([[3, -1, 2]]), np.int64([[1, 2, 3]])
        with tempfile.TemporaryDirectory() as folder:
            session = onnxc.InferenceSession(path_of("custom.onnxtxt"), custom_op=self.OPS, custom_lib=self.build(folder))
        y, j, s = session.run(None, {"x": x, "k": k})
        self.assertEqual((y.tolist(), j.tolist(), s.tolist()), ([[-7.5, -2.5, -5]], [[12, 14, 16]], [[-1, 2, 3]]))

    def test_of_sizes_known_at_run_time(self):
        with tempfile.TemporaryDirectory() as folder:
            session = onnxc.InferenceSession(path_of("zeros.onnxtxt"), custom_op=self.OPS, custom_lib=self.build(folder))
        for n in 1, 5, 1000, 0:
            x = (np.arange(n) % 3).astype(np.float32)
            y, w = session.run(None, {"x": x, "n": np.int64(2)})
            np.testing.assert_array_equal(y, x[x != 0] * 4)
            np.testing.assert_array_equal(w, -y)

    def test_libraries_with_the_same_names(self):
        model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 20, "mine": 1]> '
                                        'g (float[2] x) => (float[2] y) { y = mine.Scale (x) }')
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "b.c")
            with open(source, "w") as f:
                f.write("int scale(void *call) { return call != 0; }")
            good, bad = (onnxc.InferenceSession(model, custom_op="mine::Scale=scale", custom_lib=library)
                         for library in (self.build(folder, "a.so"), self.build(folder, "b.so", source)))
        self.assertEqual(good.run(None, {"x": X[0, :2]})[0].tolist(), [1, 2])
        with self.assertRaises(onnxc.RunError):
            bad.run(None, {"x": X[0, :2]})

    def test_failure(self):
        model = text_model("g (float[2] x) => (float[2] y) { y = mine.Bad (x) }").SerializeToString()
        with tempfile.TemporaryDirectory() as folder:
            session = onnxc.InferenceSession(model, custom_op={"mine::Bad": "fails"}, custom_lib=self.build(folder))
        with self.assertRaisesRegex(onnxc.RunError, "operator mine.Bad: the function 'fails' failed") as caught:
            session.run(None, {"x": X[0, :2]})
        self.assertEqual(caught.exception.code_name, "ONNXC_CHECK_FAILED")
        with self.assertRaisesRegex(onnxc.CompileError, "--custom-lib=FILE must give"):
            onnxc.InferenceSession(model, custom_op="mine::Bad=fails")
        with self.assertRaisesRegex(onnxc.CompileError, "no function 'bad'"):
            with tempfile.TemporaryDirectory() as folder:
                onnxc.InferenceSession(model, custom_op="mine::Bad=bad", custom_lib=self.build(folder))


class Errors(unittest.TestCase):
    def refused(self, kind, text, model, *options, **keywords):
        with self.assertRaisesRegex(kind, text) as caught:
            onnxc.InferenceSession(model, *options, **keywords)
        return caught.exception

    def test_models(self):
        e = self.refused(onnxc.InvalidModel, "broken protobuf", b"\x08\x07\x12\xff", filename="here.onnx")
        self.assertEqual((e.code, e.code_name, e.messages[0].file), (1, "ONNXC_WRONG_MODEL", "here.onnx"))
        self.refused(onnxc.InvalidModel, "this is text", b"nonsense")
        self.refused(onnxc.InvalidModel, "No such file", "/not/there.onnx")
        model = helper.make_model(helper.make_graph([helper.make_node("Nonsense", ["x"], ["y"], name="n")], "g", [
            helper.make_tensor_value_info("x", 1, [1])], [helper.make_tensor_value_info("y", 1, [1])]))
        e = self.refused(onnxc.CompileError, "Nonsense", model)
        self.assertEqual(e.messages[0].severity, "error")

    def test_options(self):
        for wrong, text in ({"nonsense": 1}, "unknown option '--nonsense'"), ({"O": 7}, "'7' is not one of"), ({"threads": "x"}, "expected"):
            e = self.refused(onnxc.InvalidOption, "^onnxc: error: .*" + text, path_of("mlp.onnx"), **wrong)
            self.assertNotIsInstance(e, onnxc.InvalidModel)
            self.assertIsInstance(e, (TypeError, ValueError))
            self.assertRaises(onnxc.InvalidOption, onnxc.compile, path_of("mlp.onnx"), **wrong)
        self.refused(TypeError, "unknown option '--providr'\nhint: did you mean providers=", path_of("mlp.onnx"), providr=["CPUExecutionProvider"])
        self.refused(onnxc.InvalidModel, "nosuch", path_of("mlp.onnx"), dim={"nosuch": 1})

    def test_memory_limit(self):
        self.refused(onnxc.Stopped, "more memory", path_of("mlp.onnx"), memory_limit=1000)

    def test_cancelled(self):
        self.refused(onnxc.Stopped, "", path_of("mlp.onnx"), cancelled=lambda: True)
        self.refused(KeyboardInterrupt, "", path_of("mlp.onnx"), cancelled=self.interrupt)

    def interrupt(self):
        raise KeyboardInterrupt

    def test_feeds(self):
        session = onnxc.InferenceSession(path_of("mlp.onnx"))
        for text, feed in (("input 'x' is missing", {}), ("no input 'z'", {"x": X, "z": X}), ("rank 2", {"x": X[0]}),
                           ("float32", {"x": X.astype(np.float64)})):
            with self.assertRaisesRegex(onnxc.InvalidArgument, text):
                session.run(None, feed)
        with self.assertRaisesRegex(onnxc.InvalidArgument, "no output 'z'"):
            session.run(["z"], {"x": X})
        with self.assertRaisesRegex(onnxc.RunError, "axis 1 is 3, but must be 4") as caught:
            session.run(None, {"x": X[:, :3]})
        self.assertEqual((caught.exception.code, caught.exception.code_name), (2, "ONNXC_BAD_DIM"))

    def test_data(self):
        model = text_model("g (float[4] x, int64[N] i) => (float[N] y) { y = Gather (x, i) }")
        session = onnxc.InferenceSession(model)
        with self.assertRaises(onnxc.RunError) as caught:
            session.run(None, {"x": X[0], "i": np.array([7])})
        self.assertEqual(caught.exception.code_name, "ONNXC_CHECK_FAILED")
        np.testing.assert_array_equal(session.run(None, {"x": X[0], "i": np.array([3, -4])})[0], [4, 1])


class Arrays(unittest.TestCase):
    def test_what_is_not_dense(self):
        session = onnxc.InferenceSession(path_of("mlp.onnx"))
        wide = np.repeat(X, 2, axis=1)
        for x in np.asfortranarray(X), wide[:, ::2], X.tolist():
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], Y)
        X.flags.writeable = False
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], Y)

    def test_masks_are_not_lost(self):
        session = onnxc.InferenceSession(path_of("mlp.onnx"))
        masked = np.ma.masked_array(X, X < 0)
        np.testing.assert_array_equal(session.run(None, {"x": np.ma.masked_array(X)})[0], Y)
        for _ in range(2):
            with self.assertRaisesRegex(onnxc.InvalidArgument, "input 'x'.*masked"):
                session.run(None, {"x": masked})
        self.assertEqual(session.run(None, {"x": masked.filled(0)})[0].shape, Y.shape)

    def test_inputs_are_not_copied(self):
        call = onnxc.session.Call(onnxc.InferenceSession(path_of("mlp.onnx")), [X])
        self.assertEqual(call.data[0], X.ctypes.data)

    def test_outputs_are_fresh(self):
        session = onnxc.InferenceSession(path_of("mlp.onnx"))
        first, second = session.run(None, {"x": X})[0], session.run(None, {"x": -X})[0]
        np.testing.assert_array_equal(first, Y)
        self.assertFalse(np.shares_memory(first, second))

    def test_sizes(self):
        session = onnxc.InferenceSession(path_of("mlp.onnx"))
        for n in 0, 1, 7, 1000:
            self.assertEqual(session.run(None, {"x": np.ones((n, 4), np.float32)})[0].shape, (n, 3))
        model = text_model("g (float[N] x, float[M] z) => (float[K] y) { y = Concat <axis = 0> (x, z, x) }")
        session = onnxc.InferenceSession(model)
        for n, m in (0, 0), (3, 2), (5, 1), (3, 2):
            x, z = np.arange(n, dtype=np.float32), -np.ones(m, np.float32)
            np.testing.assert_array_equal(session.run(None, {"x": x, "z": z})[0], np.concatenate([x, z, x]))

    def test_sizes_from_data(self):
        session = onnxc.InferenceSession(path_of("positive.onnx"))
        for n in 0, 5, 3000, 20000, 10:
            x = np.arange(-2, n, dtype=np.float32)
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], x[x > 0])
        model = text_model("g (int64[N] x) => (int64[A] u, int64[A] i, int64[N] v, int64[A] c) { u, i, v, c = Unique (x) }")
        x = np.arange(5000)[::-1] // 2
        for found, want in zip(onnxc.InferenceSession(model).run(None, {"x": x}), np.unique(x, True, True, True)):
            np.testing.assert_array_equal(found, want)

    def test_scalars(self):
        model = text_model("g (float x, bool b) => (float y, bool c) { y = Neg (x)  c = Not (b) }")
        y, c = onnxc.InferenceSession(model).run(None, {"x": 2, "b": np.True_})
        self.assertEqual((y.shape, y, c.dtype, c), ((), -2, np.bool_, False))

    def test_state(self):
        session = onnxc.InferenceSession(path_of("slide.onnx"), state="next=past")
        past = np.zeros(3, np.float32)
        for x in 1, 2:
            out = dict(zip((o.name for o in session.get_outputs()), session.run(None, {"x": [x], "past": past})))
            past = out["next"]
        np.testing.assert_array_equal(past, [0, 1, 2])

    def test_state_that_grows(self):
        model = text_model("g (float[2, N] x, float[2, P] past) => (float[2, Q] all) { all = Concat <axis = 1> (past, x) }")
        session, past = onnxc.InferenceSession(model, state="all=past", dim="P=0:5"), np.zeros((2, 0), np.float32)
        for n in 1, 2, 2:
            x = np.full((2, n), n, np.float32)
            past, want = session.run(None, {"x": x, "past": past})[0], np.concatenate([past, x], 1)
            np.testing.assert_array_equal(past, want)
        with self.assertRaisesRegex(Exception, "more than 5 elements along axis 1"):
            session.run(None, {"x": x, "past": past})

    def test_threads(self):
        session = onnxc.InferenceSession(path_of("deep.onnx"))
        want = [session.run(None, {"x": np.full((n, 8), n, np.float32)})[0] for n in range(1, 9)]

        def work(n):
            for _ in range(50):
                np.testing.assert_array_equal(session.run(None, {"x": np.full((n, 8), n, np.float32)})[0], want[n - 1])
        self.assertEqual(at_once(work, range(1, 9)), [])


LONG = "g\u00f6del" * 20
WORDS = ('g (int64[2, N] i) => (string[2, N] y, int64[2, N] z) <string[3] s = {"", "a", "' + LONG +
         '"}> { y = Gather (s, i)  z = Add (i, i) }')


class Repeated(unittest.TestCase):
    """Calls of sizes that were seen before go another way."""

    def sum_session(self):
        return onnxc.InferenceSession(text_model("g (float[N, 4] x, float[N, 4] z) => (float[N, 4] y, float[4, N] t) "
                                                 "{ y = Add (x, z)  t = Transpose <perm = [1, 0]> (y) }"))

    def check_sum(self, session, n, of=None):
        x, z = np.random.rand(n, 4).astype(np.float32), np.full((n, 4), n, np.float32)
        y, t = session.run(of, {"z": z, "x": x}) if of is None else session.run(of, {"z": z, "x": x})[::-1]
        np.testing.assert_array_equal(y, x + z)
        np.testing.assert_array_equal(t, (x + z).T)
        return y, t

    def test_it_is_taken(self):
        for model, feed in (("g (float[N] x) => (float[N] y) { y = Neg (x) }", {"x": X[0]}),
                            ("g (float x) => (float y) { y = Neg (x) }", {"x": np.array(2, np.float32)}),
                            ("g (bool[2, 2] x, int64[2] i) => (bool[2, 2] y) { y = Gather (x, i) }",
                             {"x": np.eye(2, dtype=bool), "i": np.array([1, 0])}),
                            ("g (float[N] x) => (int64[1, K] y) { y = NonZero (x) }", {"x": X[0]}),
                            ("g (bfloat16[N] x) => (bfloat16[N] y) { y = Identity (x) }", {"x": X[0].astype(ml_dtypes.bfloat16)}),
                            (WORDS, {"i": np.array([[2, 0, 1], [1, 1, 2]])}),
                            ("g (string[N] x) => (string[N] y) { y = Identity (x) }", {"x": np.array(["", LONG, b"a", "b\0c"], object)})):
            session = onnxc.InferenceSession(text_model(model))
            self.assertIsNone(session._repeated.run(feed))
            want, found = session.run(None, feed), session._repeated.run(feed)
            for w, f in zip(want, found, strict=True):
                self.assertEqual((w.dtype, w.tolist()), (f.dtype, f.tolist()))

    def test_sizes_that_change(self):
        session = self.sum_session()
        for n in 3, 3, 5, 3, 3, 5, 0, 0, 1, 3, 0, 5, *range(1, 150), *range(1, 5):
            self.check_sum(session, n)
            self.check_sum(session, n, ["t", "y"])
        self.assertLessEqual(len(session._repeated.plans), onnxc.repeat.MOST_PLANS)

    def test_outputs_are_fresh(self):
        session, kept = self.sum_session(), []
        for n in 3, 3, 5, 3, 5, 3:
            kept += self.check_sum(session, n)
        for i, a in enumerate(kept):
            for b in kept[:i]:
                self.assertFalse(np.shares_memory(a, b))

    def test_checks_stay(self):
        session = onnxc.InferenceSession(path_of("mlp.onnx"))
        unaligned = np.zeros(X.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(X.shape)
        unaligned[:] = X
        for _ in range(3):
            np.testing.assert_array_equal(session.run(None, {"x": X})[0], Y)
            for x in np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X.tolist(), unaligned, X[::-1][::-1]:
                np.testing.assert_array_equal(session.run(None, {"x": x})[0], Y)
            for text, feed in (("input 'x' is missing", {}), ("no input 'z'", {"x": X, "z": X}), ("input 'x' is missing|no input 'z'", {"z": X}),
                               ("rank 2", {"x": X[0]}), ("rank 2", {"x": X[None]}), ("float32", {"x": X.astype(np.float64)}),
                               ("float32", {"x": X.view(np.int32)})):
                with self.assertRaisesRegex(onnxc.InvalidArgument, text):
                    session.run(None, feed)
            with self.assertRaisesRegex(onnxc.InvalidArgument, "no output 'z'"):
                session.run(["z"], {"x": X})
            with self.assertRaisesRegex(onnxc.RunError, "axis 1 is 3, but must be 4"):
                session.run(None, {"x": X[:, :3].copy()})

    def test_sizes_from_data(self):
        session = onnxc.InferenceSession(path_of("positive.onnx"))
        for positive in 3, 5, 3000, 2, 0, 3000, 5:
            x = np.where(np.arange(3000) < positive, 1, -1).astype(np.float32)
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], x[x > 0])

    def test_runs_that_fail(self):
        session = onnxc.InferenceSession(text_model("g (float[4] x, int64[N] i) => (float[N] y) { y = Gather (x, i) }"))
        for _ in range(3):
            np.testing.assert_array_equal(session.run(None, {"x": X[0], "i": np.array([3])})[0], [4])
            with self.assertRaises(onnxc.RunError) as caught:
                session.run(None, {"x": X[0], "i": np.array([7])})
            self.assertEqual(caught.exception.code_name, "ONNXC_CHECK_FAILED")
            self.assertIn("index 7 is out of range for axis 0 of size 4", str(caught.exception))

    def test_strings(self):
        session, words = onnxc.InferenceSession(text_model(WORDS)), np.array(["", "a", LONG], object)
        for n in 1, 1, 3, 1, 3, 0, 3:
            i = np.arange(2 * n).reshape(2, n) % 3
            y, z = session.run(None, {"i": i})
            self.assertEqual((y.shape, y.tolist(), z.tolist()), (i.shape, words[i].tolist(), (i + i).tolist()))
            with self.assertRaisesRegex(onnxc.RunError, "index 7 is out of range"):
                session.run(None, {"i": np.full((2, 1), 7)})

    def test_many_strings(self):
        session = onnxc.InferenceSession(text_model("g (string[N] x) => (string[N] y) { y = Identity (x) }"))
        for n in 1, 8, 9, 100, 9, 1000:
            for texts in ["" for _ in range(n)], [str(i) * (i % 5) for i in range(n)], ["\u00f6" * (i % 3) + "\0x" for i in range(n)]:
                for _ in range(3):
                    self.assertEqual(session.run(None, {"x": np.array(texts, object)})[0].tolist(), texts)
            with self.assertRaisesRegex(onnxc.InvalidArgument, "takes strings, not 5"):
                session.run(None, {"x": np.array(["a"] * (n - 1) + [5], object)})
            with self.assertRaisesRegex(onnxc.InvalidArgument, "takes strings"):
                session.run(None, {"x": np.array(["a"] * (n - 1) + ["\ud800"], object)})

    def test_threads(self):
        session = self.sum_session()

        def work(n):
            kept = [(x, session.run(None, {"x": x, "z": x})) for x in (np.full((1 + (n + i) % 3, 4), n * 100 + i, np.float32)
                                                                       for i in range(100))]
            for x, (y, t) in kept:
                np.testing.assert_array_equal(y, x + x)
                np.testing.assert_array_equal(t, (x + x).T)
        self.assertEqual(at_once(work, range(8)), [])

    def test_defaults(self):
        model = text_model("g (float[N] x) => (float[N] y) <float w = {2}> { y = Mul (x, w) }")
        model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, []))
        session = onnxc.InferenceSession(model, override="w")
        for _ in range(3):
            np.testing.assert_array_equal(session.run(None, {"x": X[0]})[0], X[0] * 2)
            np.testing.assert_array_equal(session.run(None, {"x": X[0], "w": np.array(3, np.float32)})[0], X[0] * 3)
            np.testing.assert_array_equal(session.run(None, {"x": X[0], "w": None})[0], X[0] * 2)

    def test_sessions_end(self):
        session = onnxc.InferenceSession(path_of("mlp.onnx"))
        for _ in range(2):
            session.run(None, {"x": X})
        end, there = session._end, weakref.ref(session)
        gc.disable()
        del session
        gc.enable()
        self.assertIsNone(there())
        self.assertFalse(end.alive)


class Types(unittest.TestCase):
    def test_every_type(self):
        for number, element in values.ELEMENTS.items():
            if element.is_string:
                continue
            with self.subTest(element.name), warnings.catch_warnings(action="ignore"):  # complex numbers as real ones
                x = np.array([0, 1, 1, 0, 1], np.int8).astype(element.dtype)
                try:
                    session = onnxc.InferenceSession(identity(number))
                except onnxc.NotSupported as error:
                    self.skipTest(str(error))
                self.assertEqual(session.get_inputs()[0].type, f"tensor({element.name})")
                for n in 5, 4, 1, 0:
                    y = session.run(None, {"x": x[:n]})[0]
                    self.assertEqual(y.dtype, element.dtype)
                    np.testing.assert_array_equal(y.astype(np.float32), x[:n].astype(np.float32))

    def test_packing(self):
        for name, low, high in ("int4", -8, 8), ("uint4", 0, 16), ("int2", -2, 2), ("uint2", 0, 4):
            element = values.ELEMENTS[values.NUMBERS[name]]
            for n in range(6):
                x = np.resize(np.arange(low, high), n).astype(element.dtype)
                packed = values.pack(x, element.bits)
                self.assertEqual(packed.size, -(-n * element.bits // 8))
                np.testing.assert_array_equal(values.unpack(packed, element, n).astype(int), x.astype(int))
        self.assertEqual(list(values.pack(np.array([1, -1, 2], ml_dtypes.int4), 4)), [0xF1, 0x02])

    def test_bits_are_taken(self):
        x = np.array([1.5, -2], ml_dtypes.bfloat16)
        y, = onnxc.InferenceSession(identity(TensorProto.BFLOAT16)).run(None, {"x": x.view(np.uint16)})
        np.testing.assert_array_equal(y, x)

    def test_bytes_beyond_the_range(self):
        for number, good, wrong in (TensorProto.INT4, [-8, 7], 8), (TensorProto.INT4, [0], -9), (TensorProto.UINT2, [0, 3], 4):
            element = values.ELEMENTS[number]
            session = onnxc.InferenceSession(identity(number))
            y, = session.run(None, {"x": np.array(good, element.stored)})
            self.assertEqual(y.astype(int).tolist(), good)
            with self.assertRaisesRegex(onnxc.InvalidArgument, f"input 'x' .* takes {element.name} from .* not {wrong}"):
                session.run(None, {"x": np.array([*good, wrong], element.stored)})

    def test_fractions_are_no_integers(self):
        for number in TensorProto.INT64, TensorProto.BOOL, TensorProto.INT4:
            session = onnxc.InferenceSession(identity(number))
            self.assertEqual(session.run(None, {"x": [0, 1]})[0].astype(int).tolist(), [0, 1])
            self.assertEqual(session.run(None, {"x": []})[0].shape, (0,))
            with self.assertRaisesRegex(onnxc.InvalidArgument, "input 'x' .* does not take .0.5.: it is not an integer"):
                session.run(None, {"x": [0.5]})
        y, = onnxc.InferenceSession(identity(TensorProto.BFLOAT16)).run(None, {"x": [0.5, 1]})
        self.assertEqual(y.tolist(), [0.5, 1])


class Values(unittest.TestCase):
    """Strings, sequences, optionals."""

    def test_strings(self):
        session = onnxc.InferenceSession(text_model("g (string[N] a, string[N] b) => (string[N] c) { c = StringConcat (a, b) }"))
        self.assertEqual(session.get_inputs()[0], ("a", ["N"], "tensor(string)"))
        for a in np.array(["x", "", "\u00e4\0b"], object), np.array(["x", "yy", "z"]), ["x", b"y", ""]:
            want = ["".join((t.decode() if isinstance(t, bytes) else t, "!")) for t in a]
            self.assertEqual(session.run(None, {"a": a, "b": np.array(["!"] * 3)})[0].tolist(), want)
        self.assertEqual(session.run(None, {"a": [], "b": []})[0].shape, (0,))
        with self.assertRaisesRegex(onnxc.InvalidArgument, "takes strings"):
            session.run(None, {"a": np.zeros(2), "b": ["", ""]})
        for wrong in None, 3, "\ud800":  # half of a character
            with self.assertRaisesRegex(onnxc.InvalidArgument, re.escape(f"takes strings, not {wrong!r}")):
                session.run(None, {"a": np.array(["x", wrong], object), "b": ["", ""]})

    def test_strings_of_other_bytes(self):
        session = onnxc.InferenceSession(identity(TensorProto.STRING))
        y, = session.run(None, {"x": [b"\xff", "x"]})
        self.assertEqual(y[0].encode(errors="surrogateescape"), b"\xff")
        self.assertEqual(session.run(None, {"x": y})[0].tolist(), y.tolist())

    def test_strings_of_data(self):
        model = text_model("g (string[N] a) => (string[N, K] c, int64[N] n) { c, n = StringSplit (a) }")
        c, n = onnxc.InferenceSession(model).run(None, {"a": ["one two", "", "three"]})
        self.assertEqual((c.tolist(), n.tolist()), ([["one", "two"], ["", ""], ["three", ""]], [2, 0, 1]))

    def test_sequences(self):
        model = text_model("g (seq(float[N]) s, float[M] x) => (seq(float[K]) t, float[P] y) "
                           "{ t = SequenceInsert (s, x)  y = ConcatFromSequence <axis = 0> (t) }")
        session = onnxc.InferenceSession(model)
        self.assertEqual([p.type for p in session.get_inputs()], ["seq(tensor(float))", "tensor(float)"])
        for items in [], [X[0]], [X[0], X[1, :0], X[1]]:
            t, y = session.run(None, {"s": items, "x": X[0, 1:]})
            self.assertEqual([i.tolist() for i in t], [i.tolist() for i in [*items, X[0, 1:]]])
            np.testing.assert_array_equal(y, np.concatenate([*items, X[0, 1:]]))
        with self.assertRaisesRegex(onnxc.InvalidArgument, "float32"):
            session.run(None, {"s": [X[0].astype(int)], "x": X[0]})

    def test_optionals(self):
        model = text_model("g (optional(float[N]) o) => (bool b, optional(float[N]) p) "
                           "{ b = OptionalHasElement (o)  p = Identity (o) }")
        session = onnxc.InferenceSession(model)
        self.assertEqual(session.get_outputs()[1].type, "optional(tensor(float))")
        b, p = session.run(None, {"o": None})
        self.assertEqual((b, p), (False, None))
        b, p = session.run(None, {"o": X[0]})
        self.assertEqual((b, p.tolist()), (True, X[0].tolist()))


class Maps(unittest.TestCase):
    def test_probabilities(self):
        """Of a classifier: a list of dicts."""
        session = onnxc.InferenceSession(path_of("flowers.onnx"))
        self.assertEqual(session.get_outputs()[1], ("probabilities", [], "seq(map(string,tensor(float)))"))
        for x, want in ((X[:, :2], [[1, 2, -2], [-1, -2, 4]]), (X[:0, :2], []), (X[:1, :2], [[1, 2, -2]])):
            for _ in range(3):
                label, maps = session.run(None, {"x": x})
                self.assertEqual(maps, [dict(zip(("setosa", "versi color", "virginica"), row)) for row in want])
                self.assertEqual(len(label), len(maps))

    def test_numbers_as_labels(self):
        model = text_model("g (float[N, 3] x) => (seq(map(int64, float)) y) { y = ai.onnx.ml.ZipMap <classlabels_int64s = [5, -1, 5]> (x) }")
        model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
        y, = onnxc.InferenceSession(model).run(None, {"x": X[:, :3]})
        self.assertEqual([list(row.items()) for row in y], [[(-1, 2.0), (5, 3.0)], [(-1, -2.0), (5, -3.0)]])


    def test_dicts(self):
        model = text_model("g (map(string, float) x) => (float[1, 3] y, map(string, float) z) "
                           "{ y = ai.onnx.ml.DictVectorizer <string_vocabulary = [\"a\", \"c\", \"b\"]> (x)  z = Identity (x) }")
        model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
        session = onnxc.InferenceSession(model)
        self.assertEqual([p.type for p in session.get_inputs() + session.get_outputs()],
                         ["map(string,tensor(float))", "tensor(float)", "map(string,tensor(float))"])
        for x, want in (({"c": 1, "a": 2.5, "\u00e4\0": np.float32(3)}, [2.5, 1, 0]), ({}, [0, 0, 0]), ({b"b": True}, [0, 0, 1])):
            y, z = session.run(None, {"x": x})
            self.assertEqual(y.tolist(), [want])
            self.assertEqual(z, {k if isinstance(k, str) else k.decode(): float(v) for k, v in x.items()})
        for x in ({1: 2.0}, {"a": "b"}, {"a": [1.0]}, {"a": None}, {"a": 1.0, 2: 3.0}):
            with self.assertRaisesRegex(onnxc.InvalidArgument, "in a map, not"):
                session.run(None, {"x": x})
        for x in ([{"a": 1.0}], np.zeros(1, np.float32), None):
            with self.assertRaisesRegex(onnxc.RunError, r"must be map\(string"):
                session.run(None, {"x": x})
        with self.assertRaisesRegex(onnxc.InvalidArgument, "does not take a dict"):
            onnxc.InferenceSession(text_model("g (seq(float[N]) s) => (seq(float[N]) t) { t = Identity (s) }")).run(None, {"s": {"a": 1.0}})

    def test_whole_numbers(self):
        model = text_model("g (map(int64, int64) x) => (map(int64, int64) y) { y = Identity (x) }")
        session = onnxc.InferenceSession(model)
        self.assertEqual(session.run(None, {"x": {5: 2**62 + 1, -(2**63): -1}}), [{-(2**63): -1, 5: 2**62 + 1}])
        for x in ({1: 2.5}, {1: 2**70}, {2**70: 1}, {1.5: 1}):
            with self.assertRaisesRegex(onnxc.InvalidArgument, "int64 in a map, not"):
                session.run(None, {"x": x})

    def test_maps_inside_of_the_model(self):
        model = text_model("g (float[N, 2] x) => (seq(map(int64, float)) z) { y = ai.onnx.ml.ZipMap <classlabels_int64s = [5, -1]> (x)  z = Identity (y) }")
        model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
        session = onnxc.InferenceSession(model)
        self.assertEqual(session.run(None, {"x": X[:, :2]}), [[{-1: 2.0, 5: 1.0}, {-1: -2.0, 5: -1.0}]])
        self.assertEqual(session.run(None, {"x": X[:0, :2]}), [[]])


class Backend(unittest.TestCase):
    def test_run_model(self):
        outputs = backend.run_model(onnx.load(path_of("mlp.onnx")), [X])
        np.testing.assert_array_equal(outputs.y, Y)
        np.testing.assert_array_equal(backend.prepare(onnx.load(path_of("mlp.onnx")), O=3).run({"x": X})["y"], Y)

    def test_run_node(self):
        node = helper.make_node("Add", ["a", "b"], ["c"])
        np.testing.assert_array_equal(backend.run_node(node, [X, X])[0], X + X)
        node = helper.make_node("Clip", ["x", "", "top"], ["y"])
        one = np.array(1, np.float32)
        outputs = backend.run_node(node, [X, one], outputs_info=[(np.float32, X.shape)], opset_version=13)
        np.testing.assert_array_equal(outputs[0], np.minimum(X, 1))

    def test_devices(self):
        self.assertTrue(backend.supports_device("CPU"))
        self.assertFalse(backend.supports_device("CUDA:1"))
        with self.assertRaises(ValueError):
            backend.prepare(onnx.load(path_of("mlp.onnx")), "CUDA")


if __name__ == "__main__":
    run_unittests("python", sys.modules[__name__])
