"""Networks for images: torchvision's classifiers with random weights, and a U-Net."""
import torch
import torchvision
from torch import nn

from spec import EXPORTS, Export, image, lively

FIXED = [{}]
ANY_BATCH = [{"batch": 1}, {"batch": 3}]
ANY_SIZE = [{"height": 224, "width": 224}, {"height": 160, "width": 288}]


def classifier(name, sizes=FIXED, dynamic=None):
    def build():
        return lively(getattr(torchvision.models, name)(weights=None))
    EXPORTS[name] = Export(build, image, sizes, ["image"], ["scores"], {"image": dynamic} if dynamic else {})


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

    def __init__(self, width=24, depth=3):
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


EXPORTS["unet"] = Export(lambda: lively(UNet()), image, [{"height": 128, "width": 128}, {"height": 104, "width": 84}],
                         ["image"], ["mask"], {"image": PIXELS})
