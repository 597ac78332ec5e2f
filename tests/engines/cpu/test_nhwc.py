"""Networks whose pictures lie with channels side by side on the cpu engine: they have the reference's bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu.conv import nhwc as pixels
from anydml.engines.cpu.conv.microkernel import make_unpacked_tile
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.blocking import CHAIN, MicroTile, tile_for
from anydml.engines.cpu.gemm.work_item import pieces
from anydml.ir.epilogue import FOLD, Epilogue
from anydml.ir.expressions import load
from kernel_families import PRODUCTS, family_of

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]
LANES = tile_for("f32").lanes

pytestmark = [
    pytest.mark.check_bounds,
    pytest.mark.skipif(not figures().conv.spreads_pixels, reason="channels stay apart on this CPU"),
]


def whole(seed: int, *sizes: int) -> Array:
    """Numbers of which every sum is exact."""
    return np.random.default_rng(seed).integers(-2, 3, sizes).astype("f")


def convolved(g: dml.Graph, x: Any, outputs: int, side: int, seed: int = 1, **more: Any) -> Any:
    inputs, groups = x.sizes[1], more.get("group_count", 1)
    around: dict[str, Any] = {"start_padding": (side // 2,) * 2, "end_padding": (side // 2,) * 2}
    weights = g.constant(whole(seed, outputs, inputs // groups, side, side))
    return dml.convolution(x, weights, g.constant(whole(seed + 1, 1, outputs, 1, 1)), **around, **more)


def dense(g: dml.Graph, x: Any) -> Any:
    """Lines with gaps, whole pictures, columns that fill no vector, sums of several chains, and a residual."""
    first = convolved(g, convolved(g, x, 24, 3, fused_activation="relu"), 40, 1)
    return dml.relu(convolved(g, first, 40, 3, 5) + first) * 0.5


def alone(g: dml.Graph, x: Any) -> Any:
    """Each channel by itself: sixteen, eight and four at once, by one and by two."""
    for channels, stride in ((32, 1), (24, 2), (20, 1)):
        x = convolved(g, convolved(g, x, channels, 1), channels, 3, group_count=channels, strides=(stride,) * 2)
    return convolved(g, x, 16, 1)


def pooled(g: dml.Graph, x: Any) -> Any:
    x = dml.max_pooling(convolved(g, x, 32, 3), window_size=(3, 3), strides=(2, 2), start_padding=(1, 1))
    return convolved(g, dml.average_pooling(convolved(g, x, 16, 1), window_size=(2, 2)), 16, 1)


def grouped(g: dml.Graph, x: Any) -> Any:
    return convolved(g, convolved(g, convolved(g, x, 32, 1), 64, 3, group_count=2, dilations=(1, 1)), 18, 1)


def crowded(g: dml.Graph, x: Any) -> Any:
    """So many channels that places lie further apart: read as they are, in windows, each alone, pooled and added."""
    wide = convolved(g, x, 512, 1, fused_activation="relu")
    each = convolved(g, wide, 512, 3, 3, group_count=512, strides=(2, 2))
    pooled = dml.max_pooling(wide, window_size=(3, 3), strides=(2, 2), start_padding=(1, 1), end_padding=(1, 1))
    return convolved(g, convolved(g, dml.relu(each + pooled), 16, 3, 5), 16, 1, 7)


@pytest.mark.parametrize("make", [dense, alone, pooled, grouped, crowded])
def test_networks_have_the_bits_of_the_reference(
    make: Callable[[dml.Graph, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Any] = []

    def program(*given: Any) -> Any:
        planned.append(given)
        return plan(*given)

    plan = pixels._program
    monkeypatch.setattr(pixels, "_program", program)
    monkeypatch.setenv("ANYDML_KEEP_PLANS", "0")
    before = dml.get_num_threads()
    given, answers = whole(7, 2, 3, 17, 30), []
    try:
        dml.set_num_threads(3)
        for device in ("cpu", "reference"):
            g = dml.Graph(device)
            answers.append(g.compile(make(g, g.input(given, "x")))(given))
    finally:
        dml.set_num_threads(before)
    assert planned
    np.testing.assert_array_equal(*answers)


@pytest.mark.parametrize(("channels", "apart"), [(496, 496), (512, 528), (1024, 1040)])
def test_places_that_share_lines_of_a_cache_lie_further_apart(channels: int, apart: int) -> None:
    g = dml.Graph("cpu")
    given = g.input(whole(1, 1, 3, 6, 6), "x")
    window = g.compile(convolved(g, convolved(g, given, channels, 1), 16, 3)).recipe.steps[-1].sources[0]
    assert window.sizes == (1, 1, 16, 6, 6, channels, 3, 3)
    assert window.strides == (0, 0, 0, 8 * apart, apart, 1, 8 * apart, apart)


def test_panels_that_many_lines_read_stay_in_the_second_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles: list[Any] = []

    def kernel(tile: Any) -> int:
        tiles.append(tile)
        return make(tile)

    make = pixels._kernel
    monkeypatch.setattr(pixels, "_kernel", kernel)
    monkeypatch.setenv("ANYDML_KEEP_PLANS", "0")
    own, wide = tile_for("f32").vectors, tile_for("f32", 7).vectors
    for channels, vectors in ((32, wide), (-(-figures().conv.wide_panel_bytes // (9 * 4 * LANES)), own)):
        g = dml.Graph("cpu")
        x = convolved(g, g.input(whole(1, 1, 3, 7, 7), "x"), channels, 1)
        tiles.clear()
        g.compile(convolved(g, convolved(g, x, LANES * wide * 2, 3), 16, 1))
        assert max(tile.vectors for tile in tiles if tile.rows == 7) == vectors


@pytest.mark.parametrize(("sizes", "places"), [((40, 20), 20), ((20, 40), 40), ((40, 3), 40)])
def test_places_of_a_tile_lie_beside_each_other_where_they_fill_it(
    sizes: tuple[int, int], places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []

    def program(operands: Any, *more: Any) -> Any:
        rows.append(operands.m)
        return plan(operands, *more)

    plan = pixels._program
    monkeypatch.setattr(pixels, "_program", program)
    monkeypatch.setenv("ANYDML_KEEP_PLANS", "0")
    g = dml.Graph("cpu")
    x = convolved(g, g.input(whole(1, 1, 3, *sizes), "x"), 16, 1)
    g.compile(convolved(g, convolved(g, x, 16, 3), 16, 3))
    assert rows == [places]


def test_channels_alone_fill_vectors_and_lie_in_one_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight pictures have more places than a line has, and far from each other."""
    tiles: list[Any] = []

    def kernel(tile: Any) -> int:
        tiles.append(tile)
        return make(tile)

    make = pixels._kernel
    monkeypatch.setattr(pixels, "_kernel", kernel)
    monkeypatch.setenv("ANYDML_KEEP_PLANS", "0")
    channels = 3 * LANES // 2
    g = dml.Graph("cpu")
    x = convolved(g, g.input(whole(1, 8, 3, 7, 7), "x"), channels, 1)
    g.compile(convolved(g, convolved(g, x, channels, 3, group_count=channels), 16, 1))
    each = {tile for tile in tiles if tile.reads == "each"}
    assert {(tile.rows, tile.vectors, tile.lanes) for tile in each} == {(7, 2, LANES)}
    assert {tile.tail for tile in each if tile.epilogue is not None} == {0, LANES // 2}
    texts = [make_unpacked_tile(tile) for tile in each if tile.tail]
    assert all("@llvm.masked.load" in text and "@llvm.masked.store" in text for text in texts)


def test_pictures_lie_with_channels_side_by_side_after_the_last_convolution_too() -> None:
    """But for a part of others: along those it is written as they lie."""
    g, x = dml.Graph("cpu"), whole(1, 1, 3, 6, 6)
    first = convolved(g, g.input(x, "x"), 16, 1)
    pooled = g.compile(dml.max_pooling(convolved(g, first, 32, 3), window_size=(2, 2))).recipe.steps[-1].sources[0]
    assert pooled.strides == (0, 1, 6 * 32, 32, 6 * 32, 32)
    parts = dml.join([convolved(g, first, 16, 3), convolved(g, first, 24, 3)], axis=1)
    pooled = g.compile(dml.max_pooling(parts, window_size=(2, 2))).recipe.steps[-1].sources[0]
    assert pooled.strides == (0, 36, 6, 1, 6, 1)


def test_long_endings_are_computed_where_sums_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sigmoid and a residual: the bits of rows of maps, which a shorter limit leaves them to."""
    epilogues: list[Any] = []

    def kernel(tile: Any) -> int:
        epilogues.append(tile.epilogue)
        return make(tile)

    make = pixels._kernel
    monkeypatch.setattr(pixels, "_kernel", kernel)
    monkeypatch.setenv("ANYDML_KEEP_PLANS", "0")
    given, answers = whole(7, 1, 3, 9, 30), []
    for longest, is_long in ((figures().conv.epilogue_nodes, True), (figures().gemm.epilogue_nodes, False)):
        monkeypatch.setattr(figures().conv, "epilogue_nodes", longest)
        epilogues.clear()
        g = dml.Graph("cpu")
        first = convolved(g, g.input(given, "x"), 40, 1)
        x = convolved(g, first, 40, 3)
        answers.append(g.compile(convolved(g, x * dml.sigmoid(x) + first, 16, 1))(given))
        assert any(epilogue is not None and epilogue.is_long for epilogue in epilogues) == is_long
    np.testing.assert_array_equal(*answers)


def test_rows_of_the_target_and_of_a_residual_are_fetched_while_sums_are_made() -> None:
    total, residual = (load(number, dml.DataType.FLOAT32) for number in range(2))
    epilogue = Epilogue(total + residual, total, (total, residual), (FOLD, FOLD))
    tile = MicroTile(7, 2, LANES, 0, by_lane=False, reads="spread")
    plain, ended = (make_unpacked_tile(one) for one in (tile, tile._replace(epilogue=epilogue)))
    lines = figures().conv.prefetch_rows * (
        2 * LANES * 4 // 64 + 1
    )  # a row may begin within a line, and end in another
    assert [plain.count(f"i32 {is_written}, i32 3, i32 1)") for is_written in (0, 1)] == [8, 0]
    assert [ended.count(f"i32 {is_written}, i32 3, i32 1)") for is_written in (0, 1)] == [8 + lines, lines]


def test_first_layers_take_the_few_steps_of_a_piece_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles: list[Any] = []

    def kernel(tile: Any) -> int:
        tiles.append(tile)
        return make(tile)

    make = pixels._kernel
    monkeypatch.setattr(pixels, "_kernel", kernel)
    monkeypatch.setenv("ANYDML_KEEP_PLANS", "0")
    g = dml.Graph("cpu")
    g.compile(convolved(g, convolved(g, g.input(whole(1, 1, 3, 9, 30), "x"), 16, 3), 16, 3))
    assert {tile.steps for tile in tiles} == {3}
    assert "main:" not in make_unpacked_tile(tiles[0])


def test_long_sums_are_put_down_after_each_chain() -> None:
    table = pieces((2, 3), (400, 40), 300, CHAIN)
    count, found = table[0], table[1:].reshape(-1, 3)
    assert count == len(found) == 2 * 3 * 3
    assert found[:, 1].sum() == 2 * 3 * 300
    run = 0
    for _, steps, is_down in found.tolist():
        run += steps
        assert run <= CHAIN
        run = 0 if is_down else run


@pytest.mark.parametrize(("channels", "is_window"), [(figures().conv.window_channels, False), (16, True)])
def test_wide_windows_that_lie_apart_are_rows_of_a_reduce(channels: int, is_window: bool) -> None:
    x = whole(1, 8, 9, channels)
    desc = dml.Reduce.infer(function="max", input_tensor=dml.TensorDesc.of(x), axes=[1])
    run = dml.Device("cpu").compile(desc)
    np.testing.assert_array_equal(run(x), x.max(1, keepdims=True))
    assert (family_of(run._programs[-1]) in PRODUCTS) == is_window
