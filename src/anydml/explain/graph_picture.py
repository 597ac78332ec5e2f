"""A picture of a graph as frozen data: its nodes, and the passes over memory that they became."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anydml.core.errors import UnsupportedError
from anydml.core.late_imports import import_alone
from anydml.core.memory import word_bytes
from anydml.explain.graph_words import word_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.core.enums import DataType
    from anydml.graph.recipe import StoreKind


_MOST_NUMBERS = 6
"""Of the passes that a node became, as many as are told one by one."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """The contents of a store."""

    name: str
    kind: StoreKind
    data_type: DataType
    sizes: tuple[int, ...]
    size_in_bytes: int


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over memory."""

    nodes: tuple[str, ...]
    """Whose work it does."""
    does: str
    """The same in words."""
    reads: tuple[str, ...]
    """The stores that it reads."""
    writes: tuple[str, ...]
    """The stores that it writes."""
    bytes_moved: int
    operator: str = ""
    """That of the node, where it is a node's own pass; a pass may also be a copy of a node's result."""


@dataclass(frozen=True, slots=True)
class Became:
    """The fate of a node's pass."""

    passes: tuple[int, ...] = ()
    """The numbers of the passes after that do its work, from 0."""
    is_once: bool = False
    """Whether some of it is done when the graph is compiled."""

    def __str__(self) -> str:
        several = "es" if len(self.passes) > 1 else ""
        numbers = ", ".join(str(n + 1) for n in self.passes[:_MOST_NUMBERS])
        more = f" and {len(self.passes) - _MOST_NUMBERS} more" if len(self.passes) > _MOST_NUMBERS else ""
        told = f"pass{several} {numbers}{more}" if self.passes else ""
        once = "computed once" if self.is_once else ""
        return " and ".join(filter(None, (once, told))) or "not needed"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class GraphPicture:
    """A graph before and after it was compiled.

    `print(picture)` writes it; `.svg()` and `.html()` draw it, and a notebook shows it by itself.
    """

    before: tuple[Pass, ...]
    """A pass for each node, or several that write parts of its result."""
    after: tuple[Pass, ...]
    """The passes of a dispatch."""
    once: tuple[Pass, ...]
    """The passes that are made when the graph is compiled."""
    became: tuple[Became, ...]
    """The fate of each pass before."""
    tensors: Mapping[str, Tensor]
    """By store."""
    arena_bytes: int
    """The scratch memory of a dispatch."""
    notes: tuple[str, ...] = ()
    title: str = ""
    did: Mapping[str, str] = field(default_factory=dict)
    """By the names of graph passes, what each did: `disable_passes=` leaves one out."""
    parts: tuple[GraphPicture, ...] = ()
    """Of a model that is several graphs, each of them, and what runs between them, in order."""
    made_of: int | None = None
    """How many nodes of an ONNX model became these operators; None for a graph of operators."""

    @property
    def bytes_before(self) -> int:
        """The bytes that the nodes move one by one."""
        return sum(one.bytes_moved for one in self.before)

    @property
    def bytes_after(self) -> int:
        """The bytes that a dispatch moves."""
        return sum(one.bytes_moved for one in self.after)

    @property
    def summary(self) -> str:
        """The whole in one line."""
        count = len({node for one in self.before for node in one.nodes})
        passes, saved = len(self.before) - len(self.after), self.bytes_before - self.bytes_after
        told = word_count(count, "operator")
        if self.made_of is not None:
            told = f"{word_count(self.made_of, 'node')} {'is' if self.made_of == 1 else 'are'} {told}"
        told = f"{told}: one by one {_moving(self.before)}, compiled {_moving(self.after)}"
        less = [word_count(passes, "pass")] if passes > 0 else []
        less += [f"{word_bytes(saved)} ({100 * saved // self.bytes_before}%)"] if saved > 0 else []
        more = [word_count(-passes, "pass")] if passes < 0 else []
        more += [word_bytes(-saved)] if saved < 0 else []
        changes = [f"{' and '.join(parts)} {word}" for parts, word in ((less, "less"), (more, "more")) if parts]
        return f"{told}: {', '.join(changes)}" if changes else told

    @property
    def rewritten(self) -> str:
        """The graph passes' work in one line; empty where they did nothing."""
        told = "; ".join(f"{name}: {did}" for name, did in self.did.items())
        return f"Rewritten by {told}." if told else ""

    def text(self) -> str:
        """Two tables for a terminal, without colour."""
        import_alone("anydml.explain.graph_text")
        from anydml.explain.graph_text import plain

        return plain(self)

    def svg(self) -> str:
        """The graph as a standalone SVG document, light or dark as its reader's system is. It needs igraph."""
        import_alone("anydml.explain.graph_svg")
        from anydml.explain.graph_svg import draw

        return draw(self)

    def html(self) -> str:
        """The drawing and the tables as a page of their own."""
        import_alone("anydml.explain.graph_svg")
        from anydml.explain.graph_svg import page

        return page(self)

    def _repr_svg_(self) -> str | None:
        """The drawing in a notebook; none where igraph is not installed, of which the tables tell."""
        try:
            return self.svg()
        except UnsupportedError:
            return None

    def _repr_html_(self) -> str:
        """The drawing and the tables in a notebook."""
        import_alone("anydml.explain.graph_svg")
        from anydml.explain.graph_svg import fragment

        return fragment(self)

    def __str__(self) -> str:
        return self.text()


def _moving(passes: Sequence[Pass]) -> str:
    size = word_bytes(sum(one.bytes_moved for one in passes))
    return f"{word_count(len(passes), 'pass')} that move{'s' if len(passes) == 1 else ''} {size}"


def group_passes(passes: Sequence[Pass]) -> list[list[int]]:
    """The numbers of the passes that a node is made of, node by node; one that copies a result stands alone."""
    groups: list[list[int]] = []
    homes: dict[tuple[str, ...], list[int]] = {}
    written: dict[tuple[str, ...], set[str]] = {}
    for number, one in enumerate(passes):
        results = written.setdefault(one.nodes, set())
        is_copy = one.does.startswith("copy ") and not results.isdisjoint(one.reads)
        if one.nodes in homes and not is_copy:
            homes[one.nodes].append(number)
        else:
            groups.append([number])
            homes.setdefault(one.nodes, groups[-1])
        # What a node keeps between its own passes, which is named for it, is no result.
        results.update(store for store in one.writes if not store.startswith(f"{one.nodes[0]}'s "))
    return groups


def label_stores(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The name of each store in words, with its kind where one of another kind has that name."""
    kinds: dict[str, set[StoreKind]] = {}
    for tensor in tensors.values():
        kinds.setdefault(tensor.name, set()).add(tensor.kind)
    return {store: f"{one.kind} {one.name}" if len(kinds[one.name]) > 1 else one.name for store, one in tensors.items()}
