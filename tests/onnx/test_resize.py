"""Resize and Upsample: places in exact fractions, judged against Python's, and what ONNX Runtime has of the rest."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from onnx_answers import ENGINE, run_there
from onnx_models import model, node

from anydml.onnx.lower import resize  # isort: skip - after the models, which leave this out where onnx is missing
from anydml.operators.resampling import Axis

if TYPE_CHECKING:
    from collections.abc import Sequence

RNG = np.random.default_rng(31)
HALF = Fraction(1, 2)
WAYS = (
    "half_pixel",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
    "asymmetric",
    "align_corners",
    "tf_half_pixel_for_nn",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def position(way: str, o: int, size: int, length: int, scale: Fraction) -> Fraction:
    """ONNX's formulas as its page on Resize has them."""
    whole = scale * size
    if way == "asymmetric":
        return o / scale
    if way == "align_corners":
        return Fraction(0) if whole == 1 else o * (size - 1) / (whole - 1)
    if way == "tf_half_pixel_for_nn":
        return (o + HALF) / scale
    if way == "pytorch_half_pixel" and length == 1:
        return Fraction(0)
    offset = Fraction(size, 2) * (1 - length / whole) if way == "half_pixel_symmetric" else 0
    return offset + (o + HALF) / scale - HALF


def rounded(x: Fraction, nearest: str) -> int:
    """The nearest element."""
    if nearest in ("floor", "ceil"):
        return math.floor(x) if nearest == "floor" else math.ceil(x)
    return math.floor(x + HALF) if nearest == "round_prefer_ceil" else math.ceil(x - HALF)


def places(way: str, nearest: str, size: int, length: int, scale: Fraction) -> list[int]:
    """The nearest elements; by a scale of 1 each stands in its own place."""
    if scale == 1:
        return list(range(length))
    found = [rounded(position(way, o, size, length, scale), nearest) for o in range(length)]
    return [min(max(place, 0), size - 1) for place in found]


def resized(x: Any, *, opset: int = 19, engine: str = ENGINE, kind: str = "Resize", **given: Any) -> Any:
    """What an engine has: `sizes`, `scales` and `roi` are inputs, others attributes."""
    names = ("scales",) if opset < 11 else ("roi", "scales", "sizes")
    empty = {} if opset >= 13 else {name: np.zeros(0, "float32") for name in ("roi", "scales")}
    dtypes = {"roi": "float32", "scales": "float32", "sizes": "int64"}
    constants = {name: np.asarray(given.pop(name), dtypes[name]) for name in names if name in given}
    constants = {**({} if opset < 11 else empty), **constants}
    inputs = " ".join(name if name in constants else "-" for name in names)
    made = model(
        node(kind, f"x {inputs}".rstrip(" -"), "y", **given),
        {"x": (x.dtype, x.shape)},
        constants=constants,
        opset=opset,
        dtypes={"y": x.dtype},
    )
    return dml.onnx.load(made, device=engine, strict=True).run({"x": x})["y"], made


def test_what_stands_halfway_is_rounded_as_asked() -> None:
    """Element 2 of five in twelve stands at 5.5, and a whole scale's odd phases on elements themselves."""
    x = np.arange(12, dtype="float32")
    assert resized(x, sizes=[5])[0].tolist() == [1, 3, 5, 8, 10]
    for scale, nearest in itertools.product((3, 5, 7), ROUNDINGS):
        found, _ = resized(x, scales=[scale], nearest_mode=nearest)
        assert found.tolist() == places("half_pixel", nearest, 12, 12 * scale, Fraction(scale)), (scale, nearest)


