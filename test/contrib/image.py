"""Images: sampling, crops, transposed convolutions with pads as an input."""
import numpy as np
from contrib_build import Case, answer, floats, maybe, numbers, op, pick
from onnx import helper
from onnx.reference import ReferenceEvaluator


@op("GridSample")
def grid_sample(dice):
    batch, channels = pick(dice, 1, 2), pick(dice, 1, 3)
    x = floats(dice, batch, channels, *[int(s) for s in dice.integers(2, 7, 2)])
    grid = dice.uniform(-1.3, 1.3, (batch, *dice.integers(1, 6, 2), 2)).astype(np.float32)
    attributes = {**pick(dice, {}, {"mode": "bilinear"}, {"mode": "nearest"}, {"mode": "bicubic"}),
                  **pick(dice, {}, {"padding_mode": "border"}, {"padding_mode": "reflection"}, {"padding_mode": "zeros"}),
                  **pick(dice, {}, {"align_corners": 1})}
    case = Case([x, grid], attributes, atol=1e-4)
    # ONNX Runtime clamps the coordinates there, as in the standard's operator: see docs/testing.md.
    if attributes.get("mode") == "bicubic" and attributes.get("padding_mode") == "border":
        node = helper.make_node("GridSample", ["x0", "x1"], ["y0"], **(attributes | {"mode": "cubic"}))
        case.expected = ReferenceEvaluator(node).run(None, {"x0": x, "x1": grid})
    return case


@op("ConvTransposeWithDynamicPads")
def conv_transpose(dice):
    rank, group = pick(dice, 1, 2, 2), pick(dice, 1, 2)
    kernel = [int(k) for k in dice.integers(2, 4, rank)]
    channels, filters = group * pick(dice, 1, 3), pick(dice, 1, 4)
    attributes = {"group": group, **pick(dice, {}, {"kernel_shape": kernel}), **pick(dice, {}, {"dilations": [2] * rank})}
    attributes |= pick(dice, {}, {"strides": [2] * rank}, {"strides": [2] * rank, "output_padding": [1] * rank})
    pads = maybe(dice, numbers(dice, 0, 2, 2 * rank), 0.8)
    case = Case([floats(dice, pick(dice, 1, 2), channels, *[int(s) for s in dice.integers(3, 6, rank)]),
                 floats(dice, channels, filters, *kernel), pads, maybe(dice, floats(dice, filters * group))], attributes,
                constants=pick(dice, (1,), (1, 2) if pads is not None else (1,), ()), atol=1e-4)
    return case


@op("CropAndResize")
def crop_and_resize(dice):
    batch, rois = pick(dice, 1, 3), pick(dice, 1, 4)
    x = floats(dice, batch, pick(dice, 1, 3), *[int(s) for s in dice.integers(1, 8, 2)])
    corners = dice.uniform(-0.1, 1.1, (rois, 4)) if dice.integers(2) else dice.integers(0, 3, (rois, 4)) / 2
    attributes = {**pick(dice, {}, {"mode": "bilinear"}, {"mode": "nearest"}), **pick(dice, {}, {"extrapolation_value": -1.5})}
    size = numbers(dice, 1, 5, 2, dtype=np.int32)
    return Case([x, corners.astype(np.float32), numbers(dice, 0, batch, rois, dtype=np.int32), size], attributes,
                constants=pick(dice, (), (3,)), atol=1e-4)


@op("MaxpoolWithMask")
def maxpool_with_mask(dice):
    rank = pick(dice, 1, 2, 3)
    kernel = [int(k) for k in dice.integers(1, 4, rank)]
    shape = (pick(dice, 1, 2), pick(dice, 1, 3), *[int(s) for s in dice.integers(4, 8, rank)])
    outer = pick(dice, shape[:2], (1, 1))
    mask = (dice.random((*outer, *shape[2:])) < pick(dice, 0.5, 0.9, 1)).astype(np.int32)
    attributes = {"kernel_shape": kernel, **pick(dice, {}, {"strides": [int(s) for s in dice.integers(1, 3, rank)]})}
    attributes |= pick(dice, {}, {"pads": [int(dice.integers(0, k)) for k in kernel * 2]}, {"auto_pad": "VALID"})
    case = Case([floats(dice, *shape), mask], attributes)
    # ONNX Runtime reads the masks of all images but the first at wrong places: each image by itself.
    images = [(x[None, None], m[None, None]) for x, m in zip(case.inputs[0].reshape(-1, *shape[2:]),
                                                             np.broadcast_to(mask, shape).reshape(-1, *shape[2:]))]
    answers = [answer("com.microsoft", "MaxpoolWithMask", Case(list(image), attributes))[0] for image in images]
    case.expected = [np.concatenate(answers).reshape(*shape[:2], *answers[0].shape[2:])]
    return case
