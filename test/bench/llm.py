"""Steps and prompts of a decoder with random weights (llm_model.py), each engine in turn, outputs compared.

usage: llm.py ONNXC [--weights int4,int8,dynamic,f16,f32] [--threads N] [--seconds S] [--small] [--engines onnxc,ort,openvino,llama]
                    [--cached 16,1024] [--rows 1,2,4,8,16] [--prompts 128,512] [--capacity N] [--spelling nbits|qdq] [--cache group|scatter|concat]
                    [--precision bf16|int8] [--accuracy-level 4] [--llama LIBRARY]

With --precision onnxc may round operands of products; with --accuracy-level MatMulNBits allows ONNX Runtime to round
activations, 4: to bytes.

A step is one token with so many cached before it; a prompt has nothing cached. onnxc, ONNX Runtime and OpenVINO read the same
file, llama.cpp (a libllama.so, or the package xllamacpp, with the package gguf) the same numbers as GGUF. With --rows a step is so many tokens, as those
that a smaller model proposes. Also printed: how many bytes a second of packed weights and caches a step of onnxc reads, and
its share of the bandwidth that as many threads measure beside it which only read memory.
"""
import argparse
import concurrent.futures
import ctypes
import os
import sys
import tempfile
import time

import llm_model
import llm_reference
import numpy as np
import onnx
import peers

TOLERANCE = {"int4": 3e-2, "int8": 3e-2, "dynamic": 3e-2, "f16": 1e-2, "f32": 1e-3}  # llama.cpp and OpenVINO quantise activations

class Caches:
    """The arrays of one engine's caches, in the order of the model's inputs."""

    def __init__(self, shape, rows):
        self.arrays = [np.zeros((1, shape.kv_heads, rows, shape.head), np.float32) for _ in range(2 * shape.layers)]

    def fill(self, rows):
        for i, a in enumerate(self.arrays):
            part = a[:, :, :rows]
            part[...] = np.random.default_rng(i).standard_normal(part.shape, np.float32)


def names(shape):
    return [(f"past_key_values.{i}.{n}", f"present.{i}.{n}") for i in range(shape.layers) for n in ("key", "value")]


def feeds(arguments, ids, cached, capacity):
    """The inputs besides the caches."""
    total, count = cached + len(ids), len(ids)
    made = {"input_ids": np.array([ids], np.int64)}
    if arguments.cache == "group":
        return made | {"attention_mask": np.ones((1, total), np.int64)}
    made["position_ids"] = np.arange(cached, total, dtype=np.int64)[None]
    rows = np.arange(capacity if arguments.cache == "scatter" else total)[None]
    made["attention_mask"] = rows <= np.arange(cached, total)[:, None]
    if arguments.cache == "scatter":
        made["write_indices"] = np.array([cached], np.int64)
    return made


class Onnxc:
    def __init__(self, arguments, shape, path, folder, library=None):
        self.a, self.shape, self.folder = arguments, shape, folder
        states = [f"--state={new}={old}" for old, new in names(shape)]
        if arguments.cache == "group":
            states.append("--dim=total=1:%d" % arguments.capacity)
        options = ["--threads", str(arguments.threads), *states, *arguments.options.split()]
        if arguments.precision:
            options += ["--precision", arguments.precision]
        bound = "capacity=%d" if arguments.cache != "concat" else "past=0:%d"
        options += ["--dim", bound % arguments.capacity]
        self.model = peers.Compiled(arguments.onnxc, path, folder, options, library)
        self.order = [i.name for i in onnx.load(path, load_external_data=False).graph.input]
        self.outs = [o.name for o in onnx.load(path, load_external_data=False).graph.output]
        self.caches = Caches(shape, arguments.capacity)

    def prepare(self, ids, cached):
        self.caches.fill(cached)
        past = dict(zip([n[0] for n in names(self.shape)], self.caches.arrays))
        present = dict(zip([n[1] for n in names(self.shape)], self.caches.arrays))
        if self.a.cache == "concat":  # the same memory: only the first rows count
            past = {n: a[:, :, :cached] for n, a in past.items()}
            present = {n: a[:, :, :cached + len(ids)] for n, a in present.items()}
        inputs = {n: np.ascontiguousarray(a) for n, a in feeds(self.a, ids, cached, self.a.capacity).items()} | past
        self.logits = np.empty((1, len(ids), self.shape.vocabulary), np.float32)
        outputs = present | {"logits": self.logits}
        self.model.prepare([inputs[n] for n in self.order], [outputs[n] for n in self.outs])

    def run(self):
        self.model.run()
        return self.logits[0, -1]


