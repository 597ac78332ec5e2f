"""A model's parts in words: which nodes each runs, where, and what passes between them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.errors import printable
from anydml.explain import GraphPicture
from anydml.memory import word_bytes
from anydml.onnx.nodes import label_of
from anydml.onnx.parts.flow import Flow
from anydml.onnx.parts.host import HostPart
from anydml.onnx.parts.segment import Segment

if TYPE_CHECKING:
    from anydml.onnx.parts.part import Part
    from anydml.onnx.parts.whole import Parts

_MOST_NAMED = 8
"""Nodes of a host part that are named."""


def picture_of(parts: Parts, title: str) -> GraphPicture:
    """The passes of the segment with the most nodes, and a note of each part."""
    several = list(parts)
    notes = tuple(f"part {i} of {len(several)}: {_told(part)}" for i, part in enumerate(several, 1))
    segments = [part for part in several if isinstance(part, Segment)]
    for segment in sorted(segments, key=lambda part: -len(part.nodes)):
        compiled = next((p.compiled for p in reversed(segment.programs) if p.compiled is not None), None)
        if compiled is not None:
            found = compiled.explain()
            shown = f"{title}, part {several.index(segment) + 1} of {len(several)}"
            return replace(found, notes=(*notes, *found.notes), title=shown)
    return GraphPicture((), (), (), (), {}, 0, notes, title)


def _told(part: Part) -> str:
    passed = f"reads {_names(part.takes)}, makes {_names(part.gives)}"
    if isinstance(part, Segment):
        return f"{_count(len(part.nodes))} compiled, {passed}"
    if isinstance(part, HostPart):
        labels = [label_of(node) for node in part.nodes[:_MOST_NAMED]]
        more = f" and {len(part.nodes) - len(labels)} more" if len(part.nodes) > len(labels) else ""
        by = f" by {part.by}" if part.by else ""
        cost = f", {word_bytes(part.copied)} to and from the host at the last run" if part.by else ""
        return f"on the host{by}: {', '.join(labels)}{more}; {passed}{cost}"
    if isinstance(part, Flow):
        return f"{label_of(part.nodes[0])}, {part.told}; {passed}"
    return f"{type(part).__name__}, {passed}"


def _count(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(repr(printable(name)) for name in names[:_MOST_NAMED])
    return (f"{shown} and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else shown) or "nothing"
