"""The Python package as programs for ONNX Runtime use it: options, providers, OrtValue, I/O binding, DLPack, pickling, the cache, types.
Prints N passed, N failed, N skipped."""
import enum
import importlib
import importlib.util
import inspect
import json
import logging
import os
import pickle
import re
import subprocess
import sys
import tempfile
import threading
import unittest

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bindings", "python"))

import onnxc as ort  # noqa: E402
from harness import at_once, run_unittests  # noqa: E402
from onnxc import cache, dlpack, options  # noqa: E402
from python_session import X, Y, identity, path_of, text_model  # noqa: E402

ADD = text_model("g (float[N, 4] x, float[N, 4] z) => (float[N, 4] y, float[4, N] t) { y = Add (x, z)  t = Transpose <perm = [1, 0]> (y) }")
POSITIVE = path_of("positive.onnx")


class Tensor:
    """An array of another library: __dlpack__ and nothing else."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **keywords):
        return dlpack.to_dlpack(self.array, **keywords)

    def __dlpack_device__(self):
        return self.device


class Logged(unittest.TestCase):
    """Collects what is logged."""

    def setUp(self):
        options._noted.clear()
        self.log, self.lines = logging.getLogger("onnxc"), []
        handler = logging.Handler()
        handler.emit = lambda record: self.lines.append((record.levelname, record.getMessage()))
        self.log.addHandler(handler)
        self.addCleanup(self.log.removeHandler, handler)
        self.addCleanup(self.log.setLevel, logging.NOTSET)


class Providers(Logged):
    def test_they_are_noted_once(self):
        for _ in range(2):
            session = ort.InferenceSession(path_of("mlp.onnx"), providers=["TensorrtExecutionProvider", ("CUDAExecutionProvider", {
                "device_id": 0}), "CPUExecutionProvider"], provider_options=[{}, {}, {}])
            np.testing.assert_array_equal(session.run(None, {"x": X})[0], Y)
        self.assertEqual([line for level, line in self.lines if level == "WARNING"], [
            "the provider 'TensorrtExecutionProvider' is ignored: models are compiled for the CPU",
            "the provider 'CUDAExecutionProvider' is ignored: device=\"cuda\" selects a GPU"])
        self.assertEqual(session.get_providers(), ["CPUExecutionProvider"])
        self.assertEqual(session.get_provider_options(), {"CPUExecutionProvider": {}})
        session.set_providers(["CPUExecutionProvider"])

    def test_positional(self):
        session = ort.InferenceSession(path_of("mlp.onnx"), None, ["CPUExecutionProvider"], None)
        np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], Y)
        self.assertEqual(self.lines, [])

    def test_wrong_ones(self):
        for providers, provider_options, text in ("CPUExecutionProvider", None, "not the string"), ([3], None, "a provider is"), (
                5, None, "list of names, not 5"), (
                ["CPUExecutionProvider"], [{}, {}], "1 providers, but 2"):
            with self.assertRaisesRegex(ort.InvalidArgument, text):
                ort.InferenceSession(path_of("mlp.onnx"), providers=providers, provider_options=provider_options)

    def test_process(self):
        self.assertIn("CPUExecutionProvider", ort.get_available_providers())
        self.assertEqual((ort.get_device(), ort.get_all_providers()), ("CPU", ["CPUExecutionProvider"]))
        ort.set_default_logger_severity(3)
        self.assertEqual(self.log.level, logging.ERROR)
        with self.assertRaisesRegex(ort.InvalidArgument, "severity 9"):
            ort.set_default_logger_severity(9)
        ort.set_default_logger_verbosity(1)
        ort.set_seed(1)
        ort.disable_telemetry_events()
        ort.enable_telemetry_events()
        with open(os.path.join(ROOT, "VERSION")) as f:
            self.assertEqual({ort.__version__, ort.get_version_string(), ort.version()}, {f.read().strip()})
        self.assertIn(ort.__version__, ort.get_build_info())


class Options(Logged):
    def test_threads(self):
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = 1
        self.assertEqual(settings._keywords(), {"threads": 1})
        session = ort.InferenceSession(path_of("mlp.onnx"), settings)
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], Y)
        self.assertIs(session.get_session_options(), settings)
        for threads, text in (-1, "negative"), ("two", "'two', which is not an integer"), (1.5, "not an integer"):
            settings.intra_op_num_threads = threads
            with self.assertRaisesRegex(ort.InvalidArgument, text):
                ort.InferenceSession(path_of("mlp.onnx"), settings)

    def test_those_without_effect(self):
        settings = ort.SessionOptions()
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        settings.execution_mode, settings.inter_op_num_threads = ort.ExecutionMode.ORT_PARALLEL, 2
        settings.enable_mem_pattern = settings.enable_cpu_mem_arena = False
        settings.log_severity_level, settings.logid = 3, "me"
        settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.assertEqual(settings.get_session_config_entry("session.intra_op.allow_spinning"), "0")
        with self.assertRaisesRegex(ort.InvalidArgument, "no configuration entry 'other'"):
            settings.get_session_config_entry("other")
        session = ort.InferenceSession(path_of("mlp.onnx"), sess_options=settings, disabled_optimizers=["ConstantFolding"])
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], Y)
        with self.assertRaisesRegex(ort.InvalidArgument, "custom_op="):
            settings.register_custom_ops_library("ops.so")

    def test_misspelt(self):
        for made in ort.SessionOptions(), ort.RunOptions():
            with self.assertRaisesRegex(AttributeError, "intra_op_num_thread"):
                made.intra_op_num_thread = 1
            self.assertEqual(pickle.loads(pickle.dumps(made)).logid, "")

    def test_dims(self):
        settings = ort.SessionOptions()
        settings.add_free_dimension_override_by_name("N", 2)
        self.assertEqual(ort.InferenceSession(path_of("mlp.onnx"), settings).get_inputs()[0].shape, [2, 4])
        self.assertEqual(ort.InferenceSession(path_of("mlp.onnx"), settings, dim="N=3").get_inputs()[0].shape, [3, 4])

    def test_initializers(self):
        model = text_model("g (float[2] x) => (float[2] y) <float[2] w = {2, 3}> { y = Mul (x, w) }").SerializeToString()
        settings = ort.SessionOptions()
        settings.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(np.float32([10, 20])))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.onnx")
            with open(path, "wb") as f:
                f.write(model)
            for one in model, path:
                self.assertEqual(ort.InferenceSession(one, settings).run(None, {"x": np.float32([1, 2])})[0].tolist(), [10, 40])
        for name, value, text in ("v", np.float32([1, 2]), "no initializer 'v'"), ("w", np.zeros(3), r"float\[2\], but .* double\[3\]"):
            settings.add_external_initializers([name], [value])
            with self.assertRaisesRegex(ort.InvalidArgument, text):
                ort.InferenceSession(model, settings)
            settings._initializers.pop(name)

    def test_optimised_model(self):
        with tempfile.TemporaryDirectory() as folder:
            settings = ort.SessionOptions()
            settings.optimized_model_filepath = os.path.join(folder, "optimised.onnx")
            ort.InferenceSession(path_of("mlp.onnx"), settings)
            onnx.checker.check_model(onnx.load(settings.optimized_model_filepath))

    def test_profile(self):
        with tempfile.TemporaryDirectory() as folder:
            settings = ort.SessionOptions()
            settings.enable_profiling, settings.profile_file_prefix = True, os.path.join(folder, "trace")
            session = ort.InferenceSession(path_of("mlp.onnx"), settings)
            self.assertGreater(session.get_profiling_start_time_ns(), 0)
            for _ in range(3):
                session.run(None, {"x": X})
            path = session.end_profiling()
            with open(path) as f:
                events = json.load(f)
        self.assertTrue(path.startswith(settings.profile_file_prefix))
        self.assertEqual([(e["name"], e["ph"]) for e in events], [("model_run", "X")] * 3)
        self.assertEqual(session.end_profiling(), "")
        self.assertGreater(session.get_profiling_start_time_ns(), 0)
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], Y)

    def test_run_options(self):
        session, run = ort.InferenceSession(path_of("mlp.onnx")), ort.RunOptions()
        run.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        self.assertEqual(run.get_run_config_entry("memory.enable_memory_arena_shrinkage"), "cpu:0")
        run.logid = "me"
        np.testing.assert_array_equal(session.run(["y"], {"x": X}, run)[0], Y)
        np.testing.assert_array_equal(session.run(["y"], {"x": X}, run_options=run)[0], Y)
        run.terminate = True
        with self.assertRaisesRegex(ort.RunError, "terminate") as caught:
            session.run(None, {"x": X}, run)
        self.assertEqual(caught.exception.code_name, "ONNXC_CANCELLED")

    def test_those_of_onnxruntime(self):
        """A program that makes its options with an ONNX Runtime that is installed beside."""
        if not importlib.util.find_spec("onnxruntime"):
            self.skipTest("onnxruntime is not installed")
        import onnxruntime
        theirs = onnxruntime.SessionOptions()
        theirs.intra_op_num_threads, theirs.log_severity_level, theirs.logid = 1, 3, "me"
        theirs.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        theirs.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
        with tempfile.TemporaryDirectory() as folder:
            theirs.optimized_model_filepath = os.path.join(folder, "optimised.onnx")
            theirs.enable_profiling, theirs.profile_file_prefix = True, os.path.join(folder, "trace")
            session = ort.InferenceSession(path_of("mlp.onnx"), theirs)
            np.testing.assert_array_equal(session.run(None, {"x": X}, onnxruntime.RunOptions())[0], Y)
            self.assertTrue(os.path.exists(theirs.optimized_model_filepath))
            self.assertTrue(session.end_profiling().startswith(theirs.profile_file_prefix))
            self.assertEqual(pickle.loads(pickle.dumps(session)).get_session_options().logid, "me")
        settings = session.get_session_options()
        public = [n for n in dir(theirs) if n[0] != "_" and not callable(getattr(theirs, n))]
        for name in public:
            ours, want = getattr(settings, name), getattr(theirs, name)
            self.assertEqual(ours, int(want) if isinstance(ours, enum.Enum) else want, name)
        self.assertIn("execution_mode", public)
        self.assertEqual([line for level, line in self.lines if level == "WARNING"], [
            "of ONNX Runtime's SessionOptions only values that can be read apply: sizes of dimensions, initializers, configuration entries and "
            "libraries of operators are set with onnxc.SessionOptions"])
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(v) for v in (X, X)]
        np.testing.assert_array_equal(ort.InferenceSession(ADD).run(["y"], values)[0], 2 * X)

    def test_what_is_no_option(self):
        for wrong in "-O3", [3], b"-O3":
            with self.assertRaises(TypeError):
                ort.InferenceSession(path_of("mlp.onnx"), wrong)
        with self.assertRaisesRegex(TypeError, "not int"):
            ort.InferenceSession(3)

    def test_the_same_names(self):
        """Everything public of ONNX Runtime's options, values and sessions that is not about training or other devices."""
        if not importlib.util.find_spec("onnxruntime"):
            self.skipTest("onnxruntime is not installed")
        import onnxruntime
        apart = {
            "SessionOptions": {"add_provider_for_devices", "set_provider_selection_policy", "set_provider_selection_policy_delegate",
                               "set_load_cancellation_flag", "set_ep_context_data_read_func", "clear_ep_context_data_read_func"},
            "RunOptions": {"add_active_adapter", "set_sync_stream"},
            "InferenceSession": {"get_ep_graph_assignment_info", "get_provider_graph_assignment_info", "get_input_epdevices",
                                 "set_ep_dynamic_options",
                                 "get_inputs_memory_info", "get_outputs_memory_info", "release_captured_graph", "create_ortvalue_from_shape_and_type"},
            "OrtValue": {"ort_value_from_sparse_tensor", "as_sparse_tensor"},
            "IOBinding": set(), "NodeArg": set(), "ModelMetadata": set()}
        for name, left in apart.items():
            with self.subTest(name):
                made = {"SessionOptions": ort.SessionOptions, "RunOptions": ort.RunOptions}.get(name, lambda: None)()
                ours = set(dir(getattr(ort, name))) | set(dir(made))
                public = {n for n in dir(getattr(onnxruntime, name)) if not n.startswith("_")}
                self.assertEqual(public - ours - left, set())

    def test_absent_ones(self):
        for name, text in (("SparseTensor", "'SparseTensor': sparse tensors are not supported"), ("ModelCompiler", r": onnxc\.compile"),
                           ("get_ep_devices", ': .* device="cuda"'), ("nothing", "'nothing'$")):
            with self.assertRaisesRegex(AttributeError, text):
                getattr(ort, name)
        self.assertFalse(hasattr(ort, "LoraAdapter"))

    def test_device(self):
        device = ort.OrtDevice.make("cpu", 0)
        self.assertEqual((device.device_type(), device.device_id(), device.device_mem_type(), device.device_vendor_id()), (0, 0, 0, 0))


