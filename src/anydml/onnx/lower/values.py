"""Values between nodes while a model is traced: an element type and a shape, and numbers where they are known."""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.arrays.shared import SharedData
from anydml.core.errors import Fault, ModelError, printable, show
from anydml.core.guards import tape_on
from anydml.core.memory import NUMPY_DIMENSIONS
from anydml.core.symbolic_sizes import is_open
from anydml.onnx.lower.refusals import NeedsValueError, NowhereError

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.api.expression import Expression
    from anydml.onnx.element_types import ElementType


MOST_KNOWN = 2**20
"""Elements up to which what depends on known values alone is computed while a model is traced."""
_MOST_ELEMENTS = 2**63 - 1
"""Which ONNX's INT64 can count."""


class Known:
    """Elements that are known, in a row: computed when somebody first asks for them, and never changed.

    Those that can be read from a file again are not held: whoever reads them holds them.
    """

    __slots__ = ("_data", "_flat", "_make", "_text", "fill", "is_open", "is_readable", "opened", "was_read")

    def __init__(
        self,
        flat: np.ndarray[Any, Any] | None = None,
        make: Callable[[], Any] | None = None,
        *,
        is_readable: bool = False,
        fill: Callable[[np.ndarray[Any, Any]], object] | None = None,
        is_open: bool = False,
        held: np.dtype[Any] | None = None,
    ) -> None:
        """Open sizes are `held` in another type than INT64, where one is given."""
        self.opened = flat if flat is not None and flat.dtype == object else None
        """A few elements of which some are open sizes."""
        if self.opened is not None:
            flat, make, is_open = None, functools.partial(_as_numbers, self.opened, held or np.dtype(np.int64)), True
        self._flat, self._make = flat, make
        self.is_open = is_open
        """Whether they depend on sizes that are open: they are computed for each set of them."""
        self.fill = fill
        """The function that reads the elements into memory of as many bytes, where there is one."""
        self._data: SharedData | None = None
        self._text: bytes | None = None
        self.is_readable = is_readable
        self.was_read = False
        """Whether somebody looked at the elements, so that what is planned may depend on them."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.flat(),)

    def flat(self) -> np.ndarray[Any, Any]:
        """The elements, to be looked at."""
        self.was_read = True
        self._pin()
        return self._elements()

    @property
    def shared(self) -> SharedData | None:
        """The elements as graphs share them, where one does."""
        return self._data

    def _elements(self) -> np.ndarray[Any, Any]:
        make = self._make  # before the elements: whoever computes them sets these first
        if self._flat is None:
            assert make is not None  # noqa: S101 - for type checkers: there is the one or the other
            made = np.ascontiguousarray(make()).reshape(-1)
            if self.is_readable or self.is_open:
                return made
            self._flat = made
            self._make = None
        return self._flat

    def text(self) -> bytes:
        """Their bytes, by which few elements are told from others."""
        if self._text is None:
            text = self.flat().tobytes()
            if self.is_open:
                return text
            self._text = text
        return self._text

    def data(self, size: int) -> SharedData:
        """The elements, so many bytes, as graphs share them."""
        if self._data is None:
            if self.is_open:
                self._data = OpenData(size, self._elements, is_held=False)
            else:
                self._data = SharedData(size, self._elements, is_held=not self.is_readable, fill=self.fill)
        return self._data

    def _pin(self) -> None:
        """Have what is planned hold for these elements alone."""
        if self.is_open and (tape := tape_on()) is not None:
            tape.pin_all()


class OpenData(SharedData):
    """Bytes that depend on open sizes."""

    __slots__ = ()

    def look(self) -> np.ndarray[Any, Any]:
        """The bytes on the host, to be looked at."""
        if (tape := tape_on()) is not None:
            tape.pin_all()
        return super().look()


def _as_numbers(opened: np.ndarray[Any, Any], held: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return np.array([operator.index(one) for one in opened], held)


class Parts(NamedTuple):
    """The parts of DequantizeLinear's result: (numbers - zero)·scale."""

    numbers: Value
    scale: Value
    zero: Value | None
    axis: int
    """Along which scales are."""

    def for_next_graph(self) -> Parts:
        """The same without what they are in one graph."""
        zero = None if self.zero is None else self.zero.for_next_graph()
        return Parts(self.numbers.for_next_graph(), self.scale.for_next_graph(), zero, self.axis)


