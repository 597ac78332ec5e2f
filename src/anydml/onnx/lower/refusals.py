"""Why a node is no part of a program: a result, which says who may run it instead.

Inside a lowering it is an exception. `Value.values`, `Node.unsupported` and DirectML's functions are called at the end
of long chains of helpers, none of which can go on, and each would have to pass a result on. `trace` alone catches them,
and gives a `Refusal`: programs, the partition planner and reports look at results, and what a user is told is an
UnsupportedError or names a broken rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from anydml.core.errors import UnsupportedError

if TYPE_CHECKING:
    from anydml.core.errors import DmlError


class Why(Enum):
    """The kinds of refusals, by who can do something about it."""

    RULE = "a rule is broken or a limit passed"
    """Wherever the node ran: the user is told."""
    DEVICE = "DirectML lacks its operator or type"
    """The host may run it."""
    VALUES = "it needs values"
    """Of graph inputs: a run gives them."""
    EARLIER = "it depends on a node that cannot run"


class RefusedError(UnsupportedError):
    """What a lowering raises where its node is no part of a program. `trace` catches it; a user is told `as_told`."""

    why = Why.DEVICE
    inputs: frozenset[str] = frozenset()
    """The graph inputs whose values are needed."""


class NowhereError(RefusedError):
    """Refused wherever it would run: past a limit, or in a form that is not read. The host does not get it either."""

    why = Why.RULE


class NeedsValueError(RefusedError):
    """A shape, an axis or a bound that depends on the values of graph inputs, which are given at a run."""

    why = Why.VALUES

    def __init__(self, subject: str, faults: Any, inputs: frozenset[str] = frozenset()) -> None:
        super().__init__(subject, faults)
        self.inputs = inputs


class UnknownError(RefusedError):
    """A node after one that is refused."""

    why = Why.EARLIER


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why there is no program for certain shapes and values, or why a node is not in it."""

    why: Why
    error: DmlError
    """Told to the user where nobody can do anything about it."""
    kind: str = ""
    """The node's type."""
    inputs: frozenset[str] = frozenset()
    """The graph inputs whose values are needed."""

    @classmethod
    def of(cls, found: DmlError, error: DmlError, kind: str) -> Refusal:
        """The refusal of a node for what its lowering raised; `error` is the same told of the node."""
        if isinstance(found, RefusedError):
            return cls(found.why, error, kind, found.inputs)
        return cls(Why.DEVICE if isinstance(error, UnsupportedError) else Why.RULE, error, kind)


def as_told(error: DmlError) -> DmlError:
    """The same error, of a class that users know."""
    return UnsupportedError(error.subject, error.faults) if isinstance(error, RefusedError) else error