REAL_IMPORTS = """
import sys
import onnxc
sys.modules["onnxruntime"] = onnxc
import onnxruntime as ort
import onnxruntime.capi
import onnxruntime.capi._pybind_state as C
from onnxruntime import InferenceSession, SessionIOBinding, SessionOptions
from onnxruntime.capi import _pybind_state
from onnxruntime.capi.onnxruntime_inference_collection import IOBinding, OrtValue
from onnxruntime.capi.onnxruntime_pybind11_state import (EPFail, EngineError, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, ModelLoaded,
                                                         NoModel, NoSuchFile, NotImplemented, RuntimeException)
import onnxruntime.backend
ort.preload_dlls(cuda=True, cudnn=False)
ort.set_global_thread_pool_sizes(1, 1)
assert not ort.has_collective_ops()
assert C.get_available_providers() == ["CPUExecutionProvider"] and C.OrtValue is OrtValue is onnxc.OrtValue
assert issubclass(onnxc.IOBinding, SessionIOBinding) and IOBinding is onnxc.IOBinding
assert ort.OrtMemType.DEFAULT == 0 and ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR == 1

def caught(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(kind)

session = InferenceSession(sys.argv[1])
caught(InvalidArgument, lambda: session.run(None, {"q": 1}))
caught(ort.capi.onnxruntime_pybind11_state.InvalidArgument, lambda: session.run(None, {}))
caught(RuntimeException, lambda: session.run(None, {"x": [[1, 2, 3]]}))
caught(NoSuchFile, lambda: InferenceSession("none.onnx"))
for kind in Fail, InvalidProtobuf, InvalidGraph:
    caught(kind, lambda: InferenceSession(b"no model"))
assert isinstance(onnxruntime.backend.prepare(sys.argv[1]).session, InferenceSession)
"""