class Ort:
    def __init__(self, arguments, shape, path, folder):
        self.a, self.shape, self.session = arguments, shape, peers.ort_session(path, arguments.threads)
        self.caches = Caches(shape, arguments.capacity)

    def prepare(self, ids, cached):
        import onnxruntime
        self.caches.fill(cached)
        self.binding = self.session.io_binding()
        for name, array in feeds(self.a, ids, cached, self.a.capacity).items():
            self.binding.bind_cpu_input(name, array)
        self.keep = []
        for (old, new), a in zip(names(self.shape), self.caches.arrays):
            if self.a.cache == "concat":
                a = np.ascontiguousarray(a[:, :, :cached])
            value = onnxruntime.OrtValue.ortvalue_from_numpy(a)
            self.keep.append(value)
            self.binding.bind_ortvalue_input(old, value)
            if self.a.cache == "group":
                self.binding.bind_ortvalue_output(new, value)
            else:
                self.binding.bind_output(new)
        self.binding.bind_output("logits")

    def run(self):
        self.session.run_with_iobinding(self.binding)
        return self.binding.get_outputs()[-1].numpy()[0, -1]


class OpenVino:
    def __init__(self, arguments, shape, path, folder):
        self.a, self.shape = arguments, shape
        quantised = arguments.precision == "int8" or arguments.accuracy_level == 4 or arguments.weights == "dynamic"
        self.request = peers.openvino_request(path, arguments.threads, "bf16", bytes_allowed=quantised)
        self.caches = Caches(shape, arguments.capacity)

    def prepare(self, ids, cached):
        self.caches.fill(cached)
        rows = cached if self.a.cache != "scatter" else self.a.capacity
        self.inputs = feeds(self.a, ids, cached, self.a.capacity)
        for (old, _), a in zip(names(self.shape), self.caches.arrays):
            self.inputs[old] = np.ascontiguousarray(a[:, :, :rows])

    def run(self):
        return self.request.infer(self.inputs, share_inputs=True, share_outputs=True)["logits"][0, -1]


class Struct(ctypes.Structure):
    """Parameters of llama.cpp, larger than they are in any version."""
    _fields_ = [("words", ctypes.c_uint32 * 128)]


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("pointers", ctypes.c_void_p * 6)]


class Llama:
    """llama.cpp: the functions that the package's extension module exports, or a library's. Its caches have 16 bits, as they do by default."""

    def __init__(self, arguments, shape, path, folder):
        if arguments.llama:
            library = arguments.llama
        else:
            import xllamacpp.xllamacpp as module
            library = module.__file__
        self.a, self.shape, self.c = arguments, shape, ctypes.CDLL(library)
        file = os.path.join(folder, "model.gguf")
        llm_model.write_gguf(file, shape, "int8" if arguments.weights == "dynamic" else arguments.weights)
        c = self.c
        for name, result, *takes in (("llama_model_load_from_file", ctypes.c_void_p, ctypes.c_char_p, Struct),
                                     ("llama_init_from_model", ctypes.c_void_p, ctypes.c_void_p, Struct),
                                     ("llama_set_n_threads", None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32),
                                     ("llama_model_default_params", Struct), ("llama_context_default_params", Struct),
                                     ("llama_batch_get_one", Batch, ctypes.c_void_p, ctypes.c_int32),
                                     ("llama_decode", ctypes.c_int32, ctypes.c_void_p, Batch),
                                     ("llama_get_memory", ctypes.c_void_p, ctypes.c_void_p),
                                     ("llama_memory_clear", None, ctypes.c_void_p, ctypes.c_bool),
                                     ("llama_memory_seq_rm", ctypes.c_bool, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32,
                                      ctypes.c_int32),
                                     ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_int32),
                                     ("llama_log_set", None, ctypes.c_void_p, ctypes.c_void_p)):
            f = getattr(c, name)
            f.restype, f.argtypes = result, takes
        quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        self.quiet = quiet
        c.llama_log_set(quiet, None)
        c.llama_backend_init()
        model = c.llama_model_load_from_file(file.encode(), c.llama_model_default_params())
        parameters = c.llama_context_default_params()
        parameters.words[0] = arguments.capacity  # n_ctx; n_batch and n_ubatch follow
        parameters.words[1] = parameters.words[2] = 512
        self.context = c.llama_init_from_model(model, parameters)
        if not self.context or c.llama_n_ctx(ctypes.c_void_p(self.context)) < arguments.capacity:
            raise ImportError("llama.cpp does not take the model")
        c.llama_set_n_threads(self.context, arguments.threads, arguments.threads)
        self.memory = c.llama_get_memory(self.context)

    def decode(self, ids):
        tokens = (ctypes.c_int32 * len(ids))(*ids)
        if self.c.llama_decode(self.context, self.c.llama_batch_get_one(tokens, len(ids))):
            sys.exit("llama.cpp: decoding failed")

    def prepare(self, ids, cached):
        self.ids, self.cached = ids, cached
        self.c.llama_memory_clear(self.memory, True)
        for at in range(0, cached, 512):
            self.decode([1] * min(512, cached - at))

    def run(self):
        self.c.llama_memory_seq_rm(self.memory, -1, self.cached, -1)
        self.decode(self.ids)
        return np.ctypeslib.as_array(self.c.llama_get_logits_ith(self.context, -1), (self.shape.vocabulary,))


