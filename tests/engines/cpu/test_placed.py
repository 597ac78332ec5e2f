"""Rows that the cpu engine puts together of pieces: places of each dimension for itself, of every width and layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agreement import framed, run
from agreement import view as view_of
from anydml.core.enums import DataType
from anydml.engines import find_engine
from anydml.engines.cpu.move.padding import plan_placement
from anydml.ir.expressions import absolute, const, coordinate, fetch, given, load, maximum, minimum
from anydml.ir.verbs import Map
from kernel_families import family_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.ir.expressions import Expr

pytestmark = pytest.mark.check_bounds

INT64 = DataType.INT64
PLACES: dict[str, Callable[[int], Expr]] = {
    "margins": lambda k: minimum(maximum(coordinate(k) - given(3, INT64), 0), given(39, INT64)),
    "reflected": lambda k: absolute(coordinate(k) - given(5, INT64)),
    "thrice": lambda k: coordinate(k) / given(3, INT64),
    "wrapped": lambda k: coordinate(k) % given(40, INT64),
    "last": lambda _k: const(39, INT64),
}


@pytest.mark.parametrize("outer", PLACES)
@pytest.mark.parametrize("inner", [name for name in PLACES if name != "thrice"])
def test_rows_of_pieces(outer: str, inner: str) -> None:
    rng = np.random.default_rng(3)
    indices = [coordinate(0), PLACES[outer](1), PLACES[inner](2)]
    for dtype, is_turned in (("f4", False), ("u1", True), ("f8", False), ("u2", False)):
        x = rng.integers(0, 200, (2, 40, 40)).astype(dtype)
        x = x.transpose(0, 2, 1) if is_turned else x
        y = np.zeros((2, 44, 44), dtype)
        made = Map((view_of("x", x),), view_of("target", y), fetch(0, view_of("x", x).data_type, indices))
        assert family_of(plan_placement(made)) == "placed"
        ours, wanted = (run(find_engine(engine), made, x=x, target=framed(y)) for engine in ("cpu", "reference"))
        np.testing.assert_array_equal(ours, wanted)


def test_what_is_left_to_others() -> None:
    x: Any = np.zeros((40, 40), "f4")
    y = np.zeros((40, 40), "f4")
    at, kind = (coordinate(0), coordinate(1)), DataType.FLOAT32
    i = np.zeros((40, 40), "i8")
    several = {
        "both in one index": fetch(0, kind, [at[0], (at[0] + at[1]) % given(40, INT64)]),
        "indices from memory": fetch(0, kind, [at[0], minimum(maximum(load(1, INT64), 0), given(39, INT64))]),
        "pieces of one element": fetch(0, kind, [at[0], at[1] * 7 % given(40, INT64)]),
        "arithmetic": fetch(0, kind, list(at)) * 2.0,
    }
    for name, value in several.items():
        sources = (view_of("x", x), view_of("i", i)) if "memory" in name else (view_of("x", x),)
        assert plan_placement(Map(sources, view_of("target", y), value)) is None, name
    wide = view_of("y", np.zeros((40, 80), "f4")[:, ::2])
    assert plan_placement(Map((view_of("x", x),), wide, fetch(0, kind, list(at)))) is None
