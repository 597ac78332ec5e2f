"""Decision tables: rows that each have a condition and a planner, asked in their order, and what was chosen."""

from __future__ import annotations

import operator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anydml.core.late_imports import import_alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from anydml.engines.common.engine import Engine
    from anydml.engines.common.program import Program
    from anydml.ir.verbs import Primitive


@dataclass(frozen=True, slots=True)
class Route:
    """A row of an engine's decision table.

    Rows are asked in their order: the first one whose condition holds carries a verb out, but where its planner has no
    room for it or no kernel, which is seldom.
    """

    name: str
    when: Callable[..., object]
    """The condition; its docstring has it in words."""
    plan: str = ""
    """The planner, `module:name` in the engine's package, imported where the condition holds: it gives the program, or
    None. Without one the row is a way that a planner chooses."""
    measured: str = ""
    """The time it takes, and what other ways take."""
    with_constants: bool = False
    """Whether both are told, last, which tensors are constants, to have them laid out ahead."""

    def ask(self, package: str, *given: object) -> Program | None:
        """The program of an engine, whose package is named; None where the condition does not hold."""
        if not self.when(*given):
            return None
        module, _, name = self.plan.partition(":")
        program: Program | None = operator.attrgetter(name)(import_alone(f"{package}.{module}"))(*given)
        if program is None and (taken := TAKEN.get()):
            taken.clear()  # of a planner that declines
        return program

    @property
    def condition(self) -> str:
        """The condition in words: the first paragraph of its docstring."""
        text = " ".join((self.when.__doc__ or "").partition("\n\n")[0].split()).removesuffix(".")
        return text[:1].lower() + text[1:] if text[1:2].islower() else text


TAKEN: ContextVar[list[Route] | None] = ContextVar("taken", default=None)
"""Where the ways that planners choose are noted, for who asks."""


def choose(ways: Sequence[Route], *given: object) -> Route:
    """The first way whose condition holds, which the last one's always does."""
    found = next(way for way in ways if way.when(*given))
    note(found)
    return found


def note(way: Route) -> None:
    """Say which way a planner takes, where it has not asked rows in their order."""
    if (taken := TAKEN.get()) is not None:
        taken.append(way)


def first(
    package: str, rows: Iterable[Route], constants: frozenset[str], *given: object
) -> tuple[Route, Program | None]:
    """The first row of a decision table that takes what is given, and its program; GENERIC, and None, without one."""
    for row in rows:
        program = row.ask(package, *given, *((constants,) if row.with_constants else ()))
        if program is not None:
            return row, program
    return GENERIC, None


@dataclass(frozen=True, slots=True)
class Tables:
    """The decision tables of an engine, one for each verb, of which the last row takes everything."""

    package: str
    """The engine's, which has the planners."""
    rows: Mapping[type[Primitive], Sequence[Route]]

    def plan(self, primitive: Primitive, device: object, constants: frozenset[str] = frozenset()) -> Program:
        """The program of the first row that takes a primitive."""
        found, program = first(self.package, self.rows[type(primitive)], constants, primitive, device)
        if program is None:
            raise AssertionError(f"{found.name}: the last route takes everything")
        return program

    def route(self, primitive: Primitive, device: object, constants: frozenset[str]) -> Route:
        """The row that a primitive is carried out by."""
        return first(self.package, self.rows[type(primitive)], constants, primitive, device)[0]


def always(*_: object) -> bool:
    """Whatever is left."""
    return True


def routes_of(engine: Engine, primitives: Sequence[Primitive], constants: frozenset[str]) -> Sequence[Route]:
    """The row of an engine's decision table that carries verbs out, as one program where there are several.

    After it come the ways that its planner chose. They are planned once more.
    """
    taken = list[Route]()
    token = TAKEN.set(taken)
    try:
        return [engine.route(primitives, constants), *dict.fromkeys(taken)]
    finally:
        TAKEN.reset(token)


def any_verb(*_: object) -> bool:
    """Any verb: NumPy, over all of it at once."""
    return True


def is_repeated(*_: object) -> bool:
    """Verbs that are repeated: each by its own route, in one call where there is one."""
    return True


GENERIC = Route("reference", any_verb)
"""The only route of an engine that has no others, and the last one of those that have."""
REPEATED = Route("loop", is_repeated)
"""The route of a Repeat."""
