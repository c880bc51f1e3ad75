"""Exports models: the .onnx file, inputs at several sizes and ONNX Runtime's answers, as a folder that `onnxc test` takes.

usage: export.py NAME legacy|dynamo OPSET FOLDER     OPSET 0: the exporter's own
       export.py                                     such lines from its input, each answered by an exit code
Without arguments each model gets a process of its own, forked after the packages are imported, which takes the most time.
"""
import inspect
import os
import shutil
import sys
import traceback
import warnings

import numpy as np
import onnx
import onnxruntime
import torch

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cases"))

import control  # noqa: E402,F401
import decoders  # noqa: E402,F401
import detect  # noqa: E402,F401
import diffusion  # noqa: E402,F401
import experts  # noqa: E402,F401
import recurrent  # noqa: E402,F401
import relations  # noqa: E402,F401
import segment  # noqa: E402,F401
import series  # noqa: E402,F401
import speech  # noqa: E402,F401
import text  # noqa: E402,F401
import timm_nets  # noqa: E402,F401
import vision  # noqa: E402,F401
from case_files import write_case  # noqa: E402
from spec import EXPORTS  # noqa: E402


def dynamic_shapes(spec, example):
    """Of each input, in order: {axis: dim}. The names that repeat become one dim."""
    made = [{axis: torch.export.Dim.DYNAMIC for axis in spec.dynamic.get(name, {})} or None for name in spec.input_names]
    if isinstance(spec.module(), torch.nn.Module) and any(p.kind == p.VAR_POSITIONAL for p in parameters(spec)):
        fixed = sum(p.kind != p.VAR_POSITIONAL for p in parameters(spec))
        return (*made[:fixed], tuple(made[fixed:])) if len(example) > fixed else tuple(made)
    return tuple(made)


def parameters(spec):
    return list(inspect.signature(spec.module().forward).parameters.values())


def export(spec, exporter, opset, path):
    module, example = spec.module(), spec.example(0)
    options = {"opset_version": opset} if opset else {}
    if exporter == "legacy":
        torch.onnx.export(module, example, path, input_names=spec.input_names, output_names=spec.output_names,
                          dynamic_axes=spec.dynamic, dynamo=False, **options)
    else:
        shapes = dynamic_shapes(spec, example) if spec.dynamic else None
        if shapes:  # sizes of one are taken for constants
            example = spec.example(1)
        torch.onnx.export(module, example, path, input_names=spec.input_names, output_names=spec.output_names,
                          dynamic_shapes=shapes, dynamo=True, external_data=False, verbose=False, **options)


def answers(path, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    made = []
    for feed in feeds:
        try:
            made.append(session.run(None, feed))
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail as why:
            print("ONNX Runtime:", why)
            made.append(None)
    if made[0] is None:
        sys.exit("ONNX Runtime cannot run the exported model")
    return made


def dependence(one, other):
    """How far the answers for two inputs are apart, relative to the largest element: near 0 nothing would be compared."""
    if any(a.shape != b.shape for a, b in zip(one, other)):
        return 1.0
    return max((float(np.max(np.abs(a.astype(np.float64) - b)) / max(1e-30, np.max(np.abs(a)))) for a, b in zip(one, other)
                if a.size), default=0.0)


def make(name, exporter, opset, folder):
    warnings.filterwarnings("ignore")
    torch.backends.mha.set_fastpath_enabled(False)  # an operator of its own, which neither exporter knows
    spec = EXPORTS[name]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    path = os.path.join(folder, "exported.onnx")
    with torch.no_grad():
        export(spec, exporter, int(opset), path)
    model = onnx.load(path)
    names = [i.name for i in model.graph.input]
    arrays = [[np.ascontiguousarray(t.numpy()) for t in spec.example(k)] for k in range(len(spec.sizes))]
    kept = [[a for n, a in zip(spec.input_names, a) if n in names] for a in arrays]
    right = answers(path, [dict(zip(names, a)) for a in kept])
    another = [t.numpy() for n, t in zip(spec.input_names, spec.example(0, seed=200)) if n in names]
    if dependence(right[0], answers(path, [dict(zip(names, another))])[0]) < 0.005:
        sys.exit("the answers hardly depend on the inputs: there is nothing to compare")
    shutil.rmtree(folder)
    both = [pair for pair in zip(kept, right) if pair[1] is not None]  # what was traced may hold for few sizes only
    write_case(folder, model, both, rtol=spec.rtol, atol=spec.rtol)
    if spec.unordered:
        open(os.path.join(folder, "unordered"), "w").close()


def forked(line):
    """The exit code of a child that does this line; what it prints goes to FOLDER.log."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    log = os.open(line[3] + ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        make(*line)
        code = 0
    except BaseException:  # SystemExit too: the child must not go on with the loop
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main():
    if len(sys.argv) > 1:
        make(*sys.argv[1:])
    else:
        torch.set_num_threads(1)  # threads do not survive a fork
        for line in sys.stdin:
            print(forked(line.split()), flush=True)


if __name__ == "__main__":
    main()
