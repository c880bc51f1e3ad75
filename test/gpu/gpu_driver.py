"""What CUDA's driver wants and forbids, on its stand-in (test/shim/cuda_double.c): names and types against NVIDIA's header,
captures of other threads, images that do not load, contexts that a kernel broke. usage: gpu_driver.py, as gpu_host.py.
"""
import contextlib
import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import gpu_host as g
import numpy as np
import onnx
from gpu_host import GPU_FAILED, NO_GPU, OK, ROOT, Context, at_once, counts, cuda, run_unittests

GLOBAL, THREAD_LOCAL = 0, 1
NON_BLOCKING = 1
TOOLKITS = ["/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-[0-9]*")), "/opt/cuda"]


class Header(unittest.TestCase):
    """runtime-lite/cuda/cuda.h, which the stand-in is compiled with too, against NVIDIA's."""

    def compiled(self, change=lambda text: text):
        toolkit = next((t for t in TOOLKITS if os.path.exists(f"{t}/include/cuda.h")), None)
        if not toolkit:
            self.skipTest("there is no cuda.h")
        stubs = next((s for s in (f"{toolkit}/lib64/stubs", f"{toolkit}/lib/stubs") if os.path.exists(f"{s}/libcuda.so")), None)
        with tempfile.TemporaryDirectory() as folder, open(f"{ROOT}/runtime-lite/cuda/cuda.h", encoding="utf-8") as f:
            os.makedirs(f"{folder}/runtime-lite/cuda")
            with open(f"{folder}/runtime-lite/cuda/cuda.h", "w", encoding="utf-8") as to:
                to.write(change(f.read()))
            link = ["-o", f"{folder}/api", f"-L{stubs}", "-lcuda"] if stubs else ["-fsyntax-only"]
            return subprocess.run(["c++", "-std=c++17", "-Wall", "-Wextra", f"-I{folder}", f"-I{toolkit}/include",
                                   f"{ROOT}/test/shim/cuda_api.cc", *link], capture_output=True, text=True, timeout=120)

    def test_ours_is_theirs(self):
        made = self.compiled()
        self.assertEqual((made.returncode, made.stderr), (0, ""))

    def test_differences_show(self):
        for ours, other, why in (("cuMemFree_v2", "cuMemFree", "cuMemFree is an older symbol"),
                                 ("SHARED_SIZE_BYTES, 8)", "SHARED_SIZE_BYTES, 9)", "MAX_DYNAMIC_SHARED_SIZE_BYTES"),
                                 ("cuda_address * at, size_t bytes", "cuda_address * at, unsigned bytes", "cuMemAlloc_v2 takes something else"),
                                 ("(cuda_stream stream, cuda_graph * graph)", "(cuda_stream stream, cuda_graph_exec * graph)",
                                  "cuStreamEndCapture takes something else"),
                                 ("cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease_v3", "cuDevicePrimaryCtxRelease_v3")):
            def change(text, ours=ours, other=other):
                self.assertEqual(text.count(ours), 1, ours)
                return text.replace(ours, other)

            made = self.compiled(change)
            self.assertNotEqual(made.returncode, 0)
            self.assertIn(why, made.stderr)


@contextlib.contextmanager
def on_the_gpu(device=0):
    """Its primary context, as a caller has it."""
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert cuda.cuCtxPushCurrent_v2(context) == 0
    try:
        yield
    finally:
        cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        cuda.cuDevicePrimaryCtxRelease_v2(device)


@contextlib.contextmanager
def environment(**variables):
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


