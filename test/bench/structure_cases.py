"""Small networks for operators.py --structures: each operator below before, between and after convolutions.

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


STRUCTURES = dict(structures())
