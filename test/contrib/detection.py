"""Plug-ins of TensorRT: by their documentation, and for what that leaves open by their sources."""
import numpy as np
from contrib_build import Case, floats, maybe, op, pick

BEST = 4096  # boxes that are looked at


def corners(boxes):
    half = boxes[..., 2:] * np.float32(0.5)
    return np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], axis=-1)


def ordered(boxes):
    return np.concatenate([np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])], axis=-1)


def overlap(a, b):
    a, b = ordered(a), ordered(b)
    size = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    both = size[0] * size[1]
    return 0 if both <= 0 else both / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - both)


def select(boxes, scores, options):
    """The kept (score, class, box) of one image; boxes [N, C, 4] by corners."""
    count, classes = scores.shape
    ranked = sorted(((-scores[i, c], i * classes + c) for i in range(count) for c in range(classes)
                     if scores[i, c] >= np.float32(options["score_threshold"]) and c != options["background_class"]))
    kept = []
    for negative, place in ranked[:BEST]:
        i, c = divmod(place, classes)
        rivals = (k for k in kept if options["class_agnostic"] or k[1] == c)
        if all(overlap(boxes[i, c], k[2]) < options["iou_threshold"] for k in rivals):
            kept.append((-negative, c, boxes[i, c]))
    return kept[:options["max_output_boxes"]]


def decoded(boxes, anchors, centers):
    if not centers:
        return ordered(boxes) + ordered(anchors)
    return np.concatenate([boxes[..., :2] * anchors[..., 2:] + anchors[..., :2], anchors[..., 2:] * np.exp(boxes[..., 2:])], axis=-1)


def random_boxes(dice, shape, centers):
    at = dice.random((*shape, 2)) * 4
    size = dice.random((*shape, 2)) + 0.3
    return np.concatenate([at, size if centers else at + size], axis=-1).astype(np.float32)


@op("EfficientNMS_TRT", "TRT", count=40)
def efficient_nms(dice):
    batch, count, classes = pick(dice, 1, 2), pick(dice, 3, 20, 40), pick(dice, 1, 3)
    options = {"score_threshold": pick(dice, 0.25, 0.5, 0.0), "iou_threshold": pick(dice, 0.25, 0.45, 0.7),
               "max_output_boxes": pick(dice, 4, 30, 200), "background_class": pick(dice, -1, -1, 0),
               "score_activation": pick(dice, 0, 1), "class_agnostic": pick(dice, 0, 0, 1), "box_coding": pick(dice, 0, 1)}
    centers, own = options["box_coding"] == 1, bool(dice.integers(2))
    shape = (batch, count, pick(dice, 1, classes)) if own else (batch, count)
    anchors = maybe(dice, random_boxes(dice, (pick(dice, 1, batch), count), centers), 0.3)
    boxes = random_boxes(dice, shape, centers) if anchors is None else floats(dice, *shape, 4, scale=0.2)
    values = dice.permutation(np.linspace(-3, 3, batch * count * classes)).astype(np.float32).reshape(batch, count, classes)
    scores = 1 / (1 + np.exp(-values))
    real = boxes if own else boxes[:, :, None]
    if anchors is not None:
        real = decoded(real, np.broadcast_to(anchors, (batch, count, 4))[:, :, None], centers)
    real = np.broadcast_to(corners(real) if centers else real, (batch, count, classes, 4))
    most = options["max_output_boxes"]
    total, found = np.zeros((batch, 1), np.int32), np.zeros((batch, most, 4), np.float32)
    sure, kinds = np.zeros((batch, most), np.float32), np.zeros((batch, most), np.int32)
    for b in range(batch):
        kept = select(real[b], scores[b], options)
        total[b] = len(kept)
        for k, (score, c, box) in enumerate(kept):
            sure[b, k], kinds[b, k], found[b, k] = score, c, box
    given = values if options["score_activation"] else scores
    inputs = [boxes, given] + ([] if anchors is None else [anchors])
    return Case(inputs, options | {"plugin_version": "1"}, outputs=4, expected=[total, found, sure, kinds], rtol=1e-4,
                spelled=pick(dice, None, ""), constants=pick(dice, (), (2,)) if anchors is not None else ())
