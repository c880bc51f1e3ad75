"""RNN, GRU and LSTM with all their options, for the reference evaluator, whose own know one direction and few options; and
ConvTranspose with groups, of which its own takes one output channel and the bias of the first.

Written from the text of the standard: equations, order of gates, what lengths of sequences mean. Clip bounds the sums of
gates, not the cell that LSTM's last function takes: so ONNX Runtime reads the text, and onnxc.
"""
import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_conv_transpose import ConvTranspose as OneGroup


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


FUNCTIONS = {
    "Sigmoid": sigmoid,
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Softplus": lambda x: np.log1p(np.exp(x)),
}


def run(x, w, r, b, lengths, states, gates, defaults, step, direction, hidden_size, activations, clip, layout):
    """Y and the last states. step(gates of x, states, functions, weights of one direction) gives the next states."""
    if layout:
        x, states = x.swapaxes(0, 1), [None if s is None else s.swapaxes(0, 1) for s in states]
    length, batch = x.shape[:2]
    count = 2 if direction == "bidirectional" else 1
    lengths = np.full(batch, length) if lengths is None else lengths
    bound = (lambda v: v) if not clip else (lambda v: np.clip(v, -clip, clip))
    names = [n if isinstance(n, str) else n.decode() for n in activations or defaults * count]
    y = np.zeros((length, count, batch, hidden_size), x.dtype)
    last = [np.zeros((count, batch, hidden_size), x.dtype) for _ in states]
    for d in range(count):
        each = len(defaults)
        own = [FUNCTIONS[n] for n in names[d * each:(d + 1) * each]]
        functions = [lambda v, f=f: f(bound(v)) for f in own[:2]] + own[2:]
        size = gates * hidden_size
        wb, rb = (np.zeros(size), np.zeros(size)) if b is None else (b[d][:size], b[d][size:])
        for n in range(batch):
            now = [np.zeros(hidden_size, x.dtype) if s is None else s[d, n] for s in states]
            times = range(int(lengths[n]))
            for t in reversed(times) if direction == "reverse" or d == 1 else times:
                now = step(x[t, n] @ w[d].T + wb, now, functions, r[d], rb, d)
                y[t, d, n] = now[0]
            for s, state in zip(last, now):
                s[d, n] = state
    if layout:
        return (y.transpose(2, 0, 1, 3), *[s.swapaxes(0, 1) for s in last])
    return (y, *last)


class RNN(OpRun):
    op_domain = ""

    def _run(self, x, w, r, b=None, lengths=None, h=None, activation_alpha=None, activation_beta=None, activations=None,
             clip=None, direction=None, hidden_size=None, layout=None):
        def step(a, now, functions, r, rb, _):
            return [functions[0](a + now[0] @ r.T + rb)]
        return run(x, w, r, b, lengths, [h], 1, ["Tanh"], step, direction, hidden_size, activations, clip, layout)


class GRU(OpRun):
    op_domain = ""

    def _run(self, x, w, r, b=None, lengths=None, h=None, activation_alpha=None, activation_beta=None, activations=None,
             clip=None, direction=None, hidden_size=None, layout=None, linear_before_reset=None):
        def step(a, now, functions, r, rb, _):
            f, g = functions
            (az, ar, ah), (rz, rr, rh), (bz, br, bh) = np.split(a, 3), np.split(r, 3), np.split(rb, 3)
            z, reset = f(az + now[0] @ rz.T + bz), f(ar + now[0] @ rr.T + br)
            inner = reset * (now[0] @ rh.T + bh) if linear_before_reset else (reset * now[0]) @ rh.T + bh
            return [(1 - z) * g(ah + inner) + z * now[0]]
        return run(x, w, r, b, lengths, [h], 3, ["Sigmoid", "Tanh"], step, direction, hidden_size, activations, clip, layout)


class LSTM(OpRun):
    op_domain = ""

    def _run(self, x, w, r, b=None, lengths=None, h=None, c=None, p=None, activation_alpha=None, activation_beta=None,
             activations=None, clip=None, direction=None, hidden_size=None, input_forget=None, layout=None):
        def step(a, now, functions, r, rb, d):
            f, g, out = functions
            i, o, forget, cell = np.split(a + now[0] @ r.T + rb, 4)
            pi, po, pf = np.split(p[d], 3) if p is not None else (0, 0, 0)
            i = f(i + pi * now[1])
            forget = 1 - i if input_forget else f(forget + pf * now[1])
            cell = forget * now[1] + i * g(cell)
            return [f(o + po * cell) * out(cell), cell]
        return run(x, w, r, b, lengths, [h, c], 4, ["Sigmoid", "Tanh", "Tanh"], step, direction, hidden_size, activations,
                   clip, layout)


class ConvTranspose(OneGroup):
    op_domain = ""

    def _run(self, x, w, b=None, group=None, **attributes):
        group = group or 1
        biases = [None] * group if b is None else np.split(b, group)
        parts = [OneGroup._run(self, *given, group=1, **attributes)[0]
                 for given in zip(np.split(x, group, 1), np.split(w, group), biases)]
        return (np.concatenate(parts, 1),)


OPERATORS = [RNN, GRU, LSTM, ConvTranspose]
