"""Mixtures of experts."""
import numpy as np
from ml_dtypes import bfloat16, float4_e2m1fn, float8_e4m3fn, float8_e8m0fnu
from contrib_build import Case, floats, maybe, numbers, op, pick
from quant_weights import unpacked


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def activated(name, h, fusion, gate, *, activation_alpha=1.0, activation_beta=0.0, swiglu_limit=np.inf,
              swiglu_limit_after_activation=0):
    after = swiglu_limit_after_activation
    if name in ("swiglu", "geglu"):
        g, l = (h[..., ::2], h[..., 1::2]) if fusion == 1 else np.split(h, 2, -1) if fusion == 2 else (h, gate)
        if name == "geglu":
            return activated("gelu", g, 0, l)
        low = np.minimum(g, np.inf if after else swiglu_limit)
        low = low / (1 + np.exp(-activation_alpha * low))
        return (np.minimum(low, swiglu_limit) if after else low) * (np.clip(l, -swiglu_limit, swiglu_limit) + activation_beta)
    h = {"relu": lambda v: np.maximum(v, 0), "relu2": lambda v: np.maximum(v, 0) ** 2, "identity": lambda v: v, "silu": lambda v: v / (1 + np.exp(-v)),
         "gelu": lambda v: 0.5 * v * (1 + np.tanh(0.7978845608 * (v + 0.044715 * v**3)))}[name](h)
    return h if gate is None else h * gate


def mixture(x, router, layers, mixing=None, *, k=1, activation_type="relu", normalize_routing_weights=0, swiglu_fusion=0, **options):
    """layers: weights and bias of fc1, fc2, fc3 (None where there is none)."""
    tokens = x.reshape(-1, x.shape[-1]).astype(np.float64)
    p = softmax(router.astype(np.float64))
    rows = []
    for i, token in enumerate(tokens):
        chosen = np.argsort(-p[i], kind="stable")[:k]
        weights = (p if mixing is None else mixing.astype(np.float64))[i, chosen]
        weights = weights / weights.sum() if normalize_routing_weights else weights
        def product(layer, v, e):
            return None if layer[0] is None else layer[0][e] @ v + (0 if layer[1] is None else layer[1][e])
        total = 0
        for e, weight in zip(chosen, weights):
            h = activated(activation_type, product(layers[0], token, e), swiglu_fusion, product(layers[2], token, e), **options)
            total = total + weight * product(layers[1], h, e)
        rows.append(total)
    return np.stack(rows).reshape(x.shape).astype(x.dtype) if rows else x


def drawn_options(dice):
    attributes = {"activation_type": pick(dice, "relu", "relu2", "gelu", "silu", "identity", "swiglu", "swiglu", "swiglu", "geglu"),
                  **pick(dice, {}, {"normalize_routing_weights": 0}, {"normalize_routing_weights": 1}), **pick(dice, {}, {"k": 1}, {"k": 2}, {"k": 3})}
    if attributes["activation_type"] == "swiglu":
        attributes["swiglu_fusion"] = pick(dice, 0, 1, 1, 1, 2)
        attributes.update(pick(dice, {}, {"activation_alpha": 1.702, "activation_beta": 1.0}))
        attributes.update(pick(dice, {}, {"swiglu_limit": 1.5}, {"swiglu_limit": 0.2, "swiglu_limit_after_activation": 1}))
    if attributes["activation_type"] == "geglu":
        attributes["swiglu_fusion"] = pick(dice, 1, 2)
    return attributes


def gated(attributes, dice):
    return attributes.get("swiglu_fusion") == 0 if attributes["activation_type"] == "swiglu" else dice.random() < 0.2


