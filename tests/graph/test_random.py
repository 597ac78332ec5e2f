"""Random graphs: as they are simplified, as they are not, and function by function."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anydml as dml
from agreement import assert_same
from cases import ENGINES
from places import get
from random_graphs import FEW, graphs

pytestmark = pytest.mark.check_bounds

EXAMPLES = settings(
    deadline=None,
    derandomize=False,
    print_blob=True,
    max_examples=FEW // 2 or (80 if os.environ.get("CI") else 30),
    suppress_health_check=[HealthCheck.too_slow],  # what is drawn is computed, by kernels that may not be compiled yet
)


@pytest.mark.parametrize("engine", ENGINES)
@given(data=st.data())
@EXAMPLES
def test_a_graph_gives_the_bits_of_its_operators(engine: str, data: st.DataObject) -> None:
    built, chosen = data.draw(graphs(engine))
    expressions = [built.values[i][0] for i in chosen]
    wanted = [get(built.values[i][1]) for i in chosen]
    disabled = data.draw(st.lists(st.sampled_from([*dml.graph_passes()]), max_size=4), "disabled")
    for optimise in (False, True):
        model = built.graph.compile(expressions, optimise=optimise, disable_passes=disabled)
        for _ in range(2):  # the arena of the first run is another's by the second
            found = model(*built.arrays)
            for got, want in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
                assert_same(get(got).reshape(want.shape), np.ascontiguousarray(want), (optimise, disabled, model.desc))
