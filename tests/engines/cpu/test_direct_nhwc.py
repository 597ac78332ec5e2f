"""Convolutions with padding of pictures whose channels lie side by side, on the cpu engine: the reference's bits."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
import strides
from anydml.engines.cpu.conv import direct
from anydml.engines.cpu.conv import nhwc as pixels
from anydml.engines.cpu.families import AVX2, figures
from anydml.engines.cpu.features import has_feature

if TYPE_CHECKING:
    from anydml.engines.cpu.conv.microkernel import DirectTile

Array = np.ndarray[Any, Any]
LANES = 16 if has_feature("avx512vl") else 8

pytestmark = [
    pytest.mark.check_bounds,
    pytest.mark.skipif(not figures().conv.spreads_pixels, reason="direct convolution is for AVX2"),
]


def beside(array: Array) -> Array:
    """The same array with channels side by side."""
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def whole(seed: int, *sizes: int) -> Array:
    """Numbers of which every sum is exact."""
    return np.random.default_rng(seed).integers(-2, 3, sizes).astype("f")


def described(x: Array, filters: Array, bias: Array | None, **more: Any) -> dml.Convolution:
    owned = dml.TensorFlags.OWNED_BY_DML
    found = dml.Convolution.infer(
        input_tensor=dml.TensorDesc.of(x), filter_tensor=dml.TensorDesc("float32", filters.shape, flags=owned),
        bias_tensor=None if bias is None else dml.TensorDesc("float32", bias.shape, flags=owned), **more,
    )  # fmt: skip
    result = beside(np.empty(found.output_tensor.sizes, "f"))
    return dataclasses.replace(found, output_tensor=dml.TensorDesc.of(result))


def compute(engine: str, x: Array, filters: Array, bias: Array | None, **more: Any) -> Array:
    desc = described(x, filters, bias, **more)
    run = dml.Device(engine).compile(desc).initialize(*([filters] if bias is None else [filters, bias]))
    out = beside(np.full(desc.output_tensor.sizes, np.nan, "f"))
    run.bind(x, out=out).dispatch()
    return out


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[DirectTile]:
    """The tiles that were asked for."""
    tiles: list[DirectTile] = []

    def kernel(tile: DirectTile) -> int:
        tiles.append(tile)
        return make(tile)

    make = direct.tile_kernel
    monkeypatch.setattr(direct, "tile_kernel", kernel)
    monkeypatch.setenv("ANYDML_KEEP_PLANS", "0")
    return tiles


@pytest.mark.parametrize(
    ("sizes", "outputs", "window", "more"),
    [
        # Two panels of which one is narrow, parts of a line, sums of several tiles, pictures.
        ((2, 30, 9, 29), 3 * LANES, (3, 3), {"start_padding": (1, 1), "end_padding": (1, 1)}),
        # Whole lines together, and the last alone; more around than a window needs; channels that fill no vector.
        ((1, 3, 7, 7), 2 * LANES + 5, (3, 2), {"start_padding": (2, 0), "end_padding": (1, 3)}),
        # By strides and dilations: a piece is a tap's.
        (
            (1, 5, 13, 12),
            LANES,
            (2, 3),
            {"start_padding": (1, 1), "strides": (2, 1), "dilations": (3, 2)},
        ),
        # A number of channels that has no small divisor: a piece is longer.
        ((1, 29, 4, 5), LANES, (3, 2), {"start_padding": (1, 1), "dilations": (1, 2)}),
        # Groups, half a vector in each and no bias, or more than one vector.
        ((2, 6, 6, 10), 24, (3, 3), {"start_padding": (1, 1), "strides": (1, 2), "group_count": 3}),
        ((1, 6, 5, 6), 2 * (LANES + 3), (3, 3), {"start_padding": (1, 1), "group_count": 2}),
        # Each channel by itself, in two pictures.
        ((2, 2 * LANES + 7, 6, 9), 2 * LANES + 7, (3, 3), {"start_padding": (1, 1), "group_count": 2 * LANES + 7}),
        ((1, LANES, 9, 9), LANES, (3, 5), {"start_padding": (1, 2), "strides": (2, 2), "group_count": LANES}),
        # Places that would share lines of the first cache.
        ((1, 512, 3, 4), LANES, (3, 3), {"start_padding": (1, 1), "end_padding": (1, 1)}),
    ],
)
def test_the_reference_has_the_same_bits(
    sizes: tuple[int, ...], outputs: int, window: tuple[int, int], more: dict[str, Any],
    planned: list[DirectTile],
) -> None:  # fmt: skip
    x = beside(whole(1, *sizes))
    filters = whole(2, outputs, sizes[1] // more.get("group_count", 1), *window)
    bias = None if more.get("group_count") == 3 else whole(3, 1, outputs, 1, 1)
    fused = {} if bias is None else {"fused_activation": "relu"}
    found, wanted = (compute(engine, x, filters, bias, **more, **fused) for engine in ("cpu", "reference"))
    np.testing.assert_array_equal(found, wanted)
    assert planned
    assert all(tile.is_beside for tile in planned)


def test_the_input_may_have_gaps(planned: list[DirectTile]) -> None:
    """Between places, and between lines: a slice of a larger picture."""
    x = beside(whole(1, 1, 12, 7, 9))[:, 2:10, 1:6, 2:8]
    filters = whole(2, LANES, 8, 3, 3)
    found, wanted = (compute(engine, x, filters, None, start_padding=(1, 1)) for engine in ("cpu", "reference"))
    np.testing.assert_array_equal(found, wanted)
    assert planned


@pytest.mark.parametrize("groups", [1, 30])
def test_bits_do_not_depend_on_row_blocks_or_threads(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYDML_KEEP_PLANS", "0")
    rng = np.random.default_rng(0)
    x, filters = beside(rng.random((1, 30, 20, 9), "f")), rng.random((30, 30 // groups, 3, 3), "f")
    more = {"start_padding": (1, 1), "end_padding": (1, 1), "group_count": groups}
    before, found = dml.get_num_threads(), []
    try:
        for threads, size in ((1, figures().conv.block_bytes), (1, 1), (3, figures().conv.block_bytes)):
            dml.set_num_threads(threads)
            monkeypatch.setattr(figures().conv, "block_bytes", size)
            monkeypatch.setattr(direct, "SMALL", 1)
            found.append(compute("cpu", x, filters, None, **more))
    finally:
        dml.set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    np.testing.assert_allclose(found[0], compute("reference", x, filters, None, **more), rtol=1e-5)


@pytest.mark.parametrize(("channels", "is_read"), [(496, True), (512, False)])
def test_one_tap_of_places_that_share_lines_of_a_cache_is_packed(
    channels: int, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Any] = []

    def program(*given: Any) -> Any:
        planned.append(given)
        return plan(*given)

    plan = pixels._program
    monkeypatch.setattr(pixels, "_program", program)
    monkeypatch.setenv("ANYDML_KEEP_PLANS", "0")
    x, filters = beside(whole(1, 1, channels, 2, 5)), whole(2, 2 * LANES, channels, 1, 1)
    found, wanted = (compute(engine, x, filters, None) for engine in ("cpu", "reference"))
    np.testing.assert_array_equal(found, wanted)
    assert bool(planned) == is_read


def test_vectors_of_eight_lanes(planned: list[DirectTile], monkeypatch: pytest.MonkeyPatch) -> None:
    """As a CPU without AVX-512 has them."""
    monkeypatch.setattr(direct, "figures", lambda: AVX2)
    x, filters = beside(whole(1, 1, 3, 6, 7)), whole(2, 27, 3, 3, 3)
    found, wanted = (compute(engine, x, filters, None, start_padding=(1, 1)) for engine in ("cpu", "reference"))
    np.testing.assert_array_equal(found, wanted)
    assert {tile.lanes for tile in planned} == {8}


def test_filters_that_groups_share() -> None:
    """They lie once: panels of a group are read behind those of the one before, where there would be none."""
    asked: list[tuple[str, strides.Work]] = []
    with strides.recording("cpu", asked):
        strides.LONGER["CONVOLUTION of padded pixels"]("cpu")
    (work,) = (work for route, work in asked if route == "plan_direct_nhwc")
    shared = strides.laid_out(work, "FilterTensor", "one row")
    assert shared is not None
    strides.check("cpu", shared)
