"""Reduces on the cpu engine: the reference's answers, for any tree, type and layout, on any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from agreement import assert_same
from anydml.engines.cpu import CpuEngine
from anydml.engines.reference import ReferenceEngine
from anydml.enums import DataType
from anydml.ir import expressions as ex
from anydml.ir.expressions import Expr, fold, load
from anydml.ir.trees import write
from anydml.ir.verbs import Reduce
from test_cpu_maps import run, view
from trees import Trees, room, shape_of, source

Array = np.ndarray[Any, Any]
F32, F64 = DataType.FLOAT32, DataType.FLOAT64
TYPES = list(DataType)
X = load(0, F32)
MEAN = fold("sum", X) / 1000.0
CENTRED = X - MEAN
RAISED = ex.call("exp", X - fold("max", X))
SOFTMAX = RAISED / fold("sum", RAISED)
NORMAL = CENTRED / ex.sqrt(fold("sum", CENTRED * CENTRED) / 1000.0 + 1e-5)


def reduced(value: Expr, sources: list[Array], target: Array, depth: int) -> Reduce:
    return Reduce(tuple(view(f"x{i}", x) for i, x in enumerate(sources)), view("y", target), value, depth)


def compute(engine: CpuEngine | ReferenceEngine, primitive: Reduce, sources: list[Array], target: Array) -> None:
    arrays = {**{f"x{i}": x for i, x in enumerate(sources)}, "y": target}
    run(engine, primitive, arrays)


def check(value: Expr, sources: list[Array], target: Array, depth: int, whole: Array | None = None) -> None:
    """The reference's bits, and nothing beside them: the target may lie in a larger array, which is compared whole."""
    whole = target if whole is None else whole
    before = whole.copy()
    primitive = reduced(value, sources, target, depth)
    compute(ReferenceEngine(), primitive, sources, target)
    wanted = whole.copy()
    for threads in (1, 2):
        whole[...] = before
        with_threads(threads, primitive, sources, target)
        assert_same(
            np.where(whole == 0, 0, whole), np.where(wanted == 0, 0, wanted), (write(value), sources[:1], target.shape)
        )


def with_threads(number: int, primitive: Reduce, sources: list[Array], target: Array) -> None:
    before = dml.get_num_threads()
    dml.set_num_threads(number)
    try:
        compute(CpuEngine(), primitive, sources, target)
    finally:
        dml.set_num_threads(before)


@pytest.mark.parametrize("part", range(6))
def test_random_trees_and_layouts(part: int) -> None:
    for seed in range(part, 60, 6):
        chance = np.random.default_rng(seed)
        slots = [TYPES[k] for k in chance.integers(len(TYPES), size=1 + seed % 3)]
        shape, data_type = shape_of(chance, 4000) or (3,), TYPES[seed % len(TYPES)]
        depth = int(chance.integers(1, len(shape) + 1))
        trees = Trees(seed, slots, shape, depth)
        trees.by_row = bool(seed % 5 < 3)
        value = trees.fold(data_type, 2) if seed % 2 else trees.grow(data_type, 3)
        sources = [source(chance, shape, slot) for slot in slots]
        sizes = (*shape[:-depth], *[1] * depth) if trees.by_row else shape
        whole = room(chance, (*sizes, 2), data_type)
        check(value, sources, whole[..., 0], depth, whole)
