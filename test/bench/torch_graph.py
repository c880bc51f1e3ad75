"""An ONNX graph of the benchmarks' networks as a torch module: each node is what one would write in torch."""
import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.nn import functional as F


def conv(x, w, b=None, *, strides=(1, 1), pads=(0, 0, 0, 0), group=1, dilations=(1, 1), **_):
    if tuple(pads[:2]) != tuple(pads[2:]):
        raise NotImplementedError("uneven padding")
    return F.conv2d(x, w, b, tuple(strides), tuple(pads[:2]), tuple(dilations), group)


def reshape(x, shape, **_):
    return x.reshape([x.shape[i] if n == 0 else int(n) for i, n in enumerate(shape)])


def unsqueeze(x, axes):
    for axis in sorted(axes):
        x = x.unsqueeze(int(axis))
    return x


def gemm(x, w, b, *, transA=0, transB=0, **_):
    return torch.addmm(b, x.t() if transA else x, w.t() if transB else w)


def gather(x, places, axis=0):
    if torch.is_tensor(places):
        return F.embedding(places, x)
    return torch.stack([x.select(axis, n) for n in places], axis) if isinstance(places, list) else x.select(axis, places)


OPERATORS = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow, "Sqrt": torch.sqrt, "Erf": torch.erf,
    "Relu": torch.relu, "MatMul": torch.matmul, "Conv": conv, "Gemm": gemm, "Reshape": reshape, "Unsqueeze": unsqueeze,
    "Clip": lambda x, low, high: torch.minimum(torch.maximum(x, low), high),
    "MaxPool": lambda x, kernel_shape, strides, pads=(0, 0, 0, 0): F.max_pool2d(x, kernel_shape, strides, pads[:2]),
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdim=True),
    "Flatten": lambda x, axis: x.flatten(axis),
    "Transpose": lambda x, perm: x.permute(perm),
    "Softmax": lambda x, axis: torch.softmax(x, axis),
    "ReduceMean": lambda x, axes: x.mean(axes, keepdim=True),
    "Concat": lambda *x, axis: torch.cat([t.expand(max(u.shape[0] for u in x), *t.shape[1:]) for t in x], axis),
}


class TorchGraph(torch.nn.Module):
    def __init__(self, path, kind, device):
        super().__init__()
        graph = onnx.load(path).graph
        missing = {n.op_type for n in graph.node} - set(OPERATORS) - {"Gather", "Cast"}
        if missing:
            raise NotImplementedError(f"{', '.join(sorted(missing))} in torch")
        self.kind, self.device = kind, device
        self.inputs, self.outputs = [v.name for v in graph.input], [v.name for v in graph.output]
        self.nodes = [(n.op_type, list(n.input), n.output[0], {a.name: onnx.helper.get_attribute_value(a) for a in n.attribute})
                      for n in graph.node]
        self.constants = {}
        for c in graph.initializer:
            a = numpy_helper.to_array(c)
            self.constants[c.name] = self.value(a) if a.dtype == np.float32 else a.tolist()

    def value(self, array):
        t = torch.from_numpy(np.array(array)).to(self.device)
        t = t.to(self.kind) if t.is_floating_point() else t
        return t.contiguous(memory_format=torch.channels_last) if t.ndim == 4 else t

    def forward(self, *inputs):
        at = dict(self.constants)
        at.update(zip(self.inputs, inputs))
        for kind, names, out, attributes in self.nodes:
            args = [at[n] for n in names]
            if kind == "Cast":
                at[out] = args[0].to(self.kind)
            elif kind == "Gather":
                at[out] = gather(*args, **attributes)
            else:
                at[out] = OPERATORS[kind](*args, **attributes)
        return [at[n] for n in self.outputs]