class Names(unittest.TestCase):
    def test_imports_of_programs(self):
        """A program that imports parts of ONNX Runtime by name gets the classes of onnxc."""
        subprocess.run([sys.executable, "-c", REAL_IMPORTS, path_of("mlp.onnx")], check=True, timeout=120,
                       env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "bindings", "python")})


class Named(ort.InferenceSession):
    def __init__(self, path):
        super().__init__(path, providers=["CPUExecutionProvider"])
        self.path = path

    def __getstate__(self):
        return {"path": self.path}

    def __setstate__(self, state):
        self.__init__(state["path"])


class Runs(unittest.TestCase):
    def test_byte_order(self):
        session = ort.InferenceSession(path_of("mlp.onnx"))
        np.testing.assert_array_equal(session.run(None, {"x": X.astype(">f4")})[0], Y)

    def test_none(self):
        with self.assertRaisesRegex(ort.InvalidArgument, r"input 'x' of tensor\(float\) \['N', 4\] is None"):
            ort.InferenceSession(path_of("mlp.onnx")).run(None, {"x": None})

    def test_sizes_as_tuples(self):
        self.assertEqual(ort.InferenceSession(path_of("mlp.onnx"), shape={"x": (2, 4)}).get_inputs()[0].shape, [2, 4])
        self.assertIn(b"4", ort.compile(path_of("mlp.onnx"), dim={"N": [1, 4]}, emit="header"))
        with self.assertRaisesRegex(ort.InvalidOption, "'--threads' needs a value"), tempfile.TemporaryDirectory() as folder:
            ort.compile(path_of("mlp.onnx"), os.path.join(folder, "m.o"), threads=True)

    def test_lists(self):
        session = ort.InferenceSession(ADD)
        for feed in [X, 2 * X], (X.tolist(), 2 * X), {"x": X, "z": 2 * X}:
            np.testing.assert_array_equal(session.run(["y"], feed)[0], 3 * X)
        for feed, text in ([X], r"2 inputs \(x, z\), but 1 values"), (X, "not ndarray"), (None, "not NoneType"):
            with self.assertRaisesRegex(ort.InvalidArgument, text):
                session.run(None, feed)

    def test_messages(self):
        session = ort.InferenceSession(ADD)
        for _ in range(2):
            for names, feed, text in (
                    ("y", [X, X], "not the string 'y'"), (["q"], [X, X], "no output 'q', only 'y', 't'"),
                    (None, {"x": X}, r"input 'z' is missing; the model needs input 'z' of tensor\(float\) \['N', 4\]"),
                    (None, {"x": X, "z": X, "q": X}, "no input 'q', only 'x', 'z'"),
                    (None, {"x": X, "z": X.astype(int)}, r"input 'z' of .* takes float \(float32\), not int64"),
                    (None, {"x": X, "z": [["a"] * 4] * 2}, "input 'z' of .* does not take .*could not convert"),
                    (None, {"x": X, "z": [[1], [2, 3]]}, "input 'z' of .* does not take"),
                    (None, {"x": X, "z": X[0]}, r"rank 2, but an array of shape \(4,\)")):
                with self.assertRaisesRegex(ort.InvalidArgument, text):
                    session.run(names, feed)
            with self.assertRaisesRegex(ort.ShapeError, r"given: x \(2, 4\), z \(1, 4\)") as caught:
                session.run(None, {"x": X, "z": X[:1]})
            self.assertIsInstance(caught.exception, ort.InvalidArgument)
            self.assertEqual(caught.exception.code_name, "ONNXC_BAD_DIM")
            session.run(None, {"x": X, "z": X})

    def test_missing_file(self):
        for call in ort.InferenceSession, lambda p: ort.compile(p, "x.o"):
            with self.assertRaises(FileNotFoundError) as caught:
                call("/not/there.onnx")
            self.assertEqual((caught.exception.filename, caught.exception.errno), ("/not/there.onnx", 2))
            self.assertIsInstance(caught.exception, ort.InvalidModel)

    def test_async(self):
        session, done, found = ort.InferenceSession(path_of("mlp.onnx")), threading.Event(), []

        def callback(outputs, user_data, error):
            found.append((outputs, user_data, error))
            done.set()
        for feed in {"x": X}, {}:
            session.run_async(["y"], feed, callback, "mine")
            self.assertTrue(done.wait(60))
            done.clear()
        np.testing.assert_array_equal(found[0][0][0], Y)
        self.assertEqual((found[0][1:], found[1][0]), (("mine", ""), []))
        self.assertIn("'x' is missing", found[1][2])

    def test_repr_and_metadata(self):
        session = ort.InferenceSession(path_of("mlp.onnx"))
        self.assertEqual(repr(session), "<onnxc.InferenceSession mlp.onnx on cpu: (x: tensor(float)[N, 4]) -> (y: tensor(float)[N, 3])>")
        model = onnx.load(path_of("mlp.onnx"))
        model.domain, model.model_version, model.graph.doc_string, model.doc_string = "org.example", -3, "the graph", "the model"
        model.metadata_props.add(key="author", value="me")
        data = model.SerializeToString()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.onnx")
            with open(path, "wb") as f:
                f.write(data)
            for one in path, data, model:
                meta = ort.InferenceSession(one).get_modelmeta()
                self.assertEqual((meta.domain, meta.version, meta.graph_description, meta.description, meta.custom_metadata_map),
                                 ("org.example", -3, "the graph", "the model", {"author": "me"}))
        self.assertIn(f"{len(data)} bytes", repr(ort.InferenceSession(data)))
        self.assertEqual((session._model_path, ort.InferenceSession(data)._model_path), (path_of("mlp.onnx"), ""))

    def test_pickling(self):
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = 1
        with open(path_of("mlp.onnx"), "rb") as f:
            data = f.read()
        for model in os.path.relpath(path_of("mlp.onnx")), data, onnx.load(path_of("mlp.onnx")):
            session = ort.InferenceSession(model, settings, fp="strict", dim={"N": 2})
            again = pickle.loads(pickle.dumps(session))
            self.assertEqual(again.get_inputs()[0].shape, [2, 4])
            self.assertEqual(again.get_session_options().intra_op_num_threads, 1)
            np.testing.assert_array_equal(again.run(None, {"x": X})[0], Y)
        again = pickle.loads(pickle.dumps(Named(path_of("mlp.onnx"))))  # a class as insightface has it
        self.assertEqual((type(again), again.path), (Named, path_of("mlp.onnx")))
        np.testing.assert_array_equal(again.run(None, {"x": X})[0], Y)
        for error in (ort.NoSuchFile("m"), ort.RunError(5, "text"), ort.ShapeError(2, "text"), ort.InvalidArgument("text"),
                      ort.InvalidModel(1, [ort.Message("error", "full", "text", None, None, None, None, 0)])):
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again), again.code), (type(error), str(error), error.code))

    def test_other_processes(self):
        import concurrent.futures
        import multiprocessing
        session = ort.InferenceSession(path_of("mlp.onnx"))
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            np.testing.assert_array_equal(pool.submit(run_session, session).result()[0], Y)


