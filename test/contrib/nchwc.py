"""Graphs that ONNX Runtime's optimizer saved with channels in blocks (com.microsoft.nchwc): its operators read and write
tensors that no graph has at its ends. Those of blocks of 8 and 16 channels are written here; the operators' names are
drawn into models of a ReorderInput, a few of them and a ReorderOutput, which the standard's operators answer."""
import numpy as np
from contrib_build import Case, floats, op, pick
from onnx import TensorProto, helper, numpy_helper

DOMAIN = "com.microsoft.nchwc"


def blocked_weights(w, block):
    """(O, I, H, W) as ONNX Runtime stores them for that block, with whole blocks of O and, from one block on, of I"""
    out, inner = -w.shape[0] % block, -w.shape[1] % block if w.shape[1] >= block or w.shape[1] > 1 and block == 1 else 0
    w = np.pad(w, ((0, out), (0, inner), (0, 0), (0, 0)))
    o, i, h, k = w.shape
    if i < block:
        return np.ascontiguousarray(w.reshape(o // block, block, i, h, k).transpose(0, 2, 3, 4, 1)).reshape(w.shape)
    stored = w.reshape(o // block, block, i // block, block, h, k).transpose(0, 2, 4, 5, 3, 1)
    return np.ascontiguousarray(stored).reshape(w.shape)


class Graph:
    """Two graphs that are built in parallel: in blocks, and plain."""

    def __init__(self, dice, block):
        self.dice, self.block, self.count = dice, block, 0
        self.blocked, self.plain, self.held, self.wanted = [], [], [], []

    def name(self):
        self.count += 1
        return f"t{self.count}"

    def add(self, op_type, blocked_in, plain_in=None, plain_type=None, domain=DOMAIN, plain_attributes=None, **attributes):
        y = self.name()
        self.blocked.append(helper.make_node(op_type, blocked_in, [y], domain=domain, **attributes))
        if plain_in is not None:
            self.plain.append(helper.make_node(plain_type or op_type, plain_in, [y],
                                               **(attributes if plain_attributes is None else plain_attributes)))
        return y

    def hold(self, array, plain=None):
        name = self.name()
        self.held.append((name, array, array if plain is None else plain))
        return name

    def model(self, nodes, which, outputs, shape):
        held = [numpy_helper.from_array(h[which], h[0]) for h in self.held]
        infos = [helper.make_tensor_value_info("x0", TensorProto.FLOAT, shape)]
        outs = [helper.make_tensor_value_info(y, TensorProto.FLOAT, None) for y in outputs]
        versions = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(helper.make_graph(nodes, "case", infos, outs, held), opset_imports=versions, ir_version=10)


def whole(channels, block):
    return -(-channels // block) * block


def conv(g, x, channels, filters, group=1, kernel=None, residual=None, is_plain=False):
    dice, block = g.dice, g.block
    kernel = kernel or pick(dice, 1, 3)
    w = floats(dice, filters, channels // group, kernel, kernel, scale=(channels // group * kernel * kernel) ** -0.5)
    stored_channels = channels if is_plain else whole(channels, block)
    padded = w if is_plain or group > 1 else np.pad(w, ((0, 0), (0, stored_channels - channels), (0, 0), (0, 0)))
    stored = blocked_weights(padded, block)
    bias = floats(dice, filters)
    stored_bias = np.pad(bias, (0, whole(filters, block) - filters))
    attributes = {"pads": [kernel // 2] * 4, "group": group, **pick(dice, {}, {"kernel_shape": [kernel] * 2})}
    active = pick(dice, {}, {"activation": "Relu"}, {"activation": "HardSwish"}, {"activation": "LeakyRelu", "activation_params": [0.25]},
                  {"activation": "Clip", "activation_params": [-0.5, 0.5]})
    weights, b = g.name(), g.name()
    g.held += [(weights, stored, w), (b, stored_bias, bias)]
    y = g.name()
    group_stored = {"group": whole(group, block)} if group == channels and group > 1 else {}
    g.blocked.append(helper.make_node("Conv", [x, weights, b] + ([residual] if residual else []), [y], domain=DOMAIN,
                                      **(attributes | group_stored | active)))
    inner = g.name()
    g.plain.append(helper.make_node("Conv", [x, weights, b], [inner], **attributes))
    if residual:
        g.plain.append(helper.make_node("Add", [inner, residual], [inner := g.name()]))
    name, params = active.get("activation", "Identity"), active.get("activation_params", [])
    if name == "Clip":
        limits = [g.hold(np.array(p, np.float32)) for p in params]
        g.plain.append(helper.make_node("Clip", [inner, *limits], [y]))
    else:
        g.plain.append(helper.make_node(name, [inner], [y], **({"alpha": params[0]} if params else {})))
    return y


def pool(g, x, op_type):
    if op_type.startswith("Global"):
        return g.add(op_type, [x], [x])
    dice, kernel = g.dice, pick(g.dice, 2, 3)
    attributes = {"kernel_shape": [kernel] * 2, **pick(dice, {}, {"strides": [2, 2]}), **pick(dice, {}, {"ceil_mode": 1}),
                  **pick(dice, {}, {"pads": [1, 1, 0, 1]}, {"auto_pad": "SAME_UPPER"})}
    if op_type == "AveragePool":
        attributes |= pick(dice, {}, {"count_include_pad": 1})
    return g.add(op_type, [x], [x], **attributes)


def upsample(g, x):
    mode = pick(g.dice, "nearest", "linear")
    place = "asymmetric" if mode == "nearest" else pick(g.dice, "asymmetric", "half_pixel", "align_corners")
    scales = [1, 1, pick(g.dice, 1, 2, 3), pick(g.dice, 2, 3)]
    name, factors = g.name(), g.hold(np.array(scales, np.float32))
    g.blocked.append(helper.make_node("Upsample", [x], [name], domain=DOMAIN, mode=mode, scales=scales,
                                      coordinate_transformation_mode=place))
    floor = {"nearest_mode": "floor"} if mode == "nearest" else {}
    g.plain.append(helper.make_node("Resize", [x, "", factors], [name], mode=mode, coordinate_transformation_mode=place, **floor))
    return name


def scaled(g, x, channels):
    """x by a factor of each channel: ONNX Runtime writes such products on the memory of blocks, as tensors of rank 5."""
    factor = conv(g, g.add("GlobalAveragePool", [x], [x]), channels, channels, kernel=1)
    stored = whole(channels, g.block)
    parts, sizes = (g.hold(np.array(a)) for a in ([0, stored // g.block, 0, 0, g.block], [0, stored, 0, 0]))
    views = [g.add("Reshape", [v, parts], domain="") for v in (x, factor)]
    y = g.add("Reshape", [g.add("Mul", views, domain=""), sizes], domain="")
    g.plain.append(helper.make_node("Mul", [x, factor], [y]))
    return y


def step(g, x, channels, op_type):
    """One of the domain's operators on a tensor in blocks; gives its result and the result's channels."""
    dice = g.dice
    if op_type == "Conv":
        kind = pick(dice, "full", "depthwise", "residual", "scaled")
        if kind == "depthwise":
            return conv(g, x, channels, channels, group=channels, kernel=3), channels
        filters = pick(dice, 8, 24, 40, 10)
        y = conv(g, x, channels, filters)
        if kind == "scaled":
            return scaled(g, y, filters), filters
        return (conv(g, x, channels, filters, residual=y) if kind == "residual" else y), filters
    if op_type == "Upsample":
        return upsample(g, x), channels
    return pool(g, x, op_type), channels


def case_of(dice, op_type):
    import onnxruntime as ort
    block = pick(dice, 8, 16)
    g = Graph(dice, block)
    last_in, last_out = int(dice.integers(2)), int(dice.integers(2))
    direct = op_type in ("Conv", "ReorderOutput") and dice.integers(2)  # the first convolution reads a plain tensor
    channels, size = 3 if direct else pick(dice, 4, 12, 20), (pick(dice, 5, 8), 6)
    shape = (pick(dice, 1, 2), channels, *size)
    x = "x0"
    if direct:
        x, channels = conv(g, x, channels, pick(dice, 8, 20, 24), is_plain=True), None
        channels = g.held[0][2].shape[0]
        last_in = 0
    else:
        plain = "x0"
        if last_in:
            shape = (shape[0], *size, channels)
            g.plain.append(helper.make_node("Transpose", ["x0"], ["moved"], perm=[0, 3, 1, 2]))
            plain = "moved"
        x = g.add("ReorderInput", ["x0"], [plain], "Identity", plain_attributes={}, channels_last=last_in)
    if op_type not in ("ReorderInput", "ReorderOutput"):
        x, channels = step(g, x, channels, op_type)
    # What tells the size of a block: 24 channels are not whole blocks of 16; weights for 12 and 20 end with zeros.
    channels, before = pick(dice, 24, 12) if block == 8 else pick(dice, 12, 20), channels
    x = conv(g, x, before, channels)
    plain_y = x
    if last_out:
        g.plain.append(helper.make_node("Transpose", [x], [plain_y := g.name()], perm=[0, 2, 3, 1]))
    y = g.name()
    g.blocked.append(helper.make_node("ReorderOutput", [x], [y], domain=DOMAIN, channels=channels, channels_last=last_out))
    g.plain.append(helper.make_node("Identity", [plain_y], [y]))
    data = floats(dice, *shape)
    session = ort.InferenceSession(g.model(g.plain, 2, [y], shape).SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x0": data})
    return Case([data], model=g.model(g.blocked, 1, [y], shape), expected=expected)


def register(name):
    @op(name, domain=DOMAIN)
    def draw(dice):
        return case_of(dice, name)


for operator in ("ReorderInput", "ReorderOutput", "Conv", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool",
                 "Upsample"):
    register(operator)
