"""Layers with quantised weights."""
import numpy as np
from contrib_build import Case, answer, floats, maybe, numbers, op, pick
from qlinear import integers
from quant_product import some_scales


@op("QEmbedLayerNormalization")
def qembed_layer_normalization(dice):
    dtype, batch, length, hidden = pick(dice, np.int8, np.uint8), pick(dice, 1, 3), pick(dice, 1, 4, 7), pick(dice, 8, 33)
    segments, one = dice.random() < 0.5, pick(dice, (), (1,))
    rows = [11, length + pick(dice, 0, 3), 2]
    tables = [integers(dice, dtype, count, hidden) for count in rows]
    ids = numbers(dice, 0, rows[0], batch, length, dtype=np.int32)
    mask = numbers(dice, 0, 2, batch, length, dtype=np.int32)
    scale = [some_scales(dice, *one) for _ in range(5)]
    zero = [integers(dice, dtype, *one) for _ in range(5)]
    if not segments:
        tables[2] = scale[2] = zero[2] = None
    inputs = [ids, numbers(dice, 0, 2, batch, length, dtype=np.int32) if segments else None, *tables,
              integers(dice, dtype, hidden), integers(dice, dtype, hidden), maybe(dice, mask), *scale, *zero]
    constants = tuple(i for i in range(2, 18) if i != 7 and inputs[i] is not None)
    return Case(inputs, pick(dice, {}, {"epsilon": 1e-5}), outputs=2, constants=constants if dice.random() < 0.7 else (), rtol=1e-4, atol=1e-4)


def real(data, scale, zero):
    shape = (data.shape[0], 1, -1)
    return (data.astype(np.float32) - zero.astype(np.float32).reshape(shape)) * scale.reshape(shape)


@op("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(dice):
    dtype, length, batch = pick(dice, np.int8, np.uint8), pick(dice, 1, 5), pick(dice, 1, 3)
    size, hidden = pick(dice, 4, 9), pick(dice, 3, 8)
    direction = pick(dice, "forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    of = pick(dice, (d,), (d, 4 * hidden))
    w, r = integers(dice, dtype, d, size, 4 * hidden), integers(dice, dtype, d, hidden, 4 * hidden)
    sw, sr = some_scales(dice, *of) / 8, some_scales(dice, *of) / 8
    zw, zr = (np.zeros(of, dtype) if dtype == np.int8 else np.full(of, 128, dtype) for _ in range(2))
    others = [maybe(dice, floats(dice, d, 8 * hidden)), maybe(dice, numbers(dice, 1, length + 1, batch, dtype=np.int32)),
              maybe(dice, floats(dice, d, batch, hidden)), maybe(dice, floats(dice, d, batch, hidden)), maybe(dice, floats(dice, d, 3 * hidden))]
    attributes = {"hidden_size": hidden, "direction": direction, **pick(dice, {}, {"clip": 2.0}), **pick(dice, {}, {"input_forget": 1}),
                  **pick(dice, {}, {"activations": ["Sigmoid", "Tanh", "Relu"] * d})}
    # Without Y ONNX Runtime goes on with rows that have ended, and takes them into the range of the state.
    outputs = pick(dice, 3, 1, ["y0", "", "y2"], ["", "y1", "y2"] if batch == 1 or others[1] is None else 3)
    x = floats(dice, length, batch, size)
    inputs = [x, w, r, *others, sw, zw, sr, zr]
    constants = tuple(i for i in (1, 2, 8, 9, 10, 11)) if dice.random() < 0.7 else ()
    return Case(inputs, attributes, outputs, constants, rtol=1e-4, atol=1e-5)
