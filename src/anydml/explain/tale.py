"""The facts of a primitive that a picture shows, coordinate by coordinate."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.tensor import TensorDesc
from anydml.explain.formula import is_readable
from anydml.explain.picture import Element, spoken
from anydml.explain.values import CountedValues, coordinate_of, write_value
from anydml.explain.view_words import word_verb
from anydml.runtime.device import Device

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.explain.picture import Coordinate
    from anydml.explain.values import Values
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View
    from anydml.operators import OperatorDesc


MOST_SENTENCES = 6
HUES = 6


@dataclass(frozen=True, slots=True)
class Landing:
    """The sources of one output element."""

    value: str
    says: str
    sources: tuple[Element, ...] = ()
    """In the order in which they are taken."""
    chosen_by: tuple[Element, ...] = ()
    badge: str = ""
    hue: int = 0
    is_fault: bool = False
    is_cut: bool = False
    """Whether there may be more sources than are told: nothing is said of the others then."""
    compared: tuple[Element, ...] = ()
    marks_chosen: bool = True
    """Whether what decides has the badge and the hue too."""
    marked: Element | None = None
    """The only element of the inputs that has them, where it is not all of these."""


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a tensor that an operator considers."""

    tensor: str
    start: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def end(self) -> tuple[int, ...]:
        """The last coordinate in it."""
        return tuple(s + size - 1 for s, size in zip(self.start, self.sizes, strict=True))


class Tale(abc.ABC):
    """The story of one primitive. Another operator that lowers to the same primitive is told by the same tale."""

    axis: int | None = None
    """The dimension of the output that is walked along, where order matters."""
    reverse: bool = False
    summary: str
    legend: tuple[tuple[str, str], ...] = ()
    window: Window | None = None
    verb: str = "lands in"
    """The effect of a source on an output element."""
    decides: str = "decides"
    """The effect of what an output element is decided by."""

    marks: Mapping[int, Sequence[int]] = MappingProxyType({})
    """For some dimensions of the output, the places along them that are to be seen first."""

    @abc.abstractmethod
    def __init__(self, desc: OperatorDesc, primitive: Any, values: Mapping[str, Values]) -> None:
        """Of the description's primitive, or where there are several of all of them."""

    @classmethod
    def frames(cls, desc: OperatorDesc, primitive: Any) -> dict[str, tuple[int, ...]]:  # noqa: ARG003 - for some tales
        """The dimensions in which the coordinates of each tensor are told."""
        return {name: tensor.sizes for name, tensor in desc.tensors().items()}

    @classmethod
    def made_up(cls, desc: OperatorDesc, primitive: Any, field: str, tensor: TensorDesc, before: int) -> Values:  # noqa: ARG003 - for some tales
        """Values for an input that none are given for: such that something is to be seen.

        The elements of several tensors of one field are numbered on: `before` of them come earlier.
        """
        return CountedValues(tensor, before)

    @abc.abstractmethod
    def landing(self, element: Element) -> Landing:
        """Where an output element comes from."""

    @abc.abstractmethod
    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """The arithmetic, for the output elements that are drawn."""

    def notes(self) -> Iterator[str]:
        """Remarks beyond the elements that are drawn."""
        yield from ()


_AS_FORMULAS = str.maketrans({"·": " * ", "²": " ** 2"})
"""As formulas have them; on a terminal of ASCII alone these are marks of elements."""


def computing(desc: OperatorDesc, count: int, told: str) -> str:
    """A summary: so many elements, by a formula, or where that is past reading by what the operator says of itself."""
    if not told or not is_readable(told):
        told = type(desc).own_words().partition("\n")[0].rstrip(".").translate(_AS_FORMULAS)
        told = told[:1].lower() + told[1:] if told[1:2].islower() or told[1:2] == " " else told
    return f"computes {count} element{'' if count == 1 else 's'}: {told}"