def run_session(session):
    return session.run(None, {"x": X})


class OrtValues(unittest.TestCase):
    def test_interface(self):
        value = ort.OrtValue.ortvalue_from_numpy(X, "cpu", 0)
        self.assertEqual((value.data_type(), value.element_type(), value.shape(), value.device_name(), value.is_tensor(),
                          value.has_value(), value.tensor_size_in_bytes(), value.data_ptr()),
                         ("tensor(float)", 1, [2, 4], "cpu", True, True, 32, X.ctypes.data))
        self.assertIs(value.numpy(), X)
        np.testing.assert_array_equal(np.asarray(value), X)
        empty = ort.OrtValue.ortvalue_from_shape_and_type([2, 4], np.float32, "cpu", 0)
        empty.update_inplace(X)
        np.testing.assert_array_equal(empty.numpy(), X)
        with self.assertRaisesRegex(ort.InvalidArgument, "float32"):
            empty.update_inplace(X[0])
        self.assertEqual(ort.OrtValue.ortvalue_from_shape_and_type((3,), TensorProto.BFLOAT16).data_type(), "tensor(bfloat16)")
        bits = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.array([0x3FC0], np.uint16), TensorProto.BFLOAT16)
        self.assertEqual((bits.data_type(), float(bits.numpy()[0])), ("tensor(bfloat16)", 1.5))
        with self.assertRaisesRegex(ort.InvalidArgument, "'cuda'"):
            ort.OrtValue.ortvalue_from_numpy(X, "cuda", 0)

    def test_runs(self):
        session = ort.InferenceSession(ADD)
        feed = {"x": ort.OrtValue.ortvalue_from_numpy(X), "z": ort.OrtValue.ortvalue_from_numpy(X)}
        for names, want in (["t"], [2 * X.T]), (None, [2 * X, 2 * X.T]):
            found = session.run_with_ort_values(names, feed)
            for value, array in zip(found, want, strict=True):
                self.assertEqual((value.data_type(), value.shape()), ("tensor(float)", list(array.shape)))
                np.testing.assert_array_equal(value.numpy(), array)
        np.testing.assert_array_equal(session.run(["y"], feed)[0], 2 * X)
        split = ort.InferenceSession(text_model("g (string[N] a) => (seq(string[K]) s) { s = SplitToSequence (a) }"))
        value, = split.run_with_ort_values(None, {"a": ["x", "y"]})
        self.assertEqual((value.is_tensor(), value.is_tensor_sequence(), value.data_type()), (False, True, "seq"))

    def test_vectors(self):
        """As ONNX Runtime's programs for training and for several devices run."""
        from onnxc.capi.onnxruntime_pybind11_state import OrtValueVector
        session, feeds = ort.InferenceSession(ADD), OrtValueVector()
        feeds.reserve(2)
        for _ in range(2):
            feeds.push_back(ort.OrtValue.ortvalue_from_numpy(X))
        fetches = OrtValueVector()
        session.run_with_ortvaluevector(ort.RunOptions(), ["x", "z"], feeds, ["t", "y"], fetches, [ort.OrtDevice.make("cpu", 0)] * 2)
        np.testing.assert_array_equal(fetches[0].numpy(), 2 * X.T)
        self.assertEqual((len(fetches), fetches.element_type_at(1)), (2, TensorProto.FLOAT))
        np.testing.assert_array_equal(fetches.to_dlpacks(dlpack_array)[1], 2 * X)
        room = fetches[1].numpy()
        feeds[1] = ort.OrtValue.ortvalue_from_numpy(2 * X)
        session.run_with_ortvaluevector(None, ["x", "z"], feeds, ["t", "y"], fetches)
        np.testing.assert_array_equal(room, 3 * X)
        for names, values, text in (["x"], fetches, "1 names of inputs, but 2 values"), (["x", "z"], fetches[:1], "2 outputs, but 1 values"):
            with self.assertRaisesRegex(ort.InvalidArgument, text):
                session.run_with_ortvaluevector(None, names, feeds, ["t", "y"], values)

    def test_memory(self):
        session = ort.InferenceSession(ADD)
        infos = [*session.get_input_memory_infos(), *session.get_output_memory_infos(),
                 ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)]
        self.assertEqual([(i.name, i.device_id, i.mem_type) for i in infos], 5 * [("Cpu", 0, ort.OrtMemType.DEFAULT)])
        with self.assertRaisesRegex(ort.InvalidArgument, "memory 'Cuda' is not supported"):
            ort.OrtMemoryInfo("Cuda", ort.OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
        room = ort.OrtValue.ortvalue_from_shape_and_type([2, 4], np.float32)
        ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(X)], [room])
        np.testing.assert_array_equal(room.numpy(), X)
        for count, text in (0, "1 tensors to copy from, but 0"), (1, "float64"):
            with self.assertRaisesRegex(ort.InvalidArgument, text):
                ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(X.astype("f8"))], [room] * count)


