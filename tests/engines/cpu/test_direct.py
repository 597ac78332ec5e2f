"""Direct convolutions on the cpu engine, of planes and of pixels, by row blocks of the output: the reference's bits."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import anydml as dml
import strides
from anydml.engines.cpu import schedules
from anydml.engines.cpu.conv import direct
from anydml.engines.cpu.conv import nhwc as pixels
from anydml.engines.cpu.conv.microkernel import DirectTile, make_direct_tile
from anydml.engines.cpu.families import AVX2, figures
from anydml.engines.cpu.features import has_feature
from assembled import assembly

Array = np.ndarray[Any, Any]
LANES = 16 if has_feature("avx512vl") else 8

pytestmark = [
    pytest.mark.check_bounds,
    pytest.mark.skipif(not figures().conv.spreads_pixels, reason="direct convolution is for AVX2"),
]


def beside(array: Array) -> Array:
    """The same array as pixels: with channels side by side."""
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def are_pixels(x: Array) -> bool:
    return x.strides[1] < x.strides[3]


def whole(seed: int, *sizes: int) -> Array:
    """Numbers of which every sum is exact."""
    return np.random.default_rng(seed).integers(-2, 3, sizes).astype("f")


def described(x: Array, filters: Array, bias: Array | None, **more: Any) -> dml.Convolution:
    """With the output in the layout of the input."""
    owned = dml.TensorFlags.OWNED_BY_DML
    found = dml.Convolution.infer(
        input_tensor=dml.TensorDesc.of(x), filter_tensor=dml.TensorDesc("float32", filters.shape, flags=owned),
        bias_tensor=None if bias is None else dml.TensorDesc("float32", bias.shape, flags=owned), **more,
    )  # fmt: skip
    out = np.empty(found.output_tensor.sizes, "f")
    return dataclasses.replace(found, output_tensor=dml.TensorDesc.of(beside(out))) if are_pixels(x) else found


def compute(engine: str, x: Array, filters: Array, bias: Array | None = None, **more: Any) -> Array:
    desc = described(x, filters, bias, **more)
    run = dml.Device(engine).compile(desc).initialize(*([filters] if bias is None else [filters, bias]))
    out = np.full(desc.output_tensor.sizes, np.nan, "f")
    out = beside(out) if are_pixels(x) else out
    run.bind(x, out=out).dispatch()
    return out


def check(x: Array, filters: Array, bias: Array | None = None, **more: Any) -> None:
    """The cpu engine has the reference's bits."""
    np.testing.assert_array_equal(
        compute("cpu", x, filters, bias, **more), compute("reference", x, filters, bias, **more)
    )


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


