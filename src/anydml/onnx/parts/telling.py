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
    from collections.abc import Iterator

    from anydml.onnx.parts.part import Part
    from anydml.onnx.parts.whole import Parts
    from anydml.runtime.graph import CompiledGraph

_MOST_NAMED = 8
"""Nodes of a host part that are named."""


def picture_of(parts: Parts, title: str, within: str = "") -> GraphPicture:
    """Each part in order: the passes of a segment, and in words what else runs, with the parts of its bodies."""
    several = list(parts)
    found = []
    for i, part in enumerate(several, 1):
        head = f"{within}part {i} of {len(several)}"
        name = f"{head}: {_told(part)}"
        if isinstance(part, Segment):
            found.append(_passes(part, name))
        else:
            bodies = part.bodies.items() if isinstance(part, Flow) else ()
            inner = tuple(picture_of(body, f"{head}, {own}", f"{head}, {own}, ") for own, body in bodies)
            found.append(GraphPicture((), (), (), (), {}, 0, (), name, parts=inner))
    return GraphPicture((), (), (), (), {}, 0, (), title, parts=tuple(found))


def graphs_of(parts: Parts) -> Iterator[CompiledGraph]:
    """The graphs that segments compiled last, those of bodies included, in order."""
    for part in parts:
        if isinstance(part, Segment) and (compiled := _last(part)) is not None:
            yield compiled
        for body in part.bodies.values() if isinstance(part, Flow) else ():
            yield from graphs_of(body)


def _last(segment: Segment) -> CompiledGraph | None:
    return next((p.compiled for p in reversed(segment.programs) if p.compiled is not None), None)


def _passes(segment: Segment, title: str) -> GraphPicture:
    """The passes of the program that a segment compiled last."""
    if (compiled := _last(segment)) is not None:
        return replace(compiled.explain(), title=title)
    return GraphPicture((), (), (), (), {}, 0, ("not compiled yet",) * (not segment.programs), title)


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
