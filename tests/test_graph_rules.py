"""The optimiser's rules: what each makes of a small recipe, and that random ones keep every bit of their outputs."""

from __future__ import annotations

import pytest
from hypothesis import given

from anydml.graph.optimise import optimise
from cases import ENGINES
from recipes import RANDOM, Drawn, assert_same_outputs, random_recipes, run


@pytest.mark.parametrize("engines", [ENGINES], ids="+".join)
@RANDOM
@given(drawn=random_recipes())
def test_random_recipes_keep_their_bits(engines: list[str], drawn: Drawn) -> None:
    simple = optimise(drawn.recipe)
    assert simple.bytes_moved <= drawn.recipe.bytes_moved
    for engine in engines:
        wanted = run(drawn.recipe, engine, drawn.contents)
        for shares in (False, True):
            assert_same_outputs(run(simple, engine, drawn.contents, shares=shares), wanted, drawn)
        assert_same_outputs(run(drawn.recipe, engine, drawn.contents, shares=True), wanted, drawn)
