"""The webgpu engine's convolutions against the reference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from adapter_runs import agree, engine, route, wanted
from agreement import values
from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.engines.webgpu import why_missing
from anydml.engines.webgpu.gemm import gemm
from anydml.ir import expressions as ex
from anydml.ir.fetches import Line
from anydml.ir.padded_reads import reach
from anydml.ir.verbs import Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WHY = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
F16, F32, I8, U8, I32 = (DataType(name) for name in ("float16", "float32", "int8", "uint8", "int32"))
WIDE = {F16: F32, F32: F32, I8: I32, U8: I32}
RTOL = {F16: 2e-3, F32: 4e-6}


def window(
    image: Sequence[int], taps: Sequence[int], *, stride: int = 1, dilation: int = 1, pad: int = 0, lead: int = 2
) -> tuple[tuple[int, ...], list[ex.Expr], list[int | None]]:
    """The places of windows over an image, and for each of its dimensions the line of indices and the limit.

    Of a walk of `lead` dimensions and the places, which is folded over one dimension and the taps.
    """
    counts = tuple((n + 2 * pad - (t - 1) * dilation - 1) // stride + 1 for n, t in zip(image, taps, strict=True))
    first, after = lead, lead + len(counts) + 1
    lines = [Line(-pad, ((first + k, stride), (after + k, dilation))).value for k in range(len(counts))]
    return counts, lines, [n if pad else None for n in image]


def convolution(
    sizes: tuple[int, int, int], image: tuple[int, ...], taps: tuple[int, ...], of: DataType, *, groups: int = 1,
    stride: int = 1, dilation: int = 1, pad: int = 0, is_last: bool = False, to: DataType | None = None,
    outside: int = 0, finish: Callable[[ex.Expr], ex.Expr] = lambda total: total, way: str = "implicit GEMM",
) -> None:  # fmt: skip
    """A batch, channels and filters of each group; `is_last` where channels lie beside one another."""
    batch, channels, filters = sizes
    to = to or WIDE[of]
    counts, lines, limits = window(image, taps, stride=stride, dilation=dilation, pad=pad, lead=3)
    # The walk: batch, group, filter, places; channel, taps.
    walk = (batch, groups, filters, *counts, channels, *taps)
    depth = 1 + len(taps)
    size = math.prod(image)
    if is_last:
        strides = (size * groups * channels, channels, 1, *(s * groups * channels for s in packed_strides(image)))
        whole = View("x", of, (batch, groups, channels, *image), strides)
        target = (
            math.prod(counts) * groups * filters,
            filters,
            1,
            *(s * groups * filters for s in packed_strides(counts)),
        )
    else:
        whole = View("x", of, (batch, groups, channels, *image), packed_strides((batch, groups, channels, *image)))
        target = packed_strides((batch, groups, filters, *counts))
    weights = packed_strides((groups, filters, channels, *taps))
    right = View("w", of, walk, (0, *weights[:2], *(0 for _ in counts), *weights[2:]))
    indices = [ex.coordinate(0), ex.coordinate(1), ex.coordinate(3 + len(counts)), *lines]
    number = reach(0, of, indices, [None, None, None, *limits], ex.const(outside, of))
    value = finish(ex.fold("sum", number.to(WIDE[of]) * ex.load(1, of).to(WIDE[of])))
    ones = (1,) * depth
    written = View("y", to, (*walk[: len(walk) - depth], *ones), (*target, *(0 for _ in ones)))
    verb = Reduce((whole, right), written, value, depth, walk[len(walk) - depth :])
    assert route(verb) == way
    arrays = {
        "x": values((batch * groups * channels * size,), of.dtype.name, 1),
        "w": values((groups * filters * channels * math.prod(taps),), of.dtype.name, 2),
        "y": np.zeros(batch * groups * filters * math.prod(counts), to.dtype),
    }
    agree(verb, arrays, RTOL[to] if to.is_float else 0)


def test_long_sums_of_few_tiles_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Along the channels, or along a side of the taps where those are more."""
    monkeypatch.setattr(gemm, "parts_for", lambda *sizes: math.gcd(sizes[-1], 4))
    for is_last in (False, True):
        convolution((2, 8, 6), (5, 7), (3, 3), F32, pad=1, is_last=is_last, finish=lambda total: total * 0.5 + 1.0)
        convolution((1, 8, 5), (7, 6), (3, 2), U8, groups=2, stride=2, pad=1, outside=3, is_last=is_last)
    convolution((1, 3, 8), (13, 11), (8, 3), F32, stride=2, pad=2)
    convolution((1, 8, 5), (7, 6), (3, 3), F16, to=F16, pad=1, finish=lambda total: total.to(F16))


