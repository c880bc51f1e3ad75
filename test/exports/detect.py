"""Detectors: torchvision's Faster R-CNN, and one head in the manner of YOLO with NonMaxSuppression, at any image size."""
import collections

import torch
import torchvision
from torch import nn
from torchvision.models import detection

from spec import SMALL, image, lively, model, sized

PIXELS = {"image": {2: "height", 3: "width"}}


def doubled(least):
    """Sizes that the network doubles before it looks: ONNX Runtime's Resize rounds positions to floats, which other factors
    make wrong by 1e-5 of the image, and which boxes overlap too much then depends on it."""
    if SMALL:
        return [{"height": 64, "width": 96}, {"height": 96, "width": 64}]
    return [{"height": least // 2, "width": least * 5 // 8}, {"height": least * 5 // 8, "width": least // 2}]


class One(nn.Module):
    """torchvision's detectors take a list of images and answer a list of dictionaries."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        found = self.inner([x[0]])
        found = found[1] if isinstance(found, tuple) else found
        return found[0]["boxes"], found[0]["labels"], found[0]["scores"]


def spread(module):
    """Features that keep their size through the layers, so that scores do not tie: their order would be luck."""
    for name, part in module.named_modules():
        if isinstance(part, (nn.Linear, nn.Conv2d)):
            nn.init.kaiming_normal_(part.weight)
            if part.bias is not None:
                nn.init.normal_(part.bias, std=0.1)
    return module


def scene(height, width):
    """Blobs of several sizes instead of noise, which looks the same everywhere."""
    return (sum(nn.functional.interpolate(torch.randn(1, 3, height // n, width // n), size=(height, width), mode="bilinear")
                for n in (1, 8, 32)),)


def block(inside, outside, stride):
    return nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.SiLU())


def little_detector():
    layers = nn.Sequential(collections.OrderedDict(near=block(3, 8, 4), far=block(8, 8, 2)))
    backbone = detection.backbone_utils.BackboneWithFPN(layers, {"near": "0", "far": "1"}, [8, 8], 8)
    anchors = detection.anchor_utils.AnchorGenerator(((16,), (24,), (32,)), ((0.5, 1.0),) * 3)
    pool = torchvision.ops.MultiScaleRoIAlign(["0", "1"], 3, 2)
    return detection.FasterRCNN(backbone, rpn_anchor_generator=anchors, box_roi_pool=pool, min_size=64, max_size=96,
                                box_head=detection.faster_rcnn.TwoMLPHead(72, 16), box_score_thresh=0.2,
                                box_predictor=detection.faster_rcnn.FastRCNNPredictor(16, 4),
                                rpn_pre_nms_top_n_test=50, rpn_post_nms_top_n_test=20)


@model("faster_rcnn_mobilenet", scene, doubled(320), ["image"], ["boxes", "labels", "scores"], dynamic=PIXELS,
       exporters=("legacy",), unordered=True)
def faster_rcnn_mobilenet():
    if SMALL:
        return One(spread(lively(little_detector())))
    made = detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, num_classes=11,
                                                           box_score_thresh=0.05)
    return One(spread(lively(made)))


if not SMALL:
    @model("faster_rcnn_resnet50", scene, doubled(256), ["image"], ["boxes", "labels", "scores"], dynamic=PIXELS,
           exporters=("legacy",), unordered=True)
    def faster_rcnn_resnet50():
        made = detection.fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=11, min_size=256, max_size=320,
                                                 box_score_thresh=0.05, rpn_pre_nms_top_n_test=300, rpn_post_nms_top_n_test=100)
        return One(spread(lively(made)))


class Yolo(nn.Module):
    """Two scales, boxes from cells, then the best of each class without overlap."""

    def __init__(self, classes=5, width=sized(16, 4)):
        super().__init__()
        self.classes = classes
        self.stem = nn.Sequential(block(3, width, 2), block(width, 2 * width, 2), block(2 * width, 4 * width, 2))
        self.deep = block(4 * width, 8 * width, 2)
        self.join = block(12 * width, 4 * width, 1)
        self.near, self.far = nn.Conv2d(4 * width, 4 + classes, 1), nn.Conv2d(8 * width, 4 + classes, 1)

    def cells(self, y, stride):
        h, w = y.shape[2], y.shape[3]
        rows = torch.arange(h, device=y.device, dtype=y.dtype)
        columns = torch.arange(w, device=y.device, dtype=y.dtype)
        gy, gx = torch.meshgrid(rows, columns, indexing="ij")
        grid = torch.stack([gx, gy], -1).reshape(1, -1, 2)
        y = y.flatten(2).permute(0, 2, 1)
        centre = (y[..., :2].sigmoid() * 2 - 0.5 + grid) * stride
        size = (y[..., 2:4].sigmoid() * 2) ** 2 * stride
        return torch.cat([centre - size / 2, centre + size / 2], -1), y[..., 4:].sigmoid()

    def forward(self, x):
        near = self.stem(x)
        far = self.deep(near)
        up = nn.functional.interpolate(far, scale_factor=2.0, mode="nearest")
        near = self.join(torch.cat([near, up], 1))
        parts = [self.cells(self.near(near), 8), self.cells(self.far(far), 16)]
        boxes, scores = torch.cat([p[0] for p in parts], 1)[0], torch.cat([p[1] for p in parts], 1)[0]
        best, label = scores.max(-1)
        kept = best > 0.5
        boxes, best, label = boxes[kept], best[kept], label[kept]
        apart = boxes + label.unsqueeze(-1).to(boxes.dtype) * 4096  # boxes of other classes do not overlap
        order = torchvision.ops.nms(apart, best, 0.45)[:100]
        return boxes[order], best[order], label[order]


@model("yolo", image, [{"height": sized(128, 64), "width": sized(160, 48)}, {"height": sized(96, 48), "width": sized(64, 32)}], ["image"], ["boxes", "scores", "labels"],
       dynamic=PIXELS)
def yolo():
    made = lively(Yolo())
    for head in (made.near, made.far):
        nn.init.normal_(head.weight, std=0.5)
    return made


class Raw(nn.Module):
    """The boxes and scores of all cells, as networks without the selection give them."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        inner = self.inner
        near = inner.stem(x)
        far = inner.deep(near)
        up = nn.functional.interpolate(far, scale_factor=2.0, mode="nearest")
        near = inner.join(torch.cat([near, up], 1))
        parts = [inner.cells(inner.near(near), 8), inner.cells(inner.far(far), 16)]
        return torch.cat([p[0] for p in parts], 1), torch.cat([p[1] for p in parts], 1)


@model("yolo_raw", image, [{"height": sized(128, 64), "width": sized(160, 48)}, {"height": sized(96, 48), "width": sized(64, 32)}], ["image"], ["boxes", "scores"],
       dynamic=PIXELS)
def yolo_raw():
    return Raw(yolo())
