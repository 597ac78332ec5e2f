"""ResNet-50, SqueezeNet, MobileNet-v2 and -v3, EfficientNet-B0 and ViT-B/16."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.networks.attention import Layer
from benchmarks.networks.network import Network, images

SIDE = 224
"""Pixels of an image's side."""
_BATCH = {"images": {0: "batch"}, "scores": {0: "batch"}}


def convolved(inputs: int, outputs: int, side: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
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
            *convolved(inputs, width, 1), nn.ReLU(), *convolved(width, width, 3, stride), nn.ReLU(),
            *convolved(width, outputs, 1),
        )  # fmt: skip
        is_same = inputs == outputs and stride == 1
        self.beside = nn.Identity() if is_same else nn.Sequential(*convolved(inputs, outputs, 1, stride))

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


class Squeeze(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """Channels weighed by what they are on average."""

    def __init__(self, width: int, few: int, inner: nn.Module, outer: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, few, 1), inner, nn.Conv2d(few, width, 1), outer
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The channels, weighed."""
        return x * self.body(x)


class Inverted(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """A block of MobileNet or EfficientNet: widened, a window a channel, perhaps weighed, narrowed."""

    def __init__(
        self, inputs: int, wide: int, outputs: int, side: int, stride: int, act: Callable[[], nn.Module], squeeze: list[nn.Module]
    ) -> None:  # fmt: skip
        super().__init__()
        widened = [*convolved(inputs, wide, 1), act()] if wide > inputs else []
        self.body = nn.Sequential(
            *widened, *convolved(wide, wide, side, stride, wide), act(), *squeeze, *convolved(wide, outputs, 1)
        )
        self.is_added = inputs == outputs and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's answer, added to what came in where the two are alike."""
        return x + self.body(x) if self.is_added else self.body(x)


class Vit(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """Patches of an image as tokens, one more for the class, and layers of attention."""

    def __init__(self, side: int, patch: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width))
        self.layers = nn.Sequential(*(Layer(width, heads, first=True) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The scores of classes."""
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


def _ending(inputs: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)]


def _classifier(parts: list[nn.Module], side: int) -> Network:
    return Network(nn.Sequential(*parts), images(side), _BATCH, ("scores",))


def resnet(*, small: bool = False) -> Network:
    """ResNet-50, or a block of two stages."""
    torch.manual_seed(3)
    width, blocks = (8, (1, 1)) if small else (64, (3, 4, 6, 3))
    parts = [*convolved(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage, count in enumerate(blocks):
        for i in range(count):
            parts.append(Bottleneck(inputs, width << stage, 2 if stage and not i else 1))
            inputs = 4 * width << stage
    return _classifier([*parts, *_ending(inputs)], 32 if small else SIDE)


def squeezenet(*, small: bool = False) -> Network:
    """SqueezeNet 1.1, or its first blocks."""
    torch.manual_seed(3)
    pool = nn.MaxPool2d(3, 2, ceil_mode=True)
    parts = [nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool, Fire(64, 16, 64), Fire(128, 16, 64), pool]
    if not small:
        parts += [Fire(128, 32, 128), Fire(256, 32, 128), pool]
        parts += [Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256)]
    parts += [nn.Conv2d(128 if small else 512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return _classifier(parts, 32 if small else SIDE)


def mobilenet_v2(*, small: bool = False) -> Network:
    """MobileNet-v2, or a block of each kind."""
    torch.manual_seed(3)
    parts = [*convolved(3, 32, 3, 2), nn.ReLU6()]
    inputs = 32
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for factor, outputs, count, stride in rows[: 2 if small else None]:
        for i in range(count):
            parts.append(Inverted(inputs, factor * inputs, outputs, 3, 1 if i else stride, nn.ReLU6, []))
            inputs = outputs
    return _classifier([*parts, *convolved(inputs, 1280, 1), nn.ReLU6(), *_ending(1280)], 32 if small else SIDE)


def mobilenet_v3(*, small: bool = False) -> Network:
    """MobileNet-v3-large, or its first blocks of each kind."""
    torch.manual_seed(3)
    rows = (
        (3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2), (5, 120, 40, 1, 0, 1),
        (5, 120, 40, 1, 0, 1), (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1),
        (3, 184, 80, 0, 1, 1), (3, 480, 112, 1, 1, 1), (3, 672, 112, 1, 1, 1), (5, 672, 160, 1, 1, 2),
        (5, 960, 160, 1, 1, 1), (5, 960, 160, 1, 1, 1),
    )  # fmt: skip
    parts = [*convolved(3, 16, 3, 2), nn.Hardswish()]
    inputs = 16
    for side, wide, outputs, squeezed, swish, stride in (rows[0], rows[3], rows[6]) if small else rows:
        squeeze = [Squeeze(wide, wide // 4, nn.ReLU(), nn.Hardsigmoid())] if squeezed else []
        parts.append(Inverted(inputs, wide, outputs, side, stride, nn.Hardswish if swish else nn.ReLU, squeeze))
        inputs = outputs
    parts += [*convolved(inputs, 6 * inputs, 1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    parts += [nn.Linear(6 * inputs, 1280), nn.Hardswish(), nn.Linear(1280, 1000)]
    return _classifier(parts, 32 if small else SIDE)


def efficientnet(*, small: bool = False) -> Network:
    """EfficientNet-B0, or its first blocks."""
    torch.manual_seed(3)
    rows = (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    )  # fmt: skip
    parts = [*convolved(3, 32, 3, 2), nn.SiLU()]
    inputs = 32
    for factor, outputs, count, stride, side in rows[: 2 if small else None]:
        for i in range(count):
            wide = factor * inputs
            squeeze: list[nn.Module] = [Squeeze(wide, max(inputs // 4, 1), nn.SiLU(), nn.Sigmoid())]
            parts.append(Inverted(inputs, wide, outputs, side, 1 if i else stride, nn.SiLU, squeeze))
            inputs = outputs
    return _classifier(
        [*parts, *convolved(inputs, 4 * inputs, 1), nn.SiLU(), *_ending(4 * inputs)], 32 if small else SIDE
    )


def vit(*, small: bool = False) -> Network:
    """ViT-B/16, or a layer of it."""
    torch.manual_seed(3)
    side = 32 if small else SIDE
    return Network(Vit(32, 8, 32, 4, 1) if small else Vit(SIDE, 16, 768, 12, 12), images(side), _BATCH, ("scores",))