class Driver(g.OnGpu):
    # ------------------------------------------------------------ captures
    @contextlib.contextmanager
    def capture(self, mode, flags=NON_BLOCKING):
        """Somebody captures a stream, which must not be disturbed."""
        stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
        with on_the_gpu():
            self.assertEqual(cuda.cuStreamCreate(ctypes.byref(stream), flags), 0)
            self.assertEqual(cuda.cuStreamBeginCapture_v2(stream, mode), 0)
            try:
                yield stream
            finally:
                code = cuda.cuStreamEndCapture(stream, ctypes.byref(graph))
                if graph:
                    cuda.cuGraphDestroy(graph)
                cuda.cuStreamDestroy_v2(stream)
            self.assertEqual(code, 0, "the capture was disturbed")

    def works(self):
        """Opening, allocating, copying, waiting, closing."""
        for name in "deep", "chosen":
            with Context(self.models[name]) as c:
                for n in 3, 70, 900:
                    if name == "deep":
                        self.check_deep(c, n)
                        self.check_deep(c, n)
                    else:
                        self.run_chosen(c, n)

    def test_runs_while_the_thread_captures_another_stream(self):
        for mode in GLOBAL, THREAD_LOCAL:
            with self.capture(mode):
                self.works()

    def test_runs_while_another_thread_captures(self):
        with self.capture(GLOBAL):
            self.assertEqual(at_once(lambda works: works(), [self.works]), [])

    def test_opens_while_a_blocking_stream_captures(self):
        with self.capture(THREAD_LOCAL, flags=0):
            self.works()

    def test_the_callers_mode_stays(self):
        with on_the_gpu():
            mode = ctypes.c_int(THREAD_LOCAL)
            cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
            self.works()
            cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
            self.assertEqual(mode.value, THREAD_LOCAL)

    def test_the_first_run_is_captured(self):
        """What it allocates stays for the graph."""
        x, y = np.random.default_rng(3).standard_normal((7, 24), dtype=np.float32), np.zeros((7, 8), np.float32)
        at_x, at_y = self.on_device(x, y)
        stream, made, again = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        cuda.cuStreamCreate(ctypes.byref(stream), NON_BLOCKING)
        with Context(self.models["deep"], device_pointers=1, stream=stream.value) as c:
            self.assertEqual(cuda.cuStreamBeginCapture_v2(stream, GLOBAL), 0)
            code, _, message = c.run_at([at_x, at_y], [7, 24, 7, 8], [56])
            self.assertEqual(cuda.cuStreamEndCapture(stream, ctypes.byref(made)), 0)
            self.assertEqual(code, OK, message)
            cuda.cuGraphInstantiateWithFlags(ctypes.byref(again), made, ctypes.c_ulonglong(0))
            cuda.cuGraphLaunch(again, stream)
            cuda.cuStreamSynchronize(stream)
            self.to_host(at_y, y)
            cuda.cuGraphDestroy(made)
            cuda.cuGraphExecDestroy(again)
        cuda.cuStreamDestroy_v2(stream)
        self.leave_device(at_x, at_y)
        np.testing.assert_allclose(y, g.softmax(g.softmax(x @ g.A) @ g.B), rtol=1e-4, atol=1e-5)

    def test_a_run_that_waits_cannot_be_captured(self):
        x, y, i = np.ones((4, 10), np.float32), np.zeros((4, 3), np.float32), np.zeros((4, 3), np.int64)
        at = self.on_device(x, y, i)
        stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
        cuda.cuStreamCreate(ctypes.byref(stream), NON_BLOCKING)
        with Context(self.models["best"], device_pointers=1, stream=stream.value) as c:
            cuda.cuStreamBeginCapture_v2(stream, GLOBAL)
            code, _, message = c.run_at(at, [4, 10, 4, 3, 4, 3], [12, 12])
            self.assertEqual(code, GPU_FAILED)
            self.assertIn("operation not permitted when stream is capturing (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)", message)
            self.assertNotEqual(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)), 0)
            self.assertEqual(c.run_at(at, [4, 10, 4, 3, 4, 3], [12, 12])[0], OK)
        cuda.cuStreamDestroy_v2(stream)
        self.leave_device(*at)

    # ------------------------------------------------------------ images
    def test_ptx_where_the_code_does_not_load(self):
        model = self.compiled("rows", "--device=cuda", "--gpu-arch=sm_80", ending="_images")
        cuda.cuda_double_fail(b"load_code", 0)
        with Context(model) as c:
            self.check_rows(c)

    def test_a_driver_that_is_older_than_nvrtc(self):
        model = self.compiled("rows", "--device=cuda", "--gpu-arch=sm_80", ending="_images")
        with environment(CUDA_DOUBLE_VERSION="12040"), Context(model) as c:
            self.check_rows(c)
        with environment(CUDA_DOUBLE_VERSION="12040", CUDA_DOUBLE_SM="90"):
            c = Context(model)
        self.assertEqual((c.code, c.why.value.decode()), (
            NO_GPU, "loading PTX sm_80: the provided PTX was compiled with an unsupported toolchain."
            " (CUDA_ERROR_UNSUPPORTED_PTX_VERSION); the driver knows CUDA 12.4"))
        both = self.compiled("rows", "--device=cuda,cpu", "--gpu-arch=sm_80", ending="_images_both")
        with environment(CUDA_DOUBLE_VERSION="11080"), Context(both) as c:
            self.check_rows(c)
            self.assertEqual(c.why.value.decode(), "loading code sm_80: device kernel image is invalid (CUDA_ERROR_INVALID_IMAGE);"
                             " loading PTX sm_80: the provided PTX was compiled with an unsupported toolchain."
                             " (CUDA_ERROR_UNSUPPORTED_PTX_VERSION); the driver knows CUDA 11.8")

    def test_what_ptxas_says(self):
        cuda.cuda_double_fail(b"load_ptx", 0)
        c = Context(self.models["rows"])
        self.assertEqual((c.code, c.why.value.decode()), (
            NO_GPU, "loading PTX sm_75: a PTX JIT compilation failed (CUDA_ERROR_INVALID_PTX): ptxas application ptx input, line 1;"
            " fatal   : what a stand-in says; the driver knows CUDA 12.9"))

    def test_what_runs_at_once_is_for_this_gpu(self):
        log = self.path("native.log")
        for sm, devices, made in (("86", "1", ["sm_86"]), ("87", "2", ["sm_86"]), ("90", "1", ["sm_90"]), ("100", "1", ["sm_90"])):
            ran = self.onnxc("run", "rows.onnx", "--device=cuda", "--nvrtc", g.DOUBLES, "--dim", "N=3", "--input", "x=random",
                             "--compare", "interpret", LD_LIBRARY_PATH=g.DOUBLES, NVRTC_DOUBLE_LOG=log, CUDA_DOUBLE_SM=sm,
                             CUDA_DOUBLE_DEVICES=devices)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))
            with open(log, encoding="utf-8") as f:
                self.assertEqual(f.read().split(), made)
            os.unlink(log)
        ran = self.onnxc("run", "rows.onnx", "--device=cuda,cpu", "--nvrtc", g.DOUBLES, "--dim", "N=3", "--input", "x=random",
                         LD_LIBRARY_PATH=g.DOUBLES, NVRTC_DOUBLE_LOG=log)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        with open(log, encoding="utf-8") as f:
            self.assertEqual(f.read().split(), ["sm_86"])
        os.unlink(log)
        ran = self.onnxc("run", "wide.onnx", "--device=cuda", "--nvrtc", g.DOUBLES, "--dim", "N=512", "--input", "x=random",
                         LD_LIBRARY_PATH=g.DOUBLES, NVRTC_DOUBLE_LOG=log, CUDA_DOUBLE_SM="90")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        with open(log, encoding="utf-8") as f:
            self.assertEqual(f.read().split(), ["sm_90a", "compute_90"])

    def test_more_shared_memory_than_the_gpu_has(self):
        w = np.zeros((256, 1024), np.float16)
        graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "large",
                                       [g.tensor("x", 8192, 256, dtype=onnx.TensorProto.FLOAT16)],
                                       [g.tensor("y", 8192, 1024, dtype=onnx.TensorProto.FLOAT16)], [onnx.numpy_helper.from_array(w, "w")])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), self.path("large.onnx"))
        model = self.compiled("large", "--device=cuda", "--gpu-arch=sm_90a")
        with environment(CUDA_DOUBLE_SM="90"), Context(model):
            pass
        with environment(CUDA_DOUBLE_SM="120"):
            c = Context(model)
        self.assertEqual(c.code, NO_GPU)
        self.assertRegex(c.why.value.decode(), r"^k_MatMul_\w+ needs \d{6} bytes of shared memory, but a block of the GPU has 101376$")

    def test_more_inputs_than_a_kernel_takes(self):
        n = 700
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Concat", [f"x{i}" for i in range(n)], ["y"], axis=1)], "many",
            [g.tensor(f"x{i}", 2, 1 + i % 3) for i in range(n)], [g.tensor("y", 2, sum(1 + i % 3 for i in range(n)))])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), self.path("many.onnx"))
        x = [np.full((2, 1 + i % 3), i, np.float32) for i in range(n)]
        y = np.zeros((2, sum(a.shape[1] for a in x)), np.float32)
        with Context(self.compiled("many")) as c:
            self.assertEqual(c.run(x, [y]), (OK, ""))
        np.testing.assert_array_equal(y, np.concatenate(x, 1))

    def test_bench_waits_for_each_kernel(self):
        ran = self.onnxc("bench", "deep.onnx", "--device=cuda", "--nvrtc", g.DOUBLES, "--dim", "N=3", "--runs", "2", "--kernels",
                         LD_LIBRARY_PATH=g.DOUBLES)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        times = {k: float(n) * {"us": 1, "ms": 1e3}[unit] for n, unit, k in re.findall(r"([\d.]+) (us|ms) +[\d.]+% .* (\S+)$", ran.stdout, re.M)}
        self.assertIn("each launched alone and waited for", ran.stdout)
        self.assertEqual(len(times), 4, ran.stdout)
        # On the stand-in a product of 24 x 40 takes much longer than one of 40 x 8: both are told.
        self.assertGreater(min(times.values()), 20, ran.stdout)

    # ------------------------------------------------------------ failures
    def test_a_kernel_that_fails_breaks_the_context(self):
        for name, shapes in ("rows", [(2, 24), (2, 8)]), ("deep", [(2, 24), (2, 8)]):
            arrays = [np.ones(s, np.float32) for s in shapes]
            with Context(self.models[name]) as c, Context(self.models[name]) as other:
                self.assertEqual(c.run(arrays[:1], arrays[1:]), (OK, ""))
                self.assertEqual(c.run(arrays[:1], arrays[1:]), (OK, ""))
                cuda.cuda_double_fail(b"kernel", 0)
                for _ in range(2):
                    for broken in c, other:
                        code, message = broken.run(arrays[:1], arrays[1:])
                        self.assertEqual(code, GPU_FAILED)
                        self.assertIn("an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)", message)
            self.assertEqual(g.left(), {})
            with Context(self.models["rows"]) as c:
                self.check_rows(c)

    def test_cases_after_one_that_broke_the_driver(self):
        """onnxc test goes on in another process."""
        x = np.ones((2, 24), np.float32)
        for i in range(4):
            folder = self.path(f"cases/case{i}")
            os.makedirs(f"{folder}/test_data_set_0")
            shutil.copy(self.path("rows.onnx"), f"{folder}/model.onnx")
            for name, array in ("input", x), ("output", g.expected_rows(x)):
                with open(f"{folder}/test_data_set_0/{name}_0.pb", "wb") as f:
                    f.write(onnx.numpy_helper.from_array(array).SerializeToString())
        with open(self.path("break"), "w", encoding="utf-8") as f:
            f.write("1")
        ran = self.onnxc("test", "--device=cuda", "--nvrtc", g.DOUBLES, "-j1", "cases", LD_LIBRARY_PATH=g.DOUBLES,
                         CUDA_DOUBLE_BREAK=self.path("break"))
        self.assertIn("FAIL cases/case0", ran.stdout)
        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", ran.stdout)
        self.assertEqual(ran.stdout.splitlines()[-1], "3 passed, 1 failed, 0 skipped")

    # ------------------------------------------------------------ make test-gpu
    def stage(self, *options, says=None, **environment):
        """The last line of the stage cuda over the last two cases of the sample, after one for writing them; says: what compute-sanitizer does."""
        path = self.path("sanitizer/compute-sanitizer")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\nshift 3\n{says}\n")
        os.chmod(path, 0o755)
        ran = subprocess.run([sys.executable, "-W", "ignore", os.path.join(ROOT, "test", "run.py"), "cuda", "--nvrtc", g.DOUBLES, "--from=180",
                              *options], capture_output=True, text=True, timeout=300,
                             env={**os.environ, "LD_LIBRARY_PATH": g.DOUBLES, "PATH": f"{os.path.dirname(path)}:{os.environ['PATH']}",
                                  **environment})
        self.assertEqual(ran.stderr, "")
        return ran.stdout.splitlines()

    def test_the_stage_on_a_gpu(self):
        lines = self.stage("--forms=cuda-sample,cuda-ptx")
        self.assertEqual(lines[-1], "5 passed, 0 failed, 0 skipped", lines)
        lines = self.stage("--forms=cuda-sample", "--limit=0")
        self.assertEqual(lines[0], "skip cuda: cuda-sample: after 0 s the cases from 180 on are left: --forms=cuda-sample --from=180")
        lines = self.stage("--forms=cuda-sample", CUDA_DOUBLE_DEVICES="0")
        self.assertEqual(lines[0], "skip cuda: cuda: there is no GPU: the driver starts with error 100")

    def test_the_stage_under_compute_sanitizer(self):
        for says, last in (('"$@" && echo "========= ERROR SUMMARY: 0 errors"', "3 passed, 0 failed, 0 skipped"),
                           ('"$@" && echo "========= RACECHECK SUMMARY: 1 hazard displayed"', "1 passed, 2 failed, 0 skipped"),
                           ("exit 9", "1 passed, 2 failed, 0 skipped"), ("echo Device not supported", "1 passed, 0 failed, 2 skipped")):
            lines = self.stage("--forms=memcheck", says=says)
            self.assertEqual(lines[-1], last, lines)

    def test_nothing_comes_late(self):
        """After a run that failed nothing is written any more to where its outputs were."""
        x, y, i = np.ones((2, 10), np.float32), np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int64)
        for what in b"launch", b"to_host", b"to_device", b"on_device", b"graph", b"alloc":
            for after in range(30):
                with Context(self.models["best"]) as c:
                    first = [np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int64)]
                    c.run([x], [y, i])
                    cuda.cuda_double_fail(what, after)
                    code, _ = c.run([x], first)
                    cuda.cuda_double_fail(b"", 0)
                    first[0][:], first[1][:] = 5, 5
                    self.assertEqual(c.run([x], [y, i]), (OK, ""))
                    self.assertTrue((first[0] == 5).all() and (first[1] == 5).all(), (what, after))
                if code == OK:
                    break

    def test_closing_when_the_driver_has_ended(self):
        program = ("import sys; sys.path.insert(0, sys.argv[1]); import gpu_host as g\n"
                   "m = g.Model(sys.argv[2], 'deep')\n"
                   "c = g.Context(m)\n"
                   "for seed in range(3): g.OnGpu('check_deep').check_deep(c, 5, seed)\n"
                   "g.cuda.cuda_double_end(1)\n"
                   "m.close(c.at)\n")
        ran = subprocess.run([sys.executable, "-c", program, os.path.dirname(os.path.abspath(__file__)), self.path("deep.so")],
                             capture_output=True, text=True, timeout=120)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))

    def test_a_forked_process_has_no_driver(self):
        x, y = np.ones((2, 24), np.float32), np.zeros((2, 8), np.float32)
        with Context(self.models["rows"]) as c:
            self.check_rows(c)
            child = os.fork()
            if not child:
                code, message = c.run([x], [y])
                os._exit(0 if code == GPU_FAILED and "CUDA_ERROR_NOT_INITIALIZED" in message else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.check_rows(c)

    # ------------------------------------------------------------ GPUs and addresses
    def test_two_gpus(self):
        with environment(CUDA_DOUBLE_DEVICES="2"), Context(self.models["rows"]) as first, Context(self.models["rows"], device=1) as second:
            self.assertEqual(counts()["modules"], 2)

            def work(context):
                for n in 3, 40, 3, 3:
                    self.check_rows(context, n)
            self.assertEqual(at_once(work, (first, second, first, second)), [])

    def test_no_elements_and_no_addresses(self):
        with Context(self.models["rows"], device_pointers=1) as c:
            for n in 0, 0, 0:
                self.assertEqual(c.run_at([None, None], [n, 24, n, 8], [0]), (OK, [n, 24, n, 8], ""))

    def test_device_pointers_with_sizes_that_the_data_decide(self):
        x, y = np.array([[1, -1, 2, -2, 3], [-4, -5, 0, 1, -6]], np.float32), np.zeros(4, np.float32)
        at = self.on_device(x, y, -np.abs(x))
        with Context(self.models["chosen"], device_pointers=1) as c:
            code, dims, _ = c.run_at(at[:2], [2, 5, 0], [2])
            self.assertEqual((code, dims[2]), (g.TOO_SMALL, 4))
            code, dims, message = c.run_at(at[:2], [2, 5, 0], [4])
            self.assertEqual((code, dims[2]), (OK, 4), message)
            self.assertEqual(c.run_at([at[2], None], [2, 5, 0], [0])[:2], (OK, [2, 5, 0]))
        self.to_host(at[1], y)
        self.leave_device(*at)
        np.testing.assert_allclose(y, np.exp([1, 2, 3, 1]), rtol=1e-6)

    def test_strings_stay_on_the_host(self):
        """With device pointers too; beside them bools and a scalar."""
        node = onnx.helper.make_node
        graph = onnx.helper.make_graph(
            [node("LabelEncoder", ["s"], ["f"], domain="ai.onnx.ml", keys_strings=["a", "bb"], values_floats=[1.0, 2.0], default_float=0.0),
             node("Mul", ["f", "x"], ["y"]), node("Greater", ["y", "x"], ["b"]), node("ReduceSum", ["y"], ["z"], keepdims=0),
             node("LabelEncoder", ["k"], ["t"], domain="ai.onnx.ml", keys_int64s=[0, 1], values_strings=["no", "yes"], default_string="?")],
            "words", [g.tensor("s", "N", dtype=onnx.TensorProto.STRING), g.tensor("x", "N"), g.tensor("k", "N", dtype=onnx.TensorProto.INT64)],
            [g.tensor("y", "N"), g.tensor("b", "N", dtype=onnx.TensorProto.BOOL), g.tensor("z"), g.tensor("t", "N", dtype=onnx.TensorProto.STRING)])
        sets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("ai.onnx.ml", 2)]
        onnx.save(onnx.helper.make_model(graph, opset_imports=sets, ir_version=9), self.path("words.onnx"))

        class String(ctypes.Structure):
            _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]

        s, t = (String * 3)((b"a", 1), (b"bb", 2), (b"q", 1)), (String * 3)()
        x, k, y, b, z = np.array([3, 4, 5], np.float32), np.array([1, 0, 7]), np.zeros(3, np.float32), np.zeros(3, np.bool_), np.zeros((), np.float32)
        at = self.on_device(x, k, y, b, z)
        with Context(self.compiled("words"), device_pointers=1) as c:
            code, _, message = c.run_at([ctypes.addressof(s), *at, ctypes.addressof(t)], [3] * 6, [3, 3, 1, 3])
        for there, here in zip(at[2:], (y, b, z)):
            self.to_host(there, here)
        self.leave_device(*at)
        self.assertEqual((code, message), (OK, ""))
        self.assertEqual((y.tolist(), b.tolist(), z.item()), ([3, 8, 0], [False, True, False], 11))
        self.assertEqual([v.data for v in t], [b"yes", b"no", b"?"])


if __name__ == "__main__":
    run_unittests("gpu-host", sys.modules[__name__])
