"""Tiles that compute results from their sums: the bits are those of rows of maps, on CPUs whose tiles do neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm import operands, selection
from anydml.engines.cpu.gemm.blocking import tile_for
from anydml.engines.cpu.gemm.epilogue import epilogue_of, fills_lines

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.check_bounds

RNG = np.random.default_rng(3)
Arrays = tuple[np.ndarray, ...]


def numbers(*shape: int) -> np.ndarray:
    """Some, of both signs."""
    return RNG.standard_normal(shape).astype(np.float32)


def biased(x: Any, weight: Any, bias: Any) -> Any:
    """A product with a bias that moves along columns, clipped."""
    return dml.clip(dml.gemm(x, weight) + bias, min=-3, max=3)


def beside(x: Any, weight: Any, other: Any) -> Any:
    """A product with elements that move along both."""
    return dml.relu(dml.gemm(x, weight) + other * 0.5)


def halves(x: Any, weight: Any, bias: Any) -> Any:
    """Results of another width."""
    return dml.cast(dml.gemm(x, weight) + bias, "float16")


def convolved(x: Any, weight: Any, bias: Any, window: Any) -> Any:
    """Results in lines with gaps, since a window with margins reads them; elements that move along rows."""
    inner = dml.relu(dml.convolution(x, weight, bias))
    return dml.convolution(inner, window, start_padding=[1, 1], end_padding=[1, 1])


@pytest.mark.long  # it compiles tiles that this CPU may have no use for
@pytest.mark.parametrize("rows", [9, 61])
@pytest.mark.parametrize(
    ("make", "others"),
    [
        (biased, lambda m: (numbers(m, 700), numbers(700, 75), np.broadcast_to(numbers(75), (m, 75)))),
        (beside, lambda m: (numbers(m, 700), numbers(700, 96), numbers(m, 96))),
        (halves, lambda m: (numbers(m, 60), numbers(60, 75), np.broadcast_to(numbers(m, 1), (m, 75)))),
        (convolved, lambda m: (numbers(1, 40, 11, 13), numbers(m, 40, 1, 1), numbers(1, m, 1, 1), numbers(5, m, 3, 3))),
    ],
)
def test_the_bits_are_those_of_rows(
    monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any], others: Callable[[int], Arrays], rows: int
) -> None:
    """More steps than are packed at once, columns that do not fill vectors, and rows that do not fill tiles."""
    arrays, found = others(rows), []
    ended = []

    def epilogue(operands: Any, own: Callable[..., Any] = epilogue_of) -> Any:
        made = own(operands)
        ended.append((made is not None, operands.line > 0))
        return made

    monkeypatch.setattr(selection, "epilogue_of", epilogue)
    for fills in (True, False):
        monkeypatch.setattr(selection, "fills_lines", lambda _tile, fills=fills: fills)
        graph = dml.Graph("cpu")
        found.append(graph.compile(make(*map(graph.input, arrays)))(*arrays))
    np.testing.assert_array_equal(found[0], found[1])
    assert (True, make is convolved) in ended
    wanted = dml.Graph("reference")
    exact = wanted.compile(make(*map(wanted.input, arrays)))(*arrays)
    np.testing.assert_allclose(found[0], exact, 2e-3 if make is halves else 1e-4, 1e-3)


def test_no_row_of_a_map_is_compiled_for_what_tiles_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where an epilogue is computed in registers nor where sums are the result."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("a row of a map is compiled")

    x, weight, bias = numbers(64, 256), numbers(256, 96), np.broadcast_to(numbers(96), (64, 96))
    pixels = np.ascontiguousarray(numbers(1, 6, 9, 20)).transpose(0, 3, 1, 2)
    monkeypatch.setattr(operands, "row_kernel", refuse)
    wanted = {"product": x @ weight, "epilogue": np.clip(x @ weight + bias, -3, 3)}
    for name, exact in wanted.items():
        if name == "epilogue" and not fills_lines(tile_for("f32", 64)):
            continue  # this CPU's tiles leave that to rows
        graph = dml.Graph("cpu")
        given = graph.input(x), graph.constant(weight), graph.input(bias)
        made = biased(*given) if name == "epilogue" else [dml.gemm(*given[:2]), given[2]]
        found = graph.compile(made)(x, bias)
        np.testing.assert_allclose(found if name == "epilogue" else found[0], exact, 1e-4, 1e-4)
    if figures().conv.spreads_pixels:
        graph = dml.Graph("cpu")
        filters = graph.constant(numbers(32, 20, 1, 1))
        graph.compile(dml.relu(dml.convolution(graph.input(dml.TensorDesc.of(pixels)), filters)))
