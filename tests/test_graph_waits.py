"""Which steps of a graph wait for which: all that share memory with a step that writes it, and no others."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.graph.waits import find_waits

SIZES = (1, 1, 8, 8)


def compiled() -> dml.CompiledGraph:
    """Products in two rows that come together, more of them than an arena keeps apart, and a join in parts."""
    g, rng = dml.Graph("reference"), np.random.default_rng(3)
    x = g.input(dml.TensorDesc("float32", SIZES), "x")
    rows = [x, x]
    for _ in range(4):
        rows = [dml.gemm(row, g.constant(rng.standard_normal(SIZES).astype("float32"))) for row in rows]
    return g.compile([dml.gemm(rows[0], rows[1]), dml.join(rows, axis=3)])


def test_steps_wait_for_those_whose_memory_they_share_and_no_others() -> None:
    graph = compiled()
    steps, offsets = graph.recipe.steps, graph.arena.offsets
    waits = find_waits(graph.recipe, offsets)
    before: list[set[int]] = []
    for own in waits:
        before.append(set(own).union(*(before[n] for n in own)))
    assert any(not own for own in waits[1:]), "the second row waits for nothing of the first"

    def places(views: Any) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for view in views:
            steps = [np.arange(size) * stride for size, stride in zip(view.sizes, view.strides, strict=True)]
            at = view.offset + sum(np.ix_(*steps)) + offsets.get(view.tensor, 0) // view.data_type.size_in_bytes
            name = "" if view.tensor in offsets else view.tensor
            found |= {(name, place) for place in np.unique(at).tolist()}
        return found

    reads, writes = ([places(getattr(step, what)) for step in steps] for what in ("sources", "targets"))
    for i, j in itertools.combinations(range(len(steps)), 2):
        meets = writes[i] & (reads[j] | writes[j]) or reads[i] & writes[j]
        assert i in before[j] or not meets, (i, j)


def test_launches_are_spread_over_streams_in_an_order_that_holds() -> None:
    pytest.importorskip("triton", reason="Triton is not installed: make test EXTRAS='torch triton'")
    from anydml.engines.cuda.replay import spread  # which needs PyTorch

    waits = find_waits(compiled().recipe, compiled().arena.offsets)
    assert set(spread(waits, 1)) == {0}
    places = spread(waits, 3)
    assert len(set(places)) > 1
    assert len(waits) == len(places)
