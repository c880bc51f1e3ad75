"""Products with a sparse tensor, which ONNX Runtime takes as an input of the model and onnxc as all its elements; and copies
between devices."""
import numpy as np
import onnxruntime as ort
from contrib_build import MICROSOFT, Case, maybe, numbers, op, pick
from onnx import helper, numpy_helper

TYPES = (np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64)


def sparse_value(a, dice):
    cpu = ort.OrtDevice.make("cpu", 0)
    places = np.argwhere(a)
    values = a[tuple(places.T)]
    if dice.integers(2):
        return ort.SparseTensor.sparse_coo_from_numpy(np.array(a.shape), values, places.reshape(-1), cpu)
    rows = np.append(0, np.cumsum((a != 0).sum(1)))
    return ort.SparseTensor.sparse_csr_from_numpy(np.array(a.shape), values, places[:, 1].copy(), rows, cpu)


def sparse_initializer(a, linear):
    places = np.argwhere(a)
    values = numpy_helper.from_array(a[tuple(places.T)], "x0")
    indices = np.ravel_multi_index(places.T, a.shape) if linear else places
    return helper.make_sparse_tensor(values, numpy_helper.from_array(indices.astype(np.int64), "places"), a.shape)


def model_of(attributes, a, b, held, sizes=True):
    """Without sizes ONNX Runtime runs more: its shape inference takes no transposed tensor."""
    shapes = (a.shape, b.shape) if sizes else (["M", "K"], ["L", "N"])
    code = helper.np_dtype_to_tensor_dtype(a.dtype)
    node = helper.make_node("SparseToDenseMatMul", ["x0", "x1"], ["y0"], domain=MICROSOFT, **attributes)
    infos = [helper.make_tensor_value_info("x1", code, shapes[1])]
    if not held:
        infos.insert(0, helper.make_sparse_tensor_value_info("x0", code, shapes[0]))
    graph = helper.make_graph([node], "case", infos, [helper.make_tensor_value_info("y0", code, None)], sparse_initializer=held)
    versions = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


@op("SparseToDenseMatMul")
def sparse_to_dense_matmul(dice):
    dtype, rows, inner, columns = pick(dice, *TYPES), pick(dice, 1, 3, 9), pick(dice, 1, 4, 7), pick(dice, 1, 2, 5)
    a = numbers(dice, 1, 9, rows, inner, dtype=dtype) * (dice.random((rows, inner)) < pick(dice, 0.2, 0.5)).astype(dtype)
    a[0, 0] = 1
    b = numbers(dice, 0, 9, inner, columns, dtype=dtype)
    attributes = {**pick(dice, {}, {"alpha": 0.5}), **pick(dice, {}, {"transA": 1}), **pick(dice, {}, {"transB": 1})}
    a, b = (a.T.copy() if "transA" in attributes else a), (b.T.copy() if "transB" in attributes else b)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model_of(attributes, a, b, [], False).SerializeToString(), options)
    feeds = {"x0": ort.OrtValue.ort_value_from_sparse_tensor(sparse_value(a, dice)), "x1": ort.OrtValue.ortvalue_from_numpy(b)}
    expected = [v.numpy() for v in session.run_with_ort_values(None, feeds)]
    held = maybe(dice, [sparse_initializer(a, dice.integers(2))])
    return Case([b] if held else [a, b], model=model_of(attributes, a, b, held or []), expected=expected)


def copy(dice):
    x = numbers(dice, 0, 2, *pick(dice, (), (3,), (2, 0), (2, 3)), dtype=pick(dice, np.float32, np.int64, np.bool_, np.float16))
    return Case([x], expected=[x])


op("MemcpyFromHost", domain="")(copy)
op("MemcpyToHost", domain="")(copy)
