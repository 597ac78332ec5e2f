"""ResNet-50, SqueezeNet and MobileNet-v2 of PyTorch's own layers with made-up weights, exported to ONNX."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.networks import export

SIDE = 224
"""Pixels of an image's side."""


def _convolved(inputs: int, outputs: int, side: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution that keeps the sizes but for its stride, and the normalisation after it."""
    made = nn.Conv2d(inputs, outputs, side, stride, side // 2, groups=groups, bias=False)
    norm = nn.BatchNorm2d(outputs)
    nn.init.normal_(norm.running_mean, 0, 0.1)
    nn.init.uniform_(norm.running_var, 0.5, 1.5)
    return [made, norm]


class Bottleneck(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """A block of ResNet-50."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            *_convolved(inputs, width, 1), nn.ReLU(), *_convolved(width, width, 3, stride), nn.ReLU(),
            *_convolved(width, outputs, 1),
        )  # fmt: skip
        is_same = inputs == outputs and stride == 1
        self.beside = nn.Identity() if is_same else nn.Sequential(*_convolved(inputs, outputs, 1, stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What the block adds, rectified."""
        return torch.relu(self.body(x) + self.beside(x))


class Fire(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """A block of SqueezeNet."""

    def __init__(self, inputs: int, few: int, many: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(nn.Conv2d(inputs, few, 1), nn.ReLU())
        self.small = nn.Sequential(nn.Conv2d(few, many, 1), nn.ReLU())
        self.large = nn.Sequential(nn.Conv2d(few, many, 3, padding=1), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The channels of both windows, one after the other."""
        x = self.squeeze(x)
        return torch.cat((self.small(x), self.large(x)), 1)


class Inverted(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """A block of MobileNet-v2."""

    def __init__(self, inputs: int, outputs: int, stride: int, factor: int) -> None:
        super().__init__()
        wide = inputs * factor
        widened = [*_convolved(inputs, wide, 1), nn.ReLU6()] if factor > 1 else []
        self.body = nn.Sequential(
            *widened, *_convolved(wide, wide, 3, stride, wide), nn.ReLU6(), *_convolved(wide, outputs, 1)
        )
        self.is_added = inputs == outputs and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's answer, added to what came in where the two are alike."""
        return x + self.body(x) if self.is_added else self.body(x)


def _ending(inputs: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)]


def resnet(side: int = SIDE, blocks: tuple[int, ...] = (3, 4, 6, 3)) -> bytes:
    """ResNet-50 by default."""
    parts = [*_convolved(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, count in enumerate(blocks):
        for i in range(count):
            parts.append(Bottleneck(inputs, 64 << stage, 2 if stage and not i else 1))
            inputs = 256 << stage
    return _exported(nn.Sequential(*parts, *_ending(inputs)), side)


def squeezenet(side: int = SIDE) -> bytes:
    """SqueezeNet 1.1."""
    parts = [nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)]
    parts += [Fire(64, 16, 64), Fire(128, 16, 64), nn.MaxPool2d(3, 2, ceil_mode=True)]
    parts += [Fire(128, 32, 128), Fire(256, 32, 128), nn.MaxPool2d(3, 2, ceil_mode=True)]
    parts += [Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256)]
    return _exported(
        nn.Sequential(*parts, nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()), side
    )


def mobilenet(side: int = SIDE) -> bytes:
    """MobileNet-v2."""
    parts = [*_convolved(3, 32, 3, 2), nn.ReLU6()]
    inputs = 32
    for factor, outputs, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    ):  # fmt: skip
        for i in range(count):
            parts.append(Inverted(inputs, outputs, 1 if i else stride, factor))
            inputs = outputs
    return _exported(nn.Sequential(*parts, *_convolved(inputs, 1280, 1), nn.ReLU6(), *_ending(1280)), side)


def _exported(network: nn.Module, side: int) -> bytes:
    torch.manual_seed(3)
    for one in network.modules():
        if isinstance(one, (nn.Conv2d, nn.Linear)):
            one.reset_parameters()
    images = torch.zeros((2, 3, side, side))
    return export(network, (images,), {"images": {0: "batch"}, "scores": {0: "batch"}}, ["scores"])