AROUND: dict[str, Any] = {"start_padding": (1, 1), "end_padding": (1, 1)}
PLANES: list[tuple[tuple[int, ...], int, tuple[int, int], dict[str, Any]]] = [
    # Two panels of which one is narrow, parts of a line, sums of several tiles, pictures.
    ((2, 30, 9, 29), 3 * LANES, (3, 3), AROUND),
    # Whole lines together, and the last alone; more around than a window needs.
    ((1, 3, 7, 7), 2 * LANES, (3, 2), {"start_padding": (2, 0), "end_padding": (1, 3)}),
    # By strides and dilations, without padding.
    ((1, 5, 13, 12), LANES, (2, 3), {"strides": (2, 1), "dilations": (3, 2)}),
    # Groups, half a vector in each, and no bias.
    ((2, 6, 6, 10), LANES // 2 * 3, (3, 3), {"start_padding": (1, 1), "strides": (1, 2), "group_count": 3}),
]
PIXELS: list[tuple[tuple[int, ...], int, tuple[int, int], dict[str, Any]]] = [
    PLANES[0],
    # Channels that fill no vector.
    (PLANES[1][0], 2 * LANES + 5, *PLANES[1][2:]),
    # By strides and dilations: a piece is a tap's.
    ((1, 5, 13, 12), LANES, (2, 3), {"start_padding": (1, 1), "strides": (2, 1), "dilations": (3, 2)}),
    # A number of channels that has no small divisor: a piece is longer.
    ((1, 29, 4, 5), LANES, (3, 2), {"start_padding": (1, 1), "dilations": (1, 2)}),
    # Groups, half a vector in each and no bias, or more than one vector.
    (PLANES[3][0], 24, *PLANES[3][2:]),
    ((1, 6, 5, 6), 2 * (LANES + 3), (3, 3), {"start_padding": (1, 1), "group_count": 2}),
    # Each channel by itself, in two pictures.
    ((2, 2 * LANES + 7, 6, 9), 2 * LANES + 7, (3, 3), {"start_padding": (1, 1), "group_count": 2 * LANES + 7}),
    ((1, LANES, 9, 9), LANES, (3, 5), {"start_padding": (1, 2), "strides": (2, 2), "group_count": LANES}),
    # Places that would share lines of the first cache.
    ((1, 512, 3, 4), LANES, (3, 3), AROUND),
]


@pytest.mark.parametrize(
    ("sizes", "outputs", "window", "more", "is_beside"),
    [*((*row, False) for row in PLANES), *((*row, True) for row in PIXELS)],
)
def test_row_blocks_have_the_bits_of_the_reference(
    sizes: tuple[int, ...], outputs: int, window: tuple[int, int], more: dict[str, Any], is_beside: bool,
    planned: list[DirectTile],
) -> None:  # fmt: skip
    groups = more.get("group_count", 1)
    x, filters = whole(1, *sizes), whole(2, outputs, sizes[1] // groups, *window)
    bias = None if groups == 3 else whole(3, 1, outputs, 1, 1)
    fused = {} if bias is None else {"fused_activation": "relu"}
    check(beside(x) if is_beside else x, filters, bias, **more, **fused)
    assert bool(planned) == (is_beside or outputs // groups >= LANES or LANES == 16)
    assert all(tile.is_beside == is_beside for tile in planned)


@pytest.mark.parametrize(("outputs", "groups", "is_beside"), [(2 * LANES, 1, False), (30, 1, True), (30, 30, True)])
def test_bits_do_not_depend_on_row_blocks_or_threads(
    outputs: int, groups: int, is_beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYDML_KEEP_PLANS", "0")
    rng = np.random.default_rng(0)
    x, filters = rng.random((1, 30, 20, 9), "f"), rng.random((outputs, 30 // groups, 3, 3), "f")
    more: dict[str, Any] = {**AROUND, "group_count": groups}
    x, found = beside(x) if is_beside else x, []
    for threads, size in ((1, figures().conv.block_bytes), (1, 1), (3, figures().conv.block_bytes)):
        dml.set_num_threads(threads)
        monkeypatch.setattr(figures().conv, "block_bytes", size)
        monkeypatch.setattr(direct, "SMALL", 1)
        found.append(compute("cpu", x, filters, **more))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    np.testing.assert_allclose(found[0], compute("reference", x, filters, **more), rtol=1e-5)


@pytest.mark.parametrize("is_beside", [False, True])
def test_vectors_of_eight_lanes(is_beside: bool, planned: list[DirectTile], monkeypatch: pytest.MonkeyPatch) -> None:
    """As a CPU without AVX-512 has them."""
    for module in (direct,) if is_beside else (schedules, direct):
        monkeypatch.setattr(module, "figures", lambda: AVX2)
    x, outputs = whole(1, 1, 3, 6, 7), 27 if is_beside else 24
    bias = None if is_beside else whole(3, 1, outputs, 1, 1)
    check(beside(x) if is_beside else x, whole(2, outputs, 3, 3, 3), bias, **AROUND)
    assert {tile.lanes for tile in planned} == {8}


@pytest.mark.parametrize(
    ("cpu", "tile"),
    [
        ("skylake-avx512", DirectTile(1, 14, 2, 16, 32, 3, 0, 4, 4, fetches=True)),
        ("skylake-avx512", DirectTile(1, 29, 1, 16, 16, 3, 0, 8, 4, chain=3)),
        ("haswell", DirectTile(2, 3, 2, 8, 16, 3, 40, 4, 8)),
        ("skylake-avx512", DirectTile(1, 14, 2, 16, 32, 16, 0, 256, 4, is_beside=True)),
        ("haswell", DirectTile(1, 6, 2, 8, 16, 3, 0, 64, 64, is_beside=True, is_each=True)),
    ],
)
def test_no_vector_of_a_tile_is_spilled(cpu: str, tile: DirectTile) -> None:
    blocks = re.split(
        r"^\.LBB\w+:", assembly(make_direct_tile(tile), "x86_64-unknown-linux-gnu", cpu), flags=re.MULTILINE
    )
    loop = max(blocks, key=lambda block: block.count("vfmadd"))
    assert loop.count("vfmadd") == tile.rows * tile.vectors * tile.taps
    assert not re.search(r"rsp.*%[xyz]mm|%[xyz]mm.*rsp", loop), loop


def test_long_lines_are_moved_whole(planned: list[DirectTile]) -> None:
    x, filters = whole(1, 1, 1, 4, figures().conv.memcpy_bytes // 4), whole(2, LANES, 1, 2, 2)
    check(x, filters, start_padding=(0, 1))
    assert planned


@pytest.mark.parametrize(("channels", "chain"), [(1, 0), (2, 3), (direct.FEW - 1, 3), (direct.FEW, 0)])
def test_a_few_channels_are_chains_of_their_own(channels: int, chain: int, planned: list[DirectTile]) -> None:
    x, filters = whole(1, 1, channels, 5, 6), whole(2, LANES, channels, 3, 3)
    check(x, filters)
    assert {tile.chain for tile in planned} == {chain}


def test_a_convolution_alone_in_a_graph_reads_planes(planned: list[DirectTile]) -> None:
    """Whose channels would lie side by side between others."""
    x, filters = whole(1, 1, 16, 5, 6), whole(2, LANES, 16, 3, 3)
    found = []
    for engine in ("cpu", "reference"):
        g = dml.Graph(engine)
        made = dml.convolution(g.input(x, "x"), g.constant(filters), start_padding=(1, 1), end_padding=(1, 1))
        found.append(g.compile(made)(x))
    assert planned
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("what", ["one tap", "few channels", "backward", "long epilogue"])
def test_others_go_other_ways(what: str, planned: list[DirectTile]) -> None:
    window = 1 if what == "one tap" else 3
    outputs = 3 if what == "few channels" else LANES
    more: dict[str, Any] = {"fused_activation": "tanh"} if what == "long epilogue" else {}
    shape = (4, outputs, 3, 3) if what == "backward" else (outputs, 4, window, window)
    if what == "backward":
        more["direction"] = "backward"
    desc = described(whole(1, 1, 4, 9, 9), whole(2, *shape), None, **more)
    dml.Device("cpu").compile(desc)
    assert not planned


# Pixels


def test_the_input_may_have_gaps(planned: list[DirectTile]) -> None:
    """Between places, and between lines: a slice of a larger picture."""
    x = beside(whole(1, 1, 12, 7, 9))[:, 2:10, 1:6, 2:8]
    filters = whole(2, LANES, 8, 3, 3)
    check(x, filters, start_padding=(1, 1))
    assert planned


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
    check(x, filters)
    assert bool(planned) == is_read


def test_filters_that_groups_share() -> None:
    """They lie once: panels of a group are read behind those of the one before, where there would be none."""
    asked: list[tuple[str, strides.Work]] = []
    with strides.recording("cpu", asked):
        strides.LONGER["CONVOLUTION of padded pixels"]("cpu")
    (work,) = (work for route, work in asked if route == "plan_direct_nhwc")
    shared = strides.laid_out(work, "FilterTensor", "one row")
    assert shared is not None
    strides.check("cpu", shared)
