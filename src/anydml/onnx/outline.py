"""The inputs and outputs of a program, apart from its graph: found by a trace, and kept with a plan of the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import numpy as np

    from anydml.api.expression import Expression
    from anydml.onnx.lower.trace import Trace
    from anydml.onnx.lower.values import Value


@dataclass(frozen=True, slots=True)
class Outline:
    """The inputs and outputs of a model for certain shapes, and where the outputs come from."""

    outputs: dict[str, Value]
    """By name, apart from any graph."""
    reads: list[str]
    """The inputs that the graph takes, in its order."""
    made: list[int]
    """By the graph's output, the number of the model's."""
    copied: dict[int, str | int]
    """By the number of an output of the model's, the input or the other output that it repeats."""
    labels: Mapping[str, str]
    """By the name that a node has in the graph, what errors call it."""
    rules: Mapping[str, tuple[str, str, int]]
    """By the name of a gather that is there to check its indices, the field and the rule that they break."""
    assumed: Collection[str]
    """The names of those that find outside what the program does not hold for."""
    states: Mapping[str, np.ndarray[Any, Any]]
    """By the name among the inputs, the key of a generator whose state each run gives."""


def outline_of(found: Trace) -> tuple[Outline, list[Expression]]:
    """Look at what a trace found; the second part are the outputs of its graph."""
    tracer = found.tracer
    values = {name: value for name, value in found.outputs.items() if value is not None}
    reads = list(tracer.inputs)
    numbers: dict[tuple[int, int], int] = {}
    made: list[int] = []
    copied: dict[int, str | int] = {}
    expressions: list[Expression] = []
    for i, value in enumerate(values.values()):
        if value.is_known:
            continue
        source = None if value.expression is None else value.expression.source
        if source is None or source.is_input:
            copied[i] = value.source if source is None else reads[source.number]
            continue
        assert value.expression is not None  # noqa: S101 - for type checkers: it has a source
        place = (source.number, value.expression.slot)
        if place in numbers:
            copied[i] = numbers[place]
        else:
            numbers[place] = i
            made.append(i)
            expressions.append(value.expression)
    outputs = {name: value.for_next_graph() for name, value in values.items()}
    return Outline(
        outputs, reads, made, copied, tracer.labels, tracer.rules, tracer.assumed, tracer.states
    ), expressions
