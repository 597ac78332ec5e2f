"""The form that a graph takes between its description and an engine: primitives in order, over named stores."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from anydml.arrays.shared import SharedData
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View

StoreKind: TypeAlias = Literal["input", "constant", "output", "scratch"]
MOST_MARKS = 8
"""By which names are told apart; beyond, there is a number: thousands have short names too."""


@dataclass(frozen=True, slots=True)
class Store:
    """Memory that steps read and write: a view's `tensor` names it, and its offset counts from its first element."""

    kind: StoreKind
    size_in_bytes: int
    """From the first element on; a bound input may reach below it as well."""
    data: bytes | SharedData | None = field(default=None, repr=False, compare=False)
    """The value of a constant of the graph."""


@dataclass(frozen=True, slots=True)
class Step:
    """One pass over memory, and the nodes that it carries out."""

    primitive: Primitive
    nodes: tuple[str, ...]
    """Their names, in the order in which the data passes through them."""

    @property
    def sources(self) -> tuple[View, ...]:
        """The views that it reads."""
        return self.primitive.reads

    @property
    def target(self) -> View:
        """The view that it writes, or the first one; `horizontal_fusion` joins steps of one target at last."""
        return self.primitive.target

    @property
    def targets(self) -> tuple[View, ...]:
        """All that it writes."""
        return self.primitive.targets

    def reading(self, change: Callable[[View], View]) -> Step:
        """The same with other sources."""
        return replace(self, primitive=self.primitive.reading(change))

    def writing(self, target: View) -> Step:
        """The same with another target, where it has one."""
        return replace(self, primitive=self.primitive.writing(lambda _: target))

    @property
    def may_raise(self) -> bool:
        """Whether the values of indices can stop it."""
        return bool(self.primitive.checks)

    @property
    def bytes_moved(self) -> int:
        """The bytes that it reads and writes, each element once; fetched ones, as often as they are. Checks aside."""
        primitive = self.primitive
        moved = sum(math.prod(target.sizes) * target.data_type.size_in_bytes for target in self.targets)
        fetches = Counter(int(node.value) for node in walk(*primitive.values) if node.op == "fetch")
        for slot, view in enumerate(primitive.sources):
            count = fetches[slot] * math.prod(primitive.sizes) if slot in fetches else math.prod(distinct_sizes(view))
            moved += count * view.data_type.size_in_bytes
        return moved


def free_name(name: str, *taken: Collection[str]) -> str:
    """A name that nothing has: the name itself, with marks, or with a number where there are many.

    The number of marks is doubled until the name is free, and halved back: the thousandth store of a name is found in
    twenty steps.
    """

    def marked(marks: int) -> str:
        return name + ("'" * marks if marks <= MOST_MARKS else f"'{marks}")

    low, high = -1, 0
    while any(marked(high) in several for several in taken):
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        if any(marked(middle) in several for several in taken):
            low = middle
        else:
            high = middle
    return marked(high)


def distinct_sizes(view: View) -> list[int]:
    """The sizes of a view's dimensions that lead to other elements: what is repeated is read once."""
    return [size for size, stride in zip(view.sizes, view.strides, strict=True) if stride]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A graph as primitives.

    Every output and every scratch store is written before whoever reads it: by one step, or by several that write
    parts of it which do not meet, as those of a JOIN. What they leave out of their store, nobody reads. A step that
    writes an output may read it element by element, to keep part of what is there. Inputs and constants are written by
    none. No two stores share memory.
    """

    stores: Mapping[str, Store]
    steps: tuple[Step, ...]

    def shared(self) -> frozenset[str]:
        """The stores that several steps write parts of."""
        writes = Counter(target.tensor for step in self.steps for target in step.targets)
        return frozenset(name for name, count in writes.items() if count > 1)

    @property
    def bytes_moved(self) -> int:
        """By all steps together."""
        return sum(step.bytes_moved for step in self.steps)
