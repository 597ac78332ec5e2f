"""Repeats on any engine: each step compiled once, and bound for every time, its views moved on.

Where an engine wants addresses that are multiples of more than an element, steps are compiled for as many times in a
row as it takes to come to the next one: of bytes that move on by one, four.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anydml.engines.common.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.common.engine import Engine
    from anydml.ir.verbs import Computation, Map, Reduce, Repeat
    from anydml.ir.views import View


@dataclass(frozen=True, slots=True)
class Part:
    """A step of a repeat, compiled for its first time."""

    program: Program
    moves: Mapping[str, tuple[str, int]]
    """By what the program calls a tensor that is seen elsewhere each time: the tensor, and the bytes it moves on."""
    layouts: Mapping[str, str]
    """By what the program calls a layout, what the repeat calls it."""
    phase: int = 0
    """Of each round of times, the one that it is for."""

    def places(self, places: Mapping[str, int], time: int) -> dict[str, int]:
        """The addresses of tensors and layouts, by what the program calls them, at a time."""
        own = {name: places[tensor] + time * step for name, (tensor, step) in self.moves.items()}
        own |= {name: places[called] for name, called in self.layouts.items()}
        return {**places, **own}

    def bind(self, places: Mapping[str, int], time: int) -> Callable[[], Any]:
        """A function that runs the step at a time."""
        return self.program.bind(self.places(places, time))


@dataclass(frozen=True, slots=True)
class RepeatProgram(Program):
    """Steps over time."""

    parts: tuple[Part, ...]
    times: int
    layouts: Mapping[str, Map | Reduce] = field(default_factory=dict)
    phases: int = 1
    """Times of a round."""

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Bind every step for every time."""
        launches = [
            part.bind(places, time // self.phases)
            for time in range(self.times)
            for part in self.parts
            if part.phase == time % self.phases
        ]

        def run() -> None:
            for launch in launches:
                launch()

        return run


def compile_repeat(
    engine: Engine, primitive: Repeat, constants: frozenset[str], program: type[RepeatProgram] = RepeatProgram
) -> RepeatProgram:
    """Compile each step once. A constant that one of them reads as it lies is laid out ahead for none."""
    phases = _phases(primitive, engine.traits.alignment)
    first = [(phase, *_first(step, phase, phases)) for phase in range(phases) for step in primitive.steps]
    programs = [engine.compile(step, constants) for _, step, _ in first]
    own = [{layout.source.tensor for layout in made.layouts.values()} for made in programs]
    pairs = list(zip(first, own, strict=True))
    read = {view.tensor for (_, step, _), laid_out in pairs for view in step.sources if view.tensor not in laid_out}
    if both := read.intersection(set[str]().union(*own)):
        return compile_repeat(engine, primitive, constants - both, program)
    parts: list[Part] = []
    layouts: dict[str, Map | Reduce] = {}
    for number, ((phase, _, moves), made) in enumerate(zip(first, programs, strict=True)):
        names = {name: f"{name} {number}" for name in made.layouts}
        layouts |= {names[name]: layout for name, layout in made.layouts.items()}
        parts.append(Part(made, moves, names, phase))
    return program(tuple(parts), primitive.sizes[0], layouts, phases)


def _phases(primitive: Repeat, alignment: int) -> int:
    """The times after which all that moves has moved by multiples of an alignment."""
    moved = {view.strides[0] * view.data_type.size_in_bytes for step in primitive.steps for view in step.views}
    return min(math.lcm(*(alignment // math.gcd(by, alignment) for by in moved)), primitive.sizes[0])


def _first(step: Computation, phase: int, phases: int) -> tuple[Computation, dict[str, tuple[str, int]]]:
    """A step at the first time of a phase, and what moves: a view that does has a name of its own for its tensor."""
    moves: dict[str, tuple[str, int]] = {}

    def change(view: View) -> View:
        name, stride = view.tensor, view.strides[0]
        if stride:
            name = f"{name} by {stride}"
            moves[name] = (view.tensor, phases * stride * view.data_type.size_in_bytes)
        offset = view.offset + phase * stride
        return replace(view, tensor=name, sizes=view.sizes[1:], strides=view.strides[1:], offset=offset)

    return step.reading(change).writing(change), moves
