"""Contractions of the cpu engine: the reference's bits wherever sums are exact, and errors no larger than peers'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu import CpuEngine
from anydml.engines.cpu.programs.contract import ContractProgram
from anydml.engines.reference import ReferenceEngine
from contractions import Drawn, draw, product

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.verbs import Reduce

Array = np.ndarray[Any, Any]


def run(primitive: Reduce, arrays: dict[str, Array], engine: CpuEngine | ReferenceEngine | None = None) -> None:
    places = {name: int(array.__array_interface__["data"][0]) for name, array in arrays.items()}
    (engine or CpuEngine()).compile(primitive).bind(places)()


def check(drawn: Drawn) -> bool:
    """The reference's bits, in the target and around it. Whether it was a contraction of ours."""
    before = drawn.target.copy()
    program = CpuEngine().compile(drawn.primitive)
    run(drawn.primitive, drawn.arrays)
    got = drawn.target.copy()
    drawn.target[...] = before
    run(drawn.primitive, drawn.arrays, ReferenceEngine())
    assert got.tobytes() == drawn.target.tobytes(), (drawn.primitive, np.argwhere(got != drawn.target)[:5])
    return isinstance(program, ContractProgram)


@pytest.fixture
def threads() -> Iterator[None]:
    before = dml.get_num_threads()
    yield
    dml.set_num_threads(before)


@pytest.mark.parametrize("seed", range(4))
def test_any_contraction_has_the_bits_of_the_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ours = [check(draw(rng)) for _ in range(60)]
    assert sum(ours) > 45, ours