@pytest.mark.parametrize("is_sized", [True, False], ids=["sizes", "scales"])
@pytest.mark.parametrize("way", WAYS)
def test_the_nearest_elements(way: str, *, is_sized: bool) -> None:
    """Of drawn sizes, three pairs at once, of types that RESAMPLE3 has and lacks, at every opset with the attribute."""
    for number, nearest in enumerate(ROUNDINGS * 3):
        sizes = [int(size) for size in RNG.integers(1, 65, 3)]
        if is_sized:
            lengths = [int(length) for length in RNG.integers(1, 65, 3)]
            scales = [Fraction(length, size) for length, size in zip(lengths, sizes, strict=True)]
            given: dict[str, Any] = {"sizes": lengths}
        else:
            scales = [Fraction(int(a), int(b)) for a, b in RNG.integers(1, 25, (3, 2))]
            floats = [np.float32(float(scale)) for scale in scales]
            lengths = [math.floor(np.float32(size) * scale) for size, scale in zip(sizes, floats, strict=True)]
            given = {"scales": floats}
        dtype = ("float32", "int64", "uint8", "float16")[number % 4]
        x = (np.arange(math.prod(sizes)) % 251).reshape(sizes).astype(dtype)
        opset = 19 if way == "half_pixel_symmetric" else (11, 13, 18, 19)[number // 3]
        found, _ = resized(
            x, opset=opset, mode="nearest", coordinate_transformation_mode=way, nearest_mode=nearest, **given
        )
        each = [places(way, nearest, *pair) for pair in zip(sizes, lengths, scales, strict=True)]
        assert np.array_equal(found, x[np.ix_(*each)]), (sizes, lengths, nearest, x.dtype)


def integers(way: str, size: int, length: int) -> tuple[Any, int]:
    """Where elements stand, as fractions of one denominator: they follow one another at one step."""
    first, second = (position(way, o, size, length, Fraction(length, size)) for o in (0, 1))
    under = math.lcm(first.denominator, second.denominator)
    return int(first * under) + np.arange(length) * int((second - first) * under), under


@pytest.mark.long
def test_the_nearest_elements_of_pairs_of_sizes() -> None:
    """Every third pair to 64, by exact places, and by RESAMPLE3's arithmetic where that is exact."""
    resampled, node = 0, None
    nearest_of = {
        "floor": lambda over, under: over // under,
        "ceil": lambda over, under: -(-over // under),
        "round_prefer_ceil": lambda over, under: (2 * over + under) // (2 * under),
        "round_prefer_floor": lambda over, under: -((under - 2 * over) // (2 * under)),
    }
    for size, length, way in itertools.product(range(1, 65), range(1, 65), WAYS):
        scale = Fraction(length, size)
        if scale == 1 or (size + length) % 3:
            continue
        affine = resize._affine(node, way, size, length, scale, (Fraction(0), Fraction(1)))  # type: ignore[arg-type]
        line, (over, under) = resize._Line(0, size, length, scale, *affine), integers(way, size, length)
        if is_resampled := line.is_resampled():
            resampled += 1
            offsets = float(line.input_offset), float(line.output_offset)
            theirs = Axis(size, length, float(np.float32(float(1 / line.step))), *offsets).positions()
        for nearest in ROUNDINGS:
            wanted = np.clip(nearest_of[nearest](over, under), 0, size - 1)
            assert np.array_equal(line.places(nearest), wanted), (way, nearest, size, length)
            if is_resampled:
                direction, shift = resize._NEAREST[nearest]
                there = (np.ceil if direction is dml.AxisDirection.INCREASING else np.floor)(theirs - shift)
                assert np.array_equal(np.clip(there, 0, size - 1), wanted), (way, nearest, size, length)
    assert resampled > 6_000


def test_long_dimensions_whose_ratio_no_float_has() -> None:
    """2999 of 4001: RESAMPLE3 has the FLOAT next to it for a scale, by which the one in the middle is another."""
    x = np.arange(4001, dtype="float32")
    for nearest in ROUNDINGS:
        found, _ = resized(x, sizes=[2999], nearest_mode=nearest)
        assert found.tolist() == places("half_pixel", nearest, 4001, 2999, Fraction(2999, 4001))


def test_opset_10_and_upsample() -> None:
    """Before there was nearest_mode the element after is the nearest where there are fewer of them."""
    x = np.array([1, 2, 3, 4], "float32")
    assert resized(x, opset=10, scales=[0.6])[0].tolist() == [1, 3]
    x = RNG.standard_normal((5, 7, 9)).astype("float32")
    for scales in ((0.6, 1.7, 0.35), (1.0, 2.0, 3.0), (0.25, 0.5, 1.0), (1.3, 0.7, 2.1)):
        found, made = resized(x, opset=10, scales=scales)
        assert np.array_equal(found, run_there(made, {"x": x})[0]), scales
    for opset, scales in itertools.product((7, 9), ((1.0, 2.0, 3.0), (1.5, 1.3, 2.7))):
        if opset == 9:
            found, made = resized(x, opset=9, kind="Upsample", scales=scales)
        else:
            made = model(node("Upsample", "x", "y", scales=scales), {"x": ("float32", x.shape)}, opset=7)
            found = dml.onnx.load(made, device=ENGINE, strict=True).run({"x": x})["y"]
        assert np.array_equal(found, run_there(made, {"x": x})[0]), (opset, scales)
    with pytest.raises(dml.DmlError, match=r"scales must be at least 1: .* got \[1.0, 0.5, 1.0\]"):
        resized(x, opset=9, kind="Upsample", scales=[1.0, 0.5, 1.0])


def test_open_sizes() -> None:
    """A model whose sizes are open finds the same, however often others come."""
    made = model(
        [
            node("Resize", "x - s", "a", coordinate_transformation_mode="half_pixel", nearest_mode="floor"),
            node("Resize", "x - - z", "b", mode="nearest"),
        ],
        {"x": ("float32", ["n", "h"])},
        "a b",
        {"s": np.array([1, 5 / 3], "float32"), "z": np.array([2, 5])},
        opset=19,
    )
    loaded = dml.onnx.load(made, device=ENGINE)
    for rows, size in ((2, 12), (3, 7), (4, 9), (2, 24), (5, 12), (2, 31), (6, 17)):
        x = np.arange(rows * size, dtype="float32").reshape(rows, size)
        found = loaded.run({"x": x})
        length = math.floor(np.float32(size) * np.float32(5 / 3))
        assert np.array_equal(found["a"], x[:, places("half_pixel", "floor", size, length, Fraction(5, 3))])
        each = [
            places("half_pixel", "round_prefer_floor", old, new, Fraction(new, old))
            for old, new in ((rows, 2), (size, 5))
        ]
        assert np.array_equal(found["b"], x[np.ix_(*each)])


# Types and dimensions


def weighted(x: Any, length: int, *, antialias: bool = False) -> Any:
    """The last dimension by linear half_pixel, in fractions."""
    size = x.shape[-1]
    scale, rows = Fraction(length, size), []
    stretch = max(1 / scale, Fraction(1)) if antialias else Fraction(1)
    for o in range(length):
        at = position("half_pixel", o, size, length, scale)
        parts = {k: max(1 - abs(k - at) / stretch, Fraction(0)) for k in range(-size, 2 * size)}
        row = [Fraction(0)] * size
        for k, part in parts.items():
            row[min(max(k, 0), size - 1)] += part / sum(parts.values())
        rows.append(row)
    return x.astype(object) @ np.array(rows, object).T


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
def test_integers(dtype: str) -> None:
    """Linear ones are cut off, as ONNX Runtime does, by what they are and not by what FLOAT makes of it.

    With antialias they are rounded after each dimension, the last first.
    """
    x = np.array([[1, 2, 3, 4]], dtype)
    assert resized(x, mode="linear", antialias=1, scales=[1, 0.75])[0].tolist() == [[1, 3, 4]]
    low = -100 if np.iinfo(dtype).min else 0
    for sizes, lengths in (((6, 11), (9, 5)), ((5, 9), (10, 18)), ((12, 10), (7, 7)), ((3, 7), (1, 3))):
        x = RNG.integers(low, 120, sizes).astype(dtype)
        columns = weighted(x, lengths[1])
        wanted = weighted(columns.T, lengths[0]).T
        found, _ = resized(x, mode="linear", sizes=lengths)
        assert np.array_equal(found, np.vectorize(math.trunc)(wanted).astype(dtype)), (sizes, lengths)
        away = np.vectorize(lambda x: math.floor(abs(x) + HALF) * (1 if x > 0 else -1))
        columns = away(weighted(x, lengths[1], antialias=True))
        wanted = away(weighted(columns.T, lengths[0], antialias=True)).T
        found, _ = resized(x, mode="linear", sizes=lengths, antialias=1)
        assert np.array_equal(found, wanted.astype(dtype)), (sizes, lengths)


def test_a_picture_of_one_colour_keeps_it() -> None:
    x = np.broadcast_to(np.arange(256, dtype="uint8").reshape(256, 1, 1), (256, 3, 7))
    for mode, antialias in (("linear", 0), ("linear", 1), ("cubic", 0), ("cubic", 1)):
        found, _ = resized(x, mode=mode, sizes=[256, 5, 13], antialias=antialias)
        assert (found == x[:, :1, :1]).all(), (mode, antialias)


@pytest.mark.parametrize("way", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
def test_three_dimensions_of_five(way: str) -> None:
    """As PyTorch exports trilinear and nearest; one image or several, one plane or several."""
    for batch, mode, lengths in itertools.product((1, 2), ("linear", "nearest"), ((6, 8, 10), (1, 3, 2), (3, 4, 7))):
        x = RNG.standard_normal((batch, 2, 3, 4, 5)).astype("float32")
        sizes = [batch, 2, *lengths]
        found, made = resized(x, mode=mode, coordinate_transformation_mode=way, nearest_mode="floor", sizes=sizes)
        if mode == "linear":  # of the nearest ONNX Runtime's FLOAT finds others
            np.testing.assert_allclose(found, run_there(made, {"x": x})[0], 1e-5, 1e-5)
            continue
        pairs = zip(x.shape, sizes, strict=True)
        each = [places(way, "floor", old, new, Fraction(new, old)) for old, new in pairs]
        assert np.array_equal(found, x[np.ix_(*each)])


def test_more_dimensions_than_resample_has() -> None:
    """Every one of five changes, which takes two operators."""
    x = RNG.standard_normal((2, 3, 4, 3, 5)).astype("float32")
    found, _ = resized(x, mode="linear", sizes=[3, 5, 2, 4, 7])
    wanted: Any = x
    for axis, length in enumerate((3, 5, 2, 4, 7)):
        moved = weighted(np.moveaxis(wanted.astype("float64"), axis, -1), length)
        wanted = np.moveaxis(moved, -1, axis).astype("float64")
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


# Regions


def test_regions_move_elements_as_they_are() -> None:
    """Of INT64 no digit is lost, an infinity stays where it is, and what stands outside is the value for it."""
    ends = (-0.2, 0.25, 1.2, 1.0)
    for x in (
        RNG.integers(-(2**62), 2**62, (6, 9)),
        np.where(RNG.random((6, 9)) < 0.2, np.inf, RNG.random((6, 9))).astype("float32"),
    ):
        found, _ = resized(
            x,
            sizes=[7, 4],
            roi=ends,
            nearest_mode="floor",
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=7.0,
        )
        first, last = Fraction(-1, 5), Fraction(6, 5)
        rows = [first * 5 + o * (last - first) * 5 / 6 for o in range(7)]
        columns = [Fraction(8, 4) + o * Fraction(3, 4) * 8 / 3 for o in range(4)]
        wanted = [
            [x[math.floor(r), math.floor(c)] if 0 <= r <= 5 and 0 <= c <= 8 else 7 for c in columns] for r in rows
        ]
        assert np.array_equal(found, np.array(wanted, x.dtype))


def test_a_region_is_all_of_the_input_where_none_is_given() -> None:
    x = RNG.standard_normal((1, 1, 5, 6)).astype("float32")
    for mode in ("linear", "cubic"):
        found, made = resized(x, mode=mode, sizes=[1, 1, 3, 8], coordinate_transformation_mode="tf_crop_and_resize")
        np.testing.assert_allclose(found, run_there(made, {"x": x})[0], 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"roi": [0, math.inf]}, r"roi must be finite; got \[0.0, inf\]"),
        ({"roi": [0, 1, 1]}, "roi must have 2 numbers for tf_crop_and_resize"),
        ({"antialias": 1}, "antialias must be 0 where mode is nearest"),
        ({"nearest_mode": "up"}, "nearest_mode must be one of round_prefer_floor, .* got 'up'"),
        ({"coordinate_transformation_mode": "corners"}, "coordinate_transformation_mode must be one that ONNX has"),
        ({"sizes": [0]}, "sizes must be at least 1"),
    ],
)
def test_wishes_that_cannot_be(given: dict[str, Any], message: str) -> None:
    wishes = {"sizes": [3], "coordinate_transformation_mode": "tf_crop_and_resize", **given}
    with pytest.raises(dml.DmlError, match=message):
        resized(np.zeros(4, "float32"), **wishes)


def spread(scales: Sequence[float]) -> Any:
    """A picture in other sizes, by ONNX Runtime and here."""
    x = RNG.standard_normal((2, 3, 6, 7)).astype("float32")
    return x, [1, 1, *scales]


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_filters(mode: str) -> None:
    """With and without antialias, of some axes or all, keeping the ratio of the sides: ONNX Runtime has the same."""
    for antialias, way in itertools.product((0, 1), ("half_pixel", "asymmetric", "half_pixel_symmetric")):
        x, scales = spread((0.6, 1.7))
        several: list[dict[str, Any]] = [
            {"scales": scales},
            {"sizes": [3, 11], "axes": [-2, 3]},
            {"sizes": [3, 11], "axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"},
            {"sizes": [3, 11], "axes": [2, 3], "keep_aspect_ratio_policy": "not_smaller"},
        ]
        if mode == "cubic":
            several.append({"scales": scales, "exclude_outside": 1, "cubic_coeff_a": -0.5})
        for given in several:
            found, made = resized(x, mode=mode, antialias=antialias, coordinate_transformation_mode=way, **given)
            (theirs,) = run_there(made, {"x": x})
            np.testing.assert_allclose(found, theirs, 1e-4, 1e-5, err_msg=str((antialias, way, given)))