def dlpack_array(capsule):
    return dlpack.from_dlpack(capsule, "the value")


class DLPack(unittest.TestCase):
    def test_inputs(self):
        session = ort.InferenceSession(ADD)
        wide = np.arange(16, dtype=np.float32).reshape(2, 8)
        for x in X.copy(), np.asfortranarray(X), wide[:, ::2], wide[::-1, 3::-1], np.zeros((0, 4), np.float32):
            y, t = session.run(None, {"x": Tensor(x), "z": x})
            np.testing.assert_array_equal(y, x + x)
        with self.assertRaisesRegex(ort.InvalidArgument, r"input 'x' .* takes float \(float32\), not float64"):
            session.run(None, {"x": Tensor(X.astype(float)), "z": X})
        with self.assertRaisesRegex(ort.InvalidArgument, "input 'x' .* lies on cuda:1; copy it to the CPU first"):
            session.run(None, {"x": Tensor(X, (2, 1)), "z": X})

    def test_protocol_before_version_1(self):
        class Old(Tensor):
            def __dlpack__(self, stream=None):
                return dlpack.to_dlpack(self.array)

        x = X.copy()
        self.assertTrue(np.shares_memory(dlpack.from_dlpack(Old(x), "x"), x))
        with self.assertRaisesRegex(ort.InvalidArgument, "x: the array is read-only"):
            dlpack.from_dlpack(Old(np.broadcast_to(x, (2, 2, 4))), "x")

    def test_read_only_memory(self):
        x = X.copy()
        x.flags.writeable = False
        y = dlpack.from_dlpack(Tensor(x), "x")
        self.assertEqual((np.shares_memory(x, y), y.flags.writeable), (True, False))
        out = np.zeros((2, 3), np.float32)
        out.flags.writeable = False
        with self.assertRaisesRegex(ort.InvalidArgument, "output 'y' .* is read-only"):
            ort.InferenceSession(path_of("mlp.onnx")).run_into({"y": Tensor(out)}, {"x": Tensor(x)})

    def test_arguments_of_exports(self):
        x = X.copy()
        value = ort.OrtValue.ortvalue_from_numpy(x)
        for copy in None, False, True:
            for version in None, (0, 8), (1, 1):
                capsule = value.__dlpack__(max_version=version, copy=copy, dl_device=(1, 0))
                self.assertEqual(np.shares_memory(dlpack.from_dlpack(capsule, "x"), value.numpy()), not copy)
        with self.assertRaisesRegex(BufferError, "lies on the CPU"):
            value.__dlpack__(dl_device=(2, 0))

    def test_capsules(self):
        x = X.copy()
        capsule = dlpack.to_dlpack(x)
        self.assertTrue(np.shares_memory(ort.OrtValue.from_dlpack(capsule).numpy(), x))
        with self.assertRaisesRegex(ort.InvalidArgument, "the DLPack capsule was used before"):
            ort.OrtValue.from_dlpack(capsule)
        with self.assertRaisesRegex(ort.InvalidArgument, "there is no DLPack capsule, but list"):
            ort.OrtValue.from_dlpack([1.0])

    def test_devices_without_a_number(self):
        class Meta(Tensor):
            def __dlpack_device__(self):
                raise ValueError("Unknown device type meta for Dlpack")

        with self.assertRaisesRegex(ort.InvalidArgument, "input 'x' .*: Unknown device type meta"):
            ort.InferenceSession(path_of("mlp.onnx")).run(None, {"x": Meta(X)})

    def test_every_type(self):
        for dtype in (np.int8, np.uint16, np.int64, np.float16, np.float64, np.bool_, np.complex64, ml_dtypes.bfloat16,
                      ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
            x = np.array([0, 1, 1], dtype)
            y = dlpack.from_dlpack(Tensor(x), "x")
            self.assertEqual(y.dtype, x.dtype)
            np.testing.assert_array_equal(y.view(np.uint8), x.view(np.uint8))
            self.assertTrue(np.shares_memory(x, y))
        with self.assertRaises(BufferError):
            dlpack.to_dlpack(np.array(["x"]))

    def test_bfloat16_through_a_model(self):
        x = np.array([1.5, -2], ml_dtypes.bfloat16)
        session = ort.InferenceSession(identity(TensorProto.BFLOAT16))
        y, = session.run_with_ort_values(None, {"x": Tensor(x)})
        np.testing.assert_array_equal(ort.OrtValue.from_dlpack(y).numpy(), x)

    def test_outputs_for_numpy(self):
        y, = ort.InferenceSession(path_of("mlp.onnx")).run_with_ort_values(None, {"x": X})
        np.testing.assert_array_equal(np.from_dlpack(y), Y)
        np.testing.assert_array_equal(ort.OrtValue.from_dlpack(y.numpy()).numpy(), Y)

    def test_memory_is_freed(self):
        for _ in range(3):
            capsule = dlpack.to_dlpack(np.zeros(5))
            del capsule  # nobody takes it
            array = dlpack.from_dlpack(Tensor(np.arange(5.0)), "x")[1:]
            self.assertEqual(len(dlpack._exported), 1)
            self.assertEqual(array.tolist(), [1, 2, 3, 4])
            del array
            self.assertEqual(dlpack._exported, {})

    def test_in_place(self):
        session, y = ort.InferenceSession(path_of("mlp.onnx")), np.zeros((2, 3), np.float32)
        session.run_into({"y": Tensor(y)}, {"x": Tensor(X.copy())})
        np.testing.assert_array_equal(y, Y)

    def test_torch(self):
        if not importlib.util.find_spec("torch"):
            self.skipTest("torch is not installed")
        import torch
        session, x = ort.InferenceSession(path_of("mlp.onnx")), torch.tensor(X.tolist())
        y, = session.run_with_ort_values(None, {"x": x})
        np.testing.assert_array_equal(torch.from_dlpack(y).numpy(), Y)
        out = torch.empty((2, 3))
        session.run_into({"y": out}, {"x": x})
        np.testing.assert_array_equal(out.numpy(), Y)
        with self.assertRaisesRegex(ort.InvalidArgument, "gradient"):
            session.run(None, {"x": x.requires_grad_()})


class Binding(unittest.TestCase):
    def test_arrays_in_place(self):
        session = ort.InferenceSession(ADD)
        x, z = X.copy(), X.copy()
        y, t = np.zeros((2, 4), np.float32), np.zeros((4, 2), np.float32)
        binding = session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_input("z", "cpu", 0, np.float32, z.shape, z.ctypes.data)
        binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
        binding.bind_ortvalue_output("t", ort.OrtValue.ortvalue_from_numpy(t))
        for k in 1, 2, 3:
            x[...] = k * X
            binding.synchronize_inputs()
            session.run_with_iobinding(binding)
            binding.synchronize_outputs()
            np.testing.assert_array_equal(y, (k + 1) * X)
            np.testing.assert_array_equal(t, (k + 1) * X.T)
            self.assertEqual([v.data_ptr() for v in binding.get_outputs()], [y.ctypes.data, t.ctypes.data])
        copies = binding.copy_outputs_to_cpu()
        y[...] = 0
        np.testing.assert_array_equal(copies[0], 4 * X)

    def test_new_arrays_in_the_order_of_binding(self):
        session, binding = ort.InferenceSession(ADD), None
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(X))
        binding.bind_cpu_input("z", X)
        binding.bind_output("t")
        binding.bind_output("y", "cpu")
        for n in 2, 1, 2:
            binding.bind_cpu_input("x", X[:n])
            binding.bind_cpu_input("z", X[:n])
            session.run_with_iobinding(binding, ort.RunOptions())
            t, y = binding.copy_outputs_to_cpu()
            np.testing.assert_array_equal(t, 2 * X[:n].T)
            np.testing.assert_array_equal(y, 2 * X[:n])
        binding.clear_binding_outputs()
        self.assertEqual(binding.get_outputs(), [])
        with self.assertRaisesRegex(ort.InvalidArgument, "no output is bound"):
            session.run_with_iobinding(binding)
        binding.clear_binding_inputs()
        binding.bind_output("y")
        with self.assertRaisesRegex(ort.InvalidArgument, "'x' is missing"):
            session.run_with_iobinding(binding)

    def test_wrong_arrays(self):
        session = ort.InferenceSession(ADD)
        for _ in range(2):
            for y, text in ((np.zeros((3, 4), np.float32), r"shape \(2, 4\), but an array of shape \(3, 4\)"),
                            (np.zeros((1, 4), np.float32), r"shape \(2, 4\), but an array of shape \(1, 4\)"),
                            (np.zeros((2, 4)), r"gives float \(float32\), but the array given for it is float64"),
                            (np.zeros(8, np.float32), "rank 2"), ([[0]], "not into list"),
                            (np.broadcast_to(np.float32(0), (2, 4)), "read-only")):
                with self.assertRaisesRegex(ort.InvalidArgument, f"output 'y' of .*{text}"):
                    session.run_into({"y": y}, {"x": X, "z": X})
            with self.assertRaisesRegex(ort.InvalidArgument, "no output 'q'"):
                session.run_into({"q": X}, {"x": X, "z": X})
            with self.assertRaisesRegex(ort.InvalidArgument, "outputs must be a dict of names and arrays, not list"):
                session.run_into([X], {"x": X, "z": X})
            with self.assertRaisesRegex(ort.InvalidArgument, "run_options must be RunOptions, not int"):
                session.run(None, {"x": X, "z": X}, 5)
            session.run(None, {"x": X, "z": X})
        binding = session.io_binding()
        for call, text in ((lambda: binding.bind_output("q"), "no output 'q'"), (lambda: binding.bind_cpu_input("q", X), "no input 'q'"),
                           (lambda: binding.bind_output("y", "cuda"), "'cuda'"),
                           (lambda: binding.bind_output("y", buffer_ptr=X.ctypes.data), "needs an element type"),
                           (lambda: binding.bind_input("x", "cpu", 0, np.float32, [2], 0), "needs the address")):
            with self.assertRaisesRegex(ort.InvalidArgument, text):
                call()

    def test_memory_that_cannot_be_written_in_place(self):
        session, x = ort.InferenceSession(ADD), X.copy()
        for _ in range(3):
            wide = np.zeros((2, 8), np.float32)
            session.run_into({"y": wide[:, ::2]}, {"x": x, "z": x})
            np.testing.assert_array_equal(wide[:, ::2], 2 * x)
            both = np.zeros(12, np.float32)
            session.run_into({"y": both[:8].reshape(2, 4), "t": both[4:].reshape(4, 2)}, {"x": x, "z": x})
            np.testing.assert_array_equal(both[4:].reshape(4, 2), 2 * x.T)
            shared = X.copy()
            session.run_into({"y": shared}, {"x": shared, "z": shared})
            np.testing.assert_array_equal(shared, 2 * X)

    def test_other_kinds_of_output(self):
        session = ort.InferenceSession(POSITIVE)
        for n in 5, 3000, 5:
            y = np.zeros(n, np.float32)
            session.run_into({"y": y}, {"x": np.arange(-2, n + 1, dtype=np.float32)})
            np.testing.assert_array_equal(y, np.arange(1, n + 1))
        with self.assertRaisesRegex(ort.InvalidArgument, r"shape \(3,\), but an array of shape \(2,\)"):
            session.run_into({"y": y[:2]}, {"x": np.arange(4, dtype=np.float32)})
        texts = np.empty(2, object)
        concat = ort.InferenceSession(text_model("g (string[N] a, string[N] b) => (string[N] c) { c = StringConcat (a, b) }"))
        concat.run_into({"c": texts}, [["a", "b"], ["c", "d"]])
        self.assertEqual(texts.tolist(), ["ac", "bd"])
        four = np.zeros(3, ml_dtypes.int4)
        ort.InferenceSession(identity(TensorProto.INT4)).run_into({"y": four}, {"x": np.array([1, -8, 7], ml_dtypes.int4)})
        self.assertEqual(four.astype(int).tolist(), [1, -8, 7])
        maps = ort.InferenceSession(path_of("flowers.onnx"))
        with self.assertRaisesRegex(ort.InvalidArgument, "cannot be written into an array"):
            maps.run_into({"probabilities": np.zeros((2, 3), np.float32)}, {"x": X[:, :2]})
        binding = maps.io_binding()
        binding.bind_cpu_input("x", X[:, :2])
        binding.bind_output("probabilities")
        maps.run_with_iobinding(binding)
        self.assertEqual(binding.copy_outputs_to_cpu()[0][0]["setosa"], 1.0)

    def test_threads(self):
        session = ort.InferenceSession(ADD)

        def work(k):
            y, binding = np.zeros((2, 4), np.float32), session.io_binding()
            binding.bind_cpu_input("x", k * X)
            binding.bind_cpu_input("z", X)
            binding.bind_cpu_output("y", y)
            for _ in range(100):
                y[...] = 0
                session.run_with_iobinding(binding)
                np.testing.assert_array_equal(y, (k + 1) * X)
        self.assertEqual(at_once(work, range(8)), [])


