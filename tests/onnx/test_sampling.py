"""GridSample in all of its modes, and RoiAlign: what ONNX Runtime has, and PyTorch's cubics."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import anydml as dml
from onnx_models import model, node

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing

runtime: Any = pytest.importorskip("onnxruntime", reason="the answers are ONNX Runtime's")
RNG = np.random.default_rng(20)


def both(made: Any, feeds: dict[str, Any]) -> tuple[Any, Any]:
    """What we have, and what ONNX Runtime has."""
    ours = anydml.onnx.load(made).run(feeds)["y"]
    (theirs,) = runtime.InferenceSession(made.SerializeToString()).run(None, feeds)
    return ours, theirs


def test_grids_of_every_mode() -> None:
    """Places reach far outside; a dimension may have one element. Cubics of 3-D, which it lacks, ONNX's tests have."""
    every = itertools.product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection"))
    several = [((3, 4), mode, padding, number % 2) for number, (mode, padding) in enumerate(every)]
    for sizes, mode, padding, align in [
        *several,
        ((1, 5), "cubic", "reflection", 1),
        ((3, 5), "cubic", "reflection", 1),
        ((2, 3, 4), "linear", "reflection", 0),
    ]:
        count = len(sizes)
        x = RNG.standard_normal((2, 3, *sizes)).astype("float32")
        grid = RNG.uniform(-2.5, 2.5, (2, *(4, 5, 3)[:count], count)).astype("float32")
        far: Any = (0, slice(None), *[0] * count)
        last: Any = (0, slice(None), *[-1] * count)
        grid[0].reshape(-1, count)[0] = 3e9
        inputs = {"x": ("float32", x.shape), "grid": ("float32", grid.shape)}
        made = model(
            node("GridSample", "x grid", "y", mode=mode, padding_mode=padding, align_corners=align), inputs, opset=20
        )
        ours, theirs = both(made, {"x": x, "grid": grid})
        if padding != "reflection":  # ONNX Runtime has 0 here, and PyTorch what we have
            assert np.array_equal(ours[far], x[last] if padding == "border" else np.zeros(3))
        ours[far] = theirs[far] = 0
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-4, err_msg=f"{sizes} {mode} {padding} {align}")


def test_grids_move_bits_of_other_types() -> None:
    x = RNG.integers(-(2**62), 2**62, (1, 2, 3, 4))
    grid = RNG.uniform(-1.5, 1.5, (1, 5, 5, 2)).astype("float16")
    inputs = {"x": ("int64", x.shape), "grid": ("float16", grid.shape)}
    made = model(node("GridSample", "x grid", "y", mode="nearest", align_corners=1), inputs, opset=22)
    found = anydml.onnx.load(made).run({"x": x, "grid": grid})["y"]
    column, row = (np.rint((grid[0, ..., k].astype("float32") + 1) / 2 * (3 - k)) for k in range(2))
    inside = (column >= 0) & (column < 4) & (row >= 0) & (row < 3)
    at = np.clip(row, 0, 2).astype(int), np.clip(column, 0, 3).astype(int)
    assert np.array_equal(found[0], np.where(inside, x[0][:, at[0], at[1]], 0))


@pytest.mark.parametrize(
    ("attributes", "grid", "message"),
    [
        ({"mode": "square"}, (1, 2, 2, 2), "mode must be linear, nearest or cubic; got 'square'"),
        ({"padding_mode": "wrap"}, (1, 2, 2, 2), "padding_mode must be zeros, border or reflection; got 'wrap'"),
        ({}, (1, 2, 2, 3), r"X and grid must be \{N, C, H, W\} and .* got \(1, 2, 3, 4\) and \(1, 2, 2, 3\)"),
        ({}, (2, 2, 2, 2), "X and grid must be"),
    ],
)
def test_grids_that_fit_nothing(attributes: dict[str, str], grid: tuple[int, ...], message: str) -> None:
    inputs = {"x": ("float32", (1, 2, 3, 4)), "grid": ("float32", grid)}
    with pytest.raises(dml.DmlError, match=message):
        anydml.onnx.load(model(node("GridSample", "x grid", "y", **attributes), inputs, opset=20))


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions(mode: str) -> None:
    """One is empty, and one ends before it begins: those have no samples, or are made larger."""
    x = RNG.standard_normal((2, 3, 9, 11)).astype("float32")
    corners = RNG.uniform(-1, 5, (5, 2))
    rois = np.hstack([corners, corners + RNG.uniform(0.1, 5, (5, 2))]).astype("float32")
    rois[3, 2], rois[4, 3] = rois[3, 0], rois[4, 1] - 1
    inputs = {"x": ("float32", x.shape), "rois": ("float32", rois.shape), "images": ("int64", (5,))}
    for samples, scale, way in ((0, 0.5, "half_pixel"), (2, 1.0, "output_half_pixel"), (0, 1.0, "output_half_pixel")):
        made = model(
            node(
                "RoiAlign",
                "x rois images",
                "y",
                mode=mode,
                output_height=3,
                output_width=2,
                sampling_ratio=samples,
                spatial_scale=scale,
                coordinate_transformation_mode=way,
            ),
            inputs,
            opset=16,
        )
        ours, theirs = both(made, {"x": x, "rois": rois / np.float32(scale), "images": np.array([0, 1, 1, 0, 1])})
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)


def test_a_resize_by_a_scale_that_no_float_has() -> None:
    """10 by the FLOAT next to 2.3, which lies below it, are 23, as ONNX Runtime has it; sizes past all are refused."""
    x = RNG.random((1, 2, 10, 9), np.float32)
    scales = np.array([1, 1, 2.3, 1.7], np.float32)
    for mode in ("linear", "cubic"):
        made = model(
            node("Resize", "x - s", "y", mode=mode), {"x": ("float32", x.shape)}, constants={"s": scales}, opset=19
        )
        ours, theirs = both(made, {"x": x})
        assert ours.shape == (1, 2, 23, 15)
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)
    scales[2] = 3e38
    with pytest.raises(dml.DmlError):
        anydml.onnx.load(
            model(node("Resize", "x - s", "y"), {"x": ("float32", x.shape)}, constants={"s": scales}, opset=19)
        )
