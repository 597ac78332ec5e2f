"""Rows of images moved: resampled, padded, tiled, depth turned into space and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.cpu.rows import CpuRow

PADDINGS = {
    # DirectML's mode: NumPy's, PyTorch's, ONNX's
    "CONSTANT": ("constant", "constant", "constant"),
    "EDGE": ("edge", "replicate", "edge"),
    "REFLECTION": ("reflect", "reflect", "reflect"),
    "SYMMETRIC": ("symmetric", None, None),
    "WRAP": ("wrap", "circular", "wrap"),
}


@dataclass(kw_only=True)
class ImageRow(CpuRow):
    """A row that reads less than it writes, or more."""

    family: str = "image"

    @property
    def bytes(self) -> int:
        """The image read once, the result written once."""
        return self.inputs[0].nbytes + int(np.prod(self.output.sizes)) * self.inputs[0].itemsize


def images(rng: np.random.Generator, channels: int, side: int) -> list[Callable[[], CpuRow]]:
    """Every row for an image of so many channels and so many rows and columns."""
    x = rng.random((1, channels, side, side), np.float32)
    # Not the nearest by 2.3: peers divide in FLOAT32, and find other elements where two are equally near.
    scales = {"nearest": (2.0, 2.5, 0.5), "linear": (2.0, 3.0, 2.3, 0.5)}
    made: list[Callable[[], CpuRow]] = [partial(_resampled, x, by, mode) for mode in scales for by in scales[mode]]
    made += [partial(_padded, x, mode) for mode in PADDINGS]
    return [*made, partial(_tiled, x), *(partial(_blocks, x, is_depth=is_depth) for is_depth in (True, False))]


def _title(what: str, x: np.ndarray) -> str:
    return f"image, {what}, {x.shape[1]} x {x.shape[2]}²"


def _resampled(x: np.ndarray, scale: float, mode: str) -> CpuRow:
    size = int(x.shape[2] * scale)
    sizes = (*x.shape[:2], size, size)
    is_linear = mode == "linear"
    desc = dml.Resample1(
        input_tensor=dml.TensorDesc.of(x), output_tensor=dml.TensorDesc("float32", sizes),
        interpolation_mode="linear" if is_linear else "nearest_neighbor",
        scales=[1.0, 1.0, scale, scale], input_pixel_offsets=[0.5] * 4, output_pixel_offsets=[-0.5] * 4,
    )  # fmt: skip

    def by_torch(torch: Any) -> Any:
        t, kind = torch.from_numpy(x), {"linear": "bilinear", "nearest": "nearest-exact"}[mode]
        more = {"align_corners": False} if is_linear else {}
        return lambda _out: torch.nn.functional.interpolate(t, scale_factor=scale, mode=kind, **more)  # it has no out=

    onnx = {"op": "Resize", "constants": [np.zeros(0, np.float32), np.array([1, 1, scale, scale], np.float32)],
            "attributes": {"mode": mode, "nearest_mode": "round_prefer_ceil"}}  # fmt: skip
    return ImageRow(
        name=_title(f"resampled by {scale:g}, {mode}", x), inputs=[x], desc=desc, numpy=None, torch=by_torch, onnx=onnx,
        exact=not is_linear, rtol=1e-3, atol=1e-3,
    )  # fmt: skip


def _padded(x: np.ndarray, mode: str) -> CpuRow:
    by_numpy, by_torch, by_onnx = PADDINGS[mode]
    width = [0, 0, 3, 3]
    desc = dml.Padding.infer(
        input_tensor=dml.TensorDesc.of(x), padding_mode=mode, start_padding=width, end_padding=width
    )

    def torch_pad(torch: Any) -> Any:
        t = torch.from_numpy(x)
        return lambda _out: torch.nn.functional.pad(t, (3, 3, 3, 3), by_torch)  # it has no out=

    onnx = {"op": "Pad", "constants": [[*width, *width]], "attributes": {"mode": by_onnx}, "opset": 19}
    return ImageRow(
        name=_title(f"padded, {mode.lower()}", x), inputs=[x], desc=desc, torch=torch_pad if by_torch else None,
        numpy=lambda _out: np.pad(x, [(n, n) for n in width], by_numpy), onnx=onnx if by_onnx else None,  # type: ignore[call-overload]  # a mode by its name
    )  # fmt: skip


def _tiled(x: np.ndarray) -> CpuRow:
    desc = dml.Tile.infer(input_tensor=dml.TensorDesc.of(x), repeats=[1, 1, 2, 2])

    def by_torch(torch: Any) -> Any:
        t = torch.from_numpy(x)
        return lambda _out: t.repeat(1, 1, 2, 2)  # it has no out=

    return ImageRow(
        name=_title("tiled 2 x 2", x), inputs=[x], desc=desc, torch=by_torch,
        numpy=lambda _out: np.tile(x, (1, 1, 2, 2)), onnx={"op": "Tile", "constants": [[1, 1, 2, 2]]},
    )  # fmt: skip


def _blocks(x: np.ndarray, *, is_depth: bool) -> CpuRow:
    """Blocks of 2 x 2: channels into them, or them into channels."""
    batch, channels, height, width = x.shape
    make, name = (dml.DepthToSpace, "DepthToSpace") if is_depth else (dml.SpaceToDepth, "SpaceToDepth")
    desc = make.infer(input_tensor=dml.TensorDesc.of(x), block_size=2)
    if is_depth:
        split, order = (batch, 2, 2, channels // 4, height, width), (0, 3, 4, 1, 5, 2)
    else:
        split, order = (batch, channels, height // 2, 2, width // 2, 2), (0, 3, 5, 1, 2, 4)
    moved = tuple(split[k] for k in order)

    def by_torch(torch: Any) -> Any:
        t = torch.from_numpy(x).reshape(split).permute(order)
        return lambda out: out.view(moved).copy_(t)

    return ImageRow(
        name=_title("depth to space" if is_depth else "space to depth", x), inputs=[x], desc=desc, torch=by_torch,
        numpy=lambda out: np.copyto(out.reshape(moved), x.reshape(split).transpose(order)),
        onnx={"op": name, "constants": [], "attributes": {"blocksize": 2}},
    )  # fmt: skip