ENGINES = {"onnxc": Onnxc, "ort": Ort, "openvino": OpenVino, "llama": Llama}


def bandwidth(threads, megabytes=256):
    """GB/s of threads that read memory which no cache holds, each its own."""
    parts = [np.ones(megabytes << 17, np.int64) for _ in range(threads)]
    best = 1e9
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for _ in range(8):
            start = time.perf_counter()
            list(pool.map(np.sum, parts))
            best = min(best, time.perf_counter() - start)
    return sum(a.nbytes for a in parts) / best / 1e9


def check_dynamic(ours, results, ids, cached):
    """No further from the reference than it is from itself, twice (llm_reference.py)."""
    caches = Caches(ours.shape, cached)
    caches.fill(cached)
    right, own = llm_reference.Reference(ours.shape, ids, caches.arrays, cached).sensitivity(peers.difference)
    print("         from the reference: " + ", ".join(f"{n} {peers.difference(results[n], right):.1e}" for n in ("onnxc", "ort") if n in results) +
          f", itself {own:.1e}", flush=True)
    if not peers.difference(results["onnxc"], right) <= max(TOLERANCE["dynamic"], 2 * own):
        sys.exit("the answer differs from the reference")


def measure(engines, arguments, what, ids, cached, bytes_read):
    results = {}
    for name, e in engines.items():
        e.prepare(ids, cached)
        results[name] = np.array(e.run(), np.float32)
    times = peers.in_turns({n: e.run for n, e in engines.items()}, arguments.seconds, best=True)
    ours, others = times["onnxc"], {n: t for n, t in times.items() if n != "onnxc"}
    line = f"{arguments.weights:8s} {what:24s} " + "  ".join(f"{n} {1e3 * t:8.2f} ms" for n, t in times.items())
    if others:
        line += f"  ratio {ours / min(others.values()):.2f}"
    if bytes_read:
        rate, most = bytes_read / ours / 1e9, bandwidth(arguments.threads)
        line += f"  {rate:.1f} of {most:.1f} GB/s ({100 * rate / most:.0f} %)"
    for n, r in results.items():
        if n != "onnxc" and (n != "llama" or cached == 0):  # its caches are filled by tokens
            line += f"  {n}'s difference {peers.difference(results['onnxc'], r):.1e}"
    print(line, flush=True)
    if arguments.weights == "dynamic":
        check_dynamic(engines["onnxc"], results, ids, cached)
    elif "ort" in results and not peers.difference(results["onnxc"], results["ort"]) <= TOLERANCE[arguments.weights]:
        sys.exit("the answers differ")


def bench(arguments, weights, folder):
    arguments.weights = weights
    shape = llm_model.SMALL if arguments.small else llm_model.Shape()
    path = os.path.join(folder, "model.onnx")
    kind = "int8" if weights == "dynamic" else weights
    onnx.save(llm_model.decoder(shape, kind, arguments.spelling, arguments.cache, weights == "dynamic",
                                arguments.capacity, arguments.accuracy_level), path)
    engines = {}
    for name in arguments.engines.split(","):
        try:
            engines[name] = ENGINES[name](arguments, shape, path, folder)
        except (ImportError, RuntimeError) as error:
            print(f"{name}: not measured: {str(error).splitlines()[0][:100]}")
    read = engines["onnxc"].model.bytes - shape.vocabulary * shape.hidden * 4
    random = np.random.default_rng(1)
    for cached in map(int, filter(None, arguments.cached.split(","))):
        caches = 2 * shape.layers * shape.kv_heads * cached * shape.head * 4
        for rows in map(int, arguments.rows.split(",")):
            ids = [7] if rows == 1 else random.integers(0, shape.vocabulary, rows).tolist()
            what = f"step at {cached}" + (f", {rows} rows" if rows > 1 else "")
            measure(engines, arguments, what, ids, cached, read + caches)
    for length in map(int, filter(None, arguments.prompts.split(","))):
        ids = random.integers(0, shape.vocabulary, length).tolist()
        measure(engines, arguments, f"prompt of {length}", ids, 0, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onnxc", type=os.path.abspath)
    parser.add_argument("--weights", default="int4,int8,dynamic,f32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--cached", default="16,1024")
    parser.add_argument("--rows", default="1")
    parser.add_argument("--prompts", default="128,512")
    parser.add_argument("--capacity", type=int, default=2048)
    parser.add_argument("--spelling", choices=["nbits", "qdq"], default="nbits")
    parser.add_argument("--cache", choices=["group", "scatter", "concat"], default="group")
    parser.add_argument("--precision", choices=["bf16", "int8"])
    parser.add_argument("--accuracy-level", type=int, default=0)
    parser.add_argument("--llama", help="libllama.so, for example one compiled for this CPU")
    parser.add_argument("--options", default="")
    arguments = parser.parse_args()
    for weights in arguments.weights.split(","):
        with tempfile.TemporaryDirectory() as folder:
            bench(arguments, weights, folder)


if __name__ == "__main__":
    main()
