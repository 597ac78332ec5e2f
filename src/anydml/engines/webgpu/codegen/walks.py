"""Walks over views as kernels take them: coordinates from a running number, and where each view's element lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.engines.common.tiles import leaves_of
from anydml.engines.webgpu.codegen.wgsl import sum_of
from anydml.ir.legalise import Types
from anydml.ir.loops import Loops
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.engines.webgpu.codegen.wgsl import Body
    from anydml.ir.expressions import Expr
    from anydml.ir.legalise import Legal
    from anydml.ir.views import View

TYPES = Types()
"""Kernels compute with FLOAT32, INT32 and UINT32, which every device has."""
F32, I32, U32 = DataType.FLOAT32, DataType.INT32, DataType.UINT32
COMPUTED = (F32, I32, U32)
"""Those."""


@dataclass(frozen=True, slots=True)
class Leaves:
    """What the trees of a legal verb take of each element, with what it writes: the rows of a walk."""

    loads: tuple[Expr, ...]
    coordinates: tuple[Expr, ...]
    views: tuple[View, ...]
    """Of the loads."""
    targets: tuple[View, ...]
    values: tuple[Expr, ...]
    """Everything that is computed: what is written, and of insertions the word, the mask and the value."""

    @classmethod
    def of(cls, legal: Legal) -> Leaves:
        """Of a verb in types that a device has."""
        inserted = [part for one in legal.insertions for part in (one.word, one.mask, one.value)]
        values = (*(write.value for write in legal.writes), *inserted)
        loads, coordinates, _ = leaves_of(*values)
        views = tuple(legal.sources[int(node.value)] for node in loads)
        targets = tuple(write.target for write in legal.writes)
        return cls(tuple(loads), tuple(coordinates), views, targets, values)

    def loops(self, sizes: Sequence[int], targets: Sequence[Sequence[int]]) -> Loops:
        """All of them walked together: loads, coordinates as views of their own numbers, and targets by strides."""
        counted = [tuple(int(k == node.value) for k in range(len(sizes))) for node in self.coordinates]
        strides = (*(view.strides for view in self.views), *counted, *map(tuple, targets))
        offsets = (*(v.offset for v in self.views), *(0 for _ in counted), *(v.offset for v in self.targets))
        return Loops(tuple(sizes), strides, offsets)


def take_apart(body: Body, number: str, loops: Loops, prefix: str) -> list[str]:
    """Lines that make coordinates of a running number, the innermost dimension first; their names, outermost first."""
    names: list[str] = []
    rank, left = len(loops.sizes), number
    for k in reversed(range(rank)):
        name = f"{prefix}{k}"
        if not k:
            body.say(f"let {name} = {left};")
        else:
            size = body.number(loops.sizes[k], (prefix, "size", k))
            body.say(f"let {prefix}q{k} = {left} / {size};", f"let {name} = {left} - {prefix}q{k} * {size};")
            left = f"{prefix}q{k}"
        names.append(name)
    return names[::-1]


def places(
    body: Body, loops: Loops, names: Sequence[str], prefix: str, first: Sequence[str] | None = None
) -> list[str]:
    """For each view the text of where its element lies; `first` takes the place of the offsets."""
    found = []
    for view, row in enumerate(loops.strides):
        strides = [body.number(step, (prefix, view, k) if step not in (0, 1) else None) for k, step in enumerate(row)]
        offset = loops.offsets[view]
        start = first[view] if first is not None else body.number(offset, (prefix, view) if offset else None)
        found.append(sum_of(start, names, strides))
    return found


def compute(
    body: Body, values: Sequence[Expr], texts: Mapping[Expr, str], sources: Sequence[View], stops: Sequence[Expr] = ()
) -> None:
    """Lines for trees, given the text of where each load lies and of each coordinate; stops have names already."""
    for node in walk(*values, known=(*stops, *body.names)):
        if node in body.names:
            continue
        if node.op == "load":
            body.put(node, body.load(sources[int(node.value)], texts[node], _typed(node)))
        elif node.op == "fetch":
            body.put(node, _fetched(body, node, sources[int(node.value)]))
        elif node.op == "coordinate":
            body.put(node, f"i32({texts[node]})")
        elif node.op == "given":
            body.given(node)
        else:
            body.operate(node)


def _typed(node: Expr) -> DataType:
    assert node.type is not None  # noqa: S101 - for type checkers: what is read is a number
    return node.type


def _fetched(body: Body, node: Expr, view: View) -> str:
    """The element at computed indices, which lie inside."""
    indices = [f"u32({body.names[index]})" for index in node.args]
    name = f"{view.tensor} at {node.value}"
    strides = [body.number(step, (name, k) if step not in (0, 1) else None) for k, step in enumerate(view.strides)]
    first = body.number(view.offset, (name,) if view.offset else None)
    return body.load(view, sum_of(first, indices, strides), _typed(node))
