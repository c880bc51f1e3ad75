"""AttnLSTM."""
import numpy as np
from contrib_build import Case, floats, maybe, numbers, op, pick

FUNCTIONS = {"Relu": "", "Tanh": "", "Sigmoid": "", "Affine": "ab", "LeakyRelu": "a", "ThresholdedRelu": "a", "ScaledTanh": "ab",
             "HardSigmoid": "ab", "Elu": "a", "Softsign": "", "Softplus": ""}


def activations(dice, count):
    names = [pick(dice, *FUNCTIONS) for _ in range(count)]
    numbers_of = {key: [float(dice.uniform(0.2, 1)) for name in names if key in FUNCTIONS[name]] for key in "ab"}
    return {"activations": names, **({"activation_alpha": numbers_of["a"]} if numbers_of["a"] else {}),
            **({"activation_beta": numbers_of["b"]} if numbers_of["b"] else {})}


@op("AttnLSTM", count=40)
def attn_lstm(dice):
    direction = pick(dice, None, "forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    length, batch, size, hidden = pick(dice, 1, 2, 4), pick(dice, 1, 2, 3), pick(dice, 1, 3), pick(dice, 1, 2, 5)
    steps, depth, inner, outer = pick(dice, 1, 3, 4), pick(dice, 1, 3), pick(dice, 1, 4), pick(dice, 0, 0, 1, 3)
    attention = outer or depth
    lengths = maybe(dice, numbers(dice, 1, length + 1, batch, dtype=np.int32))
    inputs = [floats(dice, length, batch, size), floats(dice, d, 4 * hidden, size + attention, scale=0.5),
              floats(dice, d, 4 * hidden, hidden, scale=0.5), maybe(dice, floats(dice, d, 8 * hidden)), lengths,
              maybe(dice, floats(dice, d, batch, hidden)), maybe(dice, floats(dice, d, batch, hidden)),
              maybe(dice, floats(dice, d, 3 * hidden)), floats(dice, d, hidden, inner), floats(dice, d, depth, inner),
              floats(dice, d, inner), floats(dice, batch, steps, depth),
              maybe(dice, numbers(dice, 1, steps + 1, batch, dtype=np.int32)),
              floats(dice, d, depth + hidden, outer) if outer else None]
    attributes = {"hidden_size": hidden, **pick(dice, {}, {"clip": 0.7}), **pick(dice, {}, {"input_forget": 1}),
                  **({"direction": direction} if direction else {}), **pick(dice, {}, {}, activations(dice, 3 * d))}
    # Without Y, ONNX Runtime attends to what it does not hold.
    return Case(inputs, attributes, outputs=["y0", pick(dice, "", "y1"), pick(dice, "", "y2")],
                constants=pick(dice, (), (1, 2, 8, 9, 10)))
