"""`anydml explain MODEL.json --graph`: models that no graph can carry, and those of very many dispatches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from anydml.dxdispatch.graph import graph_of
from counting import count_operations
from few_dispatches import (
    at,
    dispatch,
    ints,
    load,
    model,
    refusal,
    shown,
)
from modelling import program

if TYPE_CHECKING:
    from pathlib import Path


VALID = "the model is valid, but no graph can carry it"
EDGE = f"{VALID}: InputTensor must be what one dispatch wrote, from its first element on, to be an edge of a graph"
OUTPUT = f"{VALID}: 'b' must be what one dispatch wrote to be an output of a graph"
WAY_OUT = "give each result a resource of its own, or leave the dispatches apart"


@pytest.mark.parametrize(
    ("commands", "rule", "found"),
    [
        (
            [dispatch("half", "a", "b"), dispatch("half", "a", at("b", 4)), dispatch("sum", "b", "c")],
            EDGE,
            "'half' wrote some, and 'half' wrote some of it",
        ),
        (
            [dispatch("half", "a", "b"), dispatch("sum", "b", "c")],
            EDGE,
            "'half' wrote some, and no dispatch wrote some of it",
        ),
        (
            [dispatch("sum", "a", "b"), dispatch("half", at("b", 4), "c")],
            EDGE,
            "byte 16 of what 'sum' wrote from byte 0 on",
        ),
        (
            [dispatch("sum", "a", "b"), dispatch("half", "a", "b")],
            OUTPUT,
            "'half' wrote over some of what 'sum' wrote",
        ),
    ],
)
def test_what_no_edge_can_carry_is_refused(tmp_path: Path, commands: list[Any], rule: str, found: str) -> None:
    said = refusal(tmp_path, model(*commands), status=3)
    assert program("check", tmp_path / "model.json").exit_code == 0
    place = re.fullmatch(r"Error: model\.json:[0-9]+:[0-9]+: \$\.commands\[([12])\]\.bindings\.[A-Za-z]+: (.*)\n", said)
    assert place, said
    assert int(place[1]) == len(commands) - 1
    assert place[2] == f"CUMULATIVE_SUMMATION: {rule}; got {found}; {WAY_OUT}"


def test_a_model_without_a_dispatch_one_at_fault_and_one_that_is_not_built(tmp_path: Path, unbuilt: str) -> None:
    said = refusal(tmp_path, model(shown("a")), status=3)
    assert said == f"Error: model.json: {VALID}: there must be a dispatch to make a graph of\n"
    assert program("check", tmp_path / "model.json").exit_code == 0
    wrong = model(dispatch("sum", "a", "nowhere"))
    assert "there must be a resource 'nowhere'" in refusal(tmp_path, wrong)
    other = model(dispatch("sum", "a", "b"), gemm={"type": f"DML_OPERATOR_{unbuilt}"})
    assert unbuilt in refusal(tmp_path, other, status=3)
    low = refusal(tmp_path, model(dispatch("sum", "a", "b")), "--feature-level", "2_0")
    assert "CUMULATIVE_SUMMATION: the operator needs DML_FEATURE_LEVEL_2_1" in low


def fan(count: int) -> dict[str, Any]:
    """One resource is read by every dispatch, and another written by all of them in turn."""
    return model(*(dispatch(("sum", "flip")[n % 2], "ab"[n % 2], "cd"[n % 2]) for n in range(count)))


def test_a_model_of_very_many_dispatches_is_refused(tmp_path: Path) -> None:
    said = refusal(tmp_path, fan(2_001), status=3)
    assert said == (
        "Error: model.json: the model is valid, but has too many dispatches for a graph: there must be at most 2000;"
        " got 2001; leave the dispatches apart, or make several models of it\n"
    )


def many(count: int) -> list[dict[str, Any]]:
    """Models of so many dispatches: one reads another, or the same, or nothing of the others."""
    data = model()
    data["resources"] |= {f"r{n}": ints(8) for n in range(count)}
    data["commands"] = [dispatch("sum", f"r{n // 2 - 1}" if n > 1 else "a", f"r{n}") for n in range(count)]
    apart = model()
    apart["resources"] |= {"wide": ints(4 * count)}
    apart["commands"] = [dispatch("half", "a", at("wide", 4 * n)) for n in range(count)]
    return [data, apart, fan(count)]


@pytest.mark.long
def test_as_many_dispatches_as_are_taken_are_followed(tmp_path: Path) -> None:
    for data in many(2_000):
        assert len(graph_of(load(tmp_path, data)).nodes) == 2_000


@pytest.mark.long
def test_twice_the_dispatches_are_no_four_times_the_work(tmp_path: Path) -> None:
    """Writes to one resource are looked at for every other: a little more than twice, and 4 if that were all."""
    for few, more in zip(many(60), many(120), strict=True):
        counts = []
        for data in (few, more):
            loaded = load(tmp_path, data)
            graph_of(loaded)  # what is done once is done by now
            counts.append(count_operations(lambda: graph_of(loaded)))  # noqa: B023 - called at once
        assert counts[1] < 2.8 * counts[0]


def test_one_dispatchable_is_no_graph(tmp_path: Path) -> None:
    said = refusal(tmp_path, model(dispatch("sum", "a", "b")), "--dispatchable", "sum", status=2)
    assert said.endswith("Error: --graph shows all dispatches together: leave --dispatchable out.\n")
