"""What a picture needs to know of a primitive, told coordinate by coordinate."""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anydml.explain.picture import Element
from anydml.explain.values import coordinate_of
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.explain.picture import Coordinate
    from anydml.operators import OperatorDesc
    from anydml.primitives import Primitive, View

MOST_SENTENCES = 6
HUES = 6


@dataclass(frozen=True, slots=True)
class Landing:
    """What one output element is made of."""

    value: str
    says: str
    sources: tuple[Element, ...] = ()
    """In the order in which they are taken."""
    chosen_by: tuple[Element, ...] = ()
    badge: str = ""
    hue: int = 0
    is_fault: bool = False


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
    """What a source does to an output element."""

    @abc.abstractmethod
    def landing(self, coordinate: Coordinate) -> Landing:
        """Where an output element comes from."""

    @abc.abstractmethod
    def sentences(self, landings: Mapping[Coordinate, Landing]) -> list[str]:
        """The arithmetic, for the output elements that are drawn."""

    def notes(self) -> Iterator[str]:
        """What is worth knowing beyond the elements that are drawn."""
        yield from ()


def lower_packed(desc: OperatorDesc) -> Primitive:
    """Lower a description as if its tensors had no gaps: where an element lies is then its number."""
    names = (*desc.input_names(), *desc.output_names())
    packed = {name: TensorDesc(getattr(desc, name).data_type, getattr(desc, name).sizes) for name in names}
    return replace(desc, **packed).lower()[0]  # type: ignore[type-var]  # every subclass is a dataclass


def element_at(view: View, coordinate: Sequence[int], sizes: Sequence[int]) -> Element:
    """The element of a packed tensor of these sizes that a view has at a coordinate."""
    place = view.offset + sum(c * stride for c, stride in zip(coordinate, view.strides, strict=True))
    return Element(view.tensor, coordinate_of(place, sizes))


def first_few(sentences: Sequence[str], count: int, what: str) -> list[str]:
    """As many as can be read, and how many there are beside them."""
    shown = list(sentences[:MOST_SENTENCES])
    return [*shown, f"… and {count - len(shown)} more {what}"] if count > len(shown) else shown
