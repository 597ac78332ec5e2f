"""The cuda engine's generated kernels against the reference, bit for bit: on a GPU, or interpreted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agreement import assert_same, run, view
from anydml.engines.cuda import CudaEngine, is_interpreted
from anydml.engines.reference import ReferenceEngine
from anydml.enums import DataType
from anydml.ir.verbs import Map
from places import why_not_interpreted
from trees import Trees, room, shape_of, source

if TYPE_CHECKING:
    from anydml.ir.expressions import Expr

if reason := why_not_interpreted():
    pytest.skip(reason, allow_module_level=True)

Array = np.ndarray[Any, Any]
CUDA, REFERENCE = CudaEngine(), ReferenceEngine()
WHOLE_TILES = CudaEngine()
if is_interpreted():  # numbers alone, without the many programs that small tiles make
    WHOLE_TILES._figures = replace(WHOLE_TILES._figures, tile=4096)


def agree(value: Expr, target: Array, *sources: Array, engine: CudaEngine = CUDA) -> None:
    """Compute a map on both engines, and compare."""
    named = {f"source{slot}": source for slot, source in enumerate(sources)}
    views = tuple(view(name, array) for name, array in named.items())
    primitive = Map(views, view("target", target), value)
    wanted, got = (run(each, primitive, **named, target=target) for each in (REFERENCE, engine))
    assert_same(got, wanted, value)


@pytest.mark.parametrize("seed", range(200))
def test_random_trees(seed: int) -> None:
    chance = np.random.default_rng(seed)
    types = list(DataType)
    of = types[seed % len(types)]
    sources = [types[k] for k in chance.integers(0, len(types), chance.integers(0, 4))]
    shape = shape_of(chance, 300 if is_interpreted() else 5000)
    value = Trees(seed, sources, len(shape)).grow(of, 4)
    agree(value, room(chance, shape, of), *(source(chance, shape, one) for one in sources))
