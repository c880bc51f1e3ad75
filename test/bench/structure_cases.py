"""Small networks for operators.py --structures: each operator below before, between and after convolutions; others before and after a
Transpose; recurrent layers, and bytes.

Buffers between operators have the layout of one or the other; these cases find pairs for which kernels have no schedule.
"""
CHANNELS, SIZE, RESULTS = 24, 32, 16
HALF = "s = Constant <value_floats = [1.0, 1.0, 0.5, 0.5]> () "
TWICE = "s = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> () "
ROWS = f"t = Constant <value_ints = [0, {CHANNELS}, -1]> () "
IMAGE = f"t = Constant <value_ints = [0, {CHANNELS}, {SIZE}, {SIZE}]> () "
PARTS = f"p = Constant <value_ints = [{CHANNELS // 2}, {CHANNELS // 2}]> () "
VECTOR = f"float[{CHANNELS}] G, float[{CHANNELS}] H"

# Name: (weights, nodes from {i} to {o}, channels of an image as its result; 0: another result).
OPERATORS = {
    "MaxPool 2x2": ("", "{o} = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> ({i})", CHANNELS),
    "MaxPool 3x3": ("", "{o} = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> ({i})", CHANNELS),
    "AveragePool 3x3": ("", "{o} = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> ({i})", CHANNELS),
    "GlobalAveragePool": ("", "{o} = GlobalAveragePool ({i})", CHANNELS),
    "Resize, nearest, up": ("", TWICE + "{o} = Resize <mode = \"nearest\"> ({i}, , s)", CHANNELS),
    "Resize, nearest, down": ("", HALF + "{o} = Resize <mode = \"nearest\"> ({i}, , s)", CHANNELS),
    "Resize, linear, up": ("", TWICE + "{o} = Resize <mode = \"linear\"> ({i}, , s)", CHANNELS),
    "Resize, linear, down": ("", HALF + "{o} = Resize <mode = \"linear\"> ({i}, , s)", CHANNELS),
    "Pad": ("", "p = Constant <value_ints = [0, 0, 1, 1, 0, 0, 1, 1]> () {o} = Pad ({i}, p)", CHANNELS),
    "Slice": ("", "b = Constant <value_ints = [1, 1]> () e = Constant <value_ints = [31, 31]> () a = Constant <value_ints = [2, 3]> () "
              "{o} = Slice ({i}, b, e, a)", CHANNELS),
    "channels reversed": ("", "a = Constant <value_ints = [1]> () b = Constant <value_ints = [-1]> () e = Constant <value_ints = [-99]> () "
                          "{o} = Slice ({i}, b, e, a, b)", CHANNELS),
    "channels shuffled": ("", f"f = Constant <value_ints = [0, 2, {CHANNELS // 2}, {SIZE}, {SIZE}]> () " + IMAGE +
                          "u = Reshape ({i}, f) v = Transpose <perm = [0, 2, 1, 3, 4]> (u) {o} = Reshape (v, t)", CHANNELS),
    "Concat": ("", "{o} = Concat <axis = 1> ({i}, {i})", 2 * CHANNELS),
    "Split and Mul": ("", PARTS + "u, v = Split <axis = 1> ({i}, p) w = Sigmoid (v) {o} = Mul (u, w)", CHANNELS // 2),
    "DepthToSpace": ("", "{o} = DepthToSpace <blocksize = 2, mode = \"CRD\"> ({i})", CHANNELS // 4),
    "SpaceToDepth": ("", "{o} = SpaceToDepth <blocksize = 2> ({i})", 4 * CHANNELS),
    "BatchNormalization": (f"{VECTOR}, float[{CHANNELS}] I", "v = Abs (I) {o} = BatchNormalization ({i}, G, H, I, v)", CHANNELS),
    "InstanceNormalization": (VECTOR, "{o} = InstanceNormalization ({i}, G, H)", CHANNELS),
    "LayerNormalization of channels": (VECTOR, "u = Transpose <perm = [0, 2, 3, 1]> ({i}) v = LayerNormalization (u, G, H) "
                                       "{o} = Transpose <perm = [0, 3, 1, 2]> (v)", CHANNELS),
    "Softmax of channels": ("", "{o} = Softmax <axis = 1> ({i})", CHANNELS),
    "Softmax of pixels": ("", ROWS + IMAGE.replace("t =", "f =") + "u = Reshape ({i}, t) v = Softmax <axis = 2> (u) {o} = Reshape (v, f)", CHANNELS),
    "ReduceMean of channels": ("", "a = Constant <value_ints = [1]> () {o} = ReduceMean ({i}, a)", 1),
    "ReduceMax of rows": ("", "a = Constant <value_ints = [3]> () {o} = ReduceMax ({i}, a)", CHANNELS),
    "ArgMax of channels": ("", "{o} = ArgMax <axis = 1> ({i})", 0),
    "squeeze and excitation": (f"float[8,{CHANNELS},1,1] A, float[{CHANNELS},8,1,1] B", "g = GlobalAveragePool ({i}) h = Conv (g, A) k = Relu (h) "
                               "l = Conv (k, B) m = Sigmoid (l) {o} = Mul ({i}, m)", CHANNELS),
    "depthwise": (f"float[{CHANNELS},1,3,3] A", "{o} = Conv <group = " + str(CHANNELS) + ", pads = [1, 1, 1, 1]> ({i}, A)", CHANNELS),
    "ConvTranspose": (f"float[{CHANNELS},{CHANNELS},2,2] A", "{o} = ConvTranspose <strides = [2, 2]> ({i}, A)", CHANNELS),
    "CumSum": ("", "a = Constant <value_int = 3> () {o} = CumSum ({i}, a)", CHANNELS),
    "LRN": ("", "{o} = LRN <size = 5> ({i})", CHANNELS),
    "Flatten and Gemm": (f"float[{CHANNELS * SIZE * SIZE},10] A", "u = Flatten ({i}) {o} = MatMul (u, A)", 0),
    "tokens": (f"float[{CHANNELS},48] A", ROWS + "u = Reshape ({i}, t) v = Transpose <perm = [0, 2, 1]> (u) {o} = MatMul (v, A)", 0),
    "attention of pixels": ("", ROWS + IMAGE.replace("t =", "f =") + "u = Reshape ({i}, t) v = Transpose <perm = [0, 2, 1]> (u) k = MatMul (u, v) "
                            "l = Softmax <axis = 2> (k) m = MatMul (l, u) {o} = Reshape (m, f)", CHANNELS),
}
OPERATORS |= {
    "channels chosen": ("", f"f = Constant <value_ints = {[(7 * i + 1) % CHANNELS for i in range(CHANNELS)]}> () {{o}} = Gather <axis = 1> ({{i}}, f)", CHANNELS),
    "Tile of rows": ("", "f = Constant <value_ints = [1, 1, 2, 1]> () {o} = Tile ({i}, f)", CHANNELS),
    "Trilu": ("", "{o} = Trilu ({i})", CHANNELS),
}

# Of float[6,48,40], before and after Transposes.
PLANES = ("[0, 2, 1]", "[1, 2, 0]")
BESIDE_TRANSPOSE = {
    "Softmax": "{o} = Softmax ({i})",
    "Softmax, axis 1": "{o} = Softmax <axis = 1> ({i})",
    "LpNormalization": "{o} = LpNormalization ({i})",
    "deviations": "a = Constant <value_ints = [1]> () m = ReduceMean ({i}, a) d = Sub ({i}, m) e = Mul (d, d) v = ReduceMean (e, a) s = Sqrt (v) {o} = Div (d, s)",
    "ReduceSum": "a = Constant <value_ints = [2]> () {o} = ReduceSum ({i}, a)",
    "CumSum": "a = Constant <value_int = 1> () {o} = CumSum ({i}, a)",
    "Pad": "a = Constant <value_ints = [0, 1, 2, 0, 3, 1]> () {o} = Pad ({i}, a)",
    "MaxPool": "{o} = MaxPool <kernel_shape = [3], pads = [1, 1]> ({i})",
}
# Of channels-last images: (weights, nodes).
CHANNELS_LAST = {
    "MaxPool 3x3": ("", "{o} = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> ({i})"),
    "MaxPool 2x2": ("", "{o} = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> ({i})"),
    "depthwise": ("float[{c},1,3,3] A", "{o} = Conv <group = {c}, pads = [1, 1, 1, 1]> ({i}, A)"),
}
RECURRENT = {"LSTM": 4, "GRU": 3, "RNN": 1}
FIRST = f"c = Conv <pads = [1, 1, 1, 1]> (x, W) r = Relu (c) "


def case(weights, inputs, nodes, result="float"):
    return (", ".join(filter(None, [inputs, weights])), result, nodes)


def structures():
    for name, (weights, nodes, channels) in OPERATORS.items():
        small, image = f"float[1,{RESULTS},{SIZE},{SIZE}] x, float[{CHANNELS},{RESULTS},3,3] W", f"float[1,{CHANNELS},{SIZE},{SIZE}] x"
        result = "int64" if name.startswith("ArgMax") else "float"
        yield f"Conv, {name}", case(weights, small, FIRST + nodes.format(i="r", o="y"), result)
        if not channels:
            continue
        for size, kind in ((1, "1x1"), (3, "3x3")):
            last = f"float[{RESULTS},{channels},{size},{size}] V"
            pads = f"<pads = [{', '.join([str(size // 2)] * 4)}]>"
            yield f"Conv, {name}, Conv {kind}", case(weights, f"{small}, {last}", f"{FIRST}{nodes.format(i='r', o='q')} y = Conv {pads} (q, V)")
            yield f"{name}, Conv {kind}", case(weights, f"{image}, {last}", f"{nodes.format(i='x', o='q')} y = Conv {pads} (q, V)")


def transposed():
    weights = "float[64] G, float[64] H"
    yield "Transpose, LayerNormalization", case(weights, "float[1,64,100] x", "t = Transpose <perm = [0, 2, 1]> (x) y = LayerNormalization (t, G, H)")
    for name, nodes in BESIDE_TRANSPOSE.items():
        for plane in PLANES:
            move = f"{{o}} = Transpose <perm = {plane}> ({{i}})"
            for label, first, second in ((f"Transpose {plane}, {name}", move, nodes), (f"{name}, Transpose {plane}", nodes, move)):
                yield label, case("", "float[6,48,40] x", f"{first.format(i='x', o='q')} {second.format(i='q', o='y')}")
    for name, (weights, nodes) in CHANNELS_LAST.items():
        for c, size in ((3, 64), (16, 28)):
            image, first, last = f"float[1,{size},{size},{c}] x", "t = Transpose <perm = [0, 3, 1, 2]> (x) ", nodes.format(i="t", o="y", c=c)
            yield f"channels-last {c}x{size}x{size}, {name}", case(weights.format(c=c), image, first + last)
            image, first = f"float[1,{c},{size},{size}] x", nodes.format(i="x", o="t", c=c)
            yield f"{name} {c}x{size}x{size} to channels-last", case(weights.format(c=c), image, f"{first} y = Transpose <perm = [0, 2, 3, 1]> (t)")


def recurrent():
    for name, gates in RECURRENT.items():
        for steps, batch, width, hidden in ((50, 1, 64, 64), (30, 16, 40, 32)):
            weights = f"float[1,{gates * hidden},{width}] W, float[1,{gates * hidden},{hidden}] R"
            call, label = f"{name} <hidden_size = {hidden}> ", f"{name} {steps}x{batch}x{width}"
            yield label, case(weights, f"float[{steps},{batch},{width}] x", f"y = {call}(x, W, R)")
            yield f"{label}, last state", case(weights, f"float[{steps},{batch},{width}] x", f", y = {call}(x, W, R)")
            yield f"Conv, {label}", case(f"{weights}, float[{width},9,3] A", f"float[{batch},9,{steps}] x",
                                         f"c = Conv <pads = [1, 1]> (x, A) r = Relu (c) t = Transpose <perm = [2, 0, 1]> (r) y, h = {call}(t, W, R)")


def of_bytes():
    for c, size in ((3, 64), (16, 28), (64, 14)):
        for step in (1, 2):
            yield (f"Cast of bytes, Conv {c}x{size}x{size}, 3x3, stride {step}",
                   case(f"float[16,{c},3,3] A", f"uint8[1,{c},{size},{size}] x", f"f = Cast <to = 1> (x) y = Conv <pads = [1, 1, 1, 1], strides = [{step}, {step}]> (f, A)"))


def computed():
    """Convolutions whose weights the run computes, as of trackers and of networks that condition each other."""
    for c in (24, 64):
        for name, weights, options in (
                ("template", f"[1,{c},8,8]", ""), ("template of each channel", f"[{c},1,8,8]", f"<group = {c}>"),
                ("computed 1x1", f"[32,{c},1,1]", ""), ("computed 3x3", f"[32,{c},3,3]", "<pads = [1, 1, 1, 1]>"),
                ("computed 1x1 of groups", f"[{c},8,1,1]", f"<group = {c // 8}>")):
            yield f"Conv {c}x32x32, {name}", case(f"float[{c},3,3,3] A", f"float[1,3,32,32] x, float{weights} w",
                                                  f"c = Conv <pads = [1, 1, 1, 1]> (x, A) r = Relu (c) y = Conv {options} (r, w)")


STRUCTURES = dict([*structures(), *transposed(), *recurrent(), *of_bytes(), *computed()])
