"""An engine, as the runtime sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.enums import DataType
    from anydml.ir.verbs import Map, Primitive, Reduce
    from anydml.memory import Buffer


class Turning(NamedTuple):
    """How an engine would have pictures lie with the channels of a place side by side."""

    needs_constants: bool
    """Whether by constant weights alone."""
    crowded: int = 0
    """Bytes: places so far apart, or multiples of it, share lines of a cache, and lie further apart; 0 for none."""
    has_results: bool = False
    """Whether those that no convolution reads lie so too, where one writes them that reads such."""
    needs_both: bool = False
    """Whether convolutions that write others read such no faster."""


class Route(NamedTuple):
    """A row of an engine's decision table: the first route that takes a verb carries it out."""

    name: str
    plan: Callable[..., Program | None]
    """The program; None where the condition does not hold."""
    when: str
    """The condition, in words."""


class Program(Protocol):
    """A primitive made ready to run."""

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Attach each tensor to its memory, given by the address of its first element. The result dispatches.

        What is bound was checked before, and whoever binds keeps it alive. A dispatch validates nothing but the
        values of indices, which it does before it writes.
        """


def layouts_of(program: Program) -> Mapping[str, Map | Reduce]:
    """Layouts that a program wants ahead: by a name of its own, the verb of one constant that writes it, packed.

    When it is bound, the name has its place. What its layouts are of, it reads no more itself.
    """
    found: Mapping[str, Map | Reduce] = getattr(program, "layouts", {})  # which few programs have
    return found


def direct_of(program: Program, tensors: Sequence[str]) -> Callable[..., Any] | None:
    """A function that runs a program on NumPy's host arrays, one for each tensor in order; None where it must be bound.

    They were checked before, as those that are bound are.
    """
    make = getattr(program, "direct", None)  # which few programs have
    return None if make is None else make(tensors)


def series_of(
    engine: Engine, bind: Callable[[Sequence[int]], Sequence[Callable[[], Any]]], count: int
) -> Callable[..., Any] | None:
    """A function of so many of NumPy's host arrays, which runs what `bind` gives for their addresses.

    It gives None; something else where a step would raise an error, which a binding does. None where an engine has no
    such function for what it is to run.
    """
    make = getattr(engine, "series", None)  # which few engines have
    return None if make is None else make(bind, count)


class Plans(Protocol):
    """Where an engine keeps plans on disk, by a key that is a word."""

    def read(self, key: str) -> bytes | None:
        """The kept bytes; None where there are none, or other code wrote them."""

    def can_write(self) -> bool:
        """Whether there is a place for plans."""

    def write(self, key: str, data: bytes) -> None:
        """Keep something, where that can be."""

    def dump(self, found: object, name: Callable[[Any], Any]) -> bytes:
        """Programs, and what holds them, as bytes; what `name` gives another name than None has that in its place."""

    def load(self, data: bytes, find: Callable[[Any], Any]) -> Any:
        """The object that was dumped; `find` gives named parts. Any error says that it cannot be had."""


def plans_of(engine: Engine) -> Plans | None:
    """Where an engine keeps plans; None for one that keeps none."""
    found: Plans | None = getattr(engine, "plans", None)  # which few engines have
    return found


def replayed(engine: Engine, launch: Callable[[], Any]) -> Callable[[], Any]:
    """A row of launches that is run again and again, in a quicker way where an engine has one.

    None of them may have the host look at what is computed.
    """
    make: Callable[[Callable[[], Any]], Callable[[], Any]] | None = getattr(engine, "replayed", None)
    return launch if make is None else make(launch)


def join(engine: Engine, primitives: Sequence[Primitive], constants: frozenset[str]) -> Program | None:
    """An operator's primitives as one program, which writes the last one's target alone; None where there is none.

    The other tensors that they write are read by nobody else, and what they read is not written meanwhile.
    """
    joined: Callable[..., Program | None] | None = getattr(engine, "join", None)  # which few engines have
    return joined(primitives, constants) if joined is not None and len(primitives) > 1 else None


def route_of(engine: Engine, primitives: Sequence[Primitive], constants: frozenset[str]) -> Route:
    """The row of an engine's decision table that carries verbs out, as one program where there are several."""
    find: Callable[..., Route] | None = getattr(engine, "route", None)  # which those have that choose
    return GENERIC if find is None else find(primitives, constants)


GENERIC = Route("reference", lambda *_: None, "any verb: NumPy, over all of it at once")
"""The only route of an engine that has no others, and the last one of those that have."""
REPEATED = Route(
    "loop", lambda *_: None, "verbs that are repeated: each by its own route, in one call where there is one"
)
"""The route of a Repeat."""


class Engine(Protocol):
    """An implementation of the primitives."""

    name: str
    memory: str
    """Where the tensors lie that it works on: `cpu`, `cuda:0`."""
    reads_weights: Mapping[tuple[DataType, int], int]
    """By the type of rows and the bits of a weight, how many rows are multiplied with weights as they lie; those that
    were rounded to 8 bits are INT8, or as others without it."""
    unpacks_weights: bool
    """Whether more rows are multiplied with such weights as well, which are dequantised as they are read."""
    reads_outside: bool
    """Whether windows past a tensor's ends are quicker to read than a tensor with room around it is to write."""
    looks_up_bytes: bool
    """Whether a byte is looked up in a table in less time than most of what is computed of it takes."""
    chooses_layouts: bool
    """Whether what passes between products and attention lies best as those like it."""
    turns_channels: Mapping[DataType, Turning]
    """By the type of pictures whose channels convolutions read best side by side: how."""

    def takes(self, primitive: Primitive) -> bool:
        """Whether it has a way for a primitive that can be spelled out; others it takes anyway."""

    def compile(self, primitive: Primitive, constants: frozenset[str] = frozenset()) -> Program:
        """Plan a primitive and pick its kernels; the bytes of tensors that are constants never change."""

    def reserve(self, size: int) -> Buffer:
        """Bytes of that memory, which their owner keeps; what they hold is not said."""
