"""An engine, as the graph's passes and the runtime see it: its traits, and the methods that it may have ways of its own
for. One that is new writes `compile` and `reserve`; every other answer has a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from anydml.engines.common.routes import GENERIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.core.enums import DataType
    from anydml.core.memory import Buffer
    from anydml.engines.common.program import OpenSeries, Place, Program
    from anydml.engines.common.routes import Route
    from anydml.ir.verbs import Primitive


@dataclass(frozen=True, slots=True)
class NhwcLayout:
    """When images between passes are stored channels last, for convolutions that read them fastest so."""

    needs_constant_weights: bool = False
    """Whether convolutions by constant weights alone read NHWC."""
    conflict_bytes: int = 0
    """Pixels at multiples of so many bytes share cache sets, and are padded apart; 0 where none do."""
    includes_outputs: bool = False
    """Whether a convolution that reads NHWC writes it too where no convolution reads the result."""
    needs_both_sides: bool = False
    """Whether a convolution reads a copy in NHWC no faster unless it writes NHWC too."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What graph passes ask of an engine; the defaults are those of one without kernels of its own for any of it."""

    alignment: int = 1
    """Bytes: where programs are bound to begins at multiples of so many."""
    weight_only_rows: Mapping[tuple[DataType, int], int] = field(default_factory=dict)
    """By the type of activations and the bits of a weight: up to how many rows (M) a product reads packed weights.
    Activations that are quantised dynamically are INT8; those of other types are the limit where it is not there."""
    weight_only_blocks: Mapping[int, int] = field(default_factory=dict)
    """By the bits of a weight the shortest blocks that those have scales for: 32 where it is not there."""
    fuses_dequantization: bool = False
    """Whether products of more rows read packed weights as well, which are dequantised as operands are packed."""
    masks_padding: bool = False
    """Whether reads outside of bounds are quicker to mask than padding is to materialise."""
    uses_lookup_tables: bool = False
    """Whether a table of 256 entries is quicker than most functions of a byte are to compute."""
    chooses_matrix_layouts: bool = False
    """Whether operands of products and attention are stored as most of those that read them want them."""
    replays_checks: bool = False
    """Whether checks of indices are replayed with what is around them, and have what they found for themselves."""
    nhwc: Mapping[DataType, NhwcLayout] = field(default_factory=dict)
    """The types of images whose convolutions read NHWC fastest, and when they are stored so."""


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


class Engine(ABC):
    """An implementation of the primitives."""

    name: str
    memory: str
    """Where the tensors lie that it works on: `cpu`, `cuda:0`."""
    traits: Traits = Traits()
    is_precise: bool = True
    """Whether its answers are as near the cpu engine's as it can: what one that is not computes is kept apart."""
    plans: Plans | None = None
    """Where plans are kept on disk; None where they are not."""
    has_open_programs: bool = False
    """Whether programs are data, whose names may be others, and whose numbers open sizes."""

    @abstractmethod
    def compile(self, primitive: Primitive, constants: frozenset[str] = frozenset()) -> Program:
        """Plan a primitive and pick its kernels; the bytes of tensors that are constants never change."""

    @abstractmethod
    def reserve(self, size: int) -> Buffer:
        """Bytes of that memory, which their owner keeps; what they hold is not said."""

    def takes(self, primitive: Primitive) -> bool:  # noqa: ARG002 - engines with ways look at it
        """Whether it has a way for a primitive that can be spelled out in others; the rest it takes anyway."""
        return False

    def route(self, primitives: Sequence[Primitive], constants: frozenset[str]) -> Route:  # noqa: ARG002 - tables look at them
        """The row of its decision table that carries verbs out, as one program where there are several."""
        return GENERIC

    def join(self, primitives: Sequence[Primitive], constants: frozenset[str]) -> Program | None:  # noqa: ARG002 - as `route`
        """An operator's several primitives as one program, which writes the last one's target alone; None for most.

        The other tensors that they write are read by nobody else, and what they read is not written meanwhile.
        """
        return None

    def split_k(self, primitive: Primitive) -> Sequence[Primitive] | None:  # noqa: ARG002 - as `takes`
        """The steps that are quicker than a reduce whose sums are long and few; None for most."""
        return None

    def replayed(self, launch: Callable[[], Any]) -> Callable[[], Any]:
        """A row of launches that is run again and again, in a quicker way where there is one.

        None of them may have the host look at what is computed.
        """
        return launch

    def series(
        self,
        programs: Sequence[Program],  # noqa: ARG002 - engines with command lists read them
        places: Sequence[Mapping[str, Place]],  # noqa: ARG002 - and these
    ) -> Callable[..., Any] | None:
        """A function of NumPy's host arrays that runs programs one after the other, given where tensors of each lie.

        It gives None; something else where a step would raise an error, which a binding does. None where there is no
        such function for what it is to run.
        """
        return None

    def open_series(
        self,
        programs: Sequence[Program],  # noqa: ARG002 - engines with open command lists read them
        places: Sequence[Mapping[str, Place]],  # noqa: ARG002 - engines with open command lists read these
    ) -> OpenSeries | None:
        """The same of programs with open sizes, for all of these."""
        return None