@pytest.mark.parametrize("is_last", [False, True], ids=["", "channels last"])
@pytest.mark.parametrize("of", [F32, F16, U8], ids=lambda of: of.name)
def test_convolutions(of: DataType, is_last: bool) -> None:
    convolution((2, 8, 12), (9, 12), (3, 3), of, pad=1, is_last=is_last)
    convolution((1, 3, 8), (14, 13), (7, 7), of, pad=3, stride=2, is_last=is_last)


def test_windows_of_all_kinds() -> None:
    convolution((1, 3, 5), (11, 7), (3, 3), F32, pad=1)  # channels too few for a step
    convolution((2, 16, 9), (9, 9), (3, 2), F32, dilation=2)
    convolution((2, 4, 6), (9, 8), (3, 3), F32, pad=2, groups=3)
    convolution((1, 5, 4), (5, 6, 7), (3, 3, 3), F32, pad=1)
    convolution((2, 20, 8), (40,), (5,), F32, pad=2, stride=3)


def test_bytes_outside_of_an_image_are_its_zero_point() -> None:
    convolution((1, 8, 8), (6, 6), (3, 3), U8, pad=1, outside=7)


def test_results_are_rounded_to_their_type() -> None:
    convolution((1, 8, 8), (8, 8), (3, 3), F16, pad=1, to=F16, finish=lambda total: ex.maximum(total, 0.0).to(F16))
    convolution((1, 8, 8), (7, 7), (3, 3), F16, to=F16, finish=lambda total: total.to(F16), is_last=True)


@pytest.mark.parametrize("of", [F32, F16], ids=lambda of: of.name)
def test_weights_are_laid_out_where_they_are_read_often(of: DataType) -> None:
    convolution((2, 16, 20), (12, 12), (3, 3), of, pad=1)


@pytest.mark.parametrize("is_last", [False, True], ids=["", "channels last"])
@pytest.mark.parametrize("of", [F32, F16, I8], ids=lambda of: of.name)
def test_depthwise(of: DataType, is_last: bool) -> None:
    convolution((2, 1, 1), (9, 12), (3, 3), of, groups=6, pad=1, is_last=is_last, way="stencil")
    convolution((1, 1, 1), (9, 7), (5, 3), of, groups=5, pad=2, stride=2, is_last=is_last, way="stencil")


def test_depthwise_of_all_kinds() -> None:
    convolution((1, 1, 1), (9, 8), (3, 3), F32, groups=4, dilation=2, way="stencil")
    convolution((2, 1, 1), (20,), (7,), F32, groups=4, pad=3, way="stencil")
    convolution((1, 1, 1), (5, 4, 8), (3, 3, 3), F32, groups=3, pad=1, way="stencil")
    convolution(
        (1, 1, 1), (8, 8), (3, 3), F32, groups=3, pad=1, finish=lambda total: ex.maximum(total, 0.0), way="stencil"
    )


