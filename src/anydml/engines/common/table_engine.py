"""Engines that plan by decision tables: a GPU's, whose last row of each verb takes everything."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from anydml.core.late_imports import import_alone
from anydml.engines.common.engine import Engine
from anydml.engines.common.repeat import compile_repeat
from anydml.engines.common.routes import REPEATED
from anydml.ir.bounds import are_checked, check_fetches
from anydml.ir.verbs import Repeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.common.program import Program
    from anydml.engines.common.routes import Route, Tables
    from anydml.ir.verbs import Primitive


class TableEngine(Engine):
    """An engine whose package has a module `schedules`, with TABLES."""

    @property
    @abstractmethod
    def asked_of(self) -> object:
        """What conditions and planners are told of the device."""

    def compile(self, primitive: Primitive, constants: frozenset[str] = frozenset()) -> Program:
        """Plan, and write the kernels."""
        if are_checked():
            check_fetches(primitive)
        if isinstance(primitive, Repeat):
            return compile_repeat(self, primitive, constants)
        return self._tables().plan(primitive, self.asked_of, constants)

    def route(self, primitives: Sequence[Primitive], constants: frozenset[str]) -> Route:
        """The row of the decision table that a verb is carried out by."""
        (primitive,) = primitives
        return REPEATED if isinstance(primitive, Repeat) else self._tables().route(primitive, self.asked_of, constants)

    def _tables(self) -> Tables:
        tables: Tables = import_alone(f"{type(self).__module__}.schedules").TABLES
        return tables