class Files(unittest.TestCase):
    def test_paths(self):
        with tempfile.TemporaryDirectory() as folder:
            there = lambda name: os.path.join(folder, name)  # noqa: E731
            made = ort.compile(path_of("mlp.onnx"), there("a b.so"), weights=there("w #1.bin"))
            self.assertEqual([str(p) for p in (made.output, made.header, *made.files)],
                             [there(n) for n in ("a b.so", "a b.h", "a b.so", "a b.h", "w #1.bin")])
            self.assertEqual([str(p) for p in made.sources], [path_of("mlp.onnx")])
            for path in made.files:
                self.assertTrue(path.exists())
            made = ort.compile(path_of("mlp.onnx"), there("m.o"), ["--depfile", there("m.d"), "--header", there("other.h")])
            self.assertEqual((str(made.header), os.path.exists(there("m.d"))), (there("other.h"), True))
            with open(path_of("mlp.onnx"), "rb") as f:
                made = ort.compile(f.read(), there("n.c"), name="n")
            self.assertEqual((made.output.name, made.sources), ("n.c", []))

    def test_a_build(self):
        """An object in a program, as a build script does it."""
        with tempfile.TemporaryDirectory() as folder:
            made = ort.compile(path_of("mlp.onnx"), os.path.join(folder, "mlp.o"))
            main, program = os.path.join(folder, "main.c"), os.path.join(folder, "main")
            with open(main, "w") as f:
                f.write('#include "mlp.h"\n#include <stdio.h>\nstatic _Alignas(64) char w[1 << 16];\nint main(void) {\n'
                        'float x[4] = {1, 2, 3, 4}, y[3];\nint e = mlp_run(&(mlp_in){.x = x, .x_dim0 = 1}, &(mlp_out){.y = y}, w, sizeof w);\n'
                        'printf("%d %g %g %g\\n", e, y[0], y[1], y[2]);\n}\n')
            subprocess.run(["cc", main, made.output, "-I", folder, "-I", ort.get_include(), "-L", ort.get_library_dir(), "-lonnxc-rt",
                            "-lpthread", "-lm", "-o", program], check=True)
            self.assertEqual(subprocess.check_output([program], text=True), "0 7.5 8.75 10\n")


