"""A model's graph as data for the page: nodes, what links them, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from anydml.core.errors import printable
from anydml.explain.layered import lay_out

HEIGHT, ROW = 46, 84
"""Of a box, and from one row to the next, in pixels."""
_GAP, _LANE, _MOST_IN_ROW = 22, 9, 24
_LEAST_WIDTH, _MOST_WIDTH = 84, 260
_KIND_LETTER, _LARGER, _NAME_LETTER, _MARGIN = 8.4, 1.8, 6.6, 24
_LONGEST, _MOST_SLOTS = 300, 200
"""Letters of a name, and inputs or outputs of a node, that the page is told."""


@dataclass(slots=True)
class Slot:
    """An input or an output of a node."""

    name: str
    """Its name in the operator."""
    tensor: str
    is_weight: bool = False
    """Whether the model gives its values."""


@dataclass(slots=True)
class GraphNode:
    """A node, or an input or an output of the graph."""

    kind: str
    name: str
    inputs: list[Slot] = field(default_factory=list)
    outputs: list[Slot] = field(default_factory=list)
    end: str = ""
    """`input` or `output`, for one of the graph itself."""
    attributes: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[tuple[str, int]] = field(default_factory=list)
    """The graphs within it, by name and number."""
    label: str = ""
    """Its name in errors."""
    shown: str = ""
    """Its name in a compiled graph."""

    def as_data(self) -> dict[str, Any]:
        """The node for a page, without what is empty."""
        data = {
            "kind": tell(self.kind),
            "name": tell(self.name),
            "end": self.end,
            "in": _slots(self.inputs),
            "out": _slots(self.outputs),
            "attributes": [[tell(name), tell(value)] for name, value in self.attributes],
            "bodies": [[tell(name), number] for name, number in self.bodies],
        }
        return {key: value for key, value in data.items() if value}


@dataclass(slots=True)
class ModelGraph:
    """A graph of a model: the model's own, a body of a node, or a function."""

    title: str
    nodes: list[GraphNode] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    """By tensor, its type and shape in words."""
    around: int | None = None
    """The number of the graph that it lies within."""

    def as_data(self) -> dict[str, Any]:
        """The graph for a page, laid out."""
        links = _links(self.nodes)
        widths = [_width(node) for node in self.nodes]
        found = lay_out(widths, links, gap=_GAP, lane=_LANE, most_in_row=_MOST_IN_ROW)
        nodes = [
            {**node.as_data(), "x": round(x - width / 2, 1), "y": row * ROW, "w": width}
            for node, x, row, width in zip(self.nodes, found.middles, found.rows, widths, strict=True)
        ]
        edges = [
            [source, target, [[one.first, one.last, round(one.x, 1)] for one in path]]
            for (source, target), path in zip(links, found.paths, strict=True)
        ]
        return {
            "title": tell(self.title),
            "around": self.around,
            "nodes": nodes,
            "edges": edges,
            "types": {tell(name): told for name, told in self.types.items()},
            "width": round(found.width, 1),
            "height": max(found.row_count * ROW - ROW + HEIGHT, 0),
            "row": ROW,
            "box": HEIGHT,
        }


def tell(text: str, longest: int = _LONGEST) -> str:
    """A stranger's text on one line, and not long."""
    text = printable(text[: longest + 1])
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _slots(several: list[Slot]) -> list[list[Any]]:
    found: list[list[Any]] = [
        [tell(slot.name), tell(slot.tensor), *([1] if slot.is_weight else [])] for slot in several[:_MOST_SLOTS]
    ]
    if len(several) > _MOST_SLOTS:
        found.append([f"and {len(several) - _MOST_SLOTS} more", ""])
    return found


def _width(node: GraphNode) -> int:
    kind = len(node.kind) * _KIND_LETTER + sum(letter.isupper() for letter in node.kind) * _LARGER
    letters = max(kind, min(len(node.name), 30) * _NAME_LETTER)
    return round(min(max(letters + _MARGIN, _LEAST_WIDTH), _MOST_WIDTH))


def _links(nodes: list[GraphNode]) -> list[tuple[int, int]]:
    """From where a tensor is made to where it is read; of several that make one, the last before the reader."""
    made: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for slot in node.outputs:
            made.setdefault(slot.tensor, number)
    links: dict[tuple[int, int], None] = {}
    for number, node in enumerate(nodes):
        for slot in node.inputs:
            if slot.tensor in made and made[slot.tensor] != number:
                links[made[slot.tensor], number] = None
        for slot in node.outputs:
            made[slot.tensor] = number  # a resource may be written again
    return list(links)
