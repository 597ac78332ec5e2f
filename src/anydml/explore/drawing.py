"""A model's graph as data for the page: nodes, what links them, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anydml.core.errors import printable
from anydml.explore.scene import Scenes

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    category: str = ""

    def as_data(self) -> dict[str, Any]:
        """The node for a page, without what is empty."""
        data = {
            "kind": tell(self.kind),
            "name": tell(self.name),
            "end": self.end,
            "category": self.category,
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

    scenes: Scenes | None = None
    """Its drawings, once somebody asked for one."""

    def drawn(self, opened: Iterable[int]) -> dict[str, Any]:
        """Where its boxes stand while some groups are open."""
        return self._scenes().draw(opened)

    def as_data(self, *, is_alone: bool = False) -> dict[str, Any]:
        """The graph for a page, laid out; for one that cannot ask, folded and unfolded."""
        scenes = self._scenes()
        data = {
            "title": tell(self.title),
            "around": self.around,
            "nodes": [node.as_data() for node in self.nodes],
            "links": [list(link) for link in scenes.links],
            "types": {tell(name): told for name, told in self.types.items()},
            "groups": scenes.told(),
            "scene": scenes.draw(scenes.first),
        }
        if is_alone and scenes.groups:
            data["others"] = [scenes.draw(opened) for opened in ((), range(len(scenes.groups)))]
        return data

    def _scenes(self) -> Scenes:
        if self.scenes is None:
            self.scenes = Scenes(self)
        return self.scenes


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