class Cache(unittest.TestCase):
    def entries(self, folder):
        return sorted(n for n in os.listdir(folder) if cache.ENTRY.fullmatch(n))

    def test_sessions_use_it(self):
        with tempfile.TemporaryDirectory() as folder:
            for n in range(2):
                session = ort.InferenceSession(path_of("mlp.onnx"), cache=folder)
                np.testing.assert_array_equal(session.run(None, {"x": X})[0], Y)
                entries = self.entries(folder)
            self.assertTrue(entries)
            ort.clear_cache(folder)
            self.assertEqual(self.entries(folder), [])

    def test_default_folder(self):
        old = os.environ.get("XDG_CACHE_HOME")
        with tempfile.TemporaryDirectory() as home:
            os.environ["XDG_CACHE_HOME"] = home
            try:
                ort.InferenceSession(path_of("mlp.onnx"), cache=True)
                self.assertEqual(os.stat(os.path.join(home, "onnxc")).st_mode & 0o777, 0o700)
                self.assertTrue(self.entries(os.path.join(home, "onnxc")))
            finally:
                del os.environ["XDG_CACHE_HOME"]
                if old:
                    os.environ["XDG_CACHE_HOME"] = old

    def test_bounded(self):
        with tempfile.TemporaryDirectory() as folder:
            for i in range(10):
                path = os.path.join(folder, f"{i:064x}")
                with open(path, "wb") as f:
                    f.write(b"x" * 100)
                os.utime(path, (1000 + i, 1000 + i))
            for name in "other.txt", ".new-old", ".new-young":
                open(os.path.join(folder, name), "w").close()
            os.utime(os.path.join(folder, ".new-old"), (1, 1))
            os.symlink("other.txt", os.path.join(folder, "f" * 64))
            cache.prune(folder, 350)
            self.assertEqual(sorted(os.listdir(folder)), sorted([".new-young", "other.txt", "f" * 64, *(f"{i:064x}" for i in (7, 8, 9))]))
            cache.prune(os.path.join(folder, "none"), 1)

    def test_together(self):
        """Many threads compile with a folder that is always too large."""
        with tempfile.TemporaryDirectory() as folder:
            def work(_):
                for _ in range(5):
                    session = ort.InferenceSession(path_of("mlp.onnx"), cache=folder, cache_size=1)
                    np.testing.assert_array_equal(session.run(None, {"x": X})[0], Y)
            self.assertEqual(at_once(work, range(4)), [])


