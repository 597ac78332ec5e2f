"""Single convolutions of planes on the cpu engine, by row blocks of the output: they have the reference's bits."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu import schedules
from anydml.engines.cpu.conv import direct
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


def whole(seed: int, *sizes: int) -> Array:
    """Numbers of which every sum is exact."""
    return np.random.default_rng(seed).integers(-2, 3, sizes).astype("f")


def described(x: Array, filters: Array, bias: Array | None, **more: Any) -> dml.Convolution:
    owned = dml.TensorFlags.OWNED_BY_DML
    filter_tensor = dml.TensorDesc("float32", filters.shape, flags=owned)
    bias_tensor = None if bias is None else dml.TensorDesc("float32", bias.shape, flags=owned)
    return dml.Convolution.infer(
        input_tensor=dml.TensorDesc.of(x), filter_tensor=filter_tensor, bias_tensor=bias_tensor, **more
    )


def check(x: Array, filters: Array, bias: Array | None, **more: Any) -> None:
    """The cpu engine has the reference's bits."""
    found = []
    owned = [filters] if bias is None else [filters, bias]
    for engine in ("cpu", "reference"):
        run = dml.Device(engine).compile(described(x, filters, bias, **more)).initialize(*owned)
        found.append(run(x))
    np.testing.assert_array_equal(found[0], found[1])


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tiles that were asked for."""
    tiles: list[Any] = []

    def kernel(tile: Any) -> int:
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
        ((2, 30, 9, 29), 3, (3, 3), {"start_padding": (1, 1), "end_padding": (1, 1)}),
        # Whole lines together, and the last alone; more around than a window needs.
        ((1, 3, 7, 7), 2, (3, 2), {"start_padding": (2, 0), "end_padding": (1, 3)}),
        # By strides and dilations, without padding.
        ((1, 5, 13, 12), 1, (2, 3), {"strides": (2, 1), "dilations": (3, 2)}),
        # Groups, half a vector in each, and no bias.
        ((2, 6, 6, 10), 0.5, (3, 3), {"start_padding": (1, 1), "strides": (1, 2), "group_count": 3}),
    ],
)
def test_row_blocks_have_the_bits_of_the_reference(
    sizes: tuple[int, ...], outputs: float, window: tuple[int, int], more: dict[str, Any], planned: list[Any]
) -> None:
    groups = more.get("group_count", 1)
    channels = int(outputs * LANES) * groups
    x, filters = whole(1, *sizes), whole(2, channels, sizes[1] // groups, *window)
    bias = None if groups > 1 else whole(3, 1, channels, 1, 1)
    fused = {} if bias is None else {"fused_activation": "relu"}
    check(x, filters, bias, **more, **fused)
    assert bool(planned) == (outputs >= 1 or LANES == 16)


def test_bits_do_not_depend_on_row_blocks_or_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYDML_KEEP_PLANS", "0")
    rng = np.random.default_rng(0)
    x, filters = rng.random((1, 30, 20, 9), "f"), rng.random((2 * LANES, 30, 3, 3), "f")
    desc = described(x, filters, None, start_padding=(1, 1), end_padding=(1, 1))
    before, found = dml.get_num_threads(), []
    try:
        for threads, size in ((1, figures().conv.block_bytes), (1, 1), (3, figures().conv.block_bytes)):
            dml.set_num_threads(threads)
            monkeypatch.setattr(figures().conv, "block_bytes", size)
            monkeypatch.setattr(direct, "SMALL", 1)
            found.append(dml.Device("cpu").compile(desc).initialize(filters)(x))
    finally:
        dml.set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    wanted = dml.Device("reference").compile(desc).initialize(filters)(x)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-5)


def test_vectors_of_eight_lanes(planned: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As a CPU without AVX-512 has them."""
    for module in (schedules, direct):
        monkeypatch.setattr(module, "figures", lambda: AVX2)
    check(whole(1, 1, 3, 6, 7), whole(2, 24, 3, 3, 3), whole(3, 1, 24, 1, 1), start_padding=(1, 1), end_padding=(1, 1))
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


def test_long_lines_are_moved_whole(planned: list[Any]) -> None:
    x, filters = whole(1, 1, 1, 4, figures().conv.memcpy_bytes // 4), whole(2, LANES, 1, 2, 2)
    check(x, filters, None, start_padding=(0, 1))
    assert planned


@pytest.mark.parametrize(("channels", "chain"), [(1, 0), (2, 3), (direct.FEW - 1, 3), (direct.FEW, 0)])
def test_a_few_channels_are_chains_of_their_own(channels: int, chain: int, planned: list[Any]) -> None:
    x, filters = whole(1, 1, channels, 5, 6), whole(2, LANES, channels, 3, 3)
    check(x, filters, None)
    assert {tile.chain for tile in planned} == {chain}


def test_a_convolution_alone_in_a_graph_reads_planes(planned: list[Any]) -> None:
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
def test_others_go_other_ways(what: str, planned: list[Any]) -> None:
    window = 1 if what == "one tap" else 3
    outputs = 3 if what == "few channels" else LANES
    more: dict[str, Any] = {"fused_activation": "tanh"} if what == "long epilogue" else {}
    shape = (4, outputs, 3, 3) if what == "backward" else (outputs, 4, window, window)
    if what == "backward":
        more["direction"] = "backward"
    desc = described(whole(1, 1, 4, 9, 9), whole(2, *shape), None, **more)
    dml.Device("cpu").compile(desc)
    assert not planned
