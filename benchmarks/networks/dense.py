"""Networks that answer for each place of an image: a U-Net, and detection of YOLO's shape with NonMaxSuppression."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.networks.network import Network, images
from benchmarks.networks.vision import convolved


def _twice(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(*convolved(inputs, outputs, 3), nn.ReLU(), *convolved(outputs, outputs, 3), nn.ReLU())


class UNet(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """Down and up again; the last step up is a resize, the others transposed convolutions."""

    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        widths = [width << i for i in range(levels)]
        self.down = nn.ModuleList(_twice(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * n, n, 2, 2) for n in widths[1:-1])
        self.resized = nn.Conv2d(2 * width, width, 1)
        self.after = nn.ModuleList(_twice(2 * n, n) for n in widths[:-1])
        self.out = nn.Conv2d(width, 21, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The scores of classes at each pixel."""
        kept: list[torch.Tensor] = []
        x = images
        for block in self.down:
            kept.append(x := block(functional.max_pool2d(x, 2) if kept else x))
        for i in reversed(range(len(self.after))):
            if i:
                x = self.up[i - 1](x)
            else:
                x = self.resized(functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False))
            x = self.after[i](torch.cat((kept[i], x), 1))
        return self.out(x)


class Suppressed(torch.autograd.Function):  # type: ignore[misc]  # PyTorch has no types here
    """ONNX's NonMaxSuppression, which PyTorch itself has not."""

    @staticmethod
    def forward(ctx: Any, boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - PyTorch's own
        """A stand-in: the exporter looks at the sizes alone."""
        return torch.zeros((4, 3), dtype=torch.int64)

    @staticmethod
    def symbolic(g: Any, boxes: Any, scores: Any) -> Any:
        """The node."""
        limits = (torch.tensor([20]), torch.tensor([0.5]), torch.tensor([0.3]))
        return g.op("NonMaxSuppression", boxes, scores, *(g.op("Constant", value_t=limit) for limit in limits))


def _silu(inputs: int, outputs: int, side: int = 1, stride: int = 1) -> nn.Module:
    return nn.Sequential(*convolved(inputs, outputs, side, stride), nn.SiLU())


class Cross(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """Half of the channels go through small blocks, and all that they were on the way is joined."""

    def __init__(self, inputs: int, outputs: int, count: int, *, added: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.first, self.last = _silu(inputs, outputs), _silu(outputs + count * half, outputs)
        self.blocks = nn.ModuleList(nn.Sequential(_silu(half, half, 3), _silu(half, half, 3)) for _ in range(count))
        self.added = added

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The joined channels."""
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]) if self.added else block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """YOLO's shape: three levels, joined up and down; boxes as sums over bins; NonMaxSuppression and the boxes left."""

    def __init__(self, width: int, side: int, classes: int, bins: int = 16) -> None:
        super().__init__()
        w = [width, 2 * width, 4 * width, 8 * width, 16 * width]
        self.bins, self.classes = bins, classes
        self.stem = nn.Sequential(_silu(3, w[0], 3, 2), _silu(w[0], w[1], 3, 2), Cross(w[1], w[1], 1, added=True))
        self.stages = nn.ModuleList(
            nn.Sequential(_silu(a, b, 3, 2), Cross(b, b, n, added=True))
            for a, b, n in ((w[1], w[2], 2), (w[2], w[3], 2), (w[3], w[4], 1))
        )
        self.squeeze, self.spread = _silu(w[4], w[3]), _silu(4 * w[3], w[4])
        self.up = nn.ModuleList((Cross(w[4] + w[3], w[3], 1, added=False), Cross(w[3] + w[2], w[2], 1, added=False)))
        self.step = nn.ModuleList((_silu(w[2], w[2], 3, 2), _silu(w[3], w[3], 3, 2)))
        self.down = nn.ModuleList((Cross(w[2] + w[3], w[3], 1, added=False), Cross(w[3] + w[4], w[4], 1, added=False)))
        self.boxes = nn.ModuleList(
            nn.Sequential(_silu(n, 4 * bins, 3), nn.Conv2d(4 * bins, 4 * bins, 1)) for n in w[2:]
        )
        self.scores = nn.ModuleList(nn.Sequential(_silu(n, w[2], 3), nn.Conv2d(w[2], classes, 1)) for n in w[2:])
        self.register_buffer("bin", torch.arange(bins, dtype=torch.float32).view(1, bins, 1, 1))
        centres, strides = [], []
        for stride in (8, 16, 32):
            places = torch.arange(side // stride) + 0.5
            rows, columns = torch.meshgrid(places, places, indexing="ij")
            centres.append(torch.stack((columns, rows)).reshape(2, -1))
            strides.append(torch.full((1, centres[-1].shape[1]), float(stride)))
        self.register_buffer("centres", torch.cat(centres, 1))
        self.register_buffer("strides", torch.cat(strides, 1))

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """All boxes and scores; image, class and box of those that are left, and these boxes."""
        near = self.stages[0](self.stem(images))
        middle = self.stages[1](near)
        pooled = [self.squeeze(self.stages[2](middle))]
        for _ in range(3):
            pooled.append(functional.max_pool2d(pooled[-1], 5, 1, 2))
        far = self.spread(torch.cat(pooled, 1))
        middle = self.up[0](torch.cat((functional.interpolate(far, scale_factor=2), middle), 1))
        levels = [self.up[1](torch.cat((functional.interpolate(middle, scale_factor=2), near), 1))]
        for step, down, other in zip(self.step, self.down, (middle, far), strict=True):
            levels.append(down(torch.cat((step(levels[-1]), other), 1)))
        spans = torch.cat([head(x).flatten(2) for head, x in zip(self.boxes, levels, strict=True)], 2)
        scores = torch.cat([head(x).flatten(2) for head, x in zip(self.scores, levels, strict=True)], 2).sigmoid()
        shares = spans.view(spans.shape[0], 4, self.bins, -1).transpose(2, 1).softmax(1)
        lead, rest = (shares * self.bin).sum(1).chunk(2, 1)
        boxes = (torch.cat((self.centres - lead, self.centres + rest), 1) * self.strides).transpose(1, 2)
        left = Suppressed.apply(boxes.float(), scores.float())
        return boxes, scores, left, boxes[left[:, 0], left[:, 2]]


def unet(*, small: bool = False) -> Network:
    """A U-Net of four levels, 32 to 256 channels."""
    torch.manual_seed(7)
    module = UNet(8, 3) if small else UNet(32, 4)
    sizes = {"images": {0: "batch", 2: "rows", 3: "columns"}, "scores": {0: "batch", 2: "rows", 3: "columns"}}
    return Network(module, images(32 if small else 256), sizes, ("scores",))


def yolo(*, small: bool = False) -> Network:
    """YOLO-v8's nano size."""
    torch.manual_seed(8)
    module = Yolo(4, 64, 4, 4) if small else Yolo(16, 320, 80)
    sizes = {name: {0: "batch"} for name in ("images", "boxes", "scores")} | {"left": {0: "left"}, "kept": {0: "left"}}
    return Network(module, images(64 if small else 320), sizes, ("boxes", "scores", "left", "kept"))