class Scoreboard(unittest.TestCase):
    """The files for ONNX's backend scoreboard, and its way to run the backend: as a module."""
    FOLDER = os.path.join(ROOT, "packaging", "scoreboard")

    def test_cases_run(self):
        import onnx.backend.test
        names = set()
        for kind in "stable", "development":
            with open(os.path.join(self.FOLDER, "runtimes", "onnxc", kind, "Dockerfile")) as f:
                names |= set(re.findall(r'^ENV ONNX_BACKEND="(.*)"$', f.read(), re.MULTILINE))
        self.assertEqual(names, {"onnxc.backend"})
        runner = onnx.backend.test.BackendTest(importlib.import_module(*names), __name__)
        runner.include("^test_(add|clip|topk|split_to_sequence)_.*cpu$")
        with open(os.devnull, "w") as quiet:
            result = unittest.TextTestRunner(stream=quiet).run(runner.test_suite)
        self.assertEqual((result.failures, result.errors), ([], []))
        self.assertGreater(result.testsRun - len(result.skipped), 10)

    def test_configuration(self):
        with open(os.path.join(self.FOLDER, "setup", "config.json")) as f:
            config = json.load(f)
        for kind, entries in config.items():
            entry = entries["onnxc"]
            self.assertEqual((entry["name"], entry["results_dir"]), ("onnxc", f"./results/onnxc/{kind}"))
            self.assertTrue(os.path.exists(os.path.join(self.FOLDER, "runtimes", "onnxc", kind, "Dockerfile")))
        self.assertEqual(config["stable"]["onnxc"]["core_packages"], ["onnxc"])


PROGRAM = '''
from typing import Any, List
import numpy as np
from numpy.typing import NDArray
import onnxc as ort

settings = ort.SessionOptions()
settings.intra_op_num_threads = 1
settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
session = ort.InferenceSession("m.onnx", settings, providers=["CPUExecutionProvider", ("CUDAExecutionProvider", {"device_id": "0"})], fp="strict")
x: NDArray[np.float32] = np.zeros((1, 4), np.float32)
outputs: List[Any] = session.run(["y"], {session.get_inputs()[0].name: x}, ort.RunOptions())
shape: List[int | str] = session.get_inputs()[0].shape
binding: ort.IOBinding = session.io_binding()
binding.bind_output("y", "cpu", 0, np.float32, (1, 3), outputs[0].ctypes.data)
session.run_with_iobinding(binding)
value: ort.OrtValue = session.run_with_ort_values(None, [x])[0]
made: ort.Compiled = ort.compile("m.onnx", "m.o", ["-O3"], dim={"N": 2})
data: bytes = ort.compile(b"")
try:
    pass
except ort.CompileError as error:
    texts: List[str] = [m.full for m in error.messages]
version: str = ort.__version__
'''


class Types(unittest.TestCase):
    def check(self, *arguments):
        if not importlib.util.find_spec("mypy"):
            self.skipTest("mypy is not installed")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "program.py"), "w") as f:
                f.write(PROGRAM)
            env = {**os.environ, "MYPYPATH": os.path.join(ROOT, "bindings", "python")}
            ran = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.path.join(folder, "cache"), *arguments], cwd=folder,
                                 env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(ran.returncode, 0, ran.stdout)

    def test_a_program_and_the_package(self):
        self.check("program.py")
        self.check("-p", "onnxc")

    def test_everything_public_is_documented(self):
        for name in ort.__all__:
            thing = getattr(ort, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                self.assertTrue(inspect.getdoc(thing) or name.startswith("get_"), name)


if __name__ == "__main__":
    run_unittests("python", sys.modules[__name__])
