"""Networks for images: torchvision's classifiers with random weights, and a U-Net."""
import functools

import torch
import torchvision
from torch import nn
from torchvision.models import (convnext, densenet, efficientnet, mobilenetv2, mobilenetv3, resnet, shufflenetv2,
                                swin_transformer, vision_transformer)

from spec import EXPORTS, SMALL, Export, image, lively, sized

FIXED = [{}]
ANY_BATCH = [{"batch": 1}, {"batch": 3}]
ANY_SIZE = [{"height": sized(224, 64), "width": sized(224, 64)}, {"height": sized(160, 48), "width": sized(288, 96)}]


def little_resnet(block, **options):
    """Two of the four stages: the others have 256 channels and more, whatever the arguments."""
    made = resnet.ResNet(block, [1, 1, 1, 1], **options)
    made.layer3, made.layer4 = nn.Identity(), nn.Identity()
    made.fc = nn.Linear(128 * block.expansion, made.fc.out_features)
    return made


def little_squeezenet(num_classes):
    made = torchvision.models.SqueezeNet("1_1", num_classes)
    made.features = made.features[:7]  # up to the second pooling
    made.classifier[1] = nn.Conv2d(256, num_classes, 1)
    return made


# What the stand-ins of the default tests have for arguments instead of the published sizes.
LITTLE = {
    "resnet18": {"block": resnet.BasicBlock},
    "resnet50": {"block": resnet.Bottleneck, "width_per_group": 16},
    "mobilenet_v2": {"inverted_residual_setting": [[1, 16, 1, 1], [6, 24, 2, 2]]},
    "efficientnet_b0": {"inverted_residual_setting": [
        efficientnet.MBConvConfig(1, 3, 1, 16, 16, 1, 1.0, 1.0), efficientnet.MBConvConfig(4, 5, 2, 16, 24, 2, 1.0, 1.0)],
                        "dropout": 0.2, "last_channel": 64},
    "densenet121": {"growth_rate": 8, "block_config": (2, 2), "num_init_features": 16},
    "squeezenet1_1": {},
    "shufflenet_v2_x1_0": {"stages_repeats": [2, 2, 1], "stages_out_channels": [8, 16, 32, 32, 64]},
    "convnext_tiny": {"block_setting": [convnext.CNBlockConfig(8, 16, 1), convnext.CNBlockConfig(16, None, 1)]},
    "vit_b_32": {"image_size": 64, "num_layers": 1, "num_heads": 2, "hidden_dim": 32, "mlp_dim": 48},
    "swin_t": {"embed_dim": 8, "depths": [2, 2], "num_heads": [2, 2], "window_size": [7, 7]},
    "mobilenet_v3_small": {"inverted_residual_setting": [
        mobilenetv3.InvertedResidualConfig(16, 3, 16, 16, True, "RE", 2, 1, 1),
        mobilenetv3.InvertedResidualConfig(16, 5, 32, 24, True, "HS", 2, 1, 1)], "last_channel": 32},
}
BUILDERS = {"convnext_tiny": convnext.ConvNeXt, "vit_b_32": functools.partial(vision_transformer.VisionTransformer, patch_size=32),
            "swin_t": functools.partial(swin_transformer.SwinTransformer, patch_size=[4, 4]),
            "mobilenet_v3_small": mobilenetv3.MobileNetV3, "resnet18": little_resnet, "resnet50": little_resnet,
            "mobilenet_v2": mobilenetv2.MobileNetV2, "efficientnet_b0": efficientnet.EfficientNet, "densenet121": densenet.DenseNet,
            "squeezenet1_1": little_squeezenet, "shufflenet_v2_x1_0": shufflenetv2.ShuffleNetV2}


def classifier(name, sizes=FIXED, dynamic=None):
    def build():
        if SMALL:
            return lively(BUILDERS[name](**LITTLE[name], num_classes=10))
        return lively(getattr(torchvision.models, name)(weights=None))
    inputs = functools.partial(image, height=32, width=32) if SMALL and name.startswith("resnet") else image
    if not SMALL or name in LITTLE:
        EXPORTS[name] = Export(build, inputs, sizes, ["image"], ["scores"], {"image": dynamic} if dynamic else {})


BATCH = {0: "batch"}
PIXELS = {2: "height", 3: "width"}

classifier("resnet18", ANY_BATCH, BATCH)
classifier("resnet50")
classifier("mobilenet_v2", ANY_SIZE, PIXELS)
classifier("mobilenet_v3_large", ANY_BATCH, BATCH)
classifier("mobilenet_v3_small", ANY_SIZE, PIXELS)
classifier("efficientnet_b0", ANY_BATCH, BATCH)
classifier("densenet121")
classifier("squeezenet1_1", ANY_SIZE, PIXELS)
classifier("shufflenet_v2_x1_0", ANY_BATCH, BATCH)
classifier("convnext_tiny", ANY_BATCH, BATCH)
classifier("vit_b_32", ANY_BATCH, BATCH)
classifier("swin_t", ANY_BATCH, BATCH)


class Twice(nn.Sequential):
    def __init__(self, inside, outside):
        super().__init__(nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(),
                         nn.Conv2d(outside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU())


class UNet(nn.Module):
    """Down by pooling, up by a transposed convolution or by interpolation, then padded to the size of the way down."""

    def __init__(self, width=sized(24, 4), depth=sized(3, 2)):
        super().__init__()
        widths = [width << i for i in range(depth + 1)]
        self.down = nn.ModuleList(Twice(a, b) for a, b in zip([3, *widths], widths))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) if i % 2 else nn.Conv2d(b, a, 1)
                                  for i, (a, b) in enumerate(zip(widths, widths[1:])))
        self.up = nn.ModuleList(Twice(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(width, 4, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(nn.functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for i in reversed(range(len(self.grow))):
            x, across = self.grow[i](x), kept[i]
            if not isinstance(self.grow[i], nn.ConvTranspose2d):
                x = nn.functional.interpolate(x, size=across.shape[2:], mode="bilinear", align_corners=True)
            bottom, right = across.shape[2] - x.shape[2], across.shape[3] - x.shape[3]
            x = nn.functional.pad(x, [right // 2, right - right // 2, bottom // 2, bottom - bottom // 2])
            x = self.up[i](torch.cat([across, x], 1))
        return self.head(x)


EXPORTS["unet"] = Export(lambda: lively(UNet()), image, [{"height": sized(128, 32), "width": sized(128, 24)}, {"height": sized(104, 22), "width": sized(84, 13)}],
                         ["image"], ["mask"], {"image": PIXELS})