def pooling(
    image: tuple[int, ...], taps: tuple[int, ...], of: DataType, value: Callable[[ex.Expr], ex.Expr], *,
    stride: int = 1, pad: int = 0, channels: int = 3, outside: float = 0.0,
) -> None:  # fmt: skip
    """Windows of each channel."""
    counts, lines, limits = window(image, taps, stride=stride, pad=pad, lead=1)
    walk = (channels, *counts, 1, *taps)
    whole = View("x", of, (channels, *image), packed_strides((channels, *image)))
    number = reach(0, of, [ex.coordinate(0), *lines], [None, *limits], ex.const(outside, of))
    depth = 1 + len(taps)
    ones = (1,) * depth
    written = View("y", of, (channels, *counts, *ones), (*packed_strides((channels, *counts)), *(0 for _ in ones)))
    verb = Reduce((whole,), written, value(number), depth, walk[len(walk) - depth :])
    assert route(verb) == "stencil"
    arrays = {
        "x": values((channels * math.prod(image),), of.dtype.name, 1),
        "y": np.zeros(channels * math.prod(counts), of.dtype),
    }
    agree(verb, arrays, RTOL.get(of, 0))


def test_poolings() -> None:
    for of, least in ((F32, -np.inf), (F16, -np.inf), (I8, -128), (I32, -(2**31))):
        pooling((9, 12), (3, 3), of, lambda x: ex.fold("max", x), pad=1, outside=least)
        pooling((8, 8), (2, 2), of, lambda x: ex.fold("max", x), stride=2)
    pooling((9, 12), (3, 3), F32, lambda x: ex.fold("sum", x) / 9.0, pad=1)
    pooling((9, 12), (3, 3), F16, lambda x: (ex.fold("sum", x.to(F32)) / 9.0).to(F16), pad=1)
    pooling((9, 12), (3, 3), F32, lambda x: ex.sqrt(ex.fold("sum", x * x)), stride=2)
    pooling((7, 7), (7, 7), F32, lambda x: ex.fold("sum", x) * (1 / 49))
    pooling((9, 12), (2, 3), F32, lambda x: ex.fold("max", x) - ex.fold("min", x) + ex.coordinate(1).to(F32))


def test_folds_of_64_bits_go_by_rows() -> None:
    int64 = DataType.INT64
    verb = Reduce(
        (View("x", int64, (8, 4), (4, 1)),), View("y", int64, (8, 1), (1, 0)), ex.fold("sum", ex.load(0, int64)), 1
    )
    assert route(verb) == "reduction"


def test_weights_that_are_constants_are_laid_out_ahead() -> None:
    m, n, k, taps = 20, 130, 16, 3
    walk = (m, n, k, taps)
    views = View("w", F32, walk, (k * taps, 0, taps, 1)), View("x", F32, walk, (0, 1, n + taps - 1, 1))
    product = ex.load(0, F32) * ex.load(1, F32)
    verb = Reduce(views, View("y", F32, (m, n, 1, 1), (n, 1, 0, 0)), ex.fold("sum", product), 2)
    arrays = {
        "w": values((m * k * taps,), "float32", 1),
        "x": values((k * (n + taps - 1),), "float32", 2),
        "y": np.zeros(m * n, np.float32),
    }
    agree(verb, arrays, RTOL[F32])
    gpu = engine()
    program = gpu.compile(verb, frozenset("w"))
    ((name, layout),) = program.layouts.items()
    buffers = {key: gpu.reserve(array.nbytes) for key, array in arrays.items()}
    buffers[name] = gpu.reserve(arrays["w"].nbytes)
    for key, array in arrays.items():
        gpu._memory.write(buffers[key].address, array.view(np.uint8))
    places = {key: buffer.address for key, buffer in buffers.items()}
    gpu.compile(layout).bind(places)()
    program.bind({key: place for key, place in places.items() if key != "w"})()
    found = gpu._memory.read(places["y"], arrays["y"].nbytes).view(np.float32)
    np.testing.assert_allclose(found, wanted(verb, arrays), rtol=0, atol=1e-4)