def chained(texts: Sequence[str]) -> str:
    """An element, what it is in names and in numbers, and its value; nothing twice, and no formula past reading."""
    kept = [text for k, text in enumerate(texts) if k in (0, len(texts) - 1) or (text and is_readable(text))]
    return " = ".join(text for k, text in enumerate(kept) if text != kept[k - 1])


def lower_packed(desc: OperatorDesc) -> tuple[Primitive, ...]:
    """Lower a description as if its tensors had no gaps: where an element lies is then its number."""
    return desc.with_tensors(lambda _, tensor: TensorDesc(tensor.data_type, tensor.sizes)).told()


def element_at(view: View, coordinate: Sequence[int], sizes: Sequence[int]) -> Element:
    """The element of a packed tensor of these sizes that a view has at a coordinate."""
    place = view.offset + sum(c * stride for c, stride in zip(coordinate, view.strides, strict=True))
    return Element(view.tensor, coordinate_of(place, sizes))


def place_in(view: View, number: int) -> Coordinate:
    """Where a view of a whole packed tensor, its dimensions in any order, has the element of a number.

    In a dimension along which it repeats its elements that is the first place.
    """
    found = [0] * len(view.sizes)
    for k in sorted(range(len(found)), key=lambda k: -view.strides[k]):
        if view.strides[k]:
            found[k], number = divmod(number, view.strides[k])
    return tuple(found)


def first_few(sentences: Sequence[str], count: int, what: str) -> list[str]:
    """As many as can be read, and how many there are beside them."""
    shown = list(sentences[:MOST_SENTENCES])
    return [*shown, f"… and {count - len(shown)} more {what}"] if count > len(shown) else shown


def wrapped(value: Any, exact: int) -> str:
    """Say that an integer type did not hold a number, and kept its last bits."""
    return "" if isinstance(value, np.floating) or exact == int(value) else f", wrapped to {8 * value.itemsize} bits"


# A verb that has no tale of its own: what the reference engine computes from whole tensors


_MOST_READ = 100_000
"""Elements that a picture reads: some tenths of a second."""


class GenericTale(Tale):
    """Each element's value, and the tensors that it comes from."""

    def __init__(self, desc: OperatorDesc, primitive: Any, values: Mapping[str, Values]) -> None:
        steps = primitive if isinstance(primitive, tuple) else (primitive,)
        read = ", ".join(dict.fromkeys(spoken(view.tensor) for step in steps for view in step.sources))
        self._how = f"{', '.join(dict.fromkeys(map(word_verb, steps)))} of {read}"
        self._count = sum(math.prod(tensor.sizes) for tensor in desc.outputs().values())
        self.summary = f"computes {self._count} element{'' if self._count == 1 else 's'}: {self._how}"
        self._found = compute_whole(desc, values)

    def landing(self, element: Element) -> Landing:
        """One element; a tensor that is too large for a picture to compute has none."""
        found = self._found.get(element.tensor)
        value = "…" if found is None else write_value(found[element.coordinate])
        return Landing(value, f"{element} = {self._how} = {value}", is_cut=True)

    def sentences(self, landings: Mapping[Element, Landing]) -> list[str]:
        """The first elements."""
        return first_few([landing.says for landing in landings.values()], self._count, "elements")


def compute_whole(desc: OperatorDesc, values: Mapping[str, Values]) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs by the reference engine, packed; none where tensors are too large for a picture to compute."""
    if sum(math.prod(tensor.sizes) for tensor in desc.tensors().values()) > _MOST_READ:
        return {}
    packed = desc.with_tensors(lambda _, tensor: TensorDesc(tensor.data_type, tensor.sizes))
    given = [_array(values[name], tensor) for name, tensor in packed.inputs().items()]
    found = Device("reference").compile(packed)(*given)
    return dict(zip(packed.outputs(), found if isinstance(found, tuple) else (found,), strict=True))


def _array(values: Values, tensor: TensorDesc) -> np.ndarray[Any, Any]:
    found = [values.at(at) for at in np.ndindex(*tensor.sizes)]
    return np.array(found, tensor.data_type.dtype).reshape(tensor.sizes)
