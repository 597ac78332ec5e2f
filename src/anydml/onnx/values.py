"""What passes between nodes while a model is traced: an element type and a shape, and values where they are known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.errors import Fault, UnsupportedError

if TYPE_CHECKING:
    from anydml.builder import Expression
    from anydml.onnx.types import ElementType


MOST_KNOWN = 2**20
"""Elements up to which what hangs on known values alone is computed while a model is traced."""
MOST_KNOWN_DIMENSIONS = 64
"""Of a tensor that is known, which is NumPy's."""


class NeedsValueError(UnsupportedError):
    """A shape, an axis or a bound that hangs on the values of graph inputs, which are given at a run."""

    def __init__(self, subject: str, faults: Any, inputs: frozenset[str] = frozenset()) -> None:
        super().__init__(subject, faults)
        self.inputs = inputs


@dataclass(eq=False, slots=True)
class Value:
    """A tensor of a model that is being traced.

    Its memory is packed, whatever its shape: another shape of as many elements is the same memory. A tensor without
    elements has none.
    """

    element: ElementType
    shape: tuple[int, ...]
    """ONNX's own: of any rank, none and sizes of 0 included."""
    array: np.ndarray[Any, Any] | None = None
    """What it is known to be, booleans as 0 and 1."""
    expression: Expression | None = None
    """What it is in the graph, once the graph has it."""
    source: str = ""
    """The graph input or initializer that it is."""
    needs: frozenset[str] = frozenset()
    """The graph inputs that it hangs on, where it is not known."""

    @classmethod
    def known(cls, element: ElementType, array: Any, source: str = "") -> Value:
        """A tensor that is known."""
        held = np.asarray(array, element.held)
        return cls(element, held.shape, held, source=source)

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def is_known(self) -> bool:
        """Whether its elements are known; a tensor without elements always is."""
        return self.array is not None or self.count == 0

    def values(self, what: str) -> np.ndarray[Any, Any]:
        """Its elements; an error that names the graph inputs where they hang on those. `what` is what they are for."""
        if self.array is not None:
            return self.array
        if self.count == 0:
            check_dimensions(self.shape)
            return np.empty(self.shape, self.element.held)
        if not self.needs:
            rule = (
                f"{what} must be known before anything runs, and hangs on a constant of more than 2^20 = "
                f"{MOST_KNOWN} elements that nodes make, which is not computed before"
            )
            raise UnsupportedError("onnx", Fault(field=what, rule=rule, value=self.shape))
        names = ", ".join(repr(name) for name in sorted(self.needs))
        rule = f"{what} must be known before anything runs, and hangs on the input{'s' * (len(self.needs) > 1)} {names}"
        fault = Fault(field=what, rule=rule, value=self.shape)
        raise NeedsValueError("onnx", fault, self.needs)

    def ints(self, what: str) -> list[int]:
        """Its elements as a list of whole numbers."""
        return [int(value) for value in self.values(what).reshape(-1)]

    def reshaped(self, shape: tuple[int, ...]) -> Value:
        """The same memory in another shape of as many elements; the graph must have it where it is not known."""
        if self.array is not None:
            check_dimensions(shape)
        array = None if self.array is None else self.array.reshape(shape)
        return Value(self.element, shape, array, self.expression, self.source, self.needs)

    def retyped(self, element: ElementType) -> Value:
        """The same memory as another type of the same DirectML type."""
        return Value(element, self.shape, self.array, self.expression, self.source, self.needs)


def check_dimensions(shape: tuple[int, ...], subject: str = "onnx", what: str = "a tensor that is known") -> None:
    """Refuse a shape that no NumPy array has."""
    if len(shape) > MOST_KNOWN_DIMENSIONS:
        rule = f"{what} must have at most {MOST_KNOWN_DIMENSIONS} dimensions, NumPy's most"
        raise UnsupportedError(subject, Fault(field="shape", rule=rule, value=shape, found=str(len(shape))))
