"""Objects compiled for a GPU, on stand-ins for NVRTC and CUDA's driver (test/shim/*_double.c): answers, contexts, failures,
memory. usage: gpu_host.py, after the stage gpu-host has built the stand-ins. Prints N passed, N failed, N skipped.
"""
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ONNXC = os.path.join(ROOT, "build", "release", "onnxc")
DOUBLES = os.path.join(ROOT, "build", "release", "doubles")
sys.path[:0] = [os.path.join(ROOT, "bindings", "python"), os.path.join(ROOT, "test")]
OK, BAD_DIM, TOO_SMALL, NO_MEMORY, CHECK_FAILED, BAD_WEIGHTS, NO_GPU, GPU_FAILED = 0, 2, 5, 7, 8, 11, 12, 13

# What is loaded under that name is what the runtime finds.
cuda = ctypes.CDLL(os.path.join(os.environ.get("ONNXC_DOUBLES", DOUBLES), "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL)
import onnxc  # noqa: E402 (finds that driver)
from harness import at_once, run_unittests  # noqa: E402


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("weights", ctypes.c_char_p), ("data", ctypes.c_void_p),
                ("data_size", ctypes.c_size_t), ("device", ctypes.c_int), ("device_pointers", ctypes.c_int),
                ("stream", ctypes.c_void_p), ("message", ctypes.c_void_p), ("message_size", ctypes.c_size_t),
                ("no_graphs", ctypes.c_int)]


def counts():
    values = (ctypes.c_int64 * 7)()
    cuda.cuda_double_counts(values)
    return dict(zip(("bytes", "allocations", "modules", "streams", "contexts", "launches", "waits"), values))


def graphs():
    values = (ctypes.c_int64 * 3)()
    cuda.cuda_double_graphs(values)
    return dict(zip(("graphs", "made", "launched"), values))


def left():
    return {k: v for k, v in {**counts(), **graphs()}.items() if k in ("bytes", "modules", "streams", "contexts", "graphs") and v}


class Context:
    def __init__(self, model, **options):
        self.model, self.at, self.why = model, ctypes.c_void_p(), ctypes.create_string_buffer(300)
        options = Options(size=ctypes.sizeof(Options), message=ctypes.addressof(self.why), message_size=300, **options)
        self.code = model.open(ctypes.byref(options), ctypes.byref(self.at))

    def __enter__(self):
        assert self.code == OK, self.why.value
        return self

    def __exit__(self, *_):
        self.model.close(self.at)

    def run_at(self, pointers, dims, capacity):
        """Code, dims and message of a run on these addresses."""
        dims = (ctypes.c_int64 * max(1, len(dims)))(*dims)
        capacity = (ctypes.c_int64 * max(1, len(capacity)))(*capacity)
        data = (ctypes.c_void_p * (len(pointers) + 1))(*pointers, self.at)
        size = self.model.workspace(dims)
        block = ctypes.create_string_buffer(size + 64)
        message = ctypes.c_char_p()
        code = self.model.run(data, dims, capacity, ctypes.c_void_p((ctypes.addressof(block) + 63) // 64 * 64),
                              ctypes.c_size_t(size), ctypes.byref(message))
        return code, list(dims), (message.value or b"").decode()

    def run(self, inputs, outputs):
        """Of arrays; outputs are written in place."""
        dims = [d for a in [*inputs, *outputs] for d in a.shape]
        code, dims, message = self.run_at([a.ctypes.data for a in [*inputs, *outputs]], dims, [a.size for a in outputs])
        return code, message


class Model:
    def __init__(self, path, name):
        self.library = ctypes.CDLL(path)
        self.open, self.close = self.library[f"{name}_open"], self.library[f"{name}_close"]
        self.run, self.workspace = self.library[f"{name}_run_generic"], self.library[f"{name}_workspace_generic"]
        self.workspace.restype = ctypes.c_int64
        self.close.restype = None


def tensor(name, *dims, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


RANDOM = np.random.default_rng(3)
W = RANDOM.standard_normal((200, 512)).astype(np.float16)
A, B = RANDOM.standard_normal((24, 40), dtype=np.float32), RANDOM.standard_normal((40, 8), dtype=np.float32)
node = helper.make_node
MODELS = {
    "rows": ([node("MatMul", ["x", "a"], ["h"]), node("Relu", ["h"], ["r"]), node("MatMul", ["r", "b"], ["y"])],
             [tensor("x", "N", 24)], [tensor("y", "N", 8)], {"a": A, "b": B}),
    "best": ([node("Neg", ["x"], ["n"]), node("TopK", ["n", "k"], ["v", "i"]), node("Abs", ["v"], ["y"])],
             [tensor("x", "N", 10)], [tensor("y", "N", 3), tensor("i", "N", 3, dtype=TensorProto.INT64)],
             {"k": np.array([3], np.int64)}),
    "chosen": ([node("Relu", ["x"], ["r"]), node("NonZero", ["r"], ["i"]), node("Transpose", ["i"], ["t"], perm=[1, 0]),
                node("GatherND", ["x", "t"], ["g"]), node("Exp", ["g"], ["y"])], [tensor("x", "N", 5)], [tensor("y", "K")], {}),
    "deep": ([node("MatMul", ["x", "a"], ["h"]), node("Softmax", ["h"], ["s"]), node("MatMul", ["s", "b"], ["m"]),
              node("Softmax", ["m"], ["y"])], [tensor("x", "N", 24)], [tensor("y", "N", 8)], {"a": A, "b": B}),
    "wide": ([node("MatMul", ["x", "w"], ["y"])], [tensor("x", "N", 200, dtype=TensorProto.FLOAT16)],
             [tensor("y", "N", 512, dtype=TensorProto.FLOAT16)], {"w": W}),
    "picked": ([node("Gather", ["x", "i"], ["y"])], [tensor("x", 6, 4), tensor("i", "N", dtype=TensorProto.INT64)],
               [tensor("y", "N", 4)], {}),
}


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def expected_rows(x):
    return np.maximum(x @ A, 0) @ B


class OnGpu(unittest.TestCase):
    """With the models compiled, and nothing left on the GPU after each test."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.models = {}
        for name, (nodes, inputs, outputs, constants) in MODELS.items():
            graph = helper.make_graph(nodes, name, inputs, outputs, [numpy_helper.from_array(v, k) for k, v in constants.items()])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), cls.path(f"{name}.onnx"))
            cls.models[name] = cls.compiled(name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def onnxc(cls, *arguments, **environment):
        return subprocess.run([ONNXC, *arguments], cwd=cls.folder.name, capture_output=True, text=True, timeout=120,
                              env={**os.environ, **environment})

    @classmethod
    def compiled(cls, name, *options, ending=""):
        options = options or ("--device=cuda",)
        ran = cls.onnxc(f"{name}.onnx", "--nvrtc", DOUBLES, "--name", name, "-o", f"{name}{ending}.so", *options)
        assert ran.returncode == 0, ran.stderr
        return Model(cls.path(f"{name}{ending}.so"), name)

    def tearDown(self):
        cuda.cuda_double_fail(b"", 0)
        self.assertEqual(left(), {}, "something is left on the GPU")

    def check_rows(self, context, n=5, seed=1):
        x = np.random.default_rng(seed).standard_normal((n, 24), dtype=np.float32)
        y = np.full((n, 8), np.nan, np.float32)
        self.assertEqual(context.run([x], [y]), (OK, ""))
        np.testing.assert_allclose(y, expected_rows(x), rtol=1e-4, atol=1e-5)

    def check_deep(self, context, n, seed=1):
        x = np.random.default_rng(seed).standard_normal((n, 24), dtype=np.float32)
        y = np.full((n, 8), np.nan, np.float32)
        self.assertEqual(context.run([x], [y]), (OK, ""))
        np.testing.assert_allclose(y, softmax(softmax(x @ A) @ B), rtol=1e-4, atol=1e-5)

    def run_chosen(self, context, n):
        x, y = np.ones((n, 5), np.float32), np.zeros(5 * n, np.float32)
        self.assertEqual(context.run_at([x.ctypes.data, y.ctypes.data], [n, 5, 0], [5 * n])[0], OK)
        self.assertTrue((y > 2.7).all())

    def on_device(self, *arrays):
        """Addresses of copies."""
        context, pointers = ctypes.c_void_p(), []
        cuda.cuInit(0)
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        cuda.cuCtxPushCurrent_v2(context)
        for a in arrays:
            at = ctypes.c_uint64()
            self.assertEqual(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(max(a.nbytes, 1))), 0)
            cuda.cuMemcpyHtoDAsync_v2(at, ctypes.c_void_p(a.ctypes.data), ctypes.c_size_t(a.nbytes), None)
            cuda.cuStreamSynchronize(None)
            pointers.append(at.value)
        return pointers

    def to_host(self, at, a):
        cuda.cuMemcpyDtoHAsync_v2(ctypes.c_void_p(a.ctypes.data), ctypes.c_uint64(at), ctypes.c_size_t(a.nbytes), None)
        cuda.cuStreamSynchronize(None)

    def leave_device(self, *pointers):
        for at in pointers:
            cuda.cuMemFree_v2(ctypes.c_uint64(at))
        cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        cuda.cuDevicePrimaryCtxRelease_v2(0)


class Objects(OnGpu):
    # ------------------------------------------------------------ answers
    def test_host_pointers(self):
        with Context(self.models["rows"]) as c:
            for n in (5, 1, 130, 0, 5):
                self.check_rows(c, n)

    def test_library_function_between_kernels(self):
        x = np.random.default_rng(2).standard_normal((4, 10), dtype=np.float32)
        y, i = np.zeros((4, 3), np.float32), np.zeros((4, 3), np.int64)
        with Context(self.models["best"]) as c:
            self.assertEqual(c.run([x], [y, i]), (OK, ""))
        np.testing.assert_array_equal(i, np.argsort(x, axis=1)[:, :3])
        np.testing.assert_array_equal(y, np.abs(np.take_along_axis(x, i, 1)))

    def test_sizes_that_the_data_decide(self):
        x = np.array([[1, -1, 2, -2, 3], [-4, -5, 0, 1, -6]], np.float32)
        y = np.zeros(4, np.float32)
        with Context(self.models["chosen"]) as c:
            code, dims, _ = c.run_at([x.ctypes.data, y.ctypes.data], [2, 5, 0], [2])
            self.assertEqual((code, dims[2]), (TOO_SMALL, 4))
            self.assertEqual(y.tolist(), [0] * 4)
            code, dims, message = c.run_at([x.ctypes.data, y.ctypes.data], [2, 5, 0], [4])
            self.assertEqual((code, dims[2]), (OK, 4), message)
        np.testing.assert_allclose(y, np.exp([1, 2, 3, 1]), rtol=1e-6)

    # ------------------------------------------------------------ outputs along
    def test_weights_in_a_file(self):
        model = self.compiled("rows", "--device=cuda", "--weights", "rows.bin", ending="_file")
        self.assertGreater(os.path.getsize(self.path("rows.bin")), A.nbytes + B.nbytes)
        self.assertLess(os.path.getsize(self.path("rows_file.so")), os.path.getsize(self.path("rows.so")))
        self.assertEqual(Context(model).code, BAD_WEIGHTS)
        weights = self.path("rows.bin").encode()
        with Context(model, weights=weights) as c, Context(model, weights=weights) as d:
            for n in 5, 1:
                self.check_rows(c, n)
                self.check_rows(d, n)
        with Context(self.models["rows"]) as c:
            self.check_rows(c)

    def test_weights_in_a_file_for_both(self):
        model = self.compiled("rows", "--device=cuda,cpu", "--weights", "both.bin", ending="_file_both")
        weights = self.path("both.bin").encode()
        for device in 0, -1:
            with Context(model, weights=weights, device=device) as c:
                self.check_rows(c)
        self.assertEqual(Context(model, device=-1).code, BAD_WEIGHTS)

    def test_host_constants_in_a_file(self):
        x = np.random.default_rng(2).standard_normal((4, 10), dtype=np.float32)
        y, i = np.zeros((4, 3), np.float32), np.zeros((4, 3), np.int64)
        model = self.compiled("best", "--device=cuda", "--weights", "best.bin", ending="_file")
        with Context(model, weights=self.path("best.bin").encode()) as c:
            self.assertEqual(c.run([x], [y, i]), (OK, ""))
        np.testing.assert_array_equal(i, np.argsort(x, axis=1)[:, :3])

    def test_several_sizes(self):
        model = self.compiled("deep", "--device=cuda", "--dim", "N=1,8,2:64", ending="_sizes")
        with Context(model) as c:
            size = counts()["bytes"]
            for n in 1, 8, 5, 64, 1:
                self.check_deep(c, n)
            x = np.zeros((65, 24), np.float32)
            self.assertEqual(c.run([x], [np.zeros((65, 8), np.float32)])[0], BAD_DIM)
        self.assertLess(size, 2 * (A.nbytes + B.nbytes))

    def test_example(self):
        ran = self.onnxc("rows.onnx", "--device=cuda", "--nvrtc", DOUBLES, "--emit=example", "-o", "example")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        folder = self.path("example")
        made = subprocess.run(["make", "-s", "CFLAGS=-Wall -Wextra -Werror"], cwd=folder, capture_output=True, text=True, timeout=60)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        ran = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, timeout=60,
                             env={**os.environ, "LD_LIBRARY_PATH": DOUBLES})
        self.assertEqual((ran.returncode, ran.stderr, ran.stdout), (0, "", "y:" + 10 * " 0" + "\n"))

    # ------------------------------------------------------------ the caller's memory and stream
    def test_device_pointers_and_stream(self):
        x = np.random.default_rng(3).standard_normal((7, 24), dtype=np.float32)
        y, stream = np.zeros((7, 8), np.float32), ctypes.c_void_p()
        at_x, at_y = self.on_device(x, y)
        cuda.cuStreamCreate(ctypes.byref(stream), 0)
        with Context(self.models["rows"], device_pointers=1, stream=stream.value) as c:
            before = counts()["waits"]
            code, _, message = c.run_at([at_x, at_y], [7, 24, 7, 8], [56])
            self.assertEqual(code, OK, message)
            self.assertEqual(counts()["waits"], before, "the run waits")
            cuda.cuStreamSynchronize(stream)
            self.to_host(at_y, y)
        cuda.cuStreamDestroy_v2(stream)
        self.leave_device(at_x, at_y)
        np.testing.assert_allclose(y, expected_rows(x), rtol=1e-4, atol=1e-5)

    def test_device_pointers_and_library_function(self):
        x = np.random.default_rng(4).standard_normal((4, 10), dtype=np.float32)
        y, i = np.zeros((4, 3), np.float32), np.zeros((4, 3), np.int64)
        at = self.on_device(x, y, i)
        with Context(self.models["best"], device_pointers=1) as c:
            code, _, message = c.run_at(at, [4, 10, 4, 3, 4, 3], [12, 12])
            self.assertEqual(code, OK, message)
        self.to_host(at[1], y)
        self.to_host(at[2], i)
        self.leave_device(*at)
        np.testing.assert_array_equal(i, np.argsort(x, axis=1)[:, :3])

    def test_misaligned_device_pointers(self):
        x = np.random.default_rng(5).standard_normal((3, 24), dtype=np.float32)
        y = np.zeros((3, 8), np.float32)
        at_x, at_y = self.on_device(np.concatenate([np.zeros(1, np.float32), x.ravel()]), np.zeros(25, np.float32))
        with Context(self.models["rows"], device_pointers=1) as c:
            self.assertEqual(c.run_at([at_x + 4, at_y + 4], [3, 24, 3, 8], [24])[0], OK)
        self.to_host(at_y + 4, y)
        self.leave_device(at_x, at_y)
        np.testing.assert_allclose(y, expected_rows(x), rtol=1e-4, atol=1e-5)

    # ------------------------------------------------------------ contexts
    def test_contexts_share_weights_and_code(self):
        with Context(self.models["rows"]) as first:
            before = counts()
            self.assertGreaterEqual(before["bytes"], A.nbytes + B.nbytes)
            with Context(self.models["rows"]) as second:
                self.assertEqual((counts()["bytes"], counts()["modules"]), (before["bytes"], 1))
                self.check_rows(first)
                self.check_rows(second)
            self.check_rows(first)

    def test_nothing_is_allocated_once_shapes_repeat(self):
        x, y = np.array([[1, -1, 2, -2, 3]] * 3, np.float32), np.zeros(9, np.float32)
        with Context(self.models["rows"]) as rows, Context(self.models["chosen"]) as chosen:
            for turn in range(4):
                before = counts()["allocations"]
                self.check_rows(rows, 100)
                self.check_rows(rows, 3)
                self.assertEqual(chosen.run_at([x.ctypes.data, y.ctypes.data], [3, 5, 0], [9])[0], OK)
                if turn > 1:
                    self.assertEqual(counts()["allocations"], before)

    def test_growing_sizes_take_few_blocks(self):
        with Context(self.models["chosen"]) as c:
            self.run_chosen(c, 1)
            before = counts()["allocations"]
            for n in range(100, 8000, 100):
                self.run_chosen(c, n)
            self.assertLess(counts()["allocations"] - before, 80)

    def test_threads(self):
        with Context(self.models["rows"]) as shared, Context(self.models["rows"]) as own:
            def work(seed):
                for turn in range(6):
                    self.check_rows(shared if seed else own, 1 + (seed + turn) % 4, seed)
            self.assertEqual(at_once(work, range(4)), [])

    def test_context_of_another_model(self):
        x, y = np.zeros((2, 24), np.float32), np.zeros((2, 8), np.float32)
        with Context(self.models["best"]) as c:
            stranger = Context.__new__(Context)
            stranger.model, stranger.at = self.models["rows"], c.at
            self.assertEqual(stranger.run([x], [y]), (NO_GPU, "the context belongs to another model"))

    # ------------------------------------------------------------ graphs
    def used(self, work):
        """(Graphs made, launched, kernels launched by themselves or captured) by the call."""
        before = graphs(), counts()
        work()
        after = graphs(), counts()
        return after[0]["made"] - before[0]["made"], after[0]["launched"] - before[0]["launched"], after[1]["launches"] - before[1]["launches"]

    def test_a_graph_is_made_at_the_second_run_and_replayed(self):
        with Context(self.models["deep"]) as c:
            once = self.used(lambda: self.check_deep(c, 5))[2]
            self.assertGreaterEqual(once, 3)
            self.assertEqual(self.used(lambda: self.check_deep(c, 5, 2)), (1, 1, once))
            for seed in range(3, 6):
                self.assertEqual(self.used(lambda: self.check_deep(c, 5, seed)), (0, 1, 0))

    def test_other_shapes_have_other_graphs(self):
        with Context(self.models["deep"]) as c:
            for turn in range(4):
                for n in 1, 5, 130:
                    made, launched, _ = self.used(lambda: self.check_deep(c, n, turn))
                    self.assertEqual((made, launched), [(0, 0), (1, 1), (0, 1), (0, 1)][turn])

    def test_many_shapes_forget_graphs(self):
        with Context(self.models["deep"]) as c:
            for n in range(1, 60):
                self.check_deep(c, n)
                self.check_deep(c, n, 2)
            self.assertEqual(graphs()["graphs"], 32)
            self.check_deep(c, 1)
            self.assertEqual(self.used(lambda: self.check_deep(c, 59))[:2], (0, 1))

    def test_other_pointers_have_other_graphs(self):
        x = np.random.default_rng(3).standard_normal((7, 24), dtype=np.float32)
        at = self.on_device(x, np.zeros((7, 8), np.float32), -x, np.zeros((7, 8), np.float32))
        expected = [softmax(softmax(v @ A) @ B) for v in (x, -x)]

        def run(i):
            self.assertEqual(c.run_at([at[2 * i], at[2 * i + 1]], [7, 24, 7, 8], [56])[0], OK)

        with Context(self.models["deep"], device_pointers=1) as c:
            for turn in range(4):
                for i in 0, 1:
                    before = counts()["waits"]
                    made, launched, _ = self.used(lambda: run(i))
                    self.assertEqual((made, launched), [(0, 0), (1, 1), (0, 1), (0, 1)][turn])
                    self.assertEqual(counts()["waits"], before, "the run waits")
        for i in 0, 1:
            y = np.zeros((7, 8), np.float32)
            self.to_host(at[2 * i + 1], y)
            np.testing.assert_allclose(y, expected[i], rtol=1e-4, atol=1e-5)
        self.leave_device(*at)

    def test_the_caller_captures(self):
        x = np.random.default_rng(3).standard_normal((7, 24), dtype=np.float32)
        y, stream, made = np.zeros((7, 8), np.float32), ctypes.c_void_p(), ctypes.c_void_p()
        at_x, at_y = self.on_device(x, y)
        cuda.cuStreamCreate(ctypes.byref(stream), 0)
        with Context(self.models["deep"], device_pointers=1, stream=stream.value) as c:
            for _ in range(3):
                self.assertEqual(c.run_at([at_x, at_y], [7, 24, 7, 8], [56])[0], OK)
            cuda.cuStreamSynchronize(stream)
            self.assertEqual(cuda.cuStreamBeginCapture_v2(stream, 1), 0)
            self.assertEqual(self.used(lambda: c.run_at([at_x, at_y], [7, 24, 7, 8], [56]))[:2], (0, 0))
            self.assertEqual(cuda.cuStreamEndCapture(stream, ctypes.byref(made)), 0)
            # Its memory stays where it is, also when others need some.
            for n in 3000, 2, 4000:
                other = self.on_device(np.zeros((n, 24), np.float32), np.zeros((n, 8), np.float32))
                self.assertEqual(c.run_at(other, [n, 24, n, 8], [8 * n])[0], OK)
                cuda.cuStreamSynchronize(stream)
                self.leave_device(*other)
            again = ctypes.c_void_p()
            cuda.cuMemsetD8Async(ctypes.c_uint64(at_y), 0, ctypes.c_size_t(y.nbytes), stream)
            cuda.cuGraphInstantiateWithFlags(ctypes.byref(again), made, ctypes.c_ulonglong(0))
            cuda.cuGraphLaunch(again, stream)
            cuda.cuStreamSynchronize(stream)
            self.to_host(at_y, y)
            cuda.cuGraphDestroy(made)
            cuda.cuGraphExecDestroy(again)
        cuda.cuStreamDestroy_v2(stream)
        self.leave_device(at_x, at_y)
        np.testing.assert_allclose(y, softmax(softmax(x @ A) @ B), rtol=1e-4, atol=1e-5)

    def test_without_graphs(self):
        with Context(self.models["deep"], no_graphs=1) as c:
            for seed in range(4):
                self.assertEqual(self.used(lambda: self.check_deep(c, 5, seed))[:2], (0, 0))

    def test_a_driver_that_makes_no_graph(self):
        for what in b"capture", b"instantiate", b"launch":
            with Context(self.models["deep"]) as c:
                self.check_deep(c, 5)
                cuda.cuda_double_fail(what, 0)
                self.check_deep(c, 5, 2)
                cuda.cuda_double_fail(b"", 0)
                self.assertEqual(self.used(lambda: self.check_deep(c, 5, 3))[:2], (0, 0))
                self.check_deep(c, 6)
                self.assertEqual(self.used(lambda: self.check_deep(c, 6))[:2], (1, 1))

    def test_a_driver_without_graphs(self):
        old = os.path.join(DOUBLES, "old")
        program = ("import sys; sys.path.insert(0, sys.argv[1]); import gpu_host as g\n"
                   "m = g.Model(sys.argv[2], 'deep')\n"
                   "with g.Context(m) as c:\n"
                   "    for seed in range(3): g.Objects('check_deep').check_deep(c, 5, seed)\n"
                   "print(g.counts()['launches'])\n")
        ran = subprocess.run([sys.executable, "-c", program, os.path.dirname(os.path.abspath(__file__)), self.path("deep.so")],
                             capture_output=True, text=True, timeout=120, env={**os.environ, "ONNXC_DOUBLES": old})
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertGreaterEqual(int(ran.stdout), 9)

    # ------------------------------------------------------------ failures
    def test_every_call_may_fail(self):
        """A code, the driver's reason, untouched outputs, and the next run is right again."""
        x = np.random.default_rng(6).standard_normal((2, 10), dtype=np.float32)
        for what, code in ("launch", GPU_FAILED), ("to_device", GPU_FAILED), ("to_host", GPU_FAILED), ("wait", GPU_FAILED):
            for after in range(50):
                y, i = np.full((2, 3), 9, np.float32), np.full((2, 3), 9, np.int64)
                with Context(self.models["best"]) as c:
                    cuda.cuda_double_fail(what.encode(), after)
                    got, message = c.run([x], [y, i])
                    cuda.cuda_double_fail(b"", 0)
                    if got == OK:
                        break
                    self.assertEqual(got, code)
                    self.assertIn("unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED)", message)
                    if what == "launch":
                        self.assertTrue((y == 9).all() and (i == 9).all())
                    self.assertEqual(c.run([x], [y, i]), (OK, ""))
                    np.testing.assert_array_equal(i, np.argsort(x, axis=1)[:, :3])
            self.assertGreater(after, 0, what)

    def test_no_memory(self):
        x, y = np.array([[1, -1, 2, -2, 3]], np.float32), np.zeros(3, np.float32)
        for after in range(20):
            with Context(self.models["chosen"]) as c:
                cuda.cuda_double_fail(b"alloc", after)
                code, _, message = c.run_at([x.ctypes.data, y.ctypes.data], [1, 5, 0], [3])
                cuda.cuda_double_fail(b"", 0)
                # The first failure only makes the context give back what it does not use.
                self.assertEqual(code, OK, message)
            cuda.cuda_double_fail(b"alloc", after)
            c = Context(self.models["rows"])
            cuda.cuda_double_fail(b"", 0)
            if c.code:
                self.assertEqual(c.code, NO_MEMORY)
                self.assertEqual(c.why.value, b"allocating the weights: out of memory (CUDA_ERROR_OUT_OF_MEMORY)")
            else:
                c.model.close(c.at)

    def test_bad_data(self):
        x, i, y = np.ones((6, 4), np.float32), np.array([1, 7], np.int64), np.full((2, 4), 9, np.float32)
        with Context(self.models["picked"]) as c:
            code, message = c.run([x, i], [y])
            self.assertEqual(code, CHECK_FAILED)
            self.assertIn("Gather", message)
            self.assertTrue((y == 9).all())
            i[1] = 5
            self.assertEqual(c.run([x, i], [y]), (OK, ""))
            self.assertTrue((y == 1).all())

    def test_no_such_device(self):
        c = Context(self.models["rows"], device=1)
        self.assertEqual((c.code, c.why.value), (NO_GPU, b"there is no GPU 1: the driver has 1"))

    def test_no_code_for_the_gpu(self):
        os.environ["CUDA_DOUBLE_SM"] = "70"
        c = Context(self.compiled("rows", "--device=cuda", "--gpu-arch=sm_80,sm_90", ending="_new"))
        del os.environ["CUDA_DOUBLE_SM"]
        self.assertEqual((c.code, c.why.value),
                         (NO_GPU, b"the GPU is sm_70, but the object has code sm_80, code sm_90, PTX sm_90"))

    def test_code_for_several_gpus(self):
        model = self.compiled("rows", "--device=cuda", "--gpu-arch=sm_75", "--gpu-arch=sm_80", ending="_several")
        for sm in ("75", "80", "86", "90"):
            os.environ["CUDA_DOUBLE_SM"] = sm
            with Context(model) as c:
                self.check_rows(c)
        del os.environ["CUDA_DOUBLE_SM"]

    def test_groups_of_warps(self):
        """More shared memory than usual; its own code where it is the GPU's, the same by small products elsewhere."""
        asked = "--device=cuda", "--gpu-arch=sm_80,sm_90a"
        laid = self.onnxc("wide.onnx", *asked, "--print-after=layout", "--stop-after=layout").stdout
        self.assertIn("layout(0 1 0:8 1:8 0:8)", laid)  # weights as one bulk copy for each slice takes them
        model = self.compiled("wide", *asked, ending="_groups")
        x = RANDOM.standard_normal((70, 200)).astype(np.float16)
        for sm in ("80", "86", "90", "100"):
            os.environ["CUDA_DOUBLE_SM"] = sm
            with Context(model) as c:
                y = np.zeros((70, 512), np.float16)
                self.assertEqual(c.run([x], [y]), (OK, ""))
                np.testing.assert_allclose(y.astype(np.float32), x.astype(np.float32) @ W.astype(np.float32), rtol=2e-3, atol=2e-2)
        os.environ["CUDA_DOUBLE_SM"] = "75"
        self.assertEqual(Context(model).why.value, b"the GPU is sm_75, but the object has code sm_80, code sm_90a, PTX sm_90")
        del os.environ["CUDA_DOUBLE_SM"]

    def test_one_program_for_code_and_its_ptx(self):
        """sm_90a is asked for where the kernels have its products, and nowhere else."""
        for name, asked, programs, code in (
                ("rows", "sm_80", ["sm_80"], b"code sm_80, PTX sm_80"),
                ("rows", "sm_80,sm_90a", ["sm_80", "sm_90"], b"code sm_80, code sm_90, PTX sm_90"),
                ("rows", "sm_90,sm_90a", ["sm_90"], b"code sm_90, PTX sm_90"),
                ("rows", "sm_90,sm_80", ["sm_90", "sm_80"], b"code sm_90, code sm_80, PTX sm_90"),
                ("wide", "sm_80,sm_90a", ["sm_80", "sm_90a", "compute_90"], b"code sm_80, code sm_90a, PTX sm_90"),
                ("wide", "sm_90a,sm_90", ["sm_90a", "sm_90"], b"code sm_90a, code sm_90, PTX sm_90")):
            for apart in (), ("NVRTC_DOUBLE_APART",):
                log = self.path(f"{name}-{asked}{len(apart)}.log")
                made = self.onnxc(f"{name}.onnx", "--nvrtc", DOUBLES, "-o", f"{name}_one.so", "--device=cuda", "--gpu-arch", asked,
                                  NVRTC_DOUBLE_LOG=log, **dict.fromkeys(apart, "1"))
                self.assertEqual((made.returncode, made.stderr), (0, ""))
                newest = "compute_90" if "90" in asked else "compute_80"
                wanted = programs + [newest] if apart and programs[-1] != newest else programs
                with open(log, encoding="utf-8") as f:
                    self.assertEqual(f.read().split(), wanted)
                os.environ["CUDA_DOUBLE_SM"] = "75"
                ran = self.onnxc("run", f"{name}_one.so", "--input", "x=random", "--dim", "N=2", LD_LIBRARY_PATH=DOUBLES)
                self.assertIn(b"the GPU is sm_75, but the object has " + code, ran.stderr.encode())
                del os.environ["CUDA_DOUBLE_SM"]

    def test_kept_code_is_not_compiled_again(self):
        log, kept = self.path("kept.log"), self.path("kept")
        for asked, programs in (("sm_80", ["sm_80"]), ("sm_80,sm_90a", ["sm_80", "sm_90a", "compute_90"]), ("sm_75", ["sm_75"])):
            objects = []
            for options in ([], ["--cache", kept], ["--cache", kept]):
                with open(log, "w", encoding="utf-8"):
                    pass
                made = self.onnxc("wide.onnx", "--nvrtc", DOUBLES, "-o", "wide_kept.o", "--device=cuda", "--gpu-arch", asked, *options,
                                  NVRTC_DOUBLE_LOG=log)
                self.assertEqual((made.returncode, made.stderr), (0, ""))
                with open(log, encoding="utf-8") as f:
                    compiled = f.read().split()
                with open(self.path("wide_kept.o"), "rb") as f:
                    objects.append(f.read())
                first = len(objects) == 1
                if not options:
                    self.assertEqual(compiled, programs)
            self.assertEqual(compiled, [])
            self.assertEqual(objects[1:], objects[:1] * 2)

    def test_reports_show_what_code_uses(self):
        shared = re.compile(r"^ +(sm_\d+a?): (\d+) registers, (\d+) bytes shared, (\d+) bytes of stack$", re.M)
        for model, versions in ("rows", []), ("wide", ["--dim", "N=4,64"]):
            options = [f"{model}.onnx", "--device=cuda", "--gpu-arch=sm_80,sm_90", "--nvrtc", DOUBLES, *versions]
            text = self.onnxc("inspect", *options).stdout
            report = json.loads(self.onnxc("inspect", *options, "--format=json").stdout)
            parts = report.get("versions", [report])
            kernels = [k["gpu"] for part in parts for k in part["kernels"]]
            self.assertTrue(kernels)
            for k in kernels:
                self.assertEqual([c["arch"] for c in k["code"]], ["sm_80", "sm_90"])
                for c in k["code"]:
                    self.assertEqual(c["registers"], 10 + c["stack_bytes"])
                    self.assertGreaterEqual(c["shared_bytes"], c["stack_bytes"])
            listed = [(c["arch"], c["registers"], c["shared_bytes"], c["stack_bytes"]) for k in kernels for c in k["code"]]
            self.assertEqual([(a, *map(int, n)) for a, *n in shared.findall(text)], listed)
            page = self.onnxc(*options, "--emit=html", "-o", "-").stdout
            self.assertIn('"registers": 11', page)
            silent = json.loads(self.onnxc("inspect", *options, "--format=json", NVRTC_DOUBLE_MUTE="1").stdout)
            part = silent.get("versions", [silent])[0]
            self.assertEqual(part["kernels"][0]["gpu"]["code"][0]["registers"], 0)

    def test_reports_and_headers_need_no_nvrtc(self):
        log = self.path("none.log")
        for options in ["rows.onnx", "--emit=header", "-o", "rows.h"], ["inspect", "rows.onnx"]:
            made = self.onnxc(*options, "--device=cuda", "--gpu-arch=sm_80", "--nvrtc", "nowhere", NVRTC_DOUBLE_LOG=log)
            warned = "rows.onnx: warning: no NVRTC library at nowhere: registers and shared memory are not reported [-Wgpu-usage]\n"
            self.assertEqual((made.returncode, made.stderr), (0, warned if options[0] == "inspect" else ""))
        self.assertIn("blocks of 64 threads", made.stdout)

    def test_cpu_where_there_is_no_gpu(self):
        class Seen(ctypes.Structure):
            _fields_ = [("weights", ctypes.c_void_p), ("size", ctypes.c_size_t), ("mapped", ctypes.c_int), ("device", ctypes.c_int)]

        model, launches = self.compiled("rows", "--device=cuda,cpu", ending="_both"), 0
        for device, sm, where in (0, "86", 0), (-1, "86", -1), (0, "50", -1):
            os.environ["CUDA_DOUBLE_SM"] = sm
            with Context(model, device=device) as c:
                self.assertEqual(Seen.from_address(c.at.value).device, where)
                self.assertEqual(c.why.value, b"the GPU is sm_50, but the object has PTX sm_75" if sm == "50" else b"")
                launches = counts()["launches"]
                self.check_rows(c)
                self.assertEqual(counts()["launches"] > launches, where == 0)
        for options in {"device_pointers": 1}, {"device": 1}:
            self.assertEqual(Context(model, **options).code, NO_GPU)
        del os.environ["CUDA_DOUBLE_SM"]
        ran = self.onnxc("run", "rows_both.so", "--dim", "N=2", "--input", "x=random", LD_LIBRARY_PATH=DOUBLES, CUDA_DOUBLE_DEVICES="0")
        self.assertEqual((ran.returncode, ran.stderr), (0, "rows_both.so: warning: the CPU runs the model: NVIDIA's driver failed to"
                                                           " initialise: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE) [-Wcpu-fallback]\n"))

    # ------------------------------------------------------------ Python
    def test_python_session(self):
        x = np.random.default_rng(9).standard_normal((5, 24), dtype=np.float32)
        path = self.path("rows.onnx")
        for model, options in (path, {"nvrtc": DOUBLES}), (self.path("rows.so"), {}):
            launches = counts()["launches"]
            session = onnxc.InferenceSession(model, device="cuda", **options)
            np.testing.assert_allclose(session.run(None, {"x": x})[0], expected_rows(x), rtol=1e-4, atol=1e-5)
            self.assertEqual(session.device, "cuda:0")
            self.assertGreater(counts()["launches"], launches)
            with self.assertRaisesRegex(onnxc.RunError, "there is no GPU 1: the driver has 1"):
                onnxc.InferenceSession(model, device="cuda:1", **options)
            session._end()
        with self.assertRaisesRegex(onnxc.InvalidArgument, "'gpu' is not one of"):
            onnxc.InferenceSession(path, device="gpu")
        self.assertEqual(onnxc.InferenceSession(path, device="cpu").device, "cpu")
        with self.assertRaisesRegex(onnxc.InvalidArgument, "no code for a GPU"):
            onnxc.InferenceSession(path, device="cpu", device_pointers=True)
        self.compiled("rows", "--device=cuda,cpu", ending="_for_python")
        both = onnxc.InferenceSession(self.path("rows_for_python.so"), device="cpu")
        self.assertEqual(both.device, "cpu")
        both._end()

    def test_python_session_on_device_arrays(self):
        class Array:
            def __init__(self, at, shape, kind="<f4", strides=None):
                self.__cuda_array_interface__ = {"shape": shape, "typestr": kind, "data": (at, False), "strides": strides, "version": 3}

        x = np.random.default_rng(9).standard_normal((5, 24), dtype=np.float32)
        y = np.zeros((5, 8), np.float32)
        at_x, at_y = self.on_device(x, y)
        session = onnxc.InferenceSession(self.path("rows.so"), device="cuda", device_pointers=True)
        waits = counts()["waits"]
        session.run_into({"y": Array(at_y, (5, 8))}, {"x": Array(at_x, (5, 24), strides=(96, 4))})
        self.assertEqual(counts()["waits"], waits, "the run waits")
        for wrong, why in ((Array(at_x, (24, 5), strides=(4, 96)), "must be dense"), (Array(at_x, (5, 12), "<f8"), "is given as '<f8'"),
                           (Array(at_x, (5,)), "has rank 2"), (x, "is not a GPU array")):
            with self.assertRaisesRegex(onnxc.InvalidArgument, why):
                session.run_into({"y": Array(at_y, (5, 8))}, {"x": wrong})
        session._end()
        self.to_host(at_y, y)
        self.leave_device(at_x, at_y)
        np.testing.assert_allclose(y, expected_rows(x), rtol=1e-4, atol=1e-5)

    def bench(self, *options, **environment):
        """Lines of make bench-gpu, where one peer crashes, one hangs and one cannot say what is wrong."""
        for name, text in (("torch", "import os\nos.abort()\n"), ("onnxruntime", "import time\ntime.sleep(60)\n")):
            with open(self.path(f"{name}.py"), "w", encoding="utf-8") as f:
                f.write(text)
        return subprocess.run([sys.executable, os.path.join(ROOT, "test", "bench", "gpu.py"), ONNXC, "--runs", "2", "--nvrtc", DOUBLES,
                               "--batch", "1,2", "--precision", "f32", *options], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "LD_LIBRARY_PATH": DOUBLES, "PYTHONPATH": self.folder.name, **environment})

    def test_bench_without_a_gpu(self):
        ran = self.bench("tiny", CUDA_DOUBLE_DEVICES="0")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(ran.stdout, "bench-gpu: there is no GPU: nothing is measured (the driver starts with error 100 and has 0 GPUs)\n")

    def test_bench(self):
        ran = self.bench("--each", "4", "--engines", "torch,onnxruntime,onnxc", "tiny", "gemm40")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
        lines = [re.sub(r" +", " ", line) for line in ran.stdout.splitlines() if line.startswith(("tiny", "gemm40"))]
        for line, wanted in zip(lines, [f"{name} {batch} f32 {engine}" for name, batch in (("tiny", 1), ("tiny", 2), ("gemm40", 1))
                                        for engine in ("torch is left out: its process ended with -6",
                                                       "onnxruntime is left out: it took more than 4 s", "onnxc ")], strict=True):
            self.assertEqual(line[:len(wanted)], wanted, ran.stdout)
            if "onnxc" in wanted:
                self.assertRegex(line, r"[\d.]+ ms [\d.]+/s .* of the peak, differs by ")

    def test_bench_goes_on_when_onnxc_fails(self):
        with open(self.path("break"), "w", encoding="utf-8") as f:
            f.write("12")  # what measures the peak, and a run
        ran = self.bench("--engines", "onnxc", "tiny", CUDA_DOUBLE_BREAK=self.path("break"))
        said = [line for line in ran.stdout.splitlines() if line.startswith("tiny")]
        self.assertEqual((ran.returncode, len(said)), (1, 2), ran.stdout)
        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", said[0])
        self.assertIn("differs by", said[1])

    def test_bench_ends_in_time(self):
        ran = self.bench("--engines", "onnxruntime,onnxc", "--limit", "8", "tiny")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
        self.assertEqual(ran.stdout.splitlines()[-1],
                         "after 8 s these were not measured: tiny 1 onnxruntime/f32, tiny 1 onnxc/f32, tiny 2")

    def test_programs(self):
        x = np.random.default_rng(8).standard_normal((2, 24), dtype=np.float32)
        np.save(self.path("x.npy"), x)
        ran = self.onnxc("rows.onnx", "--device=cuda", "--nvrtc", DOUBLES, "--emit=exe", "-o", "rows")
        self.assertEqual(ran.returncode, 0, ran.stderr)

        def program(**environment):
            return subprocess.run([self.path("rows"), "--input", "x=x.npy", "--output", "y=y.npy"], cwd=self.folder.name,
                                  capture_output=True, text=True, timeout=60, env={**os.environ, **environment})

        self.assertEqual(program(LD_LIBRARY_PATH=DOUBLES).stderr, "")
        np.testing.assert_allclose(np.load(self.path("y.npy")), expected_rows(x), rtol=1e-4, atol=1e-5)
        ran = program(LD_LIBRARY_PATH=DOUBLES, CUDA_DOUBLE_DEVICES="0")
        self.assertEqual((ran.returncode, ran.stderr),
                         (1, f"{self.path('rows')}: error: NVIDIA's driver failed to initialise: no CUDA-capable device is detected"
                          " (CUDA_ERROR_NO_DEVICE)\n"))

    def test_no_driver(self):
        ran = self.onnxc("run", "rows.so", "--dim", "N=2", "--input", "x=random")
        if "libcuda" not in ran.stderr:
            self.skipTest("this machine has a driver")
        self.assertEqual((ran.returncode, ran.stderr), (
            1, "rows.so: error: 'rows.so': NVIDIA's driver was not found: libcuda.so.1: cannot open shared object file: No such file or"
            " directory\n"))


if __name__ == "__main__":
    run_unittests("gpu-host", sys.modules[__name__])