@dataclass(eq=False, slots=True)
class Value:
    """A tensor of a model that is being traced.

    Its memory is packed, whatever its shape: another shape of as many elements is the same memory. A tensor without
    elements has none.
    """

    element: ElementType
    shape: tuple[int, ...]
    """ONNX's own: of any rank up to 64, none and sizes of 0 included."""
    known: Known | None = None
    """Its elements where they are known, booleans as 0 and 1."""
    expression: Expression | None = None
    """Its expression, once the graph has it."""
    source: str = ""
    """The graph input or initializer that it is."""
    needs: frozenset[str] = frozenset()
    """The graph inputs that it depends on, where it is not known."""
    halves: Known | None = None
    """Of 4 bits that a model carries, the bytes that they share."""
    parts: Parts | None = None
    """Of what was dequantised, what it was made of."""

    def __post_init__(self) -> None:
        if len(self.shape) > NUMPY_DIMENSIONS:
            check_dimensions(len(self.shape))
        expression = self.expression
        if expression is not None and tape_on() is None and expression.desc.element_count != math.prod(self.shape):
            # Whoever reads or writes it would do so past the end: what a lowering overlooked is no memory's matter.
            rule = f"a result must have the {expression.desc.element_count} elements that are computed"
            raise ModelError("onnx", Fault(field="shape", rule=rule, value=self.shape, found=str(self.shape)))
        if math.prod(self.shape) > _MOST_ELEMENTS:
            rule = f"a tensor must have at most 2^63 - 1 = {_MOST_ELEMENTS} elements"
            raise NowhereError("onnx", Fault(field="shape", rule=rule, value=self.shape, found=show(self.shape)))

    @classmethod
    def of(cls, element: ElementType, array: Any, source: str = "") -> Value:
        """A tensor that is known."""
        flat = [*array.flat] if isinstance(array, np.ndarray) and array.dtype == object else array
        if tape_on() is not None and is_open(flat):
            opened = np.array(array, object)
            return cls(element, opened.shape, Known(opened.reshape(-1), held=element.held), source=source)
        held = np.asarray(array, element.held)
        return cls(element, held.shape, Known(np.ascontiguousarray(held).reshape(-1)), source=source)

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def is_known(self) -> bool:
        """Whether its elements are known; a tensor without elements always is."""
        return self.known is not None or self.count == 0

    def values(self, what: str) -> np.ndarray[Any, Any]:
        """Its elements; an error that names the graph inputs where they depend on those. `what` is their use."""
        if self.known is not None:
            return self.known.flat().reshape(self.shape)
        if self.count == 0:
            return np.empty(self.shape, self.element.held)
        if not self.needs:
            rule = (
                f"{what} must be known before anything runs, and depends on a constant that nodes make and that is not"
                f" computed before: one of more than 2^20 = {MOST_KNOWN} elements, or one of very many"
            )
            raise NowhereError("onnx", Fault(field=what, rule=rule, value=self.shape))
        names = ", ".join(repr(printable(name)) for name in sorted(self.needs))
        inputs = f"input{'s' * (len(self.needs) > 1)} {names}"
        rule = f"{what} must be known before anything runs, and depends on the {inputs}"
        fault = Fault(field=what, rule=rule, value=self.shape)
        raise NeedsValueError("onnx", fault, self.needs)

    def ints(self, what: str) -> list[int]:
        """Its elements as a list of whole numbers."""
        if self.known is not None and self.known.opened is not None:
            return list(self.known.opened)
        values = self.values(what).reshape(-1)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            rule = f"{what} must be finite numbers"
            raise ModelError("onnx", Fault(field=what, rule=rule, value=self.shape, found=show(values.tolist())))
        return [int(value) for value in values]

    def reshaped(self, shape: tuple[int, ...]) -> Value:
        """The same memory in another shape of as many elements; the graph must have it where it is not known."""
        return Value(self.element, shape, self.known, self.expression, self.source, self.needs, self.halves)

    def retyped(self, element: ElementType) -> Value:
        """The same memory as another type of as many bits; the graph must have it where it is not known."""
        known, held = self.known, element.held
        if known is not None and held != self.element.held:
            more: dict[str, Any] = {"is_readable": known.is_readable, "fill": known.fill, "is_open": known.is_open}
            seen = Known(make=lambda: known.flat().view(held), **more)
            return Value(element, self.shape, seen)
        return Value(element, self.shape, known, self.expression, self.source, self.needs)

    def for_next_graph(self) -> Value:
        """The same without what it is in one graph."""
        parts = None if self.parts is None else self.parts.for_next_graph()
        return Value(self.element, self.shape, self.known, None, self.source, self.needs, self.halves, parts)


def check_dimensions(count: int, subject: str = "onnx", what: str = "a tensor") -> None:
    """Refuse more dimensions than a tensor may have, before anything is computed of its sizes."""
    if count > NUMPY_DIMENSIONS:
        rule = f"{what} must have at most {NUMPY_DIMENSIONS} dimensions, NumPy's most"
        raise NowhereError(subject, Fault(field="shape", rule=rule, value=count, found=str(count)))