@op("MoE")
def moe(dice):
    tokens = pick(dice, (5,), (1,), (2, 3), (1, 1), (40,), (2, 60))
    hidden, inner, count = pick(dice, 4, 16, 33), pick(dice, 8, 17), pick(dice, 3, 4, 8)
    attributes = drawn_options(dice)
    gate = gated(attributes, dice)
    width = inner * (2 if attributes.get("swiglu_fusion") else 1)
    inputs = [floats(dice, *tokens, hidden), floats(dice, int(np.prod(tokens)), count), floats(dice, count, width, hidden, scale=0.3),
              maybe(dice, floats(dice, count, width)), floats(dice, count, hidden, inner, scale=0.3), maybe(dice, floats(dice, count, hidden)),
              floats(dice, count, inner, hidden, scale=0.3) if gate else None, maybe(dice, floats(dice, count, inner)) if gate else None]
    while inputs[-1] is None:
        inputs.pop()
    case = Case(inputs, attributes, constants=tuple(i for i in range(2, len(inputs)) if inputs[i] is not None) if dice.random() < 0.7 else (),
                rtol=1e-4, atol=1e-4)
    if gate or attributes.get("swiglu_fusion") == 2 or {"relu2", "geglu"} & {attributes["activation_type"]} or "swiglu_limit_after_activation" in attributes:  # ONNX Runtime's CPU provider lacks these
        layers = [(inputs + [None] * 2)[i:i + 2] for i in (2, 4, 6)]
        case.expected = [mixture(*inputs[:2], layers, **attributes)]
    return case


def quantised(dice, bits, block, count, columns, rows, dtype):
    """Weights, scales, zero points, and the floats that they stand for."""
    w = numbers(dice, 0, 256, count, columns, rows * bits // 8, dtype=np.uint8)
    per = (rows // block,) if block else ()
    scales = (dice.random((count, columns, *per)) * 2.0**-bits * 0.3).astype(dtype)
    packed = (count, columns, -(-rows // block * bits // 8)) if block else (count, -(-columns * bits // 8))
    packed = (count, columns, -(-(rows // block) * bits // 8)) if block else packed
    zero = maybe(dice, numbers(dice, 0, 256, *packed, dtype=np.uint8))
    z = np.full((count, columns, 1), 2.0 ** (bits - 1)) if zero is None else (
        unpacked(zero, bits)[..., :scales.shape[-1]].astype(np.float64).reshape(count, columns, -1))
    s = scales.astype(np.float64).reshape(count, columns, -1)
    spread = rows // s.shape[-1]
    real = (unpacked(w, bits) - np.repeat(z, rows // z.shape[-1], -1)) * np.repeat(s, spread, -1)
    return w, scales, zero, real


def small_floats(dice, kind, count, columns, rows, block, dtype):
    """Weights, scales, global scale (None: there is none), attributes of QMoE, and the floats that they stand for."""
    overall, per = (dice.random(count) * 0.5 + 0.1).astype(np.float32), None
    if kind == "fp8":
        w = floats(dice, count, columns, rows, scale=0.5).astype(float8_e4m3fn)
        real = w.astype(np.float64)
        if not block:
            return w, None, overall, real * overall[:, None, None]
        scales = (dice.random((count, -(-columns // block), -(-rows // block))) * 0.3).astype(dtype)
        spread = scales.astype(np.float64)[:, np.arange(columns) // block][:, :, np.arange(rows) // block]
        return w, scales, None, real * spread
    w = numbers(dice, 0, 256, count, columns, rows // 2, dtype=np.uint8)
    per = 16 if kind.startswith("nvfp4") else 32
    scales = (2.0 ** dice.integers(-3, 2, (count, columns, rows // per))).astype(float8_e8m0fnu if per == 32 else float8_e4m3fn)
    codes = unpacked(w, 4)
    real = codes.astype(np.uint8).view(float4_e2m1fn).astype(np.float64)
    real = real * np.repeat(scales.astype(np.float64), per, -1) * overall[:, None, None]
    if kind == "nvfp4":  # two columns in a byte
        turned = codes.transpose(0, 2, 1)
        w = (turned[..., ::2] | turned[..., 1::2] << 4).astype(np.uint8)
    elif kind == "nvfp4 prepacked":  # only called so
        w = w.reshape(count, rows, columns // 2)
    return w, scales, overall, real


def float_experts(dice):
    """The CPU provider has none of them: by the documentation."""
    kind, tokens, count = pick(dice, "fp4", "nvfp4", "nvfp4 prepacked", "fp8"), pick(dice, (5,), (1,), (2, 3), (40,)), pick(dice, 3, 4)
    hidden, inner, block = pick(dice, 32, 64), pick(dice, 32, 96), pick(dice, 0, 16, 20)
    attributes = drawn_options(dice)
    if kind != "fp8":
        block = 0
    if "swiglu_fusion" in attributes and attributes["swiglu_fusion"] == 0:
        attributes["swiglu_fusion"] = 2
    width = inner * (2 if attributes.get("swiglu_fusion") else 1)
    dtype = pick(dice, np.float32, np.float16, bfloat16)
    of_scales = pick(dice, np.float32, np.float16)
    layers = [small_floats(dice, kind, count, *sizes, block, of_scales) for sizes in ((width, hidden), (hidden, inner))]
    biases = [maybe(dice, floats(dice, count, n, dtype=dtype)) for n in (width, hidden)]
    rows = int(np.prod(tokens))
    inputs = [floats(dice, *tokens, hidden, dtype=dtype), floats(dice, rows, count, dtype=dtype)]
    for layer, bias in zip(layers, biases):
        inputs += [layer[0], layer[1], bias]
    inputs += [None] * 7 + [layers[0][2], layers[1][2]]
    while inputs[-1] is None:
        inputs.pop()
    options = {**attributes, "normalize_routing_weights": 1}
    expected = [mixture(*inputs[:2], [(layer[3], bias) for layer, bias in zip(layers, biases)] + [(None, None)], **options)]
    attributes |= {"quant_type": kind.split()[0], **({"block_size": block} if block else {}), **({"weights_prepacked": 1} if "prepacked" in kind else {})}
    constants = tuple(i for i in range(2, len(inputs)) if inputs[i] is not None) if dice.random() < 0.7 else ()
    return Case(inputs, attributes, constants=constants, rtol=1e-3 if dtype == np.float32 else 2e-2, atol=1e-3 if dtype == np.float32 else 5e-2, expected=expected)


@op("QMoE", count=30)
def qmoe(dice):
    if dice.random() < 0.3:
        return float_experts(dice)
    tokens = pick(dice, (5,), (1,), (2, 3), (1, 1), (40,))
    count, dtype = pick(dice, 3, 4, 8), pick(dice, np.float32, np.float32, np.float16)
    hidden, inner, block, bits = pick(dice, 32, 64), pick(dice, 32, 96), pick(dice, None, 16, 32), pick(dice, 2, 4, 4, 8)
    attributes = drawn_options(dice)
    gate = gated(attributes, dice)
    width = inner * (2 if attributes.get("swiglu_fusion") else 1)
    if block:
        attributes["block_size"] = block
    if bits != 4 or dice.random() < 0.5:
        attributes["expert_weight_bits"] = bits
    layers = [quantised(dice, bits, block, count, width, hidden, dtype), quantised(dice, bits, block, count, hidden, inner, dtype),
              quantised(dice, bits, block, count, inner, hidden, dtype) if gate else (None,) * 4]
    biases = [maybe(dice, floats(dice, count, n, dtype=dtype)) for n in (width, hidden, inner)]
    biases[2] = biases[2] if gate else None
    rows = int(np.prod(tokens))
    mixing = maybe(dice, dice.random((rows, count)).astype(dtype), 0.25)
    inputs = [floats(dice, *tokens, hidden, dtype=dtype), floats(dice, rows, count, dtype=dtype)]
    for layer, bias in zip(layers, biases):
        inputs += [layer[0], layer[1], bias]
    inputs += [layer[2] for layer in layers] + [mixing]
    while inputs[-1] is None:
        inputs.pop()
    options = {k: v for k, v in attributes.items() if k not in ("block_size", "expert_weight_bits")}
    if mixing is None:  # the softmax of the k largest
        options["normalize_routing_weights"] = 1
    expected = [mixture(*inputs[:2], [(layer[3], bias) for layer, bias in zip(layers, biases)], mixing, **options)]
    constants = tuple(i for i in range(2, 14) if i < len(inputs) and inputs[i] is not None)
    return Case(inputs, attributes, constants=constants, rtol=1e-3, atol=1e-3 if dtype == np.float32 else 1e-2, expected=expected)


# ---- Routers
@op("MoEGroupRouter")
def moe_group_router(dice):
    tokens, dtype = pick(dice, (5,), (1,), (2, 3), (0,)), pick(dice, np.float32, np.float16, bfloat16)
    groups, each = pick(dice, 1, 2, 4), pick(dice, 2, 3, 8)
    best, count = int(dice.integers(1, groups + 1)), groups * each
    # Numbers that no rounding makes equal
    spread = dice.permuted(np.tile(np.linspace(-3, 3, count), (int(np.prod(tokens)), 1)), axis=-1)
    logits, bias = spread.reshape(*tokens, count).astype(dtype), floats(dice, count, scale=1e-3)
    attributes = {"top_k": int(dice.integers(1, count + 1)), "n_group": groups, "topk_group": best,
                  **pick(dice, {}, {"group_topk": 1}, {"group_topk": 99}), **pick(dice, {}, {"router_sentinel": -3.0})}
    if groups == 1 and dice.random() < 0.7:
        attributes.pop("topk_group")
        case = Case([logits, bias], attributes, ["", "scores", "weights"], rtol=1e-5)
        if dice.random() < 0.5:  # ONNX Runtime's CPU provider may lack the projection
            logits = floats(dice, int(np.prod(tokens)), 256, dtype=dtype)
            case.inputs = [logits, bias, floats(dice, count, 256, dtype=dtype, scale=0.1)]
            weights = 1 / (1 + np.exp(-(logits.astype(np.float32) @ case.inputs[2].astype(np.float32).T)))
            case.expected = [weights + bias, weights]
        return case
    return Case([logits, bias], attributes, rtol=1e-4 if dtype == np.float32 else 1e-2, atol=1e-4 if dtype == np.float32 else 2e-2)


def swiglu_options(dice):
    return {**pick(dice, {}, {"activation_alpha": 1.702}), **pick(dice, {}, {"activation_beta": 1.0}), **pick(dice, {}, {"limit": 0.7}, {"limit": -1.0})}


def swiglu(gate, up, activation_alpha=1.0, activation_beta=0.0, limit=0.0, rounded=None):
    if limit > 0:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    active = gate / (1 + np.exp(-activation_alpha * gate))
    return (active if rounded is None else active.astype(rounded).astype(np.float64)) * (up + activation_beta)


def tolerance(dtype):
    return {"rtol": 1e-5, "atol": 1e-5} if dtype == np.float32 else {"rtol": 8e-3, "atol": 8e-3} if dtype == bfloat16 else {"rtol": 1e-3, "atol": 1e-3}


@op("SwiGLU")
def swiglu_op(dice):
    shape, dtype, options = pick(dice, (2, 3, 4), (5, 8), (6,), (0, 2)), pick(dice, np.float32, np.float16, bfloat16), swiglu_options(dice)
    rounded = bool(dice.integers(2))
    if dice.random() < 0.5:
        inputs = [floats(dice, *shape, dtype=dtype), floats(dice, *shape, dtype=dtype)]
        gate, up = (x.astype(np.float64) for x in inputs)
    else:
        inputs = [floats(dice, *shape[:-1], 2 * shape[-1], dtype=dtype)]
        gate, up = np.split(inputs[0].astype(np.float64), 2, -1)
    expected = swiglu(gate, up, rounded=dtype if rounded else None, **options).astype(dtype)
    return Case(inputs, {**options, **({"round_activation": 1} if rounded else {})}, expected=[expected], **tolerance(dtype))


@op("RouterGateUpProj")
def router_gate_up(dice):
    rows, dtype, options = pick(dice, (5,), (2, 3), ()), pick(dice, np.float16, bfloat16), swiglu_options(dice)
    width, router, inner = pick(dice, 8, 33), pick(dice, 0, 4, 7), pick(dice, 1, 8, 17)
    x, w = floats(dice, *rows, width, dtype=dtype), floats(dice, width, router + 2 * inner, dtype=dtype, scale=0.2)
    y = (x.astype(np.float64) @ w.astype(np.float64)).astype(dtype)
    gate, up = np.split(y[..., router:].astype(np.float64), 2, -1)
    case = Case([x, w], {"router_size": router, **options}, pick(dice, 2, ["", "active"], ["router", ""]),
                constants=pick(dice, (), (1,)), rtol=2e-2, atol=2e-2)
    both = [y[..., :router], swiglu(gate, up, **options).astype(dtype)]
    case.expected = both if case.outputs == 2 else [both[1 if case.outputs[0] == "" else 0]]
    return case
